"""What an algorithm is given: the compressed table, and a way to measure nodes of the lattice on it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from sqlanon.engines import Engine
from sqlanon.errors import SqlanonError
from sqlanon.lattice.class_queries import ClassQueries, rows_where, with_parts
from sqlanon.lattice.loss_tables import RECODED
from sqlanon.lattice.measure_nodes import (
    cross_nodes,
    divergence_sums,
    hidden_labels,
    in_turn,
    inner_levels,
    sums,
    tuple_nats,
)
from sqlanon.lattice.model_tables import SPECIAL
from sqlanon.lattice.nodes import Measured, Node
from sqlanon.lattice.requirements import Requirement
from sqlanon.lattice.search_state import SearchState, Statement
from sqlanon.lattice.suppressed_classes import LOST, find_suppressed, judge_classes
from sqlanon.policy import Policy
from sqlanon.relations.classes import Prelude
from sqlanon.relations.compressed_rows import Domain
from sqlanon.relations.rewrite import Pass
from sqlanon.sqltree.tree import alias, bigint, bind, count_all, double, find_references, literal, sum_bigint, table

if TYPE_CHECKING:
    from sqlanon.lattice.metrics import Linear, Metric

FEW_ROWS = 100_000  # of a table, on which many statements cost more than their work
# What only the nodes of a lattice have: relations, and classes other than those of all quasi-identifiers.
OF_NODES = frozenset({"class_population", "class_guards", "own_classes"}) | SPECIAL
ALSO_SUPPRESSED = "also under record suppression"


@dataclass(frozen=True)
class Problem(ClassQueries):
    """What an algorithm is given: a table, what is required of it, and the state of the search.

    `table` says what is searched and `requirements` what is asked for; both stay as they are. `state` is what a search
    changes. Another question about the same rows is another problem: see `ask_again`.
    The names that nearly every caller reads are here too.
    """

    state: SearchState

    @property
    def policy(self) -> Policy:
        return self.table.policy

    @property
    def engine(self) -> Engine:
        return self.table.engine

    @property
    def prelude(self) -> Prelude:
        return self.table.prelude

    @property
    def domains(self) -> tuple[Domain, ...]:
        return self.table.domains

    @property
    def shape(self) -> tuple[int, ...]:
        return self.table.shape

    @property
    def top(self) -> Node:
        return self.table.top

    @property
    def records(self) -> int:
        return self.table.records

    @property
    def limit(self) -> int:
        return self.requirements.limit

    # Other questions ----------------------------------------------------------------------------------------------

    def ask_again(self, *, models: tuple[Requirement, ...] | None = None, limit: int | None = None) -> Problem:
        """The same rows with other requirements, of which nothing is measured yet."""
        asked = replace(
            self.requirements,
            models=self.requirements.models if models is None else models,
            limit=self.limit if limit is None else limit,
        )
        return replace(self, requirements=asked, state=self.state.begin_again())

    def ask_of_rest(self, source: str, records: int) -> Problem:
        """The same models for a part of the rows, all of which may be suppressed. Distributions stay those of the whole
        table."""
        return replace(
            self,
            table=replace(self.table, records=records),
            requirements=replace(self.requirements, limit=records),
            state=self.state.begin_again(source),
        )

    def with_target(self, column: str | None) -> Problem:
        """The same search, for a release from which a reader should predict this column."""
        return replace(self, requirements=replace(self.requirements, target=column))

    # Temporary tables ---------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Make the temporary tables that were planned since the last time."""
        self.state.tables.run()

    def skip(self) -> None:
        """The planned tables were made by others."""
        self.state.tables.skip()

    def close(self) -> None:
        self.state.tables.drop()
        if self.requirements.unsettled:
            with suppress(SqlanonError):
                self.engine.drop_temporary(LOST)

    # Marginals ----------------------------------------------------------------------------------------------------

    def marginals(self) -> list[list[float]]:
        """For each attribute and level the mean number of leaves below the label of a record."""
        if self.state.marginals is None:
            names = [
                f"f{place}_{level}"
                for place, domain in enumerate(self.domains, start=1)
                for level in range(1, domain.height)
            ]
            sums = [exp.Sum(this=exp.Mul(this=exp.column("n"), expression=exp.column(name))) for name in names]
            found = self.engine.query(exp.select(*sums).from_(table(self.state.source)))[0] if sums else ()
            means = dict(zip(names, (float(value or 0) / max(self.records, 1) for value in found), strict=True))
            self.state.marginals = [
                [1.0, *(means[f"f{place}_{level}"] for level in range(1, domain.height)), float(domain.leaves)]
                for place, domain in enumerate(self.domains, start=1)
            ]
        return self.state.marginals

    # Measuring ----------------------------------------------------------------------------------------------------

    def measure(self, nodes: Sequence[Node], metric: Metric) -> list[Measured]:
        """Measure nodes in one statement; what was measured before is not measured again."""
        from sqlanon.lattice.metrics import Linear  # loads numpy, which is for searches alone

        missing = [node for node in dict.fromkeys(nodes) if node not in self.state.measured]
        counts = isinstance(metric, Linear) and metric.weighs and not self.requirements.by_levels
        if self.requirements.nested and counts and isinstance(metric, Linear) and self._mostly_fail():
            missing = self._count(missing, metric)
        if missing:
            nothing = (0, 0, 0.0, *([0.0] * len(metric.aggregates())))  # an empty table has no class to report on
            found = {int(place): row for place, *row in self._asked(missing, metric)}
            for place, node in enumerate(missing):
                suppressed, nested, doomed, *parts = found.get(place, nothing)
                own = first = tuple(float(part or 0) for part in parts)
                gone, below = int(suppressed or 0), int(nested or 0)
                if 0 < gone <= self.limit and self.requirements.unsettled:
                    gone, own = self._settled(node, metric)
                    self.state.rounds += 1
                    # Where all models are nested, so is what follows from them.
                    below, first = (gone, own) if self.requirements.nested else (below, first)
                loss = self._loss(node, gone, own, metric)
                # The tolerance of a threshold, times ten million rows, is a small part of a row.
                sure = max(below, math.ceil(float(doomed) - 0.02))
                self.state.measured[node] = Measured(node, gone, below, loss, metric.known(node, below, first), sure)
        return [self.state.measured[node] for node in nodes]

    def _asked(self, nodes: Sequence[Node], metric: Metric) -> Iterable[tuple[Any, ...]]:
        """For each node its place, and what is measured there."""
        if self.requirements.by_levels:
            for place, node in enumerate(nodes):
                numbers_of = iter(metric.numbers(node))
                costs = metric.costs(lambda given=numbers_of: double(literal(next(given))))  # type: ignore[misc]
                classes, parts = self.classes(self.literal_masks(node), self.state.source, costs, node=node)
                tree = exp.select(alias(literal(place), "place"), *sums(self, metric)).from_(classes)
                yield from self.engine.query(with_parts(tree, parts))
            return
        numbers = [number for node in nodes for number in (*self.node_masks(node), *metric.numbers(node))]
        yield from self._statement(metric, len(nodes))(numbers)

    def _mostly_fail(self) -> bool:
        """Whether it pays to count first: so far, most nodes failed. At the beginning they are expected to where
        nothing may be suppressed."""
        failed = sum(item.suppressed > self.limit for item in self.state.measured.values())
        expected = 8 if self.limit == 0 else 0
        return self.limit < self.records and 2 * failed + expected > len(self.state.measured)

    def _count(self, nodes: Sequence[Node], metric: Linear) -> list[Node]:
        """Count what each node suppresses, which takes a third of the time of its loss. Returns those that hold."""
        from sqlanon.lattice.metrics import Known

        counting = self.state.counting = self.state.counting or Known([])
        numbers = [mask for node in nodes for mask in self.node_masks(node)]
        holding = []
        for place, suppressed, _, _ in self._statement(counting, len(nodes))(numbers) if nodes else ():
            node, gone = nodes[int(place)], int(suppressed or 0)
            if gone <= self.limit:
                holding.append(node)
                continue
            least = metric.loss(node, 0, (0.0,) * len(metric.aggregates()))
            self.state.measured[node] = Measured(node, gone, gone, least, (0.0,) * len(metric.components), gone)
        return holding

    def _loss(self, node: Node, suppressed: int, parts: tuple[float, ...], metric: Metric) -> float:
        from sqlanon.lattice.metrics import Divergence, Entropies, Known

        holds = suppressed <= self.limit and suppressed < self.records
        direct = holds and not self.requirements.unsettled and not self.requirements.by_levels
        if isinstance(metric, Entropies) and direct and suppressed:
            return metric.loss(node, suppressed, parts) + self._hidden_bits(node)
        if isinstance(metric, Divergence) and direct and not self.state.is_part:
            return self._divergence(node)
        if isinstance(metric, Known) and metric.sql is not None and holds and (suppressed or metric.always):
            return self.loss_by_sql(node, metric.sql)
        return metric.loss(node, suppressed, parts)

    def _hidden_bits(self, node: Node) -> float:
        """The bits of the labels of suppressed rows, as the file of the metric counts them, from the classes alone: a
        fraction of the time of reading all values again."""
        key = ("hidden_bits", self.state.source)
        if key not in self.state.statements:
            self.state.statements[key] = self.engine.prepared(hidden_labels(self, self.state.source))
        labels = [domain.masks[level] for domain, level in zip(self.domains, node, strict=True)]
        nats = 0.0
        for _, rows, weighed in self.state.statements[key]([*self.node_masks(node), *labels]):
            nats += float(rows) * math.log(float(rows)) - float(weighed)
        return nats / math.log(2)

    def _divergence(self, node: Node) -> float:
        """The divergence as the file of the metric has it, from sums over classes: a tenth of the time of writing that
        statement anew for each node."""
        key = ("divergence", self.compressed.table)
        if key not in self.state.statements:
            source = self.prelude.once("tuple_nats", (self.compressed.table,), lambda: tuple_nats(self))
            self.run()
            self.state.statements[key] = self.engine.prepared(divergence_sums(self, source))
            self.state.root_nats = [self._nats_of_root(domain) for domain in self.domains]
        shown = [float(node[axis] == level) for axis, level in inner_levels(self)]
        ((rows, nats),) = self.state.statements[key]([*self.node_masks(node), *shown])
        tops = zip(node, self.domains, self.state.root_nats, strict=True)
        at_root = sum(root for level, domain, root in tops if level == domain.height)
        return float(nats) / float(rows) + at_root if rows else 0.0

    def _nats_of_root(self, domain: Domain) -> float:
        """The logarithm of all that the root covers: NULL too, where the column has one."""
        missing = exp.select(count_all()).from_(table(domain.dictionary)).where(exp.column("original").is_(exp.Null()))
        return math.log(max(domain.leaves, 1) + int(self.engine.query(missing)[0][0]))

    def loss_by_sql(self, node: Node, sql: str, params: Mapping[str, object] | None = None) -> float:
        """The loss by the metric's own `.sql` file, over the relations that it reads."""
        return self.losses_by_sql(node, {"loss": (sql, params or {})})["loss"]

    def losses_by_sql(self, node: Node, metrics: Mapping[str, tuple[str, Mapping[str, object]]]) -> dict[str, float]:
        """Several metrics in one statement: each is a file with its parameters, and all read the same relations."""
        masks = self.literal_masks(node)
        classes, parts = self.decided(node)
        same = self.class_id(masks).eq(exp.column("class_id", table="k"))
        kept = exp.Sub(this=literal(1), expression=exp.column("broken", table="k"))
        cells = exp.select("c.*", alias(kept, "kept"), "k.class_id").from_(table(self.compressed.table, alias="c"))
        parts.append(("node_cells", cells.join(f"{classes} AS k", on=same)))
        needed = sorted({name for sql, _ in metrics.values() for name in find_references(sql)})
        made = {name: f"node_{name}" for name in needed}
        parts += [(made[name], RECODED[name](self, node)) for name in needed]
        values = [bind(sql, params, made).subquery(copy=False) for sql, params in metrics.values()]
        found = self.engine.query(with_parts(exp.select(*values), parts))[0]
        return {name: math.inf if value is None else float(value) for name, value in zip(metrics, found, strict=True)}

    def holds(self, measured: Measured) -> bool:
        return measured.suppressed <= self.limit and measured.suppressed < self.records

    def _statement(self, metric: Metric, nodes: int) -> Statement:
        """The statement that measures some nodes: its shape is the same for all, masks and costs are parameters."""
        key = (id(metric), metric.floor, self.state.source, nodes)
        if key not in self.state.statements:
            together = self.requirements.plain and self.table.rows < FEW_ROWS
            self.state.statements[key] = self.engine.prepared(
                (cross_nodes if together else in_turn)(self, self.state.source, metric, nodes)
            )
        return self.state.statements[key]

    def passes(self, nodes: Sequence[Node], *, suppresses: bool = True) -> list[Pass]:
        """The nodes of a solution, each with the table of its classes that break a model among the rows left to it.
        Where the solution suppresses nothing, the last one has no such class."""
        source, found = self.state.source, []
        try:
            for number, node in enumerate(nodes):
                if number + 1 == len(nodes) and not suppresses:
                    found.append(Pass(node, None))
                    break
                broken = self.broken_classes(nodes[: number + 1])
                found.append(Pass(node, broken))
                if number + 1 < len(nodes):
                    self.state.source = self.rest(nodes[: number + 1], broken)
            return found
        finally:
            self.state.source = source

    def broken_classes(self, nodes: Sequence[Node]) -> str:
        """The table (class_id) of the classes of the last node that break a model."""
        if self.requirements.unsettled:
            return find_suppressed(self, self.state.source, nodes[-1], self._planned)
        classes, parts = self.classes(self.literal_masks(nodes[-1]), self.state.source, node=nodes[-1])
        tree = exp.select("class_id").from_(classes).where(exp.column("broken").eq(1))
        made = self.prelude.once("broken", (tuple(nodes), self.state.source), lambda: with_parts(tree, parts))
        self.run()
        return made

    def _planned(self, node: Node, number: int, found: exp.Select) -> str:
        made = self.prelude.once("broken", (node, self.state.source, number), lambda: found)
        self.run()
        return made

    def rest(self, nodes: Sequence[Node], broken: str) -> str:
        """The part of the compressed table that the last node does not show."""
        own = self.class_id([bigint(literal(mask)) for mask in self.compressed.masks(nodes[-1])])
        tree = exp.select("c.*").from_(table(self.state.source, alias="c"))
        tree = tree.join(table(broken, alias="b"), on=exp.column("class_id", table="b").eq(own))
        made = self.prelude.once("rest", (tuple(nodes), self.state.source), lambda: tree)
        self.run()
        return made

    def rolled_up(self, floor: Node) -> str:
        """The rows of `source` generalized to a node: smaller, and enough for all nodes above it."""
        keys = [
            exp.BitwiseAnd(this=exp.column(name), expression=bigint(literal(mask)))
            for name, mask in zip(self.compressed.key_names, self.compressed.masks(floor), strict=True)
        ]
        others = self.compressed.others
        leaves = [
            f"f{place}_{level}"
            for place, (domain, least) in enumerate(zip(self.domains, floor, strict=True), start=1)
            for level in range(max(1, least), domain.height)
        ]
        tree = exp.select(
            *(alias(key, name) for key, name in zip(keys, self.compressed.key_names, strict=True)),
            *others,
            alias(sum_bigint(exp.column("n")), "n"),
            *(alias(exp.Min(this=exp.column(name)), name) for name in leaves),
        ).from_(table(self.state.source))
        tree = tree.group_by(*(key.copy() for key in keys), *others)
        made = self.prelude.once("rolled", (floor, self.state.source), lambda: tree)
        self.run()
        return made

    def measured_value(self, node: Node) -> float | None:
        """What the first requirement measures at a node, in its worst class."""
        _, parts = self.classes(self.literal_masks(node), self.state.source, measures=True, node=node)
        worst = (exp.Min if self.requirements.models[0].model.worse_when_smaller else exp.Max)(
            this=exp.column("measured")
        )
        found = self.engine.query(with_parts(exp.select(worst).from_("result_1"), parts))[0][0]
        return None if found is None else float(found)

    def decided(self, node: Node, costs: Sequence[exp.Expr] = ()) -> tuple[str, list[tuple[str, exp.Query]]]:
        """The classes of a node, as `classes` has them, with the last word on which of them are suppressed."""
        if self.requirements.unsettled:
            return judge_classes(self, self.state.source, node, costs)
        return self.classes(self.literal_masks(node), self.state.source, costs, node=node)

    def _settled(self, node: Node, metric: Metric) -> tuple[int, tuple[float, ...]]:
        """The rows that a node suppresses in the end, and what the metric asks for."""
        numbers = iter(metric.numbers(node))
        classes, parts = self.decided(node, metric.costs(lambda: double(literal(next(numbers)))))
        chosen = [rows_where("broken", exp.column("rows_")), *metric.aggregates()]
        suppressed, *found = self.engine.query(with_parts(exp.select(*chosen).from_(classes), parts))[0]
        return int(suppressed or 0), tuple(float(part or 0) for part in found)

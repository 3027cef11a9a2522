"""What an algorithm is given: the compressed table, and a way to measure nodes of the lattice on it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from sqlanon.engines import Engine
from sqlanon.engines.temp_tables import drop_steps, run_steps
from sqlanon.errors import SqlanonError
from sqlanon.hierarchies import Hierarchy
from sqlanon.lattice.class_queries import Classes, Requirement, rows_where, with_parts
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
from sqlanon.lattice.suppressed_classes import LOST, find_suppressed, judge_classes
from sqlanon.policy import Policy
from sqlanon.relations.classes import Prelude
from sqlanon.relations.compressed_rows import Domain
from sqlanon.relations.rewrite import Pass
from sqlanon.sqltree.tree import alias, bigint, bind, count_all, double, find_references, literal, sum_bigint, table

if TYPE_CHECKING:
    from sqlanon.lattice.metrics import Known, Linear, Metric

FEW_ROWS = 100_000  # of a table, on which many statements cost more than their work
# What only the nodes of a lattice have: relations, and classes other than those of all quasi-identifiers.
OF_NODES = frozenset({"class_population", "class_guards", "own_classes"}) | SPECIAL
ALSO_SUPPRESSED = "also under record suppression"


@dataclass(frozen=True)
class Stable:
    """The cuts of earlier releases, and who was together in them.

    `cuts`: table (round, region, attribute, cut, right_region), in the order of their rounds: rows of a region whose
    place is behind the value `cut` went to the right one. `groups`: table (original, group_id) of the persons who were
    released; who is not in it is new. Those of a group, and newcomers, who come into one half of a region must be
    `k` persons with `l` different values of each of these attributes, or none.
    """

    cuts: str
    groups: str
    k: int
    l: int  # noqa: E741 - the name of the parameter
    attributes: tuple[str, ...]


@dataclass
class Problem(Classes):
    policy: Policy = field(kw_only=True)
    engine: Engine = field(kw_only=True)
    hierarchies: Mapping[str, Hierarchy] = field(kw_only=True)
    prelude: Prelude = field(kw_only=True)
    asked: Policy | None = None  # as its owner wrote it, where `policy` reads the rows after its transformations
    transformed: Mapping[str, Any] = field(default_factory=dict)  # for the plan, as the next one
    joined: Mapping[str, list[str]] = field(default_factory=dict)
    records: int = 0
    limit: int = 0  # rows that may be suppressed
    rows: int = 0  # of the compressed table
    deadline: float | None = None
    progress: Callable[[str, int, int], None] | None = None
    measured: dict[Node, Measured] = field(default_factory=dict)
    past: str | None = None  # table (original, signature, seen) of who was released before, and beside which values
    past_version: int = 0  # of the last release
    stable: Stable | None = None  # what must stay as it was in earlier releases
    target: str | None = None  # the column that a reader of the release is to foretell
    rounds: int = 0  # nodes of which models were asked again, since what is suppressed may break others
    _marginals: list[list[float]] | None = None
    _root_nats: list[float] = field(default_factory=list)
    _counting: Known | None = None  # a metric that asks for nothing but counts
    _statements: dict[tuple[object, ...], Callable[[Sequence[int | float]], list[tuple[Any, ...]]]] = field(
        default_factory=dict
    )

    @property
    def domains(self) -> tuple[Domain, ...]:
        return self.compressed.domains

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(domain.height + 1 for domain in self.domains)

    @property
    def bottom(self) -> Node:
        return (0,) * len(self.domains)

    @property
    def top(self) -> Node:
        return tuple(domain.height for domain in self.domains)

    @property
    def nested(self) -> bool:
        """Whether rows suppressed at a node are suppressed at all nodes below it."""
        return all(self.is_nested(item) for item in self.requirements)

    def is_nested(self, item: Requirement) -> bool:
        """Without suppression one broken class makes a node fail, and what is below a node that fails fails too."""
        return item.nested or (item.monotone and self.limit == 0)

    @property
    def written(self) -> Policy:
        return self.asked or self.policy

    def tell(self, what: str, done: int, every: int) -> None:
        if self.progress:
            self.progress(what, done, every)

    def out_of_time(self) -> bool:
        return self.deadline is not None and time.monotonic() > self.deadline

    def levels(self, node: Node) -> dict[str, int]:
        return {domain.name: level for domain, level in zip(self.domains, node, strict=True)}

    def close(self) -> None:
        drop_steps(self.engine, self.prelude.steps)
        if self.unsettled:
            with suppress(SqlanonError):
                self.engine.drop_temporary(LOST)

    def run(self) -> None:
        """Make the temporary tables that were planned since the last time."""
        pending = self.prelude.steps[self._done :]
        run_steps(self.engine, pending)
        self._done = len(self.prelude.steps)

    def skip(self) -> None:
        """The planned tables were made by others."""
        self._done = len(self.prelude.steps)

    _done: int = 0

    # Marginals ----------------------------------------------------------------------------------------------------

    def marginals(self) -> list[list[float]]:
        """For each attribute and level the mean number of leaves below the label of a record."""
        if self._marginals is None:
            names = [
                f"f{place}_{level}"
                for place, domain in enumerate(self.domains, start=1)
                for level in range(1, domain.height)
            ]
            sums = [exp.Sum(this=exp.Mul(this=exp.column("n"), expression=exp.column(name))) for name in names]
            found = self.engine.query(exp.select(*sums).from_(table(self.source)))[0] if sums else ()
            means = dict(zip(names, (float(value or 0) / max(self.records, 1) for value in found), strict=True))
            self._marginals = [
                [1.0, *(means[f"f{place}_{level}"] for level in range(1, domain.height)), float(domain.leaves)]
                for place, domain in enumerate(self.domains, start=1)
            ]
        return self._marginals

    # Measuring ----------------------------------------------------------------------------------------------------

    def measure(self, nodes: Sequence[Node], metric: Metric) -> list[Measured]:
        """Measure nodes in one statement; what was measured before is not measured again."""
        from sqlanon.lattice.metrics import Linear  # loads numpy, which is for searches alone

        missing = [node for node in dict.fromkeys(nodes) if node not in self.measured]
        counts = isinstance(metric, Linear) and metric.weighs and not self.by_levels
        if self.nested and counts and isinstance(metric, Linear) and self._mostly_fail():
            missing = self._count(missing, metric)
        if missing:
            nothing = (0, 0, 0.0, *([0.0] * len(metric.aggregates())))  # an empty table has no class to report on
            found = {int(place): row for place, *row in self._asked(missing, metric)}
            for place, node in enumerate(missing):
                suppressed, nested, doomed, *parts = found.get(place, nothing)
                own = first = tuple(float(part or 0) for part in parts)
                gone, below = int(suppressed or 0), int(nested or 0)
                if 0 < gone <= self.limit and self.unsettled:
                    gone, own = self._settled(node, metric)
                    self.rounds += 1
                    # Where all models are nested, so is what follows from them.
                    below, first = (gone, own) if self.nested else (below, first)
                loss = self._loss(node, gone, own, metric)
                # The tolerance of a threshold, times ten million rows, is a small part of a row.
                sure = max(below, math.ceil(float(doomed) - 0.02))
                self.measured[node] = Measured(node, gone, below, loss, metric.known(node, below, first), sure)
        return [self.measured[node] for node in nodes]

    def _asked(self, nodes: Sequence[Node], metric: Metric) -> Iterable[tuple[Any, ...]]:
        """For each node its place, and what is measured there."""
        if self.by_levels:
            for place, node in enumerate(nodes):
                numbers_of = iter(metric.numbers(node))
                costs = metric.costs(lambda given=numbers_of: double(literal(next(given))))  # type: ignore[misc]
                classes, parts = self.classes(self.literal_masks(node), costs, node=node)
                tree = exp.select(alias(literal(place), "place"), *sums(self, metric)).from_(classes)
                yield from self.engine.query(with_parts(tree, parts))
            return
        numbers = [number for node in nodes for number in (*self.node_masks(node), *metric.numbers(node))]
        yield from self._statement(metric, len(nodes))(numbers)

    def _mostly_fail(self) -> bool:
        """Whether it pays to count first: so far, most nodes failed. At the beginning they are expected to where
        nothing may be suppressed."""
        failed = sum(item.suppressed > self.limit for item in self.measured.values())
        expected = 8 if self.limit == 0 else 0
        return self.limit < self.records and 2 * failed + expected > len(self.measured)

    def _count(self, nodes: Sequence[Node], metric: Linear) -> list[Node]:
        """Count what each node suppresses, which takes a third of the time of its loss. Returns those that hold."""
        from sqlanon.lattice.metrics import Known

        counting = self._counting = self._counting or Known([])
        numbers = [mask for node in nodes for mask in self.node_masks(node)]
        holding = []
        for place, suppressed, _, _ in self._statement(counting, len(nodes))(numbers) if nodes else ():
            node, gone = nodes[int(place)], int(suppressed or 0)
            if gone <= self.limit:
                holding.append(node)
                continue
            least = metric.loss(node, 0, (0.0,) * len(metric.aggregates()))
            self.measured[node] = Measured(node, gone, gone, least, (0.0,) * len(metric.components), gone)
        return holding

    def _loss(self, node: Node, suppressed: int, parts: tuple[float, ...], metric: Metric) -> float:
        from sqlanon.lattice.metrics import Divergence, Entropies, Known

        holds = suppressed <= self.limit and suppressed < self.records
        direct = holds and not self.unsettled and not self.by_levels
        if isinstance(metric, Entropies) and direct and suppressed:
            return metric.loss(node, suppressed, parts) + self._hidden_bits(node)
        if isinstance(metric, Divergence) and direct:
            return self._divergence(node)
        if isinstance(metric, Known) and metric.sql is not None and holds and (suppressed or metric.always):
            return self.loss_by_sql(node, metric.sql)
        return metric.loss(node, suppressed, parts)

    def _hidden_bits(self, node: Node) -> float:
        """The bits of the labels of suppressed rows, as the file of the metric counts them, from the classes alone: a
        fraction of the time of reading all values again."""
        key = ("hidden_bits", self.source)
        if key not in self._statements:
            self._statements[key] = self.engine.prepared(hidden_labels(self))
        labels = [domain.masks[level] for domain, level in zip(self.domains, node, strict=True)]
        nats = 0.0
        for _, rows, weighed in self._statements[key]([*self.node_masks(node), *labels]):
            nats += float(rows) * math.log(float(rows)) - float(weighed)
        return nats / math.log(2)

    def _divergence(self, node: Node) -> float:
        """The divergence as the file of the metric has it, from sums over classes: a tenth of the time of writing that
        statement anew for each node."""
        key = ("divergence", self.compressed.table)
        if key not in self._statements:
            source = self.prelude.once("tuple_nats", (self.compressed.table,), lambda: tuple_nats(self))
            self.run()
            self._statements[key] = self.engine.prepared(divergence_sums(self, source))
            self._root_nats = [self._nats_of_root(domain) for domain in self.domains]
        shown = [float(node[axis] == level) for axis, level in inner_levels(self)]
        ((rows, nats),) = self._statements[key]([*self.node_masks(node), *shown])
        tops = zip(node, self.domains, self._root_nats, strict=True)
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

    def _statement(self, metric: Metric, nodes: int) -> Callable[[Sequence[int | float]], list[tuple[Any, ...]]]:
        """The statement that measures some nodes: its shape is the same for all, masks and costs are parameters."""
        key = (id(metric), metric.floor, self.source, nodes)
        if key not in self._statements:
            together = self.plain and self.rows < FEW_ROWS
            self._statements[key] = self.engine.prepared((cross_nodes if together else in_turn)(self, metric, nodes))
        return self._statements[key]

    def passes(self, nodes: Sequence[Node], *, suppresses: bool = True) -> list[Pass]:
        """The nodes of a solution, each with the table of its classes that break a model among the rows left to it.
        Where the solution suppresses nothing, the last one has no such class."""
        source, found = self.source, []
        try:
            for number, node in enumerate(nodes):
                if number + 1 == len(nodes) and not suppresses:
                    found.append(Pass(node, None))
                    break
                broken = self.broken_classes(nodes[: number + 1])
                found.append(Pass(node, broken))
                if number + 1 < len(nodes):
                    self.source = self.rest(nodes[: number + 1], broken)
            return found
        finally:
            self.source = source

    def broken_classes(self, nodes: Sequence[Node]) -> str:
        """The table (class_id) of the classes of the last node that break a model."""
        if self.unsettled:
            return find_suppressed(self, nodes[-1], self._planned)
        classes, parts = self.classes(self.literal_masks(nodes[-1]), node=nodes[-1])
        tree = exp.select("class_id").from_(classes).where(exp.column("broken").eq(1))
        made = self.prelude.once("broken", (tuple(nodes), self.source), lambda: with_parts(tree, parts))
        self.run()
        return made

    def _planned(self, node: Node, number: int, found: exp.Select) -> str:
        made = self.prelude.once("broken", (node, self.source, number), lambda: found)
        self.run()
        return made

    def rest(self, nodes: Sequence[Node], broken: str) -> str:
        """The part of the compressed table that the last node does not show."""
        own = self.class_id([bigint(literal(mask)) for mask in self.compressed.masks(nodes[-1])])
        tree = exp.select("c.*").from_(table(self.source, alias="c"))
        tree = tree.join(table(broken, alias="b"), on=exp.column("class_id", table="b").eq(own))
        made = self.prelude.once("rest", (tuple(nodes), self.source), lambda: tree)
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
        ).from_(table(self.source))
        tree = tree.group_by(*(key.copy() for key in keys), *others)
        made = self.prelude.once("rolled", (floor, self.source), lambda: tree)
        self.run()
        return made

    def measured_value(self, node: Node) -> float | None:
        """What the first requirement measures at a node, in its worst class."""
        _, parts = self.classes(self.literal_masks(node), measures=True, node=node)
        worst = (exp.Min if self.requirements[0].model.worse_when_smaller else exp.Max)(this=exp.column("measured"))
        found = self.engine.query(with_parts(exp.select(worst).from_("result_1"), parts))[0][0]
        return None if found is None else float(found)

    def node_masks(self, node: Node) -> tuple[int, ...]:
        """The masks of the keys at a node; where a model asks for what is NULL, also that of its flags."""
        asks = any(item.own is not None and (item.own.rows or item.own.counted) for item in self.requirements)
        return (*self.compressed.masks(node), *([self.compressed.shown_nulls(node)] if asks else []))

    def literal_masks(self, node: Node) -> list[exp.Expr]:
        return [bigint(literal(mask)) for mask in self.node_masks(node)]

    def sizes(self, node: Node, costs: Sequence[exp.Expr] = ()) -> exp.Select:
        return self.grouped(self.class_id(self.literal_masks(node)), self.source, costs, ())

    def decided(self, node: Node, costs: Sequence[exp.Expr] = ()) -> tuple[str, list[tuple[str, exp.Query]]]:
        """The classes of a node, as `classes` has them, with the last word on which of them are suppressed."""
        if self.unsettled:
            return judge_classes(self, node, costs)
        return self.classes(self.literal_masks(node), costs, node=node)

    def _settled(self, node: Node, metric: Metric) -> tuple[int, tuple[float, ...]]:
        """The rows that a node suppresses in the end, and what the metric asks for."""
        numbers = iter(metric.numbers(node))
        classes, parts = self.decided(node, metric.costs(lambda: double(literal(next(numbers)))))
        chosen = [rows_where("broken", exp.column("rows_")), *metric.aggregates()]
        suppressed, *found = self.engine.query(with_parts(exp.select(*chosen).from_(classes), parts))[0]
        return int(suppressed or 0), tuple(float(part or 0) for part in found)

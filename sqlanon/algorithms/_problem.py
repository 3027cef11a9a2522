"""What an algorithm is given: the compressed table, and a way to measure nodes of the lattice on it."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sqlglot import exp

from sqlanon.algorithms._metrics import (
    AverageSize,
    Known,
    Linear,
    Measured,
    Metric,
    Node,
    Squares,
    named,
)
from sqlanon.algorithms._recoded import RECODED
from sqlanon.compiler.checks import Compiler
from sqlanon.compiler.classes import Grouping, Prelude, totals
from sqlanon.compiler.compressed import (
    Compressed,
    Domain,
    combinations_of_rows,
    compressed,
    dictionary,
    laid_out,
    sizes,
    with_bits,
)
from sqlanon.compiler.lookups import taxonomy
from sqlanon.compiler.rewrite import Pass
from sqlanon.compiler.tree import (
    BIGINT,
    DOUBLE,
    alias,
    bigint,
    bind,
    case,
    double,
    excess,
    inline_verdict,
    literal,
    nested,
    referenced,
    select,
    summed,
    table,
    text,
    union_all,
    window,
    with_verdict,
)
from sqlanon.engines import Engine
from sqlanon.engines.steps import drop_steps, run_steps
from sqlanon.errors import PolicyError
from sqlanon.families import Plugin, plugin
from sqlanon.hierarchies import Hierarchy
from sqlanon.policy import ModelUse, Policy

# Relations that can be made from the compressed table for any node.
SEARCHED = {
    "classes", "class_values", "class_categories", "totals", "taxonomy", "weights", "thresholds", "guarded",
    "dont_care", "protect",
}  # fmt: skip
FEW_ROWS = 100_000  # of a compressed table, on which many statements cost more than their work
ALSO_SUPPRESSED = "also under record suppression"


@dataclass(frozen=True)
class Requirement:
    """A model that classes must meet, with the relations that it reads; `attribute` names its sensitive column."""

    use: ModelUse
    model: Plugin
    attribute: str | None
    relations: Mapping[str, str]
    nested: bool  # a class that breaks it is made of classes that break it

    @property
    def params(self) -> dict[str, object]:
        return self.model.filled(self.use.params)


@dataclass
class Problem:
    policy: Policy
    engine: Engine
    hierarchies: Mapping[str, Hierarchy]
    prelude: Prelude
    compressed: Compressed
    requirements: tuple[Requirement, ...]
    records: int
    limit: int  # rows that may be suppressed
    rows: int  # of the compressed table
    deadline: float | None = None
    progress: Callable[[str, int, int], None] | None = None
    measured: dict[Node, Measured] = field(default_factory=dict)
    source: str = ""  # the compressed table, or what is left of it once the lower nodes are out
    _marginals: list[list[float]] | None = None
    _counting: Known = field(default_factory=lambda: Known([]))  # a metric that asks for nothing but counts
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
        return all(requirement.nested for requirement in self.requirements)

    def tell(self, what: str, done: int, every: int) -> None:
        if self.progress:
            self.progress(what, done, every)

    def out_of_time(self) -> bool:
        return self.deadline is not None and time.monotonic() > self.deadline

    def levels(self, node: Node) -> dict[str, int]:
        return {domain.name: level for domain, level in zip(self.domains, node, strict=True)}

    def close(self) -> None:
        drop_steps(self.engine, self.prelude.steps)

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

    def metric(self, name: str | None = None) -> Metric:
        """The metric that the policy minimizes, ready for a search over the whole lattice."""
        name = name or self.policy.minimize
        weights = [self.policy.columns[domain.name].weight for domain in self.domains]
        count = len(self.domains)
        whole = sum(weights)
        leaves = [float(domain.leaves) for domain in self.domains]
        flags = ("broken",) if self.nested else ("broken", "nested")

        def linear(components: Sequence[Sequence[float]], relative_to: Sequence[float], **more: bool | float) -> Linear:
            return Linear(
                self.compressed,
                self.shape,
                self.marginals(),
                self.records,
                components,
                leaves_matter=bool(more.get("leaves", True)),
                relative_to=relative_to,
                scale=float(more.get("scale", 1.0)),
                geometric=bool(more.get("geometric", False)),
                suppresses=self.limit > 0,
                flags=flags,
            )

        steps = [leaf - 1 if leaf > 1 else 0.0 for leaf in leaves]
        match name:
            case "ncp":
                return linear([[weight / whole for weight in weights]], steps)
            case "ncp_geometric":
                each = [[float(i == j) for j in range(count)] for i in range(count)]
                return linear(each, steps, geometric=True)
            case "iloss":
                return linear([weights], leaves, scale=self.records)
            case "precision":
                heights = [float(domain.height) for domain in self.domains]
                return linear([[1 / count] * count], heights, leaves=False)
            case "minimal_distortion":
                return linear([[1.0] * count], [1.0] * count, leaves=False, scale=self.records)
            case "discernibility" | "discernibility_star":
                return Squares(self.shape, self.records, penalty=name == "discernibility", flags=flags)
            case "aecs" | "c_avg":
                asked = max((use.params["k"] for use in self.policy.models if "k" in use.params), default=1)
                return AverageSize(self.shape, self.records, self.limit, int(asked), name == "aecs")
            case "non_uniform_entropy":
                return Known(self._entropies(), sql=plugin("loss", name).sql)
            case "kl_divergence":
                return Known([[0.0] * size for size in self.shape], sql=plugin("loss", name).sql, always=True)
            case "height":
                return Known([[float(level) for level in range(size)] for size in self.shape])
        raise PolicyError(
            f"a search cannot minimize '{name}'",
            hint="take ncp, ncp_geometric, iloss, precision, minimal_distortion, discernibility, discernibility_star, "
            "aecs, c_avg or height",
        )

    def _entropies(self) -> list[list[float]]:
        """For each attribute and level the bits that are lost by showing labels in place of values."""
        found = []
        for domain in self.domains:
            own = double(exp.column("records"))
            bits = []
            for level in range(1, domain.height):
                label = window(exp.Sum(this=own.copy()), partition=[exp.column(f"n{level}")])
                bits.append(alias(_bits(own.copy(), label), f"b{level}"))
            bits.append(alias(_bits(own.copy(), window(exp.Sum(this=own.copy()))), f"b{domain.height}"))
            inner = exp.select(*bits).from_(table(domain.dictionary))
            sums = [exp.Sum(this=exp.column(f"b{level}")) for level in range(1, domain.height + 1)]
            row = self.engine.query(exp.select(*sums).from_(inner.subquery(alias="bits")))[0]
            found.append([0.0, *(float(value or 0) for value in row)])
        return found

    # Measuring ----------------------------------------------------------------------------------------------------

    def measure(self, nodes: Sequence[Node], metric: Metric) -> list[Measured]:
        """Measure nodes in one statement; what was measured before is not measured again."""
        missing = [node for node in dict.fromkeys(nodes) if node not in self.measured]
        if self.nested and isinstance(metric, Linear) and metric.weighs and self._mostly_fail():
            missing = self._count(missing, metric)
        if missing:
            ask = self._statement(metric, len(missing))
            numbers: list[int | float] = []
            for node in missing:
                numbers += [*self.compressed.masks(node), *metric.numbers(node)]
            nothing = (0, 0, 0.0, *([0.0] * len(metric.aggregates())))  # an empty table has no class to report on
            found = {int(place): row for place, *row in ask(numbers)}
            for place, node in enumerate(missing):
                suppressed, nested, doomed, *parts = found.get(place, nothing)
                own = tuple(float(part or 0) for part in parts)
                gone, below = int(suppressed or 0), int(nested or 0)
                loss = self._loss(node, gone, own, metric)
                # The tolerance of a threshold, times ten million rows, is a small part of a row.
                sure = max(below, math.ceil(float(doomed) - 0.02))
                self.measured[node] = Measured(node, gone, below, loss, metric.known(node, below, own), sure)
        return [self.measured[node] for node in nodes]

    def _mostly_fail(self) -> bool:
        """Whether it pays to count first: so far, most nodes failed."""
        failed = sum(item.suppressed > self.limit for item in self.measured.values())
        return self.limit < self.records and 2 * failed + 8 > len(self.measured)

    def _count(self, nodes: Sequence[Node], metric: Linear) -> list[Node]:
        """Count what each node suppresses, which takes a third of the time of its loss. Returns those that hold."""
        counting = self._counting
        numbers = [mask for node in nodes for mask in self.compressed.masks(node)]
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
        holds = suppressed <= self.limit and suppressed < self.records
        if isinstance(metric, Known) and metric.sql is not None and holds and (suppressed or metric.always):
            return self.loss_by_sql(node, metric.sql)
        return metric.loss(node, suppressed, parts)

    def loss_by_sql(self, node: Node, sql: str, params: Mapping[str, object] | None = None) -> float:
        """The loss by the metric's own `.sql` file, over the relations that it reads."""
        masks = [literal(mask) for mask in self.compressed.masks(node)]
        classes, parts = self.classes(masks)
        same = self.class_id(masks).eq(exp.column("class_id", table="k"))
        kept = exp.Sub(this=literal(1), expression=exp.column("broken", table="k"))
        cells = exp.select("c.*", alias(kept, "kept"), "k.class_id").from_(table(self.compressed.table, alias="c"))
        parts.append(("node_cells", cells.join(f"{classes} AS k", on=same)))
        made = {name: f"node_{name}" for name in referenced(sql)}
        for name in made:
            parts.append((made[name], RECODED[name](self, node)))
        whole = exp.select("loss").from_(bind(sql, params or {}, made).subquery(alias="metric"))
        found = self.engine.query(_with(whole, parts))[0][0]
        return math.inf if found is None else float(found)

    def holds(self, measured: Measured) -> bool:
        return measured.suppressed <= self.limit and measured.suppressed < self.records

    def _statement(self, metric: Metric, nodes: int) -> Callable[[Sequence[int | float]], list[tuple[Any, ...]]]:
        """The statement that measures some nodes: its shape is the same for all, masks and costs are parameters."""
        key = (id(metric), metric.floor, self.source, nodes)
        if key not in self._statements:
            numbers = itertools.count(1)
            if self.plain and self.rows < FEW_ROWS:
                tree: exp.Query = self._crossed(metric, nodes, numbers)
            else:
                tree = union_all([self._branch(place, metric, numbers) for place in range(nodes)])
            self._statements[key] = self.engine.prepared(tree)
        return self._statements[key]

    @property
    def plain(self) -> bool:
        """Whether all models look at nothing but the size of a class."""
        return all(inline_verdict(item.model.sql, item.params) is not None for item in self.requirements)

    def _crossed(self, metric: Metric, nodes: int, numbers: Iterator[int]) -> exp.Select:
        """All nodes in one GROUP BY, each row of a small table meeting each node: half the time of node after node."""
        taken = itertools.count(1)
        costs = metric.costs(lambda: exp.column(f"c{next(taken)}", table="nodes"))
        weights = next(taken) - 1
        names = [*(f"m{i}" for i in range(1, self.compressed.keys + 1)), *(f"c{i}" for i in range(1, weights + 1))]
        kinds = [BIGINT] * self.compressed.keys + [DOUBLE] * weights
        rows = [(literal(place), *(_parameter(next(numbers), kind) for kind in kinds)) for place in range(nodes)]
        asked = exp.values(rows, alias="nodes", columns=["place", *names])
        place = exp.column("place", table="nodes")
        key = self.class_id([exp.column(f"m{i}", table="nodes") for i in range(1, self.compressed.keys + 1)])
        grouped = self._grouped(key, self.source, costs, [place])
        grouped.append("joins", exp.Join(this=asked, kind="CROSS"))
        grouped.args["group"].append("expressions", place.copy())
        verdicts = [inline_verdict(item.model.sql, item.params) for item in self.requirements]
        flags = self._flags([verdict for verdict in verdicts if verdict is not None])
        classes = select(exp.Star(), *flags, source=nested(grouped, "grouped"))
        return select("place", *self._sums(metric), source=nested(classes, "classes"), groups=["place"])

    def _sums(self, metric: Metric) -> list[exp.Expr]:
        rows = exp.column("rows_")
        return [
            alias(_rows_where("broken", rows), "suppressed"),
            alias(_rows_where("nested", rows.copy()), "nested"),
            alias(self._doomed(), "doomed"),
            *named(metric.aggregates(), "part"),
        ]

    def _branch(self, place: int, metric: Metric, numbers: Iterator[int]) -> exp.Select:
        masks = [_parameter(next(numbers), BIGINT) for _ in range(self.compressed.keys)]
        costs = metric.costs(lambda: _parameter(next(numbers), DOUBLE))
        classes, parts = self.classes(masks, costs)
        tree = exp.select(alias(literal(place), "place"), *self._sums(metric))
        if len(parts) == 1:  # a CTE would be written to memory before it is read
            return tree.from_(parts[0][1].subquery(alias=classes, copy=False), copy=False)
        return exp.select("*").from_(_with(tree.from_(classes), parts).subquery(alias=f"node_{place}"), copy=False)

    def classes(
        self, masks: Sequence[exp.Expr], costs: Sequence[exp.Expr] = ()
    ) -> tuple[str, list[tuple[str, exp.Query]]]:
        """The classes of a node as (class_id, records, rows_, cost1, …, broken, nested): a name, and its CTEs."""
        return self.classes_by(self.class_id(masks), self.source, costs)

    def classes_by(
        self,
        key: exp.Expr,
        source: str,
        costs: Sequence[exp.Expr] = (),
        also: Sequence[exp.Expr] = (),
        brought: Mapping[str, str] | None = None,
    ) -> tuple[str, list[tuple[str, exp.Query]]]:
        """The same for any class number `key` over a table with the columns of the compressed one; `also` are further
        aggregates to keep of each class, `brought` relations over these classes that only the algorithm can make."""
        inlined = [inline_verdict(item.model.sql, item.params) for item in self.requirements]
        if all(verdict is not None for verdict in inlined):
            verdicts = [verdict for verdict in inlined if verdict is not None]
            grouped = self._grouped(key, source, costs, also).subquery(alias="grouped")
            tree = exp.select("*", *self._flags(verdicts)).from_(grouped, copy=False)
            return "node_classes", [("node_classes", tree)]
        parts: list[tuple[str, exp.Query]] = [("class_sizes", self._grouped(key, source, costs, also))]
        used = dict.fromkeys(item.attribute for item in self.requirements if item.attribute is not None)
        parts += [(_values_name(name, used), self._class_values(key, source, name)) for name in used]
        tree = exp.select("class_sizes.*").from_("class_sizes")
        verdicts = []
        for place, item in enumerate(self.requirements, start=1):
            own = {"classes": "class_sizes", **(brought or {})}
            if item.attribute is not None:
                own["class_values"] = _values_name(item.attribute, used)
            if "value_categories" in item.relations:
                own["class_categories"] = f"class_categories_{place}"
                parts.append((own["class_categories"], self._class_categories(source, key, item)))
            result = with_verdict(bind(item.model.sql, item.params, {**item.relations, **own}))
            name = f"result_{place}"
            parts.append((name, result))
            same = exp.column("class_id", table=name).eq(exp.column("class_id", table="class_sizes"))
            tree = tree.join(name, on=same, join_type="left", copy=False)
            # A class without a result was not measured, and what was not measured is not safe.
            verdicts.append(exp.Coalesce(this=exp.column("broken", table=name), expressions=[literal(1)]))
            if self._convex(item):
                lost = exp.Mul(this=exp.column("rows_", table="class_sizes"), expression=self._excess(item, name))
                tree = tree.select(alias(lost, f"lost{place}"))
        tree = tree.select(*self._flags(verdicts))
        return "node_classes", [*parts, ("node_classes", tree)]

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
        classes, parts = self.classes([bigint(literal(mask)) for mask in self.compressed.masks(nodes[-1])])
        tree = exp.select("class_id").from_(classes).where(exp.column("broken").eq(1))
        made = self.prelude.once("broken", (tuple(nodes), self.source), lambda: _with(tree, parts))
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
        others = [*self.compressed.values.values(), *(["person"] if self.compressed.person else [])]
        leaves = [
            f"f{place}_{level}"
            for place, (domain, least) in enumerate(zip(self.domains, floor, strict=True), start=1)
            for level in range(max(1, least), domain.height)
        ]
        tree = exp.select(
            *(alias(key, name) for key, name in zip(keys, self.compressed.key_names, strict=True)),
            *others,
            alias(summed(exp.column("n")), "n"),
            *(alias(exp.Min(this=exp.column(name)), name) for name in leaves),
        ).from_(table(self.source))
        tree = tree.group_by(*(key.copy() for key in keys), *others)
        made = self.prelude.once("rolled", (floor, self.source), lambda: tree)
        self.run()
        return made

    def measured_value(self, node: Node) -> float | None:
        """What the first requirement measures at a node, in its worst class."""
        item = self.requirements[0]
        masks = [bigint(literal(mask)) for mask in self.compressed.masks(node)]
        key = self.class_id(masks)
        parts: list[tuple[str, exp.Query]] = [("class_sizes", self._grouped(key, self.source, (), ()))]
        own = {"classes": "class_sizes"}
        if item.attribute is not None:
            parts.append(("class_values_1", self._class_values(key, self.source, item.attribute)))
            own["class_values"] = "class_values_1"
        if "value_categories" in item.relations:
            parts.append(("class_categories_1", self._class_categories(self.source, key, item)))
            own["class_categories"] = "class_categories_1"
        result = with_verdict(bind(item.model.sql, item.params, {**item.relations, **own}))
        worst = (exp.Min if item.model.worse_when_smaller else exp.Max)(this=exp.column("measured"))
        found = self.engine.query(_with(exp.select(worst).from_(result.subquery(alias="result")), parts))[0][0]
        return None if found is None else float(found)

    def digest(self, members: str, labels: str) -> dict[str, object]:
        """How many regions there are, and a digest of their labels that does not depend on the order of rows."""
        names = [
            exp.Coalesce(this=exp.column(f"l{i}"), expressions=[literal("\u2205")])
            for i in range(1, len(self.domains) + 1)
        ]
        line: exp.Expr = names[0]
        for name in names[1:]:
            line = exp.DPipe(this=exp.DPipe(this=line, expression=literal("|")), expression=name)
        ordered = exp.select(alias(line, "line")).from_(table(labels))
        lines = exp.GroupConcat(
            this=exp.Order(this=exp.column("line"), expressions=[exp.Ordered(this=exp.column("line"))]),
            separator=literal("\n"),
        )
        tree = exp.select("COUNT(*)", exp.MD5(this=lines)).from_(ordered.subquery(alias="labels"))
        count, digest = self.engine.query(tree)[0]
        return {"count": int(count), "md5": str(digest)}

    def _convex(self, item: Requirement) -> bool:
        """Whether the excess of a class is at most the mean of the excesses of its parts. Shares of persons, who may
        be in several classes, do not add up like that."""
        return bool(item.model.excess) and not self.compressed.person

    def _excess(self, item: Requirement, result: str) -> exp.Expr:
        return excess(item.model.excess, item.params, result)

    def _doomed(self) -> exp.Expr:
        """Rows that any node below must suppress: the excess of all classes together never falls when they are split,
        and a suppressed row takes at most the largest excess with it."""
        sums = [
            exp.Coalesce(this=exp.Sum(this=exp.column(f"lost{place}")), expressions=[literal(0.0)])
            for place, item in enumerate(self.requirements, start=1)
            if self._convex(item)
        ]
        return _any(sums)

    def _flags(self, verdicts: Sequence[exp.Expr]) -> list[exp.Expr]:
        nested = [verdict.copy() for verdict, item in zip(verdicts, self.requirements, strict=True) if item.nested]
        return [alias(_any(verdicts), "broken"), alias(_any(nested), "nested")]

    def class_id(self, masks: Sequence[exp.Expr]) -> exp.Expr:
        """The number of a class: the key without the bits that a node hides; a text where there are two keys."""
        found: list[exp.Expr] = [
            exp.BitwiseAnd(this=exp.column(name), expression=mask.copy())
            for name, mask in zip(self.compressed.key_names, masks, strict=True)
        ]
        return joined(found)

    def _counted(self) -> exp.Expr:
        if self.compressed.person:
            return bigint(exp.Count(this=exp.Distinct(expressions=[exp.column("person")])))
        return summed(exp.column("n"))

    def _grouped(self, key: exp.Expr, source: str, costs: Sequence[exp.Expr], also: Sequence[exp.Expr]) -> exp.Select:
        tree = exp.select(
            alias(key.copy(), "class_id"),
            alias(self._counted(), "records"),
            alias(summed(exp.column("n")), "rows_"),
            *(alias(exp.Sum(this=cost), f"cost{i}") for i, cost in enumerate(costs, start=1)),
            *also,
        ).from_(table(source))
        return tree.group_by(key.copy(), copy=False)

    def _class_values(self, key: exp.Expr, source: str, attribute: str) -> exp.Select:
        value = exp.column(self.compressed.values[attribute])
        tree = exp.select(alias(key.copy(), "class_id"), alias(value, "value"), alias(self._counted(), "records"))
        return tree.from_(table(source)).group_by(key.copy(), value.copy(), copy=False)

    def _class_categories(self, source: str, key: exp.Expr, item: Requirement) -> exp.Select:
        assert item.attribute is not None
        value = exp.column(self.compressed.values[item.attribute])
        known = table(item.relations["value_categories"], alias="known")
        tree = exp.select(alias(key.copy(), "class_id"), "known.category", alias(self._counted(), "records"))
        tree = tree.from_(table(source)).join(known, on=value.eq(exp.column("value", table="known")), copy=False)
        return tree.group_by(key.copy(), "known.category", copy=False)


def problem(
    policy: Policy,
    engine: Engine,
    hierarchies: Mapping[str, Hierarchy],
    rows: exp.Select,
    *,
    carry: Sequence[str] = (),
    deadline: float | None = None,
    progress: Callable[[str, int, int], None] | None = None,
    brings: frozenset[str] = frozenset(),
) -> Problem:
    """Compress the rows of a policy, once, for any number of searches. The caller closes it.

    `carry` names further columns that an algorithm counts, such as a class attribute; they are among
    `compressed.values` then.
    `brings` are relations that the algorithm makes itself, so that it can reach models that others cannot.
    """
    draft = _draft(policy, engine.dialect, hierarchies, rows, carry, brings)
    try:
        run_steps(engine, draft.prelude.steps)
        done = len(draft.prelude.steps)
        placed, keys = laid_out(draft.domains, engine.query(sizes(draft.domains)))
        made = _packed(policy, engine, hierarchies, draft, placed, keys)
        run_steps(engine, draft.prelude.steps[done:])
        counted = exp.select("COALESCE(SUM(n), 0)", "COUNT(*)").from_(table(made.compressed.table))
        records, size = (int(value) for value in engine.query(counted)[0])
    except BaseException:
        drop_steps(engine, draft.prelude.steps)
        raise
    # A share that is a whole number of rows must not lose one to the way that floats are written.
    limit = math.floor(policy.suppression_limit * records + 1e-9)
    return replace(made, records=records, limit=limit, rows=size, deadline=deadline, progress=progress)


def outlined(
    policy: Policy,
    engine: Engine,
    hierarchies: Mapping[str, Hierarchy],
    rows: exp.Select,
    bits: Mapping[str, Sequence[int]],
) -> Problem:
    """The same on paper: all tables planned, none made, with the bits that a plan gives each quasi-identifier."""
    draft = _draft(policy, engine.dialect, hierarchies, rows, ())
    placed = tuple(with_bits(domain, bits[domain.name], leaves=1) for domain in draft.domains)
    return _packed(policy, engine, hierarchies, draft, placed, 1 + max(domain.key for domain in placed))


@dataclass(frozen=True)
class _Draft:
    """What is planned before the number of values of each quasi-identifier is known."""

    uses: list[tuple[ModelUse, str | None]]
    prelude: Prelude
    grouping: Grouping
    attributes: list[str]
    combined: str
    domains: list[Domain]


def _draft(
    policy: Policy,
    dialect: str,
    hierarchies: Mapping[str, Hierarchy],
    rows: exp.Select,
    carry: Sequence[str],
    brings: frozenset[str] = frozenset(),
) -> _Draft:
    uses = [
        (use, attribute)
        for use in policy.models
        for attribute in (_attributes(policy, use) if "sensitive" in plugin("models", use.name).needs else [None])
    ]
    _require_searchable(policy, [use for use, _ in uses], brings)
    prelude = Prelude(rows, dialect, prefix="sqlanon_search")
    attributes = list(dict.fromkeys([*(attribute for _, attribute in uses if attribute is not None), *carry]))
    grouping = Grouping(policy.quasi_identifiers, person=policy.person)
    made = combinations_of_rows(prelude, grouping, attributes)
    domains = [
        Domain(name, f"c{i}", hierarchies[name], dictionary(prelude, made, name, f"c{i}", hierarchies[name]))
        for i, name in enumerate(policy.quasi_identifiers, start=1)
    ]
    return _Draft(uses, prelude, grouping, attributes, made, domains)


def _packed(
    policy: Policy,
    engine: Engine,
    hierarchies: Mapping[str, Hierarchy],
    draft: _Draft,
    placed: Sequence[Domain],
    keys: int,
) -> Problem:
    packed = compressed(draft.prelude, draft.combined, placed, keys, draft.grouping, draft.attributes)
    requirements = tuple(_requirement(policy, draft.prelude, hierarchies, draft.grouping, *item) for item in draft.uses)
    made = Problem(policy, engine, hierarchies, draft.prelude, packed, requirements, 0, 0, 0, source=packed.table)
    made.skip()
    return made


def _attributes(policy: Policy, use: ModelUse) -> list[str]:
    return [use.attribute] if use.attribute else list(policy.sensitive)


def _require_searchable(policy: Policy, uses: Sequence[ModelUse], brings: frozenset[str]) -> None:
    every = set(policy.quasi_identifiers)
    for use in uses:
        model = plugin("models", use.name)
        needed = referenced(model.sql) - SEARCHED - brings
        counts = model.counts and (model.counts != "rows" or policy.person is not None)
        sets = [use.qid] if isinstance(use.qid, tuple) else [policy.qid_sets()[use.qid]] if use.qid else []
        if needed or model.classes or counts or any(set(columns) != every for columns in sets):
            raise PolicyError(
                f"a search cannot reach {use.name} yet",
                hint="publish for the other models, and check this one with 'sqlanon check'",
            )
    if policy.nulls == "unique":
        raise PolicyError("a search needs 'nulls: value'", hint="fill NULLs, or leave such rows out with 'query:'")
    if any(set(columns) != every for columns in policy.qid_sets(drop_contained=True).values()):
        raise PolicyError(
            "a search needs one quasi-identifier that holds all the others",
            hint="leave out 'qids:', so that all quasi-identifiers count together",
        )


def _requirement(
    policy: Policy,
    prelude: Prelude,
    hierarchies: Mapping[str, Hierarchy],
    grouping: Grouping,
    use: ModelUse,
    attribute: str | None,
) -> Requirement:
    model = plugin("models", use.name)
    relations: dict[str, str] = {}
    if attribute is not None:
        relations["totals"] = totals(prelude, grouping, attribute, numeric="numeric" in model.needs)
        if "taxonomy" in referenced(model.sql):
            relations["taxonomy"] = taxonomy(prelude, grouping, attribute, hierarchies[attribute])
    compiler = Compiler(policy, hierarchies, prelude.dialect, policy.source, shared=prelude)
    compiler.parameter_relations(model, model.filled(use.params), relations)
    if "class_categories" in referenced(model.sql):
        relations["value_categories"] = _value_categories(prelude, relations["totals"], relations["weights"])
    # Without suppression a broken class makes the whole node fail, and what is below a node that fails fails too.
    growing = ALSO_SUPPRESSED in model.monotone or (policy.suppression_limit == 0 and model.monotone.startswith("yes"))
    if policy.person is not None:
        growing = ALSO_SUPPRESSED in model.monotone
    return Requirement(use, model, attribute, relations, growing)


def _value_categories(prelude: Prelude, values: str, weights: str) -> str:
    same = exp.NullSafeEQ(this=exp.column("label", table="w"), expression=exp.column("label", table="t"))
    category = exp.Coalesce(this=exp.column("category", table="w"), expressions=[literal(0)])
    tree = exp.select("t.value", alias(category, "category")).from_(table(values, alias="t"))
    joined = tree.join(table(weights, alias="w"), on=same, join_type="left")
    return prelude.once("value_categories", (values, weights), lambda: joined)


def _bits(own: exp.Expr, whole: exp.Expr) -> exp.Expr:
    ratio = exp.Div(this=whole, expression=own)
    return exp.Div(this=exp.Mul(this=own.copy(), expression=exp.Ln(this=ratio)), expression=exp.Ln(this=literal(2.0)))


def _parameter(number: int, kind: exp.DataType) -> exp.Expr:
    return exp.Cast(this=exp.Parameter(this=exp.Literal.number(number)), to=kind.copy())


def _values_name(attribute: str, used: Mapping[str, None]) -> str:
    return f"class_values_{list(used).index(attribute) + 1}"


def joined(keys: Sequence[exp.Expr]) -> exp.Expr:
    """One number for several keys: the only key itself, else a text of all."""
    if len(keys) == 1:
        return keys[0]
    tree = text(keys[0])
    for item in keys[1:]:
        tree = exp.DPipe(this=exp.DPipe(this=tree, expression=literal("/")), expression=text(item))
    return tree


def _any(flags: Sequence[exp.Expr]) -> exp.Expr:
    if not flags:
        return literal(0)
    return flags[0] if len(flags) == 1 else exp.func("GREATEST", *flags)


def _rows_where(flag: str, rows: exp.Expr) -> exp.Expr:
    return summed(case((exp.column(flag).eq(1), rows), default=literal(0)))


def _with(tree: exp.Select, parts: Sequence[tuple[str, exp.Query]]) -> exp.Select:
    for name, query in parts:
        tree = tree.with_(name, as_=query, copy=False)
    return tree

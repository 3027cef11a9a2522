"""What an algorithm is given: the compressed table, and a way to measure nodes of the lattice on it."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sqlglot import exp

from sqlanon.algorithms._metrics import (
    AverageSize,
    Known,
    Linear,
    Measured,
    Metric,
    Node,
    Squares,
    _separable,
    named,
)
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
)
from sqlanon.compiler.lookups import taxonomy
from sqlanon.compiler.tree import (
    BIGINT,
    DOUBLE,
    alias,
    bigint,
    bind,
    case,
    double,
    inline_verdict,
    literal,
    referenced,
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
            found = self.engine.query(exp.select(*sums).from_(table(self.compressed.table)))[0] if sums else ()
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
                return Squares(self.shape, self.records, penalty=name == "discernibility")
            case "aecs" | "c_avg":
                asked = max((use.params["k"] for use in self.policy.models if "k" in use.params), default=1)
                return AverageSize(self.shape, self.records, self.limit, int(asked), name == "aecs")
            case "non_uniform_entropy":
                return Known(_separable(self.shape, self._entropies()), sql=plugin("loss", name).sql)
            case "kl_divergence":
                return Known(np.zeros(self.shape), sql=plugin("loss", name).sql)
            case "height":
                return Known(np.indices(self.shape).sum(axis=0).astype(float))
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
        if missing:
            ask = self._statement(metric, len(missing))
            numbers: list[int | float] = []
            for node in missing:
                numbers += [*self.compressed.masks(node), *metric.numbers(node)]
            for place, suppressed, nested, *parts in ask(numbers):
                node = missing[int(place)]
                own = tuple(float(part or 0) for part in parts)
                gone = int(suppressed or 0)
                self.measured[node] = Measured(node, gone, int(nested or 0), self._loss(node, gone, own, metric), own)
        return [self.measured[node] for node in nodes]

    def _loss(self, node: Node, suppressed: int, parts: tuple[float, ...], metric: Metric) -> float:
        own = isinstance(metric, Known) and metric.sql is not None
        if own and 0 < suppressed <= self.limit and suppressed < self.records:
            return self._own_loss(node, metric)
        return metric.loss(node, suppressed, parts)

    def _own_loss(self, node: Node, metric: Metric) -> float:
        """The loss by the metric's own `.sql` file, over the relations that it reads."""
        assert isinstance(metric, Known) and metric.sql is not None
        masks = [literal(mask) for mask in self.compressed.masks(node)]
        classes, parts = self.classes(masks)
        same = self.class_id(masks).eq(exp.column("class_id", table="k"))
        kept = exp.Sub(this=literal(1), expression=exp.column("broken", table="k"))
        cells = exp.select("c.*", alias(kept, "kept"), "k.class_id").from_(table(self.compressed.table, alias="c"))
        parts.append(("node_cells", cells.join(f"{classes} AS k", on=same)))
        made = {name: f"node_{name}" for name in referenced(metric.sql)}
        for name in made:
            parts.append((made[name], RECODED[name](self, node)))
        whole = exp.select("loss").from_(bind(metric.sql, {}, made).subquery(alias="metric"))
        found = self.engine.query(_with(whole, parts))[0][0]
        return math.inf if found is None else float(found)

    def holds(self, measured: Measured) -> bool:
        return measured.suppressed <= self.limit and measured.suppressed < self.records

    def _statement(self, metric: Metric, nodes: int) -> Callable[[Sequence[int | float]], list[tuple[Any, ...]]]:
        """The statement that measures some nodes: its shape is the same for all, masks and costs are parameters."""
        key = (id(metric), self.source, nodes)
        if key not in self._statements:
            numbers = itertools.count(1)
            branches = [self._branch(place, metric, numbers) for place in range(nodes)]
            self._statements[key] = self.engine.prepared(union_all(branches))
        return self._statements[key]

    def _branch(self, place: int, metric: Metric, numbers: Iterator[int]) -> exp.Select:
        masks = [_parameter(next(numbers), BIGINT) for _ in range(self.compressed.keys)]
        costs = metric.costs(lambda: _parameter(next(numbers), DOUBLE))
        classes, parts = self.classes(masks, costs)
        rows = exp.column("rows_")
        tree = exp.select(
            alias(literal(place), "place"),
            alias(_rows_where("broken", rows), "suppressed"),
            alias(_rows_where("nested", rows.copy()), "nested"),
            *named(metric.aggregates(), "part"),
        )
        return exp.select("*").from_(_with(tree.from_(classes), parts).subquery(alias=f"node_{place}"), copy=False)

    def classes(
        self, masks: Sequence[exp.Expr], costs: Sequence[exp.Expr] = ()
    ) -> tuple[str, list[tuple[str, exp.Query]]]:
        """The classes of a node as (class_id, records, rows_, cost1, …, broken, nested): a name, and its CTEs."""
        return self.classes_of(self.source, self.class_id(masks), costs)

    def classes_of(
        self,
        source: str,
        key: exp.Expr,
        costs: Sequence[exp.Expr] = (),
        brought: Mapping[str, str] | None = None,
    ) -> tuple[str, list[tuple[str, exp.Query]]]:
        """The same for any relation with v1, …, person and n, whose rows `key` puts into classes; `brought` names
        relations over these classes that only the algorithm can make."""
        inlined = [inline_verdict(item.model.sql, item.params) for item in self.requirements]
        if all(verdict is not None for verdict in inlined):
            verdicts = [verdict for verdict in inlined if verdict is not None]
            grouped = self._grouped(source, key, costs).subquery(alias="grouped")
            tree = exp.select("*", *self._flags(verdicts)).from_(grouped, copy=False)
            return "node_classes", [("node_classes", tree)]
        parts: list[tuple[str, exp.Query]] = [("class_sizes", self._grouped(source, key, costs))]
        used = dict.fromkeys(item.attribute for item in self.requirements if item.attribute is not None)
        parts += [(_values_name(name, used), self._class_values(source, key, name)) for name in used]
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
        tree = tree.select(*self._flags(verdicts))
        return "node_classes", [*parts, ("node_classes", tree)]

    def _flags(self, verdicts: Sequence[exp.Expr]) -> list[exp.Expr]:
        nested = [verdict.copy() for verdict, item in zip(verdicts, self.requirements, strict=True) if item.nested]
        return [alias(_any(verdicts), "broken"), alias(_any(nested), "nested")]

    def class_id(self, masks: Sequence[exp.Expr]) -> exp.Expr:
        """The number of a class: the key without the bits that a node hides; a text where there are two keys."""
        found: list[exp.Expr] = [
            exp.BitwiseAnd(this=exp.column(name), expression=mask.copy())
            for name, mask in zip(self.compressed.key_names, masks, strict=True)
        ]
        if len(found) == 1:
            return found[0]
        tree = text(found[0])
        for item in found[1:]:
            tree = exp.DPipe(this=exp.DPipe(this=tree, expression=literal("/")), expression=text(item))
        return tree

    def _counted(self) -> exp.Expr:
        if self.compressed.person:
            return bigint(exp.Count(this=exp.Distinct(expressions=[exp.column("person")])))
        return summed(exp.column("n"))

    def _grouped(self, source: str, key: exp.Expr, costs: Sequence[exp.Expr]) -> exp.Select:
        tree = exp.select(
            alias(key.copy(), "class_id"),
            alias(self._counted(), "records"),
            alias(summed(exp.column("n")), "rows_"),
            *(alias(exp.Sum(this=cost), f"cost{i}") for i, cost in enumerate(costs, start=1)),
        ).from_(table(source))
        return tree.group_by(key.copy(), copy=False)

    def _class_values(self, source: str, key: exp.Expr, attribute: str) -> exp.Select:
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
    deadline: float | None = None,
    progress: Callable[[str, int, int], None] | None = None,
    brings: frozenset[str] = frozenset(),
) -> Problem:
    """Compress the rows of a policy, once, for any number of searches. The caller closes it.

    `brings` are relations that the algorithm makes itself, so that it can reach models that others cannot.
    """
    uses = [
        (use, attribute)
        for use in policy.models
        for attribute in (_attributes(policy, use) if "sensitive" in plugin("models", use.name).needs else [None])
    ]
    _require_searchable(policy, [use for use, _ in uses], brings)
    prelude = Prelude(rows, engine.dialect)
    attributes = list(dict.fromkeys(attribute for _, attribute in uses if attribute is not None))
    grouping = Grouping(policy.quasi_identifiers, person=policy.person)
    made = combinations_of_rows(prelude, grouping, attributes)
    domains = [
        Domain(name, f"c{i}", hierarchies[name], dictionary(prelude, made, name, f"c{i}", hierarchies[name]))
        for i, name in enumerate(policy.quasi_identifiers, start=1)
    ]
    try:
        run_steps(engine, prelude.steps)
        done = len(prelude.steps)
        placed, keys = laid_out(domains, engine.query(sizes(domains)))
        packed = compressed(prelude, made, placed, keys, grouping, attributes)
        requirements = tuple(_requirement(policy, prelude, hierarchies, grouping, *item) for item in uses)
        run_steps(engine, prelude.steps[done:])
        counted = exp.select("COALESCE(SUM(n), 0)", "COUNT(*)").from_(table(packed.table))
        records, size = (int(value) for value in engine.query(counted)[0])
    except BaseException:
        drop_steps(engine, prelude.steps)
        raise
    # A share that is a whole number of rows must not lose one to the way that floats are written.
    limit = math.floor(policy.suppression_limit * records + 1e-9)
    return Problem(
        policy,
        engine,
        hierarchies,
        prelude,
        packed,
        requirements,
        records,
        limit,
        size,
        deadline,
        progress,
        source=packed.table,
        _done=len(prelude.steps),
    )


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


def _recoded_values(problem: Problem, node: Node) -> exp.Query:
    parts = []
    for place, (domain, level) in enumerate(zip(problem.domains, node, strict=True), start=1):
        key = exp.column(problem.compressed.key_names[domain.key])
        value = exp.BitwiseAnd(this=key, expression=literal(domain.masks[0]))
        label = exp.BitwiseAnd(this=key.copy(), expression=literal(domain.masks[level]))
        tree = exp.select(
            alias(literal(place), "attribute"),
            alias(value, "value"),
            alias(label, "label"),
            "kept",
            alias(summed(exp.column("n")), "records"),
        ).from_("node_cells")
        parts.append(tree.group_by(value.copy(), label.copy(), "kept"))
    return union_all(parts)


RECODED: dict[str, Callable[[Problem, Node], exp.Query]] = {"recoded_values": _recoded_values}


def _parameter(number: int, kind: exp.DataType) -> exp.Expr:
    return exp.Cast(this=exp.Parameter(this=exp.Literal.number(number)), to=kind.copy())


def _values_name(attribute: str, used: Mapping[str, None]) -> str:
    return f"class_values_{list(used).index(attribute) + 1}"


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

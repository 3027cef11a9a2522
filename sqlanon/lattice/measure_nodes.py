"""The statements that measure nodes of the lattice, with masks and costs as their parameters."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from sqlglot import exp

from sqlanon.lattice.class_queries import ClassQueries, rows_where, with_parts
from sqlanon.sqltree.tree import (
    BIGINT,
    DOUBLE,
    alias,
    double,
    inline_verdict,
    literal,
    nest_query,
    select,
    sum_bigint,
    table,
    union_all,
    window,
)

if TYPE_CHECKING:
    from sqlanon.lattice.metrics import Metric  # loads numpy, which is for searches alone


def cross_nodes(queries: ClassQueries, source: str, metric: Metric, nodes: int) -> exp.Query:
    """All nodes in one GROUP BY, each row of a small table meeting each node: half the time of node after node."""
    numbers, taken = itertools.count(1), itertools.count(1)
    costs = metric.costs(lambda: exp.column(f"c{next(taken)}", table="nodes"))
    weights, keys = next(taken) - 1, queries.compressed.keys
    masks = [f"m{i}" for i in range(1, keys + 1)]
    names = ["place", *masks, *(f"c{i}" for i in range(1, weights + 1))]
    kinds = [BIGINT] * keys + [DOUBLE] * weights
    # The types of the first row are those of all.
    rows = [
        (literal(place), *(_parameter(next(numbers), None if place else kind) for kind in kinds))
        for place in range(nodes)
    ]
    place = exp.column("place", table="nodes")
    key = queries.class_id([exp.column(mask, table="nodes") for mask in masks])
    grouped = queries.grouped(key, source, costs, [place])
    grouped.append("joins", exp.Join(this=exp.values(rows, alias="nodes", columns=names), kind="CROSS"))
    grouped.args["group"].append("expressions", place.copy())
    verdicts = [inline_verdict(item.model.sql, item.params) for item in queries.requirements.models]
    flags = queries.flags([verdict for verdict in verdicts if verdict is not None])
    classes = select(exp.Star(), *flags, source=nest_query(grouped, "grouped"))
    return select("place", *sums(queries, metric), source=nest_query(classes, "classes"), groups=["place"])


def in_turn(queries: ClassQueries, source: str, metric: Metric, nodes: int) -> exp.Query:
    """One node after the other."""
    numbers = itertools.count(1)
    return union_all([_branch(queries, source, place, metric, numbers) for place in range(nodes)])


def _branch(queries: ClassQueries, source: str, place: int, metric: Metric, numbers: Iterator[int]) -> exp.Select:
    masks = [_parameter(next(numbers), BIGINT) for _ in queries.node_masks(queries.table.top)]
    costs = metric.costs(lambda: _parameter(next(numbers), DOUBLE))
    classes, parts = queries.classes(masks, source, costs)
    tree = exp.select(alias(literal(place), "place"), *sums(queries, metric))
    if len(parts) == 1:  # a CTE would be written to memory before it is read
        return tree.from_(parts[0][1].subquery(alias=classes, copy=False), copy=False)
    return exp.select("*").from_(with_parts(tree.from_(classes), parts).subquery(alias=f"node_{place}"), copy=False)


def hidden_labels(queries: ClassQueries, source: str) -> exp.Query:
    """For each quasi-identifier (attribute, rows_, weighed): the suppressed rows n of each label, added up, and n ln n
    added up. Parameters are the masks of a node, then those of its labels."""
    numbers = itertools.count(1)
    masks: list[exp.Expr] = [_parameter(next(numbers), BIGINT) for _ in queries.node_masks(queries.table.top)]
    key = queries.class_id(masks)
    labels = []
    for place, domain in enumerate(queries.table.domains, start=1):
        own = exp.column(queries.compressed.key_names[domain.key])
        label = exp.BitwiseAnd(this=own, expression=_parameter(next(numbers), BIGINT))
        labels.append(alias(exp.Min(this=label), f"y{place}"))
    brought = queries.class_population(key)
    classes, parts = queries.classes_by(key, source, also=labels, brought=brought, masks=masks)
    names = [f"y{place}" for place in range(1, len(labels) + 1)]
    lost = exp.select("rows_", *names).from_(classes).where(exp.column("broken").eq(1))
    rows = sum_bigint(exp.column("rows_"))
    counted = union_all(
        [
            select(alias(literal(place), "attribute"), alias(rows.copy(), "n"), source=table("lost"), groups=[name])
            for place, name in enumerate(names, start=1)
        ]
    )
    n = double(exp.column("n"))
    weighed = exp.Sum(this=exp.Mul(this=n, expression=exp.Ln(this=n.copy())))
    chosen: list[exp.Expr | str] = ["attribute", alias(sum_bigint(exp.column("n")), "rows_"), alias(weighed, "weighed")]
    tree = select(*chosen, source=nest_query(counted, "counted"), groups=["attribute"])
    return with_parts(tree, [*parts, ("lost", lost)])


def tuple_nats(queries: ClassQueries) -> exp.Query:
    """The compressed table with `nats`: n ln t for each row, where t rows are alike on all quasi-identifiers."""
    keys = [exp.column(name) for name in queries.compressed.key_names]
    alike = double(window(exp.Sum(this=exp.column("n")), partition=keys))
    nats = exp.Mul(this=double(exp.column("n")), expression=exp.Ln(this=alike))
    return exp.select("*", alias(nats, "nats")).from_(table(queries.compressed.table))


def inner_levels(queries: ClassQueries) -> list[tuple[int, int]]:
    """(attribute, level) of the columns of the compressed table that hold numbers of leaves."""
    return [(axis, level) for axis, domain in enumerate(queries.table.domains) for level in range(1, domain.height)]


def divergence_sums(queries: ClassQueries, source: str) -> exp.Query:
    """(rows_, nats) of the released rows: nats are the sums of `tuple_nats`, and n ln(area / size of the class) but for
    attributes at the root. Parameters are the masks of a node, and 1 for each of its `inner_levels`, else 0."""
    numbers = itertools.count(1)
    masks: list[exp.Expr] = [_parameter(next(numbers), BIGINT) for _ in queries.node_masks(queries.table.top)]
    key = queries.class_id(masks)
    nats: exp.Expr = exp.column("nats")
    for axis, level in inner_levels(queries):
        leaves = exp.Ln(this=exp.column(f"f{axis + 1}_{level}"))
        shown = exp.Mul(this=leaves, expression=_parameter(next(numbers), DOUBLE))
        nats = exp.Add(this=nats, expression=exp.Mul(this=double(exp.column("n")), expression=shown))
    brought = queries.class_population(key)
    classes, parts = queries.classes_by(key, source, [nats], brought=brought, masks=masks)
    size = double(exp.column("rows_"))
    spread = exp.Sub(this=exp.column("cost1"), expression=exp.Mul(this=size, expression=exp.Ln(this=size.copy())))
    tree = exp.select(alias(sum_bigint(exp.column("rows_")), "rows_"), alias(exp.Sum(this=spread), "nats"))
    return with_parts(tree.from_(classes).where(exp.column("broken").eq(0)), parts)


def sums(queries: ClassQueries, metric: Metric) -> list[exp.Expr]:
    """What is added up over the classes of a node."""
    rows = exp.column("rows_")
    return [
        alias(rows_where("broken", rows), "suppressed"),
        alias(rows_where("nested", rows.copy()), "nested"),
        alias(queries.doomed(), "doomed"),
        *_named(metric.aggregates(), "part"),
    ]


def _parameter(number: int, kind: exp.DataType | None) -> exp.Expr:
    mark = exp.Parameter(this=exp.Literal.number(number))
    return mark if kind is None else exp.Cast(this=mark, to=kind.copy())


def _named(parts: Sequence[exp.Expr], prefix: str) -> list[exp.Expr]:
    return [alias(part, f"{prefix}{i}") for i, part in enumerate(parts, start=1)]

"""What the regions of a partition are called, and what the labels cost.

A range of numbers, dates or text is `[20, 29]`, both ends included, in the order of the database. A range of a lookup
is the node that has exactly these leaves, or the nodes and leaves that make it up, in braces: `{France, Asia}`; a
lookup whose leaves are numbers in order is a range of numbers. A single value is itself, and NULL alone is NULL; NULL
among others is told: `{NULL, [20, 29]}`. Inside brackets and braces a name that holds one of `,"[]{}`, is empty, begins
or ends with a blank or reads NULL is put in double quotes. As nodes, the label is the lowest node that covers the
range, and the root where NULL is among the values.
"""

from __future__ import annotations

from sqlglot import exp

from sqlanon.errors import PolicyError
from sqlanon.lattice.problem import Problem
from sqlanon.lattice.solution import Regions, Solution
from sqlanon.regions.partition import Parts
from sqlanon.regions.value_orders import Order
from sqlanon.sqltree.tree import alias, bigint, case, count_all, double, literal, sum_bigint, table, text

NEEDS_QUOTES = r'[][{},"]|^ | $|^NULL$|^$'


def solution(problem: Problem, parts: Parts, *, ranges: bool, split: bool, why: str) -> Solution:
    """Label the regions and measure their loss."""
    labels = labels_of(problem, parts, ranges=ranges)
    members = _parted_members(problem, parts) if split else parts.members
    _require_distinct(problem, parts, labels, members)
    return Solution(
        loss=loss_of(problem, parts, labels),
        suppressed=parts.left_out,
        why=why,
        regions=Regions(members, labels, split=split, cuts=parts.cuts),
        checks=parts.rounds,
    )


def labels_of(problem: Problem, parts: Parts, *, ranges: bool) -> str:
    """The table of labels of the regions, as `Regions` has it."""
    names = [_named(problem, parts, i, ranges) for i in range(1, len(parts.orders) + 1)]
    labels = problem.prelude.once("labels", (parts.regions, ranges), lambda: _labels(parts, names))
    problem.run()
    problem.engine.drop_temporary(names)
    return labels


def _named(problem: Problem, parts: Parts, number: int, ranges: bool) -> str:
    order = parts.orders[number - 1]
    key = (parts.regions, ranges, number)
    return problem.prelude.once("range_names", key, lambda: _names(order, parts.regions, number, ranges))


def _parted_members(problem: Problem, parts: Parts) -> str:
    """The members with the numbers of the first and the last of the rows that are alike."""
    numbers = [alias(bigint(exp.column(f"{name}_")), name) for name in ("first", "last")]
    tree = exp.select(*problem.compressed.key_names, "region", *numbers).from_(table(parts.members))
    made = problem.prelude.once("members", (parts.members,), lambda: tree)
    problem.run()
    problem.engine.drop_temporary([parts.members])
    return made


def _labels(parts: Parts, names: list[str]) -> exp.Select:
    tree = exp.select("r.region").from_(table(parts.regions, alias="r"))
    for i, made in enumerate(names, start=1):
        name = f"t{i}"
        same = [exp.column(f"{end}{i}", table="r").eq(exp.column(end, table=name)) for end in ("lo", "hi")]
        tree = tree.join(table(made, alias=name), on=exp.and_(*same))
        tree = tree.select(alias(exp.column("label", table=name), f"l{i}"))
    return tree.select(*(alias(exp.column("leaves", table=f"t{i}"), f"f{i}") for i in range(1, len(names) + 1)))


def loss_of(problem: Problem, parts: Parts, labels: str) -> float:
    """The normalized certainty penalty, as sql/loss/ncp.sql."""
    same = exp.column("region", table="l").eq(exp.column("region", table="r"))
    whole = sum(order.weight for order in parts.orders)
    sums = [
        exp.Sum(
            this=exp.Mul(
                this=exp.column("rows_", table="r"),
                expression=exp.paren(exp.Sub(this=exp.column(f"f{i}", table="l"), expression=literal(1))),
            )
        )
        for i in range(1, len(parts.orders) + 1)
    ]
    tree = exp.select(*sums).from_(table(parts.regions, alias="r")).join(table(labels, alias="l"), on=same)
    found = problem.engine.query(tree)[0]
    steps = zip(parts.orders, found, strict=True)
    return sum(order.step * float(value or 0) for order, value in steps) / problem.records / whole


def _require_distinct(problem: Problem, parts: Parts, labels: str, members: str) -> None:
    """Regions with equal labels are one class of the release. That is harmless where models hold on in unions; for
    the others the classes of the release are measured, and a partition that cannot be told apart is refused."""
    persons = problem.compressed.person
    growing = ["also under record suppression" in item.model.monotone if persons else
               item.model.monotone.startswith("yes") and "unless" not in item.model.monotone
               for item in problem.requirements.models]  # fmt: skip
    if all(growing):
        return
    shown = [f"l{i}" for i in range(1, len(parts.orders) + 1)]
    different = exp.select(*shown).distinct().from_(table(labels)).subquery(alias="different")
    counts = [
        exp.select(count_all()).from_(different).subquery(),
        exp.select(count_all()).from_(table(labels)).subquery(),
    ]
    distinct, every = problem.engine.query(exp.select(*counts))[0]
    if distinct == every:
        return
    first = exp.Window(this=exp.Min(this=exp.column("region")), partition_by=[exp.column(name) for name in shown])
    united = exp.select("region", alias(first, "class_")).from_(table(labels))
    keys = exp.and_(
        *(exp.column(key, table="c").eq(exp.column(key, table="m")) for key in problem.compressed.key_names)
    )
    same = exp.column("region", table="m").eq(exp.column("region", table="u"))
    rows = exp.select("c.*", "u.class_").from_(table(problem.compressed.table, alias="c"))
    rows = rows.join(table(members, alias="m"), on=keys).join(united.subquery(alias="u"), on=same)
    made = problem.prelude.once("united", (labels,), lambda: rows)
    problem.run()
    classes, ctes = problem.classes_by(exp.column("class_"), made)
    tree = exp.select(count_all()).from_(classes).where(exp.column("broken").neq(0))
    for name, query in ctes:
        tree = tree.with_(name, as_=query, copy=False)
    if problem.engine.query(tree)[0][0]:
        raise PolicyError(
            "regions with the same labels together break a model that does not hold on in unions",
            hint="ask for 'ranges: true', whose labels tell regions apart, or for another model",
        )


# Names ------------------------------------------------------------------------------------------------------------


def _names(order: Order, regions: str, number: int, ranges: bool) -> exp.Select:
    """(lo, hi, label, leaves) of the ranges that occur."""
    lo, hi = exp.column("lo", table="r"), exp.column("hi", table="r")
    pairs = exp.select(alias(exp.column(f"lo{number}"), "lo"), alias(exp.column(f"hi{number}"), "hi")).distinct()
    pairs = pairs.from_(table(regions))
    start = exp.func("GREATEST", lo.copy(), literal(1))
    tree = exp.select(alias(lo, "lo"), alias(hi, "hi")).from_(pairs.copy().subquery(alias="r"))
    tree = tree.join(table(order.places, alias="a"), on=exp.column("at_", table="a").eq(start), join_type="left")
    tree = tree.join(table(order.places, alias="b"), on=exp.column("at_", table="b").eq(hi.copy()), join_type="left")
    label, leaves = _as_range(order) if ranges else _as_node(order)
    if ranges and order.listed:
        spelt = _spelt(order, pairs).subquery(alias="p")
        same = exp.and_(*(exp.column(end, table="p").eq(exp.column(end, table="r")) for end in ("lo", "hi")))
        tree = tree.join(spelt, on=same, join_type="left")
    return tree.select(alias(text(label), "label"), alias(double(leaves), "leaves"))


def _as_node(order: Order) -> tuple[exp.Expr, exp.Expr]:
    lo, hi = exp.column("lo", table="r"), exp.column("hi", table="r")
    alone = lo.eq(hi)
    mixed = exp.and_(lo.copy().eq(0), hi.copy() > 0)
    labels = [(alone, exp.column("value", table="a")), (mixed, literal(order.domain.hierarchy.root))]
    # NULL alone has no place, and so no value.
    labels[0] = (alone, case((hi.copy().eq(0), exp.Null()), default=exp.column("value", table="a")))
    leaves: list[tuple[exp.Expr, exp.Expr]] = [(alone.copy(), literal(1)), (mixed.copy(), literal(order.leaves))]
    for level in range(1, order.domain.height):
        start, end, count = (exp.column(f"{name}{level}", table="a") for name in "sef")
        # Places of a computed hierarchy follow the values: a node whose leaves lie scattered covers no range.
        side_by_side = exp.Sub(this=end, expression=start).eq(exp.Sub(this=count, expression=literal(1)))
        covers = exp.and_(end.copy() >= hi.copy(), side_by_side)
        labels.append((covers, exp.column(f"n{level}", table="a")))
        leaves.append((covers.copy(), count.copy()))
    return (
        case(*labels, default=literal(order.domain.hierarchy.root)),
        case(*leaves, default=literal(order.leaves)),
    )


def _as_range(order: Order) -> tuple[exp.Expr, exp.Expr]:
    lo, hi = exp.column("lo", table="r"), exp.column("hi", table="r")
    only_null, alone = hi.eq(0), lo.eq(hi)
    value, end = exp.column("value", table="a"), exp.column("value", table="b")
    whole: list[tuple[exp.Expr, exp.Expr]] = []
    if order.listed:
        everything = exp.and_(lo.copy() <= 1, hi.copy().eq(order.leaves))
        whole = [(everything, literal(order.domain.hierarchy.root))]
    with_null = exp.and_(lo.copy().eq(0), hi.copy().eq(1))
    both = _joined("{NULL, ", _quoted(value.copy()), "}")
    if order.listed:
        inner: exp.Expr = exp.column("spelt", table="p")
        # One part is a node that is shown as it is; several stand in braces, NULL first.
        plain = case(
            (exp.column("parts", table="p").eq(1), exp.column("plain", table="p")), default=_joined("{", inner, "}")
        )
        nulls = _joined("{NULL, ", inner.copy(), "}")
    else:
        plain = _joined("[", _quoted(value.copy()), ", ", _quoted(end), "]")
        nulls = _joined("{NULL, ", plain.copy(), "}")
    mixed = exp.and_(lo.copy().eq(0), hi.copy() > 0)
    label = case((only_null, exp.Null()), (alone, value), *whole, (with_null, both), (mixed, nulls), default=plain)
    count = exp.Add(this=exp.Sub(this=hi.copy(), expression=lo.copy()), expression=literal(1))
    leaves = case((only_null.copy(), literal(1)), default=exp.func("LEAST", count, literal(max(order.leaves, 1))))
    return label, leaves


def _spelt(order: Order, pairs: exp.Select) -> exp.Select:
    """(lo, hi, spelt, plain, parts): the largest nodes that make up a range, in their order."""
    at, lo, hi = exp.column("at_", table="a"), exp.column("lo", table="q"), exp.column("hi", table="q")
    start = exp.func("GREATEST", lo, literal(1))
    node: list[tuple[exp.Expr, exp.Expr]] = []
    first: list[tuple[exp.Expr, exp.Expr]] = []
    for level in reversed(range(1, order.domain.height)):
        begin, end = exp.column(f"s{level}", table="a"), exp.column(f"e{level}", table="a")
        inside = exp.and_(begin >= start.copy(), end <= hi.copy())
        node.append((inside, exp.column(f"n{level}", table="a")))
        first.append((inside.copy(), begin.copy()))
    value = exp.column("value", table="a")
    entry = case(*node, default=value) if node else value
    begins = case(*first, default=at.copy()) if first else at.copy()
    within = exp.and_(at.copy() >= start.copy(), at.copy() <= hi.copy())
    rows = exp.select("q.lo", "q.hi", alias(at, "at_"), alias(entry, "entry"), alias(begins, "begins"))
    rows = rows.from_(pairs.subquery(alias="q")).join(table(order.places, alias="a"), on=within)
    rows = rows.where(exp.and_(hi.copy() > start.copy(), hi.copy() > lo.copy()))
    shown = exp.select("lo", "hi", "at_", "entry", alias(_quoted(exp.column("entry")), "named"))
    shown = shown.from_(rows.subquery(alias="rows_")).where(exp.column("begins").eq(exp.column("at_")))
    by_place = exp.Order(this=exp.column("named"), expressions=[exp.Ordered(this=exp.column("at_"), nulls_first=True)])
    listed = exp.GroupConcat(this=by_place, separator=literal(", "))
    tree = exp.select("lo", "hi", alias(listed, "spelt"), alias(exp.Min(this=exp.column("entry")), "plain"))
    tree = tree.select(alias(sum_bigint(literal(1)), "parts")).from_(shown.subquery(alias="shown"))
    return tree.group_by("lo", "hi")


def _quoted(value: exp.Expr) -> exp.Expr:
    doubled = exp.func("REPLACE", value.copy(), literal('"'), literal('""'))
    odd = exp.RegexpLike(this=value, expression=literal(NEEDS_QUOTES))
    return case((odd, _joined('"', doubled, '"')), default=value.copy())


def _joined(*parts: exp.Expr | str) -> exp.Expr:
    pieces = [literal(part) if isinstance(part, str) else part.copy() for part in parts]
    tree = pieces[0]
    for piece in pieces[1:]:
        tree = exp.DPipe(this=tree, expression=piece)
    return tree

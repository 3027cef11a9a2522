"""The cut of a region that saves most: statements over work and state tables (see `partition`).

The dimensions of a region that are about as wide as its widest are looked at. Each of them names one cut: the one after
which the ranges on this dimension, summed over the rows, are shortest. The cuts of the dimensions that save most by
themselves are then compared by the certainty penalty of their halves on all dimensions. To measure all dimensions for
all cuts would cost several times as much, and save little more.

Cuts that look at nothing but the penalty are uneven. Two kinds of regions are cut at the median of their widest
dimension instead: large ones, where it matters little, and those whose best cut a model refused, where halves of equal
size are more likely to hold. A bit of `tried` above those of the dimensions marks the latter.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from sqlanon.lattice.problem import Problem
from sqlanon.regions.cut_regions import (
    MILLIONTHS,
    PLACE,
    Size,
    choose_slots,
    cut_condition,
    find_balanced_cuts,
    points,
    sum_both_sides,
)
from sqlanon.regions.pack_places import (
    gather_ends,
    lens,
    lens_names,
    measure_spread,
    places,
    read_place,
    words,
)
from sqlanon.regions.value_orders import Order
from sqlanon.relations.compressed_rows import add_up
from sqlanon.sqltree.tree import (
    DOUBLE,
    alias,
    bigint,
    case,
    double,
    join_clause,
    literal,
    nest_query,
    rows_relation,
    select,
    sum_bigint,
    table,
    union_all,
    window,
)

# In tables of more rows than `MANY`, regions of more rows than `LARGE` are cut at the median of the widest dimension:
# it is the last cuts that decide what a release loses.
MANY, LARGE = 1 << 17, 1 << 7
# Dimensions narrower than this share of the widest one are not looked at: they can save no more than that.
NARROW = 0.4
# Dimensions of a region whose cuts are compared by the penalty of all dimensions: more of them gain next to nothing.
CANDIDATES = 2
# A cut of a dimension is one whole number, the least of which is the best: the share of the ranges that is left, how
# uneven the halves are, and the place. Together they have 62 bits.
SHARE, UNEVEN = 1 << 25, 1 << 6
INT = exp.DataType.build("int")


def find_loss_cuts(
    problem: Problem, work: str, state: str, limits: Size, orders: Sequence[Order], way: str
) -> exp.Query:
    """(region, dim, cut, possible, mark): a cut of each open region; `cut` is NULL where no dimension that was looked
    at has one that size allows. `possible` are the bits of dimensions that may still be cut, `mark` what to remember
    if a model refuses the cut. `way` is `loss` or `median` where all open regions are cut so, else `both`."""
    parts = []
    if way != "median":
        parts.append(_saving(problem, work, state, limits, orders))
    if way != "loss":
        parts.append(_median(problem, work, state, limits))
    return union_all(parts)


def count_ways(problem: Problem, state: str) -> exp.Select:
    """(rows, of them in regions that are cut at the median) of all open regions."""
    rows = exp.column("rows_")
    median = case((_is_open(problem, None, by_median=True), rows), default=literal(0))
    there = exp.column("dim").is_(exp.Null()).not_()
    return select(sum_bigint(rows.copy()), sum_bigint(median), source=table(state), where=there)


def _refused(problem: Problem) -> int:
    return 1 << len(problem.domains)


def _every(problem: Problem) -> exp.Expr:
    return bigint(literal((1 << len(problem.domains)) - 1))


def _is_open(problem: Problem, prefix: str | None, *, by_median: bool) -> exp.Expr:
    """Whether a region is open, and cut in this way."""
    marked = exp.BitwiseAnd(this=exp.column("tried", table=prefix), expression=literal(_refused(problem)))
    middle: exp.Expr = exp.paren(marked, copy=False).neq(0)
    if problem.records > MANY:
        middle = exp.paren(exp.or_(exp.column("rows_", table=prefix) > LARGE, middle), copy=False)
    there = exp.column("dim", table=prefix).is_(exp.Null()).not_()
    return exp.and_(there, middle if by_median else exp.not_(middle), copy=False)


def _bit(dim: exp.Expr) -> exp.Expr:
    before = exp.Cast(this=exp.paren(exp.Sub(this=dim, expression=literal(1))), to=INT)
    return exp.paren(exp.BitwiseLeftShift(this=bigint(literal(1)), expression=before), copy=False)


def _same_region(one: str, other: str) -> exp.Expr:
    return exp.column("region", table=one).eq(exp.column("region", table=other))


# At the median ------------------------------------------------------------------------------------------------------


def _median(problem: Problem, work: str, state: str, limits: Size) -> exp.Select:
    own = select(exp.Star(), source=table(state, alias="t"), where=_is_open(problem, "t", by_median=True))
    found = find_balanced_cuts(problem, points(problem, work, nest_query(own, "s")), limits)
    bit = _bit(exp.column("dim", table="s"))
    cut = exp.column("cut", table="b")
    rest = exp.Sub(this=_every(problem), expression=bit)
    possible = case((cut.is_(exp.Null()), rest), default=_every(problem))
    return select(
        exp.column("region", table="s"),
        _bigint_as(exp.column("dim", table="s"), "dim"),
        _bigint_as(cut.copy(), "cut"),
        alias(possible, "possible"),
        alias(bit.copy(), "mark"),
        source=nest_query(own.copy(), "s"),
        joins=[join_clause(nest_query(found, "b"), _same_region("b", "s"), side="LEFT")],
    )


def _bigint_as(tree: exp.Expr, name: str) -> exp.Alias:
    return alias(bigint(tree), name)


# By what it saves ---------------------------------------------------------------------------------------------------


def _saving(problem: Problem, work: str, state: str, limits: Size, orders: Sequence[Order]) -> exp.Select:
    own = select(exp.Star(), source=table(state, alias="t"), where=_is_open(problem, "t", by_median=False))
    found, cut = exp.column("possible", table="c"), exp.column("cut", table="c")
    unseen = exp.BitwiseXor(this=_every(problem), expression=exp.column("wide", table="s"))
    possible = exp.BitwiseOr(
        this=exp.Coalesce(this=found, expressions=[literal(0)]), expression=exp.paren(unseen, copy=False)
    )
    mark = case((cut.is_(exp.Null()), literal(0)), default=literal(_refused(problem)))
    tree = select(
        exp.column("region", table="s"),
        _bigint_as(exp.column("dim", table="b"), "dim"),
        alias(cut.copy(), "cut"),
        alias(bigint(exp.paren(possible, copy=False)), "possible"),
        _bigint_as(mark, "mark"),
        source=nest_query(own, "s"),
        joins=[
            join_clause(nest_query(_best(problem, work, orders), "b"), _same_region("b", "s"), side="LEFT"),
            join_clause(table("candidates", alias="c"), _same_dimension("c", "b"), side="LEFT"),
        ],
    )
    tree = tree.with_("looked_at", as_=_looked_at(problem, state, orders), copy=False)
    tree = tree.with_("candidates", as_=_candidates(problem, work, limits), copy=False)
    return select(exp.Star(), source=nest_query(tree, "saving"))


def _best(problem: Problem, work: str, orders: Sequence[Order]) -> exp.Select:
    """(region, dim): the best of the candidates; on ties the more even halves, then the first dimension."""
    wide = [
        measure_spread(slot, number, order.step or order.weight)
        for number, (slot, order) in enumerate(zip(choose_slots(problem), orders, strict=True), start=1)
    ]
    penalty = exp.Mul(this=exp.column("n"), expression=exp.paren(add_up(wide), copy=False))
    # In whole millionths: the sum of two floats may end in another last digit than it would the other way round.
    penalty = exp.Mul(this=penalty, expression=literal(MILLIONTHS))
    whole = bigint(exp.Floor(this=exp.Add(this=penalty, expression=literal(0.5))))
    both = select(
        "region",
        "dim",
        alias(sum_bigint(whole), "loss"),
        alias(exp.Max(this=exp.column("n")), "larger"),
        source=nest_query(_halves(problem, work), "halves"),
        groups=["region", "dim"],
    )
    order = [exp.column(name) for name in ("loss", "larger", "dim")]
    rank = window(exp.RowNumber(), partition=[exp.column("region")], order=order)
    ranked = select("region", "dim", alias(rank, "rank_"), source=nest_query(both, "weighed"))
    return select("region", "dim", source=nest_query(ranked, "ranked"), where=exp.column("rank_").eq(1))


def _halves(problem: Problem, work: str) -> exp.Select:
    """(region, dim, side, n, ends of all dimensions) of both halves of every candidate."""
    slots = choose_slots(problem)
    side = case((read_place(slots, "c") > exp.column("cut", table="c"), literal(1)), default=literal(0))
    rows = select(
        exp.column("region", table="c"),
        exp.column("dim", table="c"),
        alias(side, "side"),
        *(exp.column(name, table="w") for name in ("n", *words(slots))),
        source=table(work, alias="w"),
        joins=[join_clause(table("candidates", alias="c"), _same_region("w", "c"))],
    )
    ends = [alias(end, name) for name, end in gather_ends(slots).items()]
    return select(
        "region",
        "dim",
        "side",
        alias(double(exp.Sum(this=exp.column("n"))), "n"),
        *ends,
        source=nest_query(rows, "sides"),
        groups=["region", "dim", "side"],
    )


# Candidates ---------------------------------------------------------------------------------------------------------


def _looked_at(problem: Problem, state: str, orders: Sequence[Order]) -> exp.Select:
    """(region, rows_, dim, low, high, step, ones, lens): the dimensions of regions that are looked at."""
    slots = choose_slots(problem)
    numbers = range(1, len(slots) + 1)
    dims = rows_relation(
        [
            (i, order.step or order.weight, int(slot.ones))
            for i, order, slot in zip(numbers, orders, slots, strict=True)
        ],
        ["dim", "step", "ones"],
        [INT, DOUBLE, INT],
    )
    seen = select("dim", "step", "ones", *lens(slots, exp.column("dim")), source=nest_query(dims, "dims"))
    known = select(
        "region",
        "rows_",
        "wide",
        *places(slots),
        source=table(state, alias="t"),
        where=_is_open(problem, "t", by_median=False),
    )
    bit = exp.BitwiseAnd(this=exp.column("wide", table="s"), expression=_bit(exp.column("dim", table="d")))

    def end(side: str) -> exp.Expr:
        ends = [exp.If(this=literal(i), true=exp.column(f"{side}{i}", table="s")) for i in numbers]
        return bigint(exp.Case(this=exp.column("dim", table="d"), ifs=ends))

    return select(
        exp.column("region", table="s"),
        exp.column("rows_", table="s"),
        *(exp.column(name, table="d") for name in ("dim", "step", "ones", *lens_names(slots))),
        alias(end("lo"), "low"),
        alias(end("hi"), "high"),
        source=nest_query(known, "s"),
        joins=[join_clause(nest_query(seen, "d"), exp.paren(bit, copy=False).neq(0))],
    )


def _candidates(problem: Problem, work: str, limits: Size) -> exp.Select:
    """(region, dim, cut, possible, lens): the cuts of the dimensions of a region that save most by themselves."""
    slots = choose_slots(problem)
    best = exp.column("best", table="f")
    left = exp.BitwiseRightShift(this=best, expression=literal((UNEVEN * PLACE).bit_length() - 1))
    saved = exp.Sub(this=literal(SHARE), expression=exp.paren(left, copy=False))
    low, high, step = (exp.column(name, table="l") for name in ("low", "high", "step"))
    wide = exp.Mul(this=exp.paren(high - low, copy=False), expression=step)
    worth = exp.Mul(this=double(saved), expression=exp.paren(wide, copy=False))
    region, dim = exp.column("region", table="f"), exp.column("dim", table="f")
    order = [exp.Neg(this=exp.paren(worth, copy=False)), dim.copy()]
    rank = window(exp.RowNumber(), partition=[region.copy()], order=order)
    possible = window(exp.Sum(this=_bit(dim.copy())), partition=[region.copy()])
    ranked = select(
        region,
        dim,
        _bigint_as(exp.BitwiseAnd(this=best.copy(), expression=literal(PLACE - 1)), "cut"),
        *(exp.column(name, table="l") for name in lens_names(slots)),
        alias(rank, "rank_"),
        _bigint_as(possible, "possible"),
        source=nest_query(_shortest(problem, work, limits), "f"),
        joins=[join_clause(table("looked_at", alias="l"), _same_dimension("l", "f"))],
    )
    return select(
        *("region", "dim", "cut", "possible", *lens_names(slots)),
        source=nest_query(ranked, "ranked"),
        where=exp.column("rank_") <= CANDIDATES,
    )


def _shortest(problem: Problem, work: str, limits: Size) -> exp.Select:
    """(region, dim, best): the cut of each dimension after which its ranges are shortest, as one number."""
    at, rows, left = exp.column("at_"), exp.column("rows_"), exp.column("left_rows")
    low, high = exp.column("low"), exp.column("high")
    sides = sum_both_sides(problem, _points(problem, work), ["region", "dim"])
    here, following = (_as_number(problem, exp.column(name, table="r")) for name in ("at_", "following"))
    running = select(
        exp.Column(this=exp.Star(), table=exp.to_identifier("r")),
        *(exp.column(name, table="l") for name in ("low", "high")),
        alias(here, "here"),
        alias(following, "next_"),
        source=nest_query(sides, "r"),
        joins=[join_clause(table("looked_at", alias="l"), _same_dimension("l", "r"))],
    )
    before = exp.Mul(this=left, expression=exp.paren(exp.column("here") - low, copy=False))
    behind = exp.Mul(
        this=exp.paren(rows - left, copy=False), expression=exp.paren(high - exp.column("next_"), copy=False)
    )
    most = exp.Mul(this=double(rows.copy()), expression=exp.paren(high - low, copy=False))
    share = exp.Div(
        this=exp.paren(exp.Add(this=before, expression=behind), copy=False), expression=exp.paren(most, copy=False)
    )
    twice = exp.Sub(this=exp.Mul(this=literal(2), expression=left.copy()), expression=rows.copy())
    uneven = exp.Div(this=exp.Abs(this=twice), expression=double(rows.copy()))
    terms: list[exp.Expr] = [
        exp.Mul(this=_floor(share, SHARE), expression=literal(UNEVEN * PLACE)),
        exp.Mul(this=_floor(uneven, UNEVEN - 1), expression=literal(PLACE)),
        bigint(at.copy()),
    ]
    return select(
        "region",
        "dim",
        alias(exp.Min(this=add_up(terms)), "best"),
        source=nest_query(running, "running"),
        where=cut_condition(limits),
        groups=["region", "dim"],
    )


def _as_number(problem: Problem, bits: exp.Expr) -> exp.Expr:
    """The place that these bits are."""
    if not any(slot.ones for slot in choose_slots(problem)):
        return bits
    return case((exp.column("ones", table="l").eq(1), exp.BitwiseCount(this=bits)), default=bits.copy())


def _floor(share: exp.Expr, most: int) -> exp.Expr:
    return bigint(exp.Floor(this=exp.Mul(this=share, expression=literal(float(most)))))


def _points(problem: Problem, work: str) -> exp.Select:
    """(region, dim, at_, n, rows_, person) of the rows on every dimension that is looked at."""
    kept = ["n", *(["person"] if problem.compressed.person else [])]
    at = exp.Cast(this=read_place(choose_slots(problem), "l"), to=INT)
    return select(
        *(exp.column(name, table="l") for name in ("region", "dim", "rows_")),
        alias(at, "at_"),
        *(exp.column(name, table="w") for name in kept),
        source=table(work, alias="w"),
        joins=[join_clause(table("looked_at", alias="l"), _same_region("l", "w"))],
    )


def _same_dimension(one: str, other: str) -> exp.Expr:
    dims = exp.column("dim", table=one).eq(exp.column("dim", table=other))
    return exp.and_(_same_region(one, other), dims, copy=False)

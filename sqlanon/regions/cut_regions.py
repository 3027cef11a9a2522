"""Where to cut the open regions of a partition: statements over work and state tables (see `_partition`).

A cut leaves what lies at or below a place on the left. Every cut of a dimension is measured from running sums: by the
models that look at nothing but the number of records, all at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from sqlanon.lattice.problem import ALSO_SUPPRESSED, Problem
from sqlanon.lattice.requirements import Requirement
from sqlanon.regions.pack_places import Slot, bits_of, measure_spread, read_place, slots
from sqlanon.sqltree.tree import (
    alias,
    bigint,
    case,
    double,
    inline_verdict,
    literal,
    sum_bigint,
    table,
    union_all,
    window,
)

# The best cut is the least of whole numbers (how bad it is, then where), so that ties end alike in every run.
PLACE = 1 << 31
# Information is counted in whole millionths: sums of floats depend on the order of the rows.
MILLIONTHS = 1_000_000


@dataclass(frozen=True)
class Size:
    """The requirements on the number of records, as expressions; the others must be asked of classes."""

    inline: tuple[tuple[Requirement, exp.Expr], ...]
    others: tuple[Requirement, ...]

    def fits(self, records: exp.Expr) -> exp.Expr:
        """Whether a class of this many records is large enough."""
        conditions = [
            verdict.copy().transform(lambda node: records.copy() if _is_records(node) else node).eq(literal(0))
            for _, verdict in self.inline
        ]
        return exp.and_(records.copy() >= 1, *conditions)

    @property
    def grows(self) -> bool:
        """Whether part of a class that is too small is too small."""
        return all(ALSO_SUPPRESSED in item.model.monotone for item, _ in self.inline)


def _is_records(node: exp.Expr) -> bool:
    return isinstance(node, exp.Column) and node.name == "records"


def size(problem: Problem) -> Size:
    found = [(item, inline_verdict(item.model.sql, item.params)) for item in problem.requirements.models]
    inline = tuple((item, verdict) for item, verdict in found if verdict is not None)
    return Size(inline, tuple(item for item, verdict in found if verdict is None))


def choose_slots(problem: Problem) -> tuple[Slot, ...]:
    """A cut that is kept for later releases is kept by its place; and PostgreSQL counts no bits of numbers."""
    as_numbers = problem.requirements.stable is not None or problem.engine.dialect == "postgres"
    return slots(problem.domains, as_numbers=as_numbers)


def points(problem: Problem, work: str, state: exp.Expr) -> exp.Select:
    """(region, at_, n, person) of the open rows on the widest dimension of their regions; `state` has the alias s."""
    at = exp.Cast(this=read_place(choose_slots(problem), "s"), to=exp.DataType.build("int"))
    tree = _joined(work, state)
    return tree.select("w.region", alias(at, "at_"), "w.n", "s.rows_", *_person(problem, "w."))


def points_everywhere(problem: Problem, work: str, state: str, kind: exp.Expr) -> exp.Query:
    """(region, dim, at_, n, kind, person) of the open rows on every dimension that may still be cut."""
    parts = []
    for number, slot in enumerate(choose_slots(problem), start=1):
        shifted = exp.BitwiseRightShift(this=bits_of(slot, "w"), expression=literal(slot.shift))
        at = exp.Cast(this=shifted, to=exp.DataType.build("int"))
        tree = _joined(work, table(state, alias="s")).select(
            "w.region", alias(literal(number), "dim"), alias(at, "at_"), "w.n", "s.rows_", alias(kind.copy(), "kind")
        )
        parts.append(tree.select(*_person(problem, "w.")).where(may_be_cut(slot, number, "s")))
    return union_all(parts)


def may_be_cut(slot: Slot, number: int, prefix: str | None = None) -> exp.Expr:
    """Whether a dimension of a region holds several places and is not ruled out."""
    return exp.and_(measure_spread(slot, number, 1.0, prefix) > 0, open_(number, prefix))


def open_(number: int, prefix: str | None = None) -> exp.Expr:
    """Whether a dimension of a region is not ruled out."""
    own = [exp.column(name, table=prefix) for name in ("blocked", "tried")]
    ruled_out = exp.paren(exp.BitwiseOr(this=own[0], expression=own[1]), copy=False)
    bit = exp.paren(exp.BitwiseAnd(this=ruled_out, expression=literal(1 << (number - 1))), copy=False)
    return bit.eq(literal(0))


def _joined(work: str, state: exp.Expr) -> exp.Select:
    same = exp.column("region", table="s").eq(exp.column("region", table="w"))
    is_open = exp.column("dim", table="s").is_(exp.Null()).not_()
    tree = exp.select().from_(table(work, alias="w"))
    return tree.join(state, on=exp.and_(same, is_open))


def _person(problem: Problem, prefix: str = "") -> list[str]:
    return [f"{prefix}person"] if problem.compressed.person else []


def _sum(name: str, keys: Sequence[str]) -> exp.Expr:
    frame = exp.WindowSpec(kind="ROWS", start="UNBOUNDED", start_side="PRECEDING", end="CURRENT ROW")
    over = window(
        exp.Sum(this=exp.column(name)), partition=[exp.column(key) for key in keys], order=[exp.column("at_")]
    )
    over.set("spec", frame)
    return over


def histogram(problem: Problem, found: exp.Query, keys: Sequence[str]) -> exp.Select:
    """(keys, at_, rows_, n, begins, ends): rows at each place, and records that begin and end there. A person with
    several rows begins at the first and ends at the last: with a cut in between it counts on both sides."""
    named = [exp.column(key) for key in keys]
    # Doubles add up whole numbers exactly, and faster than the engines' wide integers.
    rows = double(exp.Sum(this=exp.column("n")))
    grouped = exp.select(*named, "at_", alias(exp.Max(this=exp.column("rows_")), "rows_"), alias(rows, "n"))
    grouped = grouped.from_(found.subquery(alias="points")).group_by(*keys, "at_")
    if not problem.compressed.person:
        return exp.select("*", alias(exp.column("n"), "begins"), alias(exp.column("n"), "ends")).from_(
            grouped.subquery(alias="grouped")
        )
    ends = exp.select(
        *keys,
        "person",
        alias(exp.Max(this=exp.column("rows_")), "rows_"),
        alias(exp.Min(this=exp.column("at_")), "first_"),
        alias(exp.Max(this=exp.column("at_")), "last_"),
    ).from_(found.copy().subquery(alias="points"))
    ends = ends.where(exp.column("person").is_(exp.Null()).not_()).group_by(*keys, "person")
    nothing = double(literal(0))

    def event(at: str, begins: float, last: float) -> exp.Select:
        return exp.select(
            *keys, alias(exp.column(at), "at_"), "rows_", alias(nothing.copy(), "n"),
            alias(literal(begins), "begins"), alias(literal(last), "ends"),
        ).from_(ends.subquery(alias="persons"))  # fmt: skip

    counted = exp.select("*", alias(nothing.copy(), "begins"), alias(nothing.copy(), "ends"))
    events = union_all(
        [counted.from_(grouped.subquery(alias="grouped")), event("first_", 1.0, 0.0), event("last_", 0.0, 1.0)]
    )
    sums = [alias(exp.Sum(this=exp.column(name)), name) for name in ("n", "begins", "ends")]
    tree = exp.select(*keys, "at_", alias(exp.Max(this=exp.column("rows_")), "rows_"), *sums)
    return tree.from_(events.subquery(alias="events")).group_by(*keys, "at_")


def sum_both_sides(problem: Problem, found: exp.Query, keys: Sequence[str]) -> exp.Select:
    """(keys, at_, rows_, n, following, left_rows, left_, right_): rows and records on both sides of every cut, and the
    place that comes after it."""
    named = [exp.column(key) for key in keys]
    following = alias(window(exp.Lead(this=exp.column("at_")), partition=named, order=[exp.column("at_")]), "following")
    of_all = window(exp.Sum(this=exp.column("ends")), partition=[exp.column(key) for key in keys])
    tree = exp.select(
        *keys, "at_", "rows_", "n",
        alias(_sum("n", keys), "left_rows"),
        alias(_sum("begins", keys), "left_"),
        alias(exp.Sub(this=of_all, expression=_sum("ends", keys)), "right_"), following,
    )  # fmt: skip
    if not problem.compressed.person:
        # All are told by one sum, which is asked for once.
        once = exp.select(*keys, "at_", "rows_", "n", alias(_sum("n", keys), "left_rows"), following)
        once = once.from_(histogram(problem, found, keys).subquery(alias="histogram"))
        left = exp.column("left_rows")
        right = exp.Sub(this=exp.column("rows_"), expression=left.copy())
        sides = exp.select(*keys, "at_", "rows_", "n", "left_rows", alias(left, "left_"), alias(right, "right_"))
        sides = sides.select("following")
        return sides.from_(once.subquery(alias="once"))
    return tree.from_(histogram(problem, found, keys).subquery(alias="histogram"))


def cut_condition(limits: Size) -> exp.Expr:
    both = exp.and_(limits.fits(exp.column("left_")), limits.fits(exp.column("right_")))
    return exp.and_(both, exp.column("left_rows") < exp.column("rows_"))


def _imbalance() -> exp.Expr:
    twice = exp.Mul(this=literal(2), expression=exp.column("left_rows"))
    return bigint(exp.Abs(this=exp.Sub(this=twice, expression=exp.column("rows_"))))


def _packed(first: exp.Expr, second: exp.Expr) -> exp.Expr:
    return exp.Add(this=exp.Mul(this=first, expression=literal(PLACE)), expression=bigint(second))


def _low(packed: exp.Expr) -> exp.Expr:
    return exp.paren(exp.BitwiseAnd(this=packed, expression=literal(PLACE - 1)), copy=False)


def find_balanced_cuts(problem: Problem, found: exp.Query, limits: Size) -> exp.Select:
    """(region, cut): the cut of each region that leaves its halves most alike in size, of those that size allows."""
    score = _packed(_imbalance(), exp.column("at_"))
    best = exp.select("region", alias(exp.Min(this=score), "best"))
    best = best.from_(sum_both_sides(problem, found, ["region"]).subquery(alias="running")).where(cut_condition(limits))
    tree = exp.select("region", alias(_low(exp.column("best")), "cut"))
    return tree.from_(best.group_by("region").subquery(alias="scored"))


def find_half_cuts(problem: Problem, found: exp.Query, limits: Size) -> exp.Select:
    """(region, cut, take): the place where half the rows of a region are reached, and how many rows there go left."""
    half = exp.paren(exp.BitwiseRightShift(this=bigint(exp.column("rows_")), expression=literal(1)), copy=False)
    rest = exp.Sub(this=exp.column("rows_"), expression=half.copy())
    before = exp.Sub(this=exp.column("left_rows"), expression=exp.column("n"))
    reached = exp.and_(exp.column("left_rows") >= half.copy(), limits.fits(half), limits.fits(exp.paren(rest)))
    score = _packed(bigint(exp.column("at_")), before)
    best = exp.select("region", alias(exp.Min(this=score), "best"), alias(exp.Max(this=half.copy()), "half"))
    best = (
        best.from_(sum_both_sides(problem, found, ["region"]).subquery(alias="running"))
        .where(reached)
        .group_by("region")
    )
    cut = exp.BitwiseRightShift(this=exp.column("best"), expression=literal(PLACE.bit_length() - 1))
    take = exp.Sub(this=exp.column("half"), expression=_low(exp.column("best")))
    tree = exp.select("region", alias(cut, "cut"), alias(take, "take"))
    return tree.from_(best.subquery(alias="scored"))


def _information(count: exp.Expr) -> exp.Expr:
    """x ln x in whole millionths; 0 at 0."""
    number = double(count)
    positive = exp.func("GREATEST", number, literal(1.0))
    return bigint(
        exp.Round(
            this=exp.Mul(
                this=exp.Mul(this=number.copy(), expression=exp.Ln(this=positive)), expression=literal(MILLIONTHS)
            )
        )
    )


def _gained(found: exp.Query) -> exp.Select:
    """(region, dim, at_, told): what each place adds to the sum of x ln x over the kinds on either side of it."""
    keys = ["region", "dim", "kind"]
    rows = double(exp.Sum(this=exp.column("n")))
    grouped = exp.select(*keys, "at_", alias(rows, "n")).from_(found.subquery(alias="points")).group_by(*keys, "at_")
    every = window(exp.Sum(this=exp.column("n")), partition=[exp.column(key) for key in keys])
    sums = exp.select("region", "dim", "at_", "n", alias(_sum("n", keys), "after"), alias(every, "every"))
    sums = sums.from_(grouped.subquery(alias="grouped"))

    def left(count: str) -> exp.Expr:
        return exp.column(count) if count == "after" else exp.paren(exp.column("after") - exp.column("n"))

    def right(count: str) -> exp.Expr:
        return exp.paren(exp.Sub(this=exp.column("every"), expression=left(count)))

    terms = exp.Sub(
        this=exp.Add(this=_information(left("after")), expression=_information(right("after"))),
        expression=exp.paren(exp.Add(this=_information(left("before")), expression=_information(right("before")))),
    )
    tree = exp.select("region", "dim", "at_", alias(sum_bigint(terms), "told"))
    return tree.from_(sums.subquery(alias="sums")).group_by("region", "dim", "at_")


def find_gain_cuts(problem: Problem, found: exp.Query, limits: Size) -> exp.Select:
    """(region, dim, cut, possible): the cut after which the kinds of rows are most foreseeable; on ties the better
    balance, the first dimension, the lowest place. `possible` are the bits of dimensions that have a cut that size
    allows."""
    keys = ["region", "dim"]
    told = window(exp.Sum(this=exp.column("told")), partition=[exp.column(key) for key in keys])
    told.set("order", exp.Order(expressions=[exp.Ordered(this=exp.column("at_"), nulls_first=True)]))
    gains = exp.select("region", "dim", "at_", alias(told, "told")).from_(_gained(found).subquery(alias="gained"))
    sides = sum_both_sides(problem, found.copy(), keys)
    same = exp.and_(*(exp.column(key, table="g").eq(exp.column(key, table="r")) for key in [*keys, "at_"]))
    right = exp.Sub(this=exp.column("rows_"), expression=exp.column("left_rows"))
    unknown = exp.Sub(
        this=exp.Add(this=_information(exp.column("left_rows")), expression=_information(exp.paren(right))),
        expression=exp.column("told", table="g"),
    )
    cuts = exp.select("r.region", "r.dim", "r.at_", alias(_imbalance(), "imbalance"), alias(unknown, "unknown"))
    cuts = cuts.from_(sides.subquery(alias="r")).join(gains.subquery(alias="g"), on=same).where(cut_condition(limits))
    ranking = [exp.column(name) for name in ("unknown", "imbalance", "dim", "at_")]
    rank = window(exp.RowNumber(), partition=[exp.column("region")], order=ranking)
    ranked = exp.select("region", "dim", "at_", alias(rank, "rank_")).from_(cuts.subquery(alias="cuts"))
    of_rank = [alias(exp.Max(this=case((exp.column("rank_").eq(1), exp.column(name)), default=exp.Null())), shown)
               for name, shown in (("dim", "dim"), ("at_", "cut"))]  # fmt: skip
    bits = [
        exp.Max(this=case((exp.column("dim").eq(i), literal(1 << (i - 1))), default=literal(0)))
        for i in range(1, len(problem.domains) + 1)
    ]
    possible: exp.Expr = bits[0]
    for bit in bits[1:]:
        possible = exp.Add(this=possible, expression=bit)
    tree = exp.select("region", *of_rank, alias(bigint(possible), "possible"))
    return tree.from_(ranked.subquery(alias="ranked")).group_by("region")

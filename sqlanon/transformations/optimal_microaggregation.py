"""Values of one column are put into groups of k or more with the least loss that is possible, and show their mean.

    transformations:
      - optimal_microaggregation: {columns: [income], k: 5}

Of all ways to cut the sorted values into groups of k to 2k - 1, the one is taken whose squared differences from the
means of groups are least in sum (a shortest path). Each column is grouped by itself. So that the time grows with the
number of rows alone, the sorted values are first cut into blocks of about `block` rows, in each of which groups are
optimal; `exact: true` takes all rows as one block, for tables of at most 5,000 rows. Integers show the mean as an
integer, other numbers to `decimals`. A NULL, NaN or infinity in one of the columns is refused.

What it does not protect: combinations of columns, which stay open where each is grouped by itself: put all that an
attacker may know into one use of `microaggregation`. Other columns, and a sensitive value that a group shares, neither.
cite: Hansen and Mukherjee 2003, A polynomial algorithm for optimal univariate microaggregation
"""

from __future__ import annotations

import math
from dataclasses import replace

from pydantic import Field
from sqlglot import exp

from sqlanon.sqltree.draws import alias, minus, number, over, plus, round_double, times
from sqlanon.sqltree.tree import bigint, case, double, table
from sqlanon.transformations import Changed, Given, Make, Step
from sqlanon.transformations._exchange import store_rows
from sqlanon.transformations._groups import forbid_nulls, mean_of, not_finite, require_rows, standardize_points
from sqlanon.transformations._mdav import DECIMALS, apply_groups, of_groups
from sqlanon.transformations._params import Base, Columns
from sqlanon.transformations._rows import require


class Params(Base):
    columns: Columns = Field(description="Numeric columns, each of which is grouped by itself.")
    k: int = Field(strict=True, ge=2, le=100, description="Rows of a group, at least; less than twice as many at most.")
    exact: bool = Field(False, strict=True, description="Do not cut the values into blocks first.")
    block: int = Field(300, strict=True, ge=20, le=20_000, description="Rows of a block, about.")
    decimals: int = Field(6, strict=True, ge=0, le=9, description="Decimals of results that are not integers.")


uses_secret = False
COUNTS = True  # the number of rounds depends on the number of rows


def change(params: Params, given: Given) -> Changed:
    require(given, params.columns, None, "which has no mean")
    most = require_rows(given.records, params.k, params.exact, params.block)
    given, steps = store_rows(given)
    steps += [*forbid_nulls(given, params.columns), *not_finite(given, params.columns)]
    rows = given.rows
    for place, name in enumerate(params.columns, start=1):
        own = replace(given, prefix=given.name(f"column_{place}"))
        start, made = standardize_points(own, [name])
        grouping, groups = _grouped(own, start, params.k, most)
        means = own.name("averages")
        averages = of_groups(own, start, groups, [alias(mean_of(own, name, params.decimals), "a1")])
        steps += [*made, *grouping, Make(means, averages)]
        rows = apply_groups(replace(own, rows=rows), start, groups, means, {name: exp.column("a1", table="a")})
    return Changed(rows, steps)


def _grouped(given: Given, start: str, k: int, most: int) -> tuple[list[Step], str]:
    """The tables that find the groups; the last one is (ord, block, grp)."""
    n = given.records
    blocks = max(1, n // most)
    largest = math.ceil(n / blocks)
    placed, sums = given.name("placed"), given.name("sums")
    steps: list[Step] = [Make(placed, _placed(start, n, blocks)), Make(sums, _sums(placed))]
    # Position p of a block is reached from one that is k to 2k - 1 before it: k positions at a time need only those of
    # the last two rounds.
    rounds = [given.name("reached_0")]
    origin = exp.select("block", "pos", "s1", "s2", alias(number(0.0), "cost"), alias(bigint(exp.convert(0)), "back"))
    steps.append(Make(rounds[0], origin.from_(table(sums)).where(exp.column("pos").eq(0))))
    for place in range(1, math.ceil(largest / k) + 1):
        rounds.append(given.name(f"reached_{place}"))
        steps.append(Make(rounds[-1], _reached(sums, rounds[max(0, place - 2) : place], place, k)))
    ends = given.name("ends")
    last = exp.select("block", alias(exp.Max(this=exp.column("pos")), "pos")).from_(table(sums)).group_by("block")
    steps.append(Make(ends, last))
    # Back from the end of each block, along the shortest path.
    found: list[str] = []
    for place in range(len(rounds) - 1, 0, -1):
        wanted = [exp.select("block", "pos").from_(table(ends))]
        wanted += [exp.select("block", alias(exp.column("back"), "pos")).from_(table(name)) for name in found[-2:]]
        found.append(given.name(f"taken_{place}"))
        steps.append(Make(found[-1], _taken(rounds[place], _all(wanted))))
    cuts, groups = given.name("cuts"), given.name("groups")
    steps.append(Make(cuts, _all([exp.select("block", "back").from_(table(name)) for name in found])))
    return [*steps, Make(groups, _numbered(placed, cuts))], groups


def _all(parts: list[exp.Select]) -> exp.Query:
    tree: exp.Query = parts[0]
    for part in parts[1:]:
        tree = exp.union(tree, part, distinct=False, copy=False)
    return tree


def _placed(start: str, n: int, blocks: int) -> exp.Select:
    """(ord, block, pos, z): blocks are of equal size, or differ by one; positions are counted from 1."""
    ordered = [exp.Ordered(this=exp.column("z1")), exp.Ordered(this=exp.column("ord"))]
    place = exp.Window(this=exp.RowNumber(), order=exp.Order(expressions=ordered))
    inner = exp.select("ord", alias(exp.column("z1"), "z"), alias(place, "place")).from_(table(start))
    share = over(times(double(minus(exp.column("place"), exp.convert(1))), number(float(blocks))), number(float(n)))
    cut = exp.select("ord", "z", "place", alias(bigint(exp.Floor(this=share)), "block")).from_(
        inner.subquery(alias="i")
    )
    first = exp.Ceil(this=over(times(double(exp.column("block")), number(float(n))), number(float(blocks))))
    pos = minus(exp.column("place"), bigint(first))
    return exp.select("ord", "z", "block", alias(pos, "pos")).from_(cut.subquery(alias="c"))


def _sums(placed: str) -> exp.Query:
    """(block, pos, s1, s2): sums of the values of a block, and of their squares, up to a position; 0 at the start."""
    z = exp.column("z")
    chosen: list[exp.Expr] = [exp.column("block"), exp.column("pos")]
    for name, value in (("s1", z), ("s2", times(z.copy(), z.copy()))):
        order = exp.Order(expressions=[exp.Ordered(this=exp.column("pos"))])
        spec = exp.WindowSpec(kind="ROWS", start="UNBOUNDED", start_side="PRECEDING", end="CURRENT ROW")
        window = exp.Window(this=exp.Sum(this=value), partition_by=[exp.column("block")], order=order, spec=spec)
        chosen.append(alias(window, name))
    zero = [
        exp.column("block"),
        alias(bigint(exp.convert(0)), "pos"),
        alias(number(0.0), "s1"),
        alias(number(0.0), "s2"),
    ]
    none = exp.select(*zero).from_(table(placed)).group_by("block")
    return _all([exp.select(*chosen).from_(table(placed)), none])


def _reached(sums: str, before: list[str], place: int, k: int) -> exp.Select:
    """(block, pos, s1, s2, cost, back): the least loss up to each of k positions, and where its last group begins."""
    earlier = _all([exp.select("*").from_(table(name)) for name in before])
    size = minus(exp.column("pos", table="i"), exp.column("pos", table="j"))
    total = minus(exp.column("s1", table="i"), exp.column("s1", table="j"))
    inside = minus(
        minus(exp.column("s2", table="i"), exp.column("s2", table="j")), over(times(total, total.copy()), double(size))
    )
    cost = round_double(plus(exp.column("cost", table="j"), inside), DECIMALS)
    here = exp.and_(
        exp.GT(this=exp.column("pos", table="i"), expression=exp.convert((place - 1) * k)),
        exp.LTE(this=exp.column("pos", table="i"), expression=exp.convert(place * k)),
    )
    tree = exp.Select(from_=exp.From(this=table(sums, "i")))
    near = exp.and_(
        exp.column("block", table="i").eq(exp.column("block", table="j")),
        exp.GTE(this=size.copy(), expression=exp.convert(k)),
        exp.LTE(this=size.copy(), expression=exp.convert(2 * k - 1)),
    )
    tree.append("joins", exp.Join(this=earlier.subquery(alias="j"), on=near))
    tree.set(
        "expressions",
        [
            *(exp.column(item, table="i") for item in ("block", "pos", "s1", "s2")),
            alias(cost, "cost"),
            alias(exp.column("pos", table="j"), "back"),
        ],
    )
    order = exp.Order(expressions=[exp.Ordered(this=exp.column("cost")), exp.Ordered(this=exp.column("back"))])
    best = exp.Window(this=exp.RowNumber(), partition_by=[exp.column("block"), exp.column("pos")], order=order)
    ranked = exp.select("*", alias(best, "best")).from_(tree.where(here).subquery(alias="r"))
    names = ("block", "pos", "s1", "s2", "cost", "back")
    return exp.select(*names).from_(ranked.subquery(alias="q")).where(exp.column("best").eq(1))


def _taken(reached: str, wanted: exp.Query) -> exp.Select:
    same = [exp.column(item, table="r").eq(exp.column(item, table="w")) for item in ("block", "pos")]
    tree = exp.select(exp.column("block", table="r"), exp.column("back", table="r")).from_(table(reached, "r"))
    tree.append("joins", exp.Join(this=wanted.subquery(alias="w"), on=exp.and_(*same)))
    return tree


def _numbered(placed: str, cuts: str) -> exp.Select:
    """(ord, block, grp): a group begins after each cut."""
    same = exp.and_(
        exp.column("block", table="p").eq(exp.column("block", table="c")),
        exp.column("pos", table="p").eq(plus(exp.column("back", table="c"), exp.convert(1))),
    )
    begins = case((exp.column("back", table="c").is_(exp.Null()).not_(), exp.convert(1)), default=exp.convert(0))
    order = exp.Order(expressions=[exp.Ordered(this=exp.column("pos", table="p"))])
    spec = exp.WindowSpec(kind="ROWS", start="UNBOUNDED", start_side="PRECEDING", end="CURRENT ROW")
    grp = exp.Window(this=exp.Sum(this=begins), partition_by=[exp.column("block", table="p")], order=order, spec=spec)
    own = [exp.column("ord", table="p"), exp.column("block", table="p")]
    tree = exp.select(*own, alias(bigint(grp), "grp")).from_(table(placed, "p"))
    tree.append("joins", exp.Join(this=table(cuts, "c"), side="LEFT", on=same))
    return tree

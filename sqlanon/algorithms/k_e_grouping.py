"""Numbers are shuffled inside groups of near values: at least k different ones, which span at least e.

    algorithm: {k_e_grouping: {k: 5, e: 10000}}

Rows are sorted by their sensitive number and cut into groups of at least k different values whose largest and smallest
are at least e apart; in each group all arrangements of its values are equally likely. Of all such groupings the one
with the least sum of ranges is taken, so that sums and means over few groups stay near the truth: its cuts fall into
the widest gaps. It is exact for at most 200,000 different values; for more, cuts are chosen among the widest gaps of
200,000 neighbourhoods. Quasi-identifiers stay as they are; the column `sqlanon_group` gives the group of a row.

What it does not protect: who is in the table, because quasi-identifiers are shown as they are; and frequent values of a
group, because (k,e)-anonymity does not look at frequencies: nine rows of ten may have nearly the same value. Ask for
epsilon_m_anonymity, too, to have that checked. A group tells the range of the values of its rows. Two releases of the
same persons have different groups, and together tell more.
cite: Zhang, Koudas, Srivastava and Yu 2007, Aggregate query answering on anonymized tables
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict, Field
from sqlglot import exp

from sqlanon.buckets.bucketize import Parted, Rows, draw_twice, permute_rows
from sqlanon.errors import PolicyError
from sqlanon.families import AlgorithmTraits
from sqlanon.relations.bucketization import GROUP
from sqlanon.relations.classes import finite
from sqlanon.sqltree.draws import is_number
from sqlanon.sqltree.tree import (
    alias,
    bigint,
    case,
    column,
    count_all,
    join_clause,
    literal,
    nest_query,
    select,
    sum_bigint,
    table,
    window,
)
from sqlanon.transformations import ROW

SEEDS = ("k_e_grouping/rows",)
TRAITS = AlgorithmTraits(writes_rows=True, seeds=SEEDS, groups=True, worlds="groups")
MOST_CUTS = 200_000


class Params(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")
    k: int = Field(ge=2, strict=True, description="Different values of a group, at least.")
    e: float = Field(ge=0, strict=True, allow_inf_nan=False, description="Range of the values of a group, at least.")


def part(rows: Rows, params: Params) -> Parted:
    sensitive = rows.sensitive("k_e_grouping")
    kind = rows.given.columns[sensitive]
    if not is_number(kind):
        raise PolicyError(
            f"k_e_grouping orders numbers, and '{sensitive}' is of type {kind.sql().lower()}",
            hint="take anatomy for categories, or cast the column in a query",
        )
    values, count = _values(rows, sensitive)
    gaps = [(int(place), float(left), float(right)) for place, left, right in rows.engine.query(_gaps(values, count))]
    low, high = rows.engine.query(
        select(exp.Min(this=exp.column("number")), exp.Max(this=exp.column("number")), source=table(values))
    )[0]
    cuts, total = widest(gaps, count, float(low), float(high), params.k, params.e)
    if cuts is None:
        raise PolicyError(
            f"'{sensitive}' has fewer than {params.k} different values, or they span less than {params.e:g}",
            hint="ask for a smaller k or e",
        )
    grouped = rows.make("groups", _grouped(rows, values, cuts))
    own = exp.column("number", table="v").eq(exp.Cast(this=column(sensitive, "t"), to=exp.DataType.build("double")))
    drawn = rows.make(
        "drawn",
        draw_twice(
            rows,
            SEEDS[0],
            exp.column("group_id", table="v"),
            [alias(column(sensitive, "t"), "original")],
            join_clause(table(grouped, alias="v"), own),
        ),
    )
    pairs = rows.make("pairs", permute_rows(drawn))
    main = select(
        *(column(name, "t") for name in rows.shown),
        alias(exp.column("original", table="d"), sensitive, quoted=True),
        alias(exp.column("stratum", table="d"), GROUP),
        source=nest_query(rows.tree.copy(), "t"),
        joins=[
            join_clause(table(pairs, alias="w"), column(ROW, "t").eq(exp.column("row_id", table="w"))),
            join_clause(table(drawn, alias="d"), exp.column("row_id", table="d").eq(exp.column("partner", table="w"))),
        ],
    )
    number = len(cuts) + 1
    exact = "the least there is" if count <= MOST_CUTS else "of the widest gaps only"
    why = f"{number:,} groups of {count:,} different values; their ranges add up to {total:g}, {exact}"
    return Parted(main, number, why, measured={"sum_of_ranges": total})


def _values(rows: Rows, sensitive: str) -> tuple[str, int]:
    """The different numbers, in their order; and how many there are."""
    number = finite(column(sensitive))
    counted = select(
        alias(number, "number"),
        alias(count_all(), "n"),
        source=nest_query(rows.tree.copy(), "t"),
        groups=[number.copy()],
    )
    place = window(exp.RowNumber(), order=[exp.column("number")])
    made = rows.make("values", select("number", "n", alias(place, "place"), source=nest_query(counted, "c")))
    missing = exp.column("number").is_(exp.Null())
    every, unknown = rows.engine.query(
        select(count_all(), sum_bigint(case((missing, literal(1)), default=literal(0))), source=table(made))
    )[0]
    if unknown:
        raise PolicyError(
            f"'{sensitive}' has NULLs, or numbers that are not finite: they have no place among the others",
            hint="leave such rows out with 'query:', or fill them",
        )
    return made, int(every)


def _gaps(values: str, count: int) -> exp.Select:
    """place, number before and number after each gap between neighbours; the widest of neighbourhoods, if there are
    too many of them."""
    after = window(exp.Lead(this=exp.column("number")), order=[exp.column("place")])
    pairs = select("place", alias(exp.column("number"), "low"), alias(after, "high"), source=table(values))
    known = exp.column("high").is_(exp.Null()).not_()
    between = select("place", "low", "high", source=nest_query(pairs, "p"), where=known)
    if count > MOST_CUTS:
        share = exp.Div(
            this=exp.Mul(this=bigint(exp.column("place")), expression=literal(float(MOST_CUTS))),
            expression=literal(float(count + 1)),
        )
        near = select(
            "place", "low", "high", alias(bigint(exp.Floor(this=share)), "near"), source=nest_query(between, "b")
        )
        width = exp.Sub(this=exp.column("low"), expression=exp.column("high"))  # the widest first
        rank = window(exp.RowNumber(), partition=[exp.column("near")], order=[width, exp.column("place")])
        ranked = select("place", "low", "high", alias(rank, "rank_"), source=nest_query(near, "n"))
        between = select(
            "place", "low", "high", source=nest_query(ranked, "r"), where=exp.column("rank_").eq(literal(1))
        )
    return between.order_by("place")


def widest(
    gaps: Sequence[tuple[int, float, float]], count: int, low: float, high: float, k: int, e: float
) -> tuple[list[int] | None, float]:
    """Where to cut sorted values so that each piece has k of them and spans e, and the gaps that are cut are as wide as
    can be: the places after which to cut, or None, and the sum of the ranges that are left.

    Whatever comes before a cut is as good as the best of all cuts that lie far enough before it, so that one pass over
    the gaps finds the best of all groupings.

    >>> widest([(1, 0, 1), (2, 1, 9), (3, 9, 10)], 4, 0, 10, 2, 1)
    ([2], 2.0)
    """
    if count < k or high - low < e:
        return None, math.inf
    places, after = [0, *(place for place, _, _ in gaps)], [low, *(right for _, _, right in gaps)]
    best: list[float] = [0.0]  # the widest gaps that are cut up to here, the last cut being this one
    before = [-1]
    top = [0]  # the best cut among all up to here
    far = 0  # so many cuts lie far enough before the one that is looked at
    for place, left, right in [*gaps, (count, high, high)]:
        while far < len(best) and place - places[far] >= k and left - after[far] >= e:
            far += 1
        chosen = top[far - 1] if far else -1
        cut = -math.inf if chosen < 0 else best[chosen] + (right - left)
        best.append(cut)
        before.append(chosen)
        own = len(best) - 1
        top.append(own if cut > best[top[-1]] else top[-1])
    found: list[int] = []
    place = before[-1]
    while place > 0:
        found.append(places[place])
        place = before[place]
    return found[::-1], high - low - best[-1]


def _grouped(rows: Rows, values: str, cuts: Sequence[int]) -> exp.Select:
    """number, group_id: how many cuts lie before a value."""
    if not cuts:
        return select("number", alias(bigint(literal(1)), "group_id"), source=table(values))
    loaded = rows.load("cuts", ("place",), [(str(place),) for place in cuts])
    cut = select(
        alias(exp.Cast(this=exp.column("place"), to=exp.DataType.build("bigint")), "place"), source=table(loaded)
    )
    starts = case((exp.column("place", table="c").is_(exp.Null()), literal(0)), default=literal(1))
    earlier = exp.Sub(this=exp.column("place", table="v"), expression=literal(1))
    marked = select(
        exp.column("number", table="v"),
        exp.column("place", table="v"),
        alias(starts, "starts"),
        source=table(values, alias="v"),
        joins=[join_clause(nest_query(cut, "c"), exp.column("place", table="c").eq(earlier), side="LEFT")],
    )
    group = exp.Add(
        this=bigint(window(exp.Sum(this=exp.column("starts")), order=[exp.column("place")])), expression=literal(1)
    )
    return select("number", alias(bigint(group), "group_id"), source=nest_query(marked, "m"))

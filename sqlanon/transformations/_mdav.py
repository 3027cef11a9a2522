"""MDAV, block by block and round by round, as temporary tables: each statement does one round for all blocks at once.

A table of points is (ord, block, z1, …, zd): `ord` is a number that breaks ties, the same on every engine. Distances
are rounded before they are compared, so that neither the order of a sum nor the last bit of a mean decides.
"""

from __future__ import annotations

from sqlglot import exp

from sqlanon.transformations import Make
from sqlanon.transformations._sql import (
    alias,
    bigint,
    binary,
    case,
    double,
    minus,
    number,
    plus,
    rounded,
    table,
    times,
)

DECIMALS = 9


def points(d: int, owner: str) -> list[exp.Expr]:
    return [exp.column(f"z{i}", table=owner) for i in range(1, d + 1)]


def distance(d: int, one: str, other: str) -> exp.Expr:
    """The squared distance of two points, rounded."""
    parts = []
    for a, b in zip(points(d, one), points(d, other), strict=True):
        parts.append(times(minus(a, b), minus(a.copy(), b.copy())))
    return rounded(plus(*parts), DECIMALS)


def joined(left: exp.Expr, right: exp.Expr, one: str, other: str) -> exp.Select:
    """FROM left JOIN right on their block."""
    same = exp.column("block", table=one).eq(exp.column("block", table=other))
    return exp.Select(from_=exp.From(this=left), joins=[exp.Join(this=right, on=same)])


def centroids(source: str, d: int) -> exp.Select:
    means = [alias(exp.Avg(this=exp.column(f"z{i}")), f"z{i}") for i in range(1, d + 1)]
    counted = alias(exp.Count(this=exp.Star()), "n")
    return exp.select(exp.column("block"), counted, *means).from_(table(source)).group_by("block")


def farthest(source: str, start: str, d: int) -> exp.Select:
    """Of each block, the point farthest from that of `start`, a relation (block, n, z…); the first of several."""
    order = exp.Order(
        expressions=[exp.Ordered(this=distance(d, "l", "c"), desc=True), exp.Ordered(this=exp.column("ord", table="l"))]
    )
    place = exp.Window(this=exp.RowNumber(), partition_by=[exp.column("block", table="l")], order=order)
    tree = joined(table(source, "l"), table(start, "c"), "l", "c")
    tree.set(
        "expressions",
        [exp.column("block", table="l"), exp.column("n", table="c"), *points(d, "l"), alias(place, "place")],
    )
    chosen = [exp.column(name) for name in ("block", "n", *(f"z{i}" for i in range(1, d + 1)))]
    return exp.select(*chosen).from_(tree.subquery(alias="f")).where(exp.column("place").eq(1))


def _place(order: exp.Expr) -> exp.Expr:
    ordered = [exp.Ordered(this=order), exp.Ordered(this=exp.column("ord"))]
    return exp.Window(this=exp.RowNumber(), partition_by=[exp.column("block")], order=exp.Order(expressions=ordered))


def halves(name: str, source: str, d: int, k: int) -> Make:
    """Each block in two, across the line from its point farthest from the middle to the point farthest from that; sizes
    are multiples of k, as far as possible."""
    line = [
        times(exp.column(f"z{i}", table="l"), minus(exp.column(f"z{i}", table="s"), exp.column(f"z{i}", table="r")))
        for i in range(1, d + 1)
    ]
    scored = joined(table(source, "l"), table("one", "r"), "l", "r")
    same = exp.column("block", table="l").eq(exp.column("block", table="s"))
    scored.append("joins", exp.Join(this=table("other", "s"), on=same))
    own = [exp.column("ord", table="l"), exp.column("block", table="l"), *points(d, "l")]
    scored.set("expressions", [*own, exp.column("n", table="r"), alias(rounded(plus(*line), DECIMALS), "score")])
    placed = exp.select("*", alias(_place(exp.column("score")), "place")).from_(scored.subquery(alias="p"))
    pieces = exp.Floor(this=binary(exp.Div, double(exp.column("n")), number(2.0 * k)))
    first = exp.LTE(this=exp.column("place"), expression=bigint(times(pieces, number(float(k)))))
    block = plus(times(exp.column("block"), exp.convert(2)), case((first, exp.convert(0)), default=exp.convert(1)))
    kept = [exp.column("ord"), alias(bigint(exp.Paren(this=block)), "block")]
    kept += [exp.column(f"z{i}") for i in range(1, d + 1)]
    tree = exp.select(*kept).from_(placed.subquery(alias="q"))
    parts = {
        "middle": centroids(source, d),
        "one": farthest(source, "middle", d),
        "other": farthest(source, "one", d),
    }
    for part, query in parts.items():
        tree = tree.with_(part, as_=query, copy=False)
    return Make(name, tree)


def one_round(name: str, group: int, source: exp.Query, d: int, k: int) -> Make:
    """Two groups of each block: around the point farthest from its middle, and around that farthest from this one. It
    is a table (ord, block, z…, grp), where `grp` is NULL for the points that are left for the next round."""
    numbers = [f"z{i}" for i in range(1, d + 1)]
    near = joined(table("open", "l"), table("one", "c"), "l", "c")
    own = [exp.column("ord", table="l"), exp.column("block", table="l"), *points(d, "l")]
    near.set("expressions", [*own, exp.column("n", table="c"), alias(distance(d, "l", "c"), "dist")])
    placed = exp.select("*", alias(_place(exp.column("dist")), "place")).from_(near.subquery(alias="p"))
    # With fewer than 2k points left they are one group, with fewer than 3k the second group takes the rest.
    n = exp.column("n")
    first = exp.Or(
        this=exp.LT(this=n, expression=exp.convert(2 * k)),
        expression=exp.LTE(this=exp.column("place"), expression=exp.convert(k)),
    )
    rest = exp.LT(this=n.copy(), expression=exp.convert(3 * k))
    grp = case((first, exp.convert(group)), (rest, exp.convert(group + 1)), default=exp.Null())
    names = [exp.column(item) for item in ("ord", "block", *numbers)]
    sided = exp.select(*names, alias(bigint(grp), "grp")).from_(placed.subquery(alias="q"))
    # The second group: the nearest to the other point, among those who are left.
    waiting = exp.select("*").from_(table("sided")).where(exp.column("grp").is_(exp.Null()))
    again = joined(waiting.subquery(alias="l"), table("other", "c"), "l", "c")
    again.set("expressions", [*(item.copy() for item in own), alias(distance(d, "l", "c"), "dist")])
    ranked = exp.select("*", alias(_place(exp.column("dist")), "place")).from_(again.subquery(alias="p"))
    nearest = exp.LTE(this=exp.column("place"), expression=exp.convert(k))
    chosen = case((nearest, exp.convert(group + 1)), default=exp.Null())
    second = exp.select(*(item.copy() for item in names), alias(bigint(chosen), "grp")).from_(
        ranked.subquery(alias="q")
    )
    done = exp.select("*").from_(table("sided")).where(exp.column("grp").is_(exp.Null()).not_())
    tree = exp.union(done, second, distinct=False, copy=False)
    parts = {
        "open": source,
        "middle": centroids("open", d),
        "one": farthest("open", "middle", d),
        "other": farthest("open", "one", d),
        "sided": sided,
    }
    for part, query in parts.items():
        tree = tree.with_(part, as_=query, copy=False)
    return Make(name, tree)


def waiting(name: str, d: int) -> exp.Select:
    """The points of a round that found no group yet."""
    names = [exp.column(item) for item in ("ord", "block", *(f"z{i}" for i in range(1, d + 1)))]
    return exp.select(*names).from_(table(name)).where(exp.column("grp").is_(exp.Null()))

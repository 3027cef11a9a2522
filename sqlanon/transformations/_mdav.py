"""MDAV, block by block and round by round, as temporary tables: each statement does one round for all blocks at once.

A table of points is (ord, block, z1, …, zd): `ord` is a number that breaks ties, the same on every engine. Distances
are rounded before they are compared, so that neither the order of a sum nor the last bit of a mean decides.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from sqlglot import exp

from sqlanon.sqltree.draws import alias, binary, digest, minus, nest_copy, number, plus, round_double, times, uniform
from sqlanon.sqltree.tree import bigint, case, column, double, table
from sqlanon.transformations import KEY, ROW, Given, Make, Step
from sqlanon.transformations._rows import select_rows

DECIMALS = 9


def points(d: int, owner: str) -> list[exp.Expr]:
    return [exp.column(f"z{i}", table=owner) for i in range(1, d + 1)]


def distance(d: int, one: str, other: str) -> exp.Expr:
    """The squared distance of two points, rounded."""
    parts = []
    for a, b in zip(points(d, one), points(d, other), strict=True):
        parts.append(times(minus(a, b), minus(a.copy(), b.copy())))
    return round_double(plus(*parts), DECIMALS)


def join_blocks(left: exp.Expr, right: exp.Expr, one: str, other: str) -> exp.Select:
    """FROM left JOIN right on their block."""
    same = exp.column("block", table=one).eq(exp.column("block", table=other))
    return exp.Select(from_=exp.From(this=left), joins=[exp.Join(this=right, on=same)])


def centroids(source: str, d: int) -> exp.Select:
    means = [alias(exp.Avg(this=exp.column(f"z{i}")), f"z{i}") for i in range(1, d + 1)]
    counted = alias(exp.Count(this=exp.Star()), "n")
    return exp.select(exp.column("block"), counted, *means).from_(table(source)).group_by("block")


def farthest(name: str, source: str, start: str, d: int) -> dict[str, exp.Select]:
    """Of each block, the point farthest from that of `start`, a relation (block, n, z…), and of several the first: the
    last of these relations, which read one another. It takes sums of the block alone, where a window would sort."""
    scored, tops, firsts = f"{name}_scored", f"{name}_tops", f"{name}_firsts"
    own = [exp.column("block", table="l"), exp.column("ord", table="l")]
    far = join_blocks(table(source, "l"), table(start, "c"), "l", "c")
    far.set("expressions", [*own, alias(distance(d, "l", "c"), "dist")])
    top = exp.select("block", alias(exp.Max(this=exp.column("dist")), "dist")).from_(table(scored)).group_by("block")
    first = join_blocks(table(scored, "s"), table(tops, "t"), "s", "t")
    first = first.where(exp.column("dist", table="s").eq(exp.column("dist", table="t")))
    first.set("expressions", [exp.column("block", table="s"), alias(exp.Min(this=exp.column("ord", table="s")), "ord")])
    found = join_blocks(table(source, "l"), table(start, "c"), "l", "c")
    same = exp.column("ord", table="l").eq(exp.column("ord", table="f"))
    found.append("joins", exp.Join(this=table(firsts, "f"), on=same))
    found.set("expressions", [exp.column("block", table="l"), exp.column("n", table="c"), *points(d, "l")])
    return {scored: far, tops: top, firsts: first.group_by(exp.column("block", table="s")), name: found}


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
    scored = join_blocks(table(source, "l"), table("one", "r"), "l", "r")
    same = exp.column("block", table="l").eq(exp.column("block", table="s"))
    scored.append("joins", exp.Join(this=table("other", "s"), on=same))
    own = [exp.column("ord", table="l"), exp.column("block", table="l"), *points(d, "l")]
    scored.set("expressions", [*own, exp.column("n", table="r"), alias(round_double(plus(*line), DECIMALS), "score")])
    placed = exp.select("*", alias(_place(exp.column("score")), "place")).from_(scored.subquery(alias="p"))
    pieces = exp.Floor(this=binary(exp.Div, double(exp.column("n")), number(2.0 * k)))
    first = exp.LTE(this=exp.column("place"), expression=bigint(times(pieces, number(float(k)))))
    block = plus(times(exp.column("block"), exp.convert(2)), case((first, exp.convert(0)), default=exp.convert(1)))
    kept = [exp.column("ord"), alias(bigint(exp.Paren(this=block)), "block")]
    kept += [exp.column(f"z{i}") for i in range(1, d + 1)]
    tree = exp.select(*kept).from_(placed.subquery(alias="q"))
    parts = {
        "middle": centroids(source, d),
        **farthest("one", source, "middle", d),
        **farthest("other", source, "one", d),
    }
    for part, query in parts.items():
        tree = tree.with_(part, as_=query, copy=False)
    return Make(name, tree)


def one_round(name: str, group: int, source: exp.Query, d: int, k: int) -> Make:
    """Two groups of each block: around the point farthest from its middle, and around that farthest from this one. It
    is a table (ord, block, z…, grp), where `grp` is NULL for the points that are left for the next round."""
    numbers = [f"z{i}" for i in range(1, d + 1)]
    near = join_blocks(table("open", "l"), table("one", "c"), "l", "c")
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
    again = join_blocks(waiting.subquery(alias="l"), table("other", "c"), "l", "c")
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
        **farthest("one", "open", "middle", d),
        **farthest("other", "open", "one", d),
        "sided": sided,
    }
    for part, query in parts.items():
        tree = tree.with_(part, as_=query, copy=False)
    return Make(name, tree)


def list_ungrouped(name: str, d: int) -> exp.Select:
    """The points of a round that found no group yet."""
    names = [exp.column(item) for item in ("ord", "block", *(f"z{i}" for i in range(1, d + 1)))]
    return exp.select(*names).from_(table(name)).where(exp.column("grp").is_(exp.Null()))


def order(dialect: str, owner: str) -> exp.Window:
    """`ord`: numbers in an order that has nothing to do with the data, and is the same on every engine."""
    hashed = digest(dialect, None, column(KEY, owner))
    ordered = [exp.Ordered(this=uniform(dialect, hashed)), exp.Ordered(this=column(KEY, owner))]
    return exp.Window(this=exp.RowNumber(), order=exp.Order(expressions=ordered))


def group_points(given: Given, start: str, d: int, k: int, most: int) -> tuple[list[Step], str]:
    """The tables that put the points of `start` into groups of k or more, blocks having at most so many rows; the last
    one is (ord, block, grp)."""
    steps: list[Step] = []
    source, largest, cut = start, given.records, 0
    while largest > most:
        cut += 1
        made = given.name(f"cut_{cut}")
        steps.append(halves(made, source, d, k))
        source = made
        largest = largest - (largest // (2 * k)) * k  # the larger half
    # Each round takes 2k rows of a block; the last one takes what is left, fewer than 3k.
    found: list[str] = []
    for place in range(max(1, math.ceil((largest - 3 * k + 1) / (2 * k)) + 1)):
        open_ones = list_ungrouped(found[-1], d) if found else exp.select("*").from_(table(source))
        found.append(given.name(f"round_{place + 1}"))
        steps.append(one_round(found[-1], 2 * place, open_ones, d, k))
    known = exp.column("grp").is_(exp.Null()).not_()
    tree: exp.Query | None = None
    for name in found:
        part = exp.select("ord", "block", "grp").from_(table(name)).where(known.copy())
        tree = part if tree is None else exp.union(tree, part, distinct=False, copy=False)
    assert tree is not None
    groups = given.name("groups")
    return [*steps, Make(groups, tree)], groups


def members(given: Given, start: str, groups: str) -> exp.Select:
    """FROM the rows `t`, with their points `p` and groups `g`."""
    tree = exp.Select(from_=exp.From(this=nest_copy(given.rows, "t")))
    own = column(ROW, "t").eq(exp.column("row_id", table="p"))
    tree.append("joins", exp.Join(this=table(start, "p"), on=own))
    same = exp.column("ord", table="p").eq(exp.column("ord", table="g"))
    tree.append("joins", exp.Join(this=table(groups, "g"), on=same))
    return tree


def of_groups(given: Given, start: str, groups: str, chosen: Sequence[exp.Expr]) -> exp.Select:
    """(block, grp, …): what is chosen of the rows `t` of each group."""
    tree = members(given, start, groups)
    tree.set("expressions", [exp.column("block", table="g"), exp.column("grp", table="g"), *chosen])
    return tree.group_by(exp.column("block", table="g"), exp.column("grp", table="g"))


def apply_groups(given: Given, start: str, groups: str, found: str, changes: Mapping[str, exp.Expr]) -> exp.Select:
    """The rows, with changes that read the relation `found` (block, grp, …) of their group as `a`."""
    tree = members(given, start, groups)
    same = [exp.column(item, table="g").eq(exp.column(item, table="a")) for item in ("block", "grp")]
    tree.append("joins", exp.Join(this=table(found, "a"), on=exp.and_(*same)))
    tree.set("expressions", select_rows(given, changes, table(found, "t")).expressions)
    return tree

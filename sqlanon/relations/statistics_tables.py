"""Statements that make cells of tables out of rows, where they name columns of the user or depend on the dimensions.

    base(dim_1, …, contributor, records, amount_1, …, waived, weight)  one row a combination of values and contributor
    contributions(cell, contributor, records, amount, waived, weight)  the same for the cells of one table
    universe(cell)                                                     all cells of one table, also empty ones

All others are in sql/statistics.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlglot import exp

from sqlanon.sqltree.draws import canonical, cross_join, digest, evenly, seed_row, times
from sqlanon.sqltree.tree import (
    alias,
    bigint,
    case,
    column,
    count_all,
    double,
    join_clause,
    literal,
    nest_query,
    select,
    sum_bigint,
    table,
    text,
    union_all,
    window,
)


def base_rows(
    rows: exp.Select,
    dimensions: Sequence[str],
    contributor: str | None,
    amounts: Sequence[tuple[str, bool]],
    waived: str | None,
    weight: str | None,
) -> exp.Select:
    """The one pass over the rows. Amounts are (column, whether it is of whole numbers). Without a contributor each row
    is one of its own."""
    keys: list[exp.Expr] = [column(name) for name in dimensions]
    chosen = [alias(column(name), f"dim_{place}") for place, name in enumerate(dimensions, start=1)]
    own = column(contributor) if contributor is not None else window(exp.RowNumber())
    chosen.append(alias(own, "contributor"))
    alone = contributor is None
    if not alone:
        keys.append(own.copy())
    chosen.append(alias(bigint(literal(1)) if alone else count_all(), "records"))
    for place, (name, whole) in enumerate(amounts, start=1):
        amount = column(name)
        if alone:
            chosen += [alias(amount, f"amount_{place}"), alias(amount.copy(), f"least_{place}")]
            missing: exp.Expr = case((amount.copy().is_(exp.Null()), literal(1)), default=literal(0))
        else:
            added = sum_bigint(amount) if whole else exp.Sum(this=amount)
            chosen += [alias(added, f"amount_{place}"), alias(exp.Min(this=amount.copy()), f"least_{place}")]
            missing = exp.Sub(this=count_all(), expression=exp.Count(this=amount.copy(), big_int=True))
        chosen.append(alias(missing, f"missing_{place}"))
    flag: exp.Expr = literal(0)
    if waived is not None:
        flag = case((column(waived), literal(1)), default=literal(0))
        flag = flag if alone else exp.Min(this=flag)
    chosen.append(alias(flag, "waived"))
    factor = double(column(weight)) if weight is not None else bigint(literal(1))
    least = factor.copy() if alone or weight is None else exp.Min(this=factor.copy())
    most = factor if alone or weight is None else exp.Max(this=factor)
    unknown: exp.Expr = exp.Coalesce(this=least, expressions=[literal(0)])
    if weight is not None and not alone:
        counted = exp.Count(this=column(weight), big_int=True)
        unknown = case((counted.eq(count_all()), least.copy()), default=literal(0))
    chosen += [alias(most, "weight"), alias(unknown, "least_weight")]
    return select(*chosen, source=nest_query(rows, "source"), groups=() if alone else keys)


def base_problems(base: str, dimensions: int, amounts: int) -> exp.Select:
    """What must not be in the rows: missing dimensions, contributors and amounts, amounts below 0, weights below 1."""

    def number(condition: exp.Expr) -> exp.Expr:
        counted = exp.Sum(this=case((condition, literal(1)), default=literal(0)))
        return bigint(exp.Coalesce(this=counted, expressions=[literal(0)]))

    columns = [f"dim_{place}" for place in range(1, dimensions + 1)] + ["contributor"]
    chosen = [number(exp.column(name).is_(exp.Null())) for name in columns]
    for place in range(1, amounts + 1):
        chosen.append(number(exp.column(f"missing_{place}") > literal(0)))
        chosen.append(number(exp.column(f"least_{place}") < literal(0)))
    chosen.append(number(exp.column("least_weight") < literal(1)))
    chosen.append(number(exp.column("least_weight").neq(exp.column("weight"))))
    return select(*chosen, source=table(base))


def contributions(
    base: str, leaves: str, places: Sequence[int], amount: int | None, whole: bool, *, grouped: bool
) -> exp.Select:
    """What contributors brought to the finest cells of one table. `places` are the numbers of its dimensions, from 1;
    records are counted where there is no amount."""
    joins = []
    cell: exp.Expr = bigint(literal(0))
    for place in places:
        name = f"leaf_{place}"
        same = exp.column("label", table=name).eq(text(exp.column(f"dim_{place}", table="b")))
        own = exp.column("dimension", table=name).eq(literal(place))
        joins.append(join_clause(table(leaves, alias=name), exp.and_(own, same)))
        cell = exp.Add(this=cell, expression=exp.column("part", table=name))
    brought = exp.column(f"amount_{amount}" if amount is not None else "records", table="b")
    records, waived = exp.column("records", table="b"), exp.column("waived", table="b")
    weight, who = exp.column("weight", table="b"), exp.column("contributor", table="b")
    if not grouped:
        chosen = [alias(cell, "cell"), who, records, alias(brought, "amount"), waived, weight]
        return select(*chosen, source=table(base, alias="b"), joins=joins)
    added = sum_bigint(brought) if whole else exp.Sum(this=brought)
    chosen = [
        alias(cell, "cell"), who, alias(sum_bigint(records), "records"), alias(added, "amount"),
        alias(exp.Min(this=waived), "waived"), alias(exp.Max(this=weight), "weight"),
    ]  # fmt: skip
    return select(*chosen, source=table(base, alias="b"), joins=joins, groups=[cell.copy(), who.copy()])


def cell_ancestors(spread: str, up: str, limits: str, dimensions: Sequence[tuple[int, int, int]]) -> exp.Select:
    """The cells of every level above each finest cell, with their limits. `dimensions` are numbers with their digits
    (below, above)."""
    distinct = select("cell", source=table(spread)).distinct()
    own = exp.column("cell", table="s")
    cell: exp.Expr = own
    joins = []
    for number, below, above in dimensions:
        name = f"up_{number}"
        digits = exp.Sub(
            this=exp.Mod(this=own.copy(), expression=literal(above)),
            expression=exp.Mod(this=own.copy(), expression=literal(below)),
        )
        same = exp.and_(
            exp.column("dimension", table=name).eq(literal(number)), exp.column("part", table=name).eq(digits)
        )
        joins.append(join_clause(table(up, alias=name), same))
        cell = exp.Add(this=cell, expression=exp.column("step", table=name))
    joins.append(join_clause(table(limits, alias="l"), exp.column("cell", table="l").eq(cell)))
    chosen = [
        alias(own.copy(), "leaf"), alias(cell.copy(), "cell"), exp.column("contributors", table="l"),
        exp.column("amount", table="l"),
    ]  # fmt: skip
    return select(*chosen, source=nest_query(distinct, "s"), joins=joins)


def universe(nodes: str, places: Sequence[int]) -> exp.Select:
    """All combinations of nodes of some dimensions, whose numbers count from 1."""
    cell: exp.Expr = bigint(literal(0))
    joins: list[exp.Join] = []
    where: list[exp.Expr] = []
    for place in places:
        name = f"node_{place}"
        cell = exp.Add(this=cell, expression=exp.column("part", table=name))
        where.append(exp.column("dimension", table=name).eq(literal(place)))
        joins.append(exp.Join(this=table(nodes, alias=name), kind="CROSS"))
    first = joins[0].this
    return select(alias(cell, "cell"), source=first, joins=joins[1:], where=exp.and_(*where))


def record_keys(parts: Sequence[str], kind: exp.DataType, dialect: str, seeds: str, label: str) -> exp.Select:
    """(contributor, record_key): 32 bits of a keyed hash of each contributor of some tables."""
    listed = union_all([select("contributor", source=table(part)) for part in parts])
    people = select("contributor", source=nest_query(listed, "every")).distinct()
    hashed = digest(dialect, "s", canonical("contributor", kind, "p"))
    tree = select("contributor", alias(hashed, "hashed"), source=nest_query(people, "p"))
    inner = nest_query(cross_join(tree, seed_row(seeds, label, "s")), "h")
    drawn = evenly(dialect, exp.column("hashed", table="h"), 0, 4)
    key = bigint(exp.Floor(this=times(drawn, literal(2.0**32))))
    return select("contributor", alias(key, "record_key"), source=inner)


def key_draws(cell_keys: str, dialect: str, seeds: str, label: str) -> exp.Select:
    """(cell, draw): a number between 0 and 1 by a keyed hash of the key of each cell."""
    hashed = digest(dialect, "s", text(exp.column("cell_key", table="k")))
    tree = select("cell", alias(hashed, "hashed"), source=table(cell_keys, alias="k"))
    inner = nest_query(cross_join(tree, seed_row(seeds, label, "s")), "h")
    return select("cell", alias(evenly(dialect, exp.column("hashed", table="h"), 0, 6), "draw"), source=inner)


def released_rows(
    tables: Sequence[tuple[str, str, Sequence[int], bool]],
    columns: Mapping[int, tuple[str, int, int, str]],
    nodes: str,
    pattern: str,
    names: tuple[str, str],
) -> exp.Query:
    """The release: the labels of each published cell, and its value, or NULL where it is hidden.

    `tables` are its name, its cells, its dimensions, and whether its values are whole. `columns` are the name of each
    dimension, its digits (below, above) and the label of its root; `pattern` are the published cells with what is
    hidden; `names` are those of the two columns beside."""
    parts = []
    for name, cells, places, whole in tables:
        chosen: list[exp.Expr] = [alias(text(literal(name)), names[0], quoted=True)]
        joins = [
            join_clause(
                table(pattern, alias="p"),
                exp.and_(exp.column("cell", table="p").eq(exp.column("cell", table="c")),
                         exp.column("statistic", table="p").eq(literal(name))),
            )
        ]  # fmt: skip
        for place, (own, below, above, root) in columns.items():
            if place not in places:
                chosen.append(alias(text(literal(root)), own, quoted=True))
                continue
            node = f"node_{place}"
            digits = exp.Sub(
                this=exp.Mod(this=exp.column("cell", table="c"), expression=literal(above)),
                expression=exp.Mod(this=exp.column("cell", table="c"), expression=literal(below)),
            )
            same = exp.and_(
                exp.column("dimension", table=node).eq(literal(place)), exp.column("part", table=node).eq(digits)
            )
            joins.append(join_clause(table(nodes, alias=node), same))
            chosen.append(alias(exp.column("label", table=node), own, quoted=True))
        hidden = exp.column("hidden", table="p").eq(literal(0))
        value: exp.Expr = exp.column("value", table="c")
        chosen.append(alias(case((hidden, bigint(value) if whole else value)), names[1], quoted=True))
        parts.append(select(*chosen, source=table(cells, alias="c"), joins=joins))
    tree: exp.Query = parts[0]
    for part in parts[1:]:
        tree = exp.union(tree, part, distinct=False, copy=False)
    return tree

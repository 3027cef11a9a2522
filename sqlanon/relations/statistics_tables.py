"""Statements that make cells of tables out of rows, where they name columns of the user or depend on the dimensions.

    base(dim_1, …, contributor, records, amount_1, …, waived, weight)  one row a combination of values and contributor,
                                                                       with what is wrong with its amounts
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

MISSING, NEGATIVE = 2, 1  # what is wrong with an amount


def base_rows(
    rows: exp.Select,
    dimensions: Sequence[str],
    contributor: str | None,
    amounts: Sequence[tuple[str, bool]],
    waived: str | None,
    weight: str | None,
) -> exp.Select:
    """The one pass over the rows. Amounts are (column, whether it is of whole numbers). Without a contributor each row
    is one of its own. What is the same in every row is no column of it: `whole_base` has that."""
    keys: list[exp.Expr] = [column(name) for name in dimensions]
    chosen = [alias(column(name), f"dim_{place}") for place, name in enumerate(dimensions, start=1)]
    own = column(contributor) if contributor is not None else window(exp.RowNumber())
    chosen.append(alias(own, "contributor"))
    alone = contributor is None
    if not alone:
        keys.append(own.copy())
        chosen.append(alias(count_all(), "records"))
    for place, (name, whole) in enumerate(amounts, start=1):
        amount: exp.Expr = column(name)
        absent, below = amount.copy().is_(exp.Null()), amount.copy() < literal(0)
        flaw = case((absent, literal(MISSING)), (below, literal(NEGATIVE)), default=literal(0))
        if not alone:
            amount = sum_bigint(amount) if whole else exp.Sum(this=amount)
            flaw = exp.Max(this=flaw)
        chosen += [alias(amount, f"amount_{place}"), alias(exp.cast(flaw, "smallint"), f"flaw_{place}")]
    if waived is not None:
        flag: exp.Expr = case((column(waived), literal(1)), default=literal(0))
        chosen.append(alias(flag if alone else exp.Min(this=flag), "waived"))
    if weight is not None:
        factor = double(column(weight))
        least: exp.Expr = factor if alone else exp.Min(this=factor.copy())
        if not alone:
            counted = exp.Count(this=column(weight), big_int=True)
            least = case((counted.eq(count_all()), least), default=literal(0))
        most = factor.copy() if alone else exp.Max(this=factor)
        unknown = exp.Coalesce(this=least, expressions=[literal(0)])
        chosen += [alias(most, "weight"), alias(unknown, "least_weight")]
    return select(*chosen, source=nest_query(rows, "source"), groups=() if alone else keys)


def whole_base(stored: str, dimensions: int, amounts: int, *, alone: bool, waived: bool, weighted: bool) -> exp.Select:
    """`base` with the columns that are the same in every row: they are not stored, which takes as long as to group."""
    names = [f"dim_{place}" for place in range(1, dimensions + 1)] + ["contributor"]
    chosen: list[exp.Expr] = [exp.column(name) for name in names]
    chosen.append(alias(bigint(literal(1)), "records") if alone else exp.column("records"))
    for place in range(1, amounts + 1):
        chosen += [exp.column(f"amount_{place}"), exp.column(f"flaw_{place}")]
    chosen.append(exp.column("waived") if waived else alias(literal(0), "waived"))
    one = bigint(literal(1))
    chosen += (
        [exp.column("weight"), exp.column("least_weight")]
        if weighted
        else [alias(one, "weight"), alias(one.copy(), "least_weight")]
    )
    return select(*chosen, source=table(stored))


def base_problems(base: str, amounts: int) -> exp.Select:
    """What must not be in the rows: missing contributors and amounts, amounts below 0, weights below 1."""

    def number(condition: exp.Expr) -> exp.Expr:
        counted = exp.Sum(this=case((condition, literal(1)), default=literal(0)))
        return bigint(exp.Coalesce(this=counted, expressions=[literal(0)]))

    chosen: list[exp.Expr] = [
        exp.Sub(this=count_all(), expression=exp.Count(this=exp.column("contributor"), big_int=True))
    ]
    for place in range(1, amounts + 1):
        chosen.append(number(exp.column(f"flaw_{place}").eq(literal(MISSING))))
        chosen.append(number(exp.column(f"flaw_{place}").eq(literal(NEGATIVE))))
    chosen.append(number(exp.column("least_weight") < literal(1)))
    chosen.append(number(exp.column("least_weight").neq(exp.column("weight"))))
    return select(*chosen, source=table(base))


def missing_values(values: str, dimensions: int) -> exp.Select:
    """Of each dimension: how many combinations of values lack it."""
    columns = [exp.column(f"dim_{place}") for place in range(1, dimensions + 1)]
    chosen = [exp.Sub(this=count_all(), expression=exp.Count(this=own, big_int=True)) for own in columns]
    return select(*chosen, source=table(values))


def contributions(
    base: str,
    leaves: str,
    places: Sequence[int],
    amount: int | None,
    whole: bool,
    *,
    grouped: bool,
    varying: Sequence[str],
    spread: str | None = None,
) -> exp.Select:
    """What contributors brought to the finest cells of one table. `places` are the numbers of its dimensions, from 1;
    records are counted where there is no amount. `varying` are those of waived and weight that are not the same in
    every row. With `spread`, contributors who are in several cells have their number there."""
    joins = []
    cell: exp.Expr = bigint(literal(0))
    for place in places:
        name = f"leaf_{place}"
        same = exp.column("label", table=name).eq(text(exp.column(f"dim_{place}", table="b")))
        own = exp.column("dimension", table=name).eq(literal(place))
        joins.append(join_clause(table(leaves, alias=name), exp.and_(own, same)))
        cell = exp.Add(this=cell, expression=exp.column("part", table=name))
    brought = exp.column(f"amount_{amount}" if amount is not None else "records", table="b")
    records, who = exp.column("records", table="b"), exp.column("contributor", table="b")
    if not grouped:
        chosen: list[exp.Expr] = [alias(cell, "cell"), who, records, alias(brought, "amount")]
        chosen += [exp.column(name, table="b") for name in varying]
        if spread is not None:
            chosen.append(exp.column("number", table="s"))
            joins.append(spread_join(spread, who))
        return select(*chosen, source=table(base, alias="b"), joins=joins)
    added = sum_bigint(brought) if whole else exp.Sum(this=brought)
    chosen = [alias(cell, "cell"), who, alias(sum_bigint(records), "records"), alias(added, "amount")]
    kinds = {"waived": exp.Min, "weight": exp.Max}
    chosen += [alias(kinds[name](this=exp.column(name, table="b")), name) for name in varying]
    return select(*chosen, source=table(base, alias="b"), joins=joins, groups=[cell.copy(), who.copy()])


def spread_join(spread: str, contributor: exp.Expr) -> exp.Join:
    return join_clause(
        table(spread, alias="s"), exp.column("contributor", table="s").eq(contributor.copy()), side="LEFT"
    )


def with_spread(contributed: str, varying: Sequence[str], spread: str) -> exp.Select:
    """Contributions with the number of those who are in several cells."""
    chosen = [exp.column(name, table="c") for name in ("cell", "contributor", "records", "amount", *varying)]
    join = spread_join(spread, exp.column("contributor", table="c"))
    return select(*chosen, exp.column("number", table="s"), source=table(contributed, alias="c"), joins=[join])


def whole_contributions(
    stored: str, varying: Sequence[str], *, contributor: str = "contributor", spread: bool | None = None
) -> exp.Select:
    """`contributions` with the columns that are the same in every row: of everybody, or of those who are in several
    cells (`spread`), or of all others. `contributor` is the column that tells them apart."""
    chosen: list[exp.Expr] = [
        exp.column("cell"), alias(exp.column(contributor), "contributor"), exp.column("records"), exp.column("amount")
    ]  # fmt: skip
    number = exp.column("number")
    where: exp.Expr | None = None
    if spread is not None:
        where = exp.not_(number.is_(exp.Null())) if spread else number.is_(exp.Null())
    return select(*chosen, *_waived_and_weight(varying), source=table(stored), where=where)


def _waived_and_weight(varying: Sequence[str]) -> list[exp.Expr]:
    constants = {"waived": literal(0), "weight": bigint(literal(1))}
    return [exp.column(name) if name in varying else alias(given, name) for name, given in constants.items()]


def whole_expanded(stored: str) -> exp.Select:
    """What was brought to cells of every level, where nobody waived protection or has a weight."""
    return select("cell", "contributor", "amount", *_waived_and_weight(()), source=table(stored))


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
        alias(own.copy(), "leaf"), alias(cell.copy(), "cell"),
        alias(bigint(exp.column("contributors", table="l")), "contributors"), exp.column("amount", table="l"),
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

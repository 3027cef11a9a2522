"""How many rows a FROM makes of one private row: a number of public tables alone, and limited.

A statement that runs into the timeout is an answer without noise: a join that grows without limit, but only for the
rows of one person, would tell whether that person is there. What public tables multiply is counted in them, before
anything is charged; how often a private table may be joined to itself is limited by number, and so are the rows of a
person on each side of such a join (see `sources`).
"""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from sqlanon.errors import Refused
from sqlanon.gateway.bind.core import Core
from sqlanon.gateway.bind.row_work import require_bounded
from sqlanon.gateway.bind.sources import FromRows, NamedRelation, alias_relation

MOST_ROWS = 1_000  # of one private row
MULTIPLIED = 100  # what a join of private tables on the unit counts for beside public ones


def fanouts_of(rows: FromRows) -> tuple[exp.Select, ...]:
    """Queries of public tables whose answers, multiplied, are the most rows that one private row becomes.

    From the private tables outwards: a public table that is compared with what is reached already gives the rows that
    share a value; one that nothing reached compares with gives all of its rows.
    """
    found = [each for source in rows.sources for each in source.relation.fanouts]
    left = [source for source in rows.sources if source.relation.nature == "public"]
    reached = {source.alias for source in rows.sources if source not in left}
    if left and rows.multiplied:
        found.append(exp.Select(expressions=[exp.alias_(exp.Literal.number(MULTIPLIED), "n")]))
    while left:
        compared = {one.table: one.name for one, other in rows.equal if other.table in reached}
        source = next((each for each in left if each.alias in compared), left[0])
        found.append(_most(source, compared.get(source.alias)))
        reached.add(source.alias)
        left.remove(source)
    return tuple(found)


def _most(source: NamedRelation, column: str | None) -> exp.Select:
    """The rows of a public table; with a column, the most of them that share a value of it."""
    counted = exp.Select().select(exp.alias_(exp.Count(this=exp.Star()), "n")).from_(alias_relation(source))
    if column is None:
        return counted
    shares = exp.Subquery(
        this=counted.group_by(source.value(column).tree), alias=exp.TableAlias(this=exp.to_identifier("shares"))
    )
    return exp.Select().select(exp.Max(this=exp.column("n"))).from_(shares)


def require_few(core: Core, ask: Callable[[exp.Select], int]) -> None:
    """Refuse a FROM that makes too many rows of one, or too much work. `ask` runs a query of public tables."""
    product = 1
    for query in core.fanouts:
        product *= max(1, ask(query))
    if product > MOST_ROWS:
        raise Refused(
            f"the joins with public tables can make more than {MOST_ROWS:,} rows of one",
            hint="join public tables with = on a column whose values differ, or filter them in a subquery first",
            sqlstate="54001",
        )
    require_bounded(core.work, product)

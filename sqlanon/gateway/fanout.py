"""How many rows a FROM makes of one private row: a number of public tables alone, and limited.

A statement that runs into the timeout is an answer without noise: a join that grows without limit, but only for the
rows of one person, would tell whether that person is there. What public tables multiply is counted in them, before
anything is charged; how often a private table may be joined to itself is limited by number.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot import exp

from sqlanon.errors import Refused
from sqlanon.gateway.sources import Named, Rows, aliased

MOST_ROWS = 1_000  # of one private row


def fanouts_of(rows: Rows) -> tuple[exp.Select, ...]:
    """Queries of public tables whose answers, multiplied, are the most rows that one private row becomes."""
    inner = [each for source in rows.sources for each in source.relation.fanouts]
    return (*inner, *(_most(each, rows) for each in rows.sources if each.relation.nature == "public"))


def _most(source: Named, rows: Rows) -> exp.Select:
    """The rows of a public table, or of those that share a value of the column that it is joined on."""
    count = exp.alias_(exp.Count(this=exp.Star()), "n")
    counted = exp.Select().select(count).from_(aliased(source))
    joined_on = rows.equal.get(source.alias)
    if not joined_on:
        return counted
    counted = counted.group_by(source.tree(joined_on[0]))
    inner = exp.Subquery(this=counted, alias=exp.TableAlias(this=exp.to_identifier("shares")))
    return exp.Select().select(exp.Max(this=exp.column("n"))).from_(inner)


def require_few(queries: Sequence[exp.Select], ask: Callable[[exp.Select], int]) -> None:
    """Refuse a FROM that makes too many rows of one. `ask` runs a query of public tables."""
    product = 1
    for query in queries:
        product *= max(1, ask(query))
    if product > MOST_ROWS:
        raise Refused(
            f"the joins with public tables can make more than {MOST_ROWS:,} rows of one",
            hint="join public tables with = on a column whose values differ, or filter them in a subquery first",
            sqlstate="54001",
        )

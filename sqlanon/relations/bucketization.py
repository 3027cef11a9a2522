"""Releases that part what belongs together: values are shown as they are, but not which of them belong to one row.

Rows are put into groups. A group is what a class is elsewhere: the sensitive values of a person are those of its group.
So the privacy models are asked about groups, on the tables as they were written.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from sqlglot import exp

from sqlanon.policy import Policy
from sqlanon.relations.source import table_parts, table_tree
from sqlanon.sqltree.tree import alias, column, double, join_clause, nest_query, select, sum_bigint, window

GROUP = "sqlanon_group"  # the column that says to which group a row belongs
RECORDS = "records"  # how many rows of a group have a sensitive value
ESTIMATE = "estimate"  # how much of a row counts
SENSITIVE = "sensitive"  # what is added to the name of a release: the table of the sensitive values of groups,
ESTIMATES = "estimates"  # and the view whose sums are counts


def parts_rows(policy: Policy) -> bool:
    return policy.algorithm_traits.groups


def has_two_tables(policy: Policy) -> bool:
    return policy.algorithm_traits.two_tables


def companion(name: str, ending: str) -> str:
    """The name of a table or view that belongs to a release.

    >>> companion('public."a.b"', "sensitive")
    'public."a.b_sensitive"'
    """
    *schema, own = table_parts(name)
    parts = [*schema, f"{own}_{ending}"]
    return ".".join('"' + part.replace('"', '""') + '"' if re.search('[."]', part) else part for part in parts)


def estimates(name: str, shown: Sequence[str], sensitive: str) -> exp.Select:
    """Every row with every sensitive value of its group, and the share of the group that has it: the sum of `estimate`
    over some rows and values is the expected number of rows that have both."""
    group, value = column(GROUP), column(sensitive)
    size = window(exp.Sum(this=exp.column(RECORDS)), partition=[column(GROUP)])
    share = exp.Div(this=double(exp.column(RECORDS)), expression=double(size))
    values = select(group, value, alias(share, ESTIMATE), source=table_tree(companion(name, SENSITIVE)))
    return select(
        *(column(item, "q") for item in shown),
        column(sensitive, "s"),
        exp.column(ESTIMATE, table="s"),
        source=exp.alias_(table_tree(name), "q", table=True),
        joins=[join_clause(nest_query(values, "s"), column(GROUP, "s").eq(column(GROUP, "q")))],
    )


def sizes(rows: exp.Select, counted: exp.Expr | None = None) -> exp.Select:
    """The groups of a table or file, and how many rows each has."""
    number = exp.Count(this=exp.Star(), big_int=True) if counted is None else sum_bigint(counted)
    return select(column(GROUP), alias(number, "n"), source=nest_query(rows.copy(), "r"), groups=[column(GROUP)])


def misfits(rows: exp.Select, values: exp.Select) -> exp.Select:
    """Groups that do not have as many rows in the one table or file as in the other, or are missing in one of them."""
    ours, theirs = sizes(rows), sizes(values, exp.column(RECORDS))
    same = column(GROUP, "q").eq(column(GROUP, "s"))
    sides = [exp.column("n", table=side) for side in ("q", "s")]
    tree = select(
        exp.Coalesce(this=column(GROUP, "q"), expressions=[column(GROUP, "s")]),
        source=nest_query(ours, "q"),
        joins=[join_clause(nest_query(theirs, "s"), same, side="FULL")],
    )
    zero = [exp.Coalesce(this=side, expressions=[exp.convert(0)]) for side in sides]
    return tree.where(exp.NEQ(this=zero[0], expression=zero[1]))

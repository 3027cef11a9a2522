"""The canonical relation of attacks that combine versions of a table: versions(truth, ours, theirs).

Rows are those that the columns without noise tell apart in all three tables.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from sqlanon.relations.attacks.attack_relations import as_text
from sqlanon.relations.classes import Prelude
from sqlanon.sqltree.tree import alias, column, count_all, double, join_clause, nest_query, select, table


def single_rows(prelude: Prelude, name: str, rows: exp.Select, keys: Sequence[str], noisy: str) -> str:
    """The rows that no other row shares its keys with: k1, k2, … and their number."""

    def build() -> exp.Query:
        values = [as_text(column(key)) for key in keys]
        return select(
            *(alias(value, f"k{place}") for place, value in enumerate(values, start=1)),
            alias(exp.Max(this=double(column(noisy))), "v"),
            source=nest_query(rows.copy(), "r"),
            groups=[value.copy() for value in values],
        ).having(count_all().eq(1))

    return prelude.once("single_rows", (name, tuple(keys), noisy), build)


def versions(prelude: Prelude, truth: str, ours: str, theirs: str, keys: int) -> str:
    def build() -> exp.Query:
        joins = []
        for short, made in (("o", ours), ("t", theirs)):
            names = [f"k{place}" for place in range(1, keys + 1)]
            same = [exp.column(name, table=short).eq(exp.column(name, table="s")) for name in names]
            joins.append(join_clause(table(made, alias=short), exp.and_(*same)))
        found = {"truth": "s", "ours": "o", "theirs": "t"}
        known = [exp.column("v", table=short).is_(exp.Null()).not_() for short in found.values()]
        chosen = [alias(exp.column("v", table=short), name) for name, short in found.items()]
        return select(*chosen, source=table(truth, alias="s"), joins=joins, where=exp.and_(*known))

    return prelude.once("versions", (truth, ours, theirs), build)

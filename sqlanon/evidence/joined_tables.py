"""A table with child tables along foreign keys, read as one: a row for each row of a child, or for none."""

from __future__ import annotations

from sqlanon.engines import Engine
from sqlanon.errors import PolicyError
from sqlanon.policy import Policy, Source
from sqlanon.relations.source import relation


def as_one_table(policy: Policy, engine: Engine) -> tuple[Policy, dict[str, list[str]]]:
    """The policy of the joined rows, and the columns that each child table brings. Persons are still counted as such,
    however many rows the join makes of one."""
    source = engine.resolve(policy.source)
    taken = child_columns(policy, engine, source)
    rows = relation(source, engine.dialect, taken)
    one = Source(database=policy.source.database, query=rows.sql(engine.dialect))
    return policy.model_copy(update={"source": one}), taken or {}


def child_columns(policy: Policy, engine: Engine, source: Source) -> dict[str, list[str]] | None:
    """The columns to take from each joined table; a column that counts must be in one table only."""
    if not source.joins:
        return None
    seen = [item.name for item in engine.columns(relation(source.model_copy(update={"joins": ()}), engine.dialect))]
    keys = {name for join in source.joins for pair in join.on.items() for name in pair} | {policy.person}
    taken: dict[str, list[str]] = {}
    for join in source.joins:
        own = [item.name for item in engine.columns(relation(Source(table=join.table), engine.dialect))]
        for name in (*policy.quasi_identifiers, *policy.sensitive):
            if name in own and name in seen and name not in keys:
                raise PolicyError(
                    f"column '{name}' is in more than one of the joined tables",
                    hint="rename one of them in a view, so that both are looked at",
                )
        taken[join.table] = [name for name in own if name not in seen]
        seen += taken[join.table]
    return taken

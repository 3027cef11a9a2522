"""A table with child tables along foreign keys: read as one table, with a row for each row of a child, or for none; or
read as the trees of rows that they are."""

from __future__ import annotations

from sqlanon.engines import Engine
from sqlanon.errors import PolicyError
from sqlanon.policy import Policy, Source
from sqlanon.policy.parts import Join
from sqlanon.relations.bucketization import companion
from sqlanon.relations.entities import Branch, EntityTable, child_ending
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


def entity_tree(policy: Policy, engine: Engine, source: Source) -> EntityTable:
    """The tables of a source as trees of rows: each child table hangs on the rows that its key names."""
    own = source.model_copy(update={"joins": ()})
    rows = relation(own, engine.dialect)
    names = [item.name for item in engine.columns(rows)]
    if policy.person not in names:
        where = "of the source" if source.joins else ""
        raise PolicyError(
            f"the first table {where} has no column '{policy.person}'".replace("  ", " "),
            hint="the table with the person column comes first, and child tables hang on it under 'joins'",
        )
    owners = dict.fromkeys(names, 0)
    held = [tuple(names)]
    hangs: list[tuple[int, Join]] = []
    for place, join in enumerate(source.joins, start=1):
        parents = {owners.get(left) for left in join.on}
        if len(parents) != 1 or None in parents:
            raise PolicyError(
                f"the child table '{join.table}' does not hang on one table",
                hint="its key names columns of one of the tables before it",
            )
        (parent,) = parents
        assert parent is not None
        hangs.append((parent, join))
        columns = [item.name for item in engine.columns(relation(Source(table=join.table), engine.dialect))]
        keys = set(join.on.values())
        # A column that an earlier table has is read there; a key has the name that its own table gives it.
        held.append(tuple(name for name in columns if name not in owners or name in keys))
        for name in columns:
            owners.setdefault(name, place)
    joined = {name for join in source.joins for pair in join.on.items() for name in pair} | {policy.person}
    known = [name for name in policy.quasi_identifiers if name in joined]
    if known:
        raise PolicyError(
            f"column '{known[0]}' is a key and cannot be a quasi_identifier",
            hint="a key is replaced by a number; show what it says of persons in another column",
        )
    child_columns(policy, engine, source)  # refuses a column that counts and is in two tables

    def build(place: int) -> EntityTable:
        name = source.text if place == 0 else source.joins[place - 1].table
        of = rows if place == 0 else relation(Source(table=name), engine.dialect)
        branches = tuple(
            Branch(build(number), tuple(join.on.items()))
            for number, (parent, join) in enumerate(hangs, start=1)
            if parent == place
        )
        return EntityTable(name, of, held[place], branches)

    return build(0)


def released_tables(policy: Policy, release: Source) -> Source:
    """A release of trees of rows, with its child tables."""
    if release.joins or not policy.source.joins or release.table is None:
        return release
    joins = tuple(
        join.model_copy(update={"table": companion(release.table, child_ending(join.table))})
        for join in policy.source.joins
    )
    return release.model_copy(update={"joins": joins})

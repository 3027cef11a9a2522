"""The keys that links lead to: each value stands in one row, or a row would belong to several persons.

With two orders of one number, of two customers, the items of that number are read once for each of them. A customer
who leaves takes their order and its items along, and so changes what the other one adds: the bounds of the policy hold
no more. A PRIMARY KEY or UNIQUE constraint keeps such rows out. Without one they are looked for when the policy is
opened, and again before a statement reads the link: on DuckDB once for each version of the file, on PostgreSQL, where
others write at any time, every time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, MutableMapping, Sequence

from sqlglot import exp

from sqlanon.engines import Engine
from sqlanon.errors import PolicyError
from sqlanon.gateway.answer.read_data import Data, read_failure
from sqlanon.gateway.bind.catalog import Catalog, Schema, aliased_table
from sqlanon.gateway.bind.core import Core
from sqlanon.gateway.bind.row_copies import private_tables
from sqlanon.gateway.bind.schema import require_unique
from sqlanon.policy.gateway import Gateway

LinkedKey = tuple[str, tuple[str, ...]]  # the table that a link leads to, and its columns


def linked_keys(policy: Gateway, tables: Iterable[str]) -> Iterator[tuple[str, LinkedKey]]:
    """The keys on the way from tables to the unit, each with the table whose link leads there."""
    seen = set()
    for name in tables:
        while (link := policy.tables[name].link) is not None and name not in seen:
            seen.add(name)
            yield name, (link.table, tuple(link.on.values()))
            name = link.table


def unproven_keys(policy: Gateway, schema: Schema, tables: Iterable[str]) -> list[tuple[str, LinkedKey]]:
    """Those of them that no constraint keeps unique."""
    found = []
    for name, (parent, columns) in linked_keys(policy, tables):
        proven = any(table == parent and set(own) <= set(columns) for table, own in schema.unique_keys)
        if not proven:
            found.append((name, (parent, columns)))
    return found


def find_shared_key(catalog: Catalog, key: LinkedKey) -> exp.Select:
    """A query that gives a row, without any data of it, if two rows of a table have one key."""
    table, names = key
    columns = [catalog.read(table, "t0", name) for name in names]
    known = [exp.Not(this=exp.Is(this=column.copy(), expression=exp.Null())) for column in columns]
    shared = exp.GT(this=exp.Count(this=exp.Star()), expression=exp.Literal.number(1))
    select = exp.Select(expressions=[exp.Literal.number(1)]).from_(aliased_table(table, "t0"), copy=False)
    return select.where(*known, copy=False).group_by(*columns, copy=False).having(shared, copy=False).limit(1)


def require_linked_keys(engine: Engine, catalog: Catalog) -> None:
    """Refuse to open a policy of which a link leads to a key that several rows share."""
    policy = catalog.policy
    for name, key in unproven_keys(policy, catalog.schema, policy.tables):
        if engine.query(find_shared_key(catalog, key)):
            line, (parent, columns) = policy.line_of("tables", name, "link"), key
            raise PolicyError(
                f"{policy.name}:{line}: table '{name}' links to '{parent}' on {', '.join(columns)}, which several rows "
                f"of '{parent}' share: a row would belong to several persons",
                hint="link on a key that is unique there, and give it a UNIQUE constraint",
            )


def require_keys(
    data: Data,
    catalog: Catalog,
    cores: Sequence[Core],
    verified: MutableMapping[LinkedKey, str],
    version: str | None,
) -> None:
    """Before a charge: refuse if a key that the statement relies on is not unique any more.

    `verified` holds the keys that were checked in a version of the data; without a version every key is checked.
    The analyst learns only that the statement cannot be answered; opening the policy again tells the owner why.
    """
    policy, schema = catalog.policy, catalog.schema
    tables = {name for core in cores for name in private_tables(catalog, core.rows)}
    if any(core.unique for core in cores) or any(linked_keys(policy, tables)):
        require_unique(data.engine, policy, schema)
    for _, key in unproven_keys(policy, schema, tables):
        if version is not None and verified.get(key) == version:
            continue
        query = find_shared_key(catalog, key)
        if data.guarded(lambda query=query: data.engine.query(query), charged=False):
            raise read_failure(charged=False)
        if version is not None:
            verified[key] = version

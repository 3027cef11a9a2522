"""What the catalog is made of: plain data, so that no database is opened here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from sqlanon.pgcatalog.kinds import require_type
from sqlanon.pgwire.types import PgType

PUBLIC = "public"


@dataclass(frozen=True)
class PgColumn:
    name: str
    type: PgType
    not_null: bool = False
    typmod: int = -1
    comment: str | None = None


@dataclass(frozen=True)
class KeyInfo:
    """A constraint: columns that no two rows share, or that lead to a row of another table (its schema and name)."""

    kind: Literal["unique", "foreign"]
    columns: tuple[str, ...]
    table: tuple[str, str] = ("", "")
    referred: tuple[str, ...] = ()


@dataclass(frozen=True)
class TableInfo:
    """A table that some principals may query; `seen_by` is None for all of them."""

    name: str
    columns: tuple[PgColumn, ...]
    schema: str = PUBLIC
    kind: Literal["table", "view", "materialized view"] = "table"
    comment: str | None = None
    primary_key: tuple[str, ...] = ()
    seen_by: frozenset[str] | None = None
    keys: tuple[KeyInfo, ...] = ()  # beside the primary key


@dataclass(frozen=True)
class RoleInfo:
    name: str
    can_login: bool = True


@dataclass(frozen=True)
class Metadata:
    """All that the catalog tells. The owner is a role that nobody logs in as."""

    database: str
    tables: tuple[TableInfo, ...]
    roles: tuple[RoleInfo, ...] = ()
    version: str = "15.0"
    owner: str = "sqlanon"
    settings: tuple[tuple[str, str], ...] = field(default=())

    def seen_by(self, principal: str) -> tuple[tuple[int, TableInfo], ...]:
        """The tables that a principal may query, each with its place among all, from which its oid is made."""
        return tuple(
            (place, table)
            for place, table in enumerate(self.tables)
            if table.seen_by is None or principal in table.seen_by
        )


COMMENTS = {"private": "private: answered with differential privacy", "released": "released", "public": "public"}


def tables_from(listed: Iterable[Mapping[str, Any]]) -> tuple[TableInfo, ...]:
    """Tables as a query worker lists them: name, kind, columns with types, unique columns, and who may see them.

    >>> (table,) = tables_from([{"name": "main.a", "kind": "public", "columns": {"x": "int8"}, "seen_by": ["ann"]}])
    >>> table.schema, table.name, table.columns[0].type.name, table.comment
    ('public', 'a', 'int8', 'public')
    """
    made = []
    for each in listed:
        schema, _, name = each["name"].rpartition(".")
        columns = tuple(PgColumn(column, require_type(kind)) for column, kind in each["columns"].items())
        unique = [column for column in each.get("unique", ()) if column in each["columns"]]
        made.append(
            TableInfo(
                name,
                columns,
                schema=PUBLIC if schema in ("", "main") else schema,
                comment=COMMENTS.get(each["kind"]),
                primary_key=tuple(unique) if len(unique) == 1 else (),
                seen_by=frozenset(each["seen_by"]),
            )
        )
    return tuple(made)

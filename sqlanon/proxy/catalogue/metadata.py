"""What the catalogue is made of: plain data, so that no database is opened here."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from sqlanon.proxy.types import PgType

PUBLIC = "public"


@dataclass(frozen=True)
class ColumnInfo:
    name: str
    type: PgType
    not_null: bool = False
    typmod: int = -1
    comment: str | None = None


@dataclass(frozen=True)
class TableInfo:
    """A table that some principals may query; `seen_by` is None for all of them."""

    name: str
    columns: tuple[ColumnInfo, ...]
    schema: str = PUBLIC
    kind: Literal["table", "view"] = "table"
    comment: str | None = None
    primary_key: tuple[str, ...] = ()
    seen_by: frozenset[str] | None = None


@dataclass(frozen=True)
class RoleInfo:
    name: str
    can_login: bool = True


@dataclass(frozen=True)
class Metadata:
    """All that the catalogue tells. The owner is a role that nobody logs in as."""

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

"""pg_catalog and information_schema, answered from metadata alone, and SELECTs that read no table.

No analyst's text reaches the metadata database: every statement is read, bound and written anew.

The names below are loaded when they are used: who keeps the settings of a session does not load what answers.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sqlanon.pgcatalog.metadata import KeyInfo as KeyInfo
    from sqlanon.pgcatalog.metadata import Metadata as Metadata
    from sqlanon.pgcatalog.metadata import PgColumn as PgColumn
    from sqlanon.pgcatalog.metadata import RoleInfo as RoleInfo
    from sqlanon.pgcatalog.metadata import TableInfo as TableInfo
    from sqlanon.pgcatalog.metadata import tables_from as tables_from
    from sqlanon.pgcatalog.pg_catalog import CatalogAnswer as CatalogAnswer
    from sqlanon.pgcatalog.pg_catalog import PgCatalog as PgCatalog

_HOMES = {
    "CatalogAnswer": "pg_catalog",
    "KeyInfo": "metadata",
    "Metadata": "metadata",
    "PgCatalog": "pg_catalog",
    "PgColumn": "metadata",
    "RoleInfo": "metadata",
    "TableInfo": "metadata",
    "tables_from": "metadata",
}
__all__ = ["CatalogAnswer", "KeyInfo", "Metadata", "PgCatalog", "PgColumn", "RoleInfo", "TableInfo", "tables_from"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'sqlanon.pgcatalog' has no attribute '{name}'")
    return getattr(import_module(f"sqlanon.pgcatalog.{_HOMES[name]}"), name)

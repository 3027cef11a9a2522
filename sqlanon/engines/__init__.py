"""Engines: where SQL runs. `connect(url)` gives one; DuckDB is the default, PostgreSQL is an extra."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sqlanon.engines.engine import ColumnInfo, Engine, ExistingRelation, Hardened, Reads, table_name
from sqlanon.errors import SourceError

__all__ = [
    "ColumnInfo",
    "Engine",
    "ExistingRelation",
    "Hardened",
    "Reads",
    "connect",
    "is_duckdb_connection",
    "table_name",
]


def connect(
    url: Any = None,
    *,
    read_only: bool = True,
    memory_limit: str | None = None,
    hardened: Hardened | None = None,
    alone: bool = False,
) -> Engine:
    """Open a database: a DuckDB file, `:memory:` (default), a `postgresql://` URL, a URL or engine of SQLAlchemy; or
    use a DuckDB connection that is open. Closing the engine leaves that connection open.

    A DuckDB file is opened for reading; to publish a table or view into it, give `read_only=False`.
    A DuckDB file that this process has open for writing, as dbt does for its plugins, cannot be opened read-only beside
    it: it is opened for writing too, or with `alone` not at all.
    """
    if is_duckdb_connection(url):
        from sqlanon.engines.duckdb import DuckDB

        return DuckDB.over(url)
    url = _plain_url(url)
    if url is not None and url.startswith(("postgresql://", "postgres://")):
        from sqlanon.engines.postgres import Postgres

        return Postgres(url, read_only=hardened is not None)
    if url is not None and "://" in url and not url.startswith("duckdb://"):
        scheme = url.split("://", 1)[0]
        raise SourceError(
            f"there is no engine for '{scheme}://'",
            hint="give a DuckDB file, ':memory:' or a postgresql:// URL",
        )
    from sqlanon.engines.duckdb import DuckDB

    path = (url or ":memory:").removeprefix("duckdb://")
    return DuckDB(path, read_only=read_only, memory_limit=memory_limit, hardened=hardened, alone=alone)


def is_duckdb_connection(given: object) -> bool:
    """Whether this is an open connection of DuckDB; told without loading DuckDB for what is none."""
    return type(given).__name__ == "DuckDBPyConnection"


def _plain_url(given: Any) -> str | None:
    """The URL of what was given: SQLAlchemy names a driver after the database, and has objects for URLs and engines.

    >>> _plain_url("postgresql+psycopg://ann@db.example.org/clinic"), _plain_url("clinic.duckdb")
    ('postgresql://ann@db.example.org/clinic', 'clinic.duckdb')
    """
    if given is None or isinstance(given, Path):
        return None if given is None else str(given)
    made = getattr(given, "url", given)
    if hasattr(made, "render_as_string"):
        if str(made.drivername).partition("+")[0] == "duckdb":  # SQLAlchemy writes a relative path after three slashes
            return made.database or ":memory:"
        made = made.render_as_string(hide_password=False)
    if not isinstance(made, str):
        raise SourceError(
            f"a database is named by a path or a URL, not by {type(given).__name__}",
            hint="give a DuckDB file, a postgresql:// URL, an open DuckDB connection, or a URL of SQLAlchemy",
        )
    scheme, sign, rest = made.partition("://")
    return f"{scheme.partition('+')[0]}{sign}{rest}" if sign else made

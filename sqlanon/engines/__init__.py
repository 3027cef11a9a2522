"""Engines: where SQL runs. `connect(url)` gives one; DuckDB is the default, PostgreSQL is an extra."""

from __future__ import annotations

from sqlanon.engines.engine import ColumnInfo, Engine, ExistingRelation, Hardened, Reads, table_name
from sqlanon.errors import SourceError

__all__ = ["ColumnInfo", "Engine", "ExistingRelation", "Hardened", "Reads", "connect", "table_name"]


def connect(
    url: str | None = None,
    *,
    read_only: bool = True,
    memory_limit: str | None = None,
    hardened: Hardened | None = None,
    alone: bool = False,
) -> Engine:
    """Open a database: a DuckDB file, `:memory:` (default), or a `postgresql://` URL.

    A DuckDB file is opened for reading; to publish a table or view into it, give `read_only=False`.
    A DuckDB file that this process has open for writing, as dbt does for its plugins, cannot be opened read-only beside
    it: it is opened for writing too, or with `alone` not at all.
    """
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

"""Engines: where SQL runs. `connect(url)` gives one; DuckDB is the default, PostgreSQL is an extra."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sqlanon.engines.engine import ColumnInfo, Engine, ExistingRelation, Hardened, Reads, WorkPlace, table_name
from sqlanon.errors import SourceError
from sqlanon.policy.database_names import is_spark_url

__all__ = [
    "ColumnInfo",
    "Engine",
    "ExistingRelation",
    "Hardened",
    "Reads",
    "WorkPlace",
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
    if is_spark_session(url):
        from sqlanon.engines.spark import Spark

        return Spark(url, memory_limit=memory_limit)
    url = _plain_url(url)
    if url is not None and is_spark_url(url):
        return _connect_spark(url, read_only=read_only, memory_limit=memory_limit, hardened=hardened)
    if url is not None and url.startswith(("postgresql://", "postgres://")):
        from sqlanon.engines.postgres import Postgres

        return Postgres(url, read_only=hardened is not None)
    if url is not None and "://" in url and not url.startswith("duckdb://"):
        scheme = url.split("://", 1)[0]
        raise SourceError(
            f"there is no engine for '{scheme}://'",
            hint="give a DuckDB file, ':memory:', a postgresql:// URL, or spark:local, spark://… or sc://… for Spark",
        )
    from sqlanon.engines.duckdb import DuckDB

    path = (url or ":memory:").removeprefix("duckdb://")
    return DuckDB(path, read_only=read_only, memory_limit=memory_limit, hardened=hardened, alone=alone)


def _connect_spark(url: str, *, read_only: bool, memory_limit: str | None, hardened: Hardened | None) -> Engine:
    if hardened is not None:
        raise SourceError("the gateway does not run on Spark", hint="serve a DuckDB file or a PostgreSQL database")
    from sqlanon.engines.spark import FETCHED_ROWS, Spark, open_session

    session, stops, own = open_session(url)
    given = own.get("fetch_rows", str(FETCHED_ROWS))
    if not given.isdigit() or not int(given):
        raise SourceError("fetch_rows is a number of rows", hint="write for example spark:local?fetch_rows=8000000")
    limits = {"memory_limit": memory_limit, "fetched_rows": int(given)}
    return Spark(session, read_only=read_only, stops=stops, **limits)  # type: ignore[arg-type]


def is_spark_session(given: object) -> bool:
    """Whether this is a session of Spark, plain or over Spark Connect; told without loading Spark."""
    return type(given).__module__.startswith("pyspark.sql") and type(given).__name__ == "SparkSession"


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

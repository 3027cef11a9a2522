"""Give an engine that reads what the caller has: rows in memory, a file, or a table of a database."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlanon.dataframes.arrow_tables import arrow_of, is_tabular
from sqlanon.engines import Engine, connect, is_duckdb_connection
from sqlanon.engines.duckdb import DuckDB
from sqlanon.errors import SourceError
from sqlanon.policy import Source
from sqlanon.policy.options import source_of

if TYPE_CHECKING:
    import pyarrow

FORMS = (
    "a DataFrame of pandas, Polars or Spark, an Arrow table, a DuckDB relation, a file, or a table with 'connection='"
)


@dataclass(frozen=True)
class OpenedData:
    """An engine, and where in it the rows are; `rows` are those of the caller, if they are in memory."""

    engine: Engine
    source: Source
    rows: pyarrow.Table | None = None


@contextmanager
def open_data(
    data: Any, connection: Any = None, *, name: str = "df", index: Collection[str] = ()
) -> Iterator[OpenedData]:
    """Open rows for reading. Rows in memory are read where they are, under `name`, by a database in memory; tables are
    read by their own database. What was opened here is closed at the end, and a connection of the caller is not."""
    if connection is not None:
        if not isinstance(data, str):
            raise SourceError(
                f"with a connection, the data is the name of a table or a query, not {type(data).__name__}",
                hint="leave 'connection=' out for rows in memory",
            )
        own = is_engine(connection)
        engine = connection if own else connect(connection)
        try:
            yield OpenedData(engine, Source(**source_of(data)))
        finally:
            if not own:
                engine.close()
        return
    if is_spark_frame(data):
        on_spark = connect(data.sparkSession)
        try:
            on_spark.show_frame(data, name)  # type: ignore[attr-defined]
            yield OpenedData(on_spark, Source(table=name))
        finally:
            on_spark.close()
        return
    rows = arrow_of(data, index) if is_tabular(data) else None
    source = Source(table=name) if rows is not None else _file_source(data)
    engine = connect()
    try:
        assert isinstance(engine, DuckDB)
        if rows is not None:
            engine.register_arrow(name, rows)
        yield OpenedData(engine, source, rows)
    finally:
        engine.close()


def add_rows(engine: Engine, data: Any, name: str) -> Source:
    """Let an engine read further rows, such as a release beside its source."""
    if isinstance(data, Source):
        return data
    if is_spark_frame(data) and engine.product == "spark":
        engine.show_frame(data, name)  # type: ignore[attr-defined]
        return Source(table=name)
    if not is_tabular(data):
        return Source(**source_of(str(data)))
    if not isinstance(engine, DuckDB):
        raise SourceError(
            "rows in memory are read by DuckDB only", hint="give the name of a table of the same database instead"
        )
    engine.register_arrow(name, arrow_of(data))
    return Source(table=name)


def is_spark_frame(data: object) -> bool:
    """Whether this is a DataFrame of Spark; told without loading Spark."""
    return type(data).__module__.startswith("pyspark.sql") and type(data).__name__ == "DataFrame"


def is_engine(given: object) -> bool:
    """Whether this is an engine of sqlanon, as `connect` gives one."""
    return hasattr(given, "dialect") and hasattr(given, "create_temporary")


def _file_source(data: Any) -> Source:
    if is_duckdb_connection(data) or is_engine(data):
        raise SourceError(
            "a connection holds many tables", hint="give the table first: anonymize('patients', connection=…)"
        )
    if not isinstance(data, str | Path):
        raise SourceError(f"rows cannot be read from {type(data).__name__}", hint=f"give {FORMS}")
    kind = {"path": str(data)} if isinstance(data, Path) else source_of(data)
    if "path" not in kind:
        what = "query" if "query" in kind else f"table '{data}'"
        raise SourceError(f"the {what} needs a database", hint=f"add 'connection='; or give {FORMS}")
    return Source(**kind)

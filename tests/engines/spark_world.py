"""A Spark on this machine for tests, and the same rows in it and in DuckDB."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from conftest import Database

from sqlanon.engines import connect

PARTS = "2"


def require_spark() -> None:
    """Skip, and say why, where Spark cannot run."""
    pytest.importorskip("pyspark", reason="pyspark is not installed: make spark")
    if shutil.which("java") is None:
        pytest.skip("Spark needs Java 17: there is none on this machine")


@contextmanager
def running_spark(folder: Path) -> Iterator[Any]:
    """A session with a catalogue of its own, in a folder."""
    with closing(connect(f"spark:local?cores=2&memory=1g&warehouse={folder}", read_only=False)) as engine:
        engine.session.conf.set("spark.sql.shuffle.partitions", PARTS)
        yield engine.session


class SparkDatabase(Database):
    """As the databases of other tests. Rows go through DuckDB and Parquet, so that their types are the same."""

    def __init__(self, session: Any, folder: Path) -> None:
        self.folder = folder
        self.url = "spark:local"
        self.session = session
        self.engine: Any = connect(session)

    def run(self, sql: str) -> None:
        self.session.sql(sql)

    def fetch(self, sql: str) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in self.session.sql(sql).collect()]

    def retire_patterns(self) -> None:
        return None

    def table(self, name: str, columns: dict[str, str], rows: Sequence[dict[str, Any]]) -> None:
        with closing(connect()) as engine:
            made = Database(engine)
            made.table("made", columns, rows)
            path = self.folder / f"{len(list(self.folder.iterdir()))}.parquet"
            made.run(f"COPY made TO '{path}' (FORMAT PARQUET)")
        quoted = "`" + name.replace("`", "``") + "`"
        self.run(f"DROP TABLE IF EXISTS {quoted}")
        self.session.read.parquet(str(path)).write.saveAsTable(quoted)

    def copy(self, duck: Database, names: Sequence[str]) -> None:
        """The tables of a DuckDB, under their names."""
        for name in names:
            path = self.folder / f"{len(list(self.folder.iterdir()))}.parquet"
            duck.run(f"COPY \"{name}\" TO '{path}' (FORMAT PARQUET)")
            self.run(f"DROP TABLE IF EXISTS `{name}`")
            self.session.read.parquet(str(path)).write.saveAsTable(f"`{name}`")

    def clear(self) -> None:
        """Drop what a test published."""
        for item in self.session.catalog.listTables():
            if not item.isTemporary:
                self.run(f"DROP {'VIEW' if item.tableType == 'VIEW' else 'TABLE'} IF EXISTS `{item.name}`")

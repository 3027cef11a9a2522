"""A Spark on this machine for tests, and the same rows in it and in DuckDB."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import pytest
from conftest import Database

from sqlanon.engines import connect
from sqlanon.policy import Policy, parse

PARTS = "2"


def require_spark() -> None:
    """Skip, and say why, where Spark cannot run."""
    pytest.importorskip("pyspark", reason="pyspark is not installed: make spark")
    if shutil.which("java") is None:
        pytest.skip("Spark needs Java 17: there is none on this machine")


# For statements on a few rows: what is compiled to run fast takes longer to compile than to run.
QUICK = {
    "spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false", "spark.log.level": "OFF",
    "spark.sql.session.timeZone": "UTC", "spark.sql.shuffle.partitions": PARTS, "spark.driver.memory": "1g",
    "spark.sql.codegen.wholeStage": "false",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC", "spark.sql.adaptive.enabled": "false",
}  # fmt: skip


@contextmanager
def running_spark(folder: Path) -> Iterator[Any]:
    """A session with a catalogue of its own, in a folder."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").appName("sqlanon tests")
    where = {"spark.sql.warehouse.dir": str(folder)}
    for key, value in {**QUICK, **where}.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    try:
        yield session
    finally:
        session.stop()


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
        for item in self.session.sql("SHOW TABLES").collect():
            if not item.isTemporary:
                kind = "VIEW" if item.tableName in self.views() else "TABLE"
                self.run(f"DROP {kind} IF EXISTS `{item.tableName}`")

    def views(self) -> set[str]:
        return {item.viewName for item in self.session.sql("SHOW VIEWS").collect()}


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with running_spark(tmp_path_factory.mktemp("warehouse")) as made:
        yield made


@pytest.fixture
def spark(session: Any, tmp_path: Path) -> Iterator[SparkDatabase]:
    folder = tmp_path / "rows"
    folder.mkdir()
    made = SparkDatabase(session, folder)
    made.clear()
    with closing(made.engine):
        yield made


@pytest.fixture
def duck() -> Iterator[Database]:
    with closing(connect(":memory:")) as engine:
        yield Database(engine)


def same(left: Any, right: Any, where: str = "") -> None:
    """Equal, but for the last bits of sums of floats, which depend on the order of the rows."""
    if is_dataclass(left) and type(left) is type(right):
        for item in fields(left):
            same(getattr(left, item.name), getattr(right, item.name), f"{where}.{item.name}")
    elif isinstance(left, dict):
        assert left.keys() == right.keys(), where
        for key in left:
            same(left[key], right[key], f"{where}.{key}")
    elif isinstance(left, list | tuple):
        assert len(left) == len(right), where
        for place, pair in enumerate(zip(left, right, strict=True)):
            same(*pair, f"{where}[{place}]")
    elif isinstance(left, float) and isinstance(right, float):
        assert left == right or math.isclose(left, right, rel_tol=1e-9, abs_tol=1e-12), (where, left, right)
    else:
        assert left == right, (where, left, right)


SMALL = {"age": "TEXT", "zip code": "TEXT", "s": "TEXT", "n": "INTEGER", "x": "DOUBLE", "d": "DATE", "who": "BIGINT"}


def small(count: int = 80) -> list[dict[str, Any]]:
    """NULLs, quotes, backslashes, line breaks and words of other scripts."""
    words = ["flu", "it's", 'say "x"', "a\\b", "new\nline", "Grüße", None]
    return [
        {
            "age": None if i % 19 == 5 else f"a{i * i % 3}",
            "zip code": ["1\\1", "2'2", "`3`"][i // 3 % 3],
            "s": words[(i * 5 + i // 7) % 7],
            "n": None if i % 13 == 1 else i * 7 % 11,
            "x": i / 8,
            "d": f"2024-0{1 + i % 3}-11",
            "who": i // 2,
        }
        for i in range(count)
    ]


ROLES = {
    "age": "quasi_identifier", "zip code": "quasi_identifier", "s": "sensitive", "n": "sensitive",
    "x": "insensitive", "d": "insensitive", "who": "identifier",
}  # fmt: skip


def rule(**more: Any) -> Policy:
    written = {
        "source": {"table": "t"}, "columns": ROLES, "suppression_limit": 0.3, "release": {"view": "r"},
        "models": [{"k_anonymity": {"k": 4}}, {"distinct_l_diversity": {"l": 2}}, {"t_closeness": {"t": 0.5}}],
    }  # fmt: skip
    return parse(json.dumps(written | more))

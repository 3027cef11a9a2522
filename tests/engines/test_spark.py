"""Spark as an engine: its equality with DuckDB in short, what is fetched, releases that are killed, and faults."""

# ruff: noqa: F401, F811 (fixtures are imported)

from __future__ import annotations

import logging
from contextlib import closing, suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from conftest import Database
from spark_world import ROLES, SMALL, SparkDatabase, duck, require_spark, rule, same, session, small, spark
from sqlglot import exp
from transforming import KEY

import sqlanon
from sqlanon.engines import WorkPlace, connect
from sqlanon.errors import EngineError, PolicyError, SourceError
from sqlanon.evidence.checks import check
from sqlanon.release import publish
from sqlanon.sqltree.tree import column, count_all, select, table

require_spark()
pytestmark = pytest.mark.filterwarnings("ignore")  # of pyspark, about pandas


def test_a_check_and_a_release_are_those_of_duckdb(spark: SparkDatabase, duck: Database) -> None:
    duck.table("t", SMALL, small())
    spark.copy(duck, ["t"])
    same(check(rule(), spark.engine), check(rule(), duck.engine))
    for persons in ({}, {"person": "who"}):
        asked = rule(models=[{"k_anonymity": {"k": 3}}], algorithm="full_domain", **persons)
        there, here = (publish(asked, each.engine, workload=False, secret=KEY) for each in (spark, duck))
        assert there.plan == here.plan
        assert sorted(map(repr, spark.fetch("SELECT * FROM r"))) == sorted(map(repr, duck.fetch("SELECT * FROM r")))
        assert there.document["holds"]


@pytest.mark.full
def test_what_reads_rows_runs_on_spark_and_what_reads_groups_beside_it(spark: SparkDatabase) -> None:
    spark.table("t", SMALL, small())
    engine = spark.engine
    groups = select("s", count_all().as_("records"), source=table("t"), groups=["s"])
    assert engine.place(groups) is WorkPlace.ROWS
    engine.create_temporary("sqlanon_groups", groups)
    assert engine.place(select(exp.Star(), source=table("sqlanon_groups"))) is WorkPlace.SUMMARY
    assert [rows for rows, _ in engine.fetched] == [7]
    engine.create_temporary("sqlanon_rows", select("s", "who", source=table("t")))
    assert engine.place(select(exp.Star(), source=table("sqlanon_rows"))) is WorkPlace.ROWS
    assert [rows for rows, _ in engine.fetched] == [7]  # as many rows as the source has stay where they are
    assert engine.query(select(count_all(), source=table("sqlanon_rows"))) == [(80,)]
    engine.drop_temporary(["sqlanon_groups", "sqlanon_rows"])
    with pytest.raises(SourceError, match="there is no table 'sqlanon_rows'"):
        engine.query(select(count_all(), source=table("sqlanon_rows")))


@pytest.mark.full
def test_a_data_frame_is_checked_and_anonymized_where_it_is(spark: SparkDatabase, duck: Database) -> None:
    duck.table("t", SMALL, small())
    spark.copy(duck, ["t"])
    frame = spark.session.table("t")
    given: Any = {"quasi_identifiers": ["age", "zip code"], "sensitive": ["s"], "k": 3}
    same(sqlanon.check(frame, **given), sqlanon.check("t", connection=duck.engine, **given))
    given |= {"identifiers": ["who"], "insensitive": ["x", "d", "n"]}
    there, here = sqlanon.anonymize(frame, **given), sqlanon.anonymize("t", connection=duck.engine, **given)
    made = there.to_spark()
    assert made.sparkSession is spark.session and len(there) == len(here)
    assert sorted(map(repr, there.to_arrow().to_pylist())) == sorted(map(repr, here.to_arrow().to_pylist()))
    spark.run("DROP TABLE t")  # the release is no question to the source any more
    assert made.count() == len(here)


# ---- releases


class Killed(BaseException):
    """In place of kill -9: nothing is caught, and nothing is cleaned up."""


CHANGES = ("write_table", "append", "show_table", "drop_table")


def killed_at(engine: Any, monkeypatch: pytest.MonkeyPatch, place: int, *, after: bool) -> list[str]:
    """Let the driver die before or after the change of the catalogue with this number; gives the list of changes."""
    done: list[str] = []
    dead = False
    for name in CHANGES:
        real = getattr(engine, name)

        def change(*given: Any, real: Any = real, name: str = name) -> Any:
            nonlocal dead
            if dead:
                raise Killed
            done.append(name)
            if len(done) == place and not after:
                dead = True
                raise Killed
            made = real(*given)
            if len(done) == place:
                dead = True
                raise Killed
            return made

        monkeypatch.setattr(engine, name, change)
    return done


@pytest.mark.full
@pytest.mark.parametrize(
    ("place", "after"),
    [(place, after) for place in range(1, 5) for after in (False, True)],
)
def test_a_driver_that_dies_leaves_the_old_release_or_the_new(
    spark: SparkDatabase, monkeypatch: pytest.MonkeyPatch, place: int, after: bool
) -> None:
    spark.table("t", SMALL, small(40))
    short: dict[str, Any] = {"models": [{"k_anonymity": {"k": 2}}], "algorithm": "full_domain"}
    publish(rule(**short), spark.engine, workload=False)
    old = sorted(map(repr, spark.fetch("SELECT * FROM r")))
    asked = rule(**short | {"models": [{"k_anonymity": {"k": 8}}]})
    with closing(connect(spark.session)) as engine, monkeypatch.context() as patched:
        done = killed_at(engine, patched, place, after=after)
        with suppress(Killed):
            publish(asked, engine, workload=False)
    now = sorted(map(repr, spark.fetch("SELECT * FROM r")))
    shown = "show_table" in done[: place - (not after)]
    assert (now != old) == shown, done
    with closing(connect(spark.session)) as engine:
        listed = sqlanon.release.record.versions(engine)
        assert sorted(item.version for item in listed) == ([1, 2] if shown else [1])
        assert [item.version for item in listed if item.status == "current"] == [2 if shown else 1]
        publish(asked, engine, workload=False)  # and the next one is not in the way of what is left
        assert sorted(map(repr, spark.fetch("SELECT * FROM r"))) != old
        tables = [name for name in engine.tables() if name.startswith("r__v")]
        assert len(tables) <= 2, tables


@pytest.mark.full
def test_the_order_of_a_release_tells_nothing_of_that_of_its_source(spark: SparkDatabase) -> None:
    rows = [{"age": "a", "zip code": "1", "s": "flu", "n": 1, "x": float(i), "d": None, "who": i} for i in range(600)]
    spark.table("t", SMALL, rows)
    publish(rule(models=[{"k_anonymity": {"k": 2}}]), spark.engine, workload=False)
    found = [row[0] for row in spark.fetch("SELECT x FROM r")]
    assert sorted(found) == [float(i) for i in range(600)]
    kept = sum(left < right for left, right in pairwise(found))
    assert 240 < kept < 360  # half of the neighbours, give or take five deviations; 599 in the order of the source


@pytest.mark.full
def test_a_person_key_is_never_in_a_table_that_others_can_read(
    spark: SparkDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    spark.table("t", SMALL, small(40))
    seen: list[list[str]] = []
    real = spark.engine.write_table

    def write(name: str, query: Any) -> None:
        real(name, query)
        seen.append(spark.session.table(name).columns)

    monkeypatch.setattr(spark.engine, "write_table", write)
    publish(
        rule(models=[{"k_anonymity": {"k": 2}}], person="who", algorithm="full_domain"), spark.engine, workload=False
    )
    assert len(seen) == 1 and "who" not in seen[0]


@pytest.mark.full
def test_what_somebody_else_made_is_not_replaced(spark: SparkDatabase) -> None:
    spark.table("t", SMALL, small(40))
    spark.run("CREATE VIEW r AS SELECT 1 AS mine")
    with pytest.raises(PolicyError, match="was not published by sqlanon"):
        publish(rule(models=[{"k_anonymity": {"k": 2}}]), spark.engine, workload=False)
    assert spark.fetch("SELECT * FROM r") == [(1,)]


@pytest.mark.full
def test_a_source_that_changes_meanwhile_is_noticed(spark: SparkDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    spark.table("t", SMALL, small(40))
    real = spark.engine.write_table

    def write(name: str, query: Any) -> None:
        real(name, query)
        spark.table("t", SMALL, small(40)[::-1])  # as many rows, in other files

    monkeypatch.setattr(spark.engine, "write_table", write)
    with pytest.raises(EngineError, match="the source changed while it was read"):
        publish(rule(models=[{"k_anonymity": {"k": 2}}], algorithm="full_domain"), spark.engine, workload=False)
    assert [name for name in spark.engine.tables() if name.startswith("r")] == []


@pytest.mark.full
def test_more_groups_than_may_be_fetched_are_checked_and_not_searched(spark: SparkDatabase, duck: Database) -> None:
    from sqlanon.engines.spark import Spark

    duck.table("t", SMALL, small())
    spark.copy(duck, ["t"])
    asked = rule(models=[{"k_anonymity": {"k": 4}}], algorithm="full_domain")
    with closing(Spark(spark.session, fetched_rows=5)) as engine:
        same(check(asked, engine), check(asked, duck.engine))
        with pytest.raises(EngineError, match="combinations of values; at most 5 are searched") as caught:
            publish(asked, engine, workload=False)
    assert "quasi-identifier" in (caught.value.hint or "")


# ---- faults


@pytest.mark.full
def test_errors_and_logs_carry_no_values(
    spark: SparkDatabase, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    spark.table("t", {"a": "TEXT"}, [{"a": "secret value"}])
    with caplog.at_level(logging.WARNING), pytest.raises(EngineError) as caught:
        spark.engine.query(select(exp.cast(column("a"), "int"), source=table("t")))
    assert "CAST_INVALID_INPUT" in caught.value.message and "SQLSTATE 22018" in caught.value.message
    shown = capfd.readouterr()
    for text in (str(caught.value), caplog.text, shown.out, shown.err):
        assert "secret" not in text


@pytest.mark.full
def test_mistakes_are_told(spark: SparkDatabase, tmp_path: Path) -> None:
    spark.table("patients", SMALL, [])
    with pytest.raises(SourceError, match="there is no table 'patient'") as caught:
        check(rule(source={"table": "patient"}), spark.engine)
    assert "patients" in (caught.value.hint or "")
    with pytest.raises(SourceError, match="there is no file"):
        check(rule(source={"path": str(tmp_path / "none.parquet")}), spark.engine)
    with pytest.raises(EngineError, match="change a table on Spark in place"):
        spark.engine.execute(exp.Drop(tables=[table("patients")], kind="TABLE"))
    with pytest.raises(SourceError, match="unknown option 'colour'"):
        connect("spark:local?colour=red")


@pytest.mark.full
def test_a_session_that_hides_overflows_is_refused(spark: SparkDatabase) -> None:
    spark.session.conf.set("spark.sql.ansi.enabled", "false")
    try:
        with pytest.raises(SourceError, match=r"spark\.sql\.ansi\.enabled"):
            connect(spark.session)
    finally:
        spark.session.conf.set("spark.sql.ansi.enabled", "true")


@pytest.mark.full
def test_a_lost_session_is_told(spark: SparkDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    spark.table("t", SMALL, small(40))
    monkeypatch.setattr(spark.engine, "_session", Lost())
    with pytest.raises(EngineError, match="the connection to Spark broke off"):
        check(rule(), spark.engine)


class Lost:
    """A session whose process is gone: this is what its calls raise."""

    def __getattr__(self, name: str) -> Any:
        raise ConnectionRefusedError(111, "Connection refused")

"""A session as clients see it, through psycopg 3: settings, transactions, cancel, errors, and what is refused."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from proxy_servers import Server
from proxy_world import CITIES, OTHER, OTHER_PASSWORD, PEOPLE
from psycopg import errors, pq
from timing import soon

Connection = psycopg.Connection[Any]


@pytest.fixture
def db(server: Server) -> Iterator[Connection]:
    with server.connect() as made:
        yield made


# ---- settings


def test_settings(server: Server, db: Connection) -> None:
    def show(name: str) -> str:
        row = db.execute(f"SHOW {name}").fetchone()
        assert row is not None
        return str(row[0])

    db.execute("SET application_name = 'süite'")
    assert db.info.parameter_status("application_name") == show("application_name")
    db.execute("SET TimeZone TO 'Europe/Athens'")
    # The proxy takes any zone, and says that it stays with UTC.
    zone, noon = ("UTC", "12:00:00+00") if server.proxy else ("Europe/Athens", "14:00:00+02")
    assert db.info.parameter_status("TimeZone") == show("TimeZone") == zone
    assert db.execute("SELECT '2024-02-29 12:00:00+00'::timestamptz::text").fetchone() == (f"2024-02-29 {noon}",)
    db.execute("SET DateStyle TO 'ISO, DMY'")
    assert db.info.parameter_status("DateStyle") == show("datestyle") == "ISO, DMY"
    db.execute('SET search_path TO public, "$user"')
    assert show("search_path").replace('"', "") == "public, $user"
    db.execute("SET SESSION statement_timeout = '5s'")
    assert show("statement_timeout") == "5s"
    db.execute("SET extra_float_digits = 3; SET client_min_messages TO warning; SET bytea_output TO hex")
    db.execute("SET client_encoding TO 'UTF8'")
    assert show("client_encoding") == "UTF8" and show("standard_conforming_strings") == "on"
    assert show("transaction_isolation") == "read committed" and show("server_encoding") == "UTF8"
    assert db.execute("SELECT current_setting('TimeZone'), current_setting('DateStyle')").fetchone() == (
        zone, "ISO, DMY",
    )  # fmt: skip
    assert len(db.execute("SHOW ALL").fetchall()) > 20
    db.execute("RESET TimeZone")
    assert show("TimeZone") in ("UTC", "Etc/UTC")
    db.execute("DISCARD ALL")
    assert show("statement_timeout") == "0" and db.info.parameter_status("DateStyle") == show("DateStyle") == "ISO, MDY"


def test_what_no_setting_is(db: Connection) -> None:
    cases = {
        "SET no_such_setting = 1": "42704", "SHOW no_such_setting": "42704", "SET TimeZone = 'Nowhere/Land'": "22023",
        "SET client_encoding = 'KLINGON'": "22023", "SET statement_timeout = 'soon'": "22023",
        "SET server_version = '9'": "55P02", "SET standard_conforming_strings = maybe": "22023",
    }  # fmt: skip
    for sql, sqlstate in cases.items():
        with pytest.raises(psycopg.Error) as error:
            db.execute(sql)
        assert (sql, error.value.sqlstate) == (sql, sqlstate)


def test_settings_follow_the_transaction(db: Connection) -> None:
    def style() -> Any:
        return db.execute("SHOW DateStyle").fetchone()

    start = style()
    with pytest.raises(ZeroDivisionError), db.transaction():
        db.execute("SET DateStyle TO 'ISO, DMY'")
        assert style() == ("ISO, DMY",)
        raise ZeroDivisionError
    assert style() == start and db.info.parameter_status("DateStyle") == start[0]
    with db.transaction():
        db.execute("SET LOCAL DateStyle TO 'ISO, DMY'")
        assert style() == ("ISO, DMY",)
    assert style() == start and db.info.parameter_status("DateStyle") == start[0]
    with db.transaction():
        db.execute("SET DateStyle TO 'ISO, DMY'")
    assert style() == ("ISO, DMY",)


def test_settings_in_the_url(server: Server) -> None:
    url = server.url(application_name="from the URL", options="-c TimeZone=Asia/Tokyo -c statement_timeout=1234")
    with psycopg.connect(url) as db:
        assert db.execute("SHOW application_name").fetchone() == ("from the URL",)
        assert db.execute("SHOW TimeZone").fetchone() == ("UTC" if server.proxy else "Asia/Tokyo",)
        assert db.execute("SHOW statement_timeout").fetchone() == ("1234ms",)
        assert db.execute("SELECT current_database(), current_user, session_user, current_schema()").fetchone() == (
            server.database, server.user, server.user, "public",
        )  # fmt: skip


def test_statement_timeout(server: Server, db: Connection) -> None:
    db.execute("SET statement_timeout = 300")

    def late() -> float:
        started = time.monotonic()
        with pytest.raises(errors.QueryCanceled):
            db.execute(server.slow)
        assert time.monotonic() - started > 0.2
        return time.monotonic() - started

    soon(1.5, late)
    assert db.execute("SELECT 1").fetchone() == (1,)


# ---- who and where


def test_refused_at_the_door(server: Server) -> None:
    for wrong, sqlstate in (
        ({"password": "wrong"}, "28P01"), ({"user": "nobody"}, "28P01"), ({"dbname": "elsewhere"}, "3D000"),
    ):  # fmt: skip
        with pytest.raises(psycopg.OperationalError) as error:
            server.connect(**wrong)
        # libpq gives the text alone of an error at the start
        assert {"28P01": "password authentication failed", "3D000": "does not exist"}[sqlstate] in str(error.value)


def test_another_role(server: Server) -> None:
    with server.connect(user=OTHER, password=OTHER_PASSWORD) as db:
        assert db.execute("SELECT current_user").fetchone() == (OTHER,)
        assert db.execute("SELECT count(*) FROM cities").fetchone() == (len(CITIES),)
        if server.proxy:
            with pytest.raises(errors.UndefinedTable):
                db.execute("SELECT count(*) FROM people_released")


# ---- transactions


def test_a_failed_block(db: Connection) -> None:
    db.autocommit = False
    db.execute("SELECT 1")
    with pytest.raises(errors.UndefinedTable):
        db.execute("SELECT 1 FROM nowhere")
    with pytest.raises(errors.InFailedSqlTransaction):
        db.execute("SELECT 1")
    db.rollback()
    assert db.execute("SELECT 1").fetchone() == (1,)
    db.commit()
    assert db.info.transaction_status == pq.TransactionStatus.IDLE


def test_characteristics_of_transactions(db: Connection) -> None:
    db.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
    db.read_only = True
    with db.transaction():
        assert db.execute("SHOW transaction_isolation").fetchone() == ("repeatable read",)
        assert db.execute("SHOW transaction_read_only").fetchone() == ("on",)


def test_nested_transactions(server: Server, db: Connection) -> None:
    """Savepoints are honoured, or refused as a whole."""
    try:
        with db.transaction():
            with pytest.raises(errors.UndefinedColumn), db.transaction():
                db.execute("SELECT nothing")
            assert db.execute("SELECT 1").fetchone() == (1,)
    except errors.FeatureNotSupported:
        assert server.proxy
    assert db.execute("SELECT 2").fetchone() == (2,)


# ---- cancel, threads and asyncio


@pytest.mark.full
def test_cancel(server: Server, db: Connection) -> None:
    def cancelled() -> float:
        asked: list[float] = []

        def stop() -> None:
            asked.append(time.monotonic())
            db.cancel_safe()

        timer = threading.Timer(0.4, stop)
        timer.start()
        with pytest.raises(errors.QueryCanceled):
            db.execute(server.slow)
        seconds = time.monotonic() - asked[0]
        timer.join()
        assert db.execute("SELECT 1").fetchone() == (1,)
        return seconds

    soon(0.5, cancelled)  # to the millisecond it is looked at with bare messages


def test_asyncio(server: Server) -> None:
    async def work(number: int) -> tuple[Any, ...]:
        async with await psycopg.AsyncConnection.connect(**server.arguments(), autocommit=True) as db:
            async with db.pipeline():
                first = await db.execute("SELECT %s::int4", [number])
                second = await db.execute("SELECT name FROM people_released WHERE id = %s", [number])
                found = (*(await first.fetchone() or ()), *(await second.fetchone() or ()))
            async with db.transaction(), db.cursor("c") as cursor:
                await cursor.execute("SELECT id FROM people_released ORDER BY id")
                found += (len(await cursor.fetchmany(number)),)
            async with db.cursor().copy("COPY (SELECT id FROM people_released) TO STDOUT") as copy:
                found += (sum(bytes(block).count(b"\n") for block in [part async for part in copy]),)
            return found

    async def all_of_them() -> list[tuple[Any, ...]]:
        return await asyncio.gather(*(work(number) for number in range(1, 9)))

    assert asyncio.run(all_of_them()) == [(n, f"person {n}", n, PEOPLE) for n in range(1, 9)]


def test_a_task_that_is_cancelled(server: Server) -> None:
    async def work() -> Any:
        async with await psycopg.AsyncConnection.connect(**server.arguments(), autocommit=True) as db:
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(db.execute(server.slow), 0.3)
            return await (await db.execute("SELECT 1")).fetchone()

    assert asyncio.run(work()) == (1,)


# ---- errors


def test_errors_say_what_postgresql_says(db: Connection) -> None:
    with pytest.raises(errors.UndefinedColumn) as error:
        db.execute("SELECT nme FROM people_released")
    said = error.value.diag
    assert said.severity == "ERROR" and said.message_primary == 'column "nme" does not exist'
    assert said.statement_position == "8"
    with pytest.raises(errors.UndefinedTable) as other:
        db.execute("SELECT '☃' FROM peple")
    assert other.value.diag.message_primary == 'relation "peple" does not exist'
    assert other.value.diag.statement_position == "17"
    cases = {
        "SELEC 1": "42601", "SELECT 1 FROM cities WHERE": "42601", "SELECT no_such_function(1)": "42883",
        "SELECT 'a'::int4": "22P02", "SELECT city FROM cities GROUP BY country": "42803",
        "SELECT count(*) FROM cities AS a JOIN cities AS b ON city = 'x'": "42702", "SELECT 1 / 0": "22012",
    }  # fmt: skip
    for sql, sqlstate in cases.items():
        with pytest.raises(psycopg.Error) as found:
            db.execute(sql)
        assert (sql, found.value.sqlstate) == (sql, sqlstate)


@pytest.mark.parametrize(
    "sql", ["SELECT count(*) FROM visits", "(SELECT city FROM cities)", "SELECT 1", "SELECT relname FROM pg_class"]
)
def test_the_plan_is_text(db: Connection, sql: str) -> None:
    for words in ("EXPLAIN", "EXPLAIN VERBOSE", "explain (verbose)"):
        cursor = db.execute(f"{words} {sql}")
        assert [(column.name, column.type_code) for column in cursor.description or ()] == [("QUERY PLAN", 25)]
        assert all(isinstance(line, str) for (line,) in cursor.fetchall())


def test_a_plan_of_what_is_not_there(server: Server, db: Connection) -> None:
    for sql, sqlstate in (("SELECT nothing FROM pg_class", "42703"), ("SELECT 1 FROM nowhere", "42P01")):
        with pytest.raises(psycopg.Error) as found:
            db.execute(f"EXPLAIN {sql}")
        assert found.value.sqlstate == sqlstate
    for sql in (
        "EXPLAIN (FORMAT JSON) SELECT 1",
        "EXPLAIN (COSTS OFF) SELECT count(*) FROM visits",
        "EXPLAIN ANALYZE SELECT 1",
    ):
        if server.proxy:
            with pytest.raises(
                psycopg.errors.FeatureNotSupported, match="EXPLAIN takes a SELECT, and no options but VERBOSE"
            ):
                db.execute(sql)
        else:
            assert db.execute(sql).fetchall()


def test_statements_without_a_table(db: Connection) -> None:
    computed = db.execute("SELECT 1 + 2, 'a' || 'b', upper('ü'), 7 / 2, 1 < 2, NULL, '{\"a\": 1}'::jsonb")
    assert computed.fetchone() == (3, "ab", "Ü", 3, True, None, {"a": 1})
    row = db.execute("SELECT version()").fetchone()
    assert row is not None and row[0].startswith("PostgreSQL 1")


@pytest.mark.parametrize(
    "sql",
    [
        "COPY people_released FROM STDIN",
        "COPY people_released TO '/tmp/out'",
        "COPY (SELECT 1) TO PROGRAM 'cat'",
        "COPY people_released FROM '/etc/passwd'",
        "INSERT INTO cities VALUES ('x')",
        "UPDATE cities SET city = 'x'",
        "DELETE FROM cities",
        "TRUNCATE cities",
        "DROP TABLE cities",
        "CREATE TABLE public.mine (i int)",
        "ALTER TABLE cities ADD x int",
        "GRANT ALL ON DATABASE warehouse TO nobody",
        "WITH x AS (DELETE FROM cities RETURNING *) SELECT * FROM x",
        "DO $$BEGIN END$$; CREATE ROLE x",
        "SET ROLE postgres",
        "SET SESSION AUTHORIZATION postgres",
        "LOAD 'plpgsql'",
        "REINDEX TABLE cities",
        "SELECT * FROM pg_read_file('/etc/passwd')",
        "SELECT lo_import('/etc/passwd')",
        "SELECT * FROM people_released FOR UPDATE",
    ],
)
def test_nothing_is_written(db: Connection, sql: str) -> None:
    """Refused in its own way by each server, and the session goes on."""
    with pytest.raises(psycopg.Error) as refused:
        cursor = db.cursor()
        if sql.startswith("COPY"):
            with cursor.copy(sql) as copy:
                copy.write_row(("x",))
        else:
            cursor.execute(sql)
    assert refused.value.sqlstate and not refused.value.sqlstate.startswith(("XX", "08"))
    assert db.info.transaction_status == pq.TransactionStatus.IDLE
    assert db.execute("SELECT count(*) FROM cities").fetchone() == (len(CITIES),)

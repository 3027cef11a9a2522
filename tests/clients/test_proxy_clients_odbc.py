"""psqlODBC through pyodbc, on a real PostgreSQL and on the proxy."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from datetime import date, datetime
from datetime import time as clock
from decimal import Decimal
from typing import Any

import pytest
from proxy_servers import Server
from proxy_world import NAMES, PEOPLE
from timing import soon

pyodbc = pytest.importorskip(
    "pyodbc", reason="needs the package pyodbc and unixODBC (package unixodbc)", exc_type=ImportError
)
DRIVER = "PostgreSQL Unicode"
pytestmark = pytest.mark.skipif(DRIVER not in pyodbc.drivers(), reason="needs psqlODBC (package odbc-postgresql)")
pyodbc.pooling = False  # each test has a connection of its own


def connect(server: Server, **options: Any) -> Any:
    given = {
        "DRIVER": DRIVER, "SERVER": server.host, "PORT": server.port, "DATABASE": server.database, "UID": server.user,
        "PWD": server.password, **options,
    }  # fmt: skip
    written = ";".join(
        f"{key}={{{value}}}" if key in ("DRIVER", "PWD") else f"{key}={value}" for key, value in given.items()
    )
    return pyodbc.connect(written, autocommit=True, timeout=20)


@pytest.fixture
def db(server: Server) -> Iterator[Any]:
    made = connect(server)
    yield made
    made.close()


def test_rows(db: Any) -> None:
    cursor = db.cursor()
    cursor.execute("SELECT id, name, born, height, income, active, seen, grade FROM people_released WHERE id = 9")
    expected = (
        9,
        "person 9",
        date(1950, 3, 5),
        1.5 + 9 / 128,
        Decimal("110.25"),
        datetime(2024, 2, 29, 8, 59, 59, 500000),
    )
    row = cursor.fetchone()
    assert (*row[:5], row[6]) == expected and row.grade == 3 and row.active in (True, "1")
    assert [column[0] for column in cursor.description][:2] == ["id", "name"]
    assert [column[1] for column in cursor.description][:5] == [int, str, date, float, Decimal]


@pytest.mark.full
def test_parameters(db: Any) -> None:
    cursor = db.cursor()
    assert cursor.execute("SELECT name FROM people_released WHERE id = ?", 7).fetchval() == "person 7"
    assert cursor.execute("SELECT name FROM people_released WHERE id = ?", "7").fetchval() == "person 7"
    for number, name in enumerate(NAMES):
        assert cursor.execute("SELECT no FROM names WHERE name = ?", name).fetchval() == number
    sql = "SELECT count(*) FROM people_released WHERE born < ? AND height >= ? AND income <= ?"
    assert cursor.execute(sql, date(1950, 3, 1), 1.5, Decimal("49.00")).fetchval() == 4
    assert (
        cursor.execute("SELECT count(*) FROM people_released WHERE seen < ?", datetime(2024, 2, 29, 3)).fetchval() == 3
    )
    assert cursor.execute("SELECT count(*) FROM people_released WHERE city = ? OR city IS NULL", None).fetchval() == 0
    with pytest.raises(pyodbc.Error):
        cursor.execute("SELECT name FROM people_released WHERE id = ?", 1, 2)


@pytest.mark.parametrize("prepared", [0, 1])
@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("int4", -5), ("int8", 2**62), ("text", "Ünïcödé ☃"), ("numeric(20,4)", Decimal("-1234567890123456.7891")),
        ("float8", 1.5), ("date", date(2024, 2, 29)), ("timestamp", datetime(2024, 2, 29, 12, 0, 0, 1)),
        ("time", clock(12, 34, 56)), ("bytea", b"\0\xff'\\"), ("text", None),
    ],
)  # fmt: skip
def test_values_come_back(server: Server, kind: str, value: Any, prepared: int) -> None:
    """With the driver's own preparing on the client and with that of the server."""
    db = connect(server, UseServerSidePrepare=prepared, ByteaAsLongVarBinary=1)
    try:
        found = db.cursor().execute(f"SELECT CAST(? AS {kind})", value).fetchval()
        assert found == value
    finally:
        db.close()


@pytest.mark.parametrize("declared", [0, 1])
def test_fetching_in_parts(server: Server, declared: int) -> None:
    """With UseDeclareFetch the driver reads through DECLARE and FETCH."""
    db = connect(server, UseDeclareFetch=declared, Fetch=100)
    try:
        cursor = db.cursor()
        cursor.execute("SELECT id FROM people_released ORDER BY id")
        assert [row[0] for row in cursor.fetchmany(3)] == [1, 2, 3]
        assert len(cursor.fetchall()) == PEOPLE - 3
        before = server.charges()
        cursor.execute("SELECT ward, count(*) FROM visits WHERE cost < ? GROUP BY ward ORDER BY ward", 50.5 + declared)
        assert [row[0] for row in cursor.fetchall()] == ["w0", "w1", "w2", "w3"]
        assert server.charges() == before + server.proxy
    finally:
        db.close()


def test_tables(db: Any) -> None:
    cursor = db.cursor()
    found = {(row.table_name, row.table_type) for row in cursor.tables(schema="public").fetchall()}
    assert {("cities", "TABLE"), ("people_released", "TABLE"), ("visits", "TABLE"), ("Odd Näme", "TABLE")} <= found
    assert {row.table_name for row in cursor.tables(table="cit%").fetchall()} == {"cities"}
    assert {row.table_name for row in cursor.tables(table="nothing").fetchall()} == set()
    assert "pg_class" in {row.table_name for row in cursor.tables(tableType="SYSTEM TABLE").fetchall()}


def test_columns(server: Server, db: Any) -> None:
    cursor = db.cursor()
    found = [(row.column_name, row.type_name, row.nullable) for row in cursor.columns(table="people_released")]
    assert found == [
        ("id", "int4", 0), ("name", "text", 0), ("city", "text", 1), ("born", "date", 1), ("height", "float8", 1),
        ("income", "numeric", 1), ("active", "bool", 1), ("seen", "timestamp", 1), ("grade", "int2", 1),
        ("code", "text" if server.proxy else "varchar", 1),  # DuckDB keeps a VARCHAR(12) as a text
    ]  # fmt: skip
    (income,) = cursor.columns(table="people_released", column="income").fetchall()
    assert (income.column_size, income.decimal_digits) == (10, 2)
    assert [row.column_name for row in cursor.columns(table="Odd Näme")] == ["Id", "two words", "select"]


def test_keys(db: Any) -> None:
    cursor = db.cursor()
    assert [row.column_name for row in cursor.primaryKeys("people_released")] == ["id"]
    assert [(row.pktable_name, row.fkcolumn_name) for row in cursor.foreignKeys(foreignTable="people_released")] == [
        ("cities", "city")
    ]
    assert "id" in [row.column_name for row in cursor.statistics("people_released")]
    assert cursor.procedures(procedure="nothing").fetchall() == []


def test_what_the_driver_says_of_the_server(server: Server, db: Any) -> None:
    assert db.getinfo(pyodbc.SQL_DBMS_NAME) == "PostgreSQL"
    assert 13 <= int(db.getinfo(pyodbc.SQL_DBMS_VER).split(".")[0]) <= 18
    assert db.getinfo(pyodbc.SQL_DATABASE_NAME) == server.database
    assert db.getinfo(pyodbc.SQL_USER_NAME) == server.user
    assert {row.type_name for row in db.cursor().getTypeInfo()} >= {"int4", "text", "numeric", "date"}


def test_transactions(db: Any) -> None:
    db.autocommit = False
    cursor = db.cursor()
    assert cursor.execute("SELECT 1").fetchval() == 1
    with pytest.raises(pyodbc.ProgrammingError) as error:
        cursor.execute("SELECT nothing")
    assert error.value.args[0] in ("42S22", "42703")
    db.rollback()
    assert cursor.execute("SELECT 2").fetchval() == 2
    db.commit()


def test_errors(db: Any) -> None:
    cursor = db.cursor()
    for sql, states in (
        ("SELECT 1 FROM nowhere", {"42S02", "42P01"}), ("SELEC 1", {"42601", "42000"}),
        ("SELECT nothing FROM cities", {"42S22", "42703"}),
    ):  # fmt: skip
        with pytest.raises(pyodbc.Error) as error:
            cursor.execute(sql)
        assert error.value.args[0] in states
        assert cursor.execute("SELECT 1").fetchval() == 1


@pytest.mark.full
def test_cancel(server: Server, db: Any) -> None:
    def cancelled() -> float:
        cursor = db.cursor()
        asked: list[float] = []

        def stop() -> None:
            asked.append(time.monotonic())
            cursor.cancel()

        timer = threading.Timer(0.4, stop)
        timer.start()
        with pytest.raises(pyodbc.Error) as error:
            cursor.execute(server.slow)
        seconds = time.monotonic() - asked[0]
        timer.join()
        assert error.value.args[0] in ("57014", "HY008")
        assert db.cursor().execute("SELECT 1").fetchval() == 1
        return seconds

    soon(0.5, cancelled)


def test_who_is_not_let_in(server: Server) -> None:
    for wrong in ({"PWD": "wrong"}, {"UID": "nobody"}, {"DATABASE": "elsewhere"}):
        with pytest.raises(pyodbc.Error) as error:
            connect(server, **wrong)
        assert error.value.args[0] in ("08001", "28P01", "28000", "3D000")

"""psycopg 3 on a real PostgreSQL and on the proxy: parameters, cursors, pipelines, COPY, settings and errors."""

from __future__ import annotations

import csv
import io
import uuid
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from datetime import time as clock
from decimal import Decimal
from typing import Any

import psycopg
import pytest
from proxy_servers import POOR_PASSWORD, Server
from proxy_world import CITIES, NAMES, PEOPLE
from psycopg import errors, pq
from psycopg.rows import dict_row
from psycopg.types.json import Json, Jsonb

Connection = psycopg.Connection[Any]
WARDS = "SELECT ward, count(*) AS n FROM visits WHERE cost > {} GROUP BY ward ORDER BY ward"


@pytest.fixture
def db(server: Server) -> Iterator[Connection]:
    with server.connect() as made:
        yield made


# ---- values


@pytest.mark.parametrize("binary", [False, True])
def test_names_are_kept(db: Connection, binary: bool) -> None:
    cursor = db.cursor(binary=binary)
    assert [row[0] for row in cursor.execute("SELECT name FROM names ORDER BY no")] == list(NAMES)
    for name in NAMES:
        assert cursor.execute("SELECT %s", [name]).fetchone() == (name,)
        assert cursor.execute("SELECT no FROM names WHERE name = %s", [name]).fetchone() == (NAMES.index(name),)
        quoted = psycopg.sql.Literal(name)
        found = cursor.execute(psycopg.sql.SQL("SELECT {} FROM names WHERE name = {}").format(quoted, quoted))
        assert found.fetchone() == (name,)


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("'Ünïcödé ☃'", "Ünïcödé ☃"),
        ("'It''s'", "It's"),
        ("'back\\slash'", "back\\slash"),
        ("E'tab\\tline\\nquote\\'s \\\\ \\u00fc \\x41 \\101'", "tab\tline\nquote's \\ ü A A"),
        ("$$it's \\ $1$$", "it's \\ $1"),
        ("$tag$ $$ $tag$", " $$ "),
        ("'two' \n 'parts'", "twoparts"),
        ("U&'d\\0061t\\+000061'", "data"),
        ("'-- no comment /* here */'", "-- no comment /* here */"),
        ("''", ""),
    ],
)
def test_literals_are_kept(db: Connection, written: str, value: str) -> None:
    assert db.execute(f"SELECT {written}").fetchone() == (value,)
    assert db.execute(f"SELECT {written} FROM cities WHERE city = 'Athens'").fetchone() == (value,)
    assert db.execute(f"SELECT count(*) FROM cities WHERE city || {written} = 'Athens' || {written}").fetchone() == (1,)


def test_names_of_columns_are_kept(server: Server, db: Connection) -> None:
    cursor = db.execute('SELECT 1 AS "Mixed Case ☃", 2 AS FOLDED, 3 AS "a""b"')
    assert [column.name for column in cursor.description or ()] == ["Mixed Case ☃", "folded", 'a"b']
    cursor = db.execute('SELECT "Id", "two words", "select" FROM "Odd Näme" ORDER BY "Id"')
    assert [column.name for column in cursor.description or ()] == ["Id", "two words", "select"]
    assert cursor.fetchall() == [(1, "Ä", 10), (2, "b", 20)]
    with pytest.raises(errors.UndefinedTable):
        db.execute("SELECT 1 FROM odd_näme")
    if not server.proxy:  # which reads names of columns in any case, as DuckDB does
        with pytest.raises(errors.UndefinedColumn):
            db.execute('SELECT ID FROM "Odd Näme"')


PYTHON: list[Any] = [
    1, -(2**31), 2**40, 2**63 - 1, Decimal("1.50"), Decimal("-123456789.123456789"), 1.5, 5e-324, True, False, "Ü ☃",
    date(2024, 2, 29), clock(23, 59, 59, 999999), datetime(2024, 2, 29, 12, 0, 0, 1),
    datetime(2024, 2, 29, 12, tzinfo=UTC), timedelta(days=3, hours=4, microseconds=5), timedelta(days=-1),
    uuid.UUID(int=2**127 + 1), b"\0\xff'\\", [1, None, -3], ["a", 'b"c,', "", "NULL", None], [1.5, 2.5],
    [date(2024, 2, 29)], None,
]  # fmt: skip


@pytest.mark.full
@pytest.mark.parametrize("binary", [False, True])
@pytest.mark.parametrize("value", PYTHON, ids=[f"{type(value).__name__}-{n}" for n, value in enumerate(PYTHON)])
def test_values_of_python_come_back(db: Connection, value: Any, binary: bool) -> None:
    mark = "%b" if binary else "%t"
    cast = "::text[]" if isinstance(value, list) and isinstance(value[0], str) else ""
    found = db.cursor(binary=binary).execute(f"SELECT {mark}{cast}", [value]).fetchone()
    assert found == (value,) and type(found[0]) is type(value)


def test_json_comes_back(db: Connection) -> None:
    value = {"a": [1, None, "ü"], "b": {"c": 1.5}}
    for wrapped in (Json(value), Jsonb(value)):
        for binary in (False, True):
            assert db.cursor(binary=binary).execute("SELECT %s", [wrapped]).fetchone() == (value,)


def test_a_row_of_all_kinds(db: Connection) -> None:
    sql = "SELECT i2, i4, i8, num, f4, f8, flag, txt, vc, d, ts, u FROM kinds ORDER BY id"
    expected = [
        (-32768, -(2**31), -(2**63), Decimal("-1234567890123456.7891"), -1.5, 2.5e-300, True, "Ünïcödé ☃", "short",
         date(44, 3, 15), datetime(1900, 1, 1), uuid.UUID("00112233-4455-6677-8899-aabbccddeeff")),
        (32767, 2**31 - 1, 2**63 - 1, Decimal("0.0001"), 16777216.0, 1e300, False, "", "exactly twenty chars",
         date(9999, 12, 31), datetime(2038, 1, 19, 3, 14, 8, 1), uuid.UUID(int=2**128 - 1)),
        (None,) * 12,
    ]  # fmt: skip
    for binary in (False, True):
        assert db.cursor(binary=binary).execute(sql).fetchall() == expected


def test_a_row_of_the_rarer_kinds(db: Connection) -> None:
    sql = "SELECT t, tz, iv, raw, js, ia, ta FROM kinds ORDER BY id"
    expected = [
        (clock(0), datetime(1999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC), timedelta(days=365 + 60 + 3),
         b"\0\xff'\\", {"a": [1, None, "ü"]}, [1, None, -3], ["a", 'b"c,', ""]),
        (clock(23, 59, 59, 999999), datetime(2024, 2, 29, 10, tzinfo=UTC), timedelta(days=-1, seconds=7384.5), b"",
         None, [2147483647], ["NULL", "ä"]),
        (None,) * 7,
    ]  # fmt: skip
    for binary in (False, True):
        assert db.cursor(binary=binary).execute(sql).fetchall() == expected


def test_descriptions(server: Server, db: Connection) -> None:
    cursor = db.execute("SELECT id, name, city, born, height, income, active, seen, grade, code FROM people_released")
    told = [(column.name, column.type_code, column.precision, column.scale) for column in cursor.description or ()]
    assert told == [
        ("id", 23, None, None), ("name", 25, None, None), ("city", 25, None, None), ("born", 1082, None, None),
        ("height", 701, None, None), ("income", 1700, 10, 2), ("active", 16, None, None), ("seen", 1114, None, None),
        ("grade", 21, None, None), # DuckDB keeps a VARCHAR(12) as a text.
        ("code", 25 if server.proxy else 1043, None, None),
    ]  # fmt: skip


# ---- statements


def test_untyped_parameters(db: Connection) -> None:
    """psycopg sends a str without a type: the server finds it."""
    assert db.execute("SELECT name FROM people_released WHERE id = %s", ["7"]).fetchone() == ("person 7",)
    assert db.execute("SELECT count(*) FROM people_released WHERE born < %s", ["1950-01-20"]).fetchone() == (2,)
    assert db.execute("SELECT count(*) FROM people_released WHERE income <= %s", ["24.5"]).fetchone() == (2,)
    assert db.execute("SELECT count(*) FROM people_released WHERE active = %s", ["yes"]).fetchone() == (PEOPLE // 3,)
    with pytest.raises(errors.InvalidTextRepresentation):
        db.execute("SELECT name FROM people_released WHERE id = %s", ["seven"])
    found = db.execute("SELECT city FROM cities WHERE city = ANY(%s) ORDER BY city", [["Athens", "Kraków"]]).fetchall()
    assert found == [("Athens",), ("Kraków",)]


def test_statements_are_prepared_after_a_while(db: Connection) -> None:
    db.prepare_threshold = 0
    for number in range(1, 40):
        found = db.execute("SELECT name FROM people_released WHERE id = %s", [number]).fetchone()
        assert found == (f"person {number}",)
    db.prepared_max = 2  # the driver deallocates older ones
    for number in range(6):
        assert db.execute(f"SELECT {number}, %s", [number]).fetchone() == (number, number)
    db.execute("DEALLOCATE ALL")
    db.execute("DISCARD ALL")


def test_joins_groups_and_windows_of_released_tables(db: Connection) -> None:
    sql = (
        "SELECT c.country, count(*) AS n, min(p.id) AS first FROM people_released AS p JOIN cities AS c "
        "ON c.city = p.city WHERE p.active GROUP BY c.country HAVING count(*) > 1 ORDER BY n DESC, country LIMIT 2"
    )
    cursor = db.cursor(row_factory=dict_row)
    assert cursor.execute(sql).fetchall() == [
        {"country": "Japan", "n": 84, "first": 3}, {"country": "Germany", "n": 83, "first": 9},
    ]  # fmt: skip
    assert db.execute("SELECT city, population FROM cities ORDER BY population DESC NULLS LAST").fetchall() == sorted(
        ((city, people) for city, _, people in CITIES), key=lambda row: -(row[1] or 0)
    )
    assert db.execute("SELECT * FROM greek_cities").fetchall() == [("Athens", 643452)]
    with_rank = "SELECT city, row_number() OVER (ORDER BY city) AS no FROM cities ORDER BY city LIMIT 2"
    assert db.execute(with_rank).fetchall() == [("Athens", 1), ("Berlin", 2)]


def test_answers_about_persons_have_the_shape(db: Connection) -> None:
    cursor = db.execute(WARDS.format(10))
    assert [(column.name, column.type_code) for column in cursor.description or ()] == [("ward", 25), ("n", 20)]
    rows = cursor.fetchall()
    assert [ward for ward, _ in rows] == ["w0", "w1", "w2", "w3"]
    assert all(isinstance(count, int) for _, count in rows)
    cursor = db.execute("SELECT avg(cost), sum(cost), count(DISTINCT person) FROM visits")
    assert [column.type_code for column in cursor.description or ()] == [701, 701, 20]


# ---- what a statement costs


def test_an_answer_is_charged_once(server: Server, db: Connection) -> None:
    """By whichever way it is read: at once, prepared, by a cursor or as a COPY."""
    start = server.charges()
    first = db.execute(WARDS.format(20)).fetchall()
    paid = server.charges()
    assert paid == start + server.proxy
    again = [db.execute(WARDS.format(20), prepare=True).fetchall() for _ in range(2)]
    with db.transaction(), db.cursor("c") as cursor:
        cursor.itersize = 1
        again.append(list(cursor.execute(WARDS.format(20))))
    with db.cursor().copy(f"COPY ({WARDS.format(20)}) TO STDOUT") as copy:
        copy.set_types(["text", "int8"])
        again.append(list(copy.rows()))
    assert all(rows == first for rows in again)
    assert server.charges() == paid


def test_cursors_are_charged_once(server: Server, db: Connection) -> None:
    start = server.charges()
    with db.transaction():
        db.execute(f"DECLARE c CURSOR FOR {WARDS.format(21)}")
        rows = [db.execute("FETCH 1 FROM c").fetchone() for _ in range(4)]
        assert db.execute("FETCH 1 FROM c").fetchone() is None
        db.execute("CLOSE c")
    assert [row[0] for row in rows if row] == ["w0", "w1", "w2", "w3"]
    assert server.charges() == start + server.proxy


def test_describing_costs_nothing(server: Server, db: Connection) -> None:
    start = server.charges()
    sql = WARDS.format(22).encode()
    assert db.pgconn.prepare(b"s", sql).status == pq.ExecStatus.COMMAND_OK
    told = db.pgconn.describe_prepared(b"s")
    assert [told.fname(n) for n in range(told.nfields)] == [b"ward", b"n"]
    db.execute(f"EXPLAIN {WARDS.format(22)}").fetchall()
    assert server.charges() == start
    assert db.pgconn.exec_prepared(b"s", None).ntuples == 4
    assert server.charges() == start + server.proxy


def test_budgets_run_out(server: Server) -> None:
    if not server.proxy:
        pytest.skip("PostgreSQL has no budgets")
    with server.connect(user="poor", password=POOR_PASSWORD) as db:
        notices: list[str] = []
        db.add_notice_handler(lambda told: notices.append(told.message_primary or ""))
        for number in range(5):
            db.execute(f"SELECT count(*) FROM visits WHERE cost > {number}")
        assert len(notices) == 5 and all("epsilon" in notice for notice in notices)
        with pytest.raises(errors.ConfigurationLimitExceeded):
            db.execute("SELECT count(*) FROM visits WHERE cost > 50")
        assert server.charges("poor") == 5
        db.execute("SELECT count(*) FROM visits WHERE cost > 1")
        assert db.execute("SHOW sqlanon.budget").fetchone() is not None
        assert server.charges("poor") == 5


def test_epsilon_is_a_setting(server: Server, db: Connection) -> None:
    """On PostgreSQL it is a setting that nobody reads."""
    db.execute("SET sqlanon.epsilon = 0.02")
    assert db.execute("SHOW sqlanon.epsilon").fetchone() == ("0.02",)
    db.execute("SELECT count(*) FROM visits WHERE cost > 33.5")
    if server.proxy:
        assert server._events(server.user)[-2].epsilon == pytest.approx(0.02)
        for wrong in ("7", "-1", "0", "'much'"):
            with pytest.raises(errors.InvalidParameterValue):
                db.execute(f"SET sqlanon.epsilon = {wrong}")
    db.execute("RESET sqlanon.epsilon")


# ---- cursors


def test_a_server_side_cursor(db: Connection) -> None:
    with db.transaction(), db.cursor("people", scrollable=False) as cursor:
        cursor.execute("SELECT id FROM people_released WHERE id > %s ORDER BY id", [10])
        assert cursor.fetchone() == (11,)
        assert cursor.fetchmany(2) == [(12,), (13,)]
        cursor.itersize = 100
        assert sum(1 for _ in cursor) == PEOPLE - 13
        assert cursor.fetchone() is None


def test_fetch_and_move(db: Connection) -> None:
    def tag(sql: str) -> str | None:
        return db.execute(sql).statusmessage

    with db.transaction():
        assert tag("DECLARE c NO SCROLL CURSOR FOR SELECT id FROM people_released ORDER BY id") == "DECLARE CURSOR"
        assert db.execute("FETCH c").fetchall() == [(1,)]
        assert db.execute("FETCH FORWARD 2 FROM c").fetchall() == [(2,), (3,)]
        assert tag("MOVE 5 IN c") == "MOVE 5"
        assert db.execute("FETCH NEXT FROM c").fetchall() == [(9,)]
        assert tag("FETCH 10 FROM c") == "FETCH 10"
        assert len(db.execute("FETCH ALL FROM c").fetchall()) == PEOPLE - 19
        assert tag("FETCH c") == "FETCH 0"
        assert tag("MOVE ALL FROM c") == "MOVE 0"
        assert tag("CLOSE c") == "CLOSE CURSOR"
    with pytest.raises(errors.NoActiveSqlTransaction):
        db.execute("DECLARE c CURSOR FOR SELECT 1")
    with pytest.raises(errors.InvalidCursorName):
        db.execute("FETCH c")
    with pytest.raises(errors.DuplicateCursor), db.transaction():
        db.execute("DECLARE c CURSOR FOR SELECT 1")
        db.execute("DECLARE c CURSOR FOR SELECT 1")
    with pytest.raises(errors.ObjectNotInPrerequisiteState), db.transaction():
        db.execute("DECLARE c NO SCROLL CURSOR FOR SELECT id FROM people_released")
        db.execute("FETCH 2 FROM c")
        db.execute("FETCH BACKWARD 1 FROM c")
    db.execute("CLOSE ALL")
    with pytest.raises(errors.InvalidCursorName):
        db.execute("CLOSE c")


def test_a_cursor_that_is_held(server: Server, db: Connection) -> None:
    """WITH HOLD outlives its transaction, or is refused."""
    try:
        db.execute("DECLARE h CURSOR WITH HOLD FOR SELECT id FROM people_released ORDER BY id")
    except errors.FeatureNotSupported:
        assert server.proxy
        return
    assert db.execute("FETCH 2 FROM h").fetchall() == [(1,), (2,)]
    db.execute("CLOSE h")


# ---- pipelines


def test_pipeline(db: Connection) -> None:
    with db.pipeline():
        cursors = [db.execute("SELECT %s::int4, %s", [number, "ü"]) for number in range(50)]
        assert [cursor.fetchone() for cursor in cursors] == [(number, "ü") for number in range(50)]


def test_errors_in_a_pipeline(db: Connection) -> None:
    """What came before an error is there, what came after it up to the sync is not, and then all goes on."""
    with db.pipeline() as pipeline:
        first = db.execute("SELECT 1")
        with pytest.raises(errors.UndefinedColumn):
            try:
                db.execute("SELECT nothing")
            finally:
                pipeline.sync()
        assert first.fetchone() == (1,)
        later = db.execute("SELECT 3")
        pipeline.sync()
        assert later.fetchone() == (3,)
    assert db.info.transaction_status == pq.TransactionStatus.IDLE


# ---- COPY

COPIED = "SELECT id, name, born, active FROM people_released WHERE id IN (9, 10) ORDER BY id"


def copied(db: Connection, sql: str) -> bytes:
    with db.cursor().copy(sql) as copy:
        return b"".join(bytes(block) for block in copy)


def test_copy_out(db: Connection) -> None:
    assert copied(db, f"COPY ({COPIED}) TO STDOUT") == b"9\tperson 9\t1950-03-05\tt\n10\tperson 10\t\\N\tf\n"
    assert copied(db, f"COPY ({COPIED}) TO STDOUT (FORMAT csv, HEADER)") == (
        b"id,name,born,active\n9,person 9,1950-03-05,t\n10,person 10,,f\n"
    )
    semicolons = copied(db, f"COPY ({COPIED}) TO STDOUT WITH (FORMAT csv, DELIMITER ';', NULL '-')")
    assert semicolons == b"9;person 9;1950-03-05;t\n10;person 10;-;f\n"
    assert copied(db, f"COPY ({COPIED}) TO STDOUT CSV") == b"9,person 9,1950-03-05,t\n10,person 10,,f\n"
    whole = copied(db, "COPY names TO STDOUT (FORMAT csv)").decode()
    assert [row[1] for row in csv.reader(io.StringIO(whole, newline=""))] == list(NAMES)
    assert copied(db, "COPY cities (country, city) TO STDOUT").startswith(b"Greece\tAthens\n")
    escaped = copied(db, "COPY (SELECT name FROM names WHERE no IN (2, 5) ORDER BY no) TO STDOUT")
    assert escaped == b"back\\\\slash\ntab\\tand\\nline\n"


def test_copy_out_in_binary(db: Connection) -> None:
    with db.cursor().copy(f"COPY ({COPIED}) TO STDOUT (FORMAT binary)") as copy:
        copy.set_types(["int4", "text", "date", "bool"])
        assert list(copy.rows()) == [(9, "person 9", date(1950, 3, 5), True), (10, "person 10", None, False)]

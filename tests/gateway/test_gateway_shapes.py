"""Statements that tell columns alone, rows that a statement lists by itself, moments, and the types of answers."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from conftest import Database
from gateway_world import EXACT, World, policy, world

from sqlanon.errors import Refused


@pytest.fixture
def small(database: Database, tmp_path: Path) -> Iterator[World]:
    made = world(tmp_path, mechanisms=EXACT, engine=database.engine)
    yield made


# ---- statements without a row

EMPTY = [
    ("SELECT * FROM orders WHERE 1=0", ("order_id", "user_id", "amount"), ("int8", "int8", "int4")),
    ("SELECT * FROM orders LIMIT 0", ("order_id", "user_id", "amount"), ("int8", "int8", "int4")),
    ("SELECT amount FROM orders WHERE amount > 5 AND false", ("amount",), ("int4",)),
    ("SELECT price FROM visits FETCH FIRST 0 ROWS ONLY", ("price",), ("numeric(12,2)",)),
    ("SELECT * FROM (SELECT email, amount FROM users JOIN orders USING (user_id)) t WHERE 2 < 1", ("email", "amount"),
     ("text", "int4")),
    ("SELECT COUNT(*), SUM(amount) FROM orders LIMIT 0", ("count", "sum"), ("int8", "int8")),
    ("SELECT * FROM (SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward) t WHERE 1 = 0", ("ward", "n"),
     ("text", "int8")),
    ("SELECT region, COUNT(*) FROM visits GROUP BY region ORDER BY 2 LIMIT 0", ("region", "count"), ("text", "int8")),
]  # fmt: skip


@pytest.mark.full
@pytest.mark.parametrize(("sql", "names", "types"), EMPTY)
def test_a_statement_without_a_row_tells_its_columns(
    small: World, sql: str, names: tuple[str, ...], types: tuple[str, ...]
) -> None:
    """At no cost, and without a look at any table of persons."""
    small.spy.seen.clear()
    answer = small.gate.answer(sql, dialect="postgres")
    assert (answer.columns, answer.types, answer.rows, answer.cost.epsilon) == (names, types, (), 0)
    assert small.spent == 0
    assert not any(f'"{table}"' in seen for seen in small.spy.seen for table in ("orders", "users", "visits"))
    described = small.gate.describe(sql, "analyst", dialect="postgres")
    assert (described.columns, described.types) == (names, types)


@pytest.mark.full
@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM orders LIMIT 1",
        "SELECT * FROM orders WHERE 1 = 1",
        "SELECT * FROM orders WHERE 1 = 0 OR true",
        "SELECT * FROM orders WHERE NOT (1 = 0)",
        "SELECT * FROM orders WHERE amount = 0",
        "SELECT * FROM orders WHERE '1' = 0",
        "SELECT * FROM (SELECT * FROM orders LIMIT 0) t",
        "SELECT * FROM orders WHERE 1=0 UNION ALL SELECT * FROM orders",
        "SELECT secret FROM users WHERE 1=0",
        "SELECT * FROM (SELECT * FROM orders WHERE 1=0) t",
        "SELECT amount FROM orders OFFSET 0",
    ],
)
def test_rows_of_persons_are_not_shown_by_other_ways(small: World, sql: str) -> None:
    with pytest.raises(Refused) as error:
        small.gate.answer(sql, dialect="postgres")
    assert error.value.sqlstate in ("42501", "0A000")


def test_what_is_hidden_is_not_told(small: World) -> None:
    assert "secret" not in small.gate.answer("SELECT * FROM users LIMIT 0", dialect="postgres").columns
    with pytest.raises(Refused, match="does not exist"):
        small.gate.answer("SELECT * FROM orders WHERE 1=0", "guest", dialect="postgres")


def test_an_aggregate_with_a_false_condition_is_still_a_row(small: World) -> None:
    answer = small.gate.answer("SELECT COUNT(*) FROM visits WHERE 1 = 0", dialect="postgres")
    assert answer.rows == ((0,),) and answer.cost.epsilon > 0


# ---- rows that a statement lists


def test_listed_rows_beside_public_tables(small: World) -> None:
    sql = "SELECT v.n, r.country FROM (VALUES ('R0', 1), ('R2', 2)) AS v(name, n) JOIN regions r ON r.region = v.name"
    assert sorted(small.rows(sql, dialect="postgres")) == [(1, "A"), (2, "B")]
    series = "SELECT s.n, r.region FROM generate_series(1, 5, 2) AS s(n) JOIN regions r ON r.size = s.n ORDER BY 1"
    assert small.rows(series, dialect="postgres") == [(1, "R0"), (3, "R2")]


def test_listed_rows_beside_persons_count_like_a_public_table(small: World) -> None:
    """A private row becomes as many as are listed: within the limit all are counted, up to the rows of a person."""
    once = small.rows("SELECT COUNT(*) FROM users", dialect="postgres")
    thrice = "SELECT COUNT(*) FROM users CROSS JOIN (VALUES (1), (2), (3)) AS v(n)"
    assert small.rows(thrice, dialect="postgres") == [(3 * once[0][0],)]
    series = "SELECT COUNT(*) FROM users CROSS JOIN generate_series(1, 50) AS s(n)"
    assert small.rows(series, dialect="postgres") == [(4 * once[0][0],)]  # the policy counts four rows of a person
    for sql in (
        "SELECT COUNT(*) FROM users CROSS JOIN generate_series(1, 1001) AS s(n)",
        "SELECT COUNT(*) FROM users, generate_series(1, 40) AS a(n), generate_series(1, 40) AS b(m)",
    ):
        with pytest.raises(Refused, match="rows of one"):
            small.gate.answer(sql, dialect="postgres")


@pytest.mark.full
@pytest.mark.parametrize(
    ("sql", "state"),
    [
        ("SELECT COUNT(*) FROM generate_series(1, 100001) AS s(n)", "54000"),
        ("SELECT COUNT(*) FROM generate_series(1, 1000000000000000000) AS s(n)", "54000"),
        ("SELECT COUNT(*) FROM generate_series(1, 5, 0) AS s(n)", "22023"),
        ("SELECT COUNT(*) FROM generate_series(1, r.size) AS s(n), regions r", "42703"),
        ("SELECT COUNT(*) FROM regions r, generate_series(1, 2.5) AS s(n)", "0A000"),
        ("SELECT COUNT(*) FROM (VALUES (1), (1, 2)) AS v", "42601"),
        ("SELECT COUNT(*) FROM (VALUES (1), ('a')) AS v", "42804"),
        ("SELECT COUNT(*) FROM (VALUES (1)) AS v(a, b)", "42P10"),
        ("SELECT COUNT(*) FROM (VALUES (1, 2)) AS v(a, A)", "42701"),
        ("SELECT COUNT(*) FROM regions, (VALUES ((SELECT COUNT(*) FROM visits))) AS v", "0A000"),
        ("SELECT COUNT(*) FROM (VALUES (LENGTH('a'))) AS v", "0A000"),
        ("SELECT sqlanon_unit FROM (VALUES (1)) AS v(sqlanon_unit)", None),
    ],
)
def test_lists_that_are_refused(small: World, sql: str, state: str | None) -> None:
    with pytest.raises(Refused) as error:
        small.gate.answer(sql, dialect="postgres")
    assert state is None or error.value.sqlstate == state


def test_parameters_in_a_list(small: World) -> None:
    sql = "SELECT r.region FROM regions r JOIN (VALUES ($1),($2)) AS v(n) ON r.size = v.n ORDER BY 1"
    assert small.rows(sql, parameters=(1, 3), dialect="postgres") == [("R0",), ("R2",)]


# ---- moments

MOMENTS = {
    "users": {"user_id": "BIGINT", "seen": "TIMESTAMPTZ"},
    "log": {"no": "INTEGER", "moment": "TIMESTAMPTZ", "plain": "TIMESTAMP"},
}
FIRST = datetime(2024, 2, 29, 22, 30, tzinfo=UTC)


@pytest.fixture
def clocks(database: Database, tmp_path: Path) -> World:
    users = [{"user_id": who, "seen": FIRST + timedelta(hours=who % 5)} for who in range(1, 31)]
    odd = ["infinity", "-infinity", "0044-03-15 00:00:00+00 BC", "200000-01-01 00:00:00+00", None]
    if database.engine.dialect == "duckdb":
        odd[2] = "0044-03-15 (BC) 00:00:00+00"
    users += [{"user_id": 100 + place, "seen": value} for place, value in enumerate(odd)]
    log = [
        {"no": i, "moment": FIRST + timedelta(hours=i), "plain": datetime(2024, 2, 29, 22, 30 + i)} for i in range(4)
    ]
    given = policy(tables={"users": {}, "log": {"public": True}}, rows=3, groups=3, minimum_group=1)
    tables = {"users": users, "log": log}
    return world(tmp_path, tables, given=given, mechanisms=EXACT, engine=database.engine, columns=MOMENTS)


@pytest.mark.full
@pytest.mark.parametrize(
    ("condition", "rows"),
    [
        ("moment >= '2024-03-01'", [2, 3]),
        ("moment = '2024-02-29 22:30:00+00'", [0]),
        ("moment = '2024-03-01 01:30:00+02'", [1]),
        ("moment = '2024-02-29 18:30:00 -0500'", [1]),
        ("moment > timestamptz '2024-03-01 02:30:00+02'", [3]),
        ("moment > '2024-02-29 23:30:00Z'::timestamptz", [2, 3]),
        ("moment < plain", []),
        ("moment BETWEEN '2024-02-29' AND '2024-02-29 23:59:59'", [0, 1]),
        ("EXTRACT(hour FROM moment) = 23", [1]),
        ("moment::date = '2024-03-01'", [2, 3]),
        ("moment IS NOT NULL AND moment IN ('2024-03-01 00:30:00', '2024-03-01 03:30:00+02')", [2, 3]),
    ],
)
def test_moments_are_compared_in_utc(clocks: World, condition: str, rows: list[int]) -> None:
    found = clocks.rows(f"SELECT no FROM log WHERE {condition} ORDER BY no", dialect="postgres")
    assert [no for (no,) in found] == rows


def test_a_moment_as_a_parameter(clocks: World) -> None:
    east = timezone(timedelta(hours=3))
    sql = "SELECT no FROM log WHERE moment > $1 ORDER BY no"
    given = datetime(2024, 3, 1, 3, 0, tzinfo=east)  # 00:00 in UTC
    assert clocks.rows(sql, parameters=(given,), dialect="postgres") == [(2,), (3,)]
    assert clocks.gate.describe(sql, "analyst", dialect="postgres").parameters == ("timestamptz",)


@pytest.mark.full_on_postgres
def test_moments_of_persons(clocks: World) -> None:
    """Filtered, grouped and counted; what one person's row holds is no error, whatever it is."""
    late = "SELECT COUNT(*) FROM users WHERE seen >= '2024-03-01 02:00:00+02' AND seen < '2025-01-01'"
    assert clocks.rows(late, dialect="postgres") == [(18,)]
    days = "SELECT DATE_TRUNC('day', seen) AS d, COUNT(*) FROM users WHERE seen > '2020-01-01' AND seen < '2030-01-01' "
    days += "GROUP BY 1 ORDER BY 1"
    assert [count for _, count in clocks.rows(days, dialect="postgres")] == [12, 18]
    for sql in (
        "SELECT seen, COUNT(*) FROM users GROUP BY seen",
        "SELECT COUNT(*) FROM users WHERE EXTRACT(year FROM seen) = 2024",
        "SELECT COUNT(*) FROM users WHERE seen::date > '2024-01-01'",
        "SELECT SUM(EXTRACT(hour FROM seen)) FROM users",
        "SELECT COUNT(DISTINCT seen) FROM users",
    ):
        assert clocks.refusal(sql, dialect="postgres") is None, sql


def test_moments_and_times_without_a_zone_are_not_put_together(clocks: World) -> None:
    with pytest.raises(Refused) as error:
        clocks.rows("SELECT moment FROM log UNION ALL SELECT plain FROM log", dialect="postgres")
    assert error.value.sqlstate == "42804"
    assert len(clocks.rows("SELECT moment FROM log UNION SELECT moment FROM log", dialect="postgres")) == 4


@pytest.mark.full_on_postgres
def test_a_public_moment_keeps_its_type(clocks: World) -> None:
    answer = clocks.gate.answer(
        "SELECT moment, MAX(no) FROM log GROUP BY moment ORDER BY moment DESC LIMIT 1", dialect="postgres"
    )
    assert answer.types[0] == "timestamptz" and answer.rows[0][0] == FIRST + timedelta(hours=3)
    latest = clocks.gate.answer("SELECT MAX(moment) FROM log", dialect="postgres")
    assert latest.types == ("timestamptz",) and latest.rows == ((FIRST + timedelta(hours=3),),)


# ---- types of what is computed

NUMBERS = {
    "users": {"user_id": "BIGINT"},
    "facts": {
        "no": "INTEGER", "small": "SMALLINT", "big": "BIGINT", "money": "NUMERIC(10, 2)", "real": "DOUBLE PRECISION",
    },
}  # fmt: skip


@pytest.fixture
def facts(database: Database, tmp_path: Path) -> World:
    rows = [
        {"no": 1, "small": 5, "big": 9 * 10**18, "money": Decimal("12.50"), "real": 2.0},
        {"no": 2, "small": 6, "big": 9 * 10**18, "money": Decimal("0.25"), "real": -1.5},
    ]
    given = policy(tables={"users": {}, "facts": {"public": True}})
    tables: dict[str, list[dict[str, Any]]] = {"users": [], "facts": rows}
    return world(tmp_path, tables, given=given, engine=database.engine, columns=NUMBERS)


@pytest.mark.full
@pytest.mark.parametrize(
    ("sql", "types", "row"),
    [
        ("SELECT SUM(big) FROM facts", ("numeric",), (18 * 10**18,)),  # beyond an int8
        ("SELECT SUM(no), SUM(small), SUM(real) FROM facts", ("int8", "int8", "float8"), (3, 11, 0.5)),
        ("SELECT SUM(money), MAX(money) FROM facts", ("numeric", "numeric"), (Decimal("12.75"), Decimal("12.50"))),
        ("SELECT MIN(no), MAX(small), MIN(big) FROM facts", ("int4", "int2", "int8"), (1, 6, 9 * 10**18)),
        ("SELECT COUNT(*)::int, COUNT(*)::smallint FROM facts", ("int4", "int2"), (2, 2)),
        ("SELECT SUM(money) * 2 FROM facts", ("float8",), (25.5,)),
        ("SELECT money::text, real::text, no::text FROM facts WHERE no = 1", ("text",) * 3, ("12.50", "2", "1")),
        ("SELECT 'a' || no || real || money FROM facts WHERE no = 2", ("text",), ("a2-1.50.25",)),
        ("SELECT no::numeric(10,2) FROM facts WHERE no = 2", ("numeric(10,2)",), (Decimal("2.00"),)),
        ("SELECT money::varchar(3) FROM facts WHERE no = 1", ("varchar(3)",), ("12.",)),
    ],
)
def test_types_are_those_of_postgresql(facts: World, sql: str, types: tuple[str, ...], row: tuple[Any, ...]) -> None:
    answer = facts.gate.answer(sql, dialect="postgres")
    assert answer.types == types and answer.rows == (row,)


def test_a_huge_whole_number(tmp_path: Path) -> None:
    columns = {"users": {"user_id": "BIGINT"}, "facts": {"n": "HUGEINT", "u": "UBIGINT"}}
    given = policy(tables={"users": {}, "facts": {"public": True}})
    tables: dict[str, list[dict[str, Any]]] = {"users": [], "facts": [{"n": 10**30, "u": 2**64 - 1}]}
    made = world(tmp_path, tables, given=given, columns=columns)
    answer = made.gate.answer("SELECT n, u FROM facts WHERE n > 5", dialect="postgres")
    assert answer.types == ("numeric", "numeric") and answer.rows == ((10**30, 2**64 - 1),)
    (batch,) = made.gate.plain_batches(made.prepare("SELECT n, u FROM facts", dialect="postgres"))
    assert [int(column[0].as_py()) for column in batch.columns] == [10**30, 2**64 - 1]


def test_two_that_are_no_text(small: World) -> None:
    with pytest.raises(Refused, match=r"\|\| needs a text, not int"):
        small.gate.answer("SELECT size || size FROM regions", dialect="postgres")
    with pytest.raises(Refused, match=r"\|\| needs a text, not float"):
        small.gate.answer("SELECT COUNT(*) FROM visits WHERE 'a' || income = 'a5'", dialect="postgres")
    assert small.rows("SELECT COUNT(*) FROM visits WHERE 'a' || age = 'a21'", dialect="postgres") == [(2,)]

"""Errors as an oracle: whatever one person's row holds, a statement that is accepted is answered."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from conftest import Database
from gateway_world import EXACT, World, policy, world

from sqlanon.errors import EngineError, PolicyError, Refused

COLUMNS = {
    "users": {
        "user_id": "BIGINT", "big": "BIGINT", "whole": "INTEGER", "real": "DOUBLE PRECISION", "small": "REAL",
        "exact": "NUMERIC(38, 30)", "money": "NUMERIC(10, 2)", "day": "DATE", "moment": "TIMESTAMP", "text": "TEXT",
        "flag": "BOOLEAN", "half": "INTEGER",
    },
    "regions": {"region": "TEXT", "size": "INTEGER"},
}  # fmt: skip
CALM = {
    "big": 1, "whole": 1, "real": 1.0, "small": 1.0, "exact": 1, "money": 1, "day": "2020-01-01",
    "moment": "2020-01-01 10:00:00", "text": "a", "flag": True, "half": 1,
}  # fmt: skip
ODD: list[dict[str, Any]] = [
    {"big": 9 * 10**18, "whole": 2**31 - 1, "real": 1e300, "exact": 99999999, "money": 99999999.99, "half": 2**31 - 1},
    {"big": -9 * 10**18, "whole": -(2**31), "real": -1e300, "exact": -99999999, "money": -99999999.99, "half": -5},
    {"real": float("nan"), "small": float("nan"), "text": "x" * 20_000, "flag": None},
    {"real": float("inf"), "small": float("-inf"), "text": "", "flag": False},
    {"real": 1e-300, "small": 1e-40, "exact": 1e-30, "text": "%_\\'é😀"},
    {"real": -0.0, "big": 0, "whole": 0, "half": 0, "text": "7"},
    {"day": "infinity", "moment": "infinity"},
    {"day": "-infinity", "moment": "-infinity"},
    {"day": "5000000-01-01", "moment": "200000-01-01 00:00:00"},
    {"day": "0044-03-15 BC", "moment": "0044-03-15 00:00:00 BC"},
    dict.fromkeys(CALM),
]
EXPRESSIONS = [
    "1 // (user_id - 7)", "1 % (user_id - 7)", "big % whole", "big // whole", "1 / real", "real / real",
    "real * real * real * real", "POW(real, 8)", "EXP(real) * EXP(real)", "EXP(-real) * EXP(-real) * EXP(-real)",
    "EXP(-ABS(whole)) * EXP(-ABS(whole)) * EXP(-ABS(whole))", "SQRT(real)", "LN(real)",
    "LN(real) * LN(real)", "big + big", "big * big", "whole * whole * whole", "-big", "ABS(big)", "ABS(whole)",
    "SIGN(real)", "*".join(["LENGTH(text)"] * 8), "POW(LENGTH(text), 8)",
    "CAST(flag AS INT) * 2000000000 * 2000000000", "CAST(real AS INT)", "CAST(big AS INTEGER)", "CAST(real AS BIGINT)",
    "CAST(exact AS INT)", "ROUND(real, 2)", "ROUND(big, -3)", "FLOOR(real)", "CEIL(real)", "TRUNC(real)",
    "LEAST(real, big, whole)", "GREATEST(exact, 1)", "COALESCE(real, big)", "NULLIF(big, whole)",
    "CASE WHEN whole > 0 THEN big ELSE real END", "EXTRACT(year FROM day)", "EXTRACT(hour FROM moment)",
    "EXTRACT(week FROM day)", "DATE_TRUNC('week', moment) - day", "day - day",
    "CAST(DATE_TRUNC('month', CAST(day AS TIMESTAMP)) AS DATE) - CAST(moment AS DATE)", "exact * exact",
    "money * exact",
]  # fmt: skip
CONDITIONS = [
    "big > 0.00012345678901234567", "big > exact", "exact > 1000000000", "exact < big", "money = 0.00012345678901234",
    "big IN (0.00012345678901234567, 5)", "big BETWEEN 0.00012345678901234567 AND 1e17", "small > big", "real = 1e-20",
    "day > '2020-01-01 10:00:00'", "moment > '2020-01-01'", "CAST(day AS TIMESTAMP) > moment", "day > moment",
    "DATE_TRUNC('week', day) = day", "text LIKE '%a%_%'", "text ILIKE '%É%'", "UPPER(text) = LOWER(text)",
    "LEFT(text, 3) || RIGHT(text, 3) = 'x'", "SUBSTRING(text, 2, 5) = TRIM(text)", "STARTS_WITH(text, 'é')",
    "CAST(big AS TEXT) = '1'", "CAST(big + 1 AS TEXT) = '2'", "CAST(day AS TEXT) = 'x'", "CAST(flag AS TEXT) = 'true'",
    "flag IS NOT TRUE", "flag AND real > 0", "real IS DISTINCT FROM small",
]  # fmt: skip
KEYS = ["big", "whole", "real", "small", "exact", "money", "day", "moment", "text", "flag", "big + 1", "real * 2"]
KEYS += [
    "DATE_TRUNC('year', day)",
    "CAST(moment AS DATE)",
    "CAST(day AS TEXT)",
    "big > 1",
    "text || text",
    "POW(big, 7) % 49",
]
KEYS += ["CAST(POW(big, 7) % 49 AS TEXT)", "(big * big * big * big) % 1000"]


def strange() -> Any:
    bounds = {
        "whole": {"low": -100, "high": 100}, "real": {"low": -5, "high": 5.5}, "exact": {"low": 0, "high": 9},
        "half": {"low": -0.5, "high": 10.5},
    }  # fmt: skip
    return policy(tables={"users": {"columns": bounds}, "regions": {"public": True}}, rows=1, groups=1, minimum_group=1)


@pytest.fixture
def odd(database: Database, tmp_path: Path) -> World:
    """Two persons who are like others, and some who are not."""
    users = [{"user_id": who, **CALM} for who in (1, 2)]
    for who, given in enumerate(ODD, start=7):
        row = {"user_id": who, **CALM, **given}
        if database.engine.dialect == "duckdb":
            row = {name: _before_christ(value) for name, value in row.items()}
        users.append(row)
    tables = {"users": users, "regions": [{"region": "R", "size": 1}]}
    return world(tmp_path, tables, given=strange(), mechanisms=EXACT, engine=database.engine, columns=COLUMNS)


def _before_christ(value: Any) -> Any:
    """As DuckDB writes it."""
    if not isinstance(value, str) or not value.endswith(" BC"):
        return value
    day, _, moment = value.removesuffix(" BC").partition(" ")
    return f"{day} (BC) {moment}".strip()


def statements() -> Iterator[str]:
    for start in range(0, len(EXPRESSIONS), 6):
        listed = EXPRESSIONS[start : start + 6]
        yield f"SELECT {', '.join(f'COUNT(*) FILTER (WHERE {each} > 0.5)' for each in listed)} FROM users"
    yield "SELECT AVG(real), VARIANCE(real), STDDEV(exact), MEDIAN(real), MEDIAN(half), SUM(half) FROM users"
    yield f"SELECT {', '.join(f'COUNT(DISTINCT {key})' for key in KEYS[::3])} FROM users"
    yield f"SELECT {', '.join(f'COUNT(*) FILTER (WHERE {each})' for each in CONDITIONS)} FROM users"
    largest = ", ".join(f"MAX({key})" for key in KEYS if key not in ("flag", "big > 1"))
    yield f"SELECT COUNT(*) FROM (SELECT user_id, {largest} FROM users GROUP BY 1) t"
    for key in KEYS:
        yield f"SELECT {key} AS k, COUNT(*) FROM users GROUP BY {key}"
    # What is left of a division by 49 is far more than 49, where doubles are too coarse for it.
    rest = "SELECT user_id, POW(big, 7) % 49 AS m FROM users"
    yield f"SELECT COUNT(*) FILTER (WHERE POW(m, 8) * POW(m, 8) > 1), AVG(m), AVG(1 / (m + 50.5)) FROM ({rest}) t"
    yield f"SELECT COUNT(*) FROM (SELECT user_id, SUM(m) AS m FROM ({rest}) t GROUP BY 1) t GROUP BY m"
    once, twice = (" + ".join([name] * 12) for name in ("SIGN(whole)", "s"))  # 144 do not fit into 8 bits
    inner = f"SELECT user_id, {once} AS s FROM users"
    yield f"SELECT SUM(LEAST(s, 9)) FROM (SELECT user_id, {twice} AS s FROM ({inner}) t) t"


@pytest.mark.full
def test_no_row_makes_a_statement_fail(odd: World) -> None:
    failed = []
    for sql in statements():
        try:
            odd.exact(sql)
        except EngineError as error:
            failed.append((sql, str(error)))
    assert not failed


def test_a_text_that_doubles_is_cut_or_refused(odd: World) -> None:
    inner = "SELECT user_id, text || text || text || text || text || text || text || text AS text FROM users"
    odd.exact(f"SELECT COUNT(*) FROM ({inner}) t WHERE text = 'a'")
    for _ in range(2):
        inner = f"SELECT user_id, {' || '.join(['text'] * 8)} AS text FROM ({inner}) t"
    with pytest.raises(Refused) as caught:  # one row would take long enough to tell that it is there
        odd.prepare(f"SELECT COUNT(*) FROM ({inner}) t WHERE text = 'a'")
    assert caught.value.sqlstate == "54001"


def test_a_quantile_of_whole_numbers_with_bounds_between_them(odd: World) -> None:
    """Bins are counted from whole numbers: a value at a bound would otherwise fall outside of them, and fail."""
    odd.exact("SELECT MEDIAN(CAST(LEAST(GREATEST(big, 2.4), 3.0) AS INT)) FROM users")
    odd.exact("SELECT MEDIAN(CAST(LEAST(GREATEST(big, -3.6), -2.5) AS INT)) FROM users")


def test_no_row_moves_an_integer_beyond_its_step(odd: World) -> None:
    both = "(SELECT user_id, 5 AS x, 0.5 AS y FROM users UNION ALL SELECT user_id, whole, real FROM users)"
    asked = [(column, "users") for column in ("half", "real", "whole", "exact")] + [("x", both), ("y", both)]
    for column, source in asked:
        called = ", ".join(f"{name}({column})" for name in ("SUM", "AVG", "VARIANCE", "STDDEV_POP"))
        prepared = odd.prepare(f"SELECT {called} FROM {source} t")
        (part,) = prepared.parts
        rows = part.core.rows.copy().select(*(atom.tree.copy() for atom in part.core.atoms))
        moved = [max(abs(int(value)) for value in values) for values in zip(*odd.gate.engine.query(rows), strict=True)]
        assert all(most <= atom.step for most, atom in zip(moved, part.core.atoms, strict=True)), column


def test_fractions_that_are_too_small_for_a_double(postgres: Database, tmp_path: Path) -> None:
    """PostgreSQL fails where it makes a double of them."""
    columns = {"users": {"user_id": "BIGINT", "free": "NUMERIC", "long": "NUMERIC(900, 450)"}}
    rows = [{"user_id": 7, "free": "1e-400", "long": "-1e-440"}, {"user_id": 8, "free": "NaN", "long": "1e400"}]
    bounds = {name: {"low": 0, "high": 5} for name in ("free", "long")}
    given = policy(tables={"users": {"columns": bounds}}, rows=1, groups=1, minimum_group=1)
    made = world(tmp_path, {"users": rows}, given=given, mechanisms=EXACT, engine=postgres.engine, columns=columns)
    with pytest.raises(psycopg.errors.NumericValueOutOfRange):
        made.raw("SELECT SUM(CAST(free AS DOUBLE PRECISION)) FROM users")
    assert made.rows("SELECT SUM(free), SUM(long), COUNT(*) FILTER (WHERE long < 1) FROM users") == [(5, 5, 1)]
    assert len(made.rows("SELECT free, long, COUNT(*) FROM users GROUP BY 1, 2")) == 2


@pytest.mark.parametrize(("own", "other"), [("TEXT", "BIGINT"), ("BIGINT", "TEXT"), ("DATE", "TEXT")])
def test_links_of_different_types_are_refused(tmp_path: Path, own: str, other: str) -> None:
    """An engine would cast the text of each row, and fail on some."""
    columns = {
        "users": {"user_id": "BIGINT"},
        "orders": {"order_id": other, "user_id": "BIGINT"},
        "items": {"order_id": own, "sku": "TEXT"},
    }
    tables = {
        "users": {},
        "orders": {"unit": "user_id"},
        "items": {"link": {"table": "orders", "on": "order_id"}},
    }
    with pytest.raises(PolicyError, match="different types"):
        world(tmp_path, {}, given=policy(tables=tables), columns=columns)
    with pytest.raises(PolicyError, match="different types"):
        text = {"users": {"user_id": "TEXT"}, "orders": columns["orders"]}
        world(tmp_path, {}, given=policy(tables={"users": {}, "orders": {"unit": "user_id"}}), columns=text, name="b")


def test_a_constraint_that_is_gone(postgres: Database, tmp_path: Path) -> None:
    """One row a person was believed because of it."""
    columns = {"users": {"user_id": "BIGINT PRIMARY KEY", "home": "TEXT"}}
    rows = [{"user_id": who, "home": "x"} for who in range(9)]
    given = policy(tables={"users": {}})
    made = world(tmp_path, {"users": rows}, given=given, mechanisms=EXACT, engine=postgres.engine, columns=columns)
    assert made.rows("SELECT COUNT(*) FROM users") == [(9,)]
    spent = made.spent
    postgres.run("ALTER TABLE users DROP CONSTRAINT users_pkey")
    postgres.run("INSERT INTO users SELECT 7, 'y' FROM generate_series(1, 100)")
    told = made.refusal("SELECT COUNT(*) FROM users WHERE home = 'y'")
    assert told is not None and told[0] == "EngineError" and "constraint" in told[1]
    assert made.spent == spent
    assert made.rows("SELECT COUNT(*) FROM users") == [(9,)], "what was answered before is kept"


LENGTHS = [
    ("CAST(text AS VARCHAR(1)) = '%'", "duckdb", 0),
    ("CAST(text AS VARCHAR(1)) = '%'", "postgres", 1),
    ("CAST(real + 0.336 AS DECIMAL(9, 2)) = 1.34", "duckdb", 2),
    ("CAST(real + 0.336 AS DECIMAL(9, 2)) = 1.34", "postgres", 2),
    ("CAST(real + 0.336 AS NUMERIC(9)) = 1", "postgres", 2),
    ("CAST(real + 0.336 AS FLOAT(53)) = real + 0.336", "postgres", None),
    ("CAST(real + 0.336 AS DECIMAL(38, 18)) > 1.335", "postgres", None),
    ("CAST(moment AS TIMESTAMP(6)) = moment", "postgres", None),
]


@pytest.mark.full
@pytest.mark.parametrize(("condition", "dialect", "found"), LENGTHS)
def test_the_length_of_a_type_is_not_dropped(odd: World, condition: str, dialect: str, found: int | None) -> None:
    prepared = odd.prepare(f"SELECT COUNT(*) FROM users WHERE user_id < 13 AND {condition}", dialect=dialect)
    (values,) = odd.gate.data.exact(prepared.parts[0])[0].values()
    assert found is None or values["a0"] == found


@pytest.mark.parametrize("kind", ["TIMESTAMP(3)", "INT(5)", "DECIMAL(1, 2, 3)", "DECIMAL(99999, 2)"])
def test_lengths_that_are_not_read(odd: World, kind: str) -> None:
    with pytest.raises(Refused):
        odd.prepare(f"SELECT COUNT(*) FROM users WHERE CAST(moment AS {kind}) IS NULL")

"""Values that a GROUP BY takes for the same, and that look different: none of them tells whose row came first."""

from __future__ import annotations

import math
import struct
from pathlib import Path
from typing import Any

import psycopg
import pytest
from conftest import Database
from gateway_world import EXACT, World, policy, world

from sqlanon.errors import PolicyError, Refused
from sqlanon.gateway.bind.read_statement import parse_statement
from sqlanon.sqlfront.dialects import Joined

COLUMNS = {
    "users": {"user_id": "BIGINT", "real": "DOUBLE PRECISION", "word": "TEXT", "padded": "TEXT"},
    "words": {"word": "TEXT", "meaning": "TEXT"},
}
OTHERS = range(8, 20)


def spelled(
    engine: Any, folder: Path, first: dict[str, Any], columns: dict[str, dict[str, str]] | None = None
) -> World:
    """Person 7 comes first, and writes the same values in another way than all others."""
    calm = {"real": 0.0, "word": "smith", "padded": "x"}
    users = [{"user_id": 7, **calm, **first}, *({"user_id": who, **calm} for who in OTHERS)]
    words = [{"word": "SMITH", "meaning": "a"}, {"word": "smith", "meaning": "b"}]
    tables = {"users": {"columns": {"word": {}, "real": {"low": -5, "high": 5}}}, "words": {"public": True}}
    given = policy(tables=tables, rows=3, groups=3, minimum_group=2)
    made = columns or COLUMNS
    return world(folder, {"users": users, "words": words}, given=given, mechanisms=EXACT, engine=engine, columns=made)


def bits(value: Any) -> Any:
    return struct.pack(">d", value) if isinstance(value, float) else value


@pytest.mark.parametrize(
    "key",
    [
        "real",
        "real * 2",
        "0.0 * (CASE WHEN user_id = 7 THEN -1.0 ELSE 1.0 END)",
        "CEIL(real - 0.5 * (CASE WHEN user_id = 7 THEN 1 ELSE 0 END)) * 1000000000 * 10000000000",
    ],
)
def test_zeros_have_one_sign(database: Database, tmp_path: Path, key: str) -> None:
    """Or the sign of a key would tell, without noise, whether the row of person 7 fits a condition."""
    found = spelled(database.engine, tmp_path, {"real": -0.0}).rows(
        f"SELECT {key} AS k, COUNT(*) FROM users GROUP BY 1"
    )
    assert [bits(key) for key, _ in found] == [bits(0.0)] or [key for key, _ in found] == [0]
    assert found[0][1] == len(OTHERS) + 1


def test_nan_has_one_sign(database: Database, tmp_path: Path) -> None:
    made = spelled(database.engine, tmp_path, {"real": -math.nan})
    made.gate.engine.engine._connection.execute("UPDATE users SET real = 'nan' WHERE user_id <> 7")  # type: ignore[attr-defined]
    found = made.rows("SELECT real, COUNT(*), MEDIAN(real) FROM users GROUP BY 1")
    assert [(bits(key), count) for key, count, _ in found] == [(bits(math.nan), len(OTHERS) + 1)]
    assert found[0][2] > 4, "the rows of a quantile are found under the same key"


def collated(kind: str) -> dict[str, dict[str, str]]:
    return COLUMNS | {name: COLUMNS[name] | {"word": kind} for name in ("users", "words")}


@pytest.fixture
def blind(database: Database) -> dict[str, dict[str, str]]:
    """Columns for which 'SMITH' = 'smith'."""
    if database.engine.dialect == "duckdb":
        return collated("TEXT COLLATE NOCASE")
    try:
        database.run("CREATE COLLATION blind (provider = icu, locale = 'und-u-ks-level2', deterministic = false)")
    except psycopg.errors.FeatureNotSupported:
        pytest.skip("this PostgreSQL is built without ICU, and so has no such collations")
    return collated("TEXT COLLATE blind")


def test_a_group_is_not_called_by_the_spelling_of_one(
    database: Database, blind: dict[str, dict[str, str]], tmp_path: Path
) -> None:
    made = spelled(database.engine, tmp_path, {"word": "SMITH"}, blind)
    assert made.rows("SELECT word, COUNT(*) FROM users GROUP BY 1") == [("smith", len(OTHERS))]
    # Texts of persons are compared byte by byte, whatever the collation of their column.
    public = "SELECT w.word, COUNT(*) FROM words w JOIN users u ON u.word = w.word GROUP BY 1"
    assert dict(made.rows(public)) == {"SMITH": 1, "smith": len(OTHERS)}
    assert made.rows("SELECT DISTINCT word FROM (SELECT user_id, word FROM users) t") == [("smith",)]


def test_blanks_at_the_end_of_char(postgres: Database, tmp_path: Path) -> None:
    columns = COLUMNS | {"users": COLUMNS["users"] | {"padded": "BPCHAR"}}
    made = spelled(postgres.engine, tmp_path, {"padded": "x    "}, columns)
    assert made.rows("SELECT padded, COUNT(*) FROM users GROUP BY 1") == [("x", len(OTHERS) + 1)]


APART = [
    "user_id = 7 AND word = padded",
    "user_id = 7 AND word || padded = 'x'",
    "user_id = 7 AND LOWER(word || padded) LIKE 'x%'",
    "user_id = 7 AND COALESCE(word, padded) > 'a'",
    "user_id = 7 AND CASE WHEN real > 0 THEN word ELSE padded END ILIKE 'a%'",
]


def test_collations_that_do_not_fit_together_tell_nothing(postgres: Database, tmp_path: Path) -> None:
    """PostgreSQL fails where they meet, but only once there is a row: of person 7, and of nobody else."""
    columns = {
        "users": COLUMNS["users"] | {"word": 'TEXT COLLATE "C"', "padded": 'VARCHAR(9) COLLATE "POSIX"'},
        "words": {"word": 'TEXT COLLATE "ucs_basic"', "meaning": 'TEXT COLLATE "C"'},
    }
    made = spelled(postgres.engine, tmp_path, {}, columns)
    made.raw("SELECT COUNT(*) FROM users WHERE user_id = 8000 AND word = padded")
    with pytest.raises(psycopg.errors.IndeterminateCollation):
        made.raw("SELECT COUNT(*) FROM users WHERE user_id = 7 AND word = padded")
    for condition in APART:
        assert made.exact(f"SELECT COUNT(*), COUNT(DISTINCT word || padded) FROM users WHERE {condition}")
    assert made.exact("SELECT COUNT(*) FROM users u JOIN words w ON u.user_id = 7 AND w.word = w.meaning")
    largest = "SELECT COUNT(*) FROM (SELECT user_id, MAX(word || padded) AS m FROM users GROUP BY 1) t WHERE m > 'a'"
    assert made.exact(largest)
    # What reads no person is answered as it is.
    assert [row for (row,) in made.rows("SELECT word FROM words ORDER BY word")] == ["SMITH", "smith"]


def test_units_of_several_collations(postgres: Database, tmp_path: Path) -> None:
    columns = {
        "users": {"id": 'TEXT COLLATE "C"', "home": "TEXT"},
        "visits": {"id": 'TEXT COLLATE "POSIX"', "age": "INTEGER"},
    }
    tables = {
        "users": [{"id": name, "home": "x"} for name in "abc"],
        "visits": [{"id": name, "age": 5} for name in "aabc"],
    }
    given = policy(unit={"table": "users", "key": "id"}, tables={"users": {}, "visits": {"unit": "id"}})
    made = world(tmp_path, tables, given=given, mechanisms=EXACT, engine=postgres.engine, columns=columns)
    assert made.rows("SELECT COUNT(*) FROM users u JOIN visits v ON u.id = v.id WHERE u.id > 'a'") == [(2,)]


def test_a_unit_whose_spellings_are_the_same(postgres: Database, tmp_path: Path) -> None:
    try:
        postgres.run("CREATE COLLATION blind (provider = icu, locale = 'und-u-ks-level2', deterministic = false)")
    except psycopg.errors.FeatureNotSupported:
        pytest.skip("this PostgreSQL is built without ICU, and so has no such collations")
    given = policy(unit={"table": "users", "key": "id"}, tables={"users": {}})
    with pytest.raises(PolicyError, match=r"users\.id"):
        world(tmp_path, {}, given=given, engine=postgres.engine, columns={"users": {"id": "TEXT COLLATE blind"}})


def test_a_parser_that_cannot_be_made_stricter(monkeypatch: pytest.MonkeyPatch) -> None:
    """With sqlglotc installed every statement is refused, for that reason and no other."""

    def compiled(*_: Any, **__: Any) -> None:
        raise TypeError("interpreted classes cannot inherit from compiled")

    monkeypatch.setattr(Joined, "__init__", compiled)
    with pytest.raises(Refused, match="sqlglotc is installed") as refused:
        parse_statement("SELECT 1", "duckdb")
    assert refused.value.hint == "pip uninstall sqlglotc"

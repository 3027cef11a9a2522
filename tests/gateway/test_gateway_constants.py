"""A constant is a value wherever it stands: an engine takes a bare 1 in GROUP BY or ORDER BY for the first column."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from conftest import Database
from gateway_world import EXACT, World, people, policy, world

from sqlanon.errors import Refused

# As it is written in a SELECT list of either dialect.
CONSTANTS = {
    "0": "0", "1": "1", "7": "7", "negative": "-1", "fraction": "1.5", "text": "'x'", "empty": "''", "true": "TRUE",
    "cast": "CAST(2 AS BIGINT)", "cast text": "CAST('1' AS TEXT)", "sum": "1 + 1", "paren": "(1)",
    "date": "DATE '2026-01-31'", "timestamp": "TIMESTAMP '2026-01-31 10:00:00'", "large": "10000000000",
}  # fmt: skip
# Each with the constant {c}; what is compared is the whole answer.
PRIVATE = {
    "distinct persons": "SELECT COUNT(*) FROM (SELECT DISTINCT user_id, {c} AS c FROM users) t",
    "distinct persons, first": "SELECT COUNT(*) FROM (SELECT DISTINCT {c} AS c, user_id FROM visits) t",
    "persons": "SELECT COUNT(*) FROM (SELECT user_id, {c} AS c, COUNT(*) AS n FROM visits GROUP BY user_id, c) t",
    "persons, by place": "SELECT SUM(n) FROM (SELECT user_id, {c}, COUNT(*) AS n FROM visits GROUP BY 1, 2) t",
    "persons, by text": "SELECT SUM(n) FROM (SELECT user_id, region, {c}, COUNT(*) n FROM visits GROUP BY 1, 2, 3) t",
    "key": "SELECT {c} AS c, COUNT(*) FROM visits GROUP BY c",
    "key by place": "SELECT {c}, COUNT(*) FROM visits GROUP BY 1",
    "key beside a key": "SELECT {c}, region, COUNT(*) FROM visits GROUP BY 1, 2",
    "key beside a declared one": "SELECT {c}, ward, COUNT(*) FROM visits WHERE ward <> 'W3' GROUP BY 1, 2",
    "key of a public table": "SELECT {c}, country, COUNT(*) FROM visits JOIN regions USING (region) "
                             "WHERE country <> 'C' GROUP BY 1, 2",
    "key of a subquery": "SELECT c, COUNT(*) FROM (SELECT {c} AS c, age FROM visits) t GROUP BY c",
    "distinct key": "SELECT DISTINCT {c} AS c, region FROM visits",
    "order": "SELECT ward, {c} AS c, COUNT(*) AS n FROM visits WHERE ward <> 'W3' GROUP BY ward ORDER BY c, n, ward",
    "order of the noisy": "SELECT c, n FROM (SELECT ward, {c} AS c, COUNT(*) AS n FROM visits WHERE ward <> 'W3' "
                          "GROUP BY ward) t ORDER BY c, n DESC",
    "group of the noisy": "SELECT c, SUM(n) FROM (SELECT ward, {c} AS c, COUNT(*) AS n FROM visits "
                          "WHERE ward <> 'W3' GROUP BY ward) t GROUP BY c",
    "constant over the noisy": "SELECT {c} AS c, SUM(n) FROM (SELECT ward, COUNT(*) AS n FROM visits "
                               "WHERE ward <> 'W3' GROUP BY ward) t GROUP BY c",
    "window": "SELECT SUM(LEAST(GREATEST(n, 0), 9)) FROM (SELECT ROW_NUMBER() OVER (PARTITION BY user_id, {c} "
              "ORDER BY {c}) AS n FROM visits) t",
    "window of the noisy": "SELECT ward, n, RANK() OVER (PARTITION BY {c} ORDER BY {c}, n, ward) FROM (SELECT ward, "
                           "COUNT(*) AS n FROM visits WHERE ward <> 'W3' GROUP BY ward) t",
    "aggregate": "SELECT COUNT({c}), COUNT(DISTINCT {c}) FROM visits",
    "union": "SELECT c, COUNT(*) FROM (SELECT user_id, {c} AS c FROM users UNION ALL SELECT user_id, {c} FROM staff) t "
             "GROUP BY c",
}  # fmt: skip
PUBLIC = {
    "key": "SELECT {c} AS c, COUNT(*) FROM regions GROUP BY c",
    "key of no row": "SELECT {c} AS c, COUNT(*) FROM regions WHERE size > 50 GROUP BY c",
    "key beside a key": "SELECT country, {c} AS c, COUNT(*) FROM regions GROUP BY country, c",
    "key without aggregate": "SELECT {c} AS c FROM regions GROUP BY c",
    "order": "SELECT region, {c} AS c FROM regions ORDER BY c, size DESC",
    "order by place": "SELECT {c} AS c, region FROM regions ORDER BY 1, size DESC",
    "distinct": "SELECT DISTINCT {c} AS c, country FROM regions ORDER BY c, country DESC",
    "union": "SELECT {c} AS c, region FROM regions UNION SELECT {c}, country FROM regions ORDER BY c, region DESC",
    "having": "SELECT {c} AS c, SUM(size) FROM regions GROUP BY c HAVING COUNT(*) > 1 ORDER BY c",
    "window": "SELECT region, SUM(size) OVER (PARTITION BY {c} ORDER BY {c}, region) FROM regions ORDER BY region",
    "nested": "SELECT c, COUNT(*) FROM (SELECT {c} AS c, region FROM regions) t GROUP BY c ORDER BY c",
}  # fmt: skip


@pytest.fixture
def here(database: Database, tmp_path: Path) -> World:
    loose = policy(rows=500, groups=500, minimum_group=1)
    return world(tmp_path, people(), given=loose, mechanisms=EXACT, engine=database.engine)


def _shown(rows: Any) -> list[tuple[Any, ...]]:
    return [tuple(float(each) if hasattr(each, "real") and each is not True else each for each in row) for row in rows]


def _check(here: World, sql: str, answered: str | None = None, parameters: Any = ()) -> None:
    dialect = here.spy.dialect
    found = _shown(here.rows(answered or sql, dialect=dialect, parameters=parameters))
    expected = _shown(here.raw(sql))
    assert Counter(found) == Counter(expected), sql
    if "ORDER BY" in sql.rpartition(")")[2]:
        assert found == expected, sql


@pytest.mark.full
@pytest.mark.parametrize("shape", PRIVATE)
def test_a_constant_among_the_keys_of_private_rows(here: World, shape: str) -> None:
    for constant in CONSTANTS.values():
        _check(here, PRIVATE[shape].format(c=constant))


@pytest.mark.full
@pytest.mark.parametrize("shape", PUBLIC)
def test_a_constant_among_the_keys_of_public_rows(here: World, shape: str) -> None:
    for constant in CONSTANTS.values():
        _check(here, PUBLIC[shape].format(c=constant))


@pytest.mark.full
@pytest.mark.parametrize("value", [0, 1, 2, -1, 1.5, "x", "1", True])
def test_a_parameter_among_the_keys(here: World, value: Any) -> None:
    """What is written as CAST($1 AS …) is the value itself."""
    kind, written = {
        int: ("BIGINT", str(value)), float: ("DOUBLE PRECISION", str(value)), str: ("TEXT", f"'{value}'"),
        bool: ("BOOLEAN", str(value)),
    }[type(value)]  # fmt: skip
    for shape in (PRIVATE["distinct persons"], PRIVATE["persons, by place"], PRIVATE["order"], PUBLIC["order"]):
        plain, asked = shape.format(c=f"CAST({written} AS {kind})"), shape.format(c=f"CAST($1 AS {kind})")
        _check(here, plain, asked, [value])


@pytest.mark.full
@pytest.mark.parametrize("null", ["NULL", "CAST(NULL AS INTEGER)", "CAST(NULL AS TEXT)"])
def test_null_among_the_keys(here: World, null: str) -> None:
    """What is not understood is refused, and costs nothing; what is answered is what SQL says."""
    for name, shape in [*PRIVATE.items(), *PUBLIC.items()]:
        sql = shape.format(c=null)
        spent = here.spent
        try:
            _check(here, sql)
        except Refused:
            assert here.spent == spent, name


def test_a_statement_with_a_constant_key_does_not_fail_after_its_charge(here: World) -> None:
    sql = "SELECT COUNT(*) FROM (SELECT DISTINCT user_id, 0 AS c FROM users)"
    if here.spy.dialect == "postgres":
        sql += " t"
    assert here.rows(sql) == [(40,)]
    assert [event.kind for event in here.gate.ledger.history()] == ["charge", "answered"]

"""Outer joins that keep the rows of a public table: what is answered is what SQL says, all else is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import Database
from gateway_world import EXACT, World, people, policy, world

FORMS = ("regions r LEFT JOIN visits v ON v.region = r.region", "visits v RIGHT JOIN regions r ON v.region = r.region")
# The region R9 has no visit: SQL gives it one row, in which all columns of visits are NULL.
REFUSED = [
    "SELECT COUNT(*) FROM {f} WHERE v.user_id IS NULL",
    "SELECT COUNT(*) FROM {f} WHERE v.note IS NULL",
    "SELECT COUNT(*) FROM {f} WHERE NOT (v.user_id IS NOT NULL)",
    "SELECT COUNT(*) FROM {f} WHERE v.age > 30 OR r.country = 'C'",
    "SELECT COUNT(*) FROM {f} WHERE COALESCE(v.age, 0) = 0",
    "SELECT COUNT(*) FROM {f} WHERE v.age IS NOT DISTINCT FROM NULL",
    "SELECT COUNT(*) FROM {f} WHERE (v.age > 30) IS NOT TRUE",
    "SELECT COUNT(*) FROM {f} WHERE CASE WHEN v.age > 30 THEN FALSE ELSE TRUE END",
    "SELECT COUNT(*) FILTER (WHERE v.user_id IS NULL) FROM {f}",
    "SELECT SUM(CASE WHEN v.user_id IS NULL THEN 1 ELSE 0 END) FROM {f}",
    "SELECT SUM(CASE WHEN v.age > 30 THEN 0 ELSE 1 END) FROM {f}",
    "SELECT SUM(r.size) FROM {f}",
    "SELECT AVG(COALESCE(v.age, 0)) FROM {f}",
    "SELECT COUNT(COALESCE(v.age, 7)) FROM {f}",
    "SELECT COUNT(r.country) FROM {f}",
    "SELECT COUNT(DISTINCT r.country) FROM {f}",
    "SELECT v.ward, COUNT(*) FROM {f} GROUP BY v.ward",
    "SELECT COALESCE(v.region, 'none'), COUNT(*) FROM {f} GROUP BY 1",
    "SELECT DISTINCT r.country FROM {f}",
    "SELECT COUNT(*) FROM (SELECT r.country, v.user_id FROM {f}) t WHERE user_id IS NULL",
    "SELECT SUM(n) FROM (SELECT v.user_id, COUNT(*) AS n FROM {f} GROUP BY v.user_id) t",
    "SELECT r.country, COUNT(v.age) FROM {f} GROUP BY 1 HAVING COUNT(*) FILTER (WHERE v.age IS NULL) > 0",
]
ANSWERED = [
    "SELECT COUNT(v.user_id) FROM {f}",
    "SELECT COUNT(v.user_id) FROM {f} WHERE r.country <> 'A'",
    "SELECT r.country, COUNT(v.user_id), SUM(v.age) FROM {f} WHERE r.country <> 'C' GROUP BY 1 ORDER BY 1",
    "SELECT COUNT(*) FROM {f} WHERE v.user_id IS NOT NULL",
    "SELECT COUNT(*) FROM {f} WHERE NOT (v.user_id IS NULL)",
    "SELECT COUNT(*), SUM(r.size) FROM {f} WHERE v.age BETWEEN 25 AND 40",
    "SELECT COUNT(*) FROM {f} WHERE v.age NOT IN (25, 26) AND r.size > 1",
    "SELECT COUNT(*) FROM {f} WHERE v.age > 30 OR v.income > 9000",
    "SELECT COUNT(*) FILTER (WHERE v.age > 30), SUM(CASE WHEN v.age > 30 THEN 1 ELSE 0 END) FROM {f}",
    "SELECT SUM(COALESCE(v.age, 0)), COUNT(CASE WHEN v.ok THEN 1 END) FROM {f}",
    "SELECT v.ward, COUNT(*) FROM {f} WHERE v.ward IN ('W0', 'W1', 'W2') GROUP BY v.ward ORDER BY 1",
    "SELECT COUNT(*) FROM (SELECT r.country, v.user_id FROM {f} WHERE v.age > 0) t WHERE country = 'A'",
]


@pytest.fixture
def here(database: Database, tmp_path: Path) -> World:
    loose = policy(rows=500, groups=500, minimum_group=1)
    return world(tmp_path, people(), given=loose, mechanisms=EXACT, engine=database.engine)


@pytest.mark.parametrize("form", FORMS, ids=["left", "right"])
def test_rows_without_a_person_are_refused_where_they_count(here: World, form: str) -> None:
    for sql in REFUSED:
        found = here.refusal(sql.format(f=form))
        assert found is not None and "are not read" in found[1], sql
    assert here.spent == 0 and here.spy.seen == []


@pytest.mark.full
@pytest.mark.parametrize("form", FORMS, ids=["left", "right"])
def test_what_is_answered_is_what_sql_says(here: World, form: str) -> None:
    for sql in ANSWERED:
        found, expected = here.rows(sql.format(f=form)), here.raw(sql.format(f=form))
        assert [tuple(map(str, row)) for row in found] == [tuple(map(str, row)) for row in expected], sql


def test_every_refused_statement_would_have_been_wrong(here: World) -> None:
    """As an inner join each says something else than SQL does, or would where its rows may be asked for anything."""
    outer, inner = FORMS[0], FORMS[0].replace("LEFT ", "")
    for sql in REFUSED:
        both = [sorted(map(str, here.raw(sql.format(f=form)))) for form in (outer, inner)]
        assert both[0] != both[1], sql


def test_count_counts_the_rows_of_persons(here: World) -> None:
    """All keys of the public table appear; a country without a visit has none, where SQL counts the row of NULLs."""
    sql = f"SELECT r.country, COUNT(*) FROM {FORMS[0]} GROUP BY 1 ORDER BY 1"
    found = here.rows(sql)
    assert [country for country, _ in found] == ["A", "B", "C"] and found[-1] == ("C", 0)
    assert found[:2] == here.raw(sql)[:2] and here.raw(sql)[-1] == ("C", 1)

"""Rules of access, through every way in: for whom a table or column is not, it is as if it did not exist."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from hostile_ways import SERVE, WAYS, World, hostile_world, own_words, simple
from proxy_servers import POOR_PASSWORD
from proxy_world import OTHER, OTHER_PASSWORD
from raw_client import Raw, query

# The analyst may not know of one table and of one column of another; the administrator may.
ACCESS = """
  access:
    - tables: [people_released]
      to: [all]
      except: [analyst]
    - tables: [visits]
      columns: [cost]
      to: [all]
      except: [analyst]
"""
HIDDEN = {
    "SELECT name FROM people_released": "42P01",
    "SELECT count(*) AS n FROM people_released": "42P01",
    "SELECT c.city FROM cities c JOIN people_released p ON p.city = c.city": "42P01",
    "SELECT c.city FROM cities c LEFT JOIN (SELECT city FROM people_released) p ON p.city = c.city": "42P01",
    "WITH x AS (SELECT * FROM public.people_released) SELECT count(*) AS n FROM x": "42P01",
    "SELECT city FROM cities UNION ALL SELECT name FROM people_released": "42P01",
    "SELECT sum(cost) AS s FROM visits": "42703",
    "SELECT count(*) AS n FROM visits WHERE cost > 3": "42703",
    "SELECT count(DISTINCT cost) AS n FROM visits": "42703",
    "SELECT ward, count(*) AS n FROM visits GROUP BY ward ORDER BY avg(cost)": "42703",
    "SELECT ward, count(*) AS n FROM visits GROUP BY ward HAVING avg(visits.cost) > 1": "42703",
    "SELECT count(*) AS n FROM (SELECT person, cost FROM visits) v": "42703",
    "SELECT count(*) AS n FROM visits a JOIN visits b USING (person, cost)": "42703",
}


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with hostile_world(ACCESS.rstrip() + SERVE + "  administrators: [poor]\n") as found:
        yield found


@pytest.mark.full
@pytest.mark.parametrize("sql", HIDDEN)
def test_hidden_through_every_way_in_and_nothing_is_charged(world: World, sql: str) -> None:
    before = world.server.charges()
    for way in WAYS:
        found = way(world, sql)
        assert found.errors and not found.rows, way.__name__
        assert found.errors[0][0] == HIDDEN[sql], (way.__name__, found.errors)
        assert all(own_words(said, sql) for _, said in found.errors)
    assert world.server.charges() == before


@pytest.mark.full
def test_what_is_beside_it_is_answered_and_others_see_it(world: World) -> None:
    assert len(simple(world, "SELECT ward, count(*) AS n FROM visits GROUP BY ward").rows) == 4
    with world.raw(OTHER, OTHER_PASSWORD) as raw:
        assert raw.kinds(query("SELECT sum(cost) AS s FROM visits")).replace("N ", "") == "T D C"
    with world.raw("poor", POOR_PASSWORD) as raw:
        assert raw.kinds(query("SELECT count(*) FROM people_released")) == "T D C"


CATALOG = (
    "SELECT string_agg(relname, ',') FROM pg_class",
    "SELECT string_agg(attname, ',') FROM pg_attribute",
    "SELECT string_agg(table_name, ',') FROM information_schema.tables",
    "SELECT string_agg(table_name || '.' || column_name, ',') FROM information_schema.columns",
    "SELECT string_agg(table_name || '.' || column_name, ',') FROM information_schema.key_column_usage",
    "SELECT string_agg(conname, ',') FROM pg_constraint",
    "SELECT string_agg(pg_get_constraintdef(oid), ',') FROM pg_constraint",
    "SELECT string_agg(indexdef, ',') FROM pg_indexes",
    "SELECT string_agg(tablename, ',') FROM pg_tables",
    "SELECT string_agg(typname, ',') FROM pg_type",
    "SELECT string_agg(description, ',') FROM pg_description",
    "SELECT string_agg(n::regclass::text, ',') FROM (SELECT generate_series(16000, 17000)::oid AS n) s",
)


def told(raw: Raw, sql: str) -> str:
    replies = raw.ask(query(sql))
    assert replies[-1].kind in "CE"
    return " ".join(reply.body.decode(errors="replace") for reply in replies if reply.kind in "DE")


@pytest.mark.parametrize("sql", CATALOG)
def test_the_catalog_has_no_trace_of_it(world: World, sql: str) -> None:
    with world.raw() as raw:
        assert not re.search(r"people_released|\bcost\b", told(raw, sql))
    with world.raw("poor", POOR_PASSWORD) as raw:
        raw.ask(query("SET sqlanon.simulate = 'analyst'"))
        assert not re.search(r"people_released|\bcost\b", told(raw, sql)), "nor for who tries his rights"


def test_the_catalog_has_it_for_others(world: World) -> None:
    with world.raw("poor", POOR_PASSWORD) as raw:
        assert "people_released" in told(raw, CATALOG[0]) and "cost" in told(raw, CATALOG[1])


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT 'NAME'::regclass", "SELECT to_regclass('NAME')", "SELECT has_table_privilege('NAME', 'SELECT')",
        "SELECT pg_relation_size('NAME')", "SELECT count(*) FROM NAME", "COPY NAME TO STDOUT",
        "SELECT NAME.x FROM cities",
        "EXPLAIN SELECT count(*) FROM NAME", "PREPARE p AS SELECT * FROM NAME", "COPY (SELECT * FROM NAME) TO STDOUT",
    ],
)  # fmt: skip
def test_a_hidden_table_is_as_one_that_is_not_there(world: World, sql: str) -> None:
    with world.raw() as raw:
        found = [
            told(raw, sql.replace("NAME", name)).replace(name, "x") for name in ("people_released", "peopla_released")
        ]
    assert found[0] == found[1]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT sum(NAME) AS s FROM visits", "SELECT has_column_privilege('visits', 'NAME', 'SELECT')",
        "EXPLAIN SELECT sum(NAME) AS s FROM visits", "SELECT col_description('visits'::regclass, 4), 'NAME' = ''",
        "COPY visits (NAME) TO STDOUT", "SELECT count(*) AS n FROM visits v WHERE v.NAME = 1",
    ],
)  # fmt: skip
def test_a_hidden_column_is_as_one_that_is_not_there(world: World, sql: str) -> None:
    with world.raw() as raw:
        found = [told(raw, sql.replace("NAME", name)).replace(name, "x") for name in ("cost", "sotc")]
    assert found[0] == found[1]


def test_no_hint_names_it(world: World) -> None:
    with world.raw() as raw:
        for sql in ("SELECT costs FROM visits", "SELECT name FROM people_release", "SELECT sum(cos) AS s FROM visits"):
            said = told(raw, sql).replace("costs", "").replace("people_release ", "")
            assert not re.search(r"\bcost\b|people_released", said), said


def test_simulating_is_no_way_around(world: World) -> None:
    with world.raw() as raw:
        for role in ("poor", OTHER, "analyst"):
            assert "42501" in told(raw, f"SET sqlanon.simulate = '{role}'")
    with world.raw("poor", POOR_PASSWORD) as raw:
        raw.ask(query("SET sqlanon.simulate = 'analyst'"))
        for sql, sqlstate in HIDDEN.items():
            assert sqlstate in told(raw, sql)


def test_made_up_data_is_no_way_around(world: World) -> None:
    with world.raw() as raw:
        raw.ask(query("SET sqlanon.dry_run = on"))
        for sql, sqlstate in HIDDEN.items():
            assert sqlstate in told(raw, sql)

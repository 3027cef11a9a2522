"""A policy says of tables that they are public, or released: what of it is compared with the database, and when."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import psycopg
import pytest
from conftest import Database

from sqlanon.engines import connect
from sqlanon.errors import PolicyError, Refused
from sqlanon.gateway import Gate, open_gateway
from sqlanon.gateway.shown_tables import shown_lines
from sqlanon.ledger import Ledger
from sqlanon.policy import parse
from sqlanon.policy.files import parse_gateway
from sqlanon.release import publish

PEOPLE = """
CREATE TABLE people (person INTEGER PRIMARY KEY, age INTEGER, town TEXT, illness TEXT);
INSERT INTO people SELECT CAST(i AS INTEGER), CAST(20 + i % 40 AS INTEGER), 'T' || CAST(i % 3 AS TEXT),
    'I' || CAST(i % 5 AS TEXT) FROM generate_series(1, 200) AS t(i);
CREATE TABLE visits (visit INTEGER PRIMARY KEY, person INTEGER, cost INTEGER);
INSERT INTO visits SELECT CAST(i AS INTEGER), CAST(1 + i % 200 AS INTEGER), CAST(i % 50 AS INTEGER)
FROM generate_series(1, 400) AS t(i);
CREATE TABLE towns (town TEXT PRIMARY KEY, country TEXT);
INSERT INTO towns VALUES ('T0', 'A'), ('T1', 'A'), ('T2', 'B');
"""
RELEASE = """
source: {table: people}
columns:
  person: identifier
  age: quasi_identifier
  town: quasi_identifier
  illness: sensitive
hierarchies:
  age: {intervals: {widths: [10, 40]}}
models: [{k_anonymity: {k: 3}}]
release: {%s: shown}
"""
SHOWN = "SELECT age, town, illness FROM shown"


class Site:
    """A database of either engine, a policy over it, and gates that are opened on it."""

    def __init__(self, folder: Path, url: str) -> None:
        self.folder, self.url = folder, url
        self.gates: list[Gate] = []
        Ledger.create(folder / "policy.ledger").close()

    def run(self, sql: str) -> None:
        if "://" in self.url:
            with psycopg.connect(self.url, autocommit=True) as connection:
                connection.execute(sql)  # type: ignore[call-overload]
        else:
            with duckdb.connect(self.url) as connection:
                connection.execute(sql)

    def publish(self, kind: str = "table", text: str = RELEASE) -> None:
        engine = connect(self.url, read_only=False)
        try:
            publish(parse(text % kind, "release.yml"), engine, secret="a secret of the tests")
        finally:
            engine.close()

    def gate(self, tables: str) -> Gate:
        text = (
            f"gateway: {{database: '{self.url}', unit: {{table: people, key: person}}, rows: 2, answer_time: 0, "
            f"tables: {{people: {{}}, visits: {{unit: person}}, {tables}}}, "
            "budget: {statement: {epsilon: 1, delta: 1e-6}, principal: {epsilon: 9, delta: 1e-4}}}"
        )
        self.gates.append(open_gateway(parse_gateway(text, "policy.yml", self.folder)))
        return self.gates[-1]

    def close(self) -> None:
        while self.gates:
            self.gates.pop().close()


@pytest.fixture(params=["duckdb", "postgres"])
def site(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Site]:
    url = request.getfixturevalue("postgres").url if request.param == "postgres" else str(tmp_path / "data.duckdb")
    made = Site(tmp_path, url)
    for statement in PEOPLE.split(";\n"):
        made.run(statement)
    yield made
    made.close()


@pytest.mark.full
def test_a_raw_table_is_not_shown_because_a_policy_calls_it_released(site: Site) -> None:
    site.run("CREATE TABLE shown AS SELECT age, town, illness FROM people")
    with pytest.raises(PolicyError, match=r"policy.yml:1: table 'shown' is marked as released, but 'sqlanon_releases'"):
        site.gate("shown: {released: true}")
    site.run("DROP TABLE shown")
    site.publish()
    with pytest.raises(PolicyError, match="table 'towns' is marked as released") as caught:
        site.gate("towns: {released: true}")
    assert "sqlanon publish" in str(caught.value.hint)


@pytest.mark.full_on_postgres
@pytest.mark.parametrize("kind", [pytest.param("table", marks=pytest.mark.full), "view"])
def test_a_release_is_shown_while_its_rows_are_those_that_were_published(site: Site, kind: str) -> None:
    site.publish(kind)
    answer = site.gate("shown: {released: true}").answer(SHOWN)
    assert answer.plain and len(answer.rows) > 100
    site.close()
    site.publish(kind)  # anew
    assert site.gate("shown: {released: true}").answer(SHOWN).plain


CHANGES: dict[str, str] = {
    "a row more": "INSERT INTO shown SELECT * FROM shown LIMIT 1",
    "a row less": "DELETE FROM shown WHERE illness = 'I1'",
    "a value": "UPDATE shown SET illness = 'flu' WHERE illness = 'I1'",
    "two rows exchange a value": "UPDATE shown SET illness = CASE illness WHEN 'I1' THEN 'I2' ELSE 'I1' END "
    "WHERE illness IN ('I1', 'I2')",
    "a column": "ALTER TABLE shown ADD COLUMN name TEXT",
    "another table": "DROP TABLE shown; CREATE TABLE shown AS SELECT * FROM people",
}


@pytest.mark.full
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_release_that_was_changed_is_not_shown(site: Site, change: str) -> None:
    site.publish()
    for statement in change.split("; "):
        site.run(statement)
    with pytest.raises(PolicyError, match="table 'shown' has other rows than version 1 of the release 'shown'"):
        site.gate("shown: {released: true}")
    site.run("DROP TABLE sqlanon_releases")
    with pytest.raises(PolicyError, match="does not have it"):
        site.gate("shown: {released: true}")


@pytest.mark.full
def test_a_view_over_raw_rows_in_place_of_a_release_is_not_shown(site: Site) -> None:
    site.publish("view")
    site.run("DROP VIEW shown")
    site.run("CREATE VIEW shown AS SELECT age, town, illness FROM people")
    with pytest.raises(PolicyError, match="table 'shown' has other rows than"):
        site.gate("shown: {released: true}")


@pytest.mark.full
def test_a_record_without_a_fingerprint_proves_nothing(site: Site) -> None:
    site.publish()
    site.run("UPDATE sqlanon_releases SET fingerprint = NULL")
    with pytest.raises(PolicyError, match="kept no fingerprint") as caught:
        site.gate("shown: {released: true}")
    assert caught.value.hint == "publish it again"
    site.run("ALTER TABLE sqlanon_releases DROP COLUMN companions")  # a record of an earlier version
    with pytest.raises(PolicyError, match="kept no fingerprint"):
        site.gate("shown: {released: true}")
    site.publish()
    assert site.gate("shown: {released: true}").answer(SHOWN).plain


@pytest.mark.full_on_postgres
def test_tables_that_belong_to_a_release_have_fingerprints_too(site: Site) -> None:
    text = RELEASE.replace(
        "models: [{k_anonymity: {k: 3}}]", "models: [{distinct_l_diversity: {l: 3}}]\nalgorithm: {anatomy: {l: 3}}"
    )
    text = text.replace("hierarchies:\n  age: {intervals: {widths: [10, 40]}}\n", "")
    site.publish("table", text)
    tables = "shown: {released: true}, shown_sensitive: {released: true}, shown_estimates: {released: true}"
    assert site.gate(tables).answer("SELECT illness FROM shown_sensitive").plain
    site.close()
    site.run("UPDATE shown_sensitive SET illness = 'flu' WHERE illness = 'I1'")
    with pytest.raises(
        PolicyError, match="table 'shown_sensitive' has other rows than version 1 of the release 'shown'"
    ):
        site.gate("shown_sensitive: {released: true}")
    site.gate("shown: {released: true}")


@pytest.mark.full
def test_what_changes_under_an_open_gateway_is_looked_at_again(tmp_path: Path, postgres: Database) -> None:
    site = Site(tmp_path, postgres.url)
    for statement in PEOPLE.split(";\n"):
        site.run(statement)
    site.publish("view")
    site.run("CREATE VIEW list AS SELECT town FROM towns")
    gate = site.gate("shown: {released: true}, towns: {public: true}, list: {public: true}")
    try:
        first = gate.answer(SHOWN).rows
        site.publish("view")  # another table behind the view, and another version on record
        assert len(gate.answer(SHOWN).rows) == len(first)
        assert len(gate.answer("SELECT town FROM list").rows) == 3
        site.run("INSERT INTO towns VALUES ('T3', 'B')")  # public tables may change
        assert len(gate.answer("SELECT town FROM list").rows) == 4
        site.run("CREATE OR REPLACE VIEW list AS SELECT town FROM people")
        for sql in ("SELECT town FROM list", "SELECT count(*) FROM people JOIN list USING (town)"):
            with pytest.raises(Refused, match="table 'list' was changed"):
                gate.answer(sql)
        with pytest.raises(Refused, match="table 'list' was changed"):
            list(gate.plain_batches(gate.prepare("SELECT town FROM list", "analyst")))
        assert gate.answer("SELECT town FROM towns").plain
        site.run("CREATE OR REPLACE VIEW shown AS SELECT age::text AS age, town, illness FROM people")
        with pytest.raises(Refused, match="table 'shown' was changed"):
            gate.answer(SHOWN)
    finally:
        site.close()


# ---- public


PUBLIC: dict[str, tuple[str, str, str]] = {
    "a view": ("CREATE VIEW p AS SELECT age FROM people", "p", "reads rows of 'people', which belong to persons"),
    "a view of a view": (
        "CREATE VIEW q AS SELECT count(*) AS n FROM visits; CREATE VIEW p AS SELECT n + 1 AS n FROM q", "p",
        "reads rows of 'visits', which belong to persons",
    ),
    "inside a condition": (
        "CREATE VIEW p AS SELECT * FROM towns WHERE town IN (SELECT town FROM people WHERE person = 7)", "p",
        "reads rows of 'people', which belong to persons",
    ),
    "the key of the unit": ("CREATE TABLE p AS SELECT person, age FROM people", "p", "the key 'person'"),
    "in capitals": ('CREATE TABLE p AS SELECT person AS "PERSON" FROM people', "p", "the key 'person'"),
    "a foreign key": (
        "CREATE TABLE p (who INTEGER REFERENCES people (person), word TEXT)", "p", "rows belong to rows of 'people'",
    ),
    "a copy": (
        "CREATE TABLE p AS SELECT town, cost AS person, visit, cost FROM towns, visits LIMIT 9; "
        "ALTER TABLE p ALTER COLUMN person TYPE TEXT", "p", "has all columns of 'visits'",
    ),
}  # fmt: skip


@pytest.mark.full
@pytest.mark.parametrize(("made", "name", "said"), PUBLIC.values(), ids=PUBLIC)
def test_public_tables_hold_no_rows_of_persons(site: Site, made: str, name: str, said: str) -> None:
    for statement in made.split("; "):
        site.run(statement)
    with pytest.raises(
        PolicyError, match=f"policy.yml:1: table '{name}' is (marked as )?public, (and|but) .*{said}"
    ) as caught:
        site.gate(f"{name}: {{public: true}}")
    assert caught.value.hint


@pytest.mark.full
def test_the_source_of_a_release_is_not_public(site: Site) -> None:
    site.run("CREATE TABLE patients AS SELECT person AS number, age, town, illness FROM people")
    site.run("CREATE VIEW ages AS SELECT age FROM patients")
    text = RELEASE.replace("table: people", "table: patients").replace("person:", "number:")
    site.gate("patients: {public: true}, ages: {public: true}")  # nothing says that these are persons
    site.close()
    site.publish("table", text)
    for name in ("patients", "ages"):
        with pytest.raises(PolicyError, match=f"table '{name}' is marked as public, but the release 'shown' was made"):
            site.gate(f"{name}: {{public: true}}, shown: {{released: true}}")
    query = "query: 'SELECT p.number, age, t.country AS town, illness FROM patients p JOIN towns t ON t.town = p.town'"
    site.publish("table", text.replace("table: patients", query))
    with pytest.raises(PolicyError, match="table 'patients' is marked as public"):
        site.gate("patients: {public: true}")
    site.gate("towns: {public: true}")
    site.close()
    site.publish("table", text.replace("table: patients", "query: 'SELECT number, age, town, illness FROM patients'"))
    with pytest.raises(PolicyError, match="table 'patients' is marked as public"):
        site.gate("patients: {public: true}")


@pytest.mark.full
def test_what_a_release_was_made_of_must_be_known(site: Site) -> None:
    """A query that calls a function after FROM may read any table: none is shown as public beside its release."""
    site.run("CREATE TABLE patients AS SELECT person AS number, age, town, illness FROM people")
    if "://" not in site.url:
        site.run("CREATE MACRO everybody() AS TABLE FROM patients")
    else:
        returned = "RETURNS TABLE (number INTEGER, age INTEGER, town TEXT, illness TEXT)"
        site.run(f"CREATE FUNCTION everybody() {returned} LANGUAGE sql AS 'SELECT * FROM patients'")
    text = RELEASE.replace("table: people", "query: 'SELECT * FROM everybody()'").replace("person:", "number:")
    site.publish("table", text)
    for name in ("patients", "towns"):
        with pytest.raises(PolicyError, match="cannot be compared with the query that 'shown' was made of"):
            site.gate(f"{name}: {{public: true}}")


def test_tables_of_things_are_public(site: Site) -> None:
    site.run("CREATE VIEW greek AS SELECT town FROM towns WHERE country = 'A'")
    site.run("CREATE TABLE products (id INTEGER, name TEXT)")
    site.run("CREATE VIEW at_home AS SELECT p.age, p.person, t.country FROM people p JOIN towns t ON t.town = p.town")
    tables = "towns: {public: true}, greek: {public: true}, products: {public: true}"
    gate = site.gate(f"{tables}, at_home: {{unit: person}}")
    assert gate.answer("SELECT town FROM greek").plain
    said = "shown row by row, because the policy calls them public: towns, greek, products"
    assert shown_lines(gate.policy) == [said]


def test_a_table_behind_a_private_view_is_not_public(site: Site) -> None:
    site.run("CREATE TABLE raw AS SELECT person AS number, age FROM people")
    site.run("CREATE VIEW cooked AS SELECT number AS person, age FROM raw")
    with pytest.raises(PolicyError, match="table 'raw' is marked as public, but reads what 'cooked' protects"):
        site.gate("raw: {public: true}, cooked: {unit: person}")


def test_macros_and_functions_are_looked_through_or_refused(tmp_path: Path, postgres: Database) -> None:
    for folder, url in ((tmp_path / "d", str(tmp_path / "m.duckdb")), (tmp_path / "p", postgres.url)):
        folder.mkdir()
        site = Site(folder, url)
        for statement in PEOPLE.split(";\n"):
            site.run(statement)
        if "://" in url:
            site.run(
                "CREATE FUNCTION peek(t TEXT) RETURNS BIGINT LANGUAGE sql "
                "AS 'SELECT count(*) FROM people WHERE town = t'"
            )
            said = "reads through the function peek"
        else:
            site.run("CREATE MACRO peek(t) AS (SELECT count(*) FROM people WHERE town = t)")
            said = "'p' is marked as public, but reads what 'people' protects"
        site.run("CREATE VIEW p AS SELECT town, peek(town) AS n FROM towns")
        with pytest.raises(PolicyError, match=said):
            site.gate("p: {public: true}")


def test_a_role_that_may_not_read_the_record_is_told_what_it_needs(tmp_path: Path, postgres: Database) -> None:
    site = Site(tmp_path, postgres.url)
    for statement in PEOPLE.split(";\n"):
        site.run(statement)
    site.publish()
    site.run("DROP ROLE IF EXISTS asker")
    site.run("CREATE ROLE asker LOGIN")
    try:
        site.run("GRANT USAGE ON SCHEMA public TO asker")
        site.run("GRANT SELECT ON people, visits, shown, towns TO asker")
        separator = "&" if "?" in site.url else "?"
        site.url += f"{separator}user=asker"
        for tables in ("shown: {released: true}", "towns: {public: true}"):
            with pytest.raises(PolicyError, match="cannot be compared with the record") as caught:
                site.gate(tables)
            assert "GRANT SELECT ON sqlanon_releases" in str(caught.value.hint)
        site.close()
    finally:
        site.url = postgres.url
        site.run("DROP OWNED BY asker")
        site.run("DROP ROLE asker")

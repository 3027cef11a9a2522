"""Joins with public tables: what they make of one row is counted in public, and limited before anything is charged."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sqlanon.engines import connect
from sqlanon.errors import Refused
from sqlanon.gateway import Gate
from sqlanon.gateway.bind.catalog import Catalog
from sqlanon.gateway.bind.schema import schema_of
from sqlanon.ledger import Ledger
from sqlanon.policy.gateway import Gateway

POLICY = {
    "database": ":memory:",
    "unit": {"table": "people", "key": "id"},
    "tables": {"people": {}, "visits": {"unit": "id"}, "places": {"public": True}},
    "rows": 5,
    "budget": {"statement": {"epsilon": 1.0, "delta": 1e-6}, "principal": {"epsilon": 50.0, "delta": 1e-3}},
    "answer_time": 0.0,
}


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[Gate]:
    engine = connect(":memory:")
    engine._connection.execute(  # type: ignore[attr-defined]
        "CREATE TABLE people AS SELECT i AS id FROM range(50) t(i);"
        "CREATE TABLE visits AS SELECT i AS id, i % 10 AS place FROM range(50) t(i);"
        "CREATE TABLE places AS SELECT i AS place, i % 2 AS side, 'n' || i AS name FROM range(40) t(i)"
    )
    policy = Gateway.model_validate(POLICY)
    made = Gate(policy, engine, Ledger.create(tmp_path / "l"), Catalog(policy, schema_of(engine, policy)))
    yield made
    made.close()


GROWING = "SELECT COUNT(*) FROM visits v JOIN places a ON v.id = 7 CROSS JOIN places b"


@pytest.mark.parametrize(
    "sql",
    [
        GROWING,
        "SELECT COUNT(*) FROM places a CROSS JOIN places b JOIN visits v ON v.id = 7",
        "SELECT COUNT(*) FROM (SELECT v.id FROM visits v CROSS JOIN places a) v CROSS JOIN places b",
        "SELECT COUNT(*) FROM visits v JOIN places a ON v.id = 7 OR v.place = a.place JOIN places b ON TRUE",
        "SELECT COUNT(*) FROM visits v JOIN (SELECT x.name FROM places x CROSS JOIN places y) z ON v.id = 7",
        # Compared with each other only: all rows of one meet one private row, and then those of the other.
        "SELECT COUNT(*) FROM visits v CROSS JOIN places a JOIN places b ON a.side = b.side CROSS JOIN places c",
        "SELECT COUNT(*) FROM visits v CROSS JOIN places a JOIN places b ON a.place = b.place "
        "CROSS JOIN places c JOIN places d ON c.place = d.place",
        # Twenty rows a side, twice over, and ten times: 20 * 20 * 40.
        "SELECT COUNT(*) FROM visits v JOIN places a ON v.place = a.side JOIN places b ON a.side = b.side "
        "CROSS JOIN places c",
    ],
)
def test_rows_that_grow_for_one_person_alone(gate: Gate, sql: str) -> None:
    """It would run into the timeout if and only if person 7 is there: an answer without noise."""
    with pytest.raises(Refused, match="1,000 rows of one"):
        gate.answer(sql)
    assert gate.ledger.history() == []


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT COUNT(*) FROM visits v JOIN places a ON TRUE",
        "SELECT COUNT(*) FROM visits v JOIN places a USING (place) JOIN places b ON b.place = a.place",
        "SELECT COUNT(*) FROM visits v JOIN places a ON v.place = a.place CROSS JOIN places b",
        "SELECT a.side, COUNT(*) FROM places a LEFT JOIN visits v USING (place) GROUP BY a.side",
        "SELECT COUNT(*) FROM visits v JOIN places a ON v.place = a.side JOIN places b ON a.side = b.side",
    ],
)
def test_joins_that_stay_small(gate: Gate, sql: str) -> None:
    assert gate.answer(sql).rows
    assert [event.kind for event in gate.ledger.history()] == ["charge", "answered"]


def test_a_private_table_is_joined_to_itself_a_few_times(gate: Gate) -> None:
    joins = "".join(f" JOIN visits v{number} USING (id)" for number in range(1, 4))
    assert gate.answer(f"SELECT COUNT(*) FROM visits v{joins}").rows
    with pytest.raises(Refused, match="more than 4 private tables"):
        gate.answer(f"SELECT COUNT(*) FROM visits v{joins} JOIN people p USING (id)")
    with pytest.raises(Refused, match="more than 4 private tables"):
        gate.answer("WITH a AS (SELECT x.id FROM visits x JOIN visits y USING (id)), b AS (SELECT p.id FROM a p "
                    "JOIN a q USING (id)) SELECT COUNT(*) FROM b x JOIN visits y USING (id)")  # fmt: skip


MANY = 3_000
TIMES = 4


@pytest.mark.full_on_postgres
@pytest.mark.parametrize("database", ["duckdb", "postgres"])
def test_one_person_with_many_rows_in_a_join_with_itself(
    database: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """3,000 rows joined with themselves four times are 81,000,000,000,000: it would end at the timeout, and tell."""
    engine = connect(":memory:") if database == "duckdb" else request.getfixturevalue("postgres").engine
    run = engine._connection.execute
    run("CREATE TABLE people (id BIGINT)")
    run("CREATE TABLE visits (id BIGINT, place BIGINT)")
    run("CREATE TABLE places (place BIGINT)")
    run("INSERT INTO visits SELECT 1, 5 FROM (SELECT 1) t")
    lines = ", ".join(f"(7, {number})" for number in range(MANY))
    run(f"INSERT INTO visits VALUES {lines}")
    policy = Gateway.model_validate(POLICY | {"timeout": 25.0})
    made = Gate(policy, engine, Ledger.create(tmp_path / "l"), Catalog(policy, schema_of(engine, policy)))
    joins = "".join(f" JOIN visits v{number} USING (id)" for number in range(1, TIMES))
    for sql, rows in (
        (f"SELECT COUNT(*) FROM visits v{joins}", 5 + 1),
        ("SELECT COUNT(DISTINCT v.place) FROM visits v JOIN (SELECT id, place FROM visits) w ON v.id = w.id", 5 + 1),
    ):
        (part,) = made.prepare(sql, "analyst").parts
        found, histograms = made.data.exact(part)
        (count,) = [value["a0"] for value in found.values()] or histograms[0].values()
        assert 2 <= count <= rows
    if database == "duckdb":
        made.close()
    else:
        made.post.close()


def test_along_a_link_nothing_is_multiplied(gate: Gate) -> None:
    """Where each row meets at most one, no row needs to be left out."""
    plain = gate.prepare("SELECT COUNT(*) FROM visits v JOIN people p USING (id)", "analyst").parts[0]
    assert "many" in plain.statements[0].sql(), "nothing says that a person is there once"
    gate.engine._connection.execute("CREATE TABLE one (id BIGINT PRIMARY KEY)")  # type: ignore[attr-defined]
    tables = POLICY["tables"] | {"one": {"unit": "id"}}  # type: ignore[operator]
    policy = Gateway.model_validate(POLICY | {"tables": tables})
    binder = Gate(policy, gate.engine, gate.ledger, Catalog(policy, schema_of(gate.engine, policy)))
    part = binder.prepare("SELECT COUNT(*) FROM visits v JOIN one o USING (id)", "analyst").parts[0]
    assert "many" not in part.statements[0].sql()


def test_a_join_with_itself_and_a_public_table(gate: Gate) -> None:
    joined = "FROM visits v JOIN visits w ON v.id = w.id"
    assert gate.answer(f"SELECT COUNT(*) {joined} JOIN places a ON a.place = v.place").rows
    for sql in (
        f"SELECT COUNT(*) {joined} CROSS JOIN places a",
        f"SELECT COUNT(*) FROM (SELECT v.id {joined}) t CROSS JOIN places a",
    ):
        with pytest.raises(Refused, match="1,000 rows of one"):
            gate.answer(sql)
    assert gate.answer(f"SELECT COUNT(*) FROM (SELECT v.id {joined} GROUP BY v.id) t CROSS JOIN places a").rows


def test_a_statement_for_next_to_nothing(gate: Gate) -> None:
    with pytest.raises(Refused, match="epsilon is outside"):
        gate.answer("SELECT COUNT(*) FROM visits", epsilon=0.009)
    assert gate.answer("SELECT COUNT(*) FROM visits", epsilon=0.01).rows


def test_rows_that_where_leaves_out_take_no_place_in_a_join(tmp_path: Path) -> None:
    """Of 3,000 rows 316 are joined with each other: those that WHERE asks for, if it asks one side alone."""
    engine = connect(":memory:")
    run = engine._connection.execute  # type: ignore[attr-defined]
    run("CREATE TABLE people AS SELECT 7 AS id")
    run(f"CREATE TABLE visits AS SELECT 7 AS id, i AS place FROM range({MANY}) t(i)")
    run("CREATE TABLE places AS SELECT 1 AS place")
    policy = Gateway.model_validate(POLICY | {"rows": 100})
    made = Gate(policy, engine, Ledger.create(tmp_path / "l"), Catalog(policy, schema_of(engine, policy)))

    def found(sql: str) -> int:
        (part,) = made.prepare(sql, "analyst").parts
        (values,) = made.data.exact(part)[0].values()
        return int(values["a0"])

    joined = "SELECT COUNT(*) FROM visits v JOIN visits w ON v.id = w.id"
    assert found(f"{joined} WHERE v.place < 2 AND w.place = 5") == 2
    assert found(f"{joined} WHERE v.place < 2 AND (w.place = 5 AND v.id = 7)") == 2
    # Of a side that may be missing, WHERE is asked afterwards: nobody is without a partner here.
    left = "SELECT COUNT(*) FROM visits v LEFT JOIN visits w ON v.id = w.id"
    assert found(f"{left} WHERE v.place < 2 AND w.place IS NULL") == 0
    assert found(f"{joined} WHERE v.place < 50") == 100, "the limit of the policy holds after the join"
    made.close()


@pytest.mark.parametrize(
    ("source", "kept"),
    [
        ("(SELECT place FROM places LIMIT 3) p ON p.place = v.place", True),
        ("(SELECT place FROM places ORDER BY side LIMIT 3 OFFSET 1) p ON p.place = v.place", True),
        ("(SELECT place, ROW_NUMBER() OVER (ORDER BY side) AS n FROM places) p ON p.n = v.place", True),
        ("(SELECT side, AVG(place / 3) AS a FROM places GROUP BY side) p ON p.a < v.place", True),
        ("(SELECT n AS place FROM (SELECT COUNT(*) AS n FROM places) t) p ON p.place = v.place", True),
        ("(SELECT place FROM places UNION ALL SELECT side FROM places LIMIT 3) p ON p.place = v.place", True),
        ("(SELECT place FROM places WHERE side = 1) p ON p.place = v.place", False),
        ("places p ON p.place = v.place", False),
    ],
)
def test_public_rows_that_may_differ_from_one_reading_to_the_next(gate: Gate, source: str, kept: bool) -> None:
    """Whether a person has too many rows is told by one reading, and the rows are added up in another."""
    sql = f"SELECT COUNT(*), COUNT(DISTINCT v.place) FROM visits v JOIN {source}"
    for part in gate.prepare(sql, "analyst").parts:
        for statement in part.statements:
            assert ("base AS MATERIALIZED" in statement.sql("postgres")) is kept
            assert ("base AS MATERIALIZED" in statement.sql("duckdb")) is kept
    assert gate.answer(sql).rows

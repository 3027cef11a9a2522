"""The audit of exact answers finds what was planted, and nothing in what is safe."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from conftest import Database, examples
from hypothesis import given, settings
from hypothesis import strategies as st
from test_gateway_controls import Site, ask, exam, withheld

from sqlanon.engines import connect
from sqlanon.errors import PolicyError
from sqlanon.gateway.audit_policy import audit_policy
from sqlanon.gateway.controls.audit import Audit, Exposure, _isolated, _reduced, lines


@pytest.fixture
def site(database: Database, tmp_path: Path) -> Iterator[Site]:
    made = Site(database, tmp_path)
    made.exams([exam(number, f"U{number % 3}", f"D{number % 2}", number) for number in range(30)])
    yield made
    made.closed()


def found(site: Site, *where: str, measure: str = "SUM(score)", **controls: Any) -> Audit:
    gate = site.gate(query_set_size=2, **controls)
    for each in where:
        ask(gate, f"SELECT {measure} FROM exams WHERE {each}")
    return audit_policy(gate.policy, "ann")


def test_a_pair_that_differs_in_one_person(site: Site) -> None:
    report = found(site, "id < 10", "id < 9", "id BETWEEN 15 AND 20")
    assert report == Audit("ann", 3, 3, (Exposure("exams.score", (1, 3), 1, pair=True),))
    assert report.persons == 1
    assert lines(report) == [
        "ann: 3 exact answers about 3 query sets",
        "  exams.score: 1 person is exposed by the difference of the answers 1 and 3",
    ]


@pytest.mark.full_on_postgres
def test_three_queries_that_no_two_of_them_break(site: Site) -> None:
    # {0..9} less {0..4} less {5..8} is person 9; each pair leaves several.
    report = found(site, "id < 10", "id < 5", "id BETWEEN 5 AND 8", "id BETWEEN 20 AND 25")
    assert report.exposures == (Exposure("exams.score", (1, 3, 5), 1, pair=False),)
    # A + B + C over pairs: x0+x1, x1+x2, x0+x2 give all three persons, by halves.
    report = found(site, "id IN (0, 1)", "id IN (1, 2)", "id IN (0, 2)")
    assert report.exposures == (Exposure("exams.score", (1, 3, 5), 3, pair=False),)


@pytest.mark.full
def test_counts_and_sums_are_told_apart(site: Site) -> None:
    gate = site.gate(query_set_size=2)
    ask(gate, "SELECT COUNT(*) FROM exams WHERE id < 10")
    ask(gate, "SELECT SUM(score) FROM exams WHERE id < 9")
    assert audit_policy(gate.policy, "ann").exposures == ()
    assert lines(audit_policy(gate.policy, "ann"))[-1] == "  no person is exposed"
    ask(gate, "SELECT COUNT(DISTINCT id) FROM exams WHERE id < 9")
    assert audit_policy(gate.policy, "ann").exposures == (Exposure("count", (1, 5), 1, pair=True),)
    ask(gate, "SELECT AVG(score) FROM exams WHERE id < 10")
    both = (Exposure("count", (1, 5), 1, pair=True), Exposure("exams.score", (3, 7), 1, pair=True))
    assert audit_policy(gate.policy, "ann").exposures == both


@pytest.mark.full_on_postgres
def test_groups_are_query_sets(site: Site) -> None:
    gate = site.gate(query_set_size=2)
    # The groups of U0 and U1 below 12 hold 4 each, U2 holds 4 too; what is left of 13 is person 12.
    ask(gate, "SELECT university, SUM(score) FROM exams WHERE id < 12 GROUP BY 1")
    assert audit_policy(gate.policy, "ann").exposures == ()
    ask(gate, "SELECT SUM(score) FROM exams WHERE id < 13")
    assert audit_policy(gate.policy, "ann").exposures == (Exposure("exams.score", (1, 3), 1, pair=False),)


@pytest.mark.full_on_postgres
def test_a_group_that_was_withheld_tells_nothing(site: Site) -> None:
    site.exams([exam(number, "U" if number < 10 else "V", "D", number) for number in range(30)])
    gate = site.gate(query_set_size=2)
    answer = gate.answer("SELECT university, SUM(score) FROM exams WHERE id < 11 GROUP BY 1", "ann")
    assert list(answer.rows) == [("U", 45)] and answer.withheld == 1
    assert audit_policy(gate.policy, "ann").exposures == ()
    ask(gate, "SELECT SUM(score) FROM exams WHERE id < 11")
    assert audit_policy(gate.policy, "ann").persons == 1


def test_rows_of_one_person(site: Site) -> None:
    visits = [{"id": number, "day": 1, "cost": 5} for number in range(12)] + [{"id": 4, "day": 2, "cost": 70}]
    site.table("visits", {"id": "INTEGER", "day": "INTEGER", "cost": "INTEGER"}, visits)
    tables = {"visits": {"unit": "id", "columns": {"cost": {"low": 0, "high": 100}}}}
    gate = site.gate(query_set_size=2, tables=tables)
    for day in ("= 1", "< 3"):
        ask(gate, f"SELECT SUM(cost) FROM visits WHERE id < 8 AND day {day}")
    assert audit_policy(gate.policy, "ann").exposures == (Exposure("visits.cost", (1, 3), 1, pair=False),)


@pytest.mark.full_on_postgres
def test_principals_are_audited_alone_and_together(site: Site) -> None:
    gate = site.gate(query_set_size=2, overlap=0)
    assert audit_policy(gate.policy) == Audit(None, 0, 0)
    ask(gate, "SELECT SUM(score) FROM exams WHERE id < 10", "ann")
    ask(gate, "SELECT SUM(score) FROM exams WHERE id < 9", "bea")
    assert withheld(gate, "SELECT SUM(score) FROM exams WHERE id < 9", "ann")
    assert audit_policy(gate.policy, "ann").persons == audit_policy(gate.policy, "bea").persons == 0
    report = audit_policy(gate.policy)
    assert report.exposures == (Exposure("exams.score", (1, 3), 1, pair=True),)
    assert lines(report)[0] == "all principals together: 2 exact answers about 2 query sets"
    with pytest.raises(PolicyError, match="no principal 'an'"):
        audit_policy(gate.policy, "an")


def test_other_data_are_noted(site: Site) -> None:
    if "://" in site.url:
        pytest.skip("of a server, the version of the data is the day")
    gate = site.gate(query_set_size=2)
    ask(gate, "SELECT SUM(score) FROM exams WHERE id < 10")
    site.exams([exam(number, "U", "D", number) for number in range(31)])
    gate = site.gate(fresh=False, query_set_size=2)
    ask(gate, "SELECT SUM(score) FROM exams WHERE id < 20")
    report = audit_policy(gate.policy, "ann")
    assert report.stale == 1 and "1 answer of other data" in lines(report)[1]


ROWS = st.lists(st.lists(st.integers(0, 2), min_size=6, max_size=6), max_size=6)


def rank(rows: Sequence[Sequence[int]], prime: int = 2_147_483_647) -> int:
    """Rank modulo a large prime: another way than the audit's, right for such small numbers."""
    left, found = [[value % prime for value in row] for row in rows], 0
    for column in range(len(rows[0]) if rows else 0):
        pivot = next((row for row in left if row[column]), None)
        if pivot is None:
            continue
        left.remove(pivot)
        found += 1
        inverse = pow(pivot[column], -1, prime)
        left = [[(a - row[column] * inverse * b) % prime for a, b in zip(row, pivot, strict=True)] for row in left]
    return found


@given(rows=ROWS)
def test_isolated_columns_are_those_of_the_row_space(rows: list[list[int]]) -> None:
    unit = [[int(at == column) for at in range(6)] for column in range(6)]
    expected = {column for column in range(6) if rank([*rows, unit[column]]) == rank(rows)}
    matrix = [{at: value for at, value in enumerate(row) if value} for row in rows]
    found = _isolated(matrix, _reduced(matrix), range(6))
    assert set(found) == expected
    for column, used in found.items():
        chosen = [rows[row] for row in used]
        assert rank([*chosen, unit[column]]) == rank(chosen)
        for row in used:  # none can be left out
            rest = [rows[each] for each in used if each != row]
            assert rank([*rest, unit[column]]) > rank(rest)


@given(sets=st.lists(st.sets(st.integers(0, 7), min_size=2, max_size=6), max_size=6), twice=st.sets(st.integers(0, 7)))
@settings(max_examples=examples(20))
@pytest.mark.full
def test_persons_are_exposed_as_brute_force_says(tmp_path_factory: Any, sets: list[set[int]], twice: set[int]) -> None:
    site = Site(Database(connect(":memory:")), tmp_path_factory.mktemp("site"))
    # Some persons have a second row, which counts for as much as the first.
    site.exams([exam(person, "U", "D", 10 + person) for person in [*range(8), *twice]])
    gate = site.gate(query_set_size=2)
    for members in sets:
        ask(gate, f"SELECT SUM(score) FROM exams WHERE id IN ({', '.join(map(str, sorted(members)))})")
    matrix = [[(person in members) * (1 + (person in twice)) for person in range(8)] for members in sets]
    unit = [[int(at == person) for at in range(8)] for person in range(8)]
    exposed = sum(rank([*matrix, unit[person]]) == rank(matrix) for person in range(8))
    assert audit_policy(gate.policy, "ann").persons == exposed
    site.closed()

"""Projections: the worked example, breaches against plain Python, and what suppression promises."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from fractions import Fraction

import brute_projections as brute
import pytest
from conftest import Database, examples
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlglot import exp

from sqlanon.paths.path_tables import PathTables
from sqlanon.paths.suppress_projections import check_projections, split_projection, suppress_projections
from sqlanon.sqltree.tree import join_clause, select, table

TRAJECTORIES = ("a1 b1 a2", "a1 b1 a2 b3", "a1 b2 a2", "a1 a2 b2", "a1 a3 b1", "a3 b1", "a3 b2", "a3 b2 b3")
WORKED = {person: path.split() for person, path in enumerate(TRAJECTORIES, start=1)}
PLACES = ["a1", "a2", "a3", "b1", "b2", "b3", "c1"]
OWNERS = {place: {place[0].upper()} for place in PLACES[:6]}
HALF = Fraction(1, 2)


def with_visits(database: Database, paths: brute.Paths, owners: Mapping[str, set[str]]) -> PathTables:
    columns = {"person": "BIGINT", "visit": "BIGINT", "place": "BIGINT"}
    rows = [
        {"person": person, "visit": visit * 3, "place": PLACES.index(place)}
        for person, path in paths.items()
        for visit, place in enumerate(path)
    ]
    database.table("given_visits", columns, rows)
    listed = [(place, owner) for place, own in owners.items() for owner in own]
    rows = [{"place": PLACES.index(place), "adversary": "ABC".index(owner)} for place, owner in listed]
    database.table("given_owners", {"place": "BIGINT", "adversary": "BIGINT"}, rows)
    tables = PathTables(database.engine)
    tables.define("visits", exp.select("*").from_("given_visits"))
    tables.define("owners", exp.select("*").from_("given_owners"))
    return tables


def found_breaches(tables: PathTables) -> dict[brute.Breach, float]:
    same = exp.column("class_id", table="b").eq(exp.column("class_id", table="i"))
    joins = [join_clause(table(tables.name("inferences"), alias="i"), same)]
    query = select(
        "adversary", "projection", "place", "measured", source=table(tables.name("breached"), alias="b"), joins=joins
    )
    return {
        ("ABC"[a], tuple(PLACES[int(item)] for item in split_projection(q)), PLACES[place]): share
        for a, q, place, share in tables.engine.query(query)
    }


def paths_left(tables: PathTables) -> dict[int, list[str]]:
    found: dict[int, list[str]] = defaultdict(list)
    query = select("person", "visit", "place", source=table(tables.name("visits")))
    for person, _, place in sorted(tables.engine.query(query)):
        found[person].append(PLACES[place])
    return dict(found)


def test_the_worked_example(database: Database) -> None:
    with with_visits(database, WORKED, OWNERS) as tables:
        result = check_projections(tables, 0.5)
        found = found_breaches(tables)
        assert result.breaches == len(found) == 9
        assert found["A", ("a3",), "b2"] == pytest.approx(2 / 3)
        assert found["A", ("a1", "a3"), "b1"] == result.worst == 1
        assert found == pytest.approx(
            {key: float(share) for key, share in brute.breaches(WORKED, OWNERS, HALF).items()}
        )


def test_suppression_of_the_worked_example(database: Database) -> None:
    with with_visits(database, WORKED, OWNERS) as tables:
        loss = suppress_projections(tables, 0.5)
        left = paths_left(tables)
        assert brute.breaches(left, OWNERS, HALF) == {}
        assert all(brute.is_part(path, WORKED[person]) for person, path in left.items())
        assert loss.visits - loss.suppressed == sum(len(path) for path in left.values())
        assert 0 < loss.suppressed < loss.visits == 23
        assert loss.empty_paths == 8 - len(left)


some_owners = st.fixed_dictionaries({}, optional={place: st.sets(st.sampled_from("ABC")) for place in PLACES})
some_paths = st.lists(st.lists(st.sampled_from(PLACES), min_size=1, max_size=5), min_size=1, max_size=9).map(
    lambda listed: dict(enumerate(listed, start=1))
)


def assert_promise(database: Database, paths: brute.Paths, owners: Mapping[str, set[str]], p: Fraction) -> None:
    with with_visits(database, paths, owners) as tables:
        result = check_projections(tables, float(p))
        expected = brute.breaches(paths, owners, p)
        assert found_breaches(tables) == pytest.approx({key: float(share) for key, share in expected.items()})
        assert result.breaches == len(expected) and result.worst == pytest.approx(
            float(max(expected.values(), default=0))
        )
        inferred = {
            person
            for adversary, known, place in expected
            for person, path in paths.items()
            if brute.project(path, owners, adversary) == known and place in path
        }
        assert result.persons == len(inferred)
        loss = suppress_projections(tables, float(p))
        left = paths_left(tables)
        assert brute.breaches(left, owners, p) == {}
        assert all(brute.is_part(path, paths[person]) for person, path in left.items())
        # Only places that an adversary knows are suppressed: the others are what is protected.
        for person, path in paths.items():
            kept: Sequence[str] = left.get(person, [])
            assert [place for place in kept if not owners.get(place)] == [
                place for place in path if not owners.get(place)
            ]
        assert loss.suppressed == sum(map(len, paths.values())) - sum(map(len, left.values()))
        assert (loss.rounds == 0) == (not expected)


@settings(max_examples=examples(50))
@given(some_paths, some_owners, st.sampled_from([Fraction(1, 2), Fraction(2, 3), Fraction(0), Fraction(1, 3)]))
def test_suppression_keeps_its_promise(
    duck: Database, paths: dict[int, list[str]], owners: dict[str, set[str]], p: Fraction
) -> None:
    assert_promise(duck, paths, owners, p)


@pytest.mark.parametrize("p", [Fraction(1, 2), Fraction(1, 3)])
def test_suppression_keeps_its_promise_on_both_engines(database: Database, p: Fraction) -> None:
    paths = {person: [PLACES[(person * 5 + step * 3) % 7] for step in range(person % 4 + 1)] for person in range(1, 16)}
    assert_promise(database, paths, {**OWNERS, "a1": {"A", "B"}}, p)


def test_a_number_is_no_part_of_a_longer_one(database: Database) -> None:
    """Place 1 is not found in place 11, nor in 1 and 11 side by side."""
    with PathTables(database.engine) as tables:
        database.table("sizes", {"adversary": "BIGINT", "projection": "TEXT", "persons": "BIGINT"}, [
            {"adversary": 1, "projection": text, "persons": 1} for text in (",1,", ",11,", ",111,", ",1,,11,")
        ])  # fmt: skip
        tables.define("projection_sizes", exp.select("*").from_("sizes"))
        found = tables.ask("nested_projections", adversary=1, projection=",1,")
        assert [row[0] for row in found] == [",1,,11,"]
        assert tables.ask("nested_projections", adversary=1, projection=",111,") == []

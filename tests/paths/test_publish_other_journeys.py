"""(k,δ)-anonymity and projections from the policy to the release, on both engines."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from datetime import datetime, timedelta
from typing import Any

import brute_positions as positions
import brute_projections as projections
import pytest
from conftest import Database
from test_suppress_projections import HALF, OWNERS, WORKED

from sqlanon.errors import NotReleased, PolicyError
from sqlanon.evidence.checks import check
from sqlanon.families import explain
from sqlanon.policy import AlgorithmUse, Policy, Source, parse
from sqlanon.release import publish

START = datetime(2026, 3, 1, 8)
LISTED = {owner: [place for place, own in OWNERS.items() if owner in own] for owner in "AB"}


def make_policy(columns: dict[str, Any], model: Any, algorithm: Any, **more: Any) -> Policy:
    data = {
        "source": {"table": "trips"},
        "columns": columns,
        "person": "who",
        "shape": "sequence",
        "models": [model],
        "suppression_limit": 1.0,
        "algorithm": algorithm,
        "release": {"table": "trips_released"},
    }
    return parse(json.dumps(data | more))


def of_positions(k: int = 3, delta: float = 1.0, **params: Any) -> Policy:
    columns = {"who": "identifier", "at": "time", "east": "place", "north": {"role": "place"}}
    return make_policy(
        columns, {"k_delta_anonymity": {"k": k, "delta": delta}}, {"never_walk_alone": {"step": 60} | params}
    )


def with_trips(database: Database, kind: str = "TIMESTAMP") -> dict[int, positions.Track]:
    rows, tracks = [], {}
    for who in range(1, 31):
        points = [(float(60 * t), math.sin(who * 7) * 9 + t, math.cos(who * 3) * 9 - t) for t in range(who % 2, 8)]
        tracks[who] = positions.interpolate(points, 60)
        for at, east, north in points:
            moment = START + timedelta(seconds=at) if kind == "TIMESTAMP" else at
            rows.append({"who": who, "at": moment, "east": east, "north": north})
    database.table("trips", {"who": "BIGINT", "at": kind, "east": "DOUBLE PRECISION", "north": "REAL"}, rows)
    return tracks


@pytest.mark.full
@pytest.mark.full_on_postgres
@pytest.mark.parametrize("kind", ["TIMESTAMP", "DOUBLE PRECISION"])
def test_a_release_of_positions(database: Database, kind: str) -> None:
    tracks = with_trips(database, kind)
    policy = of_positions()
    before = check(policy, database.engine).checks[0]
    assert (before.classes, before.broken_classes, before.unit) == (30, 30, "group")
    document = publish(policy, database.engine).document
    assert document["holds"] and document["journeys"]["suppressed_persons"] <= 3
    shown: dict[int, tuple[int, positions.Track]] = {}
    for who, group, at, east, north in database.fetch(
        'SELECT person_number, group_number, "at", east, north FROM trips_released'
    ):
        seconds = (at - START).total_seconds() if kind == "TIMESTAMP" else at
        shown.setdefault(who, (group, {}))[1][round(seconds / 60)] = (east, north)
    assert len(shown) == 30 - document["journeys"]["suppressed_persons"]
    assert positions.broken_groups(shown, 3, 1.0) == set()
    assert document["journeys"]["nearest_path"]["found"] > 0.5 * len(tracks)
    # Somebody moves one journey of the release.
    database.run("UPDATE trips_released SET east = east + 5 WHERE person_number = 1")
    assert check(policy, database.engine, release=Source(table="trips_released")).checks[0].broken_classes == 1


@pytest.mark.full_on_postgres
def test_delta_0_publishes_a_group_as_one(database: Database) -> None:
    with_trips(database)
    document = publish(of_positions(delta=0), database.engine).document
    different, groups = database.fetch(
        "SELECT count(*), count(DISTINCT group_number) FROM (SELECT DISTINCT group_number, east, north, \"at\" "
        "FROM trips_released) AS d"
    )[0]  # fmt: skip
    ticks = database.fetch('SELECT count(*) FROM (SELECT DISTINCT group_number, "at" FROM trips_released) AS d')[0][0]
    assert different == ticks and groups == document["journeys"]["groups"]
    assert document["journeys"]["nearest_path"]["found"] == 0


def test_the_manual_page_says_what_it_is_not() -> None:
    page = explain("k_delta_anonymity").summary
    assert "above 0 this is not k-anonymity" in page
    assert "usually finds them by taking the nearest published journey" in page


def test_positions_that_cannot_be_used(duck: Database) -> None:
    with_trips(duck)
    duck.run("UPDATE trips SET east = 'NaN' WHERE who = 1")
    with pytest.raises(PolicyError, match="7 positions are no finite numbers"):
        publish(of_positions(), duck.engine)
    with_trips(duck)
    duck.run('INSERT INTO trips SELECT who, "at", east + 1, north FROM trips WHERE who = 2')
    with pytest.raises(PolicyError, match="at two places at one time"):
        publish(of_positions(), duck.engine)
    with_trips(duck)
    duck.run("ALTER TABLE trips ALTER COLUMN east TYPE TEXT")
    with pytest.raises(PolicyError, match="'east' is of type VARCHAR, not a number"):
        publish(of_positions(), duck.engine)
    columns = {"who": "identifier", "at": "time", "east": "place"}
    single = make_policy(columns, {"k_delta_anonymity": {"k": 2, "delta": 1}}, {"never_walk_alone": {"step": 60}},
                         source={"query": "SELECT who, \"at\", 1 AS east FROM trips"})  # fmt: skip
    with pytest.raises(PolicyError, match="needs two columns of the role place"):
        publish(single, duck.engine)


def of_projections(**more: Any) -> Policy:
    columns = {"who": "identifier", "at": "time", "shop": "place"}
    return make_policy(columns, {"projections": {"p": 0.5, "owners": LISTED}}, "projection_suppression", **more)


def with_shops(database: Database, offset: int = 8) -> None:
    """Times from 8 on: as text, 10 would be before 9."""
    rows = [
        {"who": who, "at": at, "shop": place} for who, path in WORKED.items() for at, place in enumerate(path, offset)
    ]
    database.table("trips", {"who": "BIGINT", "at": "INTEGER", "shop": "TEXT"}, rows)


def test_a_release_of_projections(database: Database) -> None:
    with_shops(database)
    policy = of_projections()
    before = check(policy, database.engine).checks[0]
    assert (before.broken_classes, before.measured, before.unit) == (9, 1.0, "inference")
    known = [dict(item.columns) for item in before.violations]
    assert {"adversary": "A", "knows": "a3", "shop": "b2"} in known
    # What is inferred about one person is not shown.
    assert all(item.records > 1 for item in before.violations)
    document = publish(policy, database.engine).document
    found: dict[int, list[tuple[int, str]]] = defaultdict(list)
    for who, at, shop in database.fetch('SELECT person_number, "at", shop FROM trips_released'):
        found[who].append((at, shop))
    paths = {who: [shop for _, shop in sorted(visits)] for who, visits in found.items()}
    assert projections.breaches(paths, OWNERS, HALF) == {}
    assert document["holds"] and document["journeys"]["suppressed_visits"] == 23 - sum(map(len, paths.values()))


def test_owners_of_places_that_are_not_there(duck: Database) -> None:
    with_shops(duck)
    given = {"projections": {"p": 0.5, "owners": {"A": ["a1", "a9"]}}}
    policy = of_projections(models=[given])
    with pytest.raises(PolicyError, match="the place 'a9' of 'owners' is not in the data"):
        check(policy, duck.engine)
    assert check(of_projections(models=[given], absent_values="allow"), duck.engine).checks[0].classes > 0
    with pytest.raises(PolicyError, match="needs a list of places"):
        check(of_projections(models=[{"projections": {"p": 0.5, "owners": {"A": "a1"}}}]), duck.engine)


def test_each_algorithm_says_which_model_it_keeps(duck: Database) -> None:
    with_shops(duck)
    for algorithm, said in (
        ({"name": "never_walk_alone", "params": {"step": 1}}, "protects the model k_delta_anonymity"),
        ({"name": "path_suppression"}, "is not kept by suppressing doublets"),
    ):
        with pytest.raises(PolicyError, match=said):
            publish(
                of_projections().model_copy(update={"algorithm": AlgorithmUse.model_validate(algorithm)}), duck.engine
            )
    policy = of_projections(models=[{"km_anonymity": {"k": 2, "m": 1}}])
    with pytest.raises(PolicyError, match="protects the model projections"):
        publish(policy, duck.engine)
    with pytest.raises(NotReleased, match="of all visits would be suppressed"):
        publish(of_projections(suppression_limit=0.0), duck.engine)

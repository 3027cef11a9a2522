"""Journeys as they come: rows in any order, at equal times, with gaps, and one that is far longer than all others."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest
from conftest import Database
from test_choose_doublets import DISEASES, TABLE_IX
from test_publish_journeys import LKC, TYPES, make_policy, with_stays

from sqlanon.errors import PolicyError
from sqlanon.evidence.checks import check
from sqlanon.evidence.journey_risk import journey_risk
from sqlanon.policy import Source
from sqlanon.release import publish

OWNERS = {"projections": {"p": 0.9, "owners": {"one": ["a", "b"], "two": ["c", "d"]}}}


def rows_of(paths: list[frozenset[str]]) -> list[dict[str, Any]]:
    return [
        {"patient": person, "hour": int(doublet[1:]), "ward": doublet[0], "disease": DISEASES[(person - 1) % 8]}
        for person, path in enumerate(paths, start=1)
        for doublet in sorted(path)
    ]


@pytest.mark.full_on_postgres
@pytest.mark.parametrize("algorithm", ["path_suppression", "projection_suppression"])
def test_the_order_of_rows_means_nothing(database: Database, algorithm: str) -> None:
    """The time says which visit is the next one, not the place of a row in its table."""
    models = [LKC] if algorithm == "path_suppression" else [OWNERS]
    shown = set()
    for seed in range(3):
        rows = rows_of(TABLE_IX)
        random.Random(seed).shuffle(rows)
        database.table("stays", TYPES, rows)
        shown.add(publish(make_policy(models, algorithm), database.engine).document["pattern"]["shown"])
    assert len(shown) == 1


@pytest.mark.full_on_postgres
def test_places_at_one_time_have_no_order(database: Database) -> None:
    """Three persons at the same two places in one hour, whichever row comes first, have one journey."""
    rows = [
        {"patient": person, "hour": 7, "ward": ward, "disease": "Flu"}
        for person, wards in ((1, "ab"), (2, "ba"), (3, "ab"))
        for ward in wards
    ]
    database.table("stays", TYPES, rows)
    policy = make_policy([{"projections": {"p": 1, "owners": {"one": ["a", "b"]}}}], "projection_suppression")
    found = check(policy, database.engine)
    assert found.checks[0].classes == 0 and found.checks[0].holds  # one projection, from which no other place follows
    found_risk = journey_risk(make_policy([{"km_anonymity": {"k": 3, "m": 2}}]), database.engine, knowledge=2)
    assert {item.fewest for item in found_risk.known if item.fewest is not None} == {3}


@pytest.mark.full_on_postgres
@pytest.mark.parametrize("column", ["x", "y", "hour", "patient"])
def test_a_position_that_is_not_known_is_refused(database: Database, column: str) -> None:
    rows: list[dict[str, Any]] = [
        {"patient": person, "hour": hour, "x": 1.0, "y": 2.0} for person in (1, 2) for hour in (1, 2)
    ]
    rows[2][column] = None
    types = {"patient": "BIGINT", "hour": "INTEGER", "x": "DOUBLE PRECISION", "y": "DOUBLE PRECISION"}
    database.table("stays", types, rows)
    columns = {"patient": "identifier", "hour": {"role": "time"}, "x": "place", "y": "place"}
    model = {"k_delta_anonymity": {"k": 2, "delta": 1}}
    policy = make_policy([model], {"never_walk_alone": {"step": 1}}, columns=columns)
    for run in (check, publish):
        with pytest.raises(PolicyError, match=f"column '{column}' is NULL in 1 row"):
            run(policy, database.engine)


@pytest.mark.full
def test_a_giant_journey_beside_small_ones(duck: Database) -> None:
    """Its sets are counted before they are made: what is too much says so, what is not is measured."""
    duck.run("CREATE TABLE stays AS SELECT 1 AS patient, i AS hour, 'w' || i AS ward, 'Flu' AS disease "
             "FROM range(100000) AS t(i) UNION ALL SELECT 2 + i % 5, i // 5, 'w' || i // 5, 'Flu' "
             "FROM range(50) AS t(i)")  # fmt: skip
    alone = make_policy([{"km_anonymity": {"k": 2, "m": 1}}], suppression_limit=1)
    found = check(alone, duck.engine).checks[0]
    assert (found.classes, found.broken_classes) == (100_000, 100_000 - 10)
    with pytest.raises(PolicyError, match="each beside another item, would be counted") as caught:
        journey_risk(alone, duck.engine, knowledge=1)
    assert "leave out persons with very many items" in (caught.value.hint or "")
    document = publish(alone, duck.engine).document
    assert document["released"] == 60 and document["suppressed"] == 99_990
    shown = Counter(ward for (ward,) in duck.fetch("SELECT ward FROM stays_released"))
    assert shown == {f"w{hour}": 6 for hour in range(10)}
    assert check(alone, duck.engine, release=Source(table="stays_released")).holds


def test_persons_who_lose_all_visits_are_counted(database: Database) -> None:
    with_stays(database, [frozenset({"a2"}), frozenset({"a2", "b9"}), frozenset({"c9"})], ["Flu"] * 3)
    policy = make_policy([{"km_anonymity": {"k": 2, "m": 1}}])
    measured = publish(policy, database.engine).document["journeys"]
    assert (measured["persons"], measured["suppressed_persons"], measured["suppressed_visits"]) == (3, 1, 2)
    assert len(database.fetch("SELECT DISTINCT person_number FROM stays_released")) == 2

"""The risk of journeys against all subsequences: Table IX by hand, and random journeys, on both engines."""

from __future__ import annotations

import json
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from conftest import Database, examples
from hypothesis import given, settings
from hypothesis import strategies as st
from test_choose_doublets import DISEASES, TABLE_IX
from test_publish_journeys import make_policy, with_stays

from sqlanon.cli import main
from sqlanon.errors import PolicyError
from sqlanon.evidence.item_risk import ItemRisk
from sqlanon.evidence.journey_risk import PLACES, VISITS, journey_risk
from sqlanon.policy import Source
from sqlanon.release import publish

doublets = st.sampled_from([place + str(time) for place in "abc" for time in (2, 9, 10)])
some_paths = st.lists(st.frozensets(doublets, min_size=1, max_size=4), min_size=1, max_size=7)
KM: dict[str, Any] = {"km_anonymity": {"k": 2, "m": 1}}


def fewest(paths: list[frozenset[str]], known: int, attacker: str) -> list[int]:
    """For each person the fewest persons who fit what the attacker may know of them."""
    if attacker in PLACES:
        paths = [frozenset(doublet[0] for doublet in path) for path in paths]
    every = frozenset().union(*paths)
    found = []
    for path in paths:
        counts = []
        for size in range(1, min(known, len(path)) + 1):
            for subset in map(set, combinations(sorted(path), size)):
                fit = [other for other in paths if subset <= other]
                counts.append(len(fit))
                if attacker == VISITS[1]:
                    counts.append(sum(len(other) == len(path) for other in fit))
                if attacker == VISITS[2]:
                    counts += [sum(absent not in other for other in fit) for absent in every - path]
        found.append(min(counts))
    return found


def assert_risk(found: ItemRisk, paths: list[frozenset[str]], most: int) -> None:
    assert (found.persons, found.rows) == (len(paths), sum(map(len, paths)))
    assert {item.attacker for item in found.known} == {*VISITS, *PLACES}
    assert max(item.items for item in found.known) == min(most, max(map(len, paths)))
    for item in found.known:
        wanted = fewest(paths, item.items, item.attacker)
        assert (item.singled_out, item.fewest) == (wanted.count(1), min(wanted)), item
        assert item.average == pytest.approx(sum(1 / n for n in wanted) / len(wanted))


def test_the_risk_of_table_ix(database: Database) -> None:
    """e4 and c7 match the first patient alone, and a1 by itself does; two visits single out six of eight."""
    with_stays(database, TABLE_IX, DISEASES)
    found = journey_risk(make_policy(), database.engine, knowledge=2)
    assert_risk(found, TABLE_IX, 2)
    alone = {(item.attacker, item.items): item.singled_out for item in found.known}
    assert alone[VISITS[0], 1] == 1  # a1
    publish(make_policy(algorithm="path_suppression"), database.engine)
    after = journey_risk(make_policy(), database.engine, release=Source(table="stays_released"), knowledge=2)
    assert [item.singled_out for item in after.known if item.attacker == VISITS[0]] == [0, 0]


@settings(max_examples=examples(25))
@given(paths=some_paths, most=st.integers(1, 3))
def test_the_risk_is_the_definition(database: Database, paths: Any, most: int) -> None:
    with_stays(database, paths, [DISEASES[person % 8] for person in range(len(paths))])
    assert_risk(journey_risk(make_policy([KM]), database.engine, knowledge=most), paths, most)


def test_what_is_refused(duck: Database) -> None:
    with_stays(duck, TABLE_IX, DISEASES)
    with pytest.raises(PolicyError, match="'knowledge' must be >= 1"):
        journey_risk(make_policy(), duck.engine, knowledge=0)
    columns = {"patient": "identifier", "hour": {"role": "time"}, "x": "place", "y": "place"}
    moved = make_policy(
        [{"k_delta_anonymity": {"k": 2, "delta": 1}}], {"never_walk_alone": {"step": 1}}, columns=columns
    )
    with pytest.raises(PolicyError, match="places where nobody was"):
        journey_risk(moved, duck.engine, release=Source(table="stays"))


def test_the_command(tmp_path: Path) -> None:
    rows = ["patient,hour,ward", *(f"{n},{hour},{ward}" for n, hour, ward in [(1, 1, "a"), (2, 1, "a"), (3, 2, "b")])]
    (tmp_path / "stays.csv").write_text("\n".join(rows) + "\n")
    policy = {
        "source": {"path": str(tmp_path / "stays.csv")},
        "person": "patient",
        "shape": "sequence",
        "columns": {"patient": "identifier", "hour": {"role": "time"}, "ward": "place"},
        "models": [KM],
    }
    (tmp_path / "policy.yml").write_text(json.dumps(policy))
    told = CliRunner().invoke(main, ["risk", str(tmp_path / "policy.yml"), "--knowledge", "1"])
    assert told.exit_code == 0, told.output
    assert "3 persons, 3 visits of persons" in told.output and "known places, without times" in told.output
    data = CliRunner().invoke(main, ["risk", str(tmp_path / "policy.yml"), "--json"])
    assert json.loads(data.output)["known"][0]["singled_out"] == 1
    refused = CliRunner().invoke(main, ["risk", str(tmp_path / "policy.yml"), "--suda", "x"])
    assert refused.exit_code == 2 and "Traceback" not in refused.output

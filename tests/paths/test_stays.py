"""How long somebody stayed is a part of a visit: long and short stays are coded in bands, on both engines."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest
from conftest import Database, examples
from hypothesis import given, settings
from hypothesis import strategies as st

from sqlanon.errors import NotReleased, PolicyError
from sqlanon.evidence.attacks import attack
from sqlanon.evidence.checks import check
from sqlanon.evidence.journey_risk import VISITS, journey_risk
from sqlanon.policy import Policy, Source, parse
from sqlanon.release import publish

TYPES = {"patient": "BIGINT", "day": "INTEGER", "ward": "TEXT", "days": "INTEGER"}
BANDS = {"intervals": {"widths": [2], "min": 2, "max": 30}}
CODED = {1: "<2", 2: "[2, 4)", 3: "[2, 4)", 40: ">=30", 41: ">=30"}


def make_policy(levels: dict[str, int], **more: Any) -> Policy:
    data = {
        "source": {"table": "stays"},
        "person": "patient",
        "shape": "sequence",
        "columns": {"patient": "identifier", "day": {"role": "time"}, "ward": "place", "days": "stay"},
        "hierarchies": {"days": BANDS},
        "models": [{"km_anonymity": {"k": 2, "m": 1}}],
        "algorithm": {"path_suppression": {"levels": levels}},
        "suppression_limit": 0.7,
        "release": {"table": "r"},
    }
    return parse(json.dumps(data | more))


def with_stays(database: Database, lengths: list[int], wards: str = "e") -> None:
    rows = [
        {"patient": person, "day": 4, "ward": wards[person % len(wards)], "days": days}
        for person, days in enumerate(lengths, start=1)
    ]
    database.table("stays", TYPES, rows)


def test_a_long_stay_tells_who_it_is_until_it_is_coded(database: Database) -> None:
    with_stays(database, [1, 1, 2, 3, 40, 41])
    plain, coded = make_policy({}), make_policy({"days": 1})
    found = check(plain, database.engine).checks[0]
    assert (found.broken_classes, found.classes) == (4, 5)  # 2, 3, 40 and 41 days
    alone = {item.attacker: item.singled_out for item in journey_risk(plain, database.engine, knowledge=1).known}
    assert alone[VISITS[0]] == 4
    done = publish(coded, database.engine)
    assert (done.document["suppressed"], done.document["released"]) == (0, 6)
    shown = Counter(days for (days,) in database.fetch("SELECT days FROM r"))
    assert shown == {"<2": 2, "[2, 4)": 2, ">=30": 2}
    after = check(coded, database.engine, release=Source(table="r"))
    assert after.holds and not after.breaches
    tried = attack(coded, database.engine, release=Source(table="r"), knowledge=1).attacks
    assert [item.after.broken for item in tried if item.after and item.name == "known_visits"] == [0]


def test_without_bands_the_lone_stays_are_suppressed(database: Database) -> None:
    with_stays(database, [1, 1, 2, 3, 40, 41])
    done = publish(make_policy({}), database.engine)
    assert done.document["suppressed"] == 4
    assert database.fetch("SELECT DISTINCT days FROM r") == [(1,)]
    with pytest.raises(NotReleased, match=r"66\.7% of all visits"):
        publish(make_policy({}, suppression_limit=0.5, release={"table": "other"}), database.engine)


@settings(max_examples=examples(15))
@given(lengths=st.lists(st.sampled_from(sorted(CODED)), min_size=2, max_size=9))
def test_what_is_left_is_shared(database: Database, lengths: list[int]) -> None:
    with_stays(database, lengths)
    wanted = {label: n for label, n in Counter(CODED[days] for days in lengths).items() if n > 1}
    policy = make_policy({"days": 1}, suppression_limit=1)
    if not wanted:
        with pytest.raises(PolicyError, match="every visit would be suppressed"):
            publish(policy, database.engine)
        return
    publish(policy, database.engine)
    assert Counter(days for (days,) in database.fetch("SELECT days FROM r")) == wanted


def test_what_is_refused(duck: Database) -> None:
    with_stays(duck, [1, 1])
    columns = {"patient": "identifier", "day": {"role": "time"}, "ward": "place", "days": "stay"}
    with pytest.raises(PolicyError, match="takes 1 column of the role stay, not 2"):
        make_policy({}, columns={**columns, "nights": "stay"})
    with pytest.raises(PolicyError, match="the role stay of 'days' means nothing for single rows"):
        parse(json.dumps({"source": {"table": "stays"}, "columns": {"days": "stay", "ward": "quasi_identifier"},
                          "models": [{"k_anonymity": {"k": 2}}]}))  # fmt: skip
    duck.run("ALTER TABLE stays ALTER days TYPE TEXT")
    with pytest.raises(PolicyError, match="says how long somebody stayed, and is of type VARCHAR, not a number"):
        check(make_policy({}, hierarchies={}), duck.engine)
    positions = {"patient": "identifier", "day": {"role": "time"}, "x": "place", "y": "place", "days": "stay"}
    model = {"k_delta_anonymity": {"k": 2, "delta": 1}}
    duck.run("CREATE OR REPLACE TABLE stays AS SELECT 1 AS patient, 1 AS day, 0.5 AS x, 0.5 AS y, 2 AS days")
    with pytest.raises(PolicyError, match="journeys that are drawn together have no stays"):
        check(
            make_policy({}, columns=positions, models=[model], algorithm={"never_walk_alone": {"step": 1}}), duck.engine
        )

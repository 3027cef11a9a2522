"""Verdicts on journeys: records are whole journeys, and what was not measured is never met."""

from __future__ import annotations

from collections import Counter, defaultdict

import pytest
from conftest import Database
from test_choose_doublets import DISEASES, TABLE_IX
from test_publish_journeys import make_policy, with_stays

from sqlanon.errors import PolicyError
from sqlanon.policy import Source
from sqlanon.release import publish
from sqlanon.release.gather_verdict import gather_facts
from sqlanon.verdict import judge_release


def states(database: Database) -> dict[str, tuple[str, str]]:
    found = judge_release(gather_facts(make_policy(), database.engine))
    return {item.ident: (item.state, item.measured) for each in found for item in each.criteria}


@pytest.mark.full_on_postgres
def test_whole_journeys_are_records(database: Database) -> None:
    """Four visits fewer than all single most patients of Table IX out; twice the same journeys single nobody out."""
    with_stays(database, TABLE_IX, DISEASES)
    publish(make_policy(), database.engine)
    paths = defaultdict(set)
    for person, hour, ward in database.fetch("SELECT person_number, hour, ward FROM stays_released"):
        paths[person].add((hour, ward))
    sizes = Counter(map(frozenset, paths.values()))
    alone = sum(size == 1 for size in sizes.values())
    assert alone > 0
    found = states(database)
    assert found["wp29.singling_out"] == (
        "not met", f"{alone} persons alone in their class; the smallest class has 1"
    )  # fmt: skip
    assert found["wp29.linkability_rows"] == ("not met", "rows of a person are linked by person_number")
    assert found["iso_27559.data"][0] == "met"
    for name in ("wp29.inference_certain", "wp29.inference_likely", "wp29.linkability_register"):
        assert found[name][0] == "not assessed" and "'sqlanon attack'" in found[name][1]
    with_stays(database, TABLE_IX * 2, DISEASES * 2)
    publish(make_policy(), database.engine)
    again = states(database)
    assert again["wp29.singling_out"][0] == "met"
    assert again["ema_0070.public_strict"] == ("not met", "maximum risk 0.5000")


def test_what_is_refused(duck: Database) -> None:
    with_stays(duck, TABLE_IX, DISEASES)
    publish(make_policy(), duck.engine)
    with pytest.raises(PolicyError, match="not compared with a control group"):
        gather_facts(make_policy(), duck.engine, control=Source(table="stays"))
    duck.run("CREATE TABLE moved AS SELECT 1 AS person_number, 1 AS group_number, 1 AS hour, 0.5 AS x, 0.5 AS y")
    columns = {"patient": "identifier", "hour": {"role": "time"}, "x": "place", "y": "place"}
    model = {"k_delta_anonymity": {"k": 2, "delta": 1}}
    policy = make_policy([model], {"never_walk_alone": {"step": 1}}, columns=columns)
    facts = gather_facts(policy, duck.engine, release=Source(table="moved"))
    assert facts.chances is None and "places where nobody was" in facts.why("chances")

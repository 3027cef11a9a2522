"""Attacks on persons with trees of rows, against signatures in plain Python; and verdicts on persons with many rows."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from typing import Any

import brute_entities as oracle
import pytest
from conftest import Database, examples
from hypothesis import given, settings
from hypothesis import strategies as st
from itemsets_world import asked as asked_of_sets
from itemsets_world import fill
from test_publish_entities import JOINED, TYPES, asked, dicts, put_trees, released, trees

from sqlanon.errors import NotReleased, PolicyError
from sqlanon.evidence.attacks import attack
from sqlanon.policy import Source
from sqlanon.release import publish
from sqlanon.release.gather_verdict import gather_facts
from sqlanon.verdict import judge_release

K2 = [{"k_anonymity": {"k": 2}}]


def assert_found(item: Any, signatures: dict[Any, Any], values: dict[Any, str], attribute: str | None) -> None:
    crowd = Counter(signatures.values())
    chances = []
    for person, own in signatures.items():
        alike = [other for other in signatures if signatures[other] == own]
        most = max(Counter(values[other] for other in alike).values()) if attribute else 1
        chances.append(Fraction(most, len(alike)))
        assert len(alike) == crowd[own] and person in alike
    assert (item.targets, item.counts) == (len(signatures), "persons")
    assert item.broken == sum(chance == 1 for chance in chances)
    assert item.confidence == pytest.approx(float(max(chances)))
    assert item.average == pytest.approx(float(sum(chances) / len(chances)))


def signatures_of(persons: Any, visits: Any, drugs: Any) -> tuple[dict[Any, Any], dict[Any, str]]:
    below = ((visits, ["b"], [((drugs, ["d"], []), "v", "vid")]), "id", "pid")
    return oracle.tree_signatures(persons, "id", ["a"], [below]), {item["id"]: item["s"] for item in persons}


@settings(max_examples=examples(20))
@given(made=trees(), algorithm=st.sampled_from(["entity_levels", "entity_clusters"]))
def test_attacks_on_trees_are_as_in_plain_python(database: Database, made: Any, algorithm: str) -> None:
    put_trees(database, made)
    policy = asked(algorithm, 0.7, K2, **JOINED)
    try:
        publish(policy, database.engine, workload=False)
        release = Source(table="r")
    except NotReleased:
        release = None
    found = attack(policy, database.engine, release=release).attacks
    assert [(item.name, item.attribute) for item in found] == [("linked_rows", None), ("homogeneity", "s")]
    for item in found:
        assert_found(item.before, *signatures_of(*made), item.attribute)
        if release is not None:
            shown = [dicts(released(database, name)) for name in ("r", "r_visits", "r_drugs")]
            assert item.after is not None
            assert_found(item.after, *signatures_of(*shown), item.attribute)


def test_what_attacks_on_trees_do_not_take(duck: Database) -> None:
    put_trees(duck, ([{"id": 1, "a": "1", "s": "u"}], [], []))
    policy = asked("entity_levels", 0.0, K2, **JOINED)
    with pytest.raises(PolicyError, match="no attack on trees of rows called 'linkage'"):
        attack(policy, duck.engine, names=["linkage"])
    with pytest.raises(PolicyError, match="'knowledge' means nothing for attacks on trees of rows"):
        attack(policy, duck.engine, knowledge=2)
    with pytest.raises(PolicyError, match="a further table means nothing"):
        attack(policy, duck.engine, control=Source(table="pt"))
    with pytest.raises(PolicyError, match="'certainty' must be above 0"):
        attack(policy, duck.engine, certainty=1.5)


def states(database: Database, policy: Any) -> dict[str, tuple[str, str]]:
    found = judge_release(gather_facts(policy, database.engine))
    return {item.ident: (item.state, item.measured) for each in found for item in each.criteria}


def test_a_verdict_on_sets_looks_at_whole_sets(database: Database) -> None:
    """By hand: {A b1 b2} twice, {A b1} and {A b2}: two persons are alone with all their labels."""
    fill(database, [each.split() for each in ("a1 b1 b2", "a2 b1", "a2 b1 b2", "a1 a2 b2")])
    tree = {"*": ["A", "B"], "A": ["a1", "a2"], "B": ["b1", "b2"]}
    policy = asked_of_sets([{"km_anonymity": {"k": 2, "m": 2}}], tree, release={"table": "r"})
    publish(policy, database.engine, workload=False)
    found = states(database, policy)
    assert found["wp29.singling_out"] == ("not met", "2 persons alone in their class; the smallest class has 1")
    assert found["wp29.linkability_rows"] == ("not met", "rows of a person are linked by person_number")
    for name in ("wp29.inference_certain", "wp29.inference_likely", "wp29.linkability_register"):
        assert found[name][0] == "not assessed", name
    assert "'sqlanon attack'" in found["wp29.linkability_register"][1]


@pytest.mark.full_on_postgres
def test_a_verdict_on_entities_looks_at_persons(database: Database) -> None:
    rows = [{"p": p, "a": "1", "b": b, "s": "u", "n": 0} for p in range(6) for b in ("x1", "x2")]
    database.table("t", TYPES, rows)
    for name in ("r", "sqlanon_releases"):
        database.run(f"DROP TABLE IF EXISTS {name}")
    policy = asked("entity_levels", 0.2, K2)
    publish(policy, database.engine, workload=False)
    found = states(database, policy)
    assert found["wp29.singling_out"] == ("met", "0 persons alone in their class; the smallest class has 6")
    assert found["wp29.linkability_rows"][0] == "not met"
    # All six have the same value, which attacks on single rows are not asked about here: nothing is met unmeasured.
    assert found["wp29.inference_certain"][0] == "not assessed"
    with pytest.raises(PolicyError, match="not compared with a control group"):
        gather_facts(policy, database.engine, control=Source(table="t"))

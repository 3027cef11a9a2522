"""Verdicts on attacks that are compared with a control group."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest
from conftest import Database

from sqlanon.errors import PolicyError, SourceError
from sqlanon.policy import Policy, Source, parse
from sqlanon.release.gather_verdict import gather_facts
from sqlanon.verdict import judge_release
from sqlanon.verdict.criteria import CriterionVerdict
from sqlanon.verdict.release_facts import ReleaseFacts
from sqlanon.verdict.wp29 import WP29

COLUMNS = {"id": "INTEGER", "age": "INTEGER", "disease": "TEXT"}
POLICY = """
source: {table: s}
person: id
columns: {id: identifier, age: quasi_identifier, disease: sensitive}
hierarchies: {age: {intervals: {widths: [5, 20]}}}
models: [{k_anonymity: {k: 2}}]
release: {table: r}
"""
NAME = "wp29.inference_likely"


def people(start: int, size: int) -> list[dict[str, Any]]:
    drawn = random.Random(start)
    return [
        {"id": start + place, "age": drawn.randrange(20, 60), "disease": drawn.choice(["flu", "gout", "hiv", "cold"])}
        for place in range(size)
    ]


def labels(rows: list[dict[str, Any]], width: int) -> list[dict[str, Any]]:
    return [
        {"age": f"[{row['age'] // width * width}, {row['age'] // width * width + width})", "disease": row["disease"]}
        for row in rows
    ]


def facts_of(duck: Database, size: int, width: int, control: Source | None) -> ReleaseFacts:
    rows = people(0, size)
    duck.table("s", COLUMNS, rows)
    duck.table("r", {"age": "TEXT", "disease": "TEXT"}, labels(rows, width))
    duck.table("c", COLUMNS, people(10_000, 300))
    return gather_facts(policy(), duck.engine, release=Source(table="r"), control=control)


def policy() -> Policy:
    return parse(POLICY)


def likely(facts: ReleaseFacts) -> CriterionVerdict:
    return next(each for item in judge_release(facts) for each in item.criteria if each.ident == NAME)


def test_an_advantage_over_a_control_group_is_not_met(duck: Database) -> None:
    fine = facts_of(duck, 60, 5, Source(table="c"))
    nobody_broken = {
        **(fine.attacks or {}),
        "attacks": [
            {**item, "after": {**item["after"], "broken": 0, "confidence": 0.5}}
            for item in (fine.attacks or {})["attacks"]
        ],
    }
    told = likely(replace(fine, attacks=nobody_broken))
    assert told.state == "not met" and "findings: " in told.measured and "over a control group" in told.measured
    over_margins = {
        **nobody_broken,
        "advantages": [{**item, "against": "margins"} for item in nobody_broken["advantages"]],
    }
    shown = likely(replace(fine, attacks=over_margins))
    assert shown.state == "met" and "over the margins, without a control group: " in shown.measured
    assert "findings" not in shown.measured
    assert likely(replace(fine, attacks={**nobody_broken, "advantages": []})).measured.startswith("nobody broken")


def test_no_advantage_does_not_make_up_for_persons_who_are_broken(duck: Database) -> None:
    coarse = facts_of(duck, 300, 20, Source(table="c"))
    assert coarse.advantages_of("attribute_linkage") and not any(
        item.finding for item in coarse.advantages_of("attribute_linkage", "definetti", "background_knowledge")
    )
    assert likely(coarse).state == "met"
    broken = {
        **(coarse.attacks or {}),
        "attacks": [
            {**item, "after": {**item["after"], "broken": 1}} if item["name"] == "definetti" else item
            for item in (coarse.attacks or {})["attacks"]
        ],
    }
    assert likely(replace(coarse, attacks=broken)).state == "not met"


def test_a_control_group_that_is_none_is_an_error(duck: Database) -> None:
    with pytest.raises(PolicyError, match="are in the source"):
        facts_of(duck, 60, 5, Source(table="s"))
    with pytest.raises(SourceError, match="nobody"):
        facts_of(duck, 60, 5, Source(table="nobody"))


def test_the_criterion_says_what_it_compares() -> None:
    (criterion,) = [item for item in WP29.criteria if item.ident == NAME]
    assert "control group" in criterion.test and "5 %" in criterion.threshold

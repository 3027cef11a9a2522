"""Releases whose rows an algorithm makes itself: the same stages for groups, sets, journeys and whole persons."""

from __future__ import annotations

import json
from typing import Any

import pytest
from conftest import Database
from sqlglot import exp

from sqlanon.errors import EngineError, PolicyError
from sqlanon.policy import Policy, parse
from sqlanon.relations.source import table_tree
from sqlanon.release import publish
from sqlanon.release.plan_refresh import PLANNED, differences, plan_refresh
from sqlanon.release.rewrite_release import Rewriting
from sqlanon.release.targets.relation_target import RelationTarget
from sqlanon.release.targets.target import Staged

KEY = "a key of enough characters"
TYPES = {"patient": "BIGINT", "day": "INTEGER", "ward": "TEXT", "disease": "TEXT"}
ROWS = [
    {"patient": person, "day": day, "ward": "eyes" if person % 2 else "skin", "disease": f"d{(person + day) % 4}"}
    for person in range(1, 13)
    for day in (1, 2, 3)
]
KINDS: dict[str, dict[str, Any]] = {
    "groups": {
        "columns": {"patient": "identifier", "day": "quasi_identifier", "ward": "quasi_identifier",
                    "disease": "sensitive"},
        "models": [{"distinct_l_diversity": {"l": 2}}],
        "algorithm": {"anatomy": {"l": 2}},
    },
    "set": {
        "source": {"query": "SELECT patient, ward FROM visits"},
        "person": "patient",
        "shape": "set",
        "columns": {"patient": "identifier", "ward": "item"},
        "models": [{"km_anonymity": {"k": 3, "m": 2}}],
        "algorithm": "item_suppression",
    },
    "sequence": {
        "source": {"query": "SELECT patient, day, ward FROM visits"},
        "person": "patient",
        "shape": "sequence",
        "columns": {"patient": "identifier", "day": {"role": "time"}, "ward": "place"},
        "models": [{"km_anonymity": {"k": 3, "m": 2}}],
        "algorithm": "path_suppression",
    },
    "entity": {
        "source": {"query": "SELECT patient, day, ward FROM visits"},
        "person": "patient",
        "shape": "entity",
        "columns": {"patient": "identifier", "day": "quasi_identifier", "ward": "quasi_identifier"},
        "models": [{"k_anonymity": {"k": 3}}],
    },
}  # fmt: skip


def make_policy(kind: str) -> Policy:
    return parse(json.dumps({"source": {"table": "visits"}, "release": {"table": "shown"}, **KINDS[kind]}))


def shown(database: Database) -> list[tuple[Any, ...]]:
    return sorted(database.fetch("SELECT * FROM shown"))


@pytest.mark.full
@pytest.mark.full_on_postgres
@pytest.mark.parametrize("kind", KINDS)
def test_a_plan_is_what_is_published(database: Database, kind: str) -> None:
    database.table("visits", TYPES, ROWS)
    policy = make_policy(kind)
    planned = plan_refresh(policy, database.engine, secret=KEY)
    assert planned.refused is None and planned.current is None
    assert planned.plan is not None and planned.document is not None and planned.document["holds"]
    for name in ("shown", PLANNED):
        assert database.engine.find([name]) is None
    with pytest.raises(PolicyError, match="no longer the same"):
        publish(policy, database.engine, secret=KEY, plan_hash="0" * 12)
    done = publish(policy, database.engine, secret=KEY, plan_hash=planned.plan.hash)
    assert done.plan.hash == planned.plan.hash and done.evidence is not None and done.evidence.holds
    assert done.document["checks"] == planned.document["checks"]
    assert len(shown(database)) == done.document["released"]
    again = plan_refresh(policy, database.engine, secret=KEY)
    assert again.document is not None and again.current is not None
    assert differences(again.current, again.document)["evidence"] == {}


class LosesRows(RelationTarget):
    """A table that does not get all rows: somebody changed the source meanwhile."""

    def stage(self, how: Rewriting) -> Staged:
        staged = super().stage(how)
        one = exp.select("*").from_(table_tree(staged.name)).limit(1)
        self.engine.execute(exp.insert(one, table_tree(staged.name)))
        return staged


@pytest.mark.full
@pytest.mark.full_on_postgres
@pytest.mark.parametrize("kind", KINDS)
def test_another_number_of_rows_than_was_meant_is_not_shown(database: Database, kind: str) -> None:
    database.table("visits", TYPES, ROWS)
    policy = make_policy(kind)
    publish(policy, database.engine, secret=KEY)
    before = shown(database)
    with pytest.raises(EngineError, match=r"rows were written, [0-9]+ were meant"):
        publish(policy, database.engine, secret=KEY, target=LosesRows(database.engine, "shown", "table"))
    assert shown(database) == before
    publish(policy, database.engine, secret=KEY)  # nothing of the try is left behind


@pytest.mark.full_on_postgres
@pytest.mark.parametrize("kind", KINDS)
def test_a_script_holds_every_table_of_a_release(database: Database, kind: str) -> None:
    database.table("visits", TYPES, ROWS)
    script = publish(make_policy(kind), database.engine, secret=KEY).document["sql"]
    assert script.count("CREATE TEMPORARY TABLE") >= 1 and "-- the release\n" in script
    assert ("-- shown_sensitive\n" in script) == (kind == "groups")

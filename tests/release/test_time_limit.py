"""A search that proves its result ends by itself, says that nothing is proven, and tells how far it is."""

from __future__ import annotations

import dataclasses
import json
import random
import time
from typing import Any

import pytest
from conftest import Database

from sqlanon.families import algorithm_traits
from sqlanon.policy import parse
from sqlanon.release import publish, solve_policy

WIDE = [f"q{place}" for place in range(10)]


def wide(database: Database, **more: Any) -> Any:
    pick = random.Random(3)
    rows = [{name: int(8 * pick.random() * pick.random()) for name in WIDE} for _ in range(400)]
    database.table("t", dict.fromkeys(WIDE, "INTEGER"), rows)
    written = {
        "source": {"table": "t"}, "columns": dict.fromkeys(WIDE, "quasi_identifier"),
        "models": [{"k_anonymity": {"k": 3}}], "suppression_limit": 0.1, "release": {"table": "r"},
        "hierarchies": {name: {"intervals": {"widths": [2, 4]}} for name in WIDE}, "algorithm": "full_domain",
    }  # fmt: skip
    return parse(json.dumps(written | more))


def test_those_that_prove_take_a_minute_by_default() -> None:
    for name in ("full_domain", "exhaustive", "incognito", "samarati"):
        assert algorithm_traits(name).seconds == 60
    assert algorithm_traits("mondrian").seconds is None


def test_a_search_without_a_limit_ends(duck: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    short = dataclasses.replace(algorithm_traits("full_domain"), seconds=0.5)
    monkeypatch.setattr(solve_policy, "algorithm_traits", lambda name: short)
    told: list[tuple[str, int, int]] = []
    asked, start = wide(duck), time.monotonic()
    done = publish(asked, duck.engine, workload=False, progress=lambda *what: told.append(what))
    assert time.monotonic() - start < 60  # 1,048,576 nodes take far longer
    assert not done.plan.proven and "not proven optimal" in done.plan.why
    assert done.document["holds"]
    searched = [(part, whole) for what, part, whole in told if what == "searching the lattice"]
    assert searched and all(part < whole == 4**10 for part, whole in searched)


def test_a_limit_that_is_given_counts(duck: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(solve_policy, "algorithm_traits", lambda name: pytest.fail("it has a limit"))
    assert not publish(wide(duck), duck.engine, workload=False, time_limit=0.3).plan.proven

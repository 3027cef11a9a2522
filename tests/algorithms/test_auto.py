"""`algorithm: auto`: several algorithms are tried, and the release that loses least is taken."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from conftest import Database

from sqlanon.algorithms import auto
from sqlanon.cli import main
from sqlanon.errors import PolicyError
from sqlanon.policy import Policy, parse
from sqlanon.release import publish
from sqlanon.release.compare_policies import compare
from sqlanon.release.publication import Published

TYPES = {"age": "INTEGER", "job": "TEXT", "ill": "TEXT"}
JOBS = ["baker", "cook", "judge", "nurse", "pilot", "smith"]
HIERARCHIES = {
    "age": {"intervals": {"widths": [5, 10, 40], "min": 0, "max": 120}},
    "job": {"tree": {"tree": {"*": {"food": ["baker", "cook"], "rest": ["judge", "nurse", "pilot", "smith"]}}}},
}
WAYS: list[Any] = [
    "mondrian",
    "bottom_up_recoding",
    "full_domain",
    {"full_domain": {"recode_suppressed": True}},
    "top_down_recoding",
]


def people(count: int = 300) -> list[dict[str, Any]]:
    drawn = np.random.default_rng(4)
    ages = np.clip(drawn.normal(45, 15, count), 18, 90).astype(int)
    jobs = drawn.choice(JOBS, count, p=[0.3, 0.3, 0.15, 0.15, 0.08, 0.02])
    ills = drawn.choice(["flu", "cold", "gout"], count)
    return [{"age": int(a), "job": str(j), "ill": str(i)} for a, j, i in zip(ages, jobs, ills, strict=True)]


def asked(**more: Any) -> Policy:
    written = {
        "source": {"table": "t"},
        "columns": {"age": "quasi_identifier", "job": "quasi_identifier", "ill": "sensitive"},
        "hierarchies": HIERARCHIES,
        "models": [{"k_anonymity": {"k": 5}}],
        "suppression_limit": 0.1,
        "release": {"table": "r"},
        "algorithm": "auto",
    }
    return parse(json.dumps({key: value for key, value in (written | more).items() if value is not None}))


def done(database: Database, **more: Any) -> Published:
    database.run("DROP TABLE IF EXISTS r")
    return publish(asked(**more), database.engine, workload=False, secret="a long enough secret", advice=True)


@pytest.mark.full
def test_the_least_loss_of_all_ways_is_taken(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auto, "LEAST_SECONDS", 600.0)  # so that all of them come to their end
    database.table("t", TYPES, people())
    alone = {json.dumps(way): done(database, algorithm=way).plan.loss for way in WAYS}
    found = done(database)
    assert found.plan.loss == pytest.approx(min(alone.values()))
    assert len(set(alone.values())) == len(WAYS)  # or nothing was chosen
    assert [way.loss for way in found.ways] == pytest.approx(list(alone.values()))
    assert found.plan.algorithm == "mondrian" and found.plan.why.startswith("mondrian, the least loss of what was")
    classes = Counter(row[:2] for row in database.fetch("SELECT age, job, ill FROM r"))
    assert min(classes.values()) >= 5 and classes.total() == 300


@pytest.mark.full
def test_the_plan_names_the_algorithm_that_was_chosen(duck: Database) -> None:
    duck.table("t", TYPES, people())
    found, named = done(duck).plan, done(duck, algorithm="mondrian").plan
    assert (found.algorithm, found.params, found.regions) == (named.algorithm, named.params, named.regions)
    with pytest.raises(PolicyError, match="seconds"):
        asked(algorithm={"auto": {"seconds": 3}})


def test_an_algorithm_that_is_named_is_obeyed(duck: Database) -> None:
    duck.table("t", TYPES, people())
    found = done(duck, algorithm="full_domain")
    assert found.plan.algorithm == "full_domain" and found.ways == ()


@pytest.mark.full
def test_of_equal_losses_one_level_for_each_column_is_taken(duck: Database) -> None:
    duck.table("t", TYPES, [{"age": 30, "job": "cook", "ill": "flu"}] * 9)
    found = done(duck)
    assert found.plan.loss == 0 and found.plan.algorithm == "full_domain" and len(found.plan.passes) == 1


@pytest.mark.full
@pytest.mark.parametrize(
    "more",
    [
        {"minimize": "discernibility"},
        {"models": [{"k_map": {"k": 5}}], "population": {"table": "everybody"}},
        {"nulls": "unique"},
    ],
    ids=lambda more: next(iter(more)),
)
def test_levels_alone_are_searched_where_regions_cannot_be_compared(duck: Database, more: dict[str, Any]) -> None:
    rows = [row | {"p": place} for place, row in enumerate(people())]
    duck.table("t", TYPES | {"p": "INTEGER"}, rows)
    duck.table("everybody", TYPES | {"p": "INTEGER"}, rows * 2)
    roles = {"age": "quasi_identifier", "job": "quasi_identifier", "ill": "sensitive", "p": "identifier"}
    found = done(duck, columns=roles, suppression_limit=0.2, **more)
    assert found.plan.algorithm == "full_domain" and len(found.ways) == 1


@pytest.mark.full
def test_without_hierarchies_ranges_are_shown(duck: Database) -> None:
    """Levels could only hide the columns."""
    duck.table("t", TYPES, people())
    found = done(duck, hierarchies={})
    assert found.plan.algorithm == "mondrian" and found.plan.loss < 0.3
    assert len(duck.fetch("SELECT DISTINCT age FROM r")) > 5
    assert not found.advice


def test_releases_over_time_are_not_left_to_it(duck: Database) -> None:
    duck.table("t", TYPES | {"p": "INTEGER"}, [row | {"p": place} for place, row in enumerate(people())])
    roles = {"age": "quasi_identifier", "job": "quasi_identifier", "ill": "sensitive", "p": "identifier"}
    with pytest.raises(PolicyError, match="earlier releases"):
        done(duck, columns=roles, person="p", history={"hold_back": 1})


def test_it_is_the_default(duck: Database) -> None:
    """But what only levels can do is done as before, with the plan of before."""
    duck.table("t", TYPES, people())
    found = done(duck, algorithm=None)
    assert found.plan.algorithm == "mondrian" and len(found.ways) > 1
    assert found.plan.loss == done(duck).plan.loss
    levels = done(duck, algorithm=None, minimize="discernibility")
    assert levels.plan.algorithm == "full_domain" and levels.ways == ()
    assert levels.plan.why == "full_domain, of 15 nodes: no other node can lose less"


def test_a_policy_with_history_stays_with_its_levels(duck: Database) -> None:
    """A history compares classes of the same levels: no version is in regions unless the policy says so."""
    duck.table("t", TYPES | {"p": "INTEGER"}, [row | {"p": place} for place, row in enumerate(people())])
    roles = {"age": "quasi_identifier", "job": "quasi_identifier", "ill": "sensitive", "p": "identifier"}
    duck.run("DROP TABLE IF EXISTS r")
    policy = asked(columns=roles, person="p", history={"hold_back": 1}, algorithm=None)
    plans = []
    for _ in range(2):
        plans.append(publish(policy, duck.engine, workload=False, secret="a long enough secret").plan)
        duck.run("INSERT INTO t SELECT age, job, ill, p + 1000 FROM t WHERE p < 1000")
    assert [plan.algorithm for plan in plans] == ["full_domain", "fixed_levels"]
    assert plans[0].passes == plans[1].passes and plans[1].regions is None


@pytest.mark.full
def test_releases_of_before_are_compared_by_levels(duck: Database) -> None:
    """`compare` leaves the history aside, but not what it says about the algorithm."""
    duck.table("t", TYPES | {"p": "INTEGER"}, [row | {"p": place} for place, row in enumerate(people())])
    roles = {"age": "quasi_identifier", "job": "quasi_identifier", "ill": "sensitive", "p": "identifier"}
    old = asked(columns=roles, person="p", history={"hold_back": 1}, algorithm=None)
    new = asked(columns=roles, algorithm=None)
    found = compare([old, new], duck.engine, secret="a long enough secret")
    assert [item.algorithm for item in found] == ["full_domain", "mondrian"]
    assert found[1].losses is not None and {"ncp", "iloss"} <= set(found[1].losses)


def test_what_no_way_can_do_is_refused(duck: Database) -> None:
    duck.table("t", TYPES, people(4))
    with pytest.raises(PolicyError, match="k_anonymity"):
        done(duck)
    assert not duck.fetch("SELECT 1 FROM information_schema.tables WHERE table_name = 'r'")


@pytest.mark.full
def test_what_was_not_published_is_not_in_the_evidence(duck: Database) -> None:
    """What other ways would have kept tells of the source."""
    duck.table("t", TYPES, people())
    found = done(duck)
    losses = [way.loss for way in found.ways if way.loss != found.plan.loss]
    assert len(losses) == len(WAYS) - 1 and not any(repr(loss) in json.dumps(found.document) for loss in losses)
    assert "recode_suppressed" not in json.dumps(found.document)


@pytest.mark.full
def test_advice(duck: Database) -> None:
    """Where another algorithm would lose less than two thirds, and where a column shows nothing."""
    duck.table("t", TYPES, people())
    (line,) = done(duck, algorithm="full_domain").advice
    assert line.startswith("mondrian would lose 0.0") and "'algorithm: auto'" in line
    assert done(duck, algorithm=None).advice == ()
    assert done(duck, algorithm="mondrian").advice == ()
    hidden = done(duck, algorithm="full_domain", hierarchies={"age": HIERARCHIES["age"]}, suppression_limit=0).advice
    shown = {name: len(duck.fetch(f"SELECT DISTINCT {name} FROM r")) for name in ("age", "job")}
    (name,) = (name for name, labels in shown.items() if labels == 1)
    assert hidden[0].startswith(f"'{name}' is hidden entirely")


@pytest.mark.full
def test_the_command_shows_the_ways(duck: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [f"{row['age']},{row['job']},{row['ill']}" for row in people()]
    (tmp_path / "t.csv").write_text("\n".join(["age,job,ill", *lines]) + "\n", encoding="utf-8")
    written = asked().model_dump(mode="json", exclude_unset=True)
    written |= {"source": {"path": "t.csv"}, "release": {"path": "r.csv"}, "hierarchies": HIERARCHIES}
    written |= {"models": [{"k_anonymity": {"k": 5}}], "algorithm": "auto"}
    (tmp_path / "p.yml").write_text(json.dumps(written), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(main, ["publish", "p.yml", "--no-workload"])
    assert result.exit_code == 0, result.output
    assert "ways that were tried, at the same privacy" in result.output
    assert "labels by region" in result.output and "one level for each column" in result.output

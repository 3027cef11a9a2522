"""Persons by all their rows: every model on classes of equal signatures, compared with plain Counters."""

from __future__ import annotations

import json
from typing import Any

import brute
import brute_entities as oracle
import pytest
from conftest import Database, examples
from hypothesis import given, settings
from hypothesis import strategies as st
from measuring import policy_for
from test_models import ATTRIBUTES, GROUP, ON_THE_SAFE_SIDE, QI_TREES, SPECS, TREE, TYPES, close, model_use, tables

from sqlanon.errors import PolicyError
from sqlanon.evidence.checks import check
from sqlanon.families import family
from sqlanon.policy import Policy, parse
from sqlanon.policy.parts import Column

COLUMNS = {"p": "INTEGER", "a": "TEXT", "b": "TEXT", "s": "TEXT", "n": "INTEGER"}
ROLES = {"p": "identifier", "a": "quasi_identifier", "b": "quasi_identifier", "s": "sensitive", "n": "insensitive"}
OWNERS = {1: ("Math", "Physics"), 2: ("Math", "History"), 3: ("Physics", "History")}
MODELS = [name for name in SPECS if "entity" in family("models")[name].shapes]


def asked(models: list[Any], **more: Any) -> Policy:
    written = {"source": {"table": "t"}, "person": "p", "shape": "entity", "columns": ROLES, "models": models}
    return parse(json.dumps(written | {"release": {"table": "r"}} | more))


def owners(database: Database, owned: dict[int, tuple[str, ...]]) -> None:
    rows = [{"p": p, "a": course, "b": "x1", "s": "x", "n": 0} for p, courses in owned.items() for course in courses]
    database.table("t", COLUMNS, rows)


def test_the_three_owners_share_their_rows_and_not_their_signatures(database: Database) -> None:
    owners(database, OWNERS)
    rows = asked([{"k_anonymity": {"k": 2}}]).model_copy(update={"shape": "rows"})
    assert [item.measured for item in check(rows, database.engine).checks] == [2.0]
    (found,) = check(asked([{"k_anonymity": {"k": 2}}]), database.engine).checks
    assert (found.classes, found.broken_classes, found.broken_records, found.measured) == (3, 3, 3, 1.0)
    owners(database, OWNERS | {4: ("Physics", "Math"), 5: ("History", "Math"), 6: ("History", "Physics")})
    (found,) = check(asked([{"k_anonymity": {"k": 2}}]), database.engine).checks
    assert (found.classes, found.broken_classes, found.measured) == (3, 0, 2.0)


def test_how_often_a_row_occurs_is_a_part_of_the_signature(database: Database) -> None:
    owners(database, {1: ("Math",), 2: ("Math", "Math")})
    (found,) = check(asked([{"k_anonymity": {"k": 2}}]), database.engine).checks
    assert (found.classes, found.broken_classes) == (2, 2)


@pytest.mark.full_on_postgres
@settings(max_examples=examples(15))
@given(data=st.data(), rows=tables)
def test_every_model_on_entity_classes_matches_its_definition(database: Database, data: Any, rows: Any) -> None:
    rows = [item for item in rows if item["p"] is not None]
    chosen = {
        name: {key: data.draw(strategy, label=f"{name}.{key}") for key, strategy in SPECS[name][0].items()}
        for name in MODELS
    }
    policy = policy_for(
        GROUP,
        ATTRIBUTES,
        [model_use(name, params) for name, params in chosen.items()],
        insensitive=("g",),
        hierarchies={"s": {"tree": {"tree": TREE}}, **QI_TREES},
        person="p",
        shape="entity",
    )
    policy = policy.model_copy(update={"columns": policy.columns | {"p": Column(role="identifier")}})
    database.table("t", TYPES, rows)
    found = check(policy, database.engine, limit=0)
    signed = oracle.signed(rows, "p", GROUP)
    waiting = list(found.checks)
    for name, params in chosen.items():
        of_values = "sensitive" in family("models")[name].needs
        for asks in ("in any row", "in a known row") if of_values else ("",):
            item = waiting.pop(0)
            assert (item.model, item.asks) == (name, asks)
            group = ["signature", *GROUP] if asks == "in a known row" else ["signature"]
            given_ = {key: value for key, value in SPECS[name][1].items() if key != "sensitive"} | params
            args = (signed, group, SPECS[name][1].get("sensitive", "s")) if of_values else (signed, group)
            measured = getattr(brute, name)(*args, **given_, person="p")
            broken = getattr(brute, f"broken_{name}")(*args, **given_, person="p")
            assert item.classes == len(measured), (name, asks)
            if name in ON_THE_SAFE_SIDE:
                assert item.broken_classes >= len(broken), (name, asks)
                continue
            assert item.broken_classes == len(broken), (name, asks, params)
            if measured:
                worst = min if family("models")[name].worse_when_smaller else max
                assert close(item.measured or 0.0, float(worst(measured.values()))), (name, asks)
    assert not waiting
    alike = {name: oracle.shared(rows, "p", GROUP, name) for name in ("s", "n")}  # no model asks for u
    said = [f"{name}: {number:,} persons share their signature only" for name, number in alike.items() if number]
    told = [item.split(" only with")[0] + " only" for item in found.breaches if "signature" in item]
    assert sorted(told) == sorted(said), (found.breaches, rows)
    assert found.records == len(rows)


PT = {"id": "INTEGER", "a": "TEXT"}
VISITS = {"v": "INTEGER", "pid": "INTEGER", "b": "TEXT"}
DRUGS = {"vid": "INTEGER", "d": "TEXT"}


@st.composite
def trees(draw: st.DrawFn) -> tuple[list[dict[str, Any]], list[dict[str, Any]], list[dict[str, Any]]]:
    persons = [{"id": i, "a": draw(st.sampled_from("12"))} for i in range(draw(st.integers(1, 5)))]
    visits = [
        {"v": i, "pid": draw(st.integers(0, 5)), "b": draw(st.sampled_from(["x", None]))}
        for i in range(draw(st.integers(0, 7)))
    ]
    drugs = [{"vid": draw(st.integers(0, 7)), "d": draw(st.sampled_from("de"))} for _ in range(draw(st.integers(0, 7)))]
    return persons, visits, drugs


TREE_POLICY = {
    "source": {
        "table": "pt",
        "joins": [{"table": "visits", "on": {"id": "pid"}}, {"table": "drugs", "on": {"v": "vid"}}],
    },
    "person": "id",
    "shape": "entity",
    "columns": dict.fromkeys(["id", "pid", "v", "vid"], "identifier") | dict.fromkeys("abd", "quasi_identifier"),
    "models": [{"k_anonymity": {"k": 2}}],
    "release": {"table": "r"},
}


@pytest.mark.full_on_postgres
@settings(max_examples=examples(60))
@given(made=trees())
def test_trees_along_foreign_keys_match_the_oracle(database: Database, made: Any) -> None:
    persons, visits, drugs = made
    database.table("pt", PT, persons)
    database.table("visits", VISITS, visits)
    database.table("drugs", DRUGS, drugs)
    (found,) = check(parse(json.dumps(TREE_POLICY)), database.engine, limit=0).checks
    below = ((visits, ["b"], [((drugs, ["d"], []), "v", "vid")]), "id", "pid")
    own = oracle.tree_signatures(persons, "id", ["a"], [below])
    crowd = oracle.Counter(own.values())
    assert (found.classes, found.broken_classes) == (len(crowd), sum(size < 2 for size in crowd.values())), made


def test_two_trees_with_the_same_joined_rows_are_told_apart(database: Database) -> None:
    """One visit with two drugs, and two visits with one each: a join shows the same rows."""
    database.table("pt", PT, [{"id": 1, "a": "1"}, {"id": 2, "a": "1"}])
    visits = [(10, 1), (11, 1), (20, 2), (21, 2)]
    database.table("visits", VISITS, [{"v": v, "pid": p, "b": "x"} for v, p in visits])
    drugs = [(10, "d"), (10, "e"), (20, "d"), (21, "e")]
    database.table("drugs", DRUGS, [{"vid": v, "d": d} for v, d in drugs])
    (found,) = check(parse(json.dumps(TREE_POLICY)), database.engine).checks
    assert (found.classes, found.broken_classes) == (2, 2)


def test_a_row_without_a_person_is_refused(database: Database) -> None:
    database.table("t", COLUMNS, [{"p": None, "a": "1", "b": "x1", "s": "x", "n": 0}])
    with pytest.raises(PolicyError, match="the person column 'p' is NULL in 1 rows"):
        check(asked([{"k_anonymity": {"k": 2}}]), database.engine)


def test_an_empty_table_holds_nothing(database: Database) -> None:
    database.table("t", COLUMNS, [])
    found = check(asked([{"k_anonymity": {"k": 2}}]), database.engine)
    assert not found.holds and "there is no row to measure" in found.breaches


@pytest.mark.full_on_postgres
def test_one_person_with_very_many_rows(database: Database) -> None:
    owners(database, {1: ("Math",), 2: ("Math",)})
    database.run("INSERT INTO t SELECT 3, CAST(i AS TEXT), 'x1', 'x', 0 FROM generate_series(1, 100000) AS g(i)")
    (found,) = check(asked([{"k_anonymity": {"k": 2}}]), database.engine).checks
    assert (found.classes, found.broken_classes, found.broken_records) == (2, 1, 1)


def test_nan_is_one_value(duck: Database) -> None:
    nan = "CAST('NaN' AS DOUBLE) AS a, 'x1' AS b, 's' AS s, 0 AS n"
    duck.run(f"CREATE OR REPLACE TABLE t AS SELECT p, {nan} FROM range(3) AS g(p)")
    (found,) = check(asked([{"k_anonymity": {"k": 3}}]), duck.engine).checks
    assert (found.classes, found.broken_classes) == (1, 0)

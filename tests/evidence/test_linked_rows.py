"""Several rows a person: where a release links them, the set of a person's rows is what must be shared.

The oracle counts persons by their rows with pandas and plain Counters: it knows no class, no SQL and no signature."""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pytest
from click.testing import CliRunner
from conftest import ROOT, Database, examples
from hypothesis import example, given, settings
from hypothesis import strategies as st
from test_laws import ATTACKED, CANONICAL

from sqlanon.cli import main
from sqlanon.demo import generate
from sqlanon.engines import connect
from sqlanon.errors import PolicyError
from sqlanon.evidence.attacks import Attacks, attack
from sqlanon.evidence.checks import Evidence, check
from sqlanon.evidence.risk import risk
from sqlanon.families import family
from sqlanon.policy import Policy, Source, parse
from sqlanon.relations.attacks.attack_relations import UNITS, add_unit
from sqlanon.release import publish, report
from sqlanon.release.plan_refresh import plan_refresh
from sqlanon.release.stored_evidence import load_evidence
from sqlanon.report import render
from sqlanon.sqltree.tree import bind

KEY = "a key that nobody would ever guess"
PSEUDONYM = {"role": "identifier", "pseudonym": True}
TYPES = {"p_id": "INTEGER", "age": "INTEGER", "zip": "TEXT", "visit": "TEXT", "code": "TEXT", "note": "INTEGER"}
OWNERS = {1: ("Math", "Physics"), 2: ("Math", "History"), 3: ("Physics", "History")}


def asked(**more: Any) -> Policy:
    written = {
        "source": {"table": "t"},
        "person": "p_id",
        "columns": {
            "p_id": PSEUDONYM,
            "age": "quasi_identifier",
            "zip": "quasi_identifier",
            "visit": "sensitive",
            "code": "insensitive",
            "note": "insensitive",
        },
        "models": [{"k_anonymity": {"k": 5}}],
        "release": {"table": "r"},
    }
    return parse(json.dumps(written | more))


def roles(**changed: Any) -> dict[str, Any]:
    plain: dict[str, Any] = {
        "p_id": "identifier",
        "age": "quasi_identifier",
        "zip": "quasi_identifier",
        "visit": "sensitive",
        "code": "identifier",
        "note": "insensitive",
    }
    return plain | changed


def panel(persons: int, rows: int, seed: int = 11) -> list[dict[str, Any]]:
    """Persons with one to six rows: who is older, and who moves, from row to row. `code` is the person's own."""
    draw = random.Random(seed)
    people = [(20 + draw.randrange(6) * 10, f"{draw.randrange(3)}") for _ in range(persons)]
    counts = [1 + (draw.random() < 0.9) * draw.randrange(6) for _ in range(persons)]
    while sum(counts) < rows:
        counts[draw.randrange(persons)] += 1
    made = []
    for who, ((age, home), count) in enumerate(zip(people, counts, strict=True)):
        for number in range(count):
            moved = home if draw.random() < 0.9 else f"{draw.randrange(3)}"
            older = age + 10 * (number >= 3)
            row = {"p_id": who, "age": older, "zip": moved, "visit": draw.choice("abcd"), "code": f"code-{who * 7919}"}
            made.append(row | {"note": draw.randrange(4)})
    return made


def fill(database: Database, rows: list[dict[str, Any]]) -> None:
    """The table t; a thousand rows a statement, since one by one takes its time."""
    database.table("t", TYPES, [])
    for start in range(0, len(rows), 1_000):
        texts = [tuple(row[name] for name in TYPES) for row in rows[start : start + 1_000]]
        database.run(f"INSERT INTO t VALUES {', '.join(map(str, texts))}")


def sets_of(frame: pd.DataFrame, person: str, columns: list[str]) -> dict[Any, int]:
    """How many persons have the very same rows, each as often, by person."""
    texts = frame[columns].astype("string").fillna("\0")
    keys = (
        texts.assign(person=frame[person])
        .groupby("person")[columns]
        .apply(lambda rows: tuple(sorted(Counter(map(tuple, rows.to_numpy().tolist())).items())))
    )
    shared = Counter(keys)
    return {who: shared[key] for who, key in keys.items()}


def frame_of(rows: list[dict[str, Any]]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=list(TYPES))


def linked(found: Evidence) -> Any:
    assert found.linked is not None
    return found.linked


# A pseudonym ----------------------------------------------------------------------------------------------------------


@pytest.mark.full
def test_a_panel_of_six_thousand_persons_is_counted_by_sets_of_rows(database: Database) -> None:
    rows = panel(6_000, 20_000)
    fill(database, rows)
    found = check(asked(columns=roles(p_id=PSEUDONYM), models=[{"k_anonymity": {"k": 5}}]), database.engine)
    brute = sets_of(frame_of(rows), "p_id", ["age", "zip"])
    assert found.checks[0].holds, "single rows are all shared by five persons"
    told = linked(found)
    several = Counter(row["p_id"] for row in rows)
    assert told.columns == ("p_id",)
    assert (told.persons, told.several) == (6_000, sum(count > 1 for count in several.values()))
    assert told.alone == sum(count == 1 for count in brute.values()) > 100
    assert told.fewest == min(brute.values())
    (of_sets,) = told.checks
    assert of_sets.broken_records == sum(count < 5 for count in brute.values())
    assert not found.holds


@pytest.mark.full_on_postgres
def test_a_pseudonym_that_singles_persons_out_is_refused(database: Database) -> None:
    rows = panel(600, 2_000)
    fill(database, rows)
    database.run("DROP TABLE IF EXISTS r")
    with pytest.raises(PolicyError, match="whole sets of rows single persons out") as refused:
        publish(asked(columns=roles(p_id=PSEUDONYM)), database.engine, secret=KEY, workload=False)
    assert "linked by column p_id: classes are persons with the same set of rows" in (refused.value.detail or "")
    assert "the search compares single rows" in (refused.value.detail or "")
    assert "linked_rows: accept" in (refused.value.hint or "")
    assert database.engine.find(["r"]) is None
    told = plan_refresh(asked(columns=roles(p_id=PSEUDONYM)), database.engine, secret=KEY)
    assert told.refused is not None and told.document is None


@pytest.mark.full_on_postgres
def test_without_the_pseudonym_the_same_policy_is_published(database: Database) -> None:
    fill(database, panel(600, 2_000))
    database.run("DROP TABLE IF EXISTS r")
    done = publish(asked(columns=roles()), database.engine, workload=False)
    assert done.evidence is not None and done.evidence.holds and done.evidence.linked is None
    assert "linked_rows" not in done.document


@pytest.mark.full_on_postgres
def test_what_was_accepted_is_published_and_told(database: Database) -> None:
    rows = panel(600, 2_000)
    fill(database, rows)
    database.run("DROP TABLE IF EXISTS r")
    policy = asked(columns=roles(p_id=PSEUDONYM), linked_rows="accept")
    done = publish(policy, database.engine, secret=KEY, workload=False)
    shown = pd.DataFrame(database.fetch("SELECT p_id, age, zip FROM r"), columns=["p_id", "age", "zip"])
    alone = sum(count == 1 for count in sets_of(shown, "p_id", ["age", "zip"]).values())
    kept = load_evidence(policy, database.engine)["linked_rows"]
    assert kept == done.document["linked_rows"]
    assert (kept["accepted"], kept["holds"], kept["alone"], kept["persons"]) == (True, False, alone, 600)
    assert alone > 0
    assert any(f"{alone:,} of 600 persons have a set of rows" in line for line in done.document["not_protected"])
    again = linked(check(policy, database.engine, release=Source(table="r"), secret=KEY))
    assert (again.alone, again.accepted, again.holds) == (alone, True, False)
    refused = check(asked(columns=roles(p_id=PSEUDONYM)), database.engine, release=Source(table="r"), secret=KEY)
    assert not refused.holds


def test_persons_who_share_their_rows_are_published(database: Database) -> None:
    """Five persons of each kind, with two rows each: sets are shared, and the pseudonym costs nothing."""
    rows = [
        {
            "p_id": 10 * kind + who,
            "age": 20 + 10 * kind + 10 * row,
            "zip": "1",
            "visit": "ab"[row],
            "code": "",
            "note": 0,
        }
        for kind in range(4)
        for who in range(5)
        for row in range(2)
    ]
    fill(database, rows)
    database.run("DROP TABLE IF EXISTS r")
    done = publish(asked(columns=roles(p_id=PSEUDONYM)), database.engine, secret=KEY, workload=False)
    assert done.document["linked_rows"]["holds"] and done.document["linked_rows"]["fewest"] == 5
    assert done.document["linked_rows"]["problems"] == []


def test_a_pseudonym_without_a_person_is_taken_for_one(database: Database) -> None:
    """Rows of one person are no crowd, even where nobody said that they are one person's."""
    rows = [
        {"p_id": who // 5, "age": 30, "zip": str(who // 5), "visit": "a", "code": "", "note": 0} for who in range(30)
    ]
    fill(database, rows)
    policy = asked(columns=roles(p_id=PSEUDONYM))
    policy = policy.model_copy(update={"person": None})
    found = check(policy, database.engine)
    assert found.checks[0].holds
    assert not found.holds and (linked(found).columns, linked(found).alone) == (("p_id",), 6)


def test_kept_suppressed_rows_tell_how_many_a_person_has(database: Database) -> None:
    """Two persons show one row alike; one of them also has a row of '*'."""
    rows = [
        {"p_id": 1, "age": "30", "zip": "1"},
        {"p_id": 2, "age": "30", "zip": "1"},
        {"p_id": 1, "age": "*", "zip": "*"},
    ]
    database.table("t", {"p_id": "INTEGER", "age": "TEXT", "zip": "TEXT"}, rows)
    columns = {"p_id": PSEUDONYM, "age": "quasi_identifier", "zip": "quasi_identifier"}
    policy = asked(columns=columns, models=[{"k_anonymity": {"k": 2}}], suppressed_rows="keep", suppression_limit=1)
    found = check(policy, database.engine)
    assert found.checks[0].holds and not found.holds and linked(found).alone == 2


# A column that is as good as a pseudonym ------------------------------------------------------------------------------


def test_a_column_that_is_nearly_unique_links_rows(database: Database) -> None:
    rows = panel(600, 2_000)
    for row in rows:  # one in twenty shares the code of another
        row["code"] = f"code-{row['p_id'] - (row['p_id'] % 20 == 1)}"
    fill(database, rows)
    database.run("DROP TABLE IF EXISTS r")
    policy = asked(columns=roles(code="insensitive"))
    with pytest.raises(PolicyError, match="whole sets of rows single persons out") as refused:
        publish(policy, database.engine, workload=False)
    assert "linked by column code" in (refused.value.detail or "")
    brute = sets_of(frame_of(rows), "p_id", ["age", "zip"])
    found = linked(check(policy, database.engine))
    assert (found.columns, found.alone) == (("code",), sum(count == 1 for count in brute.values()))


def test_a_release_without_persons_is_judged_by_the_column_itself(database: Database) -> None:
    rows = panel(600, 2_000)
    fill(database, rows)
    database.run("DROP TABLE IF EXISTS r")
    policy = asked(columns=roles(code="insensitive"), linked_rows="accept")
    publish(policy, database.engine, workload=False)
    shown = pd.DataFrame(database.fetch("SELECT code, age, zip FROM r"), columns=["code", "age", "zip"])
    found = check(asked(columns=roles(code="insensitive")), database.engine, release=Source(table="r"))
    brute = sets_of(shown, "code", ["age", "zip"])
    assert (linked(found).alone, linked(found).persons) == (sum(count == 1 for count in brute.values()), 600)
    assert not found.holds


def test_columns_that_link_only_together(database: Database) -> None:
    """Thirty values of `code` and twenty of `note`: neither links anybody, both together are six hundred persons."""
    rows = panel(600, 2_000)
    for row in rows:
        row["code"], row["note"] = f"c{row['p_id'] % 30}", row["p_id"] // 30
    fill(database, rows)
    found = linked(check(asked(columns=roles(code="insensitive")), database.engine))
    assert {"code", "note"} <= set(found.columns)
    alone = linked(check(asked(columns=roles(p_id=PSEUDONYM)), database.engine)).alone
    assert found.alone == alone


@pytest.mark.parametrize("code", ["shared", "changing"])
def test_a_column_that_many_share_or_that_changes_links_nobody(database: Database, code: str) -> None:
    rows = panel(600, 2_000)
    for number, row in enumerate(rows):
        row["code"] = f"c{row['p_id'] % 7}" if code == "shared" else f"c{number}"
    fill(database, rows)
    found = check(asked(columns=roles(code="insensitive")), database.engine)
    assert found.linked is None and found.holds


def test_one_row_a_person_has_nothing_to_link(database: Database) -> None:
    rows = [{"p_id": who, "age": 30, "zip": "1", "visit": "a", "code": f"{who}", "note": 0} for who in range(9)]
    fill(database, rows)
    found = check(asked(columns=roles(p_id=PSEUDONYM, code="insensitive")), database.engine)
    assert found.linked is None and found.holds


# Any panel ------------------------------------------------------------------------------------------------------------

ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "p_id": st.integers(1, 8),
            "age": st.sampled_from([30, 40, None]),
            "zip": st.sampled_from(["1", "2", None]),
            "visit": st.sampled_from(["a", "b", None]),
            "code": st.just("x"),
            "note": st.just(0),
        }
    ),
    min_size=1,
    max_size=24,
)


def by_definition(rows: list[dict[str, Any]]) -> dict[Any, list[int]]:
    """Persons by their rows, in plain Python."""
    own: dict[int, list[tuple[str, str]]] = {}
    for row in rows:
        own.setdefault(row["p_id"], []).append((str(row["age"]), str(row["zip"])))
    sets: dict[Any, list[int]] = {}
    for who, seen in own.items():
        sets.setdefault(tuple(sorted(seen)), []).append(who)
    return sets


def likeliest(whose: dict[Any, set[int]]) -> int:
    """Persons with the most frequent value, whatever the unknown ones have."""
    known = [len(who) for value, who in whose.items() if value is not None]
    return max(known, default=0) + len(whose.get(None, ()))


def twins(*visits: Any) -> list[dict[str, Any]]:
    """Two persons with the same two rows."""
    plain = {"age": 30, "zip": "1", "code": "x", "note": 0}
    return [plain | {"p_id": 1 + place // 2, "visit": visit} for place, visit in enumerate(visits)]


@pytest.mark.full_on_postgres
@settings(max_examples=examples(25))
@example(rows=twins("a", "a", None, "b"), k=2)
@example(rows=twins("a", "b", "b", "a"), k=2)
@given(rows=ROWS, k=st.integers(2, 3))
def test_sets_of_rows_of_any_panel(database: Database, rows: Any, k: int) -> None:
    database.table("t", TYPES, rows)
    models = [{"k_anonymity": {"k": k}}, {"alpha_k_anonymity": {"alpha": 0.6, "k": 2}}]
    found = check(asked(columns=roles(p_id=PSEUDONYM), models=models), database.engine)
    sets = by_definition(rows)
    counts = Counter(row["p_id"] for row in rows)
    if max(counts.values()) == 1:
        assert found.linked is None
        return
    told = linked(found)
    assert (told.persons, told.several) == (len(counts), sum(count > 1 for count in counts.values()))
    assert told.alone == sum(len(persons) == 1 for persons in sets.values())
    of_sets, in_row = told.checks
    assert (of_sets.classes, of_sets.measured) == (len(sets), min(len(persons) for persons in sets.values()))
    assert of_sets.broken_records == sum(len(persons) for persons in sets.values() if len(persons) < k)
    (in_any,) = told.any_row
    most_in_any, most_in_row, disclosed = 0.0, 0.0, 0
    for persons in sets.values():
        theirs = [row for row in rows if row["p_id"] in persons]
        whose: dict[Any, set[int]] = {}
        whose_at: dict[Any, dict[Any, set[int]]] = {}
        for row in theirs:
            whose.setdefault(row["visit"], set()).add(row["p_id"])
            place = whose_at.setdefault((row["age"], row["zip"]), {})
            place.setdefault(row["visit"], set()).add(row["p_id"])
        disclosed += len(persons) if max(map(len, whose.values())) == len(persons) else 0
        most_in_any = max(most_in_any, likeliest(whose) / len(persons))
        most_in_row = max(most_in_row, *(likeliest(at) / len(persons) for at in whose_at.values()))
    assert in_any.measured == pytest.approx(min(most_in_any, 1))
    assert in_row.measured == pytest.approx(min(most_in_row, 1))
    assert told.disclosed == {"visit": disclosed}


@settings(max_examples=examples(10))
@given(rows=ROWS)
def test_where_nulls_match_nothing_a_row_with_one_is_a_set_of_its_own(database: Database, rows: Any) -> None:
    database.table("t", TYPES, rows)
    models = [{"k_anonymity": {"k": 2}}]
    found = check(asked(columns=roles(p_id=PSEUDONYM), models=models, nulls="unique"), database.engine)
    if found.linked is None:
        assert max(Counter(row["p_id"] for row in rows).values()) == 1
        return
    alone = sum(
        len(persons) == 1 or any("None" in row for row in rows_of)
        for rows_of, persons in by_definition(rows).items()
        for _ in (persons if any("None" in row for row in rows_of) else [0])
    )
    assert found.linked.alone == alone


def test_what_cannot_be_measured_on_sets_is_refused(database: Database) -> None:
    rows = [
        {"p_id": 10 * kind + who, "age": 20 + 10 * row, "zip": "1", "visit": "ab"[row], "code": "", "note": 0}
        for kind in range(2)
        for who in range(5)
        for row in range(2)
    ]
    database.table("t", TYPES, rows)
    models = [{"xy_anonymity": {"x": ["age"], "y": ["note"], "k": 2}}]
    columns = roles(p_id=PSEUDONYM)
    found = check(asked(columns=columns, models=models), database.engine)
    assert not found.holds and linked(found).not_measured == ("xy_anonymity",)
    assert check(
        asked(columns=columns, linked_rows="accept", models=[{"k_anonymity": {"k": 5}}]), database.engine
    ).holds


# Owners and their joined rows -----------------------------------------------------------------------------------------


def owners(database: Database, courses: dict[int, Any]) -> Policy:
    database.table("owners", {"id": "INTEGER"}, [{"id": who} for who in courses])
    taken = [{"id": who, "course": course} for who, every in courses.items() for course in every]
    database.table("courses", {"id": "INTEGER", "course": "TEXT"}, taken)
    written = {
        "source": {"table": "owners", "joins": [{"table": "courses", "on": "id"}]},
        "person": "id",
        "columns": {"id": "identifier", "course": "quasi_identifier"},
        "models": [{"multirelational_k_anonymity": {"k": 2}}],
        "release": {"table": "r"},
    }
    return parse(json.dumps(written))


@pytest.mark.full_on_postgres
def test_three_owners_with_two_courses_each_are_unique(database: Database) -> None:
    policy = owners(database, OWNERS)
    (found,) = check(policy, database.engine).checks
    assert (found.classes, found.measured, found.broken_records) == (3, 1, 3)
    database.run("DROP TABLE IF EXISTS r")
    with pytest.raises(PolicyError, match="too few owners share a whole set of rows") as refused:
        publish(policy, database.engine, workload=False)
    assert "the search compares single rows" in (refused.value.detail or "")
    assert database.engine.find(["r"]) is None


@pytest.mark.full_on_postgres
def test_owners_with_the_same_courses_are_published(database: Database) -> None:
    policy = owners(database, {1: ("Math", "Physics"), 2: ("Physics", "Math"), 3: ("Art",), 4: ("Art",)})
    (found,) = check(policy, database.engine).checks
    assert (found.classes, found.measured) == (2, 2)
    database.run("DROP TABLE IF EXISTS r")
    assert publish(policy, database.engine, workload=False).document["holds"]


def test_how_often_a_row_occurs_belongs_to_the_set(database: Database) -> None:
    (found,) = check(owners(database, {1: ("Math", "Math"), 2: ("Math",)}), database.engine).checks
    assert (found.classes, found.measured) == (2, 1)


# The examples ---------------------------------------------------------------------------------------------------------

EXAMPLES = ROOT / "examples"
SHOP = "SELECT customer_id, city, born // 10 AS born, month(ordered) AS month FROM customers NATURAL JOIN orders"
# The rows of each example, its person, and its quasi-identifiers.
PANELS = {
    "check": ("FROM read_csv('{examples}/check/visits.csv')", "patient", ["birth_year", "city"]),
    "gateway": (SHOP, "customer_id", ["city", "born", "month"]),
    "publish": ("SELECT left(patient_id, 6) AS panelist, zip, sex, disease FROM patients", "panelist", ["zip", "sex"]),
}


@pytest.mark.full
@pytest.mark.parametrize("example", sorted(PANELS))
def test_persons_of_the_examples_are_counted_by_sets_of_rows(example: str, tmp_path: Path) -> None:
    query, person, qids = PANELS[example]
    if example == "publish":
        generate(tmp_path / "data.duckdb", 10_000)
    elif example == "gateway":
        with duckdb.connect(tmp_path / "data.duckdb") as made:
            made.execute((EXAMPLES / "gateway" / "data.sql").read_text(encoding="utf-8"))
    with duckdb.connect(tmp_path / "data.duckdb") as made:
        made.execute(f"CREATE TABLE t AS {query.format(examples=EXAMPLES)}")
        frame = made.sql("FROM t").df()
    columns = dict.fromkeys(frame.columns, "insensitive") | dict.fromkeys(qids, "quasi_identifier")
    policy = asked(columns=columns | {person: PSEUDONYM}, person=person, models=[{"k_anonymity": {"k": 3}}])
    shared = sets_of(frame, person, qids)
    alone = sum(count == 1 for count in shared.values())
    engine = connect(str(tmp_path / "data.duckdb"))
    try:
        told = linked(check(policy, engine))
        assert (told.persons, told.alone, told.fewest) == (len(shared), alone, min(shared.values()))
        assert told.checks[0].broken_records == sum(count < 3 for count in shared.values())
        measured = risk(policy, engine)
        assert (measured.records, measured.counts) == (len(shared), "persons")
        assert measured.measures["sample_uniqueness"]["uniques"] == alone
        (found,) = attack(policy, engine, names=["linked_rows"]).attacks
        assert (found.before.targets, found.before.broken, found.before.counts) == (len(shared), alone, "persons")
    finally:
        engine.close()


# What people see ------------------------------------------------------------------------------------------------------

FILE = """
source: {{path: {path}}}
person: p_id
columns: {{p_id: {{role: identifier, pseudonym: true}}, age: quasi_identifier, zip: quasi_identifier, visit: sensitive}}
models: [k_anonymity: {{k: 5}}]
release: {{path: {out}}}
{more}
"""


def run(*args: str) -> Any:
    return CliRunner().invoke(main, list(args), env={"SQLANON_KEY": KEY}, terminal_width=200)


def written(folder: Path, more: str = "") -> Path:
    rows = frame_of(panel(600, 2_000))[["p_id", "age", "zip", "visit"]]
    rows.to_csv(folder / "panel.csv", index=False)
    policy = folder / "policy.yml"
    policy.write_text(FILE.format(path=folder / "panel.csv", out=folder / "out.csv", more=more), encoding="utf-8")
    return policy


def test_the_command_line_says_what_links_rows(tmp_path: Path) -> None:
    policy = written(tmp_path)
    checked = run("check", str(policy))
    assert checked.exit_code == 1
    assert "rows of a person are linked by column p_id: classes are persons with the same set of rows" in checked.output
    assert "of 600 persons have a set of rows that nobody else has" in checked.output
    assert "linked_rows: accept" in checked.output
    data = json.loads(run("check", str(policy), "--json").output)
    assert data["holds"] is False and data["linked"]["alone"] > 0 and data["linked"]["columns"] == ["p_id"]
    published = run("publish", str(policy))
    assert published.exit_code != 0 and "whole sets of rows single persons out" in published.output
    assert not (tmp_path / "out.csv").exists()


@pytest.mark.full
def test_the_command_line_says_what_was_accepted(tmp_path: Path) -> None:
    policy = written(tmp_path, "linked_rows: accept")
    published = run("publish", str(policy))
    assert published.exit_code == 0, published.output
    assert "of 600 persons have a set of rows that nobody else has" in published.output
    assert "holds for single rows, not for the sets of rows" in " ".join(published.output.split())
    checked = run("check", str(policy))
    assert checked.exit_code == 0 and "the policy accepts it: linked_rows: accept" in checked.output


def test_a_wrong_word_for_linked_rows_is_an_error() -> None:
    with pytest.raises(PolicyError, match="'linked_rows' cannot be 'yes'"):
        asked(linked_rows="yes")


# Risk and attacks -----------------------------------------------------------------------------------------------------


def published(database: Database, rows: list[dict[str, Any]], **more: Any) -> tuple[Policy, Source]:
    fill(database, rows)
    database.run("DROP TABLE IF EXISTS r")
    policy = asked(linked_rows="accept", **more)
    publish(policy, database.engine, secret=KEY, workload=False)
    return policy, Source(table="r")


def by_name(found: Attacks, name: str) -> Any:
    return next(item for item in found.attacks if item.name == name)


@pytest.mark.full_on_postgres
def test_risk_and_attacks_look_at_the_set_of_rows(database: Database) -> None:
    rows = panel(600, 2_000)
    policy, release = published(database, rows, columns=roles(p_id=PSEUDONYM))
    sets = sets_of(frame_of(rows), "p_id", ["age", "zip"])
    alone = sum(count == 1 for count in sets.values())
    few = sum(count < 5 for count in sets.values()) / 600
    measured = risk(policy, database.engine, release=release)
    assert (measured.records, measured.counts, measured.linked) == (600, "persons", ("p_id",))
    assert any("linked by column p_id" in note for note in measured.notes)
    assert measured.measures["sample_uniqueness"]["uniques"] == alone > 0
    prosecutor = measured.measures["prosecutor"]
    assert prosecutor["records_at_risk"] == pytest.approx(few)
    assert prosecutor["average"] == pytest.approx(sum(1 / count for count in sets.values()) / 600)
    found = attack(policy, database.engine, release=release, names=["linked_rows", "linkage", "homogeneity"])
    after = by_name(found, "linked_rows").after
    assert (after.targets, after.broken, after.counts, after.confidence) == (600, alone, "persons", 1)
    assert after.average == pytest.approx(prosecutor["average"])
    for name in ("linkage", "homogeneity"):
        for side in (by_name(found, name).before, by_name(found, name).after):
            assert (side.targets, side.counts) == (600, "persons")
    assert any("linked by p_id" in note for note in found.notes)


@pytest.mark.full_on_postgres
def test_an_attack_on_rows_that_another_column_links(database: Database) -> None:
    rows = panel(600, 2_000)
    policy, release = published(database, rows, columns=roles(code="insensitive"))
    alone = sum(count == 1 for count in sets_of(frame_of(rows), "p_id", ["age", "zip"]).values())
    found = attack(policy, database.engine, release=release, names=["linked_rows", "homogeneity"])
    after = by_name(found, "linked_rows").after
    assert (after.targets, after.broken) == (600, alone)
    # Persons are not in the release: what is counted there are rows, and they are called so.
    assert by_name(found, "homogeneity").after.counts == "rows"
    assert by_name(found, "homogeneity").before.counts == "persons"


@pytest.mark.full_on_postgres
def test_an_attack_where_nothing_links_rows_is_not_judged(database: Database) -> None:
    policy, release = published(database, panel(300, 1_000), columns=roles())
    found = attack(policy, database.engine, release=release, names=["linked_rows"])
    assert not found.attacks and found.not_judged == {"linked_rows": "no column links the rows of a person"}


@pytest.mark.full_on_postgres
def test_rows_that_were_generalized_and_left_out_are_found_as_sets(database: Database) -> None:
    """The attacker knows true ages; the release shows bands, and has left out the rows of a rare one."""
    rows = [
        {"p_id": 9 * kind + who, "age": 21 + kind + 10 * row + who % 3, "zip": "1", "visit": "a", "code": "", "note": 0}
        for kind in range(2)
        for who in range(6)
        for row in range(1 + (who > 2))
    ]
    rows.append({"p_id": 0, "age": 90, "zip": "1", "visit": "a", "code": "", "note": 0})
    bands = {"age": {"intervals": {"widths": [10]}}}
    policy, release = published(
        database, rows, columns=roles(p_id=PSEUDONYM), hierarchies=bands, suppression_limit=0.1,
        models=[{"k_anonymity": {"k": 3}}], algorithm="full_domain",
    )  # fmt: skip
    shown = pd.DataFrame(database.fetch("SELECT p_id, age, zip FROM r"), columns=["p_id", "age", "zip"])
    assert len(shown) == len(rows) - 1
    counts = sets_of(shown, "p_id", ["age", "zip"])
    after = by_name(attack(policy, database.engine, release=release, names=["linked_rows"]), "linked_rows").after
    assert (after.targets, after.broken) == (12, sum(count == 1 for count in counts.values()))
    assert after.confidence == pytest.approx(max(1 / count for count in counts.values()))


def test_persons_whose_rows_nothing_links_are_counted_once(database: Database) -> None:
    """Risk and attacks on single rows: a person counts by the row that is hidden least, not once a row."""
    rows = panel(300, 1_000)
    fill(database, rows)
    policy = asked(columns=roles())
    frame = frame_of(rows)
    sizes = frame.groupby(["age", "zip"])["p_id"].nunique().rename("size").reset_index()
    worst = frame.merge(sizes).groupby("p_id")["size"].min()
    measured = risk(policy, database.engine)
    assert (measured.records, measured.counts) == (300, "persons")
    assert measured.measures["prosecutor"]["average"] == pytest.approx((1 / worst).mean())
    assert measured.measures["sample_uniqueness"]["uniques"] == int((worst == 1).sum())
    (linkage,) = attack(policy, database.engine, names=["linkage"]).attacks
    assert (linkage.before.targets, linkage.before.counts) == (300, "persons")
    assert linkage.before.average == pytest.approx((1 / worst).mean())
    assert linkage.before.broken == int((worst == 1).sum())


def test_every_attack_tells_what_its_rows_are_about(database: Database) -> None:
    """The column that is added to a statement must be there: run each with it, over empty tables."""
    for name, columns in {**CANONICAL, **ATTACKED}.items():
        database.run(f"DROP TABLE IF EXISTS {name}")
        database.run(f"CREATE TABLE {name} ({columns})")
    told = {}
    for item in family("attacks").values():
        if item.makes or "requirement" in item.needs:
            continue
        tree = bind(item.sql, {param.name: 1 for param in item.params}, {})
        told[item.name] = add_unit(tree, UNITS)
        assert database.engine.query(tree) == []
    assert {name for name, unit in told.items() if unit} >= {"linkage", "attribute_linkage", "homogeneity", "skewness"}


@pytest.mark.full
def test_the_report_shows_what_was_accepted(database: Database) -> None:
    rows = panel(600, 2_000)
    policy, _ = published(database, rows, columns=roles(p_id=PSEUDONYM))
    document = report(policy, database.engine, explore=0, secret=KEY)
    alone = sum(count == 1 for count in sets_of(frame_of(rows), "p_id", ["age", "zip"]).values())
    assert document["risk"]["after"]["uniques"] == alone and document["risk"]["after"]["highest"] == 1
    page = render(document)
    assert "Several rows of a person" in page and "linked_rows: accept" in page
    assert f"{alone} of 600 persons have a set of rows that nobody else has" in page

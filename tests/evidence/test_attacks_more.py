"""Attacks across releases, from any columns and with a prior: against plain Python on both engines, and worked out."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import brute_attacks as brute
import pytest
from conftest import Database, examples
from hypothesis import given, settings
from hypothesis import strategies as st
from test_attacks import (
    COLUMNS,
    LABELS,
    Levels,
    Table,
    fits,
    levels,
    outcomes,
    people,
    persons,
    policy,
    released,
    same,
    with_values,
)
from test_attacks_worked import VIEWS, VIEWS_POLICY
from test_worked_examples import fill

from sqlanon.errors import PolicyError
from sqlanon.evidence.attacks import Outcome, attack
from sqlanon.policy import Source, parse

# Insertion ------------------------------------------------------------------------------------------------------------

FIRST = (
    "Professional | Female | Cancer\nProfessional | Female | Diabetes\nArtist | Male | Fever\nArtist | Male | Cancer"
)
SECOND = FIRST + "\nProfessional | Female | HIV"
RAW = """
    Engineer | Female | Cancer
    Engineer | Female | Diabetes
    Dancer   | Male   | Fever
    Dancer   | Male   | Cancer
    Lawyer   | Female | HIV
"""
PATIENTS = """
source: {table: t}
columns: {job: quasi_identifier, sex: quasi_identifier, disease: sensitive}
hierarchies:
  job: {tree: {tree: {ANY: {Professional: [Engineer, Lawyer], Artist: [Dancer, Writer]}}}}
models: [distinct_l_diversity: {l: 2}]
"""


@pytest.fixture
def patients(database: Database) -> Database:
    fill(database, "t", "job | sex | disease", RAW)
    fill(database, "r1", "job | sex | disease", FIRST)
    fill(database, "r2", "job | sex | disease", SECOND)
    return database


def test_alice_who_is_new_has_hiv(patients: Database) -> None:
    """Fung et al. 2010, example 6.3: alone, the second release leaves Alice three diseases."""
    alice = Source(query="SELECT 'Lawyer' AS job, 'Female' AS sex")
    both = {"release": Source(table="r2"), "other": Source(table="r1")}
    for external in (alice, None):
        found = attack(parse(PATIENTS), patients.engine, names=["insertion"], external=external, **both)
        assert found.attacks[0].after == Outcome(1, 1, 1.0, 1.0)
    (alone,) = attack(parse(PATIENTS), patients.engine, names=["attribute_linkage"], external=alice, **both).attacks
    assert alone.after == Outcome(1, 0, pytest.approx(1 / 3), pytest.approx(1 / 3))


@pytest.mark.full_on_postgres
def test_where_nobody_is_new(patients: Database) -> None:
    """The same release twice has no newcomer; of one who is said to be new all records stay possible."""
    both = {"release": Source(table="r2"), "other": Source(table="r2")}
    found = attack(parse(PATIENTS), patients.engine, names=["insertion"], **both)
    assert found.attacks[0].after == Outcome(0, 0, None, None)
    alice = Source(query="SELECT 'Lawyer' AS job, 'Female' AS sex")
    found = attack(parse(PATIENTS), patients.engine, names=["insertion"], external=alice, **both)
    assert found.attacks[0].after == Outcome(1, 0, pytest.approx(1 / 3), pytest.approx(1 / 3))


def test_releases_of_other_columns_are_not_compared(patients: Database) -> None:
    both = {"release": Source(table="r2"), "other": Source(query="SELECT job, disease FROM r1")}
    (found,) = attack(parse(PATIENTS), patients.engine, names=["insertion"], **both).attacks
    assert found.after is None and found.not_judged == "the releases do not show the same quasi-identifiers"


@pytest.mark.full
@pytest.mark.full_on_postgres
@given(table=persons, later=persons, chosen=levels, again=levels, listed=st.booleans())
@settings(max_examples=examples(5))
def test_newcomers(database: Database, table: Table, later: Table, chosen: Levels, again: Levels, listed: bool) -> None:
    everybody = table + later
    database.table("t", COLUMNS, everybody)
    first, second = released(table, chosen), released(everybody, again)
    database.table("r1", LABELS, first)
    database.table("r2", LABELS, second)
    database.table("new", COLUMNS, later)
    given_sources = {"release": Source(table="r2"), "other": Source(table="r1")}
    if listed:
        given_sources["external"] = Source(table="new")
    found = outcomes(attack(policy(), database.engine, names=["insertion"], **given_sources))
    wanted = brute.insertion(
        people(later) if listed else None, with_values(first, "s"), with_values(second, "s"), fits, people(everybody)
    )
    same(found["insertion", "s"][1], wanted)


# Joined views ---------------------------------------------------------------------------------------------------------


def test_30_and_us_tell_cancer(database: Database) -> None:
    """Fung et al. 2010, example 6.1: each birthplace has two diseases but the UK; joined by the job all are known."""
    fill(database, "t", "age | job | class | birthplace | disease", VIEWS, {"age": "INTEGER"})
    views = {
        "release": Source(query="SELECT age, job, class FROM t"),
        "other": Source(query="SELECT job, birthplace, disease FROM t"),
    }
    policy = VIEWS_POLICY
    found = attack(parse(policy), database.engine, names=["joined_values", "homogeneity"], **views)
    (joined,) = [item for item in found.attacks if item.name == "joined_values"]
    assert joined.after == Outcome(6, 6, 1.0, 1.0)
    us = views | {"release": Source(query="SELECT age, job, class FROM t WHERE age = 30")}
    (joined,) = attack(parse(policy), database.engine, names=["joined_values"], **us).attacks
    assert joined.after == Outcome(2, 2, 1.0, 1.0)


@given(
    ours=st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from("xyz")), min_size=1, max_size=8),
    theirs=st.lists(
        st.tuples(st.tuples(st.sampled_from("abc"), st.sampled_from("pq")), st.sampled_from(["flu", "hiv", None])),
        min_size=1,
        max_size=8,
    ),
)
@settings(max_examples=examples(5))
def test_values_of_a_join(
    database: Database, ours: list[tuple[str, str]], theirs: list[tuple[tuple[str, str], str | None]]
) -> None:
    """Two views that need not be of the same rows."""
    text = dict.fromkeys(("j", "x", "y", "s"), "TEXT")
    whole = [{"j": j, "x": x, "y": "p", "s": "flu"} for j, x in ours]
    whole += [{"j": j, "x": "x", "y": y, "s": s} for (j, y), s in theirs]
    database.table("t", text, whole)
    database.table("v1", {"j": "TEXT", "x": "TEXT"}, [{"j": j, "x": x} for j, x in ours])
    database.table("v2", {"j": "TEXT", "y": "TEXT", "s": "TEXT"}, [{"j": j, "y": y, "s": s} for (j, y), s in theirs])
    asked = parse(
        "source: {table: t}\ncolumns: {j: insensitive, x: quasi_identifier, y: quasi_identifier, s: sensitive}\n"
        "models: [k_anonymity: {k: 2}]"
    )
    both = {"release": Source(table="v1"), "other": Source(table="v2")}
    (found,) = attack(asked, database.engine, names=["joined_values"], **both).attacks
    wanted = brute.joined_values(ours, theirs, lambda mine, other: mine[0] == other[0])
    conclusions = [(sure, sure == 1) for n, sure in wanted.values() for _ in range(n)]
    same(found.after, conclusions)


# Freeform -------------------------------------------------------------------------------------------------------------


@pytest.mark.full
@given(table=persons, chosen=levels, listed=st.booleans())
@settings(max_examples=examples(5))
def test_any_columns_tell_a_value(database: Database, table: Table, chosen: Levels, listed: bool) -> None:
    shown = released(table, chosen)
    database.table("t", COLUMNS, table)
    database.table("r", LABELS, shown)
    asked = policy()
    secret: dict[int, set[Any]] = {}
    if listed:
        values = "{s: [hiv, ebola], job: [lawyer]}"
        text = f"ff_anonymity: {{h: 0.5, sensitive_values: {values}}}"
        asked = parse(POLICY_TEXT.replace("k_anonymity: {k: 2}", text))
        secret = {2: {"hiv", "ebola"}, 0: {"lawyer"}}
    found = outcomes(attack(asked, database.engine, release=Source(table="r"), names=["freeform"]))
    for side, rows in enumerate((table, shown)):
        plain = [(row["job"], row["age"], row["s"], row["n"]) for row in rows]
        same(found["freeform", "s"][side], brute.freeform(plain, 2, secret))


POLICY_TEXT = """
source: {table: t}
columns: {job: quasi_identifier, age: quasi_identifier, s: sensitive, n: sensitive}
hierarchies:
  job: {tree: {tree: {"*": {technical: [engineer], office: [lawyer, clerk]}}}}
  age: {intervals: {widths: [10]}}
  s: {tree: {tree: {"*": {lungs: [flu, cold], virus: [hiv, ebola]}}}}
models: [k_anonymity: {k: 2}]
"""


def test_a_sensitive_column_tells_another(duck: Database) -> None:
    """All jobs and ages are alike, and each number goes with one disease: only the freeform attack sees it."""
    table = [{"job": "clerk", "age": 30, "s": s, "n": n} for s, n in (("flu", 1.0), ("hiv", 2.0)) for _ in range(5)]
    duck.table("t", COLUMNS, table)
    found = outcomes(attack(policy(), duck.engine, names=["freeform", "homogeneity"]))
    assert found["homogeneity", "s"][0].broken == 0
    assert found["freeform", "s"][0] == Outcome(10, 10, 1.0, 1.0)


def test_too_many_columns_are_not_judged(duck: Database) -> None:
    names = [f"q{place}" for place in range(11)]
    duck.table("t", dict.fromkeys((*names, "s"), "TEXT"), [dict.fromkeys((*names, "s"), "x")])
    roles = ", ".join(f"{name}: quasi_identifier" for name in names)
    asked = parse(f"source: {{table: t}}\ncolumns: {{{roles}, s: sensitive}}\nmodels: [k_anonymity: {{k: 2}}]")
    found = attack(asked, duck.engine, names=["freeform"])
    assert "too many sets" in found.not_judged["freeform"]


# A given prior --------------------------------------------------------------------------------------------------------

VALUES = ["flu", "cold", "hiv", "ebola", None]


@pytest.mark.full
@given(
    table=persons,
    chosen=levels,
    weights=st.lists(st.lists(st.integers(0, 3), min_size=5, max_size=5).filter(any), min_size=4, max_size=4),
    by_job=st.booleans(),
    ratio=st.sampled_from([0.0, 1.5]),
)
@settings(max_examples=examples(6))
def test_what_is_believed_after(
    database: Database, table: Table, chosen: Levels, weights: list[list[int]], by_job: bool, ratio: float
) -> None:
    jobs = ["engineer", "lawyer", "clerk", None]
    chances = {
        (job, value): Fraction(weight, sum(row))
        for job, row in zip(jobs, weights if by_job else weights[:1] * 4, strict=True)
        for value, weight in zip(VALUES, row, strict=True)
    }
    shown = released(table, chosen)
    database.table("t", COLUMNS, table)
    database.table("r", LABELS, shown)
    kinds = {"job": "TEXT", "s": "TEXT", "probability": "DOUBLE PRECISION"}
    rows = [{"job": job, "s": value, "probability": float(chance)} for (job, value), chance in chances.items()]
    if not by_job:
        kinds, rows = (
            {"s": "TEXT", "probability": "DOUBLE PRECISION"},
            [{"s": row["s"], "probability": row["probability"]} for row in rows if row["job"] == "clerk"],
        )
    database.table("believed", kinds, rows)
    given_sources = {"release": Source(table="r"), "prior": Source(table="believed")}
    asked = {"names": ["given_prior"], "gain": 0.3, "ratio": ratio}
    found = outcomes(attack(policy(), database.engine, **given_sources, **asked))  # type: ignore[arg-type]
    wanted = brute.given_prior(
        people(table), lambda own, value: chances[own[0], value], with_values(shown, "s"), fits, 0.3, ratio
    )
    after = found["given_prior", "s"][1]
    assert after is not None and (after.targets, after.broken) == (len(wanted), sum(broken for *_, broken in wanted))
    assert after.confidence is not None and after.confidence <= float(max(p for _, p, _ in wanted)) + 1e-9


@pytest.mark.full_on_postgres
def test_who_knows_that_women_have_no_prostate_cancer(database: Database) -> None:
    """Two of a class of four have it, and two of the four are men: the men do."""
    fill(database, "t", "sex | zip | disease", "m | 1 | prostate x 2\nf | 1 | flu x 2")
    fill(database, "r", "sex | zip | disease", "* | 1 | prostate x 2\n* | 1 | flu x 2")
    believed = "m | prostate | 0.5\nm | flu | 0.5\nf | flu | 1\nf | prostate | 0"
    fill(database, "p", "sex | disease | probability", believed, {"probability": "DOUBLE PRECISION"})
    asked = parse(
        "source: {table: t}\ncolumns: {sex: quasi_identifier, zip: quasi_identifier, disease: sensitive}\n"
        "models: [distinct_l_diversity: {l: 2}]"
    )
    both = {"release": Source(table="r"), "prior": Source(table="p")}
    (found,) = attack(asked, database.engine, names=["given_prior"], **both).attacks
    # Omega: the two records of prostate cancer go to men alone; flu to a man and a woman as 1/2 to 1.
    # A man: 2 * (1/2) / 1 = 1 against 2 * (1/2) / 3 = 1/3, hence 3/4; a woman: flu for sure, as before.
    assert found.after == Outcome(4, 2, 1.0, pytest.approx((0.75 + 1) / 2))
    same_for_all = Source(query="SELECT disease, 0.5 AS probability FROM (SELECT DISTINCT disease FROM t) AS d")
    (plain,) = attack(
        asked, database.engine, names=["given_prior"], release=Source(table="r"), prior=same_for_all
    ).attacks
    assert plain.after == Outcome(4, 0, 0.5, 0.5) and plain.before == Outcome(4, 4, 1.0, 1.0)


@pytest.mark.parametrize(
    ("prior", "message"),
    [
        ("SELECT s, 0.5 AS probability FROM t", "add up to 1"),
        ("SELECT s, 1.5 - 0.5 * n AS probability FROM t", "add up to 1"),
        ("SELECT s, CAST(NULL AS DOUBLE PRECISION) AS probability FROM t", "add up to 1"),
        ("SELECT 'nobody' AS job, s, 0.5 AS probability FROM t", "add up to 1"),
    ],
)
def test_a_prior_that_is_none_is_refused(duck: Database, prior: str, message: str) -> None:
    duck.table(
        "t",
        COLUMNS,
        [{"job": "clerk", "age": 1, "s": s, "n": n} for s, n in (("flu", 1.0), ("hiv", 4.0), ("cold", 1.0))],
    )
    with pytest.raises(PolicyError, match=message) as error:
        attack(policy(), duck.engine, prior=Source(query=prior), names=["given_prior"])
    assert "flu" not in str(error.value)
    told = attack(policy(), duck.engine, prior=Source(query="SELECT s FROM t"), names=["given_prior"]).not_judged
    assert "probability" in told["given_prior of s"]

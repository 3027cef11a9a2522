"""Attacks on releases that take sensitive values apart from their rows, against all ways to put them together again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import brute_attacks as brute
import duckdb
import pytest
from click.testing import CliRunner
from conftest import Database, examples
from hypothesis import given, settings
from hypothesis import strategies as st

from sqlanon.cli import main
from sqlanon.evidence.attacks import Attack, Outcome, attack
from sqlanon.policy import Policy, Source, parse

POLICY = """
source: {table: t}
columns: {job: quasi_identifier, age: quasi_identifier, s: sensitive}
models: [distinct_l_diversity: {l: 2}]
algorithm: %s
release: {table: r}
"""
ANATOMY, SLICING = "{anatomy: {l: 2}}", "{slicing: {l: 2, parts: [[age], [job, s]]}}"
GROUPING = "{k_e_grouping: {k: 2, e: 1}}"
TEXT = {"job": "TEXT", "age": "TEXT", "s": "TEXT"}
buckets = st.lists(
    st.lists(
        st.tuples(st.sampled_from("ab"), st.sampled_from(["20", "30", None]), st.sampled_from(["flu", "hiv", "gout"])),
        min_size=1,
        max_size=4,
    ),
    min_size=1,
    max_size=3,
)
Buckets = list[list[tuple[str, str | None, str]]]


def tried(database: Database, policy: Policy, name: str, **asked: Any) -> Attack:
    (found,) = attack(policy, database.engine, release=Source(table="r"), names=[name], **asked).attacks
    return found


def put(database: Database, given: Buckets, algorithm: str) -> list[tuple[str, str | None, str]]:
    """The rows, and their release; a shuffled part goes in the reverse order, bucket by bucket."""
    rows = [row for bucket in given for row in bucket]
    database.table("t", TEXT, [dict(zip(TEXT, row, strict=True)) for row in rows])
    group = {"sqlanon_group": "BIGINT"}
    main: list[dict[str, Any]] = []
    values: list[dict[str, Any]] = []
    for number, bucket in enumerate(given):
        for (job, age, s), (other, _, value) in zip(bucket, reversed(bucket), strict=True):
            shown = {"sqlanon_group": number, "job": job, "age": age}
            if algorithm == SLICING:
                shown |= {"job": other, "s": value}
            main.append(shown)
            values.append({"sqlanon_group": number, "s": s, "records": 1})
    database.table("r", {**group, **(TEXT if algorithm == SLICING else {"job": "TEXT", "age": "TEXT"})}, main)
    database.table("r_sensitive", {**group, "s": "TEXT", "records": "BIGINT"}, values)
    return rows


@pytest.mark.full
@given(table=buckets, algorithm=st.sampled_from([ANATOMY, SLICING]), rounds=st.integers(0, 3))
@settings(max_examples=examples(6))
def test_all_ways_to_put_parts_together(database: Database, table: Buckets, algorithm: str, rounds: int) -> None:
    rows = put(database, table, algorithm)
    policy = parse(POLICY % algorithm)
    sliced = algorithm == SLICING
    shown = [
        (number, (age,) if sliced else (job, age), (job,) if sliced else (), s)
        for number, bucket in enumerate(table)
        for job, age, s in bucket
    ]
    known = [(age, job) if sliced else (job, age) for job, age, _ in rows]
    shares = brute.apart(known, shown)
    found = tried(database, policy, "attribute_linkage").after
    sure = [max(own.values()) for own in shares]
    assert found is not None and found.targets == len(rows)
    assert found.broken == sum(part == 1 for part in sure)
    assert found.confidence == pytest.approx(float(max(sure))) and found.average == pytest.approx(
        float(sum(sure) / len(sure))
    )
    learned = brute.learned(known, shares, [s for *_, s in rows], rounds)
    found = tried(database, policy, "definetti", rounds=rounds, certainty=0.7).after
    assert found is not None and found.broken == sum(part >= 0.7 - 1e-9 for part in learned)
    assert found.average == pytest.approx(sum(learned) / len(learned), abs=1e-6)


def pairs(ages: int, copies: int) -> Buckets:
    """Groups of a clerk with the flu and a lawyer with HIV; a third of them are two clerks, with the flu and gout."""
    mixed = [[("clerk", str(20 + age), "flu"), ("lawyer", str(20 + age), "hiv")] for age in range(2 * ages)]
    alike = [[("clerk", str(60 + age), "flu"), ("clerk", str(60 + age), "gout")] for age in range(ages)]
    return [bucket for bucket in (*mixed, *alike) for _ in range(copies)]


@pytest.mark.full
@pytest.mark.full_on_postgres
def test_definetti_learns_from_groups_that_are_diverse(database: Database) -> None:
    """Every group has two diseases, and they go with the job all over the table. Of thirty ages with a group each,
    naive Bayes ends at 0.86 and 0.74, however many rounds it takes: a count of two, one higher than it is, tells
    little. So nobody is as sure as 0.9 here; what is learned is that of the brute force, to the sixth digit."""
    rows = put(database, pairs(10, 1), ANATOMY)
    policy = parse(POLICY % ANATOMY)
    assert tried(database, policy, "homogeneity").after == Outcome(60, 0, 0.5, 0.5)
    assert tried(database, policy, "attribute_linkage").after == Outcome(60, 0, 0.5, 0.5)
    wanted = learned_by_hand(pairs(10, 1), 20)
    assert sorted({round(sure, 4) for sure in wanted}) == [0.3454, 0.6546, 0.74, 0.8557]
    for certainty, broken in ((0.9, 0), (0.85, 20), (0.7, 40)):  # the lawyers, then the clerks of the mixed groups
        learned = tried(database, policy, "definetti", rounds=20, certainty=certainty).after
        assert learned is not None and (learned.targets, learned.broken) == (60, broken)
        assert learned.confidence == pytest.approx(max(wanted), abs=1e-6)
        assert learned.average == pytest.approx(sum(wanted) / len(rows), abs=1e-6)
    assert max(learned_by_hand(pairs(10, 1), 200)) < 0.87
    assert tried(database, policy, "linkage").after == tried(database, policy, "linkage").before


@pytest.mark.full_on_postgres
def test_definetti_is_sure_by_default_where_groups_are_many(database: Database) -> None:
    """The same with sixteen groups of an age, as sure and in as many rounds as the attack is by default: who is one of
    two clerks has the flu with 0.93, and not gout."""
    put(database, pairs(2, 16), ANATOMY)
    wanted = learned_by_hand(pairs(2, 16), 5)
    learned = tried(database, parse(POLICY % ANATOMY), "definetti").after
    assert learned is not None and (learned.targets, learned.broken) == (192, 32)
    assert sum(sure >= 0.9 for sure in wanted) == 32 and max(wanted) == pytest.approx(0.9294, abs=1e-4)
    assert learned.confidence == pytest.approx(max(wanted), abs=1e-6)
    assert learned.average == pytest.approx(sum(wanted) / 192, abs=1e-6)


def learned_by_hand(table: Buckets, rounds: int) -> list[float]:
    """Of each row, how sure naive Bayes is of what it has."""
    rows = [(number, job, age, s) for number, bucket in enumerate(table) for job, age, s in bucket]
    known = [(job, age) for _, job, age, _ in rows]
    shares = brute.apart(known, [(number, (job, str(age)), (), s) for number, job, age, s in rows])
    return brute.learned(known, shares, [s for *_, s in rows], rounds)


@pytest.mark.full
def test_what_cannot_be_judged_on_parts(duck: Database) -> None:
    rows = [[("a", "20", "flu"), ("b", "30", "hiv")], [("a", "30", "hiv"), ("b", "20", "gout")]]
    for algorithm, reasons in (
        (ANATOMY, {"distance_linkage": "anatomy took sensitive values apart from their rows",
                   "freeform": "anatomy took sensitive values apart from their rows"}),
        (SLICING, {"linkage": "slicing took the quasi-identifiers of a row apart",
                   "homogeneity": "slicing shows 's' beside other columns: groups are not what it tells"}),
    ):  # fmt: skip
        put(duck, rows, algorithm)
        found = attack(parse(POLICY % algorithm), duck.engine, release=Source(table="r"))
        unjudged = {item.name: item.not_judged for item in found.attacks if item.after is None}
        assert reasons.items() <= unjudged.items()
        assert not [item for item in found.attacks if item.after is None and item.not_judged is None]
        judged = [item.after for item in found.attacks if item.name == "minimality"]
        assert judged == ([] if algorithm == SLICING else [Outcome(4, 0, 0.5, 0.5)])
        assert ("minimality" in found.not_judged) == (algorithm == SLICING)


@pytest.mark.full_on_postgres
def test_values_that_are_permuted_in_groups(database: Database) -> None:
    """A row of (k,e) grouping shows somebody's number: it must not be taken for that of the row."""
    database.table(
        "t", {"job": "TEXT", "age": "TEXT", "s": "INTEGER"},
        [{"job": "a", "age": str(20 + place), "s": place} for place in range(4)],
    )  # fmt: skip
    database.run(
        "CREATE TABLE r AS SELECT CAST(s / 2 AS BIGINT) AS sqlanon_group, job, age, s FROM t WHERE s IN (0, 2)"
    )
    database.run("DELETE FROM r")
    for group, age, s in ((0, 20, 1), (0, 21, 0), (1, 22, 3), (1, 23, 2)):
        database.run(f"INSERT INTO r VALUES ({group}, 'a', '{age}', {s})")
    policy = parse(POLICY.replace("distinct_l_diversity: {l: 2}", "k_e_anonymity: {k: 2, e: 1}") % GROUPING)
    for name in ("homogeneity", "attribute_linkage", "definetti"):
        assert tried(database, policy, name, rounds=0).after == Outcome(4, 0, 0.5, 0.5), name


@pytest.mark.full
@pytest.mark.parametrize("algorithm", [ANATOMY, SLICING])
def test_what_is_published_is_attacked(tmp_path: Path, algorithm: str) -> None:
    file, policy = tmp_path / "a.duckdb", tmp_path / "p.yml"
    with duckdb.connect(str(file)) as connection:
        connection.execute(
            "CREATE TABLE t AS SELECT ['a', 'b', 'c'][1 + i % 3] AS job, 20 + i * 7 % 50 AS age, "
            "['flu', 'hiv', 'gout', 'cold'][1 + i % 4] AS s FROM range(60) AS r(i)"
        )
    policy.write_text((POLICY % algorithm).replace("{table: t}", f"{{database: {file}, table: t}}"))
    environment = {"SQLANON_KEY": "x" * 32}
    done = CliRunner().invoke(main, ["publish", str(policy), "--no-workload"], env=environment)
    assert done.exit_code == 0, done.output
    names = ["--attack", "definetti", "--attack", "attribute_linkage", "--attack", "distance_linkage"]
    found = json.loads(CliRunner().invoke(main, ["attack", str(policy), "--json", *names]).output)
    after = {item["name"]: (item["after"] or {}).get("confidence") for item in found["attacks"]}
    assert after["attribute_linkage"] <= 0.5 + 1e-9 and after["definetti"] > 0 and after["distance_linkage"] is None

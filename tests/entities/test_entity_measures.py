"""Risk, loss and attacks where persons are all their rows, against plain Counters; and the commands that print them."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import brute_entities as oracle
import duckdb
import pytest
from click.testing import CliRunner
from conftest import Database, examples
from hypothesis import given, settings
from hypothesis import strategies as st
from test_publish_entities import JOINED, PATHS, TYPES, asked, dicts, put_trees, released, tables, trees

from sqlanon.cli import main
from sqlanon.errors import NotReleased, PolicyError
from sqlanon.evidence.attacks import attack
from sqlanon.evidence.loss import loss
from sqlanon.evidence.risk import risk
from sqlanon.policy import Source, parse
from sqlanon.release import publish

K2 = [{"k_anonymity": {"k": 2}}]
KEY = "a secret of more than sixteen characters"


def shares(rows: list[dict[str, Any]]) -> dict[str, float]:
    """Persons whom nobody else equals in all rows, in one row, or in how many rows they have."""
    crowd = oracle.sizes(rows, "p", ["a", "b"])
    owners: dict[Any, set[Any]] = {}
    for item in rows:
        owners.setdefault((item["a"], item["b"]), set()).add(item["p"])
    alone = {owner for found in owners.values() if len(found) == 1 for owner in found}
    numbers = Counter(item["p"] for item in rows)
    alike = Counter(numbers.values())
    single = {owner for owner, number in numbers.items() if alike[number] == 1}
    whole = len(crowd)
    unique = sum(size == 1 for size in crowd.values())
    return {"by_all_rows": unique / whole, "by_one_row": len(alone) / whole, "by_number": len(single) / whole}


@pytest.mark.full_on_postgres
@settings(max_examples=examples(30))
@given(rows=tables)
def test_risks_of_persons_by_all_their_rows(database: Database, rows: list[dict[str, Any]]) -> None:
    database.table("t", TYPES, rows)
    found = risk(asked("entity_levels", 0.0, K2), database.engine)
    crowd = oracle.sizes(rows, "p", ["a", "b"])
    assert found.measures["known_persons"] == pytest.approx(shares(rows))
    assert (found.records, found.counts) == (len(crowd), "persons")
    assert found.classes == len(set(oracle.signatures(rows, "p", ["a", "b"]).values()))
    assert found.measures["prosecutor"]["highest"] == pytest.approx(1 / min(crowd.values()))
    assert found.measures["prosecutor"]["average"] == pytest.approx(sum(1 / n for n in crowd.values()) / len(crowd))


@pytest.mark.full_on_postgres
@settings(max_examples=examples(20))
@given(made=trees())
def test_risks_of_trees(database: Database, made: Any) -> None:
    put_trees(database, made)
    persons, visits, drugs = made
    found = risk(asked("entity_levels", 0.0, K2, **JOINED), database.engine)
    below = ((visits, ["b"], [((drugs, ["d"], []), "v", "vid")]), "id", "pid")
    crowd = Counter(oracle.tree_signatures(persons, "id", ["a"], [below]).values())
    assert found.classes == len(crowd)
    assert found.measures["sample_uniqueness"]["uniques"] == sum(size == 1 for size in crowd.values())


@pytest.mark.full_on_postgres
@settings(max_examples=examples(30))
@given(rows=tables, algorithm=st.sampled_from(["entity_levels", "entity_clusters"]))
def test_loss_is_read_off_a_release(database: Database, rows: list[dict[str, Any]], algorithm: str) -> None:
    """The loss of the plan, and one that is counted from the labels alone."""
    database.table("t", TYPES, rows)
    for name in ("r", "sqlanon_releases"):
        database.run(f"DROP TABLE IF EXISTS {name}")
    policy = asked(algorithm, 0.7, K2)
    try:
        made = publish(policy, database.engine, workload=False)
    except NotReleased:
        return
    found = loss(policy, database.engine, Source(table="r"))
    assert found.metrics["ncp"] == pytest.approx(made.plan.loss)
    assert (found.records, found.suppressed) == (len(rows), made.plan.suppressed)
    shown = dicts(released(database))
    for name in "ab":
        values = [value for value in PATHS[name] if value is not None]
        lost = float(len(rows) - len(shown))
        for item in shown:
            covered = sum(item[name] in PATHS[name][value] for value in values) if item[name] is not None else 1
            lost += (covered - 1) / (len(values) - 1)
        assert found.by_attribute[name] == pytest.approx(lost / len(rows))


@pytest.mark.full_on_postgres
def test_an_attacker_who_knows_all_rows_finds_nobody(database: Database) -> None:
    """Of a person who is suppressed they find nothing, and of others k candidates at least."""
    rows = [
        {"p": p, "a": "123"[p % 3], "b": "x1", "s": "uvw"[i], "n": 9 * p + i}
        for p in range(30)
        for i in range(1 + p % 2)
    ]
    rows += [{"p": 99, "a": a, "b": "y1", "s": "u", "n": 900 + i} for i, a in enumerate("123")]
    database.table("t", TYPES, rows)
    for name in ("r", "sqlanon_releases"):
        database.run(f"DROP TABLE IF EXISTS {name}")
    policy = asked("entity_levels", 0.2, [{"k_anonymity": {"k": 5}}])
    made = publish(policy, database.engine, workload=False)
    (level,) = made.plan.passes
    known = oracle.sizes(rows, "p", ["a", "b"])
    shown = oracle.sizes(oracle.generalized(rows, level, {name: PATHS[name] for name in "ab"}), "p", ["a", "b"])
    (tried,) = attack(policy, database.engine, release=Source(table="r"), names=["linked_rows"]).attacks
    assert tried.before.broken == sum(size == 1 for size in known.values()) == 1
    assert tried.after is not None and tried.after.broken == 0
    kept = {owner: size for owner, size in shown.items() if size >= 5}
    assert 99 not in kept
    assert tried.after.confidence == pytest.approx(1 / min(kept.values()))
    assert tried.after.average == pytest.approx(sum(1 / size for size in kept.values()) / len(known))


def test_what_is_not_measured_is_refused(duck: Database) -> None:
    duck.table("t", TYPES, [{"p": 1, "a": "1", "b": "x1", "s": "u", "n": 0}])
    policy = asked("entity_levels", 0.0, K2)
    with pytest.raises(PolicyError, match="persons are entities here"):
        risk(policy, duck.engine, sampling_fraction=0.1)


@pytest.mark.full_on_postgres
def test_truncation_makes_long_histories_alike(database: Database) -> None:
    rows = [{"p": p, "a": "1", "b": "x1", "s": "u", "n": i} for p in range(1, 9) for i in range(p)]
    database.table("t", TYPES, rows)
    for name in ("r", "sqlanon_releases"):
        database.run(f"DROP TABLE IF EXISTS {name}")
    with pytest.raises(NotReleased, match="no generalization was found"):
        publish(asked("entity_levels", 0.1, K2), database.engine)
    policy = asked("entity_levels", 0.1, K2, transformations=[{"truncation": {"rows": 2, "by": "n"}}])
    made = publish(policy, database.engine, secret=KEY, workload=False)
    assert (made.plan.records, made.plan.suppressed) == (15, 1)  # the person with a single row
    latest = Counter(item["n"] for item in dicts(released(database)))
    assert latest == {i: (1 if i in (0, 7) else 2) for i in range(8)}


def test_policies_say_what_entities_are() -> None:
    def refused(**changed: Any) -> str:
        with pytest.raises(PolicyError) as error:
            asked(**{"algorithm": "entity_levels", "limit": 0.0, "models": K2, **changed})
        return f"{error.value.message} {error.value.detail or ''} {error.value.hint or ''}"

    assert "needs a column of the role quasi_identifier" in refused(columns={"p": "identifier"}, hierarchies={})
    assert "'history' cannot be combined with 'shape: entity'" in refused(history={"models": ["bcf_anonymity"]})
    assert "a signature is made of all quasi-identifiers" in refused(qids={"one": ["a"]})
    assert "k_map is not defined for 'shape: entity'" in refused(models=[{"k_map": {"k": 2}}])
    assert "mondrian does not protect 'shape: entity'" in refused(algorithm="mondrian")
    columns = {"p": {"role": "identifier", "pseudonym": True}, "a": "quasi_identifier", "b": "quasi_identifier"}
    assert "a fresh number stands in place of the person" in refused(columns=columns)
    nobody = {"source": {"table": "t"}, "shape": "entity", "columns": {"a": "quasi_identifier"}, "models": K2}
    with pytest.raises(PolicyError, match="needs a person column"):
        parse(json.dumps(nobody))


@pytest.mark.full
def test_commands_print_persons(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with duckdb.connect("d.duckdb") as database:
        database.execute(
            "CREATE TABLE t AS SELECT i // 2 AS p, 'x' AS a, CAST(i % 3 AS TEXT) AS s FROM range(40) AS r(i)"
        )
    policy = {
        "source": {"database": "d.duckdb", "table": "t"},
        "person": "p",
        "shape": "entity",
        "columns": {"p": "identifier", "a": "quasi_identifier", "s": "sensitive"},
        "models": [{"k_anonymity": {"k": 5}}, {"distinct_l_diversity": {"l": 3}}],
        "release": {"table": "r"},
    }
    Path("p.yml").write_text(json.dumps(policy), encoding="utf-8")
    for words, said in (
        (["check", "p.yml"], "holds   distinct_l_diversity of s in any row, l=3"),
        (["publish", "p.yml", "--report", "r.html"], "20 of 20 persons, 0 suppressed with all their rows"),
        (["check", "p.yml", "--release", "r"], "holds   distinct_l_diversity of s in a known row, l=3"),
        (["risk", "p.yml", "--release", "r"], "persons whom nobody else equals in all rows"),
        (["report", "p.yml", "--output", "again.html"], "wrote again.html"),
    ):
        result = CliRunner().invoke(main, words)
        assert result.exit_code == 0 and said in result.output, (words, result.output)
    for page in ("r.html", "again.html"):
        assert "Classes are persons with the same rows." in Path(page).read_text(encoding="utf-8")

"""Policies side by side: releases written aside and measured, on both engines; the command; the page."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import duckdb
import pytest
from click.testing import CliRunner, Result
from conftest import Database
from report_page import parse as read_page

from sqlanon.cli import main
from sqlanon.errors import PolicyError
from sqlanon.evidence.utility import Utility, utility
from sqlanon.policy import Policy, Source, parse
from sqlanon.policy.policy_variants import replace_value, vary_policy
from sqlanon.release import publish
from sqlanon.release.compare_policies import ORIGINAL, RELEASED, Compared, compare, with_best, with_loss
from sqlanon.report.comparison import render_comparison

KEY = "a key of the tests, long enough"
KINDS = {"id": "INTEGER", "age": "INTEGER", "job": "TEXT", "pay": "DOUBLE PRECISION", "ill": "TEXT"}
JOBS = ("cook", "baker", "nurse", "medic")


def people(count: int = 240) -> list[dict[str, Any]]:
    found = []
    for at in range(count):
        age = 20 + (at * 37) % 50
        pay = 900.0 + 31 * age + (at * 7919) % 500
        found.append({"id": at, "age": age, "job": JOBS[at % 4], "pay": pay, "ill": "yes" if at % 3 else "no"})
    return found


def policy(name: str = "p.yml", *, k: int = 5, **more: Any) -> Policy:
    bands = {"intervals": {"widths": [5, 10, 50], "min": 0, "max": 100}}
    roles = {"id": "identifier", "age": "quasi_identifier", "job": "quasi_identifier", "pay": "insensitive"}
    written: dict[str, Any] = {
        "source": {"table": "people"},
        "columns": roles | {"ill": "sensitive"},
        "hierarchies": {"age": bands, "job": {"groups": {"order": list(JOBS), "sizes": [2]}}},
        "models": [{"k_anonymity": {"k": k}}],
        "suppression_limit": 0.1,
    }
    return parse(json.dumps(written | more), name)


NOISE = [{"additive_noise": {"columns": ["pay"], "alpha": 0.2}}]


@pytest.mark.full
def test_more_privacy_costs_more(database: Database) -> None:
    database.table("people", KINDS, people())
    found = compare([policy(f"k{k}.yml", k=k) for k in (2, 10, 60)], database.engine)
    assert [item.policy for item in found] == ["k2.yml", "k10.yml", "k60.yml"]
    risks = [item.prosecutor["average"] for item in found]
    losses = [item.loss for item in found]
    assert risks[0] > risks[1] > risks[2] and losses[0] < losses[1] < losses[2]
    assert all(item.holds and item.refused is None and item.best for item in found)
    for item in found:
        assert item.utility.records == 240
        assert item.utility.by_attribute["pay"] == pytest.approx(1 - item.released / 240)  # rows that are left out
        assert item.score == pytest.approx((item.risk + item.loss) / 2)
        assert item.utility.intervals is not None  # age is a number, and a quasi-identifier
        assert item.risk == pytest.approx((item.prosecutor["average"] + item.utility.intervals.cells) / 2)
    names = database.engine.tables()
    assert not [name for name in names if name in (ORIGINAL, RELEASED)]


@pytest.mark.full
def test_methods_that_change_values(database: Database) -> None:
    database.table("people", KINDS, people())
    found = compare([policy("plain.yml"), policy("noise.yml", transformations=NOISE)], database.engine, secret=KEY)
    plain, noise = found
    assert noise.utility.by_attribute["pay"] > plain.utility.by_attribute["pay"]
    assert noise.utility.il1s > plain.utility.il1s
    # pay is protected by one of the policies, so that it counts for both: as it is, it is known exactly.
    assert noise.utility.intervals.cells < plain.utility.intervals.cells
    assert noise.risk < plain.risk and noise.loss > plain.loss


@pytest.mark.full_on_postgres
def test_a_policy_without_a_release_is_told_of(database: Database) -> None:
    database.table("people", KINDS, people(40))
    impossible = policy("all.yml", k=41)
    found = compare([impossible, policy(k=2)], database.engine)
    assert found[0].refused and found[0].risk is None and not found[0].best
    assert found[1].refused is None and found[1].best
    drawn = compare([policy(transformations=NOISE)], database.engine)[0]
    assert drawn.refused and "key of at least" in drawn.refused and "SQLANON_KEY" in drawn.refused


@pytest.mark.full
def test_a_column_that_one_leaves_out_is_lost(duck: Database) -> None:
    duck.table("people", KINDS, people())
    columns = {"id": "identifier", "age": "quasi_identifier", "job": "quasi_identifier", "pay": "identifier"}
    found = compare([policy("a.yml"), policy("b.yml", columns=columns | {"ill": "sensitive"})], duck.engine)
    assert "pay" not in found[1].utility.by_attribute
    shared = [found[1].utility.by_attribute[name] for name in ("age", "job", "ill")]
    assert found[1].loss == pytest.approx((sum(shared) + 1) / 4) and found[1].loss > found[0].loss


@pytest.mark.full
def test_algorithms_and_rows_that_are_kept(database: Database) -> None:
    database.table("people", KINDS, people())
    several = [
        policy("mondrian.yml", algorithm="mondrian"),
        policy("kept.yml", suppressed_rows="keep", k=9),
        policy("person.yml", person="id"),
        policy("sample.yml", transformations=[{"sampling": {"share": 0.5}}]),
    ]
    found = compare(several, database.engine, secret=KEY)
    assert [item.refused for item in found] == [None] * 4 and all(item.holds for item in found)
    assert found[0].algorithm == "mondrian" and found[1].released == 240
    assert found[0].utility.numbers == ("age", "pay")
    assert 60 < found[3].released < 180 and found[3].loss > 0.25


@pytest.mark.full
def test_what_is_measured_is_what_is_published(duck: Database) -> None:
    """The release aside has the rows of the one that is published."""
    duck.table("people", KINDS, people())
    asked = policy(transformations=NOISE, release={"table": "out"})
    found = compare([asked], duck.engine, secret=KEY)[0]
    done = publish(asked, duck.engine, secret=KEY, workload=False)
    assert done.document["released"] == found.released
    assert dict(done.document["loss"]) == pytest.approx(found.losses)
    shown = utility(asked, duck.engine, Source(table="out"))
    assert shown.probabilistic == pytest.approx(found.utility.probabilistic, abs=1e-9)
    assert shown.differences["means"].mae == pytest.approx(found.utility.differences["means"].mae)
    assert shown.propensity.pmse == pytest.approx(found.utility.propensity.pmse)


def point(name: str, risk: float | None, loss: float, *, holds: bool = True) -> Compared:
    useful = Utility(10, 10, (), (), by_attribute={"a": loss})
    return Compared(name, holds=holds, risk=risk, utility=useful)


def test_the_best_are_those_that_none_beats() -> None:
    given = [
        point("a", 0.1, 0.9),
        point("b", 0.5, 0.5),
        point("c", 0.5, 0.6),
        point("d", 0.9, 0.1),
        point("e", 0.1, 0.9),
    ]
    given += [point("broken", 0.0, 0.0, holds=False), point("none", None, 0.0)]
    found = with_best(with_loss(given))
    assert [item.policy for item in found if item.best] == ["a", "b", "d", "e"]
    assert found[2].score == pytest.approx(0.55)


@pytest.mark.full
def test_what_cannot_be_compared(duck: Database) -> None:
    duck.table("people", KINDS, people(20))
    duck.table("others", KINDS, people(20))
    with pytest.raises(PolicyError, match="no policy"):
        compare([], duck.engine)
    with pytest.raises(PolicyError, match="reads another source"):
        compare([policy(), policy("q.yml", source={"table": "others"})], duck.engine)
    with pytest.raises(PolicyError, match="'il' is not in the source"):
        compare([policy(k=2)], duck.engine, target="il")
    assert not [name for name in duck.engine.tables() if name in (ORIGINAL, RELEASED)]


# Variations ---------------------------------------------------------------------------------------------------------

WRITTEN = """
source: {database: people.duckdb, table: people}
columns: {id: identifier, age: quasi_identifier, job: quasi_identifier, pay: insensitive, ill: sensitive}
models:
  - k_anonymity: {k: 2}
  - distinct_l_diversity: {l: 2}
suppression_limit: 0.2
"""


def test_variations_of_a_policy(tmp_path: Path) -> None:
    file = tmp_path / "p.yml"
    file.write_text(WRITTEN)
    found = vary_policy(file, ["models.k_anonymity.k=3,9", "suppression_limit=0,0.5", "algorithm=mondrian"])
    assert [(item.models[0].params["k"], item.suppression_limit) for item in found] == [
        (3, 0),
        (3, 0.5),
        (9, 0),
        (9, 0.5),
    ]
    assert found[1].name == "p.yml k=3 suppression_limit=0.5 algorithm=mondrian"
    assert {item.algorithm.name for item in found if item.algorithm} == {"mondrian"} and found[0].base == tmp_path
    assert replace_value({"a": [1, 2]}, "a.1", "7") == {"a": [1, 7]}


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ("models.k_anonymity.k", "does not say what to vary"),
        ("=3", "does not say what to vary"),
        ("models.k_anonymity.k=2,,3", "does not say what to vary"),
        ("models.k_anonimity.k=2", "there is no 'k_anonimity'"),
        ("model.k_anonymity.k=2", "there is no 'model'"),
        ("suppression_limit.x=2", "there is no 'x'"),
        ("models.9.k=2", "there is no '9'"),
        ("models.k_anonymity.k=1", "k_anonymity"),  # which the policy itself refuses
        ("models.k_anonymity.q=3", "has no parameter 'q'"),
        ("suppression_limit=" + ",".join(map(str, range(101))), "more than 100 policies"),
        ("models.k_anonymity.k=[", "cannot be put"),
    ],
)
def test_variations_that_make_no_sense(tmp_path: Path, asked: str, message: str) -> None:
    file = tmp_path / "p.yml"
    file.write_text(WRITTEN)
    with pytest.raises(PolicyError, match=message):
        vary_policy(file, [asked])


# The command --------------------------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with duckdb.connect(str(tmp_path / "people.duckdb")) as connection:
        connection.execute("CREATE TABLE people (id INTEGER, age INTEGER, job TEXT, pay DOUBLE, ill TEXT)")
        connection.executemany("INSERT INTO people VALUES (?, ?, ?, ?, ?)", [list(row.values()) for row in people()])
    (tmp_path / "p.yml").write_text(WRITTEN)
    (tmp_path / "q.yml").write_text(WRITTEN.replace("k: 2", "k: 12"))
    return tmp_path


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, ["compare", *map(str, arguments)])


@pytest.mark.full
def test_the_table(folder: Path) -> None:
    done = run(folder / "p.yml", folder / "q.yml")
    assert done.exit_code == 0, done.output
    assert "people: 240 rows, 2 policies" in done.output
    first = next(line.split() for line in done.output.splitlines() if "p.yml" in line)
    assert first[:2] == ["*", "p.yml"] and first[3].endswith("%")
    assert "cook" not in done.output and "baker" not in done.output
    with duckdb.connect(str(folder / "people.duckdb"), read_only=True) as connection:
        assert connection.execute("SHOW TABLES").fetchall() == [("people",)]


@pytest.mark.full
def test_json_and_page(folder: Path) -> None:
    page = folder / "map.html"
    done = run(folder / "p.yml", "--vary", "models.k_anonymity.k=2,12,300", "--json", "--html", page)
    assert done.exit_code == 1, done.output  # no release of so few rows is 300-anonymous
    found = json.loads(done.output)
    assert [bool(item["refused"]) for item in found["policies"]] == [False, False, True]
    assert found["policies"][0]["utility"]["differences"]["means"]["mae"] >= 0
    text = page.read_text(encoding="utf-8")
    tree = read_page(text)
    assert len([node for node in tree.every("circle") if "mark" in (node.attributes["class"] or "")]) == 2
    assert "p.yml k=12" in tree.text and "no release" in tree.text and "<script" not in text
    assert {"map", "measures", "columns"} <= {node.attributes.get("id") for node in tree.every("section")}
    assert "cook" not in text and "baker" not in text


def test_the_page_of_odd_documents() -> None:
    hostile = "<script>alert(1)</script>"
    text = render_comparison({"source": hostile, "policies": [{"policy": hostile, "risk": "x", "loss": None}, 7]})
    assert "<script" not in text and "&lt;script&gt;" in text
    both = [{"policy": str(at), "risk": 0.0, "loss": 0.0, "best": True} for at in range(3)]
    assert "1, 2, 3" in read_page(render_comparison({"policies": both})).text
    assert "Comparison" in render_comparison({})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("people.duckdb",), "is no policy file"),
        (("p.yml", "--categories", "agee"), "'agee' is not in the source"),
        (("p.yml", "--vary", "k=3,4,"), "does not say what to vary"),
        (("p.yml", "missing.yml"), "missing.yml"),
        (("p.yml", "other.yml"), "different databases"),
    ],
)
def test_bad_arguments(folder: Path, arguments: tuple[str, ...], message: str) -> None:
    (folder / "other.yml").write_text(WRITTEN.replace("people.duckdb", "others.duckdb"))
    done = run(*(folder / name if name.endswith((".yml", ".duckdb")) else name for name in arguments))
    assert done.exit_code == 2 and message in done.output


@pytest.mark.full
def test_a_release_that_hides_all_is_the_worst_of_all(database: Database) -> None:
    """In all measures of loss, though nothing of what it shows is wrong."""
    database.table("people", KINDS, people())
    columns = {"id": "identifier", "age": "quasi_identifier", "job": "quasi_identifier", "ill": "sensitive"}
    hiding = {"columns": columns | {"pay": "identifier"}, "hierarchies": {}, "k": 240}
    found = compare([policy("shown.yml"), policy("hidden.yml", **hiding)], database.engine)
    shown, hidden = (item.utility for item in found)
    assert found[1].refused is None
    assert hidden.by_attribute["age"] == 1 and "pay" not in hidden.by_attribute
    assert hidden.il1s > 1 > shown.il1s and found[1].loss > found[0].loss

"""An attack that cannot judge a release says so, with the reason; it never shows a 0 that would look safe."""

from __future__ import annotations

import json
from pathlib import Path

import duckdb
import pytest
from click.testing import CliRunner
from conftest import Database
from report_page import parse as parse_page

from sqlanon.cli import main
from sqlanon.evidence.attacks import Attack, Attacks, attack
from sqlanon.families import family
from sqlanon.policy import Source, parse

COLUMNS = {"job": "TEXT", "age": "INTEGER", "s": "TEXT", "n": "DOUBLE PRECISION"}
ROWS = [
    {"job": job, "age": 20 + place, "s": "flu" if place % 3 else "hiv", "n": 100.0 * place}
    for place, job in enumerate(["clerk", "lawyer"] * 10)
]
POLICY = """
source: {table: t}
columns: {job: quasi_identifier, age: quasi_identifier, s: sensitive, n: sensitive}
models: [k_anonymity: {k: 2}]
"""
CHANGED = "transformations: [rounding: {columns: [%s], base: 10}]\n"


def fill(database: Database, name: str, add: dict[str, int]) -> None:
    rows = [{key: value + add[key] if key in add else value for key, value in row.items()} for row in ROWS]  # type: ignore[operator]
    database.table(name, COLUMNS, rows)


def by_name(found: Attacks) -> dict[tuple[str, str | None], Attack]:
    return {(item.name, item.attribute): item for item in found.attacks}


@pytest.mark.full
def test_values_that_were_changed_do_not_hide_anybody_from_a_join(database: Database) -> None:
    """All ages are three higher: a join finds nobody, which tells nothing of the attacker who looks for near ones."""
    fill(database, "t", {})
    fill(database, "r", {"age": 3})
    found = by_name(attack(parse(POLICY + CHANGED % "age"), database.engine, release=Source(table="r")))
    for name, attribute in (("linkage", None), ("attribute_linkage", "s"), ("definetti", "s")):
        item = found[name, attribute]
        assert item.after is None and item.before.broken == 20
        assert item.not_judged == "the release shows other values of 'age' than persons have"
    judged = found["distance_linkage", "s"]
    assert judged.after is not None and judged.not_judged is None


def test_who_is_known_by_what_was_not_changed_is_looked_up(database: Database) -> None:
    fill(database, "t", {})
    fill(database, "r", {"age": 3})
    listed = Source(query="SELECT job FROM t")
    given = {"release": Source(table="r"), "external": listed}
    found = by_name(attack(parse(POLICY + CHANGED % "age"), database.engine, names=["linkage"], **given))
    after = found["linkage", None].after
    assert after is not None and (after.targets, after.confidence) == (20, 0.1)


@pytest.mark.full
def test_sensitive_values_that_were_changed(database: Database) -> None:
    fill(database, "t", {})
    fill(database, "r", {"n": 1})
    found = attack(parse(POLICY + CHANGED % "n"), database.engine, release=Source(table="r"), epsilon=1.0)
    of_n = [item for item in found.attacks if item.attribute == "n"]
    assert {"homogeneity", "definetti", "distance_linkage", "proximity"} <= {item.name for item in of_n}
    assert all(item.after is None and "other values of 'n'" in (item.not_judged or "") for item in of_n)
    assert all(item.after is not None for item in found.attacks if item.attribute == "s")


def test_each_attack_is_judged_or_says_why_not(duck: Database) -> None:
    """Also for one of two sensitive columns: proximity is measured on numbers, and said not to be on names."""
    fill(duck, "t", {})
    for asked in ({}, {"epsilon": 1.0}, {"release": Source(table="t")}):
        found = attack(parse(POLICY), duck.engine, **asked)  # type: ignore[arg-type]
        for item in family("attacks").values():
            if item.makes:
                continue
            for attribute in ("s", "n") if "sensitive" in item.needs else (None,):
                tried = (item.name, attribute) in by_name(found)
                told = {item.name, f"{item.name} of {attribute}"} & set(found.not_judged)
                assert tried != bool(told), (item.name, attribute)
    found = attack(parse(POLICY), duck.engine, epsilon=1.0)
    assert found.not_judged["proximity of s"] == "it needs a sensitive column of numbers"


@pytest.mark.full
def test_a_view_that_lacks_the_sensitive_column(duck: Database) -> None:
    fill(duck, "t", {})
    views = {"release": Source(query="SELECT job, age FROM t"), "other": Source(query="SELECT job, s, n FROM t")}
    found = by_name(attack(parse(POLICY), duck.engine, **views))
    assert found["homogeneity", "s"].after is None
    assert found["homogeneity", "s"].not_judged == "the release does not show 's'"


@pytest.mark.parametrize("local", ["clerk", "office"])
def test_minimality_needs_one_level_for_each_column(duck: Database, local: str) -> None:
    """A release on several levels of a column is not judged; today's stand-in was another attack."""
    text = POLICY.replace(
        "models: [k_anonymity: {k: 2}]",
        'hierarchies: {job: {tree: {tree: {"*": {office: [clerk, lawyer]}}}}}\n'
        "models: [confidence_bounding: {value: hiv, h: 0.5, attribute: s}]",
    )
    fill(duck, "t", {})
    duck.run("CREATE TABLE r AS SELECT CASE WHEN age > 30 THEN 'office' ELSE job END AS job, age, s, n FROM t")
    duck.run("INSERT INTO t SELECT 'clerk', 21, 'flu', 1")
    duck.run(f"INSERT INTO r SELECT '{local}', 21, 'flu', 1")
    found = by_name(attack(parse(text), duck.engine, release=Source(table="r"), names=["minimality"]))
    item = found["minimality", "s"]
    assert item.after is None and item.not_judged is not None and "one level for each column" in item.not_judged


@pytest.mark.full
def test_console_json_and_report_say_not_judged(tmp_path: Path) -> None:
    file, policy, page = tmp_path / "a.duckdb", tmp_path / "p.yml", tmp_path / "report.html"
    with duckdb.connect(str(file)) as connection:
        connection.execute("CREATE TABLE t AS SELECT i AS id, 20 + i % 5 AS age, ['flu', 'hiv'][1 + i % 2] AS s "
                           "FROM range(40) AS r(i)")  # fmt: skip
    policy.write_text(
        f"source: {{database: {file}, table: t}}\n"
        "columns: {id: identifier, age: quasi_identifier, s: sensitive}\n"
        "transformations: [rounding: {columns: [age], base: 10}]\n"
        "models: [k_anonymity: {k: 2}]\nrelease: {table: r}\n"
    )
    done = CliRunner().invoke(main, ["publish", str(policy), "--no-workload"], env={"SQLANON_KEY": "x" * 32})
    assert done.exit_code == 0, done.output
    reason = "the release shows other values of 'age' than persons have"
    printed = CliRunner().invoke(main, ["attack", str(policy)]).output
    linkage = printed[printed.index("\nlinkage\n") :].splitlines()
    assert linkage[3] == f"  release not judged: {reason}"
    assert "not judged: membership: it needs an external table of persons" in printed
    found = json.loads(CliRunner().invoke(main, ["attack", str(policy), "--json"]).output)
    (item,) = [item for item in found["attacks"] if item["name"] == "linkage"]
    assert (item["after"], item["not_judged"]) == (None, reason)
    assert "membership" in found["not_judged"]
    made = CliRunner().invoke(main, ["report", str(policy), "-o", str(page), "--explore", "0"])
    assert made.exit_code == 0, made.output
    sections = {node.attributes.get("id"): node.text for node in parse_page(page.read_text()).every("section")}
    assert f"not judged{reason}" in sections["attacks"] and "Not judged" in sections["attacks"]

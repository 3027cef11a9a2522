"""The report of tables of statistics: it shows what the tables show, and tells no unsafe cell from one that helps."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from conftest import Database
from report_page import Node, parse

from sqlanon.cli import main
from sqlanon.engines import connect
from sqlanon.errors import PolicyError, SqlanonError
from sqlanon.policy.files import parse_statistics
from sqlanon.policy.statistics import StatisticsPolicy
from sqlanon.release.gather_table_report import table_report
from sqlanon.release.publish_statistics import publish_statistics
from sqlanon.report.tables import render_tables
from sqlanon.statistics import describe_release

TYPES = {"firm": "TEXT", "region": "TEXT", "branch": "TEXT", "size": "TEXT", "amount": "BIGINT"}
HOSTILE = "<script>alert(1)</script>"


def firms() -> list[dict[str, Any]]:
    """Four firms a cell, but one in two of them, which makes them unsafe."""
    rows: list[dict[str, Any]] = []
    for place, (region, branch, size) in enumerate(
        (region, branch, size) for region in ("N1", "N2", "S1", "S2") for branch in "abc" for size in "sl"
    ):
        for number in range(1 if place in (0, 9) else 4):
            rows.append({"firm": f"f{place}_{number}", "region": region, "branch": branch, "size": size,
                         "amount": 100 + 17 * place + number})  # fmt: skip
    return rows


def tables_policy(**statistics: Any) -> StatisticsPolicy:
    data = {
        "source": {"table": "firms"}, "release": {"table": "released"},
        "hierarchies": {"region": {"prefix": {"length": 2}}}, "statistics": statistics,
    }  # fmt: skip
    found = parse_statistics(json.dumps(data))
    assert found is not None
    return found


BY_SIZE = {"by": ["region", "size"], "of": "amount", "contributor": "firm", "rules": [{"minimum_frequency": {"n": 5}}]}
BY_ALL = {**BY_SIZE, "by": ["region", "branch", "size"], "rules": [{"minimum_frequency": {"n": 3}}]}


def reported(database: Database, policy: StatisticsPolicy, **given: Any) -> tuple[dict[str, Any], Node]:
    document = table_report(policy, database.engine, **given)
    text = render_tables(document)
    assert "<script" not in text
    return document, parse(text)


def maps_of(page: Node, place: int = 1) -> list[Node]:
    return page.with_id(f"table-{place}").with_class("cells")


def test_the_page_shows_what_the_tables_show(database: Database) -> None:
    database.table("firms", TYPES, firms())
    policy = tables_policy(t=BY_ALL)
    done = publish_statistics(policy, database.engine)
    document, page = reported(database, policy)
    rows = database.fetch("SELECT * FROM released")
    hidden = sum(row[-1] is None for row in rows)
    assert document["holds"] and hidden == done.document["suppressed"] > 2
    # Every cell of all maps is one of the table, hidden or with its value.
    drawn = [cell for each in maps_of(page) for cell in each.every("td")]
    assert len(drawn) == len(rows) == document["tables"][0]["cells"]
    signs = [cell for cell in drawn if cell.attributes["class"] == "hidden"]
    assert len(signs) == hidden
    titles = sorted(float(str(cell.attributes["title"]).replace(",", "")) for cell in drawn if cell not in signs)
    assert titles == sorted(float(row[-1]) for row in rows if row[-1] is not None)
    # A cell that is unsafe looks like one that helps.
    assert len({json.dumps([cell.text, sorted(cell.attributes.items())]) for cell in signs}) == 1
    # What is counted by level adds up to all.
    levels = document["tables"][0]["levels"]
    assert sum(level["cells"] for level in levels) == len(rows)
    assert sum(level["hidden"] for level in levels) == hidden
    assert not any("changed" in level for level in levels)
    assert "Holds" in page.with_id("verdict").text and "proven least" in page.with_id("verdict").text
    unsafe = done.document["statistics"]["unsafe"]
    assert page.with_id("attacks").text.count(f"0 of {unsafe}") == 3 and unsafe >= 2
    criteria = {item["title"]: item["state"] for item in document["verdicts"][0]["criteria"]}
    assert criteria == {
        "Rules of the policy": "met", "Attack from outside": "met", "Attack by contributors": "met",
        "Contributors": "not met", "Dominance": "not assessed",
    }  # fmt: skip


def test_values_of_a_level_are_told_where_they_follow_anyway(duck: Database) -> None:
    duck.table("firms", TYPES, firms())
    policy = tables_policy(t={**BY_ALL, "by": ["branch", "size", "region"]})
    publish_statistics(policy, duck.engine)
    (item,) = table_report(policy, duck.engine, attacked=False)["tables"]
    finest = {tuple(level["level"]): level for level in item["levels"]}[1, 1, 2]
    shown, total = (
        float(duck.fetch(f"SELECT SUM(value) FROM released WHERE {where}")[0][0])
        for where in (
            "branch <> 'Total' AND size <> 'Total' AND region NOT LIKE '%*'",
            "branch = 'Total' AND size = 'Total' AND region = '*'",
        )
    )
    assert finest["hidden"] and finest["hidden_value"] == pytest.approx((total - shown) / total, rel=0.06)
    # Of a total that is hidden, and of a level that does not add up to it, nothing is told.
    told = describe_release._level_json
    count = describe_release._LevelCount(cells=4, hidden=2, value=100.0, hidden_value=40.0)
    assert told((1,), count, 100.0)["hidden_value"] == 0.4
    assert "hidden_value" not in told((1,), count, None)
    assert "hidden_value" not in told((1,), count, 120.0)
    # How far values are changed is told of many cells only.
    changed = describe_release._LevelCount(cells=20, changed=9, distance=[0.1] * 20, value=100.0)
    assert (told((1,), changed, 100.0)["changed"], told((1,), changed, 100.0)["change"]) == (9, 0.1)
    few = describe_release._LevelCount(cells=9, changed=9, distance=[0.1] * 9, value=100.0)
    assert "changed" not in told((1,), few, 100.0)


def test_a_source_that_changed_does_not_hold_any_more(duck: Database) -> None:
    duck.table("firms", TYPES, firms())
    policy = tables_policy(t=BY_ALL)
    publish_statistics(policy, duck.engine)
    duck.run("UPDATE firms SET amount = amount + 1000")
    document, page = reported(duck, policy)
    assert not document["holds"] and "Does not hold" in page.with_id("verdict").text
    assert "cells show another value than the source has now" in page.with_id("verdict").text
    assert "attacks were not judged" in page.with_id("attacks").text
    assert document["verdicts"][0]["counts"]["not assessed"] >= 2


def test_attacks_can_be_left_out(duck: Database) -> None:
    duck.table("firms", TYPES, firms())
    policy = tables_policy(t=BY_ALL)
    publish_statistics(policy, duck.engine)
    document, page = reported(duck, policy, attacked=False)
    assert document["attacks"] is None and "attacks were not tried" in page.with_id("attacks").text
    with pytest.raises(SqlanonError, match="lacks tables"):
        render_tables({key: value for key, value in document.items() if key != "tables"})


def test_labels_are_escaped(duck: Database) -> None:
    rows = [{**row, "size": HOSTILE if row["size"] == "s" else "l"} for row in firms()]
    duck.table("firms", TYPES, rows)
    policy = tables_policy(t=BY_ALL)
    publish_statistics(policy, duck.engine)
    page = reported(duck, policy, attacked=False)[1]
    assert any("<script>" in node.text for node in page.every("th", "summary"))


@pytest.mark.full
def test_a_large_table_is_drawn_in_part(duck: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    duck.table("firms", TYPES, firms())
    policy = tables_policy(t=BY_ALL)
    publish_statistics(policy, duck.engine)
    monkeypatch.setattr(describe_release, "MOST_ROWS", 4)
    monkeypatch.setattr(describe_release, "MOST_DRAWN", 24)
    document, page = reported(duck, policy, attacked=False)
    (item,) = document["tables"]
    assert item["cut"] and len(item["maps"]) == 2 and item["maps_left_out"] == 1
    assert [label for label, _ in item["maps"][0]["rows"]] == ["*", "N*", "S*"]
    said = page.with_id("table-1").text
    assert "The finest levels are not drawn" in said and "1 more map of this table is not drawn" in said


@pytest.mark.full
def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    engine = connect("business.duckdb", read_only=False)
    Database(engine).table("firms", TYPES, firms())
    engine.close()
    policy = {"source": {"database": "business.duckdb", "table": "firms"}, "release": {"table": "released"},
              "hierarchies": {"region": {"prefix": {"length": 2}}}, "statistics": {"t": BY_ALL}}  # fmt: skip
    Path("policy.yml").write_text(json.dumps(policy), encoding="utf-8")
    run = CliRunner().invoke
    early = run(main, ["report", "policy.yml"])
    assert early.exit_code == 2 and "there is no evidence for 'released'" in early.output
    assert run(main, ["publish", "policy.yml"]).exit_code == 0
    done = run(main, ["report", "policy.yml", "-o", "tables.html"])
    assert done.exit_code == 0 and done.output == "wrote tables.html\n", done.output
    assert "Tables of statistics" in Path("tables.html").read_text(encoding="utf-8")
    policy.pop("release")
    Path("policy.yml").write_text(json.dumps(policy), encoding="utf-8")
    nameless = run(main, ["report", "policy.yml"])
    assert nameless.exit_code == 2 and "the policy names no release" in nameless.output


def test_a_release_of_rows_is_not_one_of_tables(duck: Database) -> None:
    from sqlanon.policy.read_policy import parse as parse_policy
    from sqlanon.release import publish

    duck.table("firms", TYPES, firms())
    rows = parse_policy(json.dumps({
        "source": {"table": "firms"}, "release": {"table": "released"}, "models": [{"k_anonymity": {"k": 2}}],
        "columns": {"firm": "identifier", "region": "quasi_identifier", "branch": "quasi_identifier",
                    "size": "quasi_identifier", "amount": "insensitive"},
    }))  # fmt: skip
    publish(rows, duck.engine)
    with pytest.raises(PolicyError, match="'released' is not a release of tables of statistics"):
        table_report(tables_policy(t=BY_ALL), duck.engine)

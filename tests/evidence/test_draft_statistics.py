"""`sqlanon init --statistics`: a draft that publishes as it stands, and protects what it shows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner
from conftest import Database

from sqlanon.cli import main
from sqlanon.engines import connect
from sqlanon.evidence.draft_statistics import StatisticsGiven, draft_statistics
from sqlanon.policy.files import parse_statistics
from sqlanon.release.publish_statistics import publish_statistics
from sqlanon.statistics.check_tables import check_statistics

TYPES = {
    "firm_id": "INTEGER", "group_id": "TEXT", "county": "TEXT", "land": "TEXT", "nace": "TEXT", "staff": "INTEGER",
    "turnover": "DOUBLE PRECISION", "profit": "DOUBLE PRECISION", "remark": "TEXT",
}  # fmt: skip
COUNTIES = {"Kent": "South", "Essex": "South", "Fife": "North", "Moray": "North", "Angus": "North"}


def firms(count: int = 900) -> list[dict[str, Any]]:
    rows, state = [], 3
    for firm in range(count):
        draws = []
        for _ in range(4):
            state = (state * 1103515245 + 12345) % 2**31
            draws.append(state / 2**31)
        county = list(COUNTIES)[int(draws[0] * 5)]
        rows.append({
            "firm_id": firm, "group_id": f"g{firm // 2 if firm < 60 else firm}", "county": county,
            "land": COUNTIES[county], "nace": ["A11", "A12", "B21", "B22"][int(draws[1] * 4)],
            "staff": int(5000 * draws[2]), "turnover": round(100 / (1 - draws[3] * 0.99), 2),
            "profit": round(100 * draws[2] - 50, 2), "remark": None if firm % 3 else "x",
        })  # fmt: skip
    return rows


@pytest.fixture
def business(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    engine = connect("business.duckdb", read_only=False)
    Database(engine).table("firms", TYPES, firms())
    engine.close()
    return tmp_path


def run(*arguments: str) -> Any:
    return CliRunner().invoke(main, list(arguments))


@pytest.mark.full
def test_the_draft_publishes_unedited(business: Path) -> None:
    done = run("init", "business.duckdb", "firms", "--statistics", "-o", "policy.yml")
    assert done.exit_code == 0, done.output
    assert "an unedited publish writes firms_released: 3 tables by county, nace" in done.output
    text = Path("policy.yml").read_text(encoding="utf-8")
    drafted = yaml.safe_load(text)
    assert drafted["hierarchies"] == {
        "county": {"csv": {"path": "policy_hierarchies/1.csv"}},
        "nace": {"prefix": {"length": 3, "keep": 1, "step": 2}},
    }
    lines = Path("policy_hierarchies/1.csv").read_text(encoding="utf-8").split()
    assert sorted(lines) == sorted(f"{county};{land};*" for county, land in COUNTIES.items())
    tables = drafted["statistics"]
    assert list(tables) == ["staff_total", "turnover_total", "records"]
    assert all(item["contributor"] == "group_id" and item["by"] == ["county", "nace"] for item in tables.values())
    assert [list(rule) for rule in tables["turnover_total"]["rules"]] == [["minimum_frequency"], ["p_percent"]]
    assert "# profit is not summed up: it is below 0 in some records." in text
    assert "# remark makes no cells" not in text  # it is constant
    published = run("publish", "policy.yml")
    assert published.exit_code == 0 and "no unsafe cell can be computed" in published.output, published.output
    assert run("check", "policy.yml").exit_code == 0
    again = run("init", "business.duckdb", "firms", "--statistics", "-o", "policy.yml")
    assert again.exit_code == 2 and "exists already" in again.output


def test_what_is_named_is_not_guessed(business: Path) -> None:
    done = run("init", "business.duckdb", "firms", "--statistics", "--by", "land, nace", "--of", "turnover",
               "--contributor", "firm_id")  # fmt: skip
    assert done.exit_code == 0, done.output
    tables = yaml.safe_load(done.output)["statistics"]
    assert list(tables) == ["turnover_total", "records"]
    assert tables["records"]["by"] == ["land", "nace"] and tables["records"]["contributor"] == "firm_id"
    printed = run("init", "business.duckdb", "firms", "--statistics")
    assert "land follows from county: with -o it becomes a level of its hierarchy." in printed.output


@pytest.mark.full
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--statistics", "--by", "conty"), "did you mean 'county'?"),
        (("--statistics", "--by", "remark"), "column 'remark' has NULLs"),
        (("--statistics", "--by", "firm_id"), "column 'firm_id' has 900 values"),
        (("--statistics", "--of", "county"), "column 'county' holds no amounts"),
        (("--statistics", "--of", "profit"), "the amount 'profit' has NULLs, or is below 0"),
        (("--statistics", "--qi", "county"), "have no roles of columns"),
        (("--by", "county"), "--by, --of and --contributor go with --statistics"),
    ],
)
def test_what_is_refused(business: Path, arguments: tuple[str, ...], said: str) -> None:
    done = run("init", "business.duckdb", "firms", *arguments)
    assert done.exit_code == 2 and said in done.output, done.output


def test_files_and_empty_tables_are_refused(business: Path) -> None:
    Path("firms.csv").write_text("a,b\n1,2\n", encoding="utf-8")
    done = run("init", "firms.csv", "--statistics")
    assert done.exit_code == 2 and "tables of statistics are published in a database" in done.output
    engine = connect("business.duckdb", read_only=False)
    Database(engine).table("empty", TYPES, [])
    Database(engine).table("lonely", {"a": "INTEGER"}, [{"a": number} for number in range(500)])
    engine.close()
    assert "the table has no rows" in run("init", "business.duckdb", "empty", "--statistics").output
    assert "no column makes cells" in run("init", "business.duckdb", "lonely", "--statistics").output


@pytest.mark.full_on_postgres
@pytest.mark.parametrize("count", [pytest.param(60, marks=pytest.mark.full), 300])
@pytest.mark.parametrize("odd", ['re"gion\n# x: é', "value"])
def test_odd_names_and_few_records(database: Database, tmp_path: Path, count: int, odd: str) -> None:
    """Whatever columns are called, the draft is a policy, and it publishes."""
    rows = [{odd: row["county"], "nace": row["nace"], "of": row["turnover"], "who": row["firm_id"]}
            for row in firms(count)]  # fmt: skip
    if database.url:
        database.table("odd", {odd: "TEXT", "nace": "TEXT", "of": "DOUBLE PRECISION", "who": "INTEGER"}, rows)
        url = database.url
    else:
        url = str(tmp_path / "odd.duckdb")
        engine = connect(url, read_only=False)
        Database(engine).table("odd", {odd: "TEXT", "nace": "TEXT", "of": "DOUBLE PRECISION", "who": "INTEGER"}, rows)
        engine.close()
    draft = draft_statistics(url, "odd", given=StatisticsGiven(of=["of"]))
    policy = parse_statistics(draft.text, base=Path(tmp_path))
    assert policy is not None and policy.release is not None and json.dumps(draft.summary)
    assert (odd in policy.dimensions) == (odd != "value")
    engine = connect(url, read_only=False)
    try:
        assert publish_statistics(policy, engine).document["holds"]
        assert check_statistics(policy, engine).holds
    finally:
        engine.close()

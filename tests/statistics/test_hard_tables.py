"""What goes wrong with tables of statistics, and several releases of the same records in the hands of one attacker."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from conftest import Database
from test_published_tables import (
    BY_BRANCH,
    BY_SIZE,
    COUNTS,
    RULES,
    TYPES,
    firms,
    released,
    require_protected,
    tables_policy,
)

from sqlanon.engines import connect
from sqlanon.errors import NotReleased, PolicyError, SourceError
from sqlanon.release.publish_statistics import publish_statistics
from sqlanon.statistics.check_tables import attack_statistics, check_statistics

FREQUENCY = [{"minimum_frequency": {"n": 3}}]
FEW_MARGINS = {**BY_BRANCH, "margins": [["branch"], []]}
WEAK = {**BY_BRANCH, "rules": [{"minimum_frequency": {"n": 2}}]}


def firm(number: int, region: str, branch: str, amount: int = 10) -> dict[str, Any]:
    return {"firm": number, "holding": f"h{number}", "region": region, "branch": branch, "size": "s", "amount": amount}


# ---- several releases of the same records


def together(*releases: Mapping[tuple[str, ...], float | None]) -> dict[tuple[str, ...], float | None]:
    """What somebody knows who kept all of them. Cells of a table that has fewer dimensions are those of the other."""
    known: dict[tuple[str, ...], float | None] = {}
    for shown in releases:
        for key, value in shown.items():
            known[key] = value if known.get(key) is None else known[key]
    return known


@pytest.mark.full
@pytest.mark.parametrize(
    ("first", "second", "protect"),
    [
        ({"t": FEW_MARGINS}, {"t": BY_BRANCH}, {}),
        ({"t": BY_BRANCH}, {"t": FEW_MARGINS}, {}),
        ({"t": BY_BRANCH}, {"t": WEAK}, {"suppression": {"weight": "cells"}}),
        ({"t": BY_BRANCH}, {"t": BY_BRANCH}, {"suppression": {"singletons": "ignore", "search": "heuristic"}}),
        ({"t": BY_BRANCH, "u": BY_SIZE}, {"u": BY_SIZE, "t": BY_BRANCH, "counts": COUNTS}, {}),
    ],
)
def test_an_attacker_with_both_releases_learns_no_more(
    duck: Database, first: Mapping[str, Any], second: Mapping[str, Any], protect: Mapping[str, Any]
) -> None:
    """Rules, weights, margins and tables change; the records do not. A linear program over all that was ever shown."""
    rows = firms()
    duck.table("firms", TYPES, rows)
    policy = tables_policy(first)
    publish_statistics(policy, duck.engine)
    before = released(duck)
    duck.run("CREATE TABLE earlier AS SELECT * FROM released")
    later = tables_policy(second, **({"protect": protect} if protect else {}))
    try:
        publish_statistics(later, duck.engine)
    except NotReleased:
        assert released(duck) == before, "the earlier release stays"
        return
    now = released(duck)
    width = len(later.dimensions) + 1
    padded = {(*key, *["Total"] * (width - len(key))): value for key, value in before.items()}
    # What was hidden is hidden, and what was shown is shown.
    assert all((now[key] is None) == (padded[key] is None) for key in now if key in padded)
    strict = tables_policy({**first, **{name: item for name, item in second.items() if name not in first}})
    assert require_protected(duck, strict, rows, together(padded, now)) > 0


def test_differencing_of_two_releases_is_an_attack(duck: Database) -> None:
    """Two patterns that were not decided together tell what neither tells alone."""
    rows = firms(seed=1)
    duck.table("firms", TYPES, rows)
    policy = tables_policy({"t": BY_BRANCH})
    publish_statistics(policy, duck.engine)
    duck.run("CREATE TABLE mine AS SELECT * FROM released")
    duck.run("DROP TABLE released")
    duck.run("DROP TABLE sqlanon_releases")  # nobody remembers the first
    other = tables_policy({"t": BY_BRANCH}, protect={"suppression": {"weight": "cells"}})
    publish_statistics(other, duck.engine)
    alone = {item.name: item.broken for item in attack_statistics(policy, duck.engine, release="mine").attacks}
    assert set(alone.values()) == {0}
    both = {
        item.name: item for item in attack_statistics(policy, duck.engine, release="mine", other="released").attacks
    }
    different = duck.fetch(
        "SELECT COUNT(*) FROM mine m JOIN released r USING (statistic, region, branch) "
        "WHERE (m.value IS NULL) <> (r.value IS NULL)"
    )
    assert different[0][0] > 0 and both["differencing"].broken > 0
    assert both["outsider"].broken == both["holding"].broken == 0


# ---- bad input


def test_a_node_with_one_child_is_hidden_with_it(database: Database) -> None:
    """N has one region: its total is that region."""
    cells = [("N1", "a"), ("N1", "b"), ("S1", "a"), ("S1", "b"), ("S2", "a"), ("S2", "b")]
    rows = [firm(10 * i + j, *cell) for i, cell in enumerate(cells) for j in range(5 if i else 1)]
    database.table("firms", TYPES, rows)
    policy = tables_policy({"t": {**BY_BRANCH, "rules": FREQUENCY}})
    publish_statistics(policy, database.engine)
    shown = released(database)
    assert shown["t", "N1", "a"] is None and shown["t", "N*", "a"] is None
    assert shown["t", "N1", "b"] == shown["t", "N*", "b"] and check_statistics(policy, database.engine).holds
    assert require_protected(database, policy, rows) == 2


def test_all_cells_unsafe(database: Database) -> None:
    rows = [firm(0, "N1", "a"), firm(1, "S1", "b", 30)]
    database.table("firms", TYPES, rows)
    policy = tables_policy({"t": {**BY_BRANCH, "rules": FREQUENCY}})
    done = publish_statistics(policy, database.engine)
    shown = released(database)
    # Empty cells are known to be empty; all others are hidden, the total too.
    assert set(shown.values()) == {None, 0}
    assert done.document["statistics"]["gap"] == 0 and check_statistics(policy, database.engine).holds


@pytest.mark.full_on_postgres
@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("UPDATE firms SET amount = -5 WHERE firm = 3", "the amount 'amount' is negative in some records"),
        ("UPDATE firms SET amount = NULL WHERE firm = 3", "the amount 'amount' has NULLs"),
        ("UPDATE firms SET branch = NULL WHERE firm = 3", "column 'branch' has NULLs"),
        ("DELETE FROM firms", "the source has no row"),
    ],
)
def test_rows_that_make_no_table_leave_the_previous_release(database: Database, change: str, said: str) -> None:
    database.table("firms", TYPES, firms())
    policy = tables_policy({"t": BY_BRANCH})
    publish_statistics(policy, database.engine)
    before = released(database)
    database.run(change)
    with pytest.raises(SourceError) as refused:
        publish_statistics(policy, database.engine)
    assert said in refused.value.message and refused.value.hint and released(database) == before


def test_too_many_cells_leave_the_previous_release(duck: Database) -> None:
    duck.table("firms", TYPES, firms())
    policy = tables_policy({"t": BY_BRANCH})
    publish_statistics(policy, duck.engine)
    before = released(duck)
    duck.run(
        "INSERT INTO firms SELECT 1000 + i, 'h' || i, 'N' || i % 500, 'b' || i % 499, 's', 5 FROM range(60000) t (i)"
    )
    with pytest.raises(PolicyError, match=r"the tables have \d{3},\d{3} cells, more than 200,000") as refused:
        publish_statistics(policy, duck.engine)
    assert "coarser values" in str(refused.value) and released(duck) == before


def test_a_missing_solver_leaves_the_previous_release(duck: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    duck.table("firms", TYPES, firms())
    policy = tables_policy({"t": BY_BRANCH})
    publish_statistics(policy, duck.engine)
    before = released(duck)
    duck.run("UPDATE firms SET amount = amount + 1")
    monkeypatch.setitem(sys.modules, "highspy", None)
    for work in (publish_statistics, check_statistics):
        with pytest.raises(SourceError, match="HiGHS, which is not installed") as refused:
            work(policy, duck.engine)  # type: ignore[operator]
        assert "sqlanon[tables]" in str(refused.value.hint)
    assert released(duck) == before


KILLED = """
import os, signal, sys
from sqlanon.cli import main
from sqlanon.release import publish_statistics
from sqlanon.release.targets.relation_target import RelationTarget

def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)

moments = {"staged": (publish_statistics, "require_safe_table"), "swapped": (RelationTarget, "finish")}
setattr(*moments[sys.argv.pop(1)], die)
sys.argv[0] = "sqlanon"
main()
"""
PLAIN = "import sys; from sqlanon.cli import main; sys.argv[0] = 'sqlanon'; main()"


def _write_policy(folder: Path) -> None:
    with closing(connect(str(folder / "firms.duckdb"), read_only=False)) as engine:
        Database(engine).table("firms", TYPES, firms())
    policy = {
        "source": {"database": "firms.duckdb", "table": "firms"},
        "release": {"table": "released"},
        "hierarchies": {"region": {"prefix": {"length": 2}}},
        "statistics": {"t": BY_BRANCH, "u": BY_SIZE},
    }
    (folder / "policy.yml").write_text(json.dumps(policy))


def _released(folder: Path) -> tuple[dict[tuple[str, ...], float | None], list[str], int]:
    with closing(connect(str(folder / "firms.duckdb"), read_only=False)) as engine:
        names = sorted(name for (name,) in Database(engine).fetch("SELECT table_name FROM duckdb_tables()"))
        versions = Database(engine).fetch("SELECT COUNT(*) FROM sqlanon_releases")[0][0]
        return released(Database(engine)), names, int(versions)


def _change(folder: Path) -> None:
    with closing(connect(str(folder / "firms.duckdb"), read_only=False)) as engine:
        Database(engine).run("UPDATE firms SET amount = amount * 2")


@pytest.mark.parametrize("moment", ["staged", pytest.param("swapped", marks=pytest.mark.full)])
def test_killed_while_it_publishes(tmp_path: Path, moment: str) -> None:
    """kill -9 when the new tables are written and not yet shown, or shown and not yet tidied up."""
    _write_policy(tmp_path)
    policy = str(tmp_path / "policy.yml")
    subprocess.run([sys.executable, "-c", PLAIN, "publish", policy], check=True, capture_output=True)
    before, names, versions = _released(tmp_path)
    _change(tmp_path)
    killed = subprocess.run([sys.executable, "-c", KILLED, moment, "publish", policy], capture_output=True)
    assert killed.returncode == -signal.SIGKILL
    after, now, more = _released(tmp_path)
    assert now == names
    if moment == "staged":
        assert (after, more) == (before, versions), "the previous release is as it was"
    else:
        assert (after != before, more) == (True, versions + 1), "the new one is there, with its record"
    again = subprocess.run([sys.executable, "-c", PLAIN, "publish", policy], capture_output=True, text=True)
    assert again.returncode == 0 and "published" in again.stdout, again.stderr
    checked = subprocess.run([sys.executable, "-c", PLAIN, "check", policy], capture_output=True, text=True)
    assert checked.returncode == 0, checked.stdout


@pytest.mark.full
def test_killed_at_some_moments(tmp_path: Path) -> None:
    _write_policy(tmp_path)
    command = [sys.executable, "-c", PLAIN, "publish", str(tmp_path / "policy.yml")]
    begin = time.monotonic()
    subprocess.run(command, check=True, capture_output=True)
    took = time.monotonic() - begin
    seen = [_released(tmp_path)]
    for point in range(5):
        _change(tmp_path)
        running = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(took * (0.3 + 0.2 * point))
        running.kill()
        running.wait()
        found, names, versions = _released(tmp_path)
        assert names == seen[0][1]
        old, _, known = seen[-1]
        assert (found == old) == (versions == known), "the tables and their record go together"
        if versions == known:
            subprocess.run(command, check=True, capture_output=True)
        seen.append(_released(tmp_path))
        assert seen[-1][0] != old and seen[-1][2] == known + 1


def test_a_solver_that_runs_out_of_time_says_how_far_it_came(duck: Database) -> None:
    rows = firms(160)
    duck.table("firms", TYPES, rows)
    hurried = {"suppression": {"search": "exact", "seconds": 0.001}}
    policy = tables_policy({"t": {**BY_BRANCH, "rules": RULES}, "u": BY_SIZE}, protect=hurried)
    found = publish_statistics(policy, duck.engine).document["statistics"]
    assert found["bound"] is not None and found["gap"] >= 0 and found["cost"] >= found["bound"]
    require_protected(duck, policy, rows)
    assert json.dumps(found)

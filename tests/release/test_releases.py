"""The record of releases: versions with what they were made of, going back to one, plans, backfills, and folders."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest
from click.testing import CliRunner
from conftest import ROOT, Database

from sqlanon.cli import main
from sqlanon.engines import connect
from sqlanon.engines.manifest import current_file
from sqlanon.engines.open_writable import open_writable
from sqlanon.errors import EngineError, PolicyError, SourceError
from sqlanon.policy import Policy, Source, load, parse
from sqlanon.release import publish
from sqlanon.release.plan_refresh import differences, plan_refresh
from sqlanon.release.retire_release import retire, rollback
from sqlanon.release.versions import versions

KEY = "a key that is long enough"
POLICY = """
source: {table: people}
person: id
columns: {id: identifier, town: quasi_identifier, illness: sensitive}
hierarchies:
  town: {tree: {tree: {"*": [A, B]}}}
models: [{k_anonymity: {k: 2}}]
release: {view: released, keep: 2, audience: research}
history: {hold_back: 1}
"""
COLUMNS = {"id": "INTEGER", "town": "TEXT", "illness": "TEXT"}
ILLNESSES = ("flu", "cold")


def people(database: Database, count: int) -> None:
    rows = [{"id": i, "town": "AB"[i % 2], "illness": ILLNESSES[i // 2 % 2]} for i in range(count)]
    database.table("people", COLUMNS, rows)


def refresh(database: Database, asked: Policy) -> None:
    publish(asked, database.engine, secret=KEY, workload=False)


def shown(database: Database) -> int:
    return int(database.fetch("SELECT COUNT(*) FROM released")[0][0])


def statuses(database: Database, asked: Policy) -> list[tuple[int, str]]:
    return [(item.version, item.status) for item in versions(asked, database.engine)]


@pytest.mark.full_on_postgres
def test_versions_that_can_be_gone_back_to(database: Database) -> None:
    asked = parse(POLICY)
    for count in (8, 16, 24, 32):
        people(database, count)
        refresh(database, asked)
    listed = versions(asked, database.engine)
    assert [item.shown.audience for item in listed] == ["research"] * 4
    assert len({item.shown.data_version for item in listed}) == 4
    assert len({item.policy_hash for item in listed}) == 1
    assert [item.shown.behind is not None for item in listed] == [True, True, True, False]  # 4 shown, 3 and 2 kept
    before = database.fetch("SELECT COUNT(*) FROM people")
    rollback(asked, database.engine, 2)
    assert shown(database) == 16
    assert statuses(database, asked) == [(4, "withdrawn"), (3, "superseded"), (2, "current"), (1, "superseded")]
    assert database.fetch("SELECT COUNT(*) FROM people") == before
    with pytest.raises(PolicyError, match="not kept"):
        rollback(asked, database.engine, 1)
    with pytest.raises(PolicyError, match="is the one that is shown"):
        rollback(asked, database.engine, 2)
    with pytest.raises(PolicyError, match="has no version 9"):
        rollback(asked, database.engine, 9)
    # What was withdrawn was seen: it is the one that the next is compared with, and numbers go on from it.
    people(database, 34)
    refresh(database, asked)
    assert statuses(database, asked)[:2] == [(5, "current"), (4, "withdrawn")]
    assert shown(database) == 32  # the two newcomers beside version 4 wait, as they are two in two classes
    rollback(asked, database.engine, 4)
    assert shown(database) == 32
    behind = next(item.shown.behind for item in versions(asked, database.engine) if item.version == 5)
    database.run(f"UPDATE {behind} SET illness = 'gout' WHERE illness = 'flu'")
    with pytest.raises(PolicyError, match="not those that were shown then"):
        rollback(asked, database.engine, 5)
    stricter = parse(POLICY.replace("k: 2", "k: 3"))
    with pytest.raises(PolicyError, match="under another policy"):
        rollback(stricter, database.engine, 2)
    with pytest.raises(PolicyError, match="or to other people"):
        rollback(parse(POLICY.replace("research", "public")), database.engine, 2)
    retire(asked, database.engine)
    assert not [item for item in versions(asked, database.engine) if item.shown.behind]
    left = database.fetch("SELECT table_name FROM information_schema.tables WHERE table_name LIKE 'released%'")
    assert left == []


def test_readers_of_a_release_stay_the_same(postgres: Database) -> None:
    """Whoever may read the view may read the earlier version, and nobody else."""
    asked = parse(POLICY)
    postgres.run("DROP ROLE IF EXISTS reader_of_releases")
    postgres.run("CREATE ROLE reader_of_releases")
    postgres.run("GRANT USAGE ON SCHEMA public TO reader_of_releases")
    for count in (8, 16):
        people(postgres, count)
        refresh(postgres, asked)
        postgres.run("GRANT SELECT ON released TO reader_of_releases")
    rollback(asked, postgres.engine, 1)
    postgres.run("SET ROLE reader_of_releases")
    assert shown(postgres) == 8
    postgres.run("RESET ROLE")
    postgres.run("DROP OWNED BY reader_of_releases")
    postgres.run("DROP ROLE reader_of_releases")


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("{table: released, keep: 2}", "keeps no earlier versions"),
        ("{view: released, keep: -1}", "from 0 to 1000"),
        ("{view: released, keep: two}", "from 0 to 1000"),
        ("{view: released, audience: }", "audience"),
    ],
)
def test_wrong_keys(written: str, said: str) -> None:
    with pytest.raises(PolicyError) as error:
        parse(POLICY.replace("{view: released, keep: 2, audience: research}", written))
    assert said in str(error.value)


@pytest.mark.full
def test_a_plan_writes_nothing_and_says_what_would_change(database: Database) -> None:
    asked = parse(POLICY)
    people(database, 8)
    first = plan_refresh(asked, database.engine, secret=KEY)
    assert first.plan is not None and first.current is None and first.document is not None
    assert versions(asked, database.engine) == []
    refresh(database, asked)
    people(database, 16)
    names = "SELECT table_name FROM information_schema.tables ORDER BY table_name"
    before = database.fetch(names), statuses(database, asked)
    found = plan_refresh(asked, database.engine, secret=KEY)
    assert (database.fetch(names), statuses(database, asked)) == before
    assert found.plan is not None and found.document is not None
    told = differences(found.current, found.document)
    assert told["policy"] == [] and told["evidence"]["rows"] == [8, 16]
    assert told["evidence"]["k_anonymity"] == [4, 8]
    with pytest.raises(PolicyError, match="no longer the same"):
        publish(asked, database.engine, secret=KEY, workload=False, plan_hash=first.plan.hash)
    done = publish(asked, database.engine, secret=KEY, workload=False, plan_hash=found.plan.hash[:12])
    assert done.document["released"] == 16
    people(database, 17)
    refused = plan_refresh(parse(POLICY.replace("hold_back: 1", "hold_back: 0")), database.engine, secret=KEY)
    assert refused.refused is not None and "held back" in str(refused.refused)


def test_the_keys_of_the_guide() -> None:
    found = load(ROOT / "examples" / "releases_over_time" / "monthly.yml")
    assert found.release is not None and found.history is not None
    assert (found.release.keep, found.release.audience, found.history.encrypt) == (3, "research", True)


# ---- the commands, on a DuckDB file


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("SQLANON_KEY", KEY)
    fill(tmp_path, 8)
    (tmp_path / "policy.yml").write_text(POLICY.replace("{table: people}", "{database: w.duckdb, table: people}"))
    yield tmp_path


def fill(folder: Path, rows: int) -> None:
    with duckdb.connect(str(folder / "w.duckdb")) as connection:
        connection.execute("CREATE OR REPLACE TABLE people (id INTEGER, town TEXT, illness TEXT)")
        row = "i, ['A', 'B'][i % 2 + 1], ['flu', 'cold'][i // 2 % 2 + 1]"
        connection.execute(f"INSERT INTO people SELECT {row} FROM range({rows}) AS r(i)")


def run(*args: str, code: int = 0, given: str = "") -> str:
    done = CliRunner().invoke(main, [*args], input=given)
    assert done.exit_code == code, done.output
    return done.output


@pytest.mark.full
def test_the_commands(folder: Path) -> None:
    policy = str(folder / "policy.yml")
    assert "plan " in run("plan", policy)
    run("refresh", policy)
    fill(folder, 16)
    said = run("plan", policy)
    assert "rows" in said and "8 -> 16" in said
    digest = said.split("plan ")[-1].strip()
    assert "no longer the same" in run("refresh", "--plan-hash", "0" * 64, policy, code=2)
    assert "12 or more" in run("refresh", "--plan-hash", "12", policy, code=2)
    assert "refreshed, version 2" in run("refresh", "--plan-hash", digest, policy)
    assert json.loads(run("plan", "--json", policy))["differences"]["policy"] == []
    listed = run("releases", "list", policy)
    assert "2  current" in listed and "to research" in listed and "kept" in listed
    assert json.loads(run("releases", "list", "--json", policy))[0]["shown"]["audience"] == "research"
    assert "version 1 of 'released' is shown again" in run("releases", "rollback", policy, "1")
    assert "back to version 1" in run("status", policy)
    assert "is the one that is shown" in run("releases", "rollback", policy, "1", code=2)
    assert "is retired" in run("releases", "retire", policy, given="y\n")
    assert "is not shown now" in run("releases", "rollback", policy, "1", code=2)


TIMES = """
source:
  database: w.duckdb
  query: "SELECT id, town, illness FROM visits WHERE at < :due"
person: id
columns: {id: identifier, town: quasi_identifier, illness: sensitive}
hierarchies:
  town: {tree: {tree: {"*": [A, B]}}}
models: [{k_anonymity: {k: 2}}]
release: {view: released}
history: {hold_back: 1}
schedule: {cron: "@daily"}
"""


@pytest.mark.full
def test_backfill_reads_each_time_as_it_was(folder: Path) -> None:
    policy = folder / "times.yml"
    policy.write_text(TIMES)
    with duckdb.connect(str(folder / "w.duckdb")) as connection:
        connection.execute(
            "CREATE TABLE visits AS SELECT *, DATE '2026-01-01' + CAST(id // 8 AS INT) AS at FROM people"
        )
        more = "i, ['A', 'B'][i % 2 + 1], ['flu', 'cold'][i // 2 % 2 + 1], DATE '2026-01-01' + CAST(i // 8 AS INT)"
        connection.execute(f"INSERT INTO visits SELECT {more} FROM range(8, 80) AS r(i)")
    said = run("refresh", "--backfill", "2026-01-02", "2026-01-04", str(policy))
    assert said.count("refreshed, version") == 3
    listed = [json.loads(run("releases", "show", str(policy), str(version)))["released"] for version in (1, 2, 3)]
    assert listed == [8, 16, 24]
    assert "nothing is left to do" in run("refresh", "--backfill", "2026-01-02", "2026-01-04", str(policy))
    assert "cannot follow it" in run("refresh", "--backfill", "2026-01-01", "2026-01-04", str(policy), code=2)
    assert run("refresh", "--backfill", "2026-01-04", "2026-01-06", str(policy)).count("refreshed") == 2
    plain = run("refresh", "--backfill", "2026-01-01", "2026-01-02", str(folder / "policy.yml"), code=2)
    assert "has no schedule" in plain
    policy.write_text(TIMES.replace("history: {hold_back: 1}\n", ""))
    assert "must be compared" in run("refresh", "--backfill", "2026-02-01", "2026-02-02", str(policy), code=2)
    policy.write_text(TIMES.replace(" WHERE at < :due", ""))
    assert "as it is now" in run("refresh", "--backfill", "2026-02-01", "2026-02-02", str(policy), code=2)


# ---- folders


@pytest.mark.full
def test_a_folder_has_one_file_a_version(folder: Path) -> None:
    text = (folder / "policy.yml").read_text().replace("person: id\n", "").replace("history: {hold_back: 1}\n", "")
    policy = folder / "files.yml"
    policy.write_text(text.replace("view: released, keep: 2", "path: out/, keep: 1"))
    out = folder / "out"
    for count in (8, 16, 24, 32):
        fill(folder, count)
        run("publish", "--no-workload", str(policy))
        with duckdb.connect() as connection:
            found = connection.execute("SELECT COUNT(*) FROM read_parquet(?)", [str(current_file(out))]).fetchall()
        assert found == [(count,)]
    files = sorted(item.name for item in out.iterdir() if item.suffix == ".parquet")
    assert files == ["release-000003.parquet", "release-000004.parquet"]
    listed = json.loads(run("releases", "list", "--json", str(policy)))
    assert [(item["version"], item["status"]) for item in listed][:2] == [(4, "current"), (3, "superseded")]
    run("releases", "rollback", str(policy), "3")
    assert current_file(out) == out / "release-000003.parquet"
    engine = connect()
    assert engine.resolve(Source(path=str(out))).path == str(out / "release-000003.parquet")
    engine.close()
    assert "not kept" in run("releases", "rollback", str(policy), "1", code=2)
    with (out / "release-000004.parquet").open("ab") as file:
        file.write(b"!")
    assert "not the one that was shown" in run("releases", "rollback", str(policy), "4", code=2)
    assert "8 -> " not in run("plan", str(policy))
    run("releases", "retire", str(policy), given="y\n")
    assert not [item for item in out.iterdir() if item.suffix == ".parquet"]
    with pytest.raises(SourceError, match="shows no release"):
        current_file(out)


def test_a_folder_of_somebody_else_is_left_alone(folder: Path) -> None:
    text = (folder / "policy.yml").read_text().replace("person: id\n", "").replace("history: {hold_back: 1}\n", "")
    policy = folder / "files.yml"
    policy.write_text(text.replace("view: released, keep: 2", "path: out/"))
    (folder / "out").mkdir()
    (folder / "out" / "notes.txt").write_text("mine")
    assert "was not published by sqlanon" in run("publish", "--no-workload", str(policy), code=2)


# ---- writing while others read

HOLDER = (
    "import duckdb, sys; c = duckdb.connect(sys.argv[1], read_only=sys.argv[2] == 'r'); print('open', flush=True); "
)


def held(path: Path, how: str, then: str = "sys.stdin.read()") -> subprocess.Popen[str]:
    child = subprocess.Popen(
        [sys.executable, "-c", HOLDER + then, str(path), how], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None and child.stdout.readline() == "open\n"
    return child


def test_a_file_that_is_read_is_replaced(folder: Path) -> None:
    path, policy = folder / "w.duckdb", str(folder / "policy.yml")
    run("refresh", policy)
    fill(folder, 16)
    ask = "sys.stdin.readline(); print(c.execute('SELECT COUNT(*) FROM released').fetchall(), flush=True)"
    with held(path, "r", ask) as reader:
        os.chmod(path, 0o640)
        first = path.stat()
        assert "refreshed, version 2" in run("refresh", policy)
        assert path.stat().st_ino != first.st_ino and path.stat().st_mode == first.st_mode
        assert reader.communicate("go\n")[0] == "[(8,)]\n"  # whoever has the old file open reads it to the end
    with duckdb.connect(str(path), read_only=True) as connection:
        assert connection.execute("SELECT COUNT(*) FROM released").fetchall() == [(16,)]
    assert sorted(item.name for item in folder.iterdir() if "next" in item.name or "wal" in item.name) == []


@pytest.mark.full
def test_an_error_leaves_the_file_and_a_writer_is_waited_for(folder: Path) -> None:
    path = folder / "w.duckdb"
    with held(path, "r") as reader:
        before = path.stat()
        with pytest.raises(EngineError, match="on purpose"), open_writable(str(path)) as engine:
            assert engine.dialect == "duckdb"
            raise EngineError("on purpose")
        assert (path.stat().st_ino, path.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
        with open_writable(str(path)):  # meanwhile nobody else can write
            tried = subprocess.run([sys.executable, "-c", HOLDER, str(path), "w"], capture_output=True, text=True)
            assert "lock" in tried.stderr
        reader.communicate("")
    with held(path, "w") as writer:
        with pytest.raises(SourceError, match="another process that writes"), open_writable(str(path)):
            pass
        writer.communicate("")

"""Anatomy as files: the rows in one, the sensitive values of groups in another, replaced together or not at all."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import duckdb
import parting
import pytest
from click.testing import CliRunner
from conftest import TESTS, Database
from parting import anatomy, patients, published, with_patients
from transforming import KEY, OTHER_KEY

import sqlanon
from sqlanon.cli import main
from sqlanon.errors import EngineError, PolicyError, SourceError, SqlanonError
from sqlanon.evidence.attacks import attack
from sqlanon.evidence.checks import check
from sqlanon.policy import Source
from sqlanon.relations.bucketization import GROUP
from sqlanon.release import report
from sqlanon.release.plan_refresh import plan_refresh

ENDINGS = ["csv", "parquet", "tsv"]


@pytest.fixture(autouse=True)
def _inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def to(path: str, l: int = 3, **changes: Any) -> sqlanon.Policy:  # noqa: E741
    return anatomy(l, release={"path": path}, **changes)


def read(path: str) -> list[tuple[Any, ...]]:
    function = "read_parquet" if path.endswith("parquet") else "read_csv"
    return duckdb.sql(f"SELECT * FROM {function}('{path}')").fetchall()


def contents() -> dict[str, bytes]:
    return {item.name: item.read_bytes() for item in sorted(Path().iterdir())}


@pytest.mark.parametrize("ending", ENDINGS)
def test_both_files_tell_what_the_source_tells_and_no_more(duck: Database, ending: str) -> None:
    """Compared with the source row by row: the shown columns are the same, and so is how often each value occurs;
    the group of each row holds its value, once, beside at least two others."""
    rows = patients(83)
    with_patients(duck, rows)
    done = published(duck, to(f"out.{ending}"))
    main_rows, values = read(f"out.{ending}"), read(f"out_sensitive.{ending}")
    assert Counter(row[:3] for row in main_rows) == Counter((row["tag"], row["age"], row["sex"]) for row in rows)
    assert Counter(value for _, value, _ in values) == Counter(row["disease"] for row in rows)
    assert {records for _, _, records in values} == {1}
    held: dict[int, list[Any]] = {}
    for group, value, _ in values:
        held.setdefault(group, []).append(value)
    assert all(len(set(each)) == len(each) >= 3 for each in held.values())
    own = {row["tag"]: row["disease"] for row in rows}
    members: dict[int, list[Any]] = {}
    for tag, _, _, group in main_rows:
        members.setdefault(group, []).append(own[tag])
    assert {group: Counter(each) for group, each in members.items()} == {
        group: Counter(each) for group, each in held.items()
    }
    # In an order that tells nothing: neither that of the source, nor that of the groups.
    assert [row[0] for row in main_rows] != sorted(row[0] for row in main_rows)
    assert [row[0] for row in values] != sorted(row[0] for row in values)
    assert set(contents()) == {f"out.{ending}", f"out_sensitive.{ending}", f"out.{ending}.evidence.json"}
    evidence = json.loads(Path(f"out.{ending}.evidence.json").read_text(encoding="utf-8"))
    assert evidence["release"]["companions"] == {f"out_sensitive.{ending}": "file"} and evidence["holds"]
    assert evidence["release"]["sha256"] == {
        name: hashlib.sha256(Path(name).read_bytes()).hexdigest()
        for name in (f"out.{ending}", f"out_sensitive.{ending}")
    }
    assert sum(item["records"] for item in evidence["groups"]["sizes"]) == 83
    assert f"-- out_sensitive.{ending}" in evidence["sql"] and "estimates" not in evidence["sql"]
    assert done.document["release"] == evidence["release"]


@pytest.mark.full
@pytest.mark.parametrize("ending", ENDINGS)
def test_releasing_twice_replaces_both(duck: Database, ending: str) -> None:
    with_patients(duck, patients(60))
    published(duck, to(f"out.{ending}"))
    with_patients(duck, patients(83, seed=2))
    published(duck, to(f"out.{ending}"))
    assert len(read(f"out.{ending}")) == len(read(f"out_sensitive.{ending}")) == 83
    assert len(contents()) == 3
    # What takes its place and needs no second file takes that away.
    models = [{"k_anonymity": {"k": 2}}]
    published(duck, parting.policy("full_domain", models, suppression_limit=1.0, release={"path": f"out.{ending}"}))
    assert set(contents()) == {f"out.{ending}", f"out.{ending}.evidence.json"}
    published(duck, to(f"out.{ending}"))
    assert len(contents()) == 3


@pytest.mark.full
@pytest.mark.parametrize("kind", ["file", "folder", "link"])
def test_what_others_made_is_never_replaced(duck: Database, kind: str) -> None:
    with_patients(duck, patients(60))
    theirs = Path("out_sensitive.csv")
    if kind == "folder":
        theirs.mkdir()
    elif kind == "link":
        theirs.symlink_to("nowhere")
    else:
        theirs.write_text("mine", encoding="utf-8")
    with pytest.raises(PolicyError, match=r"'out_sensitive.csv' exists and was not published by sqlanon"):
        published(duck, to("out.csv"))
    assert [item.name for item in Path().iterdir()] == ["out_sensitive.csv"]
    assert kind != "file" or theirs.read_text(encoding="utf-8") == "mine"


def test_a_file_that_somebody_made_beside_a_release_of_one_file(duck: Database) -> None:
    with_patients(duck, patients(60))
    plain = parting.policy("full_domain", [{"k_anonymity": {"k": 2}}], suppression_limit=1.0, release={"path": "o.csv"})
    published(duck, plain)
    Path("o_sensitive.csv").write_text("mine", encoding="utf-8")
    before = contents()
    with pytest.raises(PolicyError, match=r"'o_sensitive.csv' exists and was not published by sqlanon"):
        published(duck, to("o.csv"))
    assert contents() == before


@pytest.mark.full
@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("step", range(3))
def test_an_error_in_the_middle_leaves_the_old_files(
    duck: Database, monkeypatch: pytest.MonkeyPatch, first: bool, step: int
) -> None:
    with_patients(duck, patients(60))
    if not first:
        published(duck, to("out.parquet"))
    before = contents()
    with_patients(duck, patients(83, seed=2))
    real, calls = os.replace, []

    def fails(one: Any, other: Any) -> None:
        calls.append(other)
        if len(calls) == step + 1:
            raise OSError(28, "No space left on device")
        real(one, other)

    with monkeypatch.context() as patched:
        patched.setattr(os, "replace", fails)
        with pytest.raises(EngineError, match=r"could not be written: No space left"):
            published(duck, to("out.parquet"))
    assert len(calls) > step and contents() == before
    published(duck, to("out.parquet"))
    assert len(read("out.parquet")) == len(read("out_sensitive.parquet")) == 83 and len(contents()) == 3


@pytest.mark.full
def test_a_file_system_without_links(duck: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(*_: Any, **__: Any) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(os, "link", refuses)
    test_releasing_twice_replaces_both(duck, "csv")
    for name in contents():
        Path(name).unlink()
    test_an_error_in_the_middle_leaves_the_old_files(duck, monkeypatch, False, 2)


def test_an_error_while_the_second_file_is_written(duck: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    with_patients(duck, patients(60))
    published(duck, to("out.csv"))
    before = contents()
    real = duck.engine.write_file

    def fails(query: Any, path: str) -> None:
        if "sensitive" in path:
            raise EngineError("the disk is full")
        real(query, path)

    monkeypatch.setattr(duck.engine, "write_file", fails)
    with pytest.raises(EngineError, match="the disk is full"):
        published(duck, to("out.csv"))
    assert contents() == before


KILLED = """
import os, sys, sqlanon
sys.path.insert(0, sys.argv[1])
from conftest import Database
from parting import KEY, anatomy, patients, published, with_patients
engine = sqlanon.connect(":memory:", read_only=False)
with_patients(Database(engine), patients(83, seed=2))
left = int(sys.argv[2])
def counted(real):
    def killed(one, other, **options):
        global left
        if left == 0:
            os.kill(os.getpid(), 9)
        left -= 1
        real(one, other, **options)
    return killed
os.link, os.replace = counted(os.link), counted(os.replace)
published(Database(engine), anatomy(3, release={"path": "out.parquet"}))
"""


# Three files are moved to their places; those that they replace were kept under other names before.
@pytest.mark.full
@pytest.mark.parametrize(("first", "step"), [(True, step) for step in range(3)] + [(False, step) for step in range(6)])
def test_a_killed_process_leaves_nothing_behind_at_the_next_run(duck: Database, first: bool, step: int) -> None:
    with_patients(duck, patients(60))
    if not first:
        published(duck, to("out.parquet"))
    before = contents()
    code = [sys.executable, "-c", KILLED, str(TESTS), str(step)]
    assert subprocess.run(code, capture_output=True, timeout=300).returncode == -signal.SIGKILL
    hidden = [name for name in contents() if name.startswith(".")]
    assert hidden  # or there would be nothing to look for
    if not first:  # the evidence says whether the files are of two versions
        found = check(to("out.parquet"), duck.engine, release=Source(path="out.parquet"))
        assert found.holds == (step <= 3)

    # The next run may fail in its turn: what was there before the killed one is there again.
    def refuses(query: Any, path: str) -> None:
        raise EngineError("the disk is full")

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(duck.engine, "write_file", refuses)
        with pytest.raises(EngineError, match="the disk is full"):
            published(duck, to("out.parquet"))
    if not first:
        assert contents() == before
    published(duck, to("out.parquet"))
    assert set(contents()) == {"out.parquet", "out_sensitive.parquet", "out.parquet.evidence.json"}
    assert check(to("out.parquet"), duck.engine, release=Source(path="out.parquet")).holds


def test_left_over_files_of_another_release_stay(duck: Database) -> None:
    with_patients(duck, patients(60))
    ours = [".out.1.staged.csv", ".out.1.staged_sensitive.csv", ".out.csv.evidence.json.1"]
    others = [".out.b.1.staged.csv", ".out.b.1.staged_sensitive.csv", ".out_b.1.staged.csv", ".out.mine.staged.csv"]
    for name in ours + others:
        Path(name).write_text("", encoding="utf-8")
    published(duck, to("out.csv"))
    assert {name for name in contents() if name.startswith(".")} == set(others)


@pytest.mark.full
@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_files_are_measured_again(duck: Database, ending: str) -> None:
    with_patients(duck, patients(60))
    asked, release = to(f"out.{ending}"), Source(path=f"out.{ending}")
    published(duck, asked)
    assert check(asked, duck.engine, release=release).holds
    Path("other").mkdir()
    published(duck, to(f"other/out.{ending}"), OTHER_KEY)
    # Groups of the same sizes: only the evidence can tell that these two files do not belong together.
    Path(f"out_sensitive.{ending}").write_bytes(Path(f"other/out_sensitive.{ending}").read_bytes())
    found = check(asked, duck.engine, release=release)
    assert not found.holds
    assert any(f"'out_sensitive.{ending}' is not the file that was published" in item for item in found.breaches)
    Path(f"out.{ending}.evidence.json").unlink()  # without it, what the files say counts
    quoted = f"(SELECT * FROM 'out_sensitive.{ending}' WHERE disease IS DISTINCT FROM 'flu')"
    duckdb.sql(f"COPY {quoted} TO 'fewer.{ending}'")
    os.replace(f"fewer.{ending}", f"out_sensitive.{ending}")
    found = check(asked, duck.engine, release=release)
    assert any("do not fit together" in item for item in found.breaches)
    Path(f"out_sensitive.{ending}").unlink()
    with pytest.raises(SourceError, match=f"there is no file 'out_sensitive.{ending}'") as error:
        check(asked, duck.engine, release=release)
    assert "two files" in (error.value.hint or "")


@pytest.mark.full
def test_files_are_attacked_and_reported_like_tables(duck: Database) -> None:
    with_patients(duck, patients(60))
    published(duck, to("out.parquet"))
    published(duck, anatomy(3))
    by_file = attack(to("out.parquet"), duck.engine, release=Source(path="out.parquet"), names=["attribute_linkage"])
    by_table = attack(anatomy(3), duck.engine, release=Source(table="released"), names=["attribute_linkage"])
    assert by_file.attacks and by_file.attacks[0].after is not None
    assert by_file.attacks[0].after == by_table.attacks[0].after  # the same key, so the same groups
    document = report(to("out.parquet"), duck.engine)
    assert document["attacks"]["attacks"]


def test_a_plan_writes_no_file(duck: Database) -> None:
    with_patients(duck, patients(60))
    found = plan_refresh(to("out.parquet"), duck.engine, secret=KEY)
    assert found.refused is None and found.document is not None
    assert found.document["release"]["companions"] == {"out_sensitive.parquet": "file"}
    assert not contents()


def test_what_is_written_is_checked_first(duck: Database) -> None:
    """The empty text is NULL once it was read from a CSV file, so that a group has too few values there."""
    rows = [{**row, "disease": ("", "flu", "hiv")[row["tag"] % 3]} for row in patients(60)]
    with_patients(duck, rows)
    unknown = {"sensitive_nulls": "unknown"}
    published(duck, to("out.parquet", **unknown))
    with pytest.raises(PolicyError, match="as written it breaks the policy"):
        published(duck, to("out.csv", **unknown))
    assert not Path("out.csv").exists() and not Path("out_sensitive.csv").exists()


def test_folders_and_views_are_refused(duck: Database) -> None:
    with_patients(duck, patients(60))
    for release in ({"path": "out/"}, {"view": "released"}):
        with pytest.raises(SqlanonError, match="anatomy is released into tables or files") as error:
            published(duck, anatomy(3, release=release))
        assert "path: patients_released.parquet" in (error.value.hint or "")
    assert not contents()


@pytest.mark.full
def test_from_the_command_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SQLANON_KEY", KEY)
    engine = sqlanon.connect("hospital.duckdb", read_only=False)
    with_patients(Database(engine), patients(60))
    engine.close()
    Path("shared").mkdir()
    written = json.loads(anatomy(3).model_dump_json(exclude_defaults=True))
    written |= {"source": {"database": "hospital.duckdb", "table": "patients"}}
    written |= {"models": [{"distinct_l_diversity": {"l": 3}}], "release": {"path": "shared/out.parquet"}}
    written |= {"algorithm": {"anatomy": {"l": 3}}, "columns": {k: v["role"] for k, v in written["columns"].items()}}
    Path("policy.yml").write_text(json.dumps(written), encoding="utf-8")
    done = CliRunner().invoke(main, ["publish", "policy.yml"])
    assert done.exit_code == 0, done.output + done.stderr
    assert "with the file" in done.output and "out_sensitive.parquet" in done.output
    again = CliRunner().invoke(main, ["check", "policy.yml", "--release", "shared/out.parquet"])
    assert again.exit_code == 0, again.output + again.stderr
    rows = duckdb.sql(
        f"SELECT count(*) FROM 'shared/out.parquet' JOIN 'shared/out_sensitive.parquet' USING ({GROUP})"
    ).fetchall()
    assert rows[0][0] >= 180

"""What a newcomer gets wrong with the commands: a clear message, exit code 2, and nothing left behind."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest
from click.testing import CliRunner

from sqlanon.cli import main

POLICY = """\
source: {source}
columns: {{id: identifier, age: quasi_identifier, disease: sensitive}}
models: [{{distinct_l_diversity: {{l: 2}}}}]
{more}
release: {{table: shown}}
"""
ANATOMY = "algorithm: {anatomy: {l: 2}}"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SQLANON_KEY", "a key that is long enough for a test")
    rows = [f"{i},{20 + i % 50},{['flu', 'cold', 'ms'][i % 3]}" for i in range(300)]
    (tmp_path / "people.csv").write_text("id,age,disease\n" + "\n".join(rows) + "\n")
    with duckdb.connect(str(tmp_path / "ward.duckdb")) as connection:
        connection.execute("CREATE TABLE people AS SELECT * FROM read_csv('people.csv')")
    return tmp_path


def written(folder: Path, source: str, more: str = "", name: str = "policy.yml") -> str:
    (folder / name).write_text(POLICY.format(source=source, more=more))
    return name


def told(*words: str) -> str:
    done = CliRunner().invoke(main, list(words))
    assert done.exit_code == 2, done.output
    assert "Traceback" not in done.output
    return done.output


@pytest.mark.parametrize("more", [ANATOMY, ""])
def test_a_table_needs_a_database_that_stays(folder: Path, more: str) -> None:
    found = told("publish", written(folder, "{path: people.csv}", more))
    assert "needs a database to lie in" in found and "published" not in found


def test_a_misspelt_database_is_not_made(folder: Path) -> None:
    found = told("publish", written(folder, "{table: people, database: wart.duckdb}", ANATOMY))
    assert "there is no database 'wart.duckdb'" in found and "did you mean 'ward.duckdb'?" in found
    assert not (folder / "wart.duckdb").exists()


def test_rows_of_a_file_may_begin_a_database(folder: Path) -> None:
    name = written(folder, "{path: people.csv, database: new.duckdb}", ANATOMY)
    done = CliRunner().invoke(main, ["publish", name, "--no-workload"])
    assert done.exit_code == 0, done.output
    with duckdb.connect(str(folder / "new.duckdb")) as connection:
        assert connection.execute("SELECT COUNT(*) FROM shown").fetchall() == [(300,)]


@pytest.mark.parametrize("words", [("publish", "people.csv"), ("report", "people.csv", "-o", "page.html")])
def test_a_file_that_is_no_policy(folder: Path, words: tuple[str, ...]) -> None:
    assert "'people.csv' is no policy file" in told(*words)


@pytest.mark.full
def test_what_is_taken_apart_is_attacked_and_not_compared(folder: Path) -> None:
    name = written(folder, "{table: people, database: ward.duckdb}", ANATOMY)
    assert CliRunner().invoke(main, ["publish", name, "--no-workload"]).exit_code == 0
    assert "asks for anatomy, which writes rows itself" in told("compare", name)
    attacked = CliRunner().invoke(main, ["attack", name])
    assert attacked.exit_code == 0 and "definetti of disease" in attacked.output, attacked.output
    assert "took sensitive values apart" in told("risk", "ward.duckdb", "shown")


def test_rows_that_look_like_comments_are_persons(folder: Path) -> None:
    """DuckDB would take # for a comment sign here, and leave out every row that begins with it."""
    rows = [f"b{i},40,M" for i in range(30)] + [f"#{i},{50 + i},F" for i in range(20)]
    (folder / "whole.csv").write_text("ticket,age,sex\n" + "\n".join(rows) + "\n")
    done = CliRunner().invoke(main, ["check", "whole.csv", "--qi", "age,sex", "--k", "2"])
    assert done.exit_code == 1 and "50 rows" in done.output, done.output
    (folder / "ragged.csv").write_text("ticket,age,sex\n" + "\n".join(rows) + "\n# end of file\n")
    found = told("check", "ragged.csv", "--qi", "age,sex", "--k", "2")
    assert "do not have the same number of fields" in found


def test_rows_of_other_lengths_are_not_left_out(folder: Path) -> None:
    (folder / "ragged.csv").write_text("age,zip,sex\n" + "1,2,3\n" * 100 + "1,2\n")
    assert "do not have the same number of fields" in told("risk", "ragged.csv", "--qi", "age")


def test_lines_above_the_names_of_columns(folder: Path) -> None:
    (folder / "above.csv").write_text("\nage,zip\n" + "1,2\n3,4\n" * 5)
    assert "lines above the names of its columns" in told("check", "above.csv", "--qi", "age,zip", "--k", "2")


def test_files_that_cannot_be_read(folder: Path) -> None:
    (folder / "latin.csv").write_bytes("name,age\nJosé,3\nMüller,4\n".encode("latin-1"))
    found = told("check", "latin.csv", "--qi", "age", "--k", "2")
    assert "not encoded in UTF-8" in found and "ller" not in found
    (folder / "late.csv").write_text("age\n" + "".join(f"{i}\n" for i in range(30_000)) + "secret\n")
    found = told("check", "late.csv", "--qi", "age", "--k", "2")
    assert "cannot be read as the type" in found and "secret" not in found


def test_the_risk_before_is_that_of_the_source_and_not_of_changed_rows(folder: Path) -> None:
    """Ages are microaggregated before the search: nobody is alone then, but many are in the source."""
    with duckdb.connect(str(folder / "ward.duckdb")) as connection:
        connection.execute("UPDATE people SET age = id")
    name = written(
        folder,
        "{table: people, database: ward.duckdb}",
        "transformations: [{microaggregation: {columns: [age], k: 60}}]",
    )
    done = CliRunner().invoke(main, ["publish", name, "--no-workload", "--report", "page.html"])
    assert done.exit_code == 0, done.output
    assert "was 100%" in (folder / "page.html").read_text()

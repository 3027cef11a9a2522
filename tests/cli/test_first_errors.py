"""What a person meets on the first day: files of other programs, misspelt policies, a database that may not be written.

Each gets a message that names the cause and says what to do, before any work is done, and exit code 2.
"""

from __future__ import annotations

import os
import random
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import click
import duckdb
import pytest
from click.testing import CliRunner
from conftest import Database

import sqlanon
from sqlanon import policy as policies
from sqlanon.cli import main
from sqlanon.errors import PolicyError, SourceError
from sqlanon.relations.source import reader

POLICY = """\
source: {path: people.csv}
columns: {age: quasi_identifier, zip: quasi_identifier, vaccinated: insensitive, disease: sensitive}
hierarchies: {age: {age: {}}, zip: {prefix: {length: 4}}}
models: [{k_anonymity: {k: 2}}]
release: {path: released.csv}
"""


@pytest.fixture
def people(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two hundred people, with a column of yes and no, and a policy for them."""
    draw = random.Random(7)
    rows = [
        f"{draw.randint(20, 60)},{draw.choice(['1010', '1020'])},{draw.choice(['yes', 'no'])},{draw.choice('abc')}"
        for _ in range(200)
    ]
    (tmp_path / "people.csv").write_text("\n".join(["age,zip,vaccinated,disease", *rows]) + "\n")
    (tmp_path / "policy.yml").write_text(POLICY)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*args: str, code: int = 2) -> str:
    done = CliRunner().invoke(main, [*args])
    assert done.exit_code == code, done.output
    return done.output


def changed(old: str, new: str) -> str:
    assert old in POLICY
    Path("policy.yml").write_text(POLICY.replace(old, new))
    return "policy.yml"


# Values of files ------------------------------------------------------------------------------------------------------


@pytest.mark.full
@pytest.mark.parametrize("words", [("yes", "no"), ("T", "F"), ("true", "false"), ("Yes", "No"), ("1", "0"), ("Y", "N")])
def test_words_of_a_csv_file_are_published_as_they_were_written(people: Path, words: tuple[str, str]) -> None:
    text = Path("people.csv").read_text()
    Path("people.csv").write_text(text.replace(",yes,", f",{words[0]},").replace(",no,", f",{words[1]},"))
    run("publish", "policy.yml", "--no-workload", code=0)
    released = [line.split(",")[-2] for line in Path("released.csv").read_text().splitlines()[1:]]
    given = [line.split(",")[-2] for line in Path("people.csv").read_text().splitlines()[1:]]
    assert sorted(released) == sorted(given) and set(given) == set(words)


def test_numbers_dates_and_leading_zeros_keep_their_types(tmp_path: Path) -> None:
    file = tmp_path / "t.csv"
    file.write_text(
        "n,x,d,t,z,w\n1,1.5,2020-01-05,2020-01-05 10:00:00,0101,yes\n2,2.5,2020-01-06,2020-01-06 11:00:00,0202,no\n"
    )
    engine = sqlanon.connect()
    from sqlanon.relations.source import relation

    kinds = [item.type for item in engine.columns(relation(policies.Source(path=str(file)), "duckdb"))]
    assert kinds == ["BIGINT", "DOUBLE", "DATE", "TIMESTAMP", "VARCHAR", "VARCHAR"]


@pytest.mark.full
def test_a_tsv_file_is_written_with_tabs(people: Path) -> None:
    run("publish", changed("released.csv", "released.tsv"), "--no-workload", code=0)
    assert Path("released.tsv").read_text().splitlines()[0] == "age\tzip\tvaccinated\tdisease"
    assert "holds" in run("check", "policy.yml", "--release", "released.tsv", code=0)


@pytest.mark.full
def test_a_person_at_a_terminal_is_told_what_comes_next(people: Path) -> None:
    """A script that reads the output is not."""
    assert "next:" not in run("publish", "policy.yml", "--no-workload", code=0)
    own, other = os.openpty()
    command = [sys.executable, "-m", "sqlanon", "publish", "policy.yml", "--no-workload"]
    done = subprocess.run(
        command, stdout=other, stderr=subprocess.DEVNULL, check=False, env=os.environ | {"COLUMNS": "200"}
    )
    os.close(other)
    said = os.read(own, 1 << 20).decode()
    os.close(own)
    assert done.returncode == 0 and "next: sqlanon report policy.yml -o report.html" in said
    for line in re.findall(r"sqlanon (\w+) policy.yml", said):
        assert line in main.list_commands(click.Context(main))  # type: ignore[attr-defined]


# Formats --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "file, what, how",
    [
        ("people.xls", "is an old Excel file", "save it as .xlsx"),
        ("people.orc", "is an ORC file", "pandas.read_orc('people.orc')"),
        ("people.sav", "is an SPSS file", "pandas.read_spss('people.sav')"),
        ("people.zip", "is an archive", "unpack it first"),
    ],
)
def test_files_of_other_programs(people: Path, file: str, what: str, how: str) -> None:
    Path(file).write_text("{}")
    checks = run("check", file, "--qi", "age", "--k", "2"), run("check", changed("people.csv", file))
    for said in (*checks, run("init", file)):
        assert what in said and how in said


@pytest.mark.full
def test_no_line_of_a_file_is_skipped(people: Path) -> None:
    """DuckDB would guess where the table begins: before two longer lines, a person was left out of the check."""
    Path("ragged.csv").write_text("age,zip\n30,1\n" + "40,2,x\n" * 4)
    said = run("check", "ragged.csv", "--qi", "age,zip", "--k", "2")
    assert "column 'age' is not in the source" in said and "holds" not in said
    drafted = run("init", "ragged.csv", code=0)
    assert "from 5 rows and 1 column" in drafted and "Only one column was found" in drafted
    # What the draft proposes reads the table below a title.
    Path("titled.csv").write_text("Our customers\n" + Path("people.csv").read_text())
    query = "query: \"SELECT * FROM read_csv('titled.csv', skip = 1)\""
    assert "200 of 200 rows" in run("publish", changed("path: people.csv", query), "--no-workload", code=0)
    Path("garbage.csv").write_bytes(bytes(range(256)) * 20)
    assert "the file 'garbage.csv' is not encoded in UTF-8" in run("check", "garbage.csv", "--qi", "age", "--k", "2")


@pytest.mark.full
@pytest.mark.parametrize("file", ["people.json", "people.jsonl", "people.ndjson", "people.jsonl.gz", "list.json"])
def test_json_is_read(people: Path, file: str) -> None:
    options = "FORMAT json, ARRAY true" if file == "list.json" else "FORMAT json"
    duckdb.connect().execute(f"COPY (FROM 'people.csv') TO '{file}' ({options})")
    expected = run("check", "people.csv", "--qi", "zip", "--k", "2", code=0)
    assert run("check", file, "--qi", "zip", "--k", "2", code=0) == expected.replace("people.csv", file)
    assert "200 of 200 rows" in run("publish", changed("people.csv", file), "--no-workload", code=0)
    assert "source:" in run("init", file, code=0)


def test_a_key_that_only_the_last_row_has_is_a_column(people: Path) -> None:
    Path("late.jsonl").write_text('{"age": 1}\n' * 30_000 + '{"age": 1, "name": "Ann"}\n')
    said = run("check", "late.jsonl", "--qi", "age,name", "--k", "2", code=1)
    assert "k_anonymity" in said and "2 classes" in said


@pytest.mark.full
@pytest.mark.parametrize("ending", ["feather", "arrow"])
@pytest.mark.parametrize("streamed", [False, True])
def test_feather_is_read(people: Path, ending: str, streamed: bool) -> None:
    import pyarrow
    from pyarrow import feather, ipc

    rows = duckdb.connect().sql("FROM 'people.csv'").to_arrow_table()
    if streamed:
        with pyarrow.OSFile(f"people.{ending}", "wb") as file, ipc.new_stream(file, rows.schema) as writer:
            writer.write_table(rows)
    else:
        feather.write_feather(rows, f"people.{ending}")
    expected = run("check", "people.csv", "--qi", "zip", "--k", "2", code=0)
    found = run("check", f"people.{ending}", "--qi", "zip", "--k", "2", code=0)
    assert found == expected.replace("people.csv", f"people.{ending}")
    assert "200 of 200 rows" in run("publish", changed("people.csv", f"people.{ending}"), "--no-workload", code=0)
    assert "source:" in run("init", f"people.{ending}", code=0)


def test_files_that_are_not_what_their_names_say(people: Path) -> None:
    for name in ("people.feather", "people.jsonl"):
        Path(name).write_text('{"age": secret}\n')
    assert "is no Feather file, whatever its name says" in run("check", "people.feather", "--qi", "age", "--k", "2")
    said = run("check", "people.jsonl", "--qi", "age", "--k", "2")
    assert "the file 'people.jsonl' is no JSON in" in said and "secret" not in said


@pytest.mark.full
def test_excel_is_read_or_names_what_is_missing(people: Path) -> None:
    """Without the extension, whatever the file holds, the message says how to get it, and what else to do."""
    Path("people.xlsx").write_bytes(b"")
    said = run("check", "people.xlsx", "--qi", "age", "--k", "2")
    try:
        duckdb.execute("LOAD excel")
    except duckdb.Error:
        assert "DuckDB's extension 'excel', which is not installed" in said
        assert "INSTALL excel" in said and "save the file as CSV" in said


def test_no_person_below_an_empty_row_of_a_sheet_is_left_out() -> None:
    assert reader("people.xlsx").sql("duckdb") == "READ_XLSX('people.xlsx', header = TRUE, stop_at_empty = FALSE)"


@pytest.mark.full
@pytest.mark.parametrize("path", ["s3://bucket/people.parquet", "https://example.org/people.csv"])
def test_remote_files_name_the_extension_that_is_missing(people: Path, path: str) -> None:
    """The network of the tests may or may not reach the extension: without it the message names it."""
    said = run("check", changed("people.csv", path))
    try:
        duckdb.execute("LOAD httpfs")
    except duckdb.Error:
        assert "DuckDB's extension 'httpfs', which is not installed" in said and "INSTALL httpfs" in said


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16"])
def test_an_encoding_of_json_is_named_with_its_file_and_no_row(people: Path, encoding: str) -> None:
    Path("foreign.jsonl").write_bytes(('{"age": 30, "zip": "Österreich"}\n' * 5).encode(encoding))
    said = run("check", "foreign.jsonl", "--qi", "age", "--k", "2")
    iconv = "UTF-16" if encoding == "utf-16" else "WINDOWS-1252"
    assert "the file 'foreign.jsonl' is not encoded in UTF-8" in said
    assert f"iconv -f {iconv} -t UTF-8 foreign.jsonl > utf8.jsonl" in said and "sterreich" not in said


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16"])
def test_an_encoding_is_named_with_its_file_and_no_row(people: Path, encoding: str) -> None:
    text = "age,zip\n" + "30,Österreich\n" * 5
    Path("foreign.csv").write_bytes(text.encode(encoding))
    said = run("check", "foreign.csv", "--qi", "age", "--k", "2")
    iconv = "UTF-16" if encoding == "utf-16" else "WINDOWS-1252"
    assert "the file 'foreign.csv' is not encoded in UTF-8" in said
    assert f"iconv -f {iconv} -t UTF-8 foreign.csv" in said
    assert "sterreich" not in said and "30" not in said


def test_a_file_that_only_calls_itself_parquet(people: Path) -> None:
    Path("people.csv").rename("people.parquet")
    assert "is no Parquet file, whatever its name says" in run("check", "people.parquet", "--qi", "age", "--k", "2")


# Policies -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["check", "publish", "risk", "refresh", "plan"])
@pytest.mark.parametrize(
    "old, new, said",
    [
        (
            "models:",
            "algorithm: mondrain\nmodels:",
            "yml:4: unknown algorithm 'mondrain'\n  hint: did you mean 'mondrian'?",
        ),
        ("models:", "algorithm: {mondrian: {stric: true}}\nmodels:", "policy.yml:4: unknown key 'stric'"),
        (
            "models:",
            "algorithm: {full_domain: {class_attribute: ag}}\nmodels:",
            "class attribute 'ag' is no column",
        ),
        (
            "released.csv",
            "released.xlsx",
            "yml:5: the release 'released.xlsx' would be neither a Parquet",
        ),
        ("released.csv", "released.csv.gz", "would be neither a Parquet nor a CSV"),
        ("released.csv", "s3://bucket/released.csv", "a file is written on this machine"),
        ("released.csv", "s3://bucket/releases/", "a file is written on this machine"),
    ],
)
def test_every_command_reads_the_whole_policy(people: Path, command: str, old: str, new: str, said: str) -> None:
    assert said in run(command, changed(old, new))


def test_all_problems_of_a_policy_at_once() -> None:
    text = (
        POLICY.replace("people.csv", "people.ods")
        .replace("k: 2", "k: two")
        .replace("{prefix: {length: 4}}", "{prefx: {length: 4}}")
        .replace("models:", "algorithm: {mondrian: {stric: true}}\nminimize: npc\nmodels:")
        .replace("released.csv", "released.json")
    )
    with pytest.raises(PolicyError) as caught:
        policies.parse(text)
    said = str(caught.value)
    for part in (
        "spreadsheet",
        "'k' must be an integer",
        "'prefx'",
        "'stric'",
        "'npc'",
        "'released.json'",
        "6 problems",
    ):
        assert part in said


def test_all_hierarchy_files_that_are_missing_at_once(people: Path) -> None:
    changed("{age: {age: {}}, zip: {prefix: {length: 4}}}", "{age: {csv: {path: a.csv}}, zip: {csv: {path: z.csv}}}")
    said = run("publish", "policy.yml")
    assert "a.csv: the hierarchy file cannot be read" in said and "z.csv: the hierarchy file cannot be read" in said


def test_an_unknown_algorithm_of_options() -> None:
    with pytest.raises(PolicyError, match="unknown algorithm 'mondrain'"):
        policies.from_options("t", qi=["a"], models=[("k_anonymity", {"k": 2})], algorithm="mondrain")


# Exit codes -----------------------------------------------------------------------------------------------------------


@pytest.mark.full
def test_refresh_tells_a_wrong_policy_from_a_broken_requirement(people: Path) -> None:
    assert "must be an integer" in run("refresh", changed("k: 2", "k: two"))
    assert "no generalization meets" in run("refresh", changed("k: 2", "k: 201"), code=1)
    assert "refreshed" in run("refresh", changed("k: 2", "k: 3"), code=0)


# Wide tables ----------------------------------------------------------------------------------------------------------

WIDE = 18


@pytest.fixture
def wide(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], str]:
    draw = random.Random(3)
    names = [f"q{i}" for i in range(WIDE)]
    lines = [",".join(str(draw.randint(0, 60)) for _ in names) for _ in range(60)]
    (tmp_path / "wide.csv").write_text("\n".join([",".join(names), *lines]) + "\n")
    monkeypatch.chdir(tmp_path)

    def write(algorithm: str) -> str:
        columns = ", ".join(f"{name}: quasi_identifier" for name in names)
        levels = ", ".join(f"{name}: {{intervals: {{widths: [10, 20]}}}}" for name in names)
        Path("wide.yml").write_text(
            f"source: {{path: wide.csv}}\ncolumns: {{{columns}}}\nhierarchies: {{{levels}}}\n{algorithm}"
            "models: [{k_anonymity: {k: 3}}]\nsuppression_limit: 1\nrelease: {path: out.csv}\n"
        )
        return "wide.yml"

    return write


@pytest.mark.full
def test_the_report_of_a_wide_release(wide: Callable[[str], str]) -> None:
    policy = wide("algorithm: {heuristic: {seconds: 2}}\n")
    run("publish", policy, "--no-workload", code=0)
    run("report", policy, "--no-attacks", code=0)
    page = Path("report.html").read_text()
    assert "18 quasi-identifiers have 6.9e+10 combinations of levels, too many to search for each k" in page


@pytest.mark.full
@pytest.mark.parametrize("algorithm", ["full_domain", "incognito", "samarati"])
def test_a_lattice_that_does_not_fit_into_memory(wide: Callable[[str], str], algorithm: str) -> None:
    said = run("publish", wide(f"algorithm: {algorithm}\n"))
    assert "the lattice has 6.9e+10 nodes, too many for this algorithm" in said and "heuristic" in said


# Databases ------------------------------------------------------------------------------------------------------------


@pytest.mark.full
def test_a_database_that_was_opened_for_reading(people: Path) -> None:
    duckdb.connect("w.duckdb").execute("CREATE TABLE people AS FROM 'people.csv'")
    text = POLICY.replace("{path: people.csv}", "{database: w.duckdb, table: people}")
    policy = policies.parse(text.replace("{path: released.csv}", "{table: released}"))
    engine = sqlanon.connect("w.duckdb")
    try:
        with pytest.raises(SourceError) as caught:
            sqlanon.publish(policy, engine)
    finally:
        engine.close()
    assert "the database is open for reading only" in str(caught.value) and "read_only=False" in str(caught.value)
    engine = sqlanon.connect("w.duckdb", read_only=False)
    assert sqlanon.publish(policy, engine).evidence.holds  # what the hint says
    engine.close()


def test_a_role_of_postgresql_that_may_not_read_or_write(postgres: Database, postgres_url: str) -> None:
    postgres.run("DROP TABLE IF EXISTS guarded")
    postgres.run("CREATE TABLE guarded (age int, disease text)")
    postgres.run("INSERT INTO guarded SELECT i % 3, 'x' FROM generate_series(1, 30) AS g(i)")
    postgres.run("DROP ROLE IF EXISTS stranger")
    postgres.run("CREATE ROLE stranger LOGIN PASSWORD 'x'")
    postgres.run("GRANT USAGE ON SCHEMA public TO stranger")
    parts = urlsplit(postgres_url)
    url = urlunsplit(parts._replace(netloc=f"stranger:x@{parts.netloc.rpartition('@')[2]}"))
    policy = policies.parse(
        "source: {table: guarded}\ncolumns: {age: quasi_identifier, disease: sensitive}\n"
        "models: [{k_anonymity: {k: 2}}]\nrelease: {table: guarded_released}\n"
    )
    engine = sqlanon.connect(url)
    try:
        with pytest.raises(SourceError) as caught:
            sqlanon.check(policy, engine)
        assert "permission denied for table guarded" in str(caught.value) and "GRANT you SELECT" in str(caught.value)
        postgres.run("GRANT SELECT ON guarded TO stranger")
        postgres.run("REVOKE CREATE ON SCHEMA public FROM PUBLIC")
        with pytest.raises(SourceError) as caught:
            sqlanon.publish(policy, engine)
        assert "permission denied for schema" in str(caught.value) and "GRANT you CREATE" in str(caught.value)
    finally:
        engine.close()
        postgres.run("DROP OWNED BY stranger; DROP ROLE stranger")


def test_the_public_names_are_listed() -> None:
    assert set(dir(sqlanon)) >= {"publish", "check", "connect", "load", "open_gateway", "SqlanonError"}
    assert all(hasattr(sqlanon, name) for name in dir(sqlanon))

"""Hierarchies that are built from values: trees are valid, and groups hold what is alike."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest
from click.testing import CliRunner, Result
from conftest import Database, examples
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlglot import exp

from sqlanon.cli import main
from sqlanon.evidence.build_hierarchy import grow_hierarchy, read_levels
from sqlanon.evidence.profile_table import profile
from sqlanon.evidence.suggest_roles import RolesGiven
from sqlanon.evidence.value_tree import ROOT, ValueCounts, build_tree, choose_group_numbers, print_tree, write_rows
from sqlanon.hierarchies import Hierarchy, build

texts = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), max_size=8)

TRAPS = ["a | b", "a", "b", "*", "a | +1"]


@st.composite
def counted_values(draw: st.DrawFn) -> ValueCounts:
    values = draw(
        st.lists(texts | st.sampled_from(["a | b", "a", "b", "*", "a | +1"]), min_size=3, max_size=30, unique=True)
    )
    records = draw(st.lists(st.integers(1, 1000), min_size=len(values), max_size=len(values)))
    places = draw(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=len(values), max_size=len(values)))
    return ValueCounts(values, np.array(records, dtype=float), np.array(places, dtype=float))


@settings(max_examples=examples(200))
@given(counted_values(), st.integers(1, 3))
def test_every_tree_is_a_hierarchy(tmp_path_factory: pytest.TempPathFactory, given_: ValueCounts, levels: int) -> None:
    numbers = choose_group_numbers(len(given_.values), levels)
    rows = build_tree(given_, numbers)
    assert sorted(row[0] for row in rows) == sorted(given_.values)
    assert Hierarchy(height=len(rows[0]) - 1, root=ROOT, rows=tuple(rows)).is_known_tree()
    for level, number in enumerate(numbers, start=1):
        assert len({row[level] for row in rows}) == number
    # A label stands for one set of values, on whatever level it is: regions name them without their level.
    sets: dict[str, set[frozenset[str]]] = {}
    for level in range(len(rows[0]) - 1):
        for label in {row[level] for row in rows}:
            sets.setdefault(label, set()).add(frozenset(row[0] for row in rows if row[level] == label))
    assert {label: found for label, found in sets.items() if len(found) > 1} == {}
    path = tmp_path_factory.mktemp("tree") / "h.csv"
    path.write_text(write_rows(rows), encoding="utf-8", newline="")
    assert list(build("csv", {"path": str(path)}, Path()).rows) == rows
    assert print_tree(rows).startswith(f"* ({len(rows)} values)\n")


def likes(database: Database, rows: int = 600) -> None:
    """Six jobs of two kinds: income and hours tell them apart, spelling does not."""
    jobs = ["a1", "b2", "c1", "d2", "e1", "f2"]
    listed = [
        {
            "job": jobs[i % 6],
            "income": (1000 if jobs[i % 6].endswith("1") else 5000) + i % 97,
            "part": "yes" if jobs[i % 6].endswith("1") else "no",
            "sex": "fm"[i // 6 % 2],
        }
        for i in range(rows)
    ]
    database.table("t", {"job": "TEXT", "income": "INTEGER", "part": "TEXT", "sex": "TEXT"}, listed)


def grown(database: Database, name: str, **asked: Any) -> list[tuple[str, ...]]:
    rows = exp.select("*").from_(exp.to_identifier("t"))
    draft = profile(database.engine, rows, "t", RolesGiven({name: "quasi_identifier"}))
    target = next(facts for facts in draft.columns if facts.name == name)
    return grow_hierarchy(database.engine, rows, target, draft.columns, **asked)


def test_values_are_grouped_by_what_goes_with_them(database: Database) -> None:
    likes(database)
    rows = grown(database, "job", numbers=[2])
    groups = {frozenset(row[0] for row in rows if row[1] == label) for label in {row[1] for row in rows}}
    assert groups == {frozenset({"a1", "c1", "e1"}), frozenset({"b2", "d2", "f2"})}
    by_order = grown(database, "job", numbers=[2], method="frequency")
    assert {frozenset(row[0] for row in by_order if row[1] == label) for label in {row[1] for row in by_order}} == {
        frozenset({"a1", "b2", "c1"}),
        frozenset({"d2", "e1", "f2"}),
    }


def test_a_column_that_follows_becomes_a_level(database: Database) -> None:
    listed = [{"city": f"c{i % 6}", "state": f"s{i % 6 // 2}", "land": f"l{i % 6 // 4}", "x": i % 5} for i in range(60)]
    database.table("t", {"city": "TEXT", "state": "TEXT", "land": "TEXT", "x": "INTEGER"}, listed)
    rows = exp.select("*").from_(exp.to_identifier("t"))
    found = read_levels(database.engine, rows, "city", ["state", "land"])
    assert found is not None and set(found) == {(f"c{i}", f"s{i // 2}", f"l{i // 4}", "*") for i in range(6)}
    assert read_levels(database.engine, rows, "city", ["state", "x"]) is None


def run_command(*words: str) -> Result:
    return CliRunner().invoke(main, ["hierarchy", *words])


@pytest.fixture
def people(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    made = duckdb.connect("people.duckdb")
    made.execute(
        "CREATE TABLE people AS SELECT i AS id, 'job ' || (i % 7) AS job, i % 2 AS sex, [i] AS many, NULL AS gone,"
        " 'x' || i AS own, 1 AS one FROM range(6000) AS g(i)"
    )
    made.execute("COPY (SELECT job, sex FROM people) TO 'people.csv'")
    made.close()
    return tmp_path


def test_build_show_and_change(people: Path) -> None:
    built = run_command("--from", "people.csv", "--column", "job", "--groups", "4,2", "-o", "job.csv")
    assert built.output == "wrote job.csv: 7 values, 3 levels\n"
    rows = list(csv.reader(io.StringIO((people / "job.csv").read_text(encoding="utf-8")), delimiter=";"))
    assert len(rows) == 7 and all(len(row) == 4 for row in rows)
    shown = run_command("job.csv").output
    assert shown.startswith("* (7 values)\n") and shown.count("job 3\n") == 1
    old, other = rows[0][1], next(row[1] for row in rows if row[1] != rows[0][1])
    changed = run_command("job.csv", "--move", f"{rows[0][0]}={other}", "--rename", f"{other}=Other", "-o", "new.csv")
    assert changed.exit_code == 0, changed.output
    after = {row[0]: row[1:] for row in csv.reader(io.StringIO((people / "new.csv").read_text("utf-8")), delimiter=";")}
    assert after[rows[0][0]][0] == "Other" and after[rows[0][0]] == after[next(r[0] for r in rows if r[1] == other)]
    assert old == rows[0][1]


@pytest.mark.full
@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "give a hierarchy file, or --from"),
        (["--from", "people.csv"], "which column?"),
        (["--from", "people.csv", "--column", "jobb"], "did you mean 'job'?"),
        (["--from", "people.duckdb", "--column", "job"], "which table of it?"),
        (["--from", "people.duckdb", "--table", "people", "--column", "gone"], "fewer than two values"),
        (["--from", "people.duckdb", "--table", "people", "--column", "one"], "fewer than two values"),
        (["--from", "people.duckdb", "--table", "people", "--column", "own"], "6,000 values"),
        (["--from", "people.csv", "--column", "job", "--groups", "9"], "do not fit 7 values"),
        (["--from", "people.csv", "--column", "job", "--groups", "two"], "not a list of numbers"),
        (["--from", "people.csv", "--column", "job", "-o", "people.csv"], "exists already"),
        (["--from", "people.csv", "--column", "job", "-o", "no/h.csv"], "there is no folder"),
        (["none.csv"], "cannot be read"),
        (["h.csv", "--groups", "2"], "add --from"),
        (["h.csv", "--rename", "x"], "has no '='"),
        (["h.csv", "--rename", "y=z"], "no group is called 'y'"),
        (["h.csv", "--rename", "g=b"], "is there already"),
        (["h.csv", "--move", "c=g"], "the hierarchy has no value 'c'"),
        (["h.csv", "--move", "a=x"], "no group of the lowest level is called 'x'"),
    ],
)
def test_the_command_tells_what_is_wrong(people: Path, words: list[str], said: str) -> None:
    (people / "h.csv").write_text("a;g;*\nb;g;*\n", encoding="utf-8")
    done = run_command(*words)
    assert done.exit_code == 2 and said in done.output, done.output

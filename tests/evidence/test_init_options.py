"""Options of `sqlanon init`: roles that are given, columns one by one, and odd files."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest
from click.testing import CliRunner
from test_init import published, roles

from sqlanon import policy
from sqlanon.cli import main
from sqlanon.errors import PolicyError
from sqlanon.evidence.draft_policy import draft_policy


def run_init(*words: str, answers: str | None = None) -> str:
    done = CliRunner().invoke(main, ["init", *words], input=answers)
    assert done.exit_code == 0, done.output
    return done.stdout


@pytest.fixture
def people(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    lines = [f'{i},{20 + i % 40},{"ab"[i % 2]},{i % 7},"x{i % 3}"' for i in range(120)]
    (tmp_path / "people.csv").write_text("\n".join(["id,age,city,visits,disease", *lines]), encoding="utf-8")
    return "people.csv"


def test_roles_that_options_give(people: str) -> None:
    read = policy.parse(
        run_init(
            people, "--qi", "visits,age", "--keep", "city", "--sensitive", "id", "--identifier", "disease", "--k", "7"
        )
    )
    assert roles(read) == {
        "id": "sensitive",
        "age": "quasi_identifier",
        "city": "insensitive",
        "visits": "quasi_identifier",
        "disease": "identifier",
    }
    assert read.models[0].params == {"k": 7}
    assert policy.parse(run_init(people, "--person", "visits")).person == "visits"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--qi", "agee"], "'people.csv' has no column 'agee'\n  hint: did you mean 'age'?"),
        (["--person", "nobody"], "has no column 'nobody'"),
        (["--qi", "age", "--keep", "age"], "column 'age' is given twice, in --qi and --insensitive"),
        (["--keep", "id,age,city,visits,disease"], "no column is a quasi-identifier"),
        (["--k", "1"], "Invalid value for '--k'"),
        (["-o", "nowhere/draft.yml"], "there is no folder 'nowhere'"),
    ],
)
def test_options_that_do_not_fit(people: str, words: list[str], said: str) -> None:
    done = CliRunner().invoke(main, ["init", people, *words])
    assert done.exit_code == 2 and said in done.output


def test_columns_one_by_one(people: str) -> None:
    text = run_init(people, "-i", answers="i\nq\nn\n\ns\nid\n")
    read = policy.parse(text)
    assert list(roles(read).values()) == [
        "identifier",
        "quasi_identifier",
        "insensitive",
        "quasi_identifier",
        "sensitive",
    ]
    assert read.person == "id"
    # An empty answer takes the guess; '-' says that each row is a person.
    again = policy.parse(run_init(people, "-i", answers="\n\n\n\n\n-\n"))
    assert roles(again) == roles(policy.parse(run_init(people)))
    assert again.person is None


@pytest.mark.full
def test_an_unedited_publish_is_foretold(people: str, tmp_path: Path) -> None:
    draft = draft_policy(people, None)
    assert draft.summary == (
        "an unedited publish writes people_released.csv: groups of at least 5 rows, 3 columns made coarser, "
        "1 column shown as sensitive, 1 column left out"
    )
    assert f"# As it stands, {draft.summary}.\n" in draft.text
    assert published(draft.text).document["release"]["name"] == "people_released.csv"
    assert (tmp_path / "people_released.csv").exists()
    few = draft_policy(people, None, k=121)
    assert few.summary == "an unedited publish refuses: 120 rows cannot hide in groups of 121"
    with pytest.raises(PolicyError):
        published(few.text)


@pytest.mark.full
def test_persons_in_a_file_are_released_into_a_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    lines = [f"{i // 2},{20 + i % 9},d{i % 3}" for i in range(80)]
    (tmp_path / "visits.csv").write_text("\n".join(["patient_id,age,disease", *lines]), encoding="utf-8")
    (tmp_path / "policies").mkdir()
    assert CliRunner().invoke(main, ["init", "visits.csv", "-o", "policies/draft.yml"]).exit_code == 0
    read = policy.load(tmp_path / "policies/draft.yml")
    assert (read.source.database, read.source.path) == ("../visits_released.duckdb", "../visits.csv")
    # There is no database to check in before the first publish makes it.
    assert CliRunner().invoke(main, ["check", "policies/draft.yml"]).exit_code == 1
    done = CliRunner().invoke(main, ["publish", "policies/draft.yml", "--no-workload"])
    assert done.exit_code == 0, done.output
    made = duckdb.connect(str(tmp_path / "visits_released.duckdb"))
    assert made.sql("SELECT count(*) FROM visits_released").fetchall() == [(80,)]
    made.close()


@pytest.mark.full
def test_odd_files_are_drafted_and_published(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Names with quotes, mixed values in one column, and text beyond ASCII, with a built hierarchy for each."""
    monkeypatch.chdir(tmp_path)
    mixed = ["1", "zwei", "3.0", "", "NA", "ä;ö"]
    lines = [f'{mixed[i % 6]!r},"a""b {i % 4}",{"日本 ü"[i % 4]}' for i in range(72)]
    (tmp_path / "odd.csv").write_text("\n".join(['mixed,"the ""name""",ort', *lines]), encoding="utf-8")
    assert CliRunner().invoke(main, ["init", "odd.csv", "-o", "draft.yml"]).exit_code == 0
    read = policy.load(tmp_path / "draft.yml")
    assert {name: use.kind for name, use in read.hierarchies.items()} == dict.fromkeys(read.quasi_identifiers, "csv")
    done = CliRunner().invoke(main, ["publish", "draft.yml", "--no-workload"])
    assert done.exit_code == 0, done.output
    # A file that was edited stays, unless it is said otherwise.
    (tmp_path / "draft.yml").unlink()
    again = CliRunner().invoke(main, ["init", "odd.csv", "-o", "draft.yml"])
    assert again.exit_code == 2 and "exists already" in again.output
    assert not (tmp_path / "draft.yml").exists()
    assert CliRunner().invoke(main, ["init", "odd.csv", "-o", "draft.yml", "--force"]).exit_code == 0


@pytest.mark.parametrize("rows", ["", "1\n", "\n" * 3])
def test_a_table_that_cannot_be_published_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: str) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "few.csv").write_text(f"age\n{rows}", encoding="utf-8")
    assert "an unedited publish refuses: " in run_init("few.csv", "-o", "few.yml")
    assert CliRunner().invoke(main, ["publish", "few.yml"]).exit_code == 2

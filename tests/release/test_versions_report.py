"""A report is of one version of its release, whatever is published in the meantime."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import Database

from sqlanon import policy
from sqlanon.errors import SourceError
from sqlanon.policy import Policy
from sqlanon.release import gather_report, publish, report

COLUMNS = {"age": "INTEGER", "ill": "TEXT"}
POLICY = """
source: {{table: people}}
columns: {{age: quasi_identifier, ill: sensitive}}
hierarchies: {{age: {{intervals: {{widths: [10]}}}}}}
models: [{{k_anonymity: {{k: 2}}}}]
release: {release}
"""


def asked(database: Database, folder: Path, release: str) -> Policy:
    file = folder / "policy.yml"
    file.write_text(POLICY.format(release=release), encoding="utf-8")
    return policy.load(file)


def fill(database: Database, ages: list[int]) -> None:
    database.table("people", COLUMNS, [{"age": age, "ill": f"ill {age % 3}"} for age in ages])


def publish_meanwhile(monkeypatch: pytest.MonkeyPatch, database: Database, given: Policy) -> None:
    """Another run publishes other rows after the evidence was read, and before anything is measured."""
    load = gather_report.load_evidence
    calls: list[int] = []

    def load_then_publish(*args: object) -> object:
        found = load(*args)  # type: ignore[arg-type]
        if not calls:
            calls.append(1)
            fill(database, [20, 21, 22, 23] * 5)
            publish(given, database.engine)
        return found

    monkeypatch.setattr(gather_report, "load_evidence", load_then_publish)


@pytest.mark.full
def test_the_report_of_a_folder_measures_the_file_of_its_evidence(
    duck: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = asked(duck, tmp_path, f"{{path: {tmp_path}/shown/}}")
    fill(duck, [30, 31, 32, 33, 44, 45])
    publish(given, duck.engine)
    publish_meanwhile(monkeypatch, duck, given)
    document = report(given, duck.engine, explore=0)
    assert (document["records"], document["release"]["file"]) == (6, "release-000001.parquet")
    assert document["risks"]["release"]["records"] == 6  # the version that is shown by now has 20
    assert any("had 6 rows" in note and "has 20 now" in note for note in document["notes"])


@pytest.mark.parametrize("kind", ["table", "view"])
@pytest.mark.full
def test_a_table_that_is_published_anew_meanwhile_stops_the_report(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    given = asked(database, tmp_path, f"{{{kind}: shown}}")
    fill(database, [30, 31, 32, 33, 44, 45])
    publish(given, database.engine)
    publish_meanwhile(monkeypatch, database, given)
    with pytest.raises(SourceError, match="published anew while its report was made"):
        report(given, database.engine, explore=0)
    assert report(given, database.engine, explore=0)["records"] == 20


@pytest.mark.full
def test_a_source_that_is_the_same_is_not_said_to_have_changed(duck: Database, tmp_path: Path) -> None:
    """Risks count persons, and a report once took the rest of their rows for gone."""
    columns = {"who": "INTEGER", "age": "INTEGER", "ill": "VARCHAR"}
    rows = [{"who": i // 2, "age": 30 + i // 2 % 2, "ill": f"ill {i % 3}"} for i in range(24)]
    duck.table("visits", columns, rows)
    text = (
        "source: {table: visits}\n"
        "columns: {who: identifier, age: quasi_identifier, ill: sensitive}\n"
        "person: who\nmodels: [{k_anonymity: {k: 2}}]\nrelease: {table: shown}\n"
    )
    given = policy.parse(text)
    publish(given, duck.engine)
    assert not report(given, duck.engine, explore=0).get("notes")
    duck.table("visits", columns, rows[:-1])
    assert any(
        "had 24 rows" in note and "has 23 now" in note for note in report(given, duck.engine, explore=0)["notes"]
    )

"""Evidence as one typed value: JSON both ways, also for documents that were written before it had a type."""

from __future__ import annotations

import json

import pytest
from conftest import TESTS

from sqlanon.engines import connect
from sqlanon.evidence.release_evidence import ReleaseEvidence
from sqlanon.policy import parse
from sqlanon.release import report
from sqlanon.release.record import COLUMNS
from sqlanon.report import render
from sqlanon.sqltree.tree import literal

# As sqlanon_releases of 0.2.0 kept them, when evidence was a mapping.
BEFORE = {path.stem: path.read_text(encoding="utf-8").strip() for path in TESTS.glob("evidence_before/*")}


@pytest.mark.parametrize("name", BEFORE)
def test_the_text_stays_the_same(name: str) -> None:
    read = ReleaseEvidence.from_json(json.loads(BEFORE[name]))
    assert json.dumps(read.to_json(), ensure_ascii=False) == BEFORE[name]
    assert ReleaseEvidence.from_json(read.to_json()) == read


def test_the_parts_have_types() -> None:
    history, linked = (ReleaseEvidence.from_json(json.loads(BEFORE[name])) for name in ("history", "linked"))
    assert history.history is not None and history.history["version"] == 2
    assert history.risk is not None and history.risk.before is None and history.risk.after is not None
    assert history.checks is not None and history.checks[0].margin is not None and history.checks[0].margin >= 0
    assert linked.linked_rows is not None and linked.linked_rows["accepted"] is True
    assert linked.released == (linked.records or 0) - (linked.suppressed or 0)
    assert linked.verdict is True


def test_what_another_version_wrote_is_kept() -> None:
    document = json.loads(BEFORE["draws"]) | {"later": {"a": [1, None]}, "records": "many"}
    read = ReleaseEvidence.from_json(document)
    assert read.to_json()["later"] == {"a": [1, None]}
    assert read.records is None  # and is not taken for a number


@pytest.mark.parametrize("name", BEFORE)
def test_a_stored_release_is_read_and_reported(name: str) -> None:
    """From the record of a database, as the version before wrote it."""
    document = json.loads(BEFORE[name])
    policy = parse(document["policy"]["text"])
    engine = connect(read_only=False)
    try:
        connection = engine._connection  # type: ignore[attr-defined]
        connection.execute(
            f"CREATE TABLE sqlanon_releases ({', '.join(f'{key} {kind}' for key, kind in COLUMNS.items())})"
        )
        row = {"release": document["release"]["name"], "version": 1, "status": "current", "evidence": BEFORE[name]}
        named = ", ".join(row)
        values = ", ".join(literal(value).sql("duckdb") for value in row.values())
        connection.execute(f"INSERT INTO sqlanon_releases ({named}) VALUES ({values})")
        found = report(policy, engine, explore=0, attacked=False)
    finally:
        engine.close()
    assert json.dumps(found, ensure_ascii=False) == BEFORE[name]
    page = render(found)
    assert document["release"]["name"] in page and "Holds" in page

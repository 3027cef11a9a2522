"""The section on journeys: its numbers are those of the evidence, its plot that of the release."""

from __future__ import annotations

import re
from typing import Any

import pytest
from conftest import Database
from test_choose_doublets import DISEASES, TABLE_IX
from test_publish_journeys import make_policy, with_stays

from sqlanon.evidence.release_evidence import ReleaseEvidence
from sqlanon.paths.journey_flows import read_flows
from sqlanon.relations.source import relation
from sqlanon.release import publish
from sqlanon.report.sections.journeys import journeys


def made(document: Any) -> str:
    section = journeys(ReleaseEvidence.from_json({"sqlanon": "0", "journeys": document}))
    return "" if section is None else str(section.body)


def test_the_section_shows_what_was_measured(database: Database) -> None:
    with_stays(database, TABLE_IX, DISEASES)
    policy = make_policy(release={"table": "stays_released"})
    document = publish(policy, database.engine).document
    flows = document["journeys"]["flows"]
    assert flows["places"] and flows["times"] == ["3", "5", "6", "7", "8", "9"]
    shown = {(int(flows["times"][t - 1]), p): n for t, p, n in flows["visits"]}
    query = "SELECT hour, ward, count(*) FROM stays_released GROUP BY hour, ward"
    assert shown == {(hour, ward): n for hour, ward, n in database.fetch(query)}
    visits, persons = database.fetch("SELECT count(*), count(DISTINCT person_number) FROM stays_released")[0]
    # A journey of n visits has n - 1 moves.
    assert sum(n for *_, n in flows["moves"]) == visits - persons
    html = made(document["journeys"])
    assert "Journeys of the release" in html and html.count("<circle") == len(shown)
    assert re.search(r"minimal violating sequences.*?8", html)


def test_many_times_are_shown_by_the_order_of_visits(duck: Database) -> None:
    duck.run("CREATE TABLE r AS SELECT i AS person_number, 10 * i + j AS hour, 'w' || j AS ward "
             "FROM range(5) AS t(i), range(6) AS s(j)")  # fmt: skip
    policy = make_policy(source={"table": "r"})
    flows = read_flows(duck.engine, relation(policy.source, "duckdb"), "person_number", "hour", "ward")
    assert flows["by"] == "visit" and flows["times"] == []
    assert flows["visits"] == [[j + 1, f"w{j}", 5] for j in range(6)]
    assert flows["moves"] == [[j, f"w{j - 1}", j + 1, f"w{j}", 5] for j in range(1, 6)]


@pytest.mark.parametrize(
    "document",
    [
        {"flows": {"places": ["a"], "visits": [["x", "a", 1]], "moves": []}},
        {"flows": {"places": ["a"], "visits": [[1, "a"]], "moves": []}},
        {"flows": {"places": "a", "visits": 7, "moves": None}},
        {"flows": [1], "visits": "many", "nearest_path": 3},
        {"flows": {"places": ["a"], "visits": [[10**9, "a", 1]], "moves": []}},
    ],
)
def test_broken_evidence_makes_no_error(document: Any) -> None:
    assert "<script" not in made(document)


def test_names_are_escaped() -> None:
    evil = "<script>alert(1)</script>"
    html = made({"flows": {"places": [evil], "times": [evil], "visits": [[1, evil, 3]], "moves": []}})
    assert "<script" not in html and "&lt;script" in html

"""Metrics: right numbers in the format of Prometheus, and no way in for a name or a value."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sqlanon.server.metrics import CLASSES, DECISIONS, DOORS, SECONDS, MetricError, Metrics, class_of


def read(text: str) -> dict[str, float]:
    """The samples of a text, by name and labels; checks the format on the way."""
    found: dict[str, float] = {}
    typed: set[str] = set()
    for line in text.splitlines():
        if line.startswith("#"):
            made = re.fullmatch(r"# (HELP|TYPE) (\w+) (.+)", line)
            assert made, line
            typed |= {made[2]} if made[1] == "TYPE" else set()
            continue
        made = re.fullmatch(r'(\w+)(\{\w+="[^"\\]*"(?:,\w+="[^"\\]*")*\})? (-?[0-9.e+-]+)', line)
        assert made, line
        name = made[1]
        base = re.sub("_(bucket|sum|count)$", "", name)
        assert {name, base} & typed, f"{name} has no type"
        assert line.rpartition(" ")[0] not in found
        found[line.rpartition(" ")[0]] = float(made[3])
    return found


def test_statements_are_counted() -> None:
    made = Metrics()
    made.statement("pg", "answered", "00000", 0.004, epsilon=0.5, withheld=3)
    made.statement("pg", "answered", "00000", 0.2, epsilon=0.25)
    made.statement("http", "refused", "42P01", 100.0)
    found = read(made.text())
    assert found['sqlanon_statements_total{door="pg",decision="answered",class="00"}'] == 2
    assert found['sqlanon_statements_total{door="http",decision="refused",class="42"}'] == 1
    assert (found["sqlanon_epsilon_spent_total"], found["sqlanon_groups_withheld_total"]) == (0.75, 3)
    assert found['sqlanon_statement_seconds_bucket{door="pg",le="0.001"}'] == 0
    assert found['sqlanon_statement_seconds_bucket{door="pg",le="0.005"}'] == 1
    assert found['sqlanon_statement_seconds_bucket{door="pg",le="0.25"}'] == 2
    assert found['sqlanon_statement_seconds_bucket{door="http",le="30.0"}'] == 0
    assert found['sqlanon_statement_seconds_bucket{door="http",le="+Inf"}'] == 1
    assert found['sqlanon_statement_seconds_sum{door="pg"}'] == pytest.approx(0.204)
    assert found['sqlanon_statement_seconds_count{door="pg"}'] == 2


@given(st.lists(st.floats(0, 100), max_size=30))
def test_buckets_hold_all_below_their_edge(times: list[float]) -> None:
    made = Metrics()
    for each in times:
        made.statement("pg", "answered", "00000", each)
    found = read(made.text())
    for edge in SECONDS if times else ():
        assert found[f'sqlanon_statement_seconds_bucket{{door="pg",le="{edge}"}}'] == sum(
            each <= edge for each in times
        )


@given(st.text(), st.text(), st.text())
def test_no_text_gets_in(door: str, decision: str, sqlstate: str) -> None:
    made = Metrics()
    before = made.text()
    if door in DOORS and decision in DECISIONS:
        made.statement(door, decision, sqlstate, 1)
        return
    with pytest.raises(MetricError):
        made.statement(door, decision, sqlstate, 1)
    assert made.text() == before
    assert class_of(sqlstate) in CLASSES


def test_labels_are_those_that_are_declared() -> None:
    made = Metrics()
    for labels in ({}, {"door": "pg", "more": "x"}, {"decision": "answered"}):
        with pytest.raises(MetricError):
            made.connections.add(1, **labels)
    for amount in (-1.0, float("nan")):
        with pytest.raises(MetricError):
            made.epsilon.add(amount)


def test_gauges_go_down_again() -> None:
    made = Metrics()
    for amount in (1, 1, -1):
        made.connections.add(amount, door="pg")
    found = read(made.text())
    assert found['sqlanon_connections{door="pg"}'] == 1

"""Names, values, files and servers that are not as they should be: right answers, or a clear message and exit code 2."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import brute
import duckdb
import pytest
from click.testing import CliRunner, Result
from conftest import Database
from measuring import policy_for

from sqlanon.cli import main
from sqlanon.engines import connect
from sqlanon.errors import PolicyError
from sqlanon.evidence.checks import CheckResult, check
from sqlanon.evidence.loss import loss
from sqlanon.policy import Source

K2 = {"k_anonymity": {"k": 2}}


def checked(database: Database, group: list[str], sensitive: list[str], *models: Any, **more: Any) -> list[CheckResult]:
    return list(check(policy_for(group, sensitive, list(models), **more), database.engine, limit=100).checks)


# Names ----------------------------------------------------------------------------------------------------------------

# Names that SQL must quote, and names that the statements use themselves.
ODD = [
    'say "hi"',
    "it's",
    "two words",
    "a.b",
    "Größe",
    "日本",
    "select",
    "order",
    "MiXed",
    "100%",
    ":k",
    "--",
    "?",
    ";",
]
OWN = ["class_id", "records", "value", "measured", "sqlanon_row", "source", "c1", "c2", "original", "label", "number"]
OWN += ["person", "released", "population", "guard", "category", "node", "level_0", "k", "r", "s", "n", "t", "broken"]
CELLS = [("1", "1", "f"), ("1", "1", "g"), ("1", "2", "g"), ("1", "2", "g"), ("2", "1", "f"), (None, "1", "f")]


@pytest.mark.parametrize("name", ODD + OWN)
def test_a_column_may_have_any_name(database: Database, name: str) -> None:
    """As the second quasi-identifier, so that c1, the first of sqlanon's own names, belongs to another column."""
    columns = ["c2" if name == "c1" else "first", name, "secret"]
    rows = [dict(zip(columns, cells, strict=True)) for cells in CELLS]
    database.table("t", dict.fromkeys(columns, "TEXT"), rows)
    anonymity, diversity = checked(database, columns[:2], ["secret"], K2, {"distinct_l_diversity": {"l": 2}})
    assert [item.columns for item in anonymity.violations] == [
        {columns[0]: None, name: "1"},
        {columns[0]: "2", name: "1"},
    ]
    assert [(item.columns, item.records) for item in diversity.violations] == [({columns[0]: "1", name: "2"}, 2)]
    assert (diversity.classes, diversity.broken_classes) == (4, 3)


@pytest.mark.parametrize("name", [*ODD[:6], *OWN])
def test_a_sensitive_column_may_have_any_name(database: Database, name: str) -> None:
    columns = ["first", "second", name]
    rows = [dict(zip(columns, cells, strict=True)) for cells in CELLS]
    database.table("t", dict.fromkeys(columns, "TEXT"), rows)
    categories = {"categories": [["f"], ["g"]], "l": 2, "alpha": 1}
    models = [{"t_closeness": {"t": 0}}, {"entropy_l_alpha_diversity": categories}, {"expected_confidence": {}}]
    tree = {"tree": {"tree": {"*": ["f", "g"]}}}
    models += [{"hierarchical_t_closeness": {"t": 0}}, {"nt_closeness": {"n": 3, "t": 0}}]
    found = checked(database, columns[:2], [name], *models, hierarchies={name: tree})
    assert [result.attribute for result in found] == [name] * 5
    assert [result.measured for result in found] == pytest.approx(
        [0.5, 1, 1 - (1 - 1 / 12 * 2 / 3 * 1 / 2) ** 6, 0.5, 0.5], abs=1
    )
    distance = brute.t_closeness(rows, columns[:2], name, t=0)
    assert found[0].measured == found[3].measured == pytest.approx(float(max(distance.values())))

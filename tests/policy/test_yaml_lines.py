"""Scalars are read as people mean them, and each part knows its line."""

from __future__ import annotations

from typing import Any

import pytest

from sqlanon.policy import yaml_lines
from sqlanon.policy.yaml_lines import Origin, PolicyProblem


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("5", 5),
        ("-0.5", -0.5),
        ("1e-5", 1e-5),
        ("+.5E+2", 50.0),
        ("12345678901234567890", 12345678901234567890.0),
        (".inf", float("inf")),
        ("-.Inf", float("-inf")),
        ("true", True),
        ("FALSE", False),
        ("~", None),
        ("null", None),
        ("'5'", "5"),
        ("!!str 5", "5"),
        ("yes", "yes"),
        ("Off", "Off"),
        ("007", "007"),
        ("0x1F", "0x1F"),
        ("1_000", "1_000"),
        ("12:30:45", "12:30:45"),
        ("2024-01-01", "2024-01-01"),
        ("=", "="),
    ],
)
def test_scalars(text: str, value: Any) -> None:
    document = yaml_lines.read_yaml(f"key: {text}")
    assert not document.problems
    assert document.data == {"key": value}
    assert type(document.data["key"]) is type(value)


def test_a_scalar_stays_text_where_the_caller_says_so() -> None:
    document = yaml_lines.read_yaml("a: [1.10, true, ~, 2]\nb: 1.10", lambda path: path[0] == "a")
    assert document.data == {"a": ["1.10", "true", None, "2"], "b": 1.1}


def test_each_part_has_its_line() -> None:
    document = yaml_lines.read_yaml("# comment\n\na:\n  b: {c: 1,\n      d: [x,\n y]}\ne: |\n  text\n")
    assert document.lines == {
        (): 3,
        ("a",): 3,
        ("a", "b"): 4,
        ("a", "b", "c"): 4,
        ("a", "b", "d"): 5,
        ("a", "b", "d", 0): 5,
        ("a", "b", "d", 1): 6,
        ("e",): 7,
    }


def test_a_file_of_data_is_not_read() -> None:
    (problem,) = yaml_lines.read_yaml("a" * 1_000_001).problems
    assert problem.message == "the file is longer than 1,000,000 characters"


def test_problems_are_told_in_the_order_of_their_lines() -> None:
    origin = Origin("p.yml", places={(): 1, ("a",): 3})
    problems = [
        PolicyProblem("third", path=("a", "b")),
        PolicyProblem("first"),
        PolicyProblem("second", line=2, column=7),
    ]
    assert str(yaml_lines.report(problems, origin)) == (
        "p.yml:1: first\np.yml:2:7: second\np.yml:3: third\n3 problems in p.yml"
    )

"""Bands of numbers cover their numbers and nest, on real engines.

Labels are read back with Decimal, which had no part in making them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from itertools import pairwise
from typing import Any

import pytest
from conftest import Database, examples
from hierarchy_labels import assert_functions, labels_of, made
from hypothesis import given, settings
from hypothesis import strategies as st

properties = settings(max_examples=examples(25))

SCALES: list[dict[str, Any]] = [
    {"widths": [5, 10, 20]},
    {"widths": [5, 10], "min": 0, "max": 90},
    {"widths": [7], "origin": 3, "max": -4},
    {"widths": [0.1, 0.5, 2]},
    {"widths": [0.25, 1], "origin": 0.5, "min": -1.5, "max": 100.5},
    {"widths": [0.001]},
    {"widths": [1000000, 1000000000]},
]
NUMBER = r"-?(?:0|[1-9]\d*)(?:\.\d*[1-9])?"


def read_interval(label: str) -> tuple[Decimal, Decimal]:
    """The numbers that a label covers: from the first on, below the second."""
    if match := re.fullmatch(rf"\[({NUMBER}), ({NUMBER})\)", label):
        return Decimal(match[1]), Decimal(match[2])
    if match := re.fullmatch(rf"<({NUMBER})", label):
        return Decimal("-Infinity"), Decimal(match[1])
    match = re.fullmatch(rf">=({NUMBER})", label)
    assert match, label
    return Decimal(match[1]), Decimal("Infinity")


def assert_covers_number(params: Mapping[str, Any], value: str, labels: Sequence[str | None]) -> None:
    edges = [read_interval(label) for label in labels[:-1] if label is not None]
    assert len(edges) == len(params["widths"])
    for (low, high), width in zip(edges, params["widths"], strict=True):
        assert low <= Decimal(value) < high, (value, labels)
        if low.is_finite() and high.is_finite():
            assert high - low == Decimal(str(width))
            assert (low - Decimal(str(params.get("origin", 0)))) % Decimal(str(width)) == 0
    for (low, high), (wider_low, wider_high) in pairwise(edges):
        assert wider_low <= low and high <= wider_high


def near_edges(params: Mapping[str, Any]) -> st.SearchStrategy[float]:
    """Floating-point numbers on an edge, and the next ones below and above."""

    def number(steps: int, side: float) -> float:
        edge = float(Decimal(str(params.get("origin", 0))) + steps * Decimal(str(params["widths"][0])))
        return math.nextafter(edge, side) if side else edge

    return st.builds(number, st.integers(-2000, 2000), st.sampled_from([0.0, -math.inf, math.inf]))


@pytest.mark.full_on_postgres
@pytest.mark.parametrize("params", SCALES, ids=str)
@properties
@given(data=st.data())
def test_an_interval_covers_every_double(database: Database, params: dict[str, Any], data: st.DataObject) -> None:
    numbers = st.one_of(near_edges(params), st.floats(allow_nan=False, allow_infinity=False), st.floats(-200, 200))
    values = [repr(value) for value in data.draw(st.lists(numbers, min_size=1, max_size=40))]
    found = labels_of(database, made("intervals", **params), "DOUBLE", values)
    for value, labels in zip(values, found, strict=True):
        assert_covers_number(params, value, labels)
    assert_functions(found)


@pytest.mark.parametrize("params", SCALES, ids=str)
@properties
@given(data=st.data())
def test_an_interval_covers_every_decimal(database: Database, params: dict[str, Any], data: st.DataObject) -> None:
    unit = 10**18
    edge = round(Decimal(str(params["widths"][0])) * unit)
    near = st.builds(lambda steps, off: steps * edge + off, st.integers(-2000, 2000), st.integers(-1, 1))
    drawn = data.draw(st.lists(near | st.integers(-(10**37), 10**37), min_size=1, max_size=40))
    values = [f"{'-' * (n < 0)}{abs(n) // unit}.{abs(n) % unit:018d}" for n in drawn]
    found = labels_of(database, made("intervals", **params), "DECIMAL(38, 18)", values)
    for value, labels in zip(values, found, strict=True):
        assert_covers_number(params, value, labels)


@pytest.mark.parametrize("params", SCALES, ids=str)
@properties
@given(data=st.data())
def test_an_interval_covers_every_integer(database: Database, params: dict[str, Any], data: st.DataObject) -> None:
    type_, bits = data.draw(st.sampled_from([("SMALLINT", 16), ("INTEGER", 32), ("BIGINT", 64)]))
    numbers = st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) | st.integers(-150, 150)
    values = [str(value) for value in data.draw(st.lists(numbers, min_size=1, max_size=40))]
    found = labels_of(database, made("intervals", **params), type_, values)
    for value, labels in zip(values, found, strict=True):
        assert_covers_number(params, value, labels)


def test_labels_of_intervals(database: Database) -> None:
    hierarchy = made("intervals", widths=[5, 10], max=90)
    labels = {
        "33": ("[30, 35)", "[30, 40)", "*"),
        "30": ("[30, 35)", "[30, 40)", "*"),
        "-0.0": ("[0, 5)", "[0, 10)", "*"),
        "-1e-300": ("[-5, 0)", "[-10, 0)", "*"),
        "-7": ("[-10, -5)", "[-10, 0)", "*"),
        "89.99999999999999": ("[85, 90)", "[80, 90)", "*"),
        "90": (">=90", ">=90", "*"),
        "1e300": (">=90", ">=90", "*"),
        "-1e300": ("<-1000000000000000", "<-1000000000000000", "*"),
        "NaN": ("not a number", "not a number", "*"),
        "Infinity": ("not a number", "not a number", "*"),
        "-Infinity": ("not a number", "not a number", "*"),
        None: (None, None, "*"),
    }
    assert labels_of(database, hierarchy, "DOUBLE", list(labels)) == list(labels.values())


def test_labels_of_decimal_intervals(database: Database) -> None:
    hierarchy = made("intervals", widths=[0.1, 0.5], min=-1, max=20)
    labels = {
        "0.3": ("[0.3, 0.4)", "[0, 0.5)", "*"),  # the nearest double lies below the decimal 0.3
        "0.30000000000000004": ("[0.3, 0.4)", "[0, 0.5)", "*"),
        "0.29999999999999993": ("[0.2, 0.3)", "[0, 0.5)", "*"),
        "10": ("[10, 10.1)", "[10, 10.5)", "*"),
        "-0.0": ("[0, 0.1)", "[0, 0.5)", "*"),
        "-1e-300": ("[-0.1, 0)", "[-0.5, 0)", "*"),
        "-1.0000000000000002": ("<-1", "<-1", "*"),
        "20": (">=20", ">=20", "*"),
        "1e300": (">=20", ">=20", "*"),
        "NaN": ("not a number", "not a number", "*"),
        "-Infinity": ("not a number", "not a number", "*"),
        None: (None, None, "*"),
    }
    assert labels_of(database, hierarchy, "DOUBLE", list(labels)) == list(labels.values())


def test_intervals_on_the_types_of_duckdb(duck: Database) -> None:
    whole, tenths = made("intervals", widths=[5]), made("intervals", widths=[0.5])
    for type_, value, label in [
        ("DECIMAL(38, 30)", "29.999999999999999999999999999999", ("[25, 30)", "[29.5, 30)")),
        ("DECIMAL(4, 2)", "12.34", ("[10, 15)", "[12, 12.5)")),
        ("TINYINT", "-128", ("[-130, -125)", "[-128, -127.5)")),
        ("UTINYINT", "255", ("[255, 260)", "[255, 255.5)")),
        ("UBIGINT", str(2**64 - 1), (">=1000000000000000", ">=100000000000000")),
        ("HUGEINT", str(-(2**127)), ("<-1000000000000000", "<-100000000000000")),
        ("FLOAT", "0.5", ("[0, 5)", "[0.5, 1)")),
        ("FLOAT", "nan", ("not a number", "not a number")),
    ]:
        found = [labels_of(duck, hierarchy, type_, [value, None]) for hierarchy in (whole, tenths)]
        assert found == [[(text, "*"), (None, "*")] for text in label], type_


@pytest.mark.parametrize("database", ["postgres"], indirect=True)
def test_intervals_on_the_numeric_of_postgresql(database: Database) -> None:
    values = ["1e400", "-1e400", "NaN", "Infinity", "-Infinity", "29." + "9" * 100, "0"]
    found = labels_of(database, made("intervals", widths=[5]), "DECIMAL", values)
    assert [labels[0] for labels in found] == [
        ">=1000000000000000",
        "<-1000000000000000",
        "not a number",
        "not a number",
        "not a number",
        "[25, 30)",
        "[0, 5)",
    ]


@properties
@given(values=st.lists(st.integers(-5, 130) | st.floats(-1, 120), min_size=1, max_size=40))
def test_age_bands_cover_and_nest(database: Database, values: list[float]) -> None:
    found = labels_of(database, made("age"), "DOUBLE", [repr(float(value)) for value in values])
    for value, labels in zip(values, found, strict=True):
        edges = [read_interval(label or "") for label in labels[:-1]]
        assert all(low <= Decimal(repr(value)) < high for low, high in edges)
        assert all(outer[0] <= inner[0] and inner[1] <= outer[1] for inner, outer in pairwise(edges))
        assert (value >= 90) == (labels[:3] == (">=90",) * 3)
    assert_functions(found)


def test_labels_of_ages(database: Database) -> None:
    found = labels_of(database, made("age"), "INTEGER", ["0", "33", "89", "90", "120", "-1", None])
    assert found == [
        ("[0, 5)", "[0, 10)", "[0, 20)", "*"),
        ("[30, 35)", "[30, 40)", "[20, 40)", "*"),
        ("[85, 90)", "[80, 90)", "[80, 90)", "*"),
        (">=90", ">=90", ">=90", "*"),
        (">=90", ">=90", ">=90", "*"),
        ("<0", "<0", "<0", "*"),
        (None, None, None, "*"),
    ]
    assert labels_of(database, made("age", top=80), "INTEGER", ["79", "80"])[1][0] == ">=80"

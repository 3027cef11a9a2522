"""Computed hierarchies, run by real engines: a label covers its value, each level is a function of the one below.

Labels are read by other means than those that made them: Decimal, ipaddress, calendar arithmetic, slices.
"""

from __future__ import annotations

import calendar
import datetime as dt
import ipaddress
import json
import math
import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import sqlglot
from conftest import Database
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlglot import exp

from sqlanon.hierarchies import Hierarchy, build

Labels = list[tuple[str | None, ...]]

properties = settings(max_examples=25)


@cache
def select_list(hierarchy: Hierarchy, dialect: str) -> str:
    return ", ".join(level(exp.column("x", table="t")).sql(dialect) for level in hierarchy.levels)


def labels_of(database: Database, hierarchy: Hierarchy, type_: str, values: Sequence[str | None]) -> Labels:
    """The labels of values, given as text, in a column of this type: one tuple of all levels for each."""
    dialect = database.engine.dialect
    literals = [exp.Literal.string(value) if value is not None else exp.null() for value in values]
    listed = ", ".join(f"({place}, {value.sql(dialect)})" for place, value in enumerate(literals))
    cast = exp.cast(exp.column("v"), exp.DataType.build(type_, dialect=dialect)).sql(dialect)
    found = database.fetch(
        f"SELECT i, {select_list(hierarchy, dialect)} FROM"
        f" (SELECT i, {cast} AS x FROM (VALUES {listed}) AS given(i, v)) AS t ORDER BY i"
    )
    return [tuple(row[1:]) for row in found]


@cache
def _made(kind: str, params: str) -> Hierarchy:
    return build(kind, json.loads(params), Path())


def made(kind: str, **params: Any) -> Hierarchy:
    return _made(kind, json.dumps(params))  # made once, so that its SQL is written once


def assert_functions(found: Labels, root: str = "*") -> None:
    """Each level is a function of the level below, and the top is the root."""
    for below, above in pairwise(range(len(found[0]))):
        parents: dict[str | None, str | None] = {}
        for labels in found:
            assert parents.setdefault(labels[below], labels[above]) == labels[above], labels
    assert {labels[-1] for labels in found} == {root}


# Numbers

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


# Codes

CODES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=9)


@properties
@given(
    codes=st.lists(CODES | st.from_regex(r"[0-9*]{0,7}", fullmatch=True), min_size=1, max_size=40),
    params=st.fixed_dictionaries(
        {"length": st.integers(3, 7), "step": st.integers(1, 3), "keep": st.integers(0, 2)},
        optional={"from": st.sampled_from(["left", "right"]), "mask": st.sampled_from("*#é\\'")},
    ),
)
def test_a_masked_code_covers_its_code(database: Database, codes: list[str], params: dict[str, Any]) -> None:
    found = labels_of(database, made("prefix", **params), "TEXT", codes)
    mask = params.get("mask", "*")
    for code, labels in zip(codes, found, strict=True):
        for level, label in enumerate(labels[:-1], start=1):
            hidden = min(level * params["step"], len(code))
            shown = code[hidden:] if params.get("from") == "left" else code[: len(code) - hidden]
            assert label == (mask * hidden + shown if params.get("from") == "left" else shown + mask * hidden)
    assert_functions(found)
    lowest = params["length"] - (len(found[0]) - 1) * params["step"]
    assert lowest >= params["keep"] and lowest >= (len(found[0]) > 1)


def test_labels_of_codes(database: Database) -> None:
    zip_code = made("prefix", length=5)
    assert labels_of(database, zip_code, "TEXT", ["13053", "AB", "", None, "1305312"]) == [
        ("1305*", "130**", "13***", "1****", "*"),
        ("A*", "**", "**", "**", "*"),
        ("", "", "", "", "*"),
        (None, None, None, None, "*"),
        ("130531*", "13053**", "1305***", "130****", "*"),
    ]
    assert labels_of(database, zip_code, "INTEGER", ["1305"])[0][:2] == ("130*", "13**")
    kept = made("prefix", length=5, step=2, keep=3, **{"from": "left", "mask": "x"})
    assert labels_of(database, kept, "TEXT", ["13053"]) == [("xx053", "*")]
    assert made("prefix", length=1).height == 1


# Dates


def period_of(label: str) -> tuple[dt.date, dt.date]:
    """First and last day of a period, from its label."""
    if match := re.fullmatch(r"(\d+)-(\d\d)-(\d\d)", label):
        day = dt.date(int(match[1]), int(match[2]), int(match[3]))
        return day, day
    if match := re.fullmatch(r"(\d+)-(\d\d)", label):
        last = calendar.monthrange(int(match[1]), int(match[2]))[1]
        return dt.date(int(match[1]), int(match[2]), 1), dt.date(int(match[1]), int(match[2]), last)
    if match := re.fullmatch(r"(\d+)-Q([1-4])", label):
        month = 3 * int(match[2])
        last = calendar.monthrange(int(match[1]), month)[1]
        return dt.date(int(match[1]), month - 2, 1), dt.date(int(match[1]), month, last)
    match = re.fullmatch(r"(\d+)(s?)", label)
    assert match, label
    first = int(match[1])
    return dt.date(max(first, 1), 1, 1), dt.date(first + (9 if match[2] else 0), 12, 31)


@properties
@given(days=st.lists(st.dates() | st.datetimes(), min_size=1, max_size=40))
def test_a_period_covers_its_dates(database: Database, days: list[dt.date]) -> None:
    levels = ["day", "month", "quarter", "year", "decade"]
    found = labels_of(database, made("dates", levels=levels), "TIMESTAMP", [str(day) for day in days])
    for day, labels in zip(days, found, strict=True):
        periods = [period_of(label or "") for label in labels[:-1]]
        first, last = periods[0]
        assert first == last == dt.date(day.year, day.month, day.day)
        assert all(outer[0] <= inner[0] and inner[1] <= outer[1] for inner, outer in pairwise(periods))
        lengths = [(last - first).days + 1 for first, last in periods]
        assert all(length in range(low, high) for length, low, high in zip(
            lengths, (1, 28, 90, 365, 3200), (2, 32, 93, 367, 3654), strict=True
        ))  # fmt: skip
    assert_functions(found)


@pytest.mark.parametrize("type_", ["DATE", "TIMESTAMP"])
def test_labels_of_dates(database: Database, type_: str) -> None:
    labels = {
        "2024-03-05": ("2024-03", "2024-Q1", "2024", "2020s", "*"),
        "1999-12-31": ("1999-12", "1999-Q4", "1999", "1990s", "*"),
        "0009-10-01": ("9-10", "9-Q4", "9", "0s", "*"),
        "12345-06-07": ("12345-06", "12345-Q2", "12345", "12340s", "*"),
        "infinity": ("not a date",) * 4 + ("*",),
        "-infinity": ("not a date",) * 4 + ("*",),
        None: (None, None, None, None, "*"),
    }
    assert labels_of(database, made("dates"), type_, list(labels)) == list(labels.values())


def test_dates_before_year_one(database: Database) -> None:
    ides = "0044-03-15 (BC)" if database.engine.dialect == "duckdb" else "0044-03-15 BC"
    year = "-43" if database.engine.dialect == "duckdb" else "-44"
    found = labels_of(database, made("dates", levels=["month", "decade"]), "DATE", [ides])
    assert found == [(f"{year}-03", "-50s", "*")]


# IP addresses


def parsed(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """What Python reads; an inet of PostgreSQL prints its full prefix too."""
    bare = re.sub(r"/32\Z" if ":" not in text else r"/128\Z", "", text)
    try:
        return None if "%" in bare else ipaddress.ip_address(bare)
    except ValueError:
        return None


def spellings(address: ipaddress.IPv6Address) -> list[str]:
    last = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    mixed = f"{address.exploded[:29]}:{last}"
    forms = [address.compressed, address.exploded, address.compressed.upper(), mixed, f"{address}/128"]
    return [*forms, mixed.replace("0000:0000:0000:", ":", 1) if "0000:0000:0000:" in mixed[5:] else mixed]


SPARSE = st.builds(lambda groups: ipaddress.IPv6Address(int("".join(groups), 16)), st.lists(
    st.sampled_from(["0000", "0000", "0001", "00a0", "0b00", "ffff", "1234"]), min_size=8, max_size=8
))  # fmt: skip
V6 = st.one_of(SPARSE, st.ip_addresses(v=6)).flatmap(lambda address: st.sampled_from(spellings(address)))
V4 = st.ip_addresses(v=4).flatmap(lambda address: st.sampled_from([str(address), f"{address}/32"]))
NOISE = st.text(":.0129afAF/ g", max_size=20) | st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12
)
BROKEN = st.builds(
    lambda text, place, letter: text[: place % len(text)] + letter + text[place % len(text) + 1 :],
    V4 | V6, st.integers(0, 40), st.sampled_from(["", ":", "::", ".", "0", "00", "g", "/", " ", "\n"]),
)  # fmt: skip
PREFIXES = [
    {"prefixes": [24, 16, 8]},
    {"prefixes": [31, 20, 1], "prefixes6": [96, 56]},
    {"prefixes": [9], "prefixes6": [64, 60, 52, 20, 4]},
]


@pytest.mark.parametrize("params", PREFIXES, ids=str)
@settings(max_examples=60)
@given(texts=st.lists(V4 | V6 | NOISE | BROKEN, min_size=1, max_size=40))
def test_a_network_covers_its_addresses(database: Database, params: dict[str, Any], texts: list[str]) -> None:
    found = labels_of(database, made("ip", **params), "TEXT", texts)
    for text, labels in zip(texts, found, strict=True):
        address = parsed(text)
        if address is None:
            assert labels == ("not an address",) * (len(labels) - 1) + ("*",), text
            continue
        networks = [ipaddress.ip_network(label or "") for label in labels[:-1]]
        assert all(address in network for network in networks), (text, labels)
        wanted = params["prefixes"] if address.version == 4 else params.get("prefixes6", [64, 48, 32])
        given_ = [network.prefixlen for network in networks]
        assert given_ == [wanted[min(place, len(wanted) - 1)] for place in range(len(given_))]
    assert_functions(found)


def test_labels_of_addresses(database: Database) -> None:
    hierarchy = made("ip", prefixes=[20, 8], prefixes6=[56, 32])
    labels = {
        "192.168.77.3": ("192.168.64.0/20", "192.0.0.0/8", "*"),
        "192.168.77.3/32": ("192.168.64.0/20", "192.0.0.0/8", "*"),
        "2001:DB8:0:1234::1": ("2001:db8:0:1200::/56", "2001:db8::/32", "*"),
        "::ffff:192.0.2.1": ("0:0:0:0::/56", "0:0::/32", "*"),
        "::": ("0:0:0:0::/56", "0:0::/32", "*"),
        "192.168.0.0/16": ("not an address", "not an address", "*"),
        "192.168.077.3": ("not an address", "not an address", "*"),
        "fe80::1%eth0": ("not an address", "not an address", "*"),
        "": ("not an address", "not an address", "*"),
        "99999999999999999999.1.1.1": ("not an address", "not an address", "*"),
        None: (None, None, "*"),
    }
    assert labels_of(database, hierarchy, "TEXT", list(labels)) == list(labels.values())


@pytest.mark.parametrize("database", ["postgres"], indirect=True)
def test_the_type_inet_of_postgresql(database: Database) -> None:
    found = labels_of(database, made("ip", prefixes=[24]), "INET", ["10.1.2.3", "::ffff:1.2.3.4", "10.0.0.0/8"])
    assert [labels[0] for labels in found] == ["10.1.2.0/24", "0:0:0:0::/64", "not an address"]


# All of them


@pytest.mark.parametrize(
    "hierarchy",
    [made("intervals", widths=[0.5]), made("age"), made("prefix", length=3), made("dates"), made("ip")],
)
def test_computed_levels_can_be_written_for_spark(hierarchy: Hierarchy) -> None:
    for level in hierarchy.levels:
        written = level(exp.column("x")).sql("spark")
        assert sqlglot.parse_one(written, dialect="spark")


def test_a_level_leaves_the_given_column_alone() -> None:
    column = exp.column("x", table="t")
    for level in (*made("intervals", widths=[5]).levels, *made("dates").levels, *made("ip").levels):
        level(column)
        assert column.parent is None and column.sql() == "t.x"

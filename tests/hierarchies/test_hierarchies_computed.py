"""Codes, dates and addresses: a label covers its value, each level is a function of the one below, on real engines.

Labels are read by other means than those that made them: slices, calendar arithmetic, the module ipaddress.
"""

from __future__ import annotations

import calendar
import datetime as dt
import ipaddress
import re
from itertools import pairwise
from typing import Any

import pytest
import sqlglot
from conftest import Database, examples
from hierarchy_labels import assert_functions, labels_of, made
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlglot import exp

from sqlanon.hierarchies import Hierarchy

properties = settings(max_examples=examples(25))


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


@properties
@given(days=st.lists(st.dates(dt.date(1, 1, 8)) | st.datetimes(dt.datetime(1, 1, 8)), min_size=1, max_size=40))
def test_weeks_are_those_of_iso_8601(database: Database, days: list[dt.date]) -> None:
    """A week is in the month, quarter, year and decade of its Thursday."""
    levels = ["hour", "day", "week", "month", "quarter", "year", "decade"]
    found = labels_of(database, made("dates", levels=levels), "TIMESTAMP", [str(day) for day in days])
    for day, labels in zip(days, found, strict=True):
        own = dt.date(day.year, day.month, day.day)
        thursday = dt.date.fromordinal(own.toordinal() + 3 - own.weekday())
        number = own.isocalendar()
        hour = day.hour if isinstance(day, dt.datetime) else 0
        written = f"{own.year}-{own.month:02}-{own.day:02}"
        assert labels[:4] == (
            f"{written} {hour:02}h",
            written,
            f"{number.year}-W{number.week:02}",
            f"{thursday.year}-{thursday.month:02}",
        )
        assert labels[5:] == (str(number.year), f"{number.year // 10 * 10}s", "*")
    assert_functions(found)


@pytest.mark.parametrize("type_", ["DATE", "TIMESTAMP"])
def test_the_week_of_a_new_year(database: Database, type_: str) -> None:
    labels = {
        "2024-12-29": ("2024-12-29 00h", "2024-W52", "2024-12", "2024", "*"),
        "2024-12-30": ("2024-12-30 00h", "2025-W01", "2025-01", "2025", "*"),
        "2023-01-01": ("2023-01-01 00h", "2022-W52", "2022-12", "2022", "*"),
        "infinity": ("not a date",) * 4 + ("*",),
        None: (None, None, None, None, "*"),
    }
    made_of = made("dates", levels=["hour", "week", "month", "year"])
    assert labels_of(database, made_of, type_, list(labels)) == list(labels.values())


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


@pytest.mark.full
@pytest.mark.parametrize("params", PREFIXES, ids=str)
@settings(max_examples=examples(60))
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

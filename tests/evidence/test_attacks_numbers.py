"""Numbers that are not finite, or nearly so, hide nobody from an attack that looks for the nearest records."""

from __future__ import annotations

import math

import pytest
from conftest import Database

from sqlanon.evidence.attacks import Outcome, attack
from sqlanon.policy import Source, parse

POLICY = """
source: {table: t}
columns: {a: quasi_identifier, s: sensitive}
transformations: [rounding: {columns: [a], base: 10}]
models: [k_anonymity: {k: 2}]
"""
COLUMNS = {"a": "DOUBLE PRECISION", "s": "TEXT"}
PERSONS = 50


def linked(database: Database, own: list[float | None], shown: list[float | None]) -> Outcome:
    """Persons with a = 1000, 2000, … are shown with a little more; then those with `own`, who are shown as `shown`."""
    known = [1000.0 * number for number in range(1, PERSONS + 1)]
    for name, column in (("t", [*known, *own]), ("r", [*(value + 7.5 for value in known), *shown])):
        database.table(name, COLUMNS, [{"a": value, "s": f"s{place}"} for place, value in enumerate(column)])
    found = attack(parse(POLICY), database.engine, release=Source(table="r"), names=["distance_linkage"])
    after = found.attacks[0].after
    assert after is not None
    return after


@pytest.mark.full
@pytest.mark.parametrize("wrong", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("shown", ["in both", "in the table", "in the release"])
def test_one_value_that_is_not_finite_hides_nobody(database: Database, wrong: float, shown: str) -> None:
    one: list[float | None] = [wrong]
    in_table, in_release = shown != "in the release", shown != "in the table"
    found = linked(database, one if in_table else [], one if in_release else [])
    assert found.targets == PERSONS + in_table
    # Who has the one strange value is the nearest to it as well, where both show it.
    assert found.broken == PERSONS + (shown == "in both")


def test_all_of_them_together(database: Database) -> None:
    every = [math.nan, math.inf, -math.inf, None]
    assert linked(database, [*every], [*every]).broken == PERSONS + 4


@pytest.mark.full_on_postgres
def test_a_value_that_is_not_finite_is_as_far_as_a_missing_one(database: Database) -> None:
    found = [linked(database, [wrong], [None]) for wrong in (math.nan, math.inf)]
    assert [item.broken for item in found] == [PERSONS, PERSONS]


def test_a_range_that_no_double_holds(database: Database) -> None:
    """Its ends are found; in between all are alike, since their distances are nothing beside the range."""
    ends: list[float | None] = [1.7e308, -1.7e308]
    found = linked(database, [*ends], [*ends])
    assert found.targets == PERSONS + 2 and found.broken >= 2


def test_a_gap_far_wider_than_the_range(database: Database) -> None:
    assert linked(database, [], [1.7e308]).broken == PERSONS


def test_no_number_at_all(database: Database) -> None:
    for name in ("t", "r"):
        database.table(name, COLUMNS, [{"a": math.nan, "s": "x"}, {"a": math.nan, "s": "y"}])
    found = attack(parse(POLICY), database.engine, release=Source(table="r"), names=["distance_linkage"])
    assert found.attacks[0].after is not None and found.attacks[0].after.targets == 2

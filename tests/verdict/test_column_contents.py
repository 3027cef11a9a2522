"""What columns hold, counted in the engine, beside definitions in plain Python that share nothing with it."""

from __future__ import annotations

import json
import math
import re
from collections import defaultdict
from typing import Any

import pytest
from conftest import Database, examples
from hypothesis import given, settings
from hypothesis import strategies as st

from sqlanon.policy import Policy, Source, parse
from sqlanon.verdict.column_contents import FORMS, ReleasedColumn, read_columns
from sqlanon.verdict.criteria import CriterionVerdict, judge_all
from sqlanon.verdict.dominance import measure_dominance
from sqlanon.verdict.release_facts import ReleaseFacts
from sqlanon.verdict.safe_harbor import RESTRICTED_ZIP3, SAFE_HARBOR


def policy_of(**columns: Any) -> Policy:
    roles = {"sex": "quasi_identifier"} | columns
    models = [{"k_anonymity": {"k": 2}}]
    return parse(json.dumps({"source": {"table": "t"}, "columns": roles, "models": models, "release": {"table": "r"}}))


def read(database: Database, policy: Policy) -> dict[str, ReleasedColumn]:
    found = read_columns(policy, database.engine, [Source(table="t")], restricted=RESTRICTED_ZIP3, last_birth_year=1936)
    return {item.name: item for item in found}


def judge(database: Database, policy: Policy) -> dict[str, CriterionVerdict]:
    facts = ReleaseFacts(policy, tuple(read(database, policy).values()))
    (found,) = judge_all([SAFE_HARBOR], facts)
    return {item.ident.removeprefix("safe_harbor."): item for item in found.criteria}


# One value of each form, and values that look like it and are not.
SAMPLES = {
    "email": "a.b@example.org",
    "url": "www.example.org/x",
    "uuid": "3f2504e0-4f89-11d3-9a0c-0305e82c3301",
    "mac": "00:1A:2b:3c:4d:5e",
    "time": "12:30:45",
    "ip": "2001:db8::ff00:42:8329",
    "ssn": "123-45-6789",
    "iban": "DE89 3704 0044 0532 0130 00",
    "card": "4111 1111 1111 1111",
    "vin": "1HGCM82633A004352",
    "day": "5.3.2024",
    "month": "2024-Q1",
    "month_name": "5 March 2024",
    "postal": "101**",
    "year": "2020s",
    "number": "-12.5",
    "phone": "+49 30 1234567",
    "range": "[10, 20)",
    "sentence": "came by train at noon",
    "other": "influenza",
}


def test_every_form_has_a_sample() -> None:
    assert set(SAMPLES) == {*FORMS, "other"}


@pytest.mark.full_on_postgres
def test_forms_are_told_apart(database: Database) -> None:
    """Each sample counts for its own form and for no other, on both engines."""
    kinds = {"sex": "TEXT"} | dict.fromkeys(SAMPLES, "TEXT")
    rows: list[dict[str, Any]] = [{"sex": "f", **SAMPLES}, {"sex": "f", **SAMPLES}]
    rows += [dict.fromkeys(kinds), dict.fromkeys(kinds, "*")]
    database.table("t", kinds, rows)
    found = read(database, policy_of(**dict.fromkeys(SAMPLES, "insensitive")))
    for name in SAMPLES:
        assert {form: (each.rows, each.distinct) for form, each in found[name].forms.items()} == {name: (2, 1)}, name
        assert found[name].filled == 2


# ---- ages

AGES = st.one_of(
    st.integers(0, 120).map(str),
    st.tuples(st.integers(0, 100), st.integers(1, 40)).map(lambda pair: f"[{pair[0]}, {pair[0] + pair[1]})"),
    st.sampled_from([">=90", "90+", ">=80", "*", "[85, 89]", "[85, 90]", "80-89", "85-95", "<0", None, "old"]),
)


def tells_age_over_89(labels: list[str | None]) -> bool:
    """45 CFR 164.514(b)(2)(i)(C) on labels: an age over 89 is in one group only, which begins at 90 or below."""
    groups = set()
    for label in labels:
        if label is None or label in ("*", "<0"):
            continue
        if label.isdigit():
            if int(label) > 89:
                return True
            continue
        numbers = [int(each) for each in re.findall(r"\d+", label)]
        if not numbers:
            return True  # not understood
        if label.startswith(">=") or label.endswith("+"):
            groups.add(label)
            continue
        low, high = numbers
        oldest = high - 1 if label.endswith(")") else high
        if oldest > 89 and not label.startswith("["):
            return True  # not understood as a range
        if oldest > 89:
            if low > 90:
                return True
            groups.add(label)
    return len(groups) > 1


@pytest.mark.full_on_postgres
@settings(max_examples=examples(60))
@given(labels=st.lists(AGES, min_size=1, max_size=6))
def test_ages_are_judged_as_the_law_says(database: Database, labels: list[str | None]) -> None:
    database.table("t", {"sex": "TEXT", "age": "TEXT"}, [{"sex": "f", "age": label} for label in labels])
    found = judge(database, policy_of(age="quasi_identifier"))["ages"]
    assert (found.state == "not met") == tells_age_over_89(labels), (labels, found.measured)


# ---- ZIP codes

ZIPS = st.one_of(
    st.integers(0, 99999).map(lambda code: f"{code:05d}"),
    st.tuples(st.sampled_from([*RESTRICTED_ZIP3, "902", "000", "103"]), st.sampled_from(["", "**", "*", "xx"])).map(
        "".join
    ),
    st.sampled_from(["9****", "10***", "*****", "*", None, "36", "59", "7", "90210-1234", "[100, 200)"]),
)


@pytest.mark.full_on_postgres
@settings(max_examples=examples(60))
@given(codes=st.lists(ZIPS, min_size=1, max_size=6))
def test_zip_codes_are_judged_as_the_law_says(database: Database, codes: list[str | None]) -> None:
    database.table("t", {"sex": "TEXT", "zip": "TEXT"}, [{"sex": "f", "zip": code} for code in codes])
    found = judge(database, policy_of(zip="quasi_identifier"))
    digits = [code.rstrip("*x") for code in codes if code is not None and code.strip("*")]
    fine = [code for code in digits if not code.isdigit() or len(code) > 3]
    starred = [code for code in codes if code is not None and len(code.rstrip("*x")) == 2 and not code.isdigit()]
    areas = [code.zfill(3) for code in codes if code is not None and code.isdigit() and len(code) <= 3]
    areas += [code for code in digits if len(code) == 3]
    assert (found["geography"].state == "not met") == bool(fine), found["geography"].measured
    assert (found["zip3"].state == "not met") == any(area in RESTRICTED_ZIP3 for area in areas), (codes, starred)


# ---- dates, years of birth, numbers


@pytest.mark.full_on_postgres
@pytest.mark.parametrize(
    ("kind", "value", "state"),
    [
        ("DATE", "2024-03-05", "not met"),
        ("TEXT", "2024-03", "not met"),
        ("TEXT", "2024-Q1", "not met"),
        ("TEXT", "2024", "met"),
        ("TEXT", "2020s", "met"),
        ("TEXT", "[2020, 2030)", "met"),
        ("INTEGER", 2024, "met"),
        ("TEXT", "March 2024", "not met"),
        ("TEXT", "*", "met"),
        ("TEXT", None, "met"),
    ],
)
def test_dates_may_tell_the_year(database: Database, kind: str, value: Any, state: str) -> None:
    database.table("t", {"sex": "TEXT", "visit_date": kind}, [{"sex": "f", "visit_date": value}])
    assert judge(database, policy_of(visit_date="quasi_identifier"))["dates"].state == state


@pytest.mark.parametrize(
    ("year", "state"), [("1936", "not met"), ("1937", "met"), ("1930s", "not met"), ("[1930, 1950)", "not met")]
)
def test_a_year_of_birth_tells_an_age(database: Database, year: str, state: str) -> None:
    database.table("t", {"sex": "TEXT", "birth_year": "TEXT"}, [{"sex": "f", "birth_year": year}])
    assert judge(database, policy_of(birth_year="quasi_identifier"))["ages"].state == state


def test_codes_names_and_places_are_told_from_what_is_unclear(database: Database) -> None:
    kinds = {"sex": "TEXT", "drug_name": "TEXT", "product_name": "TEXT", "region": "TEXT", "amount": "INTEGER"}
    rows = [
        {"sex": "f", "drug_name": "a", "product_name": "b", "region": "north", "amount": 1000 + place}
        for place in range(30)
    ]
    database.table("t", kinds, rows)
    found = judge(database, policy_of(**{name: "insensitive" for name in kinds if name != "sex"}))
    assert found["names"].measured == "are the values of 'product_name' names of persons?"
    assert found["geography"].measured == "is a value of 'region' smaller than a state?"
    assert found["codes"].measured == "nearly every row has its own value of 'amount': is it a code?"
    assert {found[name].state for name in ("names", "geography", "codes")} == {"not assessed"}


def test_strange_names_and_empty_tables(database: Database) -> None:
    """Quotes and Unicode in names; a table without rows proves nothing."""
    odd = 'od"d \u202ename'
    database.table("t", {"sex": "TEXT", odd: "TEXT"}, [{"sex": "f", odd: "x@example.org"}])
    assert odd in judge(database, policy_of(**{odd: "insensitive"}))["email"].measured
    database.table("t", {"sex": "TEXT", odd: "TEXT"}, [])
    assert judge(database, policy_of(**{odd: "insensitive"}))["email"].state == "not assessed"


# ---- dominance

AMOUNTS = st.one_of(st.none(), st.integers(-50, 50), st.sampled_from([math.nan, math.inf, 0.5]))
ROWS = st.lists(
    st.fixed_dictionaries(
        {"person": st.sampled_from("abc"), "sex": st.sampled_from(["f", "m", None]), "cost": AMOUNTS}
    ),
    min_size=1,
    max_size=12,
)


@pytest.mark.parametrize("person", [None, "person"])
@settings(max_examples=examples(40))
@given(rows=ROWS)
def test_dominance_is_the_largest_share_of_a_sum(
    database: Database, person: str | None, rows: list[dict[str, Any]]
) -> None:
    database.table("t", {"person": "TEXT", "sex": "TEXT", "cost": "DOUBLE PRECISION"}, rows)
    policy = policy_of(person="identifier", cost="insensitive").model_copy(update={"person": person})
    (found,) = measure_dominance(policy, database.engine, Source(table="t"), ["cost"], most=0.5)
    cells: dict[Any, dict[Any, float]] = defaultdict(lambda: defaultdict(float))
    for place, row in enumerate(rows):
        if row["cost"] is not None and math.isfinite(row["cost"]):
            cells[row["sex"]][row["person"] if person else place] += abs(row["cost"])
    shares = [max(cell.values()) / sum(cell.values()) for cell in cells.values() if sum(cell.values()) > 0]
    assert (found.classes, found.dominated) == (len(shares), sum(share > 0.5 for share in shares))
    assert found.highest == (pytest.approx(max(shares)) if shares else None)

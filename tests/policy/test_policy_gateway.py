"""The section 'gateway' is checked at the door too: what it takes, what it fills in, and what it refuses."""

from __future__ import annotations

import copy
import re
from datetime import date, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from conftest import TESTS, examples
from hypothesis import given, settings
from hypothesis import strategies as st
from test_policy import SMALL

from sqlanon import plan, policy
from sqlanon.errors import PolicyError
from sqlanon.policy import files, gateway
from sqlanon.policy.gateway import (
    Access,
    Budget,
    Controls,
    Dominance,
    Gateway,
    GatewayColumn,
    GatewayTable,
    Link,
    PeriodLimit,
    Principal,
    StatementLimit,
    Total,
    Unit,
)

WRONG = sorted((TESTS / "gateways").glob("*.yml"))

FULL = """\
gateway:
  database: warehouse.duckdb
  ledger: budget.ledger
  unit: {table: users, key: user_id}
  tables:
    users:
      columns: {email: hidden, home: {keys: [R0, R1], complete: true}}
    visits:
      unit: user_id
      columns:
        age: {low: 18, high: 95}
        born: {low: 1900-01-01, high: 2026-12-31}
        seen: {low: 2020-01-01 00:00:00, high: "2026-12-31T23:59:59.5"}
        region: {keys: [R0, R1, R2]}
        note: hidden
    orders: {unit: user_id}
    items: {link: {table: orders, on: order_id}}
    parts: {link: {table: items, on: {item: id, no: number}}}
    regions: {public: true}
    visits_2025: {released: true}
  rows: 20
  groups: 6
  minimum_group: 7
  functions: [count, sum, avg]
  mechanism: gaussian
  accounting: zcdp
  budget:
    statement: {epsilon: 1.0, delta: 1e-6, default: 0.5}
    principal: {epsilon: 10, delta: 1e-4, period: month}
    total: {epsilon: 50, delta: 1e-3}
  principals:
    alice: {tables: [visits, regions], epsilon: 2, delta: 1e-5}
    bob: {}
    carol: {controls: true}
    dora: {auditor: true}
  access:
    - {tables: [visits], columns: [note, seen], to: [all], except: [bob]}
    - {tables: [parts, items], to: [alice, bob]}
  controls:
    query_set_size: 10
    overlap: 5
    dominance: {n: 1, k: 0.8}
    p_percent: 10
  reuse: true
  prepare: {bob: [SELECT COUNT(*) FROM visits]}
  answer_time: 0.25
  failures: 7
  timeout: 60
"""


def message_of(text: str) -> str:
    with pytest.raises(PolicyError) as caught:
        files.parse_gateway(text)
    return str(caught.value)


# What is wrong, in full


@pytest.mark.parametrize("file", WRONG, ids=lambda file: file.stem)
def test_a_wrong_gateway_is_refused_with_this_message(file: Path) -> None:
    with pytest.raises(PolicyError) as caught:
        files.load_gateway(file)
    assert str(caught.value) + "\n" == file.with_suffix(".txt").read_text(encoding="utf-8")


def test_each_message_belongs_to_a_gateway() -> None:
    assert len(WRONG) >= 15
    assert {file.stem for file in WRONG[0].parent.glob("*.txt")} == {file.stem for file in WRONG}


def test_the_section_that_the_hint_shows_is_a_right_one() -> None:
    assert gateway.MINIMAL in message_of(SMALL)
    assert files.parse_gateway(gateway.MINIMAL).rows == 20


def test_a_broken_file_is_told_as_such() -> None:
    assert message_of("gateway: {rows: 5").startswith("policy.yml:1:10: a mapping in '{' is not closed")
    with pytest.raises(PolicyError, match="there is no file"):
        files.load_gateway("nowhere.yml")


def test_too_many_keys_are_refused() -> None:
    keys = ", ".join(map(str, range(10_001)))
    text = gateway.MINIMAL.replace("{users: {}}", f"{{users: {{columns: {{a: {{keys: [{keys}]}}}}}}}}")
    assert "'keys' must have at most 10,000 items" in message_of(text)
    assert (
        len(files.parse_gateway(text.replace("9999, 10000", "9999")).tables["users"].columns["a"].keys or ()) == 10_000
    )


# What is right


def test_a_gateway_is_read_in_full() -> None:
    read = files.parse_gateway(FULL, "clinic.yml", Path("here"))
    assert read == Gateway(
        database="warehouse.duckdb",
        ledger="budget.ledger",
        unit=Unit(table="users", key="user_id"),
        tables={
            "users": GatewayTable(
                unit="user_id",
                columns={
                    "email": GatewayColumn(hidden=True),
                    "home": GatewayColumn(keys=("R0", "R1"), complete=True),
                },
            ),
            "visits": GatewayTable(
                unit="user_id",
                columns={
                    "age": GatewayColumn(low=18, high=95),
                    "born": GatewayColumn(low=date(1900, 1, 1), high=date(2026, 12, 31)),
                    "seen": GatewayColumn(low=datetime(2020, 1, 1), high=datetime(2026, 12, 31, 23, 59, 59, 500_000)),
                    "region": GatewayColumn(keys=("R0", "R1", "R2")),
                    "note": GatewayColumn(hidden=True),
                },
            ),
            "orders": GatewayTable(unit="user_id"),
            "items": GatewayTable(link=Link(table="orders", on={"order_id": "order_id"})),
            "parts": GatewayTable(link=Link(table="items", on={"item": "id", "no": "number"})),
            "regions": GatewayTable(public=True),
            "visits_2025": GatewayTable(released=True),
        },
        rows=20,
        groups=6,
        minimum_group=7,
        functions=("count", "sum", "avg"),
        mechanism="gaussian",
        accounting="zcdp",
        budget=Budget(
            statement=StatementLimit(epsilon=1, delta=1e-6, default=0.5),
            principal=PeriodLimit(epsilon=10, delta=1e-4, period="month"),
            total=Total(epsilon=50, delta=1e-3),
        ),
        principals={
            "alice": Principal(tables=("visits", "regions"), epsilon=2, delta=1e-5),
            "bob": Principal(),
            "carol": Principal(controls=True),
            "dora": Principal(auditor=True),
        },
        access=(
            Access.model_validate(
                {"tables": ("visits",), "columns": ("note", "seen"), "to": ("all",), "except": ("bob",)}
            ),
            Access.model_validate({"tables": ("parts", "items"), "to": ("alice", "bob")}),
        ),
        controls=Controls(query_set_size=10, overlap=5, dominance=Dominance(n=1, k=0.8), p_percent=10),
        reuse=True,
        prepare={"bob": ("SELECT COUNT(*) FROM visits",)},
        answer_time=0.25,
        failures=7,
        timeout=60,
    )
    assert (read.name, read.base) == ("clinic.yml", Path("here"))


def test_what_is_left_out_has_a_default() -> None:
    read = files.parse_gateway(gateway.MINIMAL)
    assert (read.ledger, read.functions, read.controls, read.budget.total) == (None, None, None, None)
    assert (read.rows, read.groups, read.minimum_group) == (20, 20, 5)
    assert (read.mechanism, read.accounting, read.answer_time, read.timeout) == ("laplace", "basic", 2, 30)
    assert read.failures == 5
    assert (read.budget.statement.default, read.budget.principal.period) == (1, None)
    assert read.principals == {"analyst": Principal()}
    assert read.tables == {"users": GatewayTable(unit="user_id")}


def test_a_gateway_cannot_be_changed() -> None:
    with pytest.raises(ValueError, match="frozen"):
        files.parse_gateway(FULL).rows = 5  # type: ignore[misc]


def test_files_stand_beside_the_policy(tmp_path: Path) -> None:
    file = tmp_path / "clinic.yml"
    file.write_text(gateway.MINIMAL, encoding="utf-8")
    read = files.load_gateway(file)
    assert read.located_database == str(tmp_path / "warehouse.duckdb")
    assert read.located_ledger == str(tmp_path / "clinic.ledger")
    assert files.parse_gateway(FULL, base=tmp_path).located_ledger == str(tmp_path / "budget.ledger")
    url = gateway.MINIMAL.replace("warehouse.duckdb", "postgresql://host/db")
    assert files.parse_gateway(url, base=tmp_path).located_database == "postgresql://host/db"


def test_lines_are_those_of_the_section() -> None:
    read, lines = files.parse_gateway(SMALL + FULL), (SMALL + FULL).splitlines()
    assert lines[(read.line_of("tables", "items", "link") or 0) - 1].strip().startswith("items:")
    assert read.line_of("budget", "nothing") == read.line_of("budget")
    assert lines[(read.line_of() or 0) - 1] == "gateway:"


# With a policy to publish


def test_a_policy_may_hold_a_gateway() -> None:
    whole = policy.parse(SMALL + FULL, "clinic.yml", Path("here"))
    assert isinstance(whole, files.PolicyFile)
    assert whole.gateway == files.parse_gateway(SMALL + FULL) == files.parse_gateway(FULL)
    assert whole.gateway is not None
    assert (whole.gateway.name, whole.gateway.base) == ("clinic.yml", Path("here"))
    assert not isinstance(policy.parse(SMALL), files.PolicyFile)


def test_a_release_does_not_depend_on_the_gateway() -> None:
    secret = gateway.MINIMAL.replace("warehouse.duckdb", "postgresql://me:secret@host/db")
    whole, alone = policy.parse(SMALL + secret), policy.parse(SMALL)
    assert plan.policy_hash(whole) == plan.policy_hash(alone)
    assert "secret" not in whole.model_dump_json()


# What YAML would read in another way


def test_names_and_keys_stay_as_they_were_written() -> None:
    read = files.parse_gateway(
        """\
gateway:
  database: 2024
  unit: {table: 7, key: 1.10}
  tables:
    7: {columns: {on: {keys: ["001", 002, no, "5", "2024-01-31"]}, 2024: {keys: [1, -2]}, 1e3: hidden}}
    true: {unit: off, columns: {2024-01-31: {keys: [true, false]}, a: {keys: [2024-01-31, 2024-02-01]}}}
    2024-01-31: {link: {table: 7, on: 12}}
    b: {link: {table: true, on: {no: 1.10}}}
  rows: 1
  budget: {statement: {epsilon: 1}, principal: {epsilon: 1}}
  principals: {no: {tables: [7, true, 2024-01-31]}}
"""
    )
    assert (read.database, read.unit) == ("2024", Unit(table="7", key="1.10"))
    first, second, third, fourth = read.tables.values()
    assert list(read.tables) == ["7", "true", "2024-01-31", "b"]
    assert {name: column.keys for name, column in first.columns.items()} == {
        "on": ("001", "002", "no", "5", "2024-01-31"),
        "2024": (1, -2),
        "1e3": None,
    }
    assert second.unit == "off"
    assert [column.keys for column in second.columns.values()] == [
        (True, False),
        (date(2024, 1, 31), date(2024, 2, 1)),
    ]
    assert third.link == Link(table="7", on={"12": "12"})
    assert fourth.link == Link(table="true", on={"no": "1.10"})
    assert read.principals == {"no": Principal(tables=("7", "true", "2024-01-31"))}


# The fingerprint

CHANGES = {
    "rows: 20": "rows: 21",
    "groups: 6": "groups: 5",
    "minimum_group: 7": "minimum_group: 5",
    "high: 95": "high: 96",
    "low: 18": "low: 18.0",
    "1900-01-01": "1900-01-02",
    "[R0, R1, R2]": "[R0, R1]",
    "note: hidden": "town: hidden",
    "[count, sum, avg]": "[count, sum]",
    "gaussian": "laplace",
    "default: 0.5": "default: 0.4",
    "tables: [visits, regions]": "tables: [visits]",
    "overlap: 5": "overlap: 6",
    "released: true": "public: true",
    "except: [bob]": "except: [alice]",
    "columns: [note, seen]": "columns: [note]",
    "to: [alice, bob]": "to: [alice]",
    "complete: true": "complete: false",
    "reuse: true\n  prepare: {bob: [SELECT COUNT(*) FROM visits]}": "reuse: false",
}
NO_CHANGES = {
    "warehouse.duckdb": "other.duckdb",
    "budget.ledger": "other.ledger",
    "timeout: 60": "timeout: 61",
    "answer_time: 0.25": "answer_time: 0.5",
    "SELECT COUNT(*) FROM visits": "SELECT COUNT(*) FROM orders",
    "epsilon: 10,": "epsilon: 11,",
    "epsilon: 2,": "epsilon: 3,",
    "    orders: {unit: user_id}\n": "    # a comment\n    orders: {unit: user_id}\n",
    "epsilon: 1.0": "epsilon: 1",
    "    bob: {}\n    carol: {controls: true}\n": "    carol: {controls: true}\n    bob: {}\n",
    "auditor: true": "auditor: false",
}


@pytest.mark.parametrize("old", CHANGES)
def test_the_fingerprint_tells_what_matters_to_answers(old: str) -> None:
    assert FULL.count(old) == 1
    changed = files.parse_gateway(FULL.replace(old, CHANGES[old]))
    assert changed.fingerprint != files.parse_gateway(FULL).fingerprint


@pytest.mark.parametrize("old", NO_CHANGES)
def test_the_fingerprint_tells_nothing_else(old: str) -> None:
    assert FULL.count(old) == 1
    changed = files.parse_gateway(FULL.replace(old, NO_CHANGES[old]), "other.yml", Path("elsewhere"))
    assert changed.fingerprint == files.parse_gateway(FULL).fingerprint
    assert re.fullmatch("[0-9a-f]{64}", changed.fingerprint)


def test_a_date_and_its_text_have_two_fingerprints() -> None:
    dated, text = (FULL.replace("[R0, R1, R2]", f"[{key}]") for key in ("2024-01-31", '"2024-01-31"'))
    assert files.parse_gateway(dated).fingerprint != files.parse_gateway(text).fingerprint


def test_a_policy_without_rules_of_access_keeps_its_fingerprint() -> None:
    """Or every answer that is kept would be charged for again."""
    assert files.parse_gateway(gateway.MINIMAL).fingerprint == (
        "03f80cd33ebcd075b9ea65d817f269aeb185eef19506c240992bfea1039f300a"
    )


# JSON Schema


def test_the_json_schema_covers_the_section() -> None:
    schema = policy.json_schema()
    written = yaml.safe_load(FULL)["gateway"]
    found = schema["$defs"]["Gateway"]
    assert set(written) == set(found["properties"])
    assert found["required"] == ["database", "unit", "tables", "rows", "budget"]
    assert all(part.get("description") for part in found["properties"].values())
    assert schema["if"]["propertyNames"] == {"enum": ["gateway", "serve", "marginals", "schedule"]}
    assert schema["if"]["required"] == ["gateway"]
    word, mapping = schema["$defs"]["GatewayColumn"]["anyOf"]
    assert word == {"const": "hidden"}
    assert set(mapping["properties"]) == {"low", "high", "keys", "complete", "max_length", "hidden"}
    assert set(found["properties"]["functions"]["items"]["enum"]) == set(gateway.FUNCTIONS)
    assert schema["$defs"]["StatementLimit"]["properties"]["epsilon"]["maximum"] == 100


# Whatever is written, the answer is a gateway or a PolicyError

FORBIDDEN = re.compile(r"pydantic|Traceback|<class|object at 0x|NoneType|default_factory|\bdict\b|\bstr\b")
NAMES = """unit link public released columns low high keys hidden users visits orders items table on key epsilon
    delta default period tables controls n k query_set_size alice 2024-01-31 2024-13-01 month gaussian zcdp"""
WORDS = st.sampled_from(NAMES.split())
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | WORDS | st.text(max_size=3) | st.dates()
DATA = st.recursive(
    SCALARS | st.datetimes(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=6,
)


def is_answered(text: str) -> None:
    try:
        files.parse_gateway(text).fingerprint  # noqa: B018 - it must have one
    except PolicyError as error:
        said = [line for line in str(error).splitlines() if not line.startswith("  hint: ")]
        told = [line for line in said if not re.fullmatch(r"\d+ problems in policy\.yml", line)]
        assert all(re.match(r"policy\.yml:[1-9]\d*:", line) for line in told), error
        found = FORBIDDEN.search("\n".join(told))
        assert found is None or found[0] in text, error


def places(data: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    items = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    return [path, *(place for key, item in items for place in places(item, (*path, key)))][0 if path else 1 :]


PLAIN = yaml.safe_load(FULL)


@settings(deadline=None, max_examples=examples(200))
@given(
    st.lists(st.tuples(st.sampled_from(places(PLAIN)), DATA | st.just("remove")), min_size=1, max_size=3), st.booleans()
)
def test_any_change_of_a_good_gateway_is_answered(changes: list[tuple[tuple[Any, ...], Any]], whole: bool) -> None:
    data = copy.deepcopy(PLAIN)
    for (*above, key), value in changes:
        part = data
        try:
            for step in above:
                part = part[step]
            if value == "remove":
                del part[key]
            else:
                part[key] = value
        except (KeyError, IndexError, TypeError):
            continue  # an earlier change took this place away
    is_answered(yaml.safe_dump(data | (yaml.safe_load(SMALL) if whole else {}), allow_unicode=True))


@settings(deadline=None, max_examples=examples(100))
@given(st.dictionaries(st.sampled_from([*Gateway.model_fields, "visits"]), DATA), st.booleans())
def test_any_section_is_answered(data: dict[str, Any], complete: bool) -> None:
    section = PLAIN["gateway"] | data if complete else data
    is_answered(yaml.safe_dump({"gateway": section}, allow_unicode=True))


@settings(deadline=None, max_examples=examples(100))
@given(st.text(st.sampled_from("ab15:-,.[]{}&*!'\"# \n"), max_size=30), st.integers(0, len(FULL)), st.integers(0, 12))
def test_any_damage_is_answered(noise: str, start: int, lost: int) -> None:
    is_answered(FULL[:start] + noise + FULL[start + lost :])

"""A policy is checked once, at the door: what is wrong is told at once, with its line, in plain words."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from conftest import TESTS

from sqlanon import families, policy
from sqlanon.errors import PolicyError
from sqlanon.policy import Column, HierarchyUse, Join, ModelUse, Policy, Release, Source

WRONG = sorted((TESTS / "policies").glob("*.yml"))

GOOD = """\
source:
  database: warehouse.duckdb
  table: clinic.patients
  joins:
    - {table: visits, on: patient_id}
    - {table: stays, on: {visit: visit_id, no: number}}
columns:
  name: identifier
  age: quasi_identifier
  zip: {role: quasi_identifier, weight: 2.0}
  disease: sensitive
  visit: insensitive
person: patient_id
qids:
  census: [age, zip]
  town: [zip]
hierarchies:
  age: {intervals: {widths: [5, 10, 20]}}
  zip: {prefix: {length: 5}}
models:
  - k_anonymity: {k: 5}
  - distinct_l_diversity: {l: 3, attribute: disease, qid: census}
  - t_closeness: {t: 0.2, qid: [age]}
suppression_limit: 0.05
suppressed_rows: keep
nulls: unique
population: {table: census}
release:
  table: patients_anonymous
"""

SMALL = """\
source: {table: patients}
columns: {age: quasi_identifier, disease: sensitive}
models: [{k_anonymity: {k: 5}}]
"""


def message_of(text: str) -> str:
    with pytest.raises(PolicyError) as caught:
        policy.parse(text)
    return str(caught.value)


# What is wrong, in full


@pytest.mark.parametrize("file", WRONG, ids=lambda file: file.stem)
def test_a_wrong_policy_is_refused_with_this_message(file: Path) -> None:
    with pytest.raises(PolicyError) as caught:
        policy.load(file)
    assert str(caught.value) + "\n" == file.with_suffix(".txt").read_text(encoding="utf-8")


def test_each_message_belongs_to_a_policy() -> None:
    assert len(WRONG) >= 20
    messages = {file.stem for file in WRONG[0].parent.glob("*.txt")}
    assert messages == {file.stem for file in WRONG}


def test_an_error_carries_its_sqlstate_and_hint() -> None:
    with pytest.raises(PolicyError) as caught:
        policy.parse(SMALL + "nuls: value\n")
    assert caught.value.sqlstate == "22023"
    assert caught.value.message == "policy.yml:4: unknown key 'nuls'"
    assert caught.value.hint == "did you mean 'nulls'?"


def test_a_release_may_not_replace_a_joined_table_or_the_population() -> None:
    text = SMALL.replace("{table: patients}", "{table: patients, joins: [{table: Visits, on: id}]}")
    text += "population: {view: public.census}\n"
    assert "would replace" in message_of(text + "release: {table: visits}\n")
    assert "would replace" in message_of(text + "release: {view: census}\n")
    assert policy.parse(text + "release: {table: visits_2}\n").release == Release(table="visits_2")


# What is right


def test_a_policy_is_read_in_full() -> None:
    read = policy.parse(GOOD, "patients.yml", Path("here"))
    assert read == Policy(
        source=Source(
            database="warehouse.duckdb",
            table="clinic.patients",
            joins=(
                Join(table="visits", on={"patient_id": "patient_id"}),
                Join(table="stays", on={"visit": "visit_id", "no": "number"}),
            ),
        ),
        columns={
            "name": Column(role="identifier"),
            "age": Column(role="quasi_identifier"),
            "zip": Column(role="quasi_identifier", weight=2.0),
            "disease": Column(role="sensitive"),
            "visit": Column(role="insensitive"),
        },
        person="patient_id",
        qids={"census": ("age", "zip"), "town": ("zip",)},
        hierarchies={
            "age": HierarchyUse(kind="intervals", params={"widths": [5, 10, 20]}),
            "zip": HierarchyUse(kind="prefix", params={"length": 5}),
        },
        models=(
            ModelUse(name="k_anonymity", params={"k": 5}),
            ModelUse(name="distinct_l_diversity", params={"l": 3}, attribute="disease", qid="census"),
            ModelUse(name="t_closeness", params={"t": 0.2}, qid=("age",)),
        ),
        suppression_limit=0.05,
        suppressed_rows="keep",
        nulls="unique",
        population=Source(table="census"),
        release=Release(table="patients_anonymous"),
    )
    assert (read.name, read.base) == ("patients.yml", Path("here"))
    assert read.quasi_identifiers == ("age", "zip")
    assert read.sensitive == ("disease",)
    assert read.identifiers == ("name",)
    assert (read.source.kind, read.source.text) == ("table", "clinic.patients")


def test_what_is_left_out_has_a_default() -> None:
    read = policy.parse(SMALL)
    assert (read.suppression_limit, read.suppressed_rows, read.nulls, read.minimize) == (
        0,
        "drop",
        "value",
        "ncp",
    )
    assert (read.person, read.population, read.release, read.source.database) == (None, None, None, None)
    assert read.columns["age"].weight == 1
    assert read.qid_sets() == {"all": ("age",)}


def test_a_policy_cannot_be_changed() -> None:
    with pytest.raises(ValueError, match="frozen"):
        policy.parse(SMALL).nulls = "unique"  # type: ignore[misc]


def test_a_policy_survives_json() -> None:
    read = policy.parse(GOOD)
    assert Policy.model_validate(read.model_dump()) == read
    assert Policy.model_validate_json(read.model_dump_json()) == read


def test_contained_qids_are_redundant() -> None:
    text = SMALL.replace("age: quasi", "zip: quasi_identifier, sex: quasi_identifier, age: quasi")
    read = policy.parse(text + "qids: {a: [age], b: [zip, age], c: [age, zip], d: [sex, zip]}\n")
    assert list(read.qid_sets()) == ["a", "b", "c", "d"]
    assert read.qid_sets(drop_contained=True) == {"b": ("zip", "age"), "d": ("sex", "zip")}


def test_lines_are_those_of_the_longest_known_part() -> None:
    read = policy.parse(GOOD)
    lines = GOOD.splitlines()
    assert lines[(read.line_of("columns", "zip") or 0) - 1].strip().startswith("zip:")
    assert read.line_of("columns", "zip", "role", "nothing") == read.line_of("columns", "zip")
    assert lines[(read.line_of("models", 1) or 0) - 1].strip().startswith("- distinct_l_diversity")
    assert read.line_of("nowhere") == read.line_of() == 1


def test_paths_start_at_the_folder_of_the_policy(tmp_path: Path) -> None:
    file = tmp_path / "policy.yml"
    file.write_text(SMALL, encoding="utf-8-sig")  # some editors put a byte order mark in front
    read = policy.load(str(file))
    assert (read.name, read.base) == ("policy.yml", tmp_path)
    assert read.locate("data/*.csv") == str(tmp_path / "data/*.csv")
    assert read.locate("/data/a.csv") == "/data/a.csv"
    assert read.locate("postgresql://host/db") == "postgresql://host/db"
    assert read.locate(":memory:") == ":memory:"


# What YAML would read in another way


def test_names_stay_as_they_were_written() -> None:
    read = policy.parse(
        """\
source: {table: 2024, joins: [{table: 7, on: off}, {table: 8, on: {yes: 1.10}}]}
columns:
  2024: quasi_identifier
  1.10: quasi_identifier
  2020-01-31: quasi_identifier
  no: quasi_identifier
  null: quasi_identifier
  true: sensitive
  0777: sensitive
person: 0x1F
qids:
  on: [2024, 1.10, 2020-01-31]
  12:30: [no, "null", 2024]
models:
  - k_anonymity: {k: 5, qid: on}
  - distinct_l_diversity: {l: 2, attribute: true, qid: [1.10, no]}
  - confidence_bounding: {value: 1e3, h: 1e-1, attribute: 0777}
"""
    )
    assert read.source.table == "2024"
    assert [join.on for join in read.source.joins] == [{"off": "off"}, {"yes": "1.10"}]
    assert read.quasi_identifiers == ("2024", "1.10", "2020-01-31", "no", "null")
    assert read.sensitive == ("true", "0777")
    assert read.person == "0x1F"
    assert read.qids == {"on": ("2024", "1.10", "2020-01-31"), "12:30": ("no", "null", "2024")}
    assert (read.models[1].attribute, read.models[1].qid) == ("true", ("1.10", "no"))
    assert read.models[2].params == {"value": "1e3", "h": 0.1}


def test_a_few_aliases_are_read() -> None:
    read = policy.parse(GOOD.replace("census: [age, zip]", "census: &c [age, zip]\n  again: *c"))
    assert read.qids["again"] == ("age", "zip")


# Files that cannot be read


def refused(path: Path) -> str:
    with pytest.raises(PolicyError) as caught:
        policy.load(path)
    return str(caught.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "policy.yml").write_text(SMALL)
    missing = tmp_path / "polcy.yml"
    assert refused(missing) == f"there is no file '{missing}'\n  hint: did you mean 'policy.yml'?"
    assert "hint: give the path" in refused(tmp_path / "nowhere" / "x.yml")
    assert "hint: give the path" in refused(tmp_path / "policy.yml" / "x.yml")
    assert "cannot be read" in refused(Path("a\0b"))


def test_a_folder_is_no_policy(tmp_path: Path) -> None:
    assert refused(tmp_path) == f"'{tmp_path}' is a folder\n  hint: give the path of a policy file"
    (tmp_path / "policy.yml").write_text(SMALL)
    assert f"hint: did you mean '{tmp_path / 'policy.yml'}'?" in refused(tmp_path)


def test_a_file_that_may_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(self: Path) -> bytes:
        raise PermissionError

    monkeypatch.setattr(Path, "read_bytes", denied)
    assert "hint: check the permissions" in refused(tmp_path / "policy.yml")


# Columns that the source does not have


def test_missing_columns_are_listed_with_line_and_spelling() -> None:
    read = policy.parse(GOOD)
    policy.missing_columns(read, ["name", "age", "zip", "disease", "visit", "patient_id", "more"])
    with pytest.raises(PolicyError) as caught:
        policy.missing_columns(read, ["name", "Age", "zip", "visit", "patientid"])
    assert str(caught.value) == (
        "policy.yml:9: column 'age' is not in the source\n"
        "  hint: did you mean 'Age'?\n"
        "policy.yml:11: column 'disease' is not in the source\n"
        "  hint: it has name, Age, zip, visit, patientid\n"
        "policy.yml:13: column 'patient_id' is not in the source\n"
        "  hint: did you mean 'patientid'?\n"
        "3 problems in policy.yml"
    )


# JSON Schema


def keys_of(schema: dict[str, Any], name: str) -> dict[str, Any]:
    found: dict[str, Any] = schema["$defs"][name]["properties"]
    return found


def test_the_json_schema_describes_what_is_written_in_the_file() -> None:
    schema = policy.json_schema()
    written = yaml.safe_load(GOOD)
    assert schema["$schema"].startswith("https://json-schema.org/")
    assert set(written) <= set(schema["properties"])
    assert schema["else"]["else"]["required"] == ["source", "columns", "models"]
    assert schema["else"]["then"]["required"] == ["source", "statistics"]  # where there are tables of statistics
    assert schema["additionalProperties"] is False
    assert all(part.get("description") for part in schema["properties"].values())
    assert set(written["source"]) <= set(keys_of(schema, "Source"))
    assert {"table", "on"} == set(keys_of(schema, "Join"))
    assert {arm["type"] for arm in keys_of(schema, "Join")["on"]["anyOf"]} == {"string", "object"}
    role, mapping = schema["$defs"]["Column"]["anyOf"]
    roles = "identifier quasi_identifier sensitive insensitive item time place stay"
    assert role["enum"] == roles.split()
    assert set(mapping["properties"]) == {"role", "weight", "pseudonym"}
    models = keys_of(schema, "ModelUse")
    assert set(models) == set(families.family("models"))
    assert models["k_anonymity"]["properties"]["k"]["minimum"] == 2
    assert {"k", "attribute", "qid"} == set(models["k_anonymity"]["properties"])
    assert "widths" in keys_of(schema, "HierarchyUse")["intervals"]["properties"]


def test_the_json_schema_refers_only_to_what_it_defines() -> None:
    schema = policy.json_schema()
    text = str(schema)
    assert set(re.findall(r"#/\$defs/(\w+)", text)) <= set(schema["$defs"])
    assert "'null'" not in text

"""Options on the command line ask for the same policy as a file, and are named when they are wrong."""

from __future__ import annotations

import pytest

from sqlanon import policy
from sqlanon.errors import PolicyError


def test_options_say_the_same_as_a_file() -> None:
    said = policy.from_options(
        {"table": "clinic.patients", "database": "warehouse.duckdb"},
        qi=["age", "zip"],
        sensitive=["disease"],
        identifiers=["name"],
        insensitive=["visit"],
        person="patient_id",
        models=[("k_anonymity", {"k": "5"}), ("confidence_bounding", {"value": "7", "h": 0.5})],
        suppression_limit=0.1,
        nulls=None,
    )
    written = policy.parse(
        """\
source: {table: clinic.patients, database: warehouse.duckdb}
columns:
  {age: quasi_identifier, zip: quasi_identifier, disease: sensitive, name: identifier, visit: insensitive}
person: patient_id
models: [{k_anonymity: {k: 5}}, {confidence_bounding: {value: "7", h: 0.5}}]
suppression_limit: 0.1
"""
    )
    assert said == written
    assert said.line_of("columns", "age") is None


@pytest.mark.parametrize(
    ("source", "kind"),
    [
        ("patients", "table"),
        ("clinic.patients", "table"),
        ("patients.csv", "path"),
        ("data/2024/*.parquet", "path"),
        ("SELECT * FROM patients", "query"),
        ("WITH p AS (SELECT 1) SELECT * FROM p", "query"),
    ],
)
def test_a_source_is_told_by_its_looks(source: str, kind: str) -> None:
    read = policy.from_options(source, qi=["age"], models=[("k_anonymity", {"k": 2})])
    assert (read.source.kind, read.source.text) == (kind, source)


def test_columns_in_an_option_are_separated_by_commas() -> None:
    models = [("xy_anonymity", {"x": "age, zip", "y": "patient", "k": "3"})]
    read = policy.from_options("patients", qi=["age", "zip"], person="patient", models=models)
    assert read.models[0].params == {"x": ["age", "zip"], "y": ["patient"], "k": 3}


def test_errors_name_the_option() -> None:
    with pytest.raises(PolicyError) as caught:
        policy.from_options(
            {"tabel": "patients"},
            qi=["age", "zip"],
            sensitive=["age"],
            person="zip",
            models=[
                ("k_anonimity", {"k": 5}),
                ("k_anonymity", {"k": "many"}),
                ("distinct_l_diversity", {"l": 2}),
            ],
            suppression_limit=2,
        )
    assert str(caught.value) == (
        "--qi: column 'age' is given twice, in --qi and --sensitive\n"
        "  hint: keep one\n"
        "--source: unknown key 'tabel'\n"
        "  hint: did you mean 'table'?\n"
        "--suppression-limit: 'suppression_limit' must be a number between 0 and 1, not 2\n"
        "  hint: share of rows that may be suppressed\n"
        "--person: the person column 'zip' cannot be quasi_identifier\n"
        "  hint: make it an identifier, or leave it out of columns\n"
        "--model: unknown privacy model 'k_anonimity'\n"
        "  hint: did you mean 'k_anonymity'?\n"
        "--model: k_anonymity: 'k' must be an integer, not text\n"
        "  hint: smallest class allowed\n"
        "--model: distinct_l_diversity needs a sensitive column, none is declared\n"
        "  hint: give a column the role sensitive\n"
        "7 problems in the options"
    )


def test_options_that_name_no_column_or_model() -> None:
    with pytest.raises(PolicyError) as caught:
        policy.from_options("patients")
    assert str(caught.value).splitlines()[::2] == [
        "--qi: 'columns' must not be empty",
        "--model: 'models' must not be empty",
        "2 problems in the options",
    ]

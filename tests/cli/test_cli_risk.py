"""`sqlanon risk` as people run it."""

from __future__ import annotations

import json
from pathlib import Path

import duckdb
import pytest
from click.testing import CliRunner, Result

from sqlanon.cli import main

SECRETS = ("Alice", "Bobby", "leprosy", "scurvy", "17171")
TABLE = """
CREATE TABLE patients AS
SELECT name, 'zip' || zip AS zip, sex, disease, weight, household FROM (VALUES
    ('Alice', '17171', 'f', 'leprosy', 10, 1), ('Bobby', '17172', 'm', 'scurvy', 20, 1),
    ('Carol', '17172', 'm', 'scurvy', 20, 2), ('Daisy', '17173', 'f', 'scurvy', 30, 3)
) AS t(name, zip, sex, disease, weight, household);
CREATE TABLE people AS SELECT * FROM patients UNION ALL SELECT * FROM patients;
"""


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = str(tmp_path / "clinic.duckdb")
    with duckdb.connect(path) as connection:
        connection.execute(TABLE)
    return path


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["risk", *arguments])


def test_what_is_printed_tells_of_nobody(file: str) -> None:
    done = run(
        file, "patients", "--qi", "zip,sex", "--sensitive", "disease", "--weight", "weight", "--household", "household",
        "--sampling-fraction", "0.1", "--suda", "--subsets",
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    assert "4 rows in 3 classes of zip, sex" in done.output
    assert "   100.00%  chance to find a person who is known to be in the table, at most" in done.output
    assert "    75.00%  the same on average: prosecutor risk" in done.output
    assert "sets of quasi-identifiers" in done.output and "special uniques" in done.output
    assert not [secret for secret in SECRETS if secret in done.output]


def test_as_json(file: str) -> None:
    done = run(file, "patients", "--qi", "zip,sex", "--population", "people", "--suda", "--json")
    found = json.loads(done.output)
    assert found["measures"]["journalist"]["highest"] == 0.5
    assert found["suda"]["scores"][-1]["records"] == 2
    assert found["subsets"] == [] and found["quasi_identifiers"] == ["zip", "sex"]
    assert not [secret for secret in SECRETS if secret in done.output]


@pytest.mark.full
def test_a_policy_and_its_release(file: str, tmp_path: Path) -> None:
    policy = tmp_path / "policy.yml"
    policy.write_text(
        f"source: {{database: {file}, table: patients}}\n"
        "columns: {name: identifier, zip: quasi_identifier, sex: quasi_identifier, disease: sensitive,\n"
        "  weight: insensitive, household: insensitive}\n"
        "models: [{k_anonymity: {k: 2}}]\n"
        "suppression_limit: 1\n"
        "release: {table: patients_released}\n"
    )
    own = json.loads(run(str(policy), "--json").output)
    assert own["measures"]["prosecutor"]["highest"] == 1.0
    assert CliRunner().invoke(main, ["publish", str(policy)]).exit_code == 0
    released = json.loads(run(str(policy), "--release", "patients_released", "--json").output)
    assert released["measures"]["prosecutor"]["highest"] == 0.5
    again = json.loads(run(file, "patients_released", "--json").output)
    assert again["measures"] == released["measures"]
    assert "takes no --qi" in run(str(policy), "--qi", "zip").output


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--sensitive", "disease"], "no quasi-identifier is given"),
        (["--qi", "zip,town"], "column 'town' is not in the source"),
        (["--qi", "zip", "--weight", "wieght"], "did you mean 'weight'?"),
        (["--qi", "zip", "--household", "household"], "needs sampling weights"),
        (["--qi", "zip", "--sampling-fraction", "7"], "above 0 and at most 1"),
        (["--qi", "zip", "--population", "nobody"], "nobody"),
    ],
    ids=lambda item: item if isinstance(item, str) else "",
)
def test_mistakes(file: str, arguments: list[str], said: str) -> None:
    done = run(file, "patients", *arguments)
    assert done.exit_code == 2 and said in done.output
    assert not [secret for secret in SECRETS if secret in done.output]


def test_an_empty_table(file: str) -> None:
    with duckdb.connect(file) as connection:
        connection.execute("DELETE FROM patients")
    done = run(file, "patients", "--qi", "zip", "--sensitive", "disease", "--suda")
    assert done.exit_code == 0 and "there is no row to measure" in done.output


def test_measures_are_explained() -> None:
    assert "worst" in CliRunner().invoke(main, ["explain", "ck_safety"]).output
    listed = CliRunner().invoke(main, ["models"]).output
    assert "Risk measures" in listed and "hierarchical_risk" in listed

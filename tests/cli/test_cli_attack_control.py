"""`sqlanon attack --control` and `--holdout` as people run them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import duckdb
import pytest
from click.testing import CliRunner, Result

from sqlanon.cli import main

TABLE = """
CREATE TABLE everybody AS
SELECT i AS id, 20 + (i * 7) % 60 AS age, ['Athens', 'Bern', 'Cork'][1 + (i * 5) % 3] AS town,
       ['leprosy', 'scurvy', 'gout'][1 + CAST(md5_number_lower(CAST(i AS TEXT)) % 3 AS INT)] AS disease
FROM range(400) AS r(i);
CREATE TABLE patients AS SELECT * FROM everybody WHERE id % 4 > 0;
CREATE TABLE others AS SELECT * FROM everybody WHERE id % 4 = 0;
"""
POLICY = """
source: {{database: {file}, table: patients}}
person: id
columns: {{id: identifier, age: quasi_identifier, town: quasi_identifier, disease: sensitive}}
hierarchies: {{age: {{intervals: {{widths: [4, 20]}}}}}}
models: [{{k_anonymity: {{k: 3}}}}]
suppression_limit: 0.1
release: {{table: patients_released}}
"""


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    file = tmp_path / "clinic.duckdb"
    with duckdb.connect(str(file)) as connection:
        connection.execute(TABLE)
    path = tmp_path / "policy.yml"
    path.write_text(POLICY.format(file=file))
    return path


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["attack", *arguments])


@pytest.mark.full
def test_an_attack_beside_its_control_group(policy: Path) -> None:
    assert CliRunner().invoke(main, ["publish", str(policy), "--no-workload"]).exit_code == 0
    done = run(str(policy), "--control", "others", "--attack", "attribute_linkage", "--attack", "membership")
    assert done.exit_code == 0, done.output
    assert re.search(
        r"guesses \d+ of 300 \(\d+\.\d%, .* right in the source, \d+ of 100 .* in the control group", done.output
    )
    assert "over the control group, 95% interval" in done.output and "findings: " in done.output
    assert "no control group given" not in done.output and "not judged: membership" not in done.output
    assert not [name for name in ("leprosy", "scurvy", "Athens") if name in done.output]
    without = run(str(policy), "--attack", "attribute_linkage", "--attack", "freeform")
    assert "over the margins" in without.output and "no control group given" in without.output
    assert "no advantage measured: freeform: it takes the columns" in without.output


def test_the_advantages_as_json(policy: Path) -> None:
    done = run(str(policy), "--holdout", "0.25", "--attack", "attribute_linkage", "--advantage", "0.9", "--json")
    found = json.loads(done.output)
    (item,) = found["advantages"]
    assert (item["attack"], item["attribute"], item["against"]) == ("attribute_linkage", "disease", "control")
    assert item["targets"] == 225 and item["control_targets"] == 75 and item["finding"] is False
    assert set(item["attacked"]) == {"guesses", "right", "rate", "low", "high"}
    assert item["low"] <= item["advantage"] <= item["high"]
    assert found["least_advantage"] == 0.9 and found["release"] is None
    assert "not about a release that was published" in " ".join(found["notes"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--holdout", "0"], "between 0 and 1"),
        (["--holdout", "a tenth"], "not a valid float"),
        (["--holdout", "0.1", "--control", "others"], "it does not go with --control"),
        (["--holdout", "0.1", "--release", "others"], "it does not go with --release"),
        (["--control", "others"], "no release to guess from"),
        (["--release", "patients", "--control", "nobody"], "nobody"),
        (["--advantage", "2"], "at least 0 and below 1"),
    ],
)
def test_bad_input(policy: Path, arguments: list[str], message: str) -> None:
    done = run(str(policy), *arguments)
    assert done.exit_code == 2 and message in done.output


def test_a_database_has_no_policy_to_release_by(policy: Path) -> None:
    done = run(str(policy.parent / "clinic.duckdb"), "patients", "--qi", "age", "--holdout", "0.1")
    assert done.exit_code == 2 and "needs a policy file" in done.output

"""The dbt package of the examples, run by dbt itself: a release is built and tested, and a broken one is found."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from typing import Any

import pytest
from conftest import ROOT

EXAMPLE = ROOT / "examples" / "dbt"
# One process for all commands: to start dbt takes longer than most of them.
DRIVER = """
import json, pathlib, sys
import duckdb
from dbt.cli.main import dbtRunner
from sqlanon.ledger import Ledger

dbt, found = dbtRunner(), {}

def run(name, *words):
    done = dbt.invoke([*words, "--profiles-dir", ".", "--quiet"])
    results = getattr(done.result, "results", None) or []
    results = [each for each in results if hasattr(each, "node")]  # a run-operation has others
    found[name] = {each.node.name: [str(each.status), each.failures, each.message] for each in results}
    found[name]["success"] = done.success

def sql(text):
    with duckdb.connect("hospital.duckdb") as connection:
        return connection.execute(text).fetchall()

run("deps", "deps")
run("build", "build")
found["rows"] = sql("SELECT COUNT(*), COUNT(DISTINCT disease) FROM patients_released")
found["counted"] = sql("SELECT SUM(patients) FROM by_sex")
policy = pathlib.Path("policies/patients.yml")
policy.write_text(policy.read_text().replace("k: 10", "k: 5000"))
run("impossible", "run", "--select", "patients_released")
found["rows again"] = sql("SELECT COUNT(*), COUNT(DISTINCT disease) FROM patients_released")
sql("INSERT INTO patients_released (age, zip, sex, disease) VALUES ('33', '10001', 'f', 'flu')")
run("test", "test")
Ledger.create("policies/counts.ledger").close()
run("counts", "run-operation", "sqlanon.run", "--args", "{words: [refresh, policies/counts.yml]}")
found["patients by disease"] = sql("SELECT COUNT(*), SUM(records) FROM patients_by_disease")
found["patients by age"] = sql("SELECT COUNT(*), SUM(records) FROM patients_by_age")
run("too many", "run-operation", "sqlanon.run", "--args", "{words: [refresh, policies/none.yml]}")
pathlib.Path("found.json").write_text(json.dumps(found, default=str))
"""


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    if not all(importlib.util.find_spec(name) for name in ("dbt", "duckdb")) or not importlib.util.find_spec("dbt.cli"):
        pytest.skip("needs dbt-core and dbt-duckdb: pip install 'sqlanon[test]'")
    folder = tmp_path_factory.mktemp("dbt")
    shutil.copytree(EXAMPLE, folder, dirs_exist_ok=True)
    environment = os.environ | {"DO_NOT_TRACK": "1", "DBT_SEND_ANONYMOUS_USAGE_STATS": "false"}
    project = folder / "hospital"
    done = subprocess.run(
        [sys.executable, "-c", DRIVER], cwd=project, capture_output=True, text=True, env=environment, timeout=900
    )
    assert done.returncode == 0, done.stdout + done.stderr
    loaded: dict[str, Any] = json.loads((project / "found.json").read_text())
    return loaded


def test_a_model_is_a_release(found: dict[str, Any]) -> None:
    assert found["deps"]["success"] and found["build"]["success"], found["build"]
    assert found["build"]["patients_released"][0] == "success"
    ((rows, diseases),) = found["rows"]
    assert 1900 < rows <= 2000 and diseases == 5
    assert [[str(rows)]] == [[str(each) for each in row] for row in found["counted"]]


def test_check_is_a_test(found: dict[str, Any]) -> None:
    """It passes on what was published; one row that somebody put in breaks both."""
    named, own = "patients_released_are_ten", "sqlanon_sqlanon_patients_released_"
    assert [found["build"][name][:2] for name in (named, own)] == [["pass", 0], ["pass", 0]]
    assert not found["test"]["success"]
    assert found["test"][named][:2] == ["fail", 1]
    assert found["test"][own][:2] == ["fail", 2]


def test_what_cannot_be_met_leaves_the_last_release(found: dict[str, Any]) -> None:
    status, _, message = found["impossible"]["patients_released"]
    assert status == "error" and "sqlanon publish: " in message and "k_anonymity" in message
    assert found["rows again"] == found["rows"]


def test_counts_with_differential_privacy(found: dict[str, Any]) -> None:
    assert found["counts"]["success"]
    ((cells, records),) = found["patients by disease"]
    assert cells == 10 and abs(int(records) - 2000) < 200
    assert found["patients by age"] == [[14, records]]
    assert not found["too many"]["success"]

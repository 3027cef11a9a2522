"""`sqlanon attack` as people run it."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import duckdb
import pytest
from click.testing import CliRunner, Result
from report_page import parse

import sqlanon
from sqlanon.cli import main
from sqlanon.evidence.release_evidence import ReleaseEvidence
from sqlanon.release.measure_resistance import resistance

SECRETS = ("Alice", "Bobby", "leprosy", "scurvy", "17171")
TABLE = """
CREATE TABLE patients AS
SELECT name, 'zip' || zip AS zip, sex, disease FROM (VALUES
    ('Alice', '17171', 'f', 'leprosy'), ('Bobby', '17172', 'm', 'scurvy'),
    ('Carol', '17172', 'm', 'scurvy'), ('Daisy', '17171', 'f', 'scurvy')
) AS t(name, zip, sex, disease);
CREATE TABLE people AS SELECT name, zip FROM patients WHERE name <> 'Carol';
"""
POLICY = """
source: {{database: {file}, table: patients}}
columns: {{name: identifier, zip: quasi_identifier, sex: quasi_identifier, disease: sensitive}}
models: [{{k_anonymity: {{k: 3}}}}]
release: {{table: patients_released}}
"""


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = str(tmp_path / "clinic.duckdb")
    with duckdb.connect(path) as connection:
        connection.execute(TABLE)
    return path


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["attack", *arguments])


def test_what_is_printed_tells_of_nobody(file: str) -> None:
    done = run(file, "patients", "--qi", "zip,sex", "--sensitive", "disease", "--external", "people")
    assert done.exit_code == 0, done.output
    assert "patients, which has no release yet: attacks by someone who knows zip, sex" in done.output
    assert "homogeneity of disease" in done.output and "2 of 4 rows broken (50.0%)" in done.output
    assert "not judged: intersection: it needs another release of the same persons" in done.output
    assert not [secret for secret in SECRETS if secret in done.output]


def test_a_policy_and_its_release(file: str, tmp_path: Path) -> None:
    policy = tmp_path / "policy.yml"
    policy.write_text(POLICY.format(file=file))
    before = json.loads(run(str(policy), "--json").output)
    assert before["release"] is None and all(item["after"] is None for item in before["attacks"])
    assert CliRunner().invoke(main, ["publish", str(policy), "--no-workload"]).exit_code == 0
    done = run(str(policy), "--json", "--attack", "linkage", "--attack", "homogeneity")
    found = json.loads(done.output)
    assert found["release"] == "patients_released"
    assert [(item["name"], item["before"]["broken"], item["after"]["broken"]) for item in found["attacks"]] == [
        ("homogeneity", 2, 0),
        ("linkage", 0, 0),
    ]
    again = json.loads(
        run(file, "patients_released", "--json", "--attack", "linkage", "--attack", "homogeneity").output
    )
    assert again["attacks"] == found["attacks"]
    assert not [secret for secret in SECRETS if secret in done.output]
    shown = run(str(policy), "--release", "patients_released", "--other", "patients_released")
    assert (
        "patients, and patients_released: attacks by someone who knows zip, sex" in shown.output
        and "intersection of disease" in shown.output
    )


@pytest.mark.full
def test_the_report_shows_what_attacks_achieve(file: str, tmp_path: Path) -> None:
    policy, page = tmp_path / "policy.yml", tmp_path / "report.html"
    policy.write_text(POLICY.format(file=file))
    assert CliRunner().invoke(main, ["publish", str(policy), "--no-workload"]).exit_code == 0
    for flags, shown in (([], True), (["--no-attacks"], False)):
        done = CliRunner().invoke(main, ["report", str(policy), "-o", str(page), "--explore", "0", *flags])
        assert done.exit_code == 0, done.output
        sections = {
            node.attributes.get("id"): " ".join(node.text.split()) for node in parse(page.read_text()).every("section")
        }
        assert ("attacks" in sections) == shown and ("risk-measures" in sections) == shown
        if shown:
            assert "50%2 of 4" in sections["attacks"] and "0%0 of 4" in sections["attacks"]
            assert "Advantage" in sections["attacks"] and "No control group was given" in sections["attacks"]
            assert "Not judged" in sections["attacks"] and "Marketer risk" in sections["risk-measures"]
            assert not [secret for secret in SECRETS if secret in sections["attacks"]]


@pytest.mark.full
def test_a_report_without_numbers_of_the_source(file: str, tmp_path: Path) -> None:
    """With a history, numbers of the source would tell of rows that wait from one report to the next."""
    text = POLICY.format(file=file).replace("columns: {name: identifier", "person: name\ncolumns: {name: identifier")
    policy = sqlanon.parse(text + "suppression_limit: 1\nhistory: {hold_back: 1}\n")
    with duckdb.connect(file) as connection:
        connection.execute("CREATE TABLE patients_released AS SELECT '*' AS zip, sex, disease FROM patients")
    engine = sqlanon.connect(file)
    found = resistance(policy, engine, ReleaseEvidence.from_json({"records": 4}))
    engine.close()
    assert "source" not in found["risks"] and found["risks"]["release"]["records"] == 4
    assert found["attacks"]["attacks"] and all(item["before"] is None for item in found["attacks"]["attacks"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--qi", "zip", "--attack", "linkages"], "did you mean 'linkage'?"),
        (["--qi", "zip", "--certainty", "2"], "'certainty' must be"),
        (["--qi", "zap"], "zap"),
        ([], "no quasi-identifier is given"),
        (["--qi", "zip", "--external", "nobody"], "nobody"),
        (["--qi", "zip", "--other", "patients"], "not the one to compare it with"),
    ],
)
def test_bad_input(file: str, arguments: list[str], message: str) -> None:
    done = run(file, "patients", *arguments)
    assert done.exit_code == 2 and message in done.output


def test_from_python(file: str) -> None:
    policy = sqlanon.from_options("patients", qi=["zip", "sex"], models=[("k_anonymity", {"k": 2})])
    engine = sqlanon.connect(file)
    found = sqlanon.attack(policy, engine, names=["linkage"])
    engine.close()
    assert isinstance(found, sqlanon.Attacks) and found.attacks[0].before.targets == 4


def test_explained() -> None:
    done = CliRunner().invoke(main, ["explain", "homogeneity"])
    assert done.exit_code == 0 and "homogeneity, an attack" in done.output and "Machanavajjhala" in done.output
    assert "Attacks" in CliRunner().invoke(main, ["models"]).output


REGIONS = """
CREATE TABLE visits AS
SELECT
    i AS id,
    CASE WHEN i % 17 = 0 THEN NULL ELSE 20 + (i * 7) % 50 END AS age,
    DATE '2024-01-01' + CAST((i * 13) % 300 AS INTEGER) AS day,
    ['Athens', 'Bern, old', 'Cork "x"', 'Dublin'][1 + (i * 5) % 4] AS town,
    ['flu', 'cold', 'hiv'][1 + i % 3] AS disease
FROM range(120) AS r(i);
"""
REGIONS_POLICY = """
source: {{database: {file}, table: visits}}
columns: {{id: identifier, age: quasi_identifier, day: quasi_identifier, town: quasi_identifier, disease: sensitive}}
models: [{{k_anonymity: {{k: 4}}}}]
algorithm: {{mondrian: {{strict: {strict}}}}}
release: {{table: visits_released}}
"""


@pytest.mark.full
@pytest.mark.parametrize("strict", ["true", "false"])
def test_persons_are_found_in_regions(file: str, tmp_path: Path, strict: str) -> None:
    """Everybody fits at least the class that holds its record, whatever numbers, dates and names a label is made of."""
    with duckdb.connect(file) as connection:
        connection.execute(REGIONS)
    policy = tmp_path / "regions.yml"
    policy.write_text(REGIONS_POLICY.format(file=file, strict=strict))
    done = CliRunner().invoke(main, ["publish", str(policy), "--no-workload"])
    assert done.exit_code == 0, done.output
    found = {item["name"]: item for item in json.loads(run(str(policy), "--json").output)["attacks"]}
    with duckdb.connect(file) as connection:
        rows = connection.execute("SELECT age, day, town FROM visits").fetchall()
        labels = connection.execute("SELECT age, day, town, COUNT(*) FROM visits_released GROUP BY ALL").fetchall()
    fitting = [sum(n for *shown, n in labels if all(map(_covers, shown, row))) for row in rows]
    assert min(fitting) >= 4
    assert found["linkage"]["after"]["broken"] == 0
    assert found["linkage"]["after"]["targets"] == 120
    wanted = sum(1 / max(n, _crowd(row, rows, labels)) for n, row in zip(fitting, rows, strict=True)) / 120
    assert found["linkage"]["after"]["average"] == pytest.approx(wanted)


def _crowd(row: tuple[object, ...], rows: list[tuple[object, ...]], labels: list[tuple[object, ...]]) -> int:
    classes = [shown for *shown, _ in labels if all(map(_covers, shown, row))]
    return min(sum(all(map(_covers, shown, other)) for other in rows) for shown in classes)


def _covers(label: str | None, value: object) -> bool:
    """A reader of labels that knows no grammar: it takes them apart with CSV's rules for quotes."""
    if label is None or value is None:
        return label is value or label == "*" or (label is not None and label.startswith("{NULL"))
    inner = label.removeprefix("{NULL, ").removesuffix("}") if label.startswith("{NULL") else label
    if inner.startswith("["):
        low, high = next(csv.reader([inner[1:-1]], skipinitialspace=True))
        kind = int if isinstance(value, int) else str
        return kind(low) <= kind(str(value)) <= kind(high)
    if inner.startswith("{"):
        return str(value) in next(csv.reader([inner[1:-1]], skipinitialspace=True))
    return inner in (str(value), "*")

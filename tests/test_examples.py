"""Every example, the README and the golden SQL, run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner
from conftest import Database

import sqlanon
from sqlanon import demo
from sqlanon.cli import main
from sqlanon.compiler.script import check_script
from sqlanon.families import family
from sqlanon.policy import parse

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
COMPILED = ROOT / "sql" / "compiled"


def hospital_policy() -> sqlanon.Policy:
    text = (Path(demo.__file__).parent / "policy.yml").read_text(encoding="utf-8")
    return parse(text, "policy.yml")


@pytest.mark.parametrize("dialect", ["duckdb", "postgres"])
def test_golden_sql(dialect: str) -> None:
    """A change of what is compiled shows as a change of these files: sqlanon compile … --dialect … -o …"""
    golden = (COMPILED / "hospital" / f"{dialect}.sql").read_text(encoding="utf-8")
    assert check_script(hospital_policy(), dialect) == golden


def test_golden_sql_runs(database: Database, tmp_path: Path) -> None:
    """The script gives what the check measures, on an engine that knows nothing of sqlanon."""
    demo.generate(tmp_path / "hospital.duckdb", 2000)
    engine = sqlanon.connect(str(tmp_path / "hospital.duckdb"))
    rows = engine._connection.execute("FROM patients").fetchall()  # type: ignore[attr-defined]
    columns = {"patient_id": "TEXT", "name": "TEXT", "age": "INT", "zip": "TEXT", "sex": "TEXT"}
    columns |= {"admitted": "DATE", "disease": "TEXT"}
    database.table("patients", columns, [dict(zip(columns, row, strict=True)) for row in rows])
    script = (COMPILED / "hospital" / f"{database.engine.dialect}.sql").read_text(encoding="utf-8")
    found = []
    for statement in re.sub(r"^--.*$", "", script, flags=re.MULTILINE).split(";"):
        if statement.strip().startswith("SELECT"):
            found.append(database.fetch(statement)[0])
        elif statement.strip():
            database.run(statement)
    expected = [
        (result.classes, result.broken_classes, result.measured)
        for result in sqlanon.check(hospital_policy(), engine).checks
    ]
    assert [(row[0], row[1]) for row in found] == [(row[0], row[1]) for row in expected]
    assert [float(row[2]) for row in found] == pytest.approx([row[2] for row in expected])


def test_demo(tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["demo", str(tmp_path / "demo")])
    assert result.exit_code == 0, result.output
    assert "4 of 4 requirements are broken" in result.output
    assert "all 4 requirements hold" in result.output
    again = CliRunner().invoke(main, ["check", str(tmp_path / "demo" / "policy.yml"), "--release", "patients_released"])
    assert again.exit_code == 0, again.output


def test_clinic_visits_counts_patients() -> None:
    folder = ROOT / "examples" / "clinic_visits"
    rows = CliRunner().invoke(main, ["check", str(folder / "visits.csv"), "--qi", "birth_year,city", "--k", "3"])
    assert rows.exit_code == 0, rows.output
    patients = CliRunner().invoke(main, ["check", str(folder / "policy.yml")])
    assert patients.exit_code == 1, patients.output
    assert re.search(r"1951 +Athens +2\b", patients.output)


def test_every_example_is_run_here() -> None:
    assert {path.name for path in (ROOT / "examples").iterdir()} == {"hospital", "clinic_visits"}


def test_readme_policy_is_valid() -> None:
    (text,) = re.findall(r"```yaml\n(.*?)```", README, flags=re.DOTALL)
    policy = parse(text)
    assert [use.name for use in policy.models] == ["k_anonymity", "distinct_l_diversity", "t_closeness"]


def test_readme_names_every_command_and_option() -> None:
    for name, command in main.commands.items():
        assert f"sqlanon {name}" in README, name
        assert command.help, name


def test_readme_shows_what_the_demo_prints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (shown,) = re.findall(r"\$ sqlanon demo\n\$ sqlanon (check .*?)\n(.*?)…", README, flags=re.DOTALL)
    assert CliRunner().invoke(main, ["demo"]).exit_code == 0
    result = CliRunner().invoke(main, shown[0].split())
    assert result.exit_code == 1
    assert result.output.startswith(shown[1])


def test_readme_counts() -> None:
    assert f"{len(family('models'))} privacy models and {len(family('loss'))} loss metrics" in README


def test_readme_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    CliRunner().invoke(main, ["demo", str(tmp_path)])
    monkeypatch.chdir(tmp_path)
    (code,) = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    exec(code.replace("warehouse.duckdb", "hospital.duckdb"), {})
    (names,) = re.findall(r"The names: (.*?)\.\n", README, flags=re.DOTALL)
    assert sorted(re.findall(r"`(\w+)`", names)) == sorted(set(sqlanon.__all__) - {"__version__"})

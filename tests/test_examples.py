"""Every example, the README and the golden SQL, run."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import click
import duckdb
import pytest
from click.testing import CliRunner
from conftest import Database
from proxy_running import served

import sqlanon
from sqlanon import algorithms, demo
from sqlanon.algorithms._posing import is_searchable
from sqlanon.algorithms._problem import OF_NODES
from sqlanon.cli import main
from sqlanon.compiler.script import check_script
from sqlanon.engines import Engine
from sqlanon.families import family
from sqlanon.plan import Plan
from sqlanon.policy import parse
from sqlanon.policy.files import parse_serve
from sqlanon.proxy import users
from sqlanon.release.script import release_script

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
COMPILED = ROOT / "sql" / "compiled"


def hospital_policy() -> sqlanon.Policy:
    text = (Path(demo.__file__).parent / "policy.yml").read_text(encoding="utf-8")
    return parse(text, "policy.yml")


def golden(name: str) -> str:
    return (COMPILED / "hospital" / name).read_text(encoding="utf-8")


def statements(script: str) -> list[str]:
    parts = re.sub(r"^--.*$", "", script, flags=re.MULTILINE).split(";")
    return [part.strip() for part in parts if part.strip()]


def patients(database: Database, folder: Path) -> Engine:
    """The generated patients in a database, and the engine that has them already."""
    demo.generate(folder / "hospital.duckdb", 2000)
    engine = sqlanon.connect(str(folder / "hospital.duckdb"))
    rows = engine._connection.execute("FROM patients").fetchall()  # type: ignore[attr-defined]
    columns = {"patient_id": "TEXT", "name": "TEXT", "age": "INT", "zip": "TEXT", "sex": "TEXT"}
    columns |= {"admitted": "DATE", "disease": "TEXT"}
    database.table("patients", columns, [dict(zip(columns, row, strict=True)) for row in rows])
    return engine


@pytest.mark.parametrize("dialect", ["duckdb", "postgres", "spark"])
def test_golden_sql(dialect: str) -> None:
    """A change of what is compiled shows as a change of these files: sqlanon compile … --dialect … -o …"""
    assert check_script(hospital_policy(), dialect) == golden(f"{dialect}.sql")
    plan = Plan.from_json(golden("plan.json"))
    assert release_script(hospital_policy(), plan, dialect) == golden(f"release.{dialect}.sql")


def test_golden_release_runs(database: Database, tmp_path: Path) -> None:
    """The script of a release writes a table that meets the policy, on an engine that knows nothing of sqlanon."""
    patients(database, tmp_path).close()
    database.run("DROP TABLE IF EXISTS patients_released")
    for statement in statements(golden(f"release.{database.engine.dialect}.sql")):
        database.run(statement)
    found = sqlanon.check(hospital_policy(), database.engine, release=sqlanon.Source(table="patients_released"))
    assert found.records > 0 and all(result.holds for result in found.checks)
    database.run("DROP TABLE patients_released")


@pytest.mark.long
def test_golden_release_runs_on_spark(tmp_path: Path) -> None:
    """The same rows as on DuckDB."""
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        pytest.skip("needs the package pyspark and Java 17: pip install 'sqlanon[spark]'")
    duck = Database(sqlanon.connect())
    patients(duck, tmp_path).close()
    duck.run(f"COPY patients TO '{tmp_path / 'patients.parquet'}'")
    for statement in statements(golden("release.duckdb.sql")):
        duck.run(statement)
    expected = sorted(map(str, duck.fetch("FROM patients_released")))
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    session = builder.config("spark.sql.shuffle.partitions", "4").getOrCreate()
    try:
        session.read.parquet(str(tmp_path / "patients.parquet")).createOrReplaceTempView("patients")
        *views, release = statements(golden("release.spark.sql"))
        for view in views:
            session.sql(view)
        rows = session.sql(release.split(" AS\n", 1)[1]).collect()
    finally:
        session.stop()
    assert sorted(str(tuple(row)) for row in rows) == expected


def test_golden_sql_runs(database: Database, tmp_path: Path) -> None:
    """The script gives what the check measures, on an engine that knows nothing of sqlanon."""
    engine = patients(database, tmp_path)
    found = []
    for statement in statements(golden(f"{database.engine.dialect}.sql")):
        if statement.startswith("SELECT"):
            found.append(database.fetch(statement)[0])
        else:
            database.run(statement)
    expected = [
        (result.classes, result.broken_classes, result.measured)
        for result in sqlanon.check(hospital_policy(), engine).checks
    ]
    assert [(row[0], row[1]) for row in found] == [(row[0], row[1]) for row in expected]
    assert [float(row[2]) for row in found] == pytest.approx([row[2] for row in expected])


def test_demo(demo_here: str, tmp_path: Path) -> None:
    assert "4 of 4 requirements are broken" in demo_here
    assert "all 4 requirements hold" in demo_here
    assert "every requirement holds in the release as written" in demo_here
    assert re.search(r"influenza +\| \d+ ± \d+", demo_here)
    assert "<svg" in (tmp_path / "demo" / "report.html").read_text(encoding="utf-8")
    again = CliRunner().invoke(main, ["check", str(tmp_path / "demo" / "policy.yml"), "--release", "patients_released"])
    assert again.exit_code == 0, again.output
    alone = CliRunner().invoke(main, ["check", str(tmp_path / "demo" / "hospital.duckdb"), "patients_released"])
    assert alone.exit_code == 0 and "all 4 requirements hold" in alone.output, alone.output
    source = CliRunner().invoke(main, ["check", str(tmp_path / "demo" / "hospital.duckdb"), "patients"])
    assert source.exit_code == 2 and "nothing to check" in source.output + source.stderr


def test_clinic_visits_counts_patients() -> None:
    folder = ROOT / "examples" / "clinic_visits"
    rows = CliRunner().invoke(main, ["check", str(folder / "visits.csv"), "--qi", "birth_year,city", "--k", "3"])
    assert rows.exit_code == 0, rows.output
    patients = CliRunner().invoke(main, ["check", str(folder / "policy.yml")])
    assert patients.exit_code == 1, patients.output
    assert re.search(r"1951 +Athens +2\b", patients.output)


def shop(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The example of the gateway, copied to a folder that becomes the working directory."""
    shutil.copytree(ROOT / "examples" / "gateway", folder, dirs_exist_ok=True)
    monkeypatch.chdir(folder)


def console(text: str) -> list[tuple[list[str], str]]:
    """The commands of console blocks, and what is shown below each of them."""
    blocks = re.findall(r"```console\n(.*?)```", text, flags=re.DOTALL)
    found = [
        command.partition("\n") for block in blocks for command in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]
    ]
    return [(shlex.split(command, comments=True), shown) for command, _, shown in found]


def run_line(words: list[str]) -> str:
    """What a command prints; it may refuse, but not fail."""
    if words[0] == "cd":
        return ""
    if words[0] == "python":
        subprocess.run([sys.executable, *words[1:]], check=True)
        return ""
    assert words[0] == "sqlanon"
    result = CliRunner().invoke(main, words[1:])
    assert result.exit_code == (1 if "ERROR: " in result.stderr else 0), (words, result.output)
    return result.output


def without_numbers(text: str) -> list[str]:
    """The lines of an output, with everything that hangs on noise or on the date made alike."""
    lines = (re.sub(r" +", " ", line).rstrip() for line in text.rstrip().splitlines())
    return [re.sub(r"-{2,}", "-", re.sub(r"[\d.,:e-]*\d", "0", line)) for line in lines]


def test_gateway_example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shop(tmp_path, monkeypatch)
    shown = {" ".join(words): run_line(words) for words, _ in console(Path("README.md").read_text(encoding="utf-8"))}
    assert not any("ERROR: " in text for text in shown.values())
    (joined,) = [text for command, text in shown.items() if "country" in command]
    assert re.findall(r"^ (\w+) +\|", joined, flags=re.MULTILINE) == ["country", "France", "Germany", "Greece"]


def test_readme_asks_with_differential_privacy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shop(tmp_path, monkeypatch)
    section = README.split("## Ask with differential privacy")[1].split("\n## ")[0]
    lines = console(section)
    assert len(lines) >= 7
    for words, shown in lines:
        expected, printed = without_numbers(shown.split("…")[0]), without_numbers(run_line(words))
        assert printed[: len(expected)] == expected
        assert "…" in shown or len(printed) == len(expected)
    for command in re.findall(r"`(sqlanon [^`]*policy\.yml [^`]*)`", section):
        run_line(shlex.split(command))


def test_readme_refreshes_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shop(tmp_path, monkeypatch)
    duckdb.connect("shop.duckdb").execute(Path("data.sql").read_text(encoding="utf-8")).close()
    section = README.split("## Counts with differential privacy, refreshed")[1].split("\n## ")[0]
    (text,) = re.findall(r"```yaml\n(.*?)```", section, flags=re.DOTALL)
    Path("counts.yml").write_text(text, encoding="utf-8")
    for words, shown in console(section):
        expected, printed = without_numbers(shown.split("…")[0]), without_numbers(run_line(words))
        assert [line[: len(begin)] for line, begin in zip(printed, expected, strict=True)] == expected
    exact = {"Berlin": 1549, "Paris": 1010, "Hamburg": 870, "Athens": 786, "Lyon": 785}
    found = dict(duckdb.connect("shop.duckdb").execute("FROM customers_by_city").fetchall())
    assert found.keys() == exact.keys() and all(abs(found[city] - exact[city]) < 60 for city in exact), found
    for command in re.findall(r"`(sqlanon (?!serve)[^`]*counts\.yml [^`]*)`", section):  # a server would not end
        run_line(shlex.split(command))


def test_readme_serves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the README shows of psql, line by line, numbers aside."""
    if shutil.which("psql") is None:
        pytest.skip("needs psql (package postgresql-client)")
    shop(tmp_path, monkeypatch)
    subprocess.run(
        [sys.executable, "-c", "import duckdb; duckdb.connect('shop.duckdb').execute(open('data.sql').read())"]
    )
    with Path("policy.yml").open("a") as file:
        file.write("serve: {port: 0}\n")
    run_line(["sqlanon", "budget", "init", "policy.yml"])
    users.set_password(Path("policy.users"), "alice", "correct horse battery", new=True)
    section = README.split("## Serve it as PostgreSQL")[1].split("\n## ")[0]
    check, listens = re.findall(r"\$ sqlanon serve .*\n([^$`]*)", section)
    assert run_line(["sqlanon", "serve", "policy.yml", "--check"]) == check
    environment = os.environ | {"PGPASSWORD": "correct horse battery", "PSQLRC": "/dev/null", "PYTHONUTF8": "1"}
    with served(Path("policy.yml")) as (server, _):
        assert listens.startswith(f"sqlanon listens on {server.door.current.serve.host}, port ")
        asked = re.findall(r"^policy=> (.*?)(?:  +--.*)?\n((?:(?!policy=>|```).*\n)*)", section, flags=re.MULTILINE)
        assert len(asked) >= 5
        for command, shown in asked:
            words = ["psql", "-h", "127.0.0.1", "-p", str(server.port), "-U", "alice", "-c", command, "policy"]
            done = subprocess.run(words, capture_output=True, text=True, env=environment, timeout=60)
            assert done.returncode == 0, done.stderr
            if shown:
                assert without_numbers(done.stderr + done.stdout) == without_numbers(shown)


def test_every_example_is_run_here() -> None:
    assert {path.name for path in (ROOT / "examples").iterdir()} == {"hospital", "clinic_visits", "gateway", "dbt"}


def test_readme_policy_is_valid() -> None:
    found = re.findall(r"```yaml\n(.*?)```", README, flags=re.DOTALL)
    text, _, perturbed, apart, weekly, gateway, counts, section = found
    assert parse(apart).algorithm is not None
    assert gateway == (ROOT / "examples" / "gateway" / "policy.yml").read_text(encoding="utf-8")
    assert parse_serve(gateway + section).administrators == ("alice",)
    assert parse(weekly).history is not None
    assert len(parse(perturbed).transformations) == 3
    assert parse_serve(counts).gateway.rows == 5
    policy = parse(text)
    assert [use.name for use in policy.models] == ["k_anonymity", "distinct_l_diversity", "t_closeness"]


def test_readme_transformations(demo_here: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text = re.findall(r"```yaml\n(.*?)```", README, flags=re.DOTALL)[2]
    Path(text.splitlines()[0].removeprefix("# ")).write_text(text, encoding="utf-8")
    monkeypatch.setenv("SQLANON_KEY", "at least sixteen characters that nobody can guess")
    result = CliRunner().invoke(main, ["publish", "demo/perturbed.yml", "--no-workload"])
    assert result.exit_code == 0, result.output + result.stderr
    assert result.output.startswith("table patients_perturbed: ")


def test_readme_takes_values_apart(demo_here: str, monkeypatch: pytest.MonkeyPatch) -> None:
    section = README.split("## Take values apart")[1].split("\n## ")[0]
    (text,) = re.findall(r"```yaml\n(.*?)```", section, flags=re.DOTALL)
    Path(text.splitlines()[0].removeprefix("# ")).write_text(text, encoding="utf-8")
    (shown,) = re.findall(r"\$ export SQLANON_KEY='(.*?)'\n\$ sqlanon (.*?)\n(.*?)…", section, flags=re.DOTALL)
    monkeypatch.setenv("SQLANON_KEY", shown[0])
    result = CliRunner().invoke(main, shown[1].split())
    assert result.exit_code == 0, result.output + result.stderr
    assert result.output.startswith(shown[2])
    (asked,) = re.findall(r"`(SELECT .*?)`", section, flags=re.DOTALL)
    with duckdb.connect("demo/hospital.duckdb") as connection:
        (estimated,) = connection.execute(asked).fetchone() or (0,)
        counted = "SELECT count(*) FROM patients WHERE age < 30 AND disease = 'influenza'"
        (truth,) = connection.execute(counted).fetchone() or (0,)
    assert 0.5 * truth < estimated < 2 * truth


def test_readme_pseudonyms(demo_here: str, monkeypatch: pytest.MonkeyPatch) -> None:
    _, text, *_ = re.findall(r"```yaml\n(.*?)```", README, flags=re.DOTALL)
    file = Path(text.splitlines()[0].removeprefix("# "))
    file.write_text(text, encoding="utf-8")
    shown, *_ = re.findall(r"\$ export SQLANON_KEY='(.*?)'\n\$ sqlanon (.*?)\n(.*?)…", README, flags=re.DOTALL)
    monkeypatch.setenv("SQLANON_KEY", shown[0])
    result = CliRunner().invoke(main, shown[1].split())
    assert result.exit_code == 0, result.output + result.stderr
    assert result.output.startswith(shown[2])
    found = duckdb.sql(
        f"SELECT COUNT(DISTINCT patient_id), MIN(length(patient_id)) FROM '{file.parent}/research.parquet'"
    )
    assert found.fetchall() == [(20_000, 64)]


def test_readme_refreshes(demo_here: str, monkeypatch: pytest.MonkeyPatch) -> None:
    section = README.split("## Releases over time")[1].split("\n## ")[0]
    (text,) = re.findall(r"```yaml\n(.*?)```", section, flags=re.DOTALL)
    Path(text.splitlines()[0].removeprefix("# ")).write_text(text, encoding="utf-8")
    monkeypatch.setenv("SQLANON_KEY", "a key that is long enough")
    lines = console(section)
    assert len(lines) == 2
    for words, shown in lines:
        assert run_line(words).startswith(shown.split("…")[0])
    listed = re.findall(r"^\| `(\w+)` \|", section, flags=re.MULTILINE)
    assert set(listed) == set(family("history"))


def test_readme_names_what_a_search_cannot_reach() -> None:
    def named(pattern: str) -> set[str]:
        (said,) = re.findall(pattern, README, flags=re.DOTALL)
        return set(re.findall(r"`(\w+)`", said)) & set(models)

    models = family("models")
    assert all(is_searchable(model, OF_NODES) for model in models.values())
    assert "The exact search reaches every model" in README
    by_nodes = {name for name, model in models.items() if not is_searchable(model)}
    assert named(r"that look at more than a class (.*?)\n\n") == by_nodes


def test_readme_names_every_command_and_option() -> None:
    context = click.Context(main)
    for name in main.list_commands(context):
        command = main.get_command(context, name)
        assert f"sqlanon {name}" in README, name
        assert command is not None and command.help, name
        for part, below in getattr(command, "commands", {}).items():
            assert f"`{part}`" in README and below.help, f"{name} {part}"


def test_readme_lists_every_algorithm() -> None:
    section = README.split("\n## Publishing")[1].split("\n## ")[0]
    for name in algorithms.names():
        (said,) = re.findall(rf"^\| `{name}` \| (.*) \|$", section, flags=re.MULTILINE)
        first = " ".join((algorithms.algorithm(name).__doc__ or "").strip().split("\n\n")[0].split())
        assert said == first.rstrip("."), name


def test_readme_shows_what_the_demo_prints(demo_here: str) -> None:
    (shown,) = re.findall(r"\$ sqlanon demo\n\$ sqlanon (check .*?)\n(.*?)…", README, flags=re.DOTALL)
    result = CliRunner().invoke(main, shown[0].split())
    assert result.exit_code == 1
    assert result.output.startswith(shown[1])
    (published,) = re.findall(r"\$ sqlanon publish demo/policy.yml\n(.*?)…", README, flags=re.DOTALL)
    result = CliRunner().invoke(main, ["publish", "demo/policy.yml"])
    assert result.exit_code == 0
    assert result.output.startswith(published)


def test_readme_counts() -> None:
    assert f"{len(family('models'))} privacy models and {len(family('loss'))} loss metrics" in README


def test_readme_python(demo_here: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("demo")
    (code,) = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    exec(code.replace("warehouse.duckdb", "hospital.duckdb"), {})
    (names,) = re.findall(r"The names: (.*?)\.\n", README, flags=re.DOTALL)
    assert sorted(re.findall(r"`(\w+)`", names)) == sorted(set(sqlanon.__all__) - {"__version__"})

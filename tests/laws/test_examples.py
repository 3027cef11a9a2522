"""The README, every guide and the golden SQL, run."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import duckdb
import guides
import pytest
from click.testing import CliRunner
from conftest import Database
from guides import EXAMPLES, ROOT, Session, Step, blocks, guide, steps
from write_reference import FILE, PYTHON_FILE, python_reference, reference

import sqlanon
from sqlanon import algorithms, demo, hierarchies, transformations
from sqlanon.cli import main
from sqlanon.engines import Engine
from sqlanon.families import family, models_of_shape
from sqlanon.lattice.pose_problem import is_searchable
from sqlanon.lattice.problem import OF_NODES
from sqlanon.plan import Plan
from sqlanon.policy import parse
from sqlanon.policy.files import parse_serve, parse_statistics
from sqlanon.relations.check_script import check_script
from sqlanon.release.release_script import release_script

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


@pytest.mark.full
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


# ---- sessions

TOPICS = sorted(guides.topics())
OWN_TEST = {"dbt", "serving", "spark"}  # test_dbt.py, below, tests/engines: they need dbt, a server, psql, curl, Spark
NOISY = {"gateway", "serving"}  # numbers depend on noise


@pytest.fixture
def in_guide(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Changes to a copy of a guide's folder, with the other guides beside it."""

    def enter(topic: str) -> None:
        shutil.copytree(EXAMPLES, tmp_path / "examples", ignore=shutil.ignore_patterns("dbt"))
        monkeypatch.chdir(tmp_path / "examples" / topic)

    return enter


@pytest.mark.full  # `make test` runs the session of the README
@pytest.mark.parametrize("topic", sorted(set(TOPICS) - OWN_TEST))
def test_guide(topic: str, in_guide: Any, demonstrated: tuple[Path, str]) -> None:
    """The sessions of a guide, command by command."""
    in_guide(topic)
    found = steps(topic)
    assert found[0].words == ("cd", f"examples/{topic}")
    session = Session(demonstrated, noisy=topic in NOISY)
    for step, following in zip(found, [*found[1:], None], strict=True):
        session.run(step, following)
    if topic == "compare":
        assert "<svg" in Path("map.html").read_text(encoding="utf-8")
    if topic == "gateway":
        exact = {"Berlin": 1549, "Paris": 1010, "Hamburg": 870, "Athens": 786, "Lyon": 785}
        counted = dict(duckdb.connect("shop.duckdb").execute("FROM customers_by_city").fetchall())
        assert counted.keys() == exact.keys()
        assert all(abs(counted[city] - exact[city]) < 60 for city in exact), counted


def test_readme_session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, demonstrated: tuple[Path, str]) -> None:
    monkeypatch.chdir(tmp_path)
    found = steps("")
    session = Session(demonstrated)
    for step, following in zip(found, [*found[1:], None], strict=True):
        session.run(step, following)


# ---- the guide about serving: a server, and clients of other people


@contextmanager
def running_server(folder: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """`sqlanon serve policy.yml` on free ports: what it prints, and which port stands for which of the guide."""
    policy = folder / "policy.yml"
    text = policy.read_text(encoding="utf-8")
    policy.write_text(text.replace("port: 6543", "port: 0").replace("port: 8080", "port: 0"), encoding="utf-8")
    command = [sys.executable, "-m", "sqlanon", "serve", "policy.yml"]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            lines = []
            while not lines or "psql" not in lines[-1]:
                lines.append(process.stdout.readline())
                assert lines[-1], "the server has ended"
            printed = "".join(lines)
            (postgres,) = re.findall(r"listens on \S+, port (\d+)", printed)
            (http,) = re.findall(r"^HTTP/JSON on port (\d+)", printed, flags=re.MULTILINE)
            yield printed, {"6543": postgres, "8080": http}
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(120)


def run_psql(step: Step, words: list[str], environment: dict[str, str]) -> None:
    """One session of psql, statement by statement, with what the guide shows below each."""
    asked = re.findall(r"^policy=> (.*?)(?:  +--.*)?\n((?:(?!policy=>).*\n)*)", step.shown, flags=re.MULTILINE)
    assert len(asked) >= 9
    given = "".join(f"{statement}\n\\echo MARK\n\\warn MARK\n" for statement, _ in asked)
    done = subprocess.run(words, input=given, capture_output=True, text=True, env=environment, timeout=300)
    assert done.returncode == 0, done.stderr
    answers = zip(done.stdout.split("MARK\n"), done.stderr.split("MARK\n"), strict=True)
    for (statement, shown), (printed, warned) in zip(asked, answers, strict=False):
        guides.compare(Step((statement,), shown, step.place), warned + printed, noisy=True)


@pytest.mark.full
def test_guide_serving(in_guide: Any, demonstrated: tuple[Path, str]) -> None:
    if missing := [name for name in ("psql", "curl") if shutil.which(name) is None]:
        pytest.skip(f"needs {' and '.join(missing)} (packages postgresql-client, curl)")
    in_guide("serving")
    found = steps("serving")
    (place,) = [number for number, step in enumerate(found) if step.words == ("sqlanon", "serve", "policy.yml")]
    (users,) = [number for number, step in enumerate(found) if "passwd" in step.words]
    session = Session(demonstrated, noisy=True)
    for step in found[:place]:
        session.run(step)
    password = {"PGPASSWORD": "correct horse battery", "PSQLRC": "/dev/null", "PYTHONUTF8": "1"}
    with running_server(Path.cwd()) as (printed, ports):
        guides.compare(found[place], printed, noisy=True)
        for step in found[place + 1 : users]:
            line = re.sub("6543|8080", lambda port: ports[port[0]], shlex.join(step.words))
            line = line.replace("$TOKEN", session.environment.get("TOKEN", ""))
            if step.program == "psql":
                run_psql(step, shlex.split(line), os.environ | password)
            elif step.program == "curl":
                done = subprocess.run(shlex.split(line), capture_output=True, text=True, timeout=120)
                guides.compare(step, done.stdout, noisy=True)
            else:
                session.run(step)
    ((token,),) = [re.findall(r'"id":"(\w+)"', Path("policy.users").read_text(encoding="utf-8").replace(" ", ""))]
    for step, following in zip(found[users:], [*found[users + 1 :], None], strict=True):
        words = tuple(token if word == "ID" else word for word in step.words)
        session.run(replace(step, words=words), following)


# ---- what guides show besides sessions


@pytest.mark.parametrize("topic", TOPICS)
def test_policies_of_a_guide(topic: str) -> None:
    """A block `yaml` is a file of the folder; `yml` is a part that takes the place of keys of one. Both are valid."""
    text, folder = guide(topic).read_text(encoding="utf-8"), guide(topic).parent
    for line, block in blocks(text, "yaml"):
        name = block.splitlines()[0].removeprefix("# ").split(":")[0]
        assert block == (folder / name).read_text(encoding="utf-8"), f"{topic}, line {line}: differs from {name}"
    for line, block in blocks(text, "yml"):
        (name,) = re.findall(r"^# in (\S+\.yml)\n", block)
        whole = top_level((folder / name).read_text(encoding="utf-8")) | top_level(block)
        parse_any("".join(whole.values()), f"{topic}, line {line}")
    for path in set(folder.glob("*.yml")) - {folder / "compose.yml"}:  # of a container, no policy
        parse_any(path.read_text(encoding="utf-8"), str(path))
        assert path.name in text, f"{path} is nowhere in its guide"


def top_level(text: str) -> dict[str, str]:
    """The parts of a policy by their keys, each with its text."""
    return {part.split(":")[0]: part for part in re.findall(r"^\w.*\n(?:(?!\w).*\n)*", text, flags=re.MULTILINE)}


def parse_any(text: str, place: str) -> None:
    """A policy that publishes, or one with a gateway alone."""
    try:
        if "statistics" in top_level(text):
            assert parse_statistics(text) is not None
        else:
            assert parse(text).models if "source" in top_level(text) else parse_serve(text).gateway.tables
    except sqlanon.SqlanonError as error:
        raise AssertionError(f"{place}: {error}") from error


def test_readme_shows_no_policy() -> None:
    assert not blocks(guide("").read_text(encoding="utf-8"), "ya?ml")


@pytest.mark.full
def test_python_guide(in_guide: Any, demonstrated: tuple[Path, str], capsys: pytest.CaptureFixture[str]) -> None:
    """Every block runs, in one program, and prints the text below it."""
    in_guide("python")
    shutil.copytree(demonstrated[0], "demo")
    text = guide("python").read_text(encoding="utf-8")
    code, shown = blocks(text, "python"), blocks(text, "text")
    assert len(code) == len(shown) == text.count("```\n\n```text\n")
    variables: dict[str, Any] = {}
    for (line, block), (_, expected) in zip(code, shown, strict=True):
        if "import polars" in block:
            pytest.importorskip("polars")
        exec(compile(block, f"README.md, line {line}", "exec"), variables)
        guides.compare(Step(("python",), expected, f"python, line {line}"), capsys.readouterr().out, noisy=False)


def test_python_guide_names_all_that_is_public() -> None:
    text = guide("python").read_text(encoding="utf-8")
    listed = re.findall(r"^\| (`.*?) \| ", text, flags=re.MULTILINE)
    names = set(re.findall(r"`(\w+)`", "".join(listed)))
    assert names == set(sqlanon.__all__) - {"__version__"}


def test_dbt_guide_shows_what_its_test_runs() -> None:
    from test_dbt import DRIVER

    shown = [step.words for step in steps("dbt") if step.program == "dbt"]
    assert len(shown) == 3
    for words in shown:
        ran = ", ".join(f'"{word}"' for word in words[1 : words.index("--profiles-dir")])
        assert ran in DRIVER, words


def test_every_guide_is_in_the_readme() -> None:
    text = guide("").read_text(encoding="utf-8")
    assert set(re.findall(r"\(examples/(\w+)/README\.md\)", text)) == set(TOPICS)
    assert len(text.encode()) <= 12_000


PAGES = [
    path
    for path in (*sorted(ROOT.glob("*.md")), *sorted(ROOT.glob("*/**/README.md")))
    if not {".venv", "node_modules"} & set(path.parts)
]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links(page: Path) -> None:
    """Links to files of the repository, and to headings in them."""
    for target, heading in re.findall(r"\]\((?!https?://)([^)#]*)(#[^)]*)?\)", page.read_text(encoding="utf-8")):
        path = page.parent / target if target else page
        assert path.exists(), f"{page}: {target}"
        if heading:
            titles = re.findall(r"^#+ (.*)$", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
            known = {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}
            assert heading.removeprefix("#") in known, f"{page}: {target}{heading}"


# ---- everything is documented


def test_reference_is_current() -> None:
    assert FILE.read_text(encoding="utf-8") == reference(), "run 'make reference', and look at what changed"
    assert PYTHON_FILE.read_text(encoding="utf-8") == python_reference(), "run 'make reference', and look at it"


def commands() -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Every command, `budget init` and the like too, with its words."""
    context = click.Context(main)
    for name in main.list_commands(context):
        command = main.get_command(context, name)
        assert command is not None
        below = getattr(command, "commands", {})
        yield from ((((name, part), each) for part, each in below.items()) if below else [((name,), command)])


def sessions() -> dict[tuple[str, ...], list[tuple[str, ...]]]:
    """The commands that the README and the guides run, by the words of the command."""
    known = dict(commands())
    found: dict[tuple[str, ...], list[tuple[str, ...]]] = {words: [] for words in known}
    for step in (step for topic in ("", *TOPICS) for step in steps(topic)):
        line = " ".join(step.words).replace("TOKEN=$(sqlanon", "sqlanon").rstrip(")")
        if "sqlanon " in line and step.program != "curl":
            words = tuple(line.split("sqlanon ", 1)[1].split())
            found[words[:2] if words[:2] in known else words[:1]].append(words)
    return found


# Options that no session uses: they take long, ask questions, never end, or need two releases of m_invariance (which
# test_attacks_minimality.py makes).
UNUSED = {
    ("attack",): {"--earlier"},
    ("demo",): {"--rows"},
    ("init",): {"--interactive"},
    ("serve",): {"--schedule"},
    ("sql",): {"--gateway", "--restricted", "--other"},  # what the server gives the process of an owner's statement
}


def test_every_command_and_option_is_used_in_a_guide() -> None:
    for words, command in commands():
        assert command.help, words
        assert sessions()[words], f"no guide runs 'sqlanon {' '.join(words)}'"
        used = {word.split("=")[0] for line in sessions()[words] for word in line}
        for param in command.params:
            if isinstance(param, click.Option) and not used & set(param.opts):
                assert param.opts[-1] in UNUSED.get(words, set()), f"{words}: no guide uses {param.opts}"
            elif isinstance(param, click.Option):
                assert not UNUSED.get(words, set()) & set(param.opts), f"{words}: a guide does use {param.opts}"


@pytest.mark.parametrize("topic", ["", *TOPICS])
def test_commands_in_prose_exist(topic: str) -> None:
    """What stands in `…` and begins with sqlanon is a command, with options that it has."""
    text = re.sub(r"^```.*?^```$", "", guide(topic).read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    known = dict(commands())
    groups = {words[0] for words in known if len(words) == 2}
    every = {name for command in known.values() for param in command.params for name in param.opts}
    for code in re.findall(r"`([^`]+)`", text):
        for option in re.findall(r"(?<![\w-])--[a-z][a-z-]+", code):
            assert option in every, f"{topic}: {code}"
        if code.startswith("sqlanon "):
            words = tuple(code.split()[1:])
            name = words[:2] if words[0] in groups and len(words) > 1 else words[:1]
            assert name in known or (name[0] in groups and len(words) == 1), f"{topic}: {code}"


def test_readme_counts() -> None:
    text = guide("").read_text(encoding="utf-8")
    assert f"{len(family('models'))} privacy models and {len(family('loss'))} loss metrics" in text


def test_publish_guide_names_every_algorithm_and_what_a_search_cannot_reach() -> None:
    text = guide("publish").read_text(encoding="utf-8")
    section = text.split("\n## Choose an algorithm")[1].split("\n## ")[0]
    listed = set(re.findall(r"`(\w+)`", "".join(re.findall(r"^\| .*? \| (.*) \|$", section, flags=re.MULTILINE))))
    assert listed == set(algorithms.names())
    models = models_of_shape("rows")
    assert all(is_searchable(model, OF_NODES) for model in models.values())
    assert "The exact search reaches every model" in section
    (said,) = re.findall(r"that look at more than a class (.*)\Z", section, flags=re.DOTALL)
    by_nodes = {name for name, model in models.items() if not is_searchable(model)}
    assert set(re.findall(r"`(\w+)`", said)) & set(models) == by_nodes


@pytest.mark.parametrize(
    ("topic", "title", "known"),
    [
        ("releases_over_time", "## What a history promises", lambda: set(family("history"))),
        ("transformations", "## The methods", lambda: set(transformations.names())),
        ("hierarchies", "## Which kind to choose", lambda: set(hierarchies.names())),
        (
            "risk_and_attacks",
            "## The attacks",
            lambda: {one.name for one in family("attacks").values() if not one.makes},
        ),
    ],
)
def test_tables_of_guides_are_complete(topic: str, title: str, known: Any) -> None:
    section = guide(topic).read_text(encoding="utf-8").split(f"\n{title}")[1].split("\n## ")[0]
    listed = re.findall(r"^\| (`.*?) \| ", section, flags=re.MULTILINE)
    assert set(re.findall(r"`(\w+)`", " ".join(listed))) == known()

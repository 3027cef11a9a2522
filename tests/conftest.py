"""Databases for the tests: an embedded DuckDB and a real PostgreSQL server, behind one small interface."""

from __future__ import annotations

import os
import shutil
import tempfile
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from console_world import Console, running_console
from hypothesis import HealthCheck, settings
from proxy_servers import Missing, Server, running_postgres, running_proxy

from sqlanon.cli import main
from sqlanon.engines import Engine, connect
from sqlanon.release import retire_release

TESTS = Path(__file__).parent
ROOT = TESTS.parent
EXTERNAL = "tests/oracles/external/"
UNCOMMITTED = "data that may not be committed"
MEMORY = Path("/dev/shm")
ENOUGH = 4 << 30  # bytes, for all that the tests write
_FULL = False


def choose_temporary_folder() -> None:
    """Write to memory where there is room: thousands of tests each wait for their small files to reach the disk. Every
    other process takes the choice from the environment, and TMPDIR overrides it."""
    if "TMPDIR" not in os.environ and MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > ENOUGH:
        os.environ["TMPDIR"] = tempfile.tempdir = str(MEMORY)


choose_temporary_folder()
settings.register_profile(
    "sqlanon",
    deadline=None,
    # What CI finds must be found again by whoever looks into it; everybody else draws new examples each time.
    derandomize=bool(os.environ.get("CI")),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
settings.load_profile("sqlanon")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--full", action="store_true", help="every test, with all examples of properties")
    parser.addoption("--rest", action="store_true", help="of --full only what plain pytest leaves out")


def pytest_configure(config: pytest.Config) -> None:
    global _FULL
    _FULL = config.getoption("--full") or config.getoption("--rest")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Without --full, leave out what is marked so: another test, which runs, shows the same on less. Long forms run
    only where -m asks for them. The rest is what is marked `full`, and the properties, now with all their examples."""
    out = set() if _FULL else {"full"}
    out |= set() if config.getoption("-m") else {"long"}
    runs, left = [], []
    for item in items:
        if item.nodeid.startswith(EXTERNAL):  # each of its claims is also checked on generated data
            item.add_marker(pytest.mark.full)
        marked = {name for name in ("full", "long") if item.get_closest_marker(name) is not None}
        params = getattr(getattr(item, "callspec", None), "params", {})
        if item.get_closest_marker("full_on_postgres") is not None and "postgres" in params.values():
            marked.add("full")
        property_ = getattr(getattr(item, "obj", None), "is_hypothesis_test", False)
        known = config.getoption("--rest") and not marked and not property_
        (left if marked & out or known else runs).append(item)
    config.hook.pytest_deselected(items=left)
    items[:] = runs


def is_full() -> bool:
    """Whether this run takes all examples and whole tables."""
    return _FULL


def examples(number: int) -> int:
    """So many examples of a property with --full, and a tenth of them without."""
    return number if _FULL else max(3, number // 10)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say in one line what was not checked because data that may not be committed is missing."""
    skipped = [item.nodeid for item in terminalreporter.getreports("skipped") if UNCOMMITTED in str(item.longrepr)]
    missing = Counter(name.split("::")[0].removeprefix(EXTERNAL) for name in skipped)
    if missing:
        files = ", ".join(f"{count} of {name}" for name, count in sorted(missing.items()))
        terminalreporter.write_line(
            f"not checked: {files} in {EXTERNAL}, because {UNCOMMITTED} (Adult, sdcMicro's data sets) "
            "is not in the folder 'shared' beside the checkout; each file names the checks that run without it"
        )


@pytest.fixture(scope="session")
def demonstrated(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The folder that `sqlanon demo` makes, and what it prints; made once, since it takes its time."""
    folder = tmp_path_factory.mktemp("demonstrated")
    result = CliRunner().invoke(main, ["demo", str(folder)])
    assert result.exit_code == 0, result.output
    return folder, result.output


@pytest.fixture
def demo_here(demonstrated: tuple[Path, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A copy of that folder, as `demo` in the working folder; what was printed."""
    shutil.copytree(demonstrated[0], tmp_path / "demo")
    monkeypatch.chdir(tmp_path)
    return demonstrated[1]


class Database:
    """An engine with a way to put small tables in."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.url = ""

    def run(self, sql: str) -> None:
        self.engine._connection.execute(sql)  # type: ignore[attr-defined]

    def fetch(self, sql: str) -> list[tuple[Any, ...]]:
        return self.engine._connection.execute(sql).fetchall()  # type: ignore[attr-defined, no-any-return]

    def retire_patterns(self) -> None:
        """Retire releases of sets, journeys and entities: their persons may not be shown in another way beside them."""
        if self.engine.find(["sqlanon_releases"]) is not None:
            asks = r"STRPOS(evidence, '\"shape\"') > 0"
            shaped = f"SELECT release FROM sqlanon_releases WHERE status = 'current' AND {asks}"
            for (name,) in self.fetch(shaped):
                retire_release._dropped(self.engine, name)

    def table(self, name: str, columns: dict[str, str], rows: Sequence[dict[str, Any]]) -> None:
        """A fresh table; `columns` maps names to SQL types. Its persons are none of those who were there before."""
        self.retire_patterns()
        quoted = '"' + name.replace('"', '""') + '"'
        declared = ", ".join('"' + column.replace('"', '""') + '" ' + kind for column, kind in columns.items())
        self.run(f"DROP TABLE IF EXISTS {quoted}")
        self.run(f"CREATE TABLE {quoted} ({declared})")
        mark = "?" if self.engine.dialect == "duckdb" else "%s"
        insert = f"INSERT INTO {quoted} VALUES ({', '.join(mark for _ in columns)})"
        if rows:
            cursor = self.engine._connection.cursor()  # type: ignore[attr-defined]
            cursor.executemany(insert, [[row[column] for column in columns] for row in rows])
            cursor.close()


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """A server of the tests' own from the pgserver wheel, or the one that SQLANON_TEST_POSTGRES names."""
    if given := os.environ.get("SQLANON_TEST_POSTGRES"):
        yield given
        return
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the wheel's own dependencies
            import pgserver

    except ImportError:
        pytest.skip("needs the package pgserver, or SQLANON_TEST_POSTGRES with the URL of a server")
    # Not below pytest's own folder: another run of pytest takes the right to enter that from the server's user.
    folder = tempfile.mkdtemp(prefix="sqlanon-pgserver-")
    server = pgserver.get_server(folder)
    forget_durability(server.get_uri())
    yield server.get_uri()
    server.cleanup()
    shutil.rmtree(folder, ignore_errors=True)


def forget_durability(url: str) -> None:
    """No test pulls the plug of this server, so that its commits need not wait for the disk."""
    engine = connect(url)
    for setting in ("fsync", "synchronous_commit", "full_page_writes"):
        engine._connection.execute(f"ALTER SYSTEM SET {setting} = off")  # type: ignore[attr-defined]
    engine._connection.execute("SELECT pg_reload_conf()")  # type: ignore[attr-defined]
    engine.close()


@pytest.fixture(params=["duckdb", "postgres"])
def database(request: pytest.FixtureRequest) -> Iterator[Database]:
    """Each test runs on both engines."""
    if request.param == "postgres":
        yield request.getfixturevalue("postgres")
        return
    made = Database(connect(":memory:"))
    yield made
    made.engine.close()


@pytest.fixture
def postgres(postgres_url: str) -> Iterator[Database]:
    made = Database(connect(postgres_url))
    made.url = postgres_url
    made.run("DROP SCHEMA IF EXISTS other CASCADE")
    made.run("DROP SCHEMA public CASCADE")
    made.run("CREATE SCHEMA public")
    yield made
    made.engine.close()


@pytest.fixture
def duck() -> Iterator[Database]:
    made = Database(connect(":memory:"))
    yield made
    made.engine.close()


# ---- the client suite of the proxy: each of its tests runs on a real PostgreSQL and on the proxy


@pytest.fixture(scope="session")
def real_server() -> Iterator[Server]:
    """PostgreSQL on a port, with the tables of `proxy_world`."""
    try:
        with running_postgres() as found:
            yield found
    except Missing as missing:
        pytest.skip(str(missing))


@pytest.fixture(scope="session")
def proxy_server() -> Iterator[Server]:
    """`sqlanon serve` on a port, with the same tables."""
    with running_proxy() as found:
        yield found


@pytest.fixture(scope="session", params=["postgres", "proxy"])
def server(request: pytest.FixtureRequest) -> Server:
    found: Server = request.getfixturevalue("real_server" if request.param == "postgres" else "proxy_server")
    return found


@pytest.fixture(scope="session")
def console(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Console]:
    """One web console for all tests of its room: to start one takes seconds."""
    for package in ("h11", "starlette", "jinja2"):
        pytest.importorskip(package, reason=f"needs the package {package}: pip install 'sqlanon[console]'")
    with running_console(tmp_path_factory.mktemp("console")) as found:
        yield found

"""The command `sqlanon` as a process: what it prints arrives, and its exit code tells how it ended."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import click
import pytest

import sqlanon
from sqlanon.cli import COMMANDS

COMMAND = [sys.executable, "-m", "sqlanon"]
ROWS = "age,sex\n" + "30,f\n" * 4 + "40,m\n" * 2


@pytest.fixture
def table(tmp_path: Path) -> str:
    file = tmp_path / "t.csv"
    file.write_text(ROWS)
    return str(file)


def test_every_file_with_a_command_is_in_the_table_of_commands() -> None:
    folder = Path(sqlanon.__file__).parent / "cli"
    files = {file.stem for file in folder.glob("*.py") if file.stem != "__init__"}
    modules = {name: import_module(f"sqlanon.cli.{name}") for name in files}
    found = {name for name, module in modules.items() if isinstance(getattr(module, name, None), click.Command)}
    assert sorted(found) == list(COMMANDS)
    assert {getattr(modules[name], name).name for name in found} == found


def test_the_list_of_commands_loads_no_engine_and_no_printing() -> None:
    """What the list loads, every --help waits for."""
    code = "import sys; from sqlanon.cli import main; main(['--help'], standalone_mode=False); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.splitlines()[-1].split())
    assert "sqlanon.cli.check" in loaded
    assert loaded & {"duckdb", "pydantic", "rich.console", "sqlglot", "asyncio"} == set()


@pytest.mark.full
@pytest.mark.parametrize(("k", "code"), [("2", 0), ("3", 1), ("none", 2)])
def test_the_exit_code_tells_how_it_ended(table: str, k: str, code: int) -> None:
    done = subprocess.run([*COMMAND, "check", table, "--qi", "age,sex", "--k", k], capture_output=True, text=True)
    assert done.returncode == code
    assert bool(done.stdout) == (code != 2) and bool(done.stderr) == (code == 2)


@pytest.mark.full
@pytest.mark.parametrize("buffered", [True, False])
def test_all_that_was_printed_arrives(buffered: bool, tmp_path: Path) -> None:
    """The process ends at once: what waits in a buffer must not get lost."""
    environment = os.environ | {"PYTHONUNBUFFERED": "" if buffered else "1"}
    code = "import atexit, sqlanon.__main__ as m; atexit.register(print, 'the last word'); m.run()"
    command = [sys.executable, "-c", code, "models", "--json"]
    with (tmp_path / "listed.json").open("wb") as file:
        subprocess.run(command, stdout=file, check=True, env=environment)
    piped = subprocess.run(command, capture_output=True, check=True, env=environment)
    assert (tmp_path / "listed.json").read_bytes() == piped.stdout
    assert piped.stdout.endswith(b"}\nthe last word\n") and len(piped.stdout) > 10_000


def test_what_waits_for_the_end_is_done(tmp_path: Path) -> None:
    """Functions that are to run at the end do, and so do threads."""
    end = f"import pathlib; pathlib.Path({str(tmp_path / 'end')!r}).touch()"
    code = f"import atexit, sqlanon.__main__ as m; atexit.register(exec, {end!r}); m.run()"
    subprocess.run([sys.executable, "-c", code, "version"], check=True, capture_output=True)
    assert (tmp_path / "end").exists()
    later = f"import time; time.sleep(0.5); open({str(tmp_path / 'later')!r}, 'w').close()"
    code = f"import threading, sqlanon.__main__ as m; threading.Thread(target=exec, args=({later!r},)).start(); m.run()"
    subprocess.run([sys.executable, "-c", code, "version"], check=True, capture_output=True)
    assert (tmp_path / "later").exists()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
@pytest.mark.parametrize("command", ["models", "version"])
def test_a_full_disk_is_told(command: str) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run([*COMMAND, command], stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 2
    assert done.stderr == "sqlanon: the output cannot be written: No space left on device\n"


@pytest.mark.full
def test_a_reader_may_stop_reading() -> None:
    with subprocess.Popen([*COMMAND, "models"], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        assert running.stdout is not None and running.stderr is not None
        running.stdout.readline()
        running.stdout.close()
        assert running.stderr.read() == b""
        assert running.wait() in (0, 1)


def test_a_file_that_cannot_be_written_is_told_before_anything_is_published(tmp_path: Path, table: str) -> None:
    policy = tmp_path / "policy.yml"
    policy.write_text(
        f"source: {{path: {table}}}\ncolumns: {{age: quasi_identifier, sex: quasi_identifier}}\n"
        f"models: [{{k_anonymity: {{k: 2}}}}]\nrelease: {{path: {tmp_path / 'out.csv'}}}\n"
    )
    asked = [*COMMAND, "publish", str(policy), "--plan", str(tmp_path / "nowhere" / "plan.json")]
    done = subprocess.run(asked, capture_output=True, text=True)
    assert done.returncode == 2 and "there is no folder" in done.stderr
    assert not (tmp_path / "out.csv").exists()
    (tmp_path / "plan.json").mkdir()
    done = subprocess.run([*asked[:-1], str(tmp_path / "plan.json")], capture_output=True, text=True)
    assert done.returncode == 2 and "Traceback" not in done.stderr

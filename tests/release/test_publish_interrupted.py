"""Publishing that is killed, interrupted or finds the disk full: what was published before stays."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import duckdb
import pytest

POLICY = """
source: {database: data.duckdb, table: t}
columns: {a: quasi_identifier, b: quasi_identifier, c: quasi_identifier, d: quasi_identifier, s: sensitive}
models:
  - k_anonymity: {k: K}
  - distinct_l_diversity: {l: 2}
suppression_limit: 0.2
release: {table: r}
"""


def write_database(folder: Path, rows: int) -> None:
    with duckdb.connect(str(folder / "data.duckdb")) as connection:
        connection.execute(
            "CREATE OR REPLACE TABLE t AS SELECT i * 7 % 31 AS a, i * 3 % 17 AS b, i % 5 AS c, i // 100 % 7 AS d, "
            f"i * i % 9 AS s FROM range({rows}) AS t(i)"
        )


def state(folder: Path) -> tuple[Any, list[str]]:
    with duckdb.connect(str(folder / "data.duckdb")) as connection:
        names = [name for (name,) in connection.execute("SHOW TABLES").fetchall()]
        rows = connection.execute("SELECT COUNT(*), COUNT(DISTINCT (a, b, c, d)), MIN(k) FROM (SELECT a, b, c, d, "
                                  "COUNT(*) OVER (PARTITION BY a, b, c, d) AS k FROM r)").fetchall()  # fmt: skip
    return rows, sorted(names)


@pytest.mark.full
def test_killed_at_some_points(tmp_path: Path) -> None:
    killed(tmp_path, 4)


@pytest.mark.long
def test_killed_at_many_points(tmp_path: Path) -> None:
    killed(tmp_path, 16)


def killed(tmp_path: Path, points: int) -> None:
    """kill -9 at any moment leaves the old release or the new one, never a half-written table."""
    write_database(tmp_path, 60_000)
    (tmp_path / "policy.yml").write_text(POLICY.replace("K", "3"))
    code = "import sys; from sqlanon.cli import main; sys.argv = ['sqlanon', *sys.argv[1:]]; main()"
    command = [sys.executable, "-c", code, "publish", str(tmp_path / "policy.yml")]
    start = time.monotonic()
    subprocess.run(command, check=True, capture_output=True)
    takes = time.monotonic() - start
    old, tables = state(tmp_path)
    assert tables == ["r", "sqlanon_releases", "t"]
    (tmp_path / "policy.yml").write_text(POLICY.replace("K", "40"))
    survived = 0
    for point in range(points):
        running = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(takes * (0.25 + point / points))
        running.send_signal(signal.SIGKILL)
        running.wait()
        found, names = state(tmp_path)
        assert names == ["r", "sqlanon_releases", "t"]
        survived += found == old
        assert found == old or found[0][2] >= 40
        if found != old:
            write_old = (tmp_path / "policy.yml").read_text()
            (tmp_path / "policy.yml").write_text(POLICY.replace("K", "3"))
            subprocess.run(command, check=True, capture_output=True)
            (tmp_path / "policy.yml").write_text(write_old)
    assert survived > 0  # some were killed before the swap


def test_ctrl_c_is_clean(tmp_path: Path) -> None:
    write_database(tmp_path, 400_000)
    asked = POLICY.replace("K", "3").replace("l: 2}}", "l: 2}}\n  - t_closeness: {t: 0.01}")
    (tmp_path / "policy.yml").write_text(asked)
    code = "import sys; from sqlanon.cli import main; sys.argv[0] = 'sqlanon'; main()"
    start = time.monotonic()
    subprocess.run([sys.executable, "-c", "import sqlanon.cli, sqlanon.release"], check=True)
    begins = time.monotonic() - start  # an interrupt before the command runs is none of its business
    for seconds in (1.5 * begins, 2 * begins, 3 * begins):
        command = [sys.executable, "-c", code, "publish", str(tmp_path / "policy.yml")]
        running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        time.sleep(seconds)
        running.send_signal(signal.SIGINT)
        _, said = running.communicate(timeout=60)
        if running.returncode == 0:
            break  # it was done before
        assert running.returncode == 130 and said == "sqlanon: interrupted\n", said
        with duckdb.connect(str(tmp_path / "data.duckdb")) as connection:
            assert connection.execute("SHOW TABLES").fetchall() == [("t",)]


FULL_DISK = """
import resource, sys
from sqlanon.cli import main
most = int(sys.argv.pop(1))
if most:
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
sys.argv[0] = "sqlanon"
main()
"""


@pytest.mark.full
@pytest.mark.parametrize("release", ["path: r.parquet", "path: r.csv", "table: r"])
def test_a_full_disk(tmp_path: Path, release: str) -> None:
    """No file may grow beyond a limit: the old release is still there, whole, and nothing else."""
    with duckdb.connect(str(tmp_path / "data.duckdb")) as connection:
        connection.execute("CREATE TABLE t AS SELECT i % 7 AS a, md5(i::TEXT) AS s FROM range(50_000) AS t(i)")
    (tmp_path / "policy.yml").write_text(
        "source: {database: data.duckdb, table: t}\ncolumns: {a: quasi_identifier, s: sensitive}\n"
        f"models: [{{k_anonymity: {{k: 3}}}}]\nrelease: {{{release}}}\n"
    )

    def run(most: int) -> tuple[int, str]:
        command = [sys.executable, "-c", FULL_DISK, str(most), "publish", str(tmp_path / "policy.yml"), "--no-workload"]
        done = subprocess.run(command, capture_output=True, text=True)
        return done.returncode, done.stderr

    def now() -> Any:
        with duckdb.connect(str(tmp_path / "data.duckdb")) as connection:
            tables = connection.execute("SHOW TABLES").fetchall()
            rows = connection.execute("FROM r").fetchall() if ("r",) in tables else None
        files = {file.name: file.read_bytes() for file in tmp_path.iterdir() if file.name != "data.duckdb"}
        return tables, rows, files

    assert run(0) == (0, "")
    before = now()
    for most in (10_000, 500_000):
        code, said = run(most)
        assert code == 2 and "is the disk full" in said and "Traceback" not in said
        assert now() == before
    assert run(0) == (0, "")

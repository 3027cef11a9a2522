"""pgjdbc on a real PostgreSQL and on the proxy: all checks of `jdbc/Suite.java`, in one run for each server."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from conftest import TESTS
from proxy_servers import Server

SOURCE = TESTS / "jdbc" / "Suite.java"
DRIVER = Path("/usr/share/java/postgresql.jar")
MODES = 4


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The classes of the suite."""
    if not DRIVER.exists():
        pytest.skip("needs pgjdbc (package libpostgresql-jdbc-java)")
    if shutil.which("java") is None:
        pytest.skip("needs Java (package default-jdk-headless)")
    if "jdk.compiler" not in subprocess.run(["java", "--list-modules"], capture_output=True, text=True).stdout:
        pytest.skip("needs a JDK (package default-jdk-headless): this Java has no compiler")
    folder = tmp_path_factory.mktemp("jdbc")
    compiler = ["java", "-XX:TieredStopAtLevel=1", "-m", "jdk.compiler/com.sun.tools.javac.Main", "-encoding", "UTF-8"]
    done = subprocess.run([*compiler, "-cp", DRIVER, "-d", folder, SOURCE], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_jdbc(server: Server, compiled: Path) -> None:
    before = server.answered()
    done = subprocess.run(
        ["java", "-XX:TieredStopAtLevel=1", "-Dfile.encoding=UTF-8", "-cp", f"{DRIVER}:{compiled}", "Suite"],
        capture_output=True, encoding="utf-8", timeout=300,
        env=os.environ | {
            "SUITE_URL": f"jdbc:postgresql://{server.host}:{server.port}/{server.database}", "SUITE_USER": server.user,
            "SUITE_PASSWORD": server.password, "SUITE_SLOW": server.slow,
            "SUITE_CODE": "text" if server.proxy else "varchar",  # DuckDB keeps no length of a VARCHAR
        },
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    said = [line.split("\t", 2) for line in done.stdout.splitlines()]
    assert "\n".join(" ".join(line) for line in said if line[-1] != "ok") == ""
    checks = re.findall(r'check\((mode|"once"),', SOURCE.read_text(encoding="utf-8"))
    assert len(said) == sum(MODES if kind == "mode" else 1 for kind in checks)
    # In four modes of the driver, four rows with a fetch size of one: one answer was paid for.
    assert server.answered() == before + server.proxy

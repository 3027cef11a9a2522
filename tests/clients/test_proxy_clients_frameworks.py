"""Drivers, mappers and shells that people use, on a real PostgreSQL and on the proxy.

Each suite in `clients` is a program of its own, which prints what it found: what tells of tables without persons must
be the same on both servers, and of what tells of persons the keys and the types.
"""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
import sys
from typing import Any

import pytest
from conftest import TESTS
from proxy_servers import ROOT, Server

CLIENTS = TESTS / "clients"
NODE = {"node_postgres": "pg", "sequelize": "sequelize", "typeorm": "typeorm"}
PYTHON = {
    "django_orm": "django", "ibis_tables": "ibis", "connectorx_read": "connectorx",
    "adbc_read": "adbc_driver_postgresql", "pgcli_shell": "pgcli",
}  # fmt: skip
WARDS = ["w0", "w1", "w2", "w3"]


def command_of(suite: str) -> list[str]:
    """The program of a suite; it is skipped where its client is not installed."""
    if suite in NODE:
        if shutil.which("node") is None:
            pytest.skip("needs Node.js (package nodejs)")
        if not (CLIENTS / "node" / "node_modules" / NODE[suite]).is_dir():
            pytest.skip(f"needs the npm package {NODE[suite]}: run npm ci in tests/clients/node")
        return ["node", str(CLIENTS / "node" / f"{suite}.js")]
    if importlib.util.find_spec(PYTHON[suite]) is None:
        pytest.skip(f"needs the package {PYTHON[suite]}: pip install -e '.[clients]'")
    return [sys.executable, str(CLIENTS / f"{suite}.py")]


def found_by(suite: str, server: Server) -> dict[str, Any]:
    done = subprocess.run(
        command_of(suite), capture_output=True, encoding="utf-8", timeout=120, cwd=ROOT, env=server.environment()
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("suite", [*NODE, *PYTHON])
def test_client(real_server: Server, proxy_server: Server, suite: str) -> None:
    command_of(suite)
    before = proxy_server.answered()
    real, proxy = found_by(suite, real_server), found_by(suite, proxy_server)
    for name, found in real["same"].items():
        assert proxy["same"][name] == found, name
    assert list(proxy["same"]) == list(real["same"])
    assert [row[0] for row in proxy["noisy"]] == WARDS
    if suite != "pgcli_shell":  # which shows everything as text
        assert proxy["noisy"] == real["noisy"]
    # One statement about persons: asked once, and paid for once.
    assert proxy_server.answered() <= before + 1


@pytest.mark.parametrize("suite", [*NODE, *PYTHON])
def test_every_suite_is_run(suite: str) -> None:
    assert (CLIENTS / "node" / f"{suite}.js").exists() or (CLIENTS / f"{suite}.py").exists()
    programs = {path.stem for path in (*CLIENTS.glob("*.py"), *CLIENTS.glob("node/*.js"))} - {"settings"}
    programs = {name for name in programs if not name.startswith("test_")}
    assert programs == {*NODE, *PYTHON}

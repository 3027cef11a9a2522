"""A real PostgreSQL 15 for tests of the proxy: what it answers, as text and with the types that it tells."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest

BINARIES = Path("/usr/lib/postgresql/15/bin")


@dataclass(frozen=True)
class Told:
    """What a server answers: names and type oids of columns, rows as text, or the SQLSTATE of an error."""

    names: list[str]
    types: list[int]
    rows: list[list[str | None]]
    error: str | None = None


class Postgres15:
    def __init__(self, folder: Path) -> None:
        self.connection = psycopg.connect(f"host={folder} port=5432 user=postgres dbname=postgres", autocommit=True)

    def run(self, sql: str, values: Sequence[str | None] = (), types: Sequence[int] = ()) -> Told:
        given: list[Any] = [None if value is None else value.encode() for value in values]
        result = self.connection.pgconn.exec_params(sql.encode(), given, list(types) or None)
        if result.status not in (psycopg.pq.ExecStatus.TUPLES_OK, psycopg.pq.ExecStatus.COMMAND_OK):
            state = result.error_field(psycopg.pq.DiagnosticField.SQLSTATE)
            return Told([], [], [], (state or b"?").decode())
        width = result.nfields
        names = [(result.fname(place) or b"").decode() for place in range(width)]
        cells = [[result.get_value(row, place) for place in range(width)] for row in range(result.ntuples)]
        rows = [[None if cell is None else cell.decode() for cell in row] for row in cells]
        return Told(names, [result.ftype(place) for place in range(width)], rows)

    def parameters(self, sql: str) -> list[int]:
        """The types that it infers for the parameters of a statement."""
        prepared = self.connection.pgconn.prepare(b"", sql.encode())
        assert prepared.status == psycopg.pq.ExecStatus.COMMAND_OK, prepared.error_message
        described = self.connection.pgconn.describe_prepared(b"")
        return [described.param_type(place) for place in range(described.nparams)]


def started() -> Iterator[Postgres15]:
    """A server of its own, without a port; skips where PostgreSQL 15 is not installed."""
    if not (BINARIES / "initdb").exists():
        pytest.skip(f"needs PostgreSQL 15 in {BINARIES}")
    folder = Path(tempfile.mkdtemp(prefix="sqlanon_pg15_", dir="/tmp"))
    data = folder / "data"
    # A server does not run as root.
    user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"] if os.geteuid() == 0 else []
    if user:
        shutil.chown(folder, "postgres")

    def run(*words: str) -> None:
        subprocess.run([*user, *words], check=True, capture_output=True, cwd=folder)

    run(
        str(BINARIES / "initdb"),
        "-D",
        str(data),
        "-U",
        "postgres",
        "-A",
        "trust",
        "--locale=C.UTF-8",
        "-E",
        "UTF8",
        "-N",
    )
    options = f"-k {folder} -c listen_addresses= -c fsync=off -c timezone=UTC"
    run(str(BINARIES / "pg_ctl"), "-D", str(data), "-o", options, "-l", str(folder / "log"), "-w", "start")
    try:
        server = Postgres15(folder)
        yield server
        server.connection.close()
    finally:
        run(str(BINARIES / "pg_ctl"), "-D", str(data), "-m", "immediate", "stop")
        shutil.rmtree(folder, ignore_errors=True)

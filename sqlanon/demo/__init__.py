"""The hospital of `sqlanon demo`: its generator and its policies."""

from __future__ import annotations

import shutil
from pathlib import Path

import duckdb

HERE = Path(__file__).parent


def generate(database: Path, rows: int) -> None:
    """Write the table `patients` with this many rows, inside DuckDB."""
    with duckdb.connect(str(database)) as connection:
        statements = (HERE / "hospital.sql").read_text(encoding="utf-8").replace("$rows", str(int(rows)))
        connection.execute(statements)


def write_policies(folder: Path) -> None:
    """Put the policies of the hospital into a folder, which is made if it is not there."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("policy.yml", "gateway.yml"):
        shutil.copy(HERE / name, folder / name)

"""The demo: the main job on generated hospital data, with the commands to repeat it."""

from __future__ import annotations

import shutil
from pathlib import Path

import duckdb
from rich.console import Console

from sqlanon.console import print_evidence
from sqlanon.engines import connect
from sqlanon.errors import PolicyError
from sqlanon.evidence.checks import check
from sqlanon.evidence.loss import loss
from sqlanon.policy import Source, load
from sqlanon.release import write_generalized

HERE = Path(__file__).parent
# Chosen by hand here: decades of age, one digit of the postal code, the year of admission.
LEVELS = {"age": 2, "zip": 4, "sex": 0, "admitted": 3}


def generate(database: Path, rows: int) -> None:
    """Write the table `patients` with this many rows, inside DuckDB."""
    with duckdb.connect(str(database)) as connection:
        statements = (HERE / "hospital.sql").read_text(encoding="utf-8").replace("$rows", str(int(rows)))
        connection.execute(statements)


def run(folder: Path, rows: int) -> None:
    """Generate, check, generalize, check again."""
    if rows < 1:
        raise PolicyError("--rows must be at least 1")
    console = Console(highlight=False)
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(HERE / "policy.yml", folder / "policy.yml")
    database = folder / "hospital.duckdb"
    generate(database, rows)
    console.print(f"[bold]1. {rows:,} patients were generated[/] in {database}, with a policy beside it\n")
    policy = load(folder / "policy.yml")

    console.print("[bold]2. The table as it is[/]: who is recognizable, and whose disease could be inferred?")
    console.print(f"   $ sqlanon check {folder / 'policy.yml'}\n")
    engine = connect(str(database), read_only=False)
    try:
        print_evidence(policy, check(policy, engine, limit=3))
        console.print("\n[bold]3. A release[/] without names: decades of age, one digit of the zip, year of admission")
        release = write_generalized(policy, engine, LEVELS)
        console.print(f"   written to the table {release} by one SELECT inside DuckDB\n")
        console.print("[bold]4. The release, checked as it was written[/], and what it cost")
        console.print(f"   $ sqlanon check {folder / 'policy.yml'} --release {release}\n")
        source = Source(table=release)
        found = check(policy, engine, release=source, limit=3)
        print_evidence(policy, found, loss(policy, engine, source), release=release)
    finally:
        engine.close()
    console.print(f"\nLook around: duckdb {database}; sqlanon explain k_anonymity; sqlanon models")

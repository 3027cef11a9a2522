"""The demo: the main job on generated hospital data, with the commands to repeat it."""

from __future__ import annotations

import shutil
from pathlib import Path

import duckdb
from rich.console import Console

from sqlanon.cli.console import print_evidence
from sqlanon.cli.console_gateway import answer_text, notice
from sqlanon.cli.console_publish import print_published
from sqlanon.engines import connect
from sqlanon.errors import PolicyError
from sqlanon.evidence.checks import check
from sqlanon.evidence.loss import loss
from sqlanon.gateway import open_gateway
from sqlanon.ledger import Ledger
from sqlanon.policy import Source, load
from sqlanon.policy.files import load_gateway
from sqlanon.release import publish, report
from sqlanon.report import render

HERE = Path(__file__).parent
QUESTION = "SELECT disease, count(*) AS patients, avg(age) AS age FROM patients GROUP BY disease ORDER BY patients DESC"


def generate(database: Path, rows: int) -> None:
    """Write the table `patients` with this many rows, inside DuckDB."""
    with duckdb.connect(str(database)) as connection:
        statements = (HERE / "hospital.sql").read_text(encoding="utf-8").replace("$rows", str(int(rows)))
        connection.execute(statements)


def run(folder: Path, rows: int) -> None:
    """Generate, check, publish, check again."""
    if rows < 1:
        raise PolicyError("--rows must be at least 1")
    console = Console(highlight=False)
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("policy.yml", "gateway.yml"):
        shutil.copy(HERE / name, folder / name)
    database = folder / "hospital.duckdb"
    generate(database, rows)
    console.print(f"[bold]1. {rows:,} patients were generated[/] in {database}, with a policy beside it\n")
    policy = load(folder / "policy.yml")

    console.print("[bold]2. The table as it is[/]: who is recognizable, and whose disease could be inferred?")
    console.print(f"   $ sqlanon check {folder / 'policy.yml'}\n")
    engine = connect(str(database), read_only=False)
    try:
        print_evidence(policy, check(policy, engine, limit=3))
        console.print("\n[bold]3. The release with the least loss[/] that meets all of it, found and written in DuckDB")
        console.print(f"   $ sqlanon publish {folder / 'policy.yml'} --explain\n")
        done = publish(policy, engine)
        print_published(done.document, explain=True)
        console.print("\n[bold]4. Anyone can check the release again[/], from the tables alone")
        console.print(f"   $ sqlanon check {folder / 'policy.yml'} --release patients_released\n")
        source = Source(table="patients_released")
        print_evidence(policy, check(policy, engine, release=source), loss(policy, engine, source), release=source.text)
        page = folder / "report.html"
        console.print("\n[bold]5. The report[/] for the data-protection officer")
        console.print(f"   $ sqlanon report {folder / 'policy.yml'} -o {page}\n")
        page.write_text(render(report(policy, engine, explore=10)), encoding="utf-8")
        console.print(f"   [bold]open {page}[/] in a browser")
    finally:
        engine.close()
    console.print("\n[bold]6. Questions in SQL[/], answered with differential privacy from the table as it is")
    ask(folder / "gateway.yml", console)
    console.print(f"\nLook around: duckdb {database}; sqlanon explain k_anonymity; sqlanon models")


def ask(policy_file: Path, console: Console) -> None:
    """One question, with a new ledger."""
    policy = load_gateway(policy_file)
    # The patients were made anew, so that nothing was spent on them. Of real data a ledger is never removed.
    for suffix in ("", "-wal", "-shm"):
        Path(policy.located_ledger + suffix).unlink(missing_ok=True)
    Ledger.create(policy.located_ledger).close()
    console.print(f"   $ sqlanon budget init {policy_file}\n   $ sqlanon query {policy_file} \\")
    console.print(f'     "{QUESTION}"\n', soft_wrap=True)
    gate = open_gateway(policy)
    try:
        answer = gate.answer(QUESTION, "analyst", intervals=True)
    finally:
        gate.close()
    console.print(answer_text(answer, "table", plan=False, shown=3), markup=False, soft_wrap=True, end="")
    console.print(notice(answer, "analyst"), style="dim", soft_wrap=True)

"""`sqlanon demo`: the main job on generated hospital data, with the commands to repeat it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from sqlanon.cli.check import print_evidence
from sqlanon.cli.publish import print_published
from sqlanon.cli.query import answer_text, notice
from sqlanon.cli.terminal import open_console
from sqlanon.errors import PolicyError

if TYPE_CHECKING:
    from rich.console import Console

QUESTION = "SELECT disease, count(*) AS patients, avg(age) AS age FROM patients GROUP BY disease ORDER BY patients DESC"


@click.command()
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path), default=Path("demo"))
@click.option("--rows", default=20_000, show_default=True, help="How many patients to generate.")
def demo(folder: Path, rows: int) -> None:
    """Generate hospital data in FOLDER and go through the main job with it, step by step."""
    from sqlanon.demo import generate, write_policies
    from sqlanon.engines import connect
    from sqlanon.evidence.checks import check
    from sqlanon.evidence.loss import loss
    from sqlanon.policy import Source, load
    from sqlanon.release import publish, report
    from sqlanon.report import render

    if rows < 1:
        raise PolicyError("--rows must be at least 1")
    console = open_console()
    write_policies(folder)
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
    _ask(folder / "gateway.yml", console)
    console.print(f"\nLook around: duckdb {database}; sqlanon explain k_anonymity; sqlanon models")


def _ask(policy_file: Path, console: Console) -> None:
    """One question, with a new ledger."""
    from sqlanon.gateway import open_gateway
    from sqlanon.ledger import Ledger
    from sqlanon.policy.files import load_gateway

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

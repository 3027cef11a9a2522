"""`sqlanon report`: write the evidence of a release as an HTML page."""

from __future__ import annotations

import json
import os
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sqlanon.cli.policy_options import policy_of
from sqlanon.cli.progress import progress_bar
from sqlanon.cli.terminal import replace_infinities

if TYPE_CHECKING:
    from sqlanon.policy.statistics import StatisticsPolicy


@click.command()
@click.argument("policy_file", metavar="POLICY")
@click.option(
    "-o", "--output", type=click.Path(dir_okay=False, path_type=Path), default=Path("report.html"), show_default=True,
    help="The HTML file to write.",
)  # fmt: skip
@click.option(
    "--explore", default=30.0, show_default=True, type=click.FloatRange(min=0),
    help="Seconds to spend on the map of other k and suppression limits; 0 leaves it out.",
)  # fmt: skip
@click.option("--no-attacks", is_flag=True, help="Measure no risks and try no attacks: saves time on large tables.")
@click.option("--json", "as_json", is_flag=True, help="Write the document that the page is made from, as JSON.")
def report(policy_file: str, output: Path, explore: float, no_attacks: bool, as_json: bool) -> None:
    """Write the evidence of a release as one self-contained HTML page that a data-protection officer can read."""
    from sqlanon.cli.statistics_tables import read_statistics
    from sqlanon.engines import connect
    from sqlanon.release import report as gather
    from sqlanon.report import render

    if (tables := read_statistics(policy_file)) is not None:
        _report_tables(*tables, output, attacked=not no_attacks)
        return
    policy, url = policy_of(policy_file, None, {})
    engine = connect(url)
    try:
        with progress_bar() as progress:
            secret = os.environ.get("SQLANON_KEY")
            document = gather(
                policy, engine, explore=explore, secret=secret, attacked=not no_attacks, progress=progress
            )
    finally:
        engine.close()
    text = (
        json.dumps(replace_infinities(document), indent=1, ensure_ascii=False) + "\n" if as_json else render(document)
    )
    output.write_text(text, encoding="utf-8")
    click.echo(f"wrote {output}")


def _report_tables(policy: StatisticsPolicy, url: str | None, output: Path, *, attacked: bool) -> None:
    from sqlanon.engines import connect
    from sqlanon.release.gather_table_report import table_report
    from sqlanon.report.tables import render_tables

    with closing(connect(url)) as engine, progress_bar() as progress:
        document = table_report(policy, engine, attacked=attacked, progress=progress)
    output.write_text(render_tables(document), encoding="utf-8")
    click.echo(f"wrote {output}")

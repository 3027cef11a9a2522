"""`sqlanon compile`: show the SQL of a check or of a release."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from sqlanon.cli.policy_options import policy_of, policy_options


@click.command()
@policy_options
@click.option(
    "--dialect", type=click.Choice(["duckdb", "postgres", "spark"]), help="The engine's own dialect by default."
)
@click.option(
    "--plan",
    "plan_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Show the SQL that writes the release of this plan, which 'sqlanon publish --plan' makes.",
)
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="Write to a file.")
def compile(
    target: str, table: str | None, dialect: str | None, plan_file: Path | None, output: Path | None, **options: Any
) -> None:
    """Show the SQL that a check runs, or that writes a release, to read it or to run it yourself. Touches no data."""
    from sqlanon.engines import connect
    from sqlanon.relations.check_script import check_script

    policy, url = policy_of(target, table, options)
    own = "postgres" if url and url.startswith(("postgres://", "postgresql://")) else "duckdb"
    if policy.source.path:
        policy = policy.model_copy(update={"source": connect().resolve(policy.source)})
    if plan_file:
        from sqlanon.plan import Plan
        from sqlanon.release.release_script import release_script

        plan = Plan.from_json(plan_file.read_text(encoding="utf-8"))
        script = release_script(policy, plan, dialect or own)
    else:
        script = check_script(policy, dialect or own)
    if output:
        output.write_text(script, encoding="utf-8")
    else:
        click.echo(script, nl=False)

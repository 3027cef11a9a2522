"""`sqlanon init`: draft a policy from a table."""

from __future__ import annotations

from pathlib import Path

import click

from sqlanon.errors import PolicyError


@click.command()
@click.argument("database")
@click.argument("table", required=False)
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="Write to a file.")
@click.option("--force", is_flag=True, help="Overwrite the file if it exists.")
def init(database: str, table: str | None, output: Path | None, force: bool) -> None:
    """Profile a table inside its database and write a commented starter policy.

    DATABASE is a DuckDB file or a postgresql:// URL with TABLE in it, or a file of rows or a folder of them.
    """
    from sqlanon.evidence.profile_table import starter_policy

    if output and output.exists() and not force:
        raise PolicyError(f"'{output}' exists already", hint="choose another name, or add --force")
    text = starter_policy(database, table, base=output.parent if output else Path("."))
    if output:
        output.write_text(text, encoding="utf-8")
        click.echo(f"wrote {output}; read it through, then: sqlanon check {output}")
    else:
        click.echo(text, nl=False)

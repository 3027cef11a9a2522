"""`sqlanon export`: write a release of tables of statistics as files of other tools."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import click

from sqlanon.errors import PolicyError


@click.command()
@click.argument("policy_file", metavar="POLICY")
@click.option(
    "--format", "form", type=click.Choice(["argus", "sdmx"]), default="sdmx", show_default=True,
    help="SDMX-CSV; or a table, description and code lists as tau-Argus and sdcTable read them.",
)  # fmt: skip
@click.option(
    "-o", "--output", type=click.Path(file_okay=False, path_type=Path), default=Path("."), show_default=True,
    help="The folder to write to.",
)  # fmt: skip
@click.option("--release", help="Another table that was published under the policy.")
@click.option("--agency", default="SQLANON", show_default=True, help="Who maintains the data flow, in SDMX.")
@click.option("--force", is_flag=True, help="Overwrite files that exist.")
def export(policy_file: str, form: str, output: Path, release: str | None, agency: str, force: bool) -> None:
    """Write the tables of a release as files: what it shows, and nothing else.

    A hidden cell has no value, and says that it is hidden, not why.
    """
    from sqlanon.cli.statistics_tables import read_statistics
    from sqlanon.engines import connect
    from sqlanon.statistics.exchange_files import write_files

    if (found := read_statistics(policy_file)) is None:
        raise PolicyError(
            f"'{policy_file}' is no policy for tables of statistics",
            hint="a release of rows is a table or a file already",
        )
    policy, url = found
    name = release or (policy.release.name if policy.release is not None else None)
    if name is None:
        raise PolicyError("the policy names no release", hint="name one: --release TABLE")
    with closing(connect(url)) as engine:
        files = write_files(policy, engine, name, form, agency)
    for file in files:
        if (output / file).exists() and not force:
            raise PolicyError(f"'{output / file}' exists already", hint="choose another folder, or add --force")
    output.mkdir(parents=True, exist_ok=True)
    for file, text in files.items():
        (output / file).write_text(text, encoding="utf-8", newline="")
    click.echo(f"wrote {', '.join(sorted(files))} to {output}")

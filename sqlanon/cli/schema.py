"""`sqlanon schema`: print the JSON Schema of policy files."""

from __future__ import annotations

import json
from pathlib import Path

import click


@click.command()
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="Write to a file.")
def schema(output: Path | None) -> None:
    """Print the JSON Schema of policy files, for completion and checks in an editor."""
    from sqlanon.policy import json_schema

    text = json.dumps(json_schema(), indent=2, ensure_ascii=False) + "\n"
    if output:
        output.write_text(text, encoding="utf-8")
    else:
        click.echo(text, nl=False)

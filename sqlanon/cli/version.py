"""`sqlanon version`: print the versions of sqlanon and of what it runs on."""

from __future__ import annotations

import click

from sqlanon import __version__


@click.command()
def version() -> None:
    """Print the versions of sqlanon and of what it runs on."""
    import platform
    from importlib.metadata import version as installed

    click.echo(f"sqlanon {__version__}")
    click.echo(f"duckdb {installed('duckdb')}, sqlglot {installed('sqlglot')}, python {platform.python_version()}")

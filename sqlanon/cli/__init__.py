"""The command line: a thin skin over the Python API. Exit code 0: all holds; 1: a requirement is broken; 2: error."""

from __future__ import annotations

import errno
import gc
import sys
from importlib import import_module
from typing import Any

import click

from sqlanon import __version__
from sqlanon.errors import SqlanonError

# Each is a file of this folder with a command of its name, and is loaded when it is asked for.
COMMANDS = (
    "attack", "audit", "budget", "check", "compare", "compile", "console", "demo", "explain", "export", "hierarchy",
    "init", "mcp", "models", "plan", "publish", "query", "refresh", "releases", "report", "risk", "schedule", "schema",
    "serve", "sql", "status", "user", "verdict", "version",
)  # fmt: skip


class Commands(click.Group):
    """Turns every error that sqlanon knows into a message on standard error and exit code 2."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        command: click.Command = getattr(import_module(f"sqlanon.cli.{name}"), name)
        return command

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except SqlanonError as error:
            click.echo(f"sqlanon: {error}", err=True)
            sys.exit(2)
        except KeyboardInterrupt:
            click.echo("sqlanon: interrupted", err=True)
            sys.exit(130)
        except OSError as error:
            if error.errno == errno.EPIPE:
                raise  # who reads the output has seen enough
            said = error.strerror or "the system refused"
            if error.filename is not None:
                said = f"'{error.filename}': {said}"
            elif error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
                said = f"the output cannot be written: {said}"
            click.echo(f"sqlanon: {said}", err=True)
            sys.exit(2)


LASTING = ("serve", "console", "schedule", "mcp")  # commands that go on until they are stopped


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="sqlanon")
@click.pass_context
def main(ctx: click.Context) -> None:
    """Privacy as SQL: check tables against privacy requirements and publish what meets them, inside your database.

    A first look, with no file at all:

    \b
      sqlanon check patients.parquet --qi age,zip,sex --sensitive disease --k 5

    The same with a policy file, which 'sqlanon init' drafts from a table:

    \b
      sqlanon init warehouse.duckdb patients -o policy.yml
      sqlanon check policy.yml
      sqlanon publish policy.yml
      sqlanon report policy.yml
    """
    if ctx.invoked_subcommand not in LASTING:
        # Loading modules and building SQL makes many objects and hardly any garbage: looking for it at every 700th new
        # one took a tenth of a short command.
        gc.set_threshold(100_000, 20, 20)

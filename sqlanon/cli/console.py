"""`sqlanon console`: releases, budgets and questions in a browser."""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sqlanon.errors import PolicyError, SqlanonError

if TYPE_CHECKING:
    from sqlanon.policy.serve import Serve
    from sqlanon.server.http import HttpServer


@click.command()
@click.argument("policy_file", metavar="POLICY", type=click.Path(path_type=Path))
@click.argument("policies", metavar="[POLICY…]", nargs=-1, type=click.Path(path_type=Path))
@click.option(
    "--port",
    type=click.IntRange(0, 65_535),
    default=8090,
    show_default=True,
    help="Port to listen on; 0 takes a free one.",
)
@click.option(
    "--export", type=click.Path(file_okay=False, path_type=Path), metavar="FOLDER",
    help="Write the releases and their evidence as a static site, and stop.",
)  # fmt: skip
def console(policy_file: Path, policies: tuple[Path, ...], port: int, export: Path | None) -> None:
    """Show releases, budgets and questions as web pages.

    The first POLICY has a section 'gateway': its principals log in with the passwords of 'sqlanon user add'. One with
    'owner: true' sees and changes everything, one with 'auditor: true' sees everything, and all others see their own
    budget and ask. The releases of that policy and of those that follow are shown. Nothing is loaded from elsewhere,
    and no page holds a row.

    With --export the releases of all POLICY files are written as pages for an intranet, and nobody logs in: what they
    show is as confidential as the source.
    """
    import asyncio

    if export is not None:
        _export((policy_file, *policies), export)
        return

    try:
        from sqlanon.server import serve as serving
    except ImportError as error:
        missing = (error.name or "").split(".")[0]
        raise SqlanonError(f"'sqlanon console' needs {missing}", hint="pip install 'sqlanon[console]'") from None
    from sqlanon.policy.files import load_serve
    from sqlanon.server.audit import AuditError

    logging.basicConfig(format="%(asctime)s %(message)s", level=logging.WARNING, stream=sys.stderr)
    served = load_serve(policy_file)
    for path in policies:
        if not path.is_file():
            raise PolicyError(f"there is no policy '{path}'")

    def ready(http: HttpServer) -> None:
        click.echo(f"the console is at {console_address(served, http.port)}; stop it with Ctrl-C")
        owners = [name for name, each in served.gateway.principals.items() if each.owner]
        if not owners:
            click.echo("nobody may publish or grant: add 'owner: true' to a principal of the policy", err=True)
        sys.stdout.flush()

    try:
        asyncio.run(serving.run_console(policy_file, policies, port, ready))
    except AuditError as error:
        if "another server" not in error.message:
            raise
        hint = (
            "'sqlanon serve' runs for this policy: add 'console: true' to its section 'serve', and it shows the pages"
        )
        raise AuditError(error.message, hint=hint) from None


def _export(policies: tuple[Path, ...], folder: Path) -> None:
    from sqlanon.console.export_site import export_site

    found = export_site(policies, folder)
    click.echo(f"wrote {folder / 'index.html'}: {found.releases} releases, {found.versions} versions")
    click.echo("it holds evidence, which may hold original values with their counts: as confidential as the source")


def console_address(serve: Serve, port: int) -> str:
    """Where a browser finds it."""
    host = "localhost" if serve.host in ("127.0.0.1", "::1", "localhost") else serve.host
    return f"{'https' if serve.tls else 'http'}://{f'[{host}]' if ':' in host else host}:{port}/"

"""The command `serve`: the gateway as a PostgreSQL server, and as HTTP."""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sqlanon.errors import SqlanonError

if TYPE_CHECKING:
    from sqlanon.policy.gateway import Gateway
    from sqlanon.server.http import HttpServer
    from sqlanon.server.server import Server


@click.command()
@click.argument("policy_file", metavar="POLICY", type=click.Path(path_type=Path))
@click.argument("policies", metavar="[POLICY…]", nargs=-1, type=click.Path(path_type=Path))
@click.option("--check", is_flag=True, help="Open all that is needed, verify the audit log, and stop.")
@click.option("--schedule", "scheduled", is_flag=True, help="Refresh releases when they are due, in the same process.")
def serve(policy_file: Path, policies: tuple[Path, ...], check: bool, scheduled: bool) -> None:
    """Answer PostgreSQL clients under the sections 'gateway' and 'serve' of a policy.

    Any client connects: psql, JDBC, ODBC, Python, BI tools. Aggregates come back with differential privacy, released
    and public tables plainly, and all else is refused. Users are made with 'sqlanon user add', the ledger with
    'sqlanon budget init'. With --schedule the releases of this policy and of those that follow are refreshed when they
    are due, and clients see the new version; a refresh that runs at the end is finished first. The policy is read again
    whenever its file changes, or at a SIGHUP; while it cannot be read, nothing is answered.
    """
    import asyncio  # with ssl a third of what importing the command line took, for every other command too

    try:
        from sqlanon.server import serve as serving
    except ImportError as error:
        missing = (error.name or "").split(".")[0]
        raise SqlanonError(f"'sqlanon serve' needs {missing}", hint="pip install 'sqlanon[serve]'") from None
    from sqlanon.cli.console import console_address
    from sqlanon.gateway.shown_tables import shown_lines

    logging.basicConfig(format="%(asctime)s %(message)s", level=logging.WARNING, stream=sys.stderr)
    if check:
        found, lines = asyncio.run(serving.check(policy_file))
        names = ", ".join(found.gateway.principals)
        click.echo(f"{policy_file} can be served: {len(found.gateway.tables)} tables, for {names}")
        click.echo(f"{found.located_audit}: {lines:,} {'line' if lines == 1 else 'lines'}, none of them changed")
        click.echo("".join(f"{line}\n" for line in shown_lines(found.gateway)), nl=False)
        _warn_of_slow_tables(found.gateway)
        return

    beside = _scheduler(policy_file, policies) if scheduled else None
    if policies and not scheduled:
        raise SqlanonError("one policy is served at a time", hint="add --schedule to refresh the others")

    def ready(server: Server, http: HttpServer | None) -> None:
        found = server.door.current.serve
        users = [name for name in found.gateway.principals if server.users.verifier(name) is not None]
        click.echo(f"sqlanon listens on {found.host}, port {server.port}; stop it with Ctrl-C")
        if http is not None:
            click.echo(f"HTTP/JSON on port {http.port}: POST /v1/query, /v1/explain; GET /v1/budget, /v1/audit")
            if found.console:
                click.echo(f"the web console: {console_address(found, http.port)}")
        for line in shown_lines(found.gateway):
            click.echo(line)
        if users:
            click.echo(f"  psql -h {found.host} -p {server.port} -U {users[0]} {found.database_name}")
        else:
            name = next(iter(found.gateway.principals))
            click.echo(f"nobody can connect yet: sqlanon user add {policy_file} {name}")
        sys.stdout.flush()

    asyncio.run(serving.run(policy_file, ready, beside))


def _warn_of_slow_tables(policy: Gateway) -> None:
    from contextlib import closing

    from sqlanon.gateway import open_gateway
    from sqlanon.gateway.answer.release_time import slow_tables

    with closing(open_gateway(policy)) as gate:
        for name, seconds in slow_tables(gate.engine, gate.catalog).items():
            said = f"counting the persons of '{name}' took {seconds:.2g} s, and an answer has {policy.answer_time:g} s"
            click.echo(f"{said}: raise 'answer_time', or statements fail and stay charged", err=True)


def _scheduler(served: Path, others: tuple[Path, ...]) -> Callable[[threading.Event, Callable[[], None]], None]:
    """What `sqlanon schedule` does, for the policy that is served, if it has a schedule, and for others."""
    from sqlanon import schedule
    from sqlanon.cli.refresh import print_outcome
    from sqlanon.policy.files import has_schedule

    jobs = [schedule.Job(path) for path in (*([served] if has_schedule(served) else []), *others)]
    if not jobs:
        raise SqlanonError(
            f"{served} has no schedule", hint="add one, or name the policies: 'sqlanon serve A.yml B.yml --schedule'"
        )
    for job in jobs:
        schedule.schedule_of(job.policy())  # before anybody connects

    def run(stop: threading.Event, changed: Callable[[], None]) -> None:
        def told(done: schedule.RefreshOutcome) -> None:
            print_outcome(done)
            if done.published is not None:
                changed()

        schedule.serve_schedule(jobs, stop, told, secret=os.environ.get("SQLANON_KEY"))

    return run

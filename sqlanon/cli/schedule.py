"""`sqlanon schedule`: refresh releases whenever they are due."""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path

import click

from sqlanon.cli.refresh import POLICIES, print_outcome


@click.command()
@POLICIES
def schedule(policies: tuple[Path, ...]) -> None:
    """Refresh releases whenever they are due, until stopped with Ctrl-C or SIGTERM.

    A refresh that runs then is finished first. Several may run for the same policies: each time is refreshed once.
    """
    from sqlanon.schedule import Job, clock, release_name, schedule_of, serve_schedule

    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    jobs = [Job(path) for path in policies]
    for job in jobs:
        policy = job.policy()
        first = next(schedule_of(policy).times(clock()))
        click.echo(f"{job.path}: {release_name(policy)}, next {first:%Y-%m-%d %H:%M} UTC")
    sys.stdout.flush()
    serve_schedule(jobs, stop, print_outcome, secret=os.environ.get("SQLANON_KEY"))
    click.echo("stopped")

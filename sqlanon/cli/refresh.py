"""The commands of releases over time: `refresh`, `schedule` and `status`."""

from __future__ import annotations

import os
import signal
import sys
import threading
from datetime import UTC, datetime
from pathlib import Path

import click

from sqlanon.cli.console_refresh import print_outcome
from sqlanon.errors import BudgetExhausted, NotReleased, SqlanonError

POLICIES = click.argument("policies", metavar="POLICY…", nargs=-1, required=True, type=click.Path(path_type=Path))


@click.command()
@POLICIES
@click.option("--due", "only_due", is_flag=True, help="Only what is due by its schedule: for cron and the like.")
@click.option(
    "--plan-hash", metavar="HASH", help="Only if the plan is still the one that 'sqlanon plan' showed; 12 digits do."
)
@click.option(
    "--backfill", nargs=2, type=click.DateTime(), metavar="FROM TO",
    help="For every time of the schedule between these, in UTC: a query with :due is read as of each of them.",
)  # fmt: skip
def refresh(
    policies: tuple[Path, ...], only_due: bool, plan_hash: str | None, backfill: tuple[datetime, datetime] | None
) -> None:
    """Publish releases anew, each checked against all that was published before, and marginals with new noise.

    Exactly one of several processes refreshes a release at a time. Exit code 1 if a requirement or the privacy budget
    does not allow a new release, 2 for a wrong policy or any other error: the last release stays as it was. The key of
    the history is taken from the environment variable SQLANON_KEY. Marginals charge the privacy budget each time, and
    are refused when it is spent.
    """
    from sqlanon import schedule

    if bool(only_due) + bool(plan_hash) + bool(backfill) > 1 or (plan_hash and len(policies) > 1):
        raise SqlanonError("--due, --plan-hash and --backfill do not go together, and a plan is of one policy")
    if plan_hash is not None and (len(plan_hash) < 12 or set(plan_hash.lower()) - set("0123456789abcdef")):
        raise SqlanonError("--plan-hash takes 12 or more hexadecimal digits", hint="'sqlanon plan POLICY' shows them")
    code = 0
    for path in policies:
        job = schedule.Job(path)
        secret = os.environ.get("SQLANON_KEY")
        try:
            if backfill:
                begin, end = (moment.replace(tzinfo=UTC) for moment in backfill)
                done = schedule.RefreshOutcome(job, None)
                for done in schedule.backfill(job, begin, end, secret=secret):
                    print_outcome(done)
                    code = max(code, _exit_code(done.error))
                if done.published is None and done.error is None:
                    click.echo(f"{path}: nothing is left to do between these times")
                continue
            moment = schedule.due(job, schedule.clock()) if only_due else None
            if only_due and moment is None:
                click.echo(f"{path}: nothing is due")
                continue
            done = schedule.refresh(job, moment, secret=secret, plan_hash=plan_hash)
        except SqlanonError as error:  # the others are refreshed all the same
            done = schedule.RefreshOutcome(job, None, error=error)
        print_outcome(done)
        code = max(code, _exit_code(done.error))
    sys.exit(code)


def _exit_code(error: SqlanonError | None) -> int:
    if error is None:
        return 0
    return 1 if isinstance(error, NotReleased | BudgetExhausted) else 2


@click.command(name="schedule")
@POLICIES
def run_schedule(policies: tuple[Path, ...]) -> None:
    """Refresh releases whenever they are due, until stopped with Ctrl-C or SIGTERM.

    A refresh that runs then is finished first. Several may run for the same policies: each time is refreshed once.
    """
    from sqlanon import schedule

    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    jobs = [schedule.Job(path) for path in policies]
    for job in jobs:
        policy = job.policy()
        first = next(schedule.schedule_of(policy).times(schedule.clock()))
        click.echo(f"{job.path}: {schedule.release_name(policy)}, next {first:%Y-%m-%d %H:%M} UTC")
    sys.stdout.flush()
    schedule.serve_schedule(jobs, stop, print_outcome, secret=os.environ.get("SQLANON_KEY"))
    click.echo("stopped")


@click.command()
@POLICIES
@click.option("--limit", type=click.IntRange(min=1), default=10, show_default=True, help="So many runs of each.")
def status(policies: tuple[Path, ...], limit: int) -> None:
    """When releases were refreshed, how it ended, and when they will be."""
    from sqlanon import schedule

    for path in policies:
        job = schedule.Job(path)
        policy = job.policy()
        click.echo(f"{path}: {schedule.release_name(policy)}")
        if policy.schedule is not None:
            first = next(policy.schedule.times(schedule.clock()))
            click.echo(f"  next     {first:%Y-%m-%d %H:%M} UTC ({policy.schedule.cron}, {policy.schedule.tz})")
        for run in job.runs.listed(schedule.release_name(policy), limit):
            took = f"{(run.ended - run.started).total_seconds():.1f} s" if run.ended else ""
            version = f"version {run.version}" if run.version is not None else ""
            said = "  ".join(part for part in (took, version, run.message or "") if part)
            click.echo(f"  {run.outcome:8} {run.started:%Y-%m-%d %H:%M:%S} UTC  try {run.attempt}  {said}")


COMMANDS = (refresh, run_schedule, status)

"""`sqlanon refresh`: publish releases anew."""

from __future__ import annotations

import os
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sqlanon.errors import BudgetExhausted, NotReleased, SqlanonError

if TYPE_CHECKING:
    from sqlanon.schedule import RefreshOutcome


POLICIES = click.argument("policies", metavar="POLICY…", nargs=-1, required=True, type=click.Path(path_type=Path))


@click.command()
@POLICIES
@click.option("--due", "only_due", is_flag=True, help="Only what is due by its schedule: for cron and the like.")
@click.option(
    "--plan-hash",
    metavar="HASH",
    help="Only if the plan is still the one that 'sqlanon plan' showed; 12 digits are enough.",
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


def print_outcome(done: RefreshOutcome) -> None:
    from sqlanon.release import Published  # what it is not, is of marginals, which would load the whole gateway
    from sqlanon.release.publish_statistics import PublishedTables

    where = str(done.job.path)
    if done.error is not None:
        click.echo(f"{where}: not refreshed: {done.error}", err=True)
    elif done.run is None:
        click.echo(f"{where}: another process refreshes it")
    else:
        assert done.published is not None
        document = done.published.document
        history = document.get("history", {})
        if isinstance(done.published, Published):
            version = f", version {history['version']}, {history['held_back']:,} rows held back" if history else ""
        elif isinstance(done.published, PublishedTables):
            changes = document["statistics"].get("changes")
            what = f"{changes['changed']:,} changed" if changes else f"{document['suppressed']:,} of them hidden"
            version = f", {document['cells']:,} cells, {what}"
        else:
            width, spent = document["differential_privacy"]["half_width"], done.published.cost.epsilon
            noise = f", counts of {document['released']:,} rows, each ± {width:g}"
            version = f"{noise}; spent {f'epsilon {spent:g}' if spent else 'nothing more'}"
        click.echo(f"{where}: refreshed{version}; plan {done.published.plan.hash[:12]}")
    sys.stdout.flush()

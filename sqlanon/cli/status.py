"""`sqlanon status`: when releases were refreshed, how it ended, and when they will be."""

from __future__ import annotations

from pathlib import Path

import click

from sqlanon.cli.refresh import POLICIES


@click.command()
@POLICIES
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    default=10,
    show_default=True,
    help="Show at most this many runs of each release.",
)
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

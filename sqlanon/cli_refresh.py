"""The commands of releases over time: `refresh`, `schedule`, `status` and `releases`."""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sqlanon.errors import SqlanonError

if TYPE_CHECKING:
    from sqlanon.engines import Engine
    from sqlanon.policy import Policy
    from sqlanon.policy.marginals import Marginals
    from sqlanon.schedule import Outcome

POLICIES = click.argument("policies", metavar="POLICY…", nargs=-1, required=True, type=click.Path(path_type=Path))


@click.command()
@POLICIES
@click.option("--due", "only_due", is_flag=True, help="Only what is due by its schedule: for cron and the like.")
def refresh(policies: tuple[Path, ...], only_due: bool) -> None:
    """Publish releases anew, each checked against all that was published before, and marginals with new noise.

    Exactly one of several processes refreshes a release at a time. Exit code 1 if one was refused or failed: its last
    release stays as it was. The key of the history is taken from the environment variable SQLANON_KEY. Marginals charge
    the privacy budget each time, and are refused when it is spent.
    """
    from sqlanon import schedule

    wrong = False
    for path in policies:
        job = schedule.Job(path)
        try:
            moment = schedule.due(job, schedule.clock()) if only_due else None
            if only_due and moment is None:
                click.echo(f"{path}: nothing is due")
                continue
            done = schedule.refresh(job, moment, secret=os.environ.get("SQLANON_KEY"))
        except SqlanonError as error:  # the others are refreshed all the same
            done = schedule.Outcome(job, None, error=error)
        _tell(done)
        wrong = wrong or done.error is not None
    sys.exit(1 if wrong else 0)


@click.command(name="schedule")
@POLICIES
def run_schedule(policies: tuple[Path, ...]) -> None:
    """Refresh releases whenever they are due, until stopped with Ctrl-C or SIGTERM.

    A refresh that runs then is finished first. Several may run for the same policies: each time is refreshed once.
    """
    from sqlanon import schedule

    jobs = [schedule.Job(path) for path in policies]
    for job in jobs:
        policy = job.policy()
        first = next(schedule.schedule_of(policy).times(schedule.clock()))
        click.echo(f"{job.path}: {schedule.release_name(policy)}, next {first:%Y-%m-%d %H:%M} UTC")
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    schedule.serve_schedule(jobs, stop, _tell, secret=os.environ.get("SQLANON_KEY"))
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


@click.group()
def releases() -> None:
    """What was published: list it, show its evidence, compare versions, retire it."""


@releases.command(name="list")
@click.argument("policy_file", metavar="POLICY")
def list_(policy_file: str) -> None:
    """Every version of the release of a policy, the newest first."""
    from sqlanon.release.record import versions

    policy, engine = _opened(policy_file)
    names = _names(policy)
    try:
        found = {name: versions(engine, name) for name in names}
    finally:
        engine.close()
    for name, items in found.items():
        if not items:
            click.echo(f"'{name}' was not published yet")
        elif len(names) > 1:
            click.echo(f"{name}:")
        for item in items:
            click.echo(f"{item.version:4}  {item.status:10}  {item.created}  plan {item.plan_hash[:12]}")


@releases.command()
@click.argument("policy_file", metavar="POLICY")
@click.argument("version", type=click.IntRange(min=1))
def show(policy_file: str, version: int) -> None:
    """The evidence of a version as JSON."""
    import json

    click.echo(json.dumps(_evidence(policy_file, version), indent=2, ensure_ascii=False))


@releases.command()
@click.argument("policy_file", metavar="POLICY")
@click.argument("earlier", type=click.IntRange(min=1))
@click.argument("later", type=click.IntRange(min=1))
def diff(policy_file: str, earlier: int, later: int) -> None:
    """What changed between two versions: the policy, the plan, and what was measured."""
    import difflib
    import json

    texts = []
    for version in (earlier, later):
        document = _evidence(policy_file, version)
        document.pop("sql", None)
        lines = str(document["policy"].pop("text")).splitlines()
        texts.append([*lines, *json.dumps(document, indent=1, ensure_ascii=False).splitlines()])
    one, other = texts
    found = list(difflib.unified_diff(one, other, f"version {earlier}", f"version {later}", lineterm="", n=1))
    click.echo("\n".join(found) if found else "nothing changed")


@releases.command()
@click.argument("policy_file", metavar="POLICY")
@click.confirmation_option(prompt="The table or view is dropped, its history is kept. Go on?")
def retire(policy_file: str) -> None:
    """Drop the release. What is kept of it stays: what was seen was seen, and a later release is compared with it."""
    from sqlanon.release.retiring import retire as run

    policy, engine = _opened(policy_file, read_only=False)
    try:
        for name in _names(policy):
            run(engine, name)
            click.echo(f"'{name}' is retired")
    finally:
        engine.close()


def _evidence(policy_file: str, version: int) -> dict[str, Any]:
    from sqlanon.release.record import of_version

    policy, engine = _opened(policy_file)
    name = _names(policy)[0]  # tables of one file have the same evidence
    try:
        found = of_version(engine, name, version)
    finally:
        engine.close()
    if found is None:
        raise SqlanonError(f"there is no version {version} of '{name}'", hint="see 'sqlanon releases list'")
    return found


def _opened(policy_file: str, *, read_only: bool = True) -> tuple[Policy | Marginals, Engine]:
    from sqlanon.engines import connect
    from sqlanon.policy import load, load_marginals

    section = load_marginals(policy_file)
    if section is not None:
        return section, connect(section.gateway.located_database, read_only=read_only)
    policy = load(policy_file).located()
    if policy.release is None or policy.release.path is not None:
        raise SqlanonError("only releases in a database have versions", hint="name one under 'release'")
    url = policy.locate(policy.source.database) if policy.source.database else None
    return policy, connect(url, read_only=read_only)


def _names(policy: Policy | Marginals) -> tuple[str, ...]:
    from sqlanon.policy.marginals import Marginals

    if isinstance(policy, Marginals):
        return policy.tables
    assert policy.release is not None
    return (policy.release.table or policy.release.view or "",)


def _tell(done: Outcome) -> None:
    from sqlanon.marginals import Refreshed

    where = str(done.job.path)
    if done.error is not None:
        click.echo(f"{where}: not refreshed: {done.error}", err=True)
    elif done.run is None:
        click.echo(f"{where}: somebody else refreshes it")
    else:
        assert done.published is not None
        document = done.published.document
        history = document.get("history", {})
        if isinstance(done.published, Refreshed):
            width = document["differential_privacy"]["half_width"]
            noise = f"counts of {document['released']:,} rows, each ± {width:g}"
            spent = f"epsilon {done.published.cost.epsilon:g}" if done.published.cost.epsilon else "nothing more"
            click.echo(f"{where}: refreshed, {noise}; spent {spent}; plan {done.published.plan.hash[:12]}")
            return
        version = f", version {history['version']}, {history['held_back']:,} rows held back" if history else ""
        click.echo(f"{where}: refreshed{version}; plan {done.published.plan.hash[:12]}")
    sys.stdout.flush()


COMMANDS = (refresh, run_schedule, status, releases)

"""`sqlanon releases`: list the versions of a release, show and compare them, go back to one, retire it."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sqlanon.errors import SqlanonError

if TYPE_CHECKING:
    from sqlanon.engines import Engine
    from sqlanon.policy import Policy
    from sqlanon.policy.marginals import Marginals
    from sqlanon.policy.statistics import StatisticsPolicy
    from sqlanon.release.record import Version


POLICY = click.argument("policy_file", metavar="POLICY", type=click.Path(path_type=Path))
VERSION = click.IntRange(min=1)


@click.group()
def releases() -> None:
    """What was published: list it, show its evidence, compare versions, go back to one, retire it."""


@releases.command(name="list")
@POLICY
@click.option("--json", "as_json", is_flag=True, help="Print the list as JSON.")
def list_(policy_file: Path, as_json: bool) -> None:
    """Every version of the release of a policy, the newest first: when, to whom, by which plan, from which data.

    Of marginals every table has its own.
    """
    from dataclasses import asdict

    from sqlanon.release.versions import by_name

    policy, engine = open_release(policy_file)
    with closing(engine):
        found = by_name(policy, engine)
    if as_json:
        items = [asdict(item) for listed in found.values() for item in listed]
        click.echo(json.dumps(items, indent=2, ensure_ascii=False))
        return
    for name, listed in found.items():
        if not listed:
            click.echo(f"'{name}' was not published yet")
        elif len(found) > 1:
            click.echo(f"{name}:")
        _print_versions(listed)


def _print_versions(listed: list[Version]) -> None:
    for item in listed:
        said = [f"{item.version:4}  {item.status:10}  {item.created}  plan {item.plan_hash[:12]}"]
        if item.shown.data_version:
            said.append(f"data {item.shown.data_version[:12]}")
        if item.shown.audience:
            said.append(f"to {item.shown.audience}")
        if item.shown.behind and item.status != "current":
            said.append("kept")
        click.echo("  ".join(said))


@releases.command()
@POLICY
@click.argument("version", type=VERSION)
def show(policy_file: Path, version: int) -> None:
    """The evidence of a version as JSON."""
    click.echo(json.dumps(_evidence(policy_file, version), indent=2, ensure_ascii=False))


@releases.command()
@POLICY
@click.argument("earlier", type=VERSION)
@click.argument("later", type=VERSION)
def diff(policy_file: Path, earlier: int, later: int) -> None:
    """What changed between two versions: the policy, the plan, and what was measured."""
    from sqlanon.evidence.version_difference import compare_documents

    found = compare_documents(*((f"version {item}", _evidence(policy_file, item)) for item in (earlier, later)))
    click.echo("\n".join(found) if found else "nothing changed")


@releases.command()
@POLICY
@click.argument("version", type=VERSION)
def rollback(policy_file: Path, version: int) -> None:
    """Show an earlier version again, which 'keep' under 'release' has kept.

    Its rows must be bit for bit those that were shown then, under the policy of today and to the same audience: so it
    tells nothing new. The version that is withdrawn was seen: later releases are compared with it too.
    """
    from sqlanon import schedule

    before = schedule.roll_back(schedule.Job(policy_file), version)
    click.echo(f"version {version} of '{before.release}' is shown again, version {before.version} is withdrawn")


@releases.command()
@POLICY
@click.confirmation_option(prompt="The table, view or files are dropped, the history is kept. Go on?")
def retire(policy_file: Path) -> None:
    """Drop the release. What is kept of it stays: what was seen was seen, and a later release is compared with it."""
    from sqlanon import schedule

    for name in schedule.retire(schedule.Job(policy_file)):
        click.echo(f"'{name}' is retired")


def _evidence(policy_file: Path, version: int) -> dict[str, Any]:
    from sqlanon.release.versions import evidence
    from sqlanon.schedule import release_name

    policy, engine = open_release(policy_file)
    with closing(engine):
        found = evidence(policy, engine, version)
    if found is None:
        raise SqlanonError(
            f"there is no version {version} of '{release_name(policy)}'", hint="see 'sqlanon releases list'"
        )
    return found


def open_release(policy_file: Path) -> tuple[Policy | Marginals | StatisticsPolicy, Engine]:
    from sqlanon.engines import connect
    from sqlanon.policy import load
    from sqlanon.policy.files import load_marginals, load_statistics

    section = load_marginals(policy_file)
    if section is not None:
        return section, connect(section.gateway.located_database)
    tables = load_statistics(policy_file)
    policy = tables.located() if tables is not None else load(policy_file).located()
    url = policy.locate(policy.source.database) if policy.source.database else None
    return policy, connect(url)

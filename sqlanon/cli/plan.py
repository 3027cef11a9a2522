"""`sqlanon plan`: say what a refresh would change."""

from __future__ import annotations

import json
import os
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import click

from sqlanon.cli.releases import POLICY, open_release
from sqlanon.errors import PolicyError, number


@click.command()
@POLICY
@click.option("--sql", "with_sql", is_flag=True, help="Show how the SQL of the release would change, too.")
@click.option("--json", "as_json", is_flag=True, help="Print the differences and the evidence as JSON.")
def plan(policy_file: Path, with_sql: bool, as_json: bool) -> None:
    """Say what a refresh would change: policy, levels, rows and what is measured, beside the release that is shown.

    Nothing is written. 'sqlanon refresh POLICY --plan-hash HASH' publishes this plan, and no other. Exit code 1 if it
    would be refused.
    """
    from sqlanon.policy.marginals import Marginals
    from sqlanon.policy.statistics import StatisticsPolicy
    from sqlanon.release.plan_refresh import differences, plan_refresh

    policy, engine = open_release(policy_file)
    if isinstance(policy, Marginals):
        engine.close()
        raise PolicyError(
            "the policy has marginals: a refresh shows its counts only after it is paid for",
            hint="'sqlanon releases show POLICY VERSION' shows how much noise the last one has",
        )
    if isinstance(policy, StatisticsPolicy):
        engine.close()
        raise PolicyError(
            "the policy makes tables of statistics, whose plan is not compared with an earlier one",
            hint="'sqlanon publish --dry-run POLICY' shows what would be hidden, and the hash of the plan",
        )
    with closing(engine):
        found = plan_refresh(policy, engine, secret=os.environ.get("SQLANON_KEY"))
    if found.refused is not None or found.document is None or found.plan is None:
        click.echo(f"{policy_file}: nothing would be published: {found.refused}", err=True)
        sys.exit(1)
    told = differences(found.current, found.document)
    if as_json:
        whole = {"plan_hash": found.plan.hash, "differences": told, "evidence": found.document}
        click.echo(json.dumps(whole, indent=2, ensure_ascii=False))
        return
    for line in told["policy"] if found.current is not None else ():
        click.echo(line)
    width = max((len(name) for name in told["evidence"]), default=0)
    for name, (before, after) in told["evidence"].items():
        click.echo(f"{name:{width}}  {_said(before):>12} -> {_said(after)}")
    if found.current is not None and with_sql:
        click.echo("\n".join(told["sql"]))
    elif found.current is not None:
        changed = sum(line[0] in "+-" for line in told["sql"][2:])
        click.echo(f"{changed:,} lines of SQL differ" + ("; see --sql" if changed else ""))
    if found.current is not None and not any(told.values()):
        click.echo("nothing that is measured would change; the rows may")
    click.echo(f"plan {found.plan.hash}")


def _said(value: Any) -> str:
    return number(value) if isinstance(value, int | float) else "-" if value is None else str(value)

"""`sqlanon audit`: find out what exact answers give away when they are put together."""

from __future__ import annotations

import sys

import click

from sqlanon.cli.gateway_options import POLICY, load_policy


@click.command()
@POLICY
@click.option("--as", "principal", metavar="PRINCIPAL", help="The answers of this principal; all together if left out.")
def audit(policy_file: str, principal: str | None) -> None:
    """Find out what exact answers under 'controls' give away when they are put together.

    Exit code 1 if they expose anybody.
    """
    from sqlanon.gateway.audit_policy import audit_policy
    from sqlanon.gateway.controls.audit import lines

    report = audit_policy(load_policy(policy_file), principal)
    click.echo("\n".join(lines(report)))
    sys.exit(1 if report.exposures else 0)

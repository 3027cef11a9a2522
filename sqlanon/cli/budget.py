"""`sqlanon budget`: what may be spent and what was, and the care of the ledger that says so."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sqlanon.cli.gateway_options import POLICY, load_policy, open_ledger, principal_of, require_ledger
from sqlanon.cli.tables import format_cost, format_table, left_text, printable
from sqlanon.errors import PolicyError, number

if TYPE_CHECKING:
    from sqlanon.gateway.price.budgets import Standing
    from sqlanon.ledger import Event
    from sqlanon.mechanisms import Cost
    from sqlanon.policy.gateway import Gateway


@click.group()
def budget() -> None:
    """Look after the budget: what may be spent, and what was, as the ledger of a gateway has it."""


@budget.command()
@POLICY
def init(policy_file: str) -> None:
    """Create the ledger of a new gateway. One that is there is never started anew."""
    from sqlanon.gateway.shown_tables import shown_lines
    from sqlanon.ledger import Ledger

    policy = load_policy(policy_file)
    Ledger.create(policy.located_ledger).close()
    click.echo(f"created {policy.located_ledger}: back it up with the data; nothing is answered without it")
    for line in shown_lines(policy):
        click.echo(line)


@budget.command()
@POLICY
@click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")
def show(policy_file: str, as_json: bool) -> None:
    """Tell what each principal may spend, has spent, and has left."""
    from sqlanon.gateway.price.budgets import standings

    with open_ledger(policy_file) as (policy, ledger):
        found = standings(policy, ledger)
    if as_json:
        click.echo(json.dumps(standings_json(found), indent=2, ensure_ascii=False))
    else:
        click.echo(standings_text(found, policy), nl=False)


@budget.command()
@POLICY
@click.argument("principal")
@click.argument("epsilon", type=float)
@click.option("--delta", type=float, default=0.0, help="Delta to grant, too.")
@click.option("--reason", required=True, help="Why; kept in the ledger, with your user name.")
def grant(policy_file: str, principal: str, epsilon: float, delta: float, reason: str) -> None:
    """Give a principal more to spend, until the budget is renewed."""
    from sqlanon.gateway.price.budgets import limits_of
    from sqlanon.mechanisms import Cost

    if not reason.strip():
        raise PolicyError("a grant needs a reason", hint="say why in --reason")
    if epsilon == 0 and delta == 0:
        raise PolicyError("a grant of nothing changes nothing", hint="give an epsilon above 0")
    with open_ledger(policy_file) as (policy, ledger):
        who = principal_of(policy, principal)
        limits = limits_of(policy, who)
        ledger.grant(who, Cost(epsilon, delta), by=_user(), reason=reason)
        click.echo(f"granted; {left_text(ledger.left(who, limits), who)}")


@budget.command()
@POLICY
@click.argument("principal")
@click.option("--reason", required=True, help="Why; kept in the ledger, with your user name.")
def unlock(policy_file: str, principal: str, reason: str) -> None:
    """Let a principal ask again who was locked because too many statements failed after they were charged."""
    if not reason.strip():
        raise PolicyError("unlocking needs a reason", hint="say why in --reason")
    with open_ledger(policy_file) as (policy, ledger):
        who = principal_of(policy, principal)
        ledger.unlock(who, by=_user(), reason=reason)
        click.echo(f"unlocked {who}: the failures so far no longer count; what they cost stays charged")


@budget.command()
@POLICY
@click.option("--as", "principal", metavar="PRINCIPAL", help="For whom; needed if the policy names several principals.")
@click.option("--explain", "explained", is_flag=True, help="Tell what would be bought, and buy nothing.")
def prepare(policy_file: str, principal: str | None, explained: bool) -> None:
    """Buy the tables of a dashboard, which the policy lists under 'prepare', together and with one charge.

    Afterwards its statements cost nothing until the data change. What is there already is not bought again.
    """
    from contextlib import closing

    from sqlanon.gateway import open_gateway
    from sqlanon.mechanisms import Cost

    policy = load_policy(policy_file)
    require_ledger(policy, policy_file)
    who = principal_of(policy, principal)
    with closing(open_gateway(policy)) as gate:
        plans = gate.tables_to_prepare(who)
        cost, count = sum((plan.cost for plan in plans), Cost()), len(policy.prepare[who])
        alone = sum((gate.prepare(sql, who).cost for sql in policy.prepare[who]), Cost())
        for plan in plans:
            core = plan.part.core
            asked = ", ".join(dict.fromkeys(atom.label for atom in core.atoms)) or "keys"
            groups = "1 group" if core.mode == "none" else f"{len(core.declared):,} groups"
            groups = groups if core.mode in ("none", "declared") else f"groups of {core.mode} keys"
            click.echo(f"table: {asked}, {groups}, {format_cost(plan.cost)}")
        if not plans:
            click.echo(f"nothing to buy: all {count} statements follow from tables that are there")
            return
        told = f"{count} statements: {format_cost(cost)} together, {format_cost(alone)} one by one"
        if explained:
            click.echo(f"{told}; nothing was bought; {left_text(gate.left(who), who)}")
            return
        left = gate.prepare_tables(who)
        click.echo(f"{told}; {left_text(left or gate.left(who), who)}")


@budget.command()
@POLICY
@click.option("--as", "principal", metavar="PRINCIPAL", help="Of this principal only.")
@click.option(
    "--limit", type=click.IntRange(1), default=20, show_default=True, help="Show this many of the latest events."
)
def history(policy_file: str, principal: str | None, limit: int) -> None:
    """List the latest charges, their outcomes, and grants."""
    with open_ledger(policy_file) as (_, ledger):
        click.echo(history_text(ledger.history(principal, limit)), nl=False)


@budget.command()
@POLICY
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="Write to a file.")
def export(policy_file: str, output: Path | None) -> None:
    """Write all events as JSON lines, with exact amounts and hashes, after checking that none was changed."""
    with open_ledger(policy_file) as (_, ledger):
        lines = "".join(json.dumps(event, ensure_ascii=False) + "\n" for event in ledger.export())
    if output:
        output.write_text(lines, encoding="utf-8")
    else:
        click.echo(lines, nl=False)


@budget.command()
@POLICY
@click.option(
    "--head",
    metavar="EVENTS:HASH",
    help="What an earlier 'verify' printed: finds out whether an older copy was put back since.",
)
def verify(policy_file: str, head: str | None) -> None:
    """Check every page and every event of the ledger, and print its head to note down elsewhere."""
    from sqlanon.ledger import Head

    known = None
    if head is not None:
        count, _, digest = head.partition(":")
        if not count.isdecimal() or not re.fullmatch("[0-9a-f]{64}", digest):
            raise PolicyError(f"--head '{head}' is not EVENTS:HASH", hint="copy it from what 'verify' printed before")
        known = Head(int(count), digest)
    with open_ledger(policy_file) as (_, ledger):
        found = ledger.verify(known)
    click.echo(f"whole: {found.events:,} events\nhead {found.events}:{found.hash}")


@budget.command()
@POLICY
@click.option("--reason", required=True, help="Why; kept in the ledger, with your user name.")
def anchor(policy_file: str, reason: str) -> None:
    """Let the ledger count as it is, though its file .head is lost or says that it had come further.

    Only after what was answered since has been taken off the limits of the policy: nobody can tell how much it was.
    """
    from sqlanon.ledger import Ledger

    policy = load_policy(policy_file)
    require_ledger(policy, policy_file)
    if not reason.strip():
        raise PolicyError("anchoring a ledger again needs a reason", hint="say why in --reason")
    found = Ledger.anchor(policy.located_ledger, by=_user(), reason=reason)
    click.echo(f"anchored: {found.events:,} events\nhead {found.events}:{found.hash}")


def _user() -> str:
    """Who the operating system says this is, not what the environment claims."""
    import getpass
    import os

    try:
        import pwd

        return pwd.getpwuid(os.getuid()).pw_name
    except (ImportError, KeyError):
        return getpass.getuser() if not hasattr(os, "getuid") else f"uid {os.getuid()}"


def standings_text(found: Sequence[Standing], policy: Gateway) -> str:
    with_delta = any(each.limit.delta for each in found)
    names = ["principal", "epsilon", "spent", "left", *(["delta", "spent", "left"] if with_delta else []), "renewed"]
    rows = []
    for each in found:
        cells = [(printable(each.principal), False)]
        cells += [(number(cost.epsilon), True) for cost in (each.limit, each.left.spent, each.left.left)]
        if with_delta:
            cells += [(f"{cost.delta:.3g}", True) for cost in (each.limit, each.left.spent, each.left.left)]
        renewal = each.left.renewal
        rows.append([*cells, (f"{renewal:%Y-%m-%d}" if renewal else "never", False)])
    said = format_table(names, rows).rsplit("(", 1)[0]
    for each in found:
        if each.granted.epsilon or each.granted.delta:
            said += f"{printable(each.principal)} was granted {format_cost(each.granted)} of it\n"
    if policy.budget.total is not None:
        said += f"all together: limit epsilon {number(policy.budget.total.epsilon)}; the smaller of both is left\n"
    if policy.accounting == "zcdp":
        said += "accounting zcdp: epsilon spent is what all statements together amount to\n"
    return said


def standings_json(found: Sequence[Standing]) -> list[dict[str, Any]]:
    def pair(cost: Cost) -> dict[str, float]:
        return {"epsilon": cost.epsilon, "delta": cost.delta}

    return [
        {
            "principal": each.principal,
            "limit": pair(each.limit),
            "granted": pair(each.granted),
            "spent": pair(each.left.spent),
            "left": pair(each.left.left),
            "renewal": each.left.renewal.isoformat() if each.left.renewal else None,
        }
        for each in found
    ]


def history_text(events: Sequence[Event]) -> str:
    names = ["event", "at", "principal", "what", "epsilon", "delta", "of"]
    rows = []
    for each in events:
        amounts = (number(each.epsilon), f"{each.delta:.3g}") if each.kind in ("charge", "grant") else ("", "")
        told = f"by {each.by}: {each.reason}" if each.kind == "grant" else each.shape or f"event {each.settles}"
        cells = [(str(each.id), True), (f"{each.at[:10]} {each.at[11:19]}", False), (printable(each.principal), False)]
        rows.append([*cells, (each.kind, False), *((text, True) for text in amounts), (printable(told), False)])
    return format_table(names, rows)

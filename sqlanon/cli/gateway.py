"""The commands of the gateway: ask with differential privacy, and look after the budget of those who ask."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sqlanon.errors import (
    BudgetExhausted,
    LedgerError,
    MechanismError,
    PolicyError,
    Refused,
    SqlanonError,
    did_you_mean,
)

if TYPE_CHECKING:
    from sqlanon.gateway import Gate
    from sqlanon.ledger import Ledger
    from sqlanon.policy.gateway import Gateway

POLICY = click.argument("policy_file", metavar="POLICY")
EXISTING = click.Path(exists=True, dir_okay=False, path_type=Path)
DIALECT = click.Choice(["duckdb", "postgres"])
FORMAT = click.Choice(["table", "csv", "json"])
WHOLE = re.compile(r"[+-]?(0|[1-9][0-9]{0,17})")
REAL = re.compile(r"[+-]?([0-9]+\.[0-9]*|\.[0-9]+|[0-9]+(?=[eE]))([eE][+-]?[0-9]{1,3})?")


@click.command()
@POLICY
@click.argument("sql", required=False)
@click.option(
    "--file", "sql_file", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Read the SQL from a file."
)
@click.option("--as", "principal", metavar="PRINCIPAL", help="Who asks; needed if the policy names several principals.")
@click.option("--epsilon", type=float, help="What to spend; the default of the policy if left out.")
@click.option(
    "--dialect",
    type=click.Choice(["duckdb", "postgres"]),
    default="duckdb",
    show_default=True,
    help="The SQL that you write.",
)
@click.option(
    "--param", "params", multiple=True, metavar="VALUE", help="Value of the next ? or of $1, $2, …; repeatable."
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["table", "csv", "json"]),
    default="table",
    show_default=True,
    help="How to print the answer.",
)
@click.option("--no-intervals", is_flag=True, help="Leave out the error bars.")
@click.option("--explain", "explained", is_flag=True, help="Say what it would run and cost, as EXPLAIN does. Free.")
@click.option("--dry-run", is_flag=True, help="Answer from made-up data of the same shape. Free, and needs no ledger.")
def query(
    policy_file: str,
    sql: str | None,
    sql_file: Path | None,
    principal: str | None,
    epsilon: float | None,
    dialect: str,
    params: tuple[str, ...],
    form: str,
    no_intervals: bool,
    explained: bool,
    dry_run: bool,
) -> None:
    """Answer aggregate SQL with differential privacy, under the section 'gateway' of a policy.

    SQL is one SELECT, in quotes; - reads it from standard input. The answer has noise, with error bars that hold the
    exact value in 95 of 100 cases. Exit code 1: the statement is refused, or costs more than is left.

    A --param is a whole number, a number, a date (2025-01-31), a time (2025-01-31 12:30:00) or else text; a number
    that begins with 0, as 01234 does, is text, and so is whatever stands in single quotes: --param "'42'".
    """
    from sqlanon.cli.console_gateway import answer_text, error_text, notice

    policy = _policy(policy_file)
    text = _statement(sql, sql_file)
    who = _principal(policy, principal)
    asked: dict[str, Any] = {"dialect": dialect, "epsilon": epsilon}
    parameters = [parse_parameter(value) for value in params]
    try:
        with closing(_gate(policy, policy_file, dry_run)) as gate:
            try:
                prepared = gate.prepare(text, who, parameters, **asked)
                plan = explained or prepared.statement.explain
                if plan:
                    answer = gate.explain(prepared, who)
                else:
                    answer = gate.answer(text, who, parameters, intervals=not no_intervals, **asked)
            except SqlanonError as error:
                click.echo(error_text(error, text), err=True)
                sys.exit(1 if isinstance(error, Refused | BudgetExhausted | MechanismError) else 2)
        click.echo(answer_text(answer, form, plan=plan, shown=len(prepared.columns)), nl=False)
        click.echo(notice(answer, who, plan=plan), err=True)
        return
    except KeyboardInterrupt:
        click.echo("sqlanon: interrupted; what was charged by then stays charged", err=True)
    # Out here the error holds no open database any more, of which DuckDB would complain at the end.
    sys.exit(130)


@click.group()
def budget() -> None:
    """Look after the budget: what may be spent, and what was, as the ledger of a gateway has it."""


@budget.command()
@POLICY
def init(policy_file: str) -> None:
    """Create the ledger of a new gateway. One that is there is never started anew."""
    from sqlanon.gateway.answer.claims import shown_lines
    from sqlanon.ledger import Ledger

    policy = _policy(policy_file)
    Ledger.create(policy.located_ledger).close()
    click.echo(f"created {policy.located_ledger}: back it up with the data; without it nothing is answered")
    for line in shown_lines(policy):
        click.echo(line)


@budget.command()
@POLICY
@click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")
def show(policy_file: str, as_json: bool) -> None:
    """Tell what each principal may spend, has spent, and has left."""
    from sqlanon.cli.console_gateway import standings_json, standings_text
    from sqlanon.gateway.price.budgets import standings

    with _ledger(policy_file) as (policy, ledger):
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
    from sqlanon.cli.console_gateway import left_text
    from sqlanon.gateway.price.budgets import limits_of
    from sqlanon.mechanisms import Cost

    if not reason.strip():
        raise PolicyError("a grant needs a reason", hint="say why in --reason")
    if epsilon == 0 and delta == 0:
        raise PolicyError("a grant of nothing changes nothing", hint="give an epsilon above 0")
    with _ledger(policy_file) as (policy, ledger):
        who = _principal(policy, principal)
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
        raise PolicyError("to unlock needs a reason", hint="say why in --reason")
    with _ledger(policy_file) as (policy, ledger):
        who = _principal(policy, principal)
        ledger.unlock(who, by=_user(), reason=reason)
        click.echo(f"unlocked {who}: the failures so far no longer count; what they cost stays charged")


@budget.command()
@POLICY
@click.option("--as", "principal", metavar="PRINCIPAL", help="Of this principal only.")
@click.option("--limit", type=click.IntRange(1), default=20, show_default=True, help="The latest so many events.")
def history(policy_file: str, principal: str | None, limit: int) -> None:
    """List the latest charges, their outcomes, and grants."""
    from sqlanon.cli.console_gateway import history_text

    with _ledger(policy_file) as (_, ledger):
        click.echo(history_text(ledger.history(principal, limit)), nl=False)


@budget.command()
@POLICY
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="Write to a file.")
def export(policy_file: str, output: Path | None) -> None:
    """Write all events as JSON lines, with exact amounts and hashes, after checking that none was changed."""
    with _ledger(policy_file) as (_, ledger):
        lines = "".join(json.dumps(event, ensure_ascii=False) + "\n" for event in ledger.export())
    if output:
        output.write_text(lines, encoding="utf-8")
    else:
        click.echo(lines, nl=False)


@budget.command()
@POLICY
@click.option("--head", metavar="EVENTS:HASH", help="What an earlier 'verify' printed: tells if it was put back since.")
def verify(policy_file: str, head: str | None) -> None:
    """Check every page and every event of the ledger, and print its head to note down elsewhere."""
    from sqlanon.ledger import Head

    known = None
    if head is not None:
        count, _, digest = head.partition(":")
        if not count.isdecimal() or not re.fullmatch("[0-9a-f]{64}", digest):
            raise PolicyError(f"--head '{head}' is not EVENTS:HASH", hint="copy it from what 'verify' printed before")
        known = Head(int(count), digest)
    with _ledger(policy_file) as (_, ledger):
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

    policy = _policy(policy_file)
    _needs_ledger(policy, policy_file)
    if not reason.strip():
        raise PolicyError("to anchor a ledger anew needs a reason", hint="say why in --reason")
    found = Ledger.anchor(policy.located_ledger, by=_user(), reason=reason)
    click.echo(f"anchored: {found.events:,} events\nhead {found.events}:{found.hash}")


@click.command()
@POLICY
@click.option("--as", "principal", metavar="PRINCIPAL", help="The answers of this principal; all together if left out.")
def audit(policy_file: str, principal: str | None) -> None:
    """Find out what exact answers under 'controls' give away when they are put together.

    Exit code 1 if they expose anybody.
    """
    from sqlanon.gateway.audit_policy import audit_policy
    from sqlanon.gateway.controls.audit import lines

    report = audit_policy(_policy(policy_file), principal)
    click.echo("\n".join(lines(report)))
    sys.exit(1 if report.exposures else 0)


# What `sqlanon` has of the gateway: a further command is a function here and a name in this tuple.
COMMANDS: tuple[click.Command, ...] = (query, budget, audit)


def parse_parameter(text: str) -> int | float | date | datetime | str:
    """A parameter, by how it is written.

    >>> [parse_parameter(text) for text in ("42", "-0.5", "2e3", "01234", "'42'", "O'Neill")]
    [42, -0.5, 2000.0, '01234', '42', "O'Neill"]
    >>> parse_parameter("2025-01-31"), parse_parameter("2025-01-31 12:30:00"), parse_parameter("2025-02-31")
    (datetime.date(2025, 1, 31), datetime.datetime(2025, 1, 31, 12, 30), '2025-02-31')
    """
    if len(text) >= 2 and text[0] == text[-1] == "'":
        return text[1:-1]
    if WHOLE.fullmatch(text):
        return int(text)
    if REAL.fullmatch(text):
        return float(text)
    if re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", text):
        with suppress(ValueError):
            return date.fromisoformat(text)
    if re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}[ T][0-9]{2}:[0-9]{2}(:[0-9]{2})?", text):
        with suppress(ValueError):
            return datetime.fromisoformat(text)
    return text


def _policy(policy_file: str) -> Gateway:
    from sqlanon.policy.files import load_gateway

    return load_gateway(policy_file)


def _statement(sql: str | None, file: Path | None) -> str:
    if (sql is None) == (file is None):
        raise click.UsageError("give the SQL in quotes, as - for standard input, or with --file")
    if sql is not None and sql != "-":
        return sql
    data = sys.stdin.buffer.read() if file is None else file.read_bytes()
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise click.UsageError("the SQL is not UTF-8 text") from None


def _principal(policy: Gateway, given: str | None) -> str:
    known = list(policy.principals)
    if given is None:
        if len(known) == 1:
            return known[0]
        listed = ", ".join(known[:8])
        raise PolicyError("who asks? The policy names several principals", hint=f"add --as with one of {listed}")
    if given not in policy.principals:
        hint = did_you_mean(given, known) or f"it names {', '.join(known[:8])}"
        raise PolicyError(f"the policy names no principal '{given}'", hint=hint)
    return given


def _gate(policy: Gateway, policy_file: str, dry_run: bool) -> Gate:
    if dry_run:
        from sqlanon.gateway.synthetic import open_synthetic

        return open_synthetic(policy)
    from sqlanon.gateway import open_gateway

    _needs_ledger(policy, policy_file)
    return open_gateway(policy)


@contextmanager
def _ledger(policy_file: str) -> Iterator[tuple[Gateway, Ledger]]:
    from sqlanon.ledger import Ledger

    policy = _policy(policy_file)
    _needs_ledger(policy, policy_file)
    with Ledger.open(policy.located_ledger) as ledger:
        yield policy, ledger


def _needs_ledger(policy: Gateway, policy_file: str) -> None:
    if not Path(policy.located_ledger).exists():
        raise LedgerError(
            f"there is no ledger at {policy.located_ledger}, and without one nothing is answered",
            hint=f"a new gateway: run 'sqlanon budget init {policy_file}'. If it was lost: put back its backup.",
        )


def _user() -> str:
    """Who the operating system says this is, not what the environment claims."""
    import getpass
    import os

    try:
        import pwd

        return pwd.getpwuid(os.getuid()).pw_name
    except (ImportError, KeyError):
        return getpass.getuser() if not hasattr(os, "getuid") else f"uid {os.getuid()}"

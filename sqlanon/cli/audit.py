"""`sqlanon audit`: find out what exact answers give away together, or whether the noise is what it claims to be."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sqlanon.cli.gateway_options import POLICY, load_policy, principal_of
from sqlanon.errors import SourceError

if TYPE_CHECKING:
    from sqlanon.gateway.replay.audit_noise import Asked, NoiseAudit
    from sqlanon.policy.serve import Serve

MOST_SHAPES = 200  # of the log, the latest first
LISTED = 20


@click.command()
@POLICY
@click.option("--as", "principal", metavar="PRINCIPAL", help="The answers of this principal; all together if left out.")
@click.option("--dp", is_flag=True, help="Audit the noise: replay statements on neighbours of made-up data.")
@click.option(
    "--statements", "file", type=click.Path(exists=True, dir_okay=False),
    help="With --dp: statements to replay, each ended by ;.",
)  # fmt: skip
@click.option("--random", "count", type=click.IntRange(0, 5000), help="With --dp: statements drawn from the schema.")
@click.option("--runs", type=click.IntRange(100, 1_000_000), help="With --dp: noisy answers on each neighbour.")
@click.option("--seed", type=int, default=0, help="With --dp: another seed draws other statements and rows.")
@click.option(
    "--limit", type=click.IntRange(0), default=LISTED, show_default=True,
    help="With --dp: statements to list besides those that fail.",
)  # fmt: skip
def audit(
    policy_file: str,
    principal: str | None,
    dp: bool,
    file: str | None,
    count: int | None,
    runs: int | None,
    seed: int,
    limit: int,
) -> None:
    """Find out what exact answers under 'controls' give away when they are put together.

    Exit code 1 if they expose anybody.

    With --dp, find out whether the noise is what it claims to be, without anybody's data or budget: statements of the
    server's log, of a file and of the schema are replayed on made-up data with and without one person. Exit code 1 if
    a statement moves further than its noise is made for, or proves a larger epsilon than it is charged.
    """
    if not dp:
        if file is not None or count is not None or runs is not None:
            raise click.UsageError("--statements, --random and --runs are for an audit of the noise: add --dp")
        _audit_answers(policy_file, principal)
    from sqlanon.gateway.replay import audit_noise as noise
    from sqlanon.policy.files import load_serve

    serve = load_serve(policy_file)
    policy = serve.gateway
    asking = noise.asking_principal(policy) if principal is None else principal_of(policy, principal)
    asked = [*_from_log(serve, principal), *(_from_file(file, asking) if file is not None else ())]
    report = noise.audit_noise(
        policy, asked, runs=runs or noise.RUNS, count=noise.STATEMENTS if count is None else count, seed=seed,
        principal=asking,
    )  # fmt: skip
    for line in _lines(report, limit):
        click.echo(line)
    sys.exit(1 if report.failed else 0)


def _audit_answers(policy_file: str, principal: str | None) -> None:
    from sqlanon.gateway.audit_policy import audit_policy
    from sqlanon.gateway.controls.audit import lines

    report = audit_policy(load_policy(policy_file), principal)
    click.echo("\n".join(lines(report)))
    sys.exit(1 if report.exposures else 0)


def _from_log(serve: Serve, principal: str | None) -> Iterator[Asked]:
    """The shapes of the statements that a server answered with noise; there is no log where nothing was served."""
    from sqlanon.gateway.replay.audit_noise import Asked
    from sqlanon.gateway.replay.fill_shapes import shapes_of
    from sqlanon.server.audit_chain import recent

    known = serve.gateway.principals
    for shape, who in shapes_of(recent(serve.located_audit, principal, MOST_SHAPES)):
        if who in known and not known[who].controls:
            yield Asked(shape, who, "log", shape=True)


def _from_file(file: str, principal: str) -> Iterator[Asked]:
    from sqlanon.gateway.replay.audit_noise import Asked
    from sqlanon.gateway.replay.fill_shapes import split_statements

    found = split_statements(Path(file).read_text(encoding="utf-8"))
    if found is None:
        raise SourceError(f"the statements of {file} cannot be read", hint="close every quote and comment")
    yield from (Asked(sql, principal, "file") for sql in found)


def _lines(report: NoiseAudit, limit: int) -> Iterator[str]:
    from sqlanon.cli.tables import format_table, printable

    answered = [each for each in report.statements if each.shift is not None]
    refused = [each for each in report.statements if each.refused]
    broken = [each for each in report.statements if each.violations]
    origins = ", ".join(
        f"{sum(each.asked.origin == origin for each in report.statements)} of the {origin}"
        for origin in ("log", "file", "schema")
        if any(each.asked.origin == origin for each in report.statements)
    )
    yield f"{len(report.statements)} statements ({origins or 'none'}): {len(answered)} answered, {len(refused)} refused"
    yield (
        f"replayed with and without one person of made-up data, at most {report.rows} rows of a person; "
        f"{report.runs:,} noisy answers each"
    )
    order = sorted(answered, key=lambda each: (not each.violations, -each.proven))
    shown = [each for each in order if each.violations] + [each for each in order if not each.violations][:limit]
    if shown:
        yield ""
        yield format_table(
            ["statement", "largest shift", "reach", "epsilon proven", "claimed"],
            [
                [
                    (_short(printable(each.asked.sql)), False),
                    (f"{each.shift.moved:,}" if each.shift else "", True),
                    (f"{each.shift.reach:,}" if each.shift else "", True),
                    (f"{each.proven:.3f}", True),
                    (f"{each.claimed.epsilon:g}", True),
                ]
                for each in shown
            ],
        )
    for each in broken:
        yield ""
        yield f"VIOLATION in {printable(each.asked.sql)}"
        yield from (f"  {text}" for text in each.violations)
    for text in report.violations:
        yield f"VIOLATION: {text}"
    yield ""
    if report.failed:
        yield f"{len(broken) + len(report.violations)} violated; answer nothing until this is mended"
    elif not answered:
        yield "nothing was audited: no statement was answered"
    else:
        yield "no violation"


def _short(text: str, most: int = 70) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"

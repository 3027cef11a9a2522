"""`sqlanon check`: tell whether a table or a release meets its policy, and show the classes that break it."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from sqlanon import __version__
from sqlanon.cli.policy_options import database_to_read, policy_of, policy_of_release, policy_options, source_named
from sqlanon.cli.progress import progress_bar
from sqlanon.cli.statistics_tables import (
    check_argus_table,
    check_foreign_table,
    check_tables,
    read_statistics,
    refuse_options,
)
from sqlanon.cli.terminal import escape_markup, join_texts, make_table, open_console, plain_text, replace_infinities
from sqlanon.errors import PolicyError, number

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from sqlanon.evidence.checks import Evidence
    from sqlanon.evidence.loss import Loss
    from sqlanon.evidence.results import CheckResult
    from sqlanon.policy import Policy


MOST_COLUMNS = 8  # of a class, on a screen


@click.command()
@policy_options
@click.option("--release", help="Check this release (table or file) of the policy's source, and measure its loss.")
@click.option(
    "--limit",
    type=click.IntRange(0),
    default=5,
    show_default=True,
    help="Show at most this many broken classes for each model.",
)
@click.option("--cells", help="Columns that make the cells of a table of statistics, separated by commas.")
@click.option("--value", help="With --cells: column with the amounts, NULL where a cell is hidden.")
@click.option("--total", help="With --cells: what the sum over a column is called; 'Total' by default.")
@click.option(
    "--hierarchy",
    "hierarchies",
    multiple=True,
    metavar="COLUMN=FILE",
    help="With --cells: what the labels of a column add up to, a hierarchy file (.csv or .hrc). May be repeated.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@click.option("--memory-limit", help="Most memory that DuckDB may use, such as 1GB; it spills to disk beyond that.")
def check(
    target: str,
    table: str | None,
    release: str | None,
    limit: int,
    cells: str | None,
    value: str | None,
    total: str | None,
    hierarchies: tuple[str, ...],
    as_json: bool,
    memory_limit: str | None,
    **options: Any,
) -> None:
    """Tell whether a table meets its privacy requirements, which classes break them, and how badly.

    TARGET is a policy file, a file of rows or a folder of them, a DuckDB file, or a postgresql:// URL; with a database,
    TABLE names the table in it. A table that was published is checked under the policy of its release, if no option
    asks for something else. Only classes are shown, never the rows of persons.

    Of tables of statistics it tells whether an unsafe cell can be computed from what is shown. With --cells and
    --value, TABLE is one that somebody else made: it tells how many of its hidden cells can be computed. TARGET may
    also be the description of a table of tau-Argus, a file that ends in .rda.
    """
    from sqlanon.engines import connect
    from sqlanon.evidence.checks import check as measure

    if (tables := read_statistics(target)) is not None:
        refuse_options({"cells": cells, "value": value, "total": total, "hierarchy": hierarchies, **options})
        check_tables(*tables, release=release, as_json=as_json, memory_limit=memory_limit)
    if target.lower().endswith(".rda"):
        refuse_options({"release": release, "cells": cells, "value": value, "total": total, **options})
        refuse_options({"hierarchy": hierarchies})
        check_argus_table(target, as_json=as_json)
    if cells is not None or value is not None or total is not None or hierarchies:
        refuse_options({"release": release, **options})
        check_foreign_table(target, table, cells, value, total, hierarchies, as_json=as_json, memory_limit=memory_limit)
    policy, url, release = policy_of_release(target, table, release, options) or (
        *policy_of(target, table, options),
        release,
    )
    engine = connect(database_to_read(policy, url), memory_limit=memory_limit)
    try:
        source = source_named(release) if release else None
        with progress_bar() as progress:
            told = (lambda done, total: progress("measuring", done, total)) if progress else None
            secret = os.environ.get("SQLANON_KEY")
            found = measure(policy, engine, release=source, limit=limit, progress=told, secret=secret)
        lost, why = _loss(policy, engine, source) if source else (None, None)
    finally:
        engine.close()
    if as_json:
        click.echo(json.dumps(_as_json(policy, found, lost, release), indent=2, ensure_ascii=False))
    else:
        print_evidence(policy, found, lost, release=release, no_loss=why)
    sys.exit(0 if found.holds else 1)


def _loss(policy: Any, engine: Any, source: Any) -> tuple[Any, str | None]:
    """The loss of a release, or why it cannot be measured: that is no reason to withhold the verdict."""
    from sqlanon.evidence.loss import loss
    from sqlanon.policy.person_shapes import ENTITY, ROWS
    from sqlanon.relations.bucketization import parts_rows

    if policy.shape not in (ROWS, ENTITY):
        return None, "the loss was not measured: the evidence of the release tells it"
    if parts_rows(policy):
        return None, None  # quasi-identifiers are shown as they are
    if policy.transformations:
        return None, "the loss was not measured: values of the release were changed by transformations"
    try:
        return loss(policy, engine, source), None
    except PolicyError as error:
        return None, f"the loss was not measured: {error.message}"


def _as_json(policy: Any, found: Any, lost: Any, release: str | None) -> Any:
    result = {
        "sqlanon": __version__,
        "policy": policy.name,
        "source": policy.source.text,
        "release": release,
        "holds": found.holds,
        **asdict(found),
        "loss": asdict(lost) if lost else None,
    }
    result["checks"] = [{"holds": item.holds, **asdict(item)} for item in found.checks]
    if found.linked is not None:
        told = {"holds": found.linked.holds, "said": found.linked.said, "problems": found.linked.problems}
        result["linked"] = {**told, **asdict(found.linked)}
    return replace_infinities(result)


def format_params(params: Mapping[str, Any]) -> str:
    shown = {key: value for key, value in params.items() if not isinstance(value, dict | list)}
    return ", ".join(f"{key}={value}" for key, value in shown.items()) + (" …" if len(shown) < len(params) else "")


def print_evidence(
    policy: Policy,
    found: Evidence,
    lost: Loss | None = None,
    *,
    release: str | None = None,
    no_loss: str | None = None,
) -> None:
    console = open_console()
    source = policy.source
    what = release or source.path or source.table or source.view or "the query"
    heading = plain_text(f"{what}: {found.records:,} rows")
    if found.suppressed:
        heading.append(f", and {found.suppressed:,} suppressed rows that form a class of their own")
    console.print(heading)
    for breach in found.breaches:
        console.print(join_texts(("BROKEN", "red"), "  ", (breach, "bold")), soft_wrap=True)
    for result in found.checks:
        _print_verdict(console, result, found.records, persons=found.counts == "persons")
    if found.linked is not None:
        print_linked(console, found.linked.said, found.linked.uniqueness, found.linked.problems, found.linked.accepted)
    for result in found.checks:
        if result.violations:
            console.print()
            console.print(_classes(result))
    if lost:
        console.print()
        console.print(_losses(lost))
    console.print()
    for note in (*found.notes, *([no_loss] if no_loss else [])):
        console.print(plain_text(f"note: {note}", style="yellow"))
    broken = sum(not result.holds for result in found.checks)
    if broken:
        console.print(f"[bold red]{broken} of {len(found.checks)} requirements are broken[/]")
    elif found.breaches:
        console.print("[bold red]the table as a whole is not fit for release[/]")
    elif not found.holds:
        from sqlanon.evidence.linked_rows import HINT

        console.print("[bold red]single rows hold, the sets of rows of persons do not[/]")
        console.print(plain_text(f"hint: {HINT}"), soft_wrap=True)
    else:
        console.print(f"[bold green]all {len(found.checks)} requirements hold[/]")


def print_linked(console: Console, said: str, uniqueness: str, problems: Sequence[str], accepted: bool) -> None:
    """What the sets of rows of persons tell, where rows of a person are linked."""
    verdict, style = ("accepts", "yellow") if accepted else ("BROKEN ", "red")
    verdict, style = (verdict, style) if problems else ("holds  ", "green")
    console.print(join_texts((verdict, style), " ", (said, "bold")), soft_wrap=True)
    allowed = ["the policy accepts it: linked_rows: accept"] if problems and accepted else []
    for line in (uniqueness, *problems, *allowed):
        console.print(plain_text(f"        {line}", style="dim"), soft_wrap=True)


def _print_verdict(console: Console, result: CheckResult, records: int, *, persons: bool) -> None:
    verdict = "[green]holds [/]" if result.holds else "[red]BROKEN[/]"
    of = f" of {result.attribute}" if result.attribute else ""
    of += f" {result.asks}" if result.asks else ""
    given = f", {format_params(result.params)}" if result.params else ""
    console.print(f"{verdict}  [bold]{escape_markup(result.model)}[/]{escape_markup(of + given)}", soft_wrap=True)
    if result.measured is None:
        console.print("        there is no row to measure")
        return
    more = len(result.qid) - MOST_COLUMNS
    shown = ", ".join(result.qid[:MOST_COLUMNS]) + (f" and {more} more" if more > 0 else "")
    where = f"on {shown}" if result.qid else ""
    plural = f"{result.unit}es" if result.unit.endswith("s") else f"{result.unit}s"
    worst = f"worst {result.unit} {number(result.measured)}"
    share = f" ({result.broken_records / records:.1%})" if records and result.broken_records and not persons else ""
    unit = "persons" if persons else "rows"
    rows = f", {result.broken_records:,} {unit}{share}" if result.broken_records else ""
    broken = f"{result.broken_classes:,} of {result.classes:,} {plural} broken{rows}"
    console.print(plain_text(f"        {worst}; {broken}; {where}", style="dim"), soft_wrap=True)


def _classes(result: CheckResult) -> Table:
    of = f" of {result.attribute}" if result.attribute else ""
    given = f", {format_params(result.params)}" if result.params else ""
    more = result.broken_classes - len(result.violations)
    several = " of several records" if result.attribute and result.unit == "class" else ""
    what = "broken classes" if result.unit == "class" else f"minimal {result.unit}s that break it"
    title = f"{result.model}{of}{given}: the worst {what}{several}"
    table = make_table(escape_markup(title))
    shown = list(result.violations[0].columns)[:MOST_COLUMNS]
    for name in shown:
        table.add_column(escape_markup(name), overflow="fold")
    if len(shown) < len(result.violations[0].columns):
        table.add_column("…")
    table.add_column("records" if result.unit == "class" else "persons", justify="right")
    measures = result.measures.split(";")[0]
    own = measures not in ("records in the class", "persons with the items")
    if own:
        table.add_column(escape_markup(measures), justify="right")
    for item in result.violations:
        cells = [_cell(item.columns[name]) for name in shown]
        if len(shown) < len(item.columns):
            cells.append(plain_text("…"))
        cells.append(plain_text(f"{item.records:,}"))
        if own:
            cells.append(plain_text(number(item.measured)))
        table.add_row(*cells)
    if more > 0:
        table.caption = f"… and {more:,} more broken"
        table.caption_justify = "left"
    return table


def _cell(value: str | None) -> Text:
    return plain_text("NULL", style="dim") if value is None else plain_text(value)


def _losses(lost: Loss) -> Table:
    from sqlanon.families import family

    title = f"loss against the source: {lost.suppressed:,} of {lost.records:,} rows suppressed"
    table = make_table(title)
    table.add_column("metric")
    table.add_column("loss", justify="right")
    table.add_column("what it measures")
    for name, value in lost.metrics.items():
        table.add_row(name, number(value), family("loss")[name].measures.split(";")[0])
    for name, value in lost.by_attribute.items():
        level = "by region" if lost.by_region else "not generalized"
        level = f"level {lost.levels[name]}" if name in lost.levels else level
        table.add_row(escape_markup(f"  ncp of {name}"), number(value), level)
    return table

"""`sqlanon publish`: write the release with the least loss that meets its policy, and show why it is the one."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sqlanon.cli.policy_options import open_database, policy_of
from sqlanon.cli.progress import progress_bar
from sqlanon.cli.statistics_tables import publish_tables, read_statistics, refuse_options
from sqlanon.cli.terminal import escape_markup, join_texts, make_table, open_console, plain_text, replace_infinities
from sqlanon.errors import PolicyError, number

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from sqlanon.lattice.solution import Way


@click.command()
@click.argument("policy_file", metavar="POLICY")
@click.option("--dry-run", is_flag=True, help="Search, show the plan and its loss, and write nothing.")
@click.option(
    "--explain", "explained", is_flag=True, help="Explain the level of each column, with the next candidates."
)
@click.option(
    "--time-limit",
    type=click.FloatRange(min=0, min_open=True),
    help="Seconds for the search; one that proves its result takes a minute by default.",
)
@click.option("--plan", "plan_file", type=click.Path(dir_okay=False, path_type=Path), help="Write the plan as JSON.")
@click.option("--report", "report_file", type=click.Path(dir_okay=False, path_type=Path), help="Write the HTML report.")
@click.option("--no-workload", is_flag=True, help="Do not measure the error of random counts: saves a few seconds.")
@click.option("--no-advice", is_flag=True, help="Do not look for a better algorithm: saves a few seconds.")
@click.option("--json", "as_json", is_flag=True, help="Print the evidence as JSON.")
@click.option("--memory-limit", help="Most memory that DuckDB may use, such as 1GB; it spills to disk beyond that.")
def publish(
    policy_file: str,
    dry_run: bool,
    explained: bool,
    time_limit: float | None,
    plan_file: Path | None,
    report_file: Path | None,
    no_workload: bool,
    no_advice: bool,
    as_json: bool,
    memory_limit: str | None,
) -> None:
    """Find the anonymization with the least loss, write the release, check it as written, and swap it in.

    POLICY is a policy file that names its release. If anything fails, the previous release stays as it was.
    Pseudonyms and random transformations take their key from the environment variable SQLANON_KEY.
    """
    from sqlanon.release import publish as run

    for file in (plan_file, report_file):
        if file is not None and not file.parent.is_dir():  # better now than when the release is out
            raise PolicyError(f"there is no folder '{file.parent}'", hint=f"create it first, for '{file.name}'")
    if (tables := read_statistics(policy_file)) is not None:
        refuse_options({"explain": explained, "time_limit": time_limit, "report": report_file})
        publish_tables(*tables, dry_run=dry_run, plan_file=plan_file, as_json=as_json, memory_limit=memory_limit)
        return
    policy, url = policy_of(policy_file, None, {})
    writes = not dry_run and policy.release is not None and policy.release.path is None
    with open_database(policy, url, writes=writes, memory_limit=memory_limit) as engine, progress_bar() as progress:
        done = run(
            policy,
            engine,
            dry_run=dry_run,
            time_limit=time_limit,
            secret=os.environ.get("SQLANON_KEY"),
            workload=not no_workload,
            progress=progress,
            advice=not no_advice,
        )
    if plan_file:
        plan_file.write_text(done.plan.to_json() + "\n", encoding="utf-8")
    if report_file:
        from sqlanon.report import render

        report_file.write_text(render(done.document), encoding="utf-8")
    if as_json:
        click.echo(json.dumps(replace_infinities(done.document), indent=2, ensure_ascii=False))
    else:
        print_published(done.document, explain=explained, ways=done.ways, advice=done.advice)
        if done.document.get("release") and policy.shape == "rows" and sys.stdout.isatty():
            _print_next(policy_file)


def _print_next(policy_file: str) -> None:
    """What to do with a release that was just made; only people need to be told."""
    file = shlex.quote(policy_file)
    told = f"next: sqlanon report {file} -o report.html (to sign off), sqlanon attack {file}, sqlanon verdict {file}"
    open_console().print(plain_text(told, style="dim"), soft_wrap=True)


def print_published(
    document: Mapping[str, Any], *, explain: bool = False, ways: Sequence[Way] = (), advice: Sequence[str] = ()
) -> None:
    console = open_console()
    release = document.get("release")
    rows, gone = document["released"], document["suppressed"]
    share = gone / document["records"] if document["records"] else 0
    where = f"{release['kind']} {release['name']}" if release else "dry run"
    console.print(
        plain_text(
            f"{where}: {rows:,} of {document['records']:,} rows, {gone:,} suppressed ({share:.2%})", style="bold"
        )
    )
    for check in document.get("checks", ()):
        _print_check(console, check, _unit(document))
    if "found_by_values" in document:
        console.print(plain_text(f"note: {document['found_by_values']['said']}", style="yellow"), soft_wrap=True)
    if "linked_rows" in document:
        _print_linked(console, document["linked_rows"])
    if "history" in document:
        _print_history(console, document["history"])
    plan = document["plan"]
    if "groups" in document:
        _print_groups(console, document)
    elif "items" in document:
        _print_items(console, document)
    else:
        if "entities" in document:
            _print_entities(console, document)
        console.print()
        console.print(_attributes(document))
        console.print()
        metric = document["minimize"]
        proven = "proven optimal" if plan["proven"] else "not proven optimal"
        console.print(plain_text(f"{metric} {number(plan['loss'])}, {proven}: {plan['why']}"), soft_wrap=True)
        if len(ways) > 1:
            console.print(_ways(ways))
    console.print(plain_text(f"plan {document['plan_hash'][:16]}", style="dim"))
    for line in advice:
        console.print(plain_text(f"advice: {line}", style="yellow"), soft_wrap=True)
    if explain:
        _print_explanation(console, document)
    linked = document.get("linked_rows", {})
    if release and linked.get("problems"):
        console.print(
            "[bold yellow]published: every requirement holds for single rows, not for the sets of rows of persons[/]"
        )
    elif release:
        console.print("[bold green]published: every requirement holds in the release as written[/]")
    else:
        console.print("[bold]nothing was written[/]")


def _unit(document: Mapping[str, Any]) -> str:
    """What is measured one by one."""
    if "items" not in document:
        return "classes"
    return "groups" if "groups" in document["items"] and "private_items" in document["items"] else "sets"


def _print_check(console: Console, check: Mapping[str, Any], what: str = "classes") -> None:
    of = f" of {check['attribute']}" if check["attribute"] else ""
    of += f" {check['asks']}" if check.get("asks") else ""
    verdict = "[green]holds [/]" if check["holds"] else "[red]BROKEN[/]"
    measured = f"worst of {check['classes']:,} {what} {number(check['measured'])}, required {number(check['required'])}"
    named = escape_markup(check["model"] + of)
    console.print(f"{verdict}  [bold]{named}[/]  [dim]{escape_markup(measured)}[/]", soft_wrap=True)


def _print_linked(console: Console, linked: Mapping[str, Any]) -> None:
    """What the sets of rows of persons tell; a release that was written either keeps them alike, or was accepted."""
    verdict, style = ("accepts", "yellow") if linked["problems"] else ("holds  ", "green")
    console.print(join_texts((verdict, style), " ", (linked["said"], "bold")), soft_wrap=True)
    for line in (linked["uniqueness"], *linked["problems"]):
        console.print(plain_text(f"        {line}", style="dim"), soft_wrap=True)


def _print_history(console: Console, history: Mapping[str, Any]) -> None:
    """What was found beside the earlier releases."""
    for item in history["models"]:
        of = f" of {item['attribute']}" if item["attribute"] else ""
        verdict = "[green]holds [/]" if item["holds"] else "[red]BROKEN[/]"
        params = ", ".join(f"{key} {value}" for key, value in item["params"].items())
        measured = f"worst of {item['compared']:,} sets {number(item['measured'])}, required {params}"
        console.print(f"{verdict}  [bold]{escape_markup(item['model'] + of)}[/]  [dim]{escape_markup(measured)}[/]")
    console.print(f"version {history['version']}; {history['held_back']:,} rows held back for a later release")


def _print_groups(console: Console, document: Mapping[str, Any]) -> None:
    """What belongs to a release whose rows were parted."""
    plan = document["plan"]
    for name, kind in document.get("release", {}).get("companions", {}).items():
        console.print(plain_text(f"with the {kind} {name}"))
    console.print(plain_text(f"{plan['algorithm']}: {plan['why']}"), soft_wrap=True)


def _print_items(console: Console, document: Mapping[str, Any]) -> None:
    """How persons are shown as sets of items."""
    plan, items = document["plan"], document["items"]
    gone = items["suppressed_persons"]
    console.print(
        plain_text(f"{items['released_persons']:,} of {items['persons']:,} persons, {gone:,} left without an item")
    )
    console.print(plain_text(f"{items['different']:,} different items, shown as {items['labels']:,} labels"))
    console.print(plain_text(f"ncp {number(plan['loss'])}; {plan['algorithm']}: {plan['why']}"), soft_wrap=True)
    if "frequent_itemsets" in items:
        kept, of = items["frequent_itemsets_kept"], items["frequent_itemsets"]
        told = f"{kept:,} of the {of:,} most frequent itemsets still are; "
        told += f"numbers of persons with two items are off by {number(items['relative_error'])} on average"
        console.print(plain_text(told), soft_wrap=True)
    for name, kind in document.get("release", {}).get("companions", {}).items():
        console.print(plain_text(f"with the {kind} {name}"))


def _print_entities(console: Console, document: Mapping[str, Any]) -> None:
    """How many persons are shown with all their rows, and in which tables."""
    entities = document["entities"]
    gone = entities["suppressed_persons"]
    shown = f"{entities['persons'] - gone:,} of {entities['persons']:,} persons"
    console.print(plain_text(f"{shown}, {gone:,} suppressed with all their rows"))
    for name, kind in document.get("release", {}).get("companions", {}).items():
        console.print(plain_text(f"with the {kind} {name}"))


def _attributes(document: Mapping[str, Any]) -> Table:
    table = make_table()
    table.add_column("quasi-identifier")
    table.add_column("level", justify="right")
    table.add_column("hierarchy")
    table.add_column("ncp", justify="right")
    for item in document["attributes"]:
        levels = ", ".join(str(level) for level in item["levels"]) or "by region"
        loss = "-" if item["loss"] is None else number(item["loss"])
        table.add_row(escape_markup(item["name"]), f"{levels} of {item['height']}", escape_markup(item["what"]), loss)
    return table


def _ways(ways: Sequence[Way]) -> Table:
    """The algorithms that were tried, with what they lose and what readers get."""
    table = make_table("ways that were tried, at the same privacy")
    table.add_column("algorithm")
    table.add_column("ncp", justify="right")
    table.add_column("suppressed", justify="right")
    table.add_column("what readers get", overflow="fold")
    for way in ways:
        params = ", ".join(f"{key}: {json.dumps(value)}" for key, value in way.params.items())
        loss = "-" if way.loss is None else number(way.loss)
        gone = "-" if way.loss is None else f"{way.suppressed:,}"
        gets = way.why if way.loss is None else way.labels
        table.add_row(f"{way.algorithm} ({params})" if params else way.algorithm, loss, gone, escape_markup(gets))
    return table


def _print_explanation(console: Console, document: Mapping[str, Any]) -> None:
    """Why each attribute went to its level: the nearest nodes that generalize less fail or lose more."""
    chosen = document["plan"].get("levels")
    if not chosen:
        console.print("this algorithm recodes locally: there is no level for a whole column to explain")
        return
    console.print()
    table = make_table("candidates")
    for name in chosen:
        table.add_column(escape_markup(name), justify="right")
    table.add_column(document["minimize"], justify="right")
    table.add_column("suppressed", justify="right")
    table.add_column("verdict")
    for item in document["candidates"]:
        marks = [f"{level}" if level == chosen[name] else f"[bold]{level}[/]" for name, level in item["levels"].items()]
        verdict = (
            "chosen" if item["levels"] == chosen else "holds, loses more" if item["holds"] else "too many rows lost"
        )
        # Of a node that fails, a search often knows only what it would lose if no row had to be suppressed.
        loss = number(item["loss"]) if item["holds"] else f"≥ {number(item['loss'])}"
        table.add_row(*marks, loss, f"{item['suppressed']:,}", verdict)
    console.print(table)
    for name, level in chosen.items():
        console.print(plain_text(f"{name}: {_why(document, name, level)}"), soft_wrap=True)
    console.print()


def _why(document: Mapping[str, Any], name: str, level: int) -> str:
    less = [item for item in document["candidates"] if item["levels"][name] < level]
    if level == 0:
        return "shown as it is"
    if not less:
        return f"level {level}: no candidate that shows more was near"
    best = min(less, key=lambda item: (not item["holds"], item["loss"]))
    what = f"level {best['levels'][name]}"
    if not best["holds"]:
        return f"level {level}: with {what}, {best['suppressed']:,} rows would have to be suppressed"
    return f"level {level}: the best with {what} loses {number(best['loss'])}"

"""What `sqlanon publish` prints for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from sqlanon.errors import number


def print_published(document: Mapping[str, Any], *, explain: bool = False) -> None:
    console = Console(highlight=False)
    release = document.get("release")
    rows, gone = document["released"], document["suppressed"]
    share = gone / document["records"] if document["records"] else 0
    where = f"{release['kind']} {release['name']}" if release else "dry run"
    console.print(
        Text(f"{where}: {rows:,} of {document['records']:,} rows, {gone:,} suppressed ({share:.2%})", style="bold")
    )
    for check in document.get("checks", ()):
        _print_check(console, check)
    if "found_by_values" in document:
        console.print(Text(f"note: {document['found_by_values']['said']}", style="yellow"), soft_wrap=True)
    if "linked_rows" in document:
        _print_linked(console, document["linked_rows"])
    if "history" in document:
        _print_history(console, document["history"])
    plan = document["plan"]
    if "groups" in document:
        _print_groups(console, document)
    else:
        console.print()
        console.print(_attributes(document))
        console.print()
        metric = document["minimize"]
        proven = "proven optimal" if plan["proven"] else "not proven optimal"
        console.print(Text(f"{metric} {number(plan['loss'])}, {proven}: {plan['why']}"), soft_wrap=True)
    console.print(Text(f"plan {document['plan_hash'][:16]}", style="dim"))
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


def _print_check(console: Console, check: Mapping[str, Any]) -> None:
    of = f" of {check['attribute']}" if check["attribute"] else ""
    verdict = "[green]holds [/]" if check["holds"] else "[red]BROKEN[/]"
    measured = (
        f"worst of {check['classes']:,} classes {number(check['measured'])}, required {number(check['required'])}"
    )
    console.print(f"{verdict}  [bold]{escape(check['model'] + of)}[/]  [dim]{escape(measured)}[/]")


def _print_linked(console: Console, linked: Mapping[str, Any]) -> None:
    """What the sets of rows of persons tell; a release that was written either keeps them alike, or was accepted."""
    verdict, style = ("accepts", "yellow") if linked["problems"] else ("holds  ", "green")
    console.print(Text.assemble((verdict, style), " ", (linked["said"], "bold")), soft_wrap=True)
    for line in (linked["uniqueness"], *linked["problems"]):
        console.print(Text(f"        {line}", style="dim"), soft_wrap=True)


def _print_history(console: Console, history: Mapping[str, Any]) -> None:
    """What was found beside the earlier releases."""
    for item in history["models"]:
        of = f" of {item['attribute']}" if item["attribute"] else ""
        verdict = "[green]holds [/]" if item["holds"] else "[red]BROKEN[/]"
        params = ", ".join(f"{key} {value}" for key, value in item["params"].items())
        measured = f"worst of {item['compared']:,} sets {number(item['measured'])}, required {params}"
        console.print(f"{verdict}  [bold]{escape(item['model'] + of)}[/]  [dim]{escape(measured)}[/]")
    console.print(f"version {history['version']}; {history['held_back']:,} rows held back for a later release")


def _print_groups(console: Console, document: Mapping[str, Any]) -> None:
    """What belongs to a release whose rows were parted."""
    plan = document["plan"]
    for name, kind in document.get("release", {}).get("companions", {}).items():
        console.print(Text(f"with the {kind} {name}"))
    console.print(Text(f"{plan['algorithm']}: {plan['why']}"), soft_wrap=True)


def _attributes(document: Mapping[str, Any]) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("quasi-identifier")
    table.add_column("level", justify="right")
    table.add_column("hierarchy")
    table.add_column("ncp", justify="right")
    for item in document["attributes"]:
        levels = ", ".join(str(level) for level in item["levels"]) or "by region"
        loss = "-" if item["loss"] is None else number(item["loss"])
        table.add_row(escape(item["name"]), f"{levels} of {item['height']}", escape(item["what"]), loss)
    return table


def _print_explanation(console: Console, document: Mapping[str, Any]) -> None:
    """Why each attribute went to its level: the nearest nodes that generalize less fail or lose more."""
    chosen = document["plan"].get("levels")
    if not chosen:
        console.print("this algorithm recodes locally: there is no level for a whole column to explain")
        return
    console.print()
    table = Table(box=None, pad_edge=False, title="candidates", title_justify="left", title_style="bold")
    for name in chosen:
        table.add_column(escape(name), justify="right")
    table.add_column(document["minimize"], justify="right")
    table.add_column("suppressed", justify="right")
    table.add_column("verdict")
    for item in document["candidates"]:
        marks = [f"{level}" if level == chosen[name] else f"[bold]{level}[/]" for name, level in item["levels"].items()]
        verdict = (
            "chosen" if item["levels"] == chosen else "holds, loses more" if item["holds"] else "too many rows lost"
        )
        table.add_row(*marks, number(item["loss"]), f"{item['suppressed']:,}", verdict)
    console.print(table)
    for name, level in chosen.items():
        console.print(Text(f"{name}: {_why(document, name, level)}"), soft_wrap=True)
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

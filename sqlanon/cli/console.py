"""What the command line prints for people, with rich."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from sqlanon import algorithms, hierarchies, transformations
from sqlanon.errors import PolicyError, did_you_mean, number
from sqlanon.evidence.checks import Evidence
from sqlanon.evidence.linked_rows import HINT
from sqlanon.evidence.loss import Loss
from sqlanon.evidence.results import CheckResult
from sqlanon.families import Plugin, family
from sqlanon.policy import Policy

MOST_COLUMNS = 8  # of a class, on a screen
FAMILIES = {"models": "privacy model", "loss": "loss metric", "history": "privacy model across releases"}
FAMILIES |= {"risk": "risk measure", "attacks": "attack", "utility": "measure of utility"}


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
    console = Console(highlight=False)
    source = policy.source
    what = release or source.path or source.table or source.view or "the query"
    heading = Text(f"{what}: {found.records:,} rows")
    if found.suppressed:
        heading.append(f", and {found.suppressed:,} suppressed rows that form a class of their own")
    console.print(heading)
    for breach in found.breaches:
        console.print(Text.assemble(("BROKEN", "red"), "  ", (breach, "bold")), soft_wrap=True)
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
        console.print(Text(f"note: {note}", style="yellow"))
    broken = sum(not result.holds for result in found.checks)
    if broken:
        console.print(f"[bold red]{broken} of {len(found.checks)} requirements are broken[/]")
    elif found.breaches:
        console.print("[bold red]the table as a whole is not fit for release[/]")
    elif not found.holds:
        console.print("[bold red]single rows hold, the sets of rows of persons do not[/]")
        console.print(Text(f"hint: {HINT}"), soft_wrap=True)
    else:
        console.print(f"[bold green]all {len(found.checks)} requirements hold[/]")


def print_linked(console: Console, said: str, uniqueness: str, problems: Sequence[str], accepted: bool) -> None:
    """What the sets of rows of persons tell, where rows of a person are linked."""
    verdict, style = ("accepts", "yellow") if accepted else ("BROKEN ", "red")
    verdict, style = (verdict, style) if problems else ("holds  ", "green")
    console.print(Text.assemble((verdict, style), " ", (said, "bold")), soft_wrap=True)
    allowed = ["the policy accepts it: linked_rows: accept"] if problems and accepted else []
    for line in (uniqueness, *problems, *allowed):
        console.print(Text(f"        {line}", style="dim"), soft_wrap=True)


def _print_verdict(console: Console, result: CheckResult, records: int, *, persons: bool) -> None:
    verdict = "[green]holds [/]" if result.holds else "[red]BROKEN[/]"
    of = f" of {result.attribute}" if result.attribute else ""
    given = f", {format_params(result.params)}" if result.params else ""
    console.print(f"{verdict}  [bold]{escape(result.model)}[/]{escape(of + given)}")
    if result.measured is None:
        console.print("        there is no row to measure")
        return
    more = len(result.qid) - MOST_COLUMNS
    shown = ", ".join(result.qid[:MOST_COLUMNS]) + (f" and {more} more" if more > 0 else "")
    where = f"on {shown}" if result.qid else ""
    worst = f"worst class {number(result.measured)}"
    share = f" ({result.broken_records / records:.1%})" if records and result.broken_records and not persons else ""
    unit = "persons" if persons else "rows"
    rows = f", {result.broken_records:,} {unit}{share}" if result.broken_records else ""
    broken = f"{result.broken_classes:,} of {result.classes:,} classes broken{rows}"
    console.print(Text(f"        {worst}; {broken}; {where}", style="dim"), soft_wrap=True)


def _classes(result: CheckResult) -> Table:
    of = f" of {result.attribute}" if result.attribute else ""
    given = f", {format_params(result.params)}" if result.params else ""
    more = result.broken_classes - len(result.violations)
    several = " of several records" if result.attribute else ""
    title = f"{result.model}{of}{given}: the worst broken classes{several}"
    table = Table(box=None, pad_edge=False, title=escape(title), title_justify="left", title_style="bold")
    shown = list(result.violations[0].columns)[:MOST_COLUMNS]
    for name in shown:
        table.add_column(escape(name), overflow="fold")
    if len(shown) < len(result.violations[0].columns):
        table.add_column("…")
    table.add_column("records", justify="right")
    measures = result.measures.split(";")[0]
    if measures != "records in the class":
        table.add_column(escape(measures), justify="right")
    for item in result.violations:
        cells = [_cell(item.columns[name]) for name in shown]
        if len(shown) < len(item.columns):
            cells.append(Text("…"))
        cells.append(Text(f"{item.records:,}"))
        if measures != "records in the class":
            cells.append(Text(number(item.measured)))
        table.add_row(*cells)
    if more > 0:
        table.caption = f"… and {more:,} more broken"
        table.caption_justify = "left"
    return table


def _cell(value: str | None) -> Text:
    return Text("NULL", style="dim") if value is None else Text(value)


def _losses(lost: Loss) -> Table:
    title = f"loss against the source: {lost.suppressed:,} of {lost.records:,} rows suppressed"
    table = Table(box=None, pad_edge=False, title=title, title_justify="left", title_style="bold")
    table.add_column("metric")
    table.add_column("loss", justify="right")
    table.add_column("what it measures")
    for name, value in lost.metrics.items():
        table.add_row(name, number(value), family("loss")[name].measures.split(";")[0])
    for name, value in lost.by_attribute.items():
        level = f"level {lost.levels[name]}" if name in lost.levels else "not generalized"
        table.add_row(escape(f"  ncp of {name}"), number(value), level)
    return table


def catalogue() -> dict[str, list[dict[str, Any]]]:
    """Everything that a policy can name, as data."""
    found: dict[str, list[dict[str, Any]]] = {
        folder: [
            {
                "name": plugin.name,
                "summary": plugin.summary,
                "params": [param.name for param in plugin.params],
                "needs": list(plugin.needs),
            }
            for plugin in family(folder).values()
        ]
        for folder in FAMILIES
    }
    found["hierarchies"] = [
        {"name": name, "summary": _first_line(module.__doc__), "params": _parameter_names(module)}
        for name, module in ((name, hierarchies.kind(name)) for name in hierarchies.names())
    ]
    found["algorithms"] = [
        {"name": name, "summary": _first_paragraph(module.__doc__), "params": _parameter_names(module)}
        for name, module in ((name, algorithms.algorithm(name)) for name in algorithms.names())
    ]
    found["transformations"] = [
        {"name": name, "summary": _first_line(module.__doc__), "params": _parameter_names(module)}
        for name, module in ((name, transformations.method(name)) for name in transformations.names())
    ]
    return found


def _parameter_names(module: Any) -> list[str]:
    """As a policy writes them: a field may have another name in Python."""
    return list(module.Params.model_json_schema().get("properties", {}))


def _first_paragraph(text: str | None) -> str:
    return " ".join((text or "").strip().split("\n\n")[0].split())


def _first_line(text: str | None) -> str:
    return (text or "").strip().splitlines()[0] if text else ""


def print_catalogue() -> None:
    console = Console(highlight=False)
    titles = {"models": "Privacy models", "loss": "Loss metrics", "hierarchies": "Kinds of hierarchy"}
    titles |= {"algorithms": "Algorithms", "transformations": "Transformations"}
    titles["history"] = "Privacy models across releases"
    titles |= {"risk": "Risk measures", "attacks": "Attacks", "utility": "Measures of utility"}
    for folder, entries in catalogue().items():
        console.print(f"[bold]{titles[folder]}[/]")
        for entry in entries:
            console.print(
                f"  [bold]{entry['name']}[/] {escape('(' + ', '.join(entry['params']) + ')')}", soft_wrap=True
            )
            sentence = entry["summary"].split(". ")[0].rstrip(".")
            console.print(Padding(Text(sentence, style="dim"), (0, 0, 0, 6)))
        console.print()
    console.print("'sqlanon explain NAME' shows one of them in full.")


def explain(name: str | None) -> None:
    """Print the manual page of a plug-in."""
    console = Console(highlight=False)
    known = [*(name for folder in FAMILIES for name in family(folder)), *hierarchies.names(), *algorithms.names()]
    known += transformations.names()
    if name is None or name not in known:
        every = "model, metric, hierarchy, transformation or algorithm"
        message = "explain what?" if name is None else f"there is no {every} called '{name}'"
        hint = did_you_mean(name, known) if name else None
        raise PolicyError(message, hint=hint or "'sqlanon models' lists all of them")
    for folder, kind in FAMILIES.items():
        if name in family(folder):
            _explain_plugin(console, family(folder)[name], kind)
            return
    module: ModuleType | algorithms.Algorithm
    if name in hierarchies.names():
        module, kind = hierarchies.kind(name), "a kind of hierarchy"
    elif name in transformations.names():
        module, kind = transformations.method(name), "a transformation"
    else:
        module, kind = algorithms.algorithm(name), "an algorithm"
    console.print(f"[bold]{name}[/], {kind}\n")
    console.print(Text((module.__doc__ or "").strip()), soft_wrap=True)
    _explain_fields(console, module.Params.model_json_schema().get("properties", {}))


def _explain_fields(console: Console, fields: Mapping[str, Any]) -> None:
    if fields:
        console.print("\n[bold]parameters[/]")
    for key, field in fields.items():
        default = f" (default {json.dumps(field['default'])})" if "default" in field else ""
        console.print(Text(f"  {key}{default}: {field.get('description', '')}"))


def _explain_plugin(console: Console, plugin: Plugin, kind: str) -> None:
    console.print(f"[bold]{plugin.name}[/], {'an' if kind == 'attack' else 'a'} {kind}\n")
    console.print(Text(plugin.summary))
    console.print(Text(f"\ndefined in: {plugin.cite}\nmeasures: {plugin.measures}"))
    if plugin.monotone:
        console.print(Text(f"monotone: {plugin.monotone}"))
    if plugin.needs:
        console.print(Text(f"needs: {', '.join(plugin.needs)}"))
    if plugin.params:
        console.print("\n[bold]parameters[/]")
    for param in plugin.params:
        bound = f" {param.bound_text()}" if param.bounds else ""
        optional = "" if param.required else ", optional"
        console.print(Text(f"  {param.name} ({param.type}{bound}{optional}): {param.meaning}"))
    if plugin.family == "models":
        console.print("\n[bold]in a policy[/]")
        values = ", ".join(f"{param.name}: …" for param in plugin.params if param.required)
        console.print(Text(f"  models:\n    - {plugin.name}: {{{values}}}"))
    console.print("\n[bold]SQL[/]")
    console.print(Text(plugin.sql), soft_wrap=True)

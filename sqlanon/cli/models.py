"""`sqlanon models`: list everything that a policy can name."""

from __future__ import annotations

import json
from typing import Any

import click

from sqlanon.cli.terminal import escape_markup, open_console, plain_text

FAMILIES = {"models": "privacy model", "loss": "loss metric", "history": "privacy model across releases"}
FAMILIES |= {
    "risk": "risk measure",
    "attacks": "attack",
    "utility": "measure of utility",
    "rules": "rule for unsafe cells",
}


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print the list as JSON.")
def models(as_json: bool) -> None:
    """List the privacy models, loss metrics, kinds of hierarchy, transformations and algorithms."""
    if as_json:
        click.echo(json.dumps(list_plugins(), indent=2, ensure_ascii=False))
    else:
        print_plugins()


def list_plugins() -> dict[str, list[dict[str, Any]]]:
    """Everything that a policy can name, as data."""
    from sqlanon import algorithms, hierarchies, transformations
    from sqlanon.families import family
    from sqlanon.policy.table_protection import METHODS

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
    found["protections"] = [
        {"name": name, "summary": _first_line(settings.__doc__), "params": list(settings.model_fields)}
        for name, settings in METHODS.items()
    ]
    return found


def _parameter_names(module: Any) -> list[str]:
    """As a policy writes them: a field may have another name in Python."""
    return list(module.Params.model_json_schema().get("properties", {}))


def _first_paragraph(text: str | None) -> str:
    return " ".join((text or "").strip().split("\n\n")[0].split())


def _first_line(text: str | None) -> str:
    return (text or "").strip().splitlines()[0] if text else ""


def print_plugins() -> None:
    from rich.padding import Padding

    console = open_console()
    titles = {"models": "Privacy models", "loss": "Loss metrics", "hierarchies": "Kinds of hierarchy"}
    titles |= {"algorithms": "Algorithms", "transformations": "Transformations"}
    titles |= {"history": "Privacy models across releases", "rules": "Rules for unsafe cells of tables of statistics"}
    titles |= {"protections": "Protections of tables of statistics"}
    titles |= {"risk": "Risk measures", "attacks": "Attacks", "utility": "Measures of utility"}
    for folder, entries in list_plugins().items():
        console.print(f"[bold]{titles[folder]}[/]")
        for entry in entries:
            console.print(
                f"  [bold]{entry['name']}[/] {escape_markup('(' + ', '.join(entry['params']) + ')')}", soft_wrap=True
            )
            sentence = entry["summary"].split(". ")[0].rstrip(".")
            console.print(Padding(plain_text(sentence, style="dim"), (0, 0, 0, 6)))
        console.print()
    console.print("'sqlanon explain NAME' shows one of them in full.")

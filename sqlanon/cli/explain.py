"""`sqlanon explain`: print the manual page of a plug-in."""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping
from types import ModuleType
from typing import TYPE_CHECKING, Any

import click

from sqlanon.cli.models import FAMILIES
from sqlanon.cli.terminal import open_console, plain_text
from sqlanon.errors import PolicyError, did_you_mean

if TYPE_CHECKING:
    from rich.console import Console

    from sqlanon.families import Plugin


@click.command()
@click.argument("name", required=False)
def explain(name: str | None) -> None:
    """Say what a model, measure, hierarchy, transformation or algorithm means, with its parameters and its SQL."""
    from sqlanon import algorithms, hierarchies, transformations
    from sqlanon.families import family
    from sqlanon.policy.table_protection import METHODS

    console = open_console()
    known = [*(name for folder in FAMILIES for name in family(folder)), *hierarchies.names(), *algorithms.names()]
    known += [*transformations.names(), *METHODS]
    if name is None or name not in known:
        every = "model, metric, hierarchy, transformation or algorithm"
        message = "explain what?" if name is None else f"there is no {every} called '{name}'"
        hint = did_you_mean(name, known) if name else None
        raise PolicyError(message, hint=hint or "'sqlanon models' lists all of them")
    for folder, kind in FAMILIES.items():
        if name in family(folder):
            _explain_plugin(console, family(folder)[name], kind)
            return
    if name in METHODS and name not in transformations.names():
        _explain_method(console, name)
        return
    module: ModuleType | algorithms.Algorithm
    if name in hierarchies.names():
        module, kind = hierarchies.kind(name), "a kind of hierarchy"
    elif name in transformations.names():
        module, kind = transformations.method(name), "a transformation"
    else:
        module, kind = algorithms.algorithm(name), "an algorithm"
    console.print(f"[bold]{name}[/], {kind}\n")
    console.print(plain_text((module.__doc__ or "").strip()), soft_wrap=True)
    _explain_fields(console, module.Params.model_json_schema().get("properties", {}))
    if name in METHODS:
        console.print()
        _explain_method(console, name)


def _explain_method(console: Console, name: str) -> None:
    """A method that protects tables of statistics."""
    from sqlanon.policy.table_protection import METHODS

    console.print(f"[bold]{name}[/], a protection of tables of statistics\n")
    console.print(plain_text(inspect.cleandoc(METHODS[name].__doc__ or "")), soft_wrap=True)
    _explain_fields(console, METHODS[name].model_json_schema().get("properties", {}))


def _explain_fields(console: Console, fields: Mapping[str, Any]) -> None:
    if fields:
        console.print("\n[bold]parameters[/]")
    for key, field in fields.items():
        default = f" (default {json.dumps(field['default'])})" if "default" in field else ""
        console.print(plain_text(f"  {key}{default}: {field.get('description', '')}"))


def _explain_plugin(console: Console, plugin: Plugin, kind: str) -> None:
    console.print(f"[bold]{plugin.name}[/], {'an' if kind == 'attack' else 'a'} {kind}\n")
    console.print(plain_text(plugin.summary))
    console.print(plain_text(f"\ndefined in: {plugin.cite}"))
    if plugin.measures:
        console.print(plain_text(f"measures: {plugin.measures}"))
    if plugin.monotone:
        console.print(plain_text(f"monotone: {plugin.monotone}"))
    if plugin.needs:
        console.print(plain_text(f"needs: {', '.join(plugin.needs)}"))
    if plugin.params:
        console.print("\n[bold]parameters[/]")
    for param in plugin.params:
        bound = f" {param.bound_text()}" if param.bounds else ""
        optional = "" if param.required else ", optional"
        console.print(plain_text(f"  {param.name} ({param.type}{bound}{optional}): {param.meaning}"))
    if plugin.family == "models":
        console.print("\n[bold]in a policy[/]")
        values = ", ".join(f"{param.name}: …" for param in plugin.params if param.required)
        console.print(plain_text(f"  models:\n    - {plugin.name}: {{{values}}}"))
    console.print("\n[bold]SQL[/]")
    console.print(plain_text(plugin.sql), soft_wrap=True)

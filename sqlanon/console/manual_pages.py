"""The manual pages of everything that a policy can name, as data: what `sqlanon explain` prints."""

from __future__ import annotations

import json
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from sqlanon import algorithms, hierarchies, transformations
from sqlanon.families import Plugin, family

KINDS = {
    "models": "privacy model", "loss": "loss metric", "history": "privacy model across releases",
    "risk": "risk measure", "attacks": "attack", "utility": "measure of utility", "rules": "rule for unsafe cells",
}  # fmt: skip


def list_pages() -> list[dict[str, Any]]:
    found = [_of_plugin(plugin, kind) for folder, kind in KINDS.items() for plugin in family(folder).values()]
    return [*found, *_of_modules()]


def _of_plugin(plugin: Plugin, kind: str) -> dict[str, Any]:
    facts = {"defined in": plugin.cite, "measures": plugin.measures, "monotone": plugin.monotone}
    facts["needs"] = ", ".join(plugin.needs)
    params = []
    for param in plugin.params:
        bound = f" {param.bound_text()}" if param.bounds else ""
        params.append([param.name, f"{param.type}{bound}{'' if param.required else ', optional'}", param.meaning])
    shown = {label: text for label, text in facts.items() if text}
    return _page(plugin.name, kind, plugin.summary, shown, params, plugin.sql)


def _of_modules() -> Iterator[dict[str, Any]]:
    groups: tuple[tuple[str, list[tuple[str, ModuleType | algorithms.Algorithm]]], ...] = (
        ("kind of hierarchy", [(name, hierarchies.kind(name)) for name in hierarchies.names()]),
        ("transformation", [(name, transformations.method(name)) for name in transformations.names()]),
        ("algorithm", [(name, algorithms.algorithm(name)) for name in algorithms.names()]),
    )
    for kind, modules in groups:
        for name, module in modules:
            fields = module.Params.model_json_schema().get("properties", {})
            params = [
                [
                    key,
                    f"default {json.dumps(field['default'])}" if "default" in field else "",
                    field.get("description", ""),
                ]
                for key, field in fields.items()
            ]
            yield _page(name, kind, (module.__doc__ or "").strip(), {}, params, "")


def _page(name: str, kind: str, text: str, facts: dict[str, str], params: list[list[str]], sql: str) -> dict[str, Any]:
    first = " ".join(text.split("\n\n")[0].split())
    return {"name": name, "kind": kind, "first": first, "text": text, "facts": facts, "params": params, "sql": sql}

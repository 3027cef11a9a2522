"""Baskets in a database, policies over them, and what is released of them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from conftest import Database

from sqlanon.evidence.checks import check
from sqlanon.evidence.results import CheckResult
from sqlanon.policy import Policy, parse

Baskets = Sequence[Iterable[str]]


def fill(database: Database, baskets: Baskets, values: Sequence[str] | None = None) -> None:
    """The table `baskets`, one row for a person and an item."""
    types = {"who": "INTEGER", "product": "TEXT"} | ({"disease": "TEXT"} if values is not None else {})
    rows = [
        {"who": person, "product": item} | ({"disease": values[person]} if values is not None else {})
        for person, basket in enumerate(baskets)
        for item in sorted(basket)
    ]
    database.table("baskets", types, rows)


def asked(models: Sequence[Mapping[str, Any]], tree: Any = None, **more: Any) -> Policy:
    """A policy of the table `baskets`."""
    columns = {"who": "identifier", "product": "item"}
    if more.pop("values", False):
        columns["disease"] = "sensitive"
    written: dict[str, Any] = {
        "source": {"table": "baskets"},
        "person": "who",
        "shape": "set",
        "columns": columns,
        "models": list(models),
        **more,
    }
    if tree is not None:
        written["hierarchies"] = {"product": {"tree": {"tree": nested(tree)}}}
    return parse(json.dumps(written))


def nested(tree: Mapping[str, Sequence[str]], root: str = "*") -> dict[str, Any]:
    """A tree of nodes and their children, as a policy writes it."""

    def below(node: str) -> Any:
        children = tree[node]
        return {child: below(child) for child in children} if any(c in tree for c in children) else list(children)

    return {root: below(root)}


def measured(database: Database, policy: Policy, limit: int = 100_000) -> CheckResult:
    (found,) = check(policy, database.engine, limit=limit).checks
    return found


def shown_sets(found: CheckResult) -> set[frozenset[str]]:
    return {frozenset(item.columns["product"].split(", ")) for item in found.violations}


def released(database: Database, name: str = "r") -> list[frozenset[str]]:
    """The sets of the persons of a release."""
    rows = database.fetch(f"SELECT person_number, product FROM {name}")
    persons: dict[int, set[str]] = {}
    for number, item in rows:
        assert item not in persons.setdefault(number, set()), "a row was written twice"
        persons[number].add(item)
    assert sorted(persons) == list(range(1, len(persons) + 1))
    return [frozenset(items) for items in persons.values()]

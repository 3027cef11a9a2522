"""Items are left out, sensitive ones too, until nothing is concluded from the others with a confidence of rho.

    algorithm: suppress_control
    suppression_limit: 0.2

Conclusions from one item are ended first, then from two, and so on: the item that ends most of them for each row that
it costs goes, whether it is what is known or what is concluded. What is left keeps its counts. It always ends, since
nothing is concluded where nothing is shown.

`suppression_limit` is the share of rows, a person with an item, that may be left out.

What it does not protect: persons are found by what is left. Without a bound `antecedent` in the model every set of
items is looked at, so that baskets of more than some 25 items are refused.
cite: Cao, Karras, Raissi and Tan 2010, rho-uncertainty: inference-proof transaction anonymization (SuppressControl)
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from pydantic import BaseModel, ConfigDict

from sqlanon.families import AlgorithmTraits, Plugin
from sqlanon.itemsets.find_itemsets import is_of_itemsets, know_items, walk_levels
from sqlanon.itemsets.open_items import Items
from sqlanon.itemsets.protect_items import ItemTask, ProtectedItems, show_labels

TRAITS = AlgorithmTraits(shapes=("set",))


class Params(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


def protect(task: ItemTask, params: Params) -> ProtectedItems:
    models = task.models()
    fits = [is_of_itemsets(model) and "sensitive_items" in model.needs for model, _ in models]
    task.require_models("suppress_control", fits, "ends conclusions from items to sensitive items")
    gone = end_rules(task.items, models, task.absent)
    labels = {item: None if item in gone else name for item, name in task.items.names.items()}
    return show_labels(task, labels, f"{len(gone):,} items left out, so that no conclusion is too sure")


def end_rules(items: Items, models: list[tuple[Plugin, Mapping[str, Any]]], absent: str) -> set[int]:
    """The items to leave out so that every model holds."""
    gone: set[int] = set()
    supports, names = items.supports, items.names
    for model, given in models:
        known = know_items(items, model, given, absent=absent)
        for level in walk_levels(items, model, given, known, prune=False):
            rules = [rule for rule in level.broken_rules(float(given["rho"])) if not gone & rule]
            while rules:
                ends: dict[int, int] = {}
                for rule in rules:
                    for item in rule:
                        ends[item] = ends.get(item, 0) + 1
                best = min(ends, key=lambda item: (-Fraction(ends[item], supports[item]), names[item]))
                gone.add(best)
                rules = [rule for rule in rules if best not in rule]
    return gone

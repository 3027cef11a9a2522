"""Items that are not sensitive become more general, and items are left out, until no conclusion reaches rho.

    algorithm: td_control
    suppression_limit: 0.2

All items that are not sensitive begin as the root of the tree. A node is replaced by its children where that loses less
in all: the loss of generalized items, plus one for each row that suppress_control then has to leave out. The node goes
first that gains most; it ends where none gains. Sensitive items are shown as they are, or left out.

What it does not protect: persons are found by what is left. Each candidate is measured on all persons again, which
takes a while with many items.
cite: Cao, Karras, Raissi and Tan 2010, rho-uncertainty: inference-proof transaction anonymization (TDControl)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict

from sqlanon.algorithms.suppress_control import end_rules
from sqlanon.families import AlgorithmTraits
from sqlanon.itemsets.find_itemsets import find_items, is_of_itemsets
from sqlanon.itemsets.item_tree import ItemTree
from sqlanon.itemsets.protect_items import ItemTask, ProtectedItems, show_labels

TRAITS = AlgorithmTraits(shapes=("set",))


class Params(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


@dataclass(frozen=True)
class _Try:
    """Labels of items, None where they are left out, and what that costs in occurrences."""

    labels: Mapping[int, str | None]
    cost: float


def protect(task: ItemTask, params: Params) -> ProtectedItems:
    tree = task.require_tree("td_control")
    models = task.models()
    fits = [is_of_itemsets(model) and "sensitive_items" in model.needs for model, _ in models]
    task.require_models("td_control", fits, "ends conclusions from items to sensitive items")
    sensitive: set[int] = set()
    for model, given in models:
        sensitive |= set(find_items(task.items, model, given["sensitive"], "sensitive", task.absent))
    cut = {tree.root}
    best, splits = _try(task, tree, cut, sensitive), 0
    while True:
        candidates = []
        for node in sorted(cut):
            if tree.children.get(node):
                finer = (cut - {node}) | set(tree.children[node])
                candidates.append((_try(task, tree, finer, sensitive), node, finer))
        if not candidates:
            break
        found, _, finer = min(candidates, key=lambda each: (round(each[0].cost, 9), each[1]))
        if found.cost >= best.cost - 1e-9:
            break
        best, cut, splits = found, finer, splits + 1
    return show_labels(task, best.labels, f"a cut that was split {splits:,} times from the root down")


def _try(task: ItemTask, tree: ItemTree, cut: set[str], sensitive: set[int]) -> _Try:
    items = task.items
    shown: dict[int, str] = {}
    for item, name in items.names.items():
        shown[item] = name if item in sensitive else next(node for node in (name, *tree.above(name)) if node in cut)
    recoded = items.recode(shown)
    gone = {recoded.names[number] for number in end_rules(recoded, task.models(), "allow")}
    labels = {item: None if label in gone else label for item, label in shown.items()}
    cost = sum(items.supports[item] * (task.loss(item, shown[item]) + (labels[item] is None)) for item in items.names)
    return _Try(labels, cost)

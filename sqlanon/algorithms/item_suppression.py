"""Items are left out, the same for everybody, until no set of items that breaks a model is left.

    algorithm: item_suppression
    suppression_limit: 0.2

Every set that breaks a model contains a minimal one, so that it is enough to take an item out of each of these. What is
left keeps its counts, so that the minimal sets are found once. The item that is in most of them for each row that it
costs goes first. With `exact: true` the items are chosen that cost the fewest rows of all, by integer programming
(HiGHS, `pip install highspy`); without it, or where it takes more than `seconds`, the greedy choice is taken.

`suppression_limit` is the share of rows, a person with an item, that may be left out; persons without any item left are
not in the release.

What it does not protect: who knows what the release left out may know more than the model says of the attacker.
cite: Xu, Wang, Fu and Yu 2008, Anonymizing transaction databases for publication; Mohammed et al. 2009
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction
from importlib import import_module
from importlib.util import find_spec

from pydantic import BaseModel, ConfigDict, Field

from sqlanon.families import AlgorithmTraits
from sqlanon.itemsets.find_itemsets import is_of_itemsets, know_items, walk_levels
from sqlanon.itemsets.protect_items import ItemTask, ProtectedItems, show_labels

TRAITS = AlgorithmTraits(shapes=("set",))


class Params(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")
    exact: bool = Field(False, strict=True, description="Choose the items that cost the fewest rows of all.")
    seconds: float = Field(60.0, gt=0, allow_inf_nan=False, description="Most time for the exact choice.")


def protect(task: ItemTask, params: Params) -> ProtectedItems:
    models = task.models()
    fits = [is_of_itemsets(model) and "sensitive_items" not in model.needs for model, _ in models]
    task.require_models("item_suppression", fits, "takes sets of known items apart")
    broken: set[frozenset[int]] = set()
    for model, given in models:
        known = know_items(task.items, model, given, absent=task.absent)
        for level in walk_levels(task.items, model, given, known):
            broken |= {frozenset(found.items) for found in level.broken_sets()}
    gone, how, proven = _choose(task, broken, params)
    names = task.items.names
    labels = {item: None if item in gone else name for item, name in names.items()}
    why = f"{len(broken):,} minimal sets broke the models; {len(gone):,} items left out, {how}"
    return show_labels(task, labels, why, proven=proven)


def _choose(task: ItemTask, broken: set[frozenset[int]], params: Params) -> tuple[set[int], str, bool]:
    greedy = hit_greedily(broken, task.items.supports, task.items.names)
    if not broken:
        return greedy, "nothing had to go", True
    if not params.exact:
        return greedy, "chosen greedily", False
    if find_spec("highspy") is None:
        return greedy, "chosen greedily: the exact choice needs the package highspy", False
    found = hit_exactly(broken, task.items.supports, params.seconds)
    if found is None:
        return greedy, f"chosen greedily: the exact choice took more than {params.seconds:g} seconds", False
    return found, "which cost the fewest rows of all", True


def hit_greedily(sets: Iterable[frozenset[int]], weights: Mapping[int, int], names: Mapping[int, str]) -> set[int]:
    """Items of which each set holds one: those in most of the sets that are left for their weight; ties by name.

    >>> sorted(hit_greedily([frozenset({1, 2}), frozenset({1, 3})], {1: 2, 2: 3, 3: 3}, {1: "a1", 2: "a2", 3: "b1"}))
    [1]
    """
    left = set(sets)
    holding: dict[int, set[frozenset[int]]] = {}
    for each in left:
        for item in each:
            holding.setdefault(item, set()).add(each)
    gone: set[int] = set()
    while left:
        best = min(
            (item for item, own in holding.items() if own),
            key=lambda item: (-Fraction(len(holding[item]), weights[item]), names[item]),
        )
        gone.add(best)
        for each in list(holding[best]):
            left.discard(each)
            for item in each:
                holding[item].discard(each)
    return gone


def hit_exactly(sets: Iterable[frozenset[int]], weights: Mapping[int, int], seconds: float) -> set[int] | None:
    """Items of the least weight of which each set holds one; None where that is not proven in time."""
    highspy = import_module("highspy")
    solver = highspy.Highs()
    solver.setOptionValue("output_flag", False)
    solver.setOptionValue("time_limit", seconds)
    solver.setOptionValue("random_seed", 0)
    solver.setOptionValue("mip_rel_gap", 0.0)
    items = sorted({item for each in sets for item in each})
    places = {item: place for place, item in enumerate(items)}
    for place, item in enumerate(items):
        solver.addVar(0.0, 1.0)
        solver.changeColCost(place, float(weights[item]))
        solver.changeColIntegrality(place, highspy.HighsVarType.kInteger)
    for each in sorted(sets, key=sorted):
        columns = sorted(places[item] for item in each)
        solver.addRow(1.0, highspy.kHighsInf, len(columns), columns, [1.0] * len(columns))
    solver.run()
    if solver.getModelStatus() != highspy.HighsModelStatus.kOptimal:
        return None
    values = solver.getSolution().col_value
    return {item for item, value in zip(items, values, strict=True) if value > 0.5}

"""The minimality attack: what it tells that the next finer table was not published."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlglot import exp

from sqlanon.errors import PolicyError
from sqlanon.evidence.attacks import algorithm_worlds
from sqlanon.evidence.attacks.attacked_table import NotJudged, Side, Targets
from sqlanon.evidence.attacks.placements import Breaks, placement, surest_values
from sqlanon.evidence.attacks.value_worlds import conclusions, configuration
from sqlanon.evidence.loss import infer_levels
from sqlanon.families import ClassBound, Plugin, plugin
from sqlanon.policy import Policy
from sqlanon.relations.attacks import attack_relations as relations
from sqlanon.relations.classes import as_label, class_values, classes, totals
from sqlanon.relations.compressed_rows import root_only
from sqlanon.sqltree.tree import alias, bind, select, table

# What models bound by all values of a class; a bound on shares looks at one value at a time.
OF_ALL_VALUES = {"distinct", "entropy", "tail", "distance", "range"}
Conclusion = tuple[int, float]


@dataclass(frozen=True)
class ShareBound:
    """At most this share of a class may have the value; None stands for every value."""

    value: str | None
    share: float


def bounds_of(policy: Policy, attribute: str) -> tuple[list[ShareBound], int]:
    """What the policy bounds, and the least size of a class that it asks for."""
    found: list[ShareBound] = []
    least = 1
    for use in policy.models:
        params = use.params
        least = max(least, int(params.get("k", 1)))
        if use.attribute not in (None, attribute):
            continue
        bound = plugin("models", use.name).bounds
        if bound is not None and bound.kind == "share":
            value, share = bound.params
            given = params.get(value)
            values = given if isinstance(given, Sequence) and not isinstance(given, str) else [given]
            named: list[str | None] = [as_label(item) for item in values] if given not in (None, []) else [None]
            found += [ShareBound(item, float(params[share])) for item in named]
    return found, least


def find_obstacle(policy: Policy, attribute: str) -> str | None:
    """Why nothing can be concluded from a policy, or None."""
    if algorithm_worlds.is_inverted(policy):
        return algorithm_worlds.find_obstacle(policy, attribute)
    others = [use.name for use in policy.models if plugin("models", use.name).bounds is None or use.qid is not None]
    if others:
        return f"a finer table may have failed for {others[0]}, which is not looked at"
    looking = [use for use in policy.models if not plugin("models", use.name).bounds_size_alone]
    own = [use for use in looking if use.attribute in (None, attribute)]
    elsewhere = [use for use in policy.models if use.attribute not in (None, attribute)]
    if own and elsewhere:
        return f"a finer table may have failed for {elsewhere[0].name} of '{elsewhere[0].attribute}'"
    if policy.transformations:
        return "values were changed before they were generalized"
    return None if own else "no model of the policy looks at the sensitive values"


def _looks_at_all_values(model: Plugin) -> bool:
    return model.bounds is not None and model.bounds.kind in OF_ALL_VALUES


def levels_of(policy: Policy, targets: Targets, side: Side) -> dict[str, int] | None:
    """The levels of a release that has one for each column; None where it has not, or where a column is unknown."""
    if set(targets.known) != set(side.grouping.columns):
        return None
    hierarchies = {name: root_only() for name in side.grouping.columns} | dict(side.compiler.hierarchies)
    values = targets.values
    try:
        levels = infer_levels(side.compiler.policy, values.engine, values.prelude, side.prelude.rows, hierarchies)
    except PolicyError:
        return None
    finally:
        values.done = len(values.prelude.steps)
    return levels


def draw_conclusions(
    item: Plugin, policy: Policy, attribute: str, targets: Targets, side: Side
) -> list[Conclusion] | None:
    """Persons, and how sure it is that they have a guarded value: for the column and value that tell most. None where
    the release does not have one level for each column, or generalizes none."""
    levels = levels_of(policy, targets, side)
    if levels is None:
        return None
    if any(_looks_at_all_values(plugin("models", use.name)) for use in policy.models):
        return _concluded_from_values(policy, attribute, targets, side, levels)
    bounds, least = bounds_of(policy, attribute)
    shown = relations.spell_classes(side.prelude, side.grouping, targets.known)
    every = classes(side.prelude, side.grouping)
    named = relations.values_named(side.prelude, side.grouping, attribute)
    side.work.run()
    values = [str(value) for (value,) in side.work.engine.query(named)]
    best: list[Conclusion] = []
    for name in (name for name, level in levels.items() if level > 0):
        finer = _finer(targets, side, shown, levels, name)
        small = targets.work.engine.query(relations.smallest(finer))[0][0]
        # A group that is too small fails whatever its values are: nothing is told about them.
        told = small is not None and int(small) >= least
        for bound in bounds:
            for value in values if bound.value is None else [bound.value]:
                made = relations.guarded_values(side.prelude, side.grouping, attribute, value)
                side.work.run()
                own = {"classes": every, "finer_groups": finer, "guarded_values": made}
                rows = side.work.engine.query(bind(item.sql, {}, own))
                found = [configuration(int(n), int(c), str(sizes), int(k)) for n, c, sizes, k in rows]
                best = max(best, conclusions(found, bound.share if told else 1.0), key=_weight)
    return best or None


def _concluded_from_values(
    policy: Policy, attribute: str, targets: Targets, side: Side, levels: dict[str, int]
) -> list[Conclusion] | None:
    _, least = bounds_of(policy, attribute)
    shown = relations.spell_classes(side.prelude, side.grouping, targets.known)
    values = class_values(side.prelude, side.grouping, attribute)
    every = totals(side.prelude, side.grouping, attribute, numeric=_numeric(policy))
    side.work.run()
    engine = side.work.engine
    number = "number" if _numeric(policy) else alias(exp.Null(), "number")
    known = [
        SensitiveValue(*row) for row in engine.query(select("value", "label", number, "records", source=table(every)))
    ]
    if any(item.label is None for item in known):
        raise NotJudged(f"'{attribute}' has NULLs")
    breaks = broken_by(policy, attribute, known)
    best: list[Conclusion] = []
    for name in (name for name, level in levels.items() if level > 0):
        finer = _finer(targets, side, shown, levels, name)
        small = targets.work.engine.query(relations.smallest(finer))[0][0]
        told = small is not None and int(small) >= least
        made = {"finer_groups": finer, "class_values": values}
        rows = engine.query(bind(plugin("attacks", "minimality_worlds").sql, {}, made))
        found = [placement(str(sizes), str(ranks), int(n)) for sizes, ranks, n in rows]
        best = max(best, surest_values(found, breaks if told else lambda _: False), key=_weight)
    return best or None


@dataclass(frozen=True)
class SensitiveValue:
    """A sensitive value of the whole table, by its rank."""

    rank: int
    label: str | None
    number: float | None
    records: int


def _numeric(policy: Policy) -> bool:
    return any("numeric" in plugin("models", use.name).needs for use in policy.models)


def broken_by(policy: Policy, attribute: str, known: Sequence[SensitiveValue]) -> Breaks:
    """Whether a group with these values breaks any model of the policy that looks at them."""
    whole = sum(item.records for item in known)
    shares = {item.rank: item.records / whole for item in known}
    numbers = {item.rank: item.number for item in known}
    ranks = {item.label: item.rank for item in known}
    bounds, _ = bounds_of(policy, attribute)

    def breaks(group: Mapping[int, int]) -> bool:
        size = sum(group.values())
        for bound in bounds:
            counts = group.values() if bound.value is None else [group.get(ranks.get(bound.value, -1), 0)]
            if max(counts) > bound.share * size + 1e-12:
                return True
        return any(_breaks(plugin("models", use.name).bounds, use.params, group, size) for use in policy.models)

    def _breaks(bound: ClassBound | None, params: Mapping[str, Any], group: Mapping[int, int], size: int) -> bool:
        if bound is None or bound.kind not in OF_ALL_VALUES:
            return False
        falling = sorted(group.values(), reverse=True)
        limits = [float(params[name]) for name in bound.params]
        match bound.kind:
            case "distinct":
                return len(group) < limits[0]
            case "entropy":
                entropy = -sum(n / size * math.log(n / size) for n in falling)
                return math.exp(entropy) < limits[0] - 1e-9
            case "tail":
                tail = sum(falling[int(limits[1]) - 1 :])
                return falling[0] >= limits[0] * tail * (1 - 1e-12)
            case "distance":
                distance = sum(max(n / size - shares[rank], 0.0) for rank, n in group.items())
                return distance > limits[0] + 1e-9
            case "range":
                held = [float(value) for rank in group if (value := numbers[rank]) is not None]
                span = max(held) - min(held) if held else 0.0
                return len(held) < limits[0] or span < limits[1] - 1e-12
        return False

    return breaks


def _weight(found: Sequence[Conclusion]) -> tuple[int, float]:
    """Those who are sure, then how sure the others are."""
    certain = sum(persons for persons, sure in found if sure >= 1 - 1e-9)
    return certain, sum(persons * sure for persons, sure in found)


def _finer(targets: Targets, side: Side, shown: str, levels: dict[str, int], name: str) -> str:
    hierarchies = {each: root_only() for each in targets.known} | dict(side.compiler.hierarchies)
    made = relations.finer_groups(targets.work.prelude, shown, targets.grouping, hierarchies, levels, name)
    targets.work.run()
    return made

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
from sqlanon.families import Plugin, plugin
from sqlanon.policy import Policy
from sqlanon.relations.attacks import attack_relations as relations
from sqlanon.relations.classes import as_label, class_values, classes, totals
from sqlanon.relations.compressed_rows import root_only
from sqlanon.sqltree.tree import alias, bind, select, table

# Models whose breach tells of the share of a value in a class, and of all its values.
BOUNDS = ("confidence_bounding", "alpha_k_anonymity")
DIVERSITY = ("distinct_l_diversity", "entropy_l_diversity", "recursive_cl_diversity", "t_closeness", "k_e_anonymity")
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
        if use.name == "confidence_bounding":
            found.append(ShareBound(as_label(params["value"]), float(params["h"])))
        if use.name == "alpha_k_anonymity":
            values = params.get("guarded")
            named: list[str | None] = [as_label(value) for value in values] if values else [None]
            found += [ShareBound(value, float(params["alpha"])) for value in named]
    return found, least


def find_obstacle(policy: Policy, attribute: str) -> str | None:
    """Why nothing can be concluded from a policy, or None."""
    if algorithm_worlds.is_inverted(policy):
        return algorithm_worlds.find_obstacle(policy, attribute)
    known = ("k_anonymity", *BOUNDS, *DIVERSITY)
    others = [use.name for use in policy.models if use.name not in known or use.qid is not None]
    if others:
        return f"a finer table may have failed for {others[0]}, which is not looked at"
    own = [use for use in policy.models if use.name != "k_anonymity" and use.attribute in (None, attribute)]
    elsewhere = [use for use in policy.models if use.attribute not in (None, attribute)]
    if own and elsewhere:
        return f"a finer table may have failed for {elsewhere[0].name} of '{elsewhere[0].attribute}'"
    if policy.transformations:
        return "values were changed before they were generalized"
    return None if own else "no model of the policy looks at the sensitive values"


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
    if any(use.name in DIVERSITY for use in policy.models):
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
        return any(_breaks(use.name, use.params, group, size) for use in policy.models)

    def _breaks(name: str, params: Mapping[str, Any], group: Mapping[int, int], size: int) -> bool:
        falling = sorted(group.values(), reverse=True)
        match name:
            case "distinct_l_diversity":
                return len(group) < int(params["l"])
            case "entropy_l_diversity":
                entropy = -sum(n / size * math.log(n / size) for n in falling)
                return math.exp(entropy) < float(params["l"]) - 1e-9
            case "recursive_cl_diversity":
                tail = sum(falling[int(params["l"]) - 1 :])
                return falling[0] >= float(params["c"]) * tail * (1 - 1e-12)
            case "t_closeness":
                distance = sum(max(n / size - shares[rank], 0.0) for rank, n in group.items())
                return distance > float(params["t"]) + 1e-9
            case "k_e_anonymity":
                held = [float(value) for rank in group if (value := numbers[rank]) is not None]
                span = max(held) - min(held) if held else 0.0
                return len(held) < int(params["k"]) or span < float(params["e"]) - 1e-12
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

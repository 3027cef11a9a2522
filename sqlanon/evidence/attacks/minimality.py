"""The minimality attack: what it tells that the next finer table was not published."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlanon.compiler import attacks as relations
from sqlanon.compiler.classes import as_label, classes
from sqlanon.compiler.compressed import root_only
from sqlanon.compiler.tree import bind
from sqlanon.errors import PolicyError
from sqlanon.evidence.attacks.side import Side, Targets
from sqlanon.evidence.attacks.worlds import conclusions, configuration
from sqlanon.evidence.loss import infer_levels
from sqlanon.families import Plugin
from sqlanon.policy import Policy

# Models whose breach tells of the size of a class, or of the share of a value in it.
UNDERSTOOD = ("k_anonymity", "confidence_bounding", "alpha_k_anonymity")
Conclusion = tuple[int, float]


@dataclass(frozen=True)
class Bound:
    """At most this share of a class may have the value; None stands for every value."""

    value: str | None
    share: float


def bounds_of(policy: Policy, attribute: str) -> tuple[list[Bound], int]:
    """What the policy bounds, and the least size of a class that it asks for."""
    found: list[Bound] = []
    least = 1
    for use in policy.models:
        params = use.params
        least = max(least, int(params.get("k", 1)))
        if use.attribute not in (None, attribute):
            continue
        if use.name == "confidence_bounding":
            found.append(Bound(as_label(params["value"]), float(params["h"])))
        if use.name == "alpha_k_anonymity":
            values = params.get("guarded")
            named: list[str | None] = [as_label(value) for value in values] if values else [None]
            found += [Bound(value, float(params["alpha"])) for value in named]
    return found, least


def missing(policy: Policy, attribute: str) -> str | None:
    """Why nothing can be concluded from a policy, or None."""
    others = [use.name for use in policy.models if use.name not in UNDERSTOOD or use.qid is not None]
    if others:
        return f"a finer table may have failed for {others[0]}, which is not looked at"
    if policy.transformations:
        return "values were changed before they were generalized"
    bounds, _ = bounds_of(policy, attribute)
    return None if bounds else "no model of the policy bounds the share of a sensitive value"


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


def concluded(item: Plugin, policy: Policy, attribute: str, targets: Targets, side: Side) -> list[Conclusion] | None:
    """Persons, and how sure it is that they have a guarded value: for the column and value that tell most. None where
    the release does not have one level for each column, or generalizes none."""
    levels = levels_of(policy, targets, side)
    if levels is None:
        return None
    bounds, least = bounds_of(policy, attribute)
    shown = relations.spelt(side.prelude, side.grouping, targets.known)
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


def _weight(found: Sequence[Conclusion]) -> tuple[int, float]:
    """Those who are sure, then how sure the others are."""
    certain = sum(persons for persons, sure in found if sure >= 1 - 1e-9)
    return certain, sum(persons * sure for persons, sure in found)


def _finer(targets: Targets, side: Side, shown: str, levels: dict[str, int], name: str) -> str:
    hierarchies = {each: root_only() for each in targets.known} | dict(side.compiler.hierarchies)
    made = relations.finer_groups(targets.work.prelude, shown, targets.grouping, hierarchies, levels, name)
    targets.work.run()
    return made

"""What attackers achieve against a table, and against a release of it: all attacks of `sql/attacks`.

An attack is a query for persons and how sure the attacker is of what he concludes about them. What is of the size of
the data is done by these statements; what is solved here are sums over their summaries.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from sqlanon.compiler import attacks as relations
from sqlanon.compiler.classes import class_values, classes, totals
from sqlanon.compiler.lookups import taxonomy
from sqlanon.compiler.source import relation
from sqlanon.compiler.tree import bind, referenced
from sqlanon.engines import Engine
from sqlanon.errors import PolicyError, did_you_mean
from sqlanon.evidence.attacks import guessing, minimality, probabilistic, views
from sqlanon.evidence.attacks.asked import Asked, asked_for
from sqlanon.evidence.attacks.minimality import concluded
from sqlanon.evidence.attacks.side import Side, Targets, found, side_of, targets_of
from sqlanon.evidence.hierarchies import require_valid
from sqlanon.families import Plugin, family, plugin
from sqlanon.policy import Policy, Source

# What needs persons to be looked up in a table by what is known of them.
LOOKED_UP = {"targets", "external", "other", "minimality"}
# Attacks that take releases of a certain kind: another kind is no reason not to try the others.
SPECIAL = ("joined_views", "minimality", "probabilistic_linkage")
# Whose statements are asked for by a module of their own, since something follows from them there.
FOLLOWED = ("minimality",)


@dataclass(frozen=True)
class Outcome:
    """What an attack achieves against one table."""

    targets: int  # persons whom the attacker is after
    broken: int  # of them, about whom he is sure enough
    confidence: float | None  # of his surest conclusion; None where there is nobody
    average: float | None  # of his conclusions about all of them


@dataclass(frozen=True)
class Attack:
    """One attack on the source (`before`) and on the release (`after`), if there is one."""

    name: str
    attribute: str | None
    params: Mapping[str, Any]
    before: Outcome
    after: Outcome | None


@dataclass(frozen=True)
class Attacks:
    """Nothing in it tells of a single person."""

    counts: str  # rows, or persons
    quasi_identifiers: tuple[str, ...]
    attacks: tuple[Attack, ...]
    left_out: Mapping[str, str] = field(default_factory=dict)  # attacks that could not be tried, and why
    notes: tuple[str, ...] = ()


def attack(
    policy: Policy,
    engine: Engine,
    *,
    release: Source | None = None,
    external: Source | None = None,
    other: Source | None = None,
    names: Sequence[str] = (),
    **asked: Any,
) -> Attacks:
    """Try attacks on a policy's source, and on a release of it, inside the engine.

    `external` is a table of persons with quasi-identifiers that the attacker has; without it he knows those of
    everybody in the source. `other` is another release of the same persons. `names` are the attacks to try, all by
    default; what else may be `asked` are the parameters of the attacks: certainty, knowledge, gain, level, epsilon,
    rounds.
    """
    unknown = [name for name in names if name not in family("attacks")]
    if unknown:
        hint = did_you_mean(unknown[0], family("attacks")) or f"there are {', '.join(family('attacks'))}"
        raise PolicyError(f"there is no attack called '{unknown[0]}'", hint=hint)
    wanted = asked_for(asked)
    if other is not None and release is None:
        raise PolicyError("another release is given, but not the one to compare it with", hint="name it: --release")
    run = _Attacking(policy, engine, release, external, other, wanted)
    try:
        return run.all(names)
    finally:
        run.drop()


def as_data(tried: Attacks) -> dict[str, Any]:
    """Attacks as mappings, lists and numbers."""
    return asdict(tried)


@dataclass
class _Attacking:
    policy: Policy
    engine: Engine
    release: Source | None
    external: Source | None
    other: Source | None
    asked: Asked
    notes: list[str] = field(default_factory=list)
    sides: dict[str, Side] = field(default_factory=dict)
    targets: Targets | None = None

    def drop(self) -> None:
        for side in self.sides.values():
            side.drop()
        if self.targets is not None:
            self.targets.drop()

    def all(self, names: Sequence[str]) -> Attacks:
        self.sides["source"] = side_of(self.policy, self.engine, None, "sqlanon_source", self.notes)
        partial = self.other is not None
        for name, given in (("release", self.release), ("other", self.other)):
            if given is not None:
                made = side_of(self.policy, self.engine, given, f"sqlanon_{name}", self.notes, partial=partial)
                self.sides[name] = made
        self._require_all_columns()
        source = self.sides["source"]
        require_valid(source.compiler.policy, self.engine, source.compiler.hierarchies, source.prelude)
        source.work.done = len(source.prelude.steps)
        tried: list[Attack] = []
        left_out: dict[str, str] = {}
        for item in family("attacks").values():
            if item.makes or (names and item.name not in names):
                continue
            attributes: Sequence[str | None] = self.policy.sensitive if "sensitive" in item.needs else (None,)
            reasons = {name: self._missing(item, name) for name in attributes}
            try:
                tried += [self._one(item, name) for name, reason in reasons.items() if reason is None]
            except PolicyError as error:
                if item.name not in SPECIAL:
                    raise
                left_out[item.name] = error.message
            lacking = next((reason for reason in reasons.values() if reason is not None), None)
            if not attributes or (lacking is not None and all(reasons.values())):
                left_out[item.name] = lacking or "there is no sensitive column"
        return Attacks(
            counts="persons" if self.policy.person else "rows",
            quasi_identifiers=self.policy.quasi_identifiers,
            attacks=tuple(tried),
            left_out=left_out,
            notes=tuple(dict.fromkeys(self.notes)),
        )

    def _require_all_columns(self) -> None:
        """Of two views each may lack columns; what neither shows cannot be attacked."""
        sides = [side for name, side in self.sides.items() if name != "source"]
        shown = {name for side in sides for name in side.compiler.policy.columns}
        lacking = [name for name in (*self.policy.quasi_identifiers, *self.policy.sensitive) if name not in shown]
        if sides and lacking:
            raise PolicyError(f"the releases lack '{lacking[0]}'", hint="is it a release of this source?")

    def _missing(self, item: Plugin, attribute: str | None) -> str | None:
        """Why an attack cannot be tried, or None."""
        needs = set(item.needs)
        if needs & LOOKED_UP and self.policy.nulls == "unique":
            return "NULLs that match nothing cannot be looked up"
        if needs & LOOKED_UP and self.policy.source.joins:
            return "persons of joined tables are not looked up: join them in a view or 'query:'"
        if "splink" in needs and not probabilistic.installed():
            return "it needs Splink: pip install 'sqlanon[splink]'"
        if "external" in needs and self.external is None:
            return "it needs an external table of persons"
        if "other" in needs and self.other is None:
            return "it needs another release of the same persons"
        if (
            "other" in needs
            and attribute is not None
            and not all(attribute in side.compiler.policy.sensitive for side in self.sides.values())
        ):
            return "the releases do not both show it"
        if "epsilon" in needs and self.asked.epsilon is None:
            return "it needs an epsilon: how close numbers are as good as the same"
        if "numeric" in needs and attribute is not None and attribute not in self._numeric():
            return "it needs a sensitive column of numbers"
        if "minimality" in needs and attribute is not None:
            return "it needs a release" if self.release is None else minimality.missing(self.policy, attribute)
        if "taxonomy" in needs and attribute is not None:
            hierarchy = self.sides["source"].compiler.hierarchies.get(attribute)
            if hierarchy is None:
                return "it needs a hierarchy of the sensitive column, whose nodes are kinds of values"
            if self.asked.level >= hierarchy.height:
                return f"level {self.asked.level} of the hierarchy is its root, which covers everything"
        return None

    def _numeric(self) -> set[str]:
        rows = relation(self.sides["source"].compiler.source, self.engine.dialect)
        return {item.name for item in self.engine.columns(rows) if item.numeric}

    def _one(self, item: Plugin, attribute: str | None) -> Attack:
        params = item.filled({key: value for key, value in self.asked.params().items() if item.param(key)})
        sides = [self.sides[name] for name in ("source", "release") if name in self.sides]
        outcomes = [
            self._of_side(item, attribute, params, side)
            for side in sides
            if attribute is None or attribute in side.compiler.policy.sensitive
        ]
        return Attack(item.name, attribute, params, outcomes[0], outcomes[1] if len(outcomes) > 1 else None)

    def _of_side(self, item: Plugin, attribute: str | None, params: Mapping[str, Any], side: Side) -> Outcome:
        if "splink" in item.needs:
            return outcome_of(probabilistic.linked(item, params["certainty"], self._targets(), side))
        if item.name == "minimality" and attribute is not None:
            told = concluded(item, self.policy, attribute, self._targets(), side) if side.released else None
            if told is not None:
                return summed_up(told, params["certainty"])
            if side.released:
                self.notes.append(f"{item.name}: the release has no level for each column to tell more from")
            plain = plugin("attacks", "attribute_linkage")
            return self._outcome(plain, attribute, plain.filled(dict(params)), side)
        return self._outcome(item, attribute, params, side)

    def _outcome(self, item: Plugin, attribute: str | None, params: Mapping[str, Any], side: Side) -> Outcome:
        made = {name: self._relation(name, side, attribute, item) for name in sorted(referenced(item.sql))}
        side.work.run()
        return outcome_of(self.engine.query(relations.confidence(bind(item.sql, dict(params), made)))[0])

    def _relation(self, name: str, side: Side, attribute: str | None, item: Plugin) -> str:
        prelude, grouping = side.prelude, side.grouping
        if name.startswith("other_"):
            # The source is attacked as if it had been shown twice.
            beside = self.sides["other"] if side.released else side
            made = self._relation(name.removeprefix("other_"), beside, attribute, item)
            beside.work.run()
            return made
        match name:
            case "joined":
                beside = self.sides["other"] if side.released else side
                return views.joined(self.policy, self._targets(), side, beside)
            case "classes":
                return classes(prelude, grouping)
            case "targets":
                return self._targets().table
            case "target_classes":
                return found(self._targets(), side)
            case "class_values" if attribute is not None:
                return class_values(prelude, grouping, attribute)
            case "truths" if attribute is not None:
                return guessing.truths(self._targets(), attribute)
            case "beliefs" if attribute is not None:
                return guessing.beliefs(self._targets(), side, attribute, self.asked.rounds)
            case "chosen_targets":
                return guessing.chosen_targets(self._targets(), side, self.notes)
            case "distances":
                return guessing.distances(self._targets(), side, self.notes)
            case "named_values" if attribute is not None:
                return relations.named_values(prelude, grouping, attribute)
            case "totals" if attribute is not None:
                return totals(prelude, grouping, attribute, numeric="numeric" in item.needs)
            case "taxonomy" if attribute is not None:
                return taxonomy(prelude, grouping, attribute, side.compiler.hierarchies[attribute])
        raise AssertionError(name)

    def _targets(self) -> Targets:
        if self.targets is None:
            self.targets = targets_of(self.policy, self.engine, self.external)
        return self.targets


def outcome_of(row: tuple[Any, ...]) -> Outcome:
    targets, broken, *sure = row
    highest, average = (None if value is None else float(value) for value in sure)
    return Outcome(int(targets), int(broken), highest, average)


def summed_up(told: Sequence[tuple[int, float]], certainty: float) -> Outcome:
    """The outcome of conclusions (persons, confidence) that were not drawn by a statement."""
    targets = sum(persons for persons, _ in told)
    broken = sum(persons for persons, sure in told if sure >= certainty - 1e-9)
    if not targets:
        return Outcome(0, 0, None, None)
    highest = max(sure for _, sure in told)
    return Outcome(targets, broken, highest, sum(persons * sure for persons, sure in told) / targets)


__all__ = ["FOLLOWED", "Attack", "Attacks", "Outcome", "as_data", "attack", "plugin"]

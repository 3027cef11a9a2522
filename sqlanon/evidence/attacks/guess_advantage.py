"""Guesses of an attacker about persons who are in the table, about persons who are not, and from the margins alone.

An attack that is often right tells little by itself: where most persons are healthy, everybody guesses rightly. What
counts is how much more often it is right about persons of the table than the same attacker is about a control group:
persons of the same population whose rows the release was not made of. The difference is what the release tells about
its own persons. Without a control group it is compared with guesses from the margins of the release, the most frequent
value for everybody; that advantage also holds what the release tells about anybody, such as that old people are ill.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlanon.engines import Engine
from sqlanon.errors import PolicyError, did_you_mean
from sqlanon.evidence.attacks import learning_attacks
from sqlanon.evidence.attacks.attacked_table import NotJudged, Side, Targets, find_target_classes, fits_of
from sqlanon.evidence.attacks.bucket_attacks import Apart
from sqlanon.evidence.attacks.success_rates import SuccessRate, residual, success_rate
from sqlanon.evidence.work_tables import Work
from sqlanon.families import Plugin, family, plugin
from sqlanon.policy import Policy, Source
from sqlanon.relations.attacks import attack_relations as relations
from sqlanon.relations.attacks import guess_relations, learning_relations
from sqlanon.relations.classes import Grouping, Prelude, classes
from sqlanon.relations.source import relation
from sqlanon.sqltree.tree import bind, column, find_references, nest_query, select

CONTROL, MARGINS = "control", "margins"
PREFIX = "sqlanon_judged"


@dataclass(frozen=True)
class Advantage:
    """How much more often one attack is right about persons of the source than it would be without their data.

    `attacked`, `by_margins` and `control` are rates among those about whom the attack guesses something."""

    attack: str
    attribute: str | None
    counts: str  # rows, or persons
    targets: int  # persons of the source whose value is known
    attacked: SuccessRate
    by_margins: SuccessRate
    control: SuccessRate | None  # None where there is no control group, or the attack guesses about nobody in it
    control_targets: int
    against: str  # control, or margins
    advantage: float
    low: float
    high: float
    finding: bool  # whether the lower end is over the least advantage that counts


def control_group(policy: Policy, engine: Engine, control: Source) -> Any:
    """The rows of a control group, in the types of the source; what cannot serve as one is refused."""
    held = {item.name: item.type for item in engine.columns(relation(engine.resolve(policy.source), engine.dialect))}
    given = relation(engine.resolve(control), engine.dialect)
    names = [item.name for item in engine.columns(given)]
    for name in (*policy.quasi_identifiers, *policy.sensitive):
        if name not in names:
            raise PolicyError(
                f"the control group has no column '{name}'",
                hint=did_you_mean(name, names) or "the same attacker must know of it what they know of the source",
            )
    person = policy.person if policy.person in held else None
    if person is not None and person not in names:
        raise PolicyError(
            f"the control group has no column '{person}'",
            hint="it is the policy's person column: without it nobody can tell whether these persons are in the source",
        )
    rows = relations.rows_like(given, {name: held[name] for name in _needed(policy, person)}, engine.dialect)
    if not int(engine.query(relations.counted_rows(rows))[0][0]):
        raise PolicyError("the control group has no rows", hint="some 500 to 1,000 persons are usually enough")
    if person is not None:
        if int(engine.query(guess_relations.unknown_persons(rows, person))[0][0]):
            raise PolicyError(f"rows of the control group have no '{person}'", hint="leave these rows out")
        source = relation(engine.resolve(policy.source), engine.dialect)
        both = int(engine.query(guess_relations.persons_in_both(source, rows, person))[0][0])
        if both:
            raise PolicyError(
                f"{both:,} persons of the control group are in the source",
                hint="it must hold other persons: those were part of what the release was made of",
            )
    return rows


def _needed(policy: Policy, person: str | None) -> list[str]:
    return list(dict.fromkeys((*policy.quasi_identifiers, *policy.sensitive, *([person] if person else []))))


def judged_targets(policy: Policy, engine: Engine, control: Source | None) -> Targets:
    """The persons of the source and of the control group, in one list: one attacker who guesses about all of them."""
    source = relation(engine.resolve(policy.source), engine.dialect)
    held = {item.name: item.type for item in engine.columns(source)}
    numbers = frozenset(item.name for item in engine.columns(source) if item.numeric)
    known = policy.quasi_identifiers
    person = policy.person if policy.person in held else None
    beside = None if control is None else control_group(policy, engine, control)
    rows = guess_relations.judged_rows(source, beside, _needed(policy, person))
    every = dict.fromkeys((*known, *policy.sensitive))
    values = select(*(column(name) for name in every), source=nest_query(rows.copy(), "t"))
    return Targets(
        Work(engine, Prelude(rows, engine.dialect, prefix=PREFIX)), Grouping(known, person=person), known,
        {name: held[name] for name in known},
        Work(engine, Prelude(values, engine.dialect, prefix=f"{PREFIX}_values")), False, numbers,
    )  # fmt: skip


@dataclass
class Guesser:
    """An attacker who guesses about everybody, from one release."""

    policy: Policy
    targets: Targets
    side: Side
    apart: Apart | None
    has_control: bool
    least: float
    rounds: int
    level: int
    notes: list[str]

    def judge(self, item: Plugin, attribute: str | None, params: Mapping[str, Any]) -> Advantage:
        """The advantage of one attack, or why it has none that can be measured."""
        if item.no_guess:
            raise NotJudged(item.no_guess)
        guess = family("guesses")[item.name]
        if "control" in guess.needs and not self.has_control:
            raise NotJudged("it needs persons who are not in the table: --control, or --holdout")
        made = {name: self._relation(name, attribute) for name in sorted(find_references(guess.sql))}
        self._run()
        used = guess.filled({key: value for key, value in params.items() if guess.param(key)})
        if "margins" in made:
            self._require_same_values(attribute, made["margins"])
        judged = guess_relations.judged_guesses(self.side.prelude, guess.sql, used, made)
        self._run()
        person = self.targets.grouping.person
        rates = plugin("guesses", "judge_guesses")
        found = {"known_persons": self._known_persons(attribute), "guesses": judged}
        tree = bind(rates.sql, {"persons": int(person is not None)}, found)
        rows = {int(held): values for held, *values in self.side.work.engine.query(tree)}
        return self._advantage(item.name, attribute, rows)

    def _advantage(self, name: str, attribute: str | None, rows: Mapping[int, list[Any]]) -> Advantage:
        targets, guessed, right, by_margins = rows.get(0, [0, 0, 0, 0])
        if not targets:
            raise NotJudged("what persons of the source have is not known")
        if not guessed:
            raise NotJudged("it guesses about nobody in this release")
        ours, plain = (success_rate(int(guessed), float(value)) for value in (right, by_margins))
        held, theirs = None, rows.get(1, [0, 0, 0, 0])
        if int(theirs[1]):
            held = success_rate(int(theirs[1]), float(theirs[2]))
        value, low, high = residual(ours, held or plain)
        return Advantage(
            attack=name,
            attribute=attribute,
            counts="persons" if self.targets.grouping.person else "rows",
            targets=int(targets),
            attacked=ours,
            by_margins=plain,
            control=held,
            control_targets=int(theirs[0]),
            against=MARGINS if held is None else CONTROL,
            advantage=value,
            low=low,
            high=high,
            finding=low > self.least,
        )

    def _run(self) -> None:
        for work in (self.targets.work, self.targets.values, self.side.work):
            work.run()
        if self.apart is not None:
            self.apart.groups.work.run()

    def _known_persons(self, attribute: str | None) -> str:
        prelude, grouping = self.targets.work.prelude, self.targets.grouping
        null_is_value = self.policy.sensitive_nulls == "value"
        made = guess_relations.known_persons(prelude, grouping, attribute, null_is_value=null_is_value)
        self.targets.work.run()
        return made

    def _require_same_values(self, attribute: str | None, margins: str) -> None:
        """A release that writes values in another way would seem to tell nothing."""
        persons = self._known_persons(attribute)
        known, seen = self.side.work.engine.query(guess_relations.unseen_values(persons, margins))[0]
        if int(known) and not int(seen):
            raise NotJudged(f"no person of the source has a value of '{attribute}' as the release writes it")

    def _relation(self, name: str, attribute: str | None) -> str:
        targets, side = self.targets, self.side
        prelude, grouping = side.prelude, side.grouping
        match name:
            case "truths":
                return guess_relations.truths(targets.work.prelude, self._known_persons(attribute))
            case "classes":
                return classes(prelude, grouping)
            case "target_classes":
                return find_target_classes(targets, side)
            case "fitting_shares":
                return self._fitting_shares()
            case "beliefs" if attribute is not None:
                return self._first_beliefs(attribute)
            case "revised_beliefs" if attribute is not None:
                learners = guess_relations.learners(targets.work.prelude, targets.grouping, targets.table)
                first = self._first_beliefs(attribute)
                return learning_attacks.revised_beliefs(targets, side, first, self.rounds, learners)
            case "distances":
                return learning_attacks.distances(targets, side, self.notes)
            case "named_values" if attribute is not None:
                return relations.named_values(prelude, grouping, attribute)
            case "margins" if attribute is not None:
                return self._margins(attribute)
            case "kinds" if attribute is not None:
                hierarchy = side.compiler.hierarchies[attribute]
                return guess_relations.kinds(targets.values.prelude, attribute, hierarchy, self.level)
        raise AssertionError(name)

    def _fitting_shares(self) -> str:
        known = self.side.known(self.targets)
        if not known:
            raise NotJudged("the release shows no column that the attacker knows")
        wanted = self.targets.table
        shown = relations.spell_classes(self.side.prelude, self.side.grouping, known)
        self._run()
        fits = fits_of(self.targets, self.side) if self.side.released else None
        places = [self.targets.known.index(name) + 1 for name in known]
        return guess_relations.fitting_shares(self.side.prelude, wanted, shown, places, fits)

    def _first_beliefs(self, attribute: str) -> str:
        if self.apart is not None:
            return self.apart.first_beliefs(self.targets, attribute)
        fitting = find_target_classes(self.targets, self.side)
        values = relations.named_values(self.side.prelude, self.side.grouping, attribute)
        return learning_relations.first_beliefs(self.side.prelude, fitting, values)

    def _margins(self, attribute: str) -> str:
        side = self.side if self.apart is None else self.apart.groups
        if attribute not in side.compiler.policy.sensitive:
            raise NotJudged(f"how often the release shows values of '{attribute}' is not known")
        values = relations.named_values(side.prelude, side.grouping, attribute)
        side.work.run()
        null_is_value = self.policy.sensitive_nulls == "value"
        return guess_relations.margins(self.side.prelude, values, null_is_value=null_is_value)


__all__ = ["CONTROL", "MARGINS", "Advantage", "Guesser", "control_group", "judged_targets"]

"""What attackers achieve against a table, and against a release of it: all attacks of `sql/attacks`.

An attack is a query for persons and how sure the attacker is of what they conclude. What is of the size of
the data is done by these statements; what is solved here are sums over their summaries.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from sqlglot import exp

from sqlanon.engines import Engine
from sqlanon.errors import PolicyError, did_you_mean
from sqlanon.evidence.attacks import (
    algorithm_worlds,
    inference_attacks,
    joined_views,
    learning_attacks,
    minimality,
    noise_levels,
    record_linkage,
)
from sqlanon.evidence.attacks.attacked_table import NotJudged, Side, Targets, find_target_classes, side_of, targets_of
from sqlanon.evidence.attacks.attacker_knowledge import AttackParams, read_params
from sqlanon.evidence.attacks.bucket_attacks import OF_GROUPS, Apart, apart_of
from sqlanon.evidence.attacks.entity_attacks import attack_entities
from sqlanon.evidence.attacks.guess_advantage import Advantage, Guesser, judged_targets
from sqlanon.evidence.attacks.item_attacks import attack_items
from sqlanon.evidence.attacks.journey_attacks import JourneyOutcome, attack_journeys
from sqlanon.evidence.attacks.minimality import draw_conclusions
from sqlanon.evidence.attacks.success_rates import LEAST_ADVANTAGE
from sqlanon.evidence.hierarchies import require_valid
from sqlanon.evidence.linked_rows import RowLink, as_linked_rows, find_link
from sqlanon.families import Plugin, family, plugin
from sqlanon.policy import Policy, Source
from sqlanon.policy.person_shapes import ENTITY, ROWS, SEQUENCE, SET, require_shape
from sqlanon.policy.suppressed_cells import READING
from sqlanon.relations.attacks import attack_relations as relations
from sqlanon.relations.attacks import learning_relations as guesses
from sqlanon.relations.attacks.attack_relations import UNITS
from sqlanon.relations.bucketization import parts_rows
from sqlanon.relations.classes import class_values, classes, totals
from sqlanon.relations.hierarchy_lookups import taxonomy
from sqlanon.relations.matching_classes import matches_any_value
from sqlanon.relations.risk_relations import persons_and_rows
from sqlanon.relations.row_sets import LINKED, class_rows
from sqlanon.relations.source import relation
from sqlanon.sqltree.tree import bind, find_references

# What needs persons to be looked up in a table by what is known of them.
LOOKED_UP = {"targets", "external", "other", "requirement"}
# What looks for the records of persons by the values that are known of them, or for rows of two releases that match.
JOINING = {"targets", "external", "other", "requirement"}
# What looks at the rows that fit a person, however these overlap: a suppressed cell fits any value.
OVER_FITTING = {"targets", "external"}
KNOWN_TREES = "the attacker knows all rows of a person that are left, and how they hang together"


@dataclass(frozen=True)
class Outcome:
    """What an attack achieves against one table."""

    targets: int  # persons whom the attacker is after
    broken: int  # of them, about whom the attacker is sure enough
    confidence: float | None  # of the attacker's surest conclusion; None where there is nobody
    average: float | None  # of the conclusions about all of them
    counts: str = "rows"  # what targets are: persons, or rows where a person may have several, or is not known


@dataclass(frozen=True)
class Attack:
    """One attack on the source (`before`) and on the release (`after`), if there is one."""

    name: str
    attribute: str | None
    params: Mapping[str, Any]
    before: Outcome
    after: Outcome | None
    not_judged: str | None = None  # why it tells nothing of the release


@dataclass(frozen=True)
class Attacks:
    """Nothing in it tells of a single person."""

    counts: str  # rows, or persons
    quasi_identifiers: tuple[str, ...]
    attacks: tuple[Attack, ...]
    not_judged: Mapping[str, str] = field(default_factory=dict)  # attacks that could not be tried, and why
    notes: tuple[str, ...] = ()
    advantages: tuple[Advantage, ...] = ()  # of attacks on the release that guess something about persons
    not_compared: Mapping[str, str] = field(default_factory=dict)  # attacks without an advantage, and why
    least_advantage: float = LEAST_ADVANTAGE

    @property
    def findings(self) -> tuple[Advantage, ...]:
        return tuple(item for item in self.advantages if item.finding)


def attack(
    policy: Policy,
    engine: Engine,
    *,
    release: Source | None = None,
    external: Source | None = None,
    other: Source | None = None,
    prior: Source | None = None,
    earlier: Source | None = None,
    control: Source | None = None,
    least_advantage: float = LEAST_ADVANTAGE,
    names: Sequence[str] = (),
    **asked: Any,
) -> Attacks:
    """Try attacks on a policy's source, and on a release of it, inside the engine.

    `external` is a table of persons with quasi-identifiers that the attacker has; without it they know those of
    everybody in the source. `other` is another release of the same persons, an earlier one where they were released one
    after the other. `prior` is a table of values of a sensitive column and their `probability`, for everybody or for
    each combination of some quasi-identifiers. `earlier` is a table of the persons of `other`, with their key and their
    quasi-identifiers at that time, where `other` is an earlier release. `control` is a table of persons of the same
    population who are not in the source: how much more often attacks are right about those who are is their advantage.
    It is a finding where the lower end of its interval is over `least_advantage`. `names` are the attacks to try, all
    by default; what else may be `asked` are parameters of the attacks: certainty, knowledge, gain, ratio, level,
    epsilon, rounds.
    """
    engine.admit(policy)
    if policy.shape in (SET, SEQUENCE):
        given = (external, other, prior, earlier, control)
        of_shape = _attack_items if policy.shape == SET else _attack_journeys
        return of_shape(policy, engine, release, names, asked, [item for item in given if item is not None])
    require_shape(policy, "an attack on single rows", ROWS, ENTITY)
    if policy.shape == ENTITY and policy.source.joins:
        given = (external, other, prior, earlier, control)
        return _attack_entities(policy, engine, release, names, asked, [item for item in given if item is not None])
    if policy.shape == ENTITY:
        policy = as_linked_rows(policy)
    unknown = [name for name in names if name not in family("attacks")]
    if unknown:
        hint = did_you_mean(unknown[0], family("attacks")) or f"there are {', '.join(family('attacks'))}"
        raise PolicyError(f"there is no attack called '{unknown[0]}'", hint=hint)
    wanted = read_params(asked)
    if other is not None and release is None:
        raise PolicyError("another release is given, but not the one to compare it with", hint="name it: --release")
    if earlier is not None and other is None:
        raise PolicyError("the persons of an earlier release are given, but not that release", hint="name it: --other")
    if control is not None and release is None:
        raise PolicyError(
            "a control group is given, but no release to guess from", hint="publish, or name it: --release"
        )
    if control is not None and external is not None:
        raise PolicyError(
            "a control group and a list of persons are given",
            hint="the control group is compared with the persons of the source: leave --external out",
        )
    if not 0 <= least_advantage < 1:
        raise PolicyError("the least advantage must be at least 0 and below 1", hint="0.05 is the default")
    run = _Attacking(policy, engine, release, external, other, prior, earlier, wanted, control, least_advantage)
    try:
        return run.all(names)
    finally:
        run.drop()


def _attack_journeys(
    policy: Policy,
    engine: Engine,
    release: Source | None,
    names: Sequence[str],
    asked: Mapping[str, Any],
    tables: Sequence[Source],
) -> Attacks:
    _require_knowledge_alone("journeys", "visits", asked, tables)
    tried, refused = attack_journeys(policy, engine, release, names, asked.get("knowledge"))
    attacks = [
        Attack(
            name,
            None,
            {} if known is None else {"knowledge": known},
            _outcome(before),
            None if after is None else _outcome(after),
        )
        for name, (known, before, after) in tried.items()
    ]
    return Attacks("persons", policy.visit_columns, tuple(attacks), refused)


def _attack_items(
    policy: Policy,
    engine: Engine,
    release: Source | None,
    names: Sequence[str],
    asked: Mapping[str, Any],
    tables: Sequence[Source],
) -> Attacks:
    _require_knowledge_alone("sets of items", "items", asked, tables)
    tried, refused = attack_items(policy, engine, release, names, asked.get("knowledge"))
    attacks = [
        Attack(
            item.name,
            item.model,
            {} if item.known is None else {"knowledge": item.known},
            _outcome(item.before),
            None if item.after is None else _outcome(item.after),
            item.not_judged,
        )
        for item in tried
    ]
    return Attacks("persons", policy.items, tuple(attacks), refused)


def _attack_entities(
    policy: Policy,
    engine: Engine,
    release: Source | None,
    names: Sequence[str],
    asked: Mapping[str, Any],
    tables: Sequence[Source],
) -> Attacks:
    _require_alone("trees of rows", "certainty", "how sure an attacker must be", asked, tables)
    tried = attack_entities(policy, engine, release, names, asked.get("certainty"))
    attacks = [
        Attack(name, attribute, {}, _outcome(before), None if after is None else _outcome(after))
        for name, attribute, before, after in tried
    ]
    return Attacks("persons", policy.quasi_identifiers, tuple(attacks), notes=(KNOWN_TREES,))


def _require_alone(of: str, name: str, meaning: str, asked: Mapping[str, Any], tables: Sequence[Source]) -> None:
    more = [key for key, value in asked.items() if value is not None and key != name]
    if tables or more:
        what = f"'{more[0]}'" if more else "a further table"
        raise PolicyError(f"{what} means nothing for attacks on {of}", hint=f"they take '{name}', {meaning}")


def _require_knowledge_alone(of: str, known: str, asked: Mapping[str, Any], tables: Sequence[Source]) -> None:
    _require_alone(of, "knowledge", f"the number of {known} known", asked, tables)


def _outcome(found: JourneyOutcome) -> Outcome:
    return Outcome(found.targets, found.broken, found.highest, found.average, found.counts)


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
    prior: Source | None
    earlier: Source | None
    asked: AttackParams
    control: Source | None = None
    least_advantage: float = LEAST_ADVANTAGE
    notes: list[str] = field(default_factory=list)
    sides: dict[str, Side] = field(default_factory=dict)
    targets: Targets | None = None
    apart: Apart | None = None  # a release that parts rows
    everybody: Targets | None = None  # of the source, where an attacker has a list of others
    before: Targets | None = None  # the persons of an earlier release
    judged: Targets | None = None  # the persons of the source, and those of the control group
    links: dict[bool, RowLink | None] = field(default_factory=dict)  # of the release, or of the source
    several: dict[str, bool] = field(default_factory=dict)  # whether persons of a table have several rows

    def drop(self) -> None:
        for side in (*self.sides.values(), *([self.apart.groups] if self.apart else [])):
            side.drop()
        for targets in (self.targets, self.everybody, self.before, self.judged):
            if targets is not None:
                targets.drop()

    def all(self, names: Sequence[str]) -> Attacks:
        self.sides["source"] = side_of(self.policy, self.engine, None, "sqlanon_source", self.notes)
        partial = self.other is not None
        if self.release is not None and parts_rows(self.policy):
            self.apart = apart_of(self.policy, self.engine, self.release)
            self.sides["release"] = self.apart.people
        for name, given in (("release", self.release), ("other", self.other)):
            if given is not None and self.apart is None:
                made = side_of(self.policy, self.engine, given, f"sqlanon_{name}", self.notes, partial=partial)
                self.sides[name] = made
        if self.apart is None:
            self._require_all_columns()
        source = self.sides["source"]
        require_valid(source.compiler.policy, self.engine, source.compiler.hierarchies, source.prelude)
        source.work.done = len(source.prelude.steps)
        if self.control is not None:  # before anything that takes long
            if (reason := self._incomparable()) is not None:
                raise PolicyError(f"a control group is given, but {reason}", hint="leave it out")
            self.judged = judged_targets(self.policy, self.engine, self.control)
        tried: list[Attack] = []
        not_judged: dict[str, str] = {}
        for item in family("attacks").values():
            if item.makes or (names and item.name not in names):
                continue
            attributes = self._attacked(item)
            reasons: dict[str | None, str] = {}
            for attribute in attributes:
                if (lacking := self._missing(item, attribute)) is not None:
                    reasons[attribute] = lacking
                    continue
                try:
                    tried.append(self._one(item, attribute))
                except NotJudged as error:
                    reasons[attribute] = error.message
            if not attributes:
                lacking = "the policy adds no noise to a column, or draws it together again around the mean"
                not_judged[item.name] = lacking if "noise" in item.needs else "there is no sensitive column"
            elif len(reasons) == len(attributes) and len(set(reasons.values())) == 1:
                not_judged[item.name] = next(iter(reasons.values()))
            else:
                not_judged |= {f"{item.name} of {column}": reason for column, reason in reasons.items()}
        advantages, not_compared = self._advantages(names, tried)
        return Attacks(
            counts="persons" if self.policy.person else "rows",
            quasi_identifiers=self.policy.quasi_identifiers,
            attacks=tuple(tried),
            # Who is in the table may have been asked of the control group alone.
            not_judged={
                name: why for name, why in not_judged.items() if name not in {one.attack for one in advantages}
            },
            notes=tuple(dict.fromkeys(self.notes)),
            advantages=advantages,
            not_compared=not_compared,
            least_advantage=self.least_advantage,
        )

    def _advantages(
        self, names: Sequence[str], tried: Sequence[Attack]
    ) -> tuple[tuple[Advantage, ...], dict[str, str]]:
        """How much better the attacks on the release are than guesses without it, and which of them guess nothing."""
        done = {(item.name, item.attribute): item for item in tried if item.after is not None}
        wanted: list[tuple[Plugin, str | None]] = []
        for item in family("attacks").values():
            if item.makes or (names and item.name not in names):
                continue
            for attribute in self._attacked(item):
                # Who is in the table is also asked where the attacker has no list but that of the control group.
                unlisted = "external" in item.needs and self.control is not None
                if (item.name, attribute) in done or unlisted:
                    wanted.append((item, attribute))
        if "release" not in self.sides or not wanted:
            return (), {}
        reason = self._incomparable()
        if reason is not None:
            return (), {item.name: item.no_guess or reason for item, _ in wanted}
        guesser = self._guesser()
        found: list[Advantage] = []
        lacking: dict[str, str] = {}
        for item, attribute in wanted:
            try:
                self._require_readable(item, attribute, guesser.side)
                if self.apart is not None:
                    self._require_groups(item, attribute)
                one = done.get((item.name, attribute))
                found.append(guesser.judge(item, attribute, {} if one is None else one.params))
            except NotJudged as error:
                alone = item.no_guess or attribute is None
                lacking[item.name if alone else f"{item.name} of {attribute}"] = error.message
        return tuple(found), lacking

    def _incomparable(self) -> str | None:
        """Why no guess about persons can be right or wrong."""
        if self.external is not None:
            return "what persons of the external table have is not known"
        if self.policy.nulls == "unique":
            return "NULLs that match nothing cannot be looked up"
        if self.policy.source.joins:
            return "persons of joined tables are not looked up: join them in a view or 'query:'"
        return None

    def _guesser(self) -> Guesser:
        if self.judged is None:
            self.judged = judged_targets(self.policy, self.engine, None)
        return Guesser(
            self.policy, self.judged, self.sides["release"], self.apart, self.control is not None,
            self.least_advantage, self.asked.rounds, self.asked.level, self.notes,
        )  # fmt: skip

    def _require_groups(self, item: Plugin, attribute: str | None) -> None:
        assert self.apart is not None
        if attribute is None:
            self.apart.require_whole_rows()
        elif set(item.needs) <= OF_GROUPS:
            self.apart.require_groups(attribute)

    def _attacked(self, item: Plugin) -> Sequence[str | None]:
        """The columns that an attack is tried on, each by itself."""
        if "noise" in item.needs:
            return noise_levels.noisy_columns(self.policy)
        return self.policy.sensitive if "sensitive" in item.needs else (None,)

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
        if "splink" in needs and not record_linkage.has_splink():
            return "it needs Splink: pip install 'sqlanon[splink]'"
        if "external" in needs and self.external is None:
            return "it needs an external table of persons"
        if "other" in needs and self.other is None:
            return "it needs another release of the same persons"
        if "other" in needs and self.apart is not None:
            return f"releases of {self.apart.name} are not compared"
        if (
            "other" in needs
            and not {"views", "noise"} & needs
            and attribute is not None
            and not all(attribute in side.compiler.policy.sensitive for side in self.sides.values())
        ):
            return "the releases do not both show it"
        if "linked" in needs and self.policy.person is None:
            return "the policy names no person: write 'person: …'"
        if "linked" in needs and self._link(self.sides.get("release", self.sides["source"])) is None:
            return "no column links the rows of a person"
        if "epsilon" in needs and self.asked.epsilon is None:
            return "it needs an epsilon: how close numbers are as good as the same"
        if "numeric" in needs and attribute is not None and attribute not in self._numeric():
            return "it needs a sensitive column of numbers"
        if "prior" in needs and attribute is not None:
            lacking = inference_attacks.lacks_prior(self.engine, self.prior, attribute)
            if lacking is not None:
                return lacking
        if "requirement" in needs and attribute is not None:
            return "it needs a release" if self.release is None else minimality.find_obstacle(self.policy, attribute)
        if "taxonomy" in needs and attribute is not None:
            hierarchy = self.sides["source"].compiler.hierarchies.get(attribute)
            if hierarchy is None:
                return "it needs a hierarchy of the sensitive column, whose nodes are kinds of values"
            if self.asked.level >= hierarchy.height:
                return f"level {self.asked.level} of the hierarchy is its root, which covers everything"
        return None

    def _link(self, side: Side) -> RowLink | None:
        """What links the rows of a person in a table that is attacked."""
        if side.released not in self.links:
            rows = relation(side.compiler.source, self.engine.dialect, side.compiler.child_columns)
            self.links[side.released] = find_link(self.policy, self.engine, rows, released=side.released)
            found = self.links[side.released]
            if found is not None and (side.released or "release" not in self.sides):
                self.notes.append(
                    f"rows of a person are linked by {', '.join(found.columns)}: 'linked_rows' looks for whole sets of "
                    "rows, the other attacks for single rows"
                )
        return self.links[side.released]

    def _numeric(self) -> set[str]:
        rows = relation(self.sides["source"].compiler.source, self.engine.dialect)
        return {item.name for item in self.engine.columns(rows) if item.numeric}

    def _one(self, item: Plugin, attribute: str | None) -> Attack:
        given = {key: value for key, value in self.asked.params().items() if item.param(key)}
        # Where suppressed cells match any value no row is left out: everybody in the source has one in the release.
        if item.param("present") and matches_any_value(self.policy) and self.external is None:
            given["present"] = 1
        params = item.filled(given)
        before = self._of_side(item, attribute, params, self.sides["source"])
        if "release" not in self.sides:
            return Attack(item.name, attribute, params, before, None)
        side = self.sides["release"]
        try:
            self._require_readable(item, attribute, side)
            judge = self._of_side if self.apart is None else self._of_apart
            return Attack(item.name, attribute, params, before, judge(item, attribute, params, side))
        except NotJudged as error:
            return Attack(item.name, attribute, params, before, None, error.message)

    def _require_readable(self, item: Plugin, attribute: str | None, side: Side) -> None:
        """A release that shows other values than persons have is not searched for these: nothing would be found, which
        looks safe."""
        if "noise" in item.needs:
            return
        if matches_any_value(self.policy) and not OVER_FITTING.intersection(item.needs):
            raise NotJudged(
                f"{READING}, so that classes overlap: see attribute_linkage, for the rows that fit a person"
            )
        shown = {name for each in (side, self.sides.get("other", side)) for name in each.compiler.policy.sensitive}
        if "views" not in item.needs:
            shown = set(side.compiler.policy.sensitive)
        if attribute is not None and attribute not in shown and self.apart is None:
            raise NotJudged(f"the release does not show '{attribute}'")
        looked_at = [attribute] if attribute is not None else []
        if JOINING & set(item.needs) and "nearest" not in item.traits:
            looked_at += side.known(self._targets())
        changed = [name for name in looked_at if name in side.changed]
        if "requirement" in item.needs and algorithm_worlds.is_inverted(self.policy):
            changed = []  # what the algorithm did to values is what is looked at
        if changed:
            raise NotJudged(f"the release shows other values of '{changed[0]}' than persons have")

    def _of_side(self, item: Plugin, attribute: str | None, params: Mapping[str, Any], side: Side) -> Outcome:
        if "splink" in item.needs:
            made = record_linkage.link_records(item, params["certainty"], self._targets(), side, self.notes)
            return replace(outcome_of(made), counts=self._counts(self._targets()))
        if "requirement" in item.needs and attribute is not None:
            if side.released and algorithm_worlds.is_inverted(self.policy):
                return self._of_worlds(attribute, params, side)
            told = draw_conclusions(item, self.policy, attribute, self._targets(), side) if side.released else None
            if told is not None:
                return replace(sum_up(told, params["certainty"]), counts=self._counts(self._targets()))
            if side.released:
                raise NotJudged("the release has not one level for each column, as the search for a finer table has")
            return self._plain(attribute, params, side)
        if "noise" in item.needs and not side.released:
            rows = int(self.engine.query(relations.counted_rows(side.prelude.rows))[0][0])
            return Outcome(rows, rows, 1.0, 1.0) if rows else Outcome(0, 0, None, None)
        if "comparable" in item.needs and not side.released and attribute is not None:
            return self._plain(attribute, params, side)
        return self._outcome(item, attribute, params, side)

    def _of_apart(self, item: Plugin, attribute: str | None, params: Mapping[str, Any], side: Side) -> Outcome:
        assert self.apart is not None
        if attribute is None:
            self.apart.require_whole_rows()
            return self._of_side(item, attribute, params, side)
        if "beliefs" in item.traits:
            targets, learn = self._targets(), item.param("rounds") is not None
            first = self.apart.first_beliefs(targets, attribute)
            believed = learning_attacks.revised_beliefs(targets, side, first, self.asked.rounds if learn else 0)
            known = learning_attacks.truths(targets, attribute) if learn else None
            return self._of_beliefs(targets.table, believed, known, params, side)
        if "requirement" in item.needs:
            return self._of_worlds(attribute, params, side)
        if set(item.needs) <= OF_GROUPS:
            self.apart.require_groups(attribute)
            return self._outcome(item, attribute, params, self.apart.groups)
        raise NotJudged(f"{self.apart.name} took sensitive values apart from their rows")

    def _of_beliefs(
        self, targets: str, believed: str, known: str | None, params: Mapping[str, Any], side: Side
    ) -> Outcome:
        """How sure an attacker is who believes this; of what persons have, where that is known."""
        truths = known if known is not None else guesses.truths(side.prelude, side.grouping, None)
        side.work.run()
        made = {"targets": targets, "beliefs": believed, "truths": truths}
        statement = bind(plugin("attacks", "definetti").sql, {"certainty": params["certainty"]}, made)
        return outcome_of(self.engine.query(relations.confidence(statement))[0])

    def _of_worlds(self, attribute: str, params: Mapping[str, Any], side: Side) -> Outcome:
        """What follows from how an algorithm made its groups, or generalized sensitive values."""
        targets = self._targets()
        if self.apart is not None:
            believed = algorithm_worlds.beliefs_of_groups(self.apart, targets, attribute, self.notes)
        elif self.policy.algorithm_traits.worlds == "guarding":
            believed = algorithm_worlds.beliefs_of_guarding(self.policy, targets, side, attribute)
        else:
            earlier = self._earlier()
            believed = algorithm_worlds.beliefs_of_invariance(
                self.policy, targets, self._everybody(), side, attribute, earlier, self.notes
            )
        found = self._of_beliefs(believed.targets, believed.beliefs, None, params, side)
        return replace(found, counts=self._counts(targets))

    def _earlier(self) -> tuple[Targets, Side] | None:
        """The persons of the other release, and that release."""
        if self.other is None:
            return None
        if self.earlier is None:
            raise NotJudged("it needs the persons of the earlier release: --earlier")
        if self.before is None:
            self.before = targets_of(self.policy, self.engine, self.earlier, "sqlanon_before")
        return self.before, self.sides["other"]

    def _plain(self, attribute: str, params: Mapping[str, Any], side: Side) -> Outcome:
        """What the source alone gives away, where an attack needs more than one table."""
        plain = plugin("attacks", "attribute_linkage")
        return self._outcome(plain, attribute, plain.filled(dict(params)), side)

    def _outcome(self, item: Plugin, attribute: str | None, params: Mapping[str, Any], side: Side) -> Outcome:
        made = {name: self._relation(name, side, attribute, item) for name in sorted(find_references(item.sql))}
        side.work.run()
        tree = bind(item.sql, dict(params), made)
        if "linked" in item.needs:
            return self._of_sets(tree, made["target_classes"], side)
        plain = tree.copy()
        unit = relations.add_unit(tree, {table: UNITS[name] for name, table in made.items() if name in UNITS})
        looked_up: Side | Targets = self._targets() if unit == "group_id" else side
        counts = self._counts(looked_up)
        if unit is None or looked_up.grouping.person is None or counts == "persons":
            return replace(outcome_of(self.engine.query(relations.confidence(plain))[0]), counts=counts)
        members = class_rows(looked_up.work.prelude, looked_up.grouping)
        looked_up.work.run()
        row = self.engine.query(relations.confidence_of_persons(tree, members))[0]
        return replace(outcome_of(row), counts="persons")

    def _counts(self, looked_up: Side | Targets) -> str:
        """Whether a sum over classes or groups counts persons: not where a person is in several, or is not known."""
        person, prelude = looked_up.grouping.person, looked_up.work.prelude
        if person is None:
            return "rows"
        if prelude.prefix not in self.several:
            persons, rows = self.engine.query(persons_and_rows(prelude, person))[0]
            self.several[prelude.prefix] = int(persons) < int(rows)
        return "rows" if self.several[prelude.prefix] else "persons"

    def _of_sets(self, tree: exp.Select, fitting: str, side: Side) -> Outcome:
        """The attack on whole sets of rows: each row must have one place in the table, or no set would be found."""
        if int(self.engine.query(relations.most_fitting(fitting))[0][0] or 0) > 1:
            raise NotJudged("a row fits several classes of the release, as where rows were recoded locally")
        found = outcome_of(self.engine.query(relations.confidence(tree.copy()))[0])
        missed = int(self.engine.query(relations.persons_not_found(tree))[0][0] or 0)
        if missed and side.released and not self._targets().external:
            self.notes.append(
                f"linked_rows: {missed:,} persons have no set of rows in the release, which left rows out"
            )
        return replace(found, counts="persons")

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
                return joined_views.join_views(self.policy, self._targets(), side, beside)
            case "joined_values" if attribute is not None:
                beside = self.sides["other"] if side.released else side
                return joined_views.joined_values(self.policy, self._targets(), side, beside, attribute)
            case "comparable":
                return inference_attacks.comparable(self._everybody(), side, self.sides["other"])
            case "versions" if attribute is not None:
                return noise_levels.versions(self.policy, self.sides["source"], side, self.sides["other"], attribute)
            case "newcomers":
                return inference_attacks.newcomers(self._targets(), side)
            case "inferences" if attribute is not None:
                return inference_attacks.inferences(self.policy, side, attribute)
            case "priors" if attribute is not None and self.prior is not None:
                return inference_attacks.priors(self.policy, self.engine, self._targets(), self.prior, attribute)
            case "classes":
                return classes(prelude, grouping)
            case "target_rows":
                rows = relations.target_rows(self._targets().work.prelude, self._targets().grouping)
                self._targets().work.run()
                return rows
            case "class_rows":
                link = self._link(side)
                return class_rows(prelude, grouping, link.columns if link is not None and link.person == LINKED else ())
            case "targets":
                return self._targets().table
            case "target_classes":
                return find_target_classes(self._targets(), side)
            case "class_values" if attribute is not None:
                return class_values(prelude, grouping, attribute)
            case "truths" if attribute is not None:
                return learning_attacks.truths(self._targets(), attribute)
            case "beliefs" if attribute is not None:
                return learning_attacks.beliefs(self._targets(), side, attribute, self.asked.rounds)
            case "chosen_targets":
                return learning_attacks.chosen_targets(self._targets(), side, self.notes)
            case "distances":
                return learning_attacks.distances(self._targets(), side, self.notes)
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

    def _everybody(self) -> Targets:
        if self.external is None:
            return self._targets()
        if self.everybody is None:
            self.everybody = targets_of(self.policy, self.engine, None, "sqlanon_everybody")
        return self.everybody


def outcome_of(row: tuple[Any, ...]) -> Outcome:
    targets, broken, *sure = row
    highest, average = (None if value is None else float(value) for value in sure)
    return Outcome(int(targets), int(broken), highest, average)


def sum_up(told: Sequence[tuple[int, float]], certainty: float) -> Outcome:
    """The outcome of conclusions (persons, confidence) that were not drawn by a statement."""
    targets = sum(persons for persons, _ in told)
    broken = sum(persons for persons, sure in told if sure >= certainty - 1e-9)
    if not targets:
        return Outcome(0, 0, None, None)
    highest = max(sure for _, sure in told)
    return Outcome(targets, broken, highest, sum(persons * sure for persons, sure in told) / targets)


__all__ = ["Advantage", "Attack", "Attacks", "Outcome", "as_data", "attack", "plugin"]

"""The facts that the criteria of a release judge: its policy, its columns as written, its stored evidence, its risks
and attacks. What could not be measured is None, and `reasons` says why.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlanon import transformations
from sqlanon.evidence.json_values import items, mapping, number, part, quantity, text
from sqlanon.evidence.release_evidence import ReleaseEvidence
from sqlanon.families import family
from sqlanon.policy import Policy
from sqlanon.verdict.column_contents import ReleasedColumn
from sqlanon.verdict.dominance import TopShare


@dataclass(frozen=True)
class FoundChances:
    """How likely persons are found in the release. `average` and `uniques` are None where rows were counted for
    persons who have several."""

    highest: float
    average: float | None
    uniques: int | None
    counts: str

    @property
    def smallest(self) -> int:
        """Persons or rows in the smallest class."""
        return round(1 / self.highest)


@dataclass(frozen=True)
class AttackResult:
    """What an attack achieves against the release; `why` says why it was not judged."""

    name: str
    attribute: str | None
    targets: int = 0
    broken: int = 0
    confidence: float | None = None
    why: str | None = None

    @property
    def title(self) -> str:
        return f"{self.name} of {self.attribute}" if self.attribute else self.name


@dataclass(frozen=True)
class FoundAdvantage:
    """How much more often an attack guesses rightly about persons of the source than about a control group, or than
    somebody does who guesses from the margins of the release."""

    name: str
    attribute: str | None
    over_control: bool
    advantage: float
    low: float
    high: float
    finding: bool

    def __str__(self) -> str:
        of = f" of {self.attribute}" if self.attribute else ""
        return f"{self.name}{of} {self.advantage:.1%} ({self.low:.1%} to {self.high:.1%})"


@dataclass(frozen=True)
class ReleaseFacts:
    policy: Policy
    columns: tuple[ReleasedColumn, ...]
    chances: FoundChances | None = None
    evidence: ReleaseEvidence | None = None
    risks: Mapping[str, Any] = field(default_factory=dict)
    attacks: Mapping[str, Any] | None = None
    dominance: tuple[TopShare, ...] | None = None
    others: tuple[str, ...] | None = None  # other releases of the same source; None where no record is kept
    reasons: Mapping[str, str] = field(default_factory=dict)

    def why(self, fact: str) -> str:
        return self.reasons.get(fact, "there is no evidence for it")

    @property
    def shown(self) -> tuple[ReleasedColumn, ...]:
        """The columns that tell something: neither NULL nor suppressed everywhere."""
        return tuple(item for item in self.columns if item.filled)

    @property
    def pseudonyms(self) -> tuple[str, ...]:
        return tuple(item.name for item in self.shown if item.pseudonym)

    @property
    def linked(self) -> tuple[str, ...]:
        """Columns that link the rows of a person."""
        return tuple(text(item) for item in items(self.risks.get("linked")))

    def disclosure(self, attribute: str) -> tuple[float, float, float] | None:
        """How often a value is guessed rightly with the classes and without them, and how sure the surest guess is."""
        found = mapping(mapping(mapping(self.risks.get("attributes")).get(attribute)).get("attribute_disclosure"))
        values = [part(found.get(key)) for key in ("guessed", "guessed_without", "highest")]
        guessed, without, highest = values
        return None if guessed is None or without is None or highest is None else (guessed, without, highest)

    def advantages_of(self, *names: str) -> list[FoundAdvantage]:
        """The advantages of these attacks on sensitive values."""
        found: list[FoundAdvantage] = []
        for raw in map(mapping, items(mapping(self.attacks).get("advantages"))):
            name, attribute = text(raw.get("attack")), text(raw.get("attribute")) or None
            value, low, high = (number(raw.get(key)) for key in ("advantage", "low", "high"))
            if name in names and attribute is not None and value is not None and low is not None and high is not None:
                over_control = text(raw.get("against")) == "control"
                is_finding = raw.get("finding") is True
                found.append(FoundAdvantage(name, attribute, over_control, value, low, high, is_finding))
        return found

    def results_of(self, *names: str) -> list[AttackResult]:
        """The results of these attacks against the release, with those that were not judged."""
        found: list[AttackResult] = []
        for raw in map(mapping, items(mapping(self.attacks).get("attacks"))):
            if text(raw.get("name")) not in names:
                continue
            name, attribute = text(raw.get("name")), text(raw.get("attribute")) or None
            after = mapping(raw.get("after"))
            targets, broken = quantity(after.get("targets")), quantity(after.get("broken"))
            if targets is None or broken is None:
                found.append(AttackResult(name, attribute, why=text(raw.get("not_judged")) or "there is no release"))
            else:
                found.append(AttackResult(name, attribute, targets, broken, part(after.get("confidence"))))
        for key, reason in mapping(mapping(self.attacks).get("not_judged")).items():
            name, _, attribute = text(key).partition(" of ")
            if name in names:
                found.append(AttackResult(name, attribute or None, why=text(reason)))
        return found


def found_chances(
    policy: Policy, risks: Mapping[str, Any], evidence: ReleaseEvidence | None, *, one_row_each: bool
) -> tuple[FoundChances | None, str]:
    """How likely persons are found, or why that is not known.

    `one_row_each` is False where rows of the release were counted although persons have several: a class of ten rows
    may be one person. Then the check that counted persons when the release was written is all that is known.
    """
    drawn = sorted(set(_drawn_columns(policy)) & set(policy.quasi_identifiers))
    if drawn:
        return None, f"values of {', '.join(drawn)} were changed at random: classes do not tell whom they belong to"
    if one_row_each:
        measures = mapping(risks.get("measures"))
        found, alone = mapping(measures.get("prosecutor")), mapping(measures.get("sample_uniqueness"))
        highest = part(found.get("highest"))
        if not highest:
            return None, "the release has no row to measure"
        counts = text(risks.get("counts")) or "rows"
        return FoundChances(highest, part(found.get("average")), quantity(alone.get("uniques")), counts), ""
    checks = (evidence.checks or ()) if evidence is not None else ()
    for item in checks:
        size, known = number(item.measured), family("models").get(item.model)
        counts_size = known is not None and known.bounds is not None and known.bounds.kind == "size"
        if counts_size and set(item.qid) == set(policy.quasi_identifiers) and size and size >= 1:
            return FoundChances(1 / size, None, None if size < 2 else 0, "persons"), ""
    return None, "persons have several rows, the release does not show whose they are, and no check counted persons"


def _drawn_columns(policy: Policy) -> Sequence[str]:
    """Columns whose values a transformation draws; a sample leaves values as they are."""
    return [
        name for use in policy.transformations if transformations.method(use.name).uses_secret for name in use.changed()
    ]

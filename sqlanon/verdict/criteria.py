"""A criterion as data: what is tested, where the threshold comes from, and the function that judges the facts.

A criterion never passes in silence. Where a fact is missing, its function returns `not_assessed` with the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from typing import Any, Generic, Literal, TypeVar

State = Literal["met", "not met", "not assessed"]
Origin = Literal["law", "guidance", "our default"]
STATES: tuple[State, ...] = ("met", "not met", "not assessed")

Facts = TypeVar("Facts")


@dataclass(frozen=True)
class Judgement:
    """What a test found: its state, and what was measured, or why nothing was."""

    state: State
    measured: str


@dataclass(frozen=True)
class Criterion(Generic[Facts]):
    """One criterion of a regulation. `origin` says who set the threshold."""

    ident: str
    title: str
    cite: str
    test: str
    threshold: str
    origin: Origin
    judge: Callable[[Facts], Judgement]


@dataclass(frozen=True)
class Regulation(Generic[Facts]):
    """A law, guideline or standard with its criteria. `note` says how to read them."""

    ident: str
    title: str
    note: str
    criteria: tuple[Criterion[Facts], ...]


@dataclass(frozen=True)
class CriterionVerdict:
    """A criterion with what was found; the form in which it is printed and kept."""

    ident: str
    title: str
    state: State
    measured: str
    test: str
    threshold: str
    origin: Origin
    cite: str


@dataclass(frozen=True)
class RegulationVerdict:
    ident: str
    title: str
    note: str
    criteria: tuple[CriterionVerdict, ...]

    def count(self, state: State) -> int:
        return sum(item.state == state for item in self.criteria)


def met(measured: str) -> Judgement:
    return Judgement("met", measured)


def not_met(measured: str) -> Judgement:
    return Judgement("not met", measured)


def not_assessed(why: str) -> Judgement:
    return Judgement("not assessed", why)


def decide(holds: bool, measured: str) -> Judgement:
    """
    >>> decide(0.1 <= 0.2, "10%").state
    'met'
    """
    return met(measured) if holds else not_met(measured)


def never_assessed(why: str) -> Callable[[Any], Judgement]:
    """For what no tool can measure: the reason stands in the verdict, so that nobody takes it for a pass."""
    return lambda facts: not_assessed(why)


def judge_all(regulations: Iterable[Regulation[Facts]], facts: Facts) -> tuple[RegulationVerdict, ...]:
    return tuple(
        RegulationVerdict(item.ident, item.title, item.note, tuple(_judge(each, facts) for each in item.criteria))
        for item in regulations
    )


def _judge(item: Criterion[Facts], facts: Facts) -> CriterionVerdict:
    found = item.judge(facts)
    return CriterionVerdict(
        ident=item.ident,
        title=item.title,
        state=found.state,
        measured=found.measured,
        test=item.test,
        threshold=item.threshold,
        origin=item.origin,
        cite=item.cite,
    )


def as_data(verdicts: Iterable[RegulationVerdict]) -> list[dict[str, Any]]:
    """Verdicts as mappings, lists and text."""
    return [{**asdict(item), "counts": {state: item.count(state) for state in STATES}} for item in verdicts]

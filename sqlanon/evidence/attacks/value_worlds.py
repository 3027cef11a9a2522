"""The worlds that a minimality attack leaves possible: how a guarded value may be spread over the groups of a class.

A class of N persons, c of whom have the value, was put together from groups whose sizes are known. All ways to
place the value are equally likely at first; those remain in which some group, in this class or in another, broke the
bound.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

from sqlanon.evidence.attacks.attacked_table import NotJudged

Array = npt.NDArray[np.float64]
MOST_WORK = 50_000_000  # steps for one class


@dataclass(frozen=True)
class Configuration:
    """Classes that are alike: so many persons and so many with the value, in groups of so many persons."""

    records: int
    matching: int
    groups: tuple[tuple[int, int], ...]  # size of a group, number of such groups
    classes: int

    @property
    def complete(self) -> bool:
        """Whether the list holds as many persons as the class; otherwise nothing can be concluded."""
        return sum(size * number for size, number in self.groups) == self.records


def configuration(records: int, matching: int, sizes: str, classes: int) -> Configuration:
    """
    >>> configuration(7, 2, "2x1,5x1", 1).groups
    ((2, 1), (5, 1))
    """
    pairs = [part.split("x") for part in sizes.split(",")]
    return Configuration(records, matching, tuple((int(size), int(number)) for size, number in pairs), classes)


def conclusions(found: Sequence[Configuration], bound: float) -> list[tuple[int, float]]:
    """(persons, confidence that they have the value), for all classes.

    Two engineers and five lawyers, two of them with HIV, and at most 60 % are allowed: it is the engineers.

    >>> conclusions([configuration(7, 2, "2x1,5x1", 1)], 0.6)
    [(2, 1.0), (5, 0.0)]
    """
    broken = [_broken(item.records, item.matching, item.groups, bound) if item.complete else {} for item in found]
    chances = [next(iter(own.values()))[0] if own else 0.0 for own in broken]
    # Of the classes of a configuration one is looked at, and the others are like any other class.
    logs = [
        math.log1p(-min(chance, 1 - 1e-16)) * item.classes for chance, item in zip(chances, found, strict=True)
    ]  # fmt: skip
    result = []
    for item, own, chance in zip(found, broken, chances, strict=True):
        share = item.matching / item.records
        elsewhere = -math.expm1(sum(logs) - math.log1p(-min(chance, 1 - 1e-16)))
        some = chance + (1 - chance) * elsewhere
        for size, number in item.groups:
            sure = share
            if own and some > 0:
                here = own[size][1]
                sure = (here + (share - here) * elsewhere) / some
            result.append((size * number * item.classes, min(max(sure, 0.0), 1.0)))
    return result


@cache
def _broken(
    records: int, matching: int, groups: tuple[tuple[int, int], ...], bound: float
) -> Mapping[int, tuple[float, float]]:
    """For the groups of each size: the chance that some group breaks the bound, and the expected share of the value in
    the group where that is so (0 where it is not)."""
    able = [(size, number) for size, number in groups if min(size, matching) > bound * size + 1e-12]
    rest = records - sum(size * number for size, number in able)
    if not able or matching == 0:
        return {size: (0.0, 0.0) for size, _ in groups}
    work = sum(number * (min(size, matching) + 1) for size, number in able) * (matching + 1) * (len(able) + 1)
    if work > MOST_WORK:
        raise NotJudged("a class has too many groups to be looked at one by one")
    chance = matching / records
    whole = _binomial(records, matching, chance)[matching]
    found: dict[int, tuple[float, float]] = {}
    for size, _ in [*able, (0, 1)]:
        # Size 0 stands for all groups that cannot break the bound: they are as good as one.
        others = [(each, number - (each == size)) for each, number in able]
        none, some = _spread(others, rest if size else 0, matching, bound, chance)
        own = size or rest
        here = _binomial(own, matching, chance)
        total = expected = 0.0
        for taken in range(min(own, matching) + 1):
            breaks = bool(size) and taken > bound * size + 1e-12
            others_left = some[matching - taken] + (none[matching - taken] if breaks else 0.0)
            total += here[taken] * others_left
            expected += here[taken] * others_left * (taken / own if own else 0.0)
        found[size] = (float(total / whole), float(expected / whole))
    return {size: found.get(size, found[0]) for size, _ in groups}


def _spread(
    groups: Sequence[tuple[int, int]], rest: int, most: int, bound: float, chance: float
) -> tuple[Array, Array]:
    """How likely the groups together hold 0, 1, … of the value: without, and with a group that breaks the bound."""
    none, some = _binomial(rest, most, chance), np.zeros(most + 1)
    for size, number in groups:
        own = _binomial(size, most, chance)
        within = np.where(np.arange(most + 1) <= bound * size + 1e-12, own, 0.0)
        for _ in range(number):
            some = np.convolve(some, own)[: most + 1] + np.convolve(none, own - within)[: most + 1]
            none = np.convolve(none, within)[: most + 1]
    return none, some


def _binomial(size: int, most: int, chance: float) -> Array:
    """The chances of 0, 1, … `most` successes. Given their sum over all groups, these spread as the value does."""
    found = np.zeros(most + 1)
    for taken in range(min(size, most) + 1):
        ways = math.lgamma(size + 1) - math.lgamma(taken + 1) - math.lgamma(size - taken + 1)
        if chance >= 1:
            found[taken] = float(taken == size)
        else:
            found[taken] = math.exp(ways + taken * math.log(chance) + (size - taken) * math.log1p(-chance))
    return found

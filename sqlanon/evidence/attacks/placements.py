"""The worlds that a minimality attack leaves possible, for requirements that look at all values of a class.

A class was put together from groups whose sizes are known, and its values are known. All ways to give the values to
the persons are equally likely at first; those remain in which some group, in this class or in another, broke the
requirement.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache

from sqlanon.evidence.attacks.attacked_table import NotJudged

MOST_STEPS = 300_000  # for one class
Counts = tuple[int, ...]
Breaks = Callable[[Mapping[int, int]], bool]  # whether a group with these numbers of values, by rank, is too much


@dataclass(frozen=True)
class Placement:
    """Classes that are alike: groups of so many persons, and how often each value, by rank, occurs."""

    groups: tuple[tuple[int, int], ...]  # size of a group, number of such groups
    values: tuple[tuple[int, int], ...]  # rank of a value, number of records
    classes: int

    @property
    def records(self) -> int:
        return sum(number for _, number in self.values)

    @property
    def complete(self) -> bool:
        """Whether the groups hold as many persons as the class; otherwise nothing can be concluded."""
        return sum(size * number for size, number in self.groups) == self.records


def placement(sizes: str, ranks: str, classes: int) -> Placement:
    """
    >>> placement("2x1,5x1", "1x5,2x2", 1).values
    ((1, 5), (2, 2))
    """
    pairs = [[part.split("x") for part in text.split(",")] for text in (sizes, ranks)]
    groups, values = (tuple((int(a), int(b)) for a, b in part) for part in pairs)
    return Placement(groups, values, classes)


def surest_values(found: Sequence[Placement], breaks: Breaks) -> list[tuple[int, float]]:
    """(persons, confidence in the value that is most likely for them), for all classes.

    Two engineers and five lawyers, two of them with HIV (2) and five with the flu (1); had both groups been diverse,
    they would have been shown. In 10 of the 11 worlds where one is not, it is the engineers, who have the flu.

    >>> surest_values([placement("2x1,5x1", "1x5,2x2", 1)], lambda group: len(group) < 2)
    [(2, 0.9090909090909091), (5, 0.6363636363636364)]
    """
    harmless = [_harmless(item, breaks) if item.complete else None for item in found]
    chances = [Fraction(1) if own is None else own[0] for own in harmless]  # that no group of the class breaks it
    none = math.prod((chance**item.classes for chance, item in zip(chances, found, strict=True)), start=Fraction(1))
    result = []
    for item, own, chance in zip(found, harmless, chances, strict=True):
        plain = {rank: Fraction(number, item.records) for rank, number in item.values}
        # That no other class breaks it; 0 where one surely does.
        others = none / chance if chance else Fraction(0)
        if chance == 0 and item.classes == 1:
            others = math.prod(
                (each**other.classes for each, other in zip(chances, found, strict=True) if other is not item),
                start=Fraction(1),
            )
        for size, number in item.groups:
            shares = plain
            if own is not None and none < 1:
                kept = own[1][size]
                shares = {rank: (plain[rank] - kept[rank] * others) / (1 - none) for rank in plain}
            result.append((size * number * item.classes, float(max(shares.values()))))
    return result


def _harmless(item: Placement, breaks: Breaks) -> tuple[Fraction, dict[int, dict[int, Fraction]]]:
    """The chance that no group breaks the requirement, and for a group of each size the expected share of each value
    where that is so (0 where it is not)."""
    ranks = [rank for rank, _ in item.values]
    counts = tuple(number for _, number in item.values)
    states = math.prod(number + 1 for number in counts)
    many = sum(number for _, number in item.groups)
    widest = max(math.prod(min(size, number) + 1 for number in counts) for size, _ in item.groups)
    if states * widest * many > MOST_STEPS:
        raise NotJudged("a class has too many ways to place its values")

    @cache
    def fine(taken: Counts) -> bool:
        return not breaks({rank: number for rank, number in zip(ranks, taken, strict=True) if number})

    @cache
    def ways(groups: tuple[tuple[int, int], ...], left: Counts) -> int:
        """To give what is left to the groups, so that none of them breaks it."""
        if not groups:
            return int(not any(left))
        (size, number), rest = groups[0], groups[1:]
        following = ((size, number - 1), *rest) if number > 1 else rest
        return sum(
            _arrangements(taken) * ways(following, _less(left, taken)) for taken in _taken(left, size) if fine(taken)
        )

    total = _arrangements(counts)
    shares = {}
    for size, _ in item.groups:
        others = tuple((each, n - (each == size)) for each, n in item.groups if n - (each == size) > 0)
        expected = [0] * len(ranks)
        for taken in _taken(counts, size):
            if fine(taken):
                weight = _arrangements(taken) * ways(others, _less(counts, taken))
                expected = [sum_ + weight * n for sum_, n in zip(expected, taken, strict=True)]
        shares[size] = {rank: Fraction(n, total * size) for rank, n in zip(ranks, expected, strict=True)}
    return Fraction(ways(item.groups, counts), total), shares


def _taken(left: Counts, size: int) -> Iterator[Counts]:
    """All ways to take so many values of those that are left."""
    if not left:
        if size == 0:
            yield ()
        return
    for first in range(max(0, size - sum(left[1:])), min(left[0], size) + 1):
        for rest in _taken(left[1:], size - first):
            yield (first, *rest)


def _less(left: Counts, taken: Counts) -> Counts:
    return tuple(one - other for one, other in zip(left, taken, strict=True))


def _arrangements(counts: Counts) -> int:
    """In how many orders values stand that occur so often."""
    return math.factorial(sum(counts)) // math.prod(math.factorial(number) for number in counts)

"""The worst case of (c,k)-safety: how k implications are best spread over the classes.

With the implications "if A_i then C" a value C gets the probability 1 / (1 + P(not C, not A_1, …, not A_k) / P(C)).
In a class it is least likely that all of them are wrong if they are its most frequent values; classes are independent,
so that the best way to share k + 1 values among them is found class by class.
"""

from __future__ import annotations

import math
from collections.abc import Iterable


def worst_disclosure(chosen: Iterable[tuple[int, int, float, float]], atoms: int) -> list[float]:
    """For 0, 1, … `atoms` - 1 implications, the largest probability of a sensitive value.

    `chosen` are rows (class, values excluded in it, their least chance, that chance over the one of the class's most
    frequent value). No class is needed that is not among the first `atoms` of its kind: one of these would be free.
    """
    by_class: dict[int, list[tuple[int, float, float]]] = {}
    for number, excluded, chance, odds in chosen:
        by_class.setdefault(number, []).append((excluded, chance, odds))
    if not by_class:
        return []
    # The least product with so many values in all, without and with the class of the conclusion among them.
    without = [1.0] + [math.inf] * atoms
    including = [math.inf] * (atoms + 1)
    for options in by_class.values():
        before, among = list(without), list(including)
        for excluded, chance, odds in options:
            for total in range(excluded, atoms + 1):
                without[total] = min(without[total], _times(before[total - excluded], chance))
                both = min(_times(among[total - excluded], chance), _times(before[total - excluded], odds))
                including[total] = min(including[total], both)
    return [1 / (1 + least) for least in including[1:]]


def _times(left: float, right: float) -> float:
    """A product where what cannot be stays so, even times 0."""
    return math.inf if math.isinf(left) else left * right

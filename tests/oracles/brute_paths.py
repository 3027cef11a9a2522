"""LKC-privacy of paths in plain Python, over all subsequences. A path is a set of doublets: a place at a time."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from fractions import Fraction
from typing import Any

Doublet = str  # "e4": at place e at time 4
Path = frozenset[Doublet]


def subsequences(path: Path, longest: int) -> set[Path]:
    return {frozenset(q) for size in range(1, longest + 1) for q in itertools.combinations(sorted(path), size)}


def matching(paths: Sequence[Path], known: Path) -> list[int]:
    return [person for person, path in enumerate(paths) if known <= path]


def violations(
    paths: Sequence[Path],
    values: Sequence[str] | None,
    guarded: Collection[str] | None,
    length: int,
    k: int,
    c: Fraction,
) -> set[Path]:
    """Subsequences of at most l doublets that fewer than k paths match, or that tell a guarded value too surely."""
    found = set()
    for known in set().union(*(subsequences(path, length) for path in paths)):
        persons = matching(paths, known)
        counts = Counter(values[person] for person in persons) if values is not None else Counter[str]()
        most = max((n for value, n in counts.items() if guarded is None or value in guarded), default=0)
        if len(persons) < k or Fraction(most, len(persons)) > c:
            found.add(known)
    return found


def minimal(sets: Collection[Path]) -> set[Path]:
    return {own for own in sets if not any(other < own for other in sets)}


def suppress(paths: Sequence[Path], gone: Collection[Doublet]) -> list[Path]:
    return [path - set(gone) for path in paths]


def instances(paths: Sequence[Path]) -> Counter[Doublet]:
    return Counter(doublet for path in paths for doublet in path)


def frequent(paths: Sequence[Path], support: int, longest: int) -> set[Path]:
    found = set().union(*(subsequences(path, longest) for path in paths))
    return {known for known in found if len(matching(paths, known)) >= support}


def maximal(sets: Collection[Path]) -> set[Path]:
    return {own for own in sets if not any(own < other for other in sets)}


def utility(paths: Sequence[Path], support: int | None, longest: int = 9) -> Mapping[Doublet, int]:
    """What a doublet is worth: its instances, or how many maximal frequent subsequences hold it."""
    if support is None:
        return instances(paths)
    return Counter(doublet for known in maximal(frequent(paths, support, longest)) for doublet in known)


def greedy(
    broken: Collection[Path], worth: Mapping[Doublet, int], order: Callable[[Doublet], Any] = str
) -> list[Doublet]:
    """Fung et al.: the doublet of most minimal violating sequences for what it is worth; ties by text."""
    left, gone = set(broken), []
    while left:
        counts = Counter(doublet for known in left for doublet in known)
        best = min(counts, key=lambda name: (-Fraction(counts[name], worth[name] + 1), order(name)))
        gone.append(best)
        left = {known for known in left if best not in known}
    return gone


def least_instances(paths: Sequence[Path], broken: Collection[Path]) -> int:
    """The fewest instances that must go so that no violating sequence is left, over all sets of doublets."""
    weight = instances(paths)
    places = sorted(set().union(*broken)) if broken else []
    best = sum(weight[doublet] for doublet in places)
    for size in range(len(places) + 1):
        for gone in itertools.combinations(places, size):
            if all(known & set(gone) for known in broken):
                best = min(best, sum(weight[doublet] for doublet in gone))
    return best

"""Sets of items by their definitions, in plain Python over all subsets of all persons' items, with exact fractions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from itertools import combinations, product

Set = frozenset[str]
Persons = Sequence[frozenset[str]]


def support(persons: Persons, items: Iterable[str]) -> int:
    wanted = set(items)
    return sum(wanted <= person for person in persons)


def occurring(persons: Persons, most: int | None = None, among: Iterable[str] | None = None) -> set[Set]:
    """All sets of at least one item that somebody has."""
    allowed = None if among is None else set(among)
    found: set[Set] = set()
    for person in persons:
        own = sorted(person if allowed is None else person & allowed)
        for size in range(1, min(len(own), most or len(own)) + 1):
            found |= {frozenset(each) for each in combinations(own, size)}
    return found


def minimal(sets: Iterable[Set]) -> set[Set]:
    every = set(sets)
    return {each for each in every if not any(other < each for other in every)}


def km_anonymity(persons: Persons, *, k: int, m: int) -> set[Set]:
    """The sets that break k^m-anonymity."""
    return {each for each in occurring(persons, m) if support(persons, each) < k}


def coherence(persons: Persons, *, h: Fraction, k: int, p: int, private: Sequence[str]) -> set[Set]:
    public = set().union(*persons) - set(private) if persons else set()
    broken = set()
    for each in occurring(persons, p, public):
        own = support(persons, each)
        worst = max((Fraction(support(persons, each | {item}), own) for item in private), default=Fraction(0))
        if own < k or worst > h:
            broken.add(each)
    return broken


def rho_rules(
    persons: Persons, *, rho: Fraction, sensitive: Sequence[str], antecedent: int | None = None
) -> set[tuple[Set, str]]:
    """The conclusions that are too sure: what is known, and what follows."""
    return {
        (each, item)
        for each in occurring(persons, antecedent)
        for item in sensitive
        if item not in each and Fraction(support(persons, each | {item}), support(persons, each)) >= rho
    }


def lkc_privacy(
    persons: Persons,
    values: Sequence[str],
    *,
    l: int,  # noqa: E741
    k: int,
    c: Fraction,
    guarded: Sequence[str] | None = None,
) -> set[Set]:
    limited = set(values) if guarded is None else set(guarded)
    broken = set()
    for each in occurring(persons, l):
        own = [value for person, value in zip(persons, values, strict=True) if each <= person]
        most = max((own.count(value) for value in limited), default=0)
        if len(own) < k or Fraction(most, len(own)) > c:
            broken.add(each)
    return broken


def alike(persons: Persons, *, k: int) -> set[Set]:
    """Whole sets that fewer than k persons have."""
    return {each for each, number in Counter(persons).items() if number < k}


def paths(tree: Mapping[str, Sequence[str]], root: str = "*") -> dict[str, list[str]]:
    """Each leaf with itself and the nodes above it."""

    def below(node: str, above: list[str]) -> dict[str, list[str]]:
        if node not in tree:
            return {node: [node, *above]}
        found: dict[str, list[str]] = {}
        for child in tree[node]:
            found |= below(child, [node, *above])
        return found

    return below(root, [])


def cuts(tree: Mapping[str, Sequence[str]], root: str = "*") -> Iterable[dict[str, str]]:
    """Every cut through a tree, as leaf to node."""
    ways = paths(tree, root)

    def below(node: str) -> list[dict[str, str]]:
        whole = {leaf: node for leaf, path in ways.items() if node in path}
        if node not in tree:
            return [whole]
        parts = [below(child) for child in tree[node]]
        return [whole] + [{leaf: to for part in chosen for leaf, to in part.items()} for chosen in product(*parts)]

    return below(root)


def ncp(persons: Persons, labels: Mapping[str, str | None], tree: Mapping[str, Sequence[str]]) -> Fraction:
    """(leaves - 1) / (all - 1) over occurrences; 1 for what is suppressed."""
    ways = paths(tree)
    lost = Fraction(0)
    for person in persons:
        for item in person:
            label = labels[item]
            covered = sum(label in path for path in ways.values())
            lost += Fraction(1) if label is None else Fraction(covered - 1, len(ways) - 1)
    return lost / sum(map(len, persons))


def recode(persons: Persons, labels: Mapping[str, str | None]) -> list[Set]:
    return [frozenset(label for item in person if (label := labels[item]) is not None) for person in persons]


def best_cut(persons: Persons, tree: Mapping[str, Sequence[str]], holds: Callable[[Persons], bool]) -> Fraction | None:
    """The least loss of a cut under which a model holds."""
    losses = [ncp(persons, cut, tree) for cut in cuts(tree) if holds(recode(persons, cut))]
    return min(losses, default=None)


def least_hitting(sets: Iterable[Set], weights: Mapping[str, int]) -> int:
    """The least weight of items of which each set holds one."""
    every = [set(each) for each in sets]
    items = sorted(set().union(*every)) if every else []
    return min(
        sum(weights[item] for item in chosen)
        for size in range(len(items) + 1)
        for chosen in combinations(items, size)
        if all(each & set(chosen) for each in every)
    )

"""Algorithms in plain Python as their manuals read, run on every world: what the worlds that give a release tell.

A world gives each row or person a value. Nothing here is shared with the attacks but the counting of buckets.
"""

from __future__ import annotations

import hashlib
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import combinations_with_replacement, permutations, product
from math import ceil, factorial, prod
from typing import Any

from sqlanon.relations.bucket_quotas import fill_buckets

Values = tuple[str, ...]
Belief = dict[str, Fraction]


def beliefs(worlds: Iterable[tuple[Values, Fraction]]) -> list[Belief]:
    """For each place, how likely it has each value, from worlds and their weights."""
    found: list[Belief] = []
    whole = Fraction(0)
    for values, weight in worlds:
        found = found or [{} for _ in values]
        whole += weight
        for own, value in zip(found, values, strict=True):
            own[value] = own.get(value, Fraction(0)) + weight
    return [{value: part / whole for value, part in own.items() if part} for own in found]


def all_placements(values: Sequence[str]) -> set[Values]:
    return set(permutations(values))


# Anatomy: rows stand in the order of their quasi-identifiers, which are given as numbers ---------------------------


def eligible(values: Sequence[str], l: int) -> bool:  # noqa: E741
    return all(values.count(value) * l <= len(values) for value in values)


def blocks_of(keys: Sequence[int], values: Sequence[str], l: int, first: int = 0) -> list[list[int]]:  # noqa: E741
    """Cut where both parts are eligible and have two groups at least, nearest to the middle; then each part."""
    best = None
    for cut in range(2 * l, len(keys) - 2 * l + 1):
        if keys[cut] != keys[cut - 1] and eligible(values[:cut], l) and eligible(values[cut:], l):
            off = abs(cut - len(keys) / 2)
            if best is None or off < best[0]:
                best = off, cut
    if best is None:
        return [list(range(first, first + len(keys)))]
    cut = best[1]
    return blocks_of(keys[:cut], values[:cut], l, first) + blocks_of(keys[cut:], values[cut:], l, first + cut)


Groups = tuple[int, ...]  # of each row


def shown_values(values: Sequence[str], groups: Groups) -> dict[int, list[str]]:
    found: dict[int, list[str]] = {}
    for value, group in zip(values, groups, strict=True):
        found.setdefault(group, []).append(value)
    return {group: sorted(own) for group, own in sorted(found.items())}


def deal(values: Sequence[str], blocks: Sequence[Sequence[int]], l: int, order: Sequence[str],  # noqa: E741
         shuffle: Callable[[list[int]], list[int]]) -> Groups:  # fmt: skip
    """Values in one order, rows of a value in another: each row goes to the next group of its block."""
    groups = [0] * len(values)
    before = 0
    for block in blocks:
        number = len(block) // l
        turn = 0
        for value in order:
            for row in shuffle([row for row in block if values[row] == value]):
                groups[row] = before + turn % number + 1
                turn += 1
        before += number
    return tuple(groups)


def draw_groups(values: Sequence[str], blocks: Sequence[Sequence[int]], l: int, rng: random.Random) -> Groups:  # noqa: E741
    order = sorted(set(values))
    rng.shuffle(order)
    return deal(values, blocks, l, order, lambda rows: rng.sample(rows, len(rows)))


def chance_of_groups(values: Values, blocks: Sequence[Sequence[int]], l: int, wanted: Groups) -> Fraction:  # noqa: E741
    """How likely these groups are: all orders of the values, and all orders of the rows that have one."""
    different = sorted(set(values))
    hits = ways = 0
    for order in permutations(different):
        cells = [[row for row in block if values[row] == value] for block in blocks for value in order]
        for drawn in product(*(permutations(cell) for cell in cells)):
            given = iter(drawn)
            ways += 1
            hits += deal(values, blocks, l, order, lambda _, given=given: list(next(given))) == wanted  # type: ignore[misc]
    return Fraction(hits, ways)


def anatomy(
    keys: Sequence[int],
    groups: Groups,
    values: Mapping[int, Sequence[str]],
    l: int,  # noqa: E741
    *,
    close: bool = True,
) -> list[Belief]:
    """All ways to give the values of groups to their rows, each with the probability of the groups."""

    def worlds() -> Iterator[tuple[Values, Fraction]]:
        members = {group: [row for row, own in enumerate(groups) if own == group] for group in values}
        for given in product(*(permutations(values[group]) for group in values)):
            world = [""] * len(keys)
            for group, own in zip(values, given, strict=True):
                for row, value in zip(members[group], own, strict=True):
                    world[row] = value
            blocks = blocks_of(keys, world, l) if close else [list(range(len(keys)))]
            yield tuple(world), chance_of_groups(tuple(world), blocks, l, groups)

    return beliefs((world, weight) for world, weight in worlds() if weight)


# Personalized privacy: records of one class ------------------------------------------------------------------------

Tree = Mapping[str, str]  # node to its parent


def path(tree: Tree, node: str) -> list[str]:
    return [node, *(path(tree, tree[node]) if node in tree else [])]


def raise_values(tree: Tree, p_breach: float, values: Sequence[str], named: Iterable[str | None]) -> list[str]:
    """What records show that have these values, where these nodes are named. Of the node that is told of most, those go
    up that tell most of it, and of these the most frequent kind; as many as it takes."""
    leaves = [leaf for leaf in tree if leaf not in tree.values()]

    def share(guard: str, node: str) -> Fraction:
        below = [leaf for leaf in leaves if node in path(tree, leaf)]
        return Fraction(sum(guard in path(tree, leaf) for leaf in below), len(below))

    def digest(text: str) -> str:
        return hashlib.md5(text.encode()).hexdigest()

    shown = list(values)
    limit = Fraction(str(p_breach))
    while True:
        told = {guard: sum(share(guard, node) for node in shown) / len(shown) for guard in named if guard is not None}
        broken = {guard: part for guard, part in told.items() if part > limit}
        if not broken:
            return sorted(shown)
        guard = min(broken, key=lambda each: (-broken[each], digest(each)))
        kinds: dict[tuple[str, str], list[int]] = defaultdict(list)
        for place, pair in enumerate(zip(values, shown, strict=True)):
            kinds[pair].append(place)
        best = []
        for (value, node), places in kinds.items():
            if share(guard, node) and node in tree:  # the root does not go up
                target = tree[guard] if guard in path(tree, node) else tree[node]
                gain = share(guard, node) - share(guard, target)
                best.append((-gain, -len(places), digest(value), digest(node), target, places))
        gain, _, _, _, target, places = min(best)
        for place in places[: ceil((told[guard] - limit) * len(shown) / -gain)]:
            shown[place] = target


def guarding(tree: Tree, p_breach: float, wanted: Sequence[str]) -> Belief:
    """Every person has any value, and names any node that may be named, or none; persons are alike, so that worlds are
    looked at once that are permutations of each other."""
    leaves = sorted(leaf for leaf in tree if leaf not in tree.values())
    nodes: list[str | None] = [None]
    for node in tree:
        if sum(node in path(tree, leaf) for leaf in leaves) <= Fraction(str(p_breach)) * len(leaves):
            nodes.append(node)
    shown: dict[Any, list[str]] = {}  # the same values and nodes show the same, whoever has them
    found: Belief = {}
    whole = Fraction(0)
    for world in combinations_with_replacement(list(product(leaves, nodes)), len(wanted)):
        values, named = tuple(value for value, _ in world), frozenset(node for _, node in world)
        if (values, named) not in shown:
            shown[values, named] = raise_values(tree, p_breach, values, named)
        if shown[values, named] == sorted(wanted):
            weight = Fraction(factorial(len(world)), prod(map(factorial, Counter(world).values())))
            whole += weight
            for value, _ in world:
                found[value] = found.get(value, Fraction(0)) + weight / len(world)
    return {value: part / whole for value, part in found.items()}


# m-invariance: persons stand in a row ------------------------------------------------------------------------------

Classes = Counter[tuple[tuple[tuple[int, int], ...], tuple[str, ...]]]  # ends on each column, and values


def invariant_classes(
    people: Sequence[tuple[Any, tuple[int, ...]]], values: Mapping[Any, str], past: Mapping[Any, frozenset[str]], m: int
) -> tuple[Classes, dict[Any, frozenset[str]]]:
    """The classes of persons in the order of the curve, and the values of each person's class; `past` are those of an
    earlier release."""
    known: dict[frozenset[str], Counter[str]] = defaultdict(Counter)
    for key, _ in people:
        if key in past:
            known[past[key]][values[key]] += 1
    buckets = fill_buckets(known, Counter(values[key] for key, _ in people if key not in past), m)
    signature = dict(past)
    for value in set(values.values()):
        queue = [key for key, _ in people if key not in past and values[key] == value]
        for bucket in buckets:
            own, queue = queue[: bucket.new[value]], queue[bucket.new[value] :]
            signature |= dict.fromkeys(own, bucket.signature)
    classes: dict[tuple[frozenset[str], int], list[tuple[int, ...]]] = defaultdict(list)
    for bucket in buckets:
        for value in bucket.signature:
            own = [(key, at) for key, at in people if signature.get(key) == bucket.signature and values[key] == value]
            for number, (_, at) in enumerate(own):
                classes[bucket.signature, int(number * bucket.classes / len(own))].append(at)
    found = Counter(
        (tuple((min(column), max(column)) for column in zip(*members, strict=True)), tuple(sorted(own)))
        for (own, _), members in classes.items()
    )
    return found, {key: own for key, own in signature.items() if key in dict(people)}


def invariance(releases: Sequence[tuple[Sequence[tuple[Any, tuple[int, ...]]], Classes]], m: int) -> dict[Any, Belief]:
    """Any value for everybody: the worlds that give all releases, one after another."""
    every = sorted({value for _, classes in releases for _, own in classes for value in own})
    keys = list(dict.fromkeys(key for people, _ in releases for key, _ in people))

    def worlds() -> Iterator[tuple[Values, Fraction]]:
        for given in product(every, repeat=len(keys)):
            values = dict(zip(keys, given, strict=True))
            past: dict[Any, frozenset[str]] = {}
            for people, classes in releases:
                here = {key for key, _ in people}
                made, now = invariant_classes(people, {key: values[key] for key in here},
                                              {key: own for key, own in past.items() if key in here}, m)  # fmt: skip
                if made != classes:
                    break
                past |= now
            else:
                yield given, Fraction(1)

    return dict(zip(keys, beliefs(worlds()), strict=True))

"""The worlds that a class of a release with personalized privacy leaves possible, for an attacker who knows how values
were generalized.

A world gives each person of a class a value and a guarding node, or none. Values go up in their taxonomy only where a
guarding node that somebody of the class names demands it, and no more of them than it takes; so what a class shows
follows from how often each value occurs and from the nodes that are named. At first every value is as likely for a
person as another, and every node that may be named, or none; the worlds remain in which the class would show what it
shows. Persons of a class are all alike to the attacker.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from hashlib import md5
from itertools import combinations_with_replacement

from sqlanon.evidence.attacks.attacked_table import NotJudged
from sqlanon.relations.guarding_nodes import Taxonomy

MOST_STEPS = 30_000  # for one kind of class
Shown = tuple[tuple[str, int], ...]  # nodes, and how many records of a class show them
Counts = dict[str, int]  # values, and how many records have them


@dataclass(frozen=True)
class GuardingNodes:
    """Nodes that somebody of a class names as guarding, and nodes that nobody does; of the others nothing is known."""

    some: frozenset[str] = frozenset()
    none: frozenset[str] = frozenset()

    def chance(self, persons: int, nodes: int) -> Fraction:
        """How likely that is if each of so many persons names one of these nodes, or none, all equally likely.

        >>> [str(GuardingNodes(frozenset(named)).chance(1, 3)) for named in (["flu"], ["flu", "cold"])]
        ['1/4', '0']
        """
        return sum(
            (
                (-1) ** left * math.comb(len(self.some), left)
                * Fraction(nodes + 1 - len(self.none) - left, nodes + 1) ** persons
                for left in range(len(self.some) + 1)
            ),
            Fraction(0),
        )  # fmt: skip


class Guarding:
    """The taxonomy of the sensitive column, and the largest probability that is allowed."""

    def __init__(self, tree: Taxonomy, p_breach: Fraction) -> None:
        self.tree, self.p_breach, self.steps = tree, p_breach, 0
        # What a node tells of another one is a whole number of these parts of 1.
        self.parts = math.lcm(*(len(leaves) for leaves in tree.leaves.values()))
        # The nodes that can be named: what is below them can be hidden.
        self.nodes = sorted(node for node in tree.leaves if self.told(node, tree.root) <= self.p_breach * self.parts)
        self.tells = {(guard, node): self.told(guard, node) for guard in self.nodes for node in tree.leaves}

    def told(self, guard: str, node: str) -> int:
        """How likely a record that shows a node lies below a guarding node."""
        own = self.tree.leaves[node]
        return len(own & self.tree.leaves[guard]) * (self.parts // len(own))

    def likely_values(self, shown: Shown) -> dict[str, Fraction]:
        """How likely a person of a class that shows these nodes has each value.

        Three of four records have the flu, and somebody guards it: at most one half may be told. Two records go up,
        since one that shows the lung tells the flu by one half. Had one of them had pneumonia, none would have gone up.

        >>> from sqlanon.relations.guarding_nodes import taxonomy_of
        >>> from sqlanon.hierarchies import Hierarchy
        >>> rows = tuple((leaf, node, "*") for node, leaf in
        ...              (("lung", "flu"), ("lung", "pneumonia"), ("stomach", "ulcer"), ("stomach", "gastritis")))
        >>> guarding = Guarding(taxonomy_of(Hierarchy(height=2, rows=rows)), Fraction(1, 2))
        >>> found = guarding.likely_values((("flu", 1), ("lung", 2), ("gastritis", 1)))
        >>> {value: str(share) for value, share in found.items()}
        {'flu': '3/4', 'gastritis': '1/4'}
        """
        self.steps = 0
        persons, nodes = sum(n for _, n in shown), self.nodes
        wanted = Counter(dict(shown))
        if not set(wanted) <= set(self.tree.leaves):
            raise NotJudged("the release shows nodes that the taxonomy does not have")
        found: dict[str, Fraction] = {}
        whole = Fraction(0)
        for counts in self._possible(shown):
            chance = sum((named.chance(persons, len(nodes)) for named in self._causes(counts, wanted)), Fraction(0))
            weight = chance * _orders(counts)
            whole += weight
            for value, n in counts.items():
                found[value] = found.get(value, Fraction(0)) + weight * Fraction(n, persons)
        if not whole:
            raise NotJudged("no values of its persons give what a class of the release shows")
        return {value: share / whole for value, share in found.items() if share}

    def _possible(self, shown: Shown) -> Iterator[Counts]:
        """All numbers of values that records which show these nodes can have."""
        known: set[tuple[tuple[str, int], ...]] = set()
        choices: list[list[tuple[str, ...]]] = []
        ways = 1
        for node, n in shown:
            leaves = sorted(self.tree.leaves[node])
            ways *= math.comb(len(leaves) + n - 1, n)
            if ways > MOST_STEPS:
                raise NotJudged("a class has too many values that it may have")
            choices.append(list(combinations_with_replacement(leaves, n)))

        def put(place: int, counts: Counter[str]) -> None:
            if place == len(choices):
                known.add(tuple(sorted(counts.items())))
                return
            for chosen in choices[place]:
                put(place + 1, counts + Counter(chosen))

        put(0, Counter())
        return (dict(counts) for counts in sorted(known))

    def _causes(self, counts: Counts, wanted: Counter[str]) -> Iterator[GuardingNodes]:
        """What may be named so that these values go up to the nodes that are shown; no two have a world in common."""
        start = tuple(sorted(((value, value), n) for value, n in counts.items()))
        open_: list[tuple[tuple[tuple[tuple[str, str], int], ...], GuardingNodes]] = [(start, GuardingNodes())]
        while open_:
            pieces, named = open_.pop()
            self.steps += 1
            if self.steps > MOST_STEPS:
                raise NotJudged("a class has too many values and guarding nodes that it may have")
            for guard in self._breached(dict(pieces)):
                if guard in named.none:
                    continue
                if guard not in named.some:
                    # Both are looked at: that nobody names it, and that somebody does, on whom the next step depends.
                    open_.append((pieces, GuardingNodes(named.some, named.none | {guard})))
                    named = GuardingNodes(named.some | {guard}, named.none)
                open_.append((tuple(sorted(self._raised(dict(pieces), guard).items())), named))
                break
            else:
                shown: Counter[str] = Counter()
                for (_, node), n in pieces:
                    shown[node] += n
                if shown == wanted:
                    yield named

    def _breached(self, pieces: Mapping[tuple[str, str], int]) -> list[str]:
        """The nodes of which the records tell too much if somebody names them, the one that they tell most of first."""
        limit = self.p_breach * self.parts * sum(pieces.values())
        told = {guard: self._told_by(pieces, guard) for guard in self.nodes}
        return sorted((guard for guard in told if told[guard] > limit), key=lambda each: (-told[each], _digest(each)))

    def _told_by(self, pieces: Mapping[tuple[str, str], int], guard: str) -> int:
        return sum(self.tells[guard, node] * n for (_, node), n in pieces.items())

    def _raised(self, pieces: Mapping[tuple[str, str], int], guard: str) -> dict[tuple[str, str], int]:
        """One step of the algorithm, as in sql/parting/raised.sql: of the records that tell most of the node, as many
        go up as it takes."""
        excess = self._told_by(pieces, guard) - self.p_breach * self.parts * sum(pieces.values())
        moves = []
        for (value, node), n in pieces.items():
            own = self.tells[guard, node]
            target = self.tree.above[guard if own == self.parts else node] if own else None
            if target is not None:
                less = own - self.tells[guard, target]
                moves.append((-less, -n, _digest(value), _digest(node), value, node, target))
        less, most, _, _, value, node, target = min(moves)
        moved = min(-most, math.ceil(excess / -less))
        after = Counter(dict(pieces))
        after[value, node] -= moved
        after[value, target] += moved
        return {piece: n for piece, n in after.items() if n}


@cache
def _digest(text: str) -> str:
    return md5(text.encode(), usedforsecurity=False).hexdigest()


def _orders(counts: Counts) -> int:
    """In how many ways persons can have values that occur so often."""
    return math.factorial(sum(counts.values())) // math.prod(math.factorial(n) for n in counts.values())

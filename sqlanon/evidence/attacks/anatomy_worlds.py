"""The worlds that a release of `anatomy` leaves possible, for an attacker who knows how the algorithm cuts blocks.

A world gives each row one of the values of its group. The algorithm draws the order of values, and the order of the
rows that have one value: all worlds with the same blocks make the release with the same probability. What tells worlds
apart is where blocks were cut. Every cut lies as near to the middle of its block as both parts are eligible, and a
block that was not cut could not be. The attacker sees the blocks, since their groups are numbered one block after
another. So those worlds remain in which no place that was passed over was eligible.

Where no group has rows on both sides of a place, both parts are eligible, since each group has l different values. So
the attacker knows which of these places were cut, and in which order. At any other place only the values that lie
before it in its block are not known. So blocks are independent of each other, and each is gone through row by row.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import accumulate, combinations

from sqlanon.evidence.attacks.attacked_table import NotJudged

MOST_STEPS = 300_000  # for one block
MOST_STEPS_OF_ALL = 3_000_000
BITS = 24  # for the number of rows that have a value
Kin = Mapping[int, int]  # rows with equal quasi-identifiers: how many of them are in each group
Expected = dict[str, Fraction]  # how many rows are expected to have each value


@dataclass(frozen=True)
class Dealt:
    """`kins` stand in the order of their quasi-identifiers; `values` are those of each group."""

    kins: Sequence[Kin]
    values: Mapping[int, Sequence[str]]
    l: int  # noqa: E741


@dataclass
class Block:
    """Kins from `start` to before `end` that were not cut further, with what is known of places between them."""

    start: int
    end: int
    refused: dict[int, list[tuple[int, int]]] = field(default_factory=dict)  # place to the ends of larger blocks


def expected_values(given: Dealt) -> list[Expected | None]:
    """For each kin, how many of its rows are expected to have each value; None where a block has too many worlds.

    Eight rows in four groups of two. Had no half held a value three times, the block would have been cut in the middle.
    Only a can be there three times: once in the first group, and in the third and the fourth row.

    >>> pairs = [{1: 1}, {1: 1}, {2: 1}, {3: 1}, {2: 1}, {3: 1}, {4: 1}, {4: 1}]
    >>> dealt = Dealt(pairs, {1: "ab", 2: "ab", 3: "ac", 4: "bc"}, 2)
    >>> [str(expected_values(dealt)[place]["a"]) for place in (0, 2, 3)]
    ['1/2', '1', '1']
    """
    _require_groups(given)
    found: list[Expected | None] = [None] * len(given.kins)
    left = MOST_STEPS_OF_ALL
    upto = list(accumulate((sum(kin.values()) for kin in given.kins), initial=0))
    for block in sorted(cut_blocks(given, upto), key=lambda block: block.end - block.start):
        worlds = _Worlds(given, upto, block, min(MOST_STEPS, left))
        try:
            found[block.start : block.end] = worlds.expected()
        except _TooMany:
            continue
        finally:
            left -= worlds.steps
    return found


def cut_blocks(given: Dealt, upto: Sequence[int]) -> list[Block]:
    """The blocks that were not cut further; `upto` are the rows before each kin."""
    edges = set(_whole_edges(given.kins))
    refused: dict[int, list[tuple[int, int]]] = {}
    done: list[Block] = []
    open_ = [(0, len(given.kins))]
    while open_:
        start, end = open_.pop()
        rows = upto[end] - upto[start]
        places = sorted(
            (abs(2 * (upto[place] - upto[start]) - rows), place)
            for place in range(start + 1, end)
            if min(upto[place] - upto[start], upto[end] - upto[place]) >= 2 * given.l
        )
        cut = next((place for _, place in places if place in edges), None)
        for _, place in places:
            if place == cut:
                break
            refused.setdefault(place, []).append((start, end))
        if cut is None:
            done.append(
                Block(start, end, {place: refused[place] for place in range(start + 1, end) if place in refused})
            )
        else:
            open_ += [(cut, end), (start, cut)]
    return done


def _whole_edges(kins: Sequence[Kin]) -> Iterator[int]:
    """Where no group has rows on both sides, and those before have the smaller numbers."""
    smallest_after = [0] * len(kins)
    least = max((max(kin) for kin in kins), default=0) + 1
    for place in reversed(range(len(kins))):
        least = smallest_after[place] = min(least, *kins[place])
    largest = 0
    for place in range(1, len(kins)):
        largest = max(largest, *kins[place - 1])
        if largest < smallest_after[place]:
            yield place


def _require_groups(given: Dealt) -> None:
    """Whether the groups can be those of the algorithm."""
    sizes: Counter[int] = Counter()
    for kin in given.kins:
        sizes.update(kin)
    for group, values in given.values.items():
        if len(set(values)) != len(values) or sizes[group] != len(values) or len(values) < given.l:
            raise NotJudged("the groups are not such as anatomy makes")
    if set(sizes) != set(given.values):
        raise NotJudged("the groups are not such as anatomy makes")


class _TooMany(Exception):
    """A block has more worlds than are looked at."""


class _Worlds:
    """All ways to give the values of its groups to the rows of one block.

    A state is what the rows so far have: for each group the values that are taken, as bits of one integer. The numbers
    of rows with each value are one integer, too, with `BITS` for each value, so that all are compared at once."""

    def __init__(self, given: Dealt, upto: Sequence[int], block: Block, most: int) -> None:
        self.given, self.upto, self.block, self.most, self.steps = given, upto, block, most, 0
        self.kins = given.kins[block.start : block.end]
        self.values: dict[int, Sequence[str]] = {
            group: given.values[group] for group in sorted({group for kin in self.kins for group in kin})
        }
        rows = sum(map(len, self.values.values()))
        if len(self.values) != max(1, rows // given.l):
            raise NotJudged("the groups are not such as anatomy makes")
        self.shifts: dict[int, int] = {}
        width = 0
        for group, values in self.values.items():
            self.shifts[group] = width
            width += len(values)
        names = sorted({value for values in self.values.values() for value in values})
        self.places = {value: place for place, value in enumerate(names)}
        self.every = sum(1 << BITS * place for place in self.places.values())
        self.too_many = self.every << BITS - 1
        self.choices: dict[tuple[int, int, int], list[tuple[int, list[str]]]] = {}
        self.numbers: dict[tuple[int, int], int] = {}
        self.beside: dict[tuple[int, int], Counter[str]] = {}

    def expected(self) -> list[Expected]:
        if not self.block.refused:
            return [self._plain(kin) for kin in self.kins]
        moves = [(place, group, taken) for place, kin in enumerate(self.kins) for group, taken in sorted(kin.items())]
        layers: list[dict[int, int]] = [{0: 1}]
        for number, (place, group, taken) in enumerate(moves):
            ways: dict[int, int] = {}
            for state, count in layers[-1].items():
                for added, _ in self._choices(state, group, taken):
                    after = state | added
                    ways[after] = ways.get(after, 0) + count
            here = self.block.start + place + 1
            if here in self.block.refused and (number + 1 == len(moves) or moves[number + 1][0] != place):
                ways = self._refused(ways, here)
            if not ways:
                raise NotJudged("no values of these rows give the groups that the release has")
            layers.append(ways)
        return self._backwards(layers, moves)

    def _backwards(self, layers: list[dict[int, int]], moves: Sequence[tuple[int, int, int]]) -> list[Expected]:
        ((last, whole),) = layers[-1].items()
        found: list[Expected] = [{} for _ in self.kins]
        behind = {last: 1}
        for number in reversed(range(len(moves))):
            place, group, taken = moves[number]
            ways: dict[int, int] = {}
            counted: Counter[str] = Counter()
            for state, count in layers[number].items():
                for added, chosen in self._choices(state, group, taken):
                    if n := behind.get(state | added):
                        ways[state] = ways.get(state, 0) + n
                        for value in chosen:
                            counted[value] += count * n
            for value, n in counted.items():
                found[place][value] = found[place].get(value, Fraction(0)) + Fraction(n, whole)
            behind = ways
        return found

    def _choices(self, state: int, group: int, taken: int) -> list[tuple[int, list[str]]]:
        """The values that so many rows of a group may have, of those that are left; as bits, and by name."""
        values, shift = self.values[group], self.shifts[group]
        used = state >> shift & ((1 << len(values)) - 1)
        if (group, used, taken) not in self.choices:
            left = [bit for bit in range(len(values)) if not used >> bit & 1]
            self.choices[group, used, taken] = [
                (sum(1 << bit for bit in chosen) << shift, [values[bit] for bit in chosen])
                for chosen in combinations(left, taken)
            ]
        found = self.choices[group, used, taken]
        self.steps += len(found)
        if self.steps > self.most:
            raise _TooMany
        return found

    def _plain(self, kin: Kin) -> Expected:
        """Where nothing is known of the block, every value of a group is as likely as another."""
        found: Expected = {}
        for group, rows in kin.items():
            for value in self.values[group]:
                found[value] = found.get(value, Fraction(0)) + Fraction(rows, len(self.values[group]))
        return found

    def _refused(self, ways: Mapping[int, int], place: int) -> dict[int, int]:
        """The states in which none of the cuts at a place would have had two parts that are eligible."""
        limits = [found for start, end in self.block.refused[place] if (found := self._limits(start, place, end))]
        kept = {}
        for state, n in ways.items():
            own = self._number_of(state)
            if all((before + own) & self.too_many or (after - own) & self.too_many for before, after in limits):
                kept[state] = n
        return kept

    def _limits(self, start: int, place: int, end: int) -> tuple[int, int] | None:
        """What is to be added to the numbers of rows before a place, and from what they are to be taken, so that a
        highest bit is 1 where a part has too many of a value. None where a part has, whatever the block holds."""
        found = []
        for rows, others in (
            (self.upto[place] - self.upto[start], self._whole(start, self.block.start)),
            (self.upto[end] - self.upto[place], self._whole(self.block.end, end)),
        ):
            most = rows // self.given.l
            if any(n > most for value, n in others.items() if value not in self.places):
                return None
            spare = self.every * ((1 << BITS - 1) - 1 - most)
            found.append(
                spare + sum(n << BITS * self.places[value] for value, n in others.items() if value in self.places)
            )
        return found[0], found[1] + sum(self._number(group, (1 << len(own)) - 1) for group, own in self.values.items())

    def _whole(self, start: int, end: int) -> Counter[str]:
        """The values of whole blocks."""
        if (start, end) not in self.beside:
            groups = {group for kin in self.given.kins[start:end] for group in kin}
            self.beside[start, end] = Counter(value for group in groups for value in self.given.values[group])
        return self.beside[start, end]

    def _number_of(self, state: int) -> int:
        return sum(
            self._number(group, state >> shift & ((1 << len(self.values[group])) - 1))
            for group, shift in self.shifts.items()
        )

    def _number(self, group: int, used: int) -> int:
        if (group, used) not in self.numbers:
            self.numbers[group, used] = sum(
                1 << BITS * self.places[value] for bit, value in enumerate(self.values[group]) if used >> bit & 1
            )
        return self.numbers[group, used]

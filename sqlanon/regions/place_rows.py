"""Place rows on nodes of the lattice, in memory: for tables of a few ten thousand distinct rows.

To ask the engine about a node takes a millisecond, however few rows are left; here it takes a tenth of that.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sqlanon.lattice.nodes import Node

Numbers = npt.NDArray[np.int64]


def order_nodes(losses: Sequence[Sequence[float]]) -> Iterator[Node]:
    """All nodes of a lattice, those that lose least first; `losses` are those of each level of each attribute.

    >>> list(order_nodes([[0.0, 1.0], [0.0, 0.2, 0.9]]))
    [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)]
    """
    bottom = (0,) * len(losses)
    waiting: list[tuple[float, Node]] = [(0.0, bottom)]
    seen = {bottom}
    while waiting:
        _, node = heapq.heappop(waiting)
        yield node
        for axis, level in enumerate(node):
            above = (*node[:axis], level + 1, *node[axis + 1 :])
            if level + 1 < len(losses[axis]) and above not in seen:
                seen.add(above)
                # Rounded, so that nodes that lose the same come in one order on every machine.
                loss = round(sum(own[each] for own, each in zip(losses, above, strict=True)), 12)
                heapq.heappush(waiting, (loss, above))


MOST_LOOKS = 100_000_000  # rows times nodes: some seconds


def place_rows(keys: Numbers, counts: Numbers, masks: Iterable[Sequence[int]], least: int) -> Numbers:
    """For each row the first of those in its class, or -1: a class is formed on the first node, given as masks of the
    keys, on which `least` records that are in no class yet are alike. One row a line, one key a column. It ends after
    so many nodes that looking at rows would take too long.

    >>> keys = np.array([[0b00], [0b01], [0b10], [0b11]])
    >>> place_rows(keys, np.array([2, 1, 1, 1]), [[0b11], [0b10], [0b00]], 2).tolist()
    [0, -1, 2, 2]
    """
    placed = np.full(len(keys), -1, dtype=np.int64)
    left, looks = np.arange(len(keys)), 0
    for node in masks:
        looks += len(left)
        if not len(left) or looks > MOST_LOOKS:
            break
        group = _number_groups(keys[left] & np.array(node, dtype=np.int64))
        large = np.bincount(group, weights=counts[left]) >= least
        if not large.any():
            continue
        first = np.full(len(large), len(keys))
        np.minimum.at(first, group, left)
        done = large[group]
        placed[left[done]] = first[group[done]]
        left = left[~done]
    return placed


def _number_groups(keys: Numbers) -> Numbers:
    """Numbers from 0 on, the same for lines that are equal."""
    group = np.unique(keys[:, 0], return_inverse=True)[1]
    for column in keys.T[1:]:
        own = np.unique(column, return_inverse=True)[1]
        group = np.unique(group * (int(own.max()) + 1) + own, return_inverse=True)[1]
    return group


@dataclass(frozen=True)
class LabelLosses:
    """The levels of one attribute: the place of its key, their masks in it, and what labels lose, by level and code."""

    key: int
    masks: tuple[int, ...]
    losses: tuple[dict[int, float], ...]

    def at(self, key: int) -> tuple[Numbers, npt.NDArray[np.float64]]:
        """The codes of a row from level to level, and what they lose."""
        codes = [key & mask for mask in self.masks]
        return np.array(codes), np.array([own[code] for own, code in zip(self.losses, codes, strict=True)])


@dataclass
class Classes:
    """Classes that rows can join: the key of one of their rows, the level of each attribute, and their records."""

    scales: Sequence[LabelLosses]
    keys: Numbers
    levels: Numbers
    records: Numbers

    def __post_init__(self) -> None:
        self._codes = [self.keys[:, [scale.key]] & np.array(scale.masks) for scale in self.scales]
        own = np.zeros(len(self.keys))
        for axis, scale in enumerate(self.scales):
            chosen = self._codes[axis][np.arange(len(own)), self.levels[:, axis]]
            pairs = zip(self.levels[:, axis].tolist(), chosen.tolist(), strict=True)
            own += np.array([scale.losses[level][code] for level, code in pairs])
        self.losses = own

    def join(self, key: Sequence[int], count: int) -> int:
        """Put records into the class to which they add least loss: its place."""
        loss = np.zeros(len(self.keys))
        levels = np.empty_like(self.levels)
        for axis, scale in enumerate(self.scales):
            codes, losses = scale.at(key[scale.key])
            # The codes agree from the first level on that the row shares with the class.
            shared = (self._codes[axis] != codes).sum(axis=1)
            levels[:, axis] = np.maximum(self.levels[:, axis], shared)
            loss += losses[levels[:, axis]]
        place = int(np.argmin((self.records + count) * loss - self.records * self.losses))
        self.levels[place], self.losses[place] = levels[place], loss[place]
        self.records[place] += count
        return place

"""A balanced tree of values, as the rows of a hierarchy file: built, shown and changed.

A row is a value with the labels of its groups, from the smallest to the root, as the kind `csv` reads it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sqlanon.errors import HierarchyError, did_you_mean

ROOT = "*"
MOST_LEVELS = 3
LONGEST_LABEL = 40
LEAST_SHARE = 0.25  # of the rows of a group in the smaller half, where that can be
Row = tuple[str, ...]
Numbers = npt.NDArray[np.float64]


@dataclass(frozen=True)
class ValueCounts:
    """Values with their numbers of rows, and where each lies: values near each other are alike."""

    values: Sequence[str]
    records: Numbers
    places: Numbers  # one row for each value


def choose_group_numbers(values: int, levels: int | None = None) -> list[int]:
    """How many groups each level has, from the lowest.

    >>> choose_group_numbers(5), choose_group_numbers(20), choose_group_numbers(1000), choose_group_numbers(20, 1)
    ([3], [7, 3], [178, 32, 6], [5])
    """
    if values <= 2:
        return []
    if levels is None:
        levels = min(MOST_LEVELS, max(1, math.floor(math.log(values, 3.2))))
    ratio = max(values ** (1 / (levels + 1)), 3 if levels > 1 else 2)
    numbers = [math.ceil(values / ratio**level) for level in range(1, levels + 1)]
    return [number for number in dict.fromkeys(numbers) if 2 <= number < values]


def build_tree(given: ValueCounts, numbers: Sequence[int]) -> list[Row]:
    """A tree with so many groups on each level, from the lowest; a group holds values that are alike."""
    groups: list[list[int]] = [list(range(len(given.values)))]
    levels: list[list[list[int]]] = []
    for number in reversed(numbers):
        shares = _share_out(number, [len(group) for group in groups])
        groups = [part for group, parts in zip(groups, shares, strict=True) for part in _parts(given, group, parts)]
        levels.insert(0, groups)
    return label_groups(given, levels)


def _share_out(number: int, sizes: Sequence[int]) -> list[int]:
    """How many of `number` parts each group is cut into, by its size; at least one, at most its values."""
    shares = [1] * len(sizes)
    while sum(shares) < number:
        open_ = [place for place, size in enumerate(sizes) if shares[place] < size]
        if not open_:
            break
        shares[max(open_, key=lambda place: (sizes[place] / shares[place], -place))] += 1
    return shares


def _parts(given: ValueCounts, group: list[int], parts: int) -> list[list[int]]:
    if parts <= 1 or len(group) <= 1:
        return [group]
    ordered = [group[place] for place in np.lexsort((np.array(group), _along_axis(given, group)))]
    least = parts // 2, parts - parts // 2
    cut = _best_cut(given, ordered, *least)
    return _parts(given, ordered[:cut], least[0]) + _parts(given, ordered[cut:], least[1])


def _along_axis(given: ValueCounts, group: Sequence[int]) -> Numbers:
    """Where the values of a group lie on the line along which they differ most."""
    places, weights = given.places[group], given.records[group]
    centred = (places - np.average(places, axis=0, weights=weights)) * np.sqrt(weights)[:, None]
    _, _, axes = np.linalg.svd(centred, full_matrices=False)
    axis = axes[0]
    # A direction has two signs: the largest part is positive, so that the same table gives the same tree.
    return np.asarray(np.round(places @ (axis * np.sign(axis[np.argmax(np.abs(axis))])), 9))


def _best_cut(given: ValueCounts, ordered: Sequence[int], left: int, right: int) -> int:
    """The cut that leaves the halves most alike inside, of those that leave enough values and rows on both sides."""
    places, weights = given.places[list(ordered)], given.records[list(ordered)]
    below = np.cumsum(weights)
    total = below[-1]
    sums = np.cumsum(places * weights[:, None], axis=0)
    cuts = np.arange(left, len(ordered) - right + 1)
    share = below[cuts - 1] / total
    apart = sums[cuts - 1] / below[cuts - 1, None] - (sums[-1] - sums[cuts - 1]) / (total - below[cuts - 1, None])
    between = share * (1 - share) * np.sum(apart**2, axis=1)
    balanced = np.minimum(share, 1 - share) >= LEAST_SHARE
    if balanced.any():
        cuts, between = cuts[balanced], between[balanced]
        return int(cuts[np.argmax(np.round(between, 12))])
    return int(cuts[np.argmax(np.minimum(share, 1 - share))])


def label_groups(given: ValueCounts, levels: Sequence[Sequence[Sequence[int]]]) -> list[Row]:
    """The rows of a file: each value with the labels of its groups, those of a group side by side."""
    labels: list[dict[int, str]] = []
    taken = {*given.values, ROOT}
    for groups in levels:
        named: dict[int, str] = {}
        for group in groups:
            label = given.values[group[0]] if len(group) == 1 else _label(given, group)
            if len(group) > 1:
                earlier = {level[group[0]] for level in labels if len({level.get(each) for each in group}) == 1}
                while label in taken and label not in earlier:
                    label += "'"
                taken.add(label)
            named |= dict.fromkeys(group, label)
        labels.append(named)
    order = [place for group in (levels[0] if levels else [range(len(given.values))]) for place in group]
    return [(given.values[place], *(level[place] for level in labels), ROOT) for place in order]


def _label(given: ValueCounts, group: Sequence[int]) -> str:
    """The most frequent values, and how many more there are."""
    frequent = sorted(group, key=lambda place: (-given.records[place], given.values[place]))
    shown: list[str] = []
    for place in frequent:
        value = given.values[place].strip() or '""'
        if shown and len(" | ".join([*shown, value])) > LONGEST_LABEL:
            break
        shown.append(value[:LONGEST_LABEL])
    more = len(group) - len(shown)
    return " | ".join(shown) + (f" | +{more}" if more else "")


def write_rows(rows: Sequence[Row]) -> str:
    """A hierarchy file.

    >>> write_rows([("a;b", "x", "*")])
    '"a;b";x;*\\n'
    """
    return "".join(f"{';'.join(map(_quoted, row))}\n" for row in rows)


def _quoted(label: str) -> str:
    """A label in quotes where it needs them; csv.writer forgets a lone carriage return, and a byte order mark."""
    doubled = label.replace('"', '""')
    return f'"{doubled}"' if re.search('[;"\r\n\ufeff]', label) else label


def print_tree(rows: Sequence[Row]) -> str:
    """The tree, one line for each group and value, with the number of values below each group.

    >>> print(print_tree([("a", "x", "*"), ("b", "x", "*"), ("c", "c", "*")]), end="")
    * (3 values)
    ├── x (2 values)
    │   ├── a
    │   └── b
    └── c
    """
    height = len(rows[0]) - 1
    lines: list[str] = []

    def walk(members: Sequence[Row], level: int, before: str, own: str) -> None:
        label = members[0][level]
        while level and len(members) == 1 and members[0][level - 1] == label:
            level -= 1  # a group of one value that is called like it
        lines.append(f"{own}{label}{f' ({len(members)} values)' if level and len(members) > 1 else ''}")
        if not level:
            return
        below: dict[str, list[Row]] = {}
        for row in members:
            below.setdefault(row[level - 1], []).append(row)
        for place, part in enumerate(below.values()):
            last = place == len(below) - 1
            walk(part, level - 1, before + ("    " if last else "│   "), before + ("└── " if last else "├── "))

    walk(rows, height, "", "")
    return "\n".join(lines) + "\n"


def rename_group(rows: Sequence[Row], old: str, new: str) -> list[Row]:
    """A group under another label, on every level that it is on."""
    _require_label(rows, old)
    if any(new in row[1:] for row in rows) or any(row[0] == new for row in rows):
        raise HierarchyError(f"the label '{new}' is there already", hint="choose another one, or move values into it")
    return [(row[0], *(new if label == old else label for label in row[1:])) for row in rows]


def move_value(rows: Sequence[Row], value: str, group: str) -> list[Row]:
    """A value in another group of the lowest level, and so in the groups that this one is in."""
    values = [row[0] for row in rows]
    if value not in values:
        raise HierarchyError(f"the hierarchy has no value '{value}'", hint=did_you_mean(value, values))
    path = next((row[1:] for row in rows if row[1] == group and row[0] != value), None)
    if path is None:
        labels = sorted({row[1] for row in rows})
        raise HierarchyError(
            f"no group of the lowest level is called '{group}'",
            hint=did_you_mean(group, labels) or "the lowest level is the second column of the file",
        )
    return [(row[0], *path) if row[0] == value else row for row in rows]


def _require_label(rows: Sequence[Row], label: str) -> None:
    labels = sorted({each for row in rows for each in row[1:-1]})
    if label not in labels:
        raise HierarchyError(f"no group is called '{label}'", hint=did_you_mean(label, labels))

"""Persons with several rows, in plain Python: signatures are multisets of tuples, counted with Counter.

What is asked of classes is asked of `brute`, with the signature of a row's person as a further column of the row.
"""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

Row = Mapping[str, Any]
Levels = Mapping[str, int]
Paths = Mapping[str, Mapping[Any, Sequence[Any]]]  # by column and value: the value and its labels up to the root


def frozen(items: Any) -> Any:
    """A multiset that can be compared."""
    return frozenset(Counter(items).items())


def signatures(rows: Sequence[Row], person: str, columns: Sequence[str]) -> dict[Any, Any]:
    """What the rows of each person are, and how often."""
    owned: dict[Any, list[Any]] = defaultdict(list)
    for row in rows:
        owned[row[person]].append(tuple(row[name] for name in columns))
    return {owner: frozen(items) for owner, items in owned.items()}


def sizes(rows: Sequence[Row], person: str, columns: Sequence[str]) -> dict[Any, int]:
    """How many persons share the signature of each person."""
    own = signatures(rows, person, columns)
    crowd = Counter(own.values())
    return {owner: crowd[item] for owner, item in own.items()}


def signed(rows: Sequence[Row], person: str, columns: Sequence[str]) -> list[dict[str, Any]]:
    """The rows with their person's signature beside them."""
    own = signatures(rows, person, columns)
    return [{**row, "signature": own[row[person]]} for row in rows]


def shared(rows: Sequence[Row], person: str, columns: Sequence[str], sensitive: str) -> int:
    """Persons who share their signature only with persons who have one value in common."""
    owned: dict[Any, set[Any]] = defaultdict(set)
    for row in rows:
        owned[row[person]].add(row[sensitive])
    classes: dict[Any, list[Any]] = defaultdict(list)
    for owner, item in signatures(rows, person, columns).items():
        classes[item].append(owner)
    return sum(len(owners) for owners in classes.values() if set.intersection(*(owned[owner] for owner in owners)))


def generalized(rows: Sequence[Row], levels: Levels, paths: Paths) -> list[dict[str, Any]]:
    return [{**row, **{name: paths[name][row[name]][level] for name, level in levels.items()}} for row in rows]


def loss(rows: Sequence[Row], levels: Levels, paths: Paths, gone: set[Any], person: str) -> float:
    """The mean over the columns of the mean over all rows of the share of the domain that a label leaves open."""
    total = 0.0
    for name, level in levels.items():
        leaves = len([value for value in paths[name] if value is not None])
        below = Counter(paths[name][value][level] for value in paths[name] if value is not None)
        for row in rows:
            if row[person] in gone:
                total += 1
            elif leaves > 1:
                label = paths[name][row[name]][level]
                covered = (
                    leaves if level == len(paths[name][row[name]]) - 1 else below[label] if row[name] is not None else 1
                )
                total += (covered - 1) / (leaves - 1)
    return total / len(rows) / len(levels)


def best_levels(
    rows: Sequence[Row], person: str, paths: Paths, k: int, limit: float
) -> tuple[float, dict[str, int], set[Any]] | None:
    """The least loss of all nodes at which k persons share every signature, and few enough rows are suppressed."""
    best = None
    names = list(paths)
    heights = [len(next(iter(paths[name].values()))) for name in names]
    for node in itertools.product(*(range(height) for height in heights)):
        levels = dict(zip(names, node, strict=True))
        crowd = sizes(generalized(rows, levels, paths), person, names)
        gone = {owner for owner, size in crowd.items() if size < k}
        suppressed = sum(row[person] in gone for row in rows)
        if suppressed > limit * len(rows) + 1e-9 or len(gone) == len(crowd):
            continue
        lost = loss(rows, levels, paths, gone, person)
        if best is None or lost < best[0] - 1e-12:
            best = (lost, levels, gone)
    return best


def tree_signatures(
    parents: Sequence[Row], person: str, columns: Sequence[str], children: Sequence[tuple[Any, str, str]]
) -> dict[Any, Any]:
    """The same of trees: `children` are (what `tree_signatures` takes for the child, key of the parent, its key)."""
    below = [(left, tree_signatures(rows, right, own, lower)) for (rows, own, lower), left, right in children]
    owned: dict[Any, list[Any]] = defaultdict(list)
    for row in parents:
        kinds = tuple(found.get(row[left]) for left, found in below)
        owned[row[person]].append((tuple(row[name] for name in columns), kinds))
    return {owner: frozen(items) for owner, items in owned.items() if owner is not None}

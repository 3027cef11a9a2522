"""The least loss of all nodes of a lattice, in plain numpy, for tables as `adult_tables` has them."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from adult_tables import read_paths, read_rows

Levels = list[tuple[np.ndarray, np.ndarray]]
Node = tuple[int, ...]


def read_levels(folder: Path, names: list[str]) -> list[Levels]:
    """For each column and each level: the number of each row's label, and the leaves below it."""
    rows = read_rows(folder)
    found = []
    for name in names:
        paths = {line[0]: line for line in read_paths(folder, name)}
        levels = []
        for level in range(len(next(iter(paths.values())))):
            leaves = Counter(path[level] for path in paths.values())
            labels = [paths[row[name]][level] for row in rows]
            levels.append((np.unique(labels, return_inverse=True)[1], np.array([leaves[label] for label in labels])))
        found.append(levels)
    return found


def sizes_of_classes(columns: list[np.ndarray]) -> np.ndarray:
    """For each row how many rows are like it in all columns."""
    key = np.zeros(len(columns[0]), dtype=np.int64)
    for codes in columns:
        key = key * (int(codes.max()) + 1) + codes
    _, places, counts = np.unique(key, return_inverse=True, return_counts=True)
    return np.asarray(counts[places])


def nodes_within(coded: list[Levels], k: int, limit: float) -> Iterator[tuple[Node, np.ndarray]]:
    """Every node that suppresses no more than the limit, with the size of each row's class."""
    for node in itertools.product(*(range(len(levels)) for levels in coded)):
        size = sizes_of_classes([levels[level][0] for levels, level in zip(coded, node, strict=True)])
        if (size < k).mean() <= limit:
            yield node, size


def least_entropy(folder: Path, names: list[str], k: int, limit: float) -> float:
    """The least non-uniform entropy where so many rows may be suppressed, of all nodes."""
    levelled = read_levels(folder, names)
    coded = [[codes for codes, _ in levels] for levels in levelled]
    before = [np.bincount(levels[0]) for levels in coded]
    shown = [  # bits that a level loses in all rows
        [float(np.log2(np.bincount(codes)[codes] / counts[levels[0]]).sum()) for codes in levels]
        for levels, counts in zip(coded, before, strict=True)
    ]
    best = math.inf
    for node, size in nodes_within(levelled, k, limit):
        lost = size < k
        bits = sum(column[level] for column, level in zip(shown, node, strict=True))
        for levels, level in zip(coded, node, strict=True):
            found = np.bincount(levels[level][lost])
            found = found[found > 0]
            bits -= float((found * np.log2(found / max(1, found.sum()))).sum())
        best = min(best, bits)
    return best


def least_divergence(folder: Path, names: list[str], k: int, limit: float) -> float:
    """The same of the Kullback-Leibler divergence."""
    coded = read_levels(folder, names)
    alike = np.log(sizes_of_classes([levels[0][0] for levels in coded]))
    areas = [[np.log(leaves) for _, leaves in levels] for levels in coded]
    best = math.inf
    for node, size in nodes_within(coded, k, limit):
        kept = size >= k
        if not kept.any():
            continue
        nats = alike - np.log(size) + sum(column[level] for column, level in zip(areas, node, strict=True))
        best = min(best, float(nats[kept].mean()))
    return best


def least_losses(folder: Path, names: list[str], k: int, limit: float) -> dict[str, float]:
    """The least of those losses that are read off the sizes of classes and the leaves below labels. A node that
    suppresses every row is no release."""
    coded = read_levels(folder, names)
    domains = [len(read_paths(folder, name)) for name in names]
    widths = [
        [(leaves - 1) / (domain - 1) for _, leaves in levels] for levels, domain in zip(coded, domains, strict=True)
    ]
    best: dict[str, float] = {}
    for node, size in nodes_within(coded, k, limit):
        kept = size >= k
        if not kept.any():
            continue
        n, lost = len(size), int((~kept).sum())
        classes = round(float((1 / size[kept]).sum()))
        by_column = [(float(column[level][kept].sum()) + lost) / n for column, level in zip(widths, node, strict=True)]
        found = {
            "ncp": sum(by_column) / len(by_column),
            "ncp_geometric": math.prod(1 + x for x in by_column) ** (1 / len(by_column)) - 1,
            "discernibility": float(size[kept].sum()) + lost * n,
            "c_avg": (n - lost) / classes / k,
            "aecs": n / (classes + (lost > 0)),
        }
        best = {name: min(value, best.get(name, math.inf)) for name, value in found.items()}
    return best

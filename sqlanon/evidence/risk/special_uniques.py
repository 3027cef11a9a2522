"""Special uniques: what sets of quasi-identifiers tell apart, minimal sample uniques and their scores (SUDA2)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlanon.errors import PolicyError
from sqlanon.evidence.work_tables import Work
from sqlanon.families import plugin
from sqlanon.relations.classes import Grouping
from sqlanon.relations.column_subsets import (
    Packing,
    count_tables,
    counted_by_subset,
    minimal_uniques,
    pack_keys,
    sets_of_size,
    subset_classes,
    subset_keys,
    subset_scores,
    values_of_columns,
)
from sqlanon.sqltree.tree import bind

MOST_SUBSETS = 4096  # sets of columns that are looked at; there are 4,095 of twelve columns
MOST_COLUMNS = 62  # the number of a set is a BIGINT, with one bit a column


@dataclass(frozen=True)
class Subset:
    """What a set of quasi-identifiers tells apart."""

    columns: tuple[str, ...]
    classes: int
    uniques: int
    distinction: float
    separation: float | None  # None where there are no two records
    minimal_uniques: int


@dataclass(frozen=True)
class Score:
    """Records of one SUDA score; `dis` is the chance that a match of such a record is the right one."""

    score: float
    records: int
    dis: float | None


@dataclass(frozen=True)
class Suda:
    records: int  # that have a score
    minimal_uniques: Mapping[int, int]  # by the number of columns in them
    contributions: Mapping[str, float]  # of a column: the share of all scores that it has a part in
    sampling_fraction: float | None
    scores: tuple[Score, ...]  # from the lowest to the highest


def special_uniques(
    work: Work,
    grouping: Grouping,
    *,
    max_size: int | None,
    sampling_fraction: float | None,
    pairs: int,
) -> tuple[tuple[Subset, ...], Suda]:
    """Measure all sets of up to `max_size` columns; `pairs` are records in classes of exactly two."""
    names = grouping.columns
    if len(names) > MOST_COLUMNS:
        raise PolicyError(
            f"sets of {len(names)} quasi-identifiers cannot be numbered, the limit is {MOST_COLUMNS}",
            hint="leave some out, those that an attacker is least likely to know",
        )
    largest = min(len(names), max_size or len(names))
    sets = sum(math.comb(len(names), size) for size in range(1, largest + 1))
    if sets > MOST_SUBSETS:
        raise PolicyError(
            f"{len(names)} quasi-identifiers have {sets:,} sets of up to {largest}, the limit is {MOST_SUBSETS:,}",
            hint="look at small sets only, as in --max-size 3; larger ones tell little that these do not",
        )
    measured, levels = _by_size(work, grouping, largest)
    scores = subset_scores(work.prelude, {subset: score_of(len(names), subset.bit_count()) for subset in measured})
    every = minimal_uniques(work.prelude, plugin("risk", "minimal_sample_uniques").sql, levels, scores, len(names))
    work.run()
    minimal = {int(subset): int(count) for subset, count in work.engine.query(counted_by_subset(every))}
    relations = {"minimal_uniques": every, "subset_scores": scores}
    histogram = [
        (float(score), int(records))
        for score, records in work.engine.query(bind(plugin("risk", "suda").sql, {}, relations))
    ]
    subsets = tuple(
        Subset(
            columns=tuple(names[place] for place in _places(subset)),
            classes=int(classes),
            uniques=int(uniques),
            distinction=float(distinction),
            separation=None if separation is None else float(separation),
            minimal_uniques=minimal.get(subset, 0),
        )
        for subset, (classes, uniques, distinction, separation) in sorted(
            measured.items(), key=lambda item: (item[0].bit_count(), _places(item[0]))
        )
    )
    return subsets, _suda(names, subsets, histogram, sampling_fraction, pairs)


def score_of(columns: int, size: int) -> float:
    """What a minimal sample unique of so many columns scores: the orders in which the others can be added."""
    return float(math.factorial(columns - size))


def dis_scores(
    histogram: Sequence[tuple[float, int]], columns: int, sampling_fraction: float | None, pairs: int
) -> list[float | None]:
    """DIS-SUDA: scores, calibrated so that they tell on the whole as often of the right person as the sampling fraction
    and the pairs of alike records say; the exponent is that of the SUDA program. None without a sampling fraction, and
    from 28 columns on: there the exponent is not positive, and the riskiest records would look the safest."""
    exponent = 1 + (8 - columns) / 20
    if not sampling_fraction or exponent <= 0:  # it is 0 where weights add up to more than a double holds
        return [None] * len(histogram)
    adjusted = sum(records / score**exponent for score, records in histogram)
    wrong = pairs * (1 - sampling_fraction) / sampling_fraction
    return [1 / (1 + wrong / (score**exponent * adjusted)) for score, _ in histogram]


def _by_size(
    work: Work, grouping: Grouping, largest: int
) -> tuple[dict[int, tuple[int, int, float, float | None]], list[str]]:
    """Go down from the largest sets: each is rolled up from the one above it that has the fewest classes. Gives what
    each set tells apart, and the tables of their classes."""
    columns = len(grouping.columns)
    packed = _packing(work, grouping)
    every = (1 << columns) - 1
    parent_sizes = {every: 0}
    level = subset_keys(work.prelude, grouping, packed)
    measured: dict[int, tuple[int, int, float, float | None]] = {}
    levels: list[str] = []
    for size in range(largest, 0, -1):
        sets = sets_of_size(columns, size)
        if size < columns:
            parents = {subset: _smallest(subset, parent_sizes) for subset in sets}
            level = subset_classes(work.prelude, level, parents, packed)
        work.run()
        rows = work.engine.query(bind(plugin("risk", "distinction_separation").sql, {}, {"subset_classes": level}))
        measured |= {int(subset): tuple(numbers) for subset, *numbers in rows}
        if not rows:  # of an empty table
            measured |= dict.fromkeys(sets, (0, 0, 0.0, None))
        parent_sizes = {subset: measured[subset][0] for subset in sets}
        levels.append(level)
    return measured, levels


def _smallest(subset: int, sizes: Mapping[int, int]) -> int:
    above = [parent for parent in sizes if parent & subset == subset]
    return min(above, key=lambda parent: (sizes[parent], parent))


def _packing(work: Work, grouping: Grouping) -> Packing:
    tables = values_of_columns(work.prelude, grouping)
    work.run()
    return pack_keys([int(count) for _, count in sorted(work.engine.query(count_tables(tables)))])


def _places(subset: int) -> tuple[int, ...]:
    return tuple(place for place in range(subset.bit_length()) if subset >> place & 1)


def _suda(
    names: Sequence[str],
    subsets: Sequence[Subset],
    histogram: Sequence[tuple[float, int]],
    sampling_fraction: float | None,
    pairs: int,
) -> Suda:
    total = sum(score * records for score, records in histogram)
    parts = dict.fromkeys(names, 0.0)
    minimal: dict[int, int] = {}
    for item in subsets:
        size = len(item.columns)
        minimal[size] = minimal.get(size, 0) + item.minimal_uniques
        for name in item.columns:
            parts[name] += item.minimal_uniques * score_of(len(names), size)
    chances = dis_scores(histogram, len(names), sampling_fraction, pairs)
    return Suda(
        records=sum(int(records) for _, records in histogram),
        minimal_uniques=minimal,
        contributions={name: part / total if total else 0.0 for name, part in parts.items()},
        sampling_fraction=sampling_fraction,
        scores=tuple(
            Score(float(score), int(records), dis) for (score, records), dis in zip(histogram, chances, strict=True)
        ),
    )

"""What a release is still good for: how its numbers and categories differ from those of its source.

Everything of the size of the data is done in the engine; what comes here are sums, quantiles and counts. Which columns
are read as numbers, and how a label is one, says `reading`. Where the rows of the release carry the number of the row
that they were made from (`key`), as they do in `sqlanon compare`, row is compared with row; else only the tables as a
whole are, and the measures that need pairs are left out.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

from sqlanon.engines import ColumnInfo, Engine
from sqlanon.errors import PolicyError, did_you_mean
from sqlanon.evidence.utility import classifier, probabilistic_loss
from sqlanon.evidence.utility.classifier import Accuracy
from sqlanon.evidence.utility.columns import BANDS, lookups_of, readings_of
from sqlanon.evidence.utility.moments import Difference, Moments, differences, moments
from sqlanon.evidence.utility.propensity import Propensity, propensity
from sqlanon.evidence.work_tables import Work
from sqlanon.families import plugin
from sqlanon.policy import Policy, Source
from sqlanon.policy.person_shapes import require_shape
from sqlanon.relations.classes import Prelude
from sqlanon.relations.propensity_features import Number, new_labels
from sqlanon.relations.source import relation
from sqlanon.relations.training_rows import TrainingColumns
from sqlanon.relations.utility_relations import (
    SUMS,
    Readings,
    centres,
    count_sides,
    label_pairs,
    misses,
    number_pairs,
    numbers,
    pair_rows,
    products,
    sides,
    spreads,
)
from sqlanon.sqltree.tree import bind, count_all, find_references, select, table

CLOSE = 0.05  # of a standard deviation: a number that is known so well is disclosed


@dataclass(frozen=True)
class Intervals:
    """Original numbers that lie close to what was released of them, as a share of those that can be compared, and
    `records` all of whose numbers do."""

    cells: float
    records: float


@dataclass(frozen=True)
class Distance:
    """The mean distance of a column of numbers from its originals (IL1s), what it would be if all were hidden, and the
    cells that it is a mean of."""

    il1s: float
    hidden: float
    cells: int


@dataclass(frozen=True)
class Utility:
    """Losses of one release; what could not be measured is None or left out, and `notes` say why."""

    records: int
    released: int
    numbers: tuple[str, ...]
    categories: tuple[str, ...]
    cell_loss: float | None = None  # the mean over the columns of `by_attribute`
    by_attribute: Mapping[str, float] = field(default_factory=dict)
    il1s: float | None = None  # the mean over the cells of `distances`
    distances: Mapping[str, Distance] = field(default_factory=dict)
    differences: Mapping[str, Difference] = field(default_factory=dict)
    eigenvalues: float | None = None
    probabilistic: Mapping[str, float] = field(default_factory=dict)
    propensity: Propensity | None = None
    intervals: Intervals | None = None
    accuracy: Accuracy | None = None
    notes: tuple[str, ...] = ()


def utility(
    policy: Policy,
    engine: Engine,
    release: Source,
    *,
    key: str | None = None,
    categories: Collection[str] = (),
    protected: Sequence[str] = (),
    target: str | None = None,
    features: Sequence[str] | None = None,
) -> Utility:
    """Compare a release with the source of its policy.

    `key` is a column of both, of whole numbers, that tells rows apart. `categories` are columns of numbers that are
    codes, not quantities. `protected` are the columns whose numbers nobody shall know closely: quasi-identifiers, if
    not given. With `target`, a classifier is trained to predict that column from `features`, or from all others.
    """
    require_shape(policy, "this measure of utility")
    if policy.transformations:
        policy = policy.model_copy(update={"transformations": ()})
    source, released = (relation(engine.resolve(item), engine.dialect) for item in (policy.source, release))
    ours, theirs = ({item.name: item for item in engine.columns(rows)} for rows in (source, released))
    _require_columns(policy, ours, theirs, categories, target, features, key)
    readings = readings_of(policy, ours, theirs, categories, key)
    work = Work(engine, Prelude(source, engine.dialect))
    try:
        lookups, notes = lookups_of(work, released, theirs, readings)
        both = sides(work.prelude, source, released, readings, key, lookups)
        work.run()
        measuring = _Measuring(work, both, readings, key is not None, notes)
        return measuring.all(tuple(protected) or policy.quasi_identifiers, target, features)
    finally:
        work.drop()


def as_data(found: Utility) -> dict[str, Any]:
    return asdict(found)


def _require_columns(
    policy: Policy,
    ours: Mapping[str, ColumnInfo],
    theirs: Mapping[str, ColumnInfo],
    categories: Collection[str],
    target: str | None,
    features: Sequence[str] | None,
    key: str | None,
) -> None:
    for name in (*categories, *([target] if target is not None else ()), *(features or ())):
        if name not in ours:
            raise PolicyError(f"column '{name}' is not in the source", hint=did_you_mean(name, ours))
    if key is not None and not (key in ours and key in theirs and ours[key].numeric and theirs[key].numeric):
        raise PolicyError(f"the key '{key}' is no column of numbers in both tables")
    if target is not None:
        if target not in theirs:
            raise PolicyError(f"'{target}' is not in the release, so that nothing predicts it")
        if key is None:
            raise PolicyError("a classifier needs the rows of source and release in pairs")
        classifier.require_scikit_learn()


class _Column(NamedTuple):
    """Numbers of a column on one side."""

    rows: int
    mean: float | None
    deviation: float | None
    low: float | None
    high: float | None

    @property
    def constant(self) -> bool:
        """By its ends: the deviation of equal numbers may differ from 0 in its last digits."""
        return not self.rows or self.low == self.high or not self.deviation


class _Measuring:
    """The measures of one release, over relations that are made once."""

    def __init__(self, work: Work, both: str, readings: Readings, pairs: bool, notes: list[str]) -> None:
        self.work, self.both, self.readings, self.notes = work, both, readings, notes
        self.engine, self.prelude = work.engine, work.prelude
        self.pairs = pair_rows(self.prelude, both, readings) if pairs else None
        work.run()
        rows = {int(side): int(count) for side, count in self.engine.query(count_sides(both))}
        self.rows = rows.get(0, 0), rows.get(1, 0)
        if self.pairs and int(self.engine.query(select(count_all(), source=table(self.pairs)))[0][0]) != self.rows[0]:
            raise PolicyError("the key does not tell rows apart", hint="it must be different in every row")
        self.centre: list[float] = []
        self.scale: list[float] = []
        self.deviations: list[float] = []
        self.known: list[int] = []  # places of the numbers of which the source has any, from 0
        self.columns: dict[int, list[_Column]] = {}
        self._centre()

    def all(self, protected: Sequence[str], target: str | None, features: Sequence[str] | None) -> Utility:
        if not self.rows[0]:
            raise PolicyError("the source has no rows", hint="there is nothing to compare with")
        if not self.rows[1]:
            self.notes.append("the release has no rows: everything is lost")
        losses = self._by_attribute()
        found: dict[str, Any] = {}
        distances = self._distances()
        if self.known:
            found = self._of_numbers()
        else:
            self.notes.append("there is no column of numbers: means, correlations and the like are left out")
        return Utility(
            records=self.rows[0],
            released=self.rows[1],
            numbers=self.readings.numbers,
            categories=self.readings.categories,
            cell_loss=math.fsum(losses.values()) / len(losses) if losses else None,
            by_attribute=losses,
            il1s=mean_distance(distances.values()),
            distances=distances,
            propensity=self._propensity(),
            intervals=self._intervals(protected),
            accuracy=self._accuracy(target, features) if target is not None else None,
            notes=tuple(dict.fromkeys(self.notes)),
            **found,
        )

    # Numbers ------------------------------------------------------------------------------------------------------

    def _centre(self) -> None:
        """Means and deviations of either side; a column without any number in the source is not looked at further."""
        count = len(self.readings.numbers)
        rows = {int(row[0]): row[1:] for row in self.engine.query(centres(self.both, count))} if count else {}
        for side in (0, 1):
            row = rows.get(side, (0, None, None, None, None) * count)
            self.columns[side] = [_Column(*row[5 * place : 5 * place + 5]) for place in range(count)]
        for place, own in enumerate(self.columns[0]):
            self.centre.append(float(own.mean or 0))
            self.deviations.append(0.0 if own.constant else float(own.deviation or 0))
            self.scale.append(self.deviations[-1] or 1.0)
            if own.rows:
                self.known.append(place)
            else:
                self.notes.append(f"'{self.readings.numbers[place]}' has no number in the source")

    def _of_numbers(self) -> dict[str, Any]:
        sums = self._sums()
        ours, theirs = (self._moments(side, sums[side]) for side in (0, 1))
        centre, scale = ([values[place] for place in self.known] for values in (self.centre, self.scale))
        varied = [at for at, place in enumerate(self.known) if self.deviations[place] > 0]
        if len(varied) < len(self.known):
            names = [self.readings.numbers[place] for place in self.known if not self.deviations[place]]
            self.notes.append(f"constant in the source, without a correlation: {', '.join(names)}")
        ends = [(self.columns[0][place].low or 0.0, self.columns[0][place].high or 0.0) for place in self.known]
        told, eigenvalues = differences(ours, theirs, centre, scale, varied, ends)
        cells = self._rows_of("deviations") if self.pairs else []
        if cells:
            weights = ((1, 4), (2, 4), (3, 5))  # variation is a mean over the cells that are not 0
            told = {"cells": Difference(*(_mean_of_cells(cells, at, of) for at, of in weights))} | told
        steps = self._rows_of("quantiles")
        return {
            "differences": told,
            "eigenvalues": eigenvalues,
            "probabilistic": probabilistic_loss.probabilistic_loss(
                ours, theirs, (self._quantiles(steps, 0), self._quantiles(steps, 1))
            ),
        }

    def _quantiles(self, steps: Sequence[tuple[Any, ...]], side: int) -> dict[int, dict[int, float]]:
        """By the places among the columns that are known."""
        found = probabilistic_loss.by_step(steps, side)
        return {at: found[place] for at, place in enumerate(self.known) if place in found}

    def _sums(self) -> dict[int, dict[tuple[int, int], Sequence[float]]]:
        """Of each side and pair of known columns the sums of their products."""
        places = range(len(self.known))
        pairs = [(first, second) for first in places for second in places if first <= second]
        asked = [(self.known[first] + 1, self.known[second] + 1) for first, second in pairs]
        sums: dict[int, list[float]] = {0: [], 1: []}
        for tree in products(self.both, asked, self.centre, self.scale):
            for side, *values in self.engine.query(tree):
                sums[int(side)] += [float(value or 0) for value in values]
        for side, row in sums.items():  # one without rows has no sums
            sums[side] = row or [0.0] * (SUMS * len(pairs))
        return {
            side: {pair: row[SUMS * at : SUMS * (at + 1)] for at, pair in enumerate(pairs)}
            for side, row in sums.items()
        }

    def _moments(self, side: int, sums: Mapping[tuple[int, int], Sequence[float]]) -> Moments:
        chosen = [self.columns[side][place] for place in self.known]
        units = [(self.centre[place], self.scale[place]) for place in self.known]
        centred = [
            (own.rows, None if own.mean is None else (own.mean - centre) / scale)
            for own, (centre, scale) in zip(chosen, units, strict=True)
        ]
        return moments(centred, sums, len(self.known))

    # Rows ---------------------------------------------------------------------------------------------------------

    def _rows_of(self, name: str) -> list[tuple[Any, ...]]:
        """The rows of a statement of `sql/utility`."""
        item = plugin("utility", name)
        relations = {each: self._relation(each) for each in find_references(item.sql)}
        self.work.run()
        return self.engine.query(bind(item.sql, {}, relations))

    def _relation(self, name: str) -> str:
        if name == "numbers":
            return numbers(self.prelude, self.both, self.readings)
        if name == "spreads":
            ends = [(float(own.low or 0), float(own.high or 0)) for own in self.columns[0]]
            return spreads(self.prelude, [(own, *pair) for own, pair in zip(self.deviations, ends, strict=True)])
        assert self.pairs is not None
        make = number_pairs if name == "number_pairs" else label_pairs
        return make(self.prelude, self.pairs, self.readings)

    def _by_attribute(self) -> dict[str, float]:
        if self.pairs is None:
            return {}
        found = {int(place): float(loss) for place, loss in self._rows_of("cell_loss")}
        return {self.readings.name(place): found[place] for place in sorted(found)}

    def _distances(self) -> dict[str, Distance]:
        if self.pairs is None or not self.readings.numbers:
            return {}
        found = {
            int(place): Distance(float(il1s), float(hidden), int(cells))
            for place, il1s, hidden, cells in self._rows_of("il1s")
        }
        return {self.readings.name(place): found[place] for place in sorted(found)}

    def _intervals(self, protected: Sequence[str]) -> Intervals | None:
        """Of the released deviations, as sdcMicro does: who sees the release knows no others."""
        places = [place for place in self.known if self.readings.numbers[place] in protected]
        if self.pairs is None or not places or not self.rows[1]:
            return None
        widths = [CLOSE * (self.columns[1][place].deviation or 0.0) for place in places]
        rows = self.engine.query(misses(self.pairs, [place + 1 for place in places], widths))
        found = [(int(outside), int(known), int(count)) for outside, known, count in rows if known]
        cells, records = sum(known * count for _, known, count in found), sum(count for _, _, count in found)
        if not cells:
            return Intervals(0.0, 0.0)
        return Intervals(
            cells=1 - sum(outside * count for outside, _, count in found) / cells,
            records=sum(count for outside, _, count in found if not outside) / records,
        )

    # Models -------------------------------------------------------------------------------------------------------

    def _generalized(self) -> list[int]:
        """The columns of categories with labels that the source has not."""
        first = len(self.readings.numbers) + 1
        places = range(first, first + len(self.readings.categories))
        return [place for place in places if int(self.engine.query(new_labels(self.both, place))[0][0])]

    def _propensity(self) -> Propensity | None:
        odd = self._generalized()
        first = len(self.readings.numbers) + 1
        kept = [place for place in range(first, first + len(self.readings.categories)) if place not in odd]
        predictors = [Number(place + 1, self.centre[place], self.scale[place]) for place in self.known]
        found = propensity(
            self.engine,
            self.prelude,
            self.both,
            rows=self.rows,
            numbers=[item for item in predictors if self.deviations[item.place - 1] > 0],
            categories=kept,
            left_out=[self.readings.name(place) for place in odd],
        )
        if found is not None and not found.predictors:
            self.notes.append("the propensity score is left out: no column is left to predict by")
            return None
        if found is None and all(self.rows):
            self.notes.append("the propensity score is left out: there are too many columns to predict by")
        return found

    def _accuracy(self, target: str, features: Sequence[str] | None) -> Accuracy | None:
        assert self.pairs is not None
        if target in self.readings.numbers:
            raise PolicyError(
                f"'{target}' is read as a number, and a classifier predicts categories", hint=f"--categories {target}"
            )
        odd = self._generalized()
        place = self.readings.place(target)
        if place in odd:
            self.notes.append(f"'{target}' is generalized: nothing learns to predict its original values from it")
            return None
        names = [name for name in (*self.readings.numbers, *self.readings.categories) if name != target]
        chosen = [self.readings.place(name) for name in names if features is None or name in features]
        deciles = probabilistic_loss.by_step(self._rows_of("quantiles"), 0) if self.known else {}
        bins = {
            own: sorted({value for step, value in deciles.get(own - 1, {}).items() if step % 2 == 0})
            for own in chosen
            if own <= len(self.readings.numbers)
        }
        others = [own for own in chosen if own > len(self.readings.numbers)]
        asked = TrainingColumns(bins, others, place, frozenset(odd))
        found = classifier.accuracy(self.engine, self.pairs, asked, target)
        if found is None:
            self.notes.append("no classifier was trained: there are too few rows to hold some out")
        return found


def mean_distance(columns: Iterable[Distance]) -> float | None:
    """IL1s over all cells."""
    listed = list(columns)
    cells = sum(item.cells for item in listed)
    return math.fsum(item.il1s * item.cells for item in listed) / cells if cells else None


def _mean_of_cells(columns: Sequence[tuple[Any, ...]], value: int, cells: int) -> float | None:
    """The mean over the cells of all columns, from the mean of each column and the number of its cells.

    >>> _mean_of_cells([("a", 1.0, 1), ("b", 5.0, 3), ("c", None, 0)], 1, 2)
    4.0
    """
    known = [(float(row[value]), int(row[cells])) for row in columns if row[value] is not None]
    count = sum(weight for _, weight in known)
    return math.fsum(mean * weight for mean, weight in known) / count if count else None


__all__ = [
    "BANDS",
    "Accuracy",
    "Difference",
    "Distance",
    "Intervals",
    "Propensity",
    "Utility",
    "as_data",
    "mean_distance",
    "readings_of",
    "utility",
]

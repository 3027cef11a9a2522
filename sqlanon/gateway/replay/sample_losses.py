"""How much one person changes noisy tables: samples with and without the person, and the epsilon that they prove.

A noisy table is projected to one number, which tells most about the person: the logarithm of how likely its integers
are with the person beside without, by the noise that the statement declares. It is a function of the noisy table and of
what the auditor knows of both databases, so that a bound which is proven for it is proven for the table.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlanon.gateway import PricedCore
from sqlanon.gateway.price.noise import Key, noisy_table
from sqlanon.gateway.price.value_range import RangedSum, ValueRange
from sqlanon.gateway.replay.empirical_epsilon import epsilon_lower_bound
from sqlanon.gateway.replay.neighbours import Read, scores, shown_key
from sqlanon.mechanisms import Choice, Mechanism

BATCH = 500  # tables that are made noisy by one call
MOST_CELLS = 24  # groups of a core that are looked at: those that the person changes most
STEPS = 4  # a logarithm is looked at in quarters
LARGEST_LOSS = 25.0
RUNS_BESIDE = 200  # for whether noise is drawn anew for each integer
MOST_BESIDE = 4  # groups of which that is asked
ALIKE = 0.6  # correlation of noise that should be independent; of 40 pairs or more, chance reaches less
SLOW = 5  # times as few runs of a quantile, which is chosen among a thousand candidates each time
LEAST_SCALE = 0.3  # below, nearly all noise is 0, and being alike shows nothing

Pair = tuple[PricedCore, Read, Read]
Row = tuple[Any, ...]


def proven_epsilon(parts: Sequence[Pair], delta: float, runs: int) -> float:
    """The epsilon that so many answers on each of two neighbours prove, of all parts of a statement together."""
    seen: list[list[float]] = []
    runs = min((_runs_of(part, runs) for part, _, _ in parts), default=runs)
    for side in (0, 1):
        sums = [0.0] * runs
        for part, one, other in parts:
            cells = _Cells.of(part, one, other)
            if cells.keys:
                losses = cells.losses((one, other)[side], runs)
                sums = [a + b for a, b in zip(sums, losses, strict=True)]
        seen.append([round(value * STEPS) / STEPS for value in sums])
    return epsilon_lower_bound(seen[0], seen[1], delta=delta)


def _runs_of(part: PricedCore, runs: int) -> int:
    return runs // SLOW if any(isinstance(each, Choice) for each in part.noise.atoms) else runs


@dataclass(frozen=True)
class _Cells:
    """The groups of a core that one person changes, and what is known of them."""

    part: PricedCore
    one: Read
    other: Read
    keys: tuple[Key, ...]

    @classmethod
    def of(cls, part: PricedCore, one: Read, other: Read) -> _Cells:
        known: dict[str, Key] = {}
        for read in (one, other):
            histograms = (key for held in read.histograms.values() for key in held)
            known |= {shown_key(key): key for key in (*(read.keys or ()), *read.found, *histograms)}
        changes = {
            text: sum(abs(a - b) for a, b in zip(_state(part, one, key), _state(part, other, key), strict=True))
            for text, key in known.items()
        }
        chosen = sorted((text for text, change in changes.items() if change), key=lambda text: -changes[text])
        return cls(part, one, other, tuple(known[text] for text in chosen[:MOST_CELLS]))

    def losses(self, read: Read, runs: int) -> list[float]:
        found: list[float] = []
        while len(found) < runs:
            tables = sample_tables(self.part, read, self.keys, min(BATCH, runs - len(found)))
            found += [
                sum(self._loss(key, table.get(shown_key(key))) for key in self.keys) + self._range_losses(table)
                for table in tables
            ]
        return found

    def _range_losses(self, table: Mapping[str, Row]) -> float:
        """The logarithm of how likely the ranges that were found are, by the histograms."""
        row = next(iter(table.values()), None)
        total, starts = 0.0, column_starts(self.part)
        for place, mechanism in enumerate(self.part.noise.atoms):
            if row is None or not isinstance(mechanism, RangedSum):
                continue
            low, high = row[starts[place] + 3 : starts[place] + 5]
            one, other = (
                mechanism.log_likelihood(list(read.histograms.get(place, {}).values()), low, high)
                for read in (self.one, self.other)
            )
            total += one - other
        return _held(total)

    def _loss(self, key: Key, row: Row | None) -> float:
        """The logarithm of how likely this row of a group is with the person, beside without."""
        total, noise = 0.0, self.part.noise
        if noise.keys is not None:
            total += self._selection(key, row is not None)
        if row is None:
            return _held(total)
        starts = column_starts(self.part)
        for place, (atom, mechanism) in enumerate(zip(self.part.core.atoms, noise.atoms, strict=True)):
            value = row[starts[place]]
            if isinstance(mechanism, RangedSum):
                low, high = row[starts[place] + 3 : starts[place] + 5]
                x, y = (self._in_range(read, key, place, low, high) for read in (self.one, self.other))
                total += mechanism_loss(mechanism.total, value, x, y)
                continue  # that it is this range is looked at once, for all groups
            if isinstance(mechanism, Choice):
                a, b = (scores(atom, read.histograms.get(place, {}).get(key, {})) for read in (self.one, self.other))
                total += (a[int(value)] - b[int(value)]) / mechanism.scale
                continue
            x, y = (_integer(self.part, read, key, place) for read in (self.one, self.other))
            if mechanism is None:
                assert noise.keys is not None
                total += (abs(value - y) - abs(value - x)) / noise.keys.scale
            else:
                total += mechanism_loss(mechanism, value, x, y)
        return _held(total)

    def _in_range(self, read: Read, key: Key, place: int, low: float, high: float) -> int:
        """The exact sum in units of the range that a noisy table is in."""
        power = round(math.log2(max(high, -low)))
        held = read.histograms.get(place, {}).get(key, {})
        return ValueRange(power, low < 0, high > 0).total(held, centred=self.part.core.atoms[place].centred)

    def _selection(self, key: Key, shown: bool) -> float:
        keys = self.part.noise.keys
        assert keys is not None
        found = []
        for read in (self.one, self.other):
            persons = read.found.get(key, {}).get("persons", 0)
            likely = _reach(keys.threshold - persons, keys.scale) if persons >= keys.minimum else 0.0
            found.append(max(likely if shown else 1 - likely, 1e-30))
        return math.log(found[0] / found[1])


def mechanism_loss(mechanism: Mechanism, value: int, one: int, other: int) -> float:
    """The logarithm of how likely a noisy integer is for one exact integer beside another."""
    if mechanism.distribution == "gaussian":
        return ((value - other) ** 2 - (value - one) ** 2) / (2 * mechanism.scale**2)
    return (abs(value - other) - abs(value - one)) / mechanism.scale


def column_starts(part: PricedCore) -> list[int]:
    """Where the columns of each atom begin in a noisy table, behind its keys."""
    found, at = [], 0
    for mechanism in part.noise.atoms:
        found.append(at)
        at += 5 if isinstance(mechanism, RangedSum) else 2
    return found


def _held(loss: float) -> float:
    return max(-LARGEST_LOSS, min(LARGEST_LOSS, loss))


def _reach(distance: float, scale: float) -> float:
    """How likely Laplace noise reaches a distance, about."""
    return math.exp(-distance / scale) / 2 if distance > 0 else 1 - math.exp(distance / scale) / 2


def _integer(part: PricedCore, read: Read, key: Key, place: int) -> int:
    if part.core.atoms[place].kind == "distinct":
        return int(read.histograms.get(place, {}).get(key, 0))
    name = "persons" if part.noise.atoms[place] is None else f"a{place}"
    return int(read.found.get(key, {}).get(name, 0))


def _state(part: PricedCore, read: Read, key: Key) -> list[float]:
    """The integers of a group in units of their noise, by which groups are compared."""
    found = [float(read.found.get(key, {}).get("persons", 0)) if part.noise.keys is not None else 0.0]
    for place, mechanism in enumerate(part.noise.atoms):
        if isinstance(mechanism, Choice):
            found.append(float(sum(read.histograms.get(place, {}).get(key, {}).values())))
        elif isinstance(mechanism, RangedSum):
            held = read.histograms.get(place, {}).get(key, {})
            found.append(float(sum(rows for rows, _ in held.values())))
        else:
            scale = mechanism.scale if mechanism is not None else 1.0
            found.append(_integer(part, read, key, place) / scale)
    return found


def sample_tables(part: PricedCore, read: Read, keys: Sequence[Key], runs: int) -> list[dict[str, Row]]:
    """So many noisy tables of these groups, each by key.

    The same exact integers are put under each other, with the number of the run as a key before their keys, and made
    noisy by one call of what answers statements.
    """
    if runs > 1 and any(isinstance(each, RangedSum) for each in part.noise.atoms):
        # One range is found for all groups of a table: many tables in one would find it among the rows of all.
        return [table for _ in range(runs) for table in sample_tables(part, read, keys, 1)]
    places = range(runs)
    wanted = set(map(shown_key, keys))
    found: Mapping[Key, Mapping[str, int]] = {
        (run, *key): values for run in places for key, values in read.found.items() if shown_key(key) in wanted
    }
    histograms: dict[int, dict[Key, Any]] = {
        atom: {(run, *key): held for run in places for key, held in by_key.items() if shown_key(key) in wanted}
        for atom, by_key in read.histograms.items()
    }
    always = None
    if read.keys is not None:
        always = [(run, *key) for run in places for key in read.keys if shown_key(key) in wanted]
    width = len(part.core.keys)
    tables: list[dict[str, Row]] = [{} for _ in places]
    for run, *row in noisy_table(part.core, part.noise, found, histograms, always):
        tables[run][shown_key(row[:width])] = tuple(row[width:])
    return tables


def faults_of_noise(part: PricedCore, read: Read) -> list[str]:
    """What is wrong with noise itself: none at all, the same for two integers or two runs, a number that is none."""
    drawn: dict[str, list[float]] = {}
    wrong: dict[str, None] = {}
    keys = (read.keys if read.keys is not None else list(read.found))[:MOST_BESIDE]
    runs = _runs_of(part, RUNS_BESIDE)
    for turn in range(2):  # two calls: noise that is drawn once and kept would be the same in both
        tables = sample_tables(part, read, keys, runs)
        for key in keys:
            rows = [table[shown_key(key)] for table in tables if shown_key(key) in table]
            for start, (place, mechanism) in zip(column_starts(part), enumerate(part.noise.atoms), strict=True):
                values = [row[start] for row in rows]
                if not all(math.isfinite(value) for value in values):
                    wrong["an answer is not a finite number"] = None
                elif isinstance(mechanism, Mechanism) and len(values) == runs:
                    exact = _integer(part, read, key, place)
                    if mechanism.scale > LEAST_SCALE:
                        drawn[f"{turn} {place} {shown_key(key)}"] = [value - exact for value in values]
    listed = list(drawn.values())[: 2 * MOST_CELLS]
    listed += [series[1:] + series[:1] for series in listed[:1]]  # one run and the next
    for place, series in enumerate(listed):
        if not any(series):
            wrong["no noise is added"] = None
        elif any(abs(_correlation(series, other)) > ALIKE for other in listed[:place]):
            wrong["noise is used more than once"] = None
    return list(wrong)


def _correlation(one: Sequence[float], other: Sequence[float]) -> float:
    """
    >>> _correlation([1.0, -1.0, 2.0], [2.0, -2.0, 4.0]) > 0.99
    True
    """
    a, b = (sum(each) / len(each) for each in (one, other))
    both = sum((x - a) * (y - b) for x, y in zip(one, other, strict=True))
    spread = math.sqrt(sum((x - a) ** 2 for x in one) * sum((y - b) ** 2 for y in other))
    # A constant that is not 0 is one draw for all.
    return both / spread if spread else 1.0

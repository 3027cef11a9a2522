"""Perturbation tables: for each count, how likely each noise is; made by greatest entropy, or read from a file."""

from __future__ import annotations

import csv
import hashlib
import io
import itertools
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from sqlanon.errors import PolicyError
from sqlanon.policy.table_protection import CellKey
from sqlanon.statistics.table_system import Numbers

KEYS = 2**32  # a cell key is below this number
BALANCED = 1e-9  # of a moment: a distribution that comes so close has it
SURE = 1e-6  # probabilities of a file may miss 1 by this
MOST_ROWS = 1_000_000


@dataclass(frozen=True)
class PerturbationTable:
    """By count, the noise that is possible and how likely it is; the last count stands for all larger ones."""

    rows: Mapping[int, tuple[tuple[int, float], ...]]

    @cached_property
    def last(self) -> int:
        return max(self.rows)

    @cached_property
    def greatest(self) -> int:
        """The greatest noise, up or down."""
        return max(abs(v) for row in self.rows.values() for v, p in row if p > 0)

    @cached_property
    def variance(self) -> float:
        """Of the noise of large counts."""
        row = self.rows[self.last]
        mean = sum(p * v for v, p in row)
        return sum(p * (v - mean) ** 2 for v, p in row)

    @cached_property
    def bias(self) -> float:
        """How far the mean noise of a count is from 0 at most."""
        return max(abs(sum(p * v for v, p in row)) for row in self.rows.values())

    @cached_property
    def digest(self) -> str:
        return hashlib.sha256(repr(sorted(self.rows.items())).encode()).hexdigest()[:16]

    def row(self, count: int) -> tuple[tuple[int, float], ...]:
        return ((0, 1.0),) if count == 0 else self.rows[min(count, self.last)]

    def intervals(self, keys: int = KEYS) -> list[tuple[int, int, int, int]]:
        """For the database: (count, noise, from this cell key, below that one)."""
        found = []
        for count, row in sorted(self.rows.items()):
            if count == 0:
                continue
            ends = [round(keys * end) for end in itertools.accumulate(p for _, p in row)]
            ends[-1] = keys
            begins = [0, *ends[:-1]]
            found += [(count, v, low, high) for (v, _), low, high in zip(row, begins, ends, strict=True) if low < high]
        return found

    def counts_behind(self, shown: int) -> tuple[int, int] | None:
        """The least and the greatest count that may be shown so; None if there is none."""
        low = max(0, shown - self.greatest)
        fits = [
            count for count in range(low, shown + self.greatest + 1)
            if any(v == shown - count and p > 0 for v, p in self.row(count))
        ]  # fmt: skip
        return (fits[0], fits[-1]) if fits else None


def perturbation_table(settings: CellKey, base: Path) -> PerturbationTable:
    """The table of a policy, whose files start from a folder."""
    if settings.ptable is not None:
        return read_table(base / settings.ptable, settings.ptable)
    assert settings.d is not None and settings.v is not None
    return make_table(settings.d, settings.v, settings.js)


def make_table(d: int, v: float, js: int) -> PerturbationTable:
    """Noise from -d to d with mean 0 and variance v and the greatest entropy; no result from 1 to js.

    >>> made = make_table(2, 1.08, 1)
    >>> [(change, round(share, 4)) for change, share in made.rows[1]]
    [(-1, 0.5133), (1, 0.46), (2, 0.0267)]
    """
    rows: dict[int, tuple[tuple[int, float], ...]] = {0: ((0, 1.0),)}
    for count in range(1, (d + js + 1 if js else d) + 1):
        support = [
            change for change in range(-d, d + 1) if count + change >= 0 and not 1 <= count + change <= js
        ]  # fmt: skip
        least, most = _variances(support)
        if not least - BALANCED <= v <= most + BALANCED:
            least_of_all = max((i * (js + 1 - i) for i in range(1, js + 1)), default=0)
            raise PolicyError(
                f"there is no noise of variance {v:g} between -{d} and {d}"
                + (f" without results from 1 to {js}" if js else ""),
                hint=f"'v' must be at least {least_of_all} with 'js: {js}', and at most 'd'"
                if least_of_all
                else "'v' must be at most 'd'",
            )
        shares = _greatest_entropy(np.array(support, dtype=np.float64), v, least, most)
        rows[count] = tuple(zip(support, shares, strict=True))
    return PerturbationTable(rows)


def _variances(support: list[int]) -> tuple[float, float]:
    """The least and the greatest variance of a distribution on some numbers whose mean is 0; none is (1, 0)."""
    below, above = [x for x in support if x < 0], [x for x in support if x > 0]
    most = float(-min(below) * max(above)) if below and above else 0.0
    if 0 in support:
        return 0.0, most
    return (float(-max(below) * min(above)), most) if below and above else (1.0, 0.0)


def _greatest_entropy(support: Numbers, v: float, least: float, most: float) -> list[float]:
    """Shares proportional to exp(a x + b x^2), with mean 0 and variance v: Newton's method on the convex dual."""
    for border, pair in ((least, _nearest(support)), (most, (support.min(), support.max()))):
        if border > 0 and abs(v - border) <= BALANCED * max(1.0, border):
            # At the border only two numbers are left, and there is nothing to choose.
            low, high = pair
            return [high / (high - low) if x == low else -low / (high - low) if x == high else 0.0 for x in support]
    scale = float(np.abs(support).max())
    x = support / scale
    moments = np.stack((x, x * x))
    wanted = np.array([0.0, v / scale**2])
    dual = np.zeros(2)
    for _ in range(500):
        shares = _shares(dual, moments)
        gap = moments @ shares - wanted
        if np.abs(gap).max() < BALANCED * 1e-3:
            break
        spread = (moments * shares) @ moments.T - np.outer(moments @ shares, moments @ shares)
        step = np.linalg.solve(spread + 1e-15 * np.eye(2), gap)
        size = 1.0
        before = _dual_value(dual, moments, wanted)
        while size > 1e-12 and _dual_value(dual - size * step, moments, wanted) > before - 1e-4 * size * float(
            gap @ step
        ):
            size /= 2
        dual = dual - size * step
    shares = _shares(dual, moments)
    if np.abs(moments @ shares - wanted).max() > 1e-7:
        raise PolicyError(
            f"the perturbation table could not be made: a variance of {v:g} is too close to a border",
            hint="take a slightly different 'v', or bring a table of your own: 'ptable: noise.csv'",
        )
    return [float(share) for share in shares]


def _nearest(support: Numbers) -> tuple[float, float]:
    """The numbers next to 0 on both sides."""
    return float(support[support < 0].max(initial=-math.inf)), float(support[support > 0].min(initial=math.inf))


def _shares(dual: Numbers, moments: Numbers) -> Numbers:
    power = dual @ moments
    weights = np.exp(power - power.max())
    return np.asarray(weights / weights.sum(), dtype=np.float64)


def _dual_value(dual: Numbers, moments: Numbers, wanted: Numbers) -> float:
    power = dual @ moments
    return float(power.max() + np.log(np.exp(power - power.max()).sum()) - dual @ wanted)


# ---- from a file


def read_table(path: Path, name: str) -> PerturbationTable:
    """A CSV file with the columns i, v and p; other columns are left alone."""
    try:
        content = path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise PolicyError(
            f"{name}: the perturbation table cannot be read: {error.strerror}",
            hint=f"the path starts from the folder of the policy, {path.parent}",
        ) from None
    except UnicodeDecodeError:
        raise PolicyError(f"{name}: the perturbation table is not UTF-8", hint="save the file as UTF-8") from None
    reader = csv.DictReader(io.StringIO(content, newline=""), strict=True)
    missing = [column for column in "ivp" if column not in (reader.fieldnames or ())]
    if missing:
        raise PolicyError(
            f"{name}: the perturbation table has no column '{missing[0]}'",
            hint="its first line is i,v,p: count, noise, and how likely that is",
        )
    rows: dict[int, list[tuple[int, float]]] = {}
    try:
        for line in reader:
            found = (int(line["i"]), int(line["v"]), float(line["p"]))
            rows.setdefault(found[0], []).append(found[1:])
            if reader.line_num > MOST_ROWS:
                raise PolicyError(f"{name}: the perturbation table has more than {MOST_ROWS:,} lines")
    except (ValueError, TypeError, csv.Error):
        raise PolicyError(
            f"{name}:{reader.line_num}: this line cannot be read", hint="i and v are whole numbers, p is a number"
        ) from None
    return _checked(rows, name)


def _checked(rows: Mapping[int, Iterable[tuple[int, float]]], name: str) -> PerturbationTable:
    found = {0: ((0, 1.0),)} | {count: tuple(row) for count, row in rows.items()}
    if len(found) < 2 or sorted(found) != list(range(len(found))):
        raise PolicyError(
            f"{name}: the perturbation table has not every count from 1 to its last one",
            hint="give the noise of each count i = 1, 2, …; the last one serves all larger counts",
        )
    for count, row in found.items():
        changes = [v for v, _ in row]
        hint = "p are probabilities: they add up to 1 for each i, and each v is there once"
        if not all(math.isfinite(p) and p >= 0 for _, p in row) or len(set(changes)) < len(changes):
            raise PolicyError(f"{name}: the noise of count {count} is no distribution", hint=hint)
        if abs(sum(p for _, p in row) - 1) > SURE:
            raise PolicyError(f"{name}: the probabilities of count {count} do not add up to 1", hint=hint)
        if any(p > 0 and count + v < 0 for v, p in row):
            raise PolicyError(
                f"{name}: the noise of count {count} makes negative results", hint="leave out noise below -i"
            )
        if count == 0 and any(p > 0 and v for v, p in row):
            raise PolicyError(
                f"{name}: the perturbation table changes empty cells",
                hint="a cell of nobody has no key: leave i = 0 out",
            )
    return PerturbationTable({count: tuple(row) for count, row in found.items()})

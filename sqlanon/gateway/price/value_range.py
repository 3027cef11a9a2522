"""Bounds of values that the policy does not declare: found in a noisy histogram, and paid for with the statement.

Values are counted by their sign and the power of two above them; a person has at most K rows, so that all counts
together move by K. The range ends at the largest power of two whose noisy count is above what noise alone reaches
(approximate bounds: Wilson et al. 2020, section 5.1.1). The sum is then taken in units of that range, in which a row is
at most 2**PRECISION whatever the range is: the noise of the sum is a function of the statement alone, and only what one
unit stands for was found in the data, with noise.

Of what lies outside of the range nothing is known: it counts as the nearer end. A few rows of many thousand do.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from sqlanon.gateway.bind.bounding import LEAST_POWER, MOST_POWER, PRECISION
from sqlanon.mechanisms import Cost, Mechanism

BINS = 2 * (MOST_POWER - LEAST_POWER + 1)
SHARE = 0.25  # of an aggregate's budget that finds the range
MISTAKEN = 0.05  # how likely noise alone opens a range that no row needs
SCALE = PRECISION - LEAST_POWER + 2  # bits behind the point in which all ends and sums are whole numbers

# By bin: rows, and the sum of their integers. A bin of 1 and more is positive, one below is negative.
Histogram = Mapping[int, tuple[int, int]]


@dataclass(frozen=True)
class RangedSum:
    """The noise of a sum without declared bounds: of the histogram, and of the sum in units of the range."""

    histogram: Mechanism
    total: Mechanism

    @property
    def cost(self) -> Cost:
        return self.histogram.cost + self.total.cost

    @property
    def scale(self) -> float:
        return self.total.scale

    def half_width(self, coverage: float = 0.95) -> float:
        return self.total.half_width(coverage)

    @property
    def threshold(self) -> float:
        """Noise alone reaches it in one of all bins with this probability."""
        return self.histogram.half_width(1 - 2 * MISTAKEN / BINS)

    def log_likelihood(self, histograms: Sequence[Histogram], low: float, high: float) -> float:
        """How likely about a range is that ends here: for an audit, by Laplace tails whatever the noise is."""
        power, total = round(math.log2(max(high, -low))), 0.0
        for place, count in enumerate(_counts(histograms)):
            up, own = _power(place)
            distance = self.threshold - count
            share = math.exp(-abs(distance) / self.histogram.scale) / 2
            opens = share if distance > 0 else 1 - share
            if own > power:
                total += math.log(max(1 - opens, 1e-12))
            elif own == power and (high > 0 if up else low < 0):
                total += math.log(max(opens, 1e-12))
        return total

    def find(self, histograms: Sequence[Histogram]) -> ValueRange:
        """The range of all groups together, from one noisy histogram."""
        noisy, threshold = self.histogram.add_noise(_counts(histograms)), self.threshold
        open_ = [place for place, count in enumerate(noisy) if count > threshold]
        if not open_:
            open_ = [max(range(BINS), key=lambda place: noisy[place])]
        powers = [_power(place) for place in open_]
        return ValueRange(
            max(power for _, power in powers), any(not up for up, _ in powers), any(up for up, _ in powers)
        )


@dataclass(frozen=True)
class ValueRange:
    """From -2**power (or 0) to 2**power (or 0)."""

    power: int
    below: bool  # it has values below 0
    above: bool

    @property
    def low(self) -> float:
        return -(2.0**self.power) if self.below else 0.0

    @property
    def high(self) -> float:
        return 2.0**self.power if self.above else 0.0

    def unit(self, *, centred: bool) -> float:
        """What one unit of the integer stands for: a row is at most 2**PRECISION of them."""
        return 2.0 ** (self._reach(centred) - PRECISION)

    @property
    def middle(self) -> float:
        return (self.low + self.high) / 2

    def _reach(self, centred: bool) -> int:
        """The power of two that a value is away from what it is counted from, at most."""
        return self.power - 1 if centred and self.below != self.above else self.power

    def total(self, held: Histogram, *, centred: bool) -> int:
        """The sum of values within the range, in units. It is exact but for the last rounding.

        >>> ValueRange(3, False, True).total({_bin(3): (2, 2 << PRECISION)}, centred=False) == 2 << PRECISION
        True
        """
        whole, rows = 0, 0
        for bin_, (count, size) in held.items():
            up, power = _power(_place(bin_))
            rows += count
            if not (self.above if up else self.below):
                continue  # on the other side of 0, which is the end
            # size is in 2**(power - PRECISION); a value beyond the range counts as its end.
            inside = size << (power - PRECISION + SCALE) if power <= self.power else count << (self.power + SCALE)
            whole += inside if up else -inside
        if centred and self.below != self.above:
            middle = rows << (self.power - 1 + SCALE)
            whole += middle if self.below else -middle
        shift = self._reach(centred) - PRECISION + SCALE
        return (whole + (1 << (shift - 1))) >> shift


def most_units(rows: int) -> int:
    """How far one person with so many rows moves the units of all groups together: each is rounded once."""
    return rows * ((1 << PRECISION) + 1)


def ranges() -> Iterator[ValueRange]:
    """All ranges that can be found."""
    for power in range(LEAST_POWER, MOST_POWER + 1):
        for below, above in ((False, True), (True, False), (True, True)):
            yield ValueRange(power, below, above)


def _counts(histograms: Sequence[Histogram]) -> list[int]:
    """Rows by bin, of all groups together."""
    counts = [0] * BINS
    for held in histograms:
        for bin_, (rows, _) in held.items():
            counts[_place(bin_)] += rows
    return counts


def _bin(power: int, sign: int = 1) -> int:
    return sign * (power - LEAST_POWER + 1)


def _place(bin_: int) -> int:
    """Where a bin stands in the list of all, which is as long whatever the data are."""
    size = min(max(abs(bin_), 1), BINS // 2)
    return size - 1 if bin_ > 0 else BINS // 2 + size - 1


def _power(place: int) -> tuple[bool, int]:
    half = BINS // 2
    return place < half, place % half + LEAST_POWER

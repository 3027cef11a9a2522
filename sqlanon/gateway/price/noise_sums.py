"""How far off a sum of noisy integers is, and how several estimates of one number are brought together.

The 95 % interval of a sum is that of its variance and its kurtosis (Cornish and Fisher 1938): of one Laplace noise it
is 2 % wider than the exact one, of many it is the normal one. Discrete noise lies closer to zero than continuous noise
of the same scale, and so do sums of it, since both are symmetric with one mode (Birnbaum 1948).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

NORMAL = 1.959963984540054  # 95 % of a normal variable lie within
BENT = (NORMAL**3 - 3 * NORMAL) / 24
KURTOSIS = {"laplace": 3.0, "gaussian": 0.0}


@dataclass(frozen=True)
class NoisySum:
    """So many noisy integers of one noise, added up; `value` is their sum."""

    noise: str
    scale: float
    cells: int
    value: int = 0

    @property
    def variance(self) -> float:
        return self.cells * variance_of(self.noise, self.scale)


def variance_of(noise: str, scale: float) -> float:
    return (2.0 if noise == "laplace" else 1.0) * scale * scale


def weights_of(sums: Sequence[NoisySum]) -> list[float]:
    """The weight of each estimate of the same number, by the inverse of its variance.

    >>> weights_of([NoisySum("laplace", 1.0, 1), NoisySum("laplace", 1.0, 3)])
    [0.75, 0.25]
    """
    if any(each.cells == 0 for each in sums):  # known without noise: it is 0
        return [float(each.cells == 0) for each in sums]
    whole = sum(1 / each.variance for each in sums)
    return [1 / each.variance / whole for each in sums]


def half_width_of(sums: Sequence[NoisySum]) -> float:
    """Half of the 95 % interval of independent estimates of one number, brought together and rounded; a whole number.

    Since what is estimated is whole, too, rounding takes no estimate out of such an interval.

    >>> half_width_of([NoisySum("gaussian", 2.0, 4)])
    8.0
    """
    if any(each.cells == 0 for each in sums):
        return 0.0
    weights = weights_of(sums)
    variance = sum(weight**2 * each.variance for weight, each in zip(weights, sums, strict=True))
    fourth = sum(
        KURTOSIS[each.noise] * each.cells * (weight**2 * variance_of(each.noise, each.scale)) ** 2
        for weight, each in zip(weights, sums, strict=True)
    )
    return float(math.ceil(math.sqrt(variance) * (NORMAL + BENT * fourth / variance**2)))


def value_of(sums: Sequence[NoisySum]) -> int:
    """The estimates of one number, brought together: exactly, with weights of 2**-30, and rounded at the end.

    >>> value_of([NoisySum("laplace", 1.0, 1, 100), NoisySum("laplace", 1.0, 3, 200)])
    125
    """
    if any(each.cells == 0 for each in sums):
        return 0
    if len(sums) == 1:
        return sums[0].value
    steps = [round(weight * 2**30) for weight in weights_of(sums)]
    whole = sum(steps)
    return (2 * sum(step * each.value for step, each in zip(steps, sums, strict=True)) + whole) // (2 * whole)


def missing_share(sums: Sequence[NoisySum], target: float) -> float:
    """The inverse variance that is missing to a variance of `target`, as a share of the whole; 0 if none is.

    >>> missing_share([NoisySum("laplace", 1.0, 2)], target=2.0)
    0.5
    """
    if any(each.cells == 0 for each in sums):
        return 0.0
    return max(0.0, 1.0 - target * sum(1 / each.variance for each in sums))

"""Probabilistic information loss: how surely the statistics of a release are not those of a sample like the original.

Were the release another sample of the same people, a statistic of it would differ from the original's by its sampling
error. The loss is the probability that the error is smaller than the difference that is seen: 0 where the statistics
agree, 1 where the release cannot pass for a sample; a statistic that the release does not tell loses 1. It is averaged
over the statistics of a kind, and then over the kinds: quantiles, means, variances, covariances and correlations.
Sampling errors shrink with the number of rows: of a million rows, small differences are certain ones.
cite: Mateo-Sanz, Domingo-Ferrer and Sebé 2005
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from sqlanon.evidence.utility.moments import Moments

STEPS = 20  # quantiles are taken at 1/20, …, 19/20
Quantiles = Mapping[int, Mapping[int, float]]  # by column, by step


def loss(difference: float, variance: float) -> float:
    """
    >>> loss(0.0, 1.0), round(loss(1.96, 1.0), 3), loss(0.1, 0.0), loss(float("nan"), 1.0)
    (0.0, 0.95, 1.0, 1.0)
    """
    if math.isnan(difference):
        return 1.0
    if difference == 0:
        return 0.0
    return math.erf(abs(difference) / math.sqrt(2 * variance)) if variance > 0 else 1.0


def probabilistic_loss(
    original: Moments, released: Moments, quantiles: tuple[Quantiles, Quantiles]
) -> dict[str, float]:
    """The mean loss of each kind of statistic, and of all kinds under 'all'."""
    places = range(len(original.means))
    kinds: dict[str, list[float]] = {
        "quantiles": _quantiles(*quantiles, original),
        "means": [_mean(original, released, place) for place in places],
        "variances": [_covariance(original, released, place, place) for place in places],
        "covariances": [_covariance(original, released, i, j) for i in places for j in places if i < j],
        "correlations": [_correlation(original, released, i, j) for i in places for j in places if i < j],
    }
    found = {kind: math.fsum(losses) / len(losses) for kind, losses in kinds.items() if losses}
    found["all"] = math.fsum(found.values()) / len(found)
    return found


def _mean(original: Moments, released: Moments, place: int) -> float:
    variance = original.covariances[place, place]
    return loss(_apart(released.means[place], original.means[place]), _over(variance, original.count[place]))


def _apart(one: float, other: float) -> float:
    """Sums of the same numbers in another order differ in their last digits; in standard deviations that is nothing."""
    return 0.0 if abs(one - other) < 1e-9 else float(one - other)


def _over(variance: float, n: float) -> float:
    return 0.0 if math.isnan(variance) or n == 0 else float(variance / n)


def _covariance(original: Moments, released: Moments, i: int, j: int) -> float:
    if math.isnan(original.covariances[i, j]):  # the source tells none
        return 0.0
    n = original.records[i, j]
    mean = _about(original, i, j)
    variance = _over(original.squares[i, j] - mean**2, n)
    return loss(_apart(released.covariances[i, j], original.covariances[i, j]), variance)


def _about(side: Moments, i: int, j: int) -> float:
    """The covariance with n below, which goes with the other moments."""
    n = side.records[i, j]
    return float(side.covariances[i, j] * (n - 1) / n) if n else math.nan


def _correlation(original: Moments, released: Moments, i: int, j: int) -> float:
    """By the delta method, in the form that holds for a correlation of 0 too."""
    r = original.correlations[i, j]
    if math.isnan(r):  # constant in the source: there is nothing to lose
        return 0.0
    theirs = released.correlations[i, j]
    n, sd = original.records[i, j], [math.sqrt(_about(original, k, k)) for k in (i, j)]
    m22 = original.squares[i, j] / (sd[0] * sd[1]) ** 2
    m40, m04 = original.squares[i, i] / sd[0] ** 4, original.squares[j, j] / sd[1] ** 4
    m31, m13 = original.third[i, j] / (sd[0] ** 3 * sd[1]), original.third[j, i] / (sd[0] * sd[1] ** 3)
    variance = m22 * (1 + r * r / 2) + r * r / 4 * (m40 + m04) - r * (m31 + m13)
    return loss(_apart(theirs, r), max(float(variance), 0.0) / n)


def _quantiles(ours: Quantiles, theirs: Quantiles, original: Moments) -> list[float]:
    """The variance of a quantile needs the density there: the rows between its neighbours by their distance."""
    found = []
    for column, steps in ours.items():
        for step, value in steps.items():
            share, n = step / STEPS, original.count[column]
            low, high = max(step - 1, 1), min(step + 1, STEPS - 1)
            width = (steps[high] - steps[low]) / ((high - low) / STEPS)  # 1 / density
            released = theirs.get(column, {}).get(step, math.nan)
            found.append(loss(released - value, share * (1 - share) * width**2 / n))
    return found


def by_step(rows: Sequence[tuple[Any, ...]], side: int) -> dict[int, dict[int, float]]:
    """The quantiles of one side, from (attribute, side, step, number)."""
    found: dict[int, dict[int, float]] = {}
    for attribute, own, step, number in rows:
        if int(own) == side:
            found.setdefault(int(attribute) - 1, {})[int(step)] = float(number)
    return found

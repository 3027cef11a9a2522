"""Choose the best of several public candidates."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from sqlanon.errors import MechanismError
from sqlanon.mechanisms._checks import LARGEST_SENSITIVITY, positive, whole
from sqlanon.mechanisms._cost import Cost
from sqlanon.mechanisms._opendp import calibrate_scale, integers, opendp, zero_concentrated


@dataclass(frozen=True)
class Choice:
    """A random choice that prefers large scores, and what one choice costs."""

    choose: Callable[[Sequence[int]], int]
    cost: Cost
    scale: float


def choose_best(sensitivity: float, epsilon: float) -> Choice:
    """The index of the largest score after exponential noise on each (permute-and-flip, McKenna and Sheldon 2020).

    One person changes each score by at most `sensitivity`, in either direction. Scores are integers, so a fraction is
    rounded up.

    Several groups. Let one person have k_g rows in group g, at most K in all groups together, and let a row change each
    score by at most m. The candidates of group g then move by k_g * m, and one choice among them with scale s has the
    privacy loss 2 * k_g * m / s: the map is linear. Independent choices add up to 2 * m / s * (sum of k_g), which is
    at most 2 * m * K / s. So choose_best(sensitivity=K * m, epsilon), run once in each group, costs epsilon for all
    groups together, not for each of them. The groups must be public, or released before.

    >>> choice = choose_best(sensitivity=1, epsilon=1.0)
    >>> choice.cost, choice.scale
    (Cost(epsilon=1.0, delta=0.0, rho=0.5), 2.0)
    >>> choice.choose([0, 1000, 0])
    1
    """
    sensitivity = positive("sensitivity", sensitivity, low=1e-6, high=float(LARGEST_SENSITIVITY // 2))
    return _choose_best(math.ceil(sensitivity), positive("epsilon", epsilon))


@lru_cache(maxsize=1024)  # of measurements, which draw fresh noise whenever they are called
def _choose_best(sensitivity: int, epsilon: float) -> Choice:
    space = integers(), opendp("metrics").linf_distance(T="i64"), opendp("measures").max_divergence()
    measurement, scale = calibrate_scale(
        lambda scale: opendp("measurements").make_noisy_max(*space, scale=scale),
        sensitivity,
        limit=epsilon,
        scale=2 * sensitivity / epsilon,
    )

    def choose(scores: Sequence[int]) -> int:
        if not len(scores):
            raise MechanismError("there is nothing to choose from")
        return int(measurement(whole(scores)))

    cost = Cost(epsilon=measurement.map(sensitivity), rho=zero_concentrated(measurement, sensitivity))
    return Choice(choose, cost, scale)

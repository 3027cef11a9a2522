"""Discrete Laplace noise: pure epsilon, for a bound on the sum of all changes of a vector (L1)."""

from __future__ import annotations

from functools import lru_cache

from sqlanon.mechanisms._checks import positive, positive_integer, whole
from sqlanon.mechanisms._cost import Cost, Mechanism
from sqlanon.mechanisms._opendp import calibrate_scale, integers, opendp, zero_concentrated


def laplace(sensitivity: int, epsilon: float) -> Mechanism:
    """Discrete Laplace noise for vectors that one person changes by at most `sensitivity` in total.

    P[noise = x] is proportional to exp(-|x| / scale). The vector may have any length: a person who is spread over many
    cells changes each of them less.

    >>> mechanism = laplace(sensitivity=2, epsilon=0.5)
    >>> mechanism.cost, mechanism.scale, mechanism.half_width(0.95)
    (Cost(epsilon=0.5, delta=0.0, rho=0.125), 4.0, 12.0)
    >>> len(mechanism.add_noise([10, 20, 30]))
    3
    """
    return _laplace(positive_integer("sensitivity", sensitivity), positive("epsilon", epsilon))


@lru_cache(maxsize=1024)  # of measurements, which draw fresh noise whenever they are called
def _laplace(sensitivity: int, epsilon: float) -> Mechanism:
    space = integers(), opendp("metrics").l1_distance(T="i64")
    measurement, scale = calibrate_scale(
        lambda scale: opendp("measurements").make_laplace(*space, scale=scale),
        sensitivity,
        limit=epsilon,
        scale=sensitivity / epsilon,
    )
    cost = Cost(epsilon=measurement.map(sensitivity), rho=zero_concentrated(measurement, sensitivity))
    return Mechanism(lambda values: list(measurement(whole(values))), cost, scale)

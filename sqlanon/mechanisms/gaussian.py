"""Discrete Gaussian noise: zCDP, for a bound on the Euclidean length of the change of a vector (L2)."""

from __future__ import annotations

import math
from functools import lru_cache

from sqlanon.mechanisms._checks import LARGEST_SENSITIVITY, positive, probability, whole
from sqlanon.mechanisms._cost import Cost, Mechanism
from sqlanon.mechanisms._opendp import calibrate_scale, integers, opendp


def gaussian(sensitivity: float, rho: float, delta: float) -> Mechanism:
    """Discrete Gaussian noise for vectors that one person changes by at most `sensitivity` in L2.

    P[noise = x] is proportional to exp(-x**2 / (2 * scale**2)). The cost is rho; its `epsilon` is what OpenDP's
    conversion from zCDP says at the `delta` of the caller.

    >>> mechanism = gaussian(sensitivity=1.0, rho=0.125, delta=1e-6)
    >>> mechanism.scale, mechanism.cost.rho, mechanism.cost.delta
    (2.0, 0.125, 1e-06)
    >>> 2.4 < mechanism.cost.epsilon < 2.5
    True
    """
    return _gaussian(
        positive("sensitivity", sensitivity, low=1e-6, high=float(LARGEST_SENSITIVITY)),
        positive("rho", rho),
        probability("delta", delta),
    )


@lru_cache(maxsize=1024)  # of measurements, which draw fresh noise whenever they are called
def _gaussian(sensitivity: float, rho: float, delta: float) -> Mechanism:
    space = integers(), opendp("metrics").l2_distance(T="f64")
    measurement, scale = calibrate_scale(
        lambda scale: opendp("measurements").make_gaussian(*space, scale=scale),
        sensitivity,
        limit=rho,
        scale=sensitivity / math.sqrt(2 * rho),
    )
    combinators = opendp("combinators")
    approximate = combinators.make_fix_delta(combinators.make_zCDP_to_approxDP(measurement), delta)
    epsilon, delta = approximate.map(sensitivity)
    cost = Cost(epsilon, delta, rho=measurement.map(sensitivity))
    return Mechanism(lambda values: list(measurement(whole(values))), cost, scale, "gaussian")

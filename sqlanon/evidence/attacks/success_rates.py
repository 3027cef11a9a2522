"""How often an attacker is right, and how much more often than somebody without the data: rates with their intervals.

A rate has the interval of Wilson (1927). An advantage is (attack - control) / (1 - control), as in Anonymeter (Giomi,
Boenisch, Wehmeyer and Tasnadi 2023): of what the control leaves open, the share that the attack gets. It is made of the
centers of the intervals, and its own interval of their widths, as if the two rates were independent. That interval is
too narrow where nearly all guesses are right. Where the two rates may be the same by the interval of their difference
(Newcombe 1998, method 10), it is widened to that one, so that it holds 0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

CONFIDENCE = 0.95
NORMAL = 1.959963984540054  # of the normal distribution, 95 % are within so many standard deviations
LEAST_ADVANTAGE = 0.05  # our default: what a guess must be better by, at the lower end of its interval, to be a finding


@dataclass(frozen=True)
class SuccessRate:
    """How many guesses are right, with the interval in which the rate is with 95 % confidence."""

    guesses: int
    right: float  # not an integer where a person's rows, or chances, are added up
    rate: float
    low: float
    high: float


def success_rate(guesses: int, right: float) -> SuccessRate:
    """The rate and its interval; there must be a guess.

    >>> found = success_rate(10, 2)
    >>> round(found.low, 4), round(found.high, 4)
    (0.0567, 0.5098)
    """
    center, error = _wilson(guesses, right)
    return SuccessRate(guesses, right, right / guesses, max(center - error, 0.0), min(center + error, 1.0))


def residual(attack: SuccessRate, control: SuccessRate) -> tuple[float, float, float]:
    """The advantage of an attack over its control, and the ends of its interval; below 0 where the control is better.

    >>> residual(success_rate(100, 50), success_rate(100, 50))[0]
    0.0
    """
    (ours, our_error), (theirs, their_error) = (_wilson(item.guesses, item.right) for item in (attack, control))
    value = (ours - theirs) / (1 - theirs)
    error = math.hypot(our_error / (1 - theirs), their_error * (1 - ours) / (1 - theirs) ** 2)
    gap = attack.rate - control.rate
    below = math.hypot(attack.rate - attack.low, control.high - control.rate)
    above = math.hypot(attack.high - attack.rate, control.rate - control.low)
    low, high = value - error, value + error
    if gap - below <= 0 <= gap + above:
        low, high = min(low, (gap - below) / (1 - theirs)), max(high, (gap + above) / (1 - theirs))
    return value, max(low, -1.0), min(high, 1.0)


def _wilson(guesses: int, right: float) -> tuple[float, float]:
    square = NORMAL * NORMAL
    spread = max(right * (guesses - right) / guesses, 0.0)
    return (right + square / 2) / (guesses + square), NORMAL / (guesses + square) * math.sqrt(spread + square / 4)

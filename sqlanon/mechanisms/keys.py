"""Which groups of a query may be named at all: a threshold on noisy counts of persons."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache

from sqlanon.mechanisms._checks import positive, positive_integer, probability, whole
from sqlanon.mechanisms._cost import Cost
from sqlanon.mechanisms._tails import ROUNDED_UP, context, laplace_reach, laplace_tail
from sqlanon.mechanisms.laplace import laplace

ROOMY = 160  # digits, so that 1 - p still has more than sixty digits of p
TINY = Decimal("1e-60")  # below, groups * p stands for 1 - (1 - p)**groups; it is larger by a share of 1e-60 at most


@dataclass(frozen=True)
class KeySelection:
    """Which keys are released, with a noisy number of persons each; None where the key is withheld.

    The list that `select` gives is as long as the list of keys in the data, and that length is not private: what is
    None must be dropped before anything leaves, and the order of what stays must not depend on what was dropped.
    """

    select: Callable[[Sequence[int]], list[int | None]]
    cost: Cost
    scale: float
    threshold: int
    minimum: int


def select_keys(groups: int, minimum: int, epsilon: float, delta: float) -> KeySelection:
    """Release the keys whose noisy number of persons reaches a threshold, with (epsilon, delta) for all of them.

    A person is counted in at most `groups` keys. A key with fewer than `minimum` persons is never released. Any other
    key gets discrete Laplace noise for sensitivity `groups` and is released if it then reaches the threshold: the
    smallest integer, not below `minimum`, for which 1 - (1 - p)**groups <= delta, where p is the probability that a key
    of exactly `minimum` persons is released.

    Proof. Let D have one person more than D', and let this person be in the keys A and B: those of A have at least
    `minimum` persons in both, those of B have `minimum` in D and one less in D'. (A key below `minimum` in both, and a
    key without this person, behave the same in both; a key that only D knows is in B or below `minimum`.)
    Let X, X' be what is released of A in D and in D', and Y, Y' the same of B; all of it is independent.

    - Y' is always nothing. Y is nothing with probability (1 - p)**|B| >= 1 - delta, as |B| <= groups.
      So Y and Y' differ by at most delta in total variation.
    - The counts of A differ by |A| <= groups in L1, so X and X' are within exp(epsilon), each way: noise for that
      sensitivity, then a threshold, which is post-processing.

    For each set S of outputs, first change the keys of B, then those of A:
    P[(X, Y) in S] <= P[(X, Y') in S] + delta <= exp(epsilon) * P[(X', Y') in S] + delta, and
    P[(X', Y') in S] <= P[(X', Y) in S] + delta <= exp(epsilon) * P[(X, Y) in S] + delta. ∎

    Under zCDP this is delta-approximately rho-zCDP with rho = epsilon**2 / 2 (Bun and Steinke 2016, section 8: there
    are events E and E', each of probability 1 - delta at least, so that what is released given E in D and given E' in
    D' has a Rényi divergence of at most rho * alpha, each way and for every alpha > 1). Let E be that nothing of B is
    released in D, and E' any event of D' with probability 1 - delta that is drawn apart from the release. Given these,
    the releases are X and X', which are within exp(epsilon), so that their divergence is at most epsilon**2 / 2 * alpha
    (there, proposition 3.3). Rhos and deltas add up, also where the next mechanism hangs on what was released before
    it, as the values of selected keys do. And rho-zCDP is (rho + 2 * sqrt(rho * ln(1 / d)), d)-private, so that
    P[M in S] <= delta + (1 - delta) * P[M in S | E] <= delta + (1 - delta) * (exp(eps) * P[M' in S | E'] + d)
    <= exp(eps) * P[M' in S] + delta + d, as P[E'] >= 1 - delta; and the same with D and D' exchanged.

    OpenDP's make_laplace_threshold is not used: it releases what is equal to the threshold and leaves that out of its
    delta (its issue 2922, seen in 0.16).

    >>> keys = select_keys(groups=1, minimum=1, epsilon=1.0, delta=1e-6)
    >>> keys.threshold, keys.cost.epsilon, 5e-7 < keys.cost.delta <= 1e-6
    (15, 1.0, True)
    >>> keys.select([0, 1_000_000])[0] is None
    True
    """
    return _select_keys(
        positive_integer("groups", groups),
        positive_integer("minimum", minimum),
        positive("epsilon", epsilon),
        probability("delta", delta),
    )


@lru_cache(maxsize=1024)  # the noise itself is fresh in each call of `select`
def _select_keys(groups: int, minimum: int, epsilon: float, delta: float) -> KeySelection:
    noise = laplace(groups, epsilon)
    reach = laplace_reach(noise.scale, at_most_once(groups, delta))
    paid = ceiling(any_of(groups, laplace_tail(noise.scale, reach)))
    while paid > delta:  # the last digit of the first guess
        reach += 1
        paid = ceiling(any_of(groups, laplace_tail(noise.scale, reach)))
    threshold = minimum + reach

    def select(persons: Sequence[int]) -> list[int | None]:
        exact = whole(persons)
        noisy = noise.add_noise(exact)
        released = (known >= minimum and count >= threshold for known, count in zip(exact, noisy, strict=True))
        return [count if release else None for count, release in zip(noisy, released, strict=True)]

    cost = Cost(noise.cost.epsilon, paid, noise.cost.rho)
    return KeySelection(select, cost, noise.scale, threshold, minimum)


def at_most_once(groups: int, delta: float) -> Decimal:
    """The p for which 1 - (1 - p)**groups = delta, or the bound delta / groups where that is as good.

    >>> float(at_most_once(2, 0.75))
    0.5
    """
    exact = context(ROOMY)
    if delta < TINY:
        return exact.divide(Decimal(delta), groups)
    log = exact.divide(exact.ln(exact.subtract(1, Decimal(delta))), groups)
    return exact.subtract(1, exact.exp(log))


def any_of(groups: int, p: Decimal) -> Decimal:
    """1 - (1 - p)**groups, rounded up: the probability that at least one of independent events of this p happens.

    >>> float(any_of(2, Decimal("0.5")))
    0.75
    """
    exact = context(ROOMY)
    bound = exact.multiply(groups, p)
    if bound < TINY:
        return bound
    none = exact.exp(exact.multiply(groups, exact.ln(exact.subtract(1, p))))
    return exact.multiply(exact.subtract(1, none), ROUNDED_UP)


def ceiling(number: Decimal) -> float:
    """The smallest float that is not below.

    >>> ceiling(Decimal("0.1")) >= Decimal("0.1")
    True
    """
    near = float(number)
    return near if near >= number else math.nextafter(near, math.inf)

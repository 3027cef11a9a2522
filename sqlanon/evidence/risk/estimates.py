"""How many of a population are unique, estimated from a sample: solved on the sizes of its classes, which are few.

`sizes` maps a number of records to the number of classes that hold as many. All results are shares of the population;
None where a model has no solution for these sizes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

STEPS = 200  # of a bisection: more than a double can tell apart
SMALL_SAMPLE = 0.1  # up to here Dankar's rule takes Pitman's model


def population_uniqueness(sizes: Mapping[int, int], fraction: float) -> dict[str, float | str | None]:
    """Every estimate, and the one that Dankar's rule takes."""
    pitman, zayatz, snb = (estimate(sizes, fraction) for estimate in (pitman_share, zayatz_share, snb_share))
    named: dict[str, float | None] = {"pitman": pitman, "zayatz": zayatz, "snb": snb}
    if fraction <= SMALL_SAMPLE:
        chosen = "pitman" if pitman is not None else "zayatz"
    else:
        chosen = "snb" if snb is not None and zayatz is not None and snb <= zayatz else "zayatz"
    return {"sampling_fraction": fraction, **named, "dankar": named[chosen], "dankar_model": chosen}


def pitman_share(sizes: Mapping[int, int], fraction: float) -> float | None:
    """Pitman's model with the parameters of the greatest likelihood (Hoshino 2001)."""
    if (known := _known(sizes, fraction)) is not None or not sizes:
        return known
    population = _population(sizes, fraction)
    if population is None:
        return None
    theta, alpha = pitman_parameters(sizes)
    share = math.exp(math.lgamma(theta + 1) - math.lgamma(theta + alpha) + (alpha - 1) * math.log(population))
    return share if 0 <= share <= 1 else None


def pitman_parameters(sizes: Mapping[int, int]) -> tuple[float, float]:
    """Theta and alpha: for an alpha there is one best theta, and along these the derivative in alpha changes its sign
    once."""
    records = sum(size * count for size, count in sizes.items())
    classes = sum(sizes.values())

    def by_theta(theta: float, alpha: float) -> float:
        return _digammas(theta / alpha + 1, classes - 1) / alpha - _digammas(theta + 1, records - 1)

    def by_alpha(theta: float, alpha: float) -> float:
        steps = (classes - 1 - theta / alpha * _digammas(theta / alpha + 1, classes - 1)) / alpha
        return steps - sum(count * _digammas(1 - alpha, size - 1) for size, count in sizes.items() if size > 1)

    def best_theta(alpha: float) -> float:
        low, high = -alpha * (1 - 1e-12), 1.0
        while by_theta(high, alpha) > 0 and high < 1e18:
            high *= 2
        return _root(lambda theta: by_theta(theta, alpha), low, high)

    alpha = _root(lambda alpha: by_alpha(best_theta(alpha), alpha), 1e-6, 1 - 1e-9)
    return best_theta(alpha), alpha


def zayatz_share(sizes: Mapping[int, int], fraction: float) -> float | None:
    """Zayatz 1991: how likely a class of one record is one in the population too, if that has as many classes of each
    size as the sample has."""
    if (known := _known(sizes, fraction)) is not None or not sizes:
        return known
    records = sum(size * count for size, count in sizes.items())
    population = _population(sizes, fraction)
    if population is None:
        return None
    drawn_once = 0.0
    missed = 1.0  # the chance that all but one of a class are not drawn, if one is
    done = 1
    for size in sorted(sizes):
        while done < size and missed > 0:
            missed *= max(0.0, population - records - done + 1) / (population - done)
            done += 1
        drawn_once += sizes[size] * size * missed
    return sizes[1] * sizes[1] / drawn_once / records


def snb_share(sizes: Mapping[int, int], fraction: float) -> float | None:
    """The shifted negative binomial model (Chen and Keller-McNulty 1998): a class of the population has 1 + X records,
    X negative binomial with parameters alpha and beta, which are those that give as many classes of one and of two
    records as there are. The number of classes in the population is Shlosser's estimate (Haas and Stokes 1998)."""
    if (known := _known(sizes, fraction)) is not None or not sizes:
        return known
    ones, twos = sizes[1], sizes.get(2, 0)
    if not twos:
        return None
    population, classes = _population(sizes, fraction), _shlosser(sizes, fraction)
    if population is None or classes is None:
        return None

    def ratio(alpha: float, beta: float) -> float:
        """Of the expected classes of two records to those of one; it grows with alpha."""
        rest = (1 - fraction) * (1 - beta)
        expected = fraction / 2 * alpha * (1 - beta) * (2 + (alpha - 1) * rest)
        return expected / ((1 - rest) * (1 - rest + alpha * rest))

    def alpha_of(beta: float) -> float:
        high = 1.0
        while ratio(high, beta) < twos / ones and high < 1e18:
            high *= 2
        return _root(lambda alpha: twos / ones - ratio(alpha, beta), 0.0, high)

    def excess(beta: float) -> float:
        alpha = alpha_of(beta)
        rest = (1 - fraction) * (1 - beta)
        # beta / (1 - rest) is close to 1 where alpha is large.
        kept = math.exp(alpha * math.log1p(-fraction * (1 - beta) / (1 - rest)))
        return ones - classes * fraction * kept * (1 + alpha * rest / (1 - rest))

    low, high = 1e-9, 1 - 1e-9
    if excess(low) < 0 or excess(high) > 0:
        return None
    beta = _root(excess, low, high)
    share = classes * math.exp(alpha_of(beta) * math.log(beta)) / population
    return share if 0 <= share <= 1 else None


def _shlosser(sizes: Mapping[int, int], fraction: float) -> float | None:
    """None where the fraction is so small that a double does not tell it from 0."""
    square = fraction * fraction
    first = second = missed = seen = 0.0
    for size, count in sizes.items():
        none = (1 - fraction) ** size
        first += size * square * (1 - square) ** (size - 1) * count
        second += ((1 - square) ** size - none) * count
        missed += none * count
        seen += size * fraction * (1 - fraction) ** (size - 1) * count
    if not second or not seen:
        return None
    odds = missed / seen
    found = sum(sizes.values()) + sizes[1] * first / second * odds * odds
    return found if math.isfinite(found) else None


def _population(sizes: Mapping[int, int], fraction: float) -> float | None:
    """Records of the population; None where they are more than a double holds, as weights can add up to."""
    found = sum(size * count for size, count in sizes.items()) / fraction if fraction else math.inf
    return found if math.isfinite(found) else None


def _known(sizes: Mapping[int, int], fraction: float) -> float | None:
    """What needs no estimate: nobody is unique, everybody is, or the sample is the population."""
    if not sizes:
        return None
    uniques = sizes.get(1, 0)
    records = sum(size * count for size, count in sizes.items())
    if fraction >= 1 or uniques in (0, records):
        return uniques / records
    return None


def _root(function: Callable[[float], float], low: float, high: float) -> float:
    """Where a function goes from above 0 to below, or the end of the interval that is nearest to it."""
    if function(high) > 0:
        return high
    for _ in range(STEPS):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        if function(middle) > 0:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def _digammas(start: float, steps: int) -> float:
    """1/start + 1/(start + 1) + … with so many terms, the difference of two digammas.

    >>> round(_digammas(1, 3), 12) == round(1 + 1/2 + 1/3, 12)
    True
    """
    found = 0.0
    while start < 10 and steps > 0:
        found += 1 / start
        start, steps = start + 1, steps - 1
    if steps <= 0:
        return found
    end = start + steps
    return found + math.log1p(steps / start) + _tail(end) - _tail(start)


def _tail(x: float) -> float:
    """digamma(x) - ln(x), for an x of 10 or more."""
    y = 1 / (x * x)
    return -0.5 / x - y * (1 / 12 - y * (1 / 120 - y * (1 / 252 - y * (1 / 240 - y / 132))))

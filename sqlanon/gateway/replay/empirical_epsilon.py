"""A statistical audit: how much privacy loss do samples of a mechanism on two neighbouring databases prove?

One half of the samples picks the event that tells the neighbours apart best, the other half measures it, so that the
bound holds whatever was picked. A mechanism that keeps its promise exceeds it with probability 1 - confidence at most.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence

CONFIDENCE = 1 - 1e-8


def epsilon_lower_bound(
    samples_d: Sequence[Hashable],
    samples_d_prime: Sequence[Hashable],
    delta: float = 0.0,
    confidence: float = CONFIDENCE,
) -> float:
    """An epsilon that (epsilon, delta)-privacy cannot undercut, at this confidence; 0 if the samples show nothing.

    Samples are independent runs. Outputs that are numbers are compared by size too; for anything else, project the
    output to a few values first, as events are sets of outputs that were seen.

    >>> epsilon_lower_bound([0] * 1000, [0] * 1000)
    0.0
    >>> epsilon_lower_bound([0] * 1000, [1] * 1000) > 3
    True
    """
    (pick_one, rest_one), (pick_two, rest_two) = halves(samples_d), halves(samples_d_prime)
    event, swapped = best_event(Counter(pick_one), Counter(pick_two), delta)
    likely, unlikely = (rest_two, rest_one) if swapped else (rest_one, rest_two)
    error = (1 - confidence) / 2
    p = lower_bound(sum(sample in event for sample in likely), len(likely), error)
    q = upper_bound(sum(sample in event for sample in unlikely), len(unlikely), error)
    return max(0.0, math.log((p - delta) / q)) if p > delta else 0.0


def halves(samples: Sequence[Hashable]) -> tuple[Sequence[Hashable], Sequence[Hashable]]:
    return samples[::2], samples[1::2]


def best_event(one: Counter[Hashable], two: Counter[Hashable], delta: float) -> tuple[set[Hashable], bool]:
    """The set of outputs with the largest apparent loss, and whether it is the second database that makes it likely."""
    best: tuple[float, set[Hashable], bool] = (-math.inf, set(), False)
    for swapped, likely, unlikely in ((False, one, two), (True, two, one)):
        n, m = likely.total(), unlikely.total()
        for order in orders(likely, unlikely):
            hits, misses = 0, 0
            top, length = -math.inf, 0
            for place, output in enumerate(order, 1):
                hits, misses = hits + likely[output], misses + unlikely[output]
                # Six standard deviations, about what the bounds will take off: rare outputs look better than they are.
                gain = (hits - 6 * math.sqrt(hits)) / n - delta
                score = math.log(gain / (misses + 6 * math.sqrt(misses + 9)) * m) if gain > 0 else -math.inf
                if score > top:
                    top, length = score, place
            if top > best[0]:
                best = (top, set(order[:length]), swapped)
    return best[1], best[2]


def orders(likely: Counter[Hashable], unlikely: Counter[Hashable]) -> Iterator[list[Hashable]]:
    """Ways to line up the outputs; an event is a beginning of such a line."""
    seen = likely | unlikely
    yield sorted(seen, key=lambda output: (unlikely[output] + 5) / (likely[output] + 5))
    numbers = [output for output in seen if isinstance(output, int | float)]
    if len(numbers) == len(seen):
        yield [*sorted(numbers)]
        yield [*sorted(numbers, reverse=True)]


def lower_bound(successes: int, trials: int, error: float) -> float:
    """Clopper and Pearson 1934, one side: a smaller probability makes so many successes no likelier than `error`.

    >>> lower_bound(0, 10, 0.025), round(lower_bound(5, 10, 0.025), 4)
    (0.0, 0.1871)
    """
    return 1 - upper_bound(trials - successes, trials, error)


def upper_bound(successes: int, trials: int, error: float) -> float:
    """The other side.

    >>> upper_bound(10, 10, 0.025), round(upper_bound(0, 10, 0.025), 4), round(upper_bound(5, 10, 0.025), 4)
    (1.0, 0.3085, 0.8129)
    """
    if successes == trials:
        return 1.0
    low, high = successes / trials, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        at_most = incomplete_beta(trials - successes, successes + 1, 1 - middle)  # P[at most so many successes]
        low, high = (middle, high) if at_most > error else (low, middle)
    return high


def incomplete_beta(a: float, b: float, x: float) -> float:
    """The regularized incomplete beta function, by its continued fraction (Lentz's method).

    >>> round(incomplete_beta(2, 3, 0.5), 12)  # 11/16
    0.6875
    """
    if x <= 0 or x >= 1:
        return float(x >= 1)
    if x > (a + 1) / (a + b + 2):
        return 1 - incomplete_beta(b, a, 1 - x)
    log = a * math.log(x) + b * math.log1p(-x) + math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    c, d = 1.0, 1 / (1 - (a + b) * x / (a + 1))
    fraction = d
    for m in range(1, 100_000):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        d, c = 1 / (1 + even * d), 1 + even / c
        fraction *= d * c
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        d, c = 1 / (1 + odd * d), 1 + odd / c
        fraction *= d * c
        if abs(d * c - 1) < 1e-15:
            return math.exp(log) * fraction / a
    raise ArithmeticError("the continued fraction does not converge")

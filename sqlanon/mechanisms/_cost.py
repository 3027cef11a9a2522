"""What a release costs, and the pair of noise and cost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from sqlanon.mechanisms._tails import gaussian_half_width, laplace_half_width


@dataclass(frozen=True)
class Cost:
    """What one release, or several, take from a budget; `+` is basic composition.

    `epsilon` and `delta` are one valid pair, for ledgers of approximate DP. `rho` is the same release under zCDP, for
    ledgers that add up rho; the `delta` of a Gaussian release comes from the conversion alone and does not count there,
    that of a key selection does.

    >>> Cost(epsilon=0.5, rho=0.125) + Cost(epsilon=0.25, delta=1e-6, rho=0.03125)
    Cost(epsilon=0.75, delta=1e-06, rho=0.15625)
    """

    epsilon: float = 0.0
    delta: float = 0.0
    rho: float = 0.0

    def __add__(self, other: Cost) -> Cost:
        if not isinstance(other, Cost):
            return NotImplemented
        return Cost(self.epsilon + other.epsilon, self.delta + other.delta, self.rho + other.rho)


@dataclass(frozen=True)
class Mechanism:
    """Noise for a vector of integers, and what one call of `add_noise` costs.

    Each integer gets its own fresh noise. Integers beyond 64 bits are clamped first, which moves neighbours no further
    apart, and noisy integers that would leave 64 bits are clamped too: nothing wraps.
    """

    add_noise: Callable[[Sequence[int]], list[int]]
    cost: Cost
    scale: float
    distribution: Literal["laplace", "gaussian"] = "laplace"

    def half_width(self, coverage: float = 0.95) -> float:
        """The noise of one integer lies within plus or minus this, with at least this probability."""
        width = laplace_half_width if self.distribution == "laplace" else gaussian_half_width
        return float(width(self.scale, coverage))

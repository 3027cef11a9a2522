"""Mechanisms: noise and what it costs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Cost:
    """What an answer costs: epsilon and delta of differential privacy, rho of zero-concentrated one."""

    epsilon: float = 0.0
    delta: float = 0.0
    rho: float = 0.0

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.epsilon + other.epsilon, self.delta + other.delta, self.rho + other.rho)

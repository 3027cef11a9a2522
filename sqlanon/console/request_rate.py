"""How many requests somebody may make: so many at once, and so many a second after that."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field

REMEMBERED = 10_000  # of those who asked: who asked longest ago is forgotten first


@dataclass
class RequestRate:
    """
    >>> now = [0.0]
    >>> rate = RequestRate(burst=2, per_second=1.0, clock=lambda: now[0])
    >>> [rate.allows("10.0.0.9") for _ in range(3)]
    [True, True, False]
    >>> now[0] = 1.0
    >>> [rate.allows("10.0.0.9") for _ in range(2)]
    [True, False]
    """

    burst: int
    per_second: float
    clock: Callable[[], float] = time.monotonic
    _left: OrderedDict[Hashable, tuple[float, float]] = field(default_factory=OrderedDict)  # requests left, and when

    def allows(self, who: Hashable) -> bool:
        now = self.clock()
        left, since = self._left.pop(who, (float(self.burst), now))
        left = min(float(self.burst), left + (now - since) * self.per_second)
        allowed = left >= 1.0
        self._left[who] = (left - 1.0 if allowed else left, now)
        while len(self._left) > REMEMBERED:
            self._left.popitem(last=False)
        return allowed

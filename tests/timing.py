"""How long something takes at its best: a machine that does much else may hold up any single attempt."""

from __future__ import annotations

from collections.abc import Callable

TRIES = 8


def soon(seconds: float, attempt: Callable[[], float]) -> None:
    """One of some attempts, each of which tells how long it took, is done within so many seconds."""
    took: list[float] = []
    while not took or (min(took) >= seconds and len(took) < TRIES):
        took.append(attempt())
    assert min(took) < seconds, took

"""When an answer about persons leaves: at a time that the statement decides, and the data do not.

Every statement that reads data of persons has `answer_time` seconds; one that reads them several times has as many
times more. Its answer leaves when they are over. What is not done by then is a failure, which leaves at the same time:
the gateway interrupts the engine a little earlier, so that it has stopped. If it has not, the answer leaves after twice
the time, or three times. Nothing that anybody can see happens in between: not the end of the work, not its failure, and
nobody else gets the worker.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from sqlglot import exp

from sqlanon.engines import Engine
from sqlanon.gateway.bind.catalog import Catalog
from sqlanon.gateway.bind.values import UNIT

SPARE = 4  # times as long as one reading of the largest table, at least, should be the time of an answer
WORKING = 0.9  # the share of the time in which the work must be done


@dataclass(frozen=True)
class ReleaseTime:
    """Counted from now; 0 seconds are for data of nobody: an answer leaves when it is there."""

    seconds: float
    timeout: float
    pause: Callable[[float], None]
    started: float = field(default_factory=time.monotonic)

    @property
    def to_work(self) -> float:
        """Seconds that are left for work."""
        most = WORKING * self.seconds if self.seconds else self.timeout
        return max(0.0, most - (time.monotonic() - self.started))

    def wait(self) -> bool:
        """Wait until the time has come; whether it was in time."""
        if not self.seconds:
            return True
        spent = time.monotonic() - self.started
        times = max(1, math.ceil(spent / self.seconds))
        self.pause(max(0.0, times * self.seconds - spent))
        return times == 1


def slow_tables(engine: Engine, catalog: Catalog) -> dict[str, float]:
    """Private tables that cannot be read several times within the time of an answer, and the seconds that one takes.

    For the owner of the data alone: these seconds tell of the data.
    """
    found = {}
    policy = catalog.policy
    for name, table in policy.tables.items():
        if table.public or table.released:
            continue
        inner = exp.Subquery(this=catalog.base(name).tree, alias=exp.TableAlias(this=exp.to_identifier("t")))
        persons = exp.Select().select(exp.Count(this=exp.Distinct(expressions=[exp.column(UNIT)]))).from_(inner)
        started = time.monotonic()
        engine.query(persons)
        seconds = time.monotonic() - started
        if policy.answer_time and SPARE * seconds > policy.answer_time:
            found[name] = seconds
    return found

"""Who logged in, and who was refused, in the audit log: each login that succeeds, and of those that do not how many.

Anybody who reaches the port can be refused as often as he likes, and must not fill the disk with it: of refusals that
are alike (address, door, principal, SQLSTATE) the first is written at once, and those of the next minute as one line
with their number. More than a few kinds in a minute are put together without their address. The name that was given is
written only if a user has it: people type passwords in its place.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Any

from sqlanon.server.audit import Door, Record

PERIOD = 60.0  # seconds
KINDS = 20  # of refusals that are told apart in one period


@dataclass
class Logins:
    write: Callable[[Record], Awaitable[None]]
    write_later: Callable[[Record], None]
    policy: Callable[[], str]  # the fingerprint of the one in force
    period: float = PERIOD
    _counts: Counter[Record] = field(default_factory=Counter)  # of this period, since the first of each was written
    _timer: asyncio.TimerHandle | None = None

    async def succeeded(self, principal: str, session: str, door: Door, address: str) -> None:
        """Raises Refused if it cannot be written: nobody works unseen."""
        await self.write(Record(session, principal, door, "answered", "login", policy=self.policy(), address=address))

    def refused(self, principal: str, door: Door, address: str, sqlstate: str) -> None:
        """Somebody is not let in; `principal` is empty if he gave no name of a user."""
        record = Record("", principal, door, "refused", "login", policy=self.policy(), sqlstate=sqlstate)
        kind = replace(record, address=address)
        if kind not in self._counts and len(self._counts) >= KINDS:
            kind = replace(record, principal="", address="")
        if kind in self._counts:
            self._counts[kind] += 1
            return
        self._counts[kind] = 0
        self.write_later(kind)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self.period, self.flush)

    def flush(self) -> None:
        """Write what was counted, and begin anew."""
        if self._timer is not None:
            self._timer.cancel()
        counted, self._counts, self._timer = self._counts, Counter(), None
        for kind, count in counted.items():
            if count:
                self.write_later(replace(kind, count=count))


def address_of(peer: Any) -> str:
    """The address of a client, as a socket tells it, without its port."""
    return str(peer[0])[:45] if isinstance(peer, tuple) and peer else ""

"""Who waits for a worker: each principal in turn, and nobody more than half of all places."""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable

from sqlanon.server.work_messages import TOO_MANY, Failed, Failure
from sqlanon.server.worker_process import Child


class Waiting:
    def __init__(self, most: int) -> None:
        self._most = most
        self._places: OrderedDict[str, deque[asyncio.Future[Child]]] = OrderedDict()

    def __len__(self) -> int:
        return sum(map(len, self._places.values()))

    def places_of(self, principal: str) -> int:
        return len(self._places.get(principal, ()))

    def add(self, principal: str) -> asyncio.Future[Child]:
        own = self._places.get(principal, ())
        if len(self) >= self._most or len(own) >= max(1, self._most // 2):
            raise Failed(TOO_MANY)
        place: asyncio.Future[Child] = asyncio.get_running_loop().create_future()
        self._places.setdefault(principal, deque()).append(place)
        return place

    def first(self, may: Callable[[str], bool]) -> tuple[str, asyncio.Future[Child]] | None:
        """The next who waits, of those principals who may have a worker now."""
        for principal in tuple(self._places):
            while principal in self._places and may(principal):
                places = self._places[principal]
                place = places.popleft()
                self._places.move_to_end(principal)
                if not places:
                    del self._places[principal]
                if not place.done():
                    return principal, place
        return None

    def remove(self, principal: str, place: asyncio.Future[Child]) -> None:
        places = self._places.get(principal)
        if places is not None and place in places:
            places.remove(place)
            if not places:
                del self._places[principal]

    def fail(self, failure: Failure) -> None:
        while (found := self.first(lambda principal: True)) is not None:
            found[1].set_exception(Failed(failure))

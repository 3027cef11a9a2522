"""Workers that answer statements: so many of them, replaced when they die, and a bounded queue before them.

async with pool.run(ask, before_answer=audit) as running:
    columns = (await running.described()).columns
    async for chunk in running.chunks():
        …
"""

from __future__ import annotations

import asyncio
import itertools
from collections import deque
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

from sqlanon.policy import load_gateway
from sqlanon.policy.gateway import Gateway
from sqlanon.proxy.child import Child
from sqlanon.proxy.running import BeforeAnswer, Running
from sqlanon.proxy.waiting import Waiting
from sqlanon.proxy.work import Ask, Described, Failed, Failure, Opening, WorkerKind

__all__ = ["Pool", "Running"]

OPENING = 60.0  # seconds that a worker has to open its database
FIRST_DELAY, LONGEST_DELAY = 0.1, 30.0  # seconds before a worker that could not be opened is tried again
NOT_NOW = Failure("57P03", "no statement can be answered now", hint="the owner of the data has to look after it")


class Pool:
    def __init__(
        self,
        policy: str | Path | Gateway | None,
        *,
        kind: WorkerKind = "query",
        size: int = 2,
        memory: int = 2**30,
        waiting: int = 64,
        statements: int = 10_000,
        metadata: Any = None,
    ) -> None:
        """`memory` is of each worker; `waiting` is how many statements may wait, `statements` how many one answers."""
        self._policy = policy
        self._size = size
        self._statements = statements
        self._opening = Opening(kind, None, memory, metadata=metadata)
        self._queue = Waiting(waiting)
        self._idle: deque[Child] = deque()
        self._children: set[Child] = set()
        self._starting = 0
        self._failures = 0
        self._closed = False
        self._tasks: set[asyncio.Task[Any]] = set()
        self.numbers = itertools.count(1)
        self.version = 0
        self.tables: list[dict[str, Any]] = []  # of the policy, as a query worker tells them

    # ---- all workers

    async def start(self) -> None:
        """Start all workers; raises Failed, or the error of the policy, if they cannot work."""
        await self.replace(self._policy)

    async def replace(self, policy: str | Path | Gateway | None, metadata: Any = None) -> None:
        """Go over to another policy, or its new text. If that cannot be opened all stays as it was."""
        if isinstance(policy, str | Path):
            # Read once: a worker that is started later has the same policy, whatever became of the file.
            policy = await asyncio.to_thread(load_gateway, policy)
        metadata = self._opening.metadata if metadata is None else metadata
        opening = Opening(self._opening.kind, policy, self._opening.memory, metadata=metadata)
        version = self.version + 1
        made = [Child(version) for _ in range(self._size)]
        try:
            # All of them end before one error is told: none is left behind.
            opened = await asyncio.gather(*(child.open(opening, OPENING) for child in made), return_exceptions=True)
            for error in opened:
                if error is not None:
                    raise error
            if self._closed:
                raise Failed(NOT_NOW)
        except BaseException:
            await asyncio.shield(asyncio.gather(*(child.kill() for child in made)))
            raise
        self._opening, self.version = opening, version
        self._children.update(made)
        self._failures = 0
        self._ready(made[0])
        old, self._idle = self._idle, deque()
        for child in (*old, *made):
            child.on_death = self._died
            self.release(child)

    async def close(self) -> None:
        """End all workers at once; whoever waits is told so."""
        self._closed = True
        self._queue.fail(NOT_NOW)
        while self._tasks:
            for task in tuple(self._tasks):
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.gather(*(child.kill() for child in self._children))
        self._children.clear()

    @property
    def pids(self) -> tuple[int, ...]:
        return tuple(child.pid for child in self._children)

    @property
    def alive(self) -> bool:
        """Whether anybody could be answered."""
        return any(child.alive for child in self._children)

    @property
    def busy(self) -> int:
        return len(self._children) - len(self._idle)

    @property
    def waiting(self) -> int:
        return len(self._queue)

    # ---- one statement

    async def describe(self, ask: Ask) -> Described:
        """The columns and parameters of a statement; reads no data and spends nothing."""
        running = Running(self, ask, "describe", None)
        async with running:
            return await running.described()

    def run(self, ask: Ask, before_answer: BeforeAnswer | None = None) -> Running:
        """Answer a statement. `before_answer` has ended before the first chunk, or the lack of one, is told."""
        return Running(self, ask, "run", before_answer)

    # ---- workers come and go

    async def acquire(self, principal: str) -> Child:
        while self._idle:
            child = self._idle.popleft()
            if self._usable(child):
                return child
            self._retire(child)
        if self._failures and not any(child.alive for child in self._children):
            raise Failed(NOT_NOW)
        place = self._queue.add(principal)
        try:
            return await place
        except asyncio.CancelledError:
            if place.done() and not place.cancelled() and place.exception() is None:
                self.release(place.result())
            raise
        finally:
            self._queue.remove(principal, place)

    def release(self, child: Child) -> None:
        """A worker is free: it goes on to who waits, or to rest, or is replaced."""
        if not self._usable(child):
            self._retire(child)
        elif (place := self._queue.first()) is not None:
            place.set_result(child)
        else:
            self._idle.append(child)

    def _usable(self, child: Child) -> bool:
        current = child.alive and child.runs and child.version == self.version and child.answered < self._statements
        return current and not self._closed and not _changed(child)

    def _retire(self, child: Child) -> None:
        if not self._closed:  # or `close` ends it
            self.background(self._ended(child))
            self._refill()

    async def _ended(self, child: Child) -> None:
        await child.kill()
        self._children.discard(child)

    def _died(self, child: Child) -> None:
        """A worker is gone that nobody asked; of others, whoever waits for them sees it."""
        if child in self._idle:
            self._idle.remove(child)
            self._retire(child)

    def _refill(self) -> None:
        there = sum(map(self._usable, self._children))
        for _ in range(self._size - there - self._starting):
            self._starting += 1
            self.background(self._start_one())

    async def _start_one(self) -> None:
        try:
            while not self._closed:
                opening, child = self._opening, Child(self.version)
                self._children.add(child)
                try:
                    await child.open(opening, OPENING)
                except Failed:
                    self._children.discard(child)
                    if child.version != self.version:
                        continue
                    self._failures += 1
                    if not any(each.alive for each in self._children):
                        self._queue.fail(NOT_NOW)
                    # Ever longer, or a database that cannot be opened would keep a processor busy.
                    await asyncio.sleep(min(LONGEST_DELAY, FIRST_DELAY * 2**self._failures))
                    continue
                except BaseException:
                    self._children.discard(child)
                    raise
                self._failures = 0
                break
            else:
                return
        finally:
            self._starting -= 1
        child.on_death = self._died
        self._ready(child)
        self.release(child)

    def _ready(self, child: Child) -> None:
        self.tables = list(child.told.get("tables", []))

    def background(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _changed(child: Child) -> bool:
    """Whether the database is another file than the one that a worker has open."""
    file = child.told.get("file")
    if not file:
        return False
    try:
        found = Path(file[0]).stat()
    except OSError:
        return True
    return bool([found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size] != file[1])

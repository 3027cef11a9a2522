"""Workers that answer statements: so many of them, replaced when they die, and a bounded queue before them.

async with pool.run(ask, before_answer=audit) as running:
    columns = (await running.described()).columns
    async for chunk in running.chunks():
        …
"""

from __future__ import annotations

import asyncio
import itertools
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from sqlanon.errors import SqlanonError
from sqlanon.policy import load_gateway
from sqlanon.policy.gateway import Gateway
from sqlanon.proxy.child import Child
from sqlanon.proxy.rows import Encoded
from sqlanon.proxy.work import (
    DIED,
    LATE,
    NO_MEMORY,
    TOO_MANY,
    UNKNOWN,
    Ask,
    Described,
    Failed,
    Failure,
    Frame,
    Next,
    Opening,
    Request,
    Summary,
    WorkerKind,
    failure_from,
)

OPENING = 60.0  # seconds that a worker has to open its database
FIRST_DELAY, LONGEST_DELAY = 0.1, 30.0  # seconds before a worker that could not be opened is tried again
NOT_NOW = Failure("57P03", "no statement can be answered now", hint="the owner of the data has to look after it")
BeforeAnswer = Callable[[Summary], Awaitable[None]]


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
        self._queue = _Queue(waiting)
        self._idle: deque[Child] = deque()
        self._children: set[Child] = set()
        self._starting = 0
        self._failures = 0
        self._closed = False
        self._tasks: set[asyncio.Task[Any]] = set()
        self._numbers = itertools.count(1)
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
            self._release(child)

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

    async def _acquire(self, principal: str) -> Child:
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
                self._release(place.result())
            raise
        finally:
            self._queue.remove(principal, place)

    def _release(self, child: Child) -> None:
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
            self._background(self._ended(child))
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
            self._background(self._start_one())

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
        self._release(child)

    def _ready(self, child: Child) -> None:
        self.tables = list(child.told.get("tables", []))

    def _background(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


class Running:
    """A statement that is answered. Leaving before its end breaks it off."""

    def __init__(self, pool: Pool, ask: Ask, what: Any, before_answer: BeforeAnswer | None) -> None:
        self._pool = pool
        self._request = Request(next(pool._numbers), what, ask)
        self._before_answer = before_answer
        self._child: Child | None = None
        self._described: Described | None = None
        self._failure: Failure | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._waiting: asyncio.Future[Frame | None] | None = None
        self.summary: Summary | None = None

    async def __aenter__(self) -> Running:
        loop = asyncio.get_running_loop()
        end = loop.time() + self._request.ask.timeout
        try:
            async with asyncio.timeout_at(end):
                self._child = await self._pool._acquire(self._request.ask.principal)
        except TimeoutError:
            raise Failed(LATE) from None
        self._child.answered += 1
        self._timer = loop.call_at(end, self._leave, LATE)
        try:
            await self._child.send(self._request)
        except BaseException:
            self._leave(None)
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        self._leave(None)

    async def described(self) -> Described:
        if self._described is None:
            frame = await self._frame()
            try:
                if frame.what == "described":
                    self._described = Described.from_json(frame.data)
                    self._end()
                else:
                    self._described = Described.from_json(frame.data["described"])
                    self.summary = Summary.from_json(frame.data["summary"])
            except (KeyError, TypeError, ValueError, SqlanonError):
                raise self._lost() from None
        return self._described

    async def chunks(self) -> AsyncIterator[Encoded]:
        await self.described()
        assert self.summary is not None
        if self._before_answer is not None:
            await self._before_answer(self.summary)
        while True:
            frame = await self._frame()
            try:
                if frame.what == "end":
                    self.summary = Summary.from_json(frame.data)
                    self._end()
                    return
                chunk = _encoded(frame)
            except (KeyError, TypeError, ValueError):
                raise self._lost() from None
            # The next one is made while this one is sent on; a client that reads slowly holds two at most.
            if self._child is not None:
                await self._child.send(Next(self._request.number))
            yield chunk

    async def _frame(self) -> Frame:
        if self._child is None:
            raise Failed(self._failure or UNKNOWN)
        self._waiting = asyncio.ensure_future(self._child.receive())
        try:
            frame = await self._waiting
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if self._failure is None or (task is not None and task.cancelling()):
                self._waiting.cancel()
                raise
        if self._failure is not None:
            raise Failed(self._failure)
        if frame is None or frame.number != self._request.number:
            raise self._lost()
        if frame.what == "failure":
            failure = failure_from(frame.data)
            if failure.sqlstate == NO_MEMORY.sqlstate and self._child is not None:
                self._child.alive = False  # what it holds may be in pieces: a new one is better
            self._end()
            raise Failed(failure)
        return frame

    def _lost(self) -> Failed:
        """The worker died, or says what makes no sense: nothing more is taken from it."""
        if self._child is not None:
            self._child.alive = False
        self._end()
        return Failed(DIED)

    def _end(self) -> None:
        """The worker is free."""
        child, self._child = self._child, None
        if self._timer is not None:
            self._timer.cancel()
        if child is not None:
            self._pool._release(child)

    def _leave(self, reason: Failure | None) -> None:
        """Break off, if it has not ended: nobody waits for the worker to stop."""
        if self._timer is not None:
            self._timer.cancel()
        child, self._child = self._child, None
        if child is None:
            return
        self._failure = reason
        if self._waiting is not None and not self._waiting.done():
            self._waiting.cancel()
        self._pool._background(self._stopped(child))

    async def _stopped(self, child: Child) -> None:
        with suppress(asyncio.CancelledError):
            await child.stop(self._request.number)
        self._pool._release(child)


class _Queue:
    """Who waits for a worker: each principal in turn, and nobody more than half of all places."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._places: OrderedDict[str, deque[asyncio.Future[Child]]] = OrderedDict()

    def __len__(self) -> int:
        return sum(map(len, self._places.values()))

    def add(self, principal: str) -> asyncio.Future[Child]:
        own = self._places.get(principal, ())
        if len(self) >= self._most or len(own) >= max(1, self._most // 2):
            raise Failed(TOO_MANY)
        place: asyncio.Future[Child] = asyncio.get_running_loop().create_future()
        self._places.setdefault(principal, deque()).append(place)
        return place

    def first(self) -> asyncio.Future[Child] | None:
        while self._places:
            principal, places = next(iter(self._places.items()))
            place = places.popleft()
            self._places.move_to_end(principal)
            if not places:
                del self._places[principal]
            if not place.done():
                return place
        return None

    def remove(self, principal: str, place: asyncio.Future[Child]) -> None:
        places = self._places.get(principal)
        if places is not None and place in places:
            places.remove(place)
            if not places:
                del self._places[principal]

    def fail(self, failure: Failure) -> None:
        while (place := self.first()) is not None:
            place.set_exception(Failed(failure))


def _encoded(frame: Frame) -> Encoded:
    size = 8 * int(frame.data["rows"])
    if frame.what != "chunk" or not 0 < size <= len(frame.body):
        raise ValueError("no chunk")
    return Encoded(frame.body[:-size], np.frombuffer(frame.body[-size:], dtype="<i8"))


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

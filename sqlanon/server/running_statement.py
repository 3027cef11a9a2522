"""A statement that a worker answers, as the server follows it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any, Protocol

from sqlanon.errors import SqlanonError
from sqlanon.server.work_messages import (
    CHARGED,
    DIED,
    LATE,
    NO_MEMORY,
    UNKNOWN,
    Ask,
    Described,
    Failed,
    Failure,
    Frame,
    Next,
    Request,
    RowChunk,
    Summary,
    failure_from,
    unpack_ends,
)
from sqlanon.server.worker_process import Child

BeforeAnswer = Callable[[Summary], Awaitable[None]]
AtLast = Callable[[Ask, Any], Ask]  # the request, and the label of the worker's policy


class WorkerSource(Protocol):
    """Where a statement gets its worker from, and gives it back to."""

    @property
    def numbers(self) -> Iterator[int]: ...  # of requests

    async def acquire(self, principal: str) -> Child: ...

    def release(self, child: Child, principal: str | None = None) -> None: ...

    def background(self, work: Coroutine[Any, Any, None]) -> None: ...


class Running:
    """A statement that is answered. Leaving before its end breaks it off."""

    def __init__(
        self, pool: WorkerSource, ask: Ask, what: Any, before_answer: BeforeAnswer | None, at_last: AtLast | None = None
    ) -> None:
        self._pool = pool
        self._request = Request(next(pool.numbers), what, ask)
        self._before_answer = before_answer
        self._at_last = at_last
        self.label: Any = None  # of the policy under which it is answered, once a worker has it
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
                self._child = await self._pool.acquire(self._request.ask.principal)
        except TimeoutError:
            raise Failed(LATE) from None
        self._child.answered += 1
        self.label = self._child.label
        self._timer = loop.call_at(end, self._leave, LATE)
        try:
            if self._at_last is not None:
                self._request = replace(self._request, ask=self._at_last(self._request.ask, self.label))
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

    async def chunks(self) -> AsyncIterator[RowChunk]:
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
            if self._child is not None and not frame.data.get("last"):
                await self._child.send(Next(self._request.number))
            yield chunk

    async def _frame(self) -> Frame:
        if self._child is None:
            raise Failed(self._failure or UNKNOWN)
        frame: Frame | None = None
        try:
            if self._child.has_frame:
                frame = await self._child.receive()
            else:
                self._waiting = asyncio.ensure_future(self._child.receive())
                frame = await self._waiting
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if self._failure is None or (task is not None and task.cancelling()):
                if self._waiting is not None:
                    self._waiting.cancel()
                raise
        if self._failure is not None:
            raise Failed(self._failure)
        if frame is None or frame.number != self._request.number:
            raise self._lost()
        if frame.what == "failure":
            failure = failure_from(frame.data)
            # What it holds may be in pieces: a new one is better. After a charge always, or it would tell the reason.
            if self._child is not None and (failure.sqlstate == NO_MEMORY.sqlstate or failure == CHARGED):
                self._child.alive = False
            self._end()
            raise Failed(failure)
        return frame

    def _lost(self) -> Failed:
        """The worker died, or says what makes no sense: nothing more is taken from it."""
        charged = self._child is not None and self._child.charged == self._request.number
        if self._child is not None:
            self._child.alive = False
        self._end()
        return Failed(CHARGED if charged else DIED)

    def _end(self) -> None:
        """The worker is free."""
        child, self._child = self._child, None
        if self._timer is not None:
            self._timer.cancel()
        if child is not None:
            self._pool.release(child, self._request.ask.principal)

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
        self._pool.background(self._stopped(child))

    async def _stopped(self, child: Child) -> None:
        with suppress(asyncio.CancelledError):
            await child.stop(self._request.number)
        self._pool.release(child, self._request.ask.principal)


def _encoded(frame: Frame) -> RowChunk:
    size = 8 * int(frame.data["rows"])
    if frame.what != "chunk" or not 0 < size <= len(frame.body):
        raise ValueError("no chunk")
    return RowChunk(frame.body[:-size], unpack_ends(frame.body[-size:]))

"""Workers that answer statements: so many of them, replaced when they die, and a bounded queue before them.

The last worker that is free goes to a principal who has none, and to nobody else: a principal who sends slow
statements in a loop keeps their own sessions waiting, not those of others. A worker that died under a statement counts
as its principal's until another has taken its place. Where there is one worker, or one principal, nothing is kept back.

async with pool.run(ask, before_answer=audit) as running:
    columns = (await running.described()).columns
    async for chunk in running.chunks():
        …
"""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter, deque
from collections.abc import Callable, Coroutine, Sized
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlanon.policy.files import load_gateway
from sqlanon.policy.gateway import Gateway
from sqlanon.server.running_statement import AtLast, BeforeAnswer, Running
from sqlanon.server.wait_queue import Waiting
from sqlanon.server.work_messages import Ask, Described, Failed, Failure, Opening, WorkerKind
from sqlanon.server.worker_process import Child

__all__ = ["Pool", "Running"]

OPENING = 60.0  # seconds that a worker has to open its database
FIRST_DELAY, LONGEST_DELAY = 0.1, 30.0  # seconds before a worker that could not be opened is tried again
NOT_NOW = Failure("57P03", "no statement can be answered now", hint="tell the owner of the data")


@dataclass(frozen=True)
class Opened:
    """Workers that are ready, and that nobody is sent to yet."""

    opening: Opening
    children: tuple[Child, ...]
    principals: int
    label: Any

    @property
    def tables(self) -> list[dict[str, Any]]:
        """Of the policy, as a query worker tells them."""
        return list(self.children[0].told.get("tables", []))

    async def close(self) -> None:
        await asyncio.shield(asyncio.gather(*(child.kill() for child in self.children)))


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
        self._label: Any = None
        self._queue = Waiting(waiting)
        self._idle: deque[Child] = deque()
        self._held: Counter[str] = Counter()  # workers that each principal has
        self._kept = 0  # workers that are free for those alone who have none
        self._children: set[Child] = set()
        self._starting = 0
        self._failures = 0
        self._closed = False
        self._tasks: set[asyncio.Task[Any]] = set()
        self._paused = False
        self.most_of_one: Callable[[], int] | None = None  # statements of one principal, running or waiting
        self.numbers = itertools.count(1)
        self.version = 0

    # ---- all workers

    async def start(self) -> None:
        """Start all workers; raises Failed, or the error of the policy, if they cannot work."""
        await self.replace(self._policy)

    async def replace(self, policy: str | Path | Gateway | None, metadata: Any = None) -> None:
        """Go over to another policy, or its new text. If that cannot be opened all stays as it was."""
        self.adopt(await self.open(policy, metadata))

    async def open(self, policy: str | Path | Gateway | None, metadata: Any = None, label: Any = None) -> Opened:
        """Workers for another policy; until they are adopted nothing changes. `label` is what `Running` calls it."""
        if isinstance(policy, str | Path):
            # Read once: a worker that is started later has the same policy, whatever became of the file.
            policy = await asyncio.to_thread(load_gateway, policy)
        metadata = self._opening.metadata if metadata is None else metadata
        principals: Sized = getattr(metadata, "roles", ()) if policy is None else policy.principals
        opening = Opening(self._opening.kind, policy, self._opening.memory, metadata=metadata)
        made = Opened(opening, tuple(Child(0, label) for _ in range(self._size)), len(principals), label)
        try:
            # All of them end before one error is told: none is left behind.
            waits = (child.open(opening, OPENING) for child in made.children)
            for error in await asyncio.gather(*waits, return_exceptions=True):
                if error is not None:
                    raise error
            if self._closed:
                raise Failed(NOT_NOW)
        except BaseException:
            await made.close()
            raise
        return made

    def pause(self) -> None:
        """Answer nothing more until other workers are adopted: what the policy takes away is taken away at once.
        Statements wait meanwhile."""
        self._paused = True

    def resume(self, failure: Failure | None = None) -> None:
        """Go on as before; with a failure, every waiting statement gets it."""
        self._paused = False
        if failure is not None:
            self._queue.fail(failure)
        self._serve_queue()

    def adopt(self, made: Opened) -> None:
        """From now on these workers answer; those that were there end when they are free."""
        self._paused = False
        self._opening, self._label = made.opening, made.label
        self.version += 1
        self._children.update(made.children)
        self._kept = int(self._size > 1 and made.principals > 1)
        self._failures = 0
        old, self._idle = self._idle, deque()
        for child in made.children:
            child.version = self.version
        for child in (*old, *made.children):
            child.on_death = self._died
            self.release(child)

    async def close(self) -> None:
        """End all workers at once; waiting statements get an error."""
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
    def file(self) -> Path | None:
        """The file of the database, if it is one."""
        told = [child.told["file"] for child in self._children if child.told.get("file")]
        return Path(told[0][0]) if told else None

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

    def run(self, ask: Ask, before_answer: BeforeAnswer | None = None, at_last: AtLast | None = None) -> Running:
        """Answer a statement. `before_answer` has ended before the first chunk, or the lack of one, is told.

        `at_last` makes of the request what it has to be under the policy of the worker that answers.
        """
        return Running(self, ask, "run", before_answer, at_last)

    # ---- workers come and go

    async def acquire(self, principal: str) -> Child:
        if self.most_of_one is not None:
            most = self.most_of_one()
            if self._held[principal] + self._queue.places_of(principal) >= most:
                hint = "wait for one of them to end; 'limits: {statements: …}' of the policy says how many there may be"
                raise Failed(Failure("53300", f"{most} of your statements run or wait already", hint=hint))
        if self._may_have(principal):
            return self._taken(principal)
        if self._failures and not any(child.alive for child in self._children):
            raise Failed(NOT_NOW)
        place = self._queue.add(principal)
        try:
            return await place
        except asyncio.CancelledError:
            if place.done() and not place.cancelled() and place.exception() is None:
                self.release(place.result(), principal)
            raise
        finally:
            self._queue.remove(principal, place)

    def release(self, child: Child, principal: str | None = None) -> None:
        """A worker that this principal had is free: it rests, goes on to who waits, or is replaced."""
        if self._usable(child):
            self._had(principal)
            self._idle.append(child)
        else:
            self._retire(child, principal)
        self._serve_queue()

    def _serve_queue(self) -> None:
        while (found := self._queue.first(self._may_have)) is not None:
            waiting, place = found
            place.set_result(self._taken(waiting))

    def _may_have(self, principal: str) -> bool:
        while self._idle and not self._usable(self._idle[0]):
            self._retire(self._idle.popleft())
        return not self._paused and len(self._idle) > (self._kept if self._held[principal] else 0)

    def _taken(self, principal: str) -> Child:
        self._held[principal] += 1
        return self._idle.popleft()

    def _had(self, principal: str | None) -> None:
        if principal is not None:
            self._held[principal] -= 1
            self._held += Counter()  # without those that have none

    def _usable(self, child: Child) -> bool:
        current = child.alive and child.runs and child.version == self.version and child.answered < self._statements
        return current and not self._closed and not _changed(child)

    def _retire(self, child: Child, principal: str | None = None) -> None:
        if self._closed:  # `close` ends it
            return
        if child.alive and child.runs:  # it is too old, which is nobody's doing
            self._had(principal)
            principal = None
        self.background(self._ended(child))
        self._refill(principal)

    async def _ended(self, child: Child) -> None:
        await child.kill()
        self._children.discard(child)

    def _died(self, child: Child) -> None:
        """Replace a worker that died while it was idle; where a statement ran on it, that statement sees it."""
        if child in self._idle:
            self._idle.remove(child)
            self._retire(child)

    def _refill(self, principal: str | None) -> None:
        """Start workers in the places of those that are gone; one of them died under this principal's statement."""
        there = sum(map(self._usable, self._children))
        for _ in range(self._size - there - self._starting):
            self._starting += 1
            self.background(self._start_one(principal))
            principal = None
        self._had(principal)

    async def _start_one(self, principal: str | None) -> None:
        try:
            while not self._closed:
                opening, child = self._opening, Child(self.version, self._label)
                self._children.add(child)
                try:
                    await child.open(opening, OPENING)
                except Failed:
                    self._children.discard(child)
                    if child.version != self.version:
                        continue
                    self._had(principal)  # from now on it is not their statement that others wait for
                    principal = None
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
            self._had(principal)
            self._starting -= 1
        child.on_death = self._died
        self.release(child)

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

"""A worker as the server sees it: a process, a socket to it, and the frames that come from it."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import sqlanon
from sqlanon.server.work_messages import (
    DIED,
    HEADER,
    MAX_BODY,
    MAX_HEADER,
    Failed,
    Frame,
    Interrupt,
    Message,
    Opening,
    failure_from,
    pack_message,
)

MODULE = "sqlanon.server.worker"
BUFFER = 2**20
GRACE = 3.0  # seconds that an interrupted worker has to stop before it is killed
LONGEST = 86_400.0  # seconds that an answer may wait, in any policy
REAPING = 0.01  # seconds between two looks whether a process that was killed is gone


class Child:
    def __init__(self, version: int, label: Any = None) -> None:
        self.version = version
        self.label = label  # of its policy, as who opened it calls it
        self.answered = 0  # statements
        self.alive = False
        self.told: dict[str, Any] = {}  # what it said when it was ready
        self.charged = 0  # the number of the last request that was charged for reading data of persons
        self.held_until = 0.0  # by the clock of the loop: until then nobody learns how that goes
        self._frames: asyncio.Queue[Frame | None] = asyncio.Queue(maxsize=4)
        self._process: subprocess.Popen[bytes] | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._pump: asyncio.Task[None] | None = None
        self._folder: str | None = None
        self.on_death: Callable[[Child], None] = lambda child: None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def runs(self) -> bool:
        return self._process is not None and self._process.poll() is None

    async def open(self, opening: Opening, seconds: float) -> None:
        """Start the process, and wait until it can answer; raises Failed if it cannot."""
        self._folder = tempfile.mkdtemp(prefix="sqlanon-worker-")
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                self._process = _started(theirs)
            reader, self._writer = await asyncio.open_connection(sock=ours, limit=BUFFER)
            self._pump = asyncio.create_task(self._read(reader))
            await self.send(replace(opening, temporary=self._folder))
            first = await asyncio.wait_for(self.receive(), seconds)
            if first is None or first.what != "ready":
                raise Failed(failure_from(first.data) if first is not None and first.what == "failure" else DIED)
        except BaseException as error:
            ours.close()
            await asyncio.shield(self.kill())
            if isinstance(error, TimeoutError):
                raise Failed(DIED) from None
            raise
        self.told = first.data
        self.alive = True

    async def send(self, message: Message) -> None:
        assert self._writer is not None
        with suppress(ConnectionError):  # a statement that waits for its answer sees that it is gone
            self._writer.write(pack_message(message))
            await self._writer.drain()

    @property
    def has_frame(self) -> bool:
        """Whether `receive` would not wait."""
        return not self._frames.empty()

    async def receive(self) -> Frame | None:
        """The next frame; None if there will be none."""
        return await self._frames.get()

    async def stop(self, number: int) -> bool:
        """Break off a request. Whether the worker can be used again; if not it was killed."""
        clock = asyncio.get_running_loop().time
        start = clock()
        await self.send(Interrupt(number))
        # One that was charged goes on until its answer would leave, or its end would tell how long it took.
        while (left := max(start, self.held_until) + GRACE - clock()) > 0:
            with suppress(TimeoutError):
                frame = await asyncio.wait_for(self.receive(), min(left, GRACE))
                if frame is None:
                    break
                if frame.number == number and frame.what in ("end", "failure", "described"):
                    return True
        await self.kill()
        return False

    async def kill(self) -> None:
        self.alive = False
        process = self._process
        if process is not None and process.poll() is None:
            process.kill()
        if self._pump is not None:
            self._pump.cancel()
            with suppress(asyncio.CancelledError):
                await self._pump
        while not self._frames.empty():
            self._frames.get_nowait()
        self._frames.put_nowait(None)  # wakes a statement that waits
        if self._writer is not None:
            self._writer.close()
            # In a task of its own: a waiter that is cancelled would cancel it for all others.
            closed = asyncio.create_task(self._writer.wait_closed())
            await asyncio.wait({closed})
            if not closed.cancelled():
                closed.exception()  # a connection that broke off is closed too
        while process is not None and process.poll() is None:
            await asyncio.sleep(REAPING)
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _hold(self, frame: Frame) -> None:
        seconds = min(max(0.0, float(frame.data["seconds"])), LONGEST)
        self.charged, self.held_until = frame.number, asyncio.get_running_loop().time() + seconds

    async def _read(self, reader: asyncio.StreamReader) -> None:
        """Frames, as long as they are taken: what a worker sends is bounded, whatever became of the worker."""
        try:
            while True:
                header, body = HEADER.unpack(await reader.readexactly(HEADER.size))
                if header > MAX_HEADER or body > MAX_BODY:
                    break
                text = await reader.readexactly(header)
                data = await reader.readexactly(body)
                frame = Frame.read(text, data)
                if frame.what == "charged":
                    self._hold(frame)
                else:
                    await self._frames.put(frame)
        except (asyncio.IncompleteReadError, OSError, ValueError, TypeError, KeyError, json.JSONDecodeError):
            pass
        await asyncio.sleep(self.held_until - asyncio.get_running_loop().time())
        self.alive = False
        self.on_death(self)
        await self._frames.put(None)


def _started(channel: socket.socket) -> subprocess.Popen[bytes]:
    """The process of a worker; of all that the server has open it gets this socket alone."""
    root = str(Path(sqlanon.__file__).parents[1])
    paths = [root, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    # One arena for all threads: each has address space of its own, which is limited.
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths), "MALLOC_ARENA_MAX": "1"}
    return subprocess.Popen(
        [sys.executable, "-P", "-m", MODULE, str(channel.fileno()), str(os.getpid())],
        pass_fds=(channel.fileno(),),
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,  # what an engine writes in its last moments may hold data
    )

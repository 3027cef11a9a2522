"""A worker: a process of its own that answers one statement at a time, and can be killed at any moment.

    python -m sqlanon.server.worker <number of a socket>

It dies with its parent, writes no core, and can use only so much memory. It holds no socket of a client.
"""

from __future__ import annotations

import ctypes
import gc
import os
import queue
import resource
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from sqlanon.pgwire import types
from sqlanon.pgwire.backend import ResultColumn
from sqlanon.pgwire.frontend import each_format
from sqlanon.pgwire.rows import Encoded, copy_rows, data_rows
from sqlanon.server.work_messages import (
    CANCELLED,
    LENGTH,
    MAX_BODY,
    Ask,
    Described,
    Failed,
    Failure,
    Frame,
    Interrupt,
    Message,
    Next,
    Opening,
    Request,
    failure_frame,
    failure_of,
)
from sqlanon.server.worker_service import Service

CHUNK = 2**20  # bytes of columns that become one chunk, about
AGAIN = 0.02  # seconds between two interrupts: one that comes before a statement begins is lost
PR_SET_PDEATHSIG = 1
# Types whose values are texts in Arrow too.
WRITTEN = (
    types.TEXT, types.VARCHAR, types.BPCHAR, types.NAME, types.CHAR, types.UNKNOWN, types.UUID, types.JSON, types.JSONB,
    types.REGCLASS, types.REGTYPE, types.REGPROC, types.REGNAMESPACE, types.REGROLE, types.REGPROCEDURE,
    types.ACLITEM, types.PG_NODE_TREE, types.CSTRING, types.PG_LSN, types.ANYARRAY, types.VOID,
)  # fmt: skip


class Worker:
    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self._requests: queue.SimpleQueue[Request] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._running = 0  # the number of the request that runs
        self._stopped = 0  # the number of the last one that was broken off: it may not have begun
        self._cancelled = threading.Event()
        self._shielded = False  # a charge is paid for, and nobody breaks it off
        self._credits = threading.Semaphore(0)
        self._service: Service | None = None
        self._held = b""  # what goes out with the next frame

    def serve(self) -> None:
        opening = _receive(self._channel)
        if not isinstance(opening, Opening):
            return
        try:
            self._service = service = open_service(opening, self.pause, self.shield)
            told = service.ready()
        except BaseException as error:
            self._send(failure_frame(0, failure_of(error)))
            return
        limit_memory(opening.memory)
        gc.freeze()
        self._send(Frame("ready", 0, told))
        threading.Thread(target=self._listen, daemon=True).start()
        while True:
            self._answer(self._requests.get(), service)

    # ---- the thread that listens

    def _listen(self) -> None:
        while True:
            message = _receive(self._channel)
            if message is None:  # the parent is gone; whatever runs now is for nobody
                os._exit(0)
            if isinstance(message, Request):
                self._requests.put(message)
            elif isinstance(message, Next) and message.number == self._running:
                self._credits.release()
            elif isinstance(message, Interrupt):
                threading.Thread(target=self._interrupt, args=(message.number,), daemon=True).start()

    def _interrupt(self, number: int) -> None:
        with self._lock:
            self._stopped = max(self._stopped, number)
        while True:
            with self._lock:
                if self._running != number or self._service is None:
                    return
                if not self._shielded:
                    self._cancelled.set()
                    self._credits.release()
                    self._service.interrupt()
            time.sleep(AGAIN)

    def pause(self, seconds: float) -> None:
        if self._cancelled.wait(seconds):
            raise KeyboardInterrupt

    @contextmanager
    def shield(self, seconds: float) -> Iterator[None]:
        """What is done for a charge, until its answer leaves. The server is told how long that takes: until then it
        tells nobody what became of this worker."""
        if not seconds:
            yield
            return
        with self._lock:
            if self._cancelled.is_set():
                raise KeyboardInterrupt
            self._shielded = True
        try:
            self._channel.sendall(Frame("charged", self._running, {"seconds": seconds}).packed())
            yield
        finally:
            with self._lock:
                self._shielded = False

    # ---- the thread that answers

    def _answer(self, request: Request, service: Service) -> None:
        self._credits = threading.Semaphore(1)
        self._cancelled.clear()
        with self._lock:
            self._running = request.number
            if self._stopped >= request.number:
                self._cancelled.set()
        try:
            self.pause(0)
            if request.what == "describe":
                last = Frame("described", request.number, service.describe(request.ask).as_json())
            else:
                last = self._run(request, service)
        except BaseException as error:
            self._held = b""
            last = failure_frame(request.number, CANCELLED if self._cancelled.is_set() else failure_of(error))
        with self._lock:
            self._running = 0
        self._send(last)

    def _run(self, request: Request, service: Service) -> Frame:
        answering = service.run(request.ask)
        described, summary = answering.described, answering.summary
        told = {"described": described.as_json(), "summary": summary.as_json()}
        first = Frame("answer", request.number, told).packed()
        rows = 0
        try:
            found: Iterator[Any] = (part for batch in answering.batches for part in parts(batch))
            if answering.whole:
                held = list(found)
                if len(held) <= 1:
                    # In one piece with the end, so that the server is woken once.
                    chunks = [self._chunk(request, described, part, last=True) for part in held]
                    self._held = first + b"".join(chunks)
                    return Frame(
                        "end", request.number, replace(summary, rows=sum(part.num_rows for part in held)).as_json()
                    )
                found = iter(held)
            self._channel.sendall(first)
            for part in found:
                chunk = self._chunk(request, described, part)
                self._credits.acquire()
                if self._cancelled.is_set():
                    raise KeyboardInterrupt
                rows += part.num_rows
                self._channel.sendall(chunk)
        finally:
            answering.batches.close()
        return Frame("end", request.number, replace(summary, rows=rows).as_json())

    def _chunk(self, request: Request, described: Described, part: Any, *, last: bool = False) -> bytes:
        encoded = encode(part, described, request.ask)
        body = encoded.data + encoded.ends.astype("<i8").tobytes()
        if len(body) > MAX_BODY:
            raise Failed(Failure("54000", "a row is too long to be sent"))
        return Frame("chunk", request.number, {"rows": part.num_rows, "last": last}, body).packed()

    def _send(self, frame: Frame) -> None:
        held, self._held = self._held, b""
        self._channel.sendall(held + frame.packed())


def parts(batch: Any) -> Iterator[Any]:
    """A batch in slices of about so many bytes: one chunk is held by the server as a whole."""
    each = max(1, int(batch.num_rows * min(1.0, CHUNK / max(1, batch.nbytes))))
    for start in range(0, batch.num_rows, each):
        yield batch.slice(start, each)


def encode(batch: Any, described: Described, ask: Ask) -> Encoded:
    batch, columns = as_cells(batch, described.columns, ask.sent)
    if ask.copy is not None:
        options = {each.name: getattr(ask.copy, each.name) for each in fields(ask.copy)}
        return copy_rows(batch, columns, **options)
    return data_rows(batch, columns, ask.sent)


def as_cells(
    batch: Any, columns: tuple[ResultColumn, ...], formats: tuple[int, ...]
) -> tuple[Any, tuple[ResultColumn, ...]]:
    """Values that an engine gives as PostgreSQL writes them, such as numeric of any size: as text, or read from it."""
    arrays, shown = list(batch.columns), list(columns)
    for place, (column, form) in enumerate(zip(columns, each_format(formats, len(columns)), strict=True)):
        if not pa.types.is_string(arrays[place].type) or column.type in WRITTEN:
            continue
        shown[place] = replace(column, type=types.BYTEA if form else types.TEXT)
        if form:
            texts = arrays[place].to_pylist()
            values = (types.decode(column.type, 0, None if text is None else text.encode()) for text in texts)
            arrays[place] = pa.array([types.encode(column.type, 1, value) for value in values], pa.binary())
    return pa.RecordBatch.from_arrays(arrays, names=batch.schema.names), tuple(shown)


def open_service(opening: Opening, pause: Any, shield: Any) -> Service:
    if opening.kind == "query":
        from sqlanon.server.query_worker import Querying

        return Querying(opening, pause, shield)
    from sqlanon.server.catalog_worker import CatalogService

    return CatalogService(opening)


def _receive(channel: socket.socket) -> Message | None:
    """The next message of the parent; None when it is gone."""
    import pickle

    head = _exactly(channel, LENGTH.size)
    data = _exactly(channel, LENGTH.unpack(head)[0]) if head else b""
    message: Message | None = pickle.loads(data) if data else None
    return message


def _exactly(channel: socket.socket, size: int) -> bytes:
    parts = bytearray()
    while len(parts) < size:
        try:
            part = channel.recv(min(size - len(parts), 2**20))
        except OSError:
            return b""
        if not part:
            return b""
        parts += part
    return bytes(parts)


def address_space() -> int:
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()


def limit_memory(most: int) -> None:
    """So many bytes of address space more than now."""
    limit = address_space() + most
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def die_with_parent(parent: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it died before it was watched
        os._exit(0)


def main() -> None:
    number, parent = map(int, sys.argv[1:3])
    die_with_parent(parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the server, which ends its workers itself
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a core would hold data
    Worker(socket.socket(fileno=number)).serve()


if __name__ == "__main__":
    main()

"""The socket of one client: messages that come in, read ahead within bounds, and messages that go out."""

from __future__ import annotations

import asyncio
import ssl
import time
from contextlib import suppress

from sqlanon.pgwire import frontend
from sqlanon.server.login_log import address_of
from sqlanon.server.session import Gone, Session

FIRST, READ = 2**13, 2**16
WAITING = 256  # messages that a client may send ahead


class Connection:
    """One client. Messages are read while a statement runs, so that a client that goes away ends it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, message_limit: int) -> None:
        self.stream, self.writer = reader, writer
        self.wire = frontend.MessageReader(message_limit=message_limit)
        self.idle: float | None = None
        self.encrypted = False
        self.since = time.monotonic()
        self.session: Session | None = None
        self.unsent = 0  # bytes that were put and not yet sent
        self.address = address_of(writer.get_extra_info("peername"))
        self._out: list[bytes] = []
        self._messages: asyncio.Queue[tuple[frontend.Message | Exception, int]] = asyncio.Queue(WAITING)
        self._waiting = 0  # bytes of messages that were read ahead
        self._room = asyncio.Event()
        self._pump: asyncio.Task[None] | None = None

    # ---- before the session

    async def first(self) -> frontend.Message:
        """The next message, read straight from the socket: until the client is known nothing is read ahead."""
        while (message := self.wire.next()) is None:
            data = await self.stream.read(FIRST)
            if not data:
                raise Gone
            self.wire.feed(data)
        return message

    async def password(self) -> frontend.PasswordMessage:
        message = await self.first()
        if not isinstance(message, frontend.PasswordMessage):
            raise Gone  # it has nothing to say who it is
        return message

    # ---- the session

    def start_pump(self) -> None:
        self.wire.phase = "ready"
        self._pump = asyncio.create_task(self._pumped())

    async def _pumped(self) -> None:
        try:
            while True:
                before = self.wire.buffered
                while (message := self._next()) is not None:
                    size, before = before - self.wire.buffered, self.wire.buffered
                    self._waiting += size
                    try:
                        self._messages.put_nowait((message, size))
                    except asyncio.QueueFull:
                        await self._messages.put((message, size))
                while self._waiting > self.wire.message_limit:
                    self._room.clear()
                    await self._room.wait()
                data = await self.stream.read(READ)
                if not data:
                    raise Gone
                self.wire.feed(data)
        except frontend.ProtocolError as error:
            await self._messages.put((error, 0))
        except (Gone, OSError, ssl.SSLError):
            if self.session is not None:
                self.session.stop()
            await self._messages.put((Gone(), 0))

    def _next(self) -> frontend.Message | Exception | None:
        """A message that is whole but wrong is answered in its turn; one that breaks the stream is the last."""
        try:
            return self.wire.next()
        except frontend.ProtocolError as error:
            if error.fatal:
                raise
            return error

    async def next(self) -> frontend.Message:
        try:
            found, size = self._messages.get_nowait()
        except asyncio.QueueEmpty:
            try:
                async with asyncio.timeout(self.idle):
                    found, size = await self._messages.get()
            except TimeoutError:
                said = "terminating connection due to idle-session timeout"
                raise frontend.ProtocolError("57P05", said, fatal=True) from None
        self._waiting -= size
        self._room.set()
        if isinstance(found, Exception):
            raise found
        return found

    def put(self, data: bytes) -> None:
        self._out.append(data)
        self.unsent += len(data)

    async def flush(self) -> None:
        data, self._out, self.unsent = b"".join(self._out), [], 0
        if data:
            self.writer.write(data)
            if self.writer.transport.get_write_buffer_size() == 0:
                return
            # A client that does not read holds nothing but its own session, and not for ever.
            async with asyncio.timeout(self.idle or 60):
                await self.writer.drain()

    async def close(self) -> None:
        if self._pump is not None:
            self._pump.cancel()
            with suppress(asyncio.CancelledError):
                await self._pump
        with suppress(OSError, ssl.SSLError, TimeoutError):
            self.writer.close()
            async with asyncio.timeout(2):
                await self.writer.wait_closed()
        self.writer.transport.abort()

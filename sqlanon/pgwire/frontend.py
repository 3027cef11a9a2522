"""What a client sends, read from bytes alone: no sockets, no state but the bytes that wait.

A length field is checked before its message is awaited: no client can make the server hold more than the limits.
An error with `fatal` means that the stream cannot be followed further; after any other the next message can be read.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, TypeVar, cast

from sqlanon.errors import SqlanonError

T = TypeVar("T")
Phase = Literal["startup", "authentication", "ready"]

STARTUP_LIMIT = 10_000
MESSAGE_LIMIT = 16 * 2**20
CANCEL, SSL, GSS = 80877102, 80877103, 80877104


class ProtocolError(SqlanonError):
    """Bytes that the protocol does not allow, or a value that is not of its type. Messages never carry the bytes."""

    def __init__(
        self, sqlstate: str, message: str, *, fatal: bool = False, kind: str = "", hint: str | None = None
    ) -> None:
        super().__init__(message, hint=hint)
        self.sqlstate = sqlstate
        self.fatal = fatal
        self.kind = kind  # the letter of the frontend message that was wrong; "" if there is none


@dataclass(frozen=True)
class SSLRequest:
    pass


@dataclass(frozen=True)
class GSSRequest:
    pass


@dataclass(frozen=True)
class CancelRequest:
    process: int
    secret: bytes = field(repr=False)


@dataclass(frozen=True)
class Startup:
    version: tuple[int, int]
    parameters: dict[str, str]


@dataclass(frozen=True)
class PasswordMessage:
    """A password or a SASL message; which of them depends on what the server asked for."""

    data: bytes = field(repr=False)

    def password(self) -> str:
        body = Body(self.data, "p")
        return body.end(body.text())

    def sasl_initial(self) -> tuple[str, bytes | None]:
        """The mechanism that the client chose, and its first message."""
        body = Body(self.data, "p")
        return body.end((body.text(), body.sized()))


@dataclass(frozen=True)
class Query:
    sql: str


@dataclass(frozen=True)
class Parse:
    name: str
    sql: str
    types: tuple[int, ...]


@dataclass(frozen=True)
class Bind:
    portal: str
    statement: str
    formats: tuple[int, ...]
    values: tuple[bytes | None, ...] = field(repr=False)
    result_formats: tuple[int, ...]

    def value_formats(self) -> tuple[int, ...]:
        """One format for each value."""
        return each_format(self.formats, len(self.values))


@dataclass(frozen=True)
class Describe:
    kind: Literal["S", "P"]
    name: str


@dataclass(frozen=True)
class Execute:
    portal: str
    limit: int  # 0: all rows


@dataclass(frozen=True)
class Close:
    kind: Literal["S", "P"]
    name: str


@dataclass(frozen=True)
class Flush:
    pass


@dataclass(frozen=True)
class Sync:
    pass


@dataclass(frozen=True)
class Terminate:
    pass


@dataclass(frozen=True)
class CopyData:
    data: bytes = field(repr=False)


@dataclass(frozen=True)
class CopyDone:
    pass


@dataclass(frozen=True)
class CopyFail:
    message: str = field(repr=False)


@dataclass(frozen=True)
class FunctionCall:
    function: int
    formats: tuple[int, ...]
    values: tuple[bytes | None, ...] = field(repr=False)
    result_format: int


Opening = SSLRequest | GSSRequest | CancelRequest | Startup
Extended = Parse | Bind | Describe | Execute | Close | Flush | Sync
Message = Opening | Extended | PasswordMessage | Query | Terminate | CopyData | CopyDone | CopyFail | FunctionCall


def each_format(formats: tuple[int, ...], count: int) -> tuple[int, ...]:
    """None stands for text everywhere, one for all, else there is one each.

    >>> each_format((), 2), each_format((1,), 3), each_format((0, 1), 2)
    ((0, 0), (1, 1, 1), (0, 1))
    """
    if len(formats) == count:
        return formats
    if len(formats) > 1:
        raise ProtocolError("08P01", f"{len(formats)} formats were given for {count} values")
    return (formats or (0,)) * count


class Body:
    """The inside of one message, read from left to right; whatever does not fit is an error."""

    def __init__(self, data: bytes, kind: str) -> None:
        self.data = data
        self.kind = kind
        self.at = 0

    def wrong(self, message: str = "invalid message format", sqlstate: str = "08P01") -> ProtocolError:
        return ProtocolError(sqlstate, message, kind=self.kind)

    def take(self, size: int) -> bytes:
        if size < 0 or size > len(self.data) - self.at:
            raise self.wrong("insufficient data left in message")
        self.at += size
        return self.data[self.at - size : self.at]

    def rest(self) -> bytes:
        return self.take(len(self.data) - self.at)

    def number(self, form: str) -> int:
        (value,) = struct.unpack(form, self.take(struct.calcsize(form)))
        return int(value)

    def numbers(self, form: str) -> tuple[int, ...]:
        """A count of 16 bits, then that many numbers."""
        count = self.number(">H")
        data = self.take(count * struct.calcsize(">" + form))
        return struct.unpack(f">{count}{form}", data)

    def formats(self) -> tuple[int, ...]:
        found = self.numbers("h")
        if any(each not in (0, 1) for each in found):
            raise self.wrong("unsupported format code")
        return found

    def sized(self) -> bytes | None:
        size = self.number(">i")
        return None if size == -1 else self.take(size)

    def values(self) -> tuple[bytes | None, ...]:
        return tuple([self.sized() for _ in range(self.number(">H"))])

    def text(self) -> str:
        end = self.data.find(0, self.at)
        if end < 0:
            raise self.wrong("invalid string in message")
        data = self.take(end - self.at)
        self.at += 1
        return self.utf8(data)

    def utf8(self, data: bytes) -> str:
        try:
            return data.decode()
        except UnicodeDecodeError:
            raise self.wrong('invalid byte sequence for encoding "UTF8"', "22021") from None

    def end(self, message: T) -> T:
        if self.at != len(self.data):
            raise self.wrong()
        return message


def _startup(body: Body) -> Opening:
    code = body.number(">I")
    if code == SSL:
        return body.end(SSLRequest())
    if code == GSS:
        return body.end(GSSRequest())
    if code == CANCEL:
        process, secret = body.number(">I"), body.rest()
        if not 4 <= len(secret) <= 256:
            raise body.wrong("invalid length of cancel key")
        return CancelRequest(process, secret)
    if code >> 16 != 3:
        raise body.wrong("unsupported frontend protocol: the server supports 3.0", "0A000")
    parameters: dict[str, str] = {}
    while name := body.text():
        # Which of two users is meant must not depend on who reads the packet.
        if name in parameters:
            raise body.wrong("a startup parameter is given twice")
        parameters[name] = body.text()
    return body.end(Startup((3, code & 0xFFFF), parameters))


def _parse(body: Body) -> Parse:
    return Parse(body.text(), body.text(), body.numbers("I"))


def _bind(body: Body) -> Bind:
    portal, statement, formats = body.text(), body.text(), body.formats()
    values, result_formats = body.values(), body.formats()
    if len(formats) > 1 and len(formats) != len(values):
        raise body.wrong(f"bind message has {len(formats)} parameter formats but {len(values)} parameters")
    return Bind(portal, statement, formats, values, result_formats)


def _object(body: Body) -> tuple[Literal["S", "P"], str]:
    kind = body.take(1)
    if kind not in (b"S", b"P"):
        raise body.wrong("neither a statement nor a portal is named")
    return cast(Literal["S", "P"], kind.decode()), body.text()


def _function_call(body: Body) -> FunctionCall:
    function, formats, values, result_format = body.number(">I"), body.formats(), body.values(), body.number(">h")
    return FunctionCall(function, formats, values, result_format)


READERS: dict[str, Callable[[Body], Message]] = {
    "p": lambda body: PasswordMessage(body.rest()),
    "Q": lambda body: Query(body.text()),
    "P": _parse,
    "B": _bind,
    "D": lambda body: Describe(*_object(body)),
    "E": lambda body: Execute(body.text(), max(body.number(">i"), 0)),
    "C": lambda body: Close(*_object(body)),
    "H": lambda body: Flush(),
    "S": lambda body: Sync(),
    "X": lambda body: Terminate(),
    "d": lambda body: CopyData(body.rest()),
    "c": lambda body: CopyDone(),
    "f": lambda body: CopyFail(body.text()),
    "F": _function_call,
}
ALLOWED: dict[Phase, str] = {"startup": "", "authentication": "pX", "ready": "QPBDECHSXdcfF"}


class MessageReader:
    """Bytes in, messages out. Feed what came, then call `next` until it gives None.

    >>> reader = MessageReader()
    >>> reader.phase = "ready"
    >>> reader.feed(b"Q" + bytes([0, 0, 0, 13]) + b"SELECT 1")
    >>> reader.next()
    >>> reader.feed(bytes(1))
    >>> reader.next()
    Query(sql='SELECT 1')
    """

    def __init__(self, *, startup_limit: int = STARTUP_LIMIT, message_limit: int = MESSAGE_LIMIT) -> None:
        self.phase: Phase = "startup"
        self.startup_limit = startup_limit
        self.message_limit = message_limit
        self._bytes = bytearray()
        self._broken: ProtocolError | None = None

    @property
    def buffered(self) -> int:
        """How many bytes wait. After an SSLRequest there must be none: they came unencrypted."""
        return len(self._bytes)

    @property
    def limit(self) -> int:
        """The longest message, without its letter, that is read in this phase."""
        return self.message_limit if self.phase == "ready" else self.startup_limit

    def feed(self, data: bytes) -> None:
        """Keep bytes; at most the rest of one message and as much again may wait."""
        if self._broken:
            raise self._broken
        if len(self._bytes) + len(data) > 2 * self.limit + 5:
            raise self._break("54000", "too many bytes wait to be read")
        self._bytes += data
        self._size()

    def next(self) -> Message | None:
        """The next message, or None if it has not arrived whole."""
        if self._broken:
            raise self._broken
        size = self._size()
        if size is None:
            return None
        letters = 0 if self.phase == "startup" else 1
        if len(self._bytes) < letters + size:
            return None
        kind = chr(self._bytes[0]) if letters else ""
        body = Body(bytes(memoryview(self._bytes)[letters + 4 : letters + size]), kind)
        del self._bytes[: letters + size]
        try:
            return body.end(READERS[kind](body) if letters else _startup(body))
        except ProtocolError as error:
            # Before the session is open there is nothing to go back to.
            if self.phase != "ready":
                raise self._break(error.sqlstate, error.message) from None
            raise

    def _size(self) -> int | None:
        """The length field of the message that comes next, checked; None if it is not here yet."""
        letters = 0 if self.phase == "startup" else 1
        if letters and self._bytes and chr(self._bytes[0]) not in ALLOWED[self.phase]:
            raise self._break("08P01", f"invalid frontend message type {self._bytes[0]}")
        if len(self._bytes) < letters + 4:
            return None
        size = int.from_bytes(self._bytes[letters : letters + 4], "big", signed=True)
        if not (4 if letters else 8) <= size <= self.limit:
            raise self._break("08P01", "invalid length of message")
        return size

    def _break(self, sqlstate: str, message: str) -> ProtocolError:
        self._bytes.clear()
        self._broken = ProtocolError(sqlstate, message, fatal=True)
        return self._broken

"""A bare PostgreSQL client: messages as they are on the wire, for what no driver lets one do."""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import socket
import struct
from dataclasses import dataclass, field
from types import TracebackType

Fields = dict[str, str]


def message(kind: bytes, body: bytes = b"") -> bytes:
    return kind + struct.pack("!i", len(body) + 4) + body


def text(value: str) -> bytes:
    return value.encode() + b"\0"


def startup(parameters: dict[str, str], version: int = 196608) -> bytes:
    body = struct.pack("!i", version) + b"".join(text(k) + text(v) for k, v in parameters.items()) + b"\0"
    return struct.pack("!i", len(body) + 4) + body


def query(sql: str) -> bytes:
    return message(b"Q", text(sql))


def parse(name: str, sql: str, types: tuple[int, ...] = ()) -> bytes:
    return message(b"P", text(name) + text(sql) + struct.pack(f"!h{len(types)}I", len(types), *types))


def bind(
    portal: str, statement: str, values: tuple[bytes | None, ...] = (), formats: tuple[int, ...] = (),
    results: tuple[int, ...] = (),
) -> bytes:  # fmt: skip
    body = text(portal) + text(statement) + struct.pack(f"!h{len(formats)}h", len(formats), *formats)
    body += struct.pack("!h", len(values))
    for value in values:
        body += struct.pack("!i", -1) if value is None else struct.pack("!i", len(value)) + value
    return message(b"B", body + struct.pack(f"!h{len(results)}h", len(results), *results))


def describe(kind: str, name: str) -> bytes:
    return message(b"D", kind.encode() + text(name))


def execute(portal: str = "", limit: int = 0) -> bytes:
    return message(b"E", text(portal) + struct.pack("!i", limit))


def close(kind: str, name: str) -> bytes:
    return message(b"C", kind.encode() + text(name))


SYNC, FLUSH, TERMINATE = message(b"S"), message(b"H"), message(b"X")


@dataclass(frozen=True)
class Reply:
    """A message of the server."""

    kind: str
    body: bytes

    @property
    def fields(self) -> Fields:
        """Of an ErrorResponse or a NoticeResponse."""
        return {part[:1].decode(): part[1:].decode() for part in self.body.split(b"\0") if part}

    @property
    def row(self) -> list[bytes | None]:
        """Of a DataRow."""
        (count,), at, cells = struct.unpack_from("!h", self.body), 2, []
        for _ in range(count):
            (size,) = struct.unpack_from("!i", self.body, at)
            at += 4
            cells.append(None if size < 0 else self.body[at : at + size])
            at += max(size, 0)
        return cells

    @property
    def columns(self) -> list[tuple[str, int, int]]:
        """Of a RowDescription: name, type and format."""
        (count,), at, found = struct.unpack_from("!h", self.body), 2, []
        for _ in range(count):
            end = self.body.index(b"\0", at)
            _, _, oid, _, _, form = struct.unpack_from("!ihIhih", self.body, end + 1)
            found.append((self.body[at:end].decode(), oid, form))
            at = end + 19
        return found


class Closed(Exception):
    """The server has closed the connection."""


@dataclass
class Raw:
    """A connection; `password` None leaves it before authentication."""

    host: str
    port: int
    timeout: float = 60.0  # a busy machine takes its time
    parameters: Fields = field(default_factory=dict)
    process: int = 0
    secret: bytes = b""
    status: str = ""

    def __post_init__(self) -> None:
        self.socket = socket.create_connection((self.host, self.port), timeout=self.timeout)
        self._buffer = b""

    def __enter__(self) -> Raw:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.socket.close()

    def send(self, *parts: bytes) -> None:
        self.socket.sendall(b"".join(parts))

    def _take(self, size: int) -> bytes:
        while len(self._buffer) < size:
            try:
                got = self.socket.recv(65536)
            except ConnectionResetError:
                got = b""
            if not got:
                raise Closed
            self._buffer += got
        taken, self._buffer = self._buffer[:size], self._buffer[size:]
        return taken

    def reply(self) -> Reply:
        """The next message, whatever it is."""
        kind = self._take(1).decode("latin-1")
        (size,) = struct.unpack("!i", self._take(4))
        assert 4 <= size < 2**30, "the length of a message of the server"
        found = Reply(kind, self._take(size - 4))
        if kind == "S":
            name, value, _ = found.body.split(b"\0")
            self.parameters[name.decode()] = value.decode()
        return found

    def until_ready(self) -> list[Reply]:
        """All messages up to ReadyForQuery, without it, and without notices and settings."""
        found = []
        while (got := self.reply()).kind != "Z":
            if got.kind not in "NSA":
                found.append(got)
        self.status = got.body.decode()
        return found

    def ask(self, *parts: bytes) -> list[Reply]:
        self.send(*parts)
        return self.until_ready()

    def kinds(self, *parts: bytes) -> str:
        """What came, as a word of message types; an error as its SQLSTATE."""
        return " ".join(got.fields["C"] if got.kind == "E" else got.kind for got in self.ask(*parts))

    def error(self) -> Fields:
        """The next error; other messages before it are passed over."""
        while (got := self.reply()).kind != "E":
            pass
        return got.fields

    def login(self, user: str, password: str, database: str, **options: str) -> Raw:
        try:
            return self._login(user, password, database, **options)
        except BaseException:
            self.socket.close()
            raise

    def _login(self, user: str, password: str, database: str, **options: str) -> Raw:
        self.send(startup({"user": user, "database": database, **options}))
        first = self.reply()
        if first.kind == "E":
            raise PermissionError(first.fields["C"])
        assert first.kind == "R" and b"SCRAM-SHA-256" in first.body, first
        self._scram(password)
        while (got := self.reply()).kind != "Z":
            if got.kind == "E":
                raise PermissionError(got.fields["C"])
            if got.kind == "K":
                (self.process,), self.secret = struct.unpack("!i", got.body[:4]), got.body[4:]
        self.status = got.body.decode()
        return self

    def _scram(self, password: str) -> None:
        """RFC 5802, the client's side; passwords of the tests are their own SASLprep form."""
        nonce = base64.b64encode(os.urandom(18)).decode()
        first = f"n=,r={nonce}"
        opening = b"n,," + first.encode()
        self.send(message(b"p", b"SCRAM-SHA-256\0" + struct.pack("!i", len(opening)) + opening))
        challenge = self._sasl(11)
        given = dict(part.split("=", 1) for part in challenge.split(","))
        assert given["r"].startswith(nonce) and len(given["r"]) > len(nonce)
        salted = hashlib.pbkdf2_hmac("sha256", password.encode(), base64.b64decode(given["s"]), int(given["i"]))
        key = hmac.digest(salted, b"Client Key", "sha256")
        last = f"c=biws,r={given['r']}"
        signed = f"{first},{challenge},{last}".encode()
        signature = hmac.digest(hashlib.sha256(key).digest(), signed, "sha256")
        proof = base64.b64encode(bytes(a ^ b for a, b in zip(key, signature, strict=True))).decode()
        self.send(message(b"p", f"{last},p={proof}".encode()))
        final = self._sasl(12)
        server = hmac.digest(hmac.digest(salted, b"Server Key", "sha256"), signed, "sha256")
        assert final == "v=" + base64.b64encode(server).decode(), "the server does not know the password"
        assert self.reply().body == b"\0\0\0\0"

    def _sasl(self, code: int) -> str:
        got = self.reply()
        if got.kind == "E":
            raise PermissionError(got.fields["C"])
        assert got.kind == "R" and got.body[:4] == struct.pack("!i", code), got
        return got.body[4:].decode()


def cancel(host: str, port: int, process: int, secret: bytes) -> None:
    """A CancelRequest, on a connection of its own; the server closes it without a word."""
    with socket.create_connection((host, port), timeout=10) as other:
        other.sendall(struct.pack("!iii", 12 + len(secret), 80877102, process) + secret)
        assert other.recv(1) == b""

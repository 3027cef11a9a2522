"""A server that does nothing but log one client in, for libpq to be tried against; and certificates for it."""

from __future__ import annotations

import shutil
import socket
import ssl
import struct
import subprocess
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from sqlanon.pgwire.scram import AuthenticationFailed, Exchange, Verifier

SECRET = b"s" * 32


def certificate(folder: Path, *options: str) -> tuple[Path, Path]:
    """A self-signed certificate for localhost, and its key."""
    if shutil.which("openssl") is None:
        pytest.skip("needs the program openssl")
    made, key = folder / "server.crt", folder / "server.key"
    kind = options or ("-newkey", "rsa:2048")
    subprocess.run(
        ["openssl", "req", "-x509", *kind, "-nodes", "-days", "2", "-subj", "/CN=localhost", "-keyout", str(key),
         "-out", str(made), "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"],
        check=True, capture_output=True,
    )  # fmt: skip
    key.chmod(0o600)
    return made, key


class LoginServer:
    """Takes one connection, and notes which mechanism the client chose and what came of it."""

    def __init__(
        self, users: dict[str, Verifier], context: ssl.SSLContext | None = None, binding: bytes | None = None
    ) -> None:
        self.users, self.context, self.binding = users, context, binding
        self.offered: tuple[str, ...] | None = None  # in place of what the exchange offers: a server in between
        self.mechanism = self.outcome = ""
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port: int = self.socket.getsockname()[1]
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def close(self) -> None:
        self.socket.close()
        self.thread.join(5)

    def _run(self) -> None:
        with suppress(OSError):
            connection, _ = self.socket.accept()
            connection.settimeout(10)
            with connection:
                self._serve(connection)

    def _serve(self, connection: socket.socket) -> None:
        (size, code) = struct.unpack("!II", _exactly(connection, 8))
        if code == 80877103:  # SSLRequest
            if self.context is None:
                connection.sendall(b"N")
            else:
                connection.sendall(b"S")
                with self.context.wrap_socket(connection, server_side=True) as wrapped:
                    self._log_in(wrapped, *struct.unpack("!II", _exactly(wrapped, 8)))
                return
            (size, code) = struct.unpack("!II", _exactly(connection, 8))
        self._log_in(connection, size, code)

    def _log_in(self, connection: socket.socket, size: int, code: int) -> None:
        assert code == 196608
        words = _exactly(connection, size - 8).split(b"\0")
        user = words[words.index(b"user") + 1].decode()
        exchange = Exchange(user, self.users.get(user), secret=SECRET, binding=self.binding)
        offered = self.offered or exchange.mechanisms
        _send(connection, b"R", struct.pack("!I", 10) + b"".join(each.encode() + b"\0" for each in offered) + b"\0")
        try:
            body = _message(connection)
            name, _, rest = body.partition(b"\0")
            self.mechanism = name.decode()
            _send(connection, b"R", struct.pack("!I", 11) + exchange.first(rest[4:], self.mechanism))
            _send(connection, b"R", struct.pack("!I", 12) + exchange.final(_message(connection)))
        except AuthenticationFailed as error:
            self.outcome = error.sqlstate
            _send(connection, b"E", f"SFATAL\0C{error.sqlstate}\0M{error.message}\0\0".encode())
            return
        self.outcome = "ok"
        _send(connection, b"R", struct.pack("!I", 0))
        for name, value in (("server_version", "15.0"), ("client_encoding", "UTF8")):
            _send(connection, b"S", f"{name}\0{value}\0".encode())
        _send(connection, b"Z", b"I")
        with suppress(OSError):
            connection.recv(1)


def _exactly(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = connection.recv(size - len(data))
        if not more:
            raise OSError
        data += more
    return data


def _message(connection: socket.socket) -> bytes:
    _, size = struct.unpack("!cI", _exactly(connection, 5))
    return _exactly(connection, size - 4)


def _send(connection: socket.socket, kind: bytes, body: bytes) -> None:
    connection.sendall(kind + struct.pack("!I", len(body) + 4) + body)

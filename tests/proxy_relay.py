"""A wire tap: what a real client and a real server send each other, both ways."""

from __future__ import annotations

import contextlib
import select
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psycopg.conninfo

PORT = 5432


@dataclass
class Tapped:
    url: str
    sent: bytearray = field(default_factory=bytearray)
    received: bytearray = field(default_factory=bytearray)


def reached(url: str) -> socket.socket:
    """A connection to the server of a URL."""
    options = psycopg.conninfo.conninfo_to_dict(url)
    host, port = str(options.get("host") or "/var/run/postgresql"), int(options.get("port") or PORT)
    if not host.startswith("/"):
        return socket.create_connection((host, port))
    made = socket.socket(socket.AF_UNIX)
    made.connect(f"{host}/.s.PGSQL.{port}")
    return made


@contextlib.contextmanager
def tapped(url: str, folder: Path) -> Iterator[Tapped]:
    """One connection through the tap; the bytes are whole once the client has closed it."""
    tap = Tapped(psycopg.conninfo.make_conninfo(url, host=str(folder), port=PORT, gssencmode="disable"))
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(f"{folder}/.s.PGSQL.{PORT}")
    listener.listen(1)

    def relay() -> None:
        client, _ = listener.accept()
        with client, reached(url) as server:
            ways = {client: (server, tap.sent), server: (client, tap.received)}
            while True:
                for end in select.select([client, server], [], [])[0]:
                    data = end.recv(65536)
                    if not data:
                        return
                    other, kept = ways[end]
                    kept += data
                    other.sendall(data)

    thread = threading.Thread(target=relay, daemon=True)
    thread.start()
    try:
        yield tap
    finally:
        thread.join(10)
        listener.close()
    assert not thread.is_alive()

"""Sockets that are no clients: half-open, slow, or full of bytes that mean nothing. A client still gets in."""

from __future__ import annotations

import os
import random
import select
import socket
import struct
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
from proxy_servers import AUTHENTICATION, Server
from raw_client import SYNC, Closed, Raw, bind, describe, execute, message, parse, query, startup

HALF_OPEN = 500
# Codes that an answer to nonsense may have: of the protocol, of data, and of SQL.
ADMITTED = ("08P01", "0A000", "22", "25", "26000", "28", "34000", "3D000", "42", "53", "54", "57P")


def logged_in(server: Server) -> Raw:
    return Raw(server.host, server.port).login(server.user, server.password, server.database)


def works(server: Server) -> None:
    with logged_in(server) as raw:
        assert raw.kinds(query("SELECT 1")) == "T D C"


def resident(server: Server) -> int:
    """Memory of the server's process in MB."""
    status = Path(f"/proc/{server.pid}/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1]) // 1024


def descriptors(server: Server) -> int:
    return len(os.listdir(f"/proc/{server.pid}/fd"))


@pytest.fixture(autouse=True)
def nothing_is_left(server: Server) -> Iterator[None]:
    """After each test the server works, and has closed what the test had opened."""
    works(server)
    before = descriptors(server)
    yield
    deadline = time.monotonic() + AUTHENTICATION + 5
    while descriptors(server) > before + 2 and time.monotonic() < deadline:
        time.sleep(0.05)
    assert descriptors(server) <= before + 2
    works(server)


@pytest.mark.parametrize("said", [b"", startup({"user": "analyst"})[:-3], struct.pack("!ii", 8, 80877103)])
def test_half_open_sockets_keep_nobody_out(server: Server, said: bytes) -> None:
    with logged_in(server) as inside, ExitStack() as held:
        for _ in range(HALF_OPEN if server.proxy else 50):  # each is a process of PostgreSQL
            try:
                opened = held.enter_context(socket.create_connection((server.host, server.port), timeout=5))
                opened.sendall(said)
            except (ConnectionError, TimeoutError):
                assert server.proxy  # it may turn some of them away
        started = time.monotonic()
        works(server)
        assert time.monotonic() - started < AUTHENTICATION  # nobody had to be sent away first
        assert inside.kinds(query("SELECT 1")) == "T D C"


def sent_away(server: Server, form: str) -> float:
    """The seconds after which a client that writes a byte now and then was sent away."""
    words = startup({"user": server.user, "database": server.database})
    with Raw(server.host, server.port) as raw:
        if form == "password":
            raw.send(words)
            assert raw.reply().kind == "R"
            words = message(b"p", b"SCRAM-SHA-256\0" + struct.pack("!i", 200) + b"n,,n=,r=" + b"x" * 192)
        started = time.monotonic()
        for byte in words[: 0 if form == "nothing" else -1]:
            readable, _, _ = select.select([raw.socket], [], [], 0.2)
            if readable:
                break
            with suppress(ConnectionError):
                raw.socket.sendall(bytes([byte]))
        raw.socket.settimeout(AUTHENTICATION + 5)
        with suppress(Closed):
            while True:
                raw.reply()
        return time.monotonic() - started


@pytest.mark.full
def test_the_slow_are_sent_away(server: Server) -> None:
    """A byte now and then does not keep a socket open for longer than a password may take."""
    forms = ("startup", "password", "nothing")
    with ThreadPoolExecutor(len(forms)) as threads:
        seconds = list(threads.map(lambda form: sent_away(server, form), forms))
    assert max(seconds) < AUTHENTICATION + 3


@pytest.mark.parametrize("size", [2**31 - 1, 2**30, -1, 3])
def test_a_length_of_two_gigabytes(server: Server, size: int) -> None:
    """At the start, as a password, and as a statement: refused before anything is allocated or read."""
    before = resident(server)
    for phase in ("startup", "password", "ready"):
        with Raw(server.host, server.port) as raw:
            if phase == "startup":
                raw.send(struct.pack("!ii", size, 196608) + b"user\0")
            elif phase == "password":
                raw.send(startup({"user": server.user, "database": server.database}))
                raw.reply()
                raw.send(b"p" + struct.pack("!i", size) + b"SCRAM-SHA-256\0")
            else:
                raw.login(server.user, server.password, server.database)
                raw.send(b"Q" + struct.pack("!i", size) + b"SELECT 1\0")
            with pytest.raises(Closed):
                while True:
                    got = raw.reply()
                    assert got.kind == "E" and got.fields["C"] in ("08P01", "54000", "28P01"), phase
    assert resident(server) < before + 64


def test_a_statement_that_is_too_long(server: Server) -> None:
    if not server.proxy:
        pytest.skip("PostgreSQL takes a gigabyte")
    before = resident(server)
    with logged_in(server) as raw:
        raw.send(b"Q" + struct.pack("!i", 20 * 2**20))
        with pytest.raises(Closed):
            while True:
                assert raw.reply().fields["C"] in ("08P01", "54000")
    assert resident(server) < before + 32


@pytest.mark.parametrize(
    "garbage", [b"\0" * 4096, b"\xff" * 4096, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"Q", b"QQQQQQQQQQ"]
)
def test_garbage_after_authentication(server: Server, garbage: bytes) -> None:
    with logged_in(server) as raw:
        raw.send(garbage)
        raw.socket.shutdown(socket.SHUT_WR)
        with pytest.raises(Closed):
            while True:
                got = raw.reply()
                assert got.kind != "E" or got.fields["C"] == "08P01"


@pytest.mark.full_on_postgres
def test_a_client_that_does_not_read(server: Server) -> None:
    """A long answer waits for its reader, and ends when the reader goes away."""
    before = resident(server)
    raw = logged_in(server)
    wide = ", ".join(f"p.name || c.city AS c{number}" for number in range(20))
    raw.send(query(f"SELECT {wide} FROM people_released AS p JOIN cities AS c ON p.id > c.population - 9000000") * 20)
    time.sleep(1)
    assert resident(server) < before + 64
    works(server)
    raw.socket.close()


def stream(server: Server, chance: random.Random) -> bytes:
    """Bytes that are random, or messages of which a part was changed, left out or doubled."""
    noise = chance.randbytes(chance.choice([1, 4, 8, 40, 400]))
    frames = [
        startup({"user": server.user, "database": server.database}), query("SELECT 1"), parse("s", "SELECT $1::int4"),
        bind("p", "s", (b"1",)), describe("S", "s"), describe("P", "p"), execute("p", 1), SYNC,
        message(b"p", b"SCRAM-SHA-256\0\0\0\0\3n,,"), message(b"d", b"x"),
        message(bytes([chance.randrange(256)]), noise),
        struct.pack("!ii", 8, 80877103), struct.pack("!iiii", 16, 80877102, 1, 2),
    ]  # fmt: skip
    chosen = b"".join(chance.choices(frames, k=chance.randint(1, 6)))
    match chance.randrange(4):
        case 0:
            return noise
        case 1:
            return chosen
        case 2:
            changed = bytearray(chosen)
            for _ in range(chance.randint(1, 4)):
                changed[chance.randrange(len(changed))] = chance.randrange(256)
            return bytes(changed)
        case _:
            cut = chance.randrange(len(chosen))
            return chosen[:cut] + noise + chosen[cut:]


def send_nonsense(server: Server, times: int, seed: int) -> None:
    chance = random.Random(seed)
    for number in range(times):
        sent = stream(server, chance)
        with Raw(server.host, server.port, timeout=20) as raw:
            if number % 2:
                raw.login(server.user, server.password, server.database)
            with suppress(ConnectionError):
                raw.send(sent)
                raw.socket.shutdown(socket.SHUT_WR)
            _listen(raw, sent)


def _listen(raw: Raw, sent: bytes) -> None:
    """Until the server closes: what it says is well-formed, and its errors are of the admitted kinds."""
    framed = raw.status != ""
    with suppress(Closed):
        while True:
            got = raw._take(1)
            if not framed and got in b"NGS":
                continue  # the answer to a request for encryption is one byte
            framed = True
            size = raw._take(4)
            raw._buffer = got + size + raw._buffer
            if got == b"E" and size.isalpha():
                return  # in the form of version 2, which has no length
            reply = raw.reply()
            if reply.kind == "E":
                assert reply.fields["C"].startswith(ADMITTED), (reply.fields["C"], sent)


@pytest.mark.full
def test_random_streams(server: Server) -> None:
    send_nonsense(server, 300 if server.proxy else 60, seed=1)


@pytest.mark.long
def test_random_streams_at_length(server: Server) -> None:
    before = resident(server)
    send_nonsense(server, 10_000 if server.proxy else 1_000, seed=2)
    assert resident(server) < before + 64

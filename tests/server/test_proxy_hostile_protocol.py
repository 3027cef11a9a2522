"""The protocol used against the server: memory, other clients, and sessions of others stay out of reach."""

from __future__ import annotations

import os
import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

import pytest
from hostile_ways import World, hostile_world
from raw_client import FLUSH, SYNC, Closed, Raw, bind, cancel, describe, execute, message, parse, query, startup, text

WIDE = "SELECT " + ",".join(["1"] * 1600)
ROWS = "SELECT a.name AS x FROM people_released AS a CROSS JOIN people_released AS b WHERE b.id < 400"
MOST = 160  # MB that the server's process may grow by, whatever one client does


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with hostile_world() as found:
        yield found


@pytest.fixture(autouse=True)
def others(world: World) -> Iterator[None]:
    """After each test another client is answered, and the server has not grown much."""
    world.works()
    before = world.resident
    yield
    world.works()
    assert world.resident < before + MOST


def answered_within(world: World, seconds: float) -> None:
    begun = time.monotonic()
    world.works()
    assert time.monotonic() - begun < seconds, "another client had to wait"


@contextmanager
def unread(world: World) -> Iterator[Raw]:
    """A client whose answers are read and thrown away."""
    with world.raw() as raw:

        def read() -> None:
            with suppress(OSError):
                while raw.socket.recv(2**16):
                    pass

        thread = threading.Thread(target=read)
        thread.start()
        try:
            yield raw
        finally:
            raw.socket.shutdown(socket.SHUT_RDWR)
            thread.join(20)


# ---- what a session keeps


def until_refused(raw: Raw, made: Iterator[bytes]) -> tuple[int, str]:
    for number, data in enumerate(made):
        for reply in raw.ask(data):
            if reply.kind == "E":
                return number, reply.fields["C"]
    raise AssertionError("all were taken")


@pytest.mark.full
@pytest.mark.parametrize(
    ("first", "each", "most"),
    [
        (b"", lambda n: parse(f"s{n}", "SELECT 1") + SYNC, 1000),
        (b"", lambda n: query(f"PREPARE s{n} AS SELECT 1"), 1000),
        (b"", lambda n: query(f"DECLARE c{n} CURSOR WITH HOLD FOR SELECT 1"), 1000),
        (query("BEGIN"), lambda n: query(f"SAVEPOINT s{n}"), 1000),
        (query("BEGIN"), lambda n: query(f"SAVEPOINT s{n}_{'x' * 15_000}"), 1000),
        (b"", lambda n: parse(f"{n}" + "x" * 2**22, "SELECT 1") + SYNC, 10),
        (parse("s", "SELECT $1::text") + SYNC, lambda n: bind(f"p{n}", "s", (b"x" * 150_000,)) + FLUSH, 300),
    ],
    ids=["parsed", "PREPARE", "DECLARE", "savepoints", "long savepoints", "long names", "parameters"],
)
def test_what_is_kept_is_bounded(world: World, first: bytes, each: object, most: int) -> None:
    with world.raw() as raw:
        if first:
            raw.ask(first)
        many = [each(number) for number in range(most + 1)]  # type: ignore[operator]
        raw.ask(query("BEGIN"))
        begun = time.monotonic()
        made = iter(data.replace(FLUSH, SYNC) for data in many)
        number, sqlstate = until_refused(raw, made)
        assert sqlstate == "53400" and number <= most and time.monotonic() - begun < 30


@pytest.mark.full
def test_rows_that_wait_are_bounded_for_all_cursors_together(world: World) -> None:
    with world.raw() as raw:
        raw.ask(query("BEGIN"))

        def cursors() -> Iterator[bytes]:
            for number in range(10):
                yield query(f"DECLARE c{number} CURSOR FOR {ROWS}")
                yield query(f"FETCH 1 c{number}")

        assert until_refused(raw, cursors())[1] == "54000"
        raw.ask(query("ROLLBACK"))  # what was held is free again
        raw.ask(query("BEGIN"))
        assert raw.kinds(query(f"DECLARE c CURSOR FOR {ROWS}")) == "C"
        assert raw.kinds(query("FETCH 1 c")) == "T D C"


@pytest.mark.full
def test_answers_that_nobody_reads_hold_little(world: World) -> None:
    """Without a Sync and without a reader: what is sent back waits in the client's own way."""
    with world.raw() as raw:
        before = world.resident
        raw.ask(parse("s", WIDE) + SYNC)
        raw.socket.settimeout(3)
        with suppress(TimeoutError):
            for _ in range(20):
                raw.send(describe("S", "s") * 1000)
        assert world.resident < before + 64
        answered_within(world, 10)


# ---- nobody waits for another's


@pytest.mark.full
@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("int4[]", b"{" + b"1," * 7_000_000 + b"1}"), ("int4[]", b"{" + b"1," * 400_000 + b"1}"),
        ("numeric", b"9" * 15_000_000), ("json", b"[" + b"1," * 400_000 + b"1]"), ("text", b"x" * 15_000_000),
        ("bytea", b"\\x" + b"00" * 7_000_000), ("interval", b"1 day " * 150_000), ("text[]", b'{"' + b"\\a" * 500_000),
    ],
    ids=lambda value: value if isinstance(value, str) else len(value),
)  # fmt: skip
def test_large_values_hold_up_nobody(world: World, kind: str, value: bytes) -> None:
    with unread(world) as raw:
        raw.send(parse("s", f"SELECT $1::{kind}") + bind("", "s", (value,)) + SYNC)
        answered_within(world, 10)


@pytest.mark.full
@pytest.mark.parametrize(
    "sql",
    ["SHOW ALL;" * 2200, "BEGIN;" * 3300, "DECLARE c CURSOR FOR " * 900 + "SELECT 1", "(" * 10_000, ";" * 10_000],
)
def test_long_texts_hold_up_nobody(world: World, sql: str) -> None:
    with unread(world) as raw:
        raw.send(query(sql))
        answered_within(world, 5)


def test_a_fetch_in_another_format_holds_up_nobody(world: World) -> None:
    with unread(world) as raw:
        raw.send(query("BEGIN") + query(f"DECLARE c CURSOR FOR {ROWS}") + query("FETCH 1 c"))
        raw.send(parse("", "FETCH ALL c") + bind("", "", results=(1,)) + execute() + SYNC)
        answered_within(world, 10)


@pytest.mark.full
def test_a_long_pipeline_holds_up_nobody(world: World) -> None:
    one = parse("", "SELECT 1") + bind("", "") + execute()
    with unread(world) as raw:
        before = world.resident
        sender = threading.Thread(target=_sent, args=(raw, one * 100, 340))
        sender.start()
        for _ in range(4):
            answered_within(world, 5)
        assert world.resident < before + 64
        raw.socket.shutdown(socket.SHUT_RDWR)
        sender.join(20)


def _sent(raw: Raw, data: bytes, times: int) -> None:
    with suppress(OSError):
        for _ in range(times):
            raw.send(data)


# ---- messages out of place


@pytest.mark.full
def test_many_parameters(world: World) -> None:
    with world.raw() as raw:
        many = struct.pack("!h", 0) + struct.pack("!H", 65_535) + (struct.pack("!i", 1) + b"1") * 65_535
        raw.ask(parse("s", "SELECT $1::int4") + SYNC)
        assert raw.kinds(message(b"B", text("") + text("s") + many + struct.pack("!h", 0)), SYNC) == "08P01"
        assert raw.kinds(parse("t", "SELECT $65535::int4"), SYNC)[:5] in ("42P18", "42P02", "54000", "1")
        assert raw.kinds(parse("u", "SELECT 1 --" + "x" * 15 * 2**20), SYNC) == "54001"


def test_portals_and_statements_that_are_gone(world: World) -> None:
    with world.raw() as raw:
        once = parse("s", "SELECT 1") + bind("p", "s")
        assert raw.kinds(once, execute("p"), execute("p"), SYNC) == "1 2 D C C"  # the second has no rows left
        assert raw.kinds(describe("P", "p"), SYNC) == "34000"
        assert raw.kinds(query("DEALLOCATE s")) == "C" and raw.kinds(describe("S", "s"), SYNC) == "26000"
        copied = parse("", "COPY cities TO STDOUT") + bind("", "")
        assert raw.kinds(copied, execute(), execute(), SYNC).endswith("C 55000")
        raw.ask(query("PREPARE q AS SELECT 1, 2"))
        raw.ask(parse("e", "EXECUTE q") + SYNC)
        raw.ask(query("DEALLOCATE q"))
        assert raw.kinds(bind("", "e", results=(1, 1)), execute(), SYNC)[:8] == "2 26000"
        raw.ask(query("PREPARE q AS SELECT 1, 2, 3"))
        assert raw.kinds(bind("", "e", results=(1, 0)), execute(), SYNC).split()[-1] != "C"
        for wrong in (message(b"d", b"x"), message(b"c"), message(b"f", b"x\0")):
            assert raw.kinds(wrong, query("SELECT 1")) == "T D C"
        assert raw.kinds(message(b"F", struct.pack("!Ihhh", 1, 0, 0, 0))) == "0A000"


def test_a_password_message_after_the_login_ends_the_session(world: World) -> None:
    with world.raw() as raw, pytest.raises(Closed):
        raw.send(message(b"p", b"SCRAM-SHA-256\0"))
        while True:
            assert raw.reply().kind in "EN"


@pytest.mark.parametrize("times", [250, pytest.param(5_000, marks=pytest.mark.long)])
def test_cancel_needs_the_key_and_reaches_no_one_else(world: World, times: int) -> None:
    """Two cancels with wrong keys each time, while two sessions are there."""
    slow = "SELECT count(*) FROM people_released a, people_released b, people_released c, people_released d"
    with world.raw() as mine, world.raw() as other:
        port = world.server.port
        before = world.resident
        for number in range(times):
            if number % 250 == 0:  # a statement ends at its timeout, and must not end before by a wrong key
                if number:
                    cancel("127.0.0.1", port, mine.process, mine.secret)
                    mine.until_ready()
                mine.send(query(slow))
            secret = other.secret if number % 2 else os.urandom(4)
            cancel("127.0.0.1", port, mine.process, secret)
            cancel("127.0.0.1", port, other.process, mine.secret)
        assert world.resident < before + 64
        assert other.kinds(query("SELECT 1")) == "T D C"
        cancel("127.0.0.1", port, mine.process, mine.secret)
        cancel("127.0.0.1", port, mine.process, mine.secret)
        (end,) = [reply.fields for reply in mine.until_ready() if reply.kind == "E"]
        assert end["C"] == "57014"
        assert mine.kinds(query("SELECT 1")) == "T D C"  # neither cancel is left over


def test_a_cancel_that_comes_too_late_breaks_nothing(world: World) -> None:
    with world.raw() as raw:
        for number in range(30):
            raw.send(query(f"SELECT {number}"))
            cancel("127.0.0.1", world.server.port, raw.process, raw.secret)
            found = raw.until_ready()
            assert [reply.kind for reply in found][-1] in "CE"
            rows = raw.ask(query(f"SELECT {number} + 1000"))
            late = [reply for reply in rows if reply.kind == "E"]
            values = [reply.row for reply in rows if reply.kind == "D"]
            assert late or values == [[str(number + 1000).encode()]]


# ---- strangers


@pytest.mark.parametrize(
    "data",
    [
        message(b"p", b""), message(b"p", b"SCRAM-SHA-256\0"), message(b"p", b"SCRAM-SHA-256\0\xff\xff\xff\xff"),
        message(b"p", b"SCRAM-SHA-256\0" + struct.pack("!i", 2**31 - 1) + b"n,,n=,r=x"),
        message(b"p", b"SCRAM-SHA-256-PLUS\0" + struct.pack("!i", 9) + b"p=x,,n=,r"),
        message(b"p", b"PLAIN\0" + struct.pack("!i", 3) + b"a\0b"), message(b"p", b"SCRAM-SHA-256\0" + b"\0" * 5000),
        message(b"p", b"SCRAM-SHA-256\0" + struct.pack("!i", 9) + b"n,,n=,r=") * 2, query("SELECT 1"), SYNC,
        parse("", "SELECT * FROM visits") + bind("", "") + execute() + SYNC, message(b"p", b"\xff" * 9000),
    ],
    ids=range(12),
)  # fmt: skip
def test_wrong_sasl_lets_nobody_in(world: World, data: bytes) -> None:
    with Raw("127.0.0.1", world.server.port) as raw:
        raw.send(startup({"user": "analyst", "database": "warehouse"}))
        assert raw.reply().kind == "R"
        raw.send(data)
        kinds = []
        with suppress(Closed, ConnectionError):
            while True:
                reply = raw.reply()
                kinds.append(reply.kind)
                if reply.kind == "E":
                    assert reply.fields["C"] in ("08P01", "28P01", "28000", "54000"), reply.fields
        assert not set(kinds) & set("ZKDT"), kinds


def test_huge_startups_and_many_connections(world: World) -> None:
    before = world.resident
    with ExitStack() as held:
        for number in range(300):
            with suppress(OSError):
                each = held.enter_context(socket.create_connection(("127.0.0.1", world.server.port), timeout=5))
                each.sendall(startup({"user": "x" * 9_000})[: 9_000 - number])
        answered_within(world, 10)
        assert world.resident < before + 64
    with Raw("127.0.0.1", world.server.port) as raw, pytest.raises(Closed):
        raw.send(startup({"user": "x" * 20_000}))
        while True:
            assert raw.reply().kind == "E"

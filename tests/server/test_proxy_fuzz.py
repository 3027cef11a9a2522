"""Bytes of strangers: whatever comes, the reader answers with messages or one kind of error, and holds little."""

from __future__ import annotations

import struct
import tracemalloc
from typing import Any

import pytest
from conftest import examples
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from proxy_frontend import framed, openings, requests, text, written

from sqlanon.pgwire import frontend
from sqlanon.pgwire.frontend import Message, MessageReader, ProtocolError

SHORT, FULL = 2_000, 100_000
# What psycopg's and asyncpg's sessions look like on the wire; the tests of the reader compare it with real ones.
SESSION: list[Message] = [
    frontend.Parse("", "SELECT $1::int4, $2::text", (23, 0)),
    frontend.Bind("", "", (1, 0), (struct.pack("!i", 7), b"x"), (1,)),
    frontend.Describe("P", ""),
    frontend.Execute("", 0),
    frontend.Sync(),
    frontend.Query("BEGIN; SELECT 'é'"),
    frontend.Parse("s1", "SELECT * FROM t WHERE a = $1", (1043,)),
    frontend.Describe("S", "s1"),
    frontend.Flush(),
    frontend.Bind("c1", "s1", (), (None,), ()),
    frontend.Execute("c1", 100),
    frontend.Close("P", "c1"),
    frontend.Sync(),
    frontend.CopyData(b"1\t2\n"),
    frontend.CopyFail("no"),
    frontend.FunctionCall(1, (0,), (b"1",), 0),
    frontend.Terminate(),
]
STREAM = b"".join(map(written, SESSION))
STARTUP = written(frontend.Startup((3, 0), {"user": "a", "database": "b", "application_name": "psql"}))
LENGTHS = [b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff", b"\x80\0\0\0", b"\0\0\0\0", b"\0\0\0\x04"]
NASTY = [*LENGTHS, b"\xff\xff", b"\0", b"Q", b"B"]


def outcome(stream: bytes, phase: Any, step: int) -> list[Any]:
    """All messages and errors of a stream that comes in pieces of `step` bytes."""
    made = MessageReader(message_limit=4096)
    made.phase = phase
    found: list[Any] = []
    for at in range(0, len(stream), step):
        try:
            made.feed(stream[at : at + step])
        except ProtocolError as error:
            assert error.fatal and made.buffered == 0
            return [*found, (error.sqlstate, error.message)]
        while True:
            before = made.buffered
            try:
                message = made.next()
            except ProtocolError as error:
                found.append((error.sqlstate, error.message))
                if error.fatal:
                    assert made.buffered == 0
                    return found
                assert made.buffered < before  # the wrong message is gone
                continue
            if message is None:
                assert made.buffered == before
                break
            assert made.buffered < before  # a message is never made from nothing
            found.append(message)
            if phase == "startup":
                phase = made.phase = "ready"
        assert made.buffered <= 2 * made.limit + 5
    return found


@st.composite
def mutated(draw: st.DrawFn, source: bytes) -> bytes:
    """A valid stream with bytes changed, dropped, doubled or put in, above all in length fields."""
    stream = bytearray(source)
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(stream)))
        size = draw(st.integers(0, 6))
        match draw(st.sampled_from(["change", "drop", "double", "insert", "cut"])):
            case "change":
                stream[at : at + size] = draw(st.binary(min_size=size, max_size=size))
            case "drop":
                del stream[at : at + size]
            case "double":
                stream[at:at] = stream[at : at + 8 * size]
            case "insert":
                stream[at:at] = draw(st.sampled_from(NASTY))
            case "cut":
                del stream[at:]
    return bytes(stream)


streams = st.one_of(
    st.tuples(st.sampled_from(["startup", "authentication", "ready"]), st.binary(max_size=200)),
    st.tuples(st.just("ready"), mutated(STREAM)),
    st.tuples(st.just("startup"), mutated(STARTUP + STREAM)),
    st.tuples(st.just("authentication"), mutated(framed(b"p", text("SCRAM-SHA-256") + struct.pack("!i", 3) + b"n,,"))),
    st.tuples(
        st.just("ready"),
        st.tuples(st.sampled_from(b"QPBDECHSXdcfF"), st.binary(max_size=80)).map(
            lambda pair: framed(bytes([pair[0]]), pair[1])
        ),
    ),
)


def strange(case: tuple[Any, bytes]) -> None:
    phase, stream = case
    at_once = outcome(stream, phase, max(len(stream), 1))
    assert at_once == outcome(stream, phase, 1)
    for found in at_once:
        if isinstance(found, tuple):
            assert found[0] in ("08P01", "22021", "0A000", "54000") and len(found[1]) < 100
        elif isinstance(found, frontend.PasswordMessage):
            for read in (found.password, found.sasl_initial):
                try:
                    read()
                except ProtocolError as error:
                    assert not error.fatal
        elif isinstance(found, frontend.Execute) and found.limit == 0:
            pass  # a negative limit is none
        elif not isinstance(found, frontend.Startup):
            assert written(found) in stream  # nothing is read that was not there


def fuzzed(count: int) -> Any:
    """The property for so many streams; nothing is stored, for each run is as good as any other."""
    limits = settings(
        max_examples=count,
        database=None,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )
    return limits(given(streams)(strange))


@pytest.mark.full
def test_strange_bytes_do_no_harm() -> None:
    fuzzed(SHORT)()


@pytest.mark.long
def test_a_hundred_thousand_streams_do_no_harm() -> None:
    fuzzed(FULL)()


@settings(max_examples=examples(500))
@given(openings, st.lists(requests, max_size=4))
def test_every_message_survives_the_way(opening: Message, messages: list[Message]) -> None:
    stream = written(opening) + b"".join(map(written, messages))
    for step in (1, 7, len(stream)):
        assert outcome(stream, "startup", step) == [opening, *messages]


@pytest.mark.parametrize("phase", ["startup", "authentication", "ready"])
@pytest.mark.parametrize("size", [2**31 - 1, 2**31 - 2, 16 * 2**20 + 1, -1, -(2**31)])
def test_a_length_field_allocates_nothing(phase: Any, size: int) -> None:
    letter = {"startup": b"", "authentication": b"p", "ready": b"Q"}[phase]
    made = MessageReader()
    made.phase = phase
    tracemalloc.start()
    try:
        with pytest.raises(ProtocolError) as error:
            made.feed(letter + struct.pack("!i", size))
            made.next()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert error.value.fatal and peak < 20_000


@pytest.mark.parametrize("inside", [struct.pack("!HHi", 0, 1, 2**31 - 1), struct.pack("!HH", 0, 65535), b"\xff" * 12])
def test_counts_and_lengths_inside_a_message_allocate_nothing(inside: bytes) -> None:
    made = MessageReader()
    made.phase = "ready"
    stream = framed(b"B", text("") * 2 + inside) + framed(b"P", text("") * 2 + b"\xff\xff")
    tracemalloc.start()
    try:
        made.feed(stream)
        for _ in range(2):
            with pytest.raises(ProtocolError):
                made.next()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 20_000


def test_a_message_that_never_ends_is_held_once() -> None:
    """A client may fill one message of the greatest length, and no more."""
    made = MessageReader(message_limit=2**20)
    made.phase = "ready"
    tracemalloc.start()
    try:
        made.feed(b"Q" + struct.pack("!i", 2**20))
        for _ in range(2**20 // 4096 - 1):
            made.feed(b"x" * 4096)
            assert made.next() is None
        peak = tracemalloc.get_traced_memory()[1]
        with pytest.raises(ProtocolError):
            for _ in range(1000):
                made.feed(b"x" * 4096)
    finally:
        tracemalloc.stop()
    assert peak < 3 * 2**20 and made.buffered == 0


def test_many_small_messages_are_read_in_linear_time() -> None:
    """Taking one message off the front must not move all that follow."""
    made = MessageReader()
    made.phase = "ready"
    count = 200_000
    made.feed(written(frontend.Sync()) * count)
    assert sum(1 for _ in iter(made.next, None)) == count

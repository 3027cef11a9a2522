"""Frontend messages written by hand, to compare the reader with: it shares no code with sqlanon."""

from __future__ import annotations

import struct
from typing import Any

from hypothesis import strategies as st

from sqlanon.pgwire import frontend
from sqlanon.pgwire.frontend import Message


def framed(kind: bytes, body: bytes) -> bytes:
    return kind + struct.pack("!i", len(body) + 4) + body


def text(value: str) -> bytes:
    return value.encode() + b"\0"


def shorts(values: tuple[int, ...]) -> bytes:
    return struct.pack(f"!H{len(values)}h", len(values), *values)


def sized(values: tuple[bytes | None, ...]) -> bytes:
    parts = [struct.pack("!i", -1) if each is None else struct.pack("!i", len(each)) + each for each in values]
    return struct.pack("!H", len(values)) + b"".join(parts)


def written(message: Message) -> bytes:
    """The bytes of a message."""
    match message:
        case frontend.SSLRequest():
            return struct.pack("!iHH", 8, 1234, 5679)
        case frontend.GSSRequest():
            return struct.pack("!iHH", 8, 1234, 5680)
        case frontend.CancelRequest(process, secret):
            return struct.pack("!iHHI", 12 + len(secret), 1234, 5678, process) + secret
        case frontend.Startup((major, minor), parameters):
            body = b"".join(text(name) + text(value) for name, value in parameters.items()) + b"\0"
            return struct.pack("!iHH", len(body) + 8, major, minor) + body
        case frontend.PasswordMessage(data):
            return framed(b"p", data)
        case frontend.Query(sql):
            return framed(b"Q", text(sql))
        case frontend.Parse(name, sql, types):
            return framed(b"P", text(name) + text(sql) + struct.pack(f"!H{len(types)}I", len(types), *types))
        case frontend.Bind(portal, statement, formats, values, result_formats):
            body = text(portal) + text(statement) + shorts(formats) + sized(values) + shorts(result_formats)
            return framed(b"B", body)
        case frontend.Describe(kind, name):
            return framed(b"D", kind.encode() + text(name))
        case frontend.Execute(portal, limit):
            return framed(b"E", text(portal) + struct.pack("!i", limit))
        case frontend.Close(kind, name):
            return framed(b"C", kind.encode() + text(name))
        case frontend.Flush():
            return framed(b"H", b"")
        case frontend.Sync():
            return framed(b"S", b"")
        case frontend.Terminate():
            return framed(b"X", b"")
        case frontend.CopyData(data):
            return framed(b"d", data)
        case frontend.CopyDone():
            return framed(b"c", b"")
        case frontend.CopyFail(reason):
            return framed(b"f", text(reason))
        case frontend.FunctionCall(function, formats, values, result_format):
            body = struct.pack("!I", function) + shorts(formats) + sized(values) + struct.pack("!h", result_format)
            return framed(b"F", body)


strings = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=12)
cells = st.none() | st.binary(max_size=12)
forms = st.sampled_from([0, 1])
oids = st.integers(0, 2**32 - 1)
objects: Any = st.sampled_from(["S", "P"])


@st.composite
def binds(draw: st.DrawFn) -> frontend.Bind:
    values = tuple(draw(st.lists(cells, max_size=5)))
    count = draw(st.sampled_from([0, 1, len(values)]))
    formats = tuple(draw(st.lists(forms, min_size=count, max_size=count)))
    return frontend.Bind(draw(strings), draw(strings), formats, values, tuple(draw(st.lists(forms, max_size=4))))


openings: st.SearchStrategy[Message] = st.one_of(
    st.just(frontend.SSLRequest()),
    st.just(frontend.GSSRequest()),
    st.builds(frontend.CancelRequest, oids, st.binary(min_size=4, max_size=256)),
    st.builds(
        frontend.Startup,
        st.tuples(st.just(3), st.integers(0, 65535)),
        st.dictionaries(strings.filter(bool), strings, max_size=4),
    ),
)
requests: st.SearchStrategy[Message] = st.one_of(
    st.builds(frontend.Query, strings),
    st.builds(frontend.Parse, strings, strings, st.lists(oids, max_size=4).map(tuple)),
    binds(),
    st.builds(frontend.Describe, objects, strings),
    st.builds(frontend.Execute, strings, st.integers(0, 2**31 - 1)),
    st.builds(frontend.Close, objects, strings),
    st.sampled_from([frontend.Flush(), frontend.Sync(), frontend.Terminate(), frontend.CopyDone()]),
    st.builds(frontend.CopyData, st.binary(max_size=12)),
    st.builds(frontend.CopyFail, strings),
    st.builds(
        frontend.FunctionCall,
        oids,
        st.lists(forms, max_size=3).map(tuple),
        st.lists(cells, max_size=3).map(tuple),
        forms,
    ),
)

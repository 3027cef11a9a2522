"""The messages of both sides: against real clients, a real server, and messages written by hand."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from proxy_frontend import framed, openings, requests, text, written

from sqlanon.pgwire import backend, frontend, types
from sqlanon.pgwire.backend import ResultColumn
from sqlanon.pgwire.frontend import Message, MessageReader, ProtocolError

psycopg = pytest.importorskip("psycopg", reason="needs the package psycopg")
from proxy_relay import Tapped, tapped  # noqa: E402


def reader(phase: Any = "ready", **limits: int) -> MessageReader:
    made = MessageReader(**limits)
    made.phase = phase
    return made


def read(data: bytes, phase: Any = "ready") -> list[Message]:
    made = reader(phase)
    made.feed(data)
    return list(iter(made.next, None))


def refused(data: bytes, phase: Any = "ready") -> ProtocolError:
    with pytest.raises(ProtocolError) as error:
        read(data, phase)
    return error.value


@given(openings)
def test_openings_are_read_as_written(message: Message) -> None:
    assert read(written(message), "startup") == [message]


@given(st.lists(requests, max_size=6))
def test_messages_are_read_as_written(messages: list[Message]) -> None:
    assert read(b"".join(map(written, messages))) == messages


@given(st.lists(requests, min_size=1, max_size=3), st.data())
def test_the_pieces_in_which_bytes_come_make_no_difference(messages: list[Message], data: st.DataObject) -> None:
    stream = b"".join(map(written, messages))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=5)))
    made, found = reader(), []
    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        made.feed(stream[start:end])
        found += list(iter(made.next, None))
    assert found == messages and made.buffered == 0


def test_passwords_and_sasl() -> None:
    (message,) = read(framed(b"p", text("geheim")), "authentication")
    assert isinstance(message, frontend.PasswordMessage)
    assert message.password() == "geheim" and "geheim" not in repr(message)
    first = frontend.PasswordMessage(text("SCRAM-SHA-256") + struct.pack("!i", 5) + b"n,,n=")
    assert first.sasl_initial() == ("SCRAM-SHA-256", b"n,,n=")
    assert frontend.PasswordMessage(text("X") + struct.pack("!i", -1)).sasl_initial() == ("X", None)
    for wrong in (b"", b"no end", text("X"), text("X") + struct.pack("!i", 9), text("two") + text("texts")):
        with pytest.raises(ProtocolError):
            frontend.PasswordMessage(wrong).sasl_initial()
    with pytest.raises(ProtocolError):
        frontend.PasswordMessage(text("one") + b"more").password()


def test_secrets_and_values_are_not_shown() -> None:
    messages = [
        frontend.CancelRequest(1, b"hush"),
        frontend.Bind("", "", (), (b"hush",), ()),
        frontend.CopyData(b"hush"),
        frontend.CopyFail("hush"),
        frontend.FunctionCall(1, (), (b"hush",), 0),
    ]
    assert "hush" not in repr(messages)


WRONG = {
    "bytes after the end": framed(b"S", b"x"),
    "text without an end": framed(b"Q", b"SELECT 1"),
    "two texts": framed(b"Q", text("a") + text("b")),
    "empty query": framed(b"Q", b""),
    "neither S nor P": framed(b"D", b"X" + text("a")),
    "no name": framed(b"C", b"S"),
    "limit cut off": framed(b"E", text("") + b"\0\0"),
    "fewer types than told": framed(b"P", text("") + text("") + struct.pack("!HI", 2, 23)),
    "more types than told": framed(b"P", text("") + text("") + struct.pack("!HII", 1, 23, 23)),
    "a format of 2": framed(b"B", text("") * 2 + struct.pack("!HhHH", 1, 2, 0, 0)),
    "two formats for one value": framed(b"B", text("") * 2 + struct.pack("!HhhHiH", 2, 0, 0, 1, -1, 0)),
    "a value longer than the message": framed(b"B", text("") * 2 + struct.pack("!HHiH", 0, 1, 2**31 - 1, 0)),
    "a negative length": framed(b"B", text("") * 2 + struct.pack("!HHiH", 0, 1, -2, 0)),
    "65535 values in few bytes": framed(b"B", text("") * 2 + struct.pack("!HH", 0, 65535)),
}


@pytest.mark.parametrize("data", WRONG.values(), ids=WRONG)
def test_a_wrong_message_is_refused_and_the_next_is_read(data: bytes) -> None:
    made = reader()
    made.feed(data + framed(b"S", b""))
    with pytest.raises(ProtocolError) as error:
        made.next()
    assert (error.value.sqlstate, error.value.fatal, error.value.kind) == ("08P01", False, chr(data[0]))
    assert made.next() == frontend.Sync()


def test_what_is_no_utf8_is_refused_and_the_next_is_read() -> None:
    made = reader()
    made.feed(framed(b"Q", b"SELECT '\xff'\0") + framed(b"S", b""))
    with pytest.raises(ProtocolError) as error:
        made.next()
    assert (error.value.sqlstate, error.value.fatal) == ("22021", False)
    assert made.next() == frontend.Sync()


FATAL: list[tuple[Any, bytes, str]] = [
    ("ready", b"?", "08P01"),
    ("ready", b"p" + struct.pack("!i", 5), "08P01"),
    ("ready", b"Q" + struct.pack("!i", 3), "08P01"),
    ("ready", b"Q" + struct.pack("!i", -1), "08P01"),
    ("ready", b"Q" + struct.pack("!i", 2**31 - 1), "08P01"),
    ("authentication", framed(b"Q", text("SELECT 1")), "08P01"),
    ("authentication", b"p" + struct.pack("!i", 10_001), "08P01"),
    ("startup", struct.pack("!i", 7), "08P01"),
    ("startup", struct.pack("!i", 10_001), "08P01"),
    ("startup", struct.pack("!i", 2**31 - 1), "08P01"),
    ("startup", b"GET / HTTP/1.1\r\n\r\n", "08P01"),
    ("startup", struct.pack("!iHH", 8, 2, 0), "0A000"),
    ("startup", struct.pack("!iHH", 8, 4, 0), "0A000"),
    ("startup", struct.pack("!iHH", 8, 3, 0), "08P01"),
    ("startup", struct.pack("!iHHi", 12, 1234, 5679, 0), "08P01"),
    ("startup", struct.pack("!iHHIb", 13, 1234, 5678, 1, 0), "08P01"),
    ("startup", struct.pack("!iHH", 8 + 6, 3, 0) + b"user\0\0", "08P01"),
    ("startup", struct.pack("!iHH", 8 + 7, 3, 0) + b"a\0b\0\0\0\0", "08P01"),
    ("startup", struct.pack("!iHH", 8 + 15, 3, 0) + b"user\0a\0user\0b\0\0", "08P01"),
    ("startup", struct.pack("!iHH", 8 + 7, 3, 0) + b"\xff\0x\0\0xx", "22021"),
]


@pytest.mark.parametrize(("phase", "data", "sqlstate"), FATAL)
def test_what_cannot_be_followed_ends_the_stream(phase: Any, data: bytes, sqlstate: str) -> None:
    error = refused(data, phase)
    assert (error.sqlstate, error.fatal) == (sqlstate, True)
    made = reader(phase)
    for _ in range(3):
        with pytest.raises(ProtocolError):
            made.feed(data)
            made.next()
    assert made.buffered == 0


def test_no_more_than_the_limits_waits() -> None:
    made = reader(message_limit=1000)
    made.feed(b"Q" + struct.pack("!i", 1000) + b"x" * 900)
    assert made.next() is None
    with pytest.raises(ProtocolError) as error:
        made.feed(b"x" * 2000)
    assert (error.value.sqlstate, error.value.fatal) == ("54000", True)
    early = MessageReader()
    with pytest.raises(ProtocolError):
        early.feed(b"\0" * 100_000)


def test_one_format_stands_for_all() -> None:
    assert frontend.Bind("", "", (1,), (b"", None), ()).value_formats() == (1, 1)
    assert frontend.Bind("", "", (), (b"", None), ()).value_formats() == (0, 0)
    with pytest.raises(ProtocolError):
        frontend.each_format((0, 0), 1)


# -- a real client and a real server


@pytest.fixture(scope="module")
def session(postgres_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tapped]:
    """Both sides of a session of psycopg's with PostgreSQL."""
    folder = tmp_path_factory.mktemp("tap")
    with tapped(postgres_url, folder) as tap, psycopg.connect(tap.url, autocommit=True) as connection:
        connection.execute("SELECT 1 AS one, NULL::text AS nothing")
        connection.execute("SELECT %s::int8, %b::text", [7, "é"])
        connection.execute("SELECT %s::int4", [7], prepare=True)
        connection.execute("SELECT %s::int4", [8], prepare=True)
        with connection.pipeline():
            connection.execute("SELECT %t", ["text"])
            connection.execute("SELECT 2", binary=True)
        with connection.cursor() as cursor:
            with cursor.copy("COPY (VALUES (1, 'a'), (2, NULL)) TO STDOUT") as copy:
                assert len(list(copy)) == 2
            cursor.execute("CREATE TEMP TABLE taken (a int)")
            with cursor.copy("COPY taken FROM STDIN") as copy:
                copy.write("1\n2\n")
        with pytest.raises(psycopg.Error):
            connection.execute("SELECT nothing")
        connection.execute("")
        connection.execute("DO $$ BEGIN RAISE NOTICE 'told' USING HINT = 'more'; END $$")
        with pytest.raises(psycopg.Error):
            connection.execute("SELECT 1/0")
        # The tap runs in this process: calls that wait inside the library would wait for ever.
        connection.pgconn.send_prepare(b"named", b"SELECT $1::int4 AS a, $2::numeric(10,2)")
        connection.wait(psycopg.generators.execute(connection.pgconn))
        connection.pgconn.send_describe_prepared(b"named")
        connection.wait(psycopg.generators.execute(connection.pgconn))
        connection.execute("CREATE TEMP TABLE other (a int)", prepare=True)
        connection.execute("BEGIN")
        connection.execute("ROLLBACK")
    yield tap


def test_what_a_client_sends_is_read_and_written_again(session: Tapped) -> None:
    stream = bytes(session.sent)
    made, messages = MessageReader(), []
    (size,) = struct.unpack_from("!i", stream)
    first = frontend.SSLRequest() if size == 8 else None
    made.feed(stream)
    if first:
        messages.append(made.next())
    messages.append(made.next())
    assert isinstance(messages[-1], frontend.Startup) and "user" in messages[-1].parameters
    made.phase = "ready"
    messages += list(iter(made.next, None))
    assert made.buffered == 0 and b"".join(written(each) for each in messages if each) == stream
    kinds = {type(each) for each in messages}
    assert {
        frontend.Query,
        frontend.Parse,
        frontend.Bind,
        frontend.Describe,
        frontend.Execute,
        frontend.Sync,
        frontend.Terminate,
    } <= kinds
    assert {frontend.CopyData, frontend.CopyDone} <= kinds


def frames(stream: bytes) -> list[bytes]:
    found, at = [], 0
    while at < len(stream):
        (size,) = struct.unpack_from("!i", stream, at + 1)
        found.append(stream[at : at + 1 + size])
        at += 1 + size
    return found


def test_the_server_sends_what_we_would_send(session: Tapped) -> None:
    """PostgreSQL's own messages, found among those that it sent."""
    sent = frames(bytes(session.received).lstrip(b"N") if session.received[:1] == b"N" else bytes(session.received))
    four, eight = ResultColumn("int4", types.INT4), ResultColumn("int8", types.INT8)
    ours = [
        backend.authentication_ok(),
        backend.parameter_status("client_encoding", "UTF8"),
        backend.ready_for_query(b"I"),
        backend.ready_for_query(b"T"),
        backend.row_description([ResultColumn("one", types.INT4), ResultColumn("nothing", types.TEXT)]),
        backend.row_description([eight, ResultColumn("text", types.TEXT)], [0]),
        backend.row_description([four]),
        backend.row_description([ResultColumn("?column?", types.INT4)], [1]),
        backend.data_row([b"1", None]),
        backend.data_row([b"7", "é".encode()]),
        backend.data_row([struct.pack("!i", 2)]),
        backend.command_complete("SELECT 1"),
        backend.command_complete("BEGIN"),
        backend.command_complete("COPY 2"),
        backend.parse_complete(),
        backend.bind_complete(),
        backend.no_data(),
        backend.empty_query(),
        backend.parameter_description([23, 1700]),
        backend.row_description(
            [ResultColumn("a", types.INT4), ResultColumn("numeric", types.NUMERIC, typmod=(10 << 16) + 2 + 4)]
        ),
        backend.copy_out_response(0, 2),
        backend.copy_data(b"1\ta\n"),
        backend.copy_data(b"2\t\\N\n"),
        backend.copy_done(),
    ]
    for message in ours:
        assert message in sent, message
    keys = [each for each in sent if each[:1] == b"K"]
    process, secret = struct.unpack("!I", keys[0][5:9])[0], keys[0][9:]
    assert backend.backend_key_data(process, secret) == keys[0]


def fields(message: bytes) -> dict[str, str]:
    return {part[:1].decode(): part[1:].decode() for part in message[5:].split(b"\0") if part}


def test_errors_have_the_fields_of_postgresqls(session: Tapped) -> None:
    sent = frames(bytes(session.received).lstrip(b"N") if session.received[:1] == b"N" else bytes(session.received))
    (theirs,) = [fields(each) for each in sent if each[:1] == b"E" and b"does not exist" in each]
    position = int(theirs["P"])
    ours = fields(backend.error_response("ERROR", "42703", theirs["M"], position=position))
    assert ours.items() <= theirs.items() and set(theirs) - set(ours) == {"F", "L", "R"}
    (notice,) = [fields(each) for each in sent if each[:1] == b"N" and b"told" in each]
    ours = fields(backend.notice_response("NOTICE", "00000", "told", hint="more"))
    assert ours.items() <= notice.items()


# -- a real client against messages of ours

GREETING = (
    backend.authentication_ok()
    + backend.parameter_status("server_version", "15.0")
    + backend.parameter_status("client_encoding", "UTF8")
    + backend.parameter_status("standard_conforming_strings", "on")
    + backend.backend_key_data(77, b"\0\1\2\3")
    + backend.ready_for_query(b"I")
)


def serve(listener: socket.socket, answers: dict[str, bytes]) -> None:
    """Answer simple queries by their text; the reader is ours too."""
    client, _ = listener.accept()
    with client:
        made = MessageReader()
        while data := client.recv(65536):
            made.feed(data)
            while (message := made.next()) is not None:
                if isinstance(message, frontend.SSLRequest | frontend.GSSRequest):
                    client.sendall(backend.SSL_NO)
                elif isinstance(message, frontend.Startup):
                    made.phase = "ready"
                    client.sendall(GREETING)
                elif isinstance(message, frontend.Query):
                    client.sendall(answers[message.sql] + backend.ready_for_query(b"I"))


def test_psycopg_understands_what_we_send() -> None:
    columns = [
        ResultColumn("n", types.INT4, table=1259, attribute=2),
        ResultColumn("é", types.TEXT),
        ResultColumn("v", types.VARCHAR, 14),
    ]
    row = backend.data_row([b"1", None, b"x"])
    answers = {
        "rows": backend.row_description(columns) + row + row + backend.command_complete("SELECT 2"),
        "wrong": backend.error_response("ERROR", "42P01", "no such\0table", "because", "try", 3),
        "told": backend.notice_response("NOTICE", "00000", "ε", detail="spent", hint="left")
        + backend.command_complete("SELECT 0"),
        "copy": backend.copy_out_response(0, 1)
        + backend.copy_data(b"a\n")
        + backend.copy_data(b"b\n")
        + backend.copy_done()
        + backend.command_complete("COPY 2"),
        "": backend.empty_query(),
    }
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, args=(listener, answers), daemon=True)
        thread.start()
        url = f"host=127.0.0.1 port={listener.getsockname()[1]} user=a dbname=b"
        with psycopg.connect(url, autocommit=True) as connection:
            notices: list[Any] = []
            connection.add_notice_handler(lambda each: notices.append((each.message_primary, each.message_detail)))
            result = connection.execute("rows").pgresult
            assert result is not None
            assert (result.ntuples, result.nfields, result.command_tuples) == (2, 3, 2)
            assert [result.fname(at).decode() for at in range(3)] == ["n", "é", "v"]
            assert [result.ftype(at) for at in range(3)] == [23, 25, 1043]
            assert [result.fsize(at) for at in range(3)] == [4, -1, -1]
            assert (result.ftable(0), result.ftablecol(0), result.fmod(2)) == (1259, 2, 14)
            assert [result.get_value(1, at) for at in range(3)] == [b"1", None, b"x"]
            with pytest.raises(psycopg.errors.UndefinedTable) as error:
                connection.execute("wrong")
            told = error.value.diag
            assert (told.severity, told.message_detail, told.message_hint) == ("ERROR", "because", "try")
            assert told.statement_position == "3" and told.message_primary == "no such\N{REPLACEMENT CHARACTER}table"
            connection.execute("told")
            assert notices == [("ε", "spent")]
            with connection.cursor() as cursor, cursor.copy("copy") as copy:
                assert [bytes(each) for each in copy] == [b"a\n", b"b\n"]
            assert connection.execute("").pgresult.status == psycopg.pq.ExecStatus.EMPTY_QUERY  # type: ignore[union-attr]
            assert connection.pgconn.backend_pid == 77
            assert connection.info.parameter_status("server_version") == "15.0"
        thread.join(10)
        assert not thread.is_alive()


def test_messages_that_no_client_here_asks_for() -> None:
    assert backend.portal_suspended() == framed(b"s", b"")
    assert backend.close_complete() == framed(b"3", b"")
    assert backend.negotiate_protocol_version(0, ["_pq_.x"]) == framed(b"v", struct.pack("!ii", 0, 1) + text("_pq_.x"))
    assert backend.authentication_cleartext() == framed(b"R", struct.pack("!i", 3))
    assert backend.authentication_sasl() == framed(b"R", struct.pack("!i", 10) + text("SCRAM-SHA-256") + b"\0")
    assert backend.authentication_sasl_continue(b"r=1") == framed(b"R", struct.pack("!i", 11) + b"r=1")
    assert backend.authentication_sasl_final(b"v=1") == framed(b"R", struct.pack("!i", 12) + b"v=1")
    assert backend.copy_out_response(1, 2) == framed(b"H", struct.pack("!bhhh", 1, 2, 1, 1))
    for wrong in (b"", b"X", b"II"):
        with pytest.raises(ValueError, match="status"):
            backend.ready_for_query(wrong)
    with pytest.raises(ValueError, match="SQLSTATE"):
        backend.error_response("ERROR", "42", "x")

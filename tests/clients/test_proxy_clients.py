"""The protocol, message by message, on a real PostgreSQL and on the proxy."""

from __future__ import annotations

import struct
import time
from collections.abc import Iterator

import pytest
from proxy_servers import Server
from proxy_world import OTHER, OTHER_PASSWORD, PEOPLE
from raw_client import (
    FLUSH,
    SYNC,
    TERMINATE,
    Closed,
    Raw,
    bind,
    cancel,
    close,
    describe,
    execute,
    message,
    parse,
    query,
    startup,
)
from timing import soon

from sqlanon.sqlfront.limits import MAX_TEXT

PEOPLE_BY_ID = "SELECT id FROM people_released ORDER BY id"


@pytest.fixture
def raw(server: Server) -> Iterator[Raw]:
    with Raw(server.host, server.port) as made:
        yield made.login(server.user, server.password, server.database)


# ---- the start


def test_what_a_client_is_told_at_the_start(server: Server) -> None:
    with Raw(server.host, server.port) as raw:
        raw.login(server.user, server.password, server.database, application_name="süite", DateStyle="ISO, MDY")
        told = raw.parameters
    expected = {
        "server_encoding": "UTF8", "client_encoding": "UTF8", "DateStyle": "ISO, MDY", "IntervalStyle": "postgres",
        "integer_datetimes": "on", "standard_conforming_strings": "on", "is_superuser": "off",
        "session_authorization": server.user,
    }  # fmt: skip
    assert {name: told.get(name) for name in expected} == expected
    assert told["application_name"] in ("süite", "s??ite", "s\\xc3\\xbcite")  # 15 keeps ASCII alone, and so does 16
    assert told["TimeZone"] in ("UTC", "Etc/UTC", "GMT")
    assert 13 <= int(told["server_version"].split(".")[0]) <= 18
    assert raw.process and len(raw.secret) == 4 and raw.status == "I"


def test_who_is_let_in(server: Server) -> None:
    refused = {}
    cases = {
        "wrong password": (server.user, "wrong", server.database),
        "empty password": (server.user, "", server.database),
        "nobody": ("nobody", server.password, server.database),
        "password of another": (OTHER, server.password, server.database),
        "no such database": (server.user, server.password, "elsewhere"),
    }
    for name, (user, password, database) in cases.items():
        with Raw(server.host, server.port) as raw, pytest.raises(PermissionError) as error:
            raw.login(user, password, database)
        refused[name] = str(error.value)
    assert refused.pop("no such database") == "3D000"
    assert set(refused.values()) == {"28P01"}
    with Raw(server.host, server.port) as raw:
        assert raw.login(OTHER, OTHER_PASSWORD, server.database).status == "I"


def test_who_exists_is_not_told(server: Server) -> None:
    """Someone unknown is asked for a password like anybody else."""
    seen = []
    for user in (server.user, "nobody", "x' OR 1=1 --"):
        with Raw(server.host, server.port) as raw:
            raw.send(startup({"user": user, "database": server.database}))
            first = raw.reply()
            seen.append((first.kind, first.body))
    assert len(set(seen)) == 1 and seen[0][0] == "R"


@pytest.mark.parametrize("code", [80877103, 80877104], ids=["ssl", "gss"])
def test_encryption_is_declined_on_loopback(server: Server, code: int) -> None:
    with Raw(server.host, server.port) as raw:
        raw.send(struct.pack("!ii", 8, code))
        answer = raw.socket.recv(1)
        if answer == b"G" and not server.proxy:
            pytest.skip("this PostgreSQL offers GSSAPI")
        assert answer == b"N"
        assert raw.login(server.user, server.password, server.database).status == "I"


def test_versions(server: Server) -> None:
    with Raw(server.host, server.port) as raw:
        raw.send(startup({"user": server.user, "database": server.database, "_pq_.unheard": "1"}, 196608 + 9))
        first = raw.reply()
        assert first.kind == "v" and first.body == struct.pack("!ii", 196608, 1) + b"_pq_.unheard\0"
    with Raw(server.host, server.port) as raw:
        raw.send(startup({"user": server.user}, 262144))
        error = raw.error()
        assert error["S"] == "FATAL" and error["C"] == "0A000"
    with Raw(server.host, server.port) as raw:
        raw.send(startup({"user": server.user}, 131072))
        assert raw.socket.recv(1) == b"E"  # in a form of its own in that version
    with Raw(server.host, server.port) as raw:
        raw.send(startup({"database": server.database}))
        assert raw.error()["C"] == "28000"  # no user


# ---- simple queries


@pytest.mark.parametrize(
    ("sql", "kinds"),
    [
        ("SELECT 1", "T D C"),
        ("", "I"),
        (" ; -- nothing\n /* here /* and */ here */ ;", "I"),
        ("SELECT 1; SELECT 'a;b', 2;", "T D C T D C"),
        ("SELECT 1; SELECT nothing; SELECT 2", "T D C 42703"),
        ("SELECT 1; SELEC 2; SELECT 3", "42601"),
        ("SELECT id FROM people_released WHERE id < 0", "T C"),
        ("SELECT 1 FROM no_such_table", "42P01"),
        ("SELECT 'open", "42601"),
        ("SELECT $1", "42P02"),
        ("SET TimeZone TO 'UTC'", "C"),
        ("SHOW server_version", "T D C"),
        ("BEGIN; SELECT 1; COMMIT", "C T D C C"),
        ("SELECT 1; SELECT $$a;'b$$; SELECT E'\\';' -- ;\n; SELECT \";\" FROM (SELECT 1 AS \";\") AS t",
         "T D C T D C T D C T D C"),
    ],
)  # fmt: skip
def test_simple_queries(server: Server, raw: Raw, sql: str, kinds: str) -> None:
    got = raw.kinds(query(sql))
    if server.proxy and "SELEC 2" in sql:
        got = got.removeprefix("T D C ")  # statements are read one by one
    assert got == kinds
    assert raw.status == "I"
    assert raw.kinds(query("SELECT 1")) == "T D C"


def tags(raw: Raw, sql: str) -> list[str]:
    return [got.body.rstrip(b"\0").decode() for got in raw.ask(query(sql)) if got.kind == "C"]


def test_tags(raw: Raw) -> None:
    assert tags(raw, "SELECT id FROM people_released") == [f"SELECT {PEOPLE}"]
    assert tags(raw, "SELECT 1 WHERE false") == ["SELECT 0"]
    assert tags(raw, "BEGIN; SET LOCAL TimeZone TO 'UTC'; SHOW TimeZone; COMMIT") == ["BEGIN", "SET", "SHOW", "COMMIT"]
    assert tags(raw, "START TRANSACTION; END") == ["START TRANSACTION", "COMMIT"]
    assert tags(raw, "BEGIN; ABORT") == ["BEGIN", "ROLLBACK"]
    assert tags(raw, "RESET TimeZone") == ["RESET"]
    assert tags(raw, "DISCARD ALL") == ["DISCARD ALL"]
    assert tags(raw, "DEALLOCATE ALL") == ["DEALLOCATE ALL"]
    assert tags(raw, "COPY (SELECT id FROM people_released) TO STDOUT") == [f"COPY {PEOPLE}"]


def test_a_long_statement(server: Server, raw: Raw) -> None:
    word = "ü" * (MAX_TEXT // 2 - 20)
    assert raw.ask(query(f"SELECT '{word}' /* {word} */"))[1].row == [word.encode()]
    many = ", ".join(str(number) for number in range(1, 501))
    assert raw.ask(query(f"SELECT count(*) FROM people_released WHERE id IN ({many})"))[1].row == [b"500"]
    longer = raw.kinds(query(f"SELECT 1 /* {word * 100} */"))
    assert longer == ("54001" if server.proxy else "T D C")
    assert raw.kinds(query("SELECT 1")) == "T D C"


# ---- transactions


def test_status_bytes(raw: Raw) -> None:
    steps = [
        ("BEGIN", "C", "T"), ("SELECT 1", "T D C", "T"), ("SELECT nothing", "42703", "E"), ("SELECT 1", "25P02", "E"),
        ("SHOW TimeZone", "25P02", "E"), ("", "I", "E"), ("COMMIT", "C", "I"), ("SELECT 1", "T D C", "I"),
        ("BEGIN", "C", "T"), ("SELECT 1/0 FROM nowhere", "42P01", "E"), ("ROLLBACK", "C", "I"),
        ("COMMIT", "C", "I"), ("ROLLBACK", "C", "I"), ("BEGIN", "C", "T"), ("BEGIN", "C", "T"), ("COMMIT", "C", "I"),
    ]  # fmt: skip
    for sql, kinds, status in steps:
        assert (sql, raw.kinds(query(sql)), raw.status) == (sql, kinds, status)


def test_a_failed_transaction_says_rollback(raw: Raw) -> None:
    raw.ask(query("BEGIN"))
    raw.ask(query("SELECT nothing"))
    assert tags(raw, "COMMIT") == ["ROLLBACK"]


def test_the_failed_part_of_a_string(raw: Raw) -> None:
    """BEGIN inside a string of statements leaves a failed block behind."""
    assert raw.kinds(query("BEGIN; SELECT nothing; COMMIT")) == "C 42703" and raw.status == "E"
    assert raw.kinds(query("ROLLBACK; SELECT 1")) == "C T D C" and raw.status == "I"


def test_the_failed_part_of_a_pipeline(raw: Raw) -> None:
    assert raw.kinds(query("BEGIN")) == "C"
    assert raw.kinds(parse("", "SELECT nothing"), SYNC) == "42703" and raw.status == "E"
    assert raw.kinds(parse("", "SELECT 1"), SYNC) == "25P02"
    assert raw.kinds(parse("", "ROLLBACK"), bind("", ""), execute(), SYNC) == "1 2 C" and raw.status == "I"


def test_savepoints(server: Server, raw: Raw) -> None:
    """Honoured as PostgreSQL does, or refused as a whole."""
    raw.ask(query("BEGIN"))
    first = raw.kinds(query("SAVEPOINT a"))
    if first == "0A000":
        assert server.proxy and raw.status == "E"
        assert raw.kinds(query("ROLLBACK")) == "C"
        return
    assert first == "C"
    assert raw.kinds(query("SELECT nothing")) == "42703" and raw.status == "E"
    assert raw.kinds(query("RELEASE SAVEPOINT a")) == "25P02"
    assert raw.kinds(query("ROLLBACK TO SAVEPOINT a")) == "C" and raw.status == "T"
    assert raw.kinds(query("SELECT 1")) == "T D C"
    assert raw.kinds(query("RELEASE a")) == "C" and raw.status == "T"
    assert raw.kinds(query("ROLLBACK TO a")) == "3B001" and raw.status == "E"
    assert raw.kinds(query("ROLLBACK")) == "C" and raw.status == "I"
    assert raw.kinds(query("SAVEPOINT a")) == "25P01"


# ---- extended queries


def test_the_usual_order(raw: Raw) -> None:
    sql = "SELECT id, name FROM people_released WHERE id = $1"
    got = raw.ask(parse("", sql), describe("S", ""), bind("", "", (b"7",)), describe("P", ""), execute(), SYNC)
    assert "".join(each.kind for each in got) == "1tT2TDC"
    assert got[1].body == struct.pack("!hI", 1, 23)
    assert got[2].columns == [("id", 23, 0), ("name", 25, 0)]
    assert got[5].row == [b"7", b"person 7"]
    assert got[6].body == b"SELECT 1\0"


@pytest.mark.parametrize(
    ("sql", "types"),
    [
        ("SELECT name FROM people_released WHERE id = $1", (23,)),
        ("SELECT id FROM people_released WHERE name = $1", (25,)),
        ("SELECT id FROM people_released WHERE born >= $1 AND height < $2", (1082, 701)),
        ("SELECT id FROM people_released WHERE seen BETWEEN $1 AND $2", (1114, 1114)),
        ("SELECT id FROM people_released WHERE id IN ($1, $2)", (23, 23)),
        ("SELECT id FROM people_released WHERE $1 = id", (23,)),
        ("SELECT id FROM people_released WHERE active = $1", (16,)),
        ("SELECT city FROM cities WHERE population > $1", (20,)),
        ("SELECT id FROM people_released WHERE income < $1", (1700,)),
        ("SELECT id FROM people_released WHERE grade = $1", (21,)),
        ("SELECT id FROM people_released ORDER BY id LIMIT $1 OFFSET $2", (20, 20)),
        ("SELECT id FROM people_released WHERE name LIKE $1", (25,)),
        ("SELECT $1", (25,)),
        ("SELECT $1::uuid, $2::int4 + 1, CAST($3 AS date)", (2950, 23, 1082)),
        ("SELECT $1::int4[], $2::jsonb", (1007, 3802)),
        ("SELECT count(*) FROM visits WHERE cost > $1 AND ward = $2", (701, 25)),
        ("SELECT 1", ()),
    ],
)
def test_types_of_parameters_are_inferred(raw: Raw, sql: str, types: tuple[int, ...]) -> None:
    _, told, columns = raw.ask(parse("", sql), describe("S", ""), SYNC)
    assert told.body == struct.pack(f"!h{len(types)}I", len(types), *types)
    assert columns.kind == "T"


def test_declared_types_are_kept(raw: Raw) -> None:
    sql = "SELECT $1, id FROM people_released WHERE id = $2"
    got = raw.ask(parse("", sql, (20, 0)), describe("S", ""), SYNC)
    assert got[1].body == struct.pack("!h2I", 2, 20, 23)
    assert got[2].columns[0] == ("?column?", 20, 0)


def test_text_for_a_number(raw: Raw) -> None:
    """A parameter without a type is written as text, whatever it is compared with."""
    sql = "SELECT id FROM people_released WHERE id = $1 AND born > $2"
    asked = (parse("", sql), bind("", "", (b"8", b"1950-01-01")), execute(), SYNC)
    assert raw.ask(*asked)[2].row == [b"8"]
    assert raw.kinds(parse("", sql), bind("", "", (b"eight", b"1950-01-01")), execute(), SYNC) == "1 22P02"
    assert raw.kinds(parse("", sql), bind("", "", (b"8", b"1950-13-01")), execute(), SYNC) == "1 22008"
    assert raw.kinds(parse("", sql), bind("", "", (b"abc", b"1"), (1, 0)), execute(), SYNC) in ("1 08P01", "1 22P03")


def test_zones_in_times_without_one(raw: Raw) -> None:
    """pgjdbc writes the zone of its machine after every time and date: it is passed over."""
    sql = "SELECT count(*) FROM people_released WHERE seen < $1 AND born < $2"
    for zone, late in (("", ""), ("+00", " +00"), (" -11:30", " 00:00:00-11:30"), ("+05", "")):
        given = (f"2024-02-29 03:00:00{zone}".encode(), f"1950-01-20{late}".encode())
        assert raw.ask(parse("", sql), bind("", "", given), execute(), SYNC)[2].row == [b"2"], zone
        written = [value.decode() for value in given]
        literals = f"SELECT count(*) FROM people_released WHERE seen < '{written[0]}' AND born < '{written[1]}'"
        assert raw.ask(query(literals))[1].row == [b"2"], zone


def test_null_parameters(raw: Raw) -> None:
    got = raw.ask(parse("", "SELECT $1::int4, $2::text"), bind("", "", (None, None), (), (1,)), execute(), SYNC)
    assert got[2].row == [None, None]


def test_wrong_uses(raw: Raw) -> None:
    one = parse("", "SELECT $1::int4")
    assert raw.kinds(one, bind("", ""), execute(), SYNC) == "1 08P01"  # too few
    assert raw.kinds(one, bind("", "", (b"1", b"2")), execute(), SYNC) == "1 08P01"
    assert raw.kinds(one, bind("", "", (b"1",), (0, 1)), SYNC) == "1 08P01"  # formats for two
    assert raw.kinds(one, bind("", "", (b"1",), (), (0, 0)), SYNC) == "1 08P01"
    assert raw.kinds(one, bind("", "", (b"1",), (2,)), execute(), SYNC) in ("1 22023", "1 08P01")
    assert raw.kinds(bind("", "absent"), SYNC) == "26000"
    assert raw.kinds(describe("S", "absent"), SYNC) == "26000"
    assert raw.kinds(describe("P", "absent"), SYNC) == "34000"
    assert raw.kinds(execute("absent"), SYNC) == "34000"
    assert raw.kinds(close("S", "absent"), close("P", "absent"), SYNC) == "3 3"
    assert raw.kinds(parse("", "SELECT 1; SELECT 2"), SYNC) == "42601"
    assert raw.kinds(parse("", "SELECT 1", (999999,)), SYNC) in ("1", "42704")
    assert raw.kinds(parse("", "SELECT $2::int4"), describe("S", ""), SYNC) == "42P18"
    assert raw.kinds(query("SELECT 1")) == "T D C" and raw.status == "I"


def test_names(raw: Raw) -> None:
    named = parse("s", "SELECT 1")
    assert raw.kinds(named, SYNC) == "1"
    assert raw.kinds(named, SYNC) == "42P05"
    assert raw.kinds(bind("p", "s"), bind("p", "s"), SYNC) == "2 42P03"
    assert raw.kinds(bind("p", "s"), SYNC) == "2"
    assert raw.kinds(execute("p"), SYNC) == "34000"  # it ended with the transaction
    assert raw.kinds(query("BEGIN")) == "C"
    assert raw.kinds(bind("p", "s"), SYNC) == "2"
    assert raw.kinds(execute("p"), close("P", "p"), execute("p"), SYNC) == "D C 3 34000"
    assert raw.kinds(query("ROLLBACK")) == "C"
    assert raw.kinds(close("S", "s"), bind("", "s"), SYNC) == "3 26000"
    assert raw.kinds(named, SYNC) == "1"
    assert raw.kinds(query("DEALLOCATE s")) == "C"
    assert raw.kinds(query("DEALLOCATE s")) == "26000"
    assert raw.kinds(named, query("DISCARD ALL"), SYNC) == "1 C"
    raw.until_ready()
    assert raw.kinds(bind("", "s"), SYNC) == "26000"
    assert raw.kinds(parse("", "SELECT 1"), parse("", "SELECT 2"), bind("", ""), execute(), SYNC) == "1 1 2 D C"


def test_an_empty_statement(raw: Raw) -> None:
    assert raw.kinds(parse("", " -- "), describe("S", ""), bind("", ""), execute(), SYNC) == "1 t n 2 I"


def test_statements_without_rows(raw: Raw) -> None:
    asked = (parse("", "SET TimeZone TO 'UTC'"), describe("S", ""), bind("", ""), describe("P", ""), execute(), SYNC)
    assert raw.kinds(*asked) == "1 t n 2 n C"


def test_an_error_skips_the_rest_of_a_pipeline(raw: Raw) -> None:
    one = (parse("", "SELECT 1"), bind("", ""), execute())
    bad = (parse("", "SELECT $1::int4"), bind("", "", (b"x",)), execute())
    assert raw.kinds(*one, *bad, *one, query("SELECT 5"), SYNC) == "1 2 D C 1 22P02"
    raw.send(*one, SYNC, *bad, SYNC, *one, SYNC)
    assert [len(raw.until_ready()) for _ in range(3)] == [4, 2, 4]


def test_flush(raw: Raw) -> None:
    raw.send(parse("", "SELECT 1"), describe("S", ""), FLUSH)
    assert [raw.reply().kind for _ in range(3)] == ["1", "t", "T"]
    raw.send(bind("", ""), execute(), FLUSH)
    assert [raw.reply().kind for _ in range(3)] == ["2", "D", "C"]
    assert raw.kinds(SYNC) == ""
    raw.send(parse("", "SELECT nothing"), describe("S", ""), FLUSH)  # an error is told at once, too
    assert raw.error()["C"] == "42703"
    raw.send(parse("", "SELECT 1"), FLUSH)  # and the rest is passed over
    assert raw.kinds(SYNC) == "" and raw.status == "I"


def test_portals_with_row_limits(raw: Raw) -> None:
    asked = (parse("", PEOPLE_BY_ID), bind("p", ""), execute("p", 2), execute("p", 3), FLUSH)
    raw.send(*asked)
    got = [raw.reply() for _ in range(9)]
    assert "".join(each.kind for each in got) == "12DDsDDDs"
    raw.send(execute("p"), FLUSH)
    rows = [raw.reply() for _ in range(PEOPLE - 5)]
    assert rows[0].row == [b"6"] and rows[-1].row == [str(PEOPLE).encode()]
    assert raw.reply().body == f"SELECT {PEOPLE - 5}\0".encode()
    assert raw.kinds(execute("p"), SYNC) == "C"


def test_two_portals_at_a_time(raw: Raw) -> None:
    raw.ask(query("BEGIN"))
    second = "SELECT city FROM cities ORDER BY population"
    raw.send(parse("", PEOPLE_BY_ID), bind("a", ""), parse("", second), bind("b", "", (), (), (1,)))
    assert raw.kinds(execute("a", 1), execute("b", 1), execute("a", 1), execute("b"), SYNC) == (
        "1 2 1 2 D s D s D s D D D D C"
    )
    assert raw.kinds(execute("a", 1), query("SELECT 1")) == "D s T D C"
    assert raw.kinds(query("COMMIT")) == "C"
    assert raw.kinds(execute("a", 1), SYNC) == "34000"


def test_results_in_binary(raw: Raw) -> None:
    sql = "SELECT id, name, height, active, grade FROM people_released WHERE id = 3"
    got = raw.ask(parse("", sql), bind("", "", (), (), (1, 0, 1, 1, 1)), describe("P", ""), execute(), SYNC)
    assert [form for _, _, form in got[2].columns] == [1, 0, 1, 1, 1]
    height = 1.5 + 3 / 128
    assert got[3].row == [struct.pack("!i", 3), b"person 3", struct.pack("!d", height), b"\1", struct.pack("!h", 3)]


def test_describe_does_not_execute(server: Server, raw: Raw) -> None:
    before = server.charges()
    asked = (parse("s", server.slow), describe("S", "s"), bind("p", "s"), describe("P", "p"), close("P", "p"))

    def described() -> float:
        started = time.monotonic()
        assert raw.kinds(*asked, close("S", "s"), SYNC) == "1 t T 2 T 3 3"
        return time.monotonic() - started

    soon(2, described)
    assert server.charges() == before


def test_the_function_call_is_no_way_in(raw: Raw) -> None:
    body = struct.pack("!Ihh", 1, 0, 0) + struct.pack("!h", 0)
    assert len(raw.kinds(message(b"F", body))) == 5 and raw.status == "I"


def test_copy_data_out_of_place_is_passed_over(raw: Raw) -> None:
    assert raw.kinds(message(b"d", b"x"), message(b"c"), message(b"f", b"\0"), query("SELECT 1")) == "T D C"


def test_terminate(raw: Raw) -> None:
    raw.send(TERMINATE)
    with pytest.raises(Closed):
        raw.reply()


@pytest.mark.parametrize("bad", [b"?\0\0\0\4", b"Q\0\0\0\3", b"Q\x80\0\0\0", b"\0" * 8])
def test_no_message(server: Server, raw: Raw, bad: bytes) -> None:
    raw.send(bad)
    with pytest.raises(Closed):  # PostgreSQL says nothing where the length is wrong
        error = raw.error()
        assert error["S"] == "FATAL" and error["C"] == "08P01"
        raw.reply()
    with Raw(server.host, server.port) as other:
        assert other.login(server.user, server.password, server.database).kinds(query("SELECT 1")) == "T D C"


@pytest.mark.parametrize(
    "bad",
    [
        message(b"P", b"\0SELECT 1"),
        message(b"P", b"\0SELECT 1\0\0\2\0\0\0\x17"),
        message(b"B", b"\0\0\0\1"),
        message(b"D", b"Xname\0"),
        message(b"C", b"Xname\0"),
        message(b"E", b"\0"),
    ],
)
def test_malformed_bodies(raw: Raw, bad: bytes) -> None:
    """The frame is whole, what is in it is not: the session goes on."""
    assert raw.kinds(parse("", "SELECT 1"), bad, SYNC) == "1 08P01" and raw.status == "I"
    assert raw.kinds(query("SELECT 1")) == "T D C"


# ---- cancel


@pytest.mark.full
def test_cancel(server: Server, raw: Raw) -> None:
    """57014 within 100 ms, and the session goes on."""

    def cancelled(asked: bytes) -> float:
        raw.send(asked)
        time.sleep(0.3)
        raw.socket.settimeout(0.01)
        with pytest.raises(TimeoutError):  # nothing has come yet but what precedes the rows
            while raw.reply().kind in "12":
                pass
        raw.socket.settimeout(10)
        started = time.monotonic()
        cancel(server.host, server.port, raw.process, raw.secret)
        assert raw.error()["C"] == "57014"
        seconds = time.monotonic() - started
        raw.until_ready()
        assert raw.status == "I" and raw.kinds(query("SELECT 1")) == "T D C"
        return seconds

    for asked in (query(server.slow), parse("", server.slow) + bind("", "") + execute() + SYNC):
        soon(0.1, lambda: cancelled(asked))  # noqa: B023


def test_cancel_in_a_transaction(server: Server, raw: Raw) -> None:
    raw.ask(query("BEGIN"))
    raw.send(query(server.slow))
    time.sleep(0.2)
    cancel(server.host, server.port, raw.process, raw.secret)
    assert raw.error()["C"] == "57014"
    raw.until_ready()
    assert raw.status == "E" and raw.kinds(query("SELECT 1")) == "25P02"
    assert raw.kinds(query("ROLLBACK")) == "C"


def test_cancel_needs_the_key(server: Server, raw: Raw) -> None:
    wrong = bytes(byte ^ 1 for byte in raw.secret)
    raw.send(query("SELECT pg_sleep(0.4)" if not server.proxy else server.slow))
    time.sleep(0.1)
    cancel(server.host, server.port, raw.process, wrong)
    cancel(server.host, server.port, raw.process + 100_000, raw.secret)
    time.sleep(0.2)
    if server.proxy:
        cancel(server.host, server.port, raw.process, raw.secret)  # it was still running
        assert raw.error()["C"] == "57014"
        raw.until_ready()
    else:
        assert [got.kind for got in raw.until_ready()] == ["T", "D", "C"]


def test_cancel_of_nothing(server: Server, raw: Raw) -> None:
    cancel(server.host, server.port, raw.process, raw.secret)
    time.sleep(0.1)
    assert raw.kinds(query("SELECT 1")) == "T D C"

# ruff: noqa: E501
"""Every type of the protocol, in text and in binary, both ways.

What is expected was written down from PostgreSQL 15; the test on PostgreSQL proves it anew.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from proxy_servers import Server
from raw_client import SYNC, Raw, bind, describe, execute, parse, query

# type, its oid, a value as a client writes it, the value in text, and in binary
# fmt: off
VALUES = [
    ('int2', 21, '0', '0', '0000'),
    ('int2', 21, '-32768', '-32768', '8000'),
    ('int2', 21, '32767', '32767', '7fff'),
    ('int4', 23, '-2147483648', '-2147483648', '80000000'),
    ('int4', 23, '2147483647', '2147483647', '7fffffff'),
    ('int8', 20, '-9223372036854775808', '-9223372036854775808', '8000000000000000'),
    ('int8', 20, '9223372036854775807', '9223372036854775807', '7fffffffffffffff'),
    ('numeric', 1700, '0', '0', '0000000000000000'),
    ('numeric', 1700, '1.50', '1.50', '000200000000000200011388'),
    ('numeric', 1700, '-1234567890123456789.000000001', '-1234567890123456789.000000001', '0008000440000009007b11d722c509291a850000000003e8'),
    ('numeric', 1700, '1e20', '100000000000000000000', '00010005000000000001'),
    ('numeric', 1700, '0.00001234', '0.00001234', '0001fffe0000000804d2'),
    ('numeric', 1700, 'NaN', 'NaN', '00000000c0000000'),
    ('numeric', 1700, '10000', '10000', '00010001000000000001'),
    ('numeric', 1700, '99999999', '99999999', '0002000100000000270f270f'),
    ('numeric', 1700, 'Infinity', 'Infinity', '00000000d0000020'),
    ('float4', 700, '1.5', '1.5', '3fc00000'),
    ('float4', 700, '-0', '-0', '80000000'),
    ('float4', 700, '3.4028235e+38', '3.4028235e+38', '7f7fffff'),
    ('float4', 700, '1e-45', '1e-45', '00000001'),
    ('float4', 700, 'NaN', 'NaN', '7fc00000'),
    ('float4', 700, 'Infinity', 'Infinity', '7f800000'),
    ('float4', 700, '0.1', '0.1', '3dcccccd'),
    ('float8', 701, '1.5', '1.5', '3ff8000000000000'),
    ('float8', 701, '0.1', '0.1', '3fb999999999999a'),
    ('float8', 701, '1e300', '1e+300', '7e37e43c8800759c'),
    ('float8', 701, '5e-324', '5e-324', '0000000000000001'),
    ('float8', 701, '-Infinity', '-Infinity', 'fff0000000000000'),
    ('float8', 701, '123456789012345680', '1.2345678901234568e+17', '437b69b4ba630f35'),
    ('float8', 701, '1e+15', '1e+15', '430c6bf526340000'),
    ('float8', 701, '1e-05', '1e-05', '3ee4f8b588e368f1'),
    ('float8', 701, '0.0001', '0.0001', '3f1a36e2eb1c432d'),
    ('bool', 16, 'true', 't', '01'),
    ('bool', 16, 'f', 'f', '00'),
    ('bool', 16, 'on', 't', '01'),
    ('text', 25, '', '', ''),
    ('text', 25, 'Ünïcödé ☃', 'Ünïcödé ☃', 'c39c6ec3af63c3b664c3a920e29883'),
    ('text', 25, 'it\'s \\ "q"', 'it\'s \\ "q"', '69742773205c20227122'),
    ('text', 25, 'NULL', 'NULL', '4e554c4c'),
    ('varchar', 1043, '日本', '日本', 'e697a5e69cac'),
    ('varchar(3)', 1043, 'abcdef', 'abc', '616263'),
    ('bpchar', 1042, 'ab ', 'ab ', '616220'),
    ('name', 19, 'Ünï', 'Ünï', 'c39c6ec3af'),
    ('date', 1082, '2000-01-01', '2000-01-01', '00000000'),
    ('date', 1082, '1999-12-31', '1999-12-31', 'ffffffff'),
    ('date', 1082, '0001-01-01', '0001-01-01', 'fff4dbf9'),
    ('date', 1082, '9999-12-31', '9999-12-31', '002c95d3'),
    ('date', 1082, '2024-02-29', '2024-02-29', '00002279'),
    ('date', 1082, 'infinity', 'infinity', '7fffffff'),
    ('date', 1082, '0044-03-15 BC', '0044-03-15 BC', 'fff49d7b'),
    ('time', 1083, '00:00:00', '00:00:00', '0000000000000000'),
    ('time', 1083, '23:59:59.999999', '23:59:59.999999', '000000141dd75fff'),
    ('time', 1083, '24:00:00', '24:00:00', '000000141dd76000'),
    ('time', 1083, '12:34', '12:34:00', '0000000a88839e00'),
    ('timestamp', 1114, '2000-01-01 00:00:00', '2000-01-01 00:00:00', '0000000000000000'),
    ('timestamp', 1114, '1969-07-20 20:17:40.5', '1969-07-20 20:17:40.5', 'fffc96188bb60220'),
    ('timestamp', 1114, '2024-02-29T12:00', '2024-02-29 12:00:00', '0002b582c4781000'),
    ('timestamp', 1114, 'infinity', 'infinity', '7fffffffffffffff'),
    ('timestamptz', 1184, '2024-02-29 12:00:00+02', '2024-02-29 10:00:00+00', '0002b5811750c800'),
    ('timestamptz', 1184, '1900-01-01 00:00:00Z', '1900-01-01 00:00:00+00', 'fff4c9ee7c0b8000'),
    ('timestamptz', 1184, '-infinity', '-infinity', '8000000000000000'),
    ('interval', 1186, '1 year 2 months 3 days 04:05:06.789', '1 year 2 mons 3 days 04:05:06.789', '000000036c97ca88000000030000000e'),
    ('interval', 1186, '-1 days +02:03:04.5', '-1 days +02:03:04.5', '00000001b8268720ffffffff00000000'),
    ('interval', 1186, '00:00:00', '00:00:00', '00000000000000000000000000000000'),
    ('interval', 1186, 'P1Y2M', '1 year 2 mons', '0000000000000000000000000000000e'),
    ('interval', 1186, '-14 months', '-1 years -2 mons', '000000000000000000000000fffffff2'),
    ('interval', 1186, '90 minutes', '01:30:00', '0000000141dd76000000000000000000'),
    ('uuid', 2950, '00112233-4455-6677-8899-AABBCCDDEEFF', '00112233-4455-6677-8899-aabbccddeeff', '00112233445566778899aabbccddeeff'),
    ('bytea', 17, '\\x', '\\x', ''),
    ('bytea', 17, '\\x00ff275c', '\\x00ff275c', '00ff275c'),
    ('json', 114, '{"a": [1, null, "ü"]}', '{"a": [1, null, "ü"]}', '7b2261223a205b312c206e756c6c2c2022c3bc225d7d'),
    ('json', 114, 'null', 'null', '6e756c6c'),
    ('json', 114, ' [1 ]', ' [1 ]', '205b31205d'),
    ('jsonb', 3802, '{"b": 1, "a": [1,null,"ü"]}', '{"a": [1, null, "ü"], "b": 1}', '017b2261223a205b312c206e756c6c2c2022c3bc225d2c202262223a20317d'),
    ('jsonb', 3802, '"x"', '"x"', '01227822'),
    ('int4[]', 1007, '{}', '{}', '000000000000000000000017'),
    ('int4[]', 1007, '{1,NULL,-3}', '{1,NULL,-3}', '00000001000000010000001700000003000000010000000400000001ffffffff00000004fffffffd'),
    ('int4[]', 1007, '{{1,2},{3,4}}', '{{1,2},{3,4}}', '000000020000000000000017000000020000000100000002000000010000000400000001000000040000000200000004000000030000000400000004'),
    ('int8[]', 1016, '{9223372036854775807}', '{9223372036854775807}', '0000000100000000000000140000000100000001000000087fffffffffffffff'),
    ('text[]', 1009, '{a,"b\\"c,","NULL",NULL,""," x",ü}', '{a,"b\\"c,","NULL",NULL,""," x",ü}', '00000001000000010000001900000007000000010000000161000000046222632c000000044e554c4cffffffff0000000000000002207800000002c3bc'),
    ('float8[]', 1022, '{0.1,NaN}', '{0.1,NaN}', '0000000100000000000002bd0000000200000001000000083fb999999999999a000000087ff8000000000000'),
    ('bool[]', 1000, '{t,f,NULL}', '{t,f,NULL}', '000000010000000100000010000000030000000100000001010000000100ffffffff'),
    ('uuid[]', 2951, '{00112233-4455-6677-8899-aabbccddeeff}', '{00112233-4455-6677-8899-aabbccddeeff}', '000000010000000000000b8600000001000000010000001000112233445566778899aabbccddeeff'),
    ('date[]', 1182, '{2024-02-29,NULL}', '{2024-02-29,NULL}', '00000001000000010000043a00000002000000010000000400002279ffffffff'),
    ('numeric[]', 1231, '{1.50,-2}', '{1.50,-2}', '0000000100000000000006a400000002000000010000000c0002000000000002000113880000000a00010000400000000002'),
    ('timestamp[]', 1115, '{"2024-02-29 12:00:00"}', '{"2024-02-29 12:00:00"}', '00000001000000000000045a0000000100000001000000080002b582c4781000'),
    ('oid', 26, '4294967295', '4294967295', 'ffffffff'),
]
# fmt: on


# What the proxy does not have, and says so: its engine has no such value, or no such type.
GAPS = {
    ("date", "infinity"): "22008",
    ("date", "0044-03-15 BC"): "22008",
    ("time", "24:00:00"): "22008",
    ("timestamp", "infinity"): "22008",
    ("timestamptz", "-infinity"): "22008",
}


@pytest.fixture(scope="module")
def raw(server: Server) -> Iterator[Raw]:
    """One connection for all: every test leaves it as it was."""
    with Raw(server.host, server.port) as made:
        yield made.login(server.user, server.password, server.database)


def round_trip(raw: Raw, kind: str, value: bytes | None, given: int, wanted: int) -> tuple[int, bytes | None]:
    """The oid and the value of SELECT $1::type."""
    asked = (parse("", f"SELECT $1::{kind}"), bind("", "", (value,), (given,), (wanted,)), describe("P", ""))
    got = raw.ask(*asked, execute(), SYNC)
    assert "".join(each.kind for each in got) == "12TDC", got[-1].fields if got[-1].kind == "E" else got
    return got[2].columns[0][1], got[3].row[0]


@pytest.mark.full
@pytest.mark.parametrize(
    ("kind", "oid", "written", "text", "binary"), VALUES, ids=[f"{value[0]}-{value[2][:24]}" for value in VALUES]
)
def test_both_ways_in_both_formats(
    server: Server, raw: Raw, kind: str, oid: int, written: str, text: str, binary: str
) -> None:
    if server.proxy and (kind, written) in GAPS:
        for form, value in enumerate((written.encode(), bytes.fromhex(binary))):
            asked = (parse("", f"SELECT $1::{kind}"), bind("", "", (value,), (form,)), execute(), SYNC)
            assert raw.kinds(*asked).split()[-1] == GAPS[kind, written]
        return
    expected = bytes.fromhex(binary)
    assert round_trip(raw, kind, written.encode(), 0, 0) == (oid, text.encode())
    assert round_trip(raw, kind, written.encode(), 0, 1) == (oid, expected)
    assert round_trip(raw, kind, expected, 1, 0) == (oid, text.encode())
    assert round_trip(raw, kind, expected, 1, 1) == (oid, expected)


@pytest.mark.parametrize("kind", sorted({value[0] for value in VALUES}))
def test_null(raw: Raw, kind: str) -> None:
    for given in (0, 1):
        assert round_trip(raw, kind, None, given, 1 - given)[1] is None


@pytest.mark.parametrize(
    ("kind", "written", "sqlstate"),
    [
        ("int2", "40000", "22003"),
        ("int4", "1.5", "22P02"),
        ("int4", "", "22P02"),
        ("int8", "99999999999999999999", "22003"),
        ("numeric", "1,5", "22P02"),
        ("float8", "1e400", "22003"),
        ("bool", "maybe", "22P02"),
        ("date", "2023-02-29", "22008"),
        ("date", "soon", "22007"),
        ("time", "25:00", "22008"),
        ("timestamp", "2024-01-01 99:00", "22008"),
        ("uuid", "0011", "22P02"),
        ("json", "{", "22P02"),
        ("jsonb", "{'a': 1}", "22P02"),
        ("int4[]", "{1,", "22P02"),
        ("interval", "a while", "22007"),
    ],
)
def test_text_that_is_no_value(raw: Raw, kind: str, written: str, sqlstate: str) -> None:
    assert raw.kinds(parse("", f"SELECT $1::{kind}"), bind("", "", (written.encode(),)), execute(), SYNC) == (
        f"1 {sqlstate}"
    )


@pytest.mark.parametrize(
    ("kind", "given", "sqlstate"),
    [
        ("int4", "0000", "08P01"),
        ("int4", "0000000000", "22P03"),
        ("bool", "", "08P01"),
        ("uuid", "00", "08P01"),
        ("numeric", "0001", "08P01"),
        ("float8", "00", "08P01"),
        ("int4[]", "00000001", "08P01"),
        ("int4[]", "0000ffff0000000000000017", "54000"),
        ("text", "ff", "22021"),
        ("text", "6100", "22021"),
        ("json", "7b", "22P02"),
        ("jsonb", "027b7d", "XX000"),
    ],
)
def test_bytes_that_are_no_value(server: Server, raw: Raw, kind: str, given: str, sqlstate: str) -> None:
    value = bytes.fromhex(given)
    got = raw.kinds(parse("", f"SELECT $1::{kind}"), bind("", "", (value,), (1,)), execute(), SYNC)
    assert got.startswith("1 ") and len(got) == 7
    if server.proxy:
        sqlstate = {"08P01": "22P03", "54000": "22P03", "XX000": "22P03"}.get(sqlstate, sqlstate)
        assert got in (f"1 {sqlstate}", "1 08P01", "1 22P03", "1 0A000")
    else:
        assert got == f"1 {sqlstate}"


def test_text_that_is_not_utf8(raw: Raw) -> None:
    for bad in (b"\xff", b"\xc3", b"\xed\xa0\x80", b"a\0b"):
        got = raw.kinds(parse("", "SELECT $1::text"), bind("", "", (bad,)), execute(), SYNC)
        assert got == "1 22021", bad


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT cardinality('{{1,2},{3,4}}'::int4[])",
        "SELECT unnest('{{1,2},{3,4}}'::int4[])",
        "SELECT ARRAY[[1, 2]] = ARRAY[[1, 2]]",
        "SELECT 1 = ANY('{{1,2},{3,4}}'::int4[])",
        "SELECT count(*) FROM pg_class WHERE oid = ANY('{{1},{2}}'::oid[])",
    ],
)
def test_arrays_of_more_dimensions_are_shown_and_not_computed_with(server: Server, raw: Raw, sql: str) -> None:
    """Never answered as if their rows were their elements."""
    assert raw.kinds(query(sql)).split()[-1] == ("0A000" if server.proxy else "C")


def test_values_of_a_table_are_not_looked_for_in_an_array_of_more_dimensions(server: Server, raw: Raw) -> None:
    asked = parse("", "SELECT city FROM cities WHERE city = ANY($1::text[])")
    for value, there in ((b"{Athens}", "1 2 D C"), (b"{{Athens}}", "1 2 0A000" if server.proxy else "1 2 D C")):
        assert raw.kinds(asked, bind("", "", (value,)), execute(), SYNC) == there

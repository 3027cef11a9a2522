"""Values in both wire formats, byte for byte as a real PostgreSQL has them."""

from __future__ import annotations

import datetime as dt
import json
import math
import random
import struct
import uuid
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest
from conftest import examples
from hypothesis import example, given, settings
from hypothesis import strategies as st
from proxy_oracle import Oracle, Refusal, oracle

from sqlanon.pgwire import types
from sqlanon.pgwire.frontend import ProtocolError
from sqlanon.pgwire.types import PgType, by_oid, decode, encode

psycopg = pytest.importorskip("psycopg", reason="needs the package psycopg")


@pytest.fixture(scope="module")
def server(postgres_url: str) -> Iterator[Oracle]:
    with oracle(postgres_url) as made:
        yield made


# Text that PostgreSQL reads, in the spellings that clients send.
LITERALS: dict[PgType, str] = {
    types.BOOL: "t|true|TRUE| yes |y|on|1|f|fal|no|of|OFF|0",
    types.INT2: "0|-32768| 32767 |+5|007",
    types.INT4: "0|-2147483648|2147483647\n",
    types.INT8: "0|-9223372036854775808|9223372036854775807",
    types.OID: "0|4294967295",
    types.XID: "0|4294967295",
    types.NUMERIC: "0|0.00|-0|1|-1|10000|99999999|1.10|0.0001|0.00010|-0.000100010|123456789.987654321|1e5|1E-7|.5|5.|"
    "12345678901234567890123456789.12345678901234567890|NaN|nan|Infinity|-inf|+Infinity|1e-100|1e100|0e5|0e-5|"
    "9999.9999|00012.300|100000000|1e131071",
    types.FLOAT8: "0|-0|1|1.5|1e15|1e14|123456789012345|1e23|1e22|5e-324|1.7976931348623157e308|0.0001|0.00001|1e-5|"
    "2.2250738585072014e-308|NaN|Infinity|-inf|.1|1.|1E+20|9007199254740993|0.1|5.6843418860808015e-14|0e999",
    types.FLOAT4: "0|-0|1|0.1|1e6|123456|1234567|16777216|1e-5|1e-4|3.4028235e38|1e-45|NaN|-Infinity|1e10",
    types.TEXT: "|a|é 𝄞|null|tab\there|it's|\\",
    types.VARCHAR: "|x y",
    types.BPCHAR: "x",
    types.NAME: "pg_class|",
    types.CHAR: "r||rest",
    types.DATE: "2000-01-01|1970-01-01|0001-01-01|9999-12-31|2024-02-29|20240229|2020-1-2|2020-01-01 +00|"
    "2020-01-01 10:00:00| 2020-01-01 ",
    types.TIME: "00:00:00|23:59:59.999999|10:00|10:00:00.5|1:02:03.1234567|10:00:00+02|22:59:60",
    types.TIMESTAMP: "2000-01-01 00:00:00|1999-12-31 23:59:59.999999|0001-01-01 00:00:00|2020-01-01|"
    "2020-01-01T10:00:00|2020-01-01 10:00:00.12|2020-01-01 10:00:00+05|2020-01-01 24:00:00|2020-01-01 10:00:00.0000005|"
    "2020-06-30 23:59:60|9999-12-31 23:59:59.999999|2020-01-01T10:00:00Z",
    types.TIMESTAMPTZ: "2000-01-01 00:00:00+00|2020-01-01 10:00:00|2020-01-01 10:00:00+05:30|2020-01-01T10:00:00Z|"
    "2020-01-01 10:00:00-0330|2020-01-01 10:00:00.5 UTC|2020-01-01 10:00:00+01:02:03|2020-01-01 10:00:00 -8|"
    "9999-12-31 23:59:59.999999+00",
    types.INTERVAL: "0|1 day|-1 days|1 mon|1 year 2 mons 3 days 04:05:06.789|-1 years +2 mons -3 days|00:00:00.000001|"
    "-00:00:01|1 day -00:00:01|-1 day +00:00:01|100:00:00|P1Y2M3DT4H5M6.5S|PT-1S|P1W|1 day, 2:03:04|-1 day, 23:59:59|"
    "@ 1 hour 2 mins ago|1.5 days|2.5 months|1.5 years|0 years 0 mons 1 days 2 hours 3 mins 4.5 secs|3 weeks|10|"
    "1 d 2h 3m 4s|1.5 hours|-1.25 mons|1 decade 2 centuries|5 ms 7 us|+1 year -1 day|178956970 years 7 mons|24:00:00",
    types.UUID: "00000000-0000-0000-0000-000000000000|A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11|"
    "{a0eebc99-9c0b4ef8-bb6d6bb9-bd380a11}|a0eebc999c0b4ef8bb6d6bb9bd380a11",
    types.BYTEA: "|\\x|\\x00ff|\\xDE AD|abc|a\\\\b|\\000\\377|é",
    types.JSON: '{}|{"a": [1, 2.50, null, "é"]}| 1 |"x"|1e400',
    types.JSONB: '{}|[1, 2.50]|"x"|null',
    types.REGCLASS: "0",
    types.REGTYPE: "0",
    types.REGPROC: "0",
    types.INT2VECTOR: "|1|1 2 -3",
    types.OIDVECTOR: "|26 4294967295",
}
# Text that PostgreSQL does not read, and neither do we; the code is PostgreSQL's own.
WRONG: dict[PgType, str] = {
    types.BOOL: "|o|truee|2|tt|t f",
    types.INT2: "|32768|-32769|1.0|1e1|a|1 2|-|--1|٣",
    types.INT4: "2147483648|99999999999999999999999999",
    types.INT8: "9223372036854775808|" + "1" * 5000,
    types.OID: "x|",
    types.NUMERIC: "|1e|e1|.|1.2.3|1 2|--1|infinit|1e999999|1e-20000|0x|1__0",
    types.FLOAT8: "|1e400|1e-400|x|1.2.3|-|.",
    types.FLOAT4: "1e39|1e-50|nanx",
    types.DATE: "|x|2020-02-30|2020-13-01|2020-01|2020-01-01 25:00|2020-01-01x",
    types.TIME: "|x|25:00|10:60|10:00:61|24:00:01",
    types.TIMESTAMP: "|2020-02-30 00:00:00|2020-01-01 10:61|2020-01-01 10|hello",
    types.INTERVAL: "|1 foo|day|P|1:2:3:4|ago|999999999999 days",
    types.UUID: "|x|a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a1|{a0eebc999c0b4ef8bb6d6bb9bd380a11|a0eebc99--9c0b4ef8",
    types.BYTEA: "\\|\\9|\\400|a\\b",
    types.JSON: "|{|NaN|{a:1}|01|'x'",
    types.JSONB: "|[1,]",
    types.INT2VECTOR: "x|1,2",
}
BASES = list(LITERALS)


def ids(type: PgType) -> str:
    return type.name


def quoted_name(type: PgType) -> str:
    return f'"{type.name}"' if type == types.CHAR else type.name


@pytest.mark.parametrize("type", BASES, ids=ids)
def test_literals_are_read_and_written_as_postgresql_does(server: Oracle, type: PgType) -> None:
    for text in LITERALS[type].split("|"):
        value = decode(type, 0, text.encode())
        assert encode(type, 1, value) == server.cast(text, quoted_name(type), 1), text
        if type != types.JSONB:  # which PostgreSQL writes anew
            assert encode(type, 0, value) == server.cast(text, quoted_name(type), 0), text
        binary = server.cast(text, quoted_name(type), 1)
        assert encode(type, 1, decode(type, 1, binary)) == binary, text


@pytest.mark.parametrize("type", list(WRONG), ids=ids)
def test_wrong_text_has_postgresqls_own_code(server: Oracle, type: PgType) -> None:
    for text in WRONG[type].split("|"):
        with pytest.raises(Refusal) as theirs:
            server.cast(text, quoted_name(type), 1)
        with pytest.raises(ProtocolError) as ours:
            decode(type, 0, text.encode())
        assert ours.value.sqlstate == theirs.value.sqlstate, text
        assert not ours.value.fatal and (len(text) < 2 or text not in ours.value.message)


@pytest.mark.parametrize(
    ("type", "text", "sqlstate"),
    [
        (types.DATE, "infinity", "22008"),
        (types.DATE, "0044-03-15 BC", "22008"),
        (types.DATE, "10000-01-01", "22008"),
        (types.TIMESTAMP, "-infinity", "22008"),
        (types.TIMESTAMPTZ, "9999-12-31 23:59:59-01", "22008"),
        (types.TIME, "24:00:00", "22008"),
        (types.TIME, "23:59:60", "22008"),
        (types.TIMESTAMPTZ, "2020-01-01 10:00:00+99", "22008"),
        (types.BYTEA, "\\x0", "22P02"),
        (types.TIMESTAMP, "now", "22007"),
        (types.DATE, "1/8/1999", "22007"),
        (types.TIMESTAMPTZ, "2020-01-01 10:00 Europe/Vienna", "22007"),
        (types.INT4_ARRAY, "[0:1]={1,2}", "0A000"),
    ],
)
def test_what_postgresql_reads_and_we_refuse(type: PgType, text: str, sqlstate: str) -> None:
    with pytest.raises(ProtocolError) as refused:
        decode(type, 0, text.encode())
    assert refused.value.sqlstate == sqlstate


def test_types_have_the_numbers_of_the_catalog(server: Oracle) -> None:
    found = server.ask("SELECT oid, typname, typlen, typarray, typelem FROM pg_type")
    catalog = {int(row[0] or 0): row for row in found}
    for type in types.KNOWN:
        _, name, size, array, element = (each or b"" for each in catalog[type.oid])
        assert type.name == name.decode()
        assert type.size == int(size) or type == types.ACLITEM  # longer since version 16
        assert type.array_oid == (0 if type.element else int(array))
        assert type.element is None or type.element.oid == int(element)


def test_an_unknown_type_is_refused() -> None:
    with pytest.raises(ProtocolError) as refused:
        by_oid(3904)  # int4range
    assert refused.value.sqlstate == "42704"


# -- properties: what we write, PostgreSQL reads, and writes again as we do

texts = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))
instants = st.datetimes(min_value=dt.datetime(1, 1, 1), max_value=dt.datetime(9999, 12, 31, 23, 59, 59, 999999))
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**6), 10**6) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)
months = st.integers(-(2**31) + 1, 2**31 - 1)
intervals = st.tuples(
    months.filter(bool), st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63) + 1, 2**63 - 1).map(lambda n: n * 1000)
)


@st.composite
def numerics(draw: st.DrawFn) -> Decimal:
    digits = draw(st.integers(0, 60).flatmap(lambda size: st.integers(0, 10**size)))
    sign = draw(st.sampled_from([0, 1])) if digits else 0
    return Decimal((sign, tuple(map(int, str(digits))), draw(st.integers(-70, 60))))


def powers(low: int, high: int) -> st.SearchStrategy[float]:
    """Powers of two: their neighbours below are nearer than those above."""
    return st.integers(low, high).map(lambda exponent: 2.0**exponent)


VALUES: dict[PgType, st.SearchStrategy[Any]] = {
    types.BOOL: st.booleans(),
    types.INT2: st.integers(-(2**15), 2**15 - 1),
    types.INT4: st.integers(-(2**31), 2**31 - 1),
    types.INT8: st.integers(-(2**63), 2**63 - 1),
    types.OID: st.integers(0, 2**32 - 1),
    types.NUMERIC: numerics() | st.decimals(allow_nan=True, allow_infinity=True, places=4),
    types.FLOAT8: st.floats() | st.integers(-(10**30), 10**30).map(float) | powers(-1074, 1023),
    types.FLOAT4: st.floats(width=32) | powers(-149, 127),
    types.TEXT: texts,
    types.VARCHAR: texts,
    types.DATE: st.dates(),
    types.TIME: st.times(),
    types.TIMESTAMP: instants,
    types.TIMESTAMPTZ: instants.map(lambda value: value.replace(tzinfo=dt.UTC)),
    types.INTERVAL: intervals | st.timedeltas(dt.timedelta(days=-(10**6)), dt.timedelta(days=10**6)),
    types.UUID: st.uuids(),
    types.BYTEA: st.binary(),
    types.JSON: json_values.map(lambda value: json.dumps(value, ensure_ascii=False)),
}


@pytest.mark.parametrize("type", list(VALUES), ids=ids)
def test_both_formats_of_any_value_are_postgresqls(server: Oracle, type: PgType) -> None:
    @settings(max_examples=examples(150))
    @given(VALUES[type])
    def check(value: Any) -> None:
        text, binary = encode(type, 0, value), encode(type, 1, value)
        assert text is not None and binary is not None
        assert server.through(binary, type.oid, 1, 0) == text
        if isinstance(value, float) and math.isnan(value):  # of which there are many, with one text
            return
        assert server.through(text, type.oid, 0, 1) == binary
        assert encode(type, 1, decode(type, 0, text)) == binary
        assert encode(type, 1, decode(type, 1, binary)) == binary

    check()


ARRAYS = [type for type in VALUES if type.array_oid]


@pytest.mark.parametrize("type", ARRAYS, ids=ids)
def test_arrays_are_postgresqls(server: Oracle, type: PgType) -> None:
    array = types.array_of(type)

    @settings(max_examples=examples(60))
    @given(st.lists(st.none() | VALUES[type], max_size=5))
    @example([])
    @example([None])
    def check(values: list[Any]) -> None:
        text, binary = encode(array, 0, values), encode(array, 1, values)
        assert text is not None and binary is not None
        assert server.through(binary, array.oid, 1, 0) == text
        if any(isinstance(each, float) and math.isnan(each) for each in values):
            return
        assert server.through(text, array.oid, 0, 1) == binary
        assert [each is None for each in decode(array, 0, text)] == [each is None for each in values]
        assert encode(array, 1, decode(array, 0, text)) == binary
        assert encode(array, 1, decode(array, 1, binary)) == binary

    check()


@settings(max_examples=examples(300))
@given(texts | st.text('{},"\\ NULnul\tab'))
def test_array_literals_are_read_as_postgresql_reads_them(server: Oracle, inside: str) -> None:
    text = f"{{{inside}}}"
    try:
        theirs = server.cast(text, "text[]", 1)
    except Refusal as refusal:
        theirs, code = None, refusal.sqlstate
    try:
        ours = encode(types.TEXT_ARRAY, 1, decode(types.TEXT_ARRAY, 0, text.encode()))
    except ProtocolError as error:
        assert theirs is None and error.sqlstate == code
    else:
        assert ours == theirs


@pytest.mark.parametrize("shape", [[[1, 2], [3, None]], [[[1], [2]]], [[], []], [[1]]])
def test_nested_lists_are_written_as_boxes(server: Oracle, shape: list[Any]) -> None:
    text, binary = encode(types.INT4_ARRAY, 0, shape), encode(types.INT4_ARRAY, 1, shape)
    assert text is not None and binary is not None
    assert server.through(binary, types.INT4_ARRAY.oid, 1, 0) == text
    assert server.through(text, types.INT4_ARRAY.oid, 0, 1) == binary
    read = shape if shape[0] else []
    assert decode(types.INT4_ARRAY, 0, text) == decode(types.INT4_ARRAY, 1, binary) == read


@pytest.mark.parametrize("ragged", [[[1], [2, 3]], [[1], None], [[1], 2]])
def test_ragged_lists_are_refused(ragged: list[Any]) -> None:
    with pytest.raises(ProtocolError):
        encode(types.INT4_ARRAY, 0, ragged)


def same(left: Any, right: Any) -> bool:
    if isinstance(left, float | Decimal) and math.isnan(left):
        return math.isnan(right)
    return bool(left == right)


PSYCOPG = [type for type in VALUES if type not in (types.INTERVAL, types.JSON)]


@pytest.mark.parametrize("type", PSYCOPG, ids=ids)
def test_psycopg_reads_what_we_write_and_we_read_what_it_writes(type: PgType) -> None:
    """Two readers that know nothing of each other."""
    transformer = psycopg.adapt.Transformer()

    @settings(max_examples=examples(60))
    @given(VALUES[type])
    def check(value: Any) -> None:
        for form in (0, 1):
            data = encode(type, form, value)
            loader = transformer.get_loader(type.oid, form)
            want = decode(type, form, data)
            loaded = loader.load(data)
            if type == types.FLOAT4:
                (loaded,) = struct.unpack("f", struct.pack("f", loaded))
            assert same(want, loaded)
        if type in (types.TIMESTAMP, types.TIMESTAMPTZ, types.DATE, types.UUID, types.BOOL, types.TEXT):
            for form in (psycopg.adapt.PyFormat.TEXT, psycopg.adapt.PyFormat.BINARY):
                dumper = transformer.get_dumper(value, form)
                dumped = bytes(dumper.dump(value))
                assert decode(type, int(form == psycopg.adapt.PyFormat.BINARY), dumped) == value

    check()


# -- refusals

BINARY_WRONG: list[tuple[PgType, bytes]] = [
    (types.BOOL, b""),
    (types.BOOL, b"\0\0"),
    (types.INT2, b"\0"),
    (types.INT4, bytes(5)),
    (types.INT8, bytes(7)),
    (types.FLOAT8, bytes(4)),
    (types.DATE, bytes(3)),
    (types.TIMESTAMP, bytes(4)),
    (types.UUID, bytes(15)),
    (types.NUMERIC, bytes(7)),
    (types.NUMERIC, struct.pack(">HhHH", 1, 0, 0, 0)),
    (types.NUMERIC, struct.pack(">HhHHH", 1, 0, 0, 0, 10000)),
    (types.NUMERIC, struct.pack(">HhHH", 0, 0, 1, 0)),
    (types.JSONB, b"\x02{}"),
    (types.INT4_ARRAY, bytes(11)),
    (types.INT4_ARRAY, struct.pack(">iiIii", 1, 0, 23, 2**31 - 1, 1)),
    (types.INT4_ARRAY, struct.pack(">iiIii", 1, 0, 23, 1, 1) + struct.pack(">i", 2**31 - 1)),
    (types.INT4_ARRAY, struct.pack(">iiIii", 1, 0, 23, 1, 1) + struct.pack(">i", -2)),
    (types.INT4_ARRAY, struct.pack(">iiIii", 1, 0, 23, 1, 1) + struct.pack(">ii", 4, 1) + b"x"),
    (types.INT4_ARRAY, struct.pack(">iiIii", 1, 0, 25, 0, 1)),
    (types.INT4_ARRAY, struct.pack(">iii", -1, 0, 23)),
    (types.INTERVAL, bytes(15)),
    (types.CHAR, b"ab"),
]


@pytest.mark.parametrize(("type", "data"), BINARY_WRONG)
def test_wrong_binary_is_refused(server: Oracle, type: PgType, data: bytes) -> None:
    with pytest.raises(ProtocolError) as refused:
        decode(type, 1, data)
    assert refused.value.sqlstate == "22P03"
    with pytest.raises(Refusal):
        server.through(data, type.oid, 1, 0)


@pytest.mark.parametrize("type", [types.TEXT, types.JSON, types.INT4, types.TEXT_ARRAY], ids=ids)
@pytest.mark.parametrize("data", [b"\xff", b"a\0b", b"\xed\xa0\x80", b"\xc0\x80"])
def test_what_is_no_utf8_is_refused(type: PgType, data: bytes) -> None:
    forms = (0, 1) if type in (types.TEXT, types.JSON) else (0,)
    for form in forms:
        with pytest.raises(ProtocolError) as refused:
            decode(type, form, data)
        assert refused.value.sqlstate == "22021"


@settings(max_examples=examples(1500))
@given(st.sampled_from(types.KNOWN), st.sampled_from([0, 1]), st.binary(max_size=60))
def test_no_bytes_raise_anything_else(type: PgType, form: int, data: bytes) -> None:
    try:
        decode(type, form, data)
    except ProtocolError as error:
        assert len(error.sqlstate) == 5 and not error.fatal


@settings(max_examples=examples(1000))
@given(st.data())
def test_bytes_that_are_nearly_right_raise_nothing_else(data: st.DataObject) -> None:
    type = data.draw(st.sampled_from(ARRAYS))
    array = data.draw(st.booleans())
    form = data.draw(st.sampled_from([0, 1]))
    value = data.draw(st.lists(VALUES[type], max_size=3) if array else VALUES[type])
    kind = types.array_of(type) if array else type
    valid = bytearray(encode(kind, form, value) or b"")
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(valid)))
        valid[at : at + data.draw(st.integers(0, 2))] = data.draw(st.binary(max_size=3))
    try:
        decode(kind, form, bytes(valid))
    except ProtocolError as error:
        assert len(error.sqlstate) == 5 and not error.fatal


def test_a_hostile_text_is_refused_at_once() -> None:
    size = 50_000
    hostile = ["{" * size, "{" + '"' * size, "{" + "\\" * size, "[" * size, "1" * size, "-" * size, " " * size]
    hostile += ["9" * size + "e9", "0." + "0" * size, "1e" + "0" * size + "1", '{"a":' * size, "1 " * size]
    hostile += ["P" + "1Y" * size, "1:" * size, "1 day " * size]
    for text in hostile:
        for type in types.KNOWN:
            try:
                decode(type, 0, text.encode())
            except ProtocolError:
                continue


@pytest.mark.parametrize(
    ("type", "value"),
    [
        (types.INT4, "7"),
        (types.INT4, 2**31),
        (types.TEXT, 7),
        (types.TEXT, "a\0b"),
        (types.DATE, 7),
        (types.NUMERIC, "7"),
        (types.BYTEA, "x"),
        (types.TIMESTAMP, dt.datetime(2020, 1, 1, tzinfo=dt.UTC)),
        (types.JSON, float("nan")),
        (types.INTERVAL, (1, 2)),
        (types.INTERVAL, (2**31, 0, 0)),
        (types.REGCLASS, 2**32),
        (types.NUMERIC, Decimal("1e200000")),
    ],
)
def test_a_value_of_another_kind_is_not_written(type: PgType, value: Any) -> None:
    with pytest.raises(ProtocolError) as refused:
        encode(type, 1, value)
    assert refused.value.sqlstate in ("42804", "22003", "22015")


def test_names_of_objects_have_no_binary_form_here() -> None:
    assert encode(types.REGTYPE, 0, "integer") == b"integer"
    assert encode(types.REGTYPE, 0, 0) == b"-"
    assert encode(types.REGTYPE, 1, 23) == bytes([0, 0, 0, 23])
    with pytest.raises(ProtocolError) as refused:
        encode(types.REGTYPE, 1, "integer")
    assert refused.value.sqlstate == "0A000"


def test_null_is_none_in_both_directions() -> None:
    for type in types.KNOWN:
        assert decode(type, 0, None) is None and decode(type, 1, None) is None
        assert encode(type, 0, None) is None and encode(type, 1, None) is None


def test_uuids_come_as_text_too() -> None:
    value = uuid.UUID("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11")
    assert encode(types.UUID, 1, str(value)) == encode(types.UUID, 1, value.bytes) == value.bytes


@pytest.mark.parametrize(("type", "form"), [(types.FLOAT8, "d"), (types.FLOAT4, "f")], ids=["float8", "float4"])
def test_floats_digit_for_digit(server: Oracle, type: PgType, form: str) -> None:
    """All powers of two and ten, and floats of all sizes: those halfway between decimals, and decimals between them."""
    chance = random.Random(15)
    low, high, bits, digits = (-1074, 1024, 54, 17) if form == "d" else (-149, 128, 25, 9)
    wanted = [2.0**power for power in range(low, high)]
    wanted += [float(f"{first}e{power}") for power in range(-300, 300) for first in (1, 5) if form == "d"]
    wanted += [struct.unpack(form, chance.randbytes(struct.calcsize(form)))[0] for _ in range(5_000)]
    wanted += [chance.getrandbits(chance.randint(1, bits)) * 2.0 ** chance.randint(-30, 40) for _ in range(10_000)]
    wanted += [
        float(f"{chance.randint(1, 10 ** chance.randint(1, digits))}e{chance.randint(-15, 15)}") for _ in range(10_000)
    ]
    values = [struct.unpack(form, struct.pack(form, each))[0] for each in wanted]
    array = types.array_of(type)
    sent = server.ask("SELECT unnest($1)", [encode(array, 1, values)], [array.oid], [1], 0)
    assert [encode(type, 0, value) for value in values] == [row[0] for row in sent]

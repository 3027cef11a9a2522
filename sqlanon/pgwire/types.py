"""PostgreSQL's types as clients meet them: their numbers, and values from and to both wire formats."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

from sqlanon.pgwire.codecs import Codec, NotOffered, jsons, numbers, strings
from sqlanon.pgwire.codecs.arrays import array
from sqlanon.pgwire.codecs.intervals import INTERVALS
from sqlanon.pgwire.codecs.times import DATES, TIMES, TIMESTAMPS
from sqlanon.pgwire.codecs.times import TIMESTAMPTZ as INSTANTS
from sqlanon.pgwire.frontend import ProtocolError


@dataclass(frozen=True)
class PgType:
    """A type; `size` is in bytes, -1 if it varies. `element` is the type of what an array holds."""

    name: str
    oid: int
    size: int
    array_oid: int = 0
    element: PgType | None = None


_known: dict[int, PgType] = {}
_codecs: dict[int, Codec] = {}


def _type(name: str, oid: int, size: int, array_oid: int, codec: Codec) -> PgType:
    made = PgType(name, oid, size, array_oid)
    _known[oid], _codecs[oid] = made, codec
    if array_oid:
        _known[array_oid] = PgType(f"_{name}", array_oid, -1, 0, made)
        _codecs[array_oid] = array(codec, oid)
    return made


BOOL = _type("bool", 16, 1, 1000, numbers.BOOL)
BYTEA = _type("bytea", 17, -1, 1001, strings.BYTEA)
CHAR = _type("char", 18, 1, 1002, strings.CHAR)
NAME = _type("name", 19, 64, 1003, strings.TEXT)
INT8 = _type("int8", 20, 8, 1016, numbers.integer(">q"))
INT2 = _type("int2", 21, 2, 1005, numbers.integer(">h"))
INT2VECTOR = _type("int2vector", 22, -1, 1006, strings.vector(numbers.integer(">h"), 21))
INT4 = _type("int4", 23, 4, 1007, numbers.integer(">i"))
REGPROC = _type("regproc", 24, 4, 1008, strings.OBJECT)
TEXT = _type("text", 25, -1, 1009, strings.TEXT)
OID = _type("oid", 26, 4, 1028, numbers.integer(">I"))
XID = _type("xid", 28, 4, 1011, numbers.integer(">I"))
CID = _type("cid", 29, 4, 1012, numbers.integer(">I"))
OIDVECTOR = _type("oidvector", 30, -1, 1013, strings.vector(numbers.integer(">I"), 26))
JSON = _type("json", 114, -1, 199, jsons.JSON)
PG_NODE_TREE = _type("pg_node_tree", 194, -1, 0, strings.TEXT)
FLOAT4 = _type("float4", 700, 4, 1021, numbers.FLOAT4)
FLOAT8 = _type("float8", 701, 8, 1022, numbers.FLOAT8)
UNKNOWN = _type("unknown", 705, -2, 0, strings.TEXT)
ACLITEM = _type("aclitem", 1033, 12, 1034, strings.TEXT_ALONE)
BPCHAR = _type("bpchar", 1042, -1, 1014, strings.TEXT)
VARCHAR = _type("varchar", 1043, -1, 1015, strings.TEXT)
DATE = _type("date", 1082, 4, 1182, DATES)
TIME = _type("time", 1083, 8, 1183, TIMES)
TIMESTAMP = _type("timestamp", 1114, 8, 1115, TIMESTAMPS)
TIMESTAMPTZ = _type("timestamptz", 1184, 8, 1185, INSTANTS)
INTERVAL = _type("interval", 1186, 16, 1187, INTERVALS)
NUMERIC = _type("numeric", 1700, -1, 1231, numbers.NUMERIC)
REGPROCEDURE = _type("regprocedure", 2202, 4, 2207, strings.OBJECT)
REGCLASS = _type("regclass", 2205, 4, 2210, strings.OBJECT)
REGTYPE = _type("regtype", 2206, 4, 2211, strings.OBJECT)
CSTRING = _type("cstring", 2275, -2, 1263, strings.TEXT)
ANYARRAY = _type("anyarray", 2277, -1, 0, strings.TEXT_ALONE)
VOID = _type("void", 2278, 4, 0, strings.VOID)
UUID = _type("uuid", 2950, 16, 2951, strings.UUID)
PG_LSN = _type("pg_lsn", 3220, 8, 3221, strings.TEXT_ALONE)
JSONB = _type("jsonb", 3802, -1, 3807, jsons.JSONB)
REGNAMESPACE = _type("regnamespace", 4089, 4, 4090, strings.OBJECT)
REGROLE = _type("regrole", 4096, 4, 4097, strings.OBJECT)
XID8 = _type("xid8", 5069, 8, 271, numbers.integer(">Q"))


def by_oid(oid: int) -> PgType:
    """
    >>> by_oid(23).name, by_oid(1009).element == TEXT
    ('int4', True)
    """
    if oid not in _known:
        raise ProtocolError("42704", f"type with OID {oid} is not known here")
    return _known[oid]


def array_of(element: PgType) -> PgType:
    return by_oid(element.array_oid)


BOOL_ARRAY, BYTEA_ARRAY, INT2_ARRAY, INT4_ARRAY, INT8_ARRAY = map(array_of, (BOOL, BYTEA, INT2, INT4, INT8))
FLOAT4_ARRAY, FLOAT8_ARRAY, NUMERIC_ARRAY, UUID_ARRAY = map(array_of, (FLOAT4, FLOAT8, NUMERIC, UUID))
CHAR_ARRAY, NAME_ARRAY, TEXT_ARRAY, VARCHAR_ARRAY, BPCHAR_ARRAY = map(array_of, (CHAR, NAME, TEXT, VARCHAR, BPCHAR))
DATE_ARRAY, TIME_ARRAY, TIMESTAMP_ARRAY, TIMESTAMPTZ_ARRAY = map(array_of, (DATE, TIME, TIMESTAMP, TIMESTAMPTZ))
INTERVAL_ARRAY, OID_ARRAY, JSON_ARRAY, JSONB_ARRAY, ACLITEM_ARRAY = map(array_of, (INTERVAL, OID, JSON, JSONB, ACLITEM))
KNOWN: tuple[PgType, ...] = tuple(_known.values())


def decode(type: PgType, format: int, data: bytes | None) -> Any:
    """The Python value of a parameter; None is NULL.

    >>> decode(INT4, 0, b" 42"), decode(INT4, 1, bytes([0, 0, 0, 42])), decode(TEXT_ARRAY, 0, b'{a,NULL,"b c"}')
    (42, 42, ['a', None, 'b c'])
    """
    if data is None:
        return None
    codec = _codecs[type.oid]
    try:
        return codec.read_binary(data) if format else codec.read_text(strings.utf8(data))
    except strings.NotUtf8:
        raise ProtocolError("22021", 'invalid byte sequence for encoding "UTF8"') from None
    except jsons.NoCharacter:
        raise ProtocolError("22P05", "unsupported Unicode escape sequence") from None
    except OverflowError:
        raise ProtocolError(codec.out_of_range, f"a value is out of range for type {type.name}") from None
    except NotOffered:
        raise ProtocolError("0A000", f"this form of type {type.name} is not read", hint=_offered(type)) from None
    except (ValueError, struct.error):
        if format:
            raise ProtocolError("22P03", f"incorrect binary data format for type {type.name}") from None
        raise ProtocolError(codec.malformed, f"invalid input syntax for type {type.name}") from None


def encode(type: PgType, format: int, value: Any) -> bytes | None:
    """The bytes of a value in one cell of a result; NULL is None.

    >>> encode(BOOL, 0, True), encode(BOOL, 1, True), encode(TEXT_ARRAY, 0, ["a", None, ""])
    (b't', b'\\x01', b'{a,NULL,""}')
    """
    if value is None:
        return None
    codec = _codecs[type.oid]
    try:
        return codec.write_binary(value) if format else codec.write_text(value).encode()
    except OverflowError:
        raise ProtocolError(codec.out_of_range, f"a value is out of range for type {type.name}") from None
    except NotOffered:
        raise ProtocolError("0A000", f"type {type.name} is not sent in this format", hint=_offered(type)) from None
    except (ValueError, TypeError, RecursionError, struct.error):
        raise ProtocolError("42804", f"a value cannot be written as type {type.name}") from None


def _offered(type: PgType) -> str:
    return "Use an array whose elements are counted from 1." if type.element else "Use the text format."

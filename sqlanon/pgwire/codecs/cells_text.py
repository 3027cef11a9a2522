"""Columns of Arrow as PostgreSQL's text."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlanon.pgwire import types
from sqlanon.pgwire.codecs.cells import (
    CELL,
    HELD,
    OBJECTS,
    TEXTS,
    Mask,
    Whole,
    cast_array,
    cells,
    fixed_width_cells,
    group_cells,
    inside,
    is_list,
    is_text,
    join_cells,
    list_offsets,
    nulls,
    one_by_one,
    rewrite_cells,
    where_valid,
    whole,
)
from sqlanon.pgwire.codecs.floats import float4, float8
from sqlanon.pgwire.codecs.intervals import write as interval
from sqlanon.pgwire.types import PgType

HEX = np.frombuffer(b"0123456789abcdef", np.uint8)
PAIRS = np.stack([np.repeat(HEX, 16), np.tile(HEX, 16)], axis=1)
# Days of 0001-01-01 and 9999-12-31 since 1970: between them Arrow writes dates as PostgreSQL does.
FIRST_DAY, LAST_DAY = -719162, 2932896
DAY = 86_400_000_000
NEEDS_QUOTES = '(?i)^$|^null$|[ \\t\\n\\r\\x0b\\x0c"\\\\{},]'


def text_cells(array: pa.Array, type: PgType) -> pa.Array:
    kind = array.type
    if pa.types.is_dictionary(kind):
        return text_cells(array.dictionary, type).take(array.indices)
    if isinstance(array, pa.ExtensionArray):
        return text_cells(array.storage, type)
    if pa.types.is_null(kind):
        return pa.nulls(len(array), CELL)
    if type.element and is_list(kind) and not is_list(kind.value_type):
        return _array(array, type.element)
    if type in TEXTS and not pa.types.is_nested(kind):
        return array.cast(pa.large_string()).cast(CELL)
    if type in (types.UUID, types.JSON, types.JSONB) and is_text(kind):
        return array.cast(pa.large_string()).cast(CELL)
    if type == types.UUID and kind == pa.binary(16):
        return _uuid(array)
    if type in HELD:
        return _held(cast_array(array, type), type)
    if type == types.NUMERIC and (pa.types.is_integer(kind) or pa.types.is_decimal(kind)):
        return _numeric(array) if pa.types.is_decimal(kind) else _cast(array)
    if type == types.INTERVAL and pa.types.is_interval(kind):
        return _interval(array)
    if type in OBJECTS and pa.types.is_integer(kind):
        return pc.if_else(pc.equal(array, 0), pa.scalar(b"-", CELL), _cast(array.cast(pa.uint32())))
    return one_by_one(array, type, 0)


def _cast(array: pa.Array) -> pa.Array:
    return array.cast(pa.string()).cast(CELL)


def _held(array: pa.Array, type: PgType) -> pa.Array:
    if type == types.BOOL:
        return pc.if_else(array, pa.scalar(b"t", CELL), pa.scalar(b"f", CELL))
    if type == types.BYTEA:
        ends, data = inside(array)
        return where_valid(array, join_cells(b"\\x", cells(ends * 2, PAIRS[data], array)))
    if type in (types.FLOAT4, types.FLOAT8):
        return _float(array, double=type == types.FLOAT8)
    if type == types.DATE:
        days = whole(array)
        far = (days < FIRST_DAY) | (days > LAST_DAY)
        return rewrite_cells(_cast(_near(array, far)), far, days[far].tolist(), _far_date)
    if type == types.TIME:
        return _trimmed(_cast(array))
    if type in (types.TIMESTAMP, types.TIMESTAMPTZ):
        zone = "+00" if type == types.TIMESTAMPTZ else ""
        micros = whole(array)
        far = (micros < FIRST_DAY * DAY) | (micros >= (LAST_DAY + 1) * DAY)
        plain = _trimmed(_cast(_near(array.cast(pa.timestamp("us")), far)))
        plain = where_valid(array, join_cells(plain, zone.encode())) if zone else plain
        return rewrite_cells(plain, far, micros[far].tolist(), lambda value: _far_stamp(value, zone))
    return _cast(array)


def _near(array: pa.Array, far: Mask) -> pa.Array:
    """With the first of 1970 for what Arrow cannot write."""
    if not far.any():
        return array
    return pc.if_else(
        pa.array(far), pa.scalar(0, pa.int32() if array.type == pa.date32() else pa.int64()).cast(array.type), array
    )


def _trimmed(array: pa.Array) -> pa.Array:
    """Times without the zeros at their end; Arrow writes all six digits."""
    text = array.cast(pa.large_string())
    return pc.ascii_rtrim(pc.ascii_rtrim(text, "0"), ".").cast(CELL)


def _year(days: int) -> str:
    """A day of any year, by the calendar of 400 years; before year 1 as its year before Christ."""
    era, rest = divmod(days + 719468, 146097)
    of_era = (rest - rest // 1460 + rest // 36524 - rest // 146096) // 365
    of_year = rest - (365 * of_era + of_era // 4 - of_era // 100)
    month = (5 * of_year + 2) // 153
    day = of_year - (153 * month + 2) // 5 + 1
    month = month + 3 if month < 10 else month - 9
    year = of_era + era * 400 + (month <= 2)
    return f"{year if year > 0 else 1 - year:04d}-{month:02d}-{day:02d}"


def _far_date(days: int) -> str:
    # DuckDB's infinities: the greatest number, and its negative.
    if abs(days) >= 2**31 - 1:
        return "infinity" if days > 0 else "-infinity"
    return _year(days) + (" BC" if days < FIRST_DAY else "")


def _far_stamp(micros: int, zone: str) -> str:
    if abs(micros) >= 2**63 - 1:
        return "infinity" if micros > 0 else "-infinity"
    days, rest = divmod(micros, DAY)
    seconds, fraction = divmod(rest, 1_000_000)
    clock = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    clock += f".{fraction:06d}".rstrip("0") if fraction else ""
    return f"{_year(days)} {clock}{zone}{' BC' if days < FIRST_DAY else ''}"


def _float(array: pa.Array, *, double: bool) -> pa.Array:
    """Arrow writes the same digits, but points and exponents otherwise for what is large or small."""
    values = np.asarray(array.fill_null(1))
    size = np.abs(values)
    usual = (size >= 1e-4) & (size < (1e10 if double else 1e6)) | (size == 0)
    again = values[~usual].tolist()
    return rewrite_cells(_cast(array), ~usual, again, float8 if double else float4)


def _numeric(array: pa.Array) -> pa.Array:
    """Arrow writes decimals with exponents if they are small: write them as integers and set the point."""
    scale = array.type.scale
    if 0 <= scale <= 6:
        return _cast(array)
    wide = array.cast(pa.decimal256(76, scale)) if scale > 0 else array.cast(pa.decimal256(76, 0))
    if scale <= 0:
        return _cast(wide)
    digits = pa.Array.from_buffers(pa.decimal256(76, 0), len(wide), wide.buffers(), offset=wide.offset)
    text = digits.cast(pa.string())
    padded = pc.utf8_lpad(pc.utf8_ltrim(text, "-"), scale + 1, "0")
    before = pc.utf8_slice_codeunits(padded, 0, -scale).cast(CELL)
    after = pc.utf8_slice_codeunits(padded, -scale).cast(CELL)
    sign = pc.if_else(pc.starts_with(text, "-"), pa.scalar(b"-", CELL), pa.scalar(b"", CELL))
    return where_valid(array, join_cells(sign, before, b".", after))


def _uuid(array: pa.Array) -> pa.Array:
    data = np.frombuffer(array.buffers()[1], np.uint8, 16 * len(array), 16 * array.offset).reshape(-1, 16)
    text = np.full((len(array), 36), ord("-"), np.uint8)
    places = [at for at in range(36) if at not in (8, 13, 18, 23)]
    text[:, places] = PAIRS[data].reshape(-1, 32)
    return fixed_width_cells(array, text)


def interval_parts(array: pa.Array) -> tuple[Whole, Whole, Whole]:
    """Months, days and microseconds; zeros for NULL."""
    form = np.dtype([("months", "<i4"), ("days", "<i4"), ("nanos", "<i8")])
    found = np.frombuffer(array.buffers()[1], form, len(array), 16 * array.offset)
    found = np.where(nulls(array), np.zeros(1, form), found)
    return found["months"].astype(np.int64), found["days"].astype(np.int64), found["nanos"] // 1000


def _interval(array: pa.Array) -> pa.Array:
    table = np.stack(interval_parts(array), axis=1)
    distinct, places = np.unique(table, axis=0, return_inverse=True)
    texts = pa.array([interval(*row).encode() for row in distinct.tolist()], CELL)
    return texts.take(pa.array(places.reshape(-1), mask=nulls(array)))


def _array(array: pa.Array, element: PgType) -> pa.Array:
    flat = text_cells(array.flatten(), element)
    quotes = pc.match_substring_regex(flat, NEEDS_QUOTES).fill_null(False)
    if pc.any(quotes).as_py():
        escaped = pc.replace_substring(pc.replace_substring(flat, b"\\", b"\\\\"), b'"', b'\\"')
        flat = pc.if_else(quotes, join_cells(b'"', escaped, b'"'), flat)
    flat = flat.fill_null(b"NULL")
    ends = list_offsets(array)
    marks = np.full(len(flat), ord(","), np.uint8)
    full = np.diff(ends) > 0
    marks[ends[:-1][full]] = ord("{")
    body = group_cells(array, join_cells(fixed_width_cells(flat, marks), flat))
    return where_valid(array, join_cells(pc.if_else(pa.array(full), body, pa.scalar(b"{", CELL)), b"}"))

"""Columns of Arrow in PostgreSQL's binary format."""

from __future__ import annotations

import struct

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlanon.pgwire import types
from sqlanon.pgwire.codecs.cells import (
    CELL,
    HELD,
    OBJECTS,
    TEXTS,
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
    sizes,
    where_valid,
    whole,
)
from sqlanon.pgwire.codecs.cells_text import interval_parts
from sqlanon.pgwire.types import PgType

NUMBERS = {
    types.INT2: ">i2",
    types.INT4: ">i4",
    types.INT8: ">i8",
    types.OID: ">u4",
    types.XID: ">u4",
    types.CID: ">u4",
    types.XID8: ">u8",
    types.FLOAT4: ">f4",
    types.FLOAT8: ">f8",
}
DAYS_BEFORE = 10957  # from 1970 to 2000
MICROS_BEFORE = DAYS_BEFORE * 86_400_000_000


def binary_cells(array: pa.Array, type: PgType) -> pa.Array:
    kind = array.type
    if pa.types.is_dictionary(kind):
        return binary_cells(array.dictionary, type).take(array.indices)
    if isinstance(array, pa.ExtensionArray):
        return binary_cells(array.storage, type)
    if pa.types.is_null(kind):
        return pa.nulls(len(array), CELL)
    if type.element and is_list(kind) and not is_list(kind.value_type):
        return _array(array, type.element)
    if type in TEXTS and not pa.types.is_nested(kind):
        return array.cast(pa.large_string()).cast(CELL)
    if type in (types.JSON, types.JSONB) and is_text(kind):
        text = array.cast(pa.large_string()).cast(CELL)
        return text if type == types.JSON else where_valid(array, join_cells(b"\x01", text))
    if type == types.UUID and kind == pa.binary(16):
        return array.cast(pa.binary()).cast(CELL)
    if type == types.UUID and is_text(kind):
        return _uuid(array)
    if type in OBJECTS and pa.types.is_integer(kind):
        return fixed_width_cells(array, np.asarray(array.cast(pa.uint32()).fill_null(0)).astype(">u4"))
    if type in HELD:
        return _held(cast_array(array, type), type)
    if type == types.NUMERIC and (pa.types.is_integer(kind) or pa.types.is_decimal(kind)):
        return _numeric(array)
    if type == types.INTERVAL and pa.types.is_interval(kind):
        months, days, micros = interval_parts(array)
        table = np.empty(len(array), np.dtype([("micros", ">i8"), ("days", ">i4"), ("months", ">i4")]))
        table["micros"], table["days"], table["months"] = micros, days, months
        return fixed_width_cells(array, table)
    return one_by_one(array, type, 1)


def _held(array: pa.Array, type: PgType) -> pa.Array:
    if type == types.BYTEA:
        return array
    if type == types.BOOL:
        return fixed_width_cells(array, np.asarray(array.fill_null(False)).astype(np.uint8))
    if type in NUMBERS:
        return fixed_width_cells(array, np.asarray(array.fill_null(0)).astype(NUMBERS[type]))
    numbers = whole(array)
    if type == types.DATE:
        return fixed_width_cells(array, _moved(numbers, DAYS_BEFORE, 2**31 - 1).astype(">i4"))
    if type == types.TIME:
        return fixed_width_cells(array, numbers.astype(">i8"))
    return fixed_width_cells(array, _moved(numbers, MICROS_BEFORE, 2**63 - 1).astype(">i8"))


def _moved(numbers: Whole, by: int, infinite: int) -> Whole:
    """Counted from 2000 on; DuckDB's infinities become PostgreSQL's, the least and the greatest number."""
    moved = np.where(numbers < -infinite + by, -infinite - 1, numbers - by)
    return np.where(numbers == infinite, infinite, moved)


UNHEX = np.full(256, 255, np.uint8)
UNHEX[np.frombuffer(b"0123456789abcdef", np.uint8)] = np.arange(16)
UNHEX[np.frombuffer(b"ABCDEF", np.uint8)] = np.arange(10, 16)


def _uuid(array: pa.Array) -> pa.Array:
    text = array.cast(pa.large_string()).cast(CELL).fill_null(b"0" * 36)
    ends, data = inside(text)
    if len(data) == 36 * len(array) and (np.diff(ends) == 36).all():
        places = [at for at in range(36) if at not in (8, 13, 18, 23)]
        digits = UNHEX[data.reshape(-1, 36)[:, places]]
        if (digits < 16).all():
            return fixed_width_cells(array, (digits[:, ::2] << 4) | digits[:, 1::2])
    return one_by_one(array, types.UUID, 1)


def _numeric(array: pa.Array) -> pa.Array:
    """Digits in base 10,000 for all that fits into 64 bits; what is longer is written one by one."""
    scale = array.type.scale if pa.types.is_decimal(array.type) else 0
    after = -(-max(scale, 0) // 4)
    shift = 4 * after - scale
    if not pa.types.is_decimal(array.type):
        array = array.cast(pa.decimal128(20, 0))
    if not pa.types.is_decimal128(array.type) or scale < 0:
        return one_by_one(array, types.NUMERIC, 1)
    halves = np.frombuffer(array.buffers()[1], "<i8", 2 * len(array), 16 * array.offset).reshape(-1, 2)
    low, high = halves[:, 0], halves[:, 1]
    limit = (2**63 - 1) // 10**shift
    missing = nulls(array)
    long = ~missing & ((high != low >> 63) | (low > limit) | (low < -limit))
    values = np.where(missing | long, 0, low)
    cell = _short_numeric(values, scale, after, 10**shift)
    kept = where_valid(array, cell)
    if not long.any():
        return kept
    redo = one_by_one(array.filter(pa.array(long)), types.NUMERIC, 1)
    return pc.replace_with_mask(kept, pa.array(long), redo)


def _short_numeric(values: Whole, scale: int, after: int, shift: int) -> pa.Array:
    count = len(values)
    rest = np.abs(values) * shift
    groups = 5  # 10,000 ** 5 is above 2 ** 63
    digits = np.empty((count, groups), np.int64)
    for place in range(groups - 1, -1, -1):
        rest, digits[:, place] = np.divmod(rest, 10_000)
    filled = digits != 0
    some = filled.any(axis=1)
    first = np.where(some, filled.argmax(axis=1), groups)
    end = np.where(some, groups - filled[:, ::-1].argmax(axis=1), groups)
    table = np.empty((count, 4 + groups), ">i2")
    table[:, 0] = end - first
    table[:, 1] = np.where(some, groups - 1 - first - after, 0)
    table[:, 2] = np.where(values < 0, 0x4000, 0)
    table[:, 3] = scale
    table[:, 4:] = digits
    places = np.arange(groups)
    used = np.ones(table.shape, bool)
    used[:, 4:] = (places >= first[:, None]) & (places < end[:, None])
    ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(8 + 2 * (end - first))])
    return cells(ends, table[used])


def _array(array: pa.Array, element: PgType) -> pa.Array:
    items = array.flatten()
    flat = binary_cells(items, element)
    ends = list_offsets(array)
    body = group_cells(array, join_cells(sizes(flat), flat))
    lengths = np.diff(ends)
    before = np.concatenate([np.zeros(1, np.int64), np.cumsum(nulls(items))])
    head = np.empty((len(array), 5), ">i4")
    head[:, 0], head[:, 2], head[:, 3], head[:, 4] = 1, element.oid, lengths, 1
    head[:, 1] = before[ends[1:]] > before[ends[:-1]]
    empty = pa.scalar(struct.pack(">iiI", 0, 0, element.oid), CELL)
    heads = pc.if_else(pa.array(lengths > 0), fixed_width_cells(pa.array(lengths), head), empty)
    return where_valid(array, join_cells(heads, body))

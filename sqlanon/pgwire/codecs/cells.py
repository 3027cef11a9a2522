"""Whole columns of Arrow: what text and binary cells are made of, without a loop over rows.

A column of cells is an Arrow array of bytes, NULL where the value is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sqlanon.pgwire import types
from sqlanon.pgwire.frontend import ProtocolError
from sqlanon.pgwire.types import PgType

CELL = pa.large_binary()
Bytes = npt.NDArray[np.uint8]
Whole = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

# The Arrow type that holds all values of a type.
HELD = {
    types.BOOL: pa.bool_(),
    types.INT2: pa.int16(),
    types.INT4: pa.int32(),
    types.INT8: pa.int64(),
    types.OID: pa.uint32(),
    types.XID: pa.uint32(),
    types.CID: pa.uint32(),
    types.XID8: pa.uint64(),
    types.FLOAT4: pa.float32(),
    types.FLOAT8: pa.float64(),
    types.DATE: pa.date32(),
    types.TIME: pa.time64("us"),
    types.TIMESTAMP: pa.timestamp("us"),
    types.TIMESTAMPTZ: pa.timestamp("us", "UTC"),
    types.BYTEA: CELL,
}
TEXTS = {types.TEXT, types.VARCHAR, types.BPCHAR, types.NAME, types.UNKNOWN, types.CSTRING, types.PG_NODE_TREE}
OBJECTS = {types.REGPROC, types.REGPROCEDURE, types.REGCLASS, types.REGTYPE, types.REGNAMESPACE, types.REGROLE}


def is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def cast_array(array: pa.Array, type: PgType) -> pa.Array:
    """The array as the Arrow type of `type`; digits below a microsecond are dropped."""
    target, kind = HELD[type], array.type
    if kind == target:
        return array
    if is_text(kind) and type != types.BYTEA:
        # Arrow reads more spellings than PostgreSQL, and some otherwise.
        return pa.array(
            [None if each is None else types.decode(type, 0, each.encode()) for each in array.to_pylist()], target
        )
    if pa.types.is_timestamp(kind) and kind.unit == "ns":
        array = pa.array(whole(array) // 1000, mask=nulls(array)).view(pa.timestamp("us", kind.tz))
    if pa.types.is_time(kind) and kind == pa.time64("ns"):
        array = pa.array(whole(array) // 1000, mask=nulls(array)).view(target)
    return array.cast(target)


def nulls(array: pa.Array) -> Mask:
    return np.asarray(array.is_null())


def whole(array: pa.Array) -> Whole:
    """Numbers, dates or times as integers; 0 for NULL."""
    width = array.type.bit_width
    # A slice keeps its parent's buffers.
    values = np.frombuffer(array.buffers()[1], f"<i{width // 8}", len(array), array.offset * width // 8)
    values = values.astype(np.int64)
    return np.where(nulls(array), 0, values) if array.null_count else values


def fixed_width_cells(array: pa.Array, table: npt.NDArray[Any]) -> pa.Array:
    """Cells of one width: `table` has one item, or one row of bytes, for each value of `array`."""
    data = np.ascontiguousarray(table)
    width = data.nbytes // max(len(array), 1)
    return cells(np.arange(len(array) + 1, dtype=np.int64) * width, data, array)


def cells(offsets: Whole, data: npt.NDArray[Any], like: pa.Array | None = None) -> pa.Array:
    """Cells from their bytes; NULL where `like` is."""
    valid = None if like is None or not like.null_count else like.is_valid().buffers()[1]
    return pa.Array.from_buffers(CELL, len(offsets) - 1, [valid, pa.py_buffer(offsets), pa.py_buffer(data)])


def inside(array: pa.Array) -> tuple[Whole, Bytes]:
    """Where cells begin and end, counted from 0, and their bytes."""
    _, offsets, data = array.buffers()
    ends = np.frombuffer(offsets, np.int64, len(array) + 1, array.offset * 8)
    used = np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)
    return ends - ends[0], used[ends[0] : ends[-1]]


def sizes(array: pa.Array) -> pa.Array:
    """The length field of each cell: four bytes, -1 for NULL."""
    lengths = np.asarray(pc.binary_length(array).fill_null(-1))
    return fixed_width_cells(array.is_valid(), lengths.astype(">i4"))


def join_cells(*parts: pa.Array | bytes, between: bytes = b"") -> pa.Array:
    """Cells side by side; NULL counts as nothing."""
    scalars = [pa.scalar(part, CELL) if isinstance(part, bytes) else part for part in (*parts, between)]
    return pc.binary_join_element_wise(*scalars, null_handling="replace", null_replacement=b"")


def where_valid(like: pa.Array, array: pa.Array) -> pa.Array:
    return pc.if_else(like.is_valid(), array, pa.scalar(None, CELL)) if like.null_count else array


def group_cells(lists: pa.Array, elements: pa.Array) -> pa.Array:
    """The cells of each list's elements, one after the other; `elements` are those of all lists in turn."""
    ends, data = inside(elements)
    return cells(ends[list_offsets(lists)], data)


def list_offsets(lists: pa.Array) -> Whole:
    lengths = np.asarray(pc.list_value_length(lists).fill_null(0), dtype=np.int64)
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])


def rewrite_cells(
    array: pa.Array, mask: npt.NDArray[np.bool_], values: Sequence[Any], write: Callable[[Any], str]
) -> pa.Array:
    """Cells with those of the mask written again, one by one; each distinct value once."""
    if not mask.any():
        return array
    written = {value: write(value).encode() for value in set(values)}
    return pc.replace_with_mask(array, pa.array(mask), pa.array([written[value] for value in values], CELL))


def one_by_one(array: pa.Array, type: PgType, format: int) -> pa.Array:
    """For what has no way by columns. A column of text holds the text of its type."""
    try:
        values = array.to_pylist()
    except (OverflowError, ValueError):
        raise ProtocolError("22008", f"a value is out of range for type {type.name}") from None
    if is_text(array.type) and type not in TEXTS:
        values = [each if each is None else types.decode(type, 0, each.encode()) for each in values]
    return pa.array([types.encode(type, format, value) for value in values], CELL)

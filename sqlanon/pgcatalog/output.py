"""From a plan to rows: constants at once, everything else from the metadata database."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from sqlanon.pgcatalog.bound_expression import Bound, is_deep
from sqlanon.pgcatalog.casts import REG_TYPES
from sqlanon.pgcatalog.database import MetadataDatabase
from sqlanon.pgcatalog.functions import Needs
from sqlanon.pgcatalog.kinds import TEXT
from sqlanon.pgcatalog.plans import QueryPlan, SelectPlan
from sqlanon.pgwire.backend import ResultColumn
from sqlanon.pgwire.codecs.intervals import parts
from sqlanon.pgwire.frontend import each_format
from sqlanon.pgwire.types import KNOWN, PgType, by_oid, encode

SPOKEN = {kind.oid for kind in KNOWN}
ARROW = {
    "bool": pa.bool_(), "int2": pa.int16(), "int4": pa.int32(), "int8": pa.int64(), "float4": pa.float32(),
    "float8": pa.float64(), "bytea": pa.binary(), "date": pa.date32(), "time": pa.time64("us"),
    "timestamp": pa.timestamp("us"), "timestamptz": pa.timestamp("us", "UTC"),
    "interval": pa.month_day_nano_interval(), "oid": pa.int64(), "xid": pa.int64(), "cid": pa.int64(),
    "xid8": pa.int64(),
}  # fmt: skip


def wire_type(item: Bound) -> PgType:
    """The type as clients are told of it: what the protocol does not speak goes as text."""
    return by_oid(item.type.oid) if item.type.oid in SPOKEN else by_oid(TEXT.oid)


def columns_of(plan: QueryPlan) -> tuple[ResultColumn, ...]:
    return tuple(
        ResultColumn(name, wire_type(item), item.typmod, *item.origin)
        for name, item in zip(plan.names, plan.items, strict=True)
    )


def fetch_rows(
    database: MetadataDatabase, plan: QueryPlan, needs: Needs, timeout: float | None, formats: tuple[int, ...] = ()
) -> pa.Table:
    """The rows of a plan, with columns c0, c1 …: names may occur twice. In binary, objects are sent as numbers."""
    if type(plan) is SelectPlan and plan.bare:
        arrays = [_array(item) for item in plan.items]
        table = pa.table(arrays, names=[f"c{place}" for place in range(len(arrays))])
    else:
        table = database.run(plan.tree(), needs, timeout)
    if not plan.items:
        return table.select([])
    if type(plan) is SelectPlan:
        for place, item in enumerate(plan.items):
            if (
                item.constant and item.type.element is not None
            ):  # DuckDB gives all numbers of a list equally many digits
                table = table.set_column(place, f"c{place}", pa.chunked_array([_array(item)] * table.num_rows))
    for place, (item, form) in enumerate(zip(plan.items, each_format(formats, len(plan.items)), strict=True)):
        if form == 0 and _is_object(item.type):
            table = table.set_column(place, f"c{place}", _names(database, item.type, table.column(place)))
    return table


def _is_object(kind: PgType) -> bool:
    return (kind.element or kind).name in REG_TYPES


def _names(database: MetadataDatabase, kind: PgType, oids: pa.ChunkedArray) -> pa.Array:
    out = getattr(database.lookups, f"{(kind.element or kind).name}_out")

    def named(value: Any) -> Any:
        if isinstance(value, list):
            return [named(each) for each in value]
        return None if value is None else out(value)

    return pa.array([named(value) for value in oids.to_pylist()], _nested(oids.type, pa.string()))


def _nested(like: pa.DataType, leaf: pa.DataType) -> pa.DataType:
    return pa.list_(_nested(like.value_type, leaf)) if pa.types.is_list(like) else leaf


def _depth(value: Any, leaf: pa.DataType) -> pa.DataType:
    return pa.list_(_depth(value[0], leaf) if is_deep(value) else leaf)


def _array(item: Bound) -> pa.Array:
    kind = item.type.element or item.type
    if _is_object(item.type):
        return pa.array([item.value], _depth(item.value, pa.int64()) if item.type.element is not None else pa.int64())
    if kind.name == "numeric" or (item.type.element is not None and (kind.name not in ARROW or is_deep(item.value))):
        # As text: a numeric has as many digits as it has, and Arrow's decimals have all equally many.
        written = encode(by_oid(item.type.oid), 0, item.value)
        return pa.array([None if written is None else written.decode()], pa.string())
    arrow = pa.list_(ARROW[kind.name]) if item.type.element is not None else ARROW.get(kind.name, pa.string())
    return pa.array([_value(item.value, item.type)], arrow)


def _value(value: Any, kind: PgType) -> Any:
    if value is None:
        return None
    if kind.element is not None:
        return [_value(each, kind.element) for each in value]
    if kind.name == "interval":
        months, days, micros = parts(value)
        return pa.MonthDayNano((months, days, micros * 1000))
    return str(value) if kind.name == "uuid" else value

"""From a plan to rows: constants at once, everything else from the metadata database."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pyarrow as pa
from sqlglot import exp

from sqlanon.proxy.backend import Column
from sqlanon.proxy.catalogue.bound import Bound
from sqlanon.proxy.catalogue.casts import REG_TYPES
from sqlanon.proxy.catalogue.database import MetadataDatabase
from sqlanon.proxy.catalogue.kinds import TEXT
from sqlanon.proxy.catalogue.queries import Plan, SelectPlan
from sqlanon.proxy.codecs.intervals import parts
from sqlanon.proxy.types import KNOWN, PgType, by_oid

SPOKEN = {kind.oid for kind in KNOWN}
ARROW = {
    "bool": pa.bool_(), "int2": pa.int16(), "int4": pa.int32(), "int8": pa.int64(), "float4": pa.float32(),
    "float8": pa.float64(), "bytea": pa.binary(), "date": pa.date32(), "time": pa.time64("us"),
    "timestamp": pa.timestamp("us"), "timestamptz": pa.timestamp("us", "UTC"),
    "interval": pa.month_day_nano_interval(), "oid": pa.int64(), "xid": pa.int64(), "cid": pa.int64(), "xid8": pa.int64(),
}  # fmt: skip


def told(item: Bound) -> PgType:
    """The type as clients are told of it: what the protocol does not speak goes as text."""
    return by_oid(item.type.oid) if item.type.oid in SPOKEN else by_oid(TEXT.oid)


def columns_of(plan: Plan) -> tuple[Column, ...]:
    return tuple(
        Column(name, told(item), item.typmod, *item.origin) for name, item in zip(plan.names, plan.items, strict=True)
    )


def shown(database: MetadataDatabase, plan: Plan, relations: set[str], timeout: float | None) -> pa.Table:
    """The rows of a plan, with columns c0, c1 …: names may occur twice."""
    if type(plan) is SelectPlan and _plain(plan):
        arrays = [_array(database, item) for item in plan.items]
        return pa.table(arrays, names=[f"c{place}" for place in range(len(arrays))])
    table = database.run(plan.tree(), relations, timeout)
    if not plan.items:
        return table.select([])
    for place, item in enumerate(plan.items):
        if item.type.name in REG_TYPES:
            table = table.set_column(place, f"c{place}", _names(database, item, table.column(place).to_pylist()))
    return table


def _plain(plan: SelectPlan) -> bool:
    """Whether it is a row of constants, for which no database is needed."""
    bare = not any(value for name, value in plan.select.args.items() if name != "expressions")
    return bare and bool(plan.items) and all(item.constant for item in plan.items)


def _names(database: MetadataDatabase, item: Bound, oids: list[int | None]) -> pa.Array:
    out = getattr(database.lookups, f"{item.type.name}_out")
    return pa.array([None if oid is None else out(oid) for oid in oids], pa.string())


def _array(database: MetadataDatabase, item: Bound) -> pa.Array:
    if item.type.name in REG_TYPES:
        return _names(database, item, [item.value])
    return pa.array([_value(item.value, item.type)], _arrow(item.value, item.type))


def _arrow(value: Any, kind: PgType) -> pa.DataType:
    if kind.element is not None:
        inner = next((leaf for leaf in value or () if isinstance(leaf, list)), None)
        if inner is not None:
            return pa.list_(_arrow(inner, kind))
        if kind.element.name == "numeric":
            return pa.list_(_decimal(value or ()))
        return pa.list_(_arrow(None, kind.element))
    if kind.name == "numeric":
        return _decimal([value])
    return ARROW.get(kind.name, pa.string())


def _decimal(values: Any) -> pa.DataType:
    scale = max((max(0, -int(each.as_tuple().exponent)) for each in values if each is not None), default=0)
    return pa.decimal128(38, scale)


def _value(value: Any, kind: PgType) -> Any:
    if value is None:
        return None
    if kind.element is not None:
        return [_value(each, kind if isinstance(each, list) else kind.element) for each in value]
    if kind.name == "interval":
        months, days, micros = parts(value)
        return pa.MonthDayNano((months, days, micros * 1000))
    if kind.name == "uuid":
        return str(value)
    if kind.name == "timestamptz" and isinstance(value, dt.datetime) and value.tzinfo is None:
        return value.replace(tzinfo=dt.UTC)
    return value


NOTHING = exp.Null

"""Types that an analyst may cast to: what kind each is, and PostgreSQL's name of it."""

from __future__ import annotations

from typing import Any

from sqlglot import exp

from sqlanon.gateway.bind.values import Kind

Type = exp.DataType.Type
WHOLE = {Type.TINYINT, Type.SMALLINT, Type.INT, Type.BIGINT, Type.UTINYINT, Type.USMALLINT, Type.UINT}
REAL = {Type.FLOAT, Type.DOUBLE, Type.DECIMAL}
TEXT = {Type.TEXT, Type.VARCHAR}
MOMENTS = (Type.TIMESTAMP, Type.TIMESTAMPNTZ)
CAST_KINDS: dict[Any, Kind] = {
    **dict.fromkeys(WHOLE, "int"), **dict.fromkeys(REAL, "float"), **dict.fromkeys(TEXT, "text"),
    **dict.fromkeys(MOMENTS, "timestamp"), Type.DATE: "date", Type.BOOLEAN: "bool", Type.TIMESTAMPTZ: "timestamp",
}  # fmt: skip
TYPE_NAMES = {
    Type.SMALLINT: "int2", Type.INT: "int4", Type.BIGINT: "int8", Type.FLOAT: "float4", Type.DOUBLE: "float8",
    Type.DECIMAL: "numeric", Type.TEXT: "text", Type.VARCHAR: "varchar", Type.BOOLEAN: "bool", Type.DATE: "date",
    Type.TIMESTAMP: "timestamp", Type.TIMESTAMPNTZ: "timestamp", Type.BPCHAR: "bpchar", Type.CHAR: "bpchar",
    Type.UUID: "uuid", Type.TIMESTAMPTZ: "timestamptz",
}  # fmt: skip
# A uuid is computed with as a text.
ELEMENT_KINDS: dict[Any, Kind] = {each: CAST_KINDS[each] for each in CAST_KINDS if each in TYPE_NAMES}
ELEMENT_KINDS[Type.UUID] = "text"

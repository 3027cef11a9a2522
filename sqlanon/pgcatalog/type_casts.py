"""The types that a statement names."""

from __future__ import annotations

from typing import Any

from sqlglot import exp

from sqlanon.errors import Refused
from sqlanon.pgcatalog.kinds import BY_NAME, array_of, require_type
from sqlanon.pgcatalog.scope import fold_name
from sqlanon.pgwire.types import PgType

DTYPES = {
    "BOOLEAN": "bool", "TINYINT": "int2", "SMALLINT": "int2", "INT": "int4", "BIGINT": "int8", "FLOAT": "float4",
    "DOUBLE": "float8", "DECIMAL": "numeric", "TEXT": "text", "VARCHAR": "varchar", "CHAR": "bpchar",
    "BPCHAR": "bpchar",
    "NCHAR": "bpchar", "NVARCHAR": "varchar", "NAME": "name", "DATE": "date", "TIME": "time", "TIMESTAMP": "timestamp",
    "TIMESTAMPNTZ": "timestamp", "TIMESTAMPTZ": "timestamptz", "INTERVAL": "interval", "UUID": "uuid", "JSON": "json",
    "JSONB": "jsonb", "VARBINARY": "bytea", "INET": "inet", "TIMETZ": "timetz",
}  # fmt: skip
PRECISE = ("timestamp", "timestamptz", "time", "interval")


def written_type(node: exp.Expr) -> tuple[PgType, int]:
    """The type that a cast names, and its modifier."""
    if type(node) is not exp.DataType:
        raise Refused("this type is not answered here", sqlstate="0A000")
    name = node.this.name if isinstance(node.this, exp.DataType.Type) else str(node.this)
    if name == "ARRAY":
        if not node.expressions:
            raise Refused("syntax error at ARRAY: it needs the type of its elements", sqlstate="42601")
        kind, typmod = written_type(node.expressions[0])
        return array_of(kind), typmod
    if name == "USERDEFINED":
        return _named_type(node.args.get("kind")), -1
    kind_name = DTYPES.get(name)
    if kind_name is None:
        raise Refused(f"type {name.lower()} is not answered here", sqlstate="42704")
    numbers = [int(each.this.name) for each in node.expressions if each.this.name.isdigit()]
    if len(numbers) != len(node.expressions):
        raise Refused("modifiers of types are numbers", sqlstate="42601")
    if name in ("CHAR", "NCHAR") and not numbers:
        numbers = [1]  # char is char(1), and bpchar is of any length
    return BY_NAME[kind_name], _modifier(kind_name, numbers)


def _modifier(name: str, numbers: list[int]) -> int:
    if not numbers:
        return -1
    if name in ("varchar", "bpchar") and len(numbers) == 1 and 0 < numbers[0] <= 10_485_760:
        return numbers[0] + 4
    if name == "numeric" and len(numbers) <= 2 and 0 < numbers[0] <= 1000:
        scale = numbers[1] if len(numbers) == 2 else 0
        if 0 <= scale <= numbers[0]:
            return (numbers[0] << 16 | scale) + 4
    if name in PRECISE and len(numbers) == 1 and numbers[0] <= 6:
        return numbers[0] if numbers[0] < 6 else -1
    if name in ("float4", "float8"):
        return -1
    raise Refused("this modifier of a type is not answered here", sqlstate="22023")


def _named_type(node: Any) -> PgType:
    if type(node) is exp.Dot:
        if type(node.this) is not exp.Identifier or fold_name(node.this) != "pg_catalog":
            raise Refused("types are those of pg_catalog", sqlstate="42704")
        return require_type(fold_name(node.expression), quoted=True)
    if isinstance(node, exp.Identifier):
        return require_type(fold_name(node), quoted=bool(node.args.get("quoted")))
    return require_type(str(node).strip().lower())

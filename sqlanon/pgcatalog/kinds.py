"""PostgreSQL's types as its catalog tells them: names, oids, lengths, and what stands for each in DuckDB."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from importlib.resources import files

from sqlanon.errors import Refused, did_you_mean
from sqlanon.pgwire.types import PgType


@dataclass(frozen=True)
class TypeFacts:
    """A row of types.csv; the functions are pairs of oid and name."""

    type: PgType
    byval: bool
    kind: str
    category: str
    preferred: bool
    align: str
    storage: str
    element: int
    collation: int
    functions: tuple[tuple[int, str], ...]  # input, output, receive, send


def _pair(text: str) -> tuple[int, str]:
    oid, name = text.split(":")
    return int(oid), name


def _read() -> tuple[TypeFacts, ...]:
    text = files(__package__).joinpath("types.csv").read_text(encoding="utf-8")
    found = []
    for row in csv.DictReader(text.splitlines()):
        made = PgType(row["name"], int(row["oid"]), int(row["len"]), int(row["array"]))
        functions = tuple(_pair(row[key]) for key in ("input", "output", "receive", "send"))
        found.append(
            TypeFacts(
                made, row["byval"] == "t", row["type"], row["category"], row["preferred"] == "t", row["align"],
                row["storage"], int(row["elem"]), int(row["collation"]), functions,
            )
        )  # fmt: skip
    return tuple(found)


FACTS = _read()
_BASES = {facts.type.name: facts.type for facts in FACTS}
_VECTORS = {"int2vector": "int2", "oidvector": "oid"}
_ARRAYS = {
    f"_{facts.type.name}": PgType(f"_{facts.type.name}", facts.type.array_oid, -1, 0, facts.type)
    for facts in FACTS
    if facts.type.array_oid
}
BY_NAME: dict[str, PgType] = {**_BASES, **_ARRAYS}
BY_NAME |= {
    name: PgType(name, _BASES[name].oid, -1, _BASES[name].array_oid, _BASES[element])
    for name, element in _VECTORS.items()
}
BY_OID = {each.oid: each for each in BY_NAME.values()}

UNKNOWN, TEXT, NAME, CHAR, BOOL = (BY_NAME[name] for name in ("unknown", "text", "name", "char", "bool"))
INT2, INT4, INT8, OID, NUMERIC = (BY_NAME[name] for name in ("int2", "int4", "int8", "oid", "numeric"))
FLOAT4, FLOAT8, DATE, TIME, INTERVAL = (BY_NAME[name] for name in ("float4", "float8", "date", "time", "interval"))
TIMESTAMP, TIMESTAMPTZ, BYTEA, UUID = (BY_NAME[name] for name in ("timestamp", "timestamptz", "bytea", "uuid"))
JSON, JSONB, RECORD, VARCHAR, BPCHAR = (BY_NAME[name] for name in ("json", "jsonb", "record", "varchar", "bpchar"))
TEXTS = BY_NAME["_text"]

STRINGS = frozenset({"text", "name", "varchar", "bpchar", "char", "pg_node_tree", "unknown"})
NUMBERS = ("int2", "int4", "int8", "numeric", "float4", "float8")  # each goes over into those after it
WHOLE = frozenset({"int2", "int4", "int8"})
REG = frozenset(
    {"regclass", "regtype", "regproc", "regprocedure", "regnamespace", "regrole", "regoper", "regcollation"}
)
OIDS = REG | {"oid", "xid", "cid", "xid8"}
TIMES = ("date", "timestamp", "timestamptz")  # each goes over into those after it

# How SQL writes types, and what format_type() says.
SQL_NAMES = {
    "bool": "boolean", "int2": "smallint", "int4": "integer", "int8": "bigint", "float4": "real",
    "float8": "double precision", "varchar": "character varying", "bpchar": "character", "char": '"char"',
    "timestamp": "timestamp without time zone", "timestamptz": "timestamp with time zone",
    "time": "time without time zone", "timetz": "time with time zone", "varbit": "bit varying", "any": '"any"',
}  # fmt: skip
WRITTEN = {said: name for name, said in SQL_NAMES.items()} | {
    "int": "int4", "decimal": "numeric", "dec": "numeric", "float": "float8", "char": "bpchar", "character": "bpchar",
    "timestamp": "timestamp", "time": "time", "nchar": "bpchar", "serial": "int4", "bigserial": "int8",
}  # fmt: skip

_DUCK = {
    "bool": "BOOLEAN", "bytea": "BLOB", "int2": "SMALLINT", "int4": "INTEGER", "int8": "BIGINT", "float4": "FLOAT",
    "float8": "DOUBLE", "date": "DATE", "time": "TIME", "timestamp": "TIMESTAMP", "timestamptz": "TIMESTAMPTZ",
    "interval": "INTERVAL", "uuid": "UUID", "numeric": "DECIMAL(38,10)", **dict.fromkeys(OIDS, "BIGINT"),
}  # fmt: skip


def duck_type(kind: PgType) -> str:
    """The type of DuckDB that holds values of a type of PostgreSQL; names, json and all others are text.

    >>> duck_type(OID), duck_type(NAME), duck_type(BY_NAME["_int4"]), duck_type(BY_NAME["oidvector"])
    ('BIGINT', 'VARCHAR', 'INTEGER[]', 'BIGINT[]')
    """
    if kind.element is not None:
        return f"{duck_type(kind.element)}[]"
    return _DUCK.get(kind.name, "VARCHAR")


def array_of(kind: PgType) -> PgType:
    """The type of arrays of a type; PostgreSQL has no arrays of arrays, they are of the same type."""
    if kind.element is not None and kind.name not in _VECTORS:
        return kind
    if kind.name == "unknown":
        return TEXTS
    found = BY_OID.get(kind.array_oid)
    if found is None:
        raise Refused(f"there are no arrays of type {sql_name(kind)}", sqlstate="42704")
    return found


def sql_name(kind: PgType, typmod: int = -1) -> str:
    """What format_type() says of a type.

    >>> sql_name(INT4), sql_name(BY_NAME["_varchar"]), sql_name(NUMERIC, 655366), sql_name(VARCHAR, 14)
    ('integer', 'character varying[]', 'numeric(10,2)', 'character varying(10)')
    """
    if kind.element is not None and kind.name.startswith("_"):
        return f"{sql_name(kind.element, typmod)}[]"
    name = SQL_NAMES.get(kind.name, kind.name)
    if typmod < 0:
        return name
    if kind.name == "numeric" and typmod >= 4:
        return f"numeric({(typmod - 4) >> 16},{(typmod - 4) & 0x7FF})"
    if kind.name in ("varchar", "bpchar") and typmod >= 4:
        return f"{name}({typmod - 4})"
    if kind.name in ("timestamp", "timestamptz", "time", "timetz"):
        first, rest = name.split(" ", 1)
        return f"{first}({typmod}) {rest}"
    return name


def type_named(name: str, *, quoted: bool = False) -> PgType | None:
    """The type that SQL names so, if there is one: int, integer and int4 are the same.

    >>> type_named("integer") == INT4, type_named("character varying[]").name, type_named("char").name
    (True, '_varchar', 'bpchar')
    """
    if name.endswith("[]"):
        inner = type_named(name[:-2].strip(), quoted=quoted)
        return None if inner is None or not inner.array_oid else array_of(inner)
    if not quoted and name in WRITTEN:
        name = WRITTEN[name]
    return BY_NAME.get(name)


def require_type(name: str, *, quoted: bool = False) -> PgType:
    """The type of that name, or 42704."""
    found = type_named(name, quoted=quoted)
    if found is None:
        hint = did_you_mean(name, [*_BASES, *WRITTEN])
        raise Refused(f'type "{name[:80]}" does not exist', sqlstate="42704", hint=hint)
    return found

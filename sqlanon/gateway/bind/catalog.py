"""The tables that an analyst may name, each as a relation whose rows belong to one person, or to nobody."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from itertools import pairwise
from typing import Literal

from sqlglot import exp

from sqlanon.engines import ColumnInfo
from sqlanon.errors import Refused, did_you_mean
from sqlanon.gateway.bind.row_work import weigh_nothing
from sqlanon.gateway.bind.values import (
    NUMBERS,
    TIMES,
    UNDECLARED,
    UNIT,
    Interval,
    Kind,
    Relation,
    Value,
    as_computed,
    day_number,
)
from sqlanon.policy.gateway import Gateway, GatewayTable
from sqlanon.policy.gateway_column import MAX_LENGTH, GatewayColumn

WHOLE = {
    "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "HUGEINT",
    "INT2", "INT4", "INT8",
}  # fmt: skip
KINDS: dict[str, Kind] = {
    **dict.fromkeys(WHOLE, "int"),
    **dict.fromkeys(("FLOAT", "DOUBLE", "DECIMAL", "REAL", "NUMERIC", "FLOAT4", "FLOAT8"), "float"),
    **dict.fromkeys(("VARCHAR", "TEXT", "BPCHAR", "UUID", "ENUM"), "text"),
    **dict.fromkeys(("BOOLEAN", "BOOL"), "bool"),
    "DATE": "date",
    **dict.fromkeys(("TIMESTAMP", "TIMESTAMP WITHOUT TIME ZONE", "TIMESTAMP_S", "TIMESTAMP_MS"), "timestamp"),
    **dict.fromkeys(("TIMESTAMP WITH TIME ZONE", "TIMESTAMPTZ"), "timestamp"),
}


# Types that are computed with as another kind, and types that are not computed with: their names in PostgreSQL.
STORED = {
    "UUID": "uuid", "DECIMAL": "numeric", "NUMERIC": "numeric", "SMALLINT": "int2", "INT2": "int2", "INTEGER": "int4",
    "INT4": "int4", "FLOAT": "float4", "REAL": "float4", "FLOAT4": "float4", "BPCHAR": "bpchar",
    "TIMESTAMP WITH TIME ZONE": "timestamptz", "TIMESTAMPTZ": "timestamptz", "HUGEINT": "numeric", "UBIGINT": "numeric",
}  # fmt: skip
MODIFIED = ("numeric", "varchar", "bpchar")  # types that clients see with their lengths
OPAQUE = {
    "BLOB": "bytea", "BYTEA": "bytea", "JSON": "json", "JSONB": "jsonb", "TIME": "time", "INTERVAL": "interval",
    "TIMESTAMP_NS": "timestamp",
}  # fmt: skip
ELEMENTS = {
    "SMALLINT": "int2", "INT2": "int2", "INTEGER": "int4", "INT4": "int4", "BIGINT": "int8", "INT8": "int8",
    "FLOAT": "float4", "REAL": "float4", "FLOAT4": "float4", "DOUBLE": "float8", "FLOAT8": "float8",
    "VARCHAR": "text", "TEXT": "text", "BOOLEAN": "bool", "BOOL": "bool", "DATE": "date", "TIMESTAMP": "timestamp",
    **OPAQUE, **STORED,
}  # fmt: skip


def stored_type(type_name: str) -> str | None:
    """PostgreSQL's name of the type of a column that is not stored as what its kind is; None of all others.

    DuckDB's VARCHAR is a text; PostgreSQL's is written in small letters, or has a length.

    >>> [stored_type(name) for name in ("DECIMAL(10,2)", "VARCHAR[]", "TIME", "INTEGER", "MAP")]
    ['numeric(10,2)', 'text[]', 'time', 'int4', None]
    >>> stored_type("VARCHAR"), stored_type("varchar"), stored_type("varchar(12)"), stored_type("BIGINT")
    (None, 'varchar', 'varchar(12)', None)
    """
    name = type_name.upper().strip()
    if name.endswith("[]"):
        element = ELEMENTS.get(name[:-2].split("(")[0].strip())
        return f"{element}[]" if element is not None else None
    base, _, sizes = name.partition("(")
    base = base.strip()
    found = STORED.get(base) or OPAQUE.get(base)
    if base == "VARCHAR" and (sizes or type_name.islower()):
        found = "varchar"
    if found in MODIFIED and re.fullmatch(r"\d+(, *\d+)?\)", sizes):
        return f"{found}({sizes.replace(' ', '')}"
    return found


def kind_of(type_name: str) -> Kind | None:
    """What a column is to the gateway; None if it is of a type that is not answered.

    >>> kind_of("DECIMAL(10,2)"), kind_of("integer"), kind_of("STRUCT(a INTEGER)"), kind_of("INTEGER[]")
    ('float', 'int', None, None)
    """
    name = type_name.upper().strip()
    return None if name.endswith("]") else KINDS.get(name.split("(")[0].strip())


@dataclass(frozen=True)
class Constraint:
    """What the database says of columns of a table of the policy; of a foreign key also where it leads to."""

    kind: Literal["primary", "unique", "foreign", "required"]  # required: NOT NULL
    table: str
    columns: tuple[str, ...]
    other: str = ""
    referred: tuple[str, ...] = ()


@dataclass(frozen=True)
class Schema:
    """What the database says of itself, read once: columns by table, and columns that are unique by constraint."""

    columns: Mapping[str, Sequence[ColumnInfo]]
    unique_keys: frozenset[tuple[str, tuple[str, ...]]] = frozenset()  # tables, and columns that are unique together
    collated: frozenset[tuple[str, str]] = frozenset()  # columns of texts with a collation of their own
    keys: tuple[Constraint, ...] = ()  # what a catalog lists of them
    collation: str = "default"  # that these columns are read in

    @property
    def unique(self) -> frozenset[tuple[str, str]]:
        """The columns that are unique alone."""
        return frozenset((table, columns[0]) for table, columns in self.unique_keys if len(columns) == 1)


@dataclass(frozen=True)
class Catalog:
    policy: Gateway
    schema: Schema

    def names(self, principal: str) -> list[str]:
        """The tables that are there for a principal."""
        return [name for name in self.policy.tables if self.policy.allows(principal, name)]

    def relation(self, node: exp.Table, principal: str, *, beside_persons: bool = True) -> Relation:
        """The table that a FROM names, if this principal may use it; others do not exist for them."""
        written = ".".join(part.name for part in node.parts)
        known = self.names(principal)
        # Clients put the default schema before names that the policy writes without it.
        short = node.name if len(node.parts) == 2 and node.db.casefold() in ("main", "public") else written
        found = [name for name in known if name.casefold() in (written.casefold(), short.casefold())]
        if len(found) != 1:
            hint = did_you_mean(written, known) or f"you may ask {', '.join(known[:8])}"
            place = next((part.meta["start"] + 1 for part in node.walk() if "start" in part.meta), None)
            raise Refused(f'relation "{written[:80]}" does not exist', hint=hint, sqlstate="42P01", position=place)
        return self.base(found[0], principal, beside_persons=beside_persons)

    def holds_persons(self, node: exp.Expr, principal: str) -> bool:
        """Whether a statement names a private table, or what has the name of one."""
        own = {name.rpartition(".")[2].casefold() for name in self.names(principal) if self._is_private(name)}
        return any(table.name.casefold() in own for table in node.find_all(exp.Table))

    def base(self, name: str, principal: str | None = None, *, beside_persons: bool = True) -> Relation:
        """A table with the columns that are there for a principal, or with all of them.

        `beside_persons`: the statement reads private tables too.
        """
        table = self.policy.tables[name]
        chain = self.path(name) if self._is_private(name) else None
        infos = [
            info
            for info in self.schema.columns[name]
            if principal is None or self.policy.allows(principal, name, info.name)
        ]
        return self._columns_of(name, table, chain, infos, beside_persons or chain is not None)

    def _is_private(self, name: str) -> bool:
        table = self.policy.tables[name]
        return not (table.public or table.released)

    def path(self, name: str) -> list[str]:
        """The tables from this one to the one that holds the unit, along the declared links."""
        chain = [name]
        while (link := self.policy.tables[chain[-1]].link) is not None:
            chain.append(link.table)
        return chain

    def unit_column(self, name: str) -> str:
        table = self.policy.tables[name]
        return table.unit or self.policy.unit.key

    def _columns_of(
        self, name: str, table: GatewayTable, chain: list[str] | None, infos: Sequence[ColumnInfo], beside_persons: bool
    ) -> Relation:
        declared = table.columns
        hidden = frozenset(info.name for info in infos if info.name in declared and declared[info.name].hidden)
        unit = self.unit_column(name) if chain is not None and len(chain) == 1 else None
        columns: dict[str, Value] = {}
        select = exp.Select()
        for info in infos:
            column, kind, stored = info.name, kind_of(info.type), stored_type(info.type)
            if kind is None and stored is not None and chain is None:
                kind = "opaque"  # of persons nothing is shown as it is
            if column in hidden or kind is None:
                continue
            read = self.read(name, "t0", column) if beside_persons else _column("t0", column)
            if info.type.upper().startswith("ENUM"):
                read = exp.cast(read, exp.DataType.Type.TEXT)
            if stored is not None and chain is not None:
                # Two char values are the same whatever blanks they end in; the text has none of them.
                read = exp.cast(read, exp.DataType.Type.TEXT) if stored.startswith("bpchar") else read
                # A HUGEINT is a whole number: it is held to its bounds like any other.
                read, stored = read if kind == "int" else as_computed(read, stored), None
            select = select.select(exp.alias_(read, column, quoted=True), copy=False)
            value = _value(name, column, kind, declared.get(column), unit == column, chain is None)
            # What public tables hold is looked at as it is, where no persons are.
            columns[column] = replace(
                value,
                stored=stored,
                uncut=value.uncut and beside_persons,
                zoned=stored_type(info.type) == "timestamptz",
            )
        select = select.from_(aliased_table(name, "t0"), copy=False)
        if chain is None:
            if not columns:  # rows can be counted all the same
                select = select.select(exp.alias_(exp.Literal.number(1), UNIT, quoted=True), copy=False)
            return Relation(weigh_nothing(select), columns, "public", hidden=hidden, table=name)
        for depth, (child, parent) in enumerate(pairwise(chain)):
            link = self.policy.tables[child].link
            assert link is not None
            on = exp.and_(
                *(
                    exp.EQ(
                        this=self.read(child, f"t{depth}", own), expression=self.read(parent, f"t{depth + 1}", other)
                    )
                    for own, other in link.on.items()
                )
            )
            select = select.join(aliased_table(parent, f"t{depth + 1}"), on=on, copy=False)
        last, holder = f"t{len(chain) - 1}", chain[-1]
        key = self.unit_column(holder)
        select = select.select(exp.alias_(self.read(holder, last, key), UNIT, quoted=True), copy=False)
        # A row that belongs to nobody is protected by nobody's budget: it is not read at all.
        present = exp.Not(this=exp.Is(this=_column(last, key), expression=exp.Null()))
        select = select.where(present, copy=False)
        unique = len(chain) == 1 and (name, key) in self.schema.unique
        tree = weigh_nothing(select)
        return Relation(tree, columns, "private", unique=unique, hidden=hidden, table=name, privates=1)

    def read(self, table: str, alias: str, column: str) -> exp.Expr:
        """A column as statements about persons read it: texts in one collation, DuckDB's by their bytes.

        PostgreSQL fails where two collations meet, and where LIKE meets some of them, but not before there is a row to
        compare: WHERE user_id = 7 AND a = b would tell whether person 7 is there.
        """
        found = _column(alias, column)
        if (table, column) not in self.schema.collated:
            return found
        return exp.Collate(this=found, expression=exp.to_identifier(self.schema.collation, quoted=True))


def _column(table: str, name: str) -> exp.Column:
    return exp.column(exp.to_identifier(name, quoted=True), table=table)


def aliased_table(name: str, alias: str) -> exp.Expr:
    """A table of the policy, 'schema.table' allowed, always quoted."""
    parsed = exp.to_table(name, dialect="duckdb")
    for part in parsed.parts:
        part.set("quoted", True)
    return exp.alias_(parsed, alias, table=True, copy=False)


def _value(table: str, name: str, kind: Kind, declared: GatewayColumn | None, unit: bool, public: bool) -> Value:
    tree = exp.column(exp.to_identifier(name, quoted=True))
    bounds: Interval | None = None
    if kind in NUMBERS:
        bounds = UNDECLARED
        if declared is not None and isinstance(declared.low, int | float) and isinstance(declared.high, int | float):
            bounds = Interval(declared.low, declared.high)
    if kind in TIMES and declared is not None and isinstance(declared.low, date) and isinstance(declared.high, date):
        bounds = Interval(day_number(declared.low), day_number(declared.high))
    keys = declared.keys if declared is not None else None
    made = Value(tree, kind, bounds, keys=keys, unit=unit, source=(table, name), clamped=False, public=public)
    if kind != "text":
        return made
    size = declared.max_length if declared is not None and declared.max_length is not None else MAX_LENGTH
    return replace(made, size=size, uncut=True)

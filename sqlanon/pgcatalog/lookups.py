"""Functions of PostgreSQL that look things up in the catalog, in Python: names of oids, oids of names, definitions.

They are registered in the metadata database, and called here for constants.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from sqlanon.errors import Refused
from sqlanon.pgcatalog.contents import CONTENTS, functions
from sqlanon.pgcatalog.identifiers import index_definition, list_names, parse_ident, quote_ident, split_name
from sqlanon.pgcatalog.kinds import BY_OID, sql_name, type_named
from sqlanon.pgcatalog.metadata import PUBLIC
from sqlanon.pgcatalog.principal_view import SYSTEM, Entry, View
from sqlanon.pgwire.codecs.arrays import quote_element
from sqlanon.pgwire.frontend import ProtocolError
from sqlanon.pgwire.types import JSON, JSONB, PgType, decode

LONGEST_SERIES = 10_000
LONGEST_TEXT = 1_000_000


@dataclass(frozen=True)
class Lookups:
    """What the functions need to know: the catalog of one principal."""

    view: View

    @cached_property
    def procedures(self) -> dict[int, str]:
        return functions()

    @cached_property
    def descriptions(self) -> dict[tuple[int, int, int], str]:
        rows = CONTENTS["pg_catalog.pg_description"](self.view)
        return {(row["objoid"], row["classoid"], row["objsubid"]): row["description"] for row in rows}

    # From oids to names: what a value of type regclass, regtype … looks like.

    def regclass_out(self, oid: int) -> str:
        entry = self.view.by_oid.get(oid)
        if entry is not None:
            return self._shown(entry.schema, entry.name)
        indexed = self.view.indexes.get(oid)
        return self._shown(indexed.schema, indexed.name) if indexed else _number(oid)

    def _shown(self, schema: str, name: str) -> str:
        visible = schema in ("pg_catalog", PUBLIC)
        return quote_ident(name) if visible else f"{quote_ident(schema)}.{quote_ident(name)}"

    def regtype_out(self, oid: int) -> str:
        return (self.format_type(oid, None) if oid in BY_OID or oid in self._rows else None) or _number(oid)

    def regproc_out(self, oid: int) -> str:
        return self.procedures.get(oid) or _number(oid)

    def regnamespace_out(self, oid: int) -> str:
        names = {number: name for name, number in self.view.schemas.items()}
        return quote_ident(names[oid]) if oid in names else _number(oid)

    def regrole_out(self, oid: int) -> str:
        names = {number: name for name, number in self.view.roles.items()}
        return quote_ident(names[oid]) if oid in names else _number(oid)

    @cached_property
    def _rows(self) -> dict[int, Entry]:
        """Types that are the rows of a table, or arrays of them."""
        found = {entry.row_type: entry for entry in self.view.tables}
        return found | {entry.array_type: entry for entry in self.view.tables}

    def format_type(self, oid: int | None, typmod: int | None) -> str | None:
        if oid is None:
            return None
        if oid in BY_OID:
            return sql_name(BY_OID[oid], -1 if typmod is None else typmod)
        entry = self._rows.get(oid)
        if entry is None:
            return "-" if oid == 0 else "???"
        return self._shown(entry.schema, entry.name) + ("[]" if oid == entry.array_type else "")

    def pg_get_userbyid(self, oid: int) -> str:
        names = {number: name for name, number in self.view.roles.items()}
        return names.get(oid, f"unknown (OID={oid})")

    # From names to oids; None if there is no such thing.

    def to_regclass(self, text: str) -> int | None:
        if text.isascii() and text.isdigit():
            return _oid(text)
        parts = split_name(text)
        if len(parts) == 3 and parts[0] == self.view.metadata.database:
            parts = parts[1:]
        if len(parts) > 2:
            return None
        schema = parts[0] if len(parts) == 2 else None
        if (entry := self.view.find(schema, parts[-1])) is not None:
            return entry.oid
        for oid, key in self.view.indexes.items():
            if key.name == parts[-1] and key.schema == (schema or PUBLIC):
                return oid
        return None

    def to_regtype(self, text: str) -> int | None:
        if text.isascii() and text.isdigit():
            return _oid(text)
        plain = re.sub(r"\(\s*\d+\s*(,\s*\d+\s*)?\)", "", " ".join(text.split()))
        if '"' not in plain:
            found = type_named(plain.lower().removeprefix("pg_catalog."))
            if found is not None:
                return found.oid
        parts = split_name(plain.removesuffix("[]"))
        if len(parts) <= 2 and (parts[0] == "pg_catalog" or len(parts) == 1):
            found = type_named(parts[-1] + ("[]" if plain.endswith("[]") else ""), quoted=True)
            if found is not None:
                return found.oid
        entry = self.view.find(parts[0] if len(parts) == 2 else None, parts[-1])
        if entry is None or entry.schema in SYSTEM:
            return None
        return entry.array_type if plain.endswith("[]") else entry.row_type

    def to_regproc(self, text: str) -> int | None:
        name = split_name(text)[-1]
        return next((oid for oid, known in self.procedures.items() if known == name), None)

    def to_regnamespace(self, text: str) -> int | None:
        return self.view.schemas.get(split_name(text)[-1])

    def to_regrole(self, text: str) -> int | None:
        return self.view.roles.get(split_name(text)[-1])

    # Definitions and comments.

    def pg_get_indexdef(self, oid: int, column: int, pretty: bool) -> str | None:
        key = self.view.indexes.get(oid)
        if key is None:
            return None
        if column == 0:
            whole = index_definition(key)
            return whole.replace(f" ON {quote_ident(key.schema)}.", " ON ") if pretty else whole
        return quote_ident(key.columns[column - 1]) if 0 < column <= len(key.columns) else None

    def pg_get_constraintdef(self, oid: int) -> str | None:
        key = next((key for key in self.view.keys if key.oid == oid), None)
        if key is None:
            return None
        if key.target is None:
            return f"{'PRIMARY KEY' if key.kind == 'p' else 'UNIQUE'} ({list_names(key.columns)})"
        target = self._shown(key.target.schema, key.target.name)
        return f"FOREIGN KEY ({list_names(key.columns)}) REFERENCES {target}({list_names(key.referred)})"

    def obj_description(self, oid: int, catalog: str) -> str | None:
        classes = {"pg_class": 1259, "pg_namespace": 2615}
        return self.descriptions.get((oid, classes.get(catalog, 0), 0))

    def col_description(self, oid: int, column: int) -> str | None:
        return self.descriptions.get((oid, 1259, column)) if column else None

    def is_visible(self, oid: int) -> bool | None:
        entry = self.view.by_oid.get(oid) or self.view.indexes.get(oid) or self._rows.get(oid)
        if entry is None:
            return True if oid in BY_OID else None
        return entry.schema in ("pg_catalog", PUBLIC)

    def may_select(self, oid: int, privilege: str) -> bool | None:
        if oid not in self.view.by_oid:
            return None
        return any(word.strip().upper() == "SELECT" for word in privilege.split(","))

    def number(self, name: str) -> int:
        """The oid of a relation that a function is given by name; 42P01 if there is none."""
        found = self.to_regclass(name)
        if found is None:
            raise Refused(f'relation "{name[:80]}" does not exist', sqlstate="42P01")
        return found


def _oid(digits: str) -> int:
    if len(digits) > 10 or int(digits) >= 2**32:
        raise Refused("value is out of range for type oid", sqlstate="22003")
    return int(digits)


def _number(oid: int) -> str:
    return str(oid) if oid else "-"


def series(first: int, last: int, step: int) -> list[int]:
    """generate_series(), but not without end."""
    if step == 0:
        raise Refused("step size cannot equal zero", sqlstate="22023")
    made = range(first, last + (1 if step > 0 else -1), step)
    if len(made) > LONGEST_SERIES:
        said = f"a series of more than {LONGEST_SERIES} numbers is not answered"
        raise Refused(said, sqlstate="54000")
    return list(made)


def array_out(items: list[str | None]) -> str:
    """An array as text; its elements are text already."""
    return "{" + ",".join("NULL" if item is None else quote_element(item) for item in items) + "}"


def array_to_text(items: list[str | None] | None, between: str | None, missing: str | None) -> str | None:
    """
    >>> array_to_text(["a", None, "b"], "-", None), array_to_text(["a", None], "-", "?")
    ('a-b', 'a-?')
    """
    if items is None or between is None:
        return None
    told = [missing if item is None else item for item in items]
    made = between.join(item for item in told if item is not None)
    if len(made) > LONGEST_TEXT:
        raise Refused(f"a text of more than {LONGEST_TEXT} bytes is not answered", sqlstate="54000")
    return made


def array_to_string(items: list[str | None], between: str) -> str | None:
    return array_to_text(items, between, None)


def as_json(text: str) -> str:
    return _decoded(JSON, text)


def as_jsonb(text: str) -> str:
    return _decoded(JSONB, text)


def _decoded(kind: PgType, text: str) -> str:
    try:
        return str(decode(kind, 0, text.encode()))
    except ProtocolError as error:
        raise Refused(error.message, sqlstate=error.sqlstate) from None


def encoding(number: int) -> str:
    return {0: "SQL_ASCII", 6: "UTF8", 8: "LATIN1"}.get(number, "")


def size_pretty(size: int) -> str:
    """
    >>> size_pretty(0), size_pretty(20000), size_pretty(5 * 2**30)
    ('0 bytes', '20 kB', '5120 MB')
    """
    amount = float(size)
    for unit in ("bytes", "kB", "MB", "GB", "TB"):
        if abs(amount) < 10240 or unit == "TB":
            return f"{round(amount)} {unit}"
        amount /= 1024
    raise AssertionError


SPECIAL = ("format_type", "array_to_text")  # take NULL as an argument
# Name, function of Lookups or a plain one, types of arguments and of the result in DuckDB.
Registered = tuple[str, Callable[..., object], list[str], str]


def _each(out: Callable[[int], str]) -> Callable[[list[int | None]], list[str | None]]:
    """The same of every element of an array."""

    def written(oids: list[int | None]) -> list[str | None]:
        return [None if oid is None else out(oid) for oid in oids]

    return written


def list_functions(known: Lookups) -> list[Registered]:
    """Every function that the metadata database is given. NULL in, NULL out, except for those of SPECIAL."""
    one = ["BIGINT"]
    found: list[Registered] = [
        (f"{name}_out", getattr(known, f"{name}_out"), one, "VARCHAR")
        for name in ("regclass", "regtype", "regproc", "regnamespace", "regrole")
    ]
    found += [
        (f"{name}_outs", _each(getattr(known, f"{name}_out")), ["BIGINT[]"], "VARCHAR[]")
        for name in ("regclass", "regtype", "regproc", "regnamespace", "regrole")
    ]
    found += [
        (f"to_{name}", getattr(known, f"to_{name}"), ["VARCHAR"], "BIGINT")
        for name in ("regclass", "regtype", "regproc", "regnamespace", "regrole")
    ]
    return [
        *found,
        ("format_type", known.format_type, ["BIGINT", "INTEGER"], "VARCHAR"),
        ("pg_get_userbyid", known.pg_get_userbyid, one, "VARCHAR"),
        ("pg_get_indexdef", known.pg_get_indexdef, ["BIGINT", "INTEGER", "BOOLEAN"], "VARCHAR"),
        ("pg_get_constraintdef", known.pg_get_constraintdef, one, "VARCHAR"),
        ("obj_description", known.obj_description, ["BIGINT", "VARCHAR"], "VARCHAR"),
        ("col_description", known.col_description, ["BIGINT", "INTEGER"], "VARCHAR"),
        ("is_visible", known.is_visible, one, "BOOLEAN"),
        ("may_select", known.may_select, ["BIGINT", "VARCHAR"], "BOOLEAN"),
        ("number", known.number, ["VARCHAR"], "BIGINT"),
        ("quote_ident", quote_ident, ["VARCHAR"], "VARCHAR"),
        ("parse_ident", parse_ident, ["VARCHAR", "BOOLEAN"], "VARCHAR[]"),
        ("series", series, ["BIGINT", "BIGINT", "BIGINT"], "BIGINT[]"),
        ("array_out", array_out, ["VARCHAR[]"], "VARCHAR"),
        ("array_to_string", array_to_string, ["VARCHAR[]", "VARCHAR"], "VARCHAR"),
        ("array_to_text", array_to_text, ["VARCHAR[]", "VARCHAR", "VARCHAR"], "VARCHAR"),
        ("json", as_json, ["VARCHAR"], "VARCHAR"),
        ("jsonb", as_jsonb, ["VARCHAR"], "VARCHAR"),
        ("encoding", encoding, ["INTEGER"], "VARCHAR"),
        ("size_pretty", size_pretty, one, "VARCHAR"),
    ]

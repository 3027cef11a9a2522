"""The rows of information_schema, a function for each view that has any; all others are empty."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlanon.pgcatalog.contents import Row, Rows
from sqlanon.pgcatalog.kinds import NUMERIC, sql_name
from sqlanon.pgcatalog.metadata import PgColumn
from sqlanon.pgcatalog.principal_view import Entry, Key, View

BITS = {"int2": 16, "int4": 32, "int8": 64, "float4": 24, "float8": 53}
FRACTIONS = {"date": 0, "time": 6, "timestamp": 6, "timestamptz": 6, "timetz": 6, "interval": 6}
TYPES = {"r": "BASE TABLE", "v": "VIEW"}


def _place(view: View, entry: Entry, prefix: str = "table") -> Row:
    catalog, schema, name = (f"{prefix}_{part}" for part in ("catalog", "schema", "name"))
    return {catalog: view.metadata.database, schema: entry.schema, name: entry.name}


def tables(view: View) -> Rows:
    for entry in view.entries:
        yield _place(view, entry) | {
            "table_type": TYPES[entry.kind], "is_insertable_into": "NO", "is_typed": "NO",
        }  # fmt: skip


def _size(column: PgColumn) -> Row:
    kind, typmod = column.type.name, column.typmod
    if kind in BITS:
        return {
            "numeric_precision": BITS[kind], "numeric_precision_radix": 2,
            "numeric_scale": None if kind.startswith("float") else 0,
        }  # fmt: skip
    if kind == NUMERIC.name:
        known = typmod >= 4
        return {
            "numeric_precision_radix": 10, "numeric_precision": (typmod - 4) >> 16 if known else None,
            "numeric_scale": (typmod - 4) & 0x7FF if known else None,
        }  # fmt: skip
    if kind in FRACTIONS:
        return {"datetime_precision": typmod if typmod >= 0 and kind != "date" else FRACTIONS[kind]}
    if kind in ("varchar", "bpchar"):
        length = typmod - 4 if typmod >= 4 else None
        octets = None if length is None else length * 4
        return {"character_maximum_length": length, "character_octet_length": octets or 1073741824}
    return {"character_octet_length": 1073741824} if kind == "text" else {}


def columns(view: View) -> Rows:
    for entry, number, column in view.columns():
        array = column.type.name.startswith("_")
        yield (
            _place(view, entry)
            | {
                "column_name": column.name, "ordinal_position": number,
                "is_nullable": "NO" if column.not_null else "YES",
                "data_type": "ARRAY" if array else sql_name(column.type), "udt_catalog": view.metadata.database,
                "udt_schema": "pg_catalog", "udt_name": column.type.name, "dtd_identifier": str(number),
                "is_self_referencing": "NO", "is_identity": "NO", "identity_cycle": "NO", "is_generated": "NEVER",
                "is_updatable": "NO",
            }
            | _size(column)
        )  # fmt: skip


def views(view: View) -> Rows:
    for entry in view.entries:
        if entry.kind == "v":
            yield _place(view, entry) | {
                "check_option": "NONE", "is_updatable": "NO", "is_insertable_into": "NO",
                "is_trigger_updatable": "NO", "is_trigger_deletable": "NO", "is_trigger_insertable_into": "NO",
            }  # fmt: skip


def schemata(view: View) -> Rows:
    for name in view.schemas:
        yield {
            "catalog_name": view.metadata.database, "schema_name": name, "schema_owner": view.metadata.owner,
        }  # fmt: skip


CONSTRAINTS = {"p": "PRIMARY KEY", "u": "UNIQUE", "f": "FOREIGN KEY"}


def _key(view: View, key: Key, prefix: str = "constraint") -> Row:
    return {
        f"{prefix}_catalog": view.metadata.database, f"{prefix}_schema": key.schema, f"{prefix}_name": key.name,
    }  # fmt: skip


def table_constraints(view: View) -> Rows:
    for key in view.keys:
        yield _key(view, key) | _place(view, key.entry) | {
            "constraint_type": CONSTRAINTS[key.kind], "is_deferrable": "NO", "initially_deferred": "NO",
            "enforced": "YES", "nulls_distinct": "YES" if key.kind == "u" else None,
        }  # fmt: skip


def key_column_usage(view: View) -> Rows:
    for key in view.keys:
        for place, name in enumerate(key.columns, start=1):
            column: Row = {"column_name": name, "ordinal_position": place}
            if key.target is not None:
                led = view.indexes.get(key.index)
                position = led.columns.index(key.referred[place - 1]) + 1 if led is not None else None
                column["position_in_unique_constraint"] = position
            yield _key(view, key) | _place(view, key.entry) | column


def referential_constraints(view: View) -> Rows:
    for key in view.keys:
        led = view.indexes.get(key.index) if key.target is not None else None
        if key.target is not None:
            yield _key(view, key) | (_key(view, led, "unique_constraint") if led is not None else {}) | {
                "match_option": "NONE", "update_rule": "NO ACTION", "delete_rule": "NO ACTION",
            }  # fmt: skip


def constraint_column_usage(view: View) -> Rows:
    """Of a foreign key, the columns that it leads to."""
    for key in view.keys:
        for name in key.referred or key.columns:
            yield _key(view, key) | _place(view, key.target or key.entry) | {"column_name": name}


def constraint_table_usage(view: View) -> Rows:
    for key in view.keys:
        yield _key(view, key) | _place(view, key.target or key.entry)


def table_privileges(view: View) -> Rows:
    for entry in view.tables:
        yield _place(view, entry) | {
            "grantor": view.metadata.owner, "grantee": view.principal, "privilege_type": "SELECT",
            "is_grantable": "NO", "with_hierarchy": "YES",
        }  # fmt: skip


def column_privileges(view: View) -> Rows:
    for entry in view.tables:
        for column in entry.columns:
            yield _place(view, entry) | {
                "grantor": view.metadata.owner, "grantee": view.principal, "column_name": column.name,
                "privilege_type": "SELECT", "is_grantable": "NO",
            }  # fmt: skip


def character_sets(view: View) -> Rows:
    yield {
        "character_set_name": "UTF8", "character_repertoire": "UCS", "form_of_use": "UTF8",
        "default_collate_catalog": view.metadata.database, "default_collate_schema": "pg_catalog",
        "default_collate_name": "C",
    }  # fmt: skip


def enabled_roles(view: View) -> Rows:
    yield {"role_name": view.principal}


def information_schema_catalog_name(view: View) -> Rows:
    yield {"catalog_name": view.metadata.database}


VIEWS: dict[str, Callable[[View], Rows]] = {
    f"information_schema.{made.__name__}": made
    for made in (
        tables, columns, views, schemata, table_constraints, key_column_usage, constraint_column_usage,
        constraint_table_usage, referential_constraints, table_privileges, column_privileges, character_sets,
        enabled_roles, information_schema_catalog_name,
    )
}  # fmt: skip
VIEWS |= {
    "information_schema.role_table_grants": table_privileges,
    "information_schema.role_column_grants": column_privileges,
}


def replace_zero_bytes(value: Any) -> Any:
    """A value as the database takes it; a zero byte, which no text may hold, is shown as what it is."""
    return value.replace("\0", "\N{REPLACEMENT CHARACTER}") if isinstance(value, str) else value

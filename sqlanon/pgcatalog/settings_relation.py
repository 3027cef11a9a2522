"""pg_settings: what the session says of its settings, as a relation."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from sqlanon.pgcatalog.binder import CatalogBinder
from sqlanon.pgcatalog.bound_expression import constant
from sqlanon.pgcatalog.relations import RELATIONS
from sqlanon.pgcatalog.scope import Field
from sqlanon.pgcatalog.session_settings import CHECKED, FREE

# What every client finds, unless the session or the server says otherwise.
DEFAULTS = {**FREE, **{name: value for name, (value, _) in CHECKED.items()}} | {
    "application_name": "", "bytea_output": "hex", "client_encoding": "UTF8", "client_min_messages": "notice",
    "datestyle": "ISO, MDY", "default_transaction_isolation": "read committed", "default_transaction_read_only": "on",
    "extra_float_digits": "1", "in_hot_standby": "off", "integer_datetimes": "on", "intervalstyle": "postgres",
    "is_superuser": "off", "lc_collate": "C.UTF-8", "lc_ctype": "C.UTF-8", "max_identifier_length": "63",
    "max_index_keys": "32", "search_path": '"$user", public', "server_encoding": "UTF8",
    "standard_conforming_strings": "on", "statement_timeout": "0", "timezone": "UTC",
    "transaction_isolation": "read committed", "transaction_read_only": "on",
}  # fmt: skip
SPELLED = {"datestyle": "DateStyle", "intervalstyle": "IntervalStyle", "timezone": "TimeZone"}


def versions(version: str) -> dict[str, str]:
    """
    >>> versions("15.4")
    {'server_version': '15.4', 'server_version_num': '150004'}
    """
    major, _, minor = version.split(" ")[0].partition(".")
    return {"server_version": version, "server_version_num": f"{int(major) * 10000 + int(minor or 0)}"}


def relation(b: CatalogBinder, placed: Callable[[tuple[Field, ...]], str]) -> exp.Expr:
    """The settings as VALUES: they differ from session to session."""
    columns = RELATIONS["pg_catalog.pg_settings"].columns
    fields = tuple(
        Field(name, kind, f"c{place}", (RELATIONS["pg_catalog.pg_settings"].oid, place + 1))
        for place, (name, kind) in enumerate(columns)
    )
    rows = []
    for name, value in sorted(b.session.settings.items()):
        told = {
            "name": SPELLED.get(name, name), "setting": value, "category": "sqlanon", "context": "user",
            "vartype": "bool" if value in ("on", "off") else "string", "source": "default", "boot_val": value,
            "reset_val": value, "pending_restart": False,
        }  # fmt: skip
        rows.append(exp.Tuple(expressions=[constant(told.get(column), kind).tree for column, kind in columns]))
    alias = exp.TableAlias(
        this=exp.to_identifier(placed(fields)), columns=[exp.to_identifier(field.column) for field in fields]
    )
    return exp.Values(expressions=rows, alias=alias)

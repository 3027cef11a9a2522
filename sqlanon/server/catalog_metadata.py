"""The catalog that clients see of a policy: names, types and keys, as a query worker tells them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from sqlanon.pgcatalog.metadata import KeyInfo, Metadata, PgColumn, RoleInfo, TableInfo
from sqlanon.pgcatalog.session_settings import SERVER_VERSION
from sqlanon.pgwire import types
from sqlanon.pgwire.types import PgType

if TYPE_CHECKING:
    from sqlanon.policy.serve import Serve

BY_NAME = {each.name: each for each in types.KNOWN}
COMMENTS = {
    "private": "rows of persons: aggregates are answered with differential privacy",
    "released": "anonymized and released: answered plainly",
    "public": "public: answered plainly",
}


def metadata_of(serve: Serve, tables: Sequence[Mapping[str, Any]]) -> Metadata:
    """The catalog of a policy, from its tables as a query worker tells them."""
    made = []
    for table in tables:
        schema, name = _place(table["name"])
        keys = [(kind, tuple(own), other, tuple(referred)) for kind, own, other, referred in table["keys"]]
        primary: tuple[str, ...] = next((own for kind, own, _, _ in keys if kind == "primary"), ())
        required = {column for kind, own, _, _ in keys if kind in ("primary", "required") for column in own}
        columns = tuple(
            PgColumn(column, pg_type(kind), column in required, typmod(kind))
            for column, kind in table["columns"].items()
        )
        others = [KeyInfo("unique", own) for kind, own, _, _ in keys if kind == "unique"]
        others += [KeyInfo("foreign", own, _place(to), led) for kind, own, to, led in keys if kind == "foreign"]
        info = TableInfo(
            name, columns, schema, comment=COMMENTS[table["kind"]], primary_key=primary, keys=tuple(others),
            seen_by=frozenset(table["seen_by"]),
        )  # fmt: skip
        made.append(info)
    made += _owners_views(serve, {(table.schema, table.name) for table in made})
    roles = tuple(RoleInfo(name) for name in serve.gateway.principals)
    return Metadata(serve.database_name, tuple(made), roles, version=SERVER_VERSION)


def _owners_views(serve: Serve, known: set[tuple[str, str]]) -> list[TableInfo]:
    """The views that owners keep over SQL, for owners: clients look for them before they refresh one."""
    folder = serve.located_policies
    owners = frozenset(name for name, each in serve.gateway.principals.items() if each.owner)
    if folder is None or not folder.is_dir() or not owners:
        return []
    names = [unquote(path.name.removesuffix(".sql.yml")) for path in sorted(folder.glob("*.sql.yml"))]
    places = [_place(name) for name in names if name not in ("labels", "gateway")]
    return [
        TableInfo(name, (), schema, "materialized view", "anonymized and released", seen_by=owners)
        for schema, name in places
        if (schema, name) not in known
    ]


def _place(name: str) -> tuple[str, str]:
    schema, _, table = name.rpartition(".")
    return schema or "public", table


def pg_type(name: str) -> PgType:
    """
    >>> pg_type("int8").oid, pg_type("text[]").oid, pg_type("varchar(12)").oid
    (20, 1009, 1043)
    """
    return types.array_of(BY_NAME[name[:-2]]) if name.endswith("[]") else BY_NAME[name.partition("(")[0]]


def typmod(name: str) -> int:
    """What PostgreSQL tells of the size of a type; -1 is nothing.

    >>> typmod("numeric(10,2)"), typmod("numeric(10)"), typmod("varchar(12)"), typmod("int8")
    (655366, 655364, 16, -1)
    """
    sizes = [int(size) for size in name.partition("(")[2].rstrip(")").split(",") if size]
    if not sizes:
        return -1
    return (sizes[0] << 16) + (sizes[1] if len(sizes) > 1 else 0) + 4 if name.startswith("numeric") else sizes[0] + 4

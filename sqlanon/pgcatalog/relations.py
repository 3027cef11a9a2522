"""The relations of pg_catalog and information_schema: their columns, read from relations.txt."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files

from sqlanon.pgcatalog.kinds import BY_NAME, array_of
from sqlanon.pgwire.types import PgType

# Passwords and their like are behind these, also in PostgreSQL for others than its superuser.
FORBIDDEN = frozenset({"pg_authid", "pg_shadow"})


@dataclass(frozen=True)
class CatalogRelation:
    schema: str
    name: str
    oid: int
    kind: str
    columns: tuple[tuple[str, PgType], ...]

    @property
    def key(self) -> str:
        return f"{self.schema}.{self.name}"


def _type(name: str) -> PgType:
    return array_of(BY_NAME[name[:-2]]) if name.endswith("[]") else BY_NAME[name]


def _read() -> dict[str, CatalogRelation]:
    text = files(__package__).joinpath("relations.txt").read_text(encoding="utf-8")
    found: dict[str, CatalogRelation] = {}
    head, body = "", ""
    for line in [*text.splitlines(), "end:"]:
        if line.startswith("#"):
            continue
        if line.startswith(" "):
            body += line
            continue
        if head:
            key, oid, kind = head.rstrip(":").split()
            schema, name = key.split(".")
            pairs = (column.split() for column in body.split(","))
            columns = tuple((column, _type(kind_of)) for column, kind_of in pairs)
            found[key] = CatalogRelation(schema, name, int(oid), kind, columns)
        head, body = line, ""
    return found


RELATIONS = _read()


def relation(schema: str | None, name: str) -> CatalogRelation | None:
    """A relation of the catalog; without a schema it is one of pg_catalog.

    >>> relation(None, "pg_class").oid, relation("information_schema", "tables").columns[2][0], relation(None, "tables")
    (1259, 'table_name', None)
    """
    return RELATIONS.get(f"{schema or 'pg_catalog'}.{name}")

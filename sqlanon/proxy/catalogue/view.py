"""What one principal sees: his tables with their oids, and the rows of the catalogue that follow from them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from sqlanon.proxy.catalogue.kinds import BY_OID, FACTS, Facts, array_of
from sqlanon.proxy.catalogue.metadata import PUBLIC, ColumnInfo, Metadata, TableInfo
from sqlanon.proxy.catalogue.relations import FORBIDDEN, RELATIONS
from sqlanon.proxy.types import PgType

# Oids below are PostgreSQL's own; those of tables begin where PostgreSQL begins to number what users make.
FIRST_OID = 16384
OIDS_A_TABLE = 8
FIRST_SCHEMA, FIRST_ROLE, DATABASE_OID, OWNER_OID = 900_000, 800_000, 700_000, 10
SCHEMAS = {"pg_catalog": 11, PUBLIC: 2200, "information_schema": 13207}
SYSTEM = ("pg_catalog", "information_schema")
FACTS_BY_OID = {facts.type.oid: facts for facts in FACTS}


def facts_of(kind: PgType) -> Facts:
    """What PostgreSQL says of a type; of an array, what it says of its elements."""
    return FACTS_BY_OID.get(kind.oid) or facts_of(kind.element or BY_OID[25])


@dataclass(frozen=True)
class Entry:
    """A table, view or relation of the catalogue, with the oids of what belongs to it."""

    oid: int
    schema: str
    name: str
    kind: str
    columns: tuple[ColumnInfo, ...]
    comment: str | None = None
    key: tuple[int, ...] = ()  # numbers of the columns of the primary key

    @property
    def row_type(self) -> int:
        return self.oid + 1 if self.oid >= FIRST_OID else 0

    @property
    def array_type(self) -> int:
        return self.oid + 2 if self.oid >= FIRST_OID else 0

    @property
    def index(self) -> int:
        return self.oid + 3 if self.key else 0

    @property
    def constraint(self) -> int:
        return self.oid + 4

    @property
    def key_name(self) -> str:
        return f"{self.name}_pkey"


def _entry(place: int, table: TableInfo) -> Entry:
    oid = FIRST_OID + place * OIDS_A_TABLE
    numbers = {column.name: number for number, column in enumerate(table.columns, start=1)}
    key = tuple(numbers[name] for name in table.primary_key if name in numbers)
    key = key if len(key) == len(table.primary_key) and table.kind == "table" else ()
    return Entry(
        oid, table.schema, table.name, "r" if table.kind == "table" else "v", table.columns, table.comment, key
    )


@dataclass(frozen=True)
class View:
    """The catalogue of one principal. Tables that he may not query do not exist in it."""

    metadata: Metadata
    principal: str

    @cached_property
    def tables(self) -> tuple[Entry, ...]:
        return tuple(_entry(place, table) for place, table in self.metadata.seen_by(self.principal))

    @cached_property
    def entries(self) -> tuple[Entry, ...]:
        """His tables and the relations of the catalogue."""
        return (*self.tables, *SYSTEM_ENTRIES)

    @cached_property
    def by_oid(self) -> dict[int, Entry]:
        return {entry.oid: entry for entry in self.entries}

    @cached_property
    def by_name(self) -> dict[tuple[str, str], Entry]:
        return {(entry.schema, entry.name): entry for entry in self.entries}

    @cached_property
    def indexes(self) -> dict[int, Entry]:
        """The tables that have a primary key, by the oid of its index."""
        return {entry.index: entry for entry in self.tables if entry.index}

    @cached_property
    def schemas(self) -> dict[str, int]:
        own = sorted({table.schema for table in self.metadata.tables} - set(SCHEMAS))
        seen = {entry.schema for entry in self.tables}
        numbered = {name: FIRST_SCHEMA + place for place, name in enumerate(own)}
        return SCHEMAS | {name: oid for name, oid in numbered.items() if name in seen}

    @cached_property
    def roles(self) -> dict[str, int]:
        names = [role.name for role in self.metadata.roles]
        if self.principal not in names:
            names.append(self.principal)
        numbered = {name: FIRST_ROLE + place for place, name in enumerate(names)}
        return {self.metadata.owner: OWNER_OID} | numbered

    def columns(self) -> Iterator[tuple[Entry, int, ColumnInfo]]:
        for entry in self.entries:
            for number, column in enumerate(entry.columns, start=1):
                yield entry, number, column

    def find(self, schema: str | None, name: str) -> Entry | None:
        """A relation by name; without a schema it is looked for in pg_catalog, then in public."""
        for place in (schema,) if schema else ("pg_catalog", PUBLIC):
            if (found := self.by_name.get((place, name))) is not None:
                return found
        return None


SYSTEM_ENTRIES = tuple(
    Entry(
        relation.oid, relation.schema, relation.name, relation.kind,
        tuple(ColumnInfo(name, kind, relation.kind == "r" and place == 0)
              for place, (name, kind) in enumerate(relation.columns)),
    )
    for relation in RELATIONS.values()
    if relation.name not in FORBIDDEN
)  # fmt: skip


def arrays() -> Iterator[tuple[Facts, PgType]]:
    """Every type that has an array, with it."""
    for facts in FACTS:
        if facts.type.array_oid:
            yield facts, array_of(facts.type)

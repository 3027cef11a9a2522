"""What one principal sees: their tables with the oids, and the rows of the catalog that follow from them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from sqlanon.pgcatalog.kinds import BY_OID, FACTS, TypeFacts, array_of
from sqlanon.pgcatalog.metadata import PUBLIC, KeyInfo, Metadata, PgColumn, TableInfo
from sqlanon.pgcatalog.relations import FORBIDDEN, RELATIONS
from sqlanon.pgwire.types import PgType

# Oids below are PostgreSQL's own; those of tables begin where PostgreSQL begins to number what users make.
FIRST_OID = 16384
OIDS_A_TABLE = 64
MAX_KEYS = 30  # of a table: each has an oid, and one for its index
FIRST_SCHEMA, FIRST_ROLE, DATABASE_OID, OWNER_OID = 900_000, 800_000, 700_000, 10
SCHEMAS = {"pg_catalog": 11, PUBLIC: 2200, "information_schema": 13207}
SYSTEM = ("pg_catalog", "information_schema")
FACTS_BY_OID = {facts.type.oid: facts for facts in FACTS}


def facts_of(kind: PgType) -> TypeFacts:
    """What PostgreSQL says of a type; of an array, what it says of its elements."""
    return FACTS_BY_OID.get(kind.oid) or facts_of(kind.element or BY_OID[25])


@dataclass(frozen=True)
class Entry:
    """A table, view or relation of the catalog, with the oids of what belongs to it."""

    oid: int
    schema: str
    name: str
    kind: str
    columns: tuple[PgColumn, ...]
    comment: str | None = None
    primary_key: tuple[str, ...] = ()
    other_keys: tuple[KeyInfo, ...] = ()

    @property
    def row_type(self) -> int:
        return self.oid + 1 if self.oid >= FIRST_OID else 0

    @property
    def array_type(self) -> int:
        return self.oid + 2 if self.oid >= FIRST_OID else 0

    @cached_property
    def numbers(self) -> dict[str, int]:
        """The numbers of the columns, by name."""
        return {column.name: number for number, column in enumerate(self.columns, start=1)}


@dataclass(frozen=True)
class Key:
    """A constraint of a table: p, u or f, as pg_constraint has it, with the oids of itself and of its index."""

    entry: Entry
    kind: str
    name: str
    columns: tuple[str, ...]
    oid: int
    index: int  # of a foreign key, that of the key which it leads to
    target: Entry | None = None
    referred: tuple[str, ...] = ()

    @property
    def schema(self) -> str:
        return self.entry.schema

    @property
    def numbers(self) -> list[int]:
        return [self.entry.numbers[name] for name in self.columns]

    @property
    def referred_numbers(self) -> list[int]:
        return [self.target.numbers[name] for name in self.referred] if self.target is not None else []


def _entry(place: int, table: TableInfo) -> Entry:
    oid = FIRST_OID + place * OIDS_A_TABLE
    kind = {"table": "r", "view": "v", "materialized view": "m"}[table.kind]
    made = Entry(oid, table.schema, table.name, kind, table.columns, table.comment)
    if table.kind != "table":
        return made
    key = table.primary_key if set(table.primary_key) <= set(made.numbers) else ()
    others = tuple(each for each in table.keys if set(each.columns) <= set(made.numbers))
    return replace(made, primary_key=key, other_keys=others)


def _key_name(entry: Entry, columns: tuple[str, ...], ending: str) -> str:
    return "_".join((entry.name, *columns, ending))


def _own_keys(entry: Entry) -> list[Key]:
    """The primary key and what else is unique."""
    listed = [("p", entry.primary_key, f"{entry.name}_pkey")] if entry.primary_key else []
    unique = [each.columns for each in entry.other_keys if each.kind == "unique"]
    listed += [("u", columns, _key_name(entry, columns, "key")) for columns in unique]
    first = entry.oid + 3
    return [
        Key(entry, kind, name, columns, first + 2 * place + 1, first + 2 * place)
        for place, (kind, columns, name) in enumerate(listed[:MAX_KEYS])
    ]


@dataclass(frozen=True)
class View:
    """The catalog of one principal. Tables that he may not query do not exist in it."""

    metadata: Metadata
    principal: str

    @cached_property
    def tables(self) -> tuple[Entry, ...]:
        return tuple(_entry(place, table) for place, table in self.metadata.seen_by(self.principal))

    @cached_property
    def entries(self) -> tuple[Entry, ...]:
        """The tables of the principal and the relations of the catalog."""
        return (*self.tables, *SYSTEM_ENTRIES)

    @cached_property
    def by_oid(self) -> dict[int, Entry]:
        return {entry.oid: entry for entry in self.entries}

    @cached_property
    def by_name(self) -> dict[tuple[str, str], Entry]:
        return {(entry.schema, entry.name): entry for entry in self.entries}

    @cached_property
    def keys(self) -> tuple[Key, ...]:
        """The constraints of the principal's tables; a foreign key is there if they see all that it refers to."""
        own = [key for entry in self.tables for key in _own_keys(entry)]
        found = {(key.entry.oid, key.columns): key for key in reversed(own)}
        made = list(own)
        for entry in self.tables:
            foreign = [each for each in entry.other_keys if each.kind == "foreign"]
            first = entry.oid + 3 + 2 * sum(key.entry is entry for key in own)
            for place, each in enumerate(foreign[: max(0, MAX_KEYS - (first - entry.oid) // 2)]):
                target = self.by_name.get(each.table)
                led = found.get((target.oid, each.referred)) if target is not None else None
                if target is None or not set(each.referred) <= set(target.numbers):
                    continue
                name, oid = _key_name(entry, each.columns, "fkey"), first + 2 * place
                index = led.index if led is not None else 0
                made.append(Key(entry, "f", name, each.columns, oid, index, target, each.referred))
        return tuple(made)

    @cached_property
    def indexes(self) -> dict[int, Key]:
        """The constraints that have an index, by its oid."""
        return {key.index: key for key in self.keys if key.kind != "f"}

    @cached_property
    def indexed(self) -> frozenset[int]:
        """The oids of the tables that have an index."""
        return frozenset(key.entry.oid for key in self.indexes.values())

    @cached_property
    def linked(self) -> frozenset[int]:
        """The oids of tables at an end of a foreign key: PostgreSQL keeps it by triggers, and psql asks for these."""
        ends = ((key.entry, key.target) for key in self.keys if key.target is not None)
        return frozenset(entry.oid for pair in ends for entry in pair)

    @cached_property
    def schemas(self) -> dict[str, int]:
        own = sorted({table.schema for table in self.metadata.tables} - set(SCHEMAS))
        seen = {entry.schema for entry in self.tables}
        numbered = {name: FIRST_SCHEMA + place for place, name in enumerate(own)}
        return SCHEMAS | {name: oid for name, oid in numbered.items() if name in seen}

    @cached_property
    def roles(self) -> dict[str, int]:
        """The owner, and who asks. Who else may ask is nobody's business, nor how many they are."""
        return {self.metadata.owner: OWNER_OID, self.principal: FIRST_ROLE}

    def columns(self) -> Iterator[tuple[Entry, int, PgColumn]]:
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
        tuple(PgColumn(name, kind, relation.kind == "r" and place == 0)
              for place, (name, kind) in enumerate(relation.columns)),
    )
    for relation in RELATIONS.values()
    if relation.name not in FORBIDDEN
)  # fmt: skip


def arrays() -> Iterator[tuple[TypeFacts, PgType]]:
    """Every type that has an array, with it."""
    for facts in FACTS:
        if facts.type.array_oid:
            yield facts, array_of(facts.type)

"""Which names a part of a statement may use, and what each stands for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from sqlglot import exp

from sqlanon.errors import Refused, did_you_mean
from sqlanon.pgcatalog.bound_expression import Bound, constant
from sqlanon.pgcatalog.kinds import BY_NAME, OID
from sqlanon.pgwire.types import PgType

# What every row says of the transactions that wrote it: here all are as old as the catalog.
VERSIONS = {"xmin": ("xid", 1), "xmax": ("xid", 0), "cmin": ("cid", 0), "cmax": ("cid", 0)}


@dataclass(frozen=True)
class Field:
    """A column of a relation: its name for the analyst, and the one that it has in the generated statement."""

    name: str
    type: PgType
    column: str
    origin: tuple[int, int] = (0, 0)
    fields: Mapping[str, PgType] | None = None
    typmod: int = -1


@dataclass(frozen=True)
class FromSource:
    """A relation in FROM; `alias` is its name in the generated statement, where every name is new."""

    name: str | None
    alias: str
    columns: tuple[Field, ...]
    schema: str | None = None
    oid: int = 0  # of a relation of the catalog

    def named(self, name: str) -> list[Bound]:
        """The columns of a name; also tableoid and xmin, which every relation has and * does not show."""
        found = [self.bound(column) for column in self.columns if column.name == name]
        if not found and name == "tableoid" and self.oid:
            return [constant(self.oid, OID, name=name, weight=2)]
        if not found and name in VERSIONS and self.oid:
            kind, value = VERSIONS[name]
            return [constant(value, BY_NAME[kind], name=name, weight=2)]
        return found

    def bound(self, column: Field) -> Bound:
        tree = exp.column(exp.to_identifier(column.column, quoted=True), table=exp.to_identifier(self.alias))
        return Bound(
            tree, column.type, column.name, 2, origin=column.origin, fields=column.fields, typmod=column.typmod
        )


@dataclass
class SelectScope:
    """The relations of one SELECT; a subquery sees those around it too."""

    parent: SelectScope | None = None
    sources: list[FromSource] = field(default_factory=list)
    merged: dict[str, Bound] = field(default_factory=dict)  # columns that JOIN … USING made one of
    hidden: set[tuple[str, str]] = field(default_factory=set)  # alias and column of what they were made of

    def add(self, source: FromSource) -> None:
        if source.name is not None and any(
            other.name == source.name and other.schema == source.schema for other in self.sources
        ):
            raise Refused(f'table name "{source.name[:80]}" specified more than once', sqlstate="42712")
        self.sources.append(source)

    def column(self, name: str, table: str | None, schema: str | None, place: int | None) -> Bound:
        scope: SelectScope | None = self
        while scope is not None:
            found = scope._own(name, table, schema)
            if len(found) > 1:
                raise Refused(f'column reference "{name[:80]}" is ambiguous', sqlstate="42702", position=place)
            if found:
                return found[0]
            if table is not None and any(source.name == table for source in scope.sources):
                break
            scope = scope.parent
        raise self._missing(name, table, place)

    def _own(self, name: str, table: str | None, schema: str | None) -> list[Bound]:
        if table is None and name in self.merged:
            return [_copied(self.merged[name])]
        return [
            item
            for source in self.sources
            if table is None or (source.name == table and schema in (None, source.schema))
            for item in source.named(name)
        ]

    def _missing(self, name: str, table: str | None, place: int | None) -> Refused:
        if table is not None and not any(source.name == table for source in self._all()):
            said = f'missing FROM-clause entry for table "{table[:80]}"'
            return Refused(said, sqlstate="42P01", position=place)
        known = [column.name for source in self._all() for column in source.columns]
        shown = f'"{name[:80]}"' if table is None else f"{table[:80]}.{name[:80]}"
        return Refused(
            f"column {shown} does not exist", sqlstate="42703", hint=did_you_mean(name, known), position=place
        )

    def _all(self) -> Iterator[FromSource]:
        yield from self.sources
        if self.parent is not None:
            yield from self.parent._all()

    def star(self, table: str | None, schema: str | None = None) -> list[Bound]:
        """What * or table.* stands for."""
        if table is None:
            if not self.sources:
                raise Refused("SELECT * with no tables specified is not valid", sqlstate="42601")
            return [
                *map(_copied, self.merged.values()),
                *(
                    source.bound(column)
                    for source in self.sources
                    for column in source.columns
                    if (source.alias, column.column) not in self.hidden
                ),
            ]
        for source in self.sources:
            if source.name == table and schema in (None, source.schema):
                return [source.bound(column) for column in source.columns]
        raise Refused(f'missing FROM-clause entry for table "{table[:80]}"', sqlstate="42P01")


def _copied(item: Bound) -> Bound:
    return replace(item, tree=item.tree.copy())


def fold_name(identifier: exp.Expr) -> str:
    """A name as PostgreSQL takes it: in lower case unless it is quoted.

    >>> fold_name(exp.to_identifier("Name")), fold_name(exp.to_identifier("Name", quoted=True))
    ('name', 'Name')
    """
    name = str(identifier.name)
    if isinstance(identifier, exp.Identifier) and identifier.args.get("quoted"):
        return name
    return "".join(letter.lower() if letter.isascii() else letter for letter in name)


def position(node: exp.Expr) -> int | None:
    """Where a name stands in the text, counted from 1."""
    return next((part.meta["start"] + 1 for part in node.walk() if "start" in part.meta), None)


def fields_of(names: Sequence[str], items: Sequence[Bound]) -> tuple[Field, ...]:
    """The columns of a subquery, under new names."""
    return tuple(
        Field(name, item.type, f"c{place}", item.origin, item.fields, item.typmod)
        for place, (name, item) in enumerate(zip(names, items, strict=True))
    )

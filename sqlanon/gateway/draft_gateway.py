"""Draft the gateway of a policy from a schema: which tables hold rows of a person follows from their foreign keys.

Only the catalog is read, and no row: bounds that were taken from data would be told with every answer. Whose privacy is
protected is asked for and never guessed, and nothing is public: tables that no foreign key joins to the person are left
out, with the reason, as are those that several ways lead from, since a row of theirs may belong to two persons.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import sqlglot

from sqlanon.engines import Engine, connect
from sqlanon.errors import PolicyError, SourceError, did_you_mean
from sqlanon.evidence.draft_policy import key, scalar
from sqlanon.gateway.bind.catalog import kind_of
from sqlanon.gateway.bind.schema import CONSTRAINTS, same_when_equal
from sqlanon.gateway.bind.values import NUMBERS, OWN, TIMES, WRITTEN

COLUMNS = {
    "duckdb": "SELECT schema_name, table_name, column_name, data_type FROM duckdb_columns() "
    "WHERE database_name = current_database() AND NOT internal AND table_name IN (SELECT table_name FROM "
    "duckdb_tables() t WHERE t.database_name = current_database() AND t.schema_name = duckdb_columns.schema_name) "
    "ORDER BY schema_name, table_name, column_index",
    "postgres": "SELECT n.nspname, c.relname, CAST(a.attname AS TEXT), format_type(a.atttypid, a.atttypmod) "
    "FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace "
    "WHERE c.relkind IN ('r', 'p') AND a.attnum > 0 AND NOT a.attisdropped "
    "AND n.nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast') ORDER BY 1, 2, a.attnum",
}
DEFAULT_SCHEMAS = {"duckdb": "main", "postgres": "public"}
HIDDEN_TYPES = ("BLOB", "BYTEA", "JSON", "JSONB", "XML")

Name = str  # of a table, as a policy writes it


@dataclass(frozen=True)
class ForeignKey:
    table: Name
    columns: tuple[str, ...]
    other: Name
    referred: tuple[str, ...]


@dataclass(frozen=True)
class Shape:
    """What a catalog says of all tables of a database."""

    columns: Mapping[Name, Mapping[str, str]]  # types by table and column
    primary: Mapping[Name, tuple[str, ...]]
    unique: frozenset[tuple[Name, tuple[str, ...]]]
    foreign: tuple[ForeignKey, ...]


@dataclass
class GatewayDraft:
    unit: tuple[Name, str]
    owned: dict[Name, str] = field(default_factory=dict)  # the column of the person, by table
    linked: dict[Name, ForeignKey] = field(default_factory=dict)
    left_out: dict[Name, str] = field(default_factory=dict)
    text: str = ""

    @property
    def summary(self) -> str:
        private, out = 1 + len(self.owned) + len(self.linked), len(self.left_out)
        return f"{private} {'table' if private == 1 else 'tables'} of persons, {out} left out"


def draft_gateway(database: str, unit: str | None, *, base: Path = Path(".")) -> GatewayDraft:
    """Draft a gateway for a database; `unit` is the table of the persons, or table.column."""
    with closing(connect(database, read_only=True)) as engine:
        if engine.dialect not in COLUMNS:
            raise SourceError(
                f"there is no gateway on {engine.dialect}", hint="give a DuckDB file or a postgresql:// URL"
            )
        shape = read_shape(engine)
    draft = trace_persons(shape, find_unit(shape, unit))
    place = database if "://" in database or os.path.isabs(database) else os.path.relpath(database, base)
    draft.text = "\n".join(_lines(draft, shape, place)) + "\n"
    return draft


def read_shape(engine: Engine) -> Shape:
    """Read columns and constraints of all tables."""
    default = DEFAULT_SCHEMAS[engine.dialect]
    columns: dict[Name, dict[str, str]] = {}
    for schema, table, column, kind in engine.query(sqlglot.parse_one(COLUMNS[engine.dialect], read=engine.dialect)):
        columns.setdefault(_written(schema, table, default), {})[str(column)] = str(kind)
    primary: dict[Name, tuple[str, ...]] = {}
    unique: set[tuple[Name, tuple[str, ...]]] = set()
    foreign = []
    found = engine.query(sqlglot.parse_one(CONSTRAINTS[engine.dialect], read=engine.dialect))
    for schema, table, kind, own, other_schema, other, referred in found:
        name = _written(schema, table, default)
        if name not in columns:
            continue
        if kind == "PRIMARY KEY":
            primary[name] = tuple(own)
        if kind in ("PRIMARY KEY", "UNIQUE"):
            unique.add((name, tuple(sorted(own))))
        if kind == "FOREIGN KEY" and other and referred:
            foreign.append(ForeignKey(name, tuple(own), _written(other_schema, other, default), tuple(referred)))
    return Shape(columns, primary, frozenset(unique), tuple(dict.fromkeys(foreign)))


def find_unit(shape: Shape, given: str | None) -> tuple[Name, str]:
    """The table and key of the persons; refuses to guess."""
    if given is not None and given not in shape.columns and not shape.columns:
        raise SourceError("the database has no table", hint="name another database")
    candidates = [
        f"{name}.{columns[0]}"
        for name, columns in shape.primary.items()
        if len(columns) == 1 and any(each.other == name for each in shape.foreign)
    ] or [f"{name}.{columns[0]}" for name, columns in shape.primary.items() if len(columns) == 1]
    if given is None:
        listed = ", ".join(candidates[:8]) or "no table has a key of one column"
        raise PolicyError(
            "whose privacy is to be protected is not guessed",
            hint=f"say it with --unit TABLE.KEY; keys that the schema has: {listed}",
        )
    if given in shape.columns:
        key_of = shape.primary.get(given, ())
        if len(key_of) != 1:
            raise PolicyError(f"table '{given}' has no key of one column", hint=f"say which: --unit {given}.COLUMN")
        return given, key_of[0]
    table, _, column = given.rpartition(".")
    if table not in shape.columns:
        hint = did_you_mean(table or given, shape.columns) or f"there are {', '.join(list(shape.columns)[:12])}"
        raise PolicyError(f"there is no table '{table or given}'", hint=hint)
    if column not in shape.columns[table]:
        known = shape.columns[table]
        hint = did_you_mean(column, known) or f"it has {', '.join(list(known)[:12])}"
        raise PolicyError(f"table '{table}' has no column '{column}'", hint=hint)
    if (table, (column,)) not in shape.unique:
        raise PolicyError(
            f"no constraint keeps '{table}.{column}' unique: two persons could have one key",
            hint="give the column a PRIMARY KEY or UNIQUE constraint, or name another one",
        )
    return table, column


def trace_persons(shape: Shape, unit: tuple[Name, str]) -> GatewayDraft:
    """Which tables hold rows of one person each: those from which exactly one foreign key leads towards the unit."""
    draft = GatewayDraft(unit)
    reached = {unit[0]}
    while found := {each.table for each in shape.foreign if each.other in reached} - reached:
        reached |= found
    waiting = [name for name in shape.columns if name in reached and name != unit[0]]
    ways = {name: [each for each in shape.foreign if each.table == name and each.other in reached] for name in waiting}
    decided = {unit[0]}
    # A table is not decided on before all that it refers to is.
    while ready := [name for name in waiting if all(each.other in decided | {name} for each in ways[name])]:
        for name in ready:
            _decide(draft, shape, name, ways[name])
        decided.update(ready)
        waiting = [name for name in waiting if name not in decided]
    draft.left_out |= dict.fromkeys(waiting, "its foreign keys lead in a circle")
    apart = [name for name in shape.columns if name not in reached]
    draft.left_out |= dict.fromkeys(apart, f"no foreign key leads to {unit[0]}")
    return draft


def _decide(draft: GatewayDraft, shape: Shape, name: Name, ways: Sequence[ForeignKey]) -> None:
    unit, column = draft.unit
    first, more = ways[0], len(ways) > 1
    if any(each.other == name for each in ways):
        draft.left_out[name] = "its rows refer to each other, and so may belong to several persons"
    elif any(each.other in draft.left_out for each in ways):
        draft.left_out[name] = "it refers to a table that is left out"
    elif more:
        listed = " or ".join(f"{', '.join(each.columns)} to {each.other}" for each in ways)
        draft.left_out[name] = f"several foreign keys lead to {unit} ({listed}): a row may belong to two persons"
    elif not _comparable(shape, first):
        draft.left_out[name] = f"{', '.join(first.columns)} is of another type than what it refers to"
    elif _reserved(name, shape.columns[name]):
        draft.left_out[name] = f"it has names that begin with {OWN}: declare a view"
    elif first.other == unit and first.referred == (column,):
        draft.owned[name] = first.columns[0]
    else:
        draft.linked[name] = first


def _reserved(name: Name, columns: Iterable[str]) -> bool:
    own = [each for each in columns if each.casefold().startswith(OWN) and each not in WRITTEN]
    return bool(own) or name.rpartition(".")[2].strip('"').casefold().startswith(OWN)


def _comparable(shape: Shape, way: ForeignKey) -> bool:
    own, other = shape.columns[way.table], shape.columns[way.other]
    return all(same_when_equal(own[a], other[b]) for a, b in zip(way.columns, way.referred, strict=True))


def _written(schema: str, table: str, default: str) -> Name:
    """A name as a policy writes it: with its schema where that is not the default one, quoted where it must be.

    >>> _written("main", "visits", "main"), _written("hr", "Staff list", "main")
    ('visits', 'hr."Staff list"')
    """
    parts = [table] if schema == default else [schema, table]
    plain = [part.isidentifier() and part.isascii() for part in parts]
    return ".".join(p if ok else '"' + p.replace('"', '""') + '"' for p, ok in zip(parts, plain, strict=True))


# ---- the text


def _lines(draft: GatewayDraft, shape: Shape, database: str) -> Iterator[str]:
    table, column = draft.unit
    yield "# A draft from the schema alone: no row was read. Read it through before anybody asks."
    yield "gateway:"
    yield f"  database: {scalar(database)}"
    yield f"  unit: {{table: {scalar(table)}, key: {scalar(column)}}}  # who is protected, with all rows below"
    yield "  tables:"
    yield from _table(table, None, shape, {column})
    for name, own in draft.owned.items():
        yield from _table(name, f"unit: {scalar(own)}", shape, {own})
    for name, way in draft.linked.items():
        pairs = ", ".join(f"{scalar(a)}: {scalar(b)}" for a, b in zip(way.columns, way.referred, strict=True))
        link = f"link: {{table: {scalar(way.other)}, on: {{{pairs}}}}}"
        yield from _table(name, link, shape, set(way.columns))
    if draft.left_out:
        yield "  # Left out. One that holds nothing of persons may be added as 'NAME: {public: true}'."
        for name, reason in draft.left_out.items():
            yield _comment(f"  #   {name}: {reason}")
    yield "  rows: 10          # most rows of one person in an answer, at random; more rows take more noise"
    yield "  groups: 5         # most groups of one person"
    yield "  minimum_group: 5  # groups of fewer persons never appear"
    yield "  budget:"
    yield "    # delta: far below 1 divided by the number of persons"
    yield "    statement: {epsilon: 1, delta: 1e-7, default: 0.5}"
    yield "    principal: {epsilon: 10, delta: 1e-5, period: month}"
    yield "  principals:"
    yield "    analyst: {}"


def _table(name: Name, belongs: str | None, shape: Shape, links: set[str]) -> Iterator[str]:
    """A table with its columns: what is not answered is hidden, and what may want bounds is named."""
    columns = shape.columns[name]
    hidden = [each for each, kind in columns.items() if kind.upper().split("(")[0].strip() in HIDDEN_TYPES]
    unbounded = [each for each, kind in columns.items() if kind_of(kind) in (*NUMBERS, *TIMES) and each not in links]
    yield f"    {key(name)}" + ("" if belongs or hidden else " {}")
    if belongs:
        yield f"      {belongs}"
    if hidden:
        yield "      columns:"
        yield from (f"        {key(each)} hidden" for each in hidden)
    if unbounded:
        names = ", ".join(unbounded)
        yield _comment(
            f"      # low and high, where you know them, make SUM and AVG more accurate, and others possible: {names}"
        )


def _comment(text: str) -> str:
    """A name with a line break would end the comment."""
    return "".join(sign if sign.isprintable() else "?" for sign in text)

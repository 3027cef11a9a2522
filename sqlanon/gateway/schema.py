"""The schema of a database as far as the gateway needs it: types, and which columns a constraint makes unique."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Literal

import sqlglot
from sqlglot import exp

from sqlanon.engines import ColumnInfo, Engine
from sqlanon.errors import EngineError, PolicyError, did_you_mean
from sqlanon.gateway.catalog import Constraint, Schema, aliased_table, kind_of
from sqlanon.gateway.values import NUMBERS
from sqlanon.policy.gateway import Gateway

# Columns with a PRIMARY KEY or UNIQUE constraint of their own: schema, table, column.
UNIQUE_COLUMNS = {
    "duckdb": "SELECT schema_name, table_name, constraint_column_names[1] FROM duckdb_constraints() "
    "WHERE constraint_type IN ('PRIMARY KEY', 'UNIQUE') AND len(constraint_column_names) = 1 "
    "AND database_name = current_database()",
    "postgres": "SELECT n.nspname, c.relname, a.attname FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid "
    "JOIN pg_namespace n ON n.oid = c.relnamespace "
    "JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = i.indkey[0] "
    "WHERE i.indisunique AND i.indisvalid AND i.indimmediate AND i.indnkeyatts = 1 AND i.indpred IS NULL "
    "AND i.indexprs IS NULL AND c.relkind = 'r' "
    # A name without a schema may mean a table of another one, which comes first on the path.
    "AND (n.nspname <> 'public' OR pg_table_is_visible(c.oid)) "
    # The rows of tables that inherit from this one are read with it, and no index of it covers them.
    "AND NOT EXISTS (SELECT 1 FROM pg_inherits h WHERE h.inhparent = c.oid)",
}
# Columns with a collation that is not the database's: schema, table, column, and whether equal texts have equal bytes.
COLLATED = (
    "SELECT n.nspname, c.relname, a.attname, k.collisdeterministic FROM pg_attribute a "
    "JOIN pg_collation k ON k.oid = a.attcollation JOIN pg_class c ON c.oid = a.attrelid "
    "JOIN pg_namespace n ON n.oid = c.relnamespace WHERE k.collname <> 'default' AND a.attnum > 0 "
    "AND c.relkind IN ('r', 'p', 'v', 'm', 'f') AND n.nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast')"
)

# All constraints that a catalogue tells of: schema, table, kind, columns, and where a foreign key leads to.
CONSTRAINTS = {
    "duckdb": "SELECT schema_name, table_name, constraint_type, constraint_column_names, schema_name, "
    "referenced_table, referenced_column_names FROM duckdb_constraints() WHERE database_name = current_database() "
    "AND constraint_type IN ('PRIMARY KEY', 'UNIQUE', 'FOREIGN KEY', 'NOT NULL') ORDER BY constraint_index",
    "postgres": "SELECT n.nspname, c.relname, "
    "CASE k.contype WHEN 'p' THEN 'PRIMARY KEY' WHEN 'u' THEN 'UNIQUE' ELSE 'FOREIGN KEY' END, "
    "(SELECT array_agg(CAST(a.attname AS TEXT) ORDER BY array_position(k.conkey, a.attnum)) "
    "FROM pg_attribute a WHERE a.attrelid = k.conrelid AND a.attnum = ANY(k.conkey)), "
    "fn.nspname, f.relname, "
    "(SELECT array_agg(CAST(a.attname AS TEXT) ORDER BY array_position(k.confkey, a.attnum)) "
    "FROM pg_attribute a WHERE a.attrelid = k.confrelid AND a.attnum = ANY(k.confkey)) "
    "FROM pg_constraint k JOIN pg_class c ON c.oid = k.conrelid JOIN pg_namespace n ON n.oid = c.relnamespace "
    "LEFT JOIN pg_class f ON f.oid = k.confrelid LEFT JOIN pg_namespace fn ON fn.oid = f.relnamespace "
    "WHERE k.contype IN ('p', 'u', 'f') UNION ALL "
    "SELECT n.nspname, c.relname, 'NOT NULL', ARRAY[CAST(a.attname AS TEXT)], NULL, NULL, NULL FROM pg_attribute a "
    "JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace "
    "WHERE a.attnotnull AND a.attnum > 0 AND c.relkind IN ('r', 'p')",
}
CONSTRAINT_KINDS: dict[str, Literal["primary", "unique", "foreign", "required"]] = {
    "PRIMARY KEY": "primary", "UNIQUE": "unique", "FOREIGN KEY": "foreign", "NOT NULL": "required",
}  # fmt: skip


def _constraints(engine: Engine, policy: Gateway) -> Iterator[Constraint]:
    """The constraints of tables of the policy; a foreign key to another table is left out."""
    text = CONSTRAINTS.get(engine.dialect)
    if text is None:
        return
    places = {_place(engine, name): name for name in policy.tables}
    for schema, table, kind, columns, other_schema, other, referred in engine.query(
        sqlglot.parse_one(text, read=engine.dialect)
    ):
        name, led = places.get((schema, table)), places.get((other_schema, other))
        if name is not None and (kind != "FOREIGN KEY" or led is not None):
            found = CONSTRAINT_KINDS[kind]
            yield Constraint(found, name, tuple(columns), led or "", tuple(referred or ()) if led else ())


def _place(engine: Engine, name: str) -> tuple[str, str]:
    """The schema and name that a table of the policy has in the database."""
    schema, _, table = name.rpartition(".")
    return schema or ("main" if engine.dialect == "duckdb" else "public"), table


def schema_of(engine: Engine, policy: Gateway) -> Schema:
    """Read the columns of every table of the policy; a column that the policy names must be there."""
    columns = {}
    for name, table in policy.tables.items():
        select = exp.Select().select(exp.Star()).from_(aliased_table(name, "t0"))
        infos = engine.columns(select)
        columns[name] = infos
        known = {info.name for info in infos}
        named = [*table.columns, *([table.unit] if table.unit else []), *(table.link.on if table.link else [])]
        for column in named:
            if column not in known:
                line = policy.line_of("tables", name, "columns", column)
                raise PolicyError(
                    f"{policy.name}:{line}: table '{name}' has no column '{column}'",
                    hint=did_you_mean(column, known) or f"it has {', '.join(sorted(known)[:12])}",
                )
        for column, declared in table.columns.items():
            kind = kind_of(next(info.type for info in infos if info.name == column))
            if kind is None and not declared.hidden:
                line = policy.line_of("tables", name, "columns", column)
                said = f"{policy.name}:{line}: the type of column '{column}' is not answered"
                raise PolicyError(said, hint="hide it")
        _check_access(policy, name, known)
    _check_links(policy, columns)
    collated = _collated(engine, policy)
    return Schema(columns, unique_columns(engine, policy), collated, tuple(_constraints(engine, policy)))


def _units(policy: Gateway) -> Iterator[tuple[str, str]]:
    """The columns that name the person of a row, in each table that has one."""
    yield policy.unit.table, policy.unit.key
    for name, table in policy.tables.items():
        if table.unit is not None and (name, table.unit) != (policy.unit.table, policy.unit.key):
            yield name, table.unit


def _links(policy: Gateway) -> Iterator[tuple[tuple[str, str], tuple[str, str]]]:
    """Both ends of each declared link, table and column; the columns of the unit are linked with its key."""
    for name, table in policy.tables.items():
        if table.link is not None:
            yield from (((name, own), (table.link.table, other)) for own, other in table.link.on.items())
    first, *others = _units(policy)
    yield from ((each, first) for each in others)


def _check_links(policy: Gateway, columns: Mapping[str, Sequence[ColumnInfo]]) -> None:
    """Columns that are compared are of one kind: an engine would cast a text to a number, and fail on some rows."""
    kinds = {(name, info.name): kind_of(info.type) for name, infos in columns.items() for info in infos}
    for (name, own), (parent, other) in _links(policy):
        both = {kinds.get((name, own)), kinds.get((parent, other))}
        if (parent, other) in kinds and len(both) > 1 and not both <= set(NUMBERS):
            raise PolicyError(
                f"{policy.name}:{policy.line_of('tables', name)}: '{name}.{own}' and '{parent}.{other}' say which rows "
                f"are of one person, and are of different types",
                hint="store them as one type, or declare a view that does",
            )


def _collated(engine: Engine, policy: Gateway) -> frozenset[tuple[str, str]]:
    if engine.dialect != "postgres":
        return frozenset()  # DuckDB tells of collations that do not fit together before it runs anything
    places = {_place(engine, name): name for name in policy.tables}
    found = engine.query(sqlglot.parse_one(COLLATED, read=engine.dialect))
    known = {(places[where, of], column): exact for where, of, column, exact in found if (where, of) in places}
    for column in [*_units(policy), *(end for both in _links(policy) for end in both)]:
        if not known.get(column, True):
            raise PolicyError(
                f"{policy.name}:{policy.line_of('tables', column[0])}: the collation of '{'.'.join(column)}' takes "
                f"different texts for the same person",
                hint="give the column a deterministic collation",
            )
    return frozenset(known)


def require_unique(engine: Engine, policy: Gateway, schema: Schema) -> None:
    """Refuse to go on where a constraint is gone that was there when the schema was read.

    That a person has one row in a table is believed without counting. A DuckDB file cannot change while it is open.
    """
    if engine.dialect != "duckdb" and not schema.unique <= unique_columns(engine, policy):
        raise EngineError(
            "the database has lost a constraint since it was opened", hint="open it again; the statement cost nothing"
        )


def _check_access(policy: Gateway, table: str, known: Set[str]) -> None:
    """A rule for a column that is not there would protect nothing, and nobody would know."""
    for index, rule in enumerate(policy.access):
        for place, column in enumerate(rule.columns or ()):
            if table in rule.tables and column not in known:
                line = policy.line_of("access", index, "columns", place)
                raise PolicyError(
                    f"{policy.name}:{line}: table '{table}' has no column '{column}'",
                    hint=did_you_mean(column, known) or f"it has {', '.join(sorted(known)[:12])}",
                )


def unique_columns(engine: Engine, policy: Gateway) -> frozenset[tuple[str, str]]:
    """The columns of tables of the policy whose values a constraint keeps apart."""
    text = UNIQUE_COLUMNS.get(engine.dialect)
    if text is None:
        return frozenset()
    places = {_place(engine, name): name for name in policy.tables}
    found = engine.query(sqlglot.parse_one(text, read=engine.dialect))
    return frozenset((places[where, of], column) for where, of, column in found if (where, of) in places)

"""The schema of a database as far as the gateway needs it: types, and which columns a constraint makes unique."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Literal

import sqlglot
from sqlglot import exp

from sqlanon.engines import ColumnInfo, Engine
from sqlanon.errors import EngineError, PolicyError, SourceError, did_you_mean
from sqlanon.gateway.bind.catalog import Constraint, Schema, aliased_table, kind_of, stored_type
from sqlanon.gateway.bind.identities import PolicyTables, find_tables, identify_tables
from sqlanon.gateway.bind.values import NUMBERS, OWN, WRITTEN
from sqlanon.policy.gateway import Gateway

# Columns that a PRIMARY KEY or UNIQUE constraint keeps apart, together: schema, table, columns.
UNIQUE_KEYS = {
    "duckdb": "SELECT schema_name, table_name, constraint_column_names FROM duckdb_constraints() "
    "WHERE constraint_type IN ('PRIMARY KEY', 'UNIQUE') AND database_name = current_database()",
    "postgres": "SELECT n.nspname, c.relname, (SELECT array_agg(CAST(a.attname AS TEXT)) FROM pg_attribute a "
    "WHERE a.attrelid = c.oid AND a.attnum = ANY(CAST(i.indkey[0:i.indnkeyatts - 1] AS SMALLINT[]))) "
    "FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid JOIN pg_namespace n ON n.oid = c.relnamespace "
    "WHERE i.indisunique AND i.indisvalid AND i.indimmediate AND i.indpred IS NULL "
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

# All constraints that a catalog lists: schema, table, kind, columns, and where a foreign key leads to.
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


def _constraints(engine: Engine, tables: PolicyTables) -> Iterator[Constraint]:
    """The constraints of tables of the policy; a foreign key to another table is left out."""
    text = CONSTRAINTS.get(engine.dialect)
    if text is None:
        return
    places = tables.places()
    for schema, table, kind, columns, other_schema, other, referred in engine.query(
        sqlglot.parse_one(text, read=engine.dialect)
    ):
        name, led = places.get((schema, table)), places.get((other_schema, other))
        if name is not None and (kind != "FOREIGN KEY" or led is not None):
            found = CONSTRAINT_KINDS[kind]
            yield Constraint(found, name, tuple(columns), led or "", tuple(referred or ()) if led else ())


def schema_of(engine: Engine, policy: Gateway) -> Schema:
    """Read the columns of every table of the policy; a column that the policy names must be there."""
    columns = {}
    tables = identify_tables(engine, policy)
    for name, table in policy.tables.items():
        select = exp.Select().select(exp.Star()).from_(aliased_table(name, "t0"))
        infos = engine.columns(select)
        columns[name] = infos
        _refuse_reserved(policy, name, infos)
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
    collated = _collated(engine, policy, tables, columns)
    unique = _unique_keys(engine, tables)
    collation = "C" if engine.dialect == "duckdb" else "default"
    return Schema(columns, unique, collated, tuple(_constraints(engine, tables)), collation)


def _refuse_reserved(policy: Gateway, name: str, infos: Sequence[ColumnInfo]) -> None:
    """A column called like one of the gateway's own would stand for it in the statements that are written."""
    line = policy.line_of("tables", name)
    if name.rpartition(".")[2].strip('"').casefold().startswith(OWN):
        raise PolicyError(
            f"{policy.name}:{line}: table '{name}' has a name that begins with {OWN}, as sqlanon's own tables do",
            hint="declare a view of another name",
        )
    for info in infos:
        if info.name.casefold().startswith(OWN) and info.name not in WRITTEN:
            raise PolicyError(
                f"{policy.name}:{line}: column '{info.name}' of table '{name}' has a name that begins with {OWN}, as "
                f"sqlanon's own columns do",
                hint="declare a view in which it is called something else, or is left out",
            )


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


WHOLE_DIGITS = {
    "TINYINT": 3, "SMALLINT": 5, "INT2": 5, "INTEGER": 10, "INT4": 10, "BIGINT": 19, "INT8": 19, "UTINYINT": 3,
    "USMALLINT": 5, "UINTEGER": 10, "UBIGINT": 20, "HUGEINT": 39,
}  # fmt: skip
MOST_DIGITS = 38  # of DuckDB's DECIMAL
BINARY = ("FLOAT", "DOUBLE", "REAL", "FLOAT4", "FLOAT8")
# Texts and times that an engine compares with others of their kind in a way that takes different values for the same.
APART = ("uuid", "bpchar", "timestamptz")


def same_when_equal(one: str, other: str) -> bool:
    """Whether values of two types that an engine finds equal are the same value, and no value makes it fail.

    >>> same_when_equal("INTEGER", "BIGINT"), same_when_equal("DECIMAL(10,0)", "BIGINT")
    (True, True)
    >>> same_when_equal("BIGINT", "DOUBLE"), same_when_equal("HUGEINT", "DECIMAL(18,3)")
    (False, False)
    >>> same_when_equal("UUID", "VARCHAR"), same_when_equal("FLOAT", "DOUBLE")
    (False, True)
    """
    if one.upper() == other.upper():
        return True
    kinds = {kind_of(one), kind_of(other)}
    if kinds <= set(NUMBERS):
        return _same_numbers(one.upper(), other.upper())
    if None in kinds:
        return False
    apart = [
        next((base for base in APART if (stored_type(each) or "").startswith(base)), None) for each in (one, other)
    ]
    return len(kinds) == 1 and apart[0] == apart[1]


def _same_numbers(one: str, other: str) -> bool:
    bases = [each.split("(")[0].strip() for each in (one, other)]
    binary = [base in BINARY for base in bases]
    if any(binary) or all(base in WHOLE_DIGITS for base in bases):
        return all(binary) or not any(binary)
    sizes = [re.fullmatch(r".*\((\d+), *(\d+)\)", each) for each in (one, other)]
    if any(size is None and base not in WHOLE_DIGITS for size, base in zip(sizes, bases, strict=True)):
        return True  # PostgreSQL's numeric without a length has as many digits as it needs
    before = [
        int(size[1]) - int(size[2]) if size is not None else WHOLE_DIGITS[base]
        for size, base in zip(sizes, bases, strict=True)
    ]
    behind = [int(size[2]) if size is not None else 0 for size in sizes]
    return max(before) + max(behind) <= MOST_DIGITS


def _check_links(policy: Gateway, columns: Mapping[str, Sequence[ColumnInfo]]) -> None:
    """Columns that are compared are of types that an engine compares as they are stored: a text that it casts to a
    number fails on some rows, and a whole number that it casts to a double is the same as its neighbours, which are
    other persons."""
    types = {(name, info.name): info.type for name, infos in columns.items() for info in infos}
    for (name, own), (parent, other) in _links(policy):
        if (parent, other) in types and not same_when_equal(types[name, own], types[parent, other]):
            raise PolicyError(
                f"{policy.name}:{policy.line_of('tables', name)}: '{name}.{own}' and '{parent}.{other}' link rows "
                f"of one person, but have different types",
                hint="store them as one type, or declare a view that does",
            )


def _collated(
    engine: Engine, policy: Gateway, tables: PolicyTables, columns: Mapping[str, Sequence[ColumnInfo]]
) -> frozenset[tuple[str, str]]:
    """Columns of texts with a collation of their own. Those of persons must tell all texts apart by their bytes."""
    if engine.dialect == "duckdb":
        known = dict.fromkeys(_collated_in_duckdb(engine, policy, columns), False)
    elif engine.dialect == "postgres":
        places = tables.places()
        found = engine.query(sqlglot.parse_one(COLLATED, read=engine.dialect))
        known = {(places[where, of], column): exact for where, of, column, exact in found if (where, of) in places}
    else:
        return frozenset()
    for column in [*_units(policy), *(end for both in _links(policy) for end in both)]:
        if not known.get(column, True):
            raise PolicyError(
                f"{policy.name}:{policy.line_of('tables', column[0])}: the collation of '{'.'.join(column)}' treats "
                f"different texts as the same person",
                hint="give the column a deterministic collation",
            )
    return frozenset(known)


def _collated_in_duckdb(
    engine: Engine, policy: Gateway, columns: Mapping[str, Sequence[ColumnInfo]]
) -> Iterator[tuple[str, str]]:
    """No catalog of DuckDB has collations, but it refuses to compare two different ones, before it reads a row."""
    ((default,),) = engine.query(sqlglot.parse_one("SELECT current_setting('default_collation')", read="duckdb"))
    if str(default).casefold() not in ("", "c", "posix", "binary"):
        raise PolicyError(
            f"{policy.name}: the database compares texts by the collation '{default}', in which different texts can be "
            f"the same person",
            hint="open it without default_collation",
        )
    for name, infos in columns.items():
        texts = [info.name for info in infos if info.type.upper().startswith(("VARCHAR", "TEXT"))]
        if not _is_bytewise(engine, name, texts):
            yield from ((name, column) for column in texts if not _is_bytewise(engine, name, [column]))


def _is_bytewise(engine: Engine, name: str, columns: Sequence[str]) -> bool:
    """Whether no column has a collation: with one, the comparison with one of these two fails."""
    for collation in ("nocase", "noaccent") if columns else ():
        other = exp.Collate(this=exp.Literal.string(""), expression=exp.to_identifier(collation, quoted=True))
        tests = [
            exp.EQ(this=exp.column(exp.to_identifier(column, quoted=True), table="t0"), expression=other.copy())
            for column in columns
        ]
        try:
            engine.columns(exp.Select(expressions=tests).from_(aliased_table(name, "t0")))
        except (EngineError, SourceError):
            return False
    return True


def require_unique(engine: Engine, policy: Gateway, schema: Schema) -> None:
    """Refuse to go on where a constraint is gone that was there when the schema was read.

    That a person has one row in a table is believed without counting. A DuckDB file cannot change while it is open.
    """
    if engine.dialect != "duckdb" and not schema.unique_keys <= unique_keys(engine, policy):
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


def unique_keys(engine: Engine, policy: Gateway) -> frozenset[tuple[str, tuple[str, ...]]]:
    """The columns of tables of the policy whose values a constraint keeps apart, together."""
    return _unique_keys(engine, find_tables(engine, policy))


def _unique_keys(engine: Engine, tables: PolicyTables) -> frozenset[tuple[str, tuple[str, ...]]]:
    text = UNIQUE_KEYS.get(engine.dialect)
    if text is None:
        return frozenset()
    places = tables.places()
    found = engine.query(sqlglot.parse_one(text, read=engine.dialect))
    return frozenset((places[where, of], tuple(sorted(names))) for where, of, names in found if (where, of) in places)

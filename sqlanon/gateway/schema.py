"""The schema of a database as far as the gateway needs it: types, and which columns a constraint makes unique."""

from __future__ import annotations

from collections.abc import Set

import sqlglot
from sqlglot import exp

from sqlanon.engines import Engine
from sqlanon.errors import PolicyError, did_you_mean
from sqlanon.gateway.catalog import Schema, aliased_table, kind_of
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
    # The rows of tables that inherit from this one are read with it, and no index of it covers them.
    "AND NOT EXISTS (SELECT 1 FROM pg_inherits h WHERE h.inhparent = c.oid)",
}


def schema_of(engine: Engine, policy: Gateway) -> Schema:
    """Read the columns of every table of the policy; a column that the policy names must be there."""
    unique = _unique(engine)
    columns = {}
    kept: set[tuple[str, str]] = set()
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
        short = name.rsplit(".", 1)
        schema = short[0] if len(short) == 2 else ("main" if engine.dialect == "duckdb" else "public")
        kept |= {(name, column) for owner, own, column in unique if (owner, own) == (schema, short[-1])}
    return Schema(columns, frozenset(kept))


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


def _unique(engine: Engine) -> list[tuple[str, str, str]]:
    text = UNIQUE_COLUMNS.get(engine.dialect)
    if text is None:
        return []
    return [(str(a), str(b), str(c)) for a, b, c in engine.query(sqlglot.parse_one(text, read=engine.dialect))]

"""Which table of the database each table of a policy is, whatever its name is written like.

`v`, `main.v` and `data.main.v` are one table: were one of them private and another public, all rows would be shown. The
same holds for a public view, or a partition, of a private table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from sqlanon.engines import Engine
from sqlanon.errors import PolicyError
from sqlanon.policy.gateway import Gateway

Identity = tuple[str, str, str]  # database, schema and name, as the catalog spells them

RELATIONS = (
    "SELECT database_name, schema_name, table_name, NULL FROM duckdb_tables() UNION ALL "
    "SELECT database_name, schema_name, view_name, sql FROM duckdb_views() WHERE NOT internal"
)
HERE = "SELECT current_database(), current_schema()"
FOUND = (
    "SELECT {place}, current_database(), n.nspname, c.relname FROM pg_class c "
    "JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = to_regclass({name})"
)
# What a view reads, and what partitions and inherited tables share their rows with, both ways.
READS = (
    "SELECT current_database(), n.nspname, c.relname, current_database(), m.nspname, o.relname FROM ("
    "SELECT r.ev_class AS reader, d.refobjid AS read FROM pg_rewrite r JOIN pg_depend d ON d.objid = r.oid "
    "AND d.classid = CAST('pg_rewrite' AS regclass) AND d.refclassid = CAST('pg_class' AS regclass) "
    "AND d.refobjid <> r.ev_class UNION SELECT inhparent, inhrelid FROM pg_inherits "
    "UNION SELECT inhrelid, inhparent FROM pg_inherits) p "
    "JOIN pg_class c ON c.oid = p.reader JOIN pg_namespace n ON n.oid = c.relnamespace "
    "JOIN pg_class o ON o.oid = p.read JOIN pg_namespace m ON m.oid = o.relnamespace "
    "WHERE n.nspname NOT IN ('pg_catalog', 'information_schema')"
)


@dataclass(frozen=True)
class PolicyTables:
    """`found`: what each name of the policy may mean in the database, one table for nearly all."""

    found: Mapping[str, frozenset[Identity]]
    here: str  # the database that is open

    def places(self) -> dict[tuple[str, str], str]:
        """The name in the policy, by schema and name in the database."""
        known = {next(iter(each)): name for name, each in self.found.items() if len(each) == 1}
        return {(schema, table): name for (database, schema, table), name in known.items() if database == self.here}


def find_tables(engine: Engine, policy: Gateway) -> PolicyTables:
    """Find the tables of a policy in the catalog of the database."""
    return FINDERS[engine.dialect](engine, policy) if engine.dialect in FINDERS else PolicyTables({}, "")


def identify_tables(engine: Engine, policy: Gateway) -> PolicyTables:
    """As `find_tables`; refuse a table that has two names in the policy, and a public one that shows private rows."""
    tables = find_tables(engine, policy)
    seen: dict[Identity, str] = {}
    for name, found in tables.found.items():
        for identity in found:
            first = seen.setdefault(identity, name)
            if first != name:
                line = policy.line_of("tables", name)
                raise PolicyError(f"{policy.name}:{line}: table '{name}' is the same as '{first}'", hint="keep one")
    if any(table.public for table in policy.tables.values()):
        _refuse_public_views(policy, tables, _reads(engine))
    return tables


Spellings = dict[tuple[str, ...], set[Identity]]


def _in_duckdb(engine: Engine, policy: Gateway) -> PolicyTables:
    here, known, _ = _spellings(engine)
    written = {name: exp.to_table(name, dialect="duckdb").parts for name in policy.tables}
    found = {name: frozenset(known.get(_folded(parts), ())) for name, parts in written.items()}
    return PolicyTables(found, here)


def _spellings(engine: Engine) -> tuple[str, Spellings, dict[Identity, str]]:
    """The database that is open, what each way to write a name means there, and the texts of views."""
    ((here, schema),) = engine.query(sqlglot.parse_one(HERE, read="duckdb"))
    known: Spellings = {}
    views: dict[Identity, str] = {}
    for database, within, name, text in engine.query(sqlglot.parse_one(RELATIONS, read="duckdb")):
        spellings: list[tuple[str, ...]] = [(database, within, name)]
        if database in (here, "temp"):
            spellings += [(within, name)]
        if database in (here, "temp") and within in (schema, "main"):
            spellings += [(name,)]
        if within == "main":
            spellings += [(database, name)]
        for each in spellings:
            known.setdefault(tuple(map(str.casefold, each)), set()).add((database, within, name))
        if text is not None:
            views[database, within, name] = text
    return here, known, views


def _folded(parts: Iterable[exp.Expr]) -> tuple[str, ...]:
    return tuple(part.name.casefold() for part in parts)


def _tables_in(text: str, known: Spellings) -> set[tuple[str, ...]]:
    """The tables that the text of a view names; every known one whose name is a word of it, if it cannot be read."""
    try:
        tree = sqlglot.parse_one(text, read="duckdb")
        query = tree.expression if isinstance(tree, exp.Create) else tree
        return {_folded(table.parts) for table in query.find_all(exp.Table)}
    except SqlglotError:
        words = set("".join(sign if sign.isalnum() or sign == "_" else " " for sign in text.casefold()).split())
        return {parts for parts in known if parts[-1] in words}


def _in_postgres(engine: Engine, policy: Gateway) -> PolicyTables:
    names = list(policy.tables)
    asked = []
    for place, name in enumerate(names):
        parts = exp.to_table(name, dialect="duckdb").parts
        written = ".".join('"' + part.name.replace('"', '""') + '"' for part in parts)
        asked.append(FOUND.format(place=place, name=exp.Literal.string(written).sql("postgres")))
    rows = engine.query(sqlglot.parse_one(" UNION ALL ".join(asked), read="postgres"))
    found = {names[place]: frozenset([(database, schema, table)]) for place, database, schema, table in rows}
    return PolicyTables(found, next((database for _, database, _, _ in rows), ""))


FINDERS: dict[str, Callable[[Engine, Gateway], PolicyTables]] = {"duckdb": _in_duckdb, "postgres": _in_postgres}


def _reads(engine: Engine) -> dict[Identity, set[Identity]]:
    """The tables that each view, and each table with partitions, reads."""
    found: dict[Identity, set[Identity]] = {}
    if engine.dialect == "duckdb":
        _, known, views = _spellings(engine)
        for view, text in views.items():
            found[view] = {identity for parts in _tables_in(text, known) for identity in known.get(parts, ())}
        return found
    for row in engine.query(sqlglot.parse_one(READS, read="postgres")):
        found.setdefault((row[0], row[1], row[2]), set()).add((row[3], row[4], row[5]))
    return found


def _refuse_public_views(policy: Gateway, tables: PolicyTables, read: Mapping[Identity, set[Identity]]) -> None:
    private = {
        identity: name
        for name, found in tables.found.items()
        for identity in found
        if not (policy.tables[name].public or policy.tables[name].released)
    }
    for name, found in tables.found.items():
        waiting, seen = list(found) if policy.tables[name].public else [], set(found)
        while waiting:
            for identity in read.get(waiting.pop(), set()) - seen:
                seen.add(identity)
                waiting.append(identity)
                if identity in private:
                    raise PolicyError(
                        f"{policy.name}:{policy.line_of('tables', name)}: table '{name}' is public, and reads rows of "
                        f"'{private[identity]}', which belong to persons",
                        hint="give it the column of the unit, 'unit: …', or copy what may be shown to another table",
                    )

"""PostgreSQL through psycopg (extra `postgres`)."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, LiteralString

from sqlglot import exp

from sqlanon.engines.engine import ColumnInfo, ExistingRelation, Reads, WorkPlace, table_name
from sqlanon.errors import EngineError, PolicyError, SourceError, did_you_mean
from sqlanon.policy import Policy, Source

try:
    import psycopg
    from psycopg.types.string import TextLoader
except ImportError:
    raise SourceError("PostgreSQL needs the package psycopg", hint="pip install 'sqlanon[postgres]'") from None

NUMERIC_OIDS = {20, 21, 23, 700, 701, 1700}
TEMPORAL_OIDS = {1082, 1114, 1184}
TEXTS = ("numeric", "uuid", "bytea", "json", "jsonb", "time", "timestamptz", "interval")
ARRAYS = ("int2", "int4", "int8", "float4", "float8", "text", "varchar", "bool", "date", "timestamp")
KINDS = {"r": "table", "p": "table", "v": "view", "m": "materialized view", "f": "foreign table", "S": "sequence"}

# The statements that take all from everybody but the owner, and that give as another table or view gives. Grants on
# single columns are kept for those that are still there.
REVOKES: LiteralString = """
SELECT DISTINCT format('REVOKE ALL ON %%s FROM %%s', %(of)s::regclass,
    CASE WHEN acl.grantee = 0 THEN 'PUBLIC' ELSE acl.grantee::regrole::text END)
FROM pg_class, aclexplode(relacl) AS acl
WHERE pg_class.oid = %(of)s::regclass AND acl.grantee <> relowner
"""
GRANTS: LiteralString = """
SELECT format('GRANT %%s%%s ON %%s TO %%s%%s', acl.privilege_type, ' (' || quote_ident(given.attname) || ')',
    %(to)s::regclass,
    CASE WHEN acl.grantee = 0 THEN 'PUBLIC' ELSE acl.grantee::regrole::text END,
    CASE WHEN acl.is_grantable THEN ' WITH GRANT OPTION' END)
FROM pg_class, LATERAL (
    SELECT NULL AS attname, relacl AS acl
    UNION ALL
    SELECT old.attname, old.attacl FROM pg_attribute AS old JOIN pg_attribute AS new ON new.attname = old.attname
    WHERE old.attrelid = pg_class.oid AND new.attrelid = %(to)s::regclass AND NOT new.attisdropped
) AS given, aclexplode(given.acl) AS acl
WHERE pg_class.oid = %(of)s::regclass AND acl.grantee <> relowner
"""

# All relations that a relation reads, through views, materialized views, partitions and tables that inherit.
READS: LiteralString = """
WITH RECURSIVE reads (oid) AS (
    SELECT to_regclass(%(of)s)::oid
    UNION
    SELECT next.oid FROM reads, LATERAL (
        SELECT d.refobjid FROM pg_rewrite r JOIN pg_depend d ON d.classid = 'pg_rewrite'::regclass AND d.objid = r.oid
        WHERE r.ev_class = reads.oid AND d.refclassid = 'pg_class'::regclass
        UNION ALL SELECT inhrelid FROM pg_inherits WHERE inhparent = reads.oid
    ) AS next (oid)
)
"""
READ_TABLES: LiteralString = """
SELECT n.nspname, c.relname FROM reads JOIN pg_class c USING (oid) JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind NOT IN ('v', 'm')
"""
# Functions in the definitions of views. What one of them reads is in its text, or nowhere.
READ_FUNCTIONS: LiteralString = """
SELECT DISTINCT d.refobjid::regprocedure::text
FROM reads JOIN pg_rewrite r ON r.ev_class = reads.oid
JOIN pg_depend d ON d.classid = 'pg_rewrite'::regclass AND d.objid = r.oid AND d.refclassid = 'pg_proc'::regclass
JOIN pg_proc p ON p.oid = d.refobjid JOIN pg_language l ON l.oid = p.prolang
JOIN pg_namespace n ON n.oid = p.pronamespace
WHERE l.lanname NOT IN ('internal', 'c') AND n.nspname NOT IN ('pg_catalog', 'information_schema') ORDER BY 1
"""
# Which relations, their files, their definitions, and how many rows were ever written, changed or deleted in them.
READ_STATE: LiteralString = """
SELECT string_agg(format('%%s %%s %%s %%s', c.oid, c.relfilenode,
    CASE WHEN c.relkind IN ('v', 'm') THEN md5(pg_get_viewdef(c.oid)) END,
    pg_stat_get_tuples_inserted(c.oid) + pg_stat_get_tuples_updated(c.oid) + pg_stat_get_tuples_deleted(c.oid)),
    ', ' ORDER BY c.oid)
FROM reads JOIN pg_class c USING (oid)
"""


class Postgres:
    product = "postgres"
    dialect = rows_dialect = "postgres"

    def __init__(self, url: str, *, read_only: bool = False) -> None:
        self._url = url
        self._read_only = read_only
        self._streams: list[psycopg.Connection[tuple[Any, ...]]] = []
        self._connection = self._connected()

    def _connected(self) -> psycopg.Connection[tuple[Any, ...]]:
        try:
            # No prepared statements: PostgreSQL refuses them once the columns of a table change.
            made = psycopg.connect(self._url, autocommit=True, application_name="sqlanon", prepare_threshold=None)
        except psycopg.Error as error:
            raise SourceError(f"cannot connect to {_without_password(self._url)}", hint=_reason(error)) from None
        # Statements are written for this, and old databases or roles may have it off: then a backslash before a quote
        # would let the text go on, and the next text of the statement would be read as SQL.
        made.execute("SET standard_conforming_strings = on")
        if self._read_only:
            made.execute("SET default_transaction_read_only = on")
        return made

    @property
    def read_only(self) -> bool:
        return self._read_only

    def admit(self, policy: Policy, *, publishes: bool = False) -> None:
        return None

    def place(self, tree: exp.Expr) -> WorkPlace:
        return WorkPlace.ROWS  # and of summaries too

    @contextmanager
    def at_rows(self) -> Iterator[None]:
        yield

    def bring_summary(self, names: Sequence[str]) -> None:
        return None

    def query(self, tree: exp.Expr) -> list[tuple[Any, ...]]:
        return self._run(tree.sql(self.dialect)).fetchall()

    def batches(self, tree: exp.Query, rows: int) -> Generator[Any, None, None]:
        import pyarrow

        stream = self._connected()
        self._streams.append(stream)
        for name in TEXTS:
            # As the server writes them: Python has no value for all that they hold.
            known = stream.adapters.types[name]
            for oid in (known.oid, known.array_oid):
                stream.adapters.register_loader(oid, TextLoader)
        for name in ARRAYS:
            stream.adapters.register_loader(stream.adapters.types[name].array_oid, TextLoader)
        try:
            stream.execute("SET timezone = 'UTC'")
            with stream.transaction(), stream.cursor(name="sqlanon_rows") as cursor:
                cursor.execute(_sql(tree.sql(self.dialect)))
                names = [str(place) for place, _ in enumerate(cursor.description or [])]
                while found := cursor.fetchmany(rows):
                    columns = [pyarrow.array(values) for values in zip(*found, strict=True)]
                    yield pyarrow.RecordBatch.from_arrays(columns, names=names)
        except psycopg.Error as error:
            raise translate(error, self) from None
        finally:
            self._streams.remove(stream)
            stream.close()

    def arrow_table(self, tree: exp.Query) -> Any:
        import pyarrow
        from pyarrow import csv

        described = self._run(exp.select("*").from_(tree.subquery("read")).limit(0).sql(self.dialect)).description or []
        names = [item.name for item in described]
        written = pyarrow.BufferOutputStream()
        try:
            # COPY writes text that Arrow reads: no value becomes an object of Python.
            with self._connection.transaction(), self._connection.cursor() as cursor:
                cursor.execute("SET LOCAL timezone = 'UTC'")
                cursor.execute("SET LOCAL datestyle = 'ISO'")
                with cursor.copy(_sql(f"COPY ({tree.sql(self.dialect)}) TO STDOUT (FORMAT csv)")) as rows:
                    for part in rows:
                        written.write(part)
            return csv.read_csv(
                pyarrow.BufferReader(written.getvalue()),
                read_options=csv.ReadOptions(column_names=names),
                parse_options=csv.ParseOptions(newlines_in_values=True),
                convert_options=csv.ConvertOptions(
                    column_types={item.name: _arrow_type(item) for item in described},
                    null_values=[""],
                    true_values=["t"],
                    false_values=["f"],
                    strings_can_be_null=True,
                    quoted_strings_can_be_null=False,
                ),
            )
        except psycopg.Error as error:
            raise translate(error, self) from None
        except pyarrow.ArrowInvalid:  # its text may hold values
            raise EngineError(
                "a value of the database has no counterpart in Arrow",
                hint="infinite dates and numbers have none: leave such rows out with a query",
            ) from None

    def prepared(self, tree: exp.Expr) -> Callable[[Sequence[int | float]], list[tuple[Any, ...]]]:
        sql = _sql(tree.sql(self.dialect))

        def ask(numbers: Sequence[int | float]) -> list[tuple[Any, ...]]:
            try:
                with psycopg.RawCursor(self._connection) as cursor:
                    return cursor.execute(sql, numbers).fetchall()
            except psycopg.Error as error:
                raise translate(error, self) from None

        return ask

    def execute(self, tree: exp.Expr) -> None:
        self._run(tree.sql(self.dialect))

    def create_temporary(self, name: str, query: exp.Query) -> None:
        self.drop_temporary([name])
        made = exp.Create(
            this=exp.Table(this=exp.to_identifier(name)),
            kind="TABLE",
            expression=query,
            properties=exp.Properties(expressions=[exp.TemporaryProperty()]),
        )
        self.execute(made)
        # Without statistics the planner takes a temporary table to be small, and chooses nested loops.
        self._run(f"ANALYZE {name}")

    def load_temporary(self, name: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        self.drop_temporary([name])
        declared = ", ".join(f"{column} TEXT" for column in columns)
        self._run(f"CREATE TEMPORARY TABLE {name} ({declared})")
        try:
            with self._connection.cursor() as cursor, cursor.copy(_sql(f"COPY {name} FROM STDIN")) as copy:
                for row in rows:
                    copy.write_row(row)
        except psycopg.Error as error:
            raise translate(error, self) from None
        self._run(f"ANALYZE {name}")

    def drop_temporary(self, names: Sequence[str]) -> None:
        # Only from the temporary schema: a user's table of that name is none of our business.
        if names:
            self._run("DROP TABLE IF EXISTS " + ", ".join(f"pg_temp.{name}" for name in names))

    def columns(self, rows: exp.Select) -> list[ColumnInfo]:
        described = self._run(rows.limit(0).sql(self.dialect)).description or []
        return [
            ColumnInfo(
                item.name,
                item.type_display,
                numeric=item.type_code in NUMERIC_OIDS,
                temporal=item.type_code in TEMPORAL_OIDS,
            )
            for item in described
        ]

    def resolve(self, source: Source) -> Source:
        return source

    @contextmanager
    def transaction(self) -> Iterator[None]:
        try:
            with self._connection.transaction():
                yield
        except psycopg.Error as error:
            raise translate(error, self) from None

    @contextmanager
    def one_thread(self) -> Iterator[None]:
        yield  # PostgreSQL decides by the size of a table

    def write_file(self, query: exp.Query, path: str) -> None:
        raise PolicyError("files are written by DuckDB only", hint="release into a table, then export it")

    def interrupt(self) -> None:
        for connection in (self._connection, *tuple(self._streams)):
            connection.cancel()

    def close(self) -> None:
        self._connection.close()

    def tables(self) -> list[str]:
        found = self._connection.execute(
            "SELECT schemaname = current_schema(), schemaname, name FROM ("
            "SELECT schemaname, tablename AS name FROM pg_tables UNION ALL SELECT schemaname, viewname FROM pg_views"
            ") AS t WHERE schemaname NOT IN ('pg_catalog', 'information_schema') AND schemaname NOT LIKE 'pg_temp%'"
        ).fetchall()
        return sorted(table_name(name) if here else table_name(schema, name) for here, schema, name in found)

    def find(self, parts: Sequence[str]) -> ExistingRelation | None:
        try:
            found = self._connection.execute(
                "SELECT relkind::text, nspname, relname FROM pg_class JOIN pg_namespace AS n ON n.oid = relnamespace "
                "WHERE pg_class.oid = to_regclass(%s)",
                [_quoted(parts)],
            ).fetchone()
        except psycopg.Error as error:
            raise translate(error, self) from None
        return ExistingRelation(KINDS.get(found[0], "relation"), (found[1], found[2])) if found else None

    def reads(self, parts: Sequence[str]) -> Reads:
        tables, functions = self._reads(READ_TABLES, parts), self._reads(READ_FUNCTIONS, parts)
        return Reads(frozenset(tables), tuple(name for (name,) in functions))

    def state(self, parts: Sequence[str]) -> str:
        return str(self._reads(READ_STATE, parts)[0][0])

    def _reads(self, query: LiteralString, parts: Sequence[str]) -> list[tuple[Any, ...]]:
        try:
            return self._connection.execute(READS + query, {"of": _quoted(parts)}).fetchall()
        except psycopg.Error as error:
            raise translate(error, self) from None

    def copy_grants(self, parts: Sequence[str], to: Sequence[str]) -> None:
        old, new = _quoted(parts), _quoted(to)
        try:
            # Default privileges may have let in others.
            statements = self._connection.execute(REVOKES, {"of": new}).fetchall()
            statements += self._connection.execute(GRANTS, {"of": old, "to": new}).fetchall()
        except psycopg.Error as error:
            raise translate(error, self) from None
        for (statement,) in statements:
            self._run(statement)

    def _run(self, sql: str) -> psycopg.Cursor[tuple[Any, ...]]:
        try:
            return self._connection.execute(_sql(sql))
        except psycopg.Error as error:
            raise translate(error, self) from None


def _quoted(parts: Sequence[str]) -> str:
    return ".".join('"' + part.replace('"', '""') + '"' for part in parts)


def _sql(text: str) -> LiteralString:
    # The text was generated from a tree, or holds sqlanon's own names only; psycopg's type asks for a literal.
    return text


def _without_password(url: str) -> str:
    """What may be shown of a URL, if it has the plain form: user, host and database.

    >>> _without_password("postgresql://ann:s@cret@host:1/db?password=x"), _without_password("postgresql://a:b/c@host")
    ('postgresql://ann@host:1/db', 'the database')
    """
    plain = r"(postgres(?:ql)?://)(?:([^:/@?]*)(?::[^/?]*)?@)?([^@/?]*(?:/[^@?]*)?)(?:\?.*)?"
    match = re.fullmatch(plain, url, flags=re.DOTALL)
    if match is None:
        return "the database"
    return match[1] + (f"{match[2]}@" if match[2] else "") + match[3]


def _reason(error: psycopg.Error) -> str | None:
    if isinstance(error, psycopg.ProgrammingError):  # quotes the part of the URL that it cannot read
        return "the URL cannot be read: postgresql://user@host:port/database, special signs as %XX"
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else None


def translate(error: psycopg.Error, engine: Postgres) -> SourceError | EngineError:
    state = error.sqlstate or ""
    message = error.diag.message_primary or ""
    if state == "42P01":
        name = message.split('"')[1] if '"' in message else message
        try:
            known = engine.tables()
        except psycopg.Error:
            known = []
        listed = f"the database has {', '.join(known[:8])}" if known else None
        return SourceError(f"there is no table '{name}'", hint=did_you_mean(name, known) or listed)
    if state == "42501":
        right = "CREATE" if "schema" in message or "database" in message else "SELECT"
        return SourceError(message, hint=f"ask the owner of the database to GRANT you {right} on it")
    if state == "25006":
        hint = "connect to a server that takes writes, with a role that may write"
        return SourceError("the database is open for reading only", hint=hint)
    if state.startswith("42"):
        # Errors of this class speak of names and types in the statement, never of values in rows.
        return SourceError(message, hint="compare the policy with the columns of the table")
    if state.startswith("53"):
        return EngineError("the database is short of memory, disk or connections", hint=f"SQLSTATE {state}")
    if state.startswith("57"):
        return EngineError("the database cancelled the statement", hint=f"SQLSTATE {state}")
    if not state:
        return EngineError("the connection to the database broke off", hint="is the server still running?")
    return EngineError(
        f"the database refused a statement (SQLSTATE {state})",
        hint="'sqlanon compile' shows the statements, to try them one by one",
    )


def _arrow_type(column: psycopg.Column) -> Any:
    """The type in Arrow of what COPY writes; text for all that has no counterpart there."""
    import pyarrow

    if column.type_display.startswith("numeric"):
        fits = column.precision is not None and column.precision <= 38
        return pyarrow.decimal128(column.precision, column.scale or 0) if fits else pyarrow.float64()
    return {
        "int2": pyarrow.int16(), "int4": pyarrow.int32(), "int8": pyarrow.int64(), "float4": pyarrow.float32(),
        "float8": pyarrow.float64(), "bool": pyarrow.bool_(), "date": pyarrow.date32(),
        "timestamp": pyarrow.timestamp("us"), "timestamptz": pyarrow.timestamp("us", "UTC"),
    }.get(column.type_display, pyarrow.string())  # fmt: skip

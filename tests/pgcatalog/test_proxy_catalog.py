"""The catalog against a real PostgreSQL 15: what it answers to the statements that clients send."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from conftest import TESTS
from oracle_numbers import read_numbers
from proxy_postgres import Postgres15, Told, started

from sqlanon.errors import SqlanonError
from sqlanon.pgcatalog import Metadata, PgCatalog, PgColumn, RoleInfo, TableInfo
from sqlanon.pgcatalog.kinds import BY_OID
from sqlanon.pgcatalog.relations import RELATIONS
from sqlanon.pgwire.types import DATE, INT4, INT8, NUMERIC, TEXT, TIMESTAMPTZ, by_oid, encode

FOLDER = TESTS / "catalog"
COMMENT = "private: answered with differential privacy"
PEOPLE = (
    PgColumn("id", INT4, True), PgColumn("name", TEXT), PgColumn("born", DATE),
    PgColumn("pay", NUMERIC, typmod=(10 << 16 | 2) + 4), PgColumn("tags", by_oid(1009)),
    PgColumn("Odd \"name\"", TEXT, comment="odd"),
)  # fmt: skip
ORDERS = (PgColumn("id", INT8, True), PgColumn("line", INT4, True), PgColumn("at", TIMESTAMPTZ))
TABLES = (
    TableInfo("people", PEOPLE, primary_key=("id",), comment=COMMENT),
    TableInfo("orders", ORDERS, primary_key=("id", "line")),
    TableInfo("v_dept", (PgColumn("d", TEXT),), kind="view"),
    TableInfo("secret_table", (PgColumn("secret_column", TEXT, comment="secret_comment"),),
              comment="secret_comment", primary_key=("secret_column",), seen_by=frozenset({"bob"})),
)  # fmt: skip
SCRIPT = (
    "CREATE TABLE people (id int PRIMARY KEY, name text, born date, pay numeric(10, 2), tags text[], "
    '"Odd ""name""" text)',
    "CREATE TABLE orders (id int8, line int, at timestamptz, PRIMARY KEY (id, line))",
    "CREATE VIEW v_dept AS SELECT name AS d FROM people",
    f"COMMENT ON TABLE people IS '{COMMENT}'",
    'COMMENT ON COLUMN people."Odd ""name""" IS \'odd\'',
)
# What cannot be the same: owners and who may what, numbers of objects, sizes, versions, words of the server's own.
OWN = {
    "Owner", "oid", "Access privileges", "relacl", "nspacl", "datacl", "version", "rolname", "rolsuper",
    "rolcreaterole", "rolcreatedb", "rolreplication", "rolbypassrls", "session_user", "current_user", "total_rel_size",
    "category", "short_desc", "reltype", "reltoastrelid", "relfilenode", "relfrozenxid", "relminmxid",
    "indexrelid", "conindid", "nspowner", "pg_get_viewdef", "Size", "typanalyze", "typsubscript", "typmodin",
    "typmodout", "description", "Description", "datfrozenxid", "datminmxid", "Definition", "array_oid",
}  # fmt: skip


@pytest.fixture(scope="module")
def real() -> Iterator[Postgres15]:
    for server in started():
        for statement in SCRIPT:
            assert server.run(statement).error is None
        yield server


@pytest.fixture(scope="module")
def catalog() -> Iterator[PgCatalog]:
    made = PgCatalog(Metadata("postgres", TABLES, (RoleInfo("ann"), RoleInfo("bob"))), timeout=20)
    yield made
    made.close()


def told(catalog: PgCatalog, sql: str, principal: str = "ann") -> Told:
    """What the catalog answers, as PostgreSQL's text."""
    try:
        answer = catalog.answer(sql, principal)
    except SqlanonError as error:
        return Told([], [], [], error.sqlstate)
    columns = [column.to_pylist() for column in answer.table.columns]
    rows: list[list[str | None]] = []
    for number in range(answer.table.num_rows):
        cells = [column[number] for column in columns]
        written = [
            value.encode() if isinstance(value, str) else encode(column.type, 0, value)
            for column, value in zip(answer.columns, cells, strict=True)
        ]
        rows.append([None if cell is None else cell.decode() for cell in written])
    return Told([each.name for each in answer.columns], [each.type.oid for each in answer.columns], rows)


def oids(catalog: PgCatalog, real: Postgres15, name: str) -> tuple[str, str]:
    sql = f"SELECT '{name}'::regclass::oid"
    mine, theirs = told(catalog, sql).rows[0][0], real.run(sql).rows[0][0]
    assert mine and theirs
    return mine, theirs


def compare(catalog: PgCatalog, real: Postgres15, sql: str) -> None:
    """The same columns and types; every row is one of PostgreSQL's, in the columns that can be the same."""
    pairs = {name: oids(catalog, real, name) for name in ("people", "orders", "v_dept")}
    mine, theirs = sql, sql
    for name, (own, other) in pairs.items():
        mine, theirs = mine.replace(f"{{{name}}}", own), theirs.replace(f"{{{name}}}", other)
    ours, right = told(catalog, mine), real.run(theirs)
    assert ours.error == right.error
    assert ours.names == right.names
    # Addresses and the like go as text.
    assert [25 if kind in (869,) else kind for kind in right.types] == ours.types
    kept = [place for place, name in enumerate(ours.names) if name not in OWN]

    def shown(rows: list[list[str | None]]) -> list[list[str | None]]:
        return [[row[place] for place in kept] for row in rows]

    if {"rolname", "lanname", "Locale Provider", "string_agg"} & set(ours.names) or "pg_settings" in sql:
        return  # what a server has of its own
    available = shown(right.rows)
    for row in shown(ours.rows):
        assert row in available
    if ours.rows and {"Schema", "attname", "relname", "TABLE_NAME", "table_name"} & set(ours.names):
        # Tables, columns and keys are all there; of a real table there are also columns that no SELECT * shows.
        numbers = [name for name in ours.names if name == "attnum"]
        system = {str(-number) for number in range(1, 8)}
        place = ours.names.index("attnum") if numbers else None
        assert len(ours.rows) == sum(place is None or row[place] not in system for row in right.rows)


def blocks() -> list[tuple[str, str]]:
    text = (FOLDER / "psql.txt").read_text(encoding="utf-8")
    found = re.findall(r"^-- (\\.*?)\n(.*?)(?=^-- \\|\Z)", text, flags=re.MULTILINE | re.DOTALL)
    return [(command, sql.strip()) for command, sql in found]


@pytest.mark.full
@pytest.mark.parametrize("command, sql", blocks(), ids=lambda text: text[:30])
def test_psql(catalog: PgCatalog, real: Postgres15, command: str, sql: str) -> None:
    compare(catalog, real, sql)


def test_psql_shows_the_tables(catalog: PgCatalog) -> None:
    listed = dict(blocks())[r"\dt"]
    assert [row[1] for row in told(catalog, listed).rows] == ["orders", "people"]
    assert [row[1] for row in told(catalog, listed, "bob").rows] == ["orders", "people", "secret_table"]


@pytest.mark.parametrize("number", range(68))
def test_recorded_statements(catalog: PgCatalog, real: Postgres15, number: int) -> None:
    """Statements that were recorded from real clients, with their parameters."""
    _, sql = read_numbers("pg_catalog_queries")[number]
    sql = sql.replace("'main'", "'public'")
    for old, name in (("16386", "people"), ("16391", "orders"), ("16397", "v_dept")):
        sql = sql.replace(old, f"{{{name}}}")
    if "$1" not in sql:
        compare(catalog, real, sql)
        return
    assert list(catalog.describe(sql, principal="ann")[1]) == real.parameters(sql)


def test_sqlalchemy_reads_columns(catalog: PgCatalog, real: Postgres15) -> None:
    sql = (
        "SELECT a.attname AS name, pg_catalog.format_type(a.atttypid, a.atttypmod) AS format_type, a.attnotnull, "
        "c.relname, d.description FROM pg_catalog.pg_class c LEFT OUTER JOIN pg_catalog.pg_attribute a "
        "ON c.oid = a.attrelid AND a.attnum > $1::SMALLINT AND NOT a.attisdropped LEFT OUTER JOIN "
        "pg_catalog.pg_description d ON d.objoid = a.attrelid AND d.objsubid = a.attnum JOIN "
        "pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind = ANY (ARRAY[$2::VARCHAR, $3::VARCHAR]) "
        "AND n.nspname = $4::VARCHAR AND c.relname IN ($5::VARCHAR) ORDER BY c.relname, a.attnum"
    )
    answer = catalog.answer(sql, "ann", [0, "r", "v", "public", "people"])
    rows = [[None if cell is None else str(cell) for cell in row.values()] for row in answer.table.to_pylist()]
    right = real.run(sql, ["0", "r", "v", "public", "people"]).rows
    assert rows == [[*row[:2], {"t": "True", "f": "False"}[str(row[2])], *row[3:]] for row in right]
    assert len(rows) == 6


def test_asyncpg_reads_types(catalog: PgCatalog, real: Postgres15) -> None:
    sql = read_numbers("pg_catalog_queries")[0][1]
    answer = catalog.answer(sql, "ann", [[1007, 3904, 23]])
    right = real.run(sql, ["{1007,3904,23}"])
    assert {(row["c0"], row["c2"], row["c12"]) for row in answer.table.to_pylist()} == {
        (int(row[0] or 0), row[2], row[12]) for row in right.rows
    }


def lines(name: str) -> list[str]:
    return [line for line in (FOLDER / name).read_text(encoding="utf-8").splitlines() if not line.startswith("#")]


@pytest.mark.parametrize("expression", lines("expressions.txt"), ids=lambda text: text[:60])
def test_expressions(catalog: PgCatalog, real: Postgres15, expression: str) -> None:
    assert told(catalog, f"SELECT {expression}") == real.run(f"SELECT {expression}")


@pytest.mark.full
@pytest.mark.parametrize("sql", lines("parameters.txt"))
def test_parameters(catalog: PgCatalog, real: Postgres15, sql: str) -> None:
    assert list(catalog.describe(sql, principal="ann")[1]) == real.parameters(sql)


def test_columns_of_the_catalog() -> None:
    """Names, types and order of all columns; the domains of the information schema are told as what they stand for."""
    right = read_numbers("pg15_catalog_columns")
    domains = {
        "information_schema.sql_identifier": "name", "information_schema.cardinal_number": "integer",
        "information_schema.character_data": "character varying", "information_schema.yes_or_no": "character varying",
        "information_schema.time_stamp": "timestamp with time zone",
    }  # fmt: skip
    from sqlanon.pgcatalog.kinds import sql_name

    assert len(RELATIONS) > 100
    for key, relation in RELATIONS.items():
        wanted = [tuple(column.rsplit("|", 1)) for column in right[key]]
        assert [(name, domains.get(kind, kind)) for name, kind in wanted] == [
            (name, sql_name(kind)) for name, kind in relation.columns
        ]


def test_types_of_the_catalog(catalog: PgCatalog, real: Postgres15) -> None:
    """Every type here is one of PostgreSQL's, with the same numbers and properties."""
    sql = (
        "SELECT oid, typname, typlen, typbyval, typtype, typcategory, typispreferred, typdelim, typelem, typarray, "
        "typinput, typoutput, typreceive, typsend, typalign, typstorage, typcollation FROM pg_type "
        "WHERE typnamespace = 11 AND typrelid = 0"
    )
    known = {row[0]: row for row in real.run(sql).rows}
    mine = told(catalog, sql).rows
    assert len(mine) == len(BY_OID)
    for row in mine:
        assert row == known[row[0]]

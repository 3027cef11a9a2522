"""DuckDB, embedded: a database file, memory, or Parquet, CSV, JSON, Excel and Feather files."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from glob import glob
from pathlib import Path
from typing import Any

import duckdb
import sqlglot
from sqlglot import exp

from sqlanon.engines.engine import WRITABLE, ColumnInfo, ExistingRelation, Hardened, Reads, WorkPlace, table_name
from sqlanon.engines.manifest import current_file
from sqlanon.engines.memory_share import bytes_of, share_of_memory
from sqlanon.errors import DatabaseLocked, EngineError, SourceError, did_you_mean
from sqlanon.policy import Policy, Source
from sqlanon.policy.file_formats import FEATHER, ending_of

NUMERIC = {
    "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT",
    "UHUGEINT", "FLOAT", "DOUBLE", "DECIMAL",
}  # fmt: skip
# Before the database is opened: what could load code, or reach the variables of this process.
CLOSED = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "allow_community_extensions": "false",
    "allow_unsigned_extensions": "false",
    "allow_persistent_secrets": "false",
    "python_enable_replacements": "false",
}
TEMPORAL = {
    "DATE", "TIMESTAMP", "TIMESTAMP WITH TIME ZONE", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS", "TIMESTAMPTZ_NS",
}  # fmt: skip
# How statements are run here. The order of rows means nothing, and keeping it costs time and memory; DuckDB would draw
# its own bar on standard output, into JSON and reports.
SETTINGS = ("preserve_insertion_order", "enable_progress_bar")


def _turn_off(connection: duckdb.DuckDBPyConnection) -> None:
    for name in SETTINGS:
        try:
            connection.execute(f"SET {name} = false")
        except duckdb.InvalidInputException as error:
            # In a notebook without ipywidgets DuckDB draws no bar, and refuses to be told so.
            if "progress bar" not in str(error):
                raise


def take_share(connection: duckdb.DuckDBPyConnection) -> None:
    """Limit memory to a share of the machine. A lower limit stays: several connections to a file have one limit."""
    current = str(connection.execute("SELECT current_setting('memory_limit')").fetchall()[0][0])
    if (share := share_of_memory()) < bytes_of(current):
        connection.execute(f"SET memory_limit = '{share}B'")


class DuckDB:
    product = "duckdb"
    dialect = rows_dialect = "duckdb"

    def __init__(
        self,
        path: str = ":memory:",
        *,
        read_only: bool = True,
        memory_limit: str | None = None,
        hardened: Hardened | None = None,
        alone: bool = False,
    ) -> None:
        self.path = path
        config = CLOSED if hardened is not None else {}
        alone = alone or hardened is not None
        self._connection = _open(path, read_only=read_only and path != ":memory:", config=config, alone=alone)
        self._streams: list[duckdb.DuckDBPyConnection] = []
        self._mapped: set[str] = set()  # paths of Feather files
        self._borrowed: dict[str, bool] = {}  # settings of a connection of somebody else, who gets them back
        _turn_off(self._connection)
        if memory_limit is not None:
            try:
                self._connection.execute("SET memory_limit = ?", [memory_limit])
            except duckdb.Error:
                raise EngineError(
                    f"'{memory_limit}' is not an amount of memory", hint="write for example 1GB or 500MB"
                ) from None

        elif hardened is None:
            take_share(self._connection)
        if hardened is not None:
            _harden(self._connection, hardened)

    @classmethod
    def over(cls, connection: duckdb.DuckDBPyConnection) -> DuckDB:
        """An engine over a connection that somebody else opened, and goes on using: closing the engine leaves it open,
        with the settings that it had."""
        made = cls.__new__(cls)
        made.path = ":memory:"
        made._connection = connection
        made._streams, made._mapped = [], set()
        try:
            made._borrowed = {
                name: bool(connection.execute("SELECT current_setting(?)", [name]).fetchall()[0][0])
                for name in SETTINGS
            }
            _turn_off(connection)
        except duckdb.Error as error:
            raise SourceError(
                f"the connection cannot be used ({type(error).__name__})", hint="is it closed, or in a transaction?"
            ) from None
        return made

    @property
    def read_only(self) -> bool:
        # Asked of the database: a file that is open for writing elsewhere in this process is opened so here, too.
        asked = "SELECT readonly FROM duckdb_databases() WHERE database_name = current_database()"
        return bool(self._connection.execute(asked).fetchall()[0][0])

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
        with _clear_errors(self):
            return self._connection.execute(tree.sql(self.dialect, copy=False)).fetchall()

    def batches(self, tree: exp.Query, rows: int) -> Generator[Any, None, None]:
        # A result that is still read owns its connection.
        stream = self._connection.cursor()
        self._streams.append(stream)
        try:
            with _clear_errors(self):
                reader = stream.sql(tree.sql(self.dialect)).to_arrow_reader(rows)
            while True:
                try:
                    batch = reader.read_next_batch()
                except StopIteration:
                    return
                except OSError as error:  # how Arrow tells an error of its source; its text may hold values
                    raise _stream_error(error) from None
                yield batch
        finally:
            self._streams.remove(stream)
            stream.close()

    def arrow_table(self, tree: exp.Query) -> Any:
        with _clear_errors(self):
            return self._connection.sql(tree.sql(self.dialect)).to_arrow_table()

    def register_arrow(self, name: str, rows: Any) -> None:
        """Let statements read an Arrow table under a name. Nothing is copied; it is held until the engine is closed."""
        with _clear_errors(self):
            # From here on the caller names what is read: a misspelt table must not be a variable of some program.
            self._connection.execute("SET python_enable_replacements = false")
            self._connection.register(name, rows)

    def prepared(self, tree: exp.Expr) -> Callable[[Sequence[int | float]], list[tuple[Any, ...]]]:
        sql = tree.sql(self.dialect, copy=False)

        def ask(numbers: Sequence[int | float]) -> list[tuple[Any, ...]]:
            with _clear_errors(self):
                return self._connection.execute(sql, numbers).fetchall()

        return ask

    def execute(self, tree: exp.Expr) -> None:
        with _clear_errors(self):
            self._connection.execute(tree.sql(self.dialect, copy=False, comments=False))

    def create_temporary(self, name: str, query: exp.Query) -> None:
        made = exp.Create(
            this=exp.Table(this=exp.to_identifier(name)),
            kind="TABLE",
            replace=True,
            expression=query,
            properties=exp.Properties(expressions=[exp.TemporaryProperty()]),
        )
        self.execute(made)

    def load_temporary(self, name: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        # One list a column: row by row would take seconds for a hierarchy of all postal codes.
        filled = ", ".join(f"unnest(CAST(? AS TEXT[])) AS {column}" for column in columns)
        by_column = [[row[place] for row in rows] for place in range(len(columns))]
        with _clear_errors(self):
            self._connection.execute(f"CREATE OR REPLACE TEMPORARY TABLE {name} AS SELECT {filled}", by_column)

    def drop_temporary(self, names: Sequence[str]) -> None:
        # Only from the temporary schema: a user's table of that name is none of our business.
        with _clear_errors(self):
            self._connection.execute("".join(f"DROP TABLE IF EXISTS temp.{name};" for name in names))

    def columns(self, rows: exp.Select) -> list[ColumnInfo]:
        with _clear_errors(self):
            described = self._connection.execute(f"DESCRIBE {rows.sql(self.dialect, copy=False)}").fetchall()
        return [_column(name, str(kind)) for name, kind, *_ in described]

    def resolve(self, source: Source) -> Source:
        if source.path is None or "://" in source.path:
            return source
        path = Path(source.path)
        if path.is_dir() and (shown := current_file(path)) is not None:
            return source.model_copy(update={"path": str(shown)})
        if path.is_dir():
            for ending in ("parquet", "csv"):
                if any(path.rglob(f"*.{ending}")):
                    return source.model_copy(update={"path": str(path / "**" / f"*.{ending}")})
            raise SourceError(f"the folder '{path}' holds no Parquet or CSV file")
        if not any(sign in source.path for sign in "*?[") and not path.exists():
            raise SourceError(f"there is no file '{path}'", hint=_nearest_file(path))
        return self._feather(source) if ending_of(source.path) in FEATHER else source

    def _feather(self, source: Source) -> Source:
        """Feather files as a table that has their path as its name: Arrow maps them into memory, and DuckDB reads them
        from there."""
        assert source.path is not None
        if source.path not in self._mapped:
            self.register_arrow(source.path, _map_feather(source.path))
            self._mapped.add(source.path)
        return source.model_copy(update={"path": None, "table": f'"{source.path.replace(chr(34), chr(34) * 2)}"'})

    @contextmanager
    def transaction(self) -> Iterator[None]:
        with _clear_errors(self):
            self._connection.execute("BEGIN")
        try:
            yield
        except BaseException:
            with suppress(duckdb.Error):
                self._connection.execute("ROLLBACK")
            raise
        with _clear_errors(self):
            self._connection.execute("COMMIT")

    @contextmanager
    def one_thread(self) -> Iterator[None]:
        threads = self._connection.execute("SELECT current_setting('threads')").fetchall()[0][0]
        self._connection.execute("SET threads = 1")
        try:
            yield
        finally:
            with suppress(duckdb.Error):
                self._connection.execute(f"SET threads = {int(threads)}")

    def write_file(self, query: exp.Query, path: str) -> None:
        ending = path.lower().rpartition(".")[2]
        kind = {"parquet": "PARQUET", "tsv": "CSV, HEADER, DELIMITER '\t'"}.get(ending, "CSV, HEADER")
        with _clear_errors(self):
            self._connection.execute(f"COPY ({query.sql(self.dialect)}) TO $1 (FORMAT {kind})", [path])

    def interrupt(self) -> None:
        for connection in (self._connection, *tuple(self._streams)):
            connection.interrupt()

    def close(self) -> None:
        if not self._borrowed:
            self._connection.close()
        for name, value in self._borrowed.items():
            with suppress(duckdb.Error):  # somebody closed it meanwhile
                self._connection.execute(f"SET {name} = {'true' if value else 'false'}")

    def tables(self) -> list[str]:
        found = self._connection.execute(
            "SELECT table_schema = current_schema(), table_schema, table_name FROM information_schema.tables "
            "WHERE table_catalog = current_database() AND table_name NOT LIKE 'sqlanon\\_%' ESCAPE '\\'"
        ).fetchall()
        return sorted(table_name(name) if here else table_name(schema, name) for here, schema, name in found)

    def find(self, parts: Sequence[str]) -> ExistingRelation | None:
        # Names are equal whatever their case; a.t may be table t of schema a or of database a.
        *where, name = (part.lower() for part in parts)
        for kind in ("table", "view"):
            with _clear_errors(self):
                # What information_schema.tables reads, in a third of the time. Views come last: to list them, DuckDB
                # makes all of its own.
                found = self._connection.execute(
                    f"SELECT lower(database_name), lower(schema_name), lower({kind}_name), "
                    f"lower(current_database()), lower(current_schema()) FROM duckdb_{kind}s() "
                    f"WHERE NOT internal AND lower({kind}_name) = ?",
                    [name],
                ).fetchall()
            for catalog, schema, own, database, current in found:
                spellings: list[list[str]] = [[catalog, schema]]
                if catalog == database:
                    spellings.append([schema])
                if schema == "main":
                    spellings.append([catalog])
                if catalog == "temp" or (catalog, schema) == (database, current):
                    spellings.append([])
                if where in spellings:
                    return ExistingRelation(kind, (catalog, schema, own))
        return None

    def reads(self, parts: Sequence[str]) -> Reads:
        quoted = ".".join('"' + part.replace('"', '""') + '"' for part in parts)
        with _clear_errors(self):
            # DuckDB binds the statement: views, macros and query() are followed.
            named = self._connection.get_table_names(f"SELECT * FROM {quoted}", qualified=True)
        found = set()
        for name in named:
            tree = sqlglot.parse_one(f"SELECT * FROM {name}", read=self.dialect).find(exp.Table)
            inner = [part.name for part in tree.parts] if tree is not None else []
            there = self.find(inner)
            found.add(there.full_name if there is not None else tuple(part.lower() for part in inner))
        return Reads(frozenset(found))

    def state(self, parts: Sequence[str]) -> str:
        return ""

    def copy_grants(self, parts: Sequence[str], to: Sequence[str]) -> None:
        return None  # DuckDB knows no users


def _column(name: str, kind: str) -> ColumnInfo:
    base = kind.split("(")[0].strip()
    return ColumnInfo(name, kind, numeric=base in NUMERIC, temporal=base in TEMPORAL)


def _map_feather(path: str) -> Any:
    """The rows of Feather files, or of Arrow streams; those of a pattern one after the other."""
    try:
        import pyarrow
        from pyarrow import feather, ipc
    except ImportError:
        raise SourceError("Feather files need the package pyarrow", hint="pip install 'sqlanon[dataframes]'") from None
    found = []
    for file in sorted(glob(path)) if not Path(path).exists() else [path]:
        try:
            found.append(feather.read_table(file, memory_map=True))
        except pyarrow.ArrowException:
            try:
                with pyarrow.memory_map(file) as mapped:
                    found.append(ipc.open_stream(mapped).read_all())
            except (pyarrow.ArrowException, OSError):
                raise SourceError(
                    f"the file '{file}' is no Feather file, whatever its name says", hint="write it anew as Parquet"
                ) from None
    if not found:
        raise SourceError(f"there is no file '{path}'")
    try:
        return pyarrow.concat_tables(found)
    except pyarrow.ArrowInvalid:
        raise SourceError(f"the files '{path}' do not have the same columns", hint="give one of them") from None


def _nearest_file(path: Path) -> str | None:
    if not path.parent.is_dir():
        return None
    return did_you_mean(path.name, [entry.name for entry in path.parent.iterdir()])


def _harden(connection: duckdb.DuckDBPyConnection, wanted: Hardened) -> None:
    """In this order: each step closes what the next ones rely on being closed, the last one closes all settings."""
    for name, value in (
        ("allow_extension_repositories", "forbidden"),
        ("memory_limit", f"{wanted.memory}B"),
        ("threads", wanted.threads),
        ("max_execution_time", int(wanted.seconds * 1000)),
        ("max_expression_depth", 1000),
        ("temp_directory", wanted.temporary or ""),
        ("max_temp_directory_size", f"{4 * wanted.memory}B"),
        ("enable_external_access", False),
        ("lock_configuration", True),
    ):
        connection.execute(f"SET {name} = ?", [value])


def _open(path: str, *, read_only: bool, config: dict[str, str], alone: bool) -> duckdb.DuckDBPyConnection:
    if path != ":memory:" and read_only and not Path(path).exists():
        raise SourceError(f"there is no database '{path}'", hint=_nearest_file(Path(path)))
    try:
        return duckdb.connect(path, read_only=read_only, config=dict(config))
    except duckdb.ConnectionException as error:
        if read_only and not alone and "different configuration" in str(error):
            return _open(path, read_only=False, config=config, alone=True)
        raise SourceError(
            f"the database '{path}' is open in this process in another way", hint="close it there first"
        ) from None
    except duckdb.IOException as error:
        if "lock" in str(error).lower():
            raise DatabaseLocked(
                f"the database '{path}' is in use by another process that writes to it",
                hint="wait until it is done, or check a copy of the file",
            ) from None
        raise SourceError(f"the database '{path}' cannot be opened", hint=_not_duckdb(path)) from None
    except duckdb.Error:
        raise SourceError(f"the database '{path}' cannot be opened", hint=_not_duckdb(path)) from None


def _not_duckdb(path: str) -> str:
    if Path(path).is_dir():
        return "it is a folder; give its files with 'path:', or the database file inside it"
    return "is it a DuckDB file, written by a version that this one can read, and may you read it?"


class _clear_errors:
    """Turn the engine's errors into ours. Those about values quote the values: their text is not shown."""

    def __init__(self, engine: DuckDB) -> None:
        self.engine = engine

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        interrupted = isinstance(error, RuntimeError) and "interrupted" in str(error).lower()
        if interrupted or isinstance(error, duckdb.InterruptException):
            raise KeyboardInterrupt from None  # Ctrl-C while a statement runs
        if not isinstance(error, duckdb.Error):
            return
        raise translate(error, self.engine) from None


def _stream_error(error: OSError) -> BaseException:
    if "interrupted" in str(error).lower():
        return KeyboardInterrupt()
    return EngineError("the database broke off a statement while its rows were read")


def translate(error: duckdb.Error, engine: DuckDB) -> SourceError | EngineError:
    first = str(error).splitlines()[0]
    if isinstance(error, duckdb.PermissionException):
        return SourceError(
            "a table or view reads files outside of the database, which a server does not",
            hint="put its rows into the database: CREATE TABLE … AS SELECT * FROM the view",
        )
    if isinstance(error, duckdb.CatalogException) and "does not exist" in first:
        named = first.split("with name ", 1)[-1].split(" does not exist")[0].strip("\"'")
        try:
            known = engine.tables()
        except duckdb.Error:  # inside a transaction that is lost already
            known = []
        listed = f"the database has {', '.join(known[:8])}" if known else "the database has no table"
        return SourceError(f"there is no table '{named}'", hint=did_you_mean(named, known) or listed)
    if isinstance(error, duckdb.BinderException):
        return SourceError(_binder_message(first), hint="compare the policy with the columns of the table")
    if isinstance(error, duckdb.OutOfMemoryException):
        return EngineError(
            "the database ran out of memory", hint="raise --memory-limit, or free space for its temporary files"
        )
    # A commit that cannot be written is told as an error of the transaction, with the reason inside.
    if isinstance(error, duckdb.IOException) or ("ailed to commit" in first and "write" in first):
        return EngineError(
            "the database could not read or write a file", hint="is the disk full, or was a file removed?"
        )
    if isinstance(error, duckdb.InvalidInputException) and re.search("utf-?8|UTF-16 encoding", str(error), re.I):
        return _encoding_error(str(error))
    if (broken := re.search(r'Malformed JSON in file "([^"]+)", at .* in (\w+)\S* (\d+)', first)) is not None:
        return SourceError(
            f"the file '{broken[1]}' is no JSON in {broken[2]} {broken[3]}",
            hint="it holds one object a line, or one list of objects",
        )
    if (extension := re.search(r"extension ['\"](\w+)", first)) is not None:
        instead = "save the file as CSV" if extension[1] == "excel" else "copy the file here"
        return SourceError(
            f"this needs DuckDB's extension '{extension[1]}', which is not installed and could not be fetched",
            hint=f'run "INSTALL {extension[1]}" once in DuckDB with access to the network, or {instead}',
        )
    if "read-only" in first:
        return SourceError("the database is open for reading only", hint=WRITABLE)
    if "No magic bytes" in first:
        return SourceError("a file is no Parquet file, whatever its name says", hint="write it anew as Parquet")
    if isinstance(error, duckdb.ConversionException):
        return EngineError(
            "a value cannot be read as the type that is asked of it",
            hint="does a column of numbers hold a word? cast it to text in a view or query; or does a CSV file have "
            "lines above the names of its columns? take them out: no line is skipped",
        )
    return EngineError(
        f"the database refused a statement ({type(error).__name__})",
        hint="'sqlanon compile' shows the statements, to try them one by one",
    )


def _encoding_error(text: str) -> SourceError:
    """Name the file and the encoding that it seems to have. The engine's text quotes rows: only the name is taken.

    >>> print(_encoding_error("… file = no/such.csv\\n"))
    the file 'no/such.csv' is not encoded in UTF-8
      hint: convert it: iconv -f WINDOWS-1252 -t UTF-8 no/such.csv > utf8.csv
    """
    named = re.search(r"^.*\bfile = (.+)$", text, re.MULTILINE) or re.search(
        r'\b(?:in|sniffing) file "([^"\n]+)"', text
    )
    if named is None:
        return SourceError("a file is not encoded in UTF-8", hint="convert it: iconv -f WINDOWS-1252 -t UTF-8")
    path = Path(named[1].strip())
    try:
        with path.open("rb") as file:
            start = file.read(2)
    except OSError:
        start = b""
    encoding = "UTF-16" if start in (b"\xff\xfe", b"\xfe\xff") else "WINDOWS-1252"
    return SourceError(
        f"the file '{path}' is not encoded in UTF-8",
        hint=f"convert it: iconv -f {encoding} -t UTF-8 {path} > utf8{path.suffix or '.csv'}",
    )


def _binder_message(first: str) -> str:
    """Binder errors speak of names in the statement, never of values in rows."""
    text = first.removeprefix("Binder Error: ")
    if "Referenced column" in text and '"' in text:
        return f"there is no column '{text.split(chr(34))[1]}'"
    return text.rstrip("!")

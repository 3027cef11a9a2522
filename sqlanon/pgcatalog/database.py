"""The metadata database of one principal: an embedded DuckDB, in memory and hardened, that holds no data at all."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property, wraps
from typing import Any

import duckdb
import pyarrow as pa
from duckdb.func import SPECIAL as SPECIAL_NULLS
from sqlglot import exp

from sqlanon.errors import EngineError, Refused
from sqlanon.pgcatalog.bound_expression import MARK
from sqlanon.pgcatalog.contents import CONTENTS
from sqlanon.pgcatalog.functions import Function, Needs
from sqlanon.pgcatalog.information import VIEWS, replace_zero_bytes
from sqlanon.pgcatalog.kinds import duck_type
from sqlanon.pgcatalog.lookups import LONGEST_TEXT, SPECIAL, Lookups, list_functions
from sqlanon.pgcatalog.principal_view import View
from sqlanon.pgcatalog.relations import RELATIONS, CatalogRelation

MAX_ROWS = 200_000
MAX_BYTES = 64 * 2**20
TOO_LONG = f"error('{MARK}54000 a text of more than {LONGEST_TEXT} bytes is not answered')"
# A macro writes an argument wherever it names it: nested calls would grow without bound. A lambda does not.
MACROS = (
    # _pg_expandarray(): the elements of a vector and their places.
    "expandarray(v) AS list_transform([v], lambda w: list_transform(generate_series(1, len(w)), "
    "lambda i: {'x': w[i], 'n': i::INTEGER}))[1]",
    # Texts that are longer than all of a catalog are an attack on memory.
    f"short(t) AS list_transform([t], lambda i: CASE WHEN strlen(i) > {LONGEST_TEXT} THEN {TOO_LONG} ELSE i END)[1]",
    f"short_pair(t, r) AS list_transform([{{'t': t, 'r': r}}], lambda i: CASE WHEN strlen(i.t) * (strlen(i.r) + 1) > "
    f"{LONGEST_TEXT} THEN {TOO_LONG} ELSE i.t END)[1]",
    f"not_zero(n) AS list_transform([n], lambda i: CASE WHEN i = 0 THEN error('{MARK}22012 division by zero') "
    "ELSE i END)[1]",
    "only_zero(n) AS CASE WHEN n IS NOT NULL THEN 0::BIGINT END",
)

ERRORS = (
    ("Out of Memory Error", "53200", "the statement needs too much memory"),
    ("Conversion Error", "22P02", "a value cannot be read as the type that it is cast to"),
    ("Out of Range Error", "22003", "a value is out of range"),
    ("Binder Error", "0A000", "the statement is not answered in this form"),
    ("Not implemented Error", "0A000", "the statement is not answered in this form"),
    ("Invalid Input Error", "22023", "a function was given a value that it does not take"),
)


class MetadataDatabase:
    """Tables come into being when a statement first names them; the configuration is locked before the first."""

    def __init__(self, view: View, timeout: float = 30.0) -> None:
        self.view = view
        self.lookups = Lookups(view)
        self._timeout = timeout
        self._loaded: set[str] = set()
        self._running: duckdb.DuckDBPyConnection | None = None

    @cached_property
    def _connection(self) -> duckdb.DuckDBPyConnection:
        """Opened when a statement first needs it: constants do not."""
        connection = duckdb.connect(
            ":memory:",
            config={
                "threads": 1,
                "memory_limit": "256MB",
                "autoinstall_known_extensions": "false",
                "autoload_known_extensions": "false",
                "allow_community_extensions": "false",
                "allow_persistent_secrets": "false",
                "python_enable_replacements": "false",
                "temp_directory": "",  # or it would leave files where the server was started
                "max_expression_depth": 1000,
                "enable_external_access": "false",
            },
        )
        for name, function, arguments, result in list_functions(self.lookups):
            handled = _told(function, special=name in SPECIAL)
            connection.create_function(f"pg_{name}", handled, [*arguments], result, null_handling=SPECIAL_NULLS)
        principal = exp.Literal.string(replace_zero_bytes(self.view.principal)).sql("duckdb")
        own = (*MACROS, f"session_principal() AS {principal}")
        connection.execute("; ".join(f"CREATE MACRO {macro}" for macro in own))
        connection.execute("SET GLOBAL TimeZone = 'UTC'; SET lock_configuration = true")
        return connection

    def close(self) -> None:
        if "_connection" in self.__dict__:
            self._connection.close()

    def interrupt(self) -> None:
        """Break off what runs; may be called from another thread."""
        if (running := self._running) is not None:
            running.interrupt()

    def load(self, relation: CatalogRelation) -> None:
        """Fill the table of a relation, once."""
        if relation.key in self._loaded:
            return
        made = CONTENTS.get(relation.key) or VIEWS.get(relation.key)
        rows = list(made(self.view)) if made else []
        table = exp.to_identifier(relation.key, quoted=True).sql("duckdb")
        names = [exp.to_identifier(name, quoted=True).sql("duckdb") for name, _ in relation.columns]
        types = [duck_type(kind) for _, kind in relation.columns]
        declared = ", ".join(f"{name} {kind}" for name, kind in zip(names, types, strict=True))
        self._connection.execute(f"CREATE TABLE {table} ({declared})")
        if rows:
            # A column that no row tells is NULL.
            told = [place for place, (name, _) in enumerate(relation.columns) if any(name in row for row in rows)]
            filled = ", ".join(f"unnest(CAST(? AS {types[place]}[]))" for place in told)
            into = ", ".join(names[place] for place in told)
            values = [[replace_zero_bytes(row.get(relation.columns[place][0])) for row in rows] for place in told]
            self._connection.execute(f"INSERT INTO {table} ({into}) SELECT {filled}", values)
        self._loaded.add(relation.key)

    def define(self, function: Function) -> None:
        """Make the macro of a function, once."""
        if function.macro not in self._loaded:
            self._connection.execute(function.definition)
            self._loaded.add(function.macro)

    def check(self, tree: exp.Query, needs: Needs) -> None:
        """Let the database read the statement without running it."""
        with self._guarded(needs) as cursor:
            cursor.sql(tree.sql("duckdb"))

    def run(self, tree: exp.Query, needs: Needs, timeout: float | None = None) -> pa.Table:
        """The answer, if it is of bounded size."""
        with self._guarded(needs, timeout) as cursor:
            reader = cursor.sql(tree.sql("duckdb")).to_arrow_reader(10_000)
            batches, rows, size = [], 0, 0
            for batch in reader:
                rows, size = rows + batch.num_rows, size + batch.nbytes
                if rows > MAX_ROWS or size > MAX_BYTES:
                    raise Refused("the answer is too large", sqlstate="54000", hint="ask for fewer rows")
                batches.append(batch)
            return pa.Table.from_batches(batches, reader.schema)

    @contextmanager
    def _guarded(self, needs: Needs, timeout: float | None = None) -> Iterator[duckdb.DuckDBPyConnection]:
        """A connection of its own, for a result that is left open would block the next statement; a limit of time; and
        every error in our own words, for those of the engine may quote what it read."""
        for key in sorted(needs.relations):
            self.load(RELATIONS[key])
        for function in needs.functions:
            self.define(function)
        cursor = self._running = self._connection.cursor()
        timer = threading.Timer(self._timeout if timeout is None else timeout, cursor.interrupt)
        timer.daemon = True
        timer.start()
        try:
            yield cursor
        except (duckdb.Error, RuntimeError, OSError, pa.ArrowException) as error:
            raise _own_words(error) from None
        finally:
            timer.cancel()
            timer.join()  # it holds the connection
            self._running = None
            cursor.close()


def _told(function: Callable[..., Any], *, special: bool) -> Callable[..., Any]:
    """A function whose refusals can be told from an engine's errors, and that gives NULL for NULL unless `special`."""

    @wraps(function)  # the database counts the parameters
    def called(*arguments: object) -> object:
        if not special and any(each is None for each in arguments):
            return None
        try:
            return function(*arguments)
        except Refused as refused:
            raise ValueError(f"{MARK}{refused.sqlstate} {refused.message}") from None

    return called


def _own_words(error: Exception) -> Refused | EngineError:
    """What an error of the engine is; it is told from the first words of its text, which are the engine's alone."""
    text = str(error)
    if MARK in text:
        state, message = text.split(MARK, 1)[1].split(" ", 1)
        return Refused(message.splitlines()[0], sqlstate=state)
    if text.upper().startswith("INTERRUPT"):
        return Refused("canceling statement due to statement timeout", sqlstate="57014")
    if text.startswith("Binder Error") and "GROUP BY clause" in text:
        said = "a column must appear in the GROUP BY clause or be used in an aggregate function"
        return Refused(said, sqlstate="42803")
    for start, state, said in ERRORS:
        if text.startswith(start):
            return Refused(said, sqlstate=state)
    return EngineError("the statement could not be answered from the catalog")

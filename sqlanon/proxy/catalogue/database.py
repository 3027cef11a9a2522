"""The metadata database of one principal: an embedded DuckDB, in memory and hardened, that holds no data at all."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps

import duckdb
import pyarrow as pa
from sqlglot import exp

from sqlanon.errors import EngineError, Refused
from sqlanon.proxy.catalogue.contents import CONTENTS
from sqlanon.proxy.catalogue.functions import FUNCTIONS
from sqlanon.proxy.catalogue.information import VIEWS, settled
from sqlanon.proxy.catalogue.kinds import duck_type
from sqlanon.proxy.catalogue.lookups import Lookups, registered
from sqlanon.proxy.catalogue.relations import RELATIONS, Relation
from sqlanon.proxy.catalogue.view import View

MAX_ROWS = 200_000
MAX_BYTES = 64 * 2**20
LONGEST_TEXT = 1_000_000
# Errors that functions and generated SQL raise on purpose: this, an SQLSTATE, and a message of our own.
MARK = "sqlanon-error "
# Each names what it must not let grow: a text that is longer than all of a catalogue is an attack on memory.
MACROS = (
    # _pg_expandarray(): the elements of a vector and their places.
    "CREATE MACRO expandarray(v) AS list_transform(generate_series(1, len(v)), lambda i: {'x': v[i], 'n': i::INTEGER})",
    "CREATE MACRO short(t) AS CASE WHEN strlen(t) > 1000000 THEN "
    f"error('{MARK}54000 a text of more than 1000000 bytes is not answered') ELSE t END",
    "CREATE MACRO short_replace(t, f, r) AS CASE WHEN strlen(t) * (strlen(r) + 1) > 4000000 THEN "
    f"error('{MARK}54000 a text of more than 1000000 bytes is not answered') ELSE replace(t, f, r) END",
    "CREATE MACRO not_zero(n) AS CASE WHEN n = 0 THEN "
    f"error('{MARK}22012 division by zero') ELSE n END",
    "CREATE MACRO short_pair(t, r) AS CASE WHEN strlen(t) * (strlen(r) + 1) > 4000000 THEN "
    f"error('{MARK}54000 a text of more than 1000000 bytes is not answered') ELSE t END",
    "CREATE MACRO only_zero(n) AS CASE WHEN n IS NULL THEN NULL ELSE 0::BIGINT END",
)  # fmt: skip


class MetadataDatabase:
    """Tables come into being when a statement first names them; the configuration is locked before the first."""

    def __init__(self, view: View, timeout: float = 30.0) -> None:
        self.view = view
        self.lookups = Lookups(view)
        self._timeout = timeout
        self._loaded: set[str] = set()
        self._connection = duckdb.connect(
            ":memory:",
            config={
                "threads": 1,
                "memory_limit": "256MB",
                "autoinstall_known_extensions": "false",
                "autoload_known_extensions": "false",
                "allow_community_extensions": "false",
                "allow_persistent_secrets": "false",
                "python_enable_replacements": "false",
                "max_expression_depth": 1000,
                "enable_external_access": "false",
            },
        )
        for name, function, arguments, result in registered(self.lookups):
            handled = _told(function, special=name == "format_type")
            self._connection.create_function(f"pg_{name}", handled, arguments, result, null_handling="special")  # type: ignore[arg-type]
        for macro in MACROS:
            self._connection.execute(macro)
        principal = exp.Literal.string(settled(view.principal)).sql("duckdb")
        self._connection.execute(f"CREATE MACRO session_principal() AS {principal}")
        for functions in FUNCTIONS.values():
            for each in functions:
                self._connection.execute(each.definition)
        self._connection.execute("SET TimeZone = 'UTC'")
        self._connection.execute("SET lock_configuration = true")

    def interrupt(self) -> None:
        self._connection.interrupt()

    def close(self) -> None:
        self._connection.close()

    def load(self, relation: Relation) -> None:
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
            values = [[settled(row.get(relation.columns[place][0])) for row in rows] for place in told]
            self._connection.execute(f"INSERT INTO {table} ({into}) SELECT {filled}", values)
        self._loaded.add(relation.key)

    def check(self, tree: exp.Query, relations: Iterator[str] | set[str]) -> None:
        """Let the database read the statement without running it."""
        with self._guarded(relations):
            self._connection.sql(tree.sql("duckdb"))

    def run(self, tree: exp.Query, relations: set[str], timeout: float | None = None) -> pa.Table:
        """The answer, if it is of bounded size."""
        with self._guarded(relations, timeout):
            reader = self._connection.sql(tree.sql("duckdb")).to_arrow_reader(10_000)
            batches, rows, size = [], 0, 0
            for batch in reader:
                rows, size = rows + batch.num_rows, size + batch.nbytes
                if rows > MAX_ROWS or size > MAX_BYTES:
                    raise Refused("the answer is too large", sqlstate="54000", hint="ask for fewer rows")
                batches.append(batch)
            return pa.Table.from_batches(batches, reader.schema)

    @contextmanager
    def _guarded(self, relations: Iterator[str] | set[str], timeout: float | None = None) -> Iterator[None]:
        """Within a time limit, and with every error in our own words: those of the engine may quote what it read."""
        seconds = self._timeout if timeout is None else timeout
        timer = threading.Timer(seconds, self._connection.interrupt)
        timer.daemon = True
        try:
            for key in sorted(relations):
                self.load(RELATIONS[key])
            timer.start()
            yield
        except duckdb.InterruptException:
            raise Refused("canceling statement due to statement timeout", sqlstate="57014") from None
        except (duckdb.Error, RuntimeError) as error:
            raise _own_words(error) from None
        finally:
            timer.cancel()


def _told(function: Callable[..., object], *, special: bool) -> Callable[..., object]:
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
    text = str(error)
    if MARK in text:
        state, message = text.split(MARK, 1)[1].split(" ", 1)
        return Refused(message.splitlines()[0], sqlstate=state)
    if "INTERRUPT" in text.upper():
        return Refused("canceling statement due to statement timeout", sqlstate="57014")
    for kind, state, said in (
        (duckdb.OutOfMemoryException, "53200", "the statement needs too much memory"),
        (duckdb.ConversionException, "22P02", "a value cannot be read as the type that it is cast to"),
        (duckdb.OutOfRangeException, "22003", "a value is out of range"),
        (duckdb.BinderException, "0A000", "the statement is not answered in this form"),
        (duckdb.NotImplementedException, "0A000", "the statement is not answered in this form"),
        (duckdb.InvalidInputException, "22023", "a function was given a value that it does not take"),
    ):
        if isinstance(error, kind):
            return Refused(said, sqlstate=state)
    return EngineError("the statement could not be answered from the catalogue")

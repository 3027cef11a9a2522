"""What is done with noisy tables: SQL in an embedded database of its own, which sees nothing else."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any

import duckdb

from sqlanon.errors import EngineError
from sqlanon.gateway.bind.core import Core

TYPES = {
    "int": "HUGEINT", "float": "DOUBLE", "text": "VARCHAR", "bool": "BOOLEAN", "date": "DATE", "timestamp": "TIMESTAMP",
}  # fmt: skip

RANGED = ("u", "low", "high")  # columns of a sum whose bounds were found: its unit, and the ends of the range

Rows = Sequence[tuple[Any, ...]]
Types = Sequence[tuple[str, str]]  # names of columns with their types


class PostDatabase:
    """One for a gateway; each statement has a connection with temporary tables that nobody else sees."""

    def __init__(self, timeout: float = 30.0) -> None:
        self._timeout = timeout
        self.memory = 512 * 2**20  # bytes that it may use; set before the first statement
        self._running: list[duckdb.DuckDBPyConnection] = []
        self._lock = threading.Lock()
        self._database: duckdb.DuckDBPyConnection | None = None

    def _connection(self) -> duckdb.DuckDBPyConnection:
        with self._lock:
            if self._database is None:
                self._database = duckdb.connect(
                    ":memory:",
                    config={
                        "threads": 1,
                        "memory_limit": f"{self.memory}B",
                        "autoinstall_known_extensions": "false",
                        "autoload_known_extensions": "false",
                        "python_enable_replacements": "false",
                        "temp_directory": "",  # or it would leave files where the server was started
                        "enable_external_access": "false",
                        "max_expression_depth": 1000,
                        # The database's own clock: a thread for each statement takes longer than most statements.
                        "max_execution_time": max(1, int(self._timeout * 1000)),
                        "lock_configuration": "true",
                    },
                )
            return self._database.cursor()

    def run(self, tables: Mapping[str, tuple[Core, Rows]], sql: str) -> list[tuple[Any, ...]]:
        """Of the noisy tables of a statement: what is computed from them."""
        return self.compute({name: (_types(core), rows) for name, (core, rows) in tables.items()}, sql)

    def compute(self, tables: Mapping[str, tuple[Types, Rows]], sql: str) -> list[tuple[Any, ...]]:
        """Of tables with the names and types of their columns: what is computed from them."""
        connection = self._connection()
        self._running.append(connection)
        try:
            for name, (types, rows) in tables.items():
                _load(connection, name, types, rows)
            return connection.execute(sql).fetchall()
        except (duckdb.Error, RuntimeError):  # a RuntimeError: interrupted
            # Noisy values may be in the text of an error; it is not needed to tell what to do.
            raise EngineError(
                "the answer could not be computed from its noisy parts",
                hint="simplify the arithmetic on the aggregates; the noisy parts are kept and cost nothing again",
            ) from None
        finally:
            self._running.remove(connection)
            connection.close()

    def interrupt(self) -> None:
        """Break off what runs now; called from another thread."""
        for connection in tuple(self._running):
            connection.interrupt()

    def close(self) -> None:
        if self._database is not None:
            self._database.close()


def _types(core: Core) -> Types:
    types = [(f"k{place}", TYPES[key.kind]) for place, key in enumerate(core.keys)]
    for place, atom in enumerate(core.atoms):
        types += [(f"a{place}", "HUGEINT" if atom.kind == "exact" else "BIGINT"), (f"h{place}", "DOUBLE")]
        if atom.kind == "ranged":
            types += [(f"{letter}{place}", "DOUBLE") for letter in RANGED]
    return types


def _load(connection: duckdb.DuckDBPyConnection, name: str, types: Types, rows: Rows) -> None:
    types = types or [("nothing", "INTEGER")]
    if rows and len(rows[0]):
        filled = ", ".join(f"unnest(CAST(? AS {kind}[])) AS {column}" for column, kind in types)
        values = [list(column) for column in zip(*rows, strict=True)]
        connection.execute(f"CREATE TEMPORARY TABLE {name} AS SELECT {filled}", values)
    else:
        declared = ", ".join(f"{column} {kind}" for column, kind in types)
        connection.execute(f"CREATE TEMPORARY TABLE {name} ({declared})")

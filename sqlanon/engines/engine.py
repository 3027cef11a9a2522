"""What an engine is asked for: one Protocol, and the small types that go with it."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol

from sqlglot import exp

from sqlanon.policy import Policy, Source

WRITABLE = "open it for writing: sqlanon.connect(url, read_only=False)"


@dataclass(frozen=True)
class ColumnInfo:
    """A column as the engine knows it. `numeric` decides what may be measured, `temporal` what may be truncated."""

    name: str
    type: str
    numeric: bool
    temporal: bool


@dataclass(frozen=True)
class ExistingRelation:
    """What has a name already: its kind, such as 'table' or 'view', and its full name, which tells it from others."""

    kind: str
    full_name: tuple[str, ...]


@dataclass(frozen=True)
class Reads:
    """What a statement on a table or view reads in the end."""

    tables: frozenset[tuple[str, ...]]  # full names, as in Relation: no views
    functions: tuple[str, ...] = ()  # on the way there, written by users: nobody sees what they read


@dataclass(frozen=True)
class Hardened:
    """How an engine is opened in a process that answers strangers: it reads, and nothing else."""

    memory: int  # bytes that the database may use
    threads: int = 2
    seconds: float = 3600.0  # for one statement: far above what its caller grants
    temporary: str | None = None  # folder for what does not fit into memory; without it, that fails


class WorkPlace(Enum):
    """Where a statement runs. Data-sized work (reading the source into groups, rewriting, writing, reading what was
    written) runs where the rows are. Summary-sized work (search, models over classes, loss, risk) may run elsewhere, on
    relations that were fetched once. For DuckDB and PostgreSQL both are one connection."""

    ROWS = "rows"
    SUMMARY = "summary"


class Engine(Protocol):
    """A connection to one database. Errors are sqlanon's own, without values."""

    product: str  # duckdb, postgres or spark
    dialect: str  # in which statements are written for it
    rows_dialect: str  # the same for those that stay where the rows are, whatever they return

    @property
    def read_only(self) -> bool:
        """Whether the database refuses to be written to."""

    def admit(self, policy: Policy, *, publishes: bool = False) -> None:
        """Refuse what a policy asks for and this engine does not do."""

    def place(self, tree: exp.Expr) -> WorkPlace:
        """Where a statement would run, from the relations that it reads."""

    def at_rows(self) -> AbstractContextManager[None]:
        """Whatever is asked inside stays where the rows are, and is written in `rows_dialect`."""

    def bring_summary(self, names: Sequence[str]) -> None:
        """Have temporary tables where summary-sized work is done; refuse those that are too long to be brought."""

    def query(self, tree: exp.Expr) -> list[tuple[Any, ...]]:
        """Run a statement that returns a summary: few rows, never the table."""

    def batches(self, tree: exp.Query, rows: int) -> Generator[Any, None, None]:
        """Run a statement that may return a whole table: Arrow record batches of so many rows, as they are asked for.

        Beside other statements: one that is read slowly, or never to its end, holds none up. Close it when done.
        """

    def arrow_table(self, tree: exp.Query) -> Any:
        """Run a statement whose rows leave as one Arrow table, temporary tables of this connection included."""

    def prepared(self, tree: exp.Expr) -> Callable[[Sequence[int | float]], list[tuple[Any, ...]]]:
        """A statement with the parameters $1, $2, … to run again and again: as `query`, but written once."""

    def execute(self, tree: exp.Expr) -> None:
        """Run a statement for its effect."""

    def create_temporary(self, name: str, query: exp.Query) -> None:
        """CREATE TEMPORARY TABLE name AS query, in place of one of that name."""

    def load_temporary(self, name: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """A temporary table of text, from rows that are known to the caller, such as a hierarchy file."""

    def drop_temporary(self, names: Sequence[str]) -> None: ...

    def columns(self, rows: exp.Select) -> list[ColumnInfo]:
        """The columns of a relation, without reading it."""

    def resolve(self, source: Source) -> Source:
        """The source with a folder of files made into a pattern; says what is there if it is not."""

    def transaction(self) -> AbstractContextManager[None]:
        """All or nothing: what is written inside is seen by others when it ends without an error, or never."""

    def one_thread(self) -> AbstractContextManager[None]:
        """For many statements on little data, where sharing the work costs more than it saves."""

    def write_file(self, query: exp.Query, path: str) -> None:
        """Write a Parquet or CSV file; DuckDB only."""

    def tables(self) -> list[str]:
        """The tables and views of the database, with their schema where it is not the current one."""

    def interrupt(self) -> None:
        """Break off the statement that runs now; called from another thread."""

    def find(self, parts: Sequence[str]) -> ExistingRelation | None:
        """What a statement would reach by this name, if there is anything."""

    def reads(self, parts: Sequence[str]) -> Reads:
        """The tables behind a name, through all views and macros; the table itself if it is one."""

    def state(self, parts: Sequence[str]) -> str:
        """Another text once a name may show other rows than before. PostgreSQL counts changed rows with a delay of
        seconds; a DuckDB file that is open for reading cannot change."""

    def copy_grants(self, parts: Sequence[str], to: Sequence[str]) -> None:
        """Let the same people read, and so on, another table or view, and nobody else."""

    def close(self) -> None: ...


def table_name(*parts: str) -> str:
    """A name as a policy writes it: parts that hold a dot or a quote are quoted.

    >>> table_name("raw", "visits 1.5")
    'raw."visits 1.5"'
    """
    return ".".join(f'"{part.replace(chr(34), chr(34) * 2)}"' if re.search('[."]', part) else part for part in parts)

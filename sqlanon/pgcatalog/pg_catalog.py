"""Answer statements about the catalog: each is read, bound, written anew, and run on a database of metadata."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from sqlanon.errors import Refused
from sqlanon.pgcatalog.binder import CatalogBinder, SessionFacts
from sqlanon.pgcatalog.casts import Parameters, type_of
from sqlanon.pgcatalog.database import MetadataDatabase
from sqlanon.pgcatalog.dialect import parse_query
from sqlanon.pgcatalog.expressions import RULES
from sqlanon.pgcatalog.metadata import Metadata
from sqlanon.pgcatalog.output import columns_of, fetch_rows
from sqlanon.pgcatalog.plans import QueryPlan
from sqlanon.pgcatalog.principal_view import View
from sqlanon.pgcatalog.queries import query
from sqlanon.pgcatalog.settings_relation import DEFAULTS, versions
from sqlanon.pgwire.backend import ResultColumn

MOST_PRINCIPALS = 16  # whose databases are kept


@dataclass(frozen=True)
class CatalogAnswer:
    """Rows, and what a client is told of their columns."""

    table: pa.Table
    columns: tuple[ResultColumn, ...]
    relations: tuple[str, ...] = ()  # of the catalog, that were read


class PgCatalog:
    """One for a process; not for several threads at a time."""

    def __init__(self, metadata: Metadata, *, timeout: float = 30.0) -> None:
        self._metadata = metadata
        self._timeout = timeout
        self._databases: OrderedDict[str, MetadataDatabase] = OrderedDict()
        self._current: MetadataDatabase | None = None

    def answer(
        self,
        sql: str,
        principal: str,
        parameters: Sequence[Any] = (),
        *,
        types: Sequence[int] = (),
        settings: Mapping[str, str] | Sequence[tuple[str, str]] = (),
        process: int = 0,
        timeout: float | None = None,
        formats: tuple[int, ...] = (),
    ) -> CatalogAnswer:
        """Answer a statement. `types` are the oids of the parameters, 0 or left out where they follow from it;
        `formats` those that the columns will be sent in, as in the protocol: they decide how objects are told."""
        database, binder, plan = self._plan(sql, principal, types, settings, process, parameters)
        columns = columns_of(plan)
        binder.parameters.oids()
        if len(parameters) > len(binder.parameters.types):
            raise Refused("more parameters are given than the statement has", sqlstate="08P01")
        table = fetch_rows(database, plan, binder.needs, timeout, formats)
        return CatalogAnswer(table, columns, tuple(sorted(binder.needs.relations)))

    def describe(
        self,
        sql: str,
        types: Sequence[int] = (),
        *,
        principal: str,
        settings: Mapping[str, str] | Sequence[tuple[str, str]] = (),
    ) -> tuple[tuple[ResultColumn, ...], tuple[int, ...]]:
        """Columns of the result, and oids of the parameters. Nothing is run."""
        database, binder, plan = self._plan(sql, principal, types, settings, 0, None)
        columns, oids = columns_of(plan), binder.parameters.oids()
        database.check(plan.tree(), binder.needs)
        return columns, oids

    def _plan(
        self,
        sql: str,
        principal: str,
        types: Sequence[int],
        settings: Mapping[str, str] | Sequence[tuple[str, str]],
        process: int,
        values: Sequence[Any] | None,
    ) -> tuple[MetadataDatabase, CatalogBinder, QueryPlan]:
        tree = parse_query(sql)
        database = self._database(principal)
        given = {number: type_of(oid) for number, oid in enumerate(types, start=1) if oid not in (0, 705)}
        known = DEFAULTS | versions(self._metadata.version) | dict(self._metadata.settings)
        known |= {name.lower(): value for name, value in dict(settings).items()}
        parameters = Parameters(given, values)
        binder = CatalogBinder(database.view, database.lookups, SessionFacts(known, process), parameters, RULES, query)
        try:
            plan = binder.query(tree, None)
            plan.settle()
        except RecursionError:
            raise Refused("the statement is nested too deeply", sqlstate="54001") from None
        return database, binder, plan

    def _database(self, principal: str) -> MetadataDatabase:
        found = self._databases.pop(principal, None)
        if found is None:
            found = MetadataDatabase(View(self._metadata, principal), self._timeout)
            if len(self._databases) >= MOST_PRINCIPALS:
                self._databases.popitem(last=False)[1].close()
        self._databases[principal] = self._current = found
        return found

    def interrupt(self) -> None:
        """Break off the statement that runs; may be called from another thread."""
        if self._current is not None:
            self._current.interrupt()

    def close(self) -> None:
        for database in self._databases.values():
            database.close()
        self._databases.clear()
        self._current = None

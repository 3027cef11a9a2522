"""What a catalogue worker does: questions about names and types, and SELECTs without a table. It opens no data."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from typing import Any

from sqlanon.policy.serve import Serve
from sqlanon.proxy.catalogue import Catalogue, ColumnInfo, Metadata, RoleInfo, TableInfo
from sqlanon.proxy.querying import pg_type
from sqlanon.proxy.settings import SERVER_VERSION
from sqlanon.proxy.work import Ask, Described, Opening, Summary
from sqlanon.proxy.worker import Answering

COMMENTS = {
    "private": "rows of persons: aggregates are answered with differential privacy",
    "released": "anonymized and released: answered plainly",
    "public": "public: answered plainly",
}


def metadata_of(serve: Serve, tables: Sequence[Mapping[str, Any]]) -> Metadata:
    """The catalogue of a policy, from its tables as a query worker tells them."""
    made = []
    for table in tables:
        schema, _, name = str(table["name"]).rpartition(".")
        columns = tuple(ColumnInfo(column, pg_type(kind)) for column, kind in table["columns"].items())
        info = TableInfo(
            name, columns, schema or "public", comment=COMMENTS[table["kind"]], seen_by=frozenset(table["seen_by"])
        )
        made.append(info)
    roles = tuple(RoleInfo(name) for name in serve.gateway.principals)
    return Metadata(serve.database_name, tuple(made), roles, version=SERVER_VERSION)


class Cataloguing:
    def __init__(self, opening: Opening) -> None:
        assert isinstance(opening.metadata, Metadata)
        self._catalogue = Catalogue(opening.metadata)

    def ready(self) -> dict[str, Any]:
        return {}

    def describe(self, ask: Ask) -> Described:
        columns, oids = self._catalogue.describe(ask.sql, ask.types, principal=ask.principal, settings=ask.settings)
        return Described(columns, oids)

    def run(self, ask: Ask) -> Answering:
        answer = self._catalogue.answer(
            ask.sql, ask.principal, ask.parameters, types=ask.types, settings=ask.settings, timeout=ask.timeout
        )
        summary = Summary(rows=answer.table.num_rows, kind="catalogue")
        return Answering(Described(answer.columns, ()), summary, _batches(answer.table), whole=True)

    def interrupt(self) -> None:
        self._catalogue.interrupt()


def _batches(table: Any) -> Generator[Any, None, None]:
    yield from table.to_batches()

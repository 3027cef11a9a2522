"""What a catalog worker does: questions about names and types, and SELECTs without a table. It opens no data."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from sqlanon.gateway.bind.read_statement import split_explain
from sqlanon.gateway.explain import PLAN
from sqlanon.pgcatalog import KeyInfo, Metadata, PgCatalog, PgColumn, RoleInfo, TableInfo
from sqlanon.pgcatalog.session_settings import SERVER_VERSION
from sqlanon.pgwire import types
from sqlanon.pgwire.backend import ResultColumn
from sqlanon.policy.serve import Serve
from sqlanon.server.query_worker import pg_type, typmod
from sqlanon.server.work_messages import Ask, Described, Opening, Summary
from sqlanon.server.worker_service import RunningAnswer

COMMENTS = {
    "private": "rows of persons: aggregates are answered with differential privacy",
    "released": "anonymized and released: answered plainly",
    "public": "public: answered plainly",
}


COST = "Names and types alone: answered as they are, at no cost."


def metadata_of(serve: Serve, tables: Sequence[Mapping[str, Any]]) -> Metadata:
    """The catalog of a policy, from its tables as a query worker tells them."""
    made = []
    for table in tables:
        schema, name = _place(table["name"])
        keys = [(kind, tuple(own), other, tuple(referred)) for kind, own, other, referred in table["keys"]]
        primary: tuple[str, ...] = next((own for kind, own, _, _ in keys if kind == "primary"), ())
        required = {column for kind, own, _, _ in keys if kind in ("primary", "required") for column in own}
        columns = tuple(
            PgColumn(column, pg_type(kind), column in required, typmod(kind))
            for column, kind in table["columns"].items()
        )
        others = [KeyInfo("unique", own) for kind, own, _, _ in keys if kind == "unique"]
        others += [KeyInfo("foreign", own, _place(to), led) for kind, own, to, led in keys if kind == "foreign"]
        info = TableInfo(
            name, columns, schema, comment=COMMENTS[table["kind"]], primary_key=primary, keys=tuple(others),
            seen_by=frozenset(table["seen_by"]),
        )  # fmt: skip
        made.append(info)
    roles = tuple(RoleInfo(name) for name in serve.gateway.principals)
    return Metadata(serve.database_name, tuple(made), roles, version=SERVER_VERSION)


def _place(name: str) -> tuple[str, str]:
    schema, _, table = name.rpartition(".")
    return schema or "public", table


class CatalogService:
    def __init__(self, opening: Opening) -> None:
        assert isinstance(opening.metadata, Metadata)
        self._catalog = PgCatalog(opening.metadata)

    def ready(self) -> dict[str, Any]:
        return {}

    def describe(self, ask: Ask) -> Described:
        explain, sql = split_explain(ask.sql)
        columns, oids = self._catalog.describe(sql, ask.types, principal=ask.principal, settings=ask.settings)
        return Described((ResultColumn(PLAN, types.TEXT),) if explain else columns, oids)

    def run(self, ask: Ask) -> RunningAnswer:
        if split_explain(ask.sql)[0]:
            table = pa.table({PLAN: [COST]})
            return RunningAnswer(self.describe(ask), Summary(rows=1, kind="catalogue"), _batches(table), whole=True)
        answer = self._catalog.answer(
            ask.sql, ask.principal, ask.parameters, types=ask.types, settings=ask.settings, timeout=ask.timeout,
            formats=ask.sent, process=ask.process,
        )  # fmt: skip
        summary = Summary(rows=answer.table.num_rows, kind="catalogue")
        return RunningAnswer(Described(answer.columns, ()), summary, _batches(answer.table), whole=True)

    def interrupt(self) -> None:
        self._catalog.interrupt()


def _batches(table: Any) -> Generator[Any, None, None]:
    yield from table.to_batches()

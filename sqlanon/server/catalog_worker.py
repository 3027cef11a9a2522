"""What a catalog worker does: questions about names and types, and SELECTs without a table. It opens no data."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pyarrow as pa

from sqlanon.pgcatalog import Metadata, PgCatalog
from sqlanon.pgwire import types
from sqlanon.pgwire.backend import ResultColumn
from sqlanon.server.work_messages import Ask, Described, Opening, Summary
from sqlanon.server.worker_service import RunningAnswer
from sqlanon.sqlfront.explain_word import PLAN, split_explain

COST = "Names and types alone: answered as they are, at no cost."


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

"""A worker that runs what it is told on its engine, as if the gateway had let it through."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from sqlanon.engines import Hardened, connect
from sqlanon.engines.duckdb import DuckDB
from sqlanon.gateway.answer.arrow_rows import batch_of
from sqlanon.pgwire import types
from sqlanon.pgwire.backend import ResultColumn
from sqlanon.server import worker, worker_service
from sqlanon.server.work_messages import Ask, Described, Frame, Opening, Summary


class Bombs:
    def __init__(self, opening: Opening) -> None:
        engine = connect(":memory:", hardened=Hardened(opening.memory // 2, temporary=opening.temporary))
        assert isinstance(engine, DuckDB)
        self.engine = engine

    def ready(self) -> dict[str, Any]:
        return {"file": None, "tables": []}

    def describe(self, ask: Ask) -> Described:
        return Described((ResultColumn("x", types.TEXT),), ())

    def run(self, ask: Ask) -> worker_service.RunningAnswer:
        if ask.sql.startswith("python "):
            rows = [(str(eval(ask.sql.removeprefix("python "))),)]
        else:
            rows = [(str(row[0])[:100],) for row in self.engine._connection.execute(ask.sql).fetchall()]
        batch = batch_of(rows, ["x"], ["text"])
        return worker_service.RunningAnswer(self.describe(ask), Summary(len(rows), "plain"), (each for each in [batch]))

    def interrupt(self) -> None:
        self.engine.interrupt()


def frame(what: str, data: Any) -> bytes:
    return Frame(what, 1, data).packed()


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    worker.open_service = lambda opening, pause, shield: Bombs(opening)
    worker.main()

"""Temporary tables that are made as they are needed, since what comes next depends on what was counted."""

from __future__ import annotations

from dataclasses import dataclass

from sqlanon.engines import Engine
from sqlanon.engines.temp_tables import drop_steps, run_steps
from sqlanon.relations.classes import Prelude


@dataclass
class Work:
    engine: Engine
    prelude: Prelude
    done: int = 0

    def run(self) -> None:
        """Make the tables that were planned since the last time."""
        planned = self.prelude.steps[self.done :]
        self.done = len(self.prelude.steps)
        run_steps(self.engine, planned)

    def drop(self) -> None:
        drop_steps(self.engine, self.prelude.steps)

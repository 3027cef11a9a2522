"""A release that is handed to the caller as an Arrow table: nothing is written, and nothing is recorded."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from sqlglot import exp

from sqlanon.engines import Engine
from sqlanon.errors import SqlanonError
from sqlanon.plan import RecordedPlan
from sqlanon.policy import Source
from sqlanon.relations.source import table_tree
from sqlanon.release.record import RecordedRelease
from sqlanon.release.rewrite_release import Rewriting
from sqlanon.release.targets.target import Staged
from sqlanon.sqltree.tree import column

STAGED = "release_made_by_sqlanon"


@dataclass
class MemoryTarget:
    """A temporary table, which is checked as written; its visible columns are then read as Arrow, and it is dropped."""

    engine: Engine
    name: str
    kind: str = "memory"
    rows: Any = field(default=None, init=False)  # the release, as a pyarrow.Table

    def require_ours(self) -> RecordedRelease | None:
        return None

    def described(self, staged: Staged) -> dict[str, Any]:
        return {"kind": self.kind, "name": self.name}

    def stage(self, how: Rewriting) -> Staged:
        self.engine.create_temporary(STAGED, how.select)
        return Staged(STAGED, Source(table=STAGED), how.hidden)

    def swap(self, staged: Staged, plan: RecordedPlan, document: Mapping[str, Any], data_version: str | None) -> None:
        names = [item.name for item in self.engine.columns(exp.select("*").from_(table_tree(STAGED)))]
        shown = exp.select(*(column(name) for name in names if name not in staged.hidden)).from_(table_tree(STAGED))
        self.rows = self.engine.arrow_table(shown)

    def finish(self, staged: Staged, document: Mapping[str, Any]) -> None:
        self.discard(staged)

    def discard(self, staged: Staged) -> None:
        with suppress(SqlanonError):  # of a connection that is lost; what broke it is the error to show
            self.engine.drop_temporary([STAGED])

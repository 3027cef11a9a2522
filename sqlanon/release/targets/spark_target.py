"""A release on Spark: a table for each version, and a view that shows one of them.

Spark has no transactions. So nothing that others see changes until the last step, which is one ALTER VIEW: before it,
the version is written, checked as written, and its evidence is added to the record. The text of the view is the only
truth about what is current: a version of the record that it does not name was never shown, and neither was its table.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from sqlglot import exp

from sqlanon.engines import table_name
from sqlanon.errors import EngineError, PolicyError, SqlanonError
from sqlanon.plan import RecordedPlan
from sqlanon.policy import Policy, Source
from sqlanon.relations.source import table_parts, table_tree
from sqlanon.release.fingerprint import fingerprint
from sqlanon.release.record import COLUMNS, CURRENT, RELEASES, RecordedRelease, foreign, of_relation, versions_of
from sqlanon.release.rewrite_release import Rewriting
from sqlanon.release.targets.target import Staged, describe_audience
from sqlanon.sqltree.tree import column, select

STAGED = "release_made_by_sqlanon"


@dataclass
class SparkTarget:
    engine: Any  # of Spark, which is loaded only where it is used
    name: str
    policy: Policy
    audience: str | None = None
    keep: int = 0
    kind: str = "view"
    version: int = field(init=False, default=0)
    before: str | None = field(init=False, default=None)  # the table that the view showed at the start
    state: str = field(init=False, default="")  # of the source at the start

    def __post_init__(self) -> None:
        own = table_parts(self.name)
        space = own[:-1] or [str(self.engine.run("SELECT current_database()")[0][0])]
        self.parts = [*space, own[-1]]

    def require_ours(self) -> RecordedRelease | None:
        self.before = self.engine.table_behind(self.name)
        self.state = self.engine.state(self._source())
        there = self.engine.find(table_parts(self.name))
        if there is None:
            return None
        ours = of_relation(self.engine, there)
        if ours is None:
            raise foreign(there.kind, self.name)
        return ours

    def _source(self) -> list[str]:
        return table_parts(str(self.engine.resolve(self.policy.source).table))

    def described(self, staged: Staged) -> dict[str, Any]:
        return {"kind": self.kind, "name": self.name, "table": self._table(), **describe_audience(self.audience)}

    def _table(self) -> str:
        *space, own = self.parts
        return table_name(*space, f"{own}__v{self.version}")

    def stage(self, how: Rewriting) -> Staged:
        if how.companions or how.views:
            raise PolicyError("Spark releases one table at a time", hint="take an algorithm without companions")
        self.version = 1 + max([0, *(number for number, _ in self._written()), *self._recorded()])
        if not how.hidden:
            self._write(how.select)
            return Staged(self._table(), Source(table=self._table()))
        # What nobody may see is never in a table of the catalogue, where others could read it before it is dropped.
        self.engine.keep_temporary(STAGED, how.select)
        return Staged(STAGED, Source(table=STAGED), how.hidden)

    def _write(self, query: exp.Query) -> None:
        self.engine.write_table(self._table(), query)

    def _recorded(self) -> list[int]:
        if self.engine.find([RELEASES]) is None:
            return []
        return [item.version for item in versions_of(self.engine, self.name)]

    def _written(self) -> list[tuple[int, str]]:
        """The tables of versions that exist, shown or not."""
        *space, own = self.parts
        found = []
        for name in self.engine.tables_in(space):
            match = re.fullmatch(re.escape(own.lower()) + r"__v([0-9]+)", name.lower())
            if match is not None:
                found.append((int(match[1]), table_name(*space, name)))
        return found

    def swap(self, staged: Staged, plan: RecordedPlan, document: Mapping[str, Any], data_version: str | None) -> None:
        rows = select(exp.Star(), source=table_tree(self._table()))
        if staged.hidden:
            names = [item.name for item in self.engine.columns(select(exp.Star(), source=table_tree(STAGED)))]
            shown = select(*(column(name) for name in names if name not in staged.hidden), source=table_tree(STAGED))
            self._write(shown)
            if fingerprint(self.engine, rows.copy()) != fingerprint(self.engine, shown.copy()):
                raise EngineError("the rows that were written are not those that were checked", hint="try again")
        known = fingerprint(self.engine, rows.copy())
        if self.engine.state(self._source()) != self.state:
            raise EngineError(
                "the source changed while it was read: the release would be of two states of it",
                hint="publish again, from a table at rest or a snapshot",
            )
        values = (
            self.name, self.version, CURRENT, str(document["created"]), plan.hash, plan.to_json(),
            json.dumps(document, ensure_ascii=False), self.audience, plan.policy, data_version, known, self._table(),
            None,
        )  # fmt: skip
        self.engine.append(RELEASES, COLUMNS, values)
        if self.engine.table_behind(self.name) != self.before:
            raise EngineError(
                f"'{self.name}' was published by somebody else meanwhile",
                hint="wait until they are done, and try again",
            )
        self.engine.show_table(self.name, self._table())

    def finish(self, staged: Staged, document: Mapping[str, Any]) -> None:
        """Drop what no view shows any more. The version before stays: somebody may be reading it."""
        with suppress(SqlanonError):
            if staged.name == STAGED:
                self.engine.drop_temporary([STAGED])
            older = sorted((number, name) for number, name in self._written() if number < self.version)
            newest = [name for _, name in older[-self.keep :]] if self.keep else []
            stays = {str(name).lower() for name in (self.before, self.engine.table_behind(self.name), *newest)}
            for _, name in older:
                if name.lower() not in stays:
                    self.engine.drop_table(name)

    def discard(self, staged: Staged) -> None:
        with suppress(SqlanonError):  # of a session that is gone; what broke it is the error to show
            self.engine.drop_temporary([STAGED])
        with suppress(SqlanonError):
            if self.version and self.engine.table_behind(self.name) != self._table():
                self.engine.drop_table(self._table())


@dataclass
class FrameTarget:
    """A release that is handed to the caller as a DataFrame of Spark. Its rows are cut off from the source: what was
    checked is what it holds, and they are never worked out anew."""

    engine: Any
    name: str
    kind: str = "memory"
    frame: Any = field(init=False, default=None)

    def require_ours(self) -> RecordedRelease | None:
        return None

    def described(self, staged: Staged) -> dict[str, Any]:
        return {"kind": self.kind, "name": self.name}

    def stage(self, how: Rewriting) -> Staged:
        self.engine.keep_temporary(STAGED, how.select)
        return Staged(STAGED, Source(table=STAGED), how.hidden)

    def swap(self, staged: Staged, plan: RecordedPlan, document: Mapping[str, Any], data_version: str | None) -> None:
        names = [item.name for item in self.engine.columns(select(exp.Star(), source=table_tree(STAGED)))]
        shown = select(*(column(name) for name in names if name not in staged.hidden), source=table_tree(STAGED))
        self.frame = self.engine.frame_of(shown)

    def finish(self, staged: Staged, document: Mapping[str, Any]) -> None:
        self.discard(staged)

    def discard(self, staged: Staged) -> None:
        with suppress(SqlanonError):
            self.engine.drop_temporary([STAGED])

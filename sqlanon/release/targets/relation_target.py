"""A release as a table, or as a view over a table of its own, in the database of its source."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sqlglot import exp

from sqlanon.engines import Engine, table_name
from sqlanon.plan import RecordedPlan
from sqlanon.policy import Source
from sqlanon.relations.bucketization import companion
from sqlanon.relations.source import table_parts, table_tree
from sqlanon.release.fingerprint import fingerprint
from sqlanon.release.record import (
    CURRENT,
    RecordedRelease,
    VersionDetails,
    foreign,
    forget_table,
    of_relation,
    record,
    versions_of,
)
from sqlanon.release.rewrite_release import Rewriting
from sqlanon.release.targets.target import Staged, describe_audience
from sqlanon.sqltree.tree import column


@dataclass
class RelationTarget:
    """A table; or a view, whose readers never wait for the writing of the next table behind it."""

    engine: Engine
    name: str
    kind: str  # table or view
    audience: str | None = None
    keep: int = 0  # tables of earlier versions that stay behind a view

    def require_ours(self) -> RecordedRelease | None:
        there = self.engine.find(table_parts(self.name))
        if there is None:
            return None
        ours = of_relation(self.engine, there)
        if ours is None:
            raise foreign(there.kind, self.name)
        return ours

    def require_free(self, endings: Iterable[str]) -> RecordedRelease | None:
        """Refuse to replace tables and views that do not belong to this release; its record, if it was published."""
        ours = self.require_ours()
        known = [self.engine.find(table_parts(name)) for name in ours.companions] if ours is not None else []
        for name in (companion(self.name, ending) for ending in endings):
            there = self.engine.find(table_parts(name))
            if there is not None and there not in known:
                raise foreign(there.kind, name)
        return ours

    def described(self, staged: Staged) -> dict[str, Any]:
        behind = {"table": staged.name} if self.kind == "view" else {}
        # Views first: in this order they can be dropped.
        belonging = {companion(self.name, ending): "view" for ending in staged.views}
        belonging |= {companion(self.name, ending): "table" for ending in staged.companions}
        also = {"companions": belonging} if belonging else {}
        return {"kind": self.kind, "name": self.name, **behind, **also, **describe_audience(self.audience)}

    def stage(self, how: Rewriting) -> Staged:
        ending = "staged" if self.kind == "table" else datetime.now(UTC).strftime("%Y%m%d%H%M%S%f")
        name = beside(self.name, ending)
        create(self.engine, name, how.select)
        for ending, query in how.companions.items():
            create(self.engine, companion(name, ending), query)
        return Staged(name, Source(table=name), how.hidden, tuple(how.companions), how.views)

    def swap(self, staged: Staged, plan: RecordedPlan, document: Mapping[str, Any], data_version: str | None) -> None:
        _without_hidden(self.engine, staged)
        rows = exp.select("*").from_(table_tree(staged.name))
        # Of rows that may be shown again, and that a gateway may show: both only if nobody changed them since.
        known = fingerprint(self.engine, rows)
        old = self.show(staged.name, staged)
        behind = staged.name if self.kind == "view" else None
        belonging = {
            name: fingerprint(self.engine, exp.select("*").from_(table_tree(name)))
            for name in (companion(self.name, ending) for ending in (*staged.companions, *staged.views))
        }
        also = json.dumps(belonging) if belonging else None
        shown = VersionDetails(self.audience, data_version, known, behind, also)
        record(self.engine, self.name, plan, document, old, shown)
        if old is not None and old.table is not None and not self.keep:
            _drop(self.engine, old.table, "table")  # also one of before the record named it
        self.prune(self.keep)

    def show(self, name: str, staged: Staged | None = None) -> RecordedRelease | None:
        """Let others see a table, or a view of it, in place of what they saw; the record of that."""
        shown = name
        if self.kind == "view":
            shown = beside(self.name, "staged")
            create(self.engine, shown, exp.select("*").from_(table_tree(name)), kind="VIEW")
        endings = (*staged.views, *staged.companions) if staged is not None else ()
        old = self.require_free(endings)
        for ending, tree in staged.views.items() if staged is not None else ():
            create(self.engine, companion(name, ending), tree(name), kind="VIEW")
        if old is not None:
            self.engine.copy_grants(table_parts(self.name), table_parts(shown))
            for ending in endings:
                if (theirs := companion(self.name, ending)) in old.companions:
                    self.engine.copy_grants(table_parts(theirs), table_parts(companion(name, ending)))
            for theirs, kind in old.companions.items():
                _drop(self.engine, theirs, kind)
            _drop(self.engine, self.name, old.kind)
        _rename(self.engine, shown, self.name, self.kind)
        for ending in staged.companions if staged is not None else ():
            _rename(self.engine, companion(name, ending), companion(self.name, ending), "table")
        for ending, tree in staged.views.items() if staged is not None else ():
            own = companion(self.name, ending)
            _rename(self.engine, companion(name, ending), own, "view")
            # Under its new name it must also read the tables under theirs; whoever may read it still may.
            again = exp.Create(this=table_tree(own), kind="VIEW", expression=tree(self.name), replace=True)
            self.engine.execute(again)
        return old

    def prune(self, keep: int) -> None:
        """Drop the tables behind earlier versions, but for the newest so many of them."""
        earlier = [item for item in versions_of(self.engine, self.name) if item.shown.behind and item.status != CURRENT]
        for item in earlier[keep:]:
            assert item.shown.behind is not None
            _drop(self.engine, item.shown.behind, "table")
            forget_table(self.engine, item)

    def finish(self, staged: Staged, document: Mapping[str, Any]) -> None:
        return None

    def discard(self, staged: Staged) -> None:
        return None  # the transaction takes it back


def create(engine: Engine, name: str, query: exp.Query, kind: str = "TABLE") -> None:
    there = engine.find(table_parts(name))
    if there is not None:
        raise foreign(there.kind, name)
    engine.execute(exp.Create(this=table_tree(name), kind=kind, expression=query))


def _drop(engine: Engine, name: str, kind: str) -> None:
    engine.execute(exp.Drop(tables=[table_tree(name)], kind=kind.upper(), exists=True))


def _without_hidden(engine: Engine, staged: Staged) -> None:
    """Write the table again without what nobody may see: to drop a column leaves its values in PostgreSQL's files."""
    if not staged.hidden:
        return
    names = [item.name for item in engine.columns(exp.select("*").from_(table_tree(staged.name)))]
    whole = beside(staged.name, "whole")
    _rename(engine, staged.name, whole, "table")
    visible = exp.select(*(column(name) for name in names if name not in staged.hidden)).from_(table_tree(whole))
    create(engine, staged.name, visible.order_by(exp.Rand()))
    _drop(engine, whole, "table")


def _rename(engine: Engine, name: str, new: str, kind: str) -> None:
    own = exp.to_identifier(table_parts(new)[-1], quoted=True)
    action = exp.AlterRename(this=exp.Table(this=own))
    engine.execute(exp.Alter(this=table_tree(name), kind=kind.upper(), actions=[action]))


def beside(name: str, ending: str) -> str:
    """A name in the same schema.

    >>> beside('public."my table"', "staged")
    'public.my table__staged'
    """
    *schema, own = table_parts(name)
    return table_name(*schema, f"{own}__{ending}")

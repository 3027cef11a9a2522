"""Where a release goes: a table, a view over a table of its own, or a file. Others see the old one or the new one."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from sqlglot import exp

from sqlanon.compiler.source import READERS, table_parts, table_tree
from sqlanon.compiler.tree import column, literal, table
from sqlanon.engines import Engine, table_name
from sqlanon.errors import PolicyError
from sqlanon.plan import Plan
from sqlanon.policy import Policy, Source
from sqlanon.release.rewriting import Rewriting

RELEASES = "sqlanon_releases"  # release, created, plan_hash, plan, evidence


@dataclass(frozen=True)
class Staged:
    """A release that was written but that nobody else can see yet."""

    name: str
    source: Source
    hidden: tuple[str, ...] = ()


class Target(Protocol):
    kind: str
    name: str

    def stage(self, how: Rewriting) -> Staged: ...
    def swap(self, staged: Staged, plan: Plan, document: Mapping[str, Any]) -> None: ...
    def finish(self, staged: Staged, document: Mapping[str, Any]) -> None: ...
    def discard(self, staged: Staged) -> None: ...


def target_of(policy: Policy, engine: Engine) -> Target:
    given = policy.release
    if given is None:
        raise PolicyError("the policy names no release", hint="add for example 'release: {table: patients_released}'")
    if given.table is not None:
        return TableTarget(engine, given.table)
    if given.view is not None:
        return ViewTarget(engine, given.view)
    assert given.path is not None
    return FileTarget(engine, given.path)


def _create(engine: Engine, name: str, query: exp.Query) -> None:
    engine.execute(exp.Drop(tables=[table_tree(name)], kind="TABLE", exists=True))
    engine.execute(exp.Create(this=table_tree(name), kind="TABLE", expression=query))


def _drop_columns(engine: Engine, name: str, columns: tuple[str, ...]) -> None:
    for hidden in columns:
        action = exp.Drop(tables=[column(hidden)], kind="COLUMN")
        engine.execute(exp.Alter(this=table_tree(name), kind="TABLE", actions=[action]))


def beside(name: str, ending: str) -> str:
    """A name in the same schema.

    >>> beside('public."my table"', "staged")
    'public.my table__staged'
    """
    *schema, own = table_parts(name)
    return table_name(*schema, f"{own}__{ending}")


def _record(engine: Engine, name: str, plan: Plan, document: Mapping[str, Any]) -> None:
    """Keep the evidence with the release: one row a release, in the same database."""
    names = ("release", "created", "plan_hash", "plan", "evidence")
    columns = [exp.ColumnDef(this=exp.to_identifier(item), kind=exp.DataType.build("text")) for item in names]
    schema = exp.Schema(this=table(RELEASES), expressions=columns)
    engine.execute(exp.Create(this=schema, kind="TABLE", exists=True))
    engine.execute(exp.delete(table(RELEASES), where=exp.column("release").eq(literal(name))))
    values = (name, str(document["created"]), plan.hash, plan.to_json(), json.dumps(document, ensure_ascii=False))
    engine.execute(exp.insert(exp.values([tuple(literal(value) for value in values)]), RELEASES))


@dataclass
class TableTarget:
    engine: Engine
    name: str
    kind: str = "table"

    def stage(self, how: Rewriting) -> Staged:
        name = beside(self.name, "staged")
        _create(self.engine, name, how.select)
        return Staged(name, Source(table=name), how.hidden)

    def swap(self, staged: Staged, plan: Plan, document: Mapping[str, Any]) -> None:
        _drop_columns(self.engine, staged.name, staged.hidden)
        self.engine.execute(exp.Drop(tables=[table_tree(self.name)], kind="TABLE", exists=True))
        own = exp.to_identifier(table_parts(self.name)[-1], quoted=True)
        action = exp.AlterRename(this=exp.Table(this=own))
        self.engine.execute(exp.Alter(this=table_tree(staged.name), kind="TABLE", actions=[action]))
        _record(self.engine, self.name, plan, document)

    def finish(self, staged: Staged, document: Mapping[str, Any]) -> None:
        return None

    def discard(self, staged: Staged) -> None:
        return None  # the transaction takes it back


@dataclass
class ViewTarget:
    """The view names one of two tables in turn; readers of the view never wait for the writing of the other."""

    engine: Engine
    name: str
    kind: str = "view"

    def stage(self, how: Rewriting) -> Staged:
        name = beside(self.name, datetime.now(UTC).strftime("%Y%m%d%H%M%S%f"))
        _create(self.engine, name, how.select)
        return Staged(name, Source(table=name), how.hidden)

    def swap(self, staged: Staged, plan: Plan, document: Mapping[str, Any]) -> None:
        _drop_columns(self.engine, staged.name, staged.hidden)
        older = [name for name in self._tables() if name != staged.name]
        everything = exp.select("*").from_(table_tree(staged.name))
        self.engine.execute(exp.Drop(tables=[table_tree(self.name)], kind="VIEW", exists=True))
        self.engine.execute(exp.Create(this=table_tree(self.name), kind="VIEW", expression=everything))
        for name in older:
            self.engine.execute(exp.Drop(tables=[table_tree(name)], kind="TABLE", exists=True))
        _record(self.engine, self.name, plan, document)

    def _tables(self) -> list[str]:
        start = beside(self.name, "")
        return [name for name in self.engine.tables() if name.startswith(start) and name[len(start) :].isdigit()]

    def finish(self, staged: Staged, document: Mapping[str, Any]) -> None:
        return None

    def discard(self, staged: Staged) -> None:
        return None  # the transaction takes it back


@dataclass
class FileTarget:
    """A Parquet or CSV file, written under another name beside it and moved over it in one step of the file system."""

    engine: Engine
    name: str
    kind: str = "path"

    def stage(self, how: Rewriting) -> Staged:
        path = Path(self.name)
        if path.suffix.lower() not in READERS:
            raise PolicyError(f"'{self.name}' is neither a Parquet nor a CSV file", hint="end it in .parquet or .csv")
        if not path.parent.is_dir():
            raise PolicyError(f"there is no folder '{path.parent}'", hint="create it first")
        if how.hidden:
            raise PolicyError(
                f"'{how.hidden[0]}' counts persons, but must not be written to a file",
                hint="give it 'pseudonym: true', or release into a table",
            )
        for left_over in path.parent.glob(f".{path.stem}.*.staged{path.suffix}"):
            left_over.unlink(missing_ok=True)  # of a run that was killed
        staged = path.with_name(f".{path.stem}.{os.getpid()}.staged{path.suffix}")
        try:
            self.engine.write_file(how.select, str(staged))
        except BaseException:
            staged.unlink(missing_ok=True)
            raise
        return Staged(str(staged), Source(path=str(staged)))

    def swap(self, staged: Staged, plan: Plan, document: Mapping[str, Any]) -> None:
        return None

    def finish(self, staged: Staged, document: Mapping[str, Any]) -> None:
        beside_it = Path(self.name + ".evidence.json")
        beside_it.write_text(json.dumps(document, ensure_ascii=False, indent=2), encoding="utf-8")
        os.replace(staged.name, self.name)

    def discard(self, staged: Staged) -> None:
        Path(staged.name).unlink(missing_ok=True)

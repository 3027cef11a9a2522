"""Where a release goes: a table, a view over a table of its own, or a file. Others see the old one or the new one."""

from __future__ import annotations

import json
import os
import re
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
    if table_parts(name)[-1] in {table_parts(known)[-1] for known in engine.tables()}:
        raise PolicyError(
            f"there is a table '{name}' already, which sqlanon did not make", hint="rename it, or the release"
        )
    engine.execute(exp.Create(this=table_tree(name), kind="TABLE", expression=query))


def _without_hidden(engine: Engine, staged: Staged) -> None:
    """Write the table again without what nobody may see: to drop a column leaves its values in PostgreSQL's files."""
    if not staged.hidden:
        return
    names = [item.name for item in engine.columns(exp.select("*").from_(table_tree(staged.name)))]
    whole = beside(staged.name, "whole")
    _rename(engine, staged.name, whole)
    visible = exp.select(*(column(name) for name in names if name not in staged.hidden)).from_(table_tree(whole))
    engine.execute(exp.Create(this=table_tree(staged.name), kind="TABLE", expression=visible.order_by(exp.Rand())))
    engine.execute(exp.Drop(tables=[table_tree(whole)], kind="TABLE"))


def _rename(engine: Engine, name: str, new: str) -> None:
    own = exp.to_identifier(table_parts(new)[-1], quoted=True)
    action = exp.AlterRename(this=exp.Table(this=own))
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
        _without_hidden(self.engine, staged)
        self.engine.execute(exp.Drop(tables=[table_tree(self.name)], kind="TABLE", exists=True))
        _rename(self.engine, staged.name, self.name)
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
        _without_hidden(self.engine, staged)
        older = [name for name in self._tables() if table_parts(name)[-1] != table_parts(staged.name)[-1]]
        everything = exp.select("*").from_(table_tree(staged.name))
        self.engine.execute(exp.Drop(tables=[table_tree(self.name)], kind="VIEW", exists=True))
        self.engine.execute(exp.Create(this=table_tree(self.name), kind="VIEW", expression=everything))
        for name in older:
            self.engine.execute(exp.Drop(tables=[table_tree(name)], kind="TABLE", exists=True))
        _record(self.engine, self.name, plan, document)

    def _tables(self) -> list[str]:
        *schema, own = table_parts(self.name)
        found = []
        for name in self.engine.tables():
            *where, table_of_view = table_parts(name)
            here = where == schema or (not where and schema[-1:] in ([], ["main"], ["public"]))
            if here and re.fullmatch(re.escape(own) + r"__\d{20}", table_of_view):
                found.append(name)
        return found

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
        evidence = Path(self.name + ".evidence.json")
        written = evidence.with_name(f".{evidence.name}.{os.getpid()}")
        written.write_text(json.dumps(document, ensure_ascii=False, indent=2), encoding="utf-8")
        os.replace(staged.name, self.name)
        os.replace(written, evidence)

    def discard(self, staged: Staged) -> None:
        Path(staged.name).unlink(missing_ok=True)

"""Where a release goes: a table, a view over a table of its own, or a file. Others see the old one or the new one.

What sqlanon did not publish is never replaced: the record of releases tells, before the search and again at the swap.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from sqlglot import exp

from sqlanon.engines import Engine, table_name
from sqlanon.engines.companion_files import companion_file, evidence_file, file_digest
from sqlanon.engines.engine import WRITABLE
from sqlanon.errors import EngineError, PolicyError, SourceError
from sqlanon.plan import RecordedPlan
from sqlanon.policy import Policy, Source
from sqlanon.relations.bucketization import companion
from sqlanon.relations.source import READERS, query_tree, table_parts, table_tree
from sqlanon.release.fingerprint import fingerprint
from sqlanon.release.record import (
    CURRENT,
    RecordedRelease,
    VersionDetails,
    foreign,
    forget_table,
    of_file,
    of_relation,
    record,
    versions_of,
)
from sqlanon.release.rewrite_release import Rewriting
from sqlanon.release.targets.file_swap import clear_leftovers, replace_together
from sqlanon.sqltree.tree import column


@dataclass(frozen=True)
class Staged:
    """A release that was written but that nobody else can see yet."""

    name: str
    source: Source
    hidden: tuple[str, ...] = ()
    companions: tuple[str, ...] = ()  # further tables, by what is added to the name
    views: Mapping[str, Callable[[str], exp.Select]] = field(default_factory=dict)  # over them


class Target(Protocol):
    kind: str
    name: str

    def require_ours(self) -> RecordedRelease | None:
        """Refuse to replace what somebody else made; the record of the release that would be replaced, if any."""

    def described(self, staged: Staged) -> dict[str, Any]: ...
    def stage(self, how: Rewriting) -> Staged: ...
    def swap(
        self, staged: Staged, plan: RecordedPlan, document: Mapping[str, Any], data_version: str | None
    ) -> None: ...
    def finish(self, staged: Staged, document: Mapping[str, Any]) -> None: ...
    def discard(self, staged: Staged) -> None: ...


def target_of(policy: Policy, engine: Engine) -> Target:
    """The target of a policy, which is free, or holds an earlier release."""
    given = policy.release
    if given is None:
        raise PolicyError("the policy names no release", hint="add for example 'release: {table: patients_released}'")
    if given.is_folder:
        from sqlanon.release.targets.folder import FolderTarget

        folder = FolderTarget(engine, given.name, audience=given.audience, keep=given.keep)
        folder.require_ours()
        return folder
    if given.path is not None:
        file = FileTarget(engine, given.path, audience=given.audience)
        file.require_ours()
        return file
    kind = "table" if given.table else "view"
    target = RelationTarget(engine, given.name, kind, audience=given.audience, keep=given.keep)
    # The policy knows its own spelling only; what a query reads, and other spellings, the database knows.
    if any(_reads(engine, source, target.name) for source in _sources(policy)):
        raise PolicyError(
            f"the release '{target.name}' would replace a table that is read", hint="give the release another name"
        )
    target.require_ours()
    return target


def require_writable(target: Target, engine: Engine) -> None:
    """A table or view is written by the database: better refused now than after the search."""
    if target.kind != "path" and engine.read_only:
        raise SourceError(
            f"the release '{target.name}' cannot be written: the database is open for reading only", hint=WRITABLE
        )


def _sources(policy: Policy) -> Iterator[Source]:
    yield policy.source
    if policy.population is not None:
        yield policy.population


def _reads(engine: Engine, source: Source, name: str) -> bool:
    there = engine.find(table_parts(name))
    if there is None or source.path is not None:
        return False
    if source.query is None:
        return engine.find(table_parts(source.text)) == there
    trees = query_tree(source.query, engine.dialect).find_all(exp.Table)
    return any(engine.find([part.name for part in tree.parts]) == there for tree in trees if tree.name)


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


def describe_audience(audience: str | None) -> dict[str, str]:
    """With whom, for the evidence."""
    return {} if audience is None else {"audience": audience}


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


@dataclass
class FileTarget:
    """A Parquet or CSV file, written under another name beside it and moved over it in one step of the file system.
    Companions are further files, which are replaced together with it."""

    engine: Engine
    name: str
    audience: str | None = None
    kind: str = "path"

    def require_ours(self) -> RecordedRelease | None:
        path = Path(self.name)
        if path.suffix.lower() not in READERS:  # of a policy that was put together in Python
            raise PolicyError(f"'{self.name}' is neither a Parquet nor a CSV file", hint="end it in .parquet or .csv")
        if not path.parent.is_dir():
            raise PolicyError(f"there is no folder '{path.parent}'", hint="create it first")
        beside_it = evidence_file(self.name)
        document = of_file(self.name)
        if document is None or document["release"]["kind"] != self.kind:
            for file in (path, beside_it):
                if os.path.lexists(file):
                    raise foreign("folder" if file.is_dir() else "file", str(file))
            return None
        return RecordedRelease(self.name, document)

    def require_free(self, endings: Iterable[str]) -> RecordedRelease | None:
        """Refuse to replace files that do not belong to this release; its evidence, if it was published."""
        ours = self.require_ours()
        known = {Path(name).name for name in ours.companions} if ours is not None else set()
        for file in (Path(companion_file(self.name, ending)) for ending in endings):
            if os.path.lexists(file) and file.name not in known:
                raise foreign("folder" if file.is_dir() else "file", str(file))
        return ours

    def described(self, staged: Staged) -> dict[str, Any]:
        also: dict[str, Any] = {}
        if staged.companions:
            written = {self.name: staged.name}
            written |= {
                companion_file(self.name, each): companion_file(staged.name, each) for each in staged.companions
            }
            also["companions"] = {name: "file" for name in written if name != self.name}
            if staged.source.path is not None:  # and not a plan
                also["sha256"] = {name: file_digest(Path(file)) for name, file in written.items()}
        return {"kind": self.kind, "name": self.name, **also, **describe_audience(self.audience)}

    def stage(self, how: Rewriting) -> Staged:
        path = Path(self.name)
        if how.hidden:
            raise PolicyError(
                f"'{how.hidden[0]}' counts persons, but must not be written to a file",
                hint="release into a table; or give it 'pseudonym: true', which links the rows of a person: then whole "
                "sets of rows must be shared",
            )
        clear_leftovers(path)
        name = str(path.with_name(f".{path.stem}.{os.getpid()}.staged{path.suffix}"))
        staged = Staged(name, Source(path=name), companions=tuple(how.companions))  # a file shows no views
        try:
            self.engine.write_file(how.select, name)
            for ending, query in how.companions.items():
                self.engine.write_file(query, companion_file(name, ending))
        except BaseException:
            self.discard(staged)
            raise
        return staged

    def swap(self, staged: Staged, plan: RecordedPlan, document: Mapping[str, Any], data_version: str | None) -> None:
        return None

    def finish(self, staged: Staged, document: Mapping[str, Any]) -> None:
        evidence = evidence_file(self.name)
        written = evidence.with_name(f".{evidence.name}.{os.getpid()}")
        try:
            written.write_text(json.dumps(document, ensure_ascii=False, indent=2), encoding="utf-8")
            ours = self.require_free(staged.companions)
            old = [Path(self.name).with_name(Path(name).name) for name in ours.companions] if ours is not None else []
            if old or staged.companions:
                new = {evidence: written, Path(self.name): Path(staged.name)}
                for each in staged.companions:
                    new[Path(companion_file(self.name, each))] = Path(companion_file(staged.name, each))
                replace_together(Path(self.name), new, old)
            else:
                os.replace(staged.name, self.name)
                os.replace(written, evidence)
        except OSError as error:
            raise EngineError(
                f"'{self.name}' could not be written: {error.strerror}", hint="the previous release is still in place"
            ) from None
        finally:
            written.unlink(missing_ok=True)

    def discard(self, staged: Staged) -> None:
        for name in (staged.name, *(companion_file(staged.name, ending) for ending in staged.companions)):
            Path(name).unlink(missing_ok=True)

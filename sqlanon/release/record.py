"""The record of what was published: the table `sqlanon_releases` of a database, or a file of evidence beside a file."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from sqlglot import exp

from sqlanon.engines import Engine, ExistingRelation
from sqlanon.engines.companion_files import evidence_file
from sqlanon.errors import PolicyError, SourceError
from sqlanon.plan import RecordedPlan
from sqlanon.relations.source import table_parts
from sqlanon.sqltree.tree import literal, select, table

RELEASES = "sqlanon_releases"
CURRENT, SUPERSEDED, WITHDRAWN, RETIRED = "current", "superseded", "withdrawn", "retired"
COLUMNS = {
    "release": "text", "version": "bigint", "status": "text", "created": "text", "plan_hash": "text", "plan": "text",
    "evidence": "text", "audience": "text", "policy_hash": "text", "data_version": "text", "fingerprint": "text",
    "behind": "text", "companions": "text",
}  # fmt: skip


FIRST = ("release", "version", "status", "created", "plan_hash")
LATER = ("policy_hash", "audience", "data_version", "fingerprint", "behind", "companions")


@dataclass(frozen=True)
class VersionDetails:
    """What the record says of a version beside its evidence. `data_version` is a fingerprint of the source, keyed where
    there is a key; `fingerprint` one of the released rows, and `behind` the table that holds them, where it is kept;
    `companions` are further tables of the release with their fingerprints, as JSON."""

    audience: str | None = None
    data_version: str | None = None
    fingerprint: str | None = None
    behind: str | None = None
    companions: str | None = None


@dataclass(frozen=True)
class Version:
    """One publication of a release."""

    release: str
    version: int
    status: str
    created: str
    plan_hash: str
    policy_hash: str | None = None
    shown: VersionDetails = VersionDetails()


@dataclass(frozen=True)
class RecordedRelease:
    """A release of the record, under the name that its policy gave it."""

    name: str
    document: Mapping[str, Any]

    @property
    def kind(self) -> str:
        return str(self.document["release"]["kind"])

    @property
    def table(self) -> str | None:
        """The table behind a view."""
        name = self.document["release"].get("table")
        return None if name is None else str(name)

    @property
    def companions(self) -> Mapping[str, str]:
        """Tables and views that belong to it, with their kinds, in the order in which they can be dropped."""
        return dict(self.document["release"].get("companions", {}))


def read_evidence(text: str, name: str) -> dict[str, Any]:
    """The document that was kept for a release."""
    try:
        found = json.loads(text)
        if not all(isinstance(found[key], dict) for key in ("release", "plan", "policy")):
            raise TypeError
        found["release"]["kind"], found["plan"]["passes"], found["policy"]["text"]
    except (ValueError, TypeError, KeyError):
        raise SourceError(
            f"the evidence of '{name}' cannot be read: it was cut short, or changed",
            hint="move the release away, then publish it again",
        ) from None
    return dict(found)


def of_file(path: str) -> dict[str, Any] | None:
    """The evidence beside a file, if there is any."""
    beside = evidence_file(path)
    try:
        text = beside.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError):
        raise SourceError(f"the evidence '{beside}' cannot be read", hint="may you read it?") from None
    return read_evidence(text, path)


def of_name(engine: Engine, name: str) -> dict[str, Any] | None:
    """The evidence of a table or view that is shown now, by its name as it was published."""
    if engine.find([RELEASES]) is None:
        return None
    return _evidence(engine, name, _current(engine))


def _evidence(engine: Engine, name: str, shown: exp.Expr) -> dict[str, Any] | None:
    same = exp.column("release").eq(literal(name))
    rows = engine.query(select("evidence", source=table(RELEASES), where=exp.and_(same, shown)))
    return read_evidence(rows[0][0], name) if rows else None


def of_relation(engine: Engine, relation: ExistingRelation) -> RecordedRelease | None:
    """The record of a table or view, however its policy spelt its name; None if somebody else made it."""
    if engine.find([RELEASES]) is None:
        return None
    shown = _current(engine)
    for (name,) in engine.query(select("release", source=table(RELEASES), where=shown.copy())):
        if engine.find(table_parts(name)) == relation:
            document = _evidence(engine, name, shown)
            if document is not None and document["release"]["kind"] == relation.kind:
                return RecordedRelease(name, document)
    return None


def versions(engine: Engine, name: str | None = None) -> list[Version]:
    """What was ever published, the newest first; of one release, or of all."""
    if engine.find([RELEASES]) is None:
        return []
    where = None if name is None else exp.column("release").eq(literal(name))
    # A record of earlier days has fewer columns; at first it had one row a release.
    known, missing = _known(engine), {"version": literal(1), "status": literal(CURRENT)}
    names = [name if name in known else missing.get(name, exp.Null()) for name in (*FIRST, *LATER)]
    rows = engine.query(select(*names, source=table(RELEASES), where=where))
    found = [
        Version(str(who), int(number), str(status), str(at), str(plan), policy, VersionDetails(*rest))
        for who, number, status, at, plan, policy, *rest in rows
    ]
    return sorted(found, key=lambda item: (item.created, item.version), reverse=True)


def current_tables(engine: Engine) -> Iterator[tuple[Version, ExistingRelation, str | None]]:
    """All tables and views that are shown now, companions too, each with its release and the fingerprint of its rows.

    None where the release was published before fingerprints were kept.
    """
    for item in versions(engine):
        if item.status != CURRENT:
            continue
        belonging = json.loads(item.shown.companions or "{}")
        for name, known in {item.release: item.shown.fingerprint, **belonging}.items():
            if (there := engine.find(table_parts(name))) is not None:
                yield item, there, known


def current_sources(engine: Engine) -> list[tuple[str, str]]:
    """The releases that are shown now, each with its source: the name of a table, a query or a path."""
    if engine.find([RELEASES]) is None:
        return []
    rows = engine.query(select("release", "evidence", source=table(RELEASES), where=_current(engine)))
    found = [(str(name), read_evidence(text, name).get("source")) for name, text in rows]
    return [(name, source) for name, source in found if isinstance(source, str)]


def versions_of(engine: Engine, name: str) -> list[Version]:
    """What was published under a name, however it was spelt, the newest version first."""
    spelt = spelling(engine)
    found = [item for item in versions(engine) if spelt(item.release) == spelt(name)]
    return sorted(found, key=lambda item: item.version, reverse=True)


def of_version(engine: Engine, name: str, version: int) -> dict[str, Any] | None:
    """The evidence of a release as it was at a version."""
    if engine.find([RELEASES]) is None:
        return None
    if not _has_versions(engine):
        return of_name(engine, name) if version == 1 else None
    same = exp.and_(exp.column("release").eq(literal(name)), exp.column("version").eq(literal(version)))
    rows = engine.query(select("evidence", source=table(RELEASES), where=same))
    return read_evidence(rows[0][0], name) if rows else None


def record(
    engine: Engine,
    name: str,
    plan: RecordedPlan,
    document: Mapping[str, Any],
    replaces: RecordedRelease | None,
    shown: VersionDetails,
) -> None:
    """Keep the evidence with the release, in the same database and transaction: one row a version."""
    columns = [
        exp.ColumnDef(this=exp.to_identifier(item), kind=exp.DataType.build(kind)) for item, kind in COLUMNS.items()
    ]
    schema = exp.Schema(this=table(RELEASES), expressions=columns)
    engine.execute(exp.Create(this=schema, kind="TABLE", exists=True))
    _upgrade(engine)
    names = {name, replaces.name} if replaces else {name}
    theirs = exp.column("release").isin(*(literal(item) for item in sorted(names)))
    greatest = exp.Max(this=exp.column("version"))
    last = engine.query(select(greatest, source=table(RELEASES), where=theirs))[0][0]
    # The last release under another spelling of the name is the same release.
    engine.execute(exp.update(RELEASES, {"status": SUPERSEDED}, where=exp.and_(theirs.copy(), _shown())))
    values = (
        name, int(last or 0) + 1, CURRENT, str(document["created"]), plan.hash, plan.to_json(),
        json.dumps(document, ensure_ascii=False), shown.audience, plan.policy, shown.data_version, shown.fingerprint,
        shown.behind, shown.companions,
    )  # fmt: skip
    rows = exp.values([tuple(literal(value) for value in values)])
    engine.execute(exp.insert(rows, RELEASES, columns=list(COLUMNS)))


def retire(engine: Engine, name: str) -> None:
    """Note that a release is shown no more."""
    same = exp.and_(exp.column("release").eq(literal(name)), _shown())
    engine.execute(exp.update(RELEASES, {"status": RETIRED}, where=same))


def show_again(engine: Engine, now: Version, earlier: Version) -> None:
    """Note that an earlier version is shown again. What was shown until now stays the newest: it was seen."""
    for item, status in ((now, WITHDRAWN), (earlier, CURRENT)):
        engine.execute(exp.update(RELEASES, {"status": status}, where=_is(item)))


def forget_table(engine: Engine, item: Version) -> None:
    """Note that the table of a version is gone."""
    engine.execute(exp.update(RELEASES, {"behind": None}, where=_is(item)))


def _is(item: Version) -> exp.Expr:
    return exp.and_(exp.column("release").eq(literal(item.release)), exp.column("version").eq(literal(item.version)))


def _current(engine: Engine) -> exp.Expr:
    return _shown() if _has_versions(engine) else exp.true()


def _shown() -> exp.Expr:
    return exp.column("status").eq(literal(CURRENT))


def _known(engine: Engine) -> set[str]:
    return {item.name for item in engine.columns(select(exp.Star(), source=table(RELEASES)))}


def _has_versions(engine: Engine) -> bool:
    return "version" in _known(engine)


def _upgrade(engine: Engine) -> None:
    """A record of earlier days; there was a time when it had one row a release."""
    known = _known(engine)
    for name in COLUMNS:
        if name not in known:
            kind = exp.DataType.build(COLUMNS[name])
            added = exp.ColumnDef(this=exp.to_identifier(name), kind=kind)
            engine.execute(exp.Alter(this=table(RELEASES), kind="TABLE", actions=[added]))
    if "version" not in known:
        engine.execute(exp.update(RELEASES, {"version": 1, "status": CURRENT}))


def foreign(kind: str, name: str) -> PolicyError:
    return PolicyError(
        f"{kind} '{name}' exists and was not published by sqlanon",
        hint=f"choose another target, or {'move' if kind == 'file' else 'drop or rename'} it first",
    )


def spelling(engine: Engine) -> Callable[[str], list[str]]:
    """Gives a name in one spelling, whether the release exists or not: another spelling must find the same."""
    schema = str(engine.query(exp.select(exp.Anonymous(this="current_schema")))[0][0])

    def spelt(name: str) -> list[str]:
        parts = [schema, *table_parts(name)][-2:]
        return [part.lower() if engine.dialect == "duckdb" else part for part in parts]

    return spelt


def newest(engine: Engine, name: str) -> dict[str, Any] | None:
    """The evidence of the last release of this name, shown or not, however it was spelt."""
    spelt = spelling(engine)
    item = next((item for item in versions(engine) if spelt(item.release) == spelt(name)), None)
    return of_version(engine, item.release, item.version) if item is not None else None

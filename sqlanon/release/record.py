"""The record of what was published: the table `sqlanon_releases` of a database, or a file of evidence beside a file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlglot import exp

from sqlanon.compiler.source import table_parts
from sqlanon.compiler.tree import literal, table
from sqlanon.engines import Engine, Relation
from sqlanon.errors import PolicyError, SourceError
from sqlanon.plan import Plan

RELEASES = "sqlanon_releases"


@dataclass(frozen=True)
class Recorded:
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


def evidence_file(path: str) -> Path:
    return Path(path + ".evidence.json")


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
    """The evidence of a table or view, by its name as it was published."""
    if engine.find([RELEASES]) is None:
        return None
    tree = exp.select("evidence").from_(table(RELEASES)).where(exp.column("release").eq(literal(name)))
    rows = engine.query(tree)
    return read_evidence(rows[0][0], name) if rows else None


def of_relation(engine: Engine, relation: Relation) -> Recorded | None:
    """The record of a table or view, however its policy spelt its name; None if somebody else made it."""
    if engine.find([RELEASES]) is None:
        return None
    for (name,) in engine.query(exp.select("release").from_(table(RELEASES))):
        if engine.find(table_parts(name)) == relation:
            document = of_name(engine, name)
            if document is not None and document["release"]["kind"] == relation.kind:
                return Recorded(name, document)
    return None


def record(engine: Engine, name: str, plan: Plan, document: Mapping[str, Any], replaces: Recorded | None) -> None:
    """Keep the evidence with the release: one row a release, in the same database."""
    names = ("release", "created", "plan_hash", "plan", "evidence")
    columns = [exp.ColumnDef(this=exp.to_identifier(item), kind=exp.DataType.build("text")) for item in names]
    schema = exp.Schema(this=table(RELEASES), expressions=columns)
    engine.execute(exp.Create(this=schema, kind="TABLE", exists=True))
    for gone in {name, replaces.name} if replaces else {name}:
        engine.execute(exp.delete(table(RELEASES), where=exp.column("release").eq(literal(gone))))
    values = (name, str(document["created"]), plan.hash, plan.to_json(), json.dumps(document, ensure_ascii=False))
    engine.execute(exp.insert(exp.values([tuple(literal(value) for value in values)]), RELEASES))


def foreign(kind: str, name: str) -> PolicyError:
    return PolicyError(
        f"{kind} '{name}' exists and was not published by sqlanon",
        hint=f"choose another target, or {'move' if kind == 'file' else 'drop or rename'} it first",
    )

"""Refuse to show the same sets, journeys or persons with all their rows a second time in another pattern.

Whoever has two releases of the same persons finds most of them in both, by the items or visits that both show. So they
know what either of them shows, although no model was asked of both together. And where a person came or left between
them, the rows that only one release has are theirs. A release may follow another one in two cases:

- It shows the same. As many persons have the same rows as before, under numbers that are drawn anew: whoever has both
  could have made the second one from the first, and learns nothing from it.
- It shows other persons. Nobody of the earlier release is in it, so that each promise holds for its own persons. The
  rows of the earlier release must still be there as they were, or nobody could tell.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlglot import exp

from sqlanon.engines import Engine
from sqlanon.engines.companion_files import companion_file
from sqlanon.errors import NotReleased, SqlanonError
from sqlanon.evidence.joined_tables import entity_tree
from sqlanon.paths.journeys import GROUP_NUMBER
from sqlanon.policy import Policy, Source, parse
from sqlanon.policy.person_shapes import ENTITY, ROWS
from sqlanon.relations.bucketization import companion
from sqlanon.relations.itemsets import PERSON_NUMBER
from sqlanon.relations.source import asks_due, relation, table_tree
from sqlanon.release.find_published import find_published
from sqlanon.release.fingerprint import fingerprint, fingerprint_by
from sqlanon.release.same_persons import SamePersons
from sqlanon.release.targets.target import Staged
from sqlanon.sqltree.tree import alias, column, count_all, join_clause, nest_query, select, text

KEY = "pattern"  # of the evidence


@dataclass(frozen=True)
class Pattern:
    """What the evidence keeps: fingerprints of the source, and of what is shown whatever its numbers are; the time for
    which the source was read, where it asks for one."""

    source: str
    shown: str
    keyed: bool
    due: str | None = None

    @staticmethod
    def read(document: Mapping[str, Any]) -> Pattern | None:
        found = document.get(KEY)
        try:
            return Pattern(**found) if isinstance(found, Mapping) else None
        except TypeError:  # of a later sqlanon
            return None


def describe_pattern(policy: Policy, engine: Engine, staged: Staged, plan_hash: str, secret: str | None) -> Pattern:
    """Of a release that is written. Where it has child tables, whose keys are drawn, the plan is a part of it."""
    person = policy.person if policy.shape == ENTITY else PERSON_NUMBER
    assert person is not None
    drawn = (*policy.identifiers, *(() if policy.shape == ENTITY else (GROUP_NUMBER,)))
    rows = relation(engine.resolve(staged.source), engine.dialect)
    shown = fingerprint_by(engine, rows, person, drawn)
    source = fingerprint_source(policy, engine, secret)
    if staged.companions:
        parts = [shown, plan_hash, source]
        for ending in staged.companions:
            tree = _companion_rows(engine, staged, ending)
            names = [item.name for item in engine.columns(tree) if item.name not in {person, *drawn}]
            parts.append(fingerprint(engine, select(*map(column, names), source=nest_query(tree, "child"))))
        shown = " ".join(parts)
    due = policy.source.due if asks_due(policy.source, engine.dialect) else None
    return Pattern(source, shown, secret is not None, None if due is None else due.isoformat())


def _companion_rows(engine: Engine, staged: Staged, ending: str) -> exp.Select:
    if staged.source.path is not None:
        return relation(engine.resolve(Source(path=companion_file(staged.name, ending))), engine.dialect)
    return exp.select("*").from_(table_tree(companion(staged.name, ending)))


def fingerprint_source(policy: Policy, engine: Engine, secret: str | None) -> str:
    """Of all tables of a source as it is now."""
    if policy.source.joins:
        tables = entity_tree(policy, engine, engine.resolve(policy.source)).all_tables
        return " ".join(fingerprint(engine, item.rows.copy(), secret) for item in tables)
    return fingerprint(engine, relation(engine.resolve(policy.source), engine.dialect), secret)


def require_same_pattern(policy: Policy, engine: Engine, own: Pattern, secret: str | None) -> None:
    """Refuse a release that is another one of the same persons than one that was published before."""
    seen = set()
    for name, document in find_published(policy, engine):
        said = (document or {}).get("policy", {}).get("text")
        if document is None or said is None or '"shape"' not in said:
            continue
        pattern = Pattern.read(document)
        if (name, said, pattern) in seen:
            continue
        seen.add((name, said, pattern))
        other = parse(said)
        if other.shape == ROWS or (pattern is not None and pattern.shown == own.shown):
            continue
        pair = SamePersons(engine, policy, other)
        if not pair.share_tables():
            continue
        why = _differ(policy, other, engine, pattern, secret)
        if why is None:
            continue
        doubt = pair.doubt
        raise NotReleased(
            f"the release was not published: '{name}' {why}, and both together may tell more than each of them",
            detail="" if doubt is None else f"both may read the same persons: {doubt.reason}",
            hint=f"{'' if doubt is None else doubt.hint + ', or '}retire '{name}' first, although nobody can take back "
            "copies of it; a release of other persons may follow as long as the rows of the earlier one stay as they "
            "were",
        )


def _differ(policy: Policy, other: Policy, engine: Engine, pattern: Pattern | None, secret: str | None) -> str | None:
    """Why a release in another pattern cannot follow; None if it shows other persons."""
    if pattern is None:
        return "was published by a sqlanon that did not keep what it shows"
    if pattern.keyed != (secret is not None):
        return f"was published {'with' if pattern.keyed else 'without'} a key, so that its rows cannot be compared"
    if pattern.due is not None:
        other = other.at(datetime.fromisoformat(pattern.due))
    try:
        if fingerprint_source(other, engine, secret) != pattern.source:
            return "shows rows that have changed since, so that nobody can tell who is in both"
        same = count_shared_persons(policy, other, engine)
    except SqlanonError:
        return "shows rows that cannot be read any more, so that nobody can tell who is in both"
    return f"shows {same:,} of the same persons in another way" if same else None


def count_shared_persons(one: Policy, other: Policy, engine: Engine) -> int:
    """How many persons of one source are in the other one."""
    sides = []
    for policy in (one, other):
        assert policy.person is not None
        own = policy.source.model_copy(update={"joins": ()})
        rows = relation(engine.resolve(own), engine.dialect)
        known = alias(text(column(policy.person)), "person")
        sides.append(select(known, source=nest_query(rows, "source")).distinct())
    same = exp.column("person", table="o").eq(exp.column("person", table="t"))
    joins = [join_clause(nest_query(sides[1], "t"), same)]
    return int(engine.query(select(count_all(), source=nest_query(sides[0], "o"), joins=joins))[0][0])

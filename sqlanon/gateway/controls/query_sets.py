"""Query sets: the persons that an exact answer is about, recorded as SQL in the ledger."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import sqlglot

from sqlanon.errors import EngineError
from sqlanon.gateway.price.judged_groups import Judge
from sqlanon.ledger import Ledger

EXACT = "exact "  # begins the shape of a charge for an exact answer


@dataclass(frozen=True)
class QuerySet:
    """Whom an aggregate is about: kept as SQL, to be compared with what is asked later."""

    relation: str  # rows with unit and keys
    present: str  # which of these rows
    held: str  # its persons by key, their rows, and whether they were let out
    keys: int
    measures: tuple[str, ...]  # what was told of it
    dialect: str
    version: str  # of the data
    event: int = 0
    # Of a statement with several groupings: all of these, and the groups that it hides beside those that break a rule,
    # by their place in the order of the keys.
    family: str = ""
    hidden: tuple[int, ...] = ()


def query_sets(judge: Judge, dialect: str, version: str) -> list[QuerySet]:
    made = []
    relation = judge.relation().sql(dialect)
    for place, holds in enumerate(judge.asked.sets):
        held = judge.held(place).sql(dialect)
        if sqlglot.parse_one(held, read=dialect).sql(dialect) != held:
            raise EngineError("the statement could not be answered", hint="write it in a simpler way")
        told = []
        for measure in judge.asked.measures:
            if measure.present == place:
                told.append("persons" if measure.kind == "persons" else measure.label)
        found = QuerySet(relation, holds.sql(dialect), held, len(judge.keys), tuple(told), dialect, version)
        made.append(found)
    return made


def family_of(judges: Sequence[Judge], dialect: str) -> str:
    """What tells several groupings of the same rows from all others: the text of all of them."""
    texts = sorted(judge.relation().sql(dialect) for judge in judges)
    return hashlib.sha256(json.dumps(texts).encode()).hexdigest()


def record_sets(sets: Sequence[QuerySet], dialect: str, version: str) -> str:
    names = ("relation", "present", "held", "keys", "measures")
    listed = [{name: getattr(each, name) for name in names} for each in sets]
    for each, made in zip(sets, listed, strict=True):
        if each.family:
            made |= {"family": each.family, "hidden": list(each.hidden)}
    return json.dumps({"dialect": dialect, "version": version, "sets": listed}, sort_keys=True)


def earlier_sets(ledger: Ledger, principal: str | None, before: int | None = None) -> Iterator[QuerySet]:
    """The query sets of exact answers, the oldest first; a charge that was never settled counts as answered."""
    events = ledger.history(principal)
    failed = {event.settles for event in events if event.kind == "failed"}
    for event in events:
        exact = event.kind == "charge" and (event.shape or "").startswith(EXACT) and event.id not in failed
        if exact and (before is None or event.id < before):
            record = json.loads(ledger.query_of(event.fingerprint or ""))
            for each in record["sets"]:
                measures = tuple(each.pop("measures"))
                each["hidden"] = tuple(each.pop("hidden", ()))
                yield QuerySet(
                    **each, measures=measures, dialect=record["dialect"], version=record["version"], event=event.id
                )

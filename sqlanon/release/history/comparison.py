"""A release that is written but not yet shown, beside its past: the relations that models across releases read."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from sqlglot import exp

from sqlanon.compiler import history as relations
from sqlanon.compiler.classes import Grouping, Prelude, classes
from sqlanon.compiler.tree import alias, count_all, literal, select, table
from sqlanon.engines import Engine
from sqlanon.engines.steps import drop_steps, run_steps
from sqlanon.errors import PolicyError, SqlanonError
from sqlanon.policy import Policy
from sqlanon.release.history.kept import Kept

PREFIX = "sqlanon_history"
# Relations that are built for every comparison; a model that reads others cannot be asked for yet.
BUILT = frozenset(
    [
        "classes",
        "class_values",
        "moves",
        "past",
        "past_classes",
        "past_values",
        "candidates",
        "group_values",
        "left_values",
    ]
)


@dataclass(frozen=True)
class AcrossResult:
    """What a model measured across releases."""

    model: str
    params: Mapping[str, Any]
    attribute: str | None
    looked_at: int
    broken: int
    measured: float | None

    @property
    def holds(self) -> bool:
        return self.broken == 0


@dataclass
class Comparison:
    """A staged release beside its past. Temporary tables live until `close`."""

    policy: Policy
    engine: Engine
    kept: Kept
    prelude: Prelude
    members: str
    attributes: tuple[str | None, ...]
    held_back: int = 0
    results: tuple[AcrossResult, ...] = ()
    temporary: list[str] = field(default_factory=list)

    @property
    def version(self) -> int:
        return self.kept.version + 1

    @property
    def holds(self) -> bool:
        return all(result.holds for result in self.results)

    def make(self, name: str, query: exp.Query) -> str:
        full = f"{PREFIX}_{name}"
        self.engine.create_temporary(full, query)
        if full not in self.temporary:
            self.temporary.append(full)
        return full

    def described(self) -> dict[str, Any]:
        """For the evidence."""
        checks = [
            {
                "model": item.model, "params": dict(item.params), "attribute": item.attribute, "holds": item.holds,
                "compared": item.looked_at, "broken": item.broken, "measured": item.measured,
            }
            for item in self.results
        ]  # fmt: skip
        return {"version": self.version, "held_back": self.held_back, "models": checks}

    def close(self) -> None:
        with suppress(SqlanonError):  # a transaction that failed takes them with it, and has told why
            self.engine.drop_temporary(self.temporary)
        drop_steps(self.engine, self.prelude.steps)


def find_members(found: Comparison, secret: str) -> None:
    engine, prelude = found.engine, found.prelude
    assert found.policy.person is not None
    key = prelude.load("secret", (), ("key",), ((secret,),), private=True)
    grouping = Grouping(found.policy.quasi_identifiers)
    classes(prelude, grouping)
    run_steps(engine, prelude.steps)
    rows = relations.members(prelude, grouping, found.policy.person, found.attributes, key)
    raw = found.make("found", rows)
    every, named, distinct = engine.query(
        select(count_all(), exp.Count(this=exp.column("person")), _distinct("person"), source=table(raw))
    )[0]
    if named != every or distinct != every:
        raise PolicyError(
            f"history needs one row a person, but {every:,} rows are of {distinct:,} persons",
            hint="release a view with one row for each person; rows without a person cannot be compared",
        )
    made = found.make("members", relations.with_groups(raw, found.kept.table("persons"), len(found.attributes)))
    engine.drop_temporary([raw])
    found.temporary.remove(raw)
    known = select(literal(1), source=table(made), where=exp.column("group_id") > 0).limit(1)
    if found.kept.version and every and not engine.query(known):
        raise PolicyError(
            "not one person of the earlier releases is found in this one",
            hint="were the keys of persons changed? Then nobody can be compared with what was released before",
        )


def tables(found: Comparison, place: int) -> dict[str, str]:
    """The canonical relations for one sensitive attribute, made from what the members are now."""
    kept, attribute = found.kept, literal(found.attributes[place - 1] or relations.NOTHING)
    own: dict[str, str] = {"members": found.members, "persons": kept.table("persons"), "past": kept.table("past")}
    own["past_classes"] = kept.table("past_classes")
    own["moves"] = found.make("moves", relations.moves(found.members, relations.step("gone", {}, own), place))
    counted = select("class_id", alias(count_all(), "records"), source=table(found.members), groups=["class_id"])
    own["classes"] = found.make("classes", counted)
    own["class_values"] = found.make("class_values", relations.class_values_of(found.members, place))
    for name, columns in (
        ("past_values", ("version", "class_id", "value", "records")),
        ("candidates", ("group_id", "value")),
        ("group_values", ("group_id", "value", "records")),
    ):
        rows = select(*columns, source=table(kept.table(name)), where=exp.column("attribute").eq(attribute.copy()))
        own[name] = found.make(name, rows)
    own["left_values"] = found.make("left_values", relations.step("left_values", {}, own))
    return own


def _distinct(name: str) -> exp.Expr:
    return exp.Count(this=exp.Distinct(expressions=[exp.column(name)]))

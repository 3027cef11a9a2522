"""A release that is written but not yet shown, beside its past: the relations that models across releases read."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from sqlglot import exp

from sqlanon.engines import Engine
from sqlanon.engines.temp_tables import drop_steps, run_steps
from sqlanon.errors import PolicyError, SqlanonError
from sqlanon.families import Plugin
from sqlanon.policy import Policy
from sqlanon.policy.history import HistoryUse
from sqlanon.relations import history_relations as relations
from sqlanon.relations.classes import Grouping, Prelude, classes
from sqlanon.release.history.history_tables import HistoryTables
from sqlanon.sqltree.tree import alias, count_all, literal, select, table, union_all

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
        "comparable",
        "unknown",
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
    beside: str | None = None  # the release of another name that was joined

    @property
    def holds(self) -> bool:
        return self.broken == 0


@dataclass
class Comparison:
    """A staged release beside its past. Temporary tables live until `close`."""

    name: str
    policy: Policy
    engine: Engine
    kept: HistoryTables
    prelude: Prelude
    members: str
    attributes: tuple[str | None, ...]
    counterfeits: str | None = None  # table (class_id, v1, …) of rows of nobody
    paths: str | None = None  # table of the paths of the labels; none where labels have none
    cuts: str | None = None  # table of the cuts that a later release keeps to
    made_up: int = 0  # counterfeit rows
    held_back: int = 0
    results: tuple[AcrossResult, ...] = ()
    temporary: list[str] = field(default_factory=list)
    current: dict[int, dict[str, str]] = field(default_factory=dict)  # relations by attribute, until members change

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

    @property
    def grouping(self) -> Grouping:
        own = (relations.CLASS,) if self.counterfeits is not None else ()
        return Grouping((*self.policy.quasi_identifiers, *own))

    def class_labels(self) -> exp.Query:
        """The labels of the classes of the new release."""
        return relations.class_labels(self.prelude, self.grouping, self.version)

    def described(self) -> dict[str, Any]:
        """For the evidence."""
        checks = [
            {
                "model": item.model, "params": dict(item.params), "attribute": item.attribute, "holds": item.holds,
                "compared": item.looked_at, "broken": item.broken, "measured": item.measured,
            } | ({"beside": item.beside} if item.beside else {})
            for item in self.results
        ]  # fmt: skip
        assert self.policy.history is not None
        beside = self.policy.history.beside
        told: dict[str, Any] = {"beside": list(beside)} if beside is not None else {}
        if self.counterfeits is not None:
            told["counterfeits"] = self.made_up
        return {"version": self.version, "held_back": self.held_back, "models": checks, **told}

    def counted(
        self,
        result: str,
        model: Plugin,
        filled: Mapping[str, Any],
        attribute: str | None,
        *,
        name: str | None = None,
        beside: str | None = None,
    ) -> AcrossResult:
        """What a model measured, from the table of its verdicts."""
        measured = exp.column("measured")
        looked_at, broken, least, most = self.engine.query(
            select(
                count_all(),
                exp.Coalesce(this=exp.Sum(this=exp.column("broken")), expressions=[literal(0)]),
                exp.Min(this=measured),
                exp.Max(this=measured.copy()),
                source=table(result),
            )
        )[0]
        worst = least if model.worse_when_smaller else most
        value = None if worst is None else float(worst)
        return AcrossResult(name or model.name, filled, attribute, int(looked_at), int(broken), value, beside)

    def close(self) -> None:
        with suppress(SqlanonError):  # a transaction that failed takes them with it, and has told why
            self.engine.drop_temporary(self.temporary)
        drop_steps(self.engine, self.prelude.steps)


def find_members(found: Comparison, secret: str) -> None:
    engine, prelude = found.engine, found.prelude
    assert found.policy.person is not None
    key = prelude.load("secret", (), ("key",), ((secret,),), private=True)
    grouping = found.grouping
    classes(prelude, grouping)
    run_steps(engine, prelude.steps)
    rows = relations.members(prelude, grouping, found.policy.person, found.attributes, key)
    raw = found.make("found", rows)
    if found.counterfeits is not None:
        nobody = exp.column("person").is_(exp.Null())
        made = found.make("counterfeits", select(exp.Star(), source=table(raw), where=nobody))
        engine.execute(exp.delete(table(raw), where=nobody.copy()))
        found.counterfeits = made
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
            "no person of the earlier releases is found in this one",
            hint="check whether the keys of persons were changed: then no person can be compared with earlier releases",
        )


def tables(found: Comparison, place: int) -> dict[str, str]:
    """The canonical relations for one sensitive attribute, made from what the members are now."""
    if place in found.current:
        return dict(found.current[place])
    kept = found.kept
    own: dict[str, str] = {"members": found.members, "persons": kept.table("persons"), "past": kept.table("past")}
    own["past_classes"] = kept.table("past_classes")
    own["unknown"] = unknown_values(found)
    own["moves"] = found.make(f"moves_{place}", relations.moves(found.members, relations.step("gone", {}, own), place))
    shown = found.members if found.counterfeits is None else found.make("shown", _with_counterfeits(found))
    counted = select("class_id", alias(count_all(), "records"), source=table(shown), groups=["class_id"])
    own["classes"] = found.make("classes", counted)
    own["class_values"] = found.make(f"class_values_{place}", relations.class_values_of(shown, place))
    for name in ("past_values", "candidates", "group_values"):
        own[name] = _of_attribute(found, name, place)
    own["left_values"] = found.make(f"left_values_{place}", relations.step("left_values", {}, own))
    found.current[place] = own
    return dict(own)


def unknown_values(found: Comparison) -> str:
    """The table of the labels that stand for no value."""
    made = f"{PREFIX}_unknown"
    if made not in found.temporary:
        null_is_value = found.policy.sensitive_nulls == "value"
        found.make("unknown", relations.unknown_values(null_is_value=null_is_value))
    return made


def _with_counterfeits(found: Comparison) -> exp.Query:
    """All rows of the release: what is shown of a class does not tell which are of nobody."""
    assert found.counterfeits is not None
    names = ["class_id", *(f"v{place}" for place in range(1, len(found.attributes) + 1))]
    return union_all([select(*names, source=table(name)) for name in (found.members, found.counterfeits)])


def _of_attribute(found: Comparison, name: str, place: int) -> str:
    """What is kept of one sensitive attribute: the kept table itself where there is no other. It grows with each
    release, and is not to be copied without need."""
    kept = found.kept.table(name)
    if len(found.attributes) == 1:
        return kept
    made = f"{PREFIX}_{name}_{place}"
    if made not in found.temporary:
        own = exp.column("attribute").eq(literal(found.attributes[place - 1] or relations.NOTHING))
        found.make(f"{name}_{place}", select(exp.Star(), source=table(kept), where=own))
    return made


def places(found: Comparison, use: HistoryUse) -> list[int]:
    """The sensitive attributes that a model looks at, by their places."""
    if use.attribute is not None:
        return [found.attributes.index(use.attribute) + 1]
    return list(range(1, len(found.attributes) + 1))


def _distinct(name: str) -> exp.Expr:
    return exp.Count(this=exp.Distinct(expressions=[exp.column(name)]))

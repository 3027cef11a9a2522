"""Run compiled checks on an engine and gather what they measured."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlglot import exp

from sqlanon.compiler.checks import Check, Compiler
from sqlanon.compiler.lookups import recoded
from sqlanon.compiler.source import relation
from sqlanon.compiler.tree import column, count_all, literal, table
from sqlanon.engines import ColumnInfo, Engine
from sqlanon.errors import PolicyError, did_you_mean
from sqlanon.evidence.hierarchies import build_hierarchies, require_valid
from sqlanon.evidence.loss import infer_levels
from sqlanon.evidence.steps import SHOWN_VALUES, drop_steps, listed, run_steps
from sqlanon.hierarchies import Hierarchy
from sqlanon.policy import Policy, Source, missing_columns


@dataclass(frozen=True)
class Violation:
    """A class that breaks a model: what its rows have in common, never the rows."""

    columns: Mapping[str, str | None]
    records: int
    measured: float


@dataclass(frozen=True)
class CheckResult:
    model: str
    params: Mapping[str, Any]
    qid: tuple[str, ...]
    attribute: str | None
    measures: str
    classes: int
    broken_classes: int
    broken_records: int | None  # None where classes overlap, so that their records cannot be added up
    measured: float | None  # the worst class; None where there is no class
    violations: tuple[Violation, ...] = ()  # the worst ones; for a sensitive attribute none of a single record

    @property
    def holds(self) -> bool:
        return self.broken_classes == 0


@dataclass(frozen=True)
class Evidence:
    records: int
    checks: tuple[CheckResult, ...]
    suppressed: int = 0
    notes: tuple[str, ...] = field(default=())

    @property
    def holds(self) -> bool:
        return all(check.holds for check in self.checks)


def check(
    policy: Policy,
    engine: Engine,
    *,
    release: Source | None = None,
    limit: int = 5,
    progress: Callable[[int, int], None] | None = None,
) -> Evidence:
    """Measure every model of a policy inside the engine: on its source, or on a release of it.

    Hierarchies are validated against the source; a release holds their labels instead of its values.
    `progress` is told after each step how many of how many are done.
    """
    source = engine.resolve(release or policy.source)
    available = engine.columns(relation(source, engine.dialect))
    names = [item.name for item in available]
    hierarchies = build_hierarchies(policy)
    notes: list[str] = []
    if release is None:
        missing_columns(policy, names)
    else:
        policy, notes = _as_released(policy, names)
    compiler = Compiler(policy, hierarchies, engine.dialect, source)
    if release is not None and policy.population is not None:
        compiler.population = _population_like(policy, engine, compiler, hierarchies)
    checks = compiler.checks()
    _require_numbers(policy, checks, available)
    steps = compiler.prelude.steps
    try:
        required = {item.result: item for item in checks}
        planned = list(steps)
        for place, step in enumerate(planned, start=1):
            run_steps(engine, [step], lambda step: _require(engine, required.get(step.name)))
            if progress:
                progress(place, len(planned))
        # A release holds labels in place of quasi-identifiers; its sensitive values are the original ones.
        original = {name: item for name, item in hierarchies.items() if not release or name in policy.sensitive}
        require_valid(policy, engine, original, compiler.prelude)
        results = tuple(_result(engine, item, limit) for item in checks)
        notes += [note for item in checks for note in _unknown_values(engine, item)]
        suppressed = _count(engine, relation(source, engine.dialect)) if policy.suppressed_rows == "keep" else None
        records = _count(engine, compiler.prelude.rows)
    finally:
        drop_steps(engine, steps)
    return Evidence(
        records, results, (suppressed - records) if suppressed is not None else 0, tuple(dict.fromkeys(notes))
    )


def _as_released(policy: Policy, available: list[str]) -> tuple[Policy, list[str]]:
    """The policy as it applies to a release, which has no identifiers and perhaps no person key."""
    kept = {name: item for name, item in policy.columns.items() if item.role in ("quasi_identifier", "sensitive")}
    person = policy.person if policy.person in available else None
    narrowed = policy.model_copy(update={"columns": kept, "person": person})
    missing_columns(narrowed, available)
    if person == policy.person:
        return narrowed, []
    return narrowed, [f"the release has no column '{policy.person}': rows were counted, not persons"]


def _population_like(
    policy: Policy, engine: Engine, compiler: Compiler, hierarchies: Mapping[str, Hierarchy]
) -> exp.Select:
    """The population, generalized to the levels of the release."""
    assert policy.population is not None
    prelude = compiler.prelude
    levels = infer_levels(policy, engine, prelude, prelude.rows, hierarchies)
    rows = relation(engine.resolve(policy.population), engine.dialect)
    wanted: dict[str, exp.Expr] = {name: column(name, "original") for name in policy.quasi_identifiers}
    return recoded(prelude, rows, dict(hierarchies), levels, wanted)


def _require(engine: Engine, item: Check | None) -> None:
    """What a model requires of the data is looked at before its result is computed."""
    for requirement in item.requirements if item else ():
        found = engine.query(requirement.query.order_by("records DESC", "value").limit(SHOWN_VALUES + 1))
        if found:
            raise PolicyError(requirement.message, detail=listed(found), hint=requirement.hint)


def _require_numbers(policy: Policy, checks: list[Check], available: list[ColumnInfo]) -> None:
    types = {item.name: item for item in available}
    for item in checks:
        known = types.get(item.attribute or "")
        if "numeric" in item.model.needs and known is not None and not known.numeric:
            raise PolicyError(
                f"{item.model.name} measures distances, but '{known.name}' is of type {known.type}",
                hint="use it for a numeric column, or cast the column in a query",
            )


def _result(engine: Engine, item: Check, limit: int) -> CheckResult:
    measured = exp.column("measured", table="r")
    # A class without a result was not measured, and what was not measured is not safe.
    broken = exp.Coalesce(this=exp.column("broken", table="r"), expressions=[literal(1)])
    records = exp.column("records", table="s")
    overlapping = "combinations" in item.model.needs
    every_class = "population" not in item.model.needs  # whose classes may hold no released record
    tree = (
        exp.select(
            count_all(),
            exp.Coalesce(this=exp.Sum(this=broken), expressions=[literal(0)]),
            exp.Coalesce(this=exp.Sum(this=exp.Mul(this=broken.copy(), expression=records)), expressions=[literal(0)]),
            exp.Min(this=measured),
            exp.Max(this=measured.copy()),
        )
        .from_(table(item.classes, alias="s"))
        .join(table(item.result, alias="r"), on=_same_class("s", "r"), join_type="left" if every_class else "inner")
    )
    classes, broken_classes, broken_records, least, most = engine.query(tree)[0]
    worst = least if item.model.worse_when_smaller else most
    return CheckResult(
        model=item.model.name,
        params=item.params,
        qid=item.qid,
        attribute=item.attribute,
        measures=item.model.measures,
        classes=int(classes),
        broken_classes=int(broken_classes),
        broken_records=None if overlapping else int(broken_records),
        measured=None if worst is None else float(worst),
        violations=_violations(engine, item, limit) if broken_classes and limit > 0 else (),
    )


def _same_class(left: str, right: str) -> exp.Expr:
    return exp.column("class_id", table=left).eq(exp.column("class_id", table=right))


def _more_than_one(item: Check) -> list[exp.Expr]:
    """A class of one record with what was measured on its sensitive value would be that person's row."""
    alone = item.attribute is None and "combinations" not in item.model.needs
    return [] if alone else [exp.column("records", table="s") > 1]


def _violations(engine: Engine, item: Check, limit: int) -> tuple[Violation, ...]:
    """The worst classes, in an order that does not change between runs."""
    shown = list(item.shown)
    named = [exp.column(name, table="s") for name in shown]
    measured = exp.column("measured", table="r")
    tree = (
        exp.select(exp.column("records", table="s"), measured, *(exp.cast(name, "text") for name in named))
        .from_(table(item.result, alias="r"))
        .join(table(item.classes, alias="s"), on=_same_class("s", "r"))
        .where(exp.column("broken", table="r").eq(1), *_more_than_one(item))
        .order_by(
            exp.Ordered(this=measured.copy(), desc=not item.model.worse_when_smaller),
            *(exp.Ordered(this=exp.cast(name.copy(), "text"), nulls_first=True) for name in named),
        )
        .limit(limit)
    )
    return tuple(
        Violation(
            columns={item.shown[name]: value for name, value in zip(shown, values, strict=True)},
            records=int(records),
            measured=float(value_measured) if value_measured is not None else math.nan,
        )
        for records, value_measured, *values in engine.query(tree)
    )


def _unknown_values(engine: Engine, item: Check) -> list[str]:
    """Sensitive values that a policy names but the data does not hold: most often a typo, which would weaken it."""
    if not item.listed_values or item.totals is None:
        return []
    found = {str(label) for (label,) in engine.query(exp.select("label").from_(table(item.totals)).limit(10_000))}
    notes = []
    for value in item.listed_values:
        if value not in found:
            near = did_you_mean(value, found)
            notes.append(
                f"{item.model.name}: the value '{value}' does not occur in '{item.attribute}'"
                + (f"; {near}" if near else "")
            )
    return notes


def _count(engine: Engine, rows: exp.Select) -> int:
    return int(engine.query(exp.select(count_all()).from_(rows.subquery(alias="source")))[0][0])

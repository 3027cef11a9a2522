"""What a check measured, read from the tables that it made: how many classes, the worst value, the worst classes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlglot import exp

from sqlanon.engines import Engine
from sqlanon.relations.checks import Check
from sqlanon.sqltree.tree import count_all, join_clause, literal, nest_query, select, table, text


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
    unit: str = "class"  # what was measured one by one, and counted above: a class, a set of items, …
    asks: str = ""  # of a sensitive value of persons with several rows: which of their values

    @property
    def holds(self) -> bool:
        return self.broken_classes == 0


@dataclass(frozen=True)
class Counts:
    """What one statement tells of the result of a check."""

    classes: int
    records: int
    broken_classes: int
    broken_records: int
    least: float | None
    most: float | None


def count_result(engine: Engine, item: Check) -> Counts:
    # A class without a result was not measured, and what was not measured is not safe.
    broken = exp.Coalesce(this=exp.column("broken"), expressions=[literal(1)])
    chosen = (
        count_all(),
        exp.Sum(this=exp.column("records")),
        exp.Sum(this=broken),
        exp.Sum(this=exp.Mul(this=broken.copy(), expression=exp.column("records"))),
        exp.Min(this=exp.column("measured")),
        exp.Max(this=exp.column("measured")),
    )
    if isinstance(item.result, exp.Select):
        own = item.result.copy()
        own.append("expressions", exp.column("records"))
        tree = select(*chosen, source=nest_query(own, "r"))
    else:
        every_class = "population" not in item.model.needs  # whose classes may hold no released record
        result = join_clause(item.measured("r"), _same_class("s", "r"), side="LEFT" if every_class else None)
        tree = select(*chosen, source=table(item.classes, alias="s"), joins=[result])
    classes, every, broken_classes, broken_records, *ends = engine.query(tree)[0]
    least, most = (None if end is None else float(end) for end in ends)
    return Counts(int(classes), int(every or 0), int(broken_classes or 0), int(broken_records or 0), least, most)


def check_result(engine: Engine, item: Check, counted: Counts, limit: int) -> CheckResult:
    overlapping = "combinations" in item.model.needs
    return CheckResult(
        model=item.model.name,
        params=item.params,
        qid=item.qid,
        attribute=item.attribute,
        measures=item.model.measures,
        classes=counted.classes,
        broken_classes=counted.broken_classes,
        broken_records=None if overlapping else counted.broken_records,
        measured=counted.least if item.model.worse_when_smaller else counted.most,
        violations=_violations(engine, item, limit) if counted.broken_classes and limit > 0 else (),
        asks=item.asks,
    )


def _same_class(left: str, right: str) -> exp.Expr:
    return exp.column("class_id", table=left).eq(exp.column("class_id", table=right))


def _more_than_one(item: Check) -> list[exp.Expr]:
    """A class of one record with what was measured on its sensitive value would be that person's row."""
    if "population" in item.model.needs:
        return [exp.column("population", table="s") > 1]
    alone = item.attribute is None and "combinations" not in item.model.needs
    return [] if alone else [exp.column("records", table="s") > 1]


def _violations(engine: Engine, item: Check, limit: int) -> tuple[Violation, ...]:
    """The worst classes, in an order that does not change between runs."""
    shown = list(item.shown)
    named = [exp.column(name, table="s") for name in shown]
    measured = exp.column("measured", table="r")
    tree = select(
        exp.column("records", table="s"),
        measured,
        *(text(name) for name in named),
        source=item.measured("r"),
        joins=[join_clause(table(item.classes, alias="s"), _same_class("s", "r"))],
        where=exp.and_(exp.column("broken", table="r").eq(1), *_more_than_one(item), copy=False),
    )
    order = [
        exp.Ordered(this=measured.copy(), desc=not item.model.worse_when_smaller),
        *(exp.Ordered(this=text(name.copy()), nulls_first=True) for name in named),
    ]
    tree = tree.order_by(*order, copy=False).limit(limit, copy=False)
    return tuple(
        Violation(
            columns={item.shown[name]: value for name, value in zip(shown, values, strict=True)},
            records=int(records),
            measured=float(value_measured) if value_measured is not None else math.nan,
        )
        for records, value_measured, *values in engine.query(tree)
    )

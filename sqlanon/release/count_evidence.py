"""What is counted for the evidence of a release: its classes and labels beside those of the source, random ranges."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from sqlglot import exp

from sqlanon.engines import Engine
from sqlanon.engines.temp_tables import drop_steps, run_steps
from sqlanon.errors import SqlanonError
from sqlanon.evidence.ranges import boxes_at
from sqlanon.evidence.release_evidence import ClassRisk, ClassSizes, Distribution, RiskSides, SizeBin
from sqlanon.evidence.workload import workload
from sqlanon.lattice.problem import Problem
from sqlanon.lattice.solution import Solution
from sqlanon.relations.classes import Grouping, Prelude, classes
from sqlanon.relations.matching_classes import matches_any_value, matching_classes
from sqlanon.relations.source import relation
from sqlanon.release.count_distributions import count_distributions
from sqlanon.release.rewrite_release import Rewriting
from sqlanon.sqltree.tree import (
    alias,
    bigint,
    column,
    count_all,
    double,
    join_clause,
    literal,
    nest_query,
    select,
    sum_bigint,
    table,
    text,
    union_all,
    window,
)

CLASSES = "sqlanon_released_classes"  # table (c1, …, records) of the release as it was written


def count_classes(
    task: Problem, solution: Solution, how: Rewriting, released: exp.Select
) -> tuple[ClassSizes, RiskSides, dict[str, Distribution], dict[str, str]]:
    """Classes and values, before and after, and the most frequent label of each quasi-identifier."""
    labels = [alias(column(domain.name), f"c{place}") for place, domain in enumerate(task.domains, start=1)]
    names = [column(domain.name) for domain in task.domains]
    rows = released.subquery(alias="release")
    every = select(*labels, alias(count_all(), "records"), source=rows, groups=names)
    # Once, since a release may be a large file, and has far fewer classes than rows.
    task.engine.create_temporary(CLASSES, every)
    try:
        matches = matches_any_value(task.policy)
        shown = select("records", source=table(CLASSES))
        after = _matching_sizes(task, released) if matches else sizes_of(task.engine, shown)
        before = sizes_of(task.engine, _classes_before(task))
        risk = RiskSides(**{"before": before[1], "after": after[1]} | _risk_of_persons(task, released))
        spread = count_distributions(task, solution, how, CLASSES)
        return ClassSizes(before=before[0], after=after[0]), risk, spread, _frequent_labels(task)
    finally:
        with suppress(SqlanonError):
            task.engine.drop_temporary([CLASSES])


def _frequent_labels(task: Problem) -> dict[str, str]:
    """By the table CLASSES."""
    parts: list[exp.Query] = []
    for place in range(1, len(task.domains) + 1):
        label = text(exp.column(f"c{place}"))
        most = window(exp.RowNumber())
        order = [exp.Ordered(this=exp.Sum(this=exp.column("records")), desc=True), exp.Ordered(this=label.copy())]
        most.set("order", exp.Order(expressions=order))
        shown = exp.column(f"c{place}").is_(exp.Null()).not_()
        chosen = [alias(label, "label"), alias(most, "number")]
        counted = select(*chosen, source=table(CLASSES), where=shown, groups=[label.copy()])
        first = exp.column("number").eq(1)
        parts.append(
            select(alias(literal(place), "place"), "label", source=nest_query(counted, "counted"), where=first)
        )
    if not parts:
        return {}
    return {task.domains[int(place) - 1].name: str(label) for place, label in task.engine.query(union_all(parts))}


def _matching_sizes(task: Problem, released: exp.Select) -> tuple[tuple[SizeBin, ...], ClassRisk]:
    """The same of classes by the rows that match them, where a suppressed cell matches any value."""
    prelude = Prelude(released.copy(), task.engine.dialect, prefix="sqlanon_counted")
    grouping = Grouping(task.policy.quasi_identifiers)
    own, matching = classes(prelude, grouping), matching_classes(prelude, grouping, task.table.hierarchies)
    same = exp.column("class_id", table="m").eq(exp.column("class_id", table="c"))
    crowd = alias(exp.column("records", table="m"), "crowd")
    counted = select(
        exp.column("records", table="c"),
        crowd,
        source=table(own, alias="c"),
        joins=[join_clause(table(matching, alias="m"), same)],
    )
    try:
        run_steps(task.engine, prelude.steps)
        return sizes_of(task.engine, counted, crowd="crowd")
    finally:
        with suppress(SqlanonError):
            drop_steps(task.engine, prelude.steps)


def _risk_of_persons(task: Problem, released: exp.Select) -> dict[str, ClassRisk]:
    """The same risks where classes hold persons: many rows of one person are no crowd. With a history each person has
    one row, and what is told of the source is left out."""
    person = task.policy.person
    if person is None or task.policy.history is not None:
        return {}
    source = relation(task.engine.resolve(task.table.written.source), task.engine.dialect)
    names = [domain.name for domain in task.domains]
    sides = {}
    for side, rows in (("before", source), ("after", released)):
        if person in [item.name for item in task.engine.columns(rows)]:
            persons = bigint(exp.Count(this=exp.Distinct(expressions=[column(person)])))
            groups = [column(name) for name in names]
            grouped = select(
                alias(persons, "records"), source=nest_query(rows.copy(), "rows_of_persons"), groups=groups
            )
            sides[side] = sizes_of(task.engine, grouped)[1]
    return sides


def _classes_before(task: Problem) -> exp.Select:
    """The classes of the source, as somebody meets them who knows the persons themselves: where values were changed
    before the search, not those that the search saw."""
    if not task.table.transformed:
        records = alias(sum_bigint(exp.column("n")), "records")
        return select(records, source=table(task.compressed.table), groups=task.compressed.key_names)
    rows = relation(task.engine.resolve(task.table.written.source), task.engine.dialect)
    names = [column(domain.name) for domain in task.domains]
    return select(alias(count_all(), "records"), source=nest_query(rows, "source"), groups=names)


def sizes_of(engine: Engine, counted: exp.Select, *, crowd: str = "records") -> tuple[tuple[SizeBin, ...], ClassRisk]:
    """How many classes there are of 1, 2-3, 4-7, … records, and what they tell about the risk of a record: of a
    relation with one row a class, and its `records`. `crowd` is the column of the records among which one of them
    hides, where these are not those of its class."""
    bucket = exp.Floor(
        this=exp.Div(
            this=exp.Ln(this=exp.Add(this=exp.column(crowd), expression=literal(0.5))),
            expression=exp.Ln(this=literal(2.0)),
        )
    )
    found = exp.Div(this=double(exp.column("records")), expression=double(exp.column(crowd)))
    tree = exp.select(
        alias(exp.cast(bucket, "int"), "bucket"),
        alias(count_all(), "classes"),
        alias(sum_bigint(exp.column("records")), "records"),
        alias(exp.Min(this=exp.column(crowd)), "smallest"),
        alias(exp.Sum(this=found), "found"),
    ).from_(counted.subquery(alias="classes"))
    rows = engine.query(tree.group_by("1").order_by("1"))
    sizes = tuple(
        SizeBin(2 ** int(b), 2 ** (int(b) + 1) - 1, int(classes), int(records)) for b, classes, records, *_ in rows
    )
    every = sum(item.records for item in sizes)
    smallest = min((int(row[3]) for row in rows), default=0)
    risk = ClassRisk(
        highest=1 / smallest if smallest else 0.0,
        average=sum(float(row[4]) for row in rows) / every if every else 0.0,
        uniques=sum(item.records for item in sizes if item.largest == 1),
    )
    return sizes, risk


def workload_of(task: Problem, how: Rewriting, progress: Callable[[int, int], None] | None = None) -> dict[str, Any]:
    """The error of random range counts that are answered from the release."""
    shown = exp.select("*").from_(shown_cells(task, how)) if how.passes[0].broken else None
    boxes = boxes_at(task.compressed, how.passes[0].node, shown)
    found = workload(task.engine, task.compressed.table, boxes, task.domains, progress=progress)
    return {"queries": found.queries, "all": found.all, "small": found.small, "large": found.large}


def shown_cells(task: Problem, how: Rewriting) -> exp.Expr:
    """The rows of the compressed table that the single pass of a release shows."""
    item = how.passes[0]
    if not item.broken:
        return table(task.compressed.table)
    own = task.class_id([bigint(literal(mask)) for mask in task.compressed.masks(item.node)])
    gone = exp.select("class_id").from_(table(item.broken))
    cells = exp.select("*").from_(table(task.compressed.table)).where(own.isin(query=gone).not_())
    return cells.subquery(alias="cells")

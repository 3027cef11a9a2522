"""The canonical relations that the privacy models read, as temporary tables.

    classes(class_id, records)                      one row a class; records are rows, or persons with a person key
    class_values(class_id, value, records)          one row a class and sensitive value; value is its rank
    totals(value, label, number, records)           one row a sensitive value of the whole table
    taxonomy(value, level, node)                    the ancestors of each sensitive value; level 0 is the value
    class_population(class_id, records, population) classes of release and population together
    class_guards(class_id, guard)                   the guarding nodes that the records of a class name
    class_categories(class_id, category, records)   as class_values, for the categories of an (l,alpha) model
    class_supersets(class_id, superset_id)          the classes above a class, with
    superset_values(superset_id, value, records), superset_sizes(superset_id, records)
    class_probability(class_id, value, probability) the public probability of a record
    combinations(class_id, records, matching)       freeform attacks

Classes are numbered with DENSE_RANK over their columns: the same classes get the same number in every relation,
on every engine, also where a column is NULL (a null-safe join would be a nested loop on PostgreSQL). In these tables
user columns are called c1, c2, …, so that no later statement depends on a user's names.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlglot import exp

from sqlanon.compiler.tree import (
    TEXT,
    alias,
    bigint,
    case,
    column,
    count_all,
    double,
    literal,
    rows_relation,
    summed,
    table,
    text,
    window,
)


def as_label(value: Any) -> str:
    """A value of a policy as the engines print it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


# Stands for NULL where a node of a taxonomy needs a name; no sane value is spelt like this.
NULL_NODE = "\u2205 NULL"


@dataclass(frozen=True)
class Step:
    """CREATE TEMPORARY TABLE name AS query; where `rows` are given, an engine may load these instead."""

    name: str
    query: exp.Query
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True)
class Grouping:
    """What makes a class and what is counted in it."""

    columns: tuple[str, ...]
    person: str | None = None
    distinct: tuple[str, ...] = ()
    nulls_match: bool = True


@dataclass
class Prelude:
    """Temporary tables in the order in which they are made, each made once however many models ask for it."""

    rows: exp.Select
    steps: list[Step] = field(default_factory=list)
    made: dict[tuple[object, ...], str] = field(default_factory=dict)

    def once(self, kind: str, key: tuple[object, ...], query: Callable[[], exp.Query]) -> str:
        full = (kind, *key)
        if full not in self.made:
            built = query()  # may add the steps that it builds on
            name = f"sqlanon_{kind}_{1 + sum(made[0] == kind for made in self.made)}"
            self.made[full] = name
            self.steps.append(Step(name, built))
        return self.made[full]

    def load(
        self, kind: str, key: tuple[object, ...], columns: tuple[str, ...], rows: tuple[tuple[str, ...], ...]
    ) -> str:
        """A table of text whose rows are known here, such as a hierarchy from a file."""
        full = (kind, *key)
        if full not in self.made:
            name = f"sqlanon_{kind}_{1 + sum(made[0] == kind for made in self.made)}"
            self.made[full] = name
            query = rows_relation(rows, columns, [TEXT] * len(columns))
            self.steps.append(Step(name, query, columns, rows))
        return self.made[full]


def source(prelude: Prelude) -> exp.Subquery:
    return prelude.rows.subquery(alias="source", copy=True)


def class_columns(grouping: Grouping) -> list[exp.Expr]:
    """The columns of a class; where NULLs match nothing, the row number makes such a row a class of its own."""
    columns: list[exp.Expr] = [column(name) for name in grouping.columns]
    if not grouping.nulls_match:
        missing = exp.or_(*(column(name).is_(exp.Null()) for name in grouping.columns))
        columns.append(case((missing, exp.column("sqlanon_row")), default=literal(0)))
    return columns


def labels(grouping: Grouping) -> list[str]:
    return [f"c{i}" for i in range(1, len(class_columns(grouping)) + 1)]


def _counted(grouping: Grouping) -> exp.Expr:
    """Rows, or persons. Rows without a person count as one unknown person in all, never as a crowd."""
    if grouping.person is None:
        return count_all()
    person = column(grouping.person)
    unknown = exp.Max(this=case((person.copy().is_(exp.Null()), literal(1)), default=literal(0)))
    return bigint(exp.Add(this=exp.Count(this=exp.Distinct(expressions=[person])), expression=unknown))


def grouped_rows(prelude: Prelude, grouping: Grouping, extra: dict[str, exp.Expr], counted: exp.Expr) -> exp.Select:
    made_of = class_columns(grouping)
    named = [alias(item, name) for item, name in zip(made_of, labels(grouping), strict=True)]
    others = [alias(item, name) for name, item in extra.items()]
    tree = exp.select(*named, *others, alias(counted, "records")).from_(source(prelude))
    return tree.group_by(*(item.copy() for item in made_of), *(item.copy() for item in extra.values()))


def class_number(grouping: Grouping) -> exp.Expr:
    return window(exp.DenseRank(), order=[exp.column(name) for name in labels(grouping)])


def class_categories(prelude: Prelude, grouping: Grouping, attribute: str, categories: Sequence[Sequence[Any]]) -> str:
    """As class_values, with the category of a sensitive value in its place: class_id, category, records."""

    def build() -> exp.Query:
        own = exp.Coalesce(this=text(column(attribute)), expressions=[literal(NULL_NODE)])
        branches = []
        for place, members in enumerate(categories, start=1):
            listed = [literal(NULL_NODE if value is None else as_label(value)) for value in members]
            branches.append((own.copy().isin(*listed), literal(place)))
        category = case(*branches, default=literal(0))
        grouped = grouped_rows(prelude, grouping, {"category": category}, _counted(grouping))
        return exp.select(alias(class_number(grouping), "class_id"), "category", "records").from_(
            grouped.subquery(alias="grouped")
        )

    return prelude.once("class_categories", (grouping, attribute, repr(categories)), build)


def cells(prelude: Prelude, grouping: Grouping, attribute: str) -> str:
    return prelude.once(
        "cells",
        (grouping, attribute),
        lambda: grouped_rows(prelude, grouping, {"original": column(attribute)}, _counted(grouping)),
    )


def class_values(prelude: Prelude, grouping: Grouping, attribute: str) -> str:
    def build() -> exp.Query:
        made = cells(prelude, grouping, attribute)
        return exp.select(
            alias(class_number(grouping), "class_id"),
            alias(window(exp.DenseRank(), order=[exp.column("original")]), "value"),
            "records",
            "original",
            *labels(grouping),
        ).from_(table(made))

    return prelude.once("class_values", (grouping, attribute), build)


def classes(prelude: Prelude, grouping: Grouping, attribute: str | None = None) -> str:
    """One row a class. Rolled up from the cells of an attribute where these hold plain row counts."""
    rolls_up = attribute is not None and grouping.person is None and not grouping.distinct

    def build() -> exp.Query:
        if rolls_up:
            assert attribute is not None
            made = class_values(prelude, grouping, attribute)
            tree = exp.select("class_id", alias(summed(exp.column("records")), "records")).from_(table(made))
            return tree.group_by("class_id")
        grouped = (
            _distinct_groups(prelude, grouping)
            if grouping.distinct
            else grouped_rows(prelude, grouping, {}, _counted(grouping))
        )
        # Alone, any numbering does; beside other relations the numbers must agree.
        number = window(exp.RowNumber()) if attribute is None else class_number(grouping)
        return exp.select(alias(number, "class_id"), "records", *labels(grouping)).from_(
            grouped.subquery(alias="grouped")
        )

    return prelude.once("classes", (grouping, attribute), build)


def _distinct_groups(prelude: Prelude, grouping: Grouping) -> exp.Select:
    """Count distinct combinations of several columns; a combination with a NULL is not counted."""
    made_of = class_columns(grouping)
    counted = [column(name) for name in grouping.distinct]
    names = labels(grouping)
    pairs = exp.select(
        *(alias(item, name) for item, name in zip(made_of, names, strict=True)),
        *(alias(item, f"y{i}") for i, item in enumerate(counted, start=1)),
    ).distinct()
    whole = exp.and_(*(exp.column(f"y{i}").is_(exp.Null()).not_() for i in range(1, len(counted) + 1)))
    number = summed(case((whole, literal(1)), default=literal(0)))
    return (
        exp.select(*names, alias(number, "records"))
        .from_(pairs.from_(source(prelude)).subquery(alias="pairs"))
        .group_by(*names)
    )


def totals(prelude: Prelude, grouping: Grouping, attribute: str, *, numeric: bool) -> str:
    def build() -> exp.Query:
        number = _finite(exp.column("original")) if numeric else double(exp.Null())
        if grouping.person is None:
            made = class_values(prelude, grouping, attribute)
            tree = exp.select("value", "original", alias(summed(exp.column("records")), "records"))
            counted = tree.from_(table(made)).group_by("value", "original")
        else:
            everybody = Grouping(columns=(), person=grouping.person)
            persons = grouped_rows(prelude, everybody, {"original": column(attribute)}, _counted(everybody))
            rank = window(exp.DenseRank(), order=[exp.column("original")])
            counted = exp.select(alias(rank, "value"), "original", "records").from_(persons.subquery(alias="persons"))
        return exp.select(
            "value",
            alias(text(exp.column("original")), "label"),
            alias(number, "number"),
            "records",
            "original",
        ).from_(counted.subquery(alias="counted"))

    key = (grouping.person or grouping, attribute, numeric)
    return prelude.once("totals", key, build)


def _finite(value: exp.Expr) -> exp.Expr:
    """A number, or NULL for NaN and infinities: they must not turn a bound into something that always holds."""
    tree: exp.Expr = double(value)
    for word in ("NaN", "Infinity", "-Infinity"):
        tree = exp.Nullif(this=tree, expression=double(literal(word)))
    return tree


def class_guards(prelude: Prelude, grouping: Grouping, guard: str) -> str:
    def build() -> exp.Query:
        grouped = grouped_rows(prelude, grouping, {"guard": text(column(guard))}, count_all())
        # Ranked before the rows without a guard are left out: they hold classes that must keep their numbers.
        ranked = exp.select(alias(class_number(grouping), "class_id"), "guard").from_(grouped.subquery(alias="grouped"))
        return (
            exp.select("class_id", "guard")
            .from_(ranked.subquery(alias="ranked"))
            .where(exp.column("guard").is_(exp.Null()).not_())
        )

    return prelude.once("class_guards", (grouping, guard), build)


def class_population(prelude: Prelude, grouping: Grouping, population: exp.Select) -> str:
    """Release and population in one GROUP BY, so that equal classes meet also where a column is NULL."""

    def part(rows: exp.Subquery, released: int) -> exp.Select:
        person = column(grouping.person) if grouping.person and released else exp.Null()
        named = [alias(column(name), label) for name, label in zip(grouping.columns, labels(grouping), strict=True)]
        return exp.select(*named, alias(literal(released), "released"), alias(text(person), "person")).from_(rows)

    def build() -> exp.Query:
        both = exp.union(
            part(source(prelude), 1), part(population.subquery(alias="population"), 0), distinct=False
        ).subquery(alias="both_tables")
        records: exp.Expr = summed(exp.column("released"))
        if grouping.person is not None:
            unknown = exp.Max(
                this=case(
                    (exp.and_(exp.column("person").is_(exp.Null()), exp.column("released").eq(1)), literal(1)),
                    default=literal(0),
                )
            )
            known = exp.Count(this=exp.Distinct(expressions=[exp.column("person")]))
            records = bigint(exp.Add(this=known, expression=unknown))
        counted = (
            exp.select(
                *labels(grouping),
                alias(records, "records"),
                alias(summed(exp.Sub(this=literal(1), expression=exp.column("released"))), "population"),
            )
            .from_(both)
            .group_by(*labels(grouping))
        )
        number = window(exp.RowNumber())
        return exp.select(alias(number, "class_id"), "records", "population", *labels(grouping)).from_(
            counted.subquery(alias="counted")
        )

    return prelude.once("class_population", (grouping,), build)

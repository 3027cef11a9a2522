"""Profile a table inside its engine: what is counted in each column, and how many rows stand alone by some of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

from sqlglot import exp

from sqlanon.engines import ColumnInfo, Engine
from sqlanon.errors import PolicyError, SourceError, did_you_mean
from sqlanon.evidence.suggest_roles import (
    COMPARABLE,
    COUNTRIES,
    PATTERNS,
    ColumnFacts,
    RoleDraft,
    RolesGiven,
    Shape,
    base_type,
    shape_of,
    speaks_of,
)
from sqlanon.hierarchies import build
from sqlanon.sqltree.tree import TEXT, alias, bigint, case, column, count_all, literal, sum_bigint, text, union_all

COLUMNS_AT_ONCE = 40  # in one statement; each is a branch of it with a GROUP BY of its own
MOST_COUNTRIES = 300


def profile(engine: Engine, rows: exp.Select, name: str, given: RolesGiven) -> RoleDraft:
    """Two statements on the table, for most tables: one for the columns, one for their combinations."""
    found = engine.columns(rows)
    known = [item for item in found if item.name]
    if not known:
        raise SourceError(f"'{name}' has no columns", hint="there is nothing to write a policy about")
    _require_known(given, [item.name for item in known], name)
    facts = measure(engine, rows, known)
    if not any(item.comparable for item in facts):
        raise SourceError(
            f"'{name}' has no column whose values can be compared",
            hint="make a view that takes columns out of them, or casts them to text",
        )
    draft = RoleDraft.of(facts, unnamed=len(found) - len(known), given=given)
    sets = draft.sets()
    return draft.combined(sets, rows_alone(engine, rows, sets, draft.person)) if sets else draft


def _require_known(given: RolesGiven, known: Sequence[str], name: str) -> None:
    """Roles that were given are those of columns that are there."""
    for asked in (*given.roles, *([given.person] if given.person is not None else [])):
        if asked not in known:
            listed = ", ".join(known[:20]) + (", …" if len(known) > 20 else "")
            raise PolicyError(
                f"'{name}' has no column '{asked}'", hint=did_you_mean(asked, known) or f"it has {listed}"
            )


def measure(engine: Engine, rows: exp.Select, columns: Sequence[ColumnInfo]) -> list[ColumnFacts]:
    """Counts of each column, one statement for many columns; the table itself stays in the engine."""
    facts = [ColumnFacts(item.name, shape_of(item), comparable=_comparable(engine, rows, item)) for item in columns]
    places = [place for place, known in enumerate(facts) if known.comparable]
    found: dict[int, list[tuple[Any, ...]]] = {}
    for start in range(0, len(places), COLUMNS_AT_ONCE):
        branches = [_counts(rows, place, facts[place]) for place in places[start : start + COLUMNS_AT_ONCE]]
        for place, *counted in engine.query(union_all(branches)):
            found.setdefault(place, []).append(tuple(counted))
    measured = [_with_counts(known, found.get(place, [])) for place, known in enumerate(facts)]
    total = max((known.rows for known in measured), default=0)
    return [_with_countries(engine, rows, replace(known, rows=total)) for known in measured]


def _comparable(engine: Engine, rows: exp.Select, item: ColumnInfo) -> bool:
    """Whether values of the type can be counted and put in order; PostgreSQL's json cannot."""
    if item.numeric or item.temporal or base_type(item.type) in COMPARABLE:
        return True
    counted = exp.Count(this=exp.Distinct(expressions=[column(item.name)]))
    try:
        engine.query(_chosen(rows, counted).where(exp.false()))
    except SourceError:
        return False
    return True


def _chosen(rows: exp.Select, *expressions: exp.Expr) -> exp.Select:
    """These in place of the star, which would have to be expanded anew for each column of a wide table."""
    return rows.select(*expressions, append=False)


def _counts(rows: exp.Select, place: int, facts: ColumnFacts) -> exp.Query:
    """One row for each pattern among the values of a column, and one for NULL.

    Patterns are looked for once a value, not once a row.
    """
    value = exp.column("value")
    values = _chosen(rows, alias(column(facts.name), "value"))
    grouped = exp.select("value", alias(count_all(), "records")).from_(values.subquery(alias="listed"))
    kinds: list[tuple[exp.Expr, exp.Expr]] = [(value.copy().is_(exp.Null()), literal("null"))]
    if facts.shape == "text":
        kinds += [
            (exp.RegexpLike(this=text(value.copy()), expression=literal(pattern)), literal(name))
            for name, pattern in PATTERNS.items()
        ]
    told = exp.select("value", "records", alias(case(*kinds, default=literal("other")), "kind"))
    told = told.from_(grouped.group_by("value").subquery(alias="grouped"))
    length: exp.Expr = exp.Cast(this=exp.Null(), to=exp.DataType.build("bigint"))
    if facts.shape in ("text", "whole"):
        length = bigint(exp.Max(this=exp.Length(this=text(value.copy()))))
    return (
        exp.select(
            alias(literal(place), "place"),
            "kind",
            alias(sum_bigint(exp.column("records")), "records"),
            alias(count_all(), "distinct_values"),
            alias(sum_bigint(case((exp.column("records").eq(1), literal(1)), default=literal(0))), "unique_rows"),
            alias(length, "longest"),
            alias(_extreme(exp.Min, facts.shape), "least"),
            alias(_extreme(exp.Max, facts.shape), "most"),
        )
        .from_(told.subquery(alias="told"))
        .group_by("kind")
    )


def _extreme(function: type[exp.AggFunc], shape: Shape) -> exp.Expr:
    """The least or the largest finite number as text: a number may be larger than a float can be."""
    if shape not in ("whole", "number"):
        return exp.Cast(this=exp.Null(), to=TEXT.copy())
    value = exp.column("value")
    # Infinity less infinity is NaN, which is not 0.
    finite = exp.Sub(this=value, expression=value.copy()).eq(0)
    return text(function(this=exp.Case().when(finite, value.copy())))


def _with_counts(facts: ColumnFacts, counted: Sequence[tuple[Any, ...]]) -> ColumnFacts:
    values = [row for row in counted if row[0] != "null"]
    least, most = ([Decimal(row[place]) for row in values if row[place] is not None] for place in (5, 6))
    return replace(
        facts,
        rows=sum(row[1] for row in counted),
        nulls=sum(row[1] for row in counted if row[0] == "null"),
        distinct=sum(row[2] for row in values),
        unique=sum(row[3] for row in values),
        patterns={row[0]: row[1] for row in values if row[0] != "other"},
        longest=max((row[4] for row in values if row[4] is not None), default=0),
        least=min(least, default=None),
        most=max(most, default=None),
    )


def _with_countries(engine: Engine, rows: exp.Select, facts: ColumnFacts) -> ColumnFacts:
    if facts.shape != "text" or not 0 < facts.distinct <= MOST_COUNTRIES or not speaks_of(facts.name, COUNTRIES):
        return facts
    known = {row[0] for row in build("country", {}, Path()).rows}
    named = text(column(facts.name))
    tree = _chosen(rows, alias(named, "value")).distinct().limit(MOST_COUNTRIES + 1)
    values = {value for (value,) in engine.query(tree) if value is not None}
    return replace(facts, unlisted=len(values - known))


def rows_alone(engine: Engine, rows: exp.Select, sets: Sequence[Sequence[str]], person: str | None) -> list[int]:
    """For each set of columns, the rows whose values no other row has; with a person key, no other person."""

    def branch(place: int, names: Sequence[str]) -> exp.Query:
        labels = [f"c{i}" for i in range(1, len(names) + 1)]
        chosen = [alias(column(name), label) for name, label in zip(names, labels, strict=True)]
        condition: exp.Expr = count_all().eq(1)
        if person is not None:
            chosen.append(alias(text(column(person)), "person"))
            who = exp.column("person")
            # Rows without a person count as one unknown person.
            condition = exp.NullSafeEQ(this=exp.Min(this=who), expression=exp.Max(this=who.copy()))
        values = _chosen(rows, *chosen).subquery(alias="listed")
        grouped = exp.select(alias(count_all(), "records")).from_(values).group_by(*labels).having(condition)
        counted = exp.Coalesce(this=sum_bigint(exp.column("records")), expressions=[literal(0)])
        return exp.select(alias(literal(place), "place"), alias(counted, "records")).from_(
            grouped.subquery(alias="grouped")
        )

    found = dict(engine.query(union_all([branch(place, names) for place, names in enumerate(sets)])))
    return [int(found[place]) for place in range(len(sets))]

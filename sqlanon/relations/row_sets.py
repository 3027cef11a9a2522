"""Persons by the set of their rows: where the rows of a person can be linked, the whole set singles them out.

person_rows(person, class_id, records)      how many rows of a person are in a class
row_sets(person, row_set, records)          the number of the set of a person's rows; equal sets have equal numbers

A set says how many rows a person has in each class. Persons with equal sets are in the same classes, so that k persons
with one set are k persons in each of its classes. An attacker who knows only some rows of a person is left with as many
persons, or more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlglot import exp

from sqlanon.families import plugin
from sqlanon.relations.classes import Grouping, Prelude, grouped_rows, number_classes, source
from sqlanon.sqltree.tree import (
    alias,
    bind,
    case,
    column,
    count_all,
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

# Beside a user's own columns, which no sane person calls like this.
ROW_SET = "\u2205 set of rows"
LINKED = "\u2205 linked"


def row_sets(prelude: Prelude, person: str, columns: Sequence[str], *, nulls_match: bool = True) -> str:
    """The table of persons with the number of their set of rows over some columns."""
    grouping = Grouping(tuple(columns), nulls_match=nulls_match)

    def count_rows() -> exp.Query:
        grouped = grouped_rows(prelude, grouping, {"person": column(person)}, count_all())
        return number_classes(prelude, grouping, grouped, ["person", "records"])

    def number_sets() -> exp.Query:
        rows = prelude.once("person_rows", (grouping, person), count_rows)
        return bind(plugin("linking", "row_sets").sql, {}, {"person_rows": rows})

    return prelude.once("row_sets", (grouping, person), number_sets)


def class_rows(prelude: Prelude, grouping: Grouping, columns: Sequence[str] = ()) -> str:
    """As person_rows, of the classes of a grouping: its own persons, or those that `columns` tell apart together."""
    who = tuple(columns) or ((grouping.person,) if grouping.person is not None else ())

    def build() -> exp.Query:
        extra: dict[str, exp.Expr] = {f"p{place}": text(column(name)) for place, name in enumerate(who, start=1)}
        grouped = grouped_rows(prelude, grouping, extra, count_all())
        rows = number_classes(prelude, grouping, grouped, [*extra, "records"])
        person = window(exp.DenseRank(), order=[exp.column(name) for name in extra])
        return select(alias(person, "person"), "class_id", "records", source=nest_query(rows, "rows_of_persons"))

    return prelude.once("class_rows", (grouping, who), build)


def add_row_sets(
    prelude: Prelude, person: str, qids: Sequence[tuple[str, ...]], *, nulls_match: bool = True
) -> Mapping[tuple[str, ...], str]:
    """Give every row the number of its person's set, one column for each quasi-identifier; the names of the columns.

    A row without a person has none: such rows are refused elsewhere, and must not get lost before that."""
    named = {qid: f"{ROW_SET} {place}" for place, qid in enumerate(dict.fromkeys(qids), start=1)}
    tables = {qid: row_sets(prelude, person, qid, nulls_match=nulls_match) for qid in named}
    joins, added = [], []
    for place, (qid, name) in enumerate(named.items(), start=1):
        short = f"sets_{place}"
        own = exp.column("person", table=short).eq(column(person, "source"))
        joins.append(join_clause(table(tables[qid], alias=short), own, side="LEFT"))
        added.append(alias(exp.column("row_set", table=short), name, quoted=True))
    every = exp.Column(this=exp.Star(), table=exp.to_identifier("source"))
    prelude.rows = select(every, *added, source=source(prelude), joins=joins)
    return named


def shared_sets(prelude: Prelude, person: str, columns: Sequence[str], *, nulls_match: bool = True) -> exp.Select:
    """One row: persons, those with several rows, those alone with their set, the fewest that share one, and sets."""
    made = row_sets(prelude, person, columns, nulls_match=nulls_match)
    return bind(plugin("linking", "shared_sets").sql, {}, {"row_sets": made})


def constant_columns(rows: exp.Select, person: exp.Expr, names: Sequence[str]) -> exp.Select:
    """One row: the persons with several rows, their rows, and for each column how many of them have one value in it."""

    def is_constant(name: str) -> exp.Expr:
        value = text(column(name))
        filled = exp.Count(this=column(name), big_int=True)
        alike = exp.Min(this=value).eq(exp.Max(this=value.copy()))
        whole = exp.or_(exp.and_(alike, filled.eq(count_all())), filled.copy().eq(literal(0)))
        return case((whole, literal(1)), default=literal(0))

    flags = [alias(is_constant(name), f"k{place}") for place, name in enumerate(names, start=1)]
    grouped = select(alias(count_all(), "records"), *flags, source=nest_query(rows, "source"), groups=[person])
    several = grouped.having(count_all() > 1, copy=False)
    return select(
        count_all(),
        *(sum_bigint(exp.column(name)) for name in ("records", *(f"k{place}" for place in range(1, len(names) + 1)))),
        source=nest_query(several, "several"),
    )


def linked_records(rows: exp.Select, person: exp.Expr, sets: Sequence[Sequence[str]]) -> exp.Query:
    """(place, records): for each set of columns the rows that share their values with another row of the same person,
    and with no row of anybody else."""

    def part(place: int, names: Sequence[str]) -> exp.Select:
        values = [text(column(name)) for name in names]
        known = exp.or_(*(column(name).is_(exp.Null()).not_() for name in names))
        grouped = select(
            alias(count_all(), "records"),
            source=nest_query(rows.copy(), "source"),
            where=known,
            groups=values,
        )
        whose = text(person.copy())
        alone = exp.Min(this=whose).eq(exp.Max(this=whose.copy()))
        grouped = grouped.having(exp.and_(count_all() > 1, alone), copy=False)
        return select(
            alias(literal(place), "place"),
            alias(sum_bigint(exp.column("records")), "records"),
            source=nest_query(grouped, "linked"),
        )

    return union_all([part(place, names) for place, names in enumerate(sets)])


def with_linked(rows: exp.Select, names: Sequence[str]) -> exp.Select:
    """The rows that have a value in the columns that link them, with the number of that value as a column."""
    values: list[exp.Expr] = [column(name) for name in names]
    number = alias(window(exp.DenseRank(), order=values), LINKED, quoted=True)
    known = exp.or_(*(column(name).is_(exp.Null()).not_() for name in names))
    return select(exp.Star(), number, source=nest_query(rows, "source"), where=known)

"""Persons who are set aside before a release is made: a keyed sample, the same one in every run with the same key."""

from __future__ import annotations

from sqlglot import exp

from sqlanon.sqltree.draws import concatenate
from sqlanon.sqltree.tree import alias, bigint, column, literal, nest_query, select, table, text, window

# Beside a user's own columns, which no sane person calls like this.
ROW_NUMBER = "\u2205 row number"


def number_rows(rows: exp.Select) -> exp.Select:
    """The rows with a number for each: where no column says whose they are, a row is a person."""
    number = alias(bigint(window(exp.RowNumber())), ROW_NUMBER, quoted=True)
    return select(exp.Star(), number, source=nest_query(rows, "source"))


def count_persons(rows: str, person: str) -> exp.Select:
    """How many persons there are, and how many rows say nothing about whose they are."""
    unknown = exp.Sum(
        this=exp.Case(ifs=[exp.If(this=column(person).is_(exp.Null()), true=literal(1))], default=literal(0))
    )
    counted = exp.Count(this=exp.Distinct(expressions=[column(person)]))
    return select(counted, exp.Coalesce(this=unknown, expressions=[literal(0)]), source=table(rows))


def drawn_persons(rows: str, person: str, seed: str, size: int) -> exp.Select:
    """(person): so many of them, those whose keyed hashes come first."""
    listed = select(alias(text(column(person)), "person"), source=table(rows)).distinct()
    hashed = exp.MD5(this=concatenate([literal(seed), exp.column("person")]))
    place = alias(window(exp.RowNumber(), order=[hashed, exp.column("person")]), "place")
    ranked = select("person", place, source=nest_query(listed, "listed"))
    return select("person", source=nest_query(ranked, "ranked"), where=exp.column("place") <= size)


def rows_of(rows: str, person: str, drawn: str, *, held: bool, columns: list[str]) -> exp.Select:
    """The rows of the persons who were drawn, or of all others."""
    inside = text(column(person)).isin(query=select("person", source=table(drawn)))
    return select(*(column(name) for name in columns), source=table(rows), where=inside if held else inside.not_())

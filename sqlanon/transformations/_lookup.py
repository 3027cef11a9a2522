"""Draws that lead from one value to another, shared by the methods that change categories."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated, Any

from pydantic import BeforeValidator, WithJsonSchema
from sqlglot import exp

from sqlanon.sqltree.draws import FLOATS, alias, cross_join, is_known, minus, nest_copy, number, over, string, times
from sqlanon.sqltree.tree import bigint, case, column, double, table, text
from sqlanon.transformations import Changed, DataCheck, File, Given, Make, Step
from sqlanon.transformations._draws import draw, hash_rows
from sqlanon.transformations._rows import require, select_rows

DRAW = "\u2205 draw"


def _as_text(value: Any) -> str:
    """Text, an integer or a boolean, as the engines print it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int):
        return str(value)
    kind = "nothing" if value is None else type(value).__name__
    raise ValueError(f"YAML reads one value as {kind}, not as text: put it in quotes")


Label = Annotated[str, BeforeValidator(_as_text), WithJsonSchema({"type": ["string", "integer", "boolean"]})]


def require_categories(given: Given, names: Sequence[str]) -> None:
    for name in names:
        require(given, [name], given.columns[name].this not in FLOATS, "whose values are no categories")


def inline_rows(rows: Iterable[Sequence[Any]], names: Sequence[str], kinds: Sequence[exp.DataType]) -> exp.Select:
    """A small relation, written out."""
    values = exp.values([tuple(exp.convert(item) for item in row) for row in rows], alias="v", columns=list(names))
    chosen = [
        alias(exp.Cast(this=exp.column(name), to=kind.copy()), name) for name, kind in zip(names, kinds, strict=True)
    ]
    return exp.select(*chosen).from_(values)


def marginals(given: Given, name: str, made: str) -> Make:
    """The values of a column as text, with their rows; without NULL."""
    value = text(column(name, "t"))
    chosen = [alias(value, "value"), alias(double(exp.Count(this=exp.Star())), "n")]
    tree = exp.Select(expressions=chosen, from_=exp.From(this=nest_copy(given.rows, "t")))
    return Make(made, tree.where(is_known(column(name, "t"))).group_by(value.copy()))


def forbid_unlisted(made: str, values: Iterable[str], name: str, what: str) -> DataCheck:
    known = [string(value) for value in values]
    tree = exp.select(exp.convert(1)).from_(table(made)).where(exp.column("value").isin(*known).not_())
    return DataCheck(
        tree,
        f"'{name}' holds values that {what} does not have",
        "list all values of the column, as the database writes them: those of a boolean column are true and false",
    )


def _one_spelling(name: str, cells: exp.Select) -> DataCheck:
    """Values are listed as text and looked up as values: those that are equal but written differently, such as 1.5 and
    1.50, would be found several times, and each of their rows would become several."""
    several = exp.GT(this=exp.Count(this=exp.Star()), expression=exp.convert(1))
    tree = exp.select(exp.convert(1)).from_(nest_copy(cells, "i")).group_by("source", "cell").having(several)
    return DataCheck(
        tree, f"'{name}' holds values that are equal but written differently", "cast the column in a query"
    )


def move_values(given: Given, name: str, moves: str, prefix: str) -> Changed:
    """Each value goes where its draw leads, by a table (source, target, p) of text."""
    index, kind = f"{prefix}_index", given.columns[name]
    # Of the type of the column: to cast a few values is less than to cast those of all rows.
    typed = [alias(exp.Cast(this=exp.column(item), to=kind.copy()), item) for item in ("source", "target", "other")]
    known = exp.Select(expressions=[*typed, exp.column("cell"), exp.column("cut")], from_=exp.From(this=table(index)))
    steps: list[Step] = [Make(index, File("transitions", {}, {"moves": moves})), _one_spelling(name, known)]
    stay, cells = exp.Max(this=exp.column("stay")), exp.Max(this=exp.column("cells"))
    scale = over(cells, minus(number(1.0), stay))
    both = [alias(scale, "scale"), alias(times(stay.copy(), scale.copy()), "staying")]
    size = exp.Select(expressions=both, from_=exp.From(this=table(index))).subquery(alias="z")
    found = hash_rows(given, [given.seed(name)], f"{prefix}_hashes")
    place = minus(times(draw(given, "r"), exp.column("scale", table="z")), exp.column("staying", table="z"))
    spot = alias(place, DRAW)
    every = exp.Column(this=exp.Star(), table=exp.to_identifier("r"))
    pointed = exp.Select(expressions=[every, spot], from_=exp.From(this=found.rows.subquery(alias="r")))
    pointed = cross_join(pointed, size)
    stays = exp.LT(this=column(DRAW, "t"), expression=number(0.0))
    cell = exp.Floor(this=column(DRAW, "t"))
    first = exp.LT(this=minus(column(DRAW, "t"), cell), expression=exp.column("cut", table="i"))
    target = case(
        (stays, column(name, "t")),
        (first, exp.column("target", table="i")),
        default=exp.column("other", table="i"),
    )
    tree = select_rows(given, {name: target}, pointed.subquery(alias="t"))
    # Values that stay are not looked up: NULL is equal to nothing. A number that is missing is seen faster than a text.
    moving = case((exp.GTE(this=column(DRAW, "t"), expression=number(0.0)), bigint(cell.copy())))
    on = exp.and_(exp.column("cell", table="i").eq(moving), exp.column("source", table="i").eq(column(name, "t")))
    tree.append("joins", exp.Join(this=known.subquery(alias="i"), side="LEFT", on=on))
    return Changed(tree, [*steps, *found.steps], found.labels)

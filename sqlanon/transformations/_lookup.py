"""Draws that lead from one value to another, shared by the methods that change categories."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated, Any

from pydantic import BeforeValidator, WithJsonSchema
from sqlglot import exp

from sqlanon.transformations import Ask, Changed, File, Given, Make, Step
from sqlanon.transformations._draws import draw, hashed
from sqlanon.transformations._sql import (
    FLOATS,
    alias,
    bigint,
    case,
    column,
    crossed,
    double,
    is_known,
    minus,
    nested,
    number,
    over,
    require,
    selected,
    string,
    table,
    text,
    times,
)

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


def listed(rows: Iterable[Sequence[Any]], names: Sequence[str], kinds: Sequence[exp.DataType]) -> exp.Select:
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
    tree = exp.Select(expressions=chosen, from_=exp.From(this=nested(given.rows, "t")))
    return Make(made, tree.where(is_known(column(name, "t"))).group_by(value.copy()))


def unlisted(made: str, values: Iterable[str], name: str, what: str) -> Ask:
    known = [string(value) for value in values]
    tree = exp.select(exp.convert(1)).from_(table(made)).where(exp.column("value").isin(*known).not_())
    return Ask(
        tree,
        f"'{name}' holds values that {what} does not have",
        "list all values of the column, as the database writes them: those of a boolean column are true and false",
    )


def _one_spelling(name: str, cells: str) -> Ask:
    """Values are listed as text and looked up as values: those that are equal but written differently, such as 1.5 and
    1.50, would be found several times, and each of their rows would become several."""
    several = exp.GT(this=exp.Count(this=exp.Star()), expression=exp.convert(1))
    tree = exp.select(exp.convert(1)).from_(table(cells)).group_by("source", "cell").having(several)
    return Ask(tree, f"'{name}' holds values that are equal but written differently", "cast the column in a query")


def moved(given: Given, name: str, moves: str, prefix: str) -> Changed:
    """Each value goes where its draw leads, by a table (source, target, p) of text."""
    index, cells, size = f"{prefix}_index", f"{prefix}_cells", f"{prefix}_size"
    kind = given.columns[name]
    typed = [alias(exp.Cast(this=exp.column(item), to=kind.copy()), item) for item in ("source", "target", "other")]
    counted = exp.Count(this=exp.Distinct(expressions=[exp.column("cell")]))
    sizes = [alias(double(counted), "n"), alias(exp.Max(this=exp.column("stay")), "stay")]
    steps: list[Step] = [
        Make(index, File("transitions", {}, {"moves": moves})),
        # Of the type of the column: to cast a few values is less than to cast those of all rows.
        Make(cells, exp.select(*typed, exp.column("cell"), exp.column("cut")).from_(table(index))),
        _one_spelling(name, cells),
        Make(size, exp.select(*sizes).from_(table(index))),
    ]
    found = hashed(given, [name], f"{prefix}_hashes")
    stay = exp.column("stay", table="z")
    share = over(minus(draw(given, "r"), stay), minus(number(1.0), stay.copy()))
    spot = alias(times(share, exp.column("n", table="z")), DRAW)
    every = exp.Column(this=exp.Star(), table=exp.to_identifier("r"))
    pointed = exp.Select(expressions=[every, spot], from_=exp.From(this=found.rows.subquery(alias="r")))
    pointed = crossed(pointed, table(size, "z"))
    stays = exp.LT(this=column(DRAW, "t"), expression=number(0.0))
    cell = exp.Floor(this=column(DRAW, "t"))
    first = exp.LT(this=minus(column(DRAW, "t"), cell), expression=exp.column("cut", table="i"))
    target = case(
        (stays, column(name, "t")),
        (first, exp.column("target", table="i")),
        default=exp.column("other", table="i"),
    )
    tree = selected(given, {name: target}, pointed.subquery(alias="t"))
    # Values that stay are not looked up: NULL is equal to nothing.
    moving = case((exp.GTE(this=column(DRAW, "t"), expression=number(0.0)), column(name, "t")))
    on = exp.and_(
        exp.column("source", table="i").eq(moving),
        exp.column("cell", table="i").eq(bigint(cell.copy())),
    )
    tree.append("joins", exp.Join(this=table(cells, "i"), side="LEFT", on=on))
    return Changed(tree, [*steps, *found.steps], found.labels)

"""Draws that lead from one value to another, shared by the methods that change categories."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated, Any

from pydantic import BeforeValidator, WithJsonSchema
from sqlglot import exp

from sqlanon.transformations import KEY, ROW, Ask, Changed, File, Given, Make, Step
from sqlanon.transformations._sql import (
    FLOATS,
    alias,
    bigint,
    column,
    crossed,
    digest,
    double,
    is_known,
    nested,
    number,
    require,
    seeded,
    selected,
    string,
    table,
    text,
    times,
    uniform,
)

BUCKETS = 64
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


def grid(name: str) -> Make:
    return Make(name, listed([(i,) for i in range(BUCKETS)], ["number"], [exp.DataType.build("bigint")]))


def marginals(given: Given, name: str, made: str) -> Make:
    """The values of a column as text, with their rows; without NULL."""
    value = text(column(name, "t"))
    chosen = [alias(value, "value"), alias(double(exp.Count(this=exp.Star())), "n")]
    tree = exp.Select(expressions=chosen, from_=exp.From(this=nested(given.rows, "t")))
    return Make(made, tree.where(is_known(column(name, "t"))).group_by(value.copy()))


def unlisted(made: str, values: Iterable[str], name: str, what: str) -> Ask:
    known = [string(value) for value in values]
    tree = exp.select(exp.convert(1)).from_(table(made)).where(exp.column("value").isin(*known).not_())
    return Ask(tree, f"'{name}' holds values that {what} does not have", "list all values of the column")


def drawn(given: Given, label: str, chosen: Sequence[exp.Expr], part: int = 0) -> exp.Select:
    """The rows with a draw, and what else is chosen; the seed is called `s`, the rows `r`."""
    draw = alias(uniform(given.dialect, digest(given.dialect, "s", column(KEY, "r")), part), DRAW)
    every = exp.Column(this=exp.Star(), table=exp.to_identifier("r"))
    tree = exp.Select(expressions=[every, draw, *chosen], from_=exp.From(this=nested(given.rows, "r")))
    return crossed(tree, seeded(given, label, "s"))


def moved(given: Given, name: str, moves: str, prefix: str) -> Changed:
    """Each value goes where its draw leads, by a table (source, target, p) of text."""
    buckets, index = f"{prefix}_grid", f"{prefix}_index"
    steps: list[Step] = [grid(buckets), Make(index, File("transitions", {}, {"moves": moves, "grid": buckets}))]
    label = given.seed(name)
    draw = column(DRAW, "t")
    on = exp.and_(
        exp.column("source", table="i").eq(text(column(name, "t"))),
        exp.column("bucket", table="i").eq(bigint(exp.Floor(this=times(draw, number(float(BUCKETS)))))),
        exp.GTE(this=draw.copy(), expression=exp.column("low", table="i")),
        exp.LT(this=draw.copy(), expression=exp.column("high", table="i")),
    )
    target = exp.Cast(this=exp.column("target", table="i"), to=given.columns[name].copy())
    tree = selected(given, {name: target}, drawn(given, label, ()).subquery(alias="t"))
    tree.append("joins", exp.Join(this=table(index, "i"), side="LEFT", on=on))
    return Changed(tree, steps, [label])


def taken(given: Given, stored: str, partners: str, names: Sequence[str]) -> exp.Select:
    """The rows, with the values of some columns from a partner, by a table (row_id, partner)."""
    other = exp.column("partner", table="w")
    known = is_known(other)
    changes = {
        name: exp.Case(ifs=[exp.If(this=known.copy(), true=column(name, "p"))], default=column(name, "t"))
        for name in names
    }
    tree = selected(given, changes, table(stored, "t"))
    tree.append(
        "joins",
        exp.Join(this=table(partners, "w"), side="LEFT", on=column(ROW, "t").eq(exp.column("row_id", table="w"))),
    )
    tree.append("joins", exp.Join(this=table(stored, "p"), side="LEFT", on=column(ROW, "p").eq(other.copy())))
    return tree

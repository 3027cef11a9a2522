"""Rows that take values from one another, shared by the methods that swap and shuffle."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from sqlanon.sqltree.draws import (
    canonical,
    concatenate,
    cross_join,
    digest,
    is_known,
    nest_copy,
    number,
    seed_row,
    string,
    uniform,
)
from sqlanon.sqltree.tree import case, column, table
from sqlanon.transformations import KEY, ROW, Changed, File, Given, Make, Step
from sqlanon.transformations._params import Within
from sqlanon.transformations._rows import select_rows


def store_rows(given: Given) -> tuple[Given, list[Step]]:
    """The rows, to be read several times: they are stored first, unless they lie in a table already."""
    if given.lasting:
        return given, []
    stored = given.name("rows")
    rows = select_rows(given, {}, table(stored, "t"))
    return replace(given, rows=rows, lasting=True), [Make(stored, given.rows.copy())]


def exchange_rows(params: Within, given: Given, file: str, share: float | None = None) -> Changed:
    """Each row takes the values of a partner that a statement `file` finds among rows alike; with `share`, so many."""
    given, steps = store_rows(given)
    drawn, pairs, label = given.name("drawn"), given.name("pairs"), given.seed("rows")
    draws = _draws(given, label, params.within)
    if share is not None:
        draws = draws.where(exp.LT(this=_draw(given, 1), expression=number(share)))
    steps += [Make(drawn, draws), Make(pairs, File(file, {}, {"drawn": drawn}))]
    return Changed(_taken(given, pairs, params.columns), steps, [label])


def _draw(given: Given, part: int) -> exp.Expr:
    return uniform(given.dialect, digest(given.dialect, "s", column(KEY, "r")), part)


def _draws(given: Given, label: str, within: tuple[str, ...]) -> exp.Select:
    """(row_id, stratum, key, draw, second); the seed is called `s`, the rows `r`."""
    parts: list[exp.Expr] = [string("")]
    for name in within:
        parts += [canonical(name, given.columns[name], "r"), string("|")]
    chosen = [
        exp.alias_(column(ROW, "r"), "row_id"),
        exp.alias_(concatenate(parts), "stratum"),
        exp.alias_(column(KEY, "r"), "key"),
        exp.alias_(_draw(given, 0), "draw"),
        exp.alias_(_draw(given, 1), "second"),
    ]
    tree = exp.Select(expressions=chosen, from_=exp.From(this=nest_copy(given.rows, "r")))
    return cross_join(tree, seed_row(given.seeds, label, "s"))


def _taken(given: Given, pairs: str, names: tuple[str, ...]) -> exp.Select:
    """The rows, with the values of some columns from a partner, by a table (row_id, partner)."""
    other = exp.column("partner", table="w")
    changes = {name: case((is_known(other.copy()), column(name, "p")), default=column(name, "t")) for name in names}
    tree = select_rows(given, changes, nest_copy(given.rows, "t"))
    own = column(ROW, "t").eq(exp.column("row_id", table="w"))
    tree.append("joins", exp.Join(this=table(pairs, "w"), side="LEFT", on=own))
    tree.append("joins", exp.Join(this=nest_copy(given.rows, "p"), side="LEFT", on=column(ROW, "p").eq(other)))
    return tree

"""Rows are dealt out to groups like cards, so that no group gets a sensitive value twice."""

from __future__ import annotations

from sqlglot import exp

from sqlanon.algorithms._parting import MOST_BITS, Rows
from sqlanon.compiler.tree import alias, bigint, column, count_all, joined, literal, nested, same, select, table, window
from sqlanon.errors import PolicyError
from sqlanon.transformations import KEY, ROW
from sqlanon.transformations._sql import canonical


def eligible(rows: Rows, sensitive: str, l: int, seed: str) -> tuple[str, int]:  # noqa: E741
    """The sensitive values with their numbers, in a drawn order, and how many there are; none has too many rows."""
    grouped = select(
        alias(column(sensitive), "original"),
        alias(count_all(), "n"),
        source=nested(rows.tree.copy(), "t"),
        groups=[column(sensitive)],
    )
    # A label that is the same on every engine, unlike the order of values.
    label = canonical("original", rows.given.columns[sensitive])
    place = window(exp.RowNumber(), order=[rows.draw(MOST_BITS, "s", label), label.copy()])
    codes = select(
        "original",
        "n",
        alias(exp.Sub(this=place, expression=literal(1)), "code"),
        source=nested(grouped, "c"),
        joins=[rows.seed(seed, "s")],
    )
    made = rows.make("values", codes)
    distinct, most = rows.engine.query(select(count_all(), exp.Max(this=exp.column("n")), source=table(made)))[0]
    if int(most) * l > rows.records:
        largest = rows.records // int(most)
        hint = f"it allows l up to {largest}" if largest >= 2 else "groups cannot hide it: leave the column out"
        raise PolicyError(f"'{sensitive}' is not eligible: one value has more than 1/{l} of the rows", hint=hint)
    return made, int(distinct)


def dealt(rows: Rows, sensitive: str, codes: str, distinct: int, groups: int, seed: str) -> exp.Select:
    """row_id, code, group_id: rows in the order of their values, then of a draw, each in the next group."""
    # The value and the draw in one integer, which sorts twice as fast as two columns; where rows carry the value beside
    # it through the sorting, that takes half as long again.
    bits = min(MOST_BITS, 62 - (distinct - 1).bit_length())
    place = exp.Add(
        this=exp.Mul(this=bigint(exp.column("code", table="v")), expression=bigint(literal(2**bits))),
        expression=rows.draw(bits, "s", column(KEY, "t")),
    )
    known = same(rows.engine.dialect, column(sensitive, "t"), exp.column("original", table="v"))
    placed = select(
        alias(column(ROW, "t"), "row_id"),
        alias(place, "place"),
        source=nested(rows.tree.copy(), "t"),
        joins=[joined(table(codes, alias="v"), known), rows.seed(seed, "s")],
    )
    turn = window(exp.RowNumber(), order=[exp.column("place"), exp.column("row_id")])
    before = exp.Paren(this=exp.Sub(this=turn, expression=literal(1)))
    group = exp.Add(this=exp.Mod(this=before, expression=literal(groups)), expression=literal(1))
    return select(
        "row_id",
        alias(exp.BitwiseRightShift(this=exp.column("place"), expression=literal(bits)), "code"),
        alias(bigint(group), "group_id"),
        source=nested(placed, "placed"),
    )

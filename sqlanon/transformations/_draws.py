"""A draw for each row, as cheap as it can be had: hashes take longer than all else.

Where rows are known by an integer, a hash of 128 bits serves four neighbours with 32 bits each. If they have most
integers of a range, all hashes are made at once and looked up, which changes no draw. Otherwise each row has a hash of
its own identity.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from sqlanon.sqltree.draws import (
    INT,
    alias,
    binary,
    call,
    cross_join,
    digest,
    evenly,
    nest_copy,
    number,
    plus,
    seed_row,
    times,
    uniform,
)
from sqlanon.sqltree.tree import bigint, column, double, table, text
from sqlanon.transformations import KEY, ROW, Given, Make, Step
from sqlanon.transformations._rows import select_rows

ALIKE = 4  # rows share a hash
BYTES = 4  # of it are the draw of a row


@dataclass(frozen=True)
class Hashed:
    """`rows` are those that were given, with hashes that `draw` and `normal` read; `steps` come first."""

    rows: exp.Select
    steps: Sequence[Step]
    labels: Sequence[str]  # of the seeds


def hash_rows(given: Given, seeds: Sequence[str], made: str | None = None) -> Hashed:
    """A hash for each label of a seed, such as that of a column; `made` begins the names of temporary tables."""
    tree = select_rows(given, {}, nest_copy(given.rows, "t"))
    steps: list[Step] = []
    labels: list[str] = []
    for place, own in enumerate(seeds):
        # Another seed than where each row has its own hash: there the hash of row 5 must not be that of rows 20 to 23.
        label = f"{own}:{ALIKE}" if given.numbered else own
        seed, found = f"d{place}", f"h{place}"
        if given.span is not None:
            name = f"{made or given.name('hashes')}_{place}"
            steps.append(Make(name, _blocks(given, label, given.span)))
            same = exp.column("block", table=found).eq(_block())
            # A row that came later, though nobody should write, has no draw: its values are lost, and not shown.
            tree.append("joins", exp.Join(this=table(name, found), side="LEFT", on=same))
            value: exp.Expr = exp.column("hashed", table=found)
        else:
            value = digest(given.dialect, seed, text(_block()) if given.numbered else column(KEY, "t"))
            tree = cross_join(tree, seed_row(given.seeds, label, seed))
        tree.append("expressions", alias(value, _name(place)))
        labels.append(label)
    return Hashed(tree, steps, labels)


def draw(given: Given, owner: str, place: int = 0) -> exp.Expr:
    """A number between 0 and 1, never 0 nor 1 itself, for a use. `owner` is the alias of the rows with hashes."""
    value = column(_name(place), owner)
    if not given.numbered:
        return uniform(given.dialect, value)
    return evenly(given.dialect, value, _start(owner, ALIKE - 1), BYTES)


def normal(given: Given, owner: str, place: int = 0) -> exp.Expr:
    """A standard normal number for a use. Two even numbers make two normal ones that have nothing to do with each other
    (Box and Muller 1958): where neighbours share a hash, each of a pair has one of them."""
    value = column(_name(place), owner)
    if given.numbered:
        start = _start(owner, ALIKE - 2)
        first, turn = (evenly(given.dialect, value, at, BYTES) for at in (start, plus(start.copy(), number(BYTES))))
        turn = plus(turn, times(double(_bits(owner, 1)), number(0.25)))
    else:
        first, turn = uniform(given.dialect, value), uniform(given.dialect, value.copy(), 1)
    length = exp.Sqrt(this=times(number(-2.0), exp.Ln(this=first)))
    return times(length, call("COS", times(number(6.283185307179586), turn)))


def _name(place: int) -> str:
    return f"\u2205 hash {place}"


def _bits(owner: str, mask: int) -> exp.Expr:
    return binary(exp.BitwiseAnd, bigint(column(ROW, owner)), number(mask))


def _start(owner: str, mask: int) -> exp.Expr:
    """How many bytes of a hash are those of neighbours before; an even mask puts two rows together."""
    return exp.Cast(this=times(_bits(owner, mask), number(BYTES)), to=INT.copy())


def _block() -> exp.Expr:
    shift = number(ALIKE.bit_length() - 1)
    return exp.Paren(this=exp.BitwiseRightShift(this=bigint(column(ROW, "t")), expression=shift))


def _blocks(given: Given, label: str, span: tuple[int, int]) -> exp.Select:
    """(block, hashed), on DuckDB"""
    low, high = (end // ALIKE for end in span)
    block = exp.column("block", table="b")
    every = exp.Table(
        this=call("range", number(low), number(high + 1)),
        alias=exp.TableAlias(this=exp.to_identifier("b"), columns=[exp.to_identifier("block")]),
    )
    own = alias(digest(given.dialect, "s", text(block.copy())), "hashed")
    return cross_join(
        exp.Select(expressions=[block, own], from_=exp.From(this=every)), seed_row(given.seeds, label, "s")
    )

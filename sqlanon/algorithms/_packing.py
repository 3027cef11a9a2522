"""The places of a row on all dimensions, packed into as few whole numbers as hold them: q1, and q2, … where need be.

A table that is written anew each round costs by its columns. And the place on a dimension that differs from region to
region is a shift and a mask, which each region brings along: no row has to ask which dimension it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from sqlanon.compiler.compressed import BITS, Domain, added
from sqlanon.compiler.tree import alias, bigint, case, literal

INT_BITS = 31  # of an INTEGER, without its sign
SMALL = 32_000  # leaves that a SMALLINT can number


@dataclass(frozen=True)
class Slot:
    """Where the places of a dimension are: `bits` of the column `word`, above the lowest `shift`."""

    word: str
    shift: int
    leaves: int

    @property
    def bits(self) -> int:
        return self.leaves.bit_length()

    @property
    def mask(self) -> int:
        return (1 << self.bits) - 1


def slots(domains: Sequence[Domain]) -> tuple[Slot, ...]:
    """Places are numbered from 0, which is NULL, to the number of leaves."""
    found = []
    word, used = 1, 0
    for domain in domains:
        bits = domain.leaves.bit_length()
        if used + bits > BITS:
            word, used = word + 1, 0
        found.append(Slot(f"q{word}", used, domain.leaves))
        used += bits
    return tuple(found)


def words(all_slots: Sequence[Slot]) -> list[str]:
    return list(dict.fromkeys(slot.word for slot in all_slots))


def packed(all_slots: Sequence[Slot], places: Sequence[exp.Expr]) -> list[exp.Expr]:
    """The columns q1, … of these places; NULL where one of their places is."""
    parts: dict[str, list[exp.Expr]] = {word: [] for word in words(all_slots)}
    for slot, at in zip(all_slots, places, strict=True):
        parts[slot.word].append(exp.Mul(this=bigint(at), expression=bigint(literal(1 << slot.shift))))
    # What is gathered of regions takes half the room in narrow numbers.
    narrow = max(slot.shift + slot.bits for slot in all_slots) <= INT_BITS
    to = exp.DataType.build("int" if narrow else "bigint")
    return [alias(exp.Cast(this=added(terms), to=to.copy()), word) for word, terms in parts.items()]


def bits_of(slot: Slot, prefix: str | None = None) -> exp.Expr:
    """The bits of a row's place on one dimension, where they are: in the order of the places, and cheaper to get."""
    mask = literal(slot.mask << slot.shift)
    return exp.paren(exp.BitwiseAnd(this=exp.column(slot.word, table=prefix), expression=mask), copy=False)


def place_of(slot: Slot, bits: exp.Expr) -> exp.Expr:
    """The place that these bits are, as narrow as it can be."""
    return exp.Cast(this=exp.BitwiseRightShift(this=bits, expression=literal(slot.shift)), to=kind(slot.leaves))


def kind(leaves: int) -> exp.DataType:
    """The type of places on a line of so many leaves."""
    return exp.DataType.build("smallint" if leaves < SMALL else "int")


def lens(all_slots: Sequence[Slot], dim: exp.Expr) -> list[exp.Expr]:
    """The columns by which `seen` finds the places on dimension `dim`: for tables of regions, which are small."""

    def by_dim(values: Sequence[exp.Expr]) -> exp.Expr:
        return case(*((dim.copy().eq(i), value) for i, value in enumerate(values, start=1)), default=exp.Null())

    every = words(all_slots)
    columns = {
        "shift_": by_dim([literal(slot.shift) for slot in all_slots]),
        "mask_": by_dim([literal(slot.mask) for slot in all_slots]),
    }
    if len(every) > 1:
        columns["word_"] = by_dim([literal(every.index(slot.word)) for slot in all_slots])
    return [alias(column, name) for name, column in columns.items()]


def seen(all_slots: Sequence[Slot], through: str, prefix: str = "w") -> exp.Expr:
    """The place of a row on the dimension of its region, which `through` has a `lens` on; NULL if it has none."""
    every = [exp.column(word, table=prefix) for word in words(all_slots)]
    number: exp.Expr = every[0]
    if len(every) > 1:
        which = exp.column("word_", table=through)
        number = case(*((which.copy().eq(i), word) for i, word in enumerate(every)), default=exp.Null())
    shifted = exp.BitwiseRightShift(this=number, expression=exp.column("shift_", table=through))
    mask = exp.column("mask_", table=through)
    return exp.paren(exp.BitwiseAnd(this=exp.paren(shifted, copy=False), expression=mask), copy=False)

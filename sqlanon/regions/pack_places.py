"""The places of a row on all dimensions, packed into as few whole numbers as hold them: q1, and q2, … where need be.

A table that is written anew each round costs by its columns. And the place on a dimension that differs from region to
region is a shift and a mask, which each region brings along: no row has to ask which dimension it is.

Places of short dimensions are written as that many ones, 0, 1, 11, 111, …, where there is room: the least and the most
of all of them at once are then one AND and one OR of the whole number. In both writings bits are in the order of the
places.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from sqlanon.relations.compressed_rows import BITS, Domain, add_up
from sqlanon.sqltree.tree import alias, bigint, case, literal

INT_BITS = 31  # of an INTEGER, without its sign
SMALL = 32_000  # leaves that a SMALLINT can number
MOST_ONES = 30  # a cut is kept in an INTEGER


@dataclass(frozen=True)
class Slot:
    """Where the places of a dimension are: `bits` of the column `word`, above the lowest `shift`; `ones` if they are
    written as that many ones."""

    word: str
    shift: int
    leaves: int
    ones: bool = False

    @property
    def bits(self) -> int:
        return self.leaves if self.ones else self.leaves.bit_length()

    @property
    def mask(self) -> int:
        return (1 << self.bits) - 1


def slots(domains: Sequence[Domain], *, as_numbers: bool = False) -> tuple[Slot, ...]:
    """Places are numbered from 0, which is NULL, to the number of leaves; `as_numbers` where all are written so."""
    ones = set() if as_numbers else _as_ones([domain.leaves for domain in domains])
    found = []
    word, used = 1, 0
    for at, domain in enumerate(domains):
        bits = Slot("", 0, domain.leaves, at in ones).bits
        if used + bits > BITS:
            word, used = word + 1, 0
        found.append(Slot(f"q{word}", used, domain.leaves, at in ones))
        used += bits
    return tuple(found)


def _as_ones(leaves: Sequence[int]) -> set[int]:
    """The dimensions that can be written as ones with all of them in one number still: the shortest of them.

    >>> sorted(_as_ones([2, 73, 5, 7, 16, 41, 7]))
    [0, 2, 3, 4, 6]
    """
    used = sum(count.bit_length() for count in leaves)
    found: set[int] = set()
    for at in sorted(range(len(leaves)), key=lambda at: leaves[at]):
        used += leaves[at] - leaves[at].bit_length()
        if leaves[at] > MOST_ONES or used > BITS:
            break
        found.add(at)
    return found


def words(all_slots: Sequence[Slot]) -> list[str]:
    return list(dict.fromkeys(slot.word for slot in all_slots))


def pack_places(all_slots: Sequence[Slot], places: Sequence[exp.Expr]) -> list[exp.Expr]:
    """The columns q1, … of these places; NULL where one of their places is."""
    parts: dict[str, list[exp.Expr]] = {word: [] for word in words(all_slots)}
    for slot, at in zip(all_slots, places, strict=True):
        bits = _ones(at) if slot.ones else bigint(at)
        parts[slot.word].append(exp.Mul(this=bits, expression=bigint(literal(1 << slot.shift))))
    # What is gathered of regions takes half the room in narrow numbers.
    narrow = max(slot.shift + slot.bits for slot in all_slots) <= INT_BITS
    to = exp.DataType.build("int" if narrow else "bigint")
    return [alias(exp.Cast(this=add_up(terms), to=to.copy()), word) for word, terms in parts.items()]


def bits_of(slot: Slot, prefix: str | None = None) -> exp.Expr:
    """The bits of a row's place on one dimension, where they are: in the order of the places, and cheaper to get."""
    return _masked(slot, exp.column(slot.word, table=prefix))


def _masked(slot: Slot, word: exp.Expr) -> exp.Expr:
    mask = literal(slot.mask << slot.shift)
    return exp.paren(exp.BitwiseAnd(this=word, expression=mask), copy=False)


def _ones(at: exp.Expr) -> exp.Expr:
    above = exp.paren(exp.BitwiseLeftShift(this=bigint(literal(1)), expression=at), copy=False)
    return exp.paren(exp.Sub(this=above, expression=literal(1)), copy=False)


def gather_ends(all_slots: Sequence[Slot]) -> dict[str, exp.Expr]:
    """What is gathered of the rows of a region, by name: bits of the first and last places of all dimensions."""
    found: dict[str, exp.Expr] = {}
    for number, slot in enumerate(all_slots, start=1):
        low, high = _ends(slot, number)
        found[low] = _of_word(exp.BitwiseAndAgg, slot) if slot.ones else exp.Min(this=bits_of(slot))
        found[high] = _of_word(exp.BitwiseOrAgg, slot) if slot.ones else exp.Max(this=bits_of(slot))
    return found


def _ends(slot: Slot, number: int) -> tuple[str, str]:
    return (f"all_{slot.word}", f"any_{slot.word}") if slot.ones else (f"low{number}", f"high{number}")


def _of_word(function: type[exp.Func], slot: Slot) -> exp.Expr:
    return function(this=exp.column(slot.word))


def measure_spread(slot: Slot, number: int, step: float, prefix: str | None = None) -> exp.Expr:
    """How far apart the first and last places of a region are, in steps of this width."""
    low, high = (exp.column(name, table=prefix) for name in _ends(slot, number))
    between = exp.paren(exp.Sub(this=high, expression=low), copy=False)
    if slot.ones:  # bits that all have are a part of those that any has
        return exp.Mul(this=exp.BitwiseCount(this=_masked(slot, between)), expression=literal(step))
    return exp.Mul(this=between, expression=literal(step / (1 << slot.shift)))


def places(all_slots: Sequence[Slot]) -> list[exp.Expr]:
    """lo1, hi1, …: the first and last places of a region from what was gathered."""
    return [
        alias(_place_of(slot, exp.column(name)), f"{side}{number}")
        for number, slot in enumerate(all_slots, start=1)
        for side, name in zip(("lo", "hi"), _ends(slot, number), strict=True)
    ]


def _place_of(slot: Slot, bits: exp.Expr) -> exp.Expr:
    """The place that these bits are, as narrow as it can be."""
    shifted = exp.BitwiseRightShift(this=bits, expression=literal(slot.shift))
    number = exp.BitwiseCount(this=_masked(slot, bits)) if slot.ones else shifted
    return exp.Cast(this=number, to=kind(slot.leaves))


def kind(leaves: int) -> exp.DataType:
    """The type of places on a line of so many leaves."""
    return exp.DataType.build("smallint" if leaves < SMALL else "int")


def lens(all_slots: Sequence[Slot], dim: exp.Expr) -> list[exp.Expr]:
    """The columns by which `seen` finds the places on dimension `dim`: for tables of regions, which are small."""

    def by_dim(values: Sequence[exp.Expr]) -> exp.Expr:
        branches = [exp.If(this=literal(i), true=value) for i, value in enumerate(values, start=1)]
        return exp.Case(this=dim.copy(), ifs=branches)

    every = words(all_slots)
    columns = {
        "shift_": by_dim([literal(slot.shift) for slot in all_slots]),
        "mask_": by_dim([literal(slot.mask) for slot in all_slots]),
    }
    if len(every) > 1:
        columns["word_"] = by_dim([literal(every.index(slot.word)) for slot in all_slots])
    return [alias(column, name) for name, column in columns.items()]


def lens_names(all_slots: Sequence[Slot]) -> list[str]:
    return ["shift_", "mask_", *(["word_"] if len(words(all_slots)) > 1 else [])]


def read_place(all_slots: Sequence[Slot], through: str, prefix: str = "w") -> exp.Expr:
    """The bits of a row's place on the dimension of its region, which `through` has a `lens` on; NULL if it has
    none."""
    every = [exp.column(word, table=prefix) for word in words(all_slots)]
    number: exp.Expr = every[0]
    if len(every) > 1:
        which = exp.column("word_", table=through)
        number = case(*((which.copy().eq(i), word) for i, word in enumerate(every)), default=exp.Null())
    shifted = exp.BitwiseRightShift(this=number, expression=exp.column("shift_", table=through))
    mask = exp.column("mask_", table=through)
    return exp.paren(exp.BitwiseAnd(this=exp.paren(shifted, copy=False), expression=mask), copy=False)

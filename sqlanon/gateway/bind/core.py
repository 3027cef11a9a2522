"""The core of a statement: the exact integers that are read from the data, each of which one person moves so far."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

from sqlglot import exp

from sqlanon.gateway.bind.row_work import BYTEWISE, work_of
from sqlanon.gateway.bind.values import (
    NUMBERS,
    TIMES,
    UNDECLARED,
    Interval,
    Kind,
    Value,
    clamp,
    clamp_time,
    double,
    number,
    operand,
)

# Integers a row: small enough that two thousand million rows cannot overflow 64 bits.
LARGEST_STEP = 2**31
# Bounds wider than this are none: the column has not been bounded by the policy.
WIDEST_BOUNDS = 1e12
CANDIDATES = 1000  # of a quantile

AtomKind = Literal["sum", "persons", "distinct", "quantile", "ranged", "exact"]
KeyMode = Literal["none", "declared", "public", "private"]


@dataclass(frozen=True)
class Atom:
    """One exact integer a group (or, for a quantile, a histogram), to which noise is added once.

    sum: SUM of `tree`, an integer of at most `step` in every row. persons: persons with a row where `tree` holds.
    distinct: COUNT(DISTINCT `tree`). quantile: rows by bin of `tree`. ranged: SUM of `tree`, a number whose bounds are
    found with noise (`centred`: less the middle of them for each row). exact: read by `controls`, without noise.
    """

    kind: AtomKind
    tree: exp.Expr
    step: int = 1
    weight: float = 1.0
    quantum: float = 1.0  # what one unit of the integer stands for
    label: str = ""  # what EXPLAIN calls it
    alpha: float = 0.5
    low: float = 0.0
    high: float = 0.0
    bins: int = 0
    centred: bool = False

    @cached_property
    def identity(self) -> tuple[Any, ...]:
        return (
            self.kind,
            self.tree.sql("duckdb", copy=False),
            self.step,
            self.quantum,
            self.alpha,
            self.low,
            self.high,
            *(["centred"] if self.centred else ()),
        )


@dataclass
class Core:
    """What is asked of one private relation: keys, atoms, and the rows that they are computed from."""

    number: int
    rows: exp.Select  # FROM and WHERE of the bound relation, without a projection
    unit: exp.Expr
    unique: bool
    keys: list[Value]
    mode: KeyMode
    declared: tuple[tuple[Any, ...], ...] = ()  # keys of the mode declared
    fanouts: tuple[exp.Select, ...] = ()  # see `fanout`
    joined: int = 1  # rows that joins of private tables make of one row, at most
    public_keys: exp.Select | None = None  # query for the keys of the mode public
    atoms: list[Atom] = field(default_factory=list)
    # Of ROLLUP, CUBE and GROUPING SETS: which one, by which of its keys, and whether the answer shows the groups.
    family: int = 0
    places: tuple[int, ...] = ()
    shown: bool = True

    @property
    def table(self) -> str:
        return f"core_{self.number}"

    @property
    def work(self) -> int:
        """The most work that a row causes, for each copy of it; see `row_work`."""
        parts = (self.rows, *(key.tree for key in self.keys), *(atom.tree for atom in self.atoms))
        grouped = sum(key.longest // BYTEWISE for key in self.keys)
        return self.joined * (grouped + sum(map(work_of, parts)))

    def atom(self, wanted: Atom) -> int:
        """The number of an atom; an equal one is shared, at the larger weight."""
        for place, known in enumerate(self.atoms):
            if known.identity == wanted.identity:
                if wanted.weight > known.weight:
                    self.atoms[place] = wanted
                return place
        self.atoms.append(wanted)
        return len(self.atoms) - 1


def quantum_for(size: float, whole: bool) -> float:
    """The step of the fixed-point grid: 1 for whole numbers that fit, else a power of two that makes them fit.

    >>> quantum_for(200000, whole=True), quantum_for(200000, whole=False)
    (1.0, 0.0001220703125)
    """
    if whole and size <= LARGEST_STEP:
        return 1.0
    return float(2.0 ** math.ceil(math.log2(max(size, 2.0**-60) / LARGEST_STEP)))


def steps(size: float, quantum: float) -> int:
    """The largest integer that a number of this size becomes; one more covers the rounding of doubles."""
    exact = size / quantum
    return max(1, int(exact) if quantum == 1.0 and exact == int(exact) else math.ceil(exact) + 1)


def bounded_double(value: Value, bounds: Interval) -> exp.Expr:
    """A number as a double within bounds. One that was computed may pass the bounds of its arithmetic by a rounding."""
    tree = operand(value)
    once = value.literal is None and not value.clamped and value.bounds == bounds
    return tree if once else clamp(tree, bounds.low, bounds.high)


def fixed_point(value: Value, bounds: Interval, quantum: float, centre: float) -> exp.Expr:
    """The integer that stands for a number: clamped, centred, counted in quanta. NULL stays NULL."""
    exact = all(end == int(end) for end in (bounds.low, bounds.high, centre))
    if value.kind == "int" and quantum == 1.0 and exact and not value.computed:
        held = clamp(value.tree, bounds.low, bounds.high) if not value.clamped else value.tree.copy()
        whole: exp.Expr = exp.cast(held, exp.DataType.Type.BIGINT, copy=False)
        return whole if centre == 0 else exp.Paren(this=exp.Sub(this=whole, expression=number(centre)))
    tree = bounded_double(value, bounds)
    if centre:
        tree = exp.Paren(this=exp.Sub(this=tree, expression=number(centre)))
    if quantum != 1.0:
        # A power of two: its reciprocal is exact too, and engines need not look for a division by zero.
        tree = exp.Mul(this=tree, expression=double(number(1 / quantum)))
    return exp.cast(exp.Anonymous(this="ROUND", expressions=[tree]), exp.DataType.Type.BIGINT, copy=False)


def key_tree(value: Value) -> exp.Expr:
    """A key as it is grouped by: whole numbers as such, also where they were computed in doubles.

    Times are held to years that every client can read: one that cannot be read would tell that it is there. Texts are
    the same if all of their bytes are: where a column has a collation for which 'a' is 'A', the group would be called
    by the spelling of the row that comes first.
    """
    if value.kind in TIMES:
        return clamp_time(value.tree)
    if value.kind == "text":
        # Beside declared keys a longer text is left out, and looked at no further.
        return bytewise(value.whole if value.keys is not None else value.tree)
    if value.kind == "int" and value.computed and value.bounds is not None and value.bounds.size < 2**62:
        held = value.tree.copy() if value.clamped else clamp(value.tree, value.bounds.low, value.bounds.high)
        return exp.cast(held, exp.DataType.Type.BIGINT, copy=False)
    return value.tree.copy()


def bytewise(tree: exp.Expr) -> exp.Expr:
    """A text for which only the same bytes are the same, whatever the collation of its column.

    >>> bytewise(exp.column("x")).sql()
    'x COLLATE "C"'
    """
    return exp.Collate(this=tree.copy(), expression=exp.to_identifier("C", quoted=True))


def same_key(value: Any) -> Any:
    """A key as it is shown: values that a GROUP BY takes for the same look the same, whichever row comes first.

    >>> same_key(-0.0), same_key(0.5), same_key(float("nan")) is same_key(-float("nan")), same_key("-0.0")
    (0.0, 0.5, True, '-0.0')
    """
    if not isinstance(value, float):
        return value
    return math.nan if math.isnan(value) else value + 0.0


def reference(core: Core, name: str) -> exp.Expr:
    return exp.column(name, table=core.table)


def key_reference(core: Core, place: int) -> Value:
    value = core.keys[place]
    return Value(reference(core, f"k{place}"), value.kind, bounds_of(value.kind), clamped=False, public=True)


def bounds_of(kind: Kind) -> Interval | None:
    return UNDECLARED if kind in NUMBERS else None


def cross(domains: Sequence[Sequence[Any]]) -> tuple[tuple[Any, ...], ...]:
    """All combinations of declared keys, in order."""
    combined: list[tuple[Any, ...]] = [()]
    for domain in domains:
        combined = [(*left, right) for left in combined for right in domain]
    return tuple(combined)

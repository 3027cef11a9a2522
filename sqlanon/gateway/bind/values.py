"""What the gateway knows of an expression or a relation: enough to prove how far one person can move an answer."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import date
from typing import Any, Literal

from sqlglot import exp

from sqlanon.errors import Refused
from sqlanon.gateway.bind.row_work import LONGEST_TEXT, cut_text, weigh, work_of

# An opaque value is shown as it is stored, and used for nothing else.
Kind = Literal["int", "float", "text", "bool", "date", "timestamp", "null", "opaque"]
Nature = Literal["private", "public", "noisy"]
NUMBERS: tuple[Kind, ...] = ("int", "float")
TIMES: tuple[Kind, ...] = ("date", "timestamp")
OWN = "sqlanon_"  # what the names of the gateway's own columns and tables begin with
UNIT = f"{OWN}unit"
WRITTEN = (f"{OWN}class", f"{OWN}group")  # columns that releases have

# Numbers without declared bounds are held to this range inside arithmetic, so that no statement can overflow.
WIDEST = float(2**53)
# Far below the largest double: products of what passes here cannot reach infinity unnoticed.
LARGEST = 1e120
MOST_DIGITS = 200  # of a decimal fraction: PostgreSQL fails on those that are too small for a double


@dataclass(frozen=True)
class Interval:
    """Where a number lies, for every input."""

    low: float
    high: float

    def __post_init__(self) -> None:
        if not (self.low <= self.high and max(abs(self.low), abs(self.high)) <= LARGEST):
            raise Refused(
                "an expression can become too large to be answered", hint="use smaller factors and fewer products"
            )

    @property
    def size(self) -> float:
        return max(abs(self.low), abs(self.high))


UNDECLARED = Interval(-WIDEST, WIDEST)


def hull(intervals: Iterable[Interval]) -> Interval:
    """The smallest interval around several.

    >>> hull([Interval(0, 5), Interval(-1, 2)])
    Interval(low=-1, high=5)
    """
    parts = list(intervals)
    return Interval(min(part.low for part in parts), max(part.high for part in parts))


@dataclass(frozen=True)
class Spread:
    """How far noise moves a number: at most the sum of each integer's noise times its factor, and `more`.

    It is a function of the statement and the policy alone, as the noise of the integers is.
    """

    parts: tuple[tuple[tuple[int, int], float], ...]  # of a core and an atom, by their numbers: the factor
    more: float = 0.0  # by rounding

    def plus(self, other: Spread) -> Spread:
        """
        >>> Spread((((0, 1), 2.0),)).plus(Spread((((0, 1), 1.0), ((0, 2), 1.0)), 0.5))
        Spread(parts=(((0, 1), 3.0), ((0, 2), 1.0)), more=0.5)
        """
        factors = dict(self.parts)
        for atom, factor in other.parts:
            factors[atom] = factors.get(atom, 0.0) + factor
        return Spread(tuple(factors.items()), self.more + other.more)

    def times(self, factor: float) -> Spread:
        return Spread(tuple((atom, own * abs(factor)) for atom, own in self.parts), self.more * abs(factor))


NO_NOISE = Spread(())


class ParameterSlot:
    """A parameter of a statement. Its kind is declared, or learned from where it stands; its value comes later."""

    def __init__(self, name: str, example: Callable[[ParameterSlot], Value], kind: Kind | None = None) -> None:
        self.name = name
        self.kind = kind  # of an array, that of its elements
        self.type: str | None = None  # PostgreSQL's name of its type, where that is not its kind's
        self.many = False  # it is an array
        self._example = example
        self.value: Value | None = None  # what it is bound to; None while kinds are learned
        self.elements: list[Value] | None = None  # of an array that is bound and not NULL
        self.filled = False

    def bound(self) -> Value:
        """Its value; while there is none, one that stands for all of its kind."""
        return replace(self.value if self.value is not None else self._example(self), slot=self)

    def __deepcopy__(self, memo: dict[int, Any]) -> ParameterSlot:
        return self  # copies of a tree speak of the same parameter


class Learned(Exception):
    """The kind of a parameter has become known at a place that cannot go on without it: bind again."""


@dataclass(frozen=True)
class Value:
    """A bound expression: a tree that the gateway itself has built, and what is known of its values."""

    tree: exp.Expr
    kind: Kind
    bounds: Interval | None = None  # of numbers; of times in days since 1970, where the policy declares them
    keys: tuple[Any, ...] | None = None  # all values that it can take, where the policy declares them
    unit: bool = False  # it is the privacy unit, by lineage
    source: tuple[str, str] | None = None  # table and column that it is, unchanged
    clamped: bool = True  # its values lie within its bounds as they stand
    literal: Any = None  # of a literal, the Python value
    public: bool = False  # it depends on public tables and literals alone
    computed: bool = False  # the tree is a double, also where the numbers are whole
    slot: ParameterSlot | None = None  # the parameter that it is
    nothing: bool = False  # a parameter that is NULL
    stored: str | None = None  # PostgreSQL's name of the type that it is stored as, where that is not its kind's
    plain: exp.Expr | None = None  # as it is stored; the tree is then what is computed with
    noisy: bool = False  # of a column of noisy rows: it is no key, but has noise
    spreads: tuple[Spread, ...] | None = None  # of one with noise: how far it is moved, one for each side of a UNION
    size: int | None = None  # most characters of a text, where that is known
    uncut: bool = False  # a row may hold a longer text; the tree is then cut to `size`
    zoned: bool = False  # its times are moments, told in UTC: a zone beside them counts

    def renamed(self, tree: exp.Expr) -> Value:
        """The same values under another name, as an outer query sees them."""
        tree = weigh(tree, work_of(self.tree))
        made = replace(self, tree=tree, literal=None, slot=None)
        if self.stored is not None:
            made = replace(made, tree=as_computed(tree, self.stored), plain=tree)
        if self.uncut and self.size is not None:
            made = replace(made, tree=cut_text(made.tree, self.size), plain=tree)
        return made

    @property
    def whole(self) -> exp.Expr:
        """What is tested for equality, which takes no longer for a long text than for a short one."""
        if not self.uncut or self.plain is None:
            return self.tree
        return self.plain if self.stored is None else as_computed(self.plain, self.stored)

    @property
    def longest(self) -> int:
        """Most characters of a text."""
        if isinstance(self.literal, str):
            return len(self.literal)
        return 0 if self.kind != "text" else LONGEST_TEXT if self.size is None else self.size

    @property
    def shown(self) -> exp.Expr:
        """What a row of the answer holds."""
        return self.tree if self.plain is None else self.plain

    def learn(self, kind: Kind, type_name: str | None = None) -> bool:
        """Of a parameter whose kind is not known yet: it is this one, and of this type."""
        if self.slot is None or self.slot.kind is not None or kind in ("null", "opaque"):
            return False
        self.slot.kind, self.slot.type = kind, type_name
        return True

    @property
    def beside(self) -> str | None:
        """The type of a parameter that is compared with it, where that is not its kind's."""
        base = self.stored.split("(")[0] if self.stored is not None else "timestamptz" if self.zoned else None
        return None if base == "varchar" else base

    def as_kind(self, kind: Kind) -> Value:
        """Itself; of a parameter whose kind has just been learned, a value of that kind."""
        return self.slot.bound() if self.slot is not None and self.learn(kind) else self

    def must_be(self, kind: Kind) -> None:
        if self.learn(kind):
            raise Learned


@dataclass(frozen=True)
class Relation:
    """What can stand in FROM. A private one has a column UNIT, which names a person in every row."""

    tree: exp.Expr  # a query, or a table that is read by name
    columns: dict[str, Value]  # the trees are plain columns, to be qualified by the alias
    nature: Nature
    unique: bool = False  # at most one row a person, by a constraint of the database or by GROUP BY
    hidden: frozenset[str] = frozenset()
    table: str | None = None  # the table of the policy that it is, unchanged
    fanouts: tuple[exp.Select, ...] = ()  # of public tables inside: how many rows they make of one, multiplied
    privates: int = 0  # private tables inside, counted as often as they are read
    multiplied: bool = False  # a person's rows were multiplied by each other inside
    joined: int = 1  # rows that such joins make of one row, at most
    labels: tuple[str, ...] = ()  # of the columns, as a client sees them, where that is not their names

    @property
    def shown_names(self) -> tuple[str, ...]:
        return self.labels or tuple(self.columns)


def number(value: float) -> exp.Expr:
    """A literal as the engines read it exactly.

    >>> number(-2.0).sql(), number(0.5).sql(), number(10**6).sql()
    ('-2', '0.5', '1000000')
    """
    if not math.isfinite(value):
        raise Refused("a number is too large", hint="numbers of up to 18 digits are read")
    whole = value == int(value) and abs(value) < 1e18
    text = str(abs(int(value))) if whole else repr(abs(float(value)))
    literal = exp.Literal.number(text)
    return exp.Neg(this=literal) if value < 0 else literal


def clamp(tree: exp.Expr, low: float, high: float) -> exp.Expr:
    """Within bounds, for every input: NaN, which both engines sort above all numbers, becomes the upper bound.

    LEAST and GREATEST would turn NULL into a bound.

    >>> clamp(exp.column("x"), 0, 5).sql()
    'CASE WHEN x > 5 THEN 5 WHEN x < 0 THEN 0 ELSE x END'
    """
    return (
        exp.Case()
        .when(exp.GT(this=tree.copy(), expression=number(high)), number(high), copy=False)
        .when(exp.LT(this=tree.copy(), expression=number(low)), number(low), copy=False)
        .else_(tree.copy(), copy=False)
    )


def clamp_time(tree: exp.Expr) -> exp.Expr:
    """Between the years 1 and 9999: infinity, and years of six digits, would fail in one engine or the other."""
    low, high = (exp.cast(exp.Literal.string(text), exp.DataType.Type.DATE) for text in ("0001-01-01", "9999-12-31"))
    return (
        exp.Case()
        .when(exp.GT(this=tree.copy(), expression=high.copy()), high, copy=False)
        .when(exp.LT(this=tree.copy(), expression=low.copy()), low, copy=False)
        .else_(tree.copy(), copy=False)
    )


def day_number(moment: date) -> int:
    """
    >>> day_number(date(1970, 1, 2)), day_number(date(1969, 12, 31))
    (1, -1)
    """
    return moment.toordinal() - date(1970, 1, 1).toordinal()


def as_computed(tree: exp.Expr, stored: str) -> exp.Expr:
    """A column as the gateway computes with it, of how it is stored."""
    if stored == "timestamptz":
        return exp.Paren(this=exp.AtTimeZone(this=tree.copy(), zone=exp.Literal.string("UTC")))
    if stored == "uuid":
        return exp.cast(tree.copy(), exp.DataType.Type.TEXT)
    if stored.startswith("numeric"):
        # PostgreSQL's numeric holds what no double does, and a cast of that would fail. Beside DuckDB's
        # DECIMAL a whole number of many digits would.
        held = clamp(tree, -LARGEST, LARGEST)
        digits = int(stored.removesuffix(")").split(",")[1]) if "," in stored else None
        if (digits is None and stored == "numeric") or (digits is not None and digits > MOST_DIGITS):
            near = exp.LT(this=exp.Abs(this=tree.copy()), expression=exp.Literal.number(f"1e-{MOST_DIGITS}"))
            held = exp.Case().when(near, number(0), copy=False).else_(held, copy=False)
        return exp.cast(held, exp.DataType.Type.DOUBLE)
    return tree.copy()


def in_days(value: Value) -> Value:
    """A time as a whole number of days since 1970, within the bounds of the policy."""
    start = exp.cast(exp.Literal.string("1970-01-01"), exp.DataType.Type.DATE)
    day = exp.cast(clamp_time(value.tree), exp.DataType.Type.DATE)
    days = double(exp.Paren(this=exp.Sub(this=day, expression=start)))
    bounds = value.bounds or UNDECLARED
    if isinstance(value.literal, date):
        known = float(day_number(value.literal))
        bounds = Interval(known, known)
    return Value(clamp(days, bounds.low, bounds.high), "int", bounds, public=value.public, computed=True)


def drop_tiny_digits(tree: exp.Expr) -> exp.Expr:
    """A double without its digits below 1e-46: PostgreSQL fails on products that are too small for a double."""
    tiny = exp.Literal.number("1e-30")
    return exp.Paren(this=exp.Sub(this=exp.Paren(this=exp.Add(this=tree, expression=tiny)), expression=tiny.copy()))


def double(tree: exp.Expr) -> exp.Expr:
    return exp.cast(tree.copy(), exp.DataType.Type.DOUBLE, copy=False)


def operand(value: Value) -> exp.Expr:
    """A number for arithmetic: a double inside its bounds, so that nothing computed from it can fail."""
    if value.kind not in NUMBERS or value.bounds is None:
        raise Refused(f"arithmetic needs numbers, not a {value.kind}")
    if value.literal is not None:
        # A bare literal may be a DECIMAL to an engine, whose products overflow.
        return double(value.tree)
    # A tree that stands nowhere yet is taken as it is: a sum that is copied for each of its terms takes seconds.
    own = value.tree if value.tree.parent is None else value.tree.copy()
    tree = own if value.computed else double(value.tree)
    held = tree if value.clamped else clamp(tree, value.bounds.low, value.bounds.high)
    return drop_tiny_digits(held) if value.kind == "float" else held

"""The axes of the joint table: the values of each column, as the policy declares them and whatever the data hold.

Declared keys, true and false, or classes of equal width between declared bounds. A value outside of the bounds counts
as the nearer bound; a row with another key, or with NULL, is not counted, and takes nothing of its person's share.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from functools import cached_property
from typing import Any

import numpy as np
from sqlglot import exp

from sqlanon.errors import PolicyError, did_you_mean
from sqlanon.gateway.bind.catalog import Catalog
from sqlanon.gateway.bind.core import bounded_double
from sqlanon.gateway.bind.keys import typed_key
from sqlanon.gateway.bind.parameters import literal_of
from sqlanon.gateway.bind.sources import NamedRelation
from sqlanon.gateway.bind.values import (
    NUMBERS,
    TIMES,
    UNDECLARED,
    Interval,
    Kind,
    Value,
    clamp,
    double,
    in_days,
    number,
)
from sqlanon.policy.marginals import Marginals

MOST_VALUES = 10_000  # of one column
MOST_CELLS = 100_000  # of the joint, which is fitted as a whole
KINDS: dict[type, Kind] = {str: "text", int: "int", bool: "bool", date: "date", datetime: "timestamp"}
FIRST_DAY = date(1970, 1, 1)


@dataclass(frozen=True)
class Axis:
    """A column with all of its values, in order. Of classes, `labels` are their lower ends."""

    name: str
    kind: Kind
    labels: tuple[Any, ...]
    key: Value  # what rows are grouped by: the value itself, or the number of its class
    present: exp.Expr  # whether a row has one of the values
    classes: bool = False
    width: float = 0.0  # of a class
    high: Any = None  # upper bound of the last class

    def place(self, found: Any) -> int | None:
        """The place of what a row is grouped by among the labels; None if it is none of them after all."""
        if self.classes:
            return int(found) if 0 <= int(found) < len(self.labels) else None
        return self._places.get(found)

    @cached_property
    def _places(self) -> dict[Any, int]:
        return {label: place for place, label in enumerate(self.labels)}

    def drawn(self, places: np.ndarray[Any, Any], random: np.random.Generator) -> list[Any]:
        """A value for each place: of a class any of its values, all alike."""
        if not self.classes or (self.width == 1 and self.kind != "float"):
            return [self.labels[place] for place in places]
        lows = [_as_number(self.labels[place], self.kind) for place in places]
        top = _as_number(self.high, self.kind)
        shares = random.random(len(places))
        made = []
        for low, share in zip(lows, shares, strict=True):
            if self.kind == "float":
                made.append(low + share * (min(low + self.width, top) - low))
            else:  # whole numbers, and days
                made.append(low + math.floor(share * (min(low + self.width, top + 1) - low)))
        return [_as_kind(value, self.kind) for value in made]


def axes_of(section: Marginals, catalog: Catalog) -> tuple[NamedRelation, tuple[Axis, ...]]:
    """The relation that is counted, and its axes; whatever cannot be counted by is told with its line."""
    relation = catalog.base(section.table, section.who)
    if not section.gateway.allows(section.who, section.table):
        raise section.error(f"'{section.who}' may not use the table '{section.table}'", "table")
    named = NamedRelation(section.table, "r0", relation)
    axes = tuple(_axis(section, named, column) for column in section.columns)
    cells = math.prod(len(axis.labels) for axis in axes)
    if cells > MOST_CELLS:
        sizes = ", ".join(f"{axis.name} {len(axis.labels):,}" for axis in axes)
        raise section.error(
            f"all columns together have {cells:,} combinations of values, more than {MOST_CELLS:,}",
            "of",
            hint=f"give wider 'bins', fewer keys, or make marginals that share no column in two files ({sizes})",
        )
    return named, axes


def _axis(section: Marginals, named: NamedRelation, column: str) -> Axis:
    path = next((("of", name, place) for name, listed in section.of.items() for place, each in enumerate(listed)
                 if each == column), ("of",))  # fmt: skip
    if column in named.relation.hidden or column not in named.relation.columns:
        hidden = column in named.relation.hidden
        said = "is hidden" if hidden else f"is not there for '{section.who}', or not of a type that is answered"
        hint = None if hidden else did_you_mean(column, named.relation.columns)
        raise section.error(f"column '{column}' of '{section.table}' {said}", *path, hint=hint)
    value = named.value(column)
    if value.unit:
        raise section.error(f"'{column}' tells persons apart, and cannot be counted by", *path)
    width = section.bins.get(column)
    if value.keys is not None or value.kind == "bool":
        if width is not None:
            raise section.error(f"'{column}' has keys, and so no bins", "bins", column, hint="keep one of both")
        return _of_keys(section, column, value, path)
    if value.bounds is None or value.bounds == UNDECLARED:
        hint = f"add it to the columns of '{section.table}' in the gateway, with keys, or with low and high"
        raise section.error(f"the values of '{column}' are not declared", *path, hint=hint)
    try:
        return _of_classes(column, value, value.bounds, width)
    except PolicyError as error:
        raise section.error(error.message, *path, hint=error.hint) from None


def _of_keys(section: Marginals, column: str, value: Value, path: tuple[str | int, ...]) -> Axis:
    keys = value.keys if value.keys is not None else (False, True)
    given = KINDS[type(keys[0])]
    if given != value.kind and (given, value.kind) != ("date", "timestamp"):
        hint = "declare keys of the type of the column"
        raise section.error(
            f"the keys of '{column}' are of the kind {given}, the column is {value.kind}", *path, hint=hint
        )
    labels = tuple(typed_key(key, value.kind) for key in keys)
    among = exp.In(this=value.tree.copy(), expressions=[literal_of(key).tree for key in keys])
    return Axis(column, value.kind, labels, value, among)


def _of_classes(column: str, value: Value, bounds: Interval, width: float | None) -> Axis:
    whole = value.kind != "float"
    low, high = (math.floor(bounds.low), math.ceil(bounds.high)) if whole else (bounds.low, bounds.high)
    if width is None:
        if not whole:
            raise PolicyError(
                f"'{column}' is no whole number, and needs a width of classes", hint=f"add 'bins: {{{column}: …}}'"
            )
        width = 1
    if whole and width != int(width):
        raise PolicyError(f"the classes of '{column}' must be whole numbers wide", hint=f"{math.ceil(width)}, say")
    size = math.floor((high - low) / width) + 1 if whole else max(1, math.ceil((high - low) / width))
    if size > MOST_VALUES:
        hint = f"add 'bins: {{{column}: …}}' with a larger width, or narrower bounds"
        raise PolicyError(f"'{column}' has {size:,} values, more than {MOST_VALUES:,}", hint=hint)
    counted = in_days(value) if value.kind in TIMES else value
    above = exp.Sub(this=bounded_double(counted, Interval(low, high)), expression=number(low))
    share = exp.Div(this=exp.Paren(this=above), expression=double(number(width)))
    tree = exp.cast(clamp(exp.Floor(this=share), 0, size - 1), exp.DataType.Type.BIGINT, copy=False)
    present = exp.Not(this=exp.Is(this=value.tree.copy(), expression=exp.Null()))
    labels = tuple(_as_kind(low + place * width, value.kind) for place in range(size))
    return Axis(column, value.kind, labels, Value(tree, "int"), present, True, width, _as_kind(high, value.kind))


def _as_kind(value: float, kind: Kind) -> Any:
    if kind in NUMBERS:
        return int(value) if kind == "int" else float(value)
    day = FIRST_DAY + timedelta(days=int(value))
    return day if kind == "date" else datetime.combine(day, time())


def _as_number(value: Any, kind: Kind) -> float:
    if kind in NUMBERS:
        return float(value)
    return (value.date() if isinstance(value, datetime) else value).toordinal() - FIRST_DAY.toordinal()

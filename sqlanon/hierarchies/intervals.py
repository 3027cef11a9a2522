"""Numbers become bands: 33 -> [30, 35) -> [30, 40) -> *.

    hierarchies:
      age:
        intervals: {widths: [5, 10, 20], min: 0, max: 80}

Level i has bands of the i-th width, counted from `origin`; a band holds its lower edge and not its upper
one. Each width is a multiple of the one before, so that the bands nest. The level after the last width is
the root.

With `min`, what lies below is "<0" at every level from 1 up (bottom coding); with `max`, what lies at or
above it is ">=80" (top coding). Both must be edges of bands of every width.

It takes columns of any numeric type. A floating-point number counts as the decimal that it is printed as:
0.3 lies in [0.3, 0.4). NULL stays NULL below the root. NaN and the infinities are "not a number". Numbers
of more than 15 digits, with the decimals that the widths need, are not told apart: without `min` and `max`
they are "<-1000000000000000" or ">=1000000000000000".
"""

from __future__ import annotations

from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationInfo, field_validator, model_validator

from sqlanon.hierarchies import Hierarchy
from sqlanon.hierarchies._bands import EXACT_DIGITS, Scale, band, decimals, limit
from sqlanon.hierarchies._levels import root
from sqlanon.hierarchies._values import Number
from sqlanon.sqltree.labels import plain

MOST_DECIMALS = 9


def _exact(value: Decimal) -> Decimal:
    if abs(value) >= limit(0):
        raise ValueError(f"a number of more than {EXACT_DIGITS} digits cannot be kept exactly; use a smaller one")
    if decimals([value]) > MOST_DECIMALS:
        raise ValueError(f"{plain(value)} has too many decimals; use at most {MOST_DECIMALS}")
    return value


Exact = Annotated[Number, AfterValidator(_exact)]


class Params(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    widths: tuple[Exact, ...] = Field(
        min_length=1, description="Width of the bands of each level; each is a multiple of the one before."
    )
    origin: Exact = Field(Decimal(0), description="An edge of a band; all other edges are counted from it.")
    min: Exact | None = Field(None, description="What lies below is one band, '<min'.")
    max: Exact | None = Field(None, description="What lies here or above is one band, '>=max'.")

    @field_validator("widths")
    @classmethod
    def _bands_nest(cls, widths: tuple[Decimal, ...]) -> tuple[Decimal, ...]:
        if widths[0] <= 0:
            raise ValueError(f"{plain(widths[0])} is not a width; use a number greater than 0")
        for narrow, wide in pairwise(widths):
            if wide <= narrow or wide % narrow:
                raise ValueError(f"{plain(wide)} must be a larger multiple of {plain(narrow)}, the width before it")
        return widths

    @field_validator("min", "max")
    @classmethod
    def _is_an_edge(cls, end: Decimal | None, info: ValidationInfo) -> Decimal | None:
        if end is None:
            return None
        origin = info.data.get("origin", Decimal(0))
        for width in info.data.get("widths", ()):
            before = end - (end - origin) % width
            if before != end:
                before -= width if before > end else 0
                raise ValueError(
                    f"{plain(end)} is not an edge of the bands of width {plain(width)};"
                    f" use {plain(before)} or {plain(before + width)}, or change the widths"
                )
        return end

    @field_validator("max")
    @classmethod
    def _is_above_the_minimum(cls, end: Decimal | None, info: ValidationInfo) -> Decimal | None:
        low = info.data.get("min")
        if low is not None and end is not None and end <= low:
            raise ValueError(f"{plain(end)} is not greater than min, which is {plain(low)}; change one")
        return end

    @model_validator(mode="after")
    def _numbers_are_exact(self) -> Params:
        places = decimals(self._numbers())
        for value in self._numbers():
            if abs(value) >= limit(places):
                raise ValueError(
                    f"{plain(value)} is too large; with {places} decimals, use numbers below {limit(places)}"
                )
        return self

    def _numbers(self) -> list[Decimal]:
        return [value for value in (*self.widths, self.origin, self.min, self.max) if value is not None]

    def scale(self) -> Scale:
        places = decimals(self._numbers())
        low = Decimal(-limit(places)) if self.min is None else self.min
        high = Decimal(limit(places)) if self.max is None else self.max
        return Scale(low=low, high=high, decimals=places, origin=self.origin)


def build(params: Params, base: Path) -> Hierarchy:
    bands = tuple(band(params.scale(), width) for width in params.widths)
    return Hierarchy(height=len(bands) + 1, levels=(*bands, root("*")))

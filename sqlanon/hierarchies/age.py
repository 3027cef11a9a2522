"""Ages in years, as HIPAA Safe Harbor asks: 33 -> [30, 35) -> [30, 40) -> [20, 40) -> *.

    hierarchies:
      age:
        age:

Bands of 5, 10 and 20 years. All ages from `top` on are one group, ">=90", at every level from 1 up; the
band below it ends there ("[80, 90)"). Safe Harbor (45 CFR 164.514(b)(2)(i)(C)) allows no age over 89 to be
told, so `top` cannot be higher than 90, and such a column must not be released at level 0.

NULL stays NULL below the root; a negative age is "<0"; NaN and the infinities are "not a number". For other
bands, see `intervals`.
"""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from sqlanon.hierarchies import Hierarchy
from sqlanon.hierarchies._bands import Scale, band
from sqlanon.hierarchies._levels import root
from sqlanon.hierarchies._values import Integer

WIDTHS = (5, 10, 20)


class Params(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    top: Integer = Field(90, ge=20, le=90, multiple_of=10, description="From this age on all are one group.")


def build(params: Params, base: Path) -> Hierarchy:
    scale = Scale(low=Decimal(0), high=Decimal(params.top), decimals=0)
    # Clipped, since 90 is no edge of the bands of 20 years: [80, 100) would claim to hold those from 90 on.
    bands = tuple(band(scale, Decimal(width), clip=params.top % width != 0) for width in WIDTHS)
    return Hierarchy(height=len(bands) + 1, levels=(*bands, root("*")))

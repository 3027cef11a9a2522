"""Codes lose their last characters: 13053 -> 1305* -> 130** -> 13*** -> 1**** -> *.

    hierarchies:
      zip:
        prefix: {length: 5}

Each level replaces `step` more characters by `mask`, from the right end or, with `from: left`, from the
left. The label is as long as the code, so it tells how much is hidden. The level that would hide `length`
characters is the root. With `keep: 3`, the levels that would show fewer than 3 of `length` characters are
left out too.

A code of another length loses as many characters at each level as any other: of AB, level 1 shows A*, and
from level 2 on **. Empty text stays empty, NULL stays NULL below the root. Numbers count as their decimal
text, so a postal code that lost its leading zeros is a shorter code.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator
from sqlglot import exp

from sqlanon.hierarchies import Hierarchy, Level
from sqlanon.hierarchies._levels import root
from sqlanon.hierarchies._values import Integer
from sqlanon.sqltree.labels import call, join_text, minus, number, text


class Params(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    length: Integer = Field(ge=1, le=1000, description="How many characters the longest code has.")
    step: Integer = Field(1, ge=1, description="How many more characters each level hides.")
    mask: str = Field("*", min_length=1, max_length=1, description="What stands for a hidden character.")
    keep: Integer = Field(0, ge=0, description="How many of `length` characters stay visible below the root.")
    end: Literal["right", "left"] = Field(
        "right", alias="from", description="The end of the code from which characters are hidden."
    )

    @field_validator("keep")
    @classmethod
    def _hides_something(cls, keep: int, info: ValidationInfo) -> int:
        if keep >= info.data.get("length", keep + 1):
            raise ValueError(f"to keep {keep} of {info.data['length']} characters hides nothing; keep fewer")
        return keep

    def hidden(self) -> list[int]:
        """How many characters each level below the root hides.

        >>> Params(length=5, step=2).hidden(), Params(length=5, step=2, keep=1).hidden()
        ([2, 4], [2, 4])
        """
        most = self.length - max(self.keep, 1)
        return [level * self.step for level in range(1, most // self.step + 1)]


def _masked(count: int, params: Params) -> Level:
    def label(column: exp.Expr) -> exp.Expr:
        code = text(column)
        length = call("LENGTH", code)
        # As many masks as the code has characters, at most `count`.
        masks = call("SUBSTRING", params.mask * count, 1, length)
        if params.end == "left":
            return join_text(masks, call("SUBSTRING", code, count + 1))
        return join_text(call("SUBSTRING", code, 1, call("GREATEST", minus(length, number(count)), 0)), masks)

    return label


def build(params: Params, base: Path) -> Hierarchy:
    levels = tuple(_masked(count, params) for count in params.hidden())
    return Hierarchy(height=len(levels) + 1, levels=(*levels, root("*")))

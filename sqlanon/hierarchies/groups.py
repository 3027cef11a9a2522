"""Values in an order become groups of neighbours: M -> M..L -> XS..L -> *.

    hierarchies:
      size:
        groups: {order: [XS, S, M, L, XL, XXL], sizes: [2, 4]}

Level i has groups of the i-th size, counted from the first value; the last group may be smaller. A group is
labelled by its first and last value, or by its only one. The level after the last size is the root.

It is a lookup: NULL and a value that is not in `order` are refused.
"""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator, model_validator

from sqlanon.hierarchies import Hierarchy
from sqlanon.hierarchies._values import Integer, Scalar, not_nested

ROOT = "*"


class Params(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    order: tuple[Scalar, ...] = Field(min_length=2, description="All values, from low to high.")
    sizes: tuple[Integer, ...] = Field(
        min_length=1, description="How many neighbours a group has; each is a multiple of the one before."
    )

    @field_validator("order")
    @classmethod
    def _values_are_distinct(cls, order: tuple[str, ...]) -> tuple[str, ...]:
        if doubles := [value for value, times in Counter(order).items() if times > 1]:
            raise ValueError(f"'{doubles[0]}' is there twice; keep one")
        return order

    @field_validator("sizes")
    @classmethod
    def _groups_nest(cls, sizes: tuple[int, ...], info: ValidationInfo) -> tuple[int, ...]:
        if sizes[0] < 2:
            raise ValueError(f"a group of {sizes[0]} generalizes nothing; start with 2 or more")
        for small, large in pairwise(sizes):
            if large <= small or large % small:
                raise ValueError(f"{large} must be a larger multiple of {small}, the size before it")
        count = len(info.data.get("order", ())) or sizes[-1] + 1
        if sizes[-1] >= count:
            raise ValueError(f"a group of {sizes[-1]} holds all {count} values, as the root does; leave it out")
        return sizes

    @model_validator(mode="after")
    def _labels_are_distinct(self) -> Params:
        if twice := not_nested(_rows(self)):
            raise ValueError(f"the label '{twice}' stands for two groups; rename a value that has '..' in it")
        return self


def _rows(params: Params) -> tuple[tuple[str, ...], ...]:
    def label(position: int, size: int) -> str:
        first = position - position % size
        group = params.order[first : first + size]
        return group[0] if len(group) == 1 else f"{group[0]}..{group[-1]}"

    return tuple(
        (leaf, *(label(position, size) for size in params.sizes), ROOT) for position, leaf in enumerate(params.order)
    )


def build(params: Params, base: Path) -> Hierarchy:
    return Hierarchy(height=len(params.sizes) + 1, root=ROOT, rows=_rows(params))

"""Numbers beyond a limit become the limit: everyone above 120,000 has 120,000.

    transformations:
      - top_bottom_coding: {columns: [income], top: 120000, bottom: 0}

`top_value` and `bottom_value` may give another value to those beyond, such as their rounded mean. NULL stays NULL.

What it does not protect: values between the limits, which stay as they are; and those beyond are known to be so.
cite: Willenborg and de Waal 2001, Elements of Statistical Disclosure Control, 5.2
"""

from __future__ import annotations

from pydantic import Field, model_validator
from sqlglot import exp

from sqlanon.errors import PolicyError
from sqlanon.sqltree.draws import INTEGERS, nest_copy, number
from sqlanon.sqltree.tree import case, column
from sqlanon.transformations import Changed, Given
from sqlanon.transformations._params import Base, Columns, Number
from sqlanon.transformations._rows import require, select_rows


class Params(Base):
    columns: Columns = Field(description="Numeric columns.")
    top: Number | None = Field(None, description="The largest value that is shown.")
    bottom: Number | None = Field(None, description="The smallest value that is shown.")
    top_value: Number | None = Field(None, description="What stands for larger ones; 'top' if left out.")
    bottom_value: Number | None = Field(None, description="What stands for smaller ones; 'bottom' if left out.")

    @model_validator(mode="after")
    def _has_a_limit(self) -> Params:
        if self.top is None and self.bottom is None:
            raise ValueError("give 'top', 'bottom' or both")
        for limit, value in (("top", "top_value"), ("bottom", "bottom_value")):
            if getattr(self, limit) is None and getattr(self, value) is not None:
                raise ValueError(f"'{value}' needs '{limit}'")
        if self.top is not None and self.bottom is not None and self.top < self.bottom:
            raise ValueError(f"'top' is {self.top:g}, which is below 'bottom', {self.bottom:g}")
        if self.top is not None and self.top_value is not None and self.top_value < self.top:
            raise ValueError("'top_value' is below 'top': values beyond the limit would hide among others")
        if self.bottom is not None and self.bottom_value is not None and self.bottom_value > self.bottom:
            raise ValueError("'bottom_value' is above 'bottom': values beyond the limit would hide among others")
        return self


uses_secret = False


def change(params: Params, given: Given) -> Changed:
    require(given, params.columns, None, "which has no top or bottom")
    numbers = [params.top, params.bottom, params.top_value, params.bottom_value]
    changes = {}
    for name in params.columns:
        kind = given.columns[name]
        for value in numbers:
            if value is not None and kind.this in INTEGERS and not float(value).is_integer():
                raise PolicyError(f"'{name}' holds integers, {value:g} is none", hint="take a whole number")
        branches: list[tuple[exp.Expr, exp.Expr]] = []
        if params.top is not None:
            beyond = exp.GT(this=column(name, "t"), expression=number(params.top))
            branches.append((beyond, _as(params.top if params.top_value is None else params.top_value, kind)))
        if params.bottom is not None:
            beyond_it = exp.LT(this=column(name, "t"), expression=number(params.bottom))
            value = params.bottom if params.bottom_value is None else params.bottom_value
            branches.append((beyond_it, _as(value, kind)))
        changes[name] = case(*branches, default=column(name, "t"))
    return Changed(select_rows(given, changes, nest_copy(given.rows, "t")))


def _as(value: float, kind: exp.DataType) -> exp.Expr:
    return exp.Cast(this=number(value), to=kind.copy())

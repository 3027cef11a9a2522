"""Rows are put into groups of k or more that are alike, and each shows the mean of its group.

    transformations:
      - microaggregation: {columns: [income, expenses], k: 5}

Groups are made by MDAV (maximum distance to average vector) on standardized columns: around the row farthest from the
middle, and around the row farthest from that one, k rows each, again and again. So that the time grows with the number
of rows and not with its square, the table is first cut into blocks of at most `block` rows, across their longest
extent; `exact: true` takes all rows as one block, for tables of at most 5,000 rows. Integers show the mean as an
integer, other numbers to `decimals`. A NULL, NaN or infinity in one of the columns is refused.

With all quasi-identifiers among the columns, the release is k-anonymous by itself, without any hierarchy.

What it does not protect: other columns, and a sensitive value that all rows of a group share. Means of groups with an
outlier tell that there is one. Microaggregation of columns one by one leaves their combinations open: put all that an
attacker may know into one use.
cite: Domingo-Ferrer and Torra 2005, Ordinal, continuous and heterogeneous k-anonymity through microaggregation
"""

from __future__ import annotations

from pydantic import Field
from sqlglot import exp

from sqlanon.sqltree.draws import alias
from sqlanon.transformations import Changed, Given, Make
from sqlanon.transformations._exchange import store_rows
from sqlanon.transformations._groups import forbid_nulls, mean_of, not_finite, require_rows, standardize_points
from sqlanon.transformations._mdav import apply_groups, group_points, of_groups
from sqlanon.transformations._params import Base, Columns
from sqlanon.transformations._rows import require


class Params(Base):
    columns: Columns = Field(description="Numeric columns, which are grouped together.")
    k: int = Field(
        strict=True, ge=2, le=1000, description="Rows of a group, at least; less than twice as many at most."
    )
    exact: bool = Field(False, strict=True, description="Do not cut the table into blocks first.")
    block: int = Field(300, strict=True, ge=20, le=20_000, description="Most rows of a block.")
    decimals: int = Field(6, strict=True, ge=0, le=9, description="Decimals of results that are not integers.")

    def apart(self) -> bool:
        return False


uses_secret = False
COUNTS = True  # the number of rounds depends on the number of rows


def change(params: Params, given: Given) -> Changed:
    require(given, params.columns, None, "which has no mean")
    most = require_rows(given.records, params.k, params.exact, params.block)
    given, steps = store_rows(given)
    d = len(params.columns)
    steps += [*forbid_nulls(given, params.columns), *not_finite(given, params.columns)]
    start, made = standardize_points(given, params.columns)
    grouping, groups = group_points(given, start, d, params.k, most)
    averages = given.name("averages")
    means = [alias(mean_of(given, name, params.decimals), f"a{i}") for i, name in enumerate(params.columns, start=1)]
    steps += [*made, *grouping, Make(averages, of_groups(given, start, groups, means))]
    changes = {name: exp.column(f"a{i}", table="a") for i, name in enumerate(params.columns, start=1)}
    return Changed(apply_groups(given, start, groups, averages, changes), steps)

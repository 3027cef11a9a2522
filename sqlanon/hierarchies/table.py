"""A table of the database: one row for each value, one column for each level.

    hierarchies:
      city:
        table: {table: geo.cities, columns: [city, state, country]}

`columns` goes from the value to the most general label. Instead of a table, `query` is a SELECT, written in
`dialect`. Names are exact: PostgreSQL knows an unquoted name in lower case. All labels become text. A root
"*" is added, unless `add_root` is false: then the last column must hold one label only, the one that `root`
says.

It is a lookup: NULL and a value that has no row are refused. Rows without a
value are left out, and equal rows count once.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from pydantic import Field, ValidationInfo, field_validator
from sqlglot import exp

from sqlanon.hierarchies import Hierarchy
from sqlanon.hierarchies._source import TableSource, column
from sqlanon.sqltree.labels import string, text


class Params(TableSource):
    columns: tuple[str, ...] = Field(
        min_length=1, description="Column names, from the value to the most general label."
    )
    add_root: bool = Field(True, strict=True, description="Whether a level with one label for all is added on top.")
    root: str = Field("*", min_length=1, description="The label that covers all.")

    @field_validator("columns")
    @classmethod
    def _columns_are_distinct(cls, columns: tuple[str, ...]) -> tuple[str, ...]:
        if doubles := [name for name, times in Counter(columns).items() if times > 1]:
            raise ValueError(f"'{doubles[0]}' is there twice; keep one")
        return columns

    @field_validator("add_root")
    @classmethod
    def _has_levels(cls, add_root: bool, info: ValidationInfo) -> bool:
        if not add_root and len(info.data.get("columns", ())) == 1:
            raise ValueError("one column has no level above it; name a second column, or leave this out")
        return add_root


def build(params: Params, base: Path) -> Hierarchy:
    """The lookup, as a query.

    >>> print(build(Params(table="jobs", columns=["job"]), Path()).relation.sql("duckdb"))
    SELECT DISTINCT CAST("job" AS TEXT) AS level_0, CAST('*' AS TEXT) AS level_1 FROM "jobs" AS source WHERE NOT "job" IS NULL
    """  # noqa: E501 - the SQL is shown as it is
    labels: list[exp.Expr] = [text(column(name)) for name in params.columns]
    if params.add_root:
        labels.append(text(string(params.root)))
    relation = (
        exp.select(*(exp.alias_(label, f"level_{level}") for level, label in enumerate(labels)))
        .distinct()
        .from_(params.relation("source"))
        .where(column(params.columns[0]).is_(exp.null()).not_())
    )
    return Hierarchy(height=len(labels) - 1, root=params.root, relation=relation)

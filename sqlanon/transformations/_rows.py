"""What methods ask of the rows that they are given, and the rows that they give back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlglot import exp

from sqlanon.errors import PolicyError
from sqlanon.sqltree.draws import alias, is_number
from sqlanon.sqltree.tree import column
from sqlanon.transformations import KEY, ROW, Given


def select_rows(given: Given, changes: Mapping[str, exp.Expr], source: exp.Expr, owner: str = "t") -> exp.Select:
    """All columns from `source`, some of them changed, with ROW and KEY."""
    own = [column(ROW, owner), column(KEY, owner)]
    chosen = [alias(changes[name], name) if name in changes else column(name, owner) for name in given.columns]
    return exp.Select(expressions=[*own, *chosen], from_=exp.From(this=source))


def require(given: Given, names: Sequence[str], fits: bool | None, what: str) -> None:
    """Refuse columns of a type that a method cannot work on. `fits` None asks for numbers."""
    for name in names:
        kind = given.columns[name]
        if not (is_number(kind) if fits is None else fits):
            raise PolicyError(
                f"'{name}' is of type {kind.sql().lower()}, {what}", hint="take another column, or cast it in a query"
            )

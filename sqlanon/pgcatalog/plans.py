"""Queries whose columns are known, before they are written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from sqlglot import exp

from sqlanon.pgcatalog.bound_expression import Bound, safe
from sqlanon.pgcatalog.casts import Casts
from sqlanon.pgcatalog.kinds import NUMERIC, TEXT
from sqlanon.pgwire.types import PgType


class QueryPlan(Protocol):
    """A query whose columns are known. Their types may still be decided, as those of NULL and of 'text' are."""

    names: list[str]
    items: list[Bound]

    def take(self, place: int, kind: PgType) -> None: ...

    def tree(self) -> exp.Query: ...

    def settle(self) -> None:
        """What nothing decided is text."""
        for place, item in enumerate(self.items):
            if item.unknown:
                self.take(place, TEXT)


@dataclass
class SelectPlan(QueryPlan):
    names: list[str]
    items: list[Bound]
    casts: Casts
    select: exp.Select

    @property
    def bare(self) -> bool:
        """Whether it is one row of constants."""
        alone = not any(value for name, value in self.select.args.items() if name != "expressions")
        return alone and bool(self.items) and all(item.constant for item in self.items)

    def take(self, place: int, kind: PgType) -> None:
        item = self.casts.to(self.items[place], kind, explicit=False)
        self.items[place] = self.casts.level(item) if kind.oid == NUMERIC.oid else item

    def tree(self) -> exp.Query:
        named = [
            exp.Alias(this=safe(item.tree), alias=exp.to_identifier(f"c{place}"))
            for place, item in enumerate(self.items)
        ]
        self.select.set("expressions", named or [exp.Alias(this=exp.Null(), alias=exp.to_identifier("c0"))])
        return self.select


@dataclass
class ValuesPlan(QueryPlan):
    names: list[str]
    items: list[Bound]
    casts: Casts
    rows: list[list[Bound]]

    def take(self, place: int, kind: PgType) -> None:
        column = self.casts.alike([row[place] for row in self.rows], kind)
        for row, item in zip(self.rows, column, strict=True):
            row[place] = self.casts.level(item) if kind.oid == NUMERIC.oid else item
        self.items[place] = self.rows[0][place]

    def tree(self) -> exp.Query:
        return _table(self.rows)


@dataclass
class SetPlan(QueryPlan):
    """A chain of UNION, EXCEPT and INTERSECT, from left to right."""

    names: list[str]
    items: list[Bound]
    parts: list[QueryPlan]
    links: list[tuple[type[exp.SetOperation], bool]]  # between the parts: what, and whether DISTINCT
    others: dict[str, exp.Expr] = field(default_factory=dict)

    def take(self, place: int, kind: PgType) -> None:
        for part in self.parts:
            part.take(place, kind)
        self.items[place] = self.parts[0].items[place]

    def tree(self) -> exp.Query:
        rows = [part.items for part in self.parts if type(part) is SelectPlan and part.bare]
        if len(rows) == len(self.parts) > 1 and not self.others and set(self.links) == {(exp.Union, False)}:
            return _table(rows)  # drivers write lists of numbers so, as long as a result is wide
        first, *others = (_operand(part.tree()) for part in self.parts)
        for (kind, distinct), other in zip(self.links, others, strict=True):
            first = kind(this=first, expression=other, distinct=distinct)
        for name, value in self.others.items():
            first.set(name, value)
        return first  # type: ignore[return-value]


@dataclass
class WrappedPlan(QueryPlan):
    """A query in parentheses with an ORDER BY or LIMIT after them."""

    names: list[str]
    items: list[Bound]
    inner: QueryPlan
    others: dict[str, exp.Expr]

    def take(self, place: int, kind: PgType) -> None:
        self.inner.take(place, kind)
        self.items[place] = self.inner.items[place]

    def tree(self) -> exp.Query:
        made = exp.Select(expressions=[exp.Star()]).from_(
            exp.Subquery(this=self.inner.tree(), alias=exp.TableAlias(this=exp.to_identifier("w")))
        )
        for name, value in self.others.items():
            made.set(name, value)
        return made


def _table(rows: Sequence[Sequence[Bound]]) -> exp.Query:
    made = [exp.Tuple(expressions=[item.tree for item in row]) for row in rows]
    columns = [exp.to_identifier(f"c{place}") for place in range(len(rows[0]))]
    values = exp.Values(expressions=made, alias=exp.TableAlias(this=exp.to_identifier("v"), columns=columns))
    return exp.Select(expressions=[exp.Star()]).from_(values)


def _operand(tree: exp.Query) -> exp.Expr:
    plain = type(tree) is exp.Select and not any(tree.args.get(name) for name in ("order", "limit", "offset", "with_"))
    return tree if plain else exp.Subquery(this=tree)

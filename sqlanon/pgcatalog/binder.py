"""From a statement to a tree that DuckDB runs: every name is looked up and every type is known.

A node whose type has no rule is refused, and so is an argument of a node that its rule does not read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlglot import exp

from sqlanon.errors import Refused
from sqlanon.gateway.bind.scalars import argument_spelling, spelling
from sqlanon.pgcatalog.bound_expression import Bound
from sqlanon.pgcatalog.casts import Casts, Parameters
from sqlanon.pgcatalog.functions import Needs
from sqlanon.pgcatalog.kinds import BOOL, sql_name
from sqlanon.pgcatalog.lookups import Lookups
from sqlanon.pgcatalog.plans import QueryPlan
from sqlanon.pgcatalog.principal_view import View
from sqlanon.pgcatalog.scope import Field, SelectScope
from sqlanon.sqlfront.limits import MAX_CATALOG_DEPTH


@dataclass(frozen=True)
class SessionFacts:
    """What functions tell of the connection."""

    settings: Mapping[str, str]
    process: int = 0


@dataclass(frozen=True)
class Shared:
    """A query that WITH gives a name to."""

    alias: str
    columns: tuple[Field, ...]


@dataclass
class CatalogBinder:
    """Binds one statement. The rules are given to it, since they bind the parts of their nodes with it."""

    view: View
    lookups: Lookups
    session: SessionFacts
    parameters: Parameters
    rules: Rules
    bind_query: QueryRule
    needs: Needs = field(default_factory=Needs)
    shared: dict[str, Shared] = field(default_factory=dict)
    _names: int = 0
    _depth: int = 0

    @property
    def casts(self) -> Casts:
        return Casts(self.lookups, self.parameters)

    def fresh(self, letter: str) -> str:
        """A name that nothing else in the generated statement has."""
        self._names += 1
        return f"{letter}{self._names}"

    def expression(self, node: exp.Expr, scope: SelectScope) -> Bound:
        rule = self.rules.get(type(node))
        if rule is None:
            raise refusal(node)
        reads, bind = rule
        only(node, reads)
        self._depth += 1
        if self._depth > MAX_CATALOG_DEPTH:
            raise Refused("the statement is nested too deeply", sqlstate="54001")
        try:
            return bind(self, node, scope)
        finally:
            self._depth -= 1

    def condition(self, node: exp.Expr, scope: SelectScope) -> exp.Expr:
        item = self.expression(node, scope)
        if not item.unknown and item.type.oid != BOOL.oid:
            said = f"argument of a condition must be type boolean, not type {sql_name(item.type)}"
            raise Refused(said, sqlstate="42804")
        return self.casts.to(item, BOOL).tree

    def query(self, node: exp.Expr, scope: SelectScope | None) -> QueryPlan:
        self._depth += 1
        if self._depth > MAX_CATALOG_DEPTH:
            raise Refused("the statement is nested too deeply", sqlstate="54001")
        before = dict(self.shared)
        try:
            return self.bind_query(self, node, scope)
        finally:
            self.shared = before  # names of WITH end with the query that they stand before
            self._depth -= 1


# A rule for a kind of expression, with the arguments that it reads; and the one for queries.
Rule = Callable[[CatalogBinder, Any, SelectScope], Bound]
Rules = Mapping[type[exp.Expr], tuple[frozenset[str], Rule]]
QueryRule = Callable[[CatalogBinder, exp.Expr, SelectScope | None], QueryPlan]


def only(node: exp.Expr, reads: frozenset[str]) -> None:
    """Refuse what no rule would read: it must not be dropped in silence."""
    for name, value in node.args.items():
        if name not in reads and value not in (None, False, []):
            raise Refused(f"{argument_spelling(name)} in {spelling(node)} is not answered here", sqlstate="0A000")


def refusal(node: exp.Expr) -> Refused:
    return Refused(f"{spelling(node)} is not answered here", sqlstate="0A000")

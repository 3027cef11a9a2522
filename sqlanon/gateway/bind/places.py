"""Where an expression stands: among rows, in an aggregate for each person, in a private answer, or among visible rows.

It decides what aggregates, windows and columns mean there; `scalars` and its like bind the expressions themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from sqlanon.gateway.bind.aggregates import Aggregate, Answered
from sqlanon.gateway.bind.calls import call_of, holds_aggregate, is_aggregate
from sqlanon.gateway.bind.core import Core, key_reference
from sqlanon.gateway.bind.plain_aggregates import person_aggregate, plain_aggregate
from sqlanon.gateway.bind.scalars import bind, refusal
from sqlanon.gateway.bind.sources import FromRows
from sqlanon.gateway.bind.values import Value
from sqlanon.gateway.bind.windows import window
from sqlanon.policy.gateway import Gateway


@dataclass
class Place:
    """Where an expression stands: what aggregates and windows mean there."""

    rows: FromRows
    kind: str  # rows, plain, person or group
    policy: Gateway
    aggregate: Aggregate  # how the binder reads an aggregate of a core: with noise, or exactly
    core: Core | None = None
    keys: Sequence[Value] = ()
    bars: dict[int, Answered] = field(default_factory=dict)  # error bars, by the identity of the node
    grouped: bool = False  # plain rows are groups here
    answered: list[tuple[exp.Expr, Answered]] = field(default_factory=list)  # all aggregates of the core

    @property
    def dialect(self) -> str:
        return self.rows.dialect

    def column(self, node: exp.Column) -> Value:
        if self.kind in ("group", "person") or self.grouped:
            name = self.rows.full_name(node)
            said = f'column "{name}" must appear in the GROUP BY clause or be used in an aggregate function'
            raise refusal(node, said, sqlstate="42803")
        return self.rows.column(node)

    def special(self, node: exp.Expr) -> Value | None:
        if self.core is not None or self.kind == "person" or self.grouped:
            key = self._key(node)
            if key is not None:
                return key
        if type(node) is exp.Window:
            return self._window(node)
        if not is_aggregate(node):
            return None
        call = call_of(node, self.rows)
        assert call is not None
        if self.kind == "plain":
            return plain_aggregate(call, self.rows)
        if self.kind == "person":
            return person_aggregate(call, self.rows, self.policy.rows)
        if self.core is not None:
            found = self.aggregate(call, self.core, self.rows, self.policy)
            self.bars[id(node)] = found
            self.answered.append((node, found))
            return found.value
        raise refusal(node, "an aggregate is not allowed here", sqlstate="42803")

    def _window(self, node: exp.Window) -> Value:
        if self.kind == "person":
            raise refusal(node, "a window over persons compares them with each other", hint="use it inside a subquery")
        over_persons = self.kind == "rows" and self.rows.nature == "private"
        return window(node, self, self.rows if over_persons else None)

    def _key(self, node: exp.Expr) -> Value | None:
        """The key of the group that an expression is, or None."""
        if holds_aggregate(node) or node.find(exp.Window, exp.Query) or node.find(exp.Column) is None:
            return None
        written = bind(node, self.rows).tree.sql("duckdb")
        for place, key in enumerate(self.keys):
            if key.tree.sql("duckdb") == written:
                return key if self.core is None else key_reference(self.core, place)
        return None

"""Aggregates that trusted principals get exactly: COUNT, SUM and AVG of columns as they stand.

The query set of an aggregate is the persons with a row that it looks at: FILTER holds, and its argument is not NULL.
An expression inside SUM could single a person out among others who add nothing, or as much as everybody knows; so SUM
and AVG take a column of a private table, unchanged. They sum what is clamped to the bounds that the policy declares.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal

from sqlglot import exp

from sqlanon.gateway.bind.aggregates import ALL, Answered
from sqlanon.gateway.bind.calls import Call
from sqlanon.gateway.bind.conditions import condition
from sqlanon.gateway.bind.core import WIDEST_BOUNDS, Atom, Core, fixed_point, reference
from sqlanon.gateway.bind.scalars import Scope, bind, refusal
from sqlanon.gateway.bind.values import NUMBERS, UNDECLARED, Kind, Value, double, number
from sqlanon.policy.gateway import Gateway

ANSWERED = ("count", "count_distinct", "sum", "avg")
DIGITS = 53  # of a double


@dataclass(frozen=True)
class Measure:
    """A number of an answer: rows or persons of a query set, or the sum of a value over it."""

    kind: Literal["rows", "persons", "sum"]
    present: int  # which of the query sets
    value: int = 0  # which of the values, for a sum
    label: str = "count"  # what an audit adds up: all counts, or the sums of one column


@dataclass
class AggregateRequest:
    """What is asked of one core: conditions of its query sets, integers to sum, and a measure for each atom."""

    sets: list[exp.Expr] = field(default_factory=list)
    values: list[tuple[int, exp.Expr]] = field(default_factory=list)  # with their query sets
    measures: list[Measure] = field(default_factory=list)

    def present(self, tree: exp.Expr) -> int:
        for place, known in enumerate(self.sets):
            if known == tree:
                return place
        self.sets.append(tree)
        return len(self.sets) - 1

    def value(self, present: int, tree: exp.Expr) -> int:
        if (present, tree) not in self.values:
            self.values.append((present, tree))
        return self.values.index((present, tree))


class Exact:
    """Binds aggregates for a Binder, in place of `aggregates.answered`."""

    def __init__(self) -> None:
        self._asked: dict[int, AggregateRequest] = {}

    def of(self, core: Core) -> AggregateRequest:
        """What is asked of a core. That a group appears tells of all its persons: they are a query set too."""
        asked = self._asked.setdefault(core.number, AggregateRequest())
        if core.keys:
            asked.present(ALL.copy())
        return asked

    def __call__(self, call: Call, core: Core, rows: Scope, policy: Gateway) -> Answered:
        if call.name not in ANSWERED:
            hint = "COUNT, COUNT(DISTINCT person), SUM and AVG are"
            raise refusal(call.node, f"{call.name} is not answered exactly", hint=hint)
        if policy.functions is not None and call.name not in policy.functions:
            hint = f"it allows {', '.join(policy.functions)}"
            raise refusal(call.node, f"the policy does not allow {call.name}", hint=hint, sqlstate="42501")
        asked = self.of(core)
        value = bind(call.argument, rows) if call.argument is not None else None
        if call.name == "count_distinct":
            if value is None or not value.unit:
                hint = "COUNT(DISTINCT …) of the privacy unit is, and so is COUNT(*)"
                raise refusal(call.node, "distinct values are not answered exactly", hint=hint)
            present = asked.present(_present(None, call, rows))
            return _result(_measured(core, asked, Measure("persons", present)), "int")
        present = asked.present(_present(value, call, rows))
        counted = Measure("rows", present)
        if call.name == "count":
            return _result(_measured(core, asked, counted), "int")
        assert value is not None
        label = _summed(call, value)
        assert value.bounds is not None
        whole = value.kind == "int"
        quantum = 1.0 if whole else 2.0 ** (math.ceil(math.log2(max(value.bounds.size, 2.0**-60))) - DIGITS)
        tree = _flag(asked.sets[present], fixed_point(value, value.bounds, quantum, 0.0))
        total = _measured(core, asked, Measure("sum", present, asked.value(present, tree), label), quantum)
        if call.name == "sum":
            return _result(total, "int" if whole else "float")
        rows_tree = exp.Nullif(this=double(_measured(core, asked, counted)), expression=number(0))
        return _result(exp.Paren(this=exp.Div(this=double(total), expression=rows_tree)), "float")


def _summed(call: Call, value: Value) -> str:
    """The name of the column that is summed; refuses all that is not a bounded column of a private table."""
    if value.kind not in NUMBERS or value.bounds is None:
        raise refusal(call.node, f"{call.name.upper()}() needs numbers, not {value.kind}", sqlstate="42883")
    if value.source is None or value.public:
        hint = "sum a column as it stands, and choose persons with WHERE"
        raise refusal(call.node, f"{call.name.upper()}() of an expression is not answered exactly", hint=hint)
    if value.bounds.size > WIDEST_BOUNDS:
        hint = "have low and high declared for it in the policy"
        raise refusal(call.node, f"{call.name.upper()}() of a column without bounds is not answered", hint=hint)
    return ".".join(value.source)


def _present(value: Value | None, call: Call, rows: Scope) -> exp.Expr:
    tests = [condition(call.filter, rows).tree] if call.filter is not None else []
    if value is not None and value.kind == "null":
        tests.append(exp.Boolean(this=False))
    elif value is not None and value.literal is None:
        tests.append(exp.Not(this=exp.Is(this=value.tree.copy(), expression=exp.Null())))
    return exp.and_(*tests) if tests else ALL.copy()


def _flag(holds: exp.Expr, tree: exp.Expr) -> exp.Expr:
    return exp.Case().when(holds.copy(), tree, copy=False).else_(number(0), copy=False)


def _measured(core: Core, asked: AggregateRequest, measure: Measure, quantum: float = 1.0) -> exp.Expr:
    """The column of a measure in the table that holds the answer; an equal one is shared."""
    if measure not in asked.measures:
        asked.measures.append(measure)
        # Its tree is never written: it tells how much work the measure takes.
        tree = asked.values[measure.value][1] if measure.kind == "sum" else asked.sets[measure.present]
        core.atoms.append(Atom("exact", tree, quantum=quantum, label=f"exact {measure.kind}"))
    tree = reference(core, f"a{asked.measures.index(measure)}")
    if quantum == 1.0:
        return tree
    return exp.Paren(this=exp.Mul(this=double(tree), expression=double(number(quantum))))


def _result(tree: exp.Expr, kind: Kind) -> Answered:
    return Answered(Value(tree, kind, UNDECLARED, clamped=False, public=True, computed=kind == "float"))

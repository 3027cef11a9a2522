"""Counts what is drawn while a statement is answered, beside what the ledger charges for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from sqlanon.errors import SqlanonError
from sqlanon.gateway import Gate
from sqlanon.gateway.price.noise import Mechanisms
from sqlanon.mechanisms import Choice, Cost, KeySelection, Mechanism

TOLERANCE = 1e-9
ROOM = 0.5
T = TypeVar("T")


@dataclass
class DrawnNoise:
    """Mechanisms that note each time noise is drawn, and what that costs."""

    source: Mechanisms
    drawn: list[Cost] = field(default_factory=list)
    chosen: dict[int, Cost] = field(default_factory=dict)  # one choice a group costs what one choice costs

    @property
    def mechanisms(self) -> Mechanisms:
        return Mechanisms(self._laplace, self._gaussian, self._select_keys, self._choose_best)

    @property
    def cost(self) -> Cost:
        return sum((*self.drawn, *self.chosen.values()), Cost())

    def forget(self) -> None:
        self.drawn.clear()
        self.chosen.clear()

    def _noted(self, cost: Cost, draw: Callable[[Any], T]) -> Callable[[Any], T]:
        def drawing(values: Any) -> T:
            self.drawn.append(cost)
            return draw(values)

        return drawing

    def _laplace(self, sensitivity: int, epsilon: float) -> Mechanism:
        made = self.source.laplace(sensitivity, epsilon)
        return replace(made, add_noise=self._noted(made.cost, made.add_noise))

    def _gaussian(self, sensitivity: float, rho: float, delta: float) -> Mechanism:
        made = self.source.gaussian(sensitivity, rho, delta)
        own = replace(made.cost, delta=0.0)  # that of the conversion from rho is no charge of its own
        return replace(made, add_noise=self._noted(own, made.add_noise))

    def _select_keys(self, groups: int, minimum: int, epsilon: float, delta: float) -> KeySelection:
        made = self.source.select_keys(groups, minimum, epsilon, delta)
        return replace(made, select=self._noted(made.cost, made.select))

    def _choose_best(self, sensitivity: float, epsilon: float) -> Choice:
        made = self.source.choose_best(sensitivity, epsilon)

        def choose(scores: Sequence[int]) -> int:
            self.chosen[id(choose)] = made.cost
            return made.choose(scores)

        return replace(made, choose=choose)


def faults_of_charges(gate: Gate, drawn: DrawnNoise, sql: str, principal: str) -> list[str]:
    """Answer a statement twice, through all of the gate: what is drawn is charged, and the second time nothing is."""
    wrong = []
    try:
        _make_room(gate, principal)
        before = _charged(gate)
        drawn.forget()
        first = gate.answer(sql, principal)
        paid, spent = _difference(_charged(gate), before), drawn.cost
        if spent.rho > paid.rho * (1 + TOLERANCE) + TOLERANCE or spent.delta > paid.delta * (1 + TOLERANCE) + TOLERANCE:
            wrong.append("more noise is drawn than is charged")
        drawn.forget()
        again = gate.answer(sql, principal)
    except SqlanonError:
        return ["it fails, after it was charged"]
    if drawn.drawn or drawn.chosen or again.rows != first.rows:
        wrong.append("it has another answer when it is asked again")
    return wrong


def faults_of_limits(gate: Gate, drawn: DrawnNoise, statements: Sequence[str], principal: str) -> list[str]:
    """Ask all that a principal can pay for, and more: what is drawn in all stays below the limit of the policy."""
    limit, total = gate.limits(principal).epsilon, 0.0
    for sql in statements:
        drawn.forget()
        with suppress(SqlanonError):  # BudgetExhausted, most of all
            gate.answer(sql, principal)
        # Under zcdp epsilons do not add up; what the ledger makes of them does.
        basic = gate.policy.accounting == "basic"
        total = total + drawn.cost.epsilon if basic else gate.left(principal).spent.epsilon
        if limit is not None and total > float(limit) * (1 + 1e-6):
            return ["a principal spends more than the policy allows"]
    return []


def _make_room(gate: Gate, principal: str) -> None:
    """A delta of 1 in all is what a limit can be at most: what was spent of it is granted again."""
    spent = gate.left(principal).spent.delta
    if spent > ROOM:
        gate.ledger.grant(principal, Cost(0.0, spent), by="audit", reason="made-up data")


def _charged(gate: Gate) -> Cost:
    charges = [event for event in gate.ledger.history() if event.kind == "charge"]
    return sum((Cost(event.epsilon, event.delta, event.rho) for event in charges), Cost())


def _difference(one: Cost, other: Cost) -> Cost:
    return Cost(one.epsilon - other.epsilon, one.delta - other.delta, one.rho - other.rho)

"""What an agent may do at a gateway: see the tables, ask what a statement would cost, try it on made-up data, ask it.

Every answer goes through the gate, with the principal and the budget that the owner chose for the agent: no tool takes
the name of a principal.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

from sqlanon.cli.query import answer_document, error_text, notice
from sqlanon.errors import SqlanonError
from sqlanon.gateway import Answer, Gate
from sqlanon.gateway.price.budgets import standings
from sqlanon.gateway.price.prepared_statement import PricedStatement
from sqlanon.mechanisms import Cost
from sqlanon.policy.gateway_column import GatewayColumn

log = logging.getLogger("sqlanon")
MOST_ROWS = 1_000  # of one answer: what an agent reads, it pays for by the word
MOST_KEYS = 100  # of a column that are listed
LONGEST_STATEMENT = 20_000


class AgentError(Exception):
    """What an agent is told of a statement that is not answered."""


@dataclass(frozen=True)
class AgentTools:
    """The tools of one agent; `rehearsal` is a gate on made-up data, opened when it is first asked for."""

    gate: Gate
    principal: str
    rehearsal: Callable[[], Gate]
    _kept: dict[str, Gate] = field(default_factory=dict)
    _opening: threading.Lock = field(default_factory=threading.Lock)

    def list_tables(self) -> dict[str, Any]:
        """List the tables and columns that you may use in SQL, and who is protected. It is free.

        Of a private table only aggregates are answered, with noise; a public or released one is read row by row. A
        number is cut to its bounds; a column with keys can be grouped by without finding its keys in the data.
        """
        policy = self.gate.policy
        return {
            "protected": f"each {policy.unit.key} of {policy.unit.table}, with all of their rows",
            "tables": [self._table(name) for name in self.gate.catalog.names(self.principal)],
            "rows_of_one_person": policy.rows,
            "groups_of_one_person": policy.groups,
            "smallest_group": policy.minimum_group,
        }

    def explain(self, sql: str, epsilon: float | None = None) -> dict[str, Any]:
        """Say what a statement would cost and how noisy its answer would be, without asking it. It is free."""
        with agent_errors(sql):
            prepared = self.gate.prepare(require_statement(sql), self.principal, epsilon=epsilon)
            answer = self.gate.explain(prepared, self.principal)
        return {"cost": _cost(prepared.cost), "plan": [line for (line,) in answer.rows]}

    def dry_run(self, sql: str, epsilon: float | None = None) -> dict[str, Any]:
        """Answer a statement from made-up data of the same shape, to see that it works. It is free.

        The numbers mean nothing: they tell nothing of the real data.
        """
        with self._opening:
            if "rehearsal" not in self._kept:
                self._kept["rehearsal"] = self.rehearsal()
        return self._answer(self._kept["rehearsal"], sql, epsilon)

    def ask(self, sql: str, epsilon: float | None = None) -> dict[str, Any]:
        """Answer one SELECT. An answer about persons has noise and is charged to your budget, which is never given
        back: explain the statement first. The same statement again is free and has the same answer.

        `epsilon` is what to spend; more of it means less noise. Columns whose names end in _low and _high are error
        bars, which hold the exact value in 95 of 100 cases.
        """
        return self._answer(self.gate, sql, epsilon)

    def budget(self) -> dict[str, Any]:
        """Say what you may spend in this period, what you have spent, and what is left. It is free."""
        own = next(each for each in standings(self.gate.policy, self.gate.ledger) if each.principal == self.principal)
        amounts = {"limit": own.limit, "granted": own.granted, "left": own.left.left}
        renewal = own.left.renewal
        return {name: _cost(cost) for name, cost in amounts.items()} | {
            "renewal": renewal.isoformat() if renewal else None
        }

    @property
    def all(self) -> tuple[Callable[..., dict[str, Any]], ...]:
        return self.list_tables, self.explain, self.dry_run, self.ask, self.budget

    def close(self) -> None:
        for gate in (*self._kept.values(), self.gate):
            gate.close()

    def _answer(self, gate: Gate, sql: str, epsilon: float | None) -> dict[str, Any]:
        with agent_errors(sql):
            prepared = gate.prepare(require_statement(sql), self.principal, epsilon=epsilon, intervals=True)
            if prepared.relation.nature == "public" and not prepared.statement.explain:
                answer = _first_rows(gate, prepared)
            else:
                answer = gate.answer_prepared(prepared, self.principal)
        shown = replace(answer, rows=answer.rows[:MOST_ROWS], synthetic=gate is not self.gate)
        told = answer_document(shown) | {"notice": notice(shown, self.principal)}
        if len(answer.rows) > MOST_ROWS:
            told["cut"] = f"only the first {MOST_ROWS:,} rows are shown: group or filter more"
        return told

    def _table(self, name: str) -> dict[str, Any]:
        policy, columns = self.gate.policy, self.gate.catalog.schema.columns[name]
        declared = policy.tables[name].columns
        usable = {
            column.name: _column(column.type, declared.get(column.name, GatewayColumn()))
            for column in columns
            if policy.allows(self.principal, name, column.name)
            and not declared.get(column.name, GatewayColumn()).hidden
        }
        table = policy.tables[name]
        return {"name": name, "private": not (table.public or table.released), "columns": usable}


def _cost(cost: Cost) -> dict[str, float]:
    return {"epsilon": cost.epsilon, "delta": cost.delta}


def _column(kind: str, declared: GatewayColumn) -> dict[str, Any]:
    told: dict[str, Any] = {"type": kind}
    if declared.low is not None:
        told |= {"low": str(declared.low), "high": str(declared.high)}
    if declared.keys is not None:
        told["keys"] = [str(key) for key in declared.keys[:MOST_KEYS]]
        if len(declared.keys) > MOST_KEYS:
            told["more_keys"] = len(declared.keys) - MOST_KEYS
    return told


def _first_rows(gate: Gate, prepared: PricedStatement) -> Answer:
    """Of tables that are shown row by row no more is read than is passed on."""
    with closing(gate.plain_batches(prepared, MOST_ROWS + 1)) as batches:
        each = (row for batch in batches for row in zip(*(one.to_pylist() for one in batch.columns), strict=True))
        rows = tuple(islice(each, MOST_ROWS + 1))
    return Answer(prepared.columns, rows, Cost(), types=prepared.types, plain=True)


def require_statement(sql: str) -> str:
    if not sql.strip() or "\0" in sql or len(sql) > LONGEST_STATEMENT:
        raise AgentError(f"the SQL must be one SELECT of at most {LONGEST_STATEMENT:,} characters")
    return sql


@contextmanager
def agent_errors(sql: str) -> Iterator[None]:
    """Tell an agent what sqlanon says of a statement. Whatever else happens is told as nothing but a failure, because
    its text could hold data."""
    try:
        yield
    except AgentError:
        raise
    except SqlanonError as error:
        raise AgentError(error_text(error, sql)) from None
    except Exception as error:
        log.error("a statement of an agent failed: %s", type(error).__name__)
        raise AgentError("the statement could not be answered") from None

"""What a statement may spend and use: its own options, within the limits of the policy."""

from __future__ import annotations

import math
from typing import Any

from sqlanon.errors import Refused
from sqlanon.gateway.bind.read_statement import ParsedStatement
from sqlanon.gateway.price.noise import Limit
from sqlanon.policy.gateway import Gateway

# Of what the policy allows: whatever else a statement might tell, such as by failing, is not to be had for nothing.
LEAST = 0.01


def grant_budget(
    policy: Gateway, statement: ParsedStatement, epsilon: float | None, principal: str, *, by_error: bool = False
) -> tuple[float, float, Limit]:
    """What a statement asks for, within what the policy allows: a query can only lower it.

    `by_error`: an error is asked for, from which the epsilon will follow.
    """
    most, given = policy.budget.statement, statement.options
    if by_error and (epsilon is not None or "epsilon" in given):
        raise Refused(
            "an epsilon and an error are asked for together",
            hint="leave one out: the epsilon follows from the error (in a session, RESET sqlanon.epsilon)",
            sqlstate="22023",
        )
    asked = given.get("epsilon", epsilon if epsilon is not None else most.default)
    _within("epsilon", asked, most.epsilon)
    delta = given.get("delta", most.delta)
    if delta != most.delta:
        _within("delta", delta, most.delta)
    rows, groups = policy.rows, policy.groups
    named = given.get("privacy_unit_column")
    if named is not None and not (_sees_unit(policy, principal) and named.casefold() == policy.unit.key.casefold()):
        hint = f"it is {policy.unit.key}" if _sees_unit(policy, principal) else "leave privacy_unit_column out"
        raise Refused("only the policy chooses the privacy unit", hint=hint)
    rows = _whole("max_rows_contributed", given.get("max_rows_contributed", rows), rows)
    groups = _whole("max_groups_contributed", given.get("max_groups_contributed", groups), groups)
    return float(asked), float(delta), Limit(rows, groups, policy.minimum_group)


def _sees_unit(policy: Gateway, principal: str) -> bool:
    """Whether the name of the unit is that of a column which is there for a principal."""
    key = policy.unit.key
    holders = {name: table.unit for name, table in policy.tables.items()} | {policy.unit.table: key}
    return any(unit == key and policy.allows(principal, name, key) for name, unit in holders.items())


def _within(name: str, value: Any, most: float) -> None:
    if not isinstance(value, int | float) or not math.isfinite(value) or not LEAST * most <= value <= most:
        raise Refused(
            f"{name} is outside of what the policy allows a statement",
            hint=f"give {LEAST * most:g} to {most:g}",
            sqlstate="22023",
        )


def _whole(name: str, value: Any, most: int) -> int:
    if not 1 <= value <= most or value != int(value):
        raise Refused(f"{name} is outside of what the policy allows", hint=f"give 1 to {most}", sqlstate="22023")
    return int(value)

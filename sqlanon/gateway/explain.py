"""EXPLAIN: what a statement would run, how noisy its answer would be, and what it would cost. Free, without data."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from sqlanon.errors import Refused, number
from sqlanon.gateway.answer.paid_tables import CorePlan
from sqlanon.gateway.bind.catalog import Catalog
from sqlanon.gateway.controls.control_queries import plan
from sqlanon.gateway.price.budgets import limits_of
from sqlanon.gateway.price.error_target import column_errors
from sqlanon.gateway.price.mask_names import mask_names
from sqlanon.gateway.price.prepared_statement import Answer, PricedCore, PricedStatement
from sqlanon.gateway.price.statement_budget import LEAST
from sqlanon.gateway.price.value_range import RangedSum
from sqlanon.ledger import Ledger
from sqlanon.ledger.limits import Left, Limits
from sqlanon.mechanisms import Choice, Cost, Mechanism
from sqlanon.policy.gateway import Gateway
from sqlanon.sqlfront.explain_word import PLAN

KEYS = {
    "none": "no keys: one row, always",
    "declared": "the declared keys, all of them, also empty ones",
    "public": "the keys of a public table, all of them, also empty ones",
}


MORE = "(EXPLAIN VERBOSE shows the plan and the SQL)"


def explain_statement(
    prepared: PricedStatement,
    principal: str,
    catalog: Catalog,
    dialect: str,
    ledger: Ledger,
    plans: Sequence[CorePlan] = (),
    *,
    verbose: bool = False,
) -> Answer:
    """Cost, expected error, and how many such questions are left: one line each. With `verbose` also the plan.

    `plans` say what follows from noisy tables that were paid for.
    """
    verbose = verbose or prepared.statement.explain == "verbose"
    if prepared.judges:
        return _told(plan(prepared, principal, catalog, dialect, verbose=verbose))
    limits = limits_of(catalog.policy, principal)
    left = ledger.left(principal, limits)
    whole = prepared.cost
    if plans:
        cost = sum((each.cost for each in plans), Cost())
        prepared = replace(prepared, parts=tuple(each.shown for each in plans), cost=cost)
    first = _paid_line(prepared.cost, whole) if plans else _cost_line(prepared, ledger)
    lines = [first, _error_line(prepared), _left_line(prepared, principal, left, ledger, limits)]
    if prepared.threshold is not None:
        lines.append(f"Groups of fewer than about {prepared.threshold} persons are left out.")
    if not verbose:
        return _told([*lines, MORE], left)
    if prepared.relation.nature == "public":
        lines += ["", *_indented(prepared.tree.sql(dialect, pretty=True))]
        return _told(lines, left)
    for core in plans:
        known = [
            atom.label for own, atom in zip(core.atoms, core.part.core.atoms, strict=True) if own.found is not None
        ]
        lines += ["", *([f"{core.part.core.table}: paid for before: {', '.join(known)}"] if known else [])]
    for part in [each.buys for each in plans if each.buys is not None] if plans else prepared.parts:
        lines += ["", *_part(prepared, part, ledger)]
        for statement in part.statements:
            shown = mask_names(statement, catalog, principal)
            lines += ["  reads:", *_indented(shown.sql(dialect, pretty=True))]
    lines += ["", "From the noisy tables:", *_indented(prepared.tree.sql("duckdb", pretty=True))]
    return _told(lines, left)


def _cost_line(prepared: PricedStatement, ledger: Ledger) -> str:
    if prepared.relation.nature == "public":
        return "Cost: nothing; public or released tables only, answered as they are"
    if not prepared.parts:
        return "Cost: nothing; there is no row, whatever the data"
    if all(ledger.cached(part.cache_key) is not None for part in prepared.parts):
        return f"{_cost('Cost: nothing, it was answered before; that was', prepared.cost)}"
    return _cost("Cost", prepared.cost)


def _paid_line(cost: Cost, whole: Cost) -> str:
    if not cost.epsilon:
        return "Cost: nothing; it follows from noisy tables that were paid for"
    rest = f", of {number(whole.epsilon)}; the rest was paid for" if cost.epsilon < whole.epsilon else ""
    return _cost("Cost", cost) + rest


def _error_line(prepared: PricedStatement) -> str:
    """Half of the 95 % interval of each column with noise."""
    found = column_errors(prepared.relation, prepared.parts)
    if not found:
        return "Expected error: none, no column of the answer has noise"
    told = [f"{name} {f'±{number(error)}' if error is not None else 'depends on the data'}" for name, error in found]
    return f"Expected error, in 95 of 100 cases: {', '.join(told)}"


def _left_line(prepared: PricedStatement, principal: str, left: Left, ledger: Ledger, limits: Limits) -> str:
    said = _cost(f"Left to {principal}", left.left)
    until = f" until {left.renewal:%Y-%m-%d}" if left.renewal is not None else ""
    if not (prepared.cost.epsilon or prepared.cost.delta):
        return said + until
    count = questions_left(left, prepared.cost, limits)
    return f"{said}: {count:,} such question{'' if count == 1 else 's'}{until}"


def questions_left(left: Left, cost: Cost, limits: Limits) -> int:
    """How many statements of this cost fit into what is left.

    >>> limits = Limits(5.0, 1e-5)
    >>> questions_left(Left(Cost(), Cost(0.3, 1e-5), None), Cost(0.1, 0.0), limits)
    3
    >>> questions_left(Left(Cost(), Cost(0.3, 1e-5), None), Cost(0.1, 5e-6), limits)
    2
    """
    pairs = [(left.left.delta, cost.delta)]
    pairs += [(left.left.rho, cost.rho) if limits.accounting == "zcdp" else (left.left.epsilon, cost.epsilon)]
    # A tenth is no sum of doubles: three tenths hold three of them.
    return min(math.floor(rest / each * (1 + 1e-9)) for rest, each in pairs if each)


def choice_table(
    prepare: Callable[[float], PricedStatement], policy: Gateway, principal: str, ledger: Ledger
) -> tuple[list[str], list[list[str]]]:
    """What each epsilon would give a statement: the error of each column, and how many such questions are left."""
    limits = limits_of(policy, principal)
    left = ledger.left(principal, limits)
    most = policy.budget.statement.epsilon
    rows = []
    names: list[str] = []
    for epsilon in choices(LEAST * most, most):
        prepared = prepare(epsilon)
        if prepared.judges or not prepared.parts:
            raise Refused("an epsilon is chosen for statements about persons alone: this one costs nothing")
        errors = column_errors(prepared.relation, prepared.parts)
        names = [f"{name} ±" for name, _ in errors]
        told = [number(error) if error is not None else "?" for _, error in errors]
        rows.append([number(epsilon), *told, f"{questions_left(left, prepared.cost, limits):,}"])
    return ["epsilon", *names, "questions left"], rows


def choices(least: float, most: float) -> list[float]:
    """
    >>> choices(0.01, 1.0)
    [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0]
    """
    exponents = range(math.floor(math.log10(least)), math.ceil(math.log10(most)) + 1)
    found = [float(f"{digit}e{exponent}") for exponent in exponents for digit in (1, 2, 5)]
    return [least, *(each for each in found if least < each < most), most]


def _told(lines: Sequence[str], left: Left | None = None) -> Answer:
    return Answer((PLAN,), tuple((line,) for line in lines), Cost(), left, types=("text",), plain=True)


def _cost(label: str, cost: Cost) -> str:
    said = f"{label}: epsilon {number(cost.epsilon)}"
    return said + (f", delta {cost.delta:.3g}" if cost.delta else "")


def _part(prepared: PricedStatement, part: PricedCore, ledger: Ledger) -> list[str]:
    core, noise = part.core, part.noise
    cached = ledger.cached(part.cache_key) is not None
    lines = [f"{core.table}: " + ("answered before, free" if cached else _cost("cost", noise.cost))]
    if noise.keys is not None:
        keys = noise.keys
        lines.append(
            f"  keys: private; a key needs {keys.minimum} persons, and at least {keys.threshold} after noise "
            f"of scale {number(keys.scale)}"
        )
    else:
        lines.append(f"  keys: {KEYS[core.mode]}")
    bound = "one row a person, by a constraint of the database"
    if not core.unique:
        bound = f"at most {prepared.limit.rows} rows and {prepared.limit.groups} groups a person"
    lines.append(f"  a person: {bound}")
    for atom, mechanism, reach in zip(core.atoms, noise.atoms, noise.sensitivities, strict=True):
        lines.append(f"  {atom.label}: {_described(mechanism, reach, atom.quantum)}")
    return lines


def _described(mechanism: Mechanism | Choice | RangedSum | None, reach: int, quantum: float) -> str:
    if mechanism is None:
        return "the noisy number of persons that the keys are chosen by, at no further cost"
    if isinstance(mechanism, RangedSum):
        return (
            f"bounds are found with noise, epsilon {number(mechanism.histogram.cost.epsilon)}, as powers of two; "
            f"the sum within them, epsilon {number(mechanism.total.cost.epsilon)}"
        )
    shown = f"one person moves it by {number(reach * quantum)}, noise of scale {number(mechanism.scale * quantum)}"
    if isinstance(mechanism, Choice):
        return f"chosen among public candidates, epsilon {number(mechanism.cost.epsilon)}"
    return f"{shown}, 95 % within ±{number(mechanism.half_width() * quantum)}, epsilon {number(mechanism.cost.epsilon)}"


def _indented(text: str) -> list[str]:
    return [f"    {line}" for line in text.splitlines()]

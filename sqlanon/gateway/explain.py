"""EXPLAIN: what a statement would run, how noisy its answer would be, and what it would cost. Free, without data."""

from __future__ import annotations

from collections.abc import Sequence

from sqlanon.errors import number
from sqlanon.gateway.bind.catalog import Catalog
from sqlanon.gateway.controls.control_queries import plan
from sqlanon.gateway.price.budgets import limits_of
from sqlanon.gateway.price.mask_names import mask_names
from sqlanon.gateway.price.prepared_statement import Answer, PricedCore, PricedStatement
from sqlanon.ledger import Ledger
from sqlanon.ledger.limits import Left
from sqlanon.mechanisms import Choice, Cost, Mechanism
from sqlanon.sqlfront.explain_word import PLAN

KEYS = {
    "none": "no keys: one row, always",
    "declared": "the declared keys, all of them, also empty ones",
    "public": "the keys of a public table, all of them, also empty ones",
}


def explain_statement(
    prepared: PricedStatement, principal: str, catalog: Catalog, dialect: str, ledger: Ledger
) -> Answer:
    lines: list[str] = []
    if prepared.relation.nature == "public":
        lines += ["Public or released tables only: answered as they are, at no cost.", ""]
        lines += _indented(prepared.tree.sql(dialect, pretty=True))
    elif prepared.judges:
        return _told(plan(prepared, principal, catalog, dialect))
    else:
        lines.append(_cost("Cost", prepared.cost))
        for part in prepared.parts:
            lines += ["", *_part(prepared, part, ledger)]
            for statement in part.statements:
                shown = mask_names(statement, catalog, principal)
                lines += ["  reads:", *_indented(shown.sql(dialect, pretty=True))]
        lines += ["", "From the noisy tables:", *_indented(prepared.tree.sql("duckdb", pretty=True))]
    left = ledger.left(principal, limits_of(catalog.policy, principal))
    lines += ["", _cost(f"Left to {principal}", left.left)]
    return _told(lines, left)


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


def _described(mechanism: Mechanism | Choice | None, reach: int, quantum: float) -> str:
    if mechanism is None:
        return "the noisy number of persons that the keys are chosen by, at no further cost"
    shown = f"one person moves it by {number(reach * quantum)}, noise of scale {number(mechanism.scale * quantum)}"
    if isinstance(mechanism, Choice):
        return f"chosen among public candidates, epsilon {number(mechanism.cost.epsilon)}"
    return f"{shown}, 95 % within ±{number(mechanism.half_width() * quantum)}, epsilon {number(mechanism.cost.epsilon)}"


def _indented(text: str) -> list[str]:
    return [f"    {line}" for line in text.splitlines()]

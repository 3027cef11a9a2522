"""Attacks on tables whose values were changed: bounds, averages, and what a difference gives away."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from sqlanon.policy.statistics import StatisticsPolicy
from sqlanon.statistics.changed_tables import box_values
from sqlanon.statistics.interval_attacks import TableAttack, as_holding, as_outsider, as_singleton, bound_cells
from sqlanon.statistics.least_squares import LeastSquares
from sqlanon.statistics.perturbation_table import perturbation_table
from sqlanon.statistics.protection_task import ReadTables
from sqlanon.statistics.table_system import Flags, Numbers, Task

# What can be tried on which method. Bounds are those of everybody, and of contributors who know their own amounts.
ATTACKS: Mapping[str, tuple[str, ...]] = {
    "rounding": ("rounding_bounds", "singleton", "holding", "differencing"),
    "random_rounding": ("rounding_bounds", "singleton", "holding", "averaging", "differencing"),
    "adjustment": ("two_values",),
    "cell_key": ("constraints", "singleton", "holding", "averaging", "differencing"),
}
MOST_AVERAGED = 500  # unsafe cells of which the variance of an estimate is computed
SURE = 1.959964  # standard deviations on both sides hold 95 % of normal noise


def attack_changes(
    policy: StatisticsPolicy, read: ReadTables, values: Numbers, other: Numbers | None, names: Sequence[str]
) -> tuple[list[TableAttack], dict[str, str]]:
    """What the attacks achieve, and those that were not tried, with the reason. `other` is what another release of the
    same records shows."""
    done, not_judged = [], {}
    for name in names:
        if name in ("rounding_bounds", "constraints"):
            done.append(_bound(name, as_outsider(box_values(policy, read.task, values))))
        elif name == "singleton":
            done.append(_bound(name, as_singleton(box_values(policy, read.task, values))))
        elif name == "holding":
            done.append(_bound(name, as_holding(box_values(policy, read.task, values))))
        elif name == "averaging":
            done.append(average(policy, read.task, values))
        elif name == "two_values":
            done.append(find_pairs(read.task, values))
        elif policy.protect.cell_key is not None:
            done.append(find_occupied(read.task, [values] if other is None else [values, other]))
        elif other is None:
            not_judged[name] = "needs --other, another release of the same records"
        else:
            done.append(_bound(name, as_holding(_both(box_values(policy, read.task, values), policy, other))))
    return done, not_judged


def _bound(name: str, task: Task) -> TableAttack:
    return bound_cells(name, task, np.ones(task.system.places, dtype=bool))


def _both(task: Task, policy: StatisticsPolicy, other: Numbers) -> Task:
    """The task for who also has another release of the same records."""
    second = box_values(policy, task, other).system
    low, high = np.maximum(task.system.low, second.low), np.minimum(task.system.high, second.high)
    return replace(task, system=replace(task.system, low=low, high=high))


def average(policy: StatisticsPolicy, task: Task, values: Numbers) -> TableAttack:
    """The least-squares estimate from all totals and parts. Broken is an unsafe cell whose estimate, with 95 of 100
    certainty, is closer than its rules ask for; known exactly is one of these whose rounded estimate is its value."""
    seen: Flags = np.isfinite(values)
    averaging = LeastSquares(task.system, seen)
    variance = noise_variance(policy, task)
    cells = task.primaries.cell[:MOST_AVERAGED]
    factors = averaging.variances(cells.tolist())
    estimate = averaging.estimate(values)
    broken = exact = 0
    widths = []
    for primary, cell in enumerate(cells.tolist()):
        width = 2 * SURE * float(np.sqrt(factors[cell] * variance))
        if width < float(task.primaries.lower[primary] + task.primaries.upper[primary]):
            broken += 1
            exact += round(estimate[cell]) == round(float(task.system.value[cell]))
            widths.append(width / max(float(task.system.value[cell]), 1e-9))
    least = variance * min(factors.values(), default=1.0)
    about = f"noise of variance {variance:.3g}, {least:.3g} after averaging where that helps most"
    if len(task.primaries) > len(cells):
        about += f"; of the {len(cells):,} first unsafe cells"
    return TableAttack("averaging", broken, exact, min(widths, default=None), about)


def noise_variance(policy: StatisticsPolicy, task: Task) -> float:
    """Of the noise of a cell that is not small."""
    if policy.protect.cell_key is not None:
        return perturbation_table(policy.protect.cell_key, policy.base).variance
    assert policy.protect.random_rounding is not None
    base = policy.protect.random_rounding.base
    over = np.mod(task.system.value[~task.system.known], base)
    return float((over * (base - over)).mean()) if len(over) else 0.0


def find_pairs(task: Task, values: Numbers) -> TableAttack:
    """Whoever knows the levels tests the two values that lie a level away: broken is an unsafe cell that has one of
    them. Which of the two it has stays open."""
    own = task.primaries
    moved = values[own.cell] - task.system.value[own.cell]
    size = 1e-6 * np.maximum(1.0, np.abs(task.system.value[own.cell]))
    hit = (np.abs(moved - own.upper) <= size) | (np.abs(moved + own.lower) <= size)
    widths = (own.upper + own.lower)[hit] / np.maximum(task.system.value[own.cell][hit], 1e-9)
    share = hit.mean() if len(hit) else 0.0
    return TableAttack(
        "two_values", int(hit.sum()), 0, float(widths.min()) if hit.any() else None,
        f"{share:.0%} of unsafe cells have one of two values for whoever knows the levels",
    )  # fmt: skip


def find_occupied(task: Task, shown: Sequence[Numbers]) -> TableAttack:
    """The same people have the same noise: where a total differs from one of its two parts, somebody is in the other.
    Broken is an unsafe cell that is shown as 0, and must be the one that somebody is in."""
    system = task.system
    unsafe = set(task.primaries.cell.tolist())
    parts: dict[int, list[int]] = {}
    totals: dict[int, int] = {}
    for row, cell, sign in zip(system.rows.tolist(), system.columns.tolist(), system.signs.tolist(), strict=True):
        if sign < 0:
            totals[row] = cell
        else:
            parts.setdefault(row, []).append(cell)
    found = set()
    for values in shown:
        for row, total in totals.items():
            both = parts[row]
            if len(both) != 2 or not np.isfinite(values[[total, *both]]).all():
                continue
            for one, rest in (both, both[::-1]):
                if values[total] != values[one] and values[rest] == 0:
                    found.add(rest)
    broken = found & unsafe
    about = "cells that are shown as empty, and are not" if broken else ""
    return TableAttack("differencing", len(broken), 0, None, about)

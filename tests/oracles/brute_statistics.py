"""Tables of statistics in plain, slow Python: cells by going through all records, rules as books write them, and the
attacker as one linear program a cell over all cells (by scipy), patterns by trying all of them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from scipy.optimize import linprog

Row = Mapping[str, Any]


def cells(
    rows: Sequence[Row], by: Sequence[str], paths: Mapping[str, Callable[[Any], Sequence[str]]]
) -> dict[tuple[str, ...], list[Row]]:
    """The records of each cell that has some."""
    found: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        for nodes in itertools.product(*(dict.fromkeys(paths[column](row[column])) for column in by)):
            found.setdefault(nodes, []).append(row)
    return found


def contributors(rows: Sequence[Row], of: str, who: str | None) -> list[tuple[Any, Fraction]]:
    """Who brought how much, the largest first."""
    amounts: dict[Any, Fraction] = {}
    for number, row in enumerate(rows):
        key = number if who is None else row[who]
        amounts[key] = amounts.get(key, Fraction(0)) + Fraction(row[of])
    return sorted(amounts.items(), key=lambda item: -item[1])


def minimum_frequency(amounts: Sequence[Fraction], *, n: int) -> bool:
    return 0 < len(amounts) < n


def p_percent(amounts: Sequence[Fraction], *, p: float) -> bool:
    """The one who comes second takes away their own amount from the total, and has an estimate of the first."""
    if sum(amounts) == 0:
        return False
    second = amounts[1] if len(amounts) > 1 else 0
    estimate = sum(amounts) - second
    return estimate - amounts[0] < Fraction(p) / 100 * amounts[0]


def pq(amounts: Sequence[Fraction], *, p: float, q: float) -> bool:
    if sum(amounts) == 0:
        return False
    others = sum(amounts[2:])
    return Fraction(q) / 100 * others < Fraction(p) / 100 * amounts[0]


def nk_dominance(amounts: Sequence[Fraction], *, n: int, k: float) -> bool:
    return sum(amounts) > 0 and sum(amounts[:n]) > Fraction(k) / 100 * sum(amounts)


def p_percent_waived(amounts: Sequence[Fraction], waived: Sequence[bool], *, p: float) -> bool:
    """Somebody who has not waived can be estimated too well by the largest of the others."""
    total = sum(amounts)
    for place, amount in enumerate(amounts):
        others = [*amounts[:place], *amounts[place + 1 :]]
        if not waived[place] and total - amount - max(others, default=0) < Fraction(p) / 100 * amount:
            return True
    return False


def largest_units(amounts: Sequence[tuple[float, float]], n: int) -> float:
    """The n largest units of the population, of (amount, weight)."""
    found, left = 0.0, float(n)
    for amount, weight in sorted(amounts, reverse=True):
        found += amount * min(weight, left)
        left -= min(weight, left)
    return found


def interval(
    value: Sequence[float], equations: Sequence[tuple[int, Sequence[int]]], hidden: Sequence[bool], cell: int,
    low: Sequence[float], high: Sequence[float],
) -> tuple[float, float]:  # fmt: skip
    """What everybody can say of a cell."""
    matrix = np.zeros((len(equations), len(value)))
    for row, (total, parts) in enumerate(equations):
        matrix[row, total] = -1
        for part in parts:
            matrix[row, part] = 1
    bounds = [
        (low[i], None if np.isinf(high[i]) else high[i]) if hidden[i] else (value[i], value[i])
        for i in range(len(value))
    ]
    ends = []
    for sign in (1, -1):
        cost = np.zeros(len(value))
        cost[cell] = sign
        found = linprog(cost, A_eq=matrix, b_eq=np.zeros(len(equations)), bounds=bounds)
        ends.append(sign * found.fun if found.status == 0 else -sign * np.inf)
    return float(ends[0]), float(ends[1])


def is_safe(
    value: Sequence[float], equations: Sequence[tuple[int, Sequence[int]]], hidden: Sequence[bool],
    levels: Sequence[tuple[int, float, float]], low: Sequence[float], high: Sequence[float],
) -> bool:  # fmt: skip
    for cell, lower, upper in levels:
        below, above = interval(value, equations, hidden, cell, low, high)
        if below > value[cell] - lower + 1e-6 or above < value[cell] + upper - 1e-6:
            return False
    return True


def cheapest(
    value: Sequence[float], equations: Sequence[tuple[int, Sequence[int]]],
    levels: Sequence[tuple[int, float, float]], low: Sequence[float], high: Sequence[float],
) -> float | None:  # fmt: skip
    """The least sum of values that must be hidden beside the unsafe cells; None if nothing protects these."""
    unsafe = {cell for cell, _, _ in levels}
    others = [cell for cell in range(len(value)) if cell not in unsafe and high[cell] > low[cell]]
    patterns = []
    for size in range(len(others) + 1):
        for chosen in itertools.combinations(others, size):
            patterns.append((sum(value[cell] for cell in chosen), chosen))
    for cost, chosen in sorted(patterns):
        hidden = [cell in unsafe or cell in chosen for cell in range(len(value))]
        if is_safe(value, equations, hidden, levels, low, high):
            return float(cost)
    return None

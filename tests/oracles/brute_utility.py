"""Measures of utility from their definitions, with numpy and plain loops: written apart from the package."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

Table = np.ndarray  # rows by columns, NaN where there is nothing


def il1s(original: Table, released: Table) -> float:
    total, cells = 0.0, 0
    for j in range(original.shape[1]):
        known = original[:, j][~np.isnan(original[:, j])]
        if len(known) < 2 or known.min() == known.max():
            continue
        for x, y in zip(original[:, j], released[:, j], strict=True):
            if not math.isnan(x):
                unit = math.sqrt(2) * known.std(ddof=1)
                # A hidden cell may be any value of the column.
                total += max(1, max(abs(x - end) for end in known) / unit) if math.isnan(y) else abs(x - y) / unit
                cells += 1
    return total / cells


def cells(original: Table, released: Table) -> tuple[float, float]:
    """Mean square and mean absolute error over the cells that the source has; a hidden one may be either end."""
    apart = []
    for j in range(original.shape[1]):
        known = [x for x in original[:, j] if not math.isnan(x)]
        apart += [
            max(abs(x - end) for end in known) if math.isnan(y) else abs(x - y)
            for x, y in zip(original[:, j], released[:, j], strict=True)
            if not math.isnan(x)
        ]
    return sum(d * d for d in apart) / len(apart), sum(apart) / len(apart)


def covariance(table: Table, i: int, j: int) -> float:
    """Of the rows that have both."""
    both = ~np.isnan(table[:, i]) & ~np.isnan(table[:, j])
    return float(np.cov(table[both, i], table[both, j])[0, 1]) if both.sum() > 1 else math.nan


def correlation(table: Table, i: int, j: int) -> float | None:
    """Of the rows that have both; None where they tell none."""
    both = ~np.isnan(table[:, i]) & ~np.isnan(table[:, j])
    x, y = table[both, i], table[both, j]
    known = len(x) > 1 and x.min() < x.max() and y.min() < y.max()
    return float(np.corrcoef(x, y)[0, 1]) if known else None


def correlations(table: Table) -> Table:
    """With 0 where there is none."""
    p = table.shape[1]
    return np.array([[1.0 if i == j else correlation(table, i, j) or 0.0 for j in range(p)] for i in range(p)])


def probabilistic(original: Table, released: Table) -> dict[str, float]:
    """Each statistic with its sampling variance, from the rows themselves."""

    def loss(apart: float, variance: float) -> float:
        if math.isnan(apart):
            return 1.0
        if abs(apart) < 1e-9:
            return 0.0
        if variance <= 0:
            return 1.0
        z = abs(apart) / math.sqrt(variance)
        return 2 * (0.5 * (1 + math.erf(z / math.sqrt(2))) - 0.5)

    p = original.shape[1]
    centred = original - np.nanmean(original, axis=0)
    kinds = ("quantiles", "means", "variances", "covariances", "correlations")
    found: dict[str, list[float]] = {name: [] for name in kinds}
    for i in range(p):
        x = np.sort(original[:, i][~np.isnan(original[:, i])])
        y = np.sort(released[:, i][~np.isnan(released[:, i])])
        found["means"].append(loss(y.mean() - x.mean() if len(y) else math.nan, x.var(ddof=1) / len(x)))

        def quantile(values: Table, step: int) -> float:
            return float(values[math.ceil(step * len(values) / 20) - 1]) if len(values) else math.nan

        for step in range(1, 20):
            low, high = max(step - 1, 1), min(step + 1, 19)
            inverse = (quantile(x, high) - quantile(x, low)) / ((high - low) / 20)
            variance = step / 20 * (1 - step / 20) * inverse**2 / len(x)
            found["quantiles"].append(loss(quantile(y, step) - quantile(x, step), variance))
        for j in range(i, p):
            both = ~np.isnan(centred[:, i]) & ~np.isnan(centred[:, j])
            u, v = centred[both, i], centred[both, j]
            m = len(u)
            own = float(np.mean((u - u.mean()) * (v - v.mean())))
            variance = (float(np.mean(u * u * v * v)) - own**2) / m
            kind = "variances" if i == j else "covariances"
            found[kind].append(loss(covariance(released, i, j) - covariance(original, i, j), variance))
            if i < j:
                r = correlations(original)[i, j]
                s, t = (math.sqrt(np.nanmean(original[:, k] ** 2) - np.nanmean(original[:, k]) ** 2) for k in (i, j))
                m22 = np.mean(u**2 * v**2) / (s * t) ** 2
                m40, m04 = np.nanmean(centred[:, i] ** 4) / s**4, np.nanmean(centred[:, j] ** 4) / t**4
                m31, m13 = np.mean(u**3 * v) / (s**3 * t), np.mean(u * v**3) / (s * t**3)
                variance = (m22 + r**2 / 4 * (m40 + m04 + 2 * m22) - r * (m31 + m13)) / m
                also = ~np.isnan(released[:, i]) & ~np.isnan(released[:, j])
                x2, y2 = released[also, i], released[also, j]
                constant = len(x2) < 2 or x2.min() == x2.max() or y2.min() == y2.max()
                theirs = math.nan if constant else float(np.corrcoef(x2, y2)[0, 1])
                found["correlations"].append(loss(theirs - r, float(variance)))
    means = {kind: sum(values) / len(values) for kind, values in found.items() if values}
    return means | {"all": sum(means.values()) / len(means)}


def pmse(inputs: Table, member: Sequence[int]) -> tuple[float, int]:
    """Logistic regression by accelerated gradient steps on all rows; also the rank of the predictors."""
    x = np.column_stack([np.ones(len(inputs)), inputs])
    # An orthogonal basis of the same space has the same fitted probabilities, and converges fast.
    q, s, _ = np.linalg.svd(x, full_matrices=False)
    basis = q[:, s > 1e-9 * s[0]] * math.sqrt(len(x))
    y = np.asarray(member, dtype=float)
    w = np.zeros(basis.shape[1])

    rate = 4.0 / len(x)
    velocity, before = w.copy(), w.copy()
    for step in range(1, 20000):
        p = 1 / (1 + np.exp(-(basis @ velocity)))
        w = velocity - rate * (basis.T @ (p - y))
        velocity = w + (step - 1) / (step + 2) * (w - before)
        if np.max(np.abs(w - before)) < 1e-13 and step > 50:
            break
        before = w
    p = 1 / (1 + np.exp(-(basis @ w)))
    return float(np.mean((p - y.mean()) ** 2)), basis.shape[1]

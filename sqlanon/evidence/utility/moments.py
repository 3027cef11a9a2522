"""Means, covariances, correlations and principal components of two tables, and how far they differ.

Everything here is of the size of the number of columns; the sums come from the engine (`compiler.utility.products`).
Covariances are of the rows that have both numbers. For principal components, a correlation that a table does not tell,
since a column is constant or hidden, counts as 0; by itself it is as far off as it could be. Principal components are
those of the correlation matrix; their signs are those that fit the original's best, since a component has none of its
own.
cite: Domingo-Ferrer and Torra 2001; Hundepool et al. 2012, 3.9
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Matrix = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Difference:
    """How far two matrices are apart, as means over their cells. Cells that the original does not have are left out,
    and for `variation`, which is relative to the original, those that are 0 there. What a release does not tell is as
    far off as it could be."""

    mse: float | None
    mae: float | None
    variation: float | None


@dataclass(frozen=True)
class Moments:
    """One table, in units of the original's standard deviations, about its means; NaN where there is nothing.

    `count`, `means`, then matrices over pairs of columns: `covariances` (n - 1), `correlations`, and the mean products
    u²v², u³v about the origin, of which `third[i, j]` holds u_i³·u_j."""

    count: Matrix
    means: Matrix
    covariances: Matrix
    correlations: Matrix
    squares: Matrix
    third: Matrix
    records: Matrix


def moments(
    centre: Sequence[tuple[int, float | None]], sums: Mapping[tuple[int, int], Sequence[float]], p: int
) -> Moments:
    """From the counts and standardized means of the columns, and the sums of their pairs."""
    blank = np.full((p, p), math.nan)
    covariances, squares, third, records, correlations = (blank.copy() for _ in range(5))
    for (i, j), (n, u, v, uv, uu, vv, uuvv, uuuv, uvvv) in sums.items():
        records[i, j] = records[j, i] = n
        if n < 2:
            continue
        covariances[i, j] = covariances[j, i] = (uv - u * v / n) / (n - 1)
        squares[i, j] = squares[j, i] = uuvv / n
        third[i, j], third[j, i] = uuuv / n, uvvv / n
        spread = max(uu - u * u / n, 0.0) * max(vv - v * v / n, 0.0)
        correlations[i, j] = correlations[j, i] = (uv - u * v / n) / math.sqrt(spread) if spread > 1e-24 else math.nan
    means = np.array([math.nan if mean is None else mean for _, mean in centre], dtype=float)
    return Moments(
        np.array([n for n, _ in centre], dtype=float), means, covariances, correlations, squares, third, records
    )


@dataclass(frozen=True)
class Components:
    """Of the correlation matrix: `values`, largest first; `loadings[i, j]` is the correlation of column i with
    component j; `communalities` the share of each column that the first component explains; `scores` what the
    standardized columns are multiplied with."""

    values: Matrix
    loadings: Matrix
    communalities: Matrix
    scores: Matrix


def fill_gaps(correlations: Matrix) -> Matrix:
    """A correlation matrix without gaps: what is not told is 0."""
    found = np.where(np.isnan(correlations), 0.0, correlations)
    np.fill_diagonal(found, 1.0)
    return np.asarray(found, dtype=np.float64)


def components(correlations: Matrix, like: Components | None = None) -> Components:
    values, vectors = np.linalg.eigh(fill_gaps(correlations))
    values, vectors = np.maximum(values[::-1], 0.0), vectors[:, ::-1]
    for place in range(len(values)):
        own = vectors[:, place]
        if like is None:
            turned = own[np.argmax(np.abs(own) > np.abs(own).max() - 1e-9)] < 0
        else:
            turned = float(own @ like.scores[:, place]) < 0
        if turned:
            vectors[:, place] = -own
    loadings = vectors * np.sqrt(values)
    return Components(values, loadings, loadings[:, 0] ** 2, vectors)


def difference(original: Matrix, released: Matrix, farthest: Matrix | None = None) -> Difference:
    """`farthest` is the distance of what the release does not tell.

    >>> difference(np.array([2.0, 0.0]), np.array([3.0, 1.0]))
    Difference(mse=1.0, mae=1.0, variation=0.5)
    >>> difference(np.array([2.0, 1.0]), np.array([2.0, np.nan]), np.array([9.0, 3.0]))
    Difference(mse=4.5, mae=1.5, variation=1.5)
    """
    apart = np.abs(original - released)
    if farthest is not None:
        apart = np.where(np.isnan(released), farthest, apart)
    both = ~np.isnan(apart)
    ours, apart = original[both], apart[both]
    if not ours.size:
        return Difference(None, None, None)
    nonzero = ours != 0
    variation = float(np.mean(apart[nonzero] / np.abs(ours[nonzero]))) if nonzero.any() else None
    return Difference(float(np.mean(apart**2)), float(np.mean(apart)), variation)


def above(matrix: Matrix, *, diagonal: bool) -> Matrix:
    """The cells of a symmetric matrix that are not there twice."""
    return np.asarray(matrix[np.triu_indices(len(matrix), k=0 if diagonal else 1)], dtype=np.float64)


def differences(
    original: Moments,
    released: Moments,
    centre: Sequence[float],
    scale: Sequence[float],
    varied: Sequence[int],
    ends: Sequence[tuple[float, float]],
) -> tuple[dict[str, Difference], float | None]:
    """By what is compared; and the change of the eigenvalues of the correlations, as the sum of their relative
    differences. `varied` are the columns that are not constant in the source, `ends` the least and the largest number
    of each column: a mean that is not told may lie at either, and a covariance be that of values at both."""
    units, origin = np.array(scale), np.array(centre)
    low, high = np.array(ends).T
    means = original.means * units + origin
    covariances = above(original.covariances * np.outer(units, units), diagonal=True)
    widest = np.abs(covariances) + above(np.outer(high - low, high - low) / 4, diagonal=True)
    found = {
        "means": difference(means, released.means * units + origin, np.maximum(means - low, high - means)),
        "covariances": difference(
            covariances, above(released.covariances * np.outer(units, units), diagonal=True), widest
        ),
    }
    if len(varied) < 2:
        return found, None
    few = np.ix_(varied, varied)
    ours, theirs = original.correlations[few], released.correlations[few]
    pairs = [above(side, diagonal=False) for side in (ours, theirs)]
    neither = np.isnan(pairs[0]) & np.isnan(pairs[1])
    known, shown = above(fill_gaps(ours), diagonal=False), np.where(neither, 0.0, pairs[1])
    found["correlations"] = difference(known, shown, 1 + np.abs(known))
    first = components(ours)
    second = components(theirs, first)
    found["loadings"] = difference(first.loadings, second.loadings)
    found["communalities"] = difference(first.communalities, second.communalities)
    found["scores"] = difference(first.scores, second.scores)
    positive = first.values > 1e-12
    changed = np.abs(first.values - second.values)[positive] / first.values[positive]
    return found, float(np.sum(changed))

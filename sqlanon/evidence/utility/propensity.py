"""The propensity score: how well a model tells the rows of a release from those of its source.

A logistic regression is fitted to the rows of both, to predict which of the two a row belongs to. Where the tables are
alike it can only guess, and every probability is the share c of released rows; pMSE is the mean square by which the
probabilities differ from c, at most c(1 - c). `ratio` divides it by what another sample of the same people would give
by chance. Predictors are the numbers, with their squares and products, what is missing, and the most frequent
categories. A category that the source does not have, such as a node of a hierarchy, would tell the tables apart without
telling how much was lost: a column with such labels is left out.

Fitted by Newton's method: each step is a statement over the distinct combinations of predictors; sums come back.
cite: Woo, Reiter, Oganian and Karr 2009; Snoke, Raab, Nowok, Dibben and Slavkovic 2018
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sqlanon.engines import Engine
from sqlanon.relations.classes import Prelude
from sqlanon.relations.propensity_features import (
    Category,
    Feature,
    MissingIndicator,
    Number,
    Product,
    features,
    frequent,
    gaps,
    step,
)

MOST_FEATURES = 30  # beside the constant: what a step sums up grows with the square
MOST_CATEGORIES = 12  # of a column
STEPS = 30
HALVINGS = 12
Vector = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Propensity:
    """`share` is pMSE as a share of the most that it can be; `ratio` is None without predictors."""

    pmse: float
    share: float
    ratio: float | None
    predictors: int
    left_out: tuple[str, ...] = ()


def propensity(
    engine: Engine,
    prelude: Prelude,
    both: str,
    *,
    rows: tuple[int, int],
    numbers: Sequence[Number],
    categories: Sequence[int],
    left_out: Sequence[str] = (),
) -> Propensity | None:
    """`numbers` and `categories` are the columns to predict by, `rows` how many each side has; None without rows, or
    where the predictors are too many."""
    every = sum(rows)
    if not all(rows):
        return None
    chosen = _chosen(engine, both, numbers, categories)
    if chosen is None:
        return None
    name = prelude.once("features", (), lambda: features(both, chosen))
    engine.create_temporary(name, prelude.steps[-1].query)
    share = rows[1] / every
    rank, squares = _fit(engine, name, len(chosen) + 1, share)
    pmse = squares / every
    expected = (rank - 1) * (1 - share) ** 2 * share / every
    return Propensity(
        pmse=pmse,
        share=pmse / (share * (1 - share)),
        ratio=pmse / expected if expected > 0 else None,
        predictors=rank - 1,
        left_out=tuple(left_out),
    )


def _chosen(engine: Engine, both: str, numbers: Sequence[Number], categories: Sequence[int]) -> list[Feature] | None:
    """All columns first; then squares, then products, if there is room for all of them."""
    found: list[Feature] = list(numbers)
    names = [*(f"x{item.place}" for item in numbers), *(f"c{place}" for place in categories)]
    if names:
        missing = engine.query(gaps(both, names))[0]
        found += [MissingIndicator(name) for name, count in zip(names, missing, strict=True) if count]
    for place in categories:
        labels = [str(label) for (label,) in engine.query(frequent(both, place, MOST_CATEGORIES))]
        found += [Category(place, label) for label in labels[1:]]  # the most frequent one goes without saying
    if len(found) > MOST_FEATURES:
        return None
    squares: list[Feature] = [Product(item, item) for item in numbers]
    products: list[Feature] = [Product(a, b) for place, a in enumerate(numbers) for b in numbers[place + 1 :]]
    for more in (squares, products):
        if len(found) + len(more) <= MOST_FEATURES:
            found += more
    return found


def _fit(engine: Engine, name: str, count: int, share: float) -> tuple[int, float]:
    """How many predictors are independent of each other, the constant among them, and the sum of squares of pMSE."""
    ask = engine.prepared(step(name, count, share))
    weights = np.zeros(count)
    weights[0] = np.log(share / (1 - share))
    now = _sums(ask(weights.tolist())[0], count)
    rank = int(np.linalg.matrix_rank(_scaled(now.curvature), tol=1e-9))
    for _ in range(STEPS):
        move = np.linalg.lstsq(now.curvature, now.slope, rcond=1e-10)[0]
        before = now
        for half in range(HALVINGS):  # far from the best, a full step may lead past it
            tried = weights + move / 2**half
            now = _sums(ask(tried.tolist())[0], count)
            if now.likelihood >= before.likelihood - 1e-12 * abs(before.likelihood):
                break
        weights = tried
        if now.likelihood - before.likelihood <= 1e-10 * abs(before.likelihood) + 1e-12:
            break
    return rank, now.squares


@dataclass(frozen=True)
class _Sums:
    likelihood: float
    squares: float
    slope: Vector
    curvature: Vector


def _sums(row: Sequence[Any], count: int) -> _Sums:
    values = [float(value or 0) for value in row]
    curvature = np.zeros((count, count))
    curvature[np.triu_indices(count)] = values[2 + count :]
    return _Sums(values[0], values[1], np.array(values[2 : 2 + count]), curvature + np.triu(curvature, 1).T)


def _scaled(curvature: Vector) -> Vector:
    """With ones on the diagonal, so that a rank does not depend on units."""
    size = np.sqrt(np.maximum(np.diag(curvature), 1e-300))
    return np.asarray(curvature / np.outer(size, size))

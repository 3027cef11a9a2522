"""Weights of sensitivity categories for the (l,alpha) models: 0 for the most sensitive one, 1 for the least."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlanon.errors import PolicyError

SCHEMES = ("uniform", "sensitivity")


def category_weights(count: int, scheme: str = "uniform", beta: float = 1.0) -> list[float]:
    """Weights for `count` categories; the steps between neighbours are in the ratio of the scheme's w.

    >>> category_weights(4)
    [0.0, 0.3333333333333333, 0.6666666666666666, 1.0]
    >>> [round(weight * 49, 9) for weight in category_weights(4, "sensitivity", beta=2)]
    [0.0, 36.0, 45.0, 49.0]
    """
    steps = [1.0 if scheme == "uniform" else 1.0 / i**beta for i in range(1, count)]
    whole = sum(steps)
    return [sum(steps[:i]) / whole for i in range(count)]


def category_rows(
    categories: Sequence[Any], weights: Sequence[Any] | None, scheme: str, beta: float
) -> list[tuple[Any, int, float]]:
    """(sensitive value, number of its category, weight), checked as a whole."""
    if not all(isinstance(category, list) and category for category in categories) or len(categories) < 2:
        raise PolicyError(
            "'categories' must be at least two lists of sensitive values",
            hint="write them from the most to the least sensitive, such as [[HIV, Cancer], [Flu]]",
        )
    values = [value for category in categories for value in category]
    labels = [str(value).lower() if isinstance(value, bool) else str(value) for value in values]
    twice = sorted({label for label in labels if labels.count(label) > 1})
    if twice:
        raise PolicyError(f"sensitive values in more than one category: {', '.join(twice)}")
    if scheme not in SCHEMES:
        raise PolicyError(f"unknown weighting '{scheme}'", hint=f"it is one of {', '.join(SCHEMES)}")
    chosen = list(weights) if weights is not None else category_weights(len(categories), scheme, beta)
    numbers = all(isinstance(w, int | float) and not isinstance(w, bool) and 0 <= w <= 1 for w in chosen)
    if len(chosen) != len(categories) or not numbers:
        raise PolicyError("'weights' must be one number between 0 and 1 for each category")
    return [
        (value, place, float(weight))
        for place, (category, weight) in enumerate(zip(categories, chosen, strict=True), start=1)
        for value in category
    ]

"""Quantiles as a choice: how well does each public candidate value split the rows?"""

from __future__ import annotations

from collections.abc import Sequence

from sqlanon.errors import MechanismError
from sqlanon.mechanisms._checks import positive_integer

PARTS = 1000  # a quantile is given in thousandths, so that scores are integers


def quantile_scores(below: Sequence[int], above: Sequence[int], alpha: float) -> list[int]:
    """For each candidate, minus how far it is from being the alpha-quantile; 0 is best.

    `below` and `above` count the rows that are smaller and larger than the candidate; a row that equals it is in
    neither. With a = alpha in thousandths, the score is -|(1000 - a) * below - a * above|.

    >>> quantile_scores(below=[0, 1, 2, 3], above=[3, 2, 1, 0], alpha=0.5)
    [-1500, -500, -500, -1500]
    """
    part = thousandths(alpha)
    if len(below) != len(above):
        raise MechanismError("each candidate needs a number of rows below and one above")
    return [-abs((PARTS - part) * under - part * over) for under, over in zip(below, above, strict=True)]


def quantile_sensitivity(rows: int, alpha: float) -> int:
    """How far one person with this many rows can move any of the scores.

    One row more changes either `below` or `above` by one, or neither, so the difference moves by at most
    max(a, 1000 - a), and its absolute value moves no further.

    >>> quantile_sensitivity(rows=2, alpha=0.5), quantile_sensitivity(rows=1, alpha=0.99)
    (1000, 990)
    """
    part = thousandths(alpha)
    return positive_integer("rows", rows) * max(part, PARTS - part)


def thousandths(alpha: float) -> int:
    if isinstance(alpha, bool) or not isinstance(alpha, int | float) or not 0 <= alpha <= 1:
        raise MechanismError("a quantile must be a number from 0 to 1")
    return round(alpha * PARTS)

"""Local suppression of generated households, under either reading of a suppressed cell."""

from __future__ import annotations

from collections import Counter

import pytest
from conftest import Database
from suppress_cells import Cells, Row, cells_of, few_cells, generate_households, k, row_by_row, suppress

from sqlanon.algorithms.local_suppression import Params

NAMES = ["town", "roof", "wall", "kin", "sex"]


def listed(rows: list[Cells]) -> list[Row]:
    return [dict(zip(NAMES, row, strict=True)) for row in rows]


@pytest.mark.full
@pytest.mark.parametrize("size", [2, 3, 5])
def test_cells_of_each_reading(duck: Database, size: int) -> None:
    """A plain search, row by row, lets a suppressed cell match every value, so that one cell frees a row. Where it
    matches suppressed cells only, others must lose cells too: at least one for each row to help, and at most k times
    what the plain search needs."""
    rows = generate_households(size, 200)
    few = row_by_row(rows, size)
    found = suppress(duck, listed(rows), [k(size)], columns=dict.fromkeys(NAMES, "TEXT"))
    alone = sum(count for count in Counter(rows).values() if count < size)
    assert len(found.rows) == len(rows) and min(map(len, found.classes.values())) >= size
    assert 0 < alone <= found.cells <= size * few
    assert 0 < cells_of(few_cells(duck, rows, size, NAMES)) <= few


@pytest.mark.parametrize("spared", ["roof", "kin"])
@pytest.mark.full
def test_importance_spares_a_column(duck: Database, spared: str) -> None:
    """The most important column keeps its cells where others can be suppressed instead, under either reading."""
    rows = generate_households(6, 300)
    order = [spared, *(name for name in NAMES if name != spared)]
    columns = dict.fromkeys(NAMES, "TEXT")
    plain = suppress(duck, listed(rows), [k(3)], columns=columns).by_column(NAMES)
    found = suppress(duck, listed(rows), [k(3)], columns=columns, params=Params(importance=order))
    assert min(map(len, found.classes.values())) >= 3
    assert found.by_column(NAMES)[spared] < plain[spared]
    few = few_cells(duck, rows, 3, NAMES, importance=order)
    assert 0 < cells_of(few) <= 2 * row_by_row(rows, 3) and spared not in few.why

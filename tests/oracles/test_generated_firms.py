"""Microaggregation of generated firms: the groups of MDAV in numpy, and what is measured of the masked table."""

from __future__ import annotations

import brute_utility
import numpy as np
import pytest
from conftest import Database
from microaggregate_numbers import generate_firms, information_loss, mdav, measure_masked, microaggregate


@pytest.mark.full_on_postgres
@pytest.mark.parametrize(("count", "k"), [(150, 3), (151, 5), (154, 10)])
def test_groups_are_those_of_mdav_in_numpy(database: Database, count: int, k: int) -> None:
    """Row by row; the last rows make one or two groups. What is released is rounded to six decimals."""
    header, numbers = generate_firms(count, width=6, seed=k)
    wanted = mdav(numbers, k)
    found = microaggregate(database, header, numbers, {"k": k, "exact": True})
    assert np.array(found) == pytest.approx(np.array(wanted), abs=1e-6)
    assert 0 < information_loss(numbers, found) < 100


@pytest.mark.full
def test_blocks_lose_little_more(duck: Database) -> None:
    """Without `exact` the table is cut into blocks first."""
    header, numbers = generate_firms(1200, width=4, seed=8)
    exact = information_loss(numbers, mdav(numbers, 5))
    assert information_loss(numbers, microaggregate(duck, header, numbers, {"k": 5})) < 1.08 * exact


@pytest.mark.full
def test_measures_of_microaggregated_firms(duck: Database) -> None:
    """IL1s, eigenvalues and the share of records within a twentieth of a deviation, as sdcMicro defines them."""
    header, numbers = generate_firms(300, width=2, seed=4)
    after = np.array(microaggregate(duck, header, numbers, {"k": 3, "exact": True}))
    before, found = np.array(numbers), measure_masked(duck, header)
    assert found.il1s == pytest.approx(brute_utility.il1s(before, after))
    old, new = (np.sort(np.linalg.eigvalsh(np.corrcoef(table.T)))[::-1] for table in (before, after))
    assert found.eigenvalues == pytest.approx(np.sum(np.abs(old - new) / old), rel=1e-6)
    close = np.abs(before - after) <= 0.05 * after.std(axis=0, ddof=1)
    assert found.intervals is not None
    assert found.intervals.records == pytest.approx(close.all(axis=1).mean())
    assert 0 < found.intervals.records < 1

"""Averaging: what all totals and their parts together tell of a table with independent noise.

Each cell is an observation of its value, and the equations between values are known. The least-squares estimate that
keeps the equations has the least variance of all unbiased ones. It is found by conjugate gradients on the equations.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from sqlanon.statistics.table_system import Flags, Numbers, TableSystem

UNSEEN = 1e6  # times the variance of the noise: what an observation is like that was not made
CLOSE = 1e-10
MOST_STEPS = 2_000


class LeastSquares:
    """Estimates for one system: `seen` are cells that are shown with noise; what everybody knows has none."""

    def __init__(self, system: TableSystem, seen: Flags) -> None:
        self.system = system
        self._spread = np.where(system.known, 0.0, np.where(seen, 1.0, UNSEEN))

    def estimate(self, shown: Numbers) -> Numbers:
        """The values nearest to those that are shown for which all equations hold."""
        given = np.where(np.isfinite(shown), shown, 0.0)
        return self._project(given)

    def variances(self, cells: Iterable[int]) -> dict[int, float]:
        """Of the estimates of some cells, as a multiple of the variance of the noise."""
        found = {}
        for cell in cells:
            unit = np.zeros(self.system.cells)
            unit[cell] = self._spread[cell]
            found[cell] = max(0.0, float(self._project(unit)[cell]))
        return found

    def _sums(self, values: Numbers) -> Numbers:
        weights = self.system.signs * values[self.system.columns]
        return np.bincount(self.system.rows, weights=weights, minlength=self.system.equations).astype(np.float64)

    def _back(self, duals: Numbers) -> Numbers:
        weights = self.system.signs * duals[self.system.rows]
        return self._spread * np.bincount(self.system.columns, weights=weights, minlength=self.system.cells)

    def _project(self, given: Numbers) -> Numbers:
        right = self._sums(given)
        if not len(right):
            return given
        # Divided by the diagonal, so that equations of cells that are not seen weigh no more than others.
        diagonal = np.bincount(
            self.system.rows, weights=self._spread[self.system.columns], minlength=self.system.equations
        )
        scale = np.where(diagonal > 0, 1.0 / np.maximum(diagonal, 1e-300), 0.0)
        duals, rest = np.zeros(len(right)), right.copy()
        ready = scale * rest
        way = ready.copy()
        size = float(rest @ ready)
        enough = CLOSE**2 * max(size, 1e-300)
        for _ in range(MOST_STEPS):
            if size <= enough:
                break
            across = self._sums(self._back(way))
            slope = float(way @ across)
            if slope <= 0:
                break
            step = size / slope
            duals += step * way
            rest -= step * across
            ready = scale * rest
            before, size = size, float(rest @ ready)
            way = ready + size / before * way
        return np.asarray(given - self._back(duals))

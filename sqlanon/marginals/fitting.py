"""From noisy counts to one table that could be: non-negative, and as near to all of the counts as any such table is.

What is measured are marginals, each over some of the axes of a joint table. They disagree, and some counts are below
zero. `fitted` finds the non-negative joint whose marginals are nearest to them, by least squares; `even` finds, of all
joints with the same marginals, the one that assumes nothing more (that of maximal entropy, by iterative proportional
fitting). Both see noisy counts only: nothing here can tell more of a person than these do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Table = NDArray[np.float64]
Counts = NDArray[np.int64]
Axes = tuple[int, ...]  # of the joint, in order
N = TypeVar("N", np.int64, np.float64)

MOST_STEPS = 5_000
MOST_SWEEPS = 500
NEAR = 1e-3  # of a row: far below what rounding moves


def marginal(joint: NDArray[N], axes: Axes) -> NDArray[N]:
    """The sums of a joint over all axes but these.

    >>> marginal(np.array([[1, 2], [3, 4]]), (1,)).tolist()
    [4, 6]
    """
    others = tuple(axis for axis in range(joint.ndim) if axis not in axes)
    summed: NDArray[N] = np.asarray(joint.sum(axis=others))
    return summed


def spread_marginal(counts: Table, axes: Axes, dimensions: int) -> Table:
    """A marginal laid along its axes of the joint, so that it can be added to it or multiplied with it."""
    shape = [1] * dimensions
    for axis, size in zip(axes, counts.shape, strict=True):
        shape[axis] = size
    return counts.reshape(shape)


def fit_joint(shape: tuple[int, ...], noisy: dict[Axes, Table]) -> Table:
    """The non-negative joint whose marginals are nearest to the noisy ones: accelerated projected gradients.

    The gradient of half the sum of squares changes by at most the sum over the marginals of cells of the joint that
    share one of theirs, which is the step.

    >>> exact = np.array([[3.0, 0.0], [1.0, 2.0]])
    >>> fit_joint((2, 2), {(0, 1): exact}).round(3).tolist()
    [[3.0, 0.0], [1.0, 2.0]]
    """
    cells = float(np.prod(shape))
    share = {axes: cells / counts.size for axes, counts in noisy.items()}
    step = 1 / sum(share.values())
    total = max(0.0, sum(float(counts.sum()) for counts in noisy.values()) / len(noisy))
    joint = np.full(shape, total / cells)
    ahead, momentum = joint, 1.0
    for _ in range(MOST_STEPS):
        slope = np.zeros(shape)
        for axes, counts in noisy.items():
            slope += spread_marginal(marginal(ahead, axes) - counts, axes, len(shape))
        following = np.maximum(ahead - step * slope, 0.0)
        moved = following - joint
        if float((slope * moved).sum()) > 0:  # it went past the best point along this way: begin to speed up anew
            momentum = 1.0
        faster = (1 + np.sqrt(1 + 4 * momentum**2)) / 2
        ahead = following + (momentum - 1) / faster * moved
        joint, momentum = following, faster
        if float(np.abs(moved).max()) * max(share.values()) < NEAR / 10:
            break
    return joint


def even(shape: tuple[int, ...], wanted: dict[Axes, Table]) -> Table:
    """The joint of maximal entropy with these marginals, which must be those of some joint.

    >>> even((2, 2), {(0,): np.array([1.0, 3.0]), (1,): np.array([2.0, 2.0])}).tolist()
    [[0.5, 0.5], [1.5, 1.5]]
    """
    joint = np.ones(shape)
    for _ in range(MOST_SWEEPS):
        furthest = 0.0
        for axes, counts in wanted.items():
            held = marginal(joint, axes)
            furthest = max(furthest, float(np.abs(held - counts).max()))
            ratio = np.divide(counts, held, out=np.zeros_like(counts), where=held > 0)
            joint = joint * spread_marginal(ratio, axes, len(shape))
        if furthest < NEAR:
            break
    return joint


def of_all(joint: Table, sets: Sequence[Axes]) -> dict[Axes, Table]:
    """The marginals of a joint."""
    return {axes: marginal(joint, axes) for axes in sets}

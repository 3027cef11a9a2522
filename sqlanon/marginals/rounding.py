"""Whole numbers: a joint table of integers whose marginals are as near to the fitted ones as integers can be.

Marginals that form a tree (each shares with those before it only columns that one of them has) are put together one
after the other: each new one is rounded within the whole numbers of what it shares, and its rows are dealt out to the
rows that are there, so that the joint has exactly these marginals. Others, such as all pairs of three columns, are
rounded as a joint, and then single rows are moved as long as that brings the marginals nearer.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sqlanon.marginals.fitting import Axes, Counts, Table, even, marginal, of_all, spread_marginal

MOST_MOVES = 20_000  # some thousand are needed where most cells hold a single row


def apportion(total: int, shares: Table) -> Counts:
    """A whole number dealt out by shares: each gets what it is due, rounded down, and the largest remainders one more.

    >>> apportion(10, np.array([0.26, 0.26, 0.48])).tolist()
    [3, 2, 5]
    >>> apportion(2, np.array([0.0, 0.0])).tolist()
    [1, 1]
    """
    whole = float(shares.sum())
    due = shares.ravel() / whole * total if whole > 0 else np.full(shares.size, total / shares.size)
    given = np.floor(due + 1e-9).astype(np.int64)
    lacking = total - int(given.sum())
    order = np.argsort(given - due, kind="stable")
    given[order[:lacking]] += 1
    return given.reshape(shares.shape)


def in_tree(sets: Sequence[Axes]) -> list[tuple[Axes, Axes]] | None:
    """The marginals in an order in which each shares with those before it only axes of one of them, with what it
    shares; None if there is no such order. To take always the one that shares most finds it (Maier 1983).

    >>> in_tree([(0, 1), (2, 3), (1, 2)])
    [((0, 1), ()), ((1, 2), (1,)), ((2, 3), (2,))]
    >>> in_tree([(0, 1), (1, 2), (0, 2)]) is None
    True
    """
    left = list(sets)
    done: list[tuple[Axes, Axes]] = []
    seen: set[int] = set()
    while left:
        axes = max(left, key=lambda each: len(seen & set(each)))
        left.remove(axes)
        shared = tuple(axis for axis in axes if axis in seen)
        if shared and not any(set(shared) <= set(earlier) for earlier, _ in done):
            return None
        done.append((axes, shared))
        seen |= set(axes)
    return done


def round_joint(joint: Table, sets: Sequence[Axes], random: np.random.Generator) -> Counts:
    """Integers for a fitted joint, of which only the marginals over these sets were measured."""
    order, total = in_tree(sets), round(float(joint.sum()))
    if order is None:
        return _moved(even(joint.shape, of_all(joint, sets)), total, sets)
    found = np.full([1] * joint.ndim, total, dtype=np.int64)
    for axes, shared in order:
        found = _joined(found, marginal(joint, axes), axes, shared, random)
    return found


def _joined(found: Counts, wanted: Table, axes: Axes, shared: Axes, random: np.random.Generator) -> Counts:
    """Give the rows that are there values along the axes that are new, as a marginal says."""
    new = tuple(axis for axis in axes if axis not in shared)
    if not new:  # part of an earlier marginal: nothing is left to choose
        return found
    places = [axes.index(axis) for axis in (*shared, *new)]
    sizes = [wanted.shape[place] for place in places]
    cuts = int(np.prod(sizes[: len(shared)], dtype=np.int64))
    target = wanted.transpose(places).reshape(cuts, -1)
    others = tuple(axis for axis in range(found.ndim) if axis not in shared)
    there = found.transpose(*shared, *others)
    flat = there.reshape(cuts, -1)
    made = np.stack(
        [deal_matrix(flat[cut], apportion(int(flat[cut].sum()), target[cut]), random) for cut in range(cuts)]
    )
    # Cuts, what was there, what is new: back to the axes of the joint, where those that are new had one value.
    kept = [axis for axis in others if axis not in new]
    shape = [found.shape[axis] for axis in (*shared, *kept)] + sizes[len(shared) :]
    return made.reshape(shape).transpose(np.argsort([*shared, *kept, *new]))


def deal_matrix(rows: Counts, columns: Counts, random: np.random.Generator) -> Counts:
    """A matrix of whole numbers with these sums, near to what independence says: of each cell its share rounded down,
    and what is left of the rows is matched with what is left of the columns at random.

    >>> found = deal_matrix(np.array([3, 1]), np.array([2, 2]), np.random.default_rng(1))
    >>> found.sum(axis=1).tolist(), found.sum(axis=0).tolist()
    ([3, 1], [2, 2])
    """
    total = int(rows.sum())
    if total == 0:
        return np.zeros((rows.size, columns.size), dtype=np.int64)
    found = np.floor(np.outer(rows, columns / total) * (1 - 1e-12)).astype(np.int64)
    ones = np.repeat(np.arange(rows.size), rows - found.sum(axis=1))
    others = np.repeat(np.arange(columns.size), columns - found.sum(axis=0))
    np.add.at(found, (ones, random.permutation(others)), 1)
    return found


def _moved(joint: Table, total: int, sets: Sequence[Axes]) -> Counts:
    """Round a joint as a whole, then move single rows as long as its marginals come nearer to what they should be."""
    found = apportion(total, joint)
    excess = {axes: marginal(found, axes) - counts for axes, counts in of_all(joint, sets).items()}
    for _ in range(MOST_MOVES):
        height = sum(spread_marginal(counts, axes, joint.ndim) for axes, counts in excess.items())
        height = np.broadcast_to(height, joint.shape)
        source = np.unravel_index(int(np.argmax(np.where(found > 0, height, -np.inf))), joint.shape)
        # From there, the place where the sum of squares falls most: axes on which both agree do not change.
        gain = np.zeros(joint.shape)
        for axes, counts in excess.items():
            at = tuple(source[axis] for axis in axes)
            change = counts - counts[at] + 1
            change[at] = 0
            gain += spread_marginal(change, axes, joint.ndim)
        aim = np.unravel_index(int(np.argmin(gain)), joint.shape)
        if gain[aim] > -1e-9:
            break
        found[source] -= 1
        found[aim] += 1
        for axes, counts in excess.items():
            counts[tuple(source[axis] for axis in axes)] -= 1
            counts[tuple(aim[axis] for axis in axes)] += 1
    return found

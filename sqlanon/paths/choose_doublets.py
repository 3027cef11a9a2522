"""Which doublets to suppress so that no minimal violating sequence is left: greedily, or by an exact hitting set.

What is suppressed goes from all paths, so the support of what stays does not change: the sequences are found once.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from fractions import Fraction
from heapq import heapify, heappop, heappush
from importlib import import_module

from sqlanon.errors import PolicyError

Sequences = Sequence[Sequence[int]]


def choose_greedily(broken: Sequences, worth: Mapping[int, int], names: Mapping[int, object]) -> list[int]:
    """The doublet of most sequences for what it is worth, again and again until each sequence has lost one.

    Ties go by name, so that the same data give the same release.

    >>> choose_greedily([[1], [1, 2], [2, 3], [2, 4]], {1: 3, 2: 1, 3: 1, 4: 1}, {1: "a", 2: "b", 3: "c", 4: "d"})
    [2, 1]
    """
    holding: dict[int, list[int]] = defaultdict(list)
    for place, sequence in enumerate(broken):
        for doublet in sequence:
            holding[doublet].append(place)
    left = {doublet: len(places) for doublet, places in holding.items()}
    order = {doublet: rank for rank, doublet in enumerate(sorted(holding, key=lambda found: str(names[found])))}

    def rank(doublet: int) -> tuple[Fraction, int, int]:
        return (-Fraction(left[doublet], worth.get(doublet, 0) + 1), order[doublet], doublet)

    queue = [rank(doublet) for doublet in holding]
    heapify(queue)
    open_ = [True] * len(broken)
    chosen = []
    while queue:
        score, _, doublet = heappop(queue)
        if not left[doublet]:
            continue
        if score != (fresh := rank(doublet))[0]:  # counts only fall: an entry that is out of date is too good
            heappush(queue, fresh)
            continue
        chosen.append(doublet)
        for place in holding[doublet]:
            if open_[place]:
                open_[place] = False
                for other in broken[place]:
                    left[other] -= 1
    return chosen


def choose_exactly(broken: Sequences, weight: Mapping[int, int], seconds: float) -> tuple[list[int], bool]:
    """The doublets of least weight that hit every sequence, and whether that is proven: a mixed-integer program."""
    try:
        highspy = import_module("highspy")
    except ImportError:
        raise PolicyError(
            "the exact search needs the package highspy", hint="pip install 'sqlanon[tables]', or take 'search: greedy'"
        ) from None
    import numpy as np

    doublets = sorted({doublet for sequence in broken for doublet in sequence})
    if not doublets:
        return [], True
    place = {doublet: index for index, doublet in enumerate(doublets)}
    solver = highspy.Highs()
    solver.setOptionValue("output_flag", False)
    solver.setOptionValue("threads", 1)
    solver.setOptionValue("time_limit", float(seconds))
    solver.setOptionValue("mip_rel_gap", 0.0)
    solver.setOptionValue("mip_abs_gap", 0.5)  # weights are whole numbers
    for doublet in doublets:
        solver.addVar(0.0, 1.0)
        solver.changeColCost(place[doublet], float(weight[doublet]))
        solver.changeColIntegrality(place[doublet], highspy.HighsVarType.kInteger)
    for sequence in broken:
        found = np.array([place[doublet] for doublet in sequence], dtype=np.int32)
        solver.addRow(1.0, highspy.kHighsInf, len(found), found, np.ones(len(found)))
    solver.run()
    status = solver.getModelStatus()
    values = solver.getSolution().col_value
    chosen = {doublet for doublet in doublets if len(values) == len(doublets) and values[place[doublet]] > 0.5}
    if not hits_all(broken, chosen):  # the time was up before there was any solution
        raise PolicyError(
            f"the exact search found nothing in {seconds:g} seconds",
            hint="give it more 'seconds', or take 'search: greedy'",
        )
    return drop_needless(broken, chosen, weight), status == highspy.HighsModelStatus.kOptimal


def hits_all(broken: Sequences, chosen: Collection[int]) -> bool:
    """
    >>> hits_all([[1, 2], [3]], {1}), hits_all([[1, 2], [3]], {2, 3})
    (False, True)
    """
    return all(any(doublet in chosen for doublet in sequence) for sequence in broken)


def drop_needless(broken: Sequences, chosen: Collection[int], weight: Mapping[int, int]) -> list[int]:
    """The chosen doublets without those whose sequences others hit as well, the heaviest ones first.

    >>> drop_needless([[1, 2], [2, 3]], [1, 2, 3], {1: 1, 2: 1, 3: 1})
    [2]
    """
    kept = set(chosen)
    hits = [sum(doublet in kept for doublet in sequence) for sequence in broken]
    holding: dict[int, list[int]] = defaultdict(list)
    for index, sequence in enumerate(broken):
        for doublet in sequence:
            holding[doublet].append(index)
    for doublet in sorted(kept, key=lambda found: (-weight[found], found)):
        if all(hits[index] > 1 for index in holding[doublet]):
            kept.discard(doublet)
            for index in holding[doublet]:
                hits[index] -= 1
    return sorted(kept)


def count_maximal(frequent: Collection[frozenset[int]]) -> Counter[int]:
    """How many frequent sequences, of those that are no part of another one, hold a doublet.

    >>> count_maximal([frozenset({1}), frozenset({2}), frozenset({1, 2}), frozenset({3})])[3]
    1
    """
    # A set that is frequent is a part of a larger one only if it is a part of one with one doublet more.
    parts = {own - {doublet} for own in frequent for doublet in own}
    return Counter(doublet for own in frequent if own not in parts for doublet in own)

"""Top-down specialization and bottom-up generalization: worked examples, the same greedy walks in plain Python over the
rows themselves, and what any result must keep."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import brute_loss
import pytest
from conftest import Database, examples
from hypothesis import given, settings
from hypothesis import strategies as st
from searching import (
    GROUP,
    K2,
    K3,
    L2,
    PAST,
    PATHS,
    Row,
    T,
    broken_classes,
    leaves_below,
    opened,
    released,
    solve,
    tables,
)

from sqlanon.errors import PolicyError
from sqlanon.lattice import split_nodes, subtree_cuts
from sqlanon.lattice.hierarchy_trees import Forest
from sqlanon.lattice.nodes import Infeasible
from sqlanon.relations import compressed_rows

BOTH = ["top_down_specialization", "bottom_up_generalization"]
Cut = dict[str, dict[str, int]]  # column, value: its level


# Worked examples


def twelve() -> list[Row]:
    """7 flu and 5 hiv. high has 2 rows, both hiv; 1 has 2 flu and 4 hiv, 2 has 5 flu and 1 hiv."""
    counts = {
        ("x", "1", "flu"): 2, ("x", "1", "hiv"): 3, ("z", "1", "hiv"): 1,
        ("x", "2", "flu"): 5, ("z", "2", "hiv"): 1,
    }  # fmt: skip
    return [{"a": a, "b": b, "s": s} for (a, b, s), count in counts.items() for _ in range(count)]


def bits(*counts: int) -> float:
    return sum(count / sum(counts) * math.log2(sum(counts) / count) for count in counts if count)


@pytest.mark.full_on_postgres
def test_igpl_by_hand(database: Database) -> None:
    """Splitting a gains 0.245 bits, but leaves a class of 2: 0.245 / 11 = 0.0223. Splitting b gains 0.196 bits and
    leaves classes of 6: 0.196 / 7 = 0.0280. So b comes first; then a would make classes of one row, k is 2."""
    with opened(database, twelve(), [K2], carry=["s"], group=["a", "b"]) as problem:
        forest = Forest(problem)
        gains = forest.information("s")
        a, b = forest.root(0), forest.root(1)
        assert gains[a] == pytest.approx(bits(7, 5) - 10 / 12 * bits(7, 3)) == pytest.approx(0.245460, abs=1e-6)
        assert (
            gains[b] == pytest.approx(bits(7, 5) - (bits(2, 4) + bits(5, 1)) / 2) == pytest.approx(0.195710, abs=1e-6)
        )
        cuts = subtree_cuts.Cuts(problem, forest, downwards=True)
        assert cuts.now() == [{0: subtree_cuts.CutSizes(12, 12, 0)}] * 2
        splits = {split.node: split for split in split_nodes.possible_splits(cuts, cuts.now())}
        assert {node: split.privacy_loss for node, split in splits.items()} == {a: 10, b: 6}
        best = split_nodes.best_split(list(splits.values()), gains, forest.detail())
        assert best is not None and best.node == b
        found = solve("top_down_specialization", problem, class_attribute="s")
        rows = released(database, problem, found, twelve())
        assert [(row["a"], row["b"]) for row in rows if row] == [("*", row["b"]) for row in twelve()]
        assert found.suppressed == 0
        assert found.loss == pytest.approx(0.5)  # a is hidden, b is shown


def test_the_class_attribute_matters(duck: Database) -> None:
    """a tells s, b does not; only one of them can be shown. Without a class attribute it is b, with more leaves."""
    rows = [{"a": a, "b": b, "s": "flu" if a == "w" else "hiv"} for a in "wx" for b in "123"] * 2
    shown = {}
    for params in ({}, {"class_attribute": "s"}):
        with opened(duck, rows, [{"k_anonymity": {"k": 4}}], carry=["s"], group=["a", "b"]) as problem:
            found = released(duck, problem, solve("top_down_specialization", problem, **params), rows)
            shown[bool(params)] = {(row["a"], row["b"]) for row in found if row}
    assert shown == {False: {("lower", b) for b in "123"}, True: {("w", "*"), ("x", "*")}}


def test_bottom_up_by_hand(database: Database) -> None:
    """w and x are alone in their classes; merging them is all that 2-anonymity asks for. y and z stay."""
    rows = [{"a": a, "b": "1", "s": "flu"} for a in "wxyyzz"]
    with opened(database, rows, [K2], group=["a", "b"]) as problem:
        found = solve("bottom_up_generalization", problem)
        labels = [row["a"] for row in released(database, problem, found, rows) if row]
    assert labels == ["lower", "lower", "y", "y", "z", "z"]
    assert found.loss == pytest.approx(2 / 6 * (2 - 1) / (4 - 1) / 2)


# What any result keeps


def assert_cut(rows: Sequence[Row], found: Sequence[Row | None]) -> None:
    """A label stands above its value; what it stands above has that label everywhere."""
    used = {
        column: {(row[column], new[column]) for row, new in zip(rows, found, strict=True) if new} for column in GROUP
    }
    for column, pairs in used.items():
        labels = {label for _, label in pairs}
        for value, label in pairs:
            path = PATHS[column][value]
            assert label in path, "a label that does not cover its value"
            assert [other for other in path if other in labels] == [label], "one label above another"


@pytest.mark.full
@settings(max_examples=examples(20))
@given(
    rows=tables,
    case=st.sampled_from([([K2], 0.0), ([K3], 0.3), ([K2, L2], 0.0), ([K2, L2], 0.2), ([K2, T], 0.0)]),
    name=st.sampled_from(BOTH),
    target=st.sampled_from([None, "s"]),
)
def test_results_hold(
    duck: Database, rows: list[Row], case: tuple[list[Any], float], name: str, target: str | None
) -> None:
    models, limit = case
    carry = [target] if target else []
    with opened(duck, rows, models, limit=limit, carry=carry) as problem:
        if broken_classes([{**row, "a": "*", "b": "*", "c": "*"} for row in rows], models):
            with pytest.raises(Infeasible):
                solve("top_down_specialization", problem)
            return
        found = solve(name, problem, class_attribute=target)
        new = released(duck, problem, found, rows)
        again = solve(name, problem, class_attribute=target)
        assert (again.loss, released(duck, problem, again, rows)) == (found.loss, new)
    assert not broken_classes([row for row in new if row], models)
    assert new.count(None) == found.suppressed <= limit * len(rows) + 1e-9
    assert found.loss == pytest.approx(float(brute_loss.ncp(list(zip(rows, new, strict=True)), GROUP, PATHS)), abs=1e-9)
    assert_cut(rows, new)


# The same walks in plain Python


def labels(rows: Sequence[Row], cut: Cut) -> list[Row]:
    return [{**row, **{c: PATHS[c][row[c]][cut[c][row[c]]] for c in GROUP}} for row in rows]


def anonymity(rows: Sequence[Row], cut: Cut) -> int:
    return min(Counter(tuple(row[c] for c in GROUP) for row in labels(rows, cut)).values())


def nodes(rows: Sequence[Row]) -> Iterator[tuple[str, int, str]]:
    for column in GROUP:
        for level in range(1, len(next(iter(PATHS[column].values())))):
            for label in sorted({PATHS[column][row[column]][level] for row in rows}):
                yield column, level, label


def moved(cut: Cut, node: tuple[str, int, str], level: int) -> Cut:
    column, at, label = node
    changed = {v: level if PATHS[column][v][at] == label else own for v, own in cut[column].items()}
    return {**cut, column: changed}


def gain(rows: Sequence[Row], node: tuple[str, int, str], target: str | None) -> float:
    """What a split of the node gains: bits of the target, or certainty penalty."""
    column, level, label = node
    own = [row for row in rows if PATHS[column][row[column]][level] == label]
    parts: dict[str, list[Row]] = {}
    for row in own:
        parts.setdefault(PATHS[column][row[column]][level - 1], []).append(row)
    if target is None:
        steps = len(PATHS[column]) - 1
        fall = sum(
            len(part) * (leaves_below(column, label) - leaves_below(column, name)) for name, part in parts.items()
        )
        return fall / steps / len(GROUP) / len(rows)

    def uncertain(part: list[Row]) -> float:
        return bits(*Counter(row[target] for row in part).values())

    return uncertain(own) - sum(len(part) * uncertain(part) for part in parts.values()) / len(own)


def moves(
    rows: Sequence[Row], cut: Cut, k: int, target: str | None, down: bool
) -> tuple[list[Cut], list[tuple[float, Cut]]]:
    """What costs nothing (a node with one child that has rows gives way to it), and other moves with their scores."""
    before = anonymity(rows, cut)
    free, scored = [], []
    for node in nodes(rows):
        column, level, label = node
        below = {value: own for value, own in cut[column].items() if PATHS[column][value][level] == label}
        if set(below.values()) != {level if down else level - 1}:
            continue
        after = moved(cut, node, level - 1 if down else level)
        now = anonymity(rows, after)
        if down and len({PATHS[column][value][level - 1] for value in below}) == 1:
            free.append(after)
        elif down and now >= k:
            scored.append((-gain(rows, node, target) / (before - now + 1), after))
        elif not down and before < k:
            scored.append((gain(rows, node, target) / (now - before + 1), after))
    return free[:1], scored


def walk(rows: Sequence[Row], starts: list[Cut], k: int, target: str | None, down: bool) -> list[Cut]:
    """All ends that the greedy walk may come to: where two moves are worth the same, it may take either."""
    pending, done, seen = list(starts), [], []
    while pending:
        cut = pending.pop()
        if cut in seen:
            continue
        seen.append(cut)
        free, scored = moves(rows, cut, k, target, down)
        if not free and not scored:
            done.append(cut)
        best = min((score for score, _ in scored), default=0.0)
        pending += free or [after for score, after in scored if score <= best + 1e-9]
    return done


def start(rows: Sequence[Row], level: Callable[[str], int]) -> Cut:
    return {c: dict.fromkeys({row[c] for row in rows}, level(c)) for c in GROUP}


@pytest.mark.full
@settings(max_examples=examples(20))
@given(rows=tables, k=st.sampled_from([2, 3]), target=st.sampled_from([None, "s"]), down=st.booleans())
def test_the_walk_is_greedy(duck: Database, rows: list[Row], k: int, target: str | None, down: bool) -> None:
    if len(rows) < k:
        return
    with opened(duck, rows, [{"k_anonymity": {"k": k}}], carry=[target] if target else []) as problem:
        found = solve(BOTH[0 if down else 1], problem, class_attribute=target)
        new = released(duck, problem, found, rows)
    if down:
        starts = [start(rows, lambda c: len(next(iter(PATHS[c].values()))) - 1)]
    else:
        starts = walk(rows, [start(rows, lambda c: 0)], k, target, down=False)
    assert new in [labels(rows, cut) for cut in walk(rows, starts, k, target, down=True)]


# Time, keys, absent values, persons, bad input


@pytest.mark.parametrize("name", BOTH)
def test_a_deadline_in_the_past_hides_everything(database: Database, name: str) -> None:
    rows = twelve()
    with opened(database, rows, [{"k_anonymity": {"k": 3}}], group=["a", "b"], seconds=PAST) as problem:
        found = solve(name, problem)
        new = released(database, problem, found, rows)
    assert new == [{**row, "a": "*", "b": "*"} for row in rows]
    assert found.loss == 1.0 and "the time ran out" in found.why


@pytest.mark.full
def test_time_that_runs_out_on_the_way(duck: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each step of the way down is a valid result that loses no more than the one before."""
    rows = [{"a": "wxyz"[i % 4], "b": "123"[i % 3], "c": "pqrs"[i // 2 % 4], "s": "flu", "who": "A"} for i in range(48)]
    losses = []
    for steps in range(6):
        with opened(duck, rows, [K2]) as problem:
            left = iter(range(steps))
            monkeypatch.setattr(type(problem.state), "out_of_time", lambda self, left=left: next(left, None) is None)
            found = solve("top_down_specialization", problem)
            new = released(duck, problem, found, rows)
        assert not broken_classes([row for row in new if row], [K2])
        losses.append(found.loss)
    assert losses == sorted(losses, reverse=True) and losses[0] == 1.0 > losses[-1]


@pytest.mark.full
@pytest.mark.parametrize("name", BOTH)
@pytest.mark.parametrize("limit", [0.0, 0.25])
def test_several_keys(database: Database, name: str, limit: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """More quasi-identifiers than one number can hold give the same result."""
    lines = ["w1p", "x1q", "w2p", "x2q", "y3r", "z3s", "y3r", "z3s", "w1p", "w1q", "z2s", "y1p"]
    rows = [{"a": a, "b": b, "c": c, "s": "flu" if a == "w" else "hiv", "who": "A"} for a, b, c in lines]
    found = {}
    for width in (62, 4):
        monkeypatch.setattr(compressed_rows, "BITS", width)
        with opened(database, rows, [K2, L2], limit=limit) as problem:
            assert len(problem.compressed.key_names) == (1 if width == 62 else 2)
            found[width] = released(database, problem, solve(name, problem), rows)
    assert found[62] == found[4]


@pytest.mark.parametrize("name", BOTH)
def test_null_is_a_value_beside_the_others(database: Database, name: str) -> None:
    rows = [{"a": a, "b": "1", "s": "flu"} for a in ["w", "w", None, None, "z", "z"]]
    with opened(database, rows, [K2], group=["a", "b"]) as problem:
        new = released(database, problem, solve(name, problem), rows)
    assert [row["a"] for row in new if row] == ["w", "w", "\u2205 NULL", "\u2205 NULL", "z", "z"]


@pytest.mark.full
@pytest.mark.parametrize("name", BOTH)
def test_persons_count_not_rows(database: Database, name: str) -> None:
    rows = [{"a": a, "b": "1", "s": "flu", "who": who} for a, who in ["wA", "wA", "xB", "xC", "zA", "zB"]]
    with opened(database, rows, [K2], group=["a", "b"], person="who") as problem:
        new = released(database, problem, solve(name, problem), rows)
    # w has two rows of one person; with x there are three persons.
    assert [row["a"] for row in new if row] == ["lower"] * 4 + ["z"] * 2


@pytest.mark.full
@pytest.mark.parametrize("name", BOTH)
def test_what_cannot_be_reached(duck: Database, name: str) -> None:
    with opened(duck, twelve(), [{"k_anonymity": {"k": 13}}], group=["a", "b"], limit=1.0) as problem:
        with pytest.raises(Infeasible) as error:
            solve(name, problem)
        assert error.value.top is not None and error.value.top.suppressed == 12
    with opened(duck, [], [K2]) as problem, pytest.raises(Infeasible):
        solve(name, problem)


@pytest.mark.parametrize("name", BOTH)
def test_a_class_attribute_has_to_be_carried(duck: Database, name: str) -> None:
    with opened(duck, twelve(), [K2], group=["a", "b"]) as problem:
        with pytest.raises(PolicyError, match="the column 's' was not carried"):
            solve(name, problem, class_attribute="s")
        with pytest.raises(ValueError, match="class_atribute"):
            solve(name, problem, class_atribute="s")


def test_rows_are_suppressed_only_where_that_pays(duck: Database) -> None:
    """One odd row of 21 keeps b hidden. With a limit it goes; if hiding b costs next to nothing, it stays."""
    rows = [{"a": "w", "b": "12"[i % 2], "s": "flu"} for i in range(20)] + [{"a": "w", "b": "3", "s": "flu"}]
    for limit, gone, shown in ((0.0, 0, {"*"}), (0.05, 1, {"1", "2"})):
        with opened(duck, rows, [K2], group=["a", "b"], limit=limit) as problem:
            found = solve("top_down_specialization", problem)
            new = released(duck, problem, found, rows)
        assert found.suppressed == new.count(None) == gone
        assert {row["b"] for row in new if row} == shown


def test_what_is_suppressed_stands_in_the_way_of_no_further_split(duck: Database) -> None:
    """The odd row breaks the split of b and that of low. Once it is gone for one of them, the other is free."""
    rows = [{"a": "wz"[i % 2], "b": "12"[i // 2 % 2], "s": "flu"} for i in range(20)] + [
        {"a": "y", "b": "3", "s": "flu"}
    ]
    with opened(duck, rows, [K2], group=["a", "b"], limit=0.05) as problem:
        new = released(duck, problem, solve("top_down_specialization", problem), rows)
    assert new == [*rows[:-1], None]


def test_a_node_waits_for_all_its_children(duck: Database) -> None:
    rows = [{"a": "w", "b": "1", "c": c, "s": "flu", "who": "A"} for c in "pqrs"]
    with opened(duck, rows, [K2]) as problem:
        cuts = subtree_cuts.Cuts(problem, Forest(problem), downwards=False)
        even, odd = sorted(cuts.moves[2].values())
        cuts.generalize(even)
        assert list(cuts.moves[2].values()) == [odd]
        assert cuts.after()[2] == {odd.code: subtree_cuts.CutSizes(2, 2, 0)}
        cuts.generalize(odd)
        assert list(cuts.moves[2].values()) == [cuts.forest.root(2)]
        assert cuts.after()[2] == {0: subtree_cuts.CutSizes(4, 4, 0)}

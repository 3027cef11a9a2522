"""Table IX of the survey by Fung, Wang, Chen and Yu, and which doublets go: against plain Python over all subsets."""

from __future__ import annotations

import itertools
from collections import Counter
from fractions import Fraction

import brute_paths as brute
import pytest
from conftest import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from sqlanon.errors import PolicyError
from sqlanon.paths.choose_doublets import choose_exactly, choose_greedily, count_maximal, hits_all

TABLE_IX = [
    frozenset(path.split())
    for path in (
        "a1 d2 b3 e4 f6 c7",
        "b3 e4 f6 e8",
        "b3 c7 e8",
        "d2 f6 c7 e8",
        "d2 c5 f6 c7",
        "c5 f6 e9",
        "d2 c5 c7 e9",
        "f6 c7 e9",
    )
]
DISEASES = ["HIV", "Flu", "Flu", "Allergy", "HIV", "Allergy", "Fever", "Fever"]
HALF = Fraction(1, 2)


def named(*texts: str) -> set[frozenset[str]]:
    return {frozenset(text.split()) for text in texts}


def numbered(sets: set[frozenset[str]]) -> tuple[list[list[int]], dict[int, str]]:
    names = dict(enumerate(sorted(set().union(*sets)), start=1)) if sets else {}
    back = {name: number for number, name in names.items()}
    return [sorted(back[name] for name in own) for own in sorted(sets, key=sorted)], names


def choose(sets: set[frozenset[str]], worth: dict[str, int]) -> list[str]:
    broken, names = numbered(sets)
    return [names[found] for found in choose_greedily(broken, {n: worth[name] for n, name in names.items()}, names)]


def choose_best(sets: set[frozenset[str]], weight: dict[str, int]) -> tuple[list[str], bool]:
    broken, names = numbered(sets)
    found, proven = choose_exactly(broken, {n: weight[name] for n, name in names.items()}, 30)
    return [names[each] for each in found], proven


def test_what_table_ix_tells() -> None:
    assert brute.matching(TABLE_IX, frozenset({"e4", "c7"})) == [0]
    known = brute.matching(TABLE_IX, frozenset({"d2", "f6"}))
    assert [person + 1 for person in known] == [1, 4, 5]
    assert Fraction([DISEASES[person] for person in known].count("HIV"), len(known)) == Fraction(2, 3)
    assert sum(map(len, TABLE_IX)) == 31


@pytest.mark.parametrize(
    "length, k, number, minimal, instances",
    [(1, 2, 1, 1, None), (2, 2, 13, 8, 7), (3, 2, 46, 16, 18), (2, 3, 27, 17, 19)],
)
def test_suppression_of_table_ix(length: int, k: int, number: int, minimal: int, instances: int | None) -> None:
    broken = brute.violations(TABLE_IX, DISEASES, {"HIV"}, length, k, HALF)
    found = brute.minimal(broken)
    assert (len(broken), len(found)) == (number, minimal)
    weight = brute.instances(TABLE_IX)
    gone = choose(found, weight)
    assert gone == brute.greedy(found, weight)
    if instances is not None:
        assert sum(weight[doublet] for doublet in gone) == instances
    best, proven = choose_best(found, weight)
    assert proven and sum(weight[doublet] for doublet in best) == brute.least_instances(TABLE_IX, found)
    assert brute.violations(brute.suppress(TABLE_IX, best), DISEASES, {"HIV"}, length, k, HALF) == set()


def test_the_minimal_violating_sequences_of_table_ix() -> None:
    found = brute.minimal(brute.violations(TABLE_IX, DISEASES, {"HIV"}, 2, 2, HALF))
    assert found == named("a1", "d2 b3", "e4 c7", "d2 e4", "d2 e8", "d2 e9", "d2 f6", "e4 e8")
    weight = brute.instances(TABLE_IX)
    assert choose(found, weight) == ["d2", "e4", "a1"]
    assert brute.least_instances(TABLE_IX, found) == 7
    before, after = (brute.frequent(paths, 2, 9) for paths in (TABLE_IX, brute.suppress(TABLE_IX, ["d2", "e4", "a1"])))
    assert (len(before), len(after)) == (27, 17)
    # Of 11 maximal ones, 8 are still frequent.
    assert (len(brute.maximal(before)), len(brute.maximal(before) & after)) == (11, 8)


doublets = st.sampled_from([place + str(time) for place, time in itertools.product("abc", range(3))])
some_paths = st.lists(st.frozensets(doublets, max_size=5), min_size=1, max_size=8)


@settings(max_examples=examples(100))
@given(some_paths, st.lists(st.sampled_from("uvw"), min_size=8, max_size=8), st.integers(1, 3), st.integers(2, 3))
def test_choices_are_as_promised(paths: list[brute.Path], values: list[str], length: int, k: int) -> None:
    broken = brute.violations(paths, values, {"u"}, length, k, HALF)
    found = brute.minimal(broken)
    weight = brute.instances(paths)
    for support in (None, 2):
        worth = brute.utility(paths, support)
        gone = choose(found, {doublet: worth.get(doublet, 0) for doublet in weight})
        assert gone == brute.greedy(found, Counter(worth))
        assert brute.violations(brute.suppress(paths, gone), values, {"u"}, length, k, HALF) == set()
        # Each doublet was chosen for a sequence that none before it is in.
        for place, doublet in enumerate(gone):
            assert any(doublet in own and not own & set(gone[:place]) for own in found)
    best, proven = choose_best(found, weight)
    assert proven and sum(weight[doublet] for doublet in best) == brute.least_instances(paths, found)


@given(some_paths)
@settings(max_examples=examples(50))
def test_maximal_frequent_sequences_are_counted(paths: list[brute.Path]) -> None:
    frequent = brute.frequent(paths, 2, 9)
    names = {name: number for number, name in enumerate(sorted(set().union(*paths)))} if paths else {}
    counted = count_maximal([frozenset(names[doublet] for doublet in own) for own in frequent])
    assert {name: counted[number] for name, number in names.items() if counted[number]} == brute.utility(paths, 2)


def test_without_the_solver_the_exact_search_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "highspy", None)
    with pytest.raises(PolicyError, match="needs the package highspy"):
        choose_exactly([[1]], {1: 1}, 1)


def test_a_search_that_ends_too_early_is_no_solution() -> None:
    assert not hits_all([[1, 2], [3]], [2])
    with pytest.raises(PolicyError, match="found nothing in"):
        choose_exactly([[i, (i * 7) % 60, (i * 11) % 60] for i in range(60)], {i: i + 1 for i in range(60)}, -1.0)

"""Bottom-up local recoding: an example by hand, plain Python as the oracle, and what must hold for any table."""

from __future__ import annotations

import itertools
import json
from collections import Counter, defaultdict
from typing import Any

import brute
import numpy as np
import pytest
from conftest import Database, examples
from hypothesis import given, settings
from hypothesis import strategies as st
from recoded import covers, opened, policy, released

from sqlanon.algorithms import bottom_up_recoding
from sqlanon.errors import PolicyError
from sqlanon.lattice.nodes import Infeasible
from sqlanon.lattice.solution import Solution
from sqlanon.regions.place_rows import Classes, LabelLosses, order_nodes, place_rows

PREFIX = {"prefix": {"length": 4}}
JOBS = {
    "tree": {"tree": {"*": {"Artist": ["Dancer", "Writer"], "Professional": ["Engineer", "Lawyer"]}}},
}
ABOVE = {
    "Dancer": ["Artist", "*"], "Writer": ["Artist", "*"], "Engineer": ["Professional", "*"],
    "Lawyer": ["Professional", "*"],
}  # fmt: skip
ROLES = {"zip": "quasi_identifier", "job": "quasi_identifier", "s": "sensitive"}
TYPES = {"zip": "TEXT", "job": "TEXT", "s": "TEXT"}
ZIPS = st.one_of(st.none(), st.text("12", min_size=4, max_size=4))
ROWS = st.lists(st.tuples(ZIPS, st.sampled_from(list(ABOVE)), st.sampled_from(["flu", "cold", "gout"])), min_size=1)


def recode(database: Database, asked: Any) -> tuple[list[dict[str, Any]], Solution, Any]:
    posed = opened(database, asked)
    try:
        found = bottom_up_recoding.run(posed, bottom_up_recoding.Params())
        return released(database, posed, found), found, posed
    finally:
        posed.close()


def filled(database: Database, rows: list[Any]) -> None:
    database.table("t", TYPES, [dict(zip(TYPES, row, strict=True)) for row in rows])


def test_by_hand(database: Database) -> None:
    """Two rows of 4351 are a class as they are; 4361 and 4362 meet under 436*. 4352 is left, and joins 4351: of 435*
    and its three rows, 1/3 of the way to the root each, that is 3 * 1/3; with those of 436* it would be 3 * 1."""
    zips = ["4351", "4351", "4352", "4361", "4362"]
    database.table("t", {"zip": "TEXT"}, [{"zip": one} for one in zips])
    asked = policy({"zip": "quasi_identifier"}, {"zip": PREFIX}, [{"k_anonymity": {"k": 2}}])
    found, solution, _ = recode(database, asked)
    shown = Counter((row["was_zip"], row["zip"]) for row in found)
    assert shown == {("4351", "435*"): 2, ("4352", "435*"): 1, ("4361", "436*"): 1, ("4362", "436*"): 1}
    assert solution.loss == pytest.approx(1 / 3) and solution.suppressed == 0 and solution.proven is False


def test_a_table_that_cannot_hold_is_refused(database: Database) -> None:
    database.table("t", {"zip": "TEXT"}, [{"zip": "1"}, {"zip": "2"}])
    asked = policy({"zip": "quasi_identifier"}, {"zip": PREFIX}, [{"k_anonymity": {"k": 3}}])
    with pytest.raises(Infeasible):
        recode(database, asked)


@pytest.mark.parametrize("model", [{"t_closeness": {"t": 0.4}}, {"alpha_k_anonymity": {"alpha": 0.5, "k": 2}}])
def test_models_that_more_rows_may_break_are_refused(duck: Database, model: dict[str, Any]) -> None:
    filled(duck, [("4351", "Dancer", "flu"), ("4351", "Dancer", "cold")])
    asked = policy(ROLES, {"zip": PREFIX, "job": JOBS}, [model])
    with pytest.raises(PolicyError, match="may break it when rows join it"):
        recode(duck, asked)


# The oracle -----------------------------------------------------------------------------------------------------------


def levels_of(row: tuple[Any, ...]) -> list[list[Any]]:
    """The labels of a zip code and of a job, from level to level; NULL is itself below the root."""
    zip_, job = row[:2]
    zips = ["NULL"] * 4 + ["*"] if zip_ is None else [zip_[: 4 - i] + "*" * i for i in range(4)] + ["*"]
    return [zips, [job, *ABOVE[job]]]


def classes_by_brute_force(rows: list[Any], k: int) -> list[Counter[tuple[Any, ...]]] | None:
    """The classes before rows are left over, or None if some are: dictionaries of labels, node by node."""
    every = [levels_of(row) for row in rows]
    leaves = [{tuple(labels[axis]) for labels in every} - {("NULL",) * 4 + ("*",)} for axis in range(2)]
    leaves[1] = {(job, *above) for job, above in ABOVE.items()}

    def loss(axis: int, level: int, labels: list[Any]) -> float:
        if labels[0] == "NULL" and level < len(labels) - 1:
            return 0.0
        return (sum(other[level] == labels[level] for other in leaves[axis]) - 1) / max(len(leaves[axis]) - 1, 1)

    def mean(node: tuple[int, ...]) -> float:
        lost = [loss(axis, level, labels[axis]) for labels in every for axis, level in enumerate(node)]
        return round(sum(lost) / len(rows), 9)

    left, found = list(range(len(rows))), []
    for node in sorted(itertools.product(range(5), range(3)), key=lambda node: (mean(node), node)):
        groups = defaultdict(list)
        for i in left:
            groups[tuple(every[i][axis][level] for axis, level in enumerate(node))].append(i)
        for group in groups.values():
            if len(group) >= k:
                found.append(Counter(rows[i][:2] for i in group))
                left = [i for i in left if i not in group]
    return None if left else found


@pytest.mark.full
def test_classes_are_those_of_plain_python(duck: Database) -> None:
    draw = np.random.default_rng(3)
    compared = 0
    for size in range(4, 40, 2):
        drawn = zip(draw.integers(1, 3, (size, 4)), draw.choice(list(ABOVE), size), strict=True)
        rows = [("".join(map(str, digits)), str(job), "flu") for digits, job in drawn]
        expected = classes_by_brute_force(rows, 2)
        if expected is None or len({row[0] for row in rows}) < 2:
            continue
        compared += 1
        filled(duck, rows)
        found, _, _ = recode(duck, policy(ROLES, {"zip": PREFIX, "job": JOBS}, [{"k_anonymity": {"k": 2}}]))
        regions: dict[int, Counter[tuple[Any, ...]]] = defaultdict(Counter)
        for row in found:
            regions[row["region"]][row["was_zip"], row["was_job"]] += 1
        lowest: dict[tuple[Any, ...], Counter[tuple[Any, ...]]] = defaultdict(Counter)
        for group in expected:  # classes of equal labels are one region
            every = [levels_of(row) for row in group]
            shown = tuple(
                next(labels[0][axis][i] for i in range(5) if len({one[axis][i] for one in labels}) == 1)
                for axis, labels in ((0, every), (1, every))
            )
            lowest[shown] += group
        assert sorted(map(sorted, (c.elements() for c in regions.values()))) == sorted(
            map(sorted, (c.elements() for c in lowest.values()))
        )
    assert compared > 5


# What must hold -------------------------------------------------------------------------------------------------------

MODELS: list[tuple[dict[str, Any], Any]] = [
    ({"k_anonymity": {"k": 3}}, lambda rows, group: brute.broken_k_anonymity(rows, group, k=3)),
    (
        {"distinct_l_diversity": {"l": 2}},
        lambda rows, group: brute.broken_distinct_l_diversity(rows, group, "s", l=2),
    ),
]


def holds(database: Database, rows: list[Any], chosen: list[int]) -> None:
    filled(database, rows)
    models = [MODELS[i] for i in chosen]
    asked = policy(ROLES, {"zip": PREFIX, "job": JOBS}, [model for model, _ in models])
    whole, group = [{"zip": "*", "job": "*", "s": c} for _, _, c in rows], ["zip", "job"]
    if any(broken(whole, group) for _, broken in models):
        with pytest.raises(Infeasible):
            recode(database, asked)
        return
    found, solution, posed = recode(database, asked)
    counted = ["was_zip", "was_job", *posed.compressed.values]
    assert Counter(tuple(row[name] for name in counted) for row in found) == Counter(
        row[: len(counted)] for row in rows
    )
    for _, broken in models:
        assert not broken(found, group)
    together: dict[tuple[Any, ...], set[int]] = defaultdict(set)
    for row in found:
        together[row["was_zip"], row["was_job"]].add(row["region"])
        zips = {one: levels_of((one, "Dancer"))[0][1:] for one in {row["was_zip"]}}
        assert covers(posed, "zip", row["zip"], row["was_zip"], zips if row["was_zip"] else {None: ["*"]})
        assert covers(posed, "job", row["job"], row["was_job"], ABOVE)
    assert all(len(regions) == 1 for regions in together.values())
    again, same, _ = recode(database, asked)
    assert sorted(map(str, again)) == sorted(map(str, found)) and same.loss == solution.loss


@settings(max_examples=examples(25), deadline=None)
@given(ROWS, st.sampled_from([[0], [1], [0, 1]]))
def test_whatever_the_table(duck: Database, rows: list[Any], chosen: list[int]) -> None:
    holds(duck, rows, chosen)


@pytest.mark.full_on_postgres
@pytest.mark.parametrize("chosen", [[0], [0, 1]])
def test_on_both_engines(database: Database, chosen: list[int]) -> None:
    draw = np.random.default_rng(7)
    rows = [
        ("".join(draw.choice(["1", "2"], 4)), str(draw.choice(list(ABOVE))), str(draw.choice(["flu", "cold"])))
        for _ in range(60)
    ]
    holds(database, [*rows, (None, "Dancer", "flu")], chosen)


@pytest.mark.parametrize("rows_in_memory", [0, 12])
def test_the_engine_forms_the_same_classes(
    duck: Database, monkeypatch: pytest.MonkeyPatch, rows_in_memory: int
) -> None:
    """In memory, in the engine, and first in one and then in the other."""
    draw = np.random.default_rng(11)
    rows = [("".join(draw.choice(list("1234"), 4)), str(draw.choice(list(ABOVE))), "flu") for _ in range(150)]
    filled(duck, rows)
    asked = policy(ROLES, {"zip": PREFIX, "job": JOBS}, [{"k_anonymity": {"k": 3}}])
    in_memory, first, _ = recode(duck, asked)
    monkeypatch.setattr(bottom_up_recoding, "MOST_ROWS", rows_in_memory)
    monkeypatch.setattr(bottom_up_recoding, "MOST_PARTS", 3)
    monkeypatch.setattr(bottom_up_recoding, "TOGETHER", 4)
    in_engine, second, _ = recode(duck, asked)
    assert sorted(map(str, in_engine)) == sorted(map(str, in_memory)) and second.loss == first.loss


def test_many_rows_that_are_left_become_a_class(duck: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [(zip_, job, "flu") for zip_ in ("1111", "2222") for job in ABOVE]
    filled(duck, rows)
    monkeypatch.setattr(bottom_up_recoding, "MOST_NODES", 1)
    monkeypatch.setattr(bottom_up_recoding, "MOST_JOINED", 2)
    asked = policy(ROLES, {"zip": PREFIX, "job": JOBS}, [{"k_anonymity": {"k": 2}}])
    found, solution, _ = recode(duck, asked)
    assert {(row["zip"], row["job"]) for row in found} == {("*", "*")} and solution.loss == 1.0


def test_of_very_many_classes_the_small_ones_are_joined(duck: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """4352 would cost as much in either class of 435*, which has two rows or three."""
    zips = ["4351"] * 3 + ["4353"] * 2 + ["4352"]
    duck.table("t", {"zip": "TEXT"}, [{"zip": one} for one in zips])
    monkeypatch.setattr(bottom_up_recoding, "MOST_COMPARED", 1)
    monkeypatch.setattr(bottom_up_recoding, "FEWEST_COMPARED", 1)
    asked = policy({"zip": "quasi_identifier"}, {"zip": PREFIX}, [{"k_anonymity": {"k": 2}}])
    found, _, _ = recode(duck, asked)
    shown = Counter((row["was_zip"], row["zip"]) for row in found)
    assert shown == {("4351", "4351"): 3, ("4353", "435*"): 2, ("4352", "435*"): 1}


def test_when_the_time_runs_out_the_models_hold(duck: Database) -> None:
    rows = [(f"{i % 7}{i % 5}1{i % 3}", list(ABOVE)[i % 4], ["flu", "cold"][i % 2]) for i in range(90)]
    filled(duck, rows)
    for models in ([MODELS[0]], MODELS):
        asked = policy(ROLES, {"zip": PREFIX, "job": JOBS}, [model for model, _ in models])
        posed = opened(duck, asked)
        posed.state.end_after(-1)
        found = bottom_up_recoding.run(posed, bottom_up_recoding.Params())
        shown = released(duck, posed, found)
        posed.close()
        assert "time ran out" in found.why and len(shown) == 90
        assert not any(broken(shown, ["zip", "job"]) for _, broken in models)


def test_persons_are_counted_once(duck: Database) -> None:
    """Four rows of two persons are no crowd of three."""
    rows = [("1111", 1), ("1111", 1), ("1111", 2), ("1111", 2), ("1112", 3), ("1112", 4), ("1112", 5), ("1112", 6)]
    duck.table("t", {"zip": "TEXT", "who": "INT"}, [{"zip": a, "who": b} for a, b in rows])
    asked = policy(
        {"zip": "quasi_identifier", "who": "identifier"}, {"zip": PREFIX}, [{"k_anonymity": {"k": 3}}], person="who"
    )
    posed = opened(duck, asked)
    found = bottom_up_recoding.run(posed, bottom_up_recoding.Params())
    assert found.regions is not None and not found.regions.split
    assert duck.fetch(f"SELECT l1 FROM {found.regions.labels}") == [("111*",)]
    assert len(duck.fetch(f"SELECT * FROM {found.regions.members}")) == 2
    posed.close()


@pytest.mark.full_on_postgres
def test_more_columns_than_one_key_holds(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    draw = np.random.default_rng(5)
    names = [f"c{i}" for i in range(12)]
    drawn = draw.integers(0, 300, (60, 12)).tolist()
    rows = [dict(zip(names, line, strict=True)) for line in [*drawn, *drawn[:20] * 2]]
    database.table("t", dict.fromkeys(names, "INTEGER"), rows)
    uses = {name: {"intervals": {"widths": [10, 100], "min": 0, "max": 300}} for name in names}
    asked = policy(dict.fromkeys(names, "quasi_identifier"), uses, [{"k_anonymity": {"k": 3}}])
    monkeypatch.setattr(bottom_up_recoding, "MOST_NODES", 500)
    posed = opened(database, asked)
    assert posed.compressed.keys > 1
    found = bottom_up_recoding.run(posed, bottom_up_recoding.Params())
    shown = released(database, posed, found)
    posed.close()
    assert len(shown) == 100 and not brute.broken_k_anonymity(shown, names, k=3)
    assert len({row["region"] for row in shown}) >= 20


# In memory ------------------------------------------------------------------------------------------------------------


def test_nodes_come_in_the_order_of_their_loss() -> None:
    losses = [[0.0, 0.3, 1.0], [0.0, 0.3], [0.0, 0.1, 0.2, 0.9]]
    order = list(order_nodes(losses))
    assert order == sorted(
        itertools.product(range(3), range(2), range(4)),
        key=lambda node: (round(sum(own[i] for own, i in zip(losses, node, strict=True)), 12), node),
    )


def test_rows_join_where_it_costs_least() -> None:
    """Every class tried, with the loss written out."""
    draw = np.random.default_rng(1)
    # Codes of three levels: four bits, two bits, none.
    masks = (0b1111, 0b1100, 0)
    for _ in range(30):
        losses = tuple({code & mask: float(i) / 2 for code in range(16)} for i, mask in enumerate(masks))
        keys = draw.integers(0, 16, (6, 1))
        levels, records = draw.integers(0, 3, (6, 1)), draw.integers(3, 9, 6)
        key, count = int(draw.integers(0, 16)), int(draw.integers(1, 3))
        classes = Classes([LabelLosses(0, masks, losses)], keys, levels.copy(), records.copy())
        costs = []
        for own, level, size in zip(keys[:, 0].tolist(), levels[:, 0].tolist(), records.tolist(), strict=True):
            after = next(i for i in range(level, 3) if own & masks[i] == key & masks[i])
            costs.append((size + count) * after / 2 - size * level / 2)
        place = classes.join([key], count)
        assert costs[place] == min(costs) and classes.records[place] == records[place] + count


def test_it_does_not_look_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sqlanon.regions.place_rows.MOST_LOOKS", 5)
    keys = np.array([[1], [2], [3]])
    assert place_rows(keys, np.ones(3, dtype=np.int64), [[7], [0]], 2).tolist() == [-1, -1, -1]


def test_several_keys_are_compared_together() -> None:
    keys = np.array([[1, 5], [1, 6], [2, 5], [1, 5]])
    assert place_rows(keys, np.ones(4, dtype=np.int64), [[7, 7]], 2).tolist() == [0, -1, -1, 0]


@pytest.mark.full
def test_it_says_why_in_the_plan(duck: Database) -> None:
    from sqlanon.release import publish

    filled(duck, [("4351", "Dancer", "flu"), ("4352", "Writer", "cold")] * 4)
    asked = policy(
        ROLES, {"zip": PREFIX, "job": JOBS}, [{"k_anonymity": {"k": 2}}], release={"table": "r"},
        algorithm="bottom_up_recoding",
    )  # fmt: skip
    done = publish(asked, duck.engine, secret="a long enough secret")
    assert done.plan.algorithm == "bottom_up_recoding" and done.plan.loss == 0 and "all nodes" in done.plan.why
    assert json.loads(json.dumps(done.plan.why))

"""Top-down local recoding: the paper's examples, plain Python as the oracle, and what must hold for any table."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import brute
import pytest
from conftest import Database, examples
from hypothesis import given, settings
from hypothesis import strategies as st
from recoded import covers, opened, policy
from similarity_attack import CATEGORIES, DISEASES, recode

from sqlanon.algorithms import top_down_recoding
from sqlanon.lattice.nodes import Infeasible

PREFIX = {"prefix": {"length": 4}}
JOBS = {
    "tree": {"tree": {"*": {"Artist": ["Dancer", "Writer"], "Professional": ["Engineer", "Lawyer"]}}},
}


@pytest.mark.full_on_postgres
def test_four_zip_codes(database: Database) -> None:
    """Sun, Li and Wang 2011, table 8: 4352 goes up alone, and takes one row of 4351 with it."""
    rows = [("4351", "HIV"), ("4351", "Flu"), ("4351", "HIV"), ("4352", "Flu")]
    database.table("t", {"zip": "TEXT", "disease": "TEXT"}, [{"zip": a, "disease": b} for a, b in rows])
    model = {"distinct_l_alpha_diversity": {"l": 2, "alpha": 1, "categories": [["HIV"], ["Flu"]]}}
    asked = policy({"zip": "quasi_identifier", "disease": "sensitive"}, {"zip": PREFIX}, [model])
    found, solution, _ = recode(database, asked)
    shown = Counter((row["was_zip"], row["zip"], row["disease"]) for row in found)
    assert shown == {
        ("4351", "4351", "HIV"): 1,
        ("4351", "4351", "Flu"): 1,
        ("4351", "435*", "HIV"): 1,
        ("4352", "435*", "Flu"): 1,
    }
    assert solution.loss == pytest.approx(0.5) and solution.suppressed == 0


def test_without_donors_children_come_back_whole(duck: Database) -> None:
    rows = [("4351", "HIV"), ("4351", "Flu"), ("4351", "HIV"), ("4352", "Flu")]
    duck.table("t", {"zip": "TEXT", "disease": "TEXT"}, [{"zip": a, "disease": b} for a, b in rows])
    asked = policy(
        {"zip": "quasi_identifier", "disease": "sensitive"}, {"zip": PREFIX}, [{"distinct_l_diversity": {"l": 2}}]
    )
    found, _, _ = recode(duck, asked, donors=0)
    assert {row["zip"] for row in found} == {"435*"}


def test_a_table_that_cannot_hold_is_refused(duck: Database) -> None:
    duck.table("t", {"zip": "TEXT"}, [{"zip": "1"}, {"zip": "2"}])
    with pytest.raises(Infeasible):
        recode(duck, policy({"zip": "quasi_identifier"}, {"zip": PREFIX}, [{"k_anonymity": {"k": 3}}]))


MODELS: list[tuple[dict[str, Any], Any]] = [
    ({"k_anonymity": {"k": 3}}, lambda rows, group: brute.broken_k_anonymity(rows, group, k=3)),
    (
        {"distinct_l_alpha_diversity": {"l": 2, "alpha": 1.5, "categories": CATEGORIES}},
        lambda rows, group: brute.broken_distinct_l_alpha_diversity(
            rows, group, "s", l=2, alpha=1.5, categories=CATEGORIES, weights=brute.category_weights(4)
        ),
    ),
    (
        {"entropy_l_alpha_diversity": {"l": 2, "alpha": 1, "categories": CATEGORIES}},
        lambda rows, group: brute.broken_entropy_l_alpha_diversity(
            rows, group, "s", l=2, alpha=1, categories=CATEGORIES, weights=brute.category_weights(4)
        ),
    ),
    (
        {"recursive_cl_alpha_diversity": {"c": 3, "l": 2, "alpha": 1, "categories": CATEGORIES}},
        lambda rows, group: brute.broken_recursive_cl_alpha_diversity(
            rows, group, "s", c=3, l=2, alpha=1, categories=CATEGORIES, weights=brute.category_weights(4)
        ),
    ),
    ({"t_closeness": {"t": 0.4}}, lambda rows, group: brute.broken_t_closeness(rows, group, "s", t=0.4)),
]
ZIPS = st.one_of(st.none(), st.text("12", min_size=4, max_size=4))
ROWS = st.lists(st.tuples(ZIPS, st.sampled_from(["Dancer", "Writer", "Engineer", "Lawyer"]), st.sampled_from(DISEASES)))
ANCESTORS_OF_JOBS = {
    "Dancer": ["Artist", "*"], "Writer": ["Artist", "*"], "Engineer": ["Professional", "*"],
    "Lawyer": ["Professional", "*"],
}  # fmt: skip


def holds(database: Database, rows: list[Any], chosen: list[int]) -> None:
    database.table(
        "t",
        {"zip": "TEXT", "job": "TEXT", "s": "TEXT"},
        [{"zip": a, "job": b, "s": c} for a, b, c in rows],
    )
    models = [MODELS[i] for i in chosen]
    roles = {"zip": "quasi_identifier", "job": "quasi_identifier", "s": "sensitive"}
    asked = policy(roles, {"zip": PREFIX, "job": JOBS}, [model for model, _ in models])
    whole = [{"zip": "*", "job": "*", "s": c} for _, _, c in rows]
    group = ["zip", "job"]
    if any(broken(whole, group) for _, broken in models):
        with pytest.raises(Infeasible):
            recode(database, asked)
        return
    found, solution, posed = recode(database, asked)
    counted = ["was_zip", "was_job", *posed.compressed.values]  # without a model of secrets they are not looked at
    assert Counter(tuple(row[name] for name in counted) for row in found) == Counter(
        row[: len(counted)] for row in rows
    )
    for _, broken in models:
        assert not broken(found, group)
    zips = {zip_: [*(zip_[:i] + "*" * (4 - i) for i in (3, 2, 1)), "*"] if zip_ else ["*"] for zip_, _, _ in rows}
    for row in found:
        assert covers(posed, "zip", row["zip"], row["was_zip"], zips)
        assert covers(posed, "job", row["job"], row["was_job"], ANCESTORS_OF_JOBS)
    again, same, _ = recode(database, asked)
    assert sorted(map(str, again)) == sorted(map(str, found)) and same.loss == solution.loss


@pytest.mark.full
@settings(max_examples=examples(8))
@given(st.data())
def test_whatever_the_table(duck: Database, data: st.DataObject) -> None:
    any_table(duck, data)


@pytest.mark.long
@settings(max_examples=examples(150))
@given(st.data())
def test_whatever_the_table_at_length(duck: Database, data: st.DataObject) -> None:
    any_table(duck, data)


def any_table(duck: Database, data: st.DataObject) -> None:
    rows = data.draw(ROWS.filter(bool))
    holds(duck, rows, data.draw(st.lists(st.integers(0, len(MODELS) - 1), min_size=1, max_size=2, unique=True)))


@pytest.mark.full
@pytest.mark.parametrize("chosen", [[0], [1], [2], [3], [0, 4]])
def test_on_both_engines(database: Database, chosen: list[int]) -> None:
    draw = random.Random(7)
    jobs = list(ANCESTORS_OF_JOBS)
    rows = [("".join(draw.choices("12", k=4)), draw.choice(jobs), draw.choice(DISEASES)) for _ in range(60)]
    holds(database, [*rows, (None, "Dancer", "Flu")], chosen)


def test_persons_are_counted_once(duck: Database) -> None:
    """Four rows of two persons are no crowd of three."""
    rows = [("1111", 1), ("1111", 1), ("1111", 2), ("1111", 2), ("1112", 3), ("1112", 4), ("1112", 5), ("1112", 6)]
    duck.table("t", {"zip": "TEXT", "who": "INT"}, [{"zip": a, "who": b} for a, b in rows])
    roles = {"zip": "quasi_identifier", "who": "identifier"}
    asked = policy(roles, {"zip": PREFIX}, [{"k_anonymity": {"k": 3}}], person="who")
    posed = opened(duck, asked)
    found = top_down_recoding.run(posed, top_down_recoding.Params())
    assert found.regions is not None and not found.regions.split and not found.regions.by_value
    labels = duck.fetch(f"SELECT l1 FROM {found.regions.labels}")
    assert labels == [("111*",)] and len(duck.fetch(f"SELECT * FROM {found.regions.members}")) == 2
    posed.close()

"""(k,e) grouping: the least sum of ranges there is, values that stay in their group, arrangements that are drawn."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import parting
import pytest
from conftest import Database, examples
from hypothesis import given, settings
from hypothesis import strategies as st
from parting import patients, published, with_patients
from transforming import KEY, OTHER_KEY

import sqlanon
from sqlanon.algorithms import k_e_grouping
from sqlanon.algorithms.k_e_grouping import widest
from sqlanon.buckets.bucketize import prepare_rows
from sqlanon.errors import PolicyError
from sqlanon.evidence.checks import check
from sqlanon.policy import Source
from sqlanon.relations.bucketization import GROUP

ROLES = {"id": "identifier", "tag": "insensitive", "age": "quasi_identifier", "sex": "quasi_identifier"}
ROLES |= {"disease": "insensitive", "income": "sensitive"}


def grouping(k: int, e: float, **changes: Any) -> sqlanon.Policy:
    models = changes.pop("models", [{"k_e_anonymity": {"k": k, "e": e}}])
    algorithm = changes.pop("algorithm", {"k_e_grouping": {"k": k, "e": e}})
    return parting.policy(algorithm, models, **{"columns": ROLES, **changes})


def gaps_of(values: Sequence[float]) -> list[tuple[int, float, float]]:
    return [(place, *pair) for place, pair in enumerate(pairwise(values), start=1)]


def partitions(values: list[int]) -> Iterator[list[list[int]]]:
    """All ways to put values into groups, neighbours or not."""
    if not values:
        yield []
        return
    first, rest = values[0], values[1:]
    for found in partitions(rest):
        yield [[first], *found]
        for place, group in enumerate(found):
            yield [*found[:place], [first, *group], *found[place + 1 :]]


@settings(max_examples=examples(60))
@given(values=st.sets(st.integers(0, 40), min_size=1, max_size=7), k=st.integers(2, 3), e=st.integers(0, 15))
def test_no_grouping_has_a_smaller_sum_of_ranges(values: set[int], k: int, e: int) -> None:
    """Of all groupings whatsoever, also of values that are no neighbours."""
    listed = sorted(values)
    fine = [
        sum(max(group) - min(group) for group in found)
        for found in partitions(listed)
        if all(len(group) >= k and max(group) - min(group) >= e for group in found)
    ]
    cuts, total = widest(gaps_of(listed), len(listed), listed[0], listed[-1], k, e)
    assert (cuts is None) == (not fine)
    if cuts is not None:
        assert total == min(fine)
        pieces = [listed[low:high] for low, high in zip([0, *cuts], [*cuts, len(listed)], strict=True)]
        assert all(len(piece) >= k and piece[-1] - piece[0] >= e for piece in pieces)
        assert sum(piece[-1] - piece[0] for piece in pieces) == total


def test_a_grouping_of_many_values_takes_one_pass() -> None:
    values = [number * number % 9973 + 10_000 * number for number in range(100_000)]
    cuts, total = widest(gaps_of(values), len(values), values[0], values[-1], 5, 100)
    assert cuts is not None and len(cuts) > 10_000
    assert total < values[-1] - values[0] and math.isfinite(total)


def released(database: Database) -> dict[int, list[tuple[int, int]]]:
    found: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for tag, income, group in database.fetch(f"SELECT tag, income, {GROUP} FROM released"):
        found[group].append((tag, income))
    return found


@pytest.mark.full
@pytest.mark.parametrize("kind", ["INTEGER", "DOUBLE PRECISION", "DECIMAL(12,2)"])
def test_values_stay_in_their_group(database: Database, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(parting.TYPES, "income", kind)
    rows = [{**row, "income": row["income"] * row["income"] / (1 if kind == "INTEGER" else 4)} for row in patients(120)]
    with_patients(database, rows)
    done = published(database, grouping(3, 20))
    truth = {row["tag"]: row["income"] for row in rows}
    found = released(database)
    assert sum(map(len, found.values())) == 120 and len(found) == done.document["groups"]["number"] > 3
    moved = 0
    for pairs in found.values():
        values = [float(value) for _, value in pairs]
        assert Counter(values) == Counter(float(truth[tag]) for tag, _ in pairs)
        assert len(set(values)) >= 3 and max(values) - min(values) >= 20
        moved += sum(float(value) != truth[tag] for tag, value in pairs)
    assert moved > 60
    distinct = sorted(set(map(float, truth.values())))
    _, total = widest(gaps_of(distinct), len(distinct), distinct[0], distinct[-1], 3, 20)
    assert done.document["groups"]["sum_of_ranges"] == pytest.approx(total)
    assert check(grouping(3, 20), database.engine, release=Source(table="released")).holds
    database.run(f"UPDATE released SET income = 7 WHERE {GROUP} = 1")
    assert not check(grouping(3, 20), database.engine, release=Source(table="released")).holds


@pytest.mark.full
def test_one_secret_gives_one_release_on_both_engines(duck: Database, postgres: Database) -> None:
    for database in (duck, postgres):
        with_patients(database, patients(80))
        published(database, grouping(3, 4))
    first = sorted(duck.fetch(f"SELECT tag, income, {GROUP} FROM released"))
    assert sorted(postgres.fetch(f"SELECT tag, income, {GROUP} FROM released")) == first
    published(duck, grouping(3, 4), OTHER_KEY)
    other = sorted(duck.fetch(f"SELECT tag, income, {GROUP} FROM released"))
    assert other != first and [(row[0], row[2]) for row in other] == [(row[0], row[2]) for row in first]


@pytest.mark.full
def test_every_arrangement_is_as_likely(duck: Database) -> None:
    """Three rows of a group: six arrangements of their values."""
    rows = [{**row, "income": 10 * row["tag"]} for row in patients(3)]
    with_patients(duck, rows)
    seen: Counter[tuple[int, ...]] = Counter()
    for number in range(48):
        task = prepare_rows(grouping(3, 1), duck.engine, f"{KEY} {number}", k_e_grouping.SEEDS)
        made = k_e_grouping.part(task, k_e_grouping.Params(k=3, e=1.0))
        seen[
            tuple(value for _, value in sorted(duck.fetch(f"SELECT tag, income FROM ({made.select.sql('duckdb')})")))
        ] += 1
        task.close()
    assert len(seen) == 6 and max(seen.values()) < 22  # 8 each; five deviations


def test_gaps_of_neighbourhoods_are_enough(duck: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(k_e_grouping, "MOST_CUTS", 10)
    with_patients(duck, [{**row, "income": row["tag"] ** 2} for row in patients(200)])
    done = published(duck, grouping(4, 30))
    assert 3 < done.document["groups"]["number"] <= 11 and "of the widest gaps only" in done.plan.why


def test_a_view_and_a_file_hold_it_as_well(duck: Database, tmp_path: Any) -> None:
    with_patients(duck, patients(60))
    for release in ({"view": "shown"}, {"path": str(tmp_path / "shown.parquet")}):
        done = published(duck, grouping(3, 4, release=release))
        assert done.evidence is not None and done.evidence.holds
    assert duck.fetch("SELECT COUNT(*) FROM shown") == [(60,)]
    assert duck.fetch(f"SELECT SUM(income) FROM '{tmp_path}/shown.parquet'") == duck.fetch(
        "SELECT SUM(income) FROM shown"
    )


@pytest.mark.full
@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"columns": {**ROLES, "disease": "sensitive", "income": "insensitive"}}, "orders numbers"),
        ({"columns": {**ROLES, "disease": "sensitive"}}, "and there are 2"),
        ({"models": [{"k_anonymity": {"k": 2}}]}, "cannot be asked of its groups"),
        ({"models": [{"k_e_anonymity": {"k": 3, "e": 35}}]}, "as written it breaks the policy"),
        ({"algorithm": {"k_e_grouping": {"k": 60, "e": 1}}}, "fewer than 60 different values"),
        ({"algorithm": {"k_e_grouping": {"k": 2, "e": 60}}}, "or they span less than 60"),
        ({"algorithm": {"k_e_grouping": {"k": 1, "e": 60}}}, "2"),
        ({"algorithm": {"k_e_grouping": {"k": 2, "e": -1}}}, "0"),
        ({"algorithm": {"k_e_grouping": {"k": 2}}}, "is missing"),
    ],
)
def test_what_is_refused(duck: Database, changes: dict[str, Any], said: str) -> None:
    with_patients(duck, patients(60))
    models = [{"distinct_l_diversity": {"l": 2, "attribute": "income"}}]
    if changes.get("columns", ROLES)["income"] != "sensitive":
        models = [{"distinct_l_diversity": {"l": 2}}]
    with pytest.raises(PolicyError) as error:
        published(duck, grouping(2, 1, **{"models": models, **changes}))
    assert said in f"{error.value.message} {error.value.detail} {error.value.hint}"
    assert duck.engine.tables() == ["patients"]


def test_numbers_that_have_no_place_are_refused(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(parting.TYPES, "income", "DOUBLE PRECISION")
    for odd in (None, math.nan, math.inf):
        with_patients(database, [{**row, "income": odd if row["tag"] == 5 else row["income"]} for row in patients(60)])
        with pytest.raises(PolicyError, match="has NULLs, or numbers that are not finite"):
            published(database, grouping(2, 1))

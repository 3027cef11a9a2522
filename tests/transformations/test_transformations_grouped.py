"""Methods that make groups or draw anew: optimal and categorical microaggregation, condensation, resampling."""

from __future__ import annotations

import math
import re
import statistics
from collections import Counter
from functools import cache
from typing import Any

import pytest
from conftest import ROOT, Database, examples
from hypothesis import given, settings
from hypothesis import strategies as st
from transforming import KEY, changed, load, people, policy, with_people

import sqlanon
from sqlanon.engines import connect
from sqlanon.errors import PolicyError

COLUMNS = {"id": "identifier", "x": "quasi_identifier", "grade": "insensitive", "job": "insensitive"}
TYPES = {"id": "BIGINT", "x": "DOUBLE PRECISION", "grade": "VARCHAR", "job": "VARCHAR"}


def optimal(database: Database, values: list[float], k: int, **params: Any) -> list[float]:
    rows = [{"id": place, "x": value, "grade": "", "job": ""} for place, value in enumerate(values)]
    load(database, "people", TYPES, rows)
    use = {"optimal_microaggregation": {"columns": ["x"], "k": k, **params}}
    return [row["x"] for row in changed(database, [use], secret=None, columns=COLUMNS)]


def least_loss(values: list[float], k: int) -> float:
    """By trying all groups of sorted values, of any size from k on."""
    ordered = sorted(values)

    @cache
    def best(start: int) -> float:
        if start == len(ordered):
            return 0.0
        ends = range(start + k, len(ordered) + 1)
        return min((sse(ordered[start:end]) + best(end) for end in ends), default=math.inf)

    return best(0)


def sse(values: list[float]) -> float:
    mean = sum(values) / len(values)
    return sum((value - mean) ** 2 for value in values)


def lost(values: list[float], found: list[float]) -> float:
    return sum((a - b) ** 2 for a, b in zip(values, found, strict=True))


@settings(max_examples=examples(15))
@given(st.lists(st.integers(-50, 50), min_size=7, max_size=14), st.integers(2, 4))
def test_no_groups_lose_less(values: list[int], k: int) -> None:
    database = Database(connect(":memory:"))
    numbers = [float(value) for value in values]
    found = optimal(database, numbers, k, exact=True)
    database.engine.close()
    assert lost(numbers, found) == pytest.approx(least_loss(numbers, k), abs=1e-4)


@pytest.mark.full
def test_optimal_groups_on_both_engines(duck: Database, postgres: Database) -> None:
    values = [row["rent"] for row in people(130)]
    here = optimal(duck, values, 4, exact=True)
    assert here == optimal(postgres, values, 4, exact=True)
    assert lost(values, here) == pytest.approx(least_loss(values, 4))
    assert all(4 <= size < 8 for size in Counter(here).values())
    # In blocks, each of them optimal, little more is lost, and less than by MDAV.
    cut = optimal(duck, values, 4, block=30)
    assert cut == optimal(postgres, values, 4, block=30) and min(Counter(cut).values()) >= 4
    assert lost(values, here) <= lost(values, cut) < 1.2 * lost(values, here)
    greedy = changed(duck, [{"microaggregation": {"columns": ["x"], "k": 4, "exact": True}}], columns=COLUMNS)
    assert lost(values, here) < lost(values, [row["x"] for row in greedy])


def categorical(database: Database, rows: list[tuple[str, str]], **params: Any) -> list[tuple[str, str]]:
    table = [{"id": place, "x": 1.0, "grade": grade, "job": job} for place, (grade, job) in enumerate(rows)]
    load(database, "people", TYPES, table)
    use = {"categorical_microaggregation": params}
    found = changed(database, [use], secret=None, columns=COLUMNS)
    return [(row["grade"], row["job"]) for row in found]


GRADES, JOBS = list("ABCDE"), ["nurse", "cook", "smith"]


@settings(max_examples=examples(10))
@given(st.lists(st.tuples(st.sampled_from(GRADES), st.sampled_from(JOBS)), min_size=3, max_size=5))
def test_one_group_shows_its_median_and_its_mode(rows: list[tuple[str, str]]) -> None:
    database = Database(connect(":memory:"))
    found = categorical(database, rows, ordered={"grade": GRADES}, nominal={"job": JOBS}, k=3)
    database.engine.close()
    median = statistics.median_low([grade for grade, _ in rows])
    counted = Counter(job for _, job in rows)
    mode = max(JOBS, key=lambda job: (counted[job], -JOBS.index(job)))
    assert found == [(median, mode)] * len(rows)


@pytest.mark.full
def test_categories_are_grouped_with_their_like(database: Database) -> None:
    rows = [(GRADES[place % 2 if place < 30 else 4 - place % 2], JOBS[place // 20]) for place in range(60)]
    both = {"ordered": {"grade": GRADES}, "nominal": {"job": JOBS}}
    # Of every combination there are five or ten: nobody has to change.
    assert categorical(database, rows, **both, k=5, exact=True) == rows
    for k, block in ((5, 20), (7, 30)):
        found = categorical(database, rows, **both, k=k, block=block)
        assert min(Counter(found).values()) >= k
        assert sum(a[1] == b[1] for a, b in zip(rows, found, strict=True)) > 45
    jobs = categorical(database, rows, nominal={"job": JOBS}, k=5, exact=True)
    assert jobs == rows


def numbers(rows: list[dict[str, Any]], name: str) -> list[float]:
    return [float(row[name]) for row in rows]


@pytest.mark.full
def test_condensation_keeps_means_and_covariances(duck: Database) -> None:
    rows = [{**row, "income": 7} for row in people(4000, nulls=False)]
    with_people(duck, rows)
    names = ["rent", "tax", "age"]
    found = changed(duck, [{"condensation": {"columns": [*names, "income"], "k": 40}}])
    assert {row["income"] for row in found} == {7}  # it has no spread, which is kept, too
    assert sum(a == b for a, b in zip(numbers(rows, "rent"), numbers(found, "rent"), strict=True)) < 5
    for one in names:
        spread = statistics.pstdev(numbers(rows, one))
        assert abs(statistics.fmean(numbers(found, one)) - statistics.fmean(numbers(rows, one))) < 0.02 * spread
        for other in names:
            scale = spread * statistics.pstdev(numbers(rows, other))
            before = statistics.covariance(numbers(rows, one), numbers(rows, other))
            after = statistics.covariance(numbers(found, one), numbers(found, other))
            assert abs(after - before) < 0.03 * scale, (one, other)


def test_condensation_of_one_group_draws_evenly_around_its_mean(duck: Database) -> None:
    rows = people(500, nulls=False)
    with_people(duck, rows)
    found = changed(duck, [{"condensation": {"columns": ["rent"], "k": 400, "block": 2000}}])
    mean, spread = statistics.fmean(numbers(rows, "rent")), statistics.pstdev(numbers(rows, "rent"))
    new = numbers(found, "rent")
    assert max(abs(value - mean) for value in new) <= math.sqrt(3) * spread + 1e-6
    assert statistics.pstdev(new) == pytest.approx(spread, rel=0.15)
    # Even: a quarter of the draws in each quarter of the range.
    quarters = Counter(
        min(3, int((value - mean + math.sqrt(3) * spread) / (math.sqrt(3) * spread / 2))) for value in new
    )
    assert all(abs(quarters[part] - 125) < 4 * math.sqrt(500 * 0.25 * 0.75) for part in range(4))
    # Old and new value of a row have nothing to do with each other.
    assert abs(statistics.correlation(numbers(rows, "rent"), new)) < 4 / math.sqrt(500)


@pytest.mark.full_on_postgres
def test_condensation_with_fewer_rows_than_columns_in_a_group(database: Database) -> None:
    rows = [{**row, "tax": 2 * row["age"]} for row in people(60, nulls=False)]
    with_people(database, rows)
    found = changed(database, [{"condensation": {"columns": ["age", "tax", "rent"], "k": 2, "block": 20}}])
    assert all(abs(float(row["tax"]) - 2 * row["age"]) <= 1.01 for row in found)  # age is rounded


def test_resampling_keeps_the_order_and_the_distribution(duck: Database) -> None:
    rows = people(3000)
    with_people(duck, rows)
    found = changed(duck, [{"resampling": {"columns": ["rent", "income"], "samples": 3}}])
    for name in ("rent", "income"):
        pairs = [(a[name], b[name]) for a, b in zip(rows, found, strict=True) if a[name] is not None]
        assert all((a[name] is None) == (b[name] is None) for a, b in zip(rows, found, strict=True))
        results = [after for _, after in sorted(pairs)]
        assert results == sorted(results)
        before, after = [float(a) for a, _ in pairs], [float(b) for _, b in pairs]
        spread = statistics.pstdev(before)
        limit = 4 * spread / math.sqrt(3 * len(pairs))  # three samples of as many values
        assert abs(statistics.fmean(after) - statistics.fmean(before)) < limit
        assert sum(a == b for a, b in pairs) < 0.05 * len(pairs)
        # Deciles move by sampling alone.
        for one, other in zip(statistics.quantiles(before), statistics.quantiles(after), strict=True):
            assert abs(one - other) < 0.1 * spread


def test_one_sample_is_drawn_of_the_values_with_replacement(database: Database) -> None:
    rows = [{**row, "income": 10 * row["id"]} for row in people(400, nulls=False)]
    with_people(database, rows)
    found = changed(database, [{"resampling": {"columns": ["income"], "samples": 1}}], secret=KEY)
    drawn = Counter(row["income"] for row in found)
    assert set(drawn) <= {row["income"] for row in rows}
    # About 1 - 1/e of the values are there.
    assert abs(len(drawn) / 400 - (1 - 1 / math.e)) < 0.08 and max(drawn.values()) >= 3


@pytest.mark.parametrize(
    ("use", "message"),
    [
        ({"optimal_microaggregation": {"columns": ["age"], "k": 1}}, "'k' must be >= 2"),
        ({"categorical_microaggregation": {"k": 3}}, "give 'ordered', 'nominal' or both"),
        ({"categorical_microaggregation": {"k": 3, "nominal": {"job": ["a"]}}}, "list 2 to 100 values"),
        ({"categorical_microaggregation": {"k": 3, "nominal": {"job": ["a", "a"]}}}, "a value is there twice"),
        (
            {"categorical_microaggregation": {"k": 3, "nominal": {"job": ["a", "b"]}, "ordered": {"job": ["a", "b"]}}},
            "is in 'ordered' and in 'nominal'",
        ),
        ({"categorical_microaggregation": {"k": 3, "nominal": {"jobb": ["a", "b"]}}}, "did you mean 'job'"),
        ({"condensation": {"columns": ["age"], "k": 1}}, "'k' must be >= 2"),
        ({"resampling": {"columns": ["age"], "samples": 0}}, "'samples' must be >= 1"),
    ],
    ids=str,
)
def test_a_wrong_policy_is_refused(use: dict[str, Any], message: str) -> None:
    with pytest.raises(PolicyError) as error:
        policy([use])
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("use", "message"),
    [
        ({"optimal_microaggregation": {"columns": ["income"], "k": 3}}, "'income' holds NULLs"),
        ({"optimal_microaggregation": {"columns": ["born"], "k": 3}}, "which has no mean"),
        ({"optimal_microaggregation": {"columns": ["age"], "k": 90}}, "fewer than k"),
        ({"categorical_microaggregation": {"k": 3, "nominal": {"job": ["nurse", "cook"]}}}, "'job' holds NULLs"),
        ({"categorical_microaggregation": {"k": 3, "nominal": {"town": ["A", "B"]}}}, "that the list does not have"),
        ({"categorical_microaggregation": {"k": 3, "nominal": {"rent": ["1", "2"]}}}, "whose values are no categories"),
        ({"condensation": {"columns": ["income"], "k": 3}}, "'income' holds NULLs"),
        ({"condensation": {"columns": ["job"], "k": 3}}, "which has no mean"),
        ({"condensation": {"columns": ["age"], "k": 100}}, "fewer than k"),
        ({"resampling": {"columns": ["job"]}}, "which has no mean"),
    ],
    ids=str,
)
def test_data_that_cannot_be_grouped_is_refused(duck: Database, use: dict[str, Any], message: str) -> None:
    with_people(duck, people(80))
    with pytest.raises(PolicyError) as error:
        changed(duck, [use])
    assert message in str(error.value)


def test_three_values_are_too_few_for_samples(duck: Database) -> None:
    with_people(duck, people(3, nulls=False))
    with pytest.raises(PolicyError, match="fewer than 5 values"):
        changed(duck, [{"resampling": {"columns": ["rent"]}}])


def test_the_methods_that_the_guide_shows_are_understood() -> None:
    text = (ROOT / "examples" / "transformations" / "README.md").read_text(encoding="utf-8")
    (shown,) = re.findall(r"```yml\n(.*?)```", text, flags=re.DOTALL)
    made = sqlanon.parse(f"source: {{table: t}}\nmodels: [{{k_anonymity: {{k: 2}}}}]\n{shown}")
    used = {use.name for use in made.transformations}
    assert used >= {"optimal_microaggregation", "categorical_microaggregation", "condensation", "resampling", "masking"}

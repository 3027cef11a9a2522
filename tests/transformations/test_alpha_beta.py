"""The alpha-beta algorithm: what an attacker believes afterwards, how many records are real, and what is refused."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from itertools import product
from typing import Any

import pytest
from conftest import Database, examples
from hypothesis import given, settings
from hypothesis import strategies as st
from transforming import KEY, OTHER_KEY, changed, people, policy, with_people

from sqlanon import transformations
from sqlanon.errors import PolicyError
from sqlanon.release import publish
from sqlanon.transformations.alpha_beta import largest_alpha

USE: dict[str, Any] = {"columns": ["age", "job", "town"], "alpha": 0.4, "beta": 0.1, "d": 0.1, "gamma": 0.5}
HUNDREDTHS = st.integers(1, 99).map(lambda n: Fraction(n, 100))


@settings(max_examples=examples(300))
@given(alpha=HUNDREDTHS, beta=HUNDREDTHS, d=HUNDREDTHS, gamma=HUNDREDTHS)
def test_the_condition_is_that_of_the_definition(alpha: Fraction, beta: Fraction, d: Fraction, gamma: Fraction) -> None:
    """By Bayes, for every prior up to d: a published record, and one that is not."""
    if d >= gamma or alpha + beta >= 1:
        return
    private = True
    for step in range(1, 101):
        prior = d * Fraction(step, 100)
        seen = prior * (alpha + beta) / (prior * (alpha + beta) + (1 - prior) * beta)
        unseen = prior * (1 - alpha - beta) / (prior * (1 - alpha - beta) + (1 - prior) * (1 - beta))
        private = private and seen <= gamma and unseen / prior >= d / gamma
    allowed = float(alpha) <= largest_alpha(float(beta), float(d), float(gamma)) + 1e-12
    # The second condition is for priors near 0, which no grid reaches: it may be stricter, never weaker.
    assert private or not allowed
    near_zero = (1 - alpha - beta) / (1 - beta) >= d / gamma
    assert allowed == (private and near_zero)


def rows_of(found: list[dict[str, Any]]) -> Counter[tuple[Any, ...]]:
    return Counter((row["age"], row["job"], row["town"]) for row in found)


def test_records_are_kept_and_made_up_as_often_as_it_says(duck: Database) -> None:
    rows = [{**row, "age": row["age"] % 40} for row in people(900)]
    with_people(duck, rows)
    found = changed(duck, [{"alpha_beta": USE}])
    published, truth = rows_of(found), rows_of(rows)
    assert set(published.values()) == {1}
    domain = set(product(*(set(values) for values in zip(*truth, strict=True))))
    assert set(published) <= domain and len(domain) == 40 * 6 * 3
    kept = len(published.keys() & truth.keys()) / len(truth)
    false = len(published.keys() - truth.keys()) / len(domain - truth.keys())
    assert kept == pytest.approx(0.5, abs=0.1) and false == pytest.approx(0.1, abs=0.06)
    estimate = (len(published) - 0.1 * len(domain)) / 0.4
    assert estimate == pytest.approx(len(truth), rel=0.2)
    # All other columns are empty.
    assert all(row["income"] is row["rent"] is row["born"] is row["id"] is None for row in found)


def test_a_given_domain_is_drawn_from(database: Database) -> None:
    with_people(database, [{**row, "age": 30 + row["age"] % 3} for row in people(60, nulls=False)])
    domain = {"age": {"low": 0, "high": 49}, "town": ["A", "B", "C", "D", "E"]}
    found = changed(database, [{"alpha_beta": {**USE, "columns": ["age", "town"], "domain": domain}}])
    ages, towns = {row["age"] for row in found}, {row["town"] for row in found}
    assert min(ages) >= 0 and max(ages) <= 49 and len(ages) > 10 and towns & {"D", "E"}
    assert 10 < len(found) < 60


def test_one_secret_gives_one_table_on_both_engines(duck: Database, postgres: Database) -> None:
    for database in (duck, postgres):
        with_people(database, people(150))
    use = [{"alpha_beta": USE}]
    first = rows_of(changed(duck, use))
    assert rows_of(changed(postgres, use)) == first
    assert rows_of(changed(duck, use, secret=OTHER_KEY)) != first
    # A row that leaves, and takes no value along, changes nothing but what is told of itself.
    rows = people(150)
    counts = [Counter(row[name] for row in rows) for name in USE["columns"]]
    gone = next(
        row for row in rows if all(count[row[name]] > 1 for name, count in zip(USE["columns"], counts, strict=True))
    )
    with_people(duck, [row for row in rows if row is not gone])
    other = rows_of(changed(duck, use))
    assert sum(((first - other) + (other - first)).values()) <= 1


@pytest.mark.full_on_postgres
def test_it_is_published(database: Database) -> None:
    with_people(database, people(150))
    roles = dict.fromkeys(people(1)[0], "identifier") | {"age": "quasi_identifier", "town": "sensitive"}
    use = [{"alpha_beta": {**USE, "columns": ["age", "town"]}}]
    asked = policy(use, columns=roles, models=[{"t_closeness": {"t": 1}}], suppression_limit=0)
    done = publish(asked, database.engine, secret=KEY, workload=False)
    assert done.document["released"] == database.fetch("SELECT COUNT(*) FROM released")[0][0]
    (method,) = done.document["transformations"]
    assert method["params"]["gamma"] == 0.5
    assert any("believes in with more than d" in line for line in done.document["not_protected"])


@pytest.mark.full
@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"alpha": 0.8}, "it may be 0.72"),
        ({"alpha": 0.75, "beta": 0.2, "d": 0.05, "gamma": 0.9, "columns": ["age"]}, None),
        ({"gamma": 0.1}, "gamma must be greater than d"),
        ({"beta": 0.0}, "beta"),
        ({"columns": ["age", "rent"]}, "whose values are no categories"),
        ({"domain": {"income": ["1"]}}, "which is none of the columns"),
        ({"domain": {"age": {"low": 9, "high": 1}}}, "between 1 and"),
        ({"domain": {"job": {"low": 0, "high": 1}}}, "a range is of integers"),
        ({"domain": {"town": ["A", "B"]}}, "'town' holds values that are not in the domain"),
        ({"domain": {"job": ["nurse", "driver", "clerk", "cook", "smith"]}}, "'job' holds values that are not"),
    ],
)
def test_what_is_refused(duck: Database, changes: dict[str, Any], said: str | None) -> None:
    with_people(duck, people(60))
    use = [{"alpha_beta": {**USE, **changes}}]
    if said is None:
        assert changed(duck, use)
        return
    with pytest.raises(PolicyError) as error:
        changed(duck, use)
    assert said in str(error.value)


def test_domains_that_are_too_large_and_persons_are_refused(duck: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    with_people(duck, people(60))
    with pytest.raises(PolicyError, match="belongs to nobody"):
        changed(duck, [{"alpha_beta": USE}], person="id")
    monkeypatch.setattr(transformations.method("alpha_beta"), "MOST_COMBINATIONS", 100)
    with pytest.raises(PolicyError, match="more than 100 combinations"):
        changed(duck, [{"alpha_beta": USE}])

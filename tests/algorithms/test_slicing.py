"""Slicing: what a sliced table tells of a record, by the definition in plain Python; and parts that are shuffled."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import parting
import pytest
from conftest import Database, examples
from hypothesis import given, settings
from hypothesis import strategies as st
from parting import patients, published, with_patients
from sqlglot import exp
from transforming import OTHER_KEY

import sqlanon
from sqlanon.algorithms import slicing
from sqlanon.engines.temp_tables import drop_steps, run_steps
from sqlanon.errors import PolicyError
from sqlanon.evidence.checks import check
from sqlanon.policy import Source
from sqlanon.relations.bucketization import GROUP
from sqlanon.relations.slicing_posterior import posterior

Row = dict[str, Any]
# The table of the paper, and its two buckets.
TABLE = [
    (22, "M", 47906, "dyspepsia"),
    (22, "F", 47906, "flu"),
    (33, "F", 47905, "flu"),
    (52, "F", 47905, "bronchitis"),
]
TABLE += [(54, "M", 47302, "flu"), (60, "M", 47302, "dyspepsia"), (60, "M", 47304, "dyspepsia")]
TABLE += [(64, "F", 47304, "gastritis")]
COLUMNS = {"age": "INTEGER", "sex": "VARCHAR", "zip": "INTEGER", "disease": "VARCHAR"}


def by_definition(rows: Sequence[Row], sliced: Sequence[Row], parts: Sequence[Sequence[str]], secret: str) -> Fraction:
    """p(t,s) = Σ p(t,B) p(s|t,B) for every record t of the source and every value s; the largest of them."""
    buckets: dict[int, list[Row]] = defaultdict(list)
    for row in sliced:
        buckets[row[GROUP]].append(row)
    own = next(names for names in parts if secret in names)
    worst = Fraction(0)
    for t in rows:
        belief: dict[Any, Fraction] = defaultdict(Fraction)
        for bucket in buckets.values():
            weight = Fraction(1)
            for names in parts:
                alike = [row for row in bucket if all(row[name] == t[name] for name in names if name != secret)]
                weight *= Fraction(len(alike), len(bucket))
                if names == own:
                    matched = alike
            for row in matched if weight else ():
                belief[row[secret]] += weight / len(matched)
        whole = sum(belief.values())
        worst = max(worst, *(amount / whole for amount in belief.values()))
    return worst


def measured(database: Database, sliced: str, source: str, parts: list[list[str]], secret: str) -> float:
    trees = [exp.select("*").from_(name) for name in (sliced, source)]
    kinds = {item.name: item.type for item in database.engine.columns(trees[0])}
    types = {name: exp.DataType.build(kind, dialect=database.engine.dialect) for name, kind in kinds.items()}
    steps, query = posterior(*trees, parts, secret, types)
    run_steps(database.engine, steps)
    found = float(database.engine.query(query)[0][0])
    drop_steps(database.engine, steps)
    return found


def loaded(database: Database, rows: Sequence[Row], columns: dict[str, str]) -> None:
    database.table("source", {name: kind for name, kind in columns.items() if name != GROUP}, rows)
    database.table("sliced", columns, rows)


def test_the_table_of_the_paper_is_2_diverse(database: Database) -> None:
    """Whoever is (22, M, 47906) is in the first bucket, and has dyspepsia or flu; and so on."""
    rows = [dict(zip((*COLUMNS, GROUP), (*row, place // 4), strict=True)) for place, row in enumerate(TABLE)]
    loaded(database, rows, {**COLUMNS, GROUP: "BIGINT"})
    parts = [["age", "sex"], ["zip", "disease"]]
    assert by_definition(rows, rows, parts, "disease") == Fraction(1, 2)
    assert measured(database, "sliced", "source", parts, "disease") == pytest.approx(0.5)
    # With sex beside the disease, the only woman among the rows of 47906 has flu for certain.
    parts = [["age"], ["zip", "sex", "disease"]]
    assert measured(database, "sliced", "source", parts, "disease") == by_definition(rows, rows, parts, "disease") == 1


@settings(max_examples=examples(25))
@given(
    rows=st.lists(
        st.tuples(st.sampled_from([1, 2, None]), st.sampled_from("xyz"), st.sampled_from("ab"), st.integers(0, 2)),
        min_size=1,
        max_size=12,
    ),
    parts=st.sampled_from([[["p", "q"], ["s"]], [["p"], ["q", "s"]], [["p"], ["q"], ["s"]]]),
)
def test_the_posterior_is_that_of_the_definition(duck: Database, rows: list[Any], parts: list[list[str]]) -> None:
    listed = [dict(zip(("p", "q", "s", GROUP), row, strict=True)) for row in rows]
    loaded(duck, listed, {"p": "INTEGER", "q": "VARCHAR", "s": "VARCHAR", GROUP: "BIGINT"})
    assert measured(duck, "sliced", "source", parts, "s") == pytest.approx(
        float(by_definition(listed, listed, parts, "s"))
    )


PARTS = [["tag", "age"], ["sex", "income"], ["disease"]]
ROLES = {"id": "identifier", "tag": "insensitive", "age": "quasi_identifier", "sex": "quasi_identifier"}
ROLES |= {"disease": "sensitive", "income": "insensitive"}
NAMES = ["tag", "age", "sex", "income", "disease", GROUP]


def sliced(parts: list[list[str]], l: int, **changes: Any) -> sqlanon.Policy:  # noqa: E741
    models = [{"distinct_l_diversity": {"l": l}}]
    return parting.policy({"slicing": {"parts": parts, "l": l}}, models, **{"columns": ROLES, **changes})


def released(database: Database) -> list[Row]:
    found = database.fetch(f"SELECT {', '.join(NAMES)} FROM released")
    return [dict(zip(NAMES, row, strict=True)) for row in found]


def require_right(rows: list[Row], found: list[Row], parts: list[list[str]], l: int) -> None:  # noqa: E741
    """In each bucket every part has the values that its rows had; nobody is linked to a value with more than 1/l."""
    bucket = {row["tag"]: row[GROUP] for row in found}
    assert len(bucket) == len(rows) == len(found)
    for names in parts:
        before = Counter((bucket[row["tag"]], *(row[name] for name in names)) for row in rows)
        assert Counter((row[GROUP], *(row[name] for name in names)) for row in found) == before
    assert by_definition(rows, found, parts, "disease") <= Fraction(1, l)


def test_parts_are_shuffled_in_buckets(database: Database) -> None:
    rows = patients(90)
    with_patients(database, rows)
    done = published(database, sliced(PARTS, 3))
    found = released(database)
    require_right(rows, found, PARTS, 3)
    assert done.document["groups"]["number"] == 30
    truth = {row["tag"]: row for row in rows}
    moved = [(row["sex"], row["income"]) != (truth[row["tag"]]["sex"], truth[row["tag"]]["income"]) for row in found]
    assert 40 < sum(moved) < 80  # of 90, two of three move
    # Each part has an order of its own.
    both = sum(a and row["disease"] != truth[row["tag"]]["disease"] for a, row in zip(moved, found, strict=True))
    assert both < sum(moved)


@pytest.mark.full
def test_buckets_grow_until_it_is_safe(database: Database) -> None:
    """With sex beside the disease, small buckets tell too much."""
    rows = [{**row, "age": row["age"] // 30, "income": 0} for row in patients(90)]
    with_patients(database, rows)
    parts = [["tag", "age", "income"], ["sex", "disease"]]
    done = published(database, sliced(parts, 2))
    require_right(rows, released(database), parts, 2)
    number, worst = done.document["groups"]["number"], done.document["groups"]["largest_posterior"]
    assert 1 < number < 45
    assert worst == pytest.approx(float(by_definition(rows, released(database), parts, "disease")))
    again = check(sliced(parts, 2), database.engine, release=Source(table="released"))
    assert again.holds
    database.run("UPDATE released SET disease = 'flu' WHERE sex = 'f'")
    again = check(sliced(parts, 2), database.engine, release=Source(table="released"))
    assert "somebody is linked to a sensitive value with more than 1/2" in again.breaches


def test_a_sensitive_column_of_its_own_is_checked_by_bucket(duck: Database) -> None:
    with_patients(duck, patients(60))
    asked = sliced(PARTS, 2)
    published(duck, asked)
    duck.run(f"UPDATE released SET disease = 'flu' WHERE {GROUP} = 1")
    assert (
        "somebody is linked to a sensitive value with more than 1/2"
        in check(asked, duck.engine, release=Source(table="released")).breaches
    )


@pytest.mark.full
def test_one_secret_gives_one_release_on_both_engines(duck: Database, postgres: Database) -> None:
    for database in (duck, postgres):
        with_patients(database, patients(40))
        published(database, sliced(PARTS, 3))
    first = sorted(map(str, released(duck)))
    assert sorted(map(str, released(postgres))) == first
    published(duck, sliced(PARTS, 3), OTHER_KEY)
    assert sorted(map(str, released(duck))) != first


def test_records_are_not_compared_with_more_buckets_than_there_is_time_for(
    duck: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slicing, "MOST_PAIRS", 500)
    with_patients(duck, patients(100))
    done = published(duck, sliced([["tag", "age", "income"], ["sex", "disease"]], 2))
    assert done.document["groups"]["number"] <= 5


@pytest.mark.full
@pytest.mark.parametrize(
    ("parts", "least", "said"),
    [
        ([["tag", "age", "sex", "income"], ["disease", "tag"]], 2, "'tag' is there twice"),
        ([["tag", "age", "income"], ["disease"]], 2, "no part has 'sex'"),
        ([["tag", "age", "sex", "income", "id"], ["disease"]], 2, "'id' is not released"),
        ([["tag", "age", "sex", "income", "disease"]], 2, "at least 2"),
        ([["age", "sex", "income"], ["disease", "tag"]], 2, "tell too much of it"),
        (PARTS, 30, "is not eligible"),
    ],
)
def test_what_is_refused(duck: Database, parts: list[list[str]], least: int, said: str) -> None:
    with_patients(duck, patients(60))
    with pytest.raises(PolicyError) as error:
        published(duck, sliced(parts, least))
    assert said in f"{error.value.message} {error.value.detail} {error.value.hint}"
    assert duck.engine.tables() == ["patients"]

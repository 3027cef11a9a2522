"""m-confidentiality: classes that do not depend on the sensitive column, and shares that look like those of others."""

from __future__ import annotations

import json
import random
from collections import Counter, defaultdict
from typing import Any

import pytest
from conftest import Database, examples
from hypothesis import given, settings
from hypothesis import strategies as st
from parting import publish_anew as publish
from transforming import KEY, OTHER_KEY, load

import sqlanon
from sqlanon.errors import PolicyError
from sqlanon.evidence.checks import check
from sqlanon.policy import Source

TYPES = {"id": "BIGINT", "tag": "INTEGER", "age": "INTEGER", "sex": "VARCHAR", "disease": "VARCHAR"}
VALUES = ["hiv", "cancer"]
OTHERS = ["flu", "cold", None]


def people(count: int, *, sick: dict[int, int], seed: int = 1) -> list[dict[str, Any]]:
    """Decades of age of equal size; `sick` says how many of a decade have a sensitive value, beside one in each."""
    draw = random.Random(seed)
    rows = []
    for tag in range(count):
        decade, place = divmod(tag, 20)
        bad = place < sick.get(decade, 1)
        disease = draw.choice(VALUES) if bad else draw.choice(OTHERS)
        rows.append({"id": tag, "tag": tag, "age": 10 * decade + place % 10, "sex": "f", "disease": disease})
    return rows


def masked(m: int, k: int = 10, **changes: Any) -> sqlanon.Policy:
    written: dict[str, Any] = {
        "source": {"table": "people"},
        "columns": {
            "id": "identifier",
            "tag": "insensitive",
            "age": "quasi_identifier",
            "sex": "quasi_identifier",
            "disease": "sensitive",
        },
        "hierarchies": {"age": {"intervals": {"widths": [10, 20, 40]}}},
        "models": [{"k_anonymity": {"k": k}}, {"alpha_k_anonymity": {"alpha": 0.25, "k": k, "guarded": VALUES}}],
        "algorithm": {"m_confidentiality": {"m": m, "values": VALUES}},
        "release": {"table": "released"},
        "sensitive_nulls": "value",  # one of the others here
    }
    return sqlanon.parse(json.dumps({**written, **changes}))


def classes(database: Database, table: str = "released") -> dict[Any, list[tuple[int, Any]]]:
    found: dict[Any, list[tuple[int, Any]]] = defaultdict(list)
    for age, sex, tag, disease in database.fetch(f"SELECT age, sex, tag, disease FROM {table}"):
        found[age, sex].append((tag, disease))
    return found


@pytest.mark.full
def test_shares_look_like_those_of_other_classes(database: Database) -> None:
    rows = people(400, sick={3: 12, 11: 20})
    load(database, "people", TYPES, rows)
    done = publish(masked(2), database.engine, secret=KEY)
    assert done.evidence is not None and done.evidence.holds
    truth = {row["tag"]: row["disease"] for row in rows}
    found = classes(database)
    assert len(found) == 20 and all(len(members) == 20 for members in found.values())
    changed = {tag for members in found.values() for tag, disease in members if disease != truth[tag]}
    # All other classes have one such row of twenty: so have these two now, and nothing else was touched.
    assert Counter(tag // 20 for tag in changed) == {3: 11, 11: 19}
    assert done.document["groups"] == {"number": 2, "distorted_rows": 30}
    for members in found.values():
        assert sum(disease in VALUES for _, disease in members) == 1
        assert all(truth[tag] in VALUES for tag, _ in members if tag in changed)
    assert {disease for members in found.values() for tag, disease in members if tag in changed} <= set(OTHERS)


@settings(max_examples=examples(6))
@given(counts=st.lists(st.integers(0, 20), min_size=8, max_size=10), m=st.integers(2, 3))
def test_it_is_safe_or_refused(duck: Database, counts: list[int], m: int) -> None:
    rows = people(20 * len(counts), sick=dict(enumerate(counts)))
    load(duck, "people", TYPES, rows)
    duck.run("DROP TABLE IF EXISTS released")
    duck.run("DROP TABLE IF EXISTS sqlanon_releases")
    # By the definition: where more than 1/(2m) are sensitive; one in 2m classes may be such.
    broken = [count for count in counts if count * 2 * m > 20]
    allowed = {"models": [{"k_anonymity": {"k": 10}}], "absent_values": "allow"}
    if len(broken) * 2 * m > len(counts):
        with pytest.raises(PolicyError, match="they cannot hide among the others"):
            publish(masked(m, **allowed), duck.engine, secret=KEY)
        return
    publish(masked(m, **allowed), duck.engine, secret=KEY)
    truth = {row["tag"]: row["disease"] for row in rows}
    calm = [count for count in counts if count * 2 * m <= 20]
    models = set(sorted(calm, reverse=True)[: (2 * m - 1) * len(broken)])
    for members in classes(duck).values():
        now = sum(disease in VALUES for _, disease in members)
        before = sum(truth[tag] in VALUES for tag, _ in members)
        assert now * 2 * m <= len(members)
        assert now in models if before * 2 * m > 20 else now == before


@pytest.mark.full
def test_classes_do_not_depend_on_the_sensitive_column(duck: Database) -> None:
    """Who changes the diseases of all changes no label: so labels tell nothing about them."""
    rows = people(200, sick={2: 9})
    load(duck, "people", TYPES, rows)
    publish(masked(2), duck.engine, secret=KEY)
    labels = sorted(duck.fetch("SELECT tag, age, sex FROM released"))
    diseases = [row["disease"] for row in rows]
    random.Random(5).shuffle(diseases)
    spread = [{**row, "disease": disease} for row, disease in zip(rows, diseases, strict=True)]
    load(duck, "people", TYPES, spread)
    models = [{"k_anonymity": {"k": 10}}]
    publish(masked(2, models=models), duck.engine, secret=KEY)
    assert sorted(duck.fetch("SELECT tag, age, sex FROM released")) == labels


@pytest.mark.full
def test_one_secret_gives_one_release_on_both_engines(duck: Database, postgres: Database) -> None:
    found = []
    for database, key in ((duck, KEY), (postgres, KEY), (duck, OTHER_KEY)):
        load(database, "people", TYPES, people(400, sick={3: 12, 11: 20}))
        publish(masked(2), database.engine, secret=key)
        found.append(sorted(database.fetch("SELECT tag, age, sex, disease FROM released"), key=str))
    assert found[0] == found[1] != found[2]


def test_rows_of_small_classes_are_suppressed(database: Database) -> None:
    rows = people(405, sick={3: 12})
    load(database, "people", TYPES, rows)
    done = publish(masked(2, suppression_limit=0.02), database.engine, secret=KEY)
    assert done.document["suppressed"] == 5 and done.document["released"] == 400
    assert database.fetch("SELECT COUNT(*) FROM released") == [(400,)]
    assert done.plan.passes[0] == {"age": 1, "sex": 0}


@pytest.mark.full
def test_a_release_is_checked_as_written(database: Database) -> None:
    load(database, "people", TYPES, people(200, sick={2: 9}))
    asked = masked(2, models=[{"k_anonymity": {"k": 10}}])
    publish(asked, database.engine, secret=KEY)
    release = Source(table="released")
    assert check(asked, database.engine, release=release).holds
    database.run("UPDATE released SET disease = 'hiv' WHERE tag < 9")
    found = check(asked, database.engine, release=release)
    assert found.breaches == ("in a class more than 1/4 of the rows have one of the sensitive values",)


@pytest.mark.full
@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"models": [{"distinct_l_diversity": {"l": 2}}]}, "no model is left"),
        ({"algorithm": {"m_confidentiality": {"m": 2, "values": ["hiv", "hvi"]}}}, "does not hold 1 of the 2"),
        ({"algorithm": {"m_confidentiality": {"m": 1, "values": ["hiv"]}}}, "2"),
        ({"algorithm": {"m_confidentiality": {"m": 2, "values": []}}}, "1"),
        ({"algorithm": {"m_confidentiality": {"m": 2}}}, "values"),
        ({"models": [{"k_anonymity": {"k": 500}}]}, "k_anonymity"),
    ],
)
def test_what_is_refused(duck: Database, changes: dict[str, Any], said: str) -> None:
    load(duck, "people", TYPES, people(200, sick={2: 9}))
    with pytest.raises(PolicyError) as error:
        publish(masked(2, **changes), duck.engine, secret=KEY)
    assert said in f"{error.value.message} {error.value.detail} {error.value.hint}"
    assert duck.engine.tables() == ["people"]


def test_where_every_value_is_sensitive_nothing_can_be_put_in_its_place(duck: Database) -> None:
    load(duck, "people", TYPES, [{**row, "disease": "hiv"} for row in people(200, sick={})])
    asked = masked(2, algorithm={"m_confidentiality": {"m": 2, "values": ["hiv"]}}, models=[{"k_anonymity": {"k": 2}}])
    with pytest.raises(PolicyError, match="they cannot hide among the others"):
        publish(asked, duck.engine, secret=KEY)

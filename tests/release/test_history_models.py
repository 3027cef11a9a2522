"""Every model of `sql/history/`, on both engines: against its definition in plain Python, and on worked examples."""

from __future__ import annotations

from collections import Counter
from typing import Any

import history_oracles
import pytest
from conftest import Database, examples
from histories import Release, load, measure, violations
from hypothesis import given, settings
from hypothesis import strategies as st

from sqlanon.families import family
from sqlanon.policy.history import joins_releases

# The others join releases: see test_history_beside.py
MODELS = sorted(name for name in family("history") if not joins_releases(name))
PERSONS = ["ann", "bob", "eve", "joe", "kim", "liv", "max", "sue"]
VALUES = ["flu", "gout", "hiv", "∅ NULL"]
# Classes by their labels: two quasi-identifiers with a tree of one level below the root, and one of two.
LABELS = dict(enumerate([(a, b) for a in ["", "x", "y"] for b in ["", "p", "q", "pp"]], start=1))

class_ids = st.one_of(st.sampled_from([1, 2, 6]), st.sampled_from(sorted(LABELS)))
values = st.sampled_from(VALUES)


@st.composite
def histories(draw: Any) -> list[Release]:
    """One to four releases: persons come, leave and come back, and now and then a value changes."""
    own = {person: draw(values) for person in PERSONS}
    releases = []
    for _ in range(draw(st.integers(1, 4))):
        present = draw(st.dictionaries(st.sampled_from(PERSONS), st.tuples(class_ids, st.one_of(st.none(), values))))
        changes = draw(st.booleans()) and draw(st.booleans())
        persons = {
            person: (class_id, value if changes and value is not None else own[person])
            for person, (class_id, value) in present.items()
        }
        counterfeits = draw(st.lists(st.tuples(class_ids, values), max_size=2))
        releases.append(Release(persons, counterfeits, LABELS))
    return releases


def check(database: Database, releases: list[Release], limit: int) -> None:
    load(database, releases)
    for model in MODELS:
        expected = getattr(history_oracles, model)(releases, limit)
        assert measure(database, model, limit) == expected, model


@settings(max_examples=examples(40))
@given(releases=histories(), limit=st.integers(2, 4))
def test_models_agree_with_their_definitions(duck: Database, releases: list[Release], limit: int) -> None:
    check(duck, releases, limit)


@pytest.mark.long
@settings(max_examples=examples(400))
@given(releases=histories(), limit=st.integers(2, 4))
def test_models_agree_with_their_definitions_often(duck: Database, releases: list[Release], limit: int) -> None:
    check(duck, releases, limit)


@settings(max_examples=examples(20))
@given(releases=histories(), limit=st.integers(2, 4))
def test_models_agree_with_their_definitions_on_postgres(
    postgres: Database, releases: list[Release], limit: int
) -> None:
    check(postgres, releases, limit)


@settings(max_examples=examples(50))
@given(releases=histories(), persons=st.integers(2, 4), values=st.integers(1, 3))
def test_stable_partitions_of_different_values(
    duck: Database, releases: list[Release], persons: int, values: int
) -> None:
    load(duck, releases)
    expected = history_oracles.stable_partition(releases, persons, values)
    assert measure(duck, "stable_partition", persons, l=values) == expected


FIRST = Release({"ann": (1, "flu"), "bob": (1, "hiv"), "eve": (2, "flu"), "joe": (2, "flu")})
NOBODY = Release({})
EDGES = {
    "the first release": [FIRST],
    "nothing at all": [NOBODY],
    "an empty release and a full one": [NOBODY, FIRST],
    "everybody left": [FIRST, NOBODY],
    "everybody left and came back": [FIRST, NOBODY, FIRST],
    "the same again": [FIRST, FIRST],
    "a class of counterfeits": [FIRST, Release(FIRST.persons, [(3, "flu"), (3, "hiv")])],
    "counterfeits alone": [FIRST, Release({}, [(1, "flu"), (1, "hiv")])],
    "a counterfeit in place of one who left": [
        FIRST,
        Release({"ann": (1, "flu"), "eve": (2, "flu")}, [(1, "hiv"), (2, "flu")]),
    ],
    "one class": [
        Release(dict.fromkeys(PERSONS, (1, "flu"))),
        Release(dict.fromkeys(PERSONS, (1, "hiv"))),
    ],
    "all are new": [FIRST, Release({"kim": (1, "flu"), "liv": (1, "gout")})],
}


@pytest.mark.full
@pytest.mark.parametrize("name", EDGES)
def test_edges(database: Database, name: str) -> None:
    for limit in (2, 3):
        check(database, EDGES[name], limit)
        for model in MODELS:
            expected = getattr(history_oracles, model)(EDGES[name], limit)
            assert violations(database, model, limit) == Counter(row[:4] for row in expected.elements() if row[4])


def broken_models(database: Database, releases: list[Release], limit: int) -> dict[str, Counter[Any]]:
    """What breaks each model, without the models that hold."""
    load(database, releases)
    found = {model: violations(database, model, limit) for model in MODELS}
    return {model: rows for model, rows in found.items() if rows}


def test_the_first_release_is_checked_by_itself(database: Database) -> None:
    assert broken_models(database, [FIRST], 2) == {
        "composition": {(2, None, None, 1): 1},
        "incremental_l_diversity": {(2, None, None, 1): 1},
        "m_invariance": {(2, None, None, 1): 1},
    }
    assert broken_models(database, [FIRST], 3)["bcf_anonymity"] == {(1, None, None, 2): 1, (2, None, None, 2): 1}
    assert broken_models(database, [FIRST], 3)["stable_partition"] == {(1, None, None, 2): 1, (2, None, None, 2): 1}


def test_publishing_the_same_again_breaks_nothing(database: Database) -> None:
    same = Release({"ann": (1, "flu"), "bob": (1, "hiv"), "eve": (2, "flu"), "joe": (2, "gout")})
    assert broken_models(database, [same, same, same], 2) == {}


def test_relations_that_contradict_each_other_are_not_safe(database: Database) -> None:
    """A class, or an earlier class of persons who left, whose values are not there: nothing can be promised of it."""
    load(database, [FIRST, Release({"ann": (1, "flu"), "bob": (1, "hiv")})])
    database.run("DELETE FROM class_values WHERE class_id = 1")
    database.run("DELETE FROM past_values WHERE class_id = 2")
    for model in ("composition", "incremental_l_diversity", "m_invariance", "bcf_anonymity"):
        assert (1, None, None, 0) in violations(database, model, 2), model
    assert (None, 1, 2, 0) in violations(database, "incremental_l_diversity", 2)
    assert (1, 1, 1, 0) in violations(database, "bcf_anonymity", 2)


# ---- a survey's worked example of continuous publishing: women in a profession are class 1, men in the arts class 2
BEFORE = {"beth": (1, "Cancer"), "cora": (1, "Diabetes"), "dan": (2, "Fever"), "earl": (2, "Cancer")}


def test_who_was_inserted_stands_out(database: Database) -> None:
    """Each release is 2-diverse, but the third record of the class is new: it is Alice's."""
    found = broken_models(database, [Release(BEFORE), Release(BEFORE | {"alice": (1, "HIV")})], 2)
    assert found == {
        "incremental_l_diversity": {(1, 1, None, 1): 1},
        "m_invariance": {(1, 1, 1, 2): 1},  # two values survive, but the sets are not the same
        "bcf_anonymity": {(1, 1, None, 1): 1},
        "stable_partition": {(1, None, None, 1): 1},
    }  # three values are possible for her in the one class that she was ever in, so composition holds


def test_who_stayed_stands_out_after_a_deletion(database: Database) -> None:
    """Beth is in both releases, and of the values of her class only Cancer is in both."""
    after = {person: row for person, row in BEFORE.items() if person != "cora"} | {"faye": (1, "Fever")}
    found = broken_models(database, [Release(BEFORE), Release(after)], 2)
    assert found == {
        "composition": {(1, 1, 1, 1): 1},
        "incremental_l_diversity": {(1, 1, 1, 1): 1, (1, 1, None, 1): 1, (None, 1, 1, 1): 1},
        "m_invariance": {(1, 1, 1, 1): 1},
        "bcf_anonymity": {(1, 1, 1, 1): 1, (1, 1, None, 1): 1},
        "stable_partition": {(1, 1, 1, 1): 1, (1, None, None, 1): 1, (None, 1, 1, 1): 1},
    }


def test_a_counterfeit_repairs_the_deletion(database: Database) -> None:
    """With a row of nobody in the place of the deleted one, and the newcomer in a class of its own with another."""
    after = {person: row for person, row in BEFORE.items() if person != "cora"} | {"faye": (3, "Fever")}
    repaired = Release(after, [(1, "Diabetes"), (3, "Cancer")])
    found = broken_models(database, [Release(BEFORE), repaired], 2)
    assert not {"m_invariance", "composition"} & set(found)


def test_every_model_has_an_oracle() -> None:
    assert all(callable(getattr(history_oracles, model)) for model in MODELS) and len(MODELS) == 5

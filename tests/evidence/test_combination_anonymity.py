"""k-anonymity on all m-combinations of columns, as mu-Argus counts them, against a counter of every combination."""

from __future__ import annotations

import json
from collections import Counter
from itertools import combinations
from typing import Any

import pytest
from conftest import Database, examples
from hypothesis import given, settings
from hypothesis import strategies as st

from sqlanon.errors import PolicyError
from sqlanon.evidence.checks import check
from sqlanon.policy import Policy, Source, parse
from sqlanon.release import publish

COLUMNS = ("a", "b", "c")
TREE = {"tree": {"tree": {"*": {"xy": ["x", "y"], "zw": ["z", "w"]}}}}
rows = st.lists(
    st.fixed_dictionaries({name: st.sampled_from([*"xyzw", None]) for name in COLUMNS} | {"p": st.integers(1, 4)}),
    min_size=1,
    max_size=14,
)


def asked(k: int, m: int, **more: Any) -> Policy:
    written = {
        "source": {"table": "t"},
        "columns": dict.fromkeys(COLUMNS, "quasi_identifier") | {"p": "identifier"},
        "models": [{"combination_anonymity": {"k": k, "m": m}}],
        "hierarchies": dict.fromkeys(COLUMNS, TREE),
        **more,
    }
    return parse(json.dumps(written))


def fill(database: Database, data: list[dict[str, Any]]) -> None:
    database.table("t", dict.fromkeys(COLUMNS, "TEXT") | {"p": "INTEGER"}, data)


def counted(data: list[dict[str, Any]], chosen: tuple[str, ...], *, person: bool) -> Counter[Any]:
    found = {(tuple(row[name] for name in chosen), row["p"] if person else place) for place, row in enumerate(data)}
    return Counter(values for values, _ in found)


@settings(max_examples=examples(40))
@given(data=rows, k=st.integers(2, 3), m=st.integers(1, 4), person=st.booleans())
def test_every_combination_is_counted(database: Database, data: Any, k: int, m: int, person: bool) -> None:
    fill(database, data)
    found = check(asked(k, m, **({"person": "p"} if person else {})), database.engine).checks
    sets = list(combinations(COLUMNS, min(m, 3)))
    assert [item.qid for item in found] == sets
    for item in found:
        classes = counted(data, item.qid, person=person)
        assert item.measured == min(classes.values())
        assert item.classes == len(classes)
        assert item.broken_classes == sum(number < k for number in classes.values())


@pytest.mark.full
@settings(max_examples=examples(10))
@given(data=rows, k=st.integers(2, 3), m=st.integers(1, 2))
def test_a_release_holds_for_every_combination(duck: Database, data: Any, k: int, m: int) -> None:
    if len(data) < k:  # nothing can be published
        return
    fill(duck, data)
    policy = asked(k, m, release={"table": "r"}, algorithm="full_domain", suppression_limit=1.0)
    publish(policy, duck.engine, workload=False)
    shown = [dict(zip((*COLUMNS, "p"), (*row, 0), strict=True)) for row in duck.fetch("SELECT a, b, c FROM r")]
    for chosen in combinations(COLUMNS, m):
        assert all(number >= k for number in counted(shown, chosen, person=False).values())
    assert check(policy, duck.engine, release=Source(table="r")).holds or not shown


def test_it_asks_less_than_k_anonymity(duck: Database) -> None:
    """By hand: each pair of values is there twice, and each row is the only one of its kind."""
    data = [dict(zip("abc", each, strict=True)) | {"p": n} for n, each in enumerate(["xxx", "xyy", "yxy", "yyx"])]
    fill(duck, [*data])
    assert check(asked(2, 1), duck.engine).holds
    (pair, *_) = check(asked(2, 2), duck.engine).checks
    assert not pair.holds and pair.broken_classes == 4


def test_what_is_refused(duck: Database) -> None:
    fill(duck, [])
    with pytest.raises(PolicyError, match="'m' must be >= 1"):
        asked(2, 0)
    many = {f"q{place}": "quasi_identifier" for place in range(20)}
    duck.table("t", dict.fromkeys(many, "TEXT"), [])
    wide = parse(
        json.dumps({"source": {"table": "t"}, "columns": many, "models": [{"combination_anonymity": {"k": 2, "m": 4}}]})
    )
    with pytest.raises(PolicyError, match="4,845 combinations of 4 columns would be measured"):
        check(wide, duck.engine)

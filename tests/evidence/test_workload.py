"""The error of range counts, against the definition written out in plain Python over single rows."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
from conftest import Database, examples
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlglot import exp, parse_one

from sqlanon.errors import PolicyError
from sqlanon.evidence.hierarchies import build_hierarchies
from sqlanon.evidence.ranges import boxes_at, boxes_of
from sqlanon.evidence.workload import RangeQuery, Workload, draw, workload
from sqlanon.lattice.pose_problem import problem
from sqlanon.lattice.problem import Problem
from sqlanon.policy import parse
from sqlanon.relations.source import relation

Row = dict[str, Any]
# Groups are not neighbours in the alphabet: ranks must follow the hierarchy there. Ages keep their own order.
GROUPS = {"a": "x", "b": "y", "c": "x", "d": "y", "e": "z"}
COLUMNS = {"age": "INTEGER", "kind": "TEXT", "sex": "TEXT"}
HIERARCHIES = {
    "age": {"intervals": {"widths": [10]}},
    "kind": {"tree": {"tree": {"*": {group: [k for k, own in GROUPS.items() if own == group] for group in "xyz"}}}},
    "sex": {"tree": {"tree": {"*": ["f", "m"]}}},
}


def group_of_age(age: int | None) -> object:
    return None if age is None else age // 10


LABELS: dict[str, list[Callable[[Any], object]]] = {
    "age": [lambda age: age, group_of_age, lambda age: "*"],
    "kind": [lambda kind: kind, lambda kind: GROUPS.get(kind), lambda kind: "*"],
    "sex": [lambda sex: sex, lambda sex: "*"],
}


def random_rows(count: int, seed: int, nulls: bool = True) -> list[Row]:
    pick = random.Random(seed)
    rows = [
        {"age": pick.randint(5, 64), "kind": pick.choice("aabbbcde"), "sex": pick.choice("ffm")} for _ in range(count)
    ]
    if nulls and rows:
        rows[0]["age"] = rows[-1]["kind"] = None
    return rows


@contextmanager
def compressed(database: Database, rows: Sequence[Row]) -> Iterator[Problem]:
    database.table("t", COLUMNS, rows)
    policy = parse(
        json.dumps(
            {
                "source": {"table": "t"},
                "columns": dict.fromkeys(COLUMNS, "quasi_identifier"),
                "hierarchies": HIERARCHIES,
                "models": [{"k_anonymity": {"k": 2}}],
            }
        )
    )
    made = problem(policy, database.engine, build_hierarchies(policy), relation(policy.source, database.engine.dialect))
    try:
        yield made
    finally:
        made.close()


# The same in plain Python ---------------------------------------------------------------------------------------


def ranked(rows: Sequence[Row], name: str) -> list[Any]:
    """Values in their order, but those of a group together, at the place of the group's first value; NULL first."""
    values = sorted(
        {row[name] for row in rows}, key=lambda value: (value is not None, value if value is not None else 0)
    )
    group = LABELS[name][1] if len(LABELS[name]) == 3 else (lambda value: 0)
    first = [group(value) for value in values]
    return sorted(values, key=lambda value: (first.index(group(value)), values.index(value)))


def expected(
    rows: Sequence[Row], levels: Sequence[int], queries: Sequence[RangeQuery], kept: Sequence[bool]
) -> list[Any]:
    """(actual, estimate) of each query, row by row and value by value."""
    names = list(COLUMNS)
    orders = {name: ranked(rows, name) for name in names}
    found = []
    for query in queries:
        actual, estimate = 0, 0.0
        for row, stays in zip(rows, kept, strict=True):
            inside, share = True, 1.0
            for place, (low, high) in zip(query.attributes, query.ranges, strict=True):
                name = names[place]
                asked = orders[name][low - 1 : high]
                inside = inside and row[name] in asked
                label = LABELS[name][levels[place]]
                covered = [value for value in orders[name] if label(value) == label(row[name])]
                share *= sum(value in asked for value in covered) / len(covered)
            actual += inside
            estimate += share * stays
        found.append((actual, estimate))
    return found


def means(answers: Sequence[tuple[float, float]], records: int) -> list[float | None]:
    def mean(chosen: Sequence[tuple[float, float]]) -> float | None:
        return sum(abs(a - b) / a for a, b in chosen) / len(chosen) if chosen else None

    small = [answer for answer in answers if answer[0] < 0.01 * records]
    large = [answer for answer in answers if answer[0] > 0.1 * records]
    return [mean(answers), mean(small), mean(large)]


def brute(
    rows: Sequence[Row], levels: Sequence[int], count: int, seed: int, kept: Sequence[bool]
) -> list[float | None]:
    sizes = [len(ranked(rows, name)) for name in COLUMNS]
    generator, answers = random.Random(seed), []
    for _ in range(8):
        missing = count - len(answers)
        drawn = draw(sizes, missing + missing // 20, generator)
        answers += [answer for answer in expected(rows, levels, drawn, kept) if answer[0] > 0]
        if len(answers) >= count:
            break
    return means(answers[:count], len(rows))


def errors(found: Workload) -> list[float | None]:
    return [found.all, found.small, found.large]


def approximately(wanted: Sequence[float | None]) -> list[Any]:
    return [None if value is None else pytest.approx(value, abs=1e-9) for value in wanted]


# Tests ------------------------------------------------------------------------------------------------------------


@pytest.mark.full
@pytest.mark.parametrize("levels", [(0, 0, 0), (1, 1, 0), (0, 2, 1), (1, 0, 1), (2, 2, 1)])
def test_a_node_against_plain_python(database: Database, levels: tuple[int, ...]) -> None:
    rows = random_rows(150, seed=sum(levels))
    with compressed(database, rows) as made:
        found = workload(
            database.engine, made.compressed.table, boxes_at(made.compressed, levels), made.domains, queries=70, seed=3
        )
    assert found.queries == 70
    assert errors(found) == approximately(brute(rows, levels, 70, 3, [True] * len(rows)))


def test_nothing_generalized_has_no_error(database: Database) -> None:
    with compressed(database, random_rows(80, seed=1)) as made:
        boxes = boxes_at(made.compressed, (0, 0, 0))
        found = workload(database.engine, made.compressed.table, boxes, made.domains, queries=60)
    assert found.all == found.large == 0.0 and found.small in (None, 0.0)


def test_suppressed_rows_are_missed(duck: Database) -> None:
    rows = random_rows(120, seed=5, nulls=False)
    with compressed(duck, rows) as made:
        age = next(domain for domain in made.domains if domain.name == "age")
        # All rows of the tens are suppressed: their label is a part of the key.
        label = f"SELECT DISTINCT r1 * {1 << age.shifts[1]} FROM {age.dictionary} WHERE original BETWEEN 10 AND 19"
        tree = parse_one(f"SELECT * FROM {made.compressed.table} WHERE k1 & {age.masks[1]} NOT IN ({label})")
        assert isinstance(tree, exp.Query)
        boxes = boxes_at(made.compressed, (1, 1, 0), tree)
        found = workload(duck.engine, made.compressed.table, boxes, made.domains, queries=50, seed=9)
        none = workload(duck.engine, made.compressed.table, boxes.limit(0), made.domains, queries=50)
    kept = [not 10 <= row["age"] <= 19 for row in rows]
    assert not all(kept)
    assert errors(found) == approximately(brute(rows, (1, 1, 0), 50, 9, kept))
    assert none.all == 1.0  # an empty release answers 0 to everything


def released(made: Problem, rows: Sequence[Row], labels: Callable[[Row], list[str | None]]) -> exp.Query:
    """A release as written: one row a record, counted one by one."""

    def quoted(value: str | None) -> str:
        return "CAST(NULL AS TEXT)" if value is None else f"'{value}'"

    parts = [
        "SELECT " + ", ".join(f"{quoted(label)} AS l{i}" for i, label in enumerate(labels(row), 1)) + ", 1 AS records"
        for row in rows
    ]
    tree = parse_one(" UNION ALL ".join(parts))
    assert isinstance(tree, exp.Query)
    return tree


def written(row: Row) -> list[str | None]:
    tens = None if row["age"] is None else f"[{row['age'] // 10 * 10}, {row['age'] // 10 * 10 + 10})"
    return [tens, GROUPS.get(row["kind"]), row["sex"]]


@pytest.mark.full_on_postgres
def test_labels_as_they_are_released(database: Database) -> None:
    rows = random_rows(40, seed=2)
    with compressed(database, rows) as made:
        shown = database.fetch(
            f"SELECT DISTINCT n1 FROM {made.domains[0].dictionary} WHERE original = 10 OR original > 0"
        )
        assert {written(row)[0] for row in rows} - {None} <= {label for (label,) in shown}
        boxes = boxes_of(database.engine, made.domains, released(made, rows, written))
        by_label = workload(database.engine, made.compressed.table, boxes, made.domains, queries=40)
        by_node = workload(
            database.engine, made.compressed.table, boxes_at(made.compressed, (1, 1, 0)), made.domains, queries=40
        )
    assert errors(by_label) == approximately(errors(by_node))


def test_a_label_that_nobody_knows_is_refused(duck: Database) -> None:
    rows = random_rows(20, seed=2)
    with compressed(duck, rows) as made, pytest.raises(PolicyError, match="20 classes have labels for 'kind'"):
        boxes_of(duck.engine, made.domains, released(made, rows, lambda row: ["*", "w", "*"]))


def test_a_level_can_be_told(duck: Database) -> None:
    rows = random_rows(20, seed=2)
    with compressed(duck, rows) as made, pytest.raises(PolicyError, match="'age'"):
        boxes_of(duck.engine, made.domains, released(made, rows, written), levels={"age": 0})


def test_an_empty_table_has_no_error(duck: Database) -> None:
    with compressed(duck, []) as made:
        found = workload(duck.engine, made.compressed.table, boxes_at(made.compressed, (0, 0, 0)), made.domains)
    assert found == Workload(None, None, None)


def test_temporary_tables_are_gone(duck: Database) -> None:
    with compressed(duck, random_rows(20, seed=2)) as made:
        boxes = boxes_at(made.compressed, (0, 0, 0))
        workload(duck.engine, made.compressed.table, boxes, made.domains, queries=10)
        left = duck.fetch("SELECT table_name FROM duckdb_tables() WHERE table_name LIKE 'sqlanon_workload%'")
    assert left == []


def test_the_seed_decides(duck: Database) -> None:
    with compressed(duck, random_rows(200, seed=2)) as made:
        boxes = boxes_at(made.compressed, (1, 1, 1))
        one, same, other = (
            workload(duck.engine, made.compressed.table, boxes.copy(), made.domains, queries=30, seed=seed)
            for seed in (1, 1, 2)
        )
    assert errors(one) == approximately(errors(same))
    assert one.all != other.all


@given(sizes=st.lists(st.integers(1, 5000), min_size=1, max_size=9), count=st.integers(1, 200), seed=st.integers(0, 99))
def test_queries_stay_in_their_domains(sizes: list[int], count: int, seed: int) -> None:
    drawn = draw(sizes, count, random.Random(seed))
    assert len(drawn) == count and drawn == draw(sizes, count, random.Random(seed))
    for query in drawn:
        assert 1 <= len(query.attributes) <= 4 and len(set(query.attributes)) == len(query.attributes)
        for place, (low, high) in zip(query.attributes, query.ranges, strict=True):
            assert 1 <= low <= high <= sizes[place]


@settings(max_examples=examples(15))
@given(
    rows=st.lists(
        st.fixed_dictionaries(
            {
                "age": st.one_of(st.none(), st.integers(0, 40)),
                "kind": st.one_of(st.none(), st.sampled_from("abcde")),
                "sex": st.sampled_from("fm"),
            }
        ),
        min_size=1,
        max_size=40,
    ),
    levels=st.tuples(st.integers(0, 2), st.integers(0, 2), st.integers(0, 1)),
    seed=st.integers(0, 1000),
)
def test_any_small_table(duck: Database, rows: list[Row], levels: tuple[int, ...], seed: int) -> None:
    with compressed(duck, rows) as made:
        boxes = boxes_at(made.compressed, levels)
        found = workload(duck.engine, made.compressed.table, boxes, made.domains, queries=20, seed=seed)
    assert errors(found) == approximately(brute(rows, levels, 20, seed, [True] * len(rows)))

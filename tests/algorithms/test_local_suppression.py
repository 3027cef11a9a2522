"""Local suppression: the release is rebuilt from its regions row by row and checked in plain Python."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from conftest import Database, examples
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from suppress_cells import Row, k, rebuilt, suppress

from sqlanon.algorithms import local_suppression
from sqlanon.algorithms.local_suppression import Params
from sqlanon.errors import PolicyError
from sqlanon.lattice.nodes import Infeasible
from sqlanon.lattice.pose_problem import problem
from sqlanon.policy import parse
from sqlanon.relations.classes import NULL_NODE
from sqlanon.relations.compressed_rows import root_only
from sqlanon.relations.source import relation

ABC = {"a": "INTEGER", "b": "TEXT", "c": "TEXT"}


def table(*rows: str) -> list[Row]:
    """'1xu 3' are three rows (1, x, u)."""
    found = []
    for row in rows:
        letters, _, times = row.partition(" ")
        found += [{"a": int(letters[0]), "b": letters[1], "c": letters[2]}] * int(times or 1)
    return found


def test_nothing_to_suppress(database: Database) -> None:
    found = suppress(database, table("1xu 2", "2xv 3"), [k(2)], columns=ABC)
    assert (found.cells, len(found.rows), found.solution.loss, found.solution.suppressed) == (0, 5, 0.0, 0)


@pytest.mark.full_on_postgres
def test_two_rows_that_differ_in_one_cell(database: Database) -> None:
    found = suppress(database, table("1xu 2", "2xv", "2yv"), [k(2)], columns=ABC)
    assert found.classes == {("1", "x", "u"): [(), ()], ("2", "*", "v"): [(), ()]}
    assert found.solution.loss == pytest.approx(2 / 12)
    assert "2 cells suppressed (b 2)" in found.solution.why


def test_a_lonely_row_borrows_what_it_needs_and_no_more(database: Database) -> None:
    found = suppress(database, table("1xu 9", "2xu"), [k(3)], columns=ABC)
    assert {labels: len(rows) for labels, rows in found.classes.items()} == {("1", "x", "u"): 7, ("*", "x", "u"): 3}
    assert found.solution.regions is not None and found.solution.regions.split


def test_a_class_that_can_spare_nothing_is_lent_as_a_whole(database: Database) -> None:
    found = suppress(database, table("1xu 3", "2xu"), [k(3)], columns=ABC)
    assert {labels: len(rows) for labels, rows in found.classes.items()} == {("*", "x", "u"): 4}
    assert found.solution.regions is not None and not found.solution.regions.split


def test_a_class_never_lends_below_its_own_size(duck: Database) -> None:
    found = suppress(duck, table("1xu 2", "2xu"), [k(2)], columns=ABC)
    assert {labels: len(rows) for labels, rows in found.classes.items()} == {("*", "x", "u"): 3}


def test_a_row_joins_rows_that_lost_cells_before(database: Database) -> None:
    found = suppress(database, table("1xu", "1xv", "2yw"), [k(2)], columns=ABC)
    assert len(found.rows) == 3 and found.classes == {("*", "*", "*"): [()] * 3}


def test_a_row_is_suppressed_where_that_costs_less(database: Database) -> None:
    rows = table("1xu 5", "2yv")
    allowed = suppress(database, rows, [k(5)], columns=ABC, suppression_limit=0.2)
    assert (allowed.cells, allowed.solution.suppressed, len(allowed.rows)) == (0, 1, 5)
    assert allowed.solution.loss == pytest.approx(1 / 6)
    refused = suppress(database, rows, [k(5)], columns=ABC, suppression_limit=0.1)
    assert (refused.cells, refused.solution.suppressed, len(refused.rows)) == (18, 0, 6)


def test_nulls_are_a_value(database: Database) -> None:
    rows: list[Row] = [{"a": None, "b": "x", "c": "u"}, {"a": None, "b": "y", "c": "u"}, *table("1xu 2")]
    found = suppress(database, rows, [k(2)], columns=ABC)
    assert set(found.classes) == {(NULL_NODE, "*", "u"), ("1", "x", "u")}


@pytest.mark.full
def test_importance_chooses_the_column(database: Database) -> None:
    rows = table("1xu", "1yu", "2xu")  # b joins the first two, a the first and the last
    two = [*rows, *table("2xv", "3yv 2")]
    for importance, kept in ({"b": 5.0}, "b"), ({"a": 5.0}, "a"), (["a", "c", "b"], "a"), (["b", "c", "a"], "b"):
        found = suppress(database, two, [k(2)], columns=ABC, params=Params(importance=importance))
        by_column = found.by_column("abc")
        assert by_column[kept] < by_column["a" if kept == "b" else "b"], importance


def test_weights_of_the_policy_count_where_no_importance_is_given(duck: Database) -> None:
    heavy = {"b": {"role": "quasi_identifier", "weight": 9}}
    rows = table("1xu", "1yu", "2xu", "2yu")
    assert suppress(duck, rows, [k(2)], columns=ABC, columns_too=heavy).by_column("abc") == {"a": 4, "b": 0, "c": 0}
    light = {"b": {"role": "quasi_identifier", "weight": 0.5}}
    assert suppress(duck, rows, [k(2)], columns=ABC, columns_too=light).by_column("abc") == {"a": 0, "b": 4, "c": 0}


@pytest.mark.parametrize(
    "importance, message",
    [
        ({"d": 1.0}, "'d', which is no quasi-identifier"),
        (["a", "b"], "each quasi-identifier once"),
        (["a", "b", "c", "c"], "each quasi-identifier once"),
        ({"a": 0.0}, "greater than 0"),
        ({"a": float("nan")}, "greater than 0"),
    ],
)
def test_importance_that_makes_no_sense(duck: Database, importance: Any, message: str) -> None:
    with pytest.raises(PolicyError, match=message):
        suppress(duck, table("1xu"), [k(2)], columns=ABC, params=Params(importance=importance))


def test_unknown_parameters_are_refused() -> None:
    with pytest.raises(ValidationError):
        Params.model_validate({"importanse": {}})


def test_too_few_rows(duck: Database) -> None:
    with pytest.raises(Infeasible):
        suppress(duck, table("1xu 2"), [k(3)], columns=ABC, suppression_limit=1.0)


@pytest.mark.full
def test_persons_count_not_rows(database: Database) -> None:
    columns = {**ABC, "who": "INTEGER"}
    rows = [row | {"who": who} for row, who in zip(table("1xu 4", "2xu 2"), (1, 1, 1, 1, 2, 3), strict=True)]
    found = suppress(database, rows, [k(2)], columns=columns, person="who")
    # Four rows of one person are no crowd.
    assert set(found.classes) == {("*", "x", "u")} and len(found.rows) == 6


def test_sensitive_values_decide_who_is_borrowed(database: Database) -> None:
    columns = {**ABC, "s": "TEXT"}
    sick = [row | {"s": s} for row, s in zip(table("1xu 2", "2xu 2", "3xu 3"), "ffgggff", strict=True)]
    found = suppress(database, sick, [{"distinct_l_diversity": {"l": 2}}], columns=columns, sensitive="s")
    # Each class alone has one value too few, but for the last; those two make one that holds.
    assert {labels: len(rows) for labels, rows in found.classes.items()} == {("*", "x", "u"): 4, ("3", "x", "u"): 3}


@pytest.mark.full
def test_what_is_borrowed_must_help(database: Database) -> None:
    """The smallest class that could join leaves five f of six, too far from the table's eight of fourteen."""
    rows = [row | {"s": s} for row, s in zip(table("1xu 2", "2xu 4", "3xv 8"), "fgfffffffggggg", strict=True)]
    models = [{"t_closeness": {"t": 0.2}}]
    found = suppress(database, rows, models, columns={**ABC, "s": "TEXT"}, sensitive="s")
    assert len(found.rows) == 14
    assert not any(broken(inside, 1, 1, {1: 8 / 14, 2: 6 / 14}, 0.2) for inside in found.classes.values())


def test_a_second_search_starts_anew(duck: Database) -> None:
    duck.table("t", ABC, table("1xu 9", "2xu", "3yv"))
    roles = dict.fromkeys(ABC, "quasi_identifier")
    policy = parse(json.dumps({"source": {"table": "t"}, "columns": roles, "models": [k(3)]}))
    made = problem(policy, duck.engine, dict.fromkeys(ABC, root_only()), relation(policy.source, duck.engine.dialect))
    one = local_suppression.run(made, Params())
    other = local_suppression.run(made, Params(importance={"a": 9.0}))
    first, second = (sorted(rebuilt(duck, made, solution)) for solution in (one, other))
    assert len(first) == len(second) == 11 and one.regions != other.regions
    again = local_suppression.run(made, Params())
    assert sorted(rebuilt(duck, made, again)) == first and again.why == one.why
    made.close()
    assert duck.fetch("SELECT table_name FROM duckdb_tables() WHERE table_name LIKE 'sqlanon%'") == []


@pytest.mark.full
def test_keys_of_more_than_62_bits(database: Database) -> None:
    columns = {f"q{i}": "INTEGER" for i in range(8)}
    rows = [dict.fromkeys(columns, row % 300) for row in range(300)]
    rows += [{name: row if name != "q3" else 7 for name in columns} for row in (4, 5)]
    found = suppress(database, rows, [k(2)], columns=columns, params=Params(patterns=10), suppression_limit=0.0)
    assert found.keys == 2 and len(found.rows) == 302
    assert min(map(len, found.classes.values())) >= 2
    assert sum(labels[0] in ("4", "5") for labels in found.classes) == 2


def test_few_patterns_and_no_time_still_hold(duck: Database) -> None:
    rows = table(*(f"{a}{b}{c}" for a in range(6) for b in "xyz" for c in "uvw" if (a, b, c) != (1, "x", "u")))
    full = suppress(duck, rows, [k(3)], columns=ABC)
    for params, deadline in (Params(patterns=1), None), (Params(), time.monotonic() - 1):
        found = suppress(duck, rows, [k(3)], columns=ABC, params=params, deadline=deadline)
        assert len(found.rows) == len(rows) and min(map(len, found.classes.values())) >= 3
        assert found.cells >= full.cells


# Any table, any model ---------------------------------------------------------------------------------------------

small_rows = st.lists(
    st.tuples(st.sampled_from("1234"), st.sampled_from("xyz"), st.sampled_from("uv"), st.integers(0, 3)),
    min_size=1,
    max_size=30,
)


def broken(
    rows: Sequence[tuple[int, ...]],
    size: int,
    different: int,
    table_share: dict[int, float] | None,
    distance: float = 0.4,
) -> bool:
    values = [value for (value,) in rows] if rows and rows[0] else []
    if len(rows) < size or (different > 1 and len(set(values)) < different):
        return True
    if table_share is None:
        return False
    own = Counter(values)
    return sum(abs(own[v] / len(values) - share) for v, share in table_share.items()) / 2 > distance + 1e-9


@pytest.mark.full
@settings(max_examples=examples(25))
@given(rows=small_rows, size=st.integers(2, 4), limit=st.sampled_from([0.0, 0.1, 0.5]))
def test_k_anonymity_always_holds(duck: Database, rows: list[Any], size: int, limit: float) -> None:
    listed = [{"a": int(a), "b": b, "c": c} for a, b, c, _ in rows]
    if len(rows) < size:
        with pytest.raises(Infeasible):
            suppress(duck, listed, [k(size)], columns=ABC, suppression_limit=limit)
        return
    found = suppress(duck, listed, [k(size)], columns=ABC, suppression_limit=limit)
    gone = found.solution.suppressed
    assert len(found.rows) + gone == len(rows) and gone <= limit * len(rows) + 1e-9
    assert not any(broken(inside, size, 1, None) for inside in found.classes.values())
    wide = {place for place in range(3) if len({row[place] for row in rows}) > 1}
    lost = sum(new == "*" for _, labels, _ in found.rows for place, new in enumerate(labels) if place in wide)
    assert found.solution.loss == pytest.approx((lost + 3 * gone) / (3 * len(rows)))
    crowd = Counter((row["a"], row["b"], row["c"]) for row in listed)
    assert (found.cells + gone > 0) == any(count < size for count in crowd.values())


@pytest.mark.full
@settings(max_examples=examples(25))
@given(rows=small_rows, model=st.sampled_from(["l", "t"]), limit=st.sampled_from([0.0, 0.3]))
def test_other_models_hold_too(duck: Database, rows: list[Any], model: str, limit: float) -> None:
    listed = [{"a": int(a), "b": b, "c": c, "s": s} for a, b, c, s in rows]
    different = 2 if model == "l" else 1
    share = None if model == "l" else {s: n / len(rows) for s, n in Counter(row["s"] for row in listed).items()}
    asked = {"distinct_l_diversity": {"l": 2}} if model == "l" else {"t_closeness": {"t": 0.4}}
    columns = {**ABC, "s": "INTEGER"}
    if broken([(row["s"],) for row in listed], 2, different, share):
        with pytest.raises(Infeasible):
            suppress(duck, listed, [k(2), asked], columns=columns, sensitive="s", suppression_limit=limit)
        return
    found = suppress(duck, listed, [k(2), asked], columns=columns, sensitive="s", suppression_limit=limit)
    gone = found.solution.suppressed
    assert len(found.rows) + gone == len(rows) and gone <= limit * len(rows) + 1e-9
    # Values are numbered by rank in the compressed table.
    if share is not None:
        ranks = sorted(share)
        share = {place: share[value] for place, value in enumerate(ranks, start=1)}
    assert not any(broken(inside, 2, different, share) for inside in found.classes.values())

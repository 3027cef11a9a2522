"""What draws are made of: alias tables that keep every probability, ranks that never move too far, keys of rows."""

from __future__ import annotations

import json
import math
from collections import Counter
from fractions import Fraction
from typing import Any

import pytest
import sqlglot
import transforming
from conftest import Database, examples
from hypothesis import given, settings
from hypothesis import strategies as st
from transforming import KEY, changed, load, people, with_people

import sqlanon
from sqlanon.engines import connect
from sqlanon.engines.temp_tables import drop_steps
from sqlanon.errors import PolicyError
from sqlanon.evidence.apply_transformations import apply
from sqlanon.families import plugin
from sqlanon.sqltree.tree import FILE_DIALECT

ALIAS = plugin("transformations", "transitions").sql


def alias_table(database: Database, matrix: dict[str, dict[str, float]]) -> list[tuple[Any, ...]]:
    rows = [{"source": a, "target": b, "p": p} for a, row in matrix.items() for b, p in row.items()]
    database.table("moves", {"source": "VARCHAR", "target": "VARCHAR", "p": "DOUBLE PRECISION"}, rows)
    text = sqlglot.transpile(ALIAS, read=FILE_DIALECT, write=database.engine.dialect)[0]
    return sorted(database.fetch(f"SELECT source, cell, target, other, cut, stay FROM ({text}) AS found"))


def chances(found: list[tuple[Any, ...]]) -> dict[tuple[str, str], Fraction]:
    """The probability of each move, added up over cells, exactly."""
    cells = len({cell for _, cell, *_ in found})
    (stay,) = {Fraction(item) for *_, item in found}
    sums: dict[tuple[str, str], Fraction] = {}
    for source, _, target, other, cut, _ in found:
        assert 0 <= cut <= 1
        for value, share in ((target, Fraction(cut)), (other, 1 - Fraction(cut)), (source, stay / (1 - stay))):
            sums[source, value] = sums.get((source, value), Fraction(0)) + share * (1 - stay) / cells
    return {pair: p for pair, p in sums.items() if p}


MATRIX = {"a": {"a": 0.5, "b": 0.25, "c": 0.25}, "b": {"b": 1.0}, "c": {"c": 0.0, "a": 1 / 3, "b": 2 / 3}}


def test_an_alias_table_is_the_same_on_both_engines(duck: Database, postgres: Database) -> None:
    found = alias_table(duck, MATRIX)
    assert found == alias_table(postgres, MATRIX)
    assert len(found) == 9 and found[0][-1] == 0  # c never stays
    half = {a: {b: p / 2 + (a == b) / 2 for b, p in [(a, 0.0), *row.items()]} for a, row in MATRIX.items()}
    stays = alias_table(duck, half)
    assert stays == alias_table(postgres, half) and 0.4999 < stays[0][-1] < 0.5
    assert all(abs(p - Fraction(half[a].get(b, 0.0))) < Fraction(2, 2**32) for (a, b), p in chances(stays).items())
    made = chances(found)
    for source, row in MATRIX.items():
        for target in "abc":
            assert abs(made.get((source, target), Fraction(0)) - Fraction(row.get(target, 0.0))) < Fraction(2, 2**32)


def test_a_row_that_adds_up_to_a_little_more_than_one(duck: Database) -> None:
    """As much as a policy may: likely values get less then, and nothing becomes possible that is not."""
    always = {"a": {"a": 1.0}, "b": {"b": 1.0}}
    assert chances(alias_table(duck, always)) == {("a", "a"): 1, ("b", "b"): 1}
    names = [f"v{place}" for place in range(8)]
    row = dict.fromkeys(names[:-1], 1 / 7 + 1e-10) | {names[-1]: 1e-10}
    made = chances(alias_table(duck, dict.fromkeys(names, row)))
    for source in names:
        assert sum(p for (a, _), p in made.items() if a == source) == 1 and (source, names[-1]) not in made
        assert all(abs(made[source, name] - Fraction(row[name])) < Fraction(10, 2**32) for name in names[:-1])


@st.composite
def matrices(draw: st.DrawFn) -> dict[str, dict[str, float]]:
    size = draw(st.integers(2, 9))
    names = [f"v{place}" for place in range(size)]
    weights = st.one_of(st.just(0), st.integers(1, 5), st.integers(1, 10**6))
    matrix = {}
    for name in names:
        row = draw(st.lists(weights, min_size=size, max_size=size).filter(any))
        matrix[name] = {other: weight / sum(row) for other, weight in zip(names, row, strict=True)}
    return matrix


@settings(max_examples=examples(30))
@given(matrices())
def test_an_alias_table_keeps_every_probability(matrix: dict[str, dict[str, float]]) -> None:
    database = Database(connect(":memory:"))
    made = chances(alias_table(database, matrix))
    database.engine.close()
    for source, row in matrix.items():
        assert sum(p for (a, _), p in made.items() if a == source) == 1
        for target, p in row.items():
            # Half a step is rounded away from each value, and one of them may have to make up for all.
            assert abs(made.get((source, target), Fraction(0)) - Fraction(p)) <= Fraction(len(row) / 2 + 1) / 2**32
            if p == 0:
                assert made.get((source, target), 0) == 0


@settings(max_examples=examples(20))
@given(st.lists(st.integers(0, 9), min_size=20, max_size=60), st.sampled_from([20, 35, 60, 100]), st.integers(0, 99))
def test_equal_values_never_swap_too_far_either(values: list[int], percent: int, secret: int) -> None:
    """Between the value that a row had and the one that it has lie no more ranks than were asked for."""
    database = Database(connect(":memory:"))
    rows = [{"id": place, "x": value} for place, value in enumerate(values)]
    load(database, "people", {"id": "BIGINT", "x": "INTEGER"}, rows)
    use = {"rank_swap": {"columns": ["x"], "percent": percent}}
    columns = {"id": "identifier", "x": "quasi_identifier"}
    found = [row["x"] for row in changed(database, [use], secret=f"{KEY} {secret}", columns=columns)]
    database.engine.close()
    assert Counter(found) == Counter(values)
    counted = Counter(values)
    for a, b in zip(values, found, strict=True):
        low, high = sorted((a, b))
        between = sum(counted[value] for value in range(low + 1, high))
        assert between + (low != high) <= percent / 100 * len(values)


def outline(database: Database, **changes: Any) -> Any:
    made = apply(transforming.policy([{"pram": {"columns": ["town"], "keep": 0.5}}], **changes), database.engine, KEY)
    drop_steps(database.engine, made.prelude.steps)
    return made.outline


@pytest.mark.full_on_postgres
def test_keys_are_known_to_be_unique_in_any_order(database: Database) -> None:
    rows = people(40)
    asked: list[str] = []
    query = database.engine.query

    def watched(tree: Any) -> Any:
        asked.append(tree.sql())
        return query(tree)

    database.engine.query = watched  # type: ignore[method-assign]
    lasting = database.engine.dialect == "duckdb"
    for ordered in (rows, rows[::-1], [*rows[20:], *rows[:20]]):
        with_people(database, ordered)
        asked.clear()
        found = outline(database)
        assert (found.identity, found.lasting) == ("unique", lasting)
        # Only keys that do not lie in their order are counted.
        assert any("DISTINCT" in text for text in asked) == (ordered is not rows)
    unknown = {**rows[0], "id": None}
    for double in ([*rows, rows[3]], [rows[0], *rows], [unknown, *rows], [*rows, unknown], [unknown] * 5 + rows):
        with_people(database, double)
        assert outline(database).identity == "numbered"


def test_a_view_is_read_once(database: Database) -> None:
    """It may give other rows each time: methods that read rows twice store them first."""
    with_people(database, people(200, nulls=False))
    database.run("CREATE VIEW seen AS SELECT * FROM people")
    use = [{"rank_swap": {"columns": ["income"], "percent": 20}}]
    assert not outline(database, source={"view": "seen"}).lasting
    assert not outline(database, source={"query": "SELECT * FROM people"}).lasting
    plain = changed(database, use)
    assert changed(database, use, source={"view": "seen"}) == plain
    database.run("DROP VIEW seen")


def test_draws_of_one_seed_are_even_and_of_two_independent(duck: Database) -> None:
    """The bits of a hash that one method uses twice: chi-square over 16 by 16 cells."""
    duck.run("CREATE TABLE people AS SELECT i AS id, 1 AS x, 1.5 AS y FROM range(20000) AS t(i)")
    made = sqlanon.parse(
        json.dumps(
            {
                "source": {"table": "people"},
                "columns": {"id": "identifier", "x": "quasi_identifier", "y": "insensitive"},
                "models": [{"k_anonymity": {"k": 2}}],
                "transformations": [{"permutation": {"columns": ["x"]}}],
            }
        )
    )
    done = apply(made, duck.engine, KEY)
    draws = duck.fetch("SELECT draw, second FROM sqlanon_changed_1_drawn")
    drop_steps(duck.engine, done.prelude.steps)
    cells = Counter((int(a * 16), int(b * 16)) for a, b in draws)
    expected = 20000 / 256
    chi = sum((cells[i, j] - expected) ** 2 / expected for i in range(16) for j in range(16))
    assert abs(chi - 255) < 4 * math.sqrt(2 * 255)


@pytest.mark.full
@pytest.mark.parametrize("count", [2, 8])
def test_covariances_of_several_columns_on_both_engines(duck: Database, postgres: Database, count: int) -> None:
    """The factor is made column by column: nested, PostgreSQL would write it out again and again."""
    names = [f"c{place}" for place in range(count)]
    rows = [
        {"id": place} | {name: math.sin((at + 2) * place) + place % (at + 3) for at, name in enumerate(names)}
        for place in range(120)
    ]
    columns = {"id": "identifier", "c0": "quasi_identifier"} | dict.fromkeys(names[1:], "insensitive")
    use = {"additive_noise": {"columns": names, "alpha": 0.3, "kind": "linear"}}
    found = []
    for database in (duck, postgres):
        load(database, "people", {"id": "BIGINT"} | dict.fromkeys(names, "DOUBLE PRECISION"), rows)
        found.append(changed(database, [use], columns=columns))
    assert found[0] == found[1]


@pytest.mark.full_on_postgres
@pytest.mark.parametrize("far", ["4e15 + 1000 * i", "i * 5e-15", "1e300 * (i + 1)"])
def test_floating_point_identities_have_draws_of_their_own(database: Database, far: str) -> None:
    """Their text may be the same where they differ: one draw for all rows would be one shift for all of them."""
    database.run("DROP TABLE IF EXISTS people")
    double = "CAST({} AS DOUBLE PRECISION)"
    source = "range(200) AS r(i)" if database.engine.dialect == "duckdb" else "generate_series(0, 199) AS r(i)"
    database.run(
        f"CREATE TABLE people AS SELECT {double.format(far)} AS id, {double.format('100 * i')} AS v FROM {source}"
    )
    roles = {"id": "identifier", "v": "quasi_identifier"}
    found = changed(database, [{"additive_noise": {"columns": ["v"], "alpha": 0.1}}], columns=roles)
    shifts = {round(one["v"] - 100 * place, 3) for place, one in enumerate(sorted(found, key=lambda one: one["id"]))}
    assert len(shifts) > 150
    again = changed(database, [{"additive_noise": {"columns": ["v"], "alpha": 0.1}}], columns=roles)
    assert again == found


@pytest.mark.parametrize("invariant", [True, False])
def test_values_that_are_equal_but_written_differently_are_refused(database: Database, invariant: bool) -> None:
    """Each row of theirs would be found several times, and one person would be a crowd."""
    database.run("DROP TABLE IF EXISTS people")
    duck = database.engine.dialect == "duckdb"
    kinds = ["INTERVAL 1 DAY", "INTERVAL 24 HOUR", "INTERVAL 2 DAY"] if duck else ["1.5", "1.50", "2"]
    source = "range(60) AS r(i)" if duck else "generate_series(0, 59) AS r(i)"
    cases = f"CASE i % 3 WHEN 0 THEN {kinds[0]} WHEN 1 THEN {kinds[1]} ELSE {kinds[2]} END"
    database.run(f"CREATE TABLE people AS SELECT i AS id, {cases} AS v FROM {source}")
    use = {"pram": {"columns": ["v"], "keep": 0.5, "invariant": invariant}}
    with pytest.raises(PolicyError, match="equal but written differently"):
        changed(database, [use], columns={"id": "identifier", "v": "quasi_identifier"})


@pytest.mark.full
@pytest.mark.parametrize("name", ["drawn", "known", "placed"])
def test_a_table_may_be_called_like_a_part_of_a_statement(duck: Database, name: str) -> None:
    duck.run(f"CREATE OR REPLACE TABLE {name} AS SELECT i AS id, i * 10 AS income FROM range(100) AS r(i)")
    roles = {"id": "identifier", "income": "quasi_identifier"}
    use = [{"rank_swap": {"columns": ["income"], "percent": 20}}]
    found = changed(duck, use, source={"table": name}, columns=roles)
    duck.run(f"CREATE OR REPLACE TABLE people AS FROM {name}")
    assert found == changed(duck, use, columns=roles)
    duck.run(f"DROP TABLE {name}")


def test_a_row_without_its_floating_point_identity_is_not_lost(database: Database) -> None:
    database.run("DROP TABLE IF EXISTS people")
    duck = database.engine.dialect == "duckdb"
    source = "range(40) AS r(i)" if duck else "generate_series(0, 39) AS r(i)"
    identity = "CASE WHEN i <> 7 THEN CAST(i AS DOUBLE PRECISION) END"
    database.run(f"CREATE TABLE people AS SELECT {identity} AS id, i AS v FROM {source}")
    roles = {"id": "identifier", "v": "quasi_identifier"}
    made = apply(
        transforming.policy([{"rank_swap": {"columns": ["v"], "percent": 20}}], columns=roles), database.engine, KEY
    )
    try:
        assert made.outline.identity == "numbered"
        assert sorted(row[1] for row in database.fetch(made.policy.source.text)) == list(range(40))
    finally:
        drop_steps(database.engine, made.prelude.steps)

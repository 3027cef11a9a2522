"""Neighbour replay: with and without one person, what is read differs by no more than the noise is made for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from conftest import Database, examples
from gateway_grammar import SOURCES, TAME, Asked, Source, rows, statements, without
from gateway_world import COLUMNS, PUBLISHED, REGIONS, World, policy, put, world
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sqlanon.engines import connect
from sqlanon.errors import Refused
from sqlanon.gateway.replay.neighbours import compare_neighbours

LIMITS = {"rows": 3, "groups": 2, "minimum_group": 1}


@pytest.fixture(autouse=True, scope="module")
def few_rows_are_many() -> Iterator[None]:
    """The rows of persons are thinned before joins on the unit, as those of persons with hundreds of rows are."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("sqlanon.gateway.bind.sources.MOST_JOINED", 1)
        yield


@dataclass
class Neighbours:
    """Two gates with one secret."""

    one: World
    other: World

    def fill(self, tables: Any, person: int) -> None:
        for each, found in ((self.one, tables), (self.other, without(tables, person))):
            engine = each.spy.engine
            for name, declared in COLUMNS.items():
                engine._connection.execute(f'DELETE FROM "{name}"')  # type: ignore[attr-defined]
                put(engine, name, declared, found[name])


@pytest.fixture(scope="module")
def duck(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Neighbours]:
    folder = tmp_path_factory.mktemp("neighbours")
    yield _neighbours(folder, lambda: connect(":memory:", read_only=False))


@pytest.fixture
def pair(database: Database, postgres_url: str, tmp_path: Path) -> Iterator[Neighbours]:
    """On PostgreSQL the other one lives in a schema of its own."""
    if database.engine.dialect == "duckdb":
        pytest.skip("has a test of its own")
    other = connect(postgres_url)
    other._connection.execute("CREATE SCHEMA other")  # type: ignore[attr-defined]
    other._connection.execute("SET search_path = other")  # type: ignore[attr-defined]
    engines = iter([database.engine, other])
    yield _neighbours(tmp_path, lambda: next(engines))
    other.close()


def _neighbours(folder: Path, engine: Callable[[], Any]) -> Neighbours:
    wanted = policy(**LIMITS)
    one = world(folder, {}, given=wanted, engine=engine())
    other = world(folder, {}, given=wanted, engine=engine(), name="other.ledger")
    other.gate.ledger = one.gate.ledger  # the secret is the same, the person is the only difference
    return Neighbours(one, other)


def check(pair: Neighbours, asked: Asked) -> None:
    found = compare_neighbours(pair.one.gate, pair.other.gate, asked.sql, "analyst")
    assert not found.violations, f"{found.violations}: {asked.sql}"


QUIET = [
    HealthCheck.function_scoped_fixture,
    HealthCheck.too_slow,
    HealthCheck.filter_too_much,
    HealthCheck.data_too_large,
]


def replay(pair: Neighbours, examples: int) -> None:
    @settings(max_examples=examples, suppress_health_check=QUIET, deadline=None)
    @given(tables=rows(), person=st.integers(1, 3), asked=st.lists(statements(), min_size=1, max_size=4))
    def run(tables: Any, person: int, asked: list[Asked]) -> None:
        pair.fill(tables, person)
        for each in asked:
            check(pair, each)

    run()


def extreme(sign: int) -> dict[str, list[Any]]:
    """Person 1 has many rows, all far above their bounds or all far below; the others are few and calm."""
    rest = {"note": "a", "ok": True, "seen": None}
    calm = {name: given[1] for name, given in TAME.items()} | rest
    far = {
        "age": sign * 10**6,
        "income": sign * float("inf"),
        "visits": sign * 10**12,
        "price": sign * 99,
        "ward": "W0",
    }
    visits = [{"user_id": 1, **far, **rest, "region": f"R{place % 4}"} for place in range(12)]
    visits += [{"user_id": who, **calm, "region": f"R{who % 3}"} for who in (2, 3, 4, 4)]
    users = [{"user_id": who, "email": "e", "home": "R1", "born": None, "secret": "s"} for who in (1, 2, 3)]
    orders = [{"order_id": n, "user_id": 1 + (n > 5), "amount": sign * 10**6} for n in range(8)]
    items = [{"order_id": n % 8, "sku": f"S{n % 3}", "price": sign * 1e9} for n in range(24)]
    public = {"regions": REGIONS, "published": PUBLISHED, "staff": []}
    return {"visits": visits, "users": users, "orders": orders, "items": items, **public}


@pytest.mark.full
@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.text[:60])
def test_a_person_with_extreme_rows_moves_no_answer_further(duck: Neighbours, source: Source) -> None:
    shapes = ("SUM({})", "VARIANCE({})", "MEDIAN({})")
    listed = [shape.format(each) for each in (*source.whole, *source.real) for shape in shapes]
    listed += ["COUNT(*)", f"COUNT(DISTINCT {source.texts[0]})", f"COUNT(DISTINCT {source.unit})"]
    for sign, key in ((1, ""), (-1, (*source.keys, *source.texts)[0])):
        duck.fill(extreme(sign), 1)
        sql = f"SELECT {key + ', ' if key else ''}{', '.join(listed)} FROM {source.text}"
        sql += f" GROUP BY {key}" if key else ""
        duck.one.prepare(sql)  # is answered
        check(duck, Asked(sql, 0, ()))


def test_one_person_moves_no_answer_further_than_its_noise(duck: Neighbours) -> None:
    replay(duck, 20)


def test_one_person_moves_no_answer_further_on_postgres(pair: Neighbours) -> None:
    replay(pair, 6)


@pytest.mark.long
def test_one_person_moves_no_answer_long(duck: Neighbours) -> None:
    replay(duck, 1000)


@pytest.mark.long
def test_one_person_moves_no_answer_long_on_postgres(pair: Neighbours) -> None:
    replay(pair, 200)


def test_the_grammar_is_answered(duck: Neighbours) -> None:
    """A grammar whose statements are refused would test nothing."""
    counted = {"answered": 0, "refused": 0}

    @settings(max_examples=examples(60), suppress_health_check=QUIET, deadline=None, database=None, derandomize=True)
    @given(asked=statements())
    def run(asked: Asked) -> None:
        try:
            duck.one.prepare(asked.sql)
            counted["answered"] += 1
        except Refused:
            counted["refused"] += 1

    run()
    assert counted["answered"] > 3 * counted["refused"], counted

"""Whole statements, audited: many noisy tables of two neighbouring databases tell no more apart than was charged."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from sqlanon.engines import connect
from sqlanon.gateway import Gate, PricedCore
from sqlanon.gateway.bind.catalog import Catalog
from sqlanon.gateway.bind.schema import schema_of
from sqlanon.gateway.price.noise import Mechanisms, noisy_table
from sqlanon.gateway.replay.empirical_epsilon import epsilon_lower_bound, lower_bound
from sqlanon.ledger import Ledger
from sqlanon.mechanisms import Choice, KeySelection, Mechanism, choose_best, gaussian, laplace, select_keys
from sqlanon.policy.gateway import Gateway

SHORT, LONG = 3_000, 100_000
BATCH = 1_000
EPSILON, DELTA = 1.0, 0.01
ROWS, GROUPS = 3, 2
# One person at the bounds, with more rows and regions than the limits; everybody else in the middle.
WORST = [(0, 100, region) for region in ("a", "b", "c", "alone") for _ in range(3)]
OTHERS = [(person, 50, region) for person in range(1, 60) for region in ("a", "b")]


def policy(mechanism: str) -> Gateway:
    return Gateway.model_validate(
        {
            "database": ":memory:",
            "unit": {"table": "people", "key": "person"},
            "tables": {
                "people": {},
                "visits": {
                    "unit": "person",
                    "columns": {"amount": {"low": 0, "high": 100}, "kind": {"keys": ["a", "b", "c", "alone"]}},
                },
            },
            "rows": ROWS,
            "groups": GROUPS,
            "minimum_group": 1,
            "mechanism": mechanism,
            "accounting": "zcdp" if mechanism == "gaussian" else "basic",
            "budget": {
                "statement": {"epsilon": EPSILON, "delta": DELTA},
                "principal": {"epsilon": 100.0, "delta": 0.01},
            },
            "answer_time": 0.0,
        }
    )


@contextmanager
def gate(
    folder: Path, rows: Sequence[tuple[int, int, str]], mechanism: str = "laplace", source: Mechanisms | None = None
) -> Iterator[Gate]:
    engine = connect(":memory:")
    made_of = "(person INTEGER, amount INTEGER, region TEXT, kind TEXT)"
    engine._connection.execute(  # type: ignore[attr-defined]
        f"CREATE TABLE people (person INTEGER); CREATE TABLE visits {made_of}"
    )
    engine._connection.executemany(  # type: ignore[attr-defined]
        "INSERT INTO visits VALUES (?, ?, ?, ?)", [(person, amount, region, region) for person, amount, region in rows]
    )
    asked = policy(mechanism)
    made = Gate(
        asked, engine, Ledger.create(folder / f"{len(rows)}.ledger"), Catalog(asked, schema_of(engine, asked)),
        source or Mechanisms(),
    )  # fmt: skip
    yield made
    made.close()


@dataclass(frozen=True)
class Case:
    sql: str
    # What is looked at in a noisy table: the statistic that tells most about the worst person.
    look: Callable[[list[tuple[Any, ...]]], int]


def first(rows: list[tuple[Any, ...]]) -> int:
    return int(rows[0][0])


def total(start: int, step: int) -> Callable[[list[tuple[Any, ...]]], int]:
    """The sum over all groups of the values of one column, in coarse steps."""
    return lambda rows: sum(int(row[start]) for row in rows) // step


CASES = {
    "count": Case("SELECT COUNT(*) FROM visits", first),
    "sum": Case("SELECT SUM(amount) FROM visits", lambda rows: int(rows[0][0]) // 20),
    "avg": Case("SELECT AVG(amount) FROM visits", lambda rows: int(rows[0][0] / 225 * 4 + rows[0][2] / 9 * 4)),
    "persons": Case("SELECT COUNT(DISTINCT person) FROM visits", first),
    # Of regions where nobody else is: in the others one person more changes nothing. And each once, or the rows that
    # count would all be of the same one.
    "distinct": Case(
        "SELECT COUNT(DISTINCT region) FROM (SELECT DISTINCT person, region FROM visits) t "
        "WHERE region IN ('c', 'alone')",
        first,
    ),
    # Few candidates take less time, and beside many others nobody moves a median.
    "median": Case("SELECT MEDIAN(LEAST(GREATEST(amount, 52), 55)) FROM visits WHERE person = 0", first),
    "declared keys": Case("SELECT kind, COUNT(*) FROM visits GROUP BY kind", total(1, 1)),
    "filtered": Case(
        "SELECT SUM(amount) FILTER (WHERE person = 0), COUNT(*) FROM visits", lambda rows: int(rows[0][0]) // 20
    ),
    # Of three regions two count, so that one at least is the person's alone, whichever are drawn.
    "private keys": Case(
        "SELECT region, COUNT(*) FROM visits WHERE region <> 'b' GROUP BY region",
        lambda rows: -1 if any(r[0] in ("c", "alone") for r in rows) else total(1, 4)(rows),
    ),
}


def samples(
    case: Case, folder: Path, rows: Sequence[tuple[int, int, str]], runs: int, batch: int = 1, **how: Any
) -> list[int]:
    """What is seen in so many noisy tables of one database.

    In a batch the same exact table is put under itself many times, with the number of the run as a key before its keys,
    and made noisy by one call: the same code with the same mechanisms, which is asked for longer vectors. That each
    cell of a vector has noise of its own is what the audits with a batch of 1 look at, and those of the mechanisms.
    """
    with gate(folder, rows, **how) as made:
        prepared = made.prepare(case.sql, "analyst")
        (part,) = prepared.parts
        found, histograms = made.data.exact(part)
        keys = made.data.keys(part.core)
        places = range(batch)
        many_found = {(run, *key): value for run in places for key, value in found.items()}
        many_histograms = {
            atom: {(run, *key): value for run in places for key, value in held.items()}
            for atom, held in histograms.items()
        }
        many_keys = None if keys is None else [(run, *key) for run in places for key in keys]
        seen = []
        for _ in range(math.ceil(runs / batch)):
            tables: list[list[tuple[Any, ...]]] = [[] for _ in places]
            for run, *row in noisy_table(part.core, part.noise, many_found, many_histograms, many_keys):
                tables[run].append(tuple(row))
            seen += map(case.look, tables)
        return seen[:runs]


def audited(case: Case, folder: Path, runs: int, batch: int = 1, **how: Any) -> float:
    one = samples(case, folder, [*OTHERS, *WORST], runs, batch, **how)
    two = samples(case, folder, OTHERS, runs, batch, **how)
    bound = epsilon_lower_bound(one, two, delta=DELTA)
    print(f"{case.sql}: epsilon is at least {bound:.3f}, by {len(one):,} and {len(two):,} runs")
    return bound


@pytest.mark.full
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
def test_whole_statements(name: str, mechanism: str, tmp_path: Path) -> None:
    assert audited(CASES[name], tmp_path, SHORT, mechanism=mechanism) <= EPSILON


@pytest.mark.long
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
def test_whole_statements_in_full(name: str, mechanism: str, tmp_path: Path) -> None:
    assert audited(CASES[name], tmp_path, LONG, BATCH, mechanism=mechanism) <= EPSILON


class Cut:
    """Mechanisms that draw far too little noise, and take the first keys that come; they charge as before.

    Little enough that it shows in statements that spend only a part of their budget on what is looked at.
    """

    @staticmethod
    def laplace(sensitivity: int, epsilon: float) -> Mechanism:
        return laplace(sensitivity, epsilon * 3)

    @staticmethod
    def gaussian(sensitivity: float, rho: float, delta: float) -> Mechanism:
        return gaussian(sensitivity / 10, rho, delta)

    @staticmethod
    def select_keys(groups: int, minimum: int, epsilon: float, delta: float) -> KeySelection:
        return select_keys(groups, minimum, epsilon * 3, min(0.5, delta * 30))

    @staticmethod
    def choose_best(sensitivity: float, epsilon: float) -> Choice:
        return choose_best(sensitivity, epsilon * 15)


BROKEN = Mechanisms(Cut.laplace, Cut.gaussian, Cut.select_keys, Cut.choose_best)


@pytest.mark.full
@pytest.mark.parametrize("name", ["count", "sum"])
def test_a_broken_statement_is_caught(name: str, tmp_path: Path) -> None:
    assert audited(CASES[name], tmp_path, SHORT * 2, source=BROKEN) > EPSILON


@pytest.mark.long
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
def test_broken_statements_are_caught_in_full(name: str, mechanism: str, tmp_path: Path) -> None:
    assert audited(CASES[name], tmp_path, LONG, BATCH, mechanism=mechanism, source=BROKEN) > EPSILON


def appears(folder: Path, runs: int, batch: int = 1, source: Mechanisms | None = None) -> int:
    case = Case("SELECT region, COUNT(*) FROM visits GROUP BY region", lambda rows: sum(r[0] == "alone" for r in rows))
    lone = [(0, 100, "alone")]
    return sum(samples(case, folder, [*OTHERS, *lone], runs, batch, source=source))


@pytest.mark.full
def test_the_key_of_a_lone_person(tmp_path: Path) -> None:
    runs = SHORT
    assert lower_bound(appears(tmp_path, runs), runs, 1e-9) <= DELTA


@pytest.mark.long
def test_the_key_of_a_lone_person_in_full(tmp_path: Path) -> None:
    assert lower_bound(appears(tmp_path, LONG, BATCH), LONG, 1e-9) <= DELTA


@pytest.mark.full
def test_a_threshold_that_is_too_low_is_caught(tmp_path: Path) -> None:
    assert lower_bound(appears(tmp_path, SHORT, source=BROKEN), SHORT, 1e-9) > DELTA


def test_answers_of_whole_statements_vary(tmp_path: Path) -> None:
    """End to end: the noise that was audited is what an analyst sees."""
    with gate(tmp_path, OTHERS) as made:
        seen = set()
        for _ in range(20):
            made.ledger.forget()
            seen.add(made.answer("SELECT COUNT(*) FROM visits").rows)
        assert len(seen) > 5
        part: PricedCore = made.prepare("SELECT COUNT(*) FROM visits", "analyst").parts[0]
        assert part.noise.atoms[0] is not None and part.noise.atoms[0].scale == ROWS / EPSILON

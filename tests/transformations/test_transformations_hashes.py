"""Draws of rows that are known by integers: parts of hashes that neighbours share, recomputed here without SQL."""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter
from typing import Any

import pytest
from conftest import Database, examples
from hypothesis import given, settings
from hypothesis import strategies as st
from transforming import KEY, changed, load, people, policy, with_people

from sqlanon.engines import connect
from sqlanon.engines.identities import Identities
from sqlanon.engines.temp_tables import drop_steps
from sqlanon.evidence.apply_transformations import apply

ROLES = {"id": "identifier", "x": "quasi_identifier"}
ROUNDED = {"rounding": {"columns": ["x"], "base": 10, "random": True}}
NOISY = {"additive_noise": {"columns": ["x"], "alpha": 1}}


def shared(method: str, params: str, number: int, scale: str = "") -> tuple[bytes, int]:
    """The hash of four neighbours, and which of them a number is. Its seed depends on method and parameters, as JSON
    with sorted keys; that of noise on its scale, too."""
    said = json.dumps([f'["{method}",{params}]'], separators=(",", ":"))
    mark = hashlib.sha256(said.encode()).hexdigest()[:16]
    inner = hashlib.sha256(f"{KEY}:{method}/x#{mark}:4".encode()).hexdigest()
    seed = hashlib.sha256(f"{KEY}{inner}".encode()).hexdigest()[:32] + ":"
    if scale:
        seed = hashlib.md5(f"{seed}{scale}".encode()).hexdigest() + ":"
    return hashlib.md5(f"{seed}{number // 4}".encode()).digest(), number % 4


def even(hashed: bytes, place: int) -> float:
    return (int.from_bytes(hashed[4 * place : 4 * place + 4], "little") + 0.5) / 2**32


def rounded(number: int, value: float) -> float:
    return 10.0 * math.floor(value / 10 + even(*shared("rounding", '{"base":10.0,"random":true}', number)))


def normal(number: int, step: int) -> float:
    hashed, place = shared("additive_noise", '{"from":0.0,"to":1.0}', number, f"{step},256;")
    pair = place - place % 2
    turn = even(hashed, pair + 1) + (place % 2) / 4
    return math.sqrt(-2 * math.log(even(hashed, pair))) * math.cos(2 * math.pi * turn)


def numbered(database: Database, numbers: list[int], kind: str = "BIGINT") -> list[dict[str, Any]]:
    rows = [{"id": number, "x": float(place % 50)} for place, number in enumerate(numbers)]
    load(database, "people", {"id": kind, "x": "DOUBLE PRECISION"}, rows)
    return sorted(rows, key=lambda row: row["id"])


def span(database: Database, **changes: Any) -> tuple[int, int] | None:
    made = apply(policy([ROUNDED], columns=ROLES, **changes), database.engine, KEY)
    drop_steps(database.engine, made.prelude.steps)
    return made.outline.span


# All of a range, out of order, with holes, too few of it for hashes that are made before, and the ends of a BIGINT.
NUMBERS = {
    "range": list(range(-9, 40)),
    "order": [*range(30, 60), *range(7, 30)],
    "holes": [number for number in range(100) if number % 7],
    "sparse": [number * 3 for number in range(-20, 20)],
    "ends": [-(2**63), -(2**63) + 1, 0, 2**63 - 1],
}


@pytest.mark.full_on_postgres
@pytest.mark.parametrize("name", NUMBERS)
def test_each_row_has_its_part_of_a_hash(database: Database, name: str) -> None:
    rows = numbered(database, NUMBERS[name])
    known = None if name in ("sparse", "ends") else (min(NUMBERS[name]), max(NUMBERS[name]))
    assert span(database) == known
    found = changed(database, [ROUNDED], columns=ROLES)
    assert [(row["id"], row["x"]) for row in found] == [(row["id"], rounded(row["id"], row["x"])) for row in rows]


@pytest.mark.full_on_postgres
@pytest.mark.parametrize("name", NUMBERS)
def test_neighbours_have_a_pair_of_normal_draws(database: Database, name: str) -> None:
    rows = numbered(database, NUMBERS[name])
    mean = sum(row["x"] for row in rows) / len(rows)
    spread = math.sqrt(sum((row["x"] - mean) ** 2 for row in rows) / len(rows))
    found = changed(database, [NOISY], columns=ROLES)
    step = math.floor(32 * math.log2(spread) + 0.5)
    assert 2 ** (step / 32) == pytest.approx(spread, rel=0.011)
    for before, after in zip(rows, found, strict=True):
        assert after["x"] == pytest.approx(before["x"] + 2 ** (step / 32) * normal(before["id"], step), abs=2e-6)


def test_draws_are_the_same_however_the_rows_are_read(duck: Database) -> None:
    """Hashes are looked up where the rows lie in a table; those of a view or a file are made row by row."""
    numbered(duck, list(range(1000)))
    uses = [ROUNDED, {"rank_swap": {"columns": ["x"], "percent": 10}}, NOISY]
    plain = changed(duck, uses, columns=ROLES)
    assert changed(duck, uses, columns=ROLES, source={"query": "SELECT * FROM people ORDER BY x"}) == plain
    assert plain != changed(duck, uses, columns=ROLES, secret="one more secret, and a long one")


@pytest.mark.full_on_postgres
@pytest.mark.parametrize("kind", ["SMALLINT", "INTEGER"])
def test_shorter_integers_have_the_same_draws(database: Database, kind: str) -> None:
    rows = numbered(database, NUMBERS["range"], kind)
    found = changed(database, [ROUNDED], columns=ROLES)
    assert [row["x"] for row in found] == [rounded(row["id"], row["x"]) for row in rows]


def test_numbers_that_do_not_identify_share_no_hash(database: Database) -> None:
    """Rows with one number: each has a hash of its own, and there is no range."""
    load(database, "people", {"id": "BIGINT", "x": "DOUBLE PRECISION"}, [{"id": 1, "x": 5.0}] * 40)
    assert span(database) is None
    assert Counter(row["x"] for row in changed(database, [ROUNDED], columns=ROLES)).keys() == {0.0, 10.0}


@pytest.mark.parametrize(
    "use",
    [ROUNDED, NOISY, {"rank_swap": {"columns": ["x"], "percent": 50}}, {"pram": {"columns": ["n"], "keep": 0.9}}],
    ids=lambda use: next(iter(use)),
)
def test_a_row_without_a_hash_is_not_shown_as_it_is(
    duck: Database, monkeypatch: pytest.MonkeyPatch, use: dict[str, Any]
) -> None:
    """Somebody wrote into the table after its range was looked at: the value is lost, and never told unchanged."""
    rows = [{"id": number, "x": float(number), "n": number % 3} for number in range(60)]
    load(duck, "people", {"id": "BIGINT", "x": "DOUBLE PRECISION", "n": "INTEGER"}, rows)
    monkeypatch.setattr("sqlanon.evidence.apply_transformations.find_identities", lambda *_: Identities(60, (0, 39)))
    found = changed(duck, [use], columns={**ROLES, "n": "insensitive"})
    name = next(iter(use.values()))["columns"][0]
    assert all(row[name] is not None for row in found if row["id"] < 40)
    assert all(row[name] is None for row in found if row["id"] >= 40)


def test_rows_that_were_made_anew_are_known_by_their_text(duck: Database, postgres: Database) -> None:
    """Records that were made up have identities of their own: their numbers are any, and may not be drawn from."""
    made = {"columns": ["age", "town"], "alpha": 0.4, "beta": 0.1, "d": 0.1, "gamma": 0.5}
    uses = [{"alpha_beta": made}, {"rounding": {"columns": ["age"], "base": 10, "random": True}}]
    found = []
    for database in (duck, postgres):
        with_people(database, people(150))
        found.append(changed(database, uses))
        with_people(database, people(150)[::-1])
        found.append(changed(database, uses))
    assert found[0] == found[1] == found[2] == found[3]
    assert len(found[0]) > 50 and {row["age"] % 10 for row in found[0]} == {0}


@pytest.mark.full
def test_draws_of_neighbours_have_nothing_to_do_with_each_other(duck: Database) -> None:
    duck.run(
        "CREATE OR REPLACE TABLE people AS SELECT i AS id, CAST(i % 2 * 2 - 1 AS DOUBLE) AS x FROM range(40000) AS t(i)"
    )
    found = changed(duck, [NOISY], columns=ROLES)
    drawn = [row["x"] - (row["id"] % 2 * 2 - 1) for row in found]
    blocks = [drawn[start : start + 4] for start in range(0, len(drawn), 4)]
    count = len(blocks)
    for first in range(4):
        assert abs(sum(block[first] for block in blocks) / count) < 4 / math.sqrt(count)
        assert abs(sum(block[first] ** 2 for block in blocks) / count - 1) < 4 * math.sqrt(2 / count)
        for second in range(first):
            # Not even their sizes: the two normal numbers of a pair lie on a circle of any size.
            for power in (1, 2):
                pair = [_centred([block[place] ** power for block in blocks]) for place in (first, second)]
                sizes = math.prod(math.sqrt(sum(value**2 for value in values)) for values in pair)
                assert abs(sum(a * b for a, b in zip(*pair, strict=True)) / sizes) < 4 / math.sqrt(count)
    cells = Counter(min(15, int(16 * (0.5 + math.erf(value / math.sqrt(2)) / 2))) for value in drawn)
    chi = sum((cells[cell] - len(drawn) / 16) ** 2 / (len(drawn) / 16) for cell in range(16))
    assert chi < 15 + 4 * math.sqrt(30)


def _centred(values: list[float]) -> list[float]:
    mean = sum(values) / len(values)
    return [value - mean for value in values]


@settings(max_examples=examples(25))
@given(st.sets(st.integers(-40, 40), min_size=5, max_size=60))
def test_any_numbers(numbers: set[int]) -> None:
    database = Database(connect(":memory:"))
    rows = numbered(database, sorted(numbers, key=lambda number: number * 7 % 11))
    found = changed(database, [ROUNDED], columns=ROLES)
    database.engine.close()
    assert [row["x"] for row in found] == [rounded(row["id"], row["x"]) for row in rows]

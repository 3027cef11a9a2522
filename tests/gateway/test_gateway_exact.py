"""Without noise, an answer is that of plain SQL over the bounded rows."""

from __future__ import annotations

import hashlib
import math
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import Database
from gateway_grammar import TAME, Asked, rows, statements
from gateway_world import COLUMNS, EXACT, World, fill, people, policy, put, world
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sqlanon.errors import Refused

LOOSE = policy(rows=500, groups=500, minimum_group=1)
QUIET = [
    HealthCheck.function_scoped_fixture,
    HealthCheck.too_slow,
    HealthCheck.filter_too_much,
    HealthCheck.data_too_large,
]


@pytest.fixture(scope="module")
def duck(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    yield world(tmp_path_factory.mktemp("exact"), {}, given=LOOSE, mechanisms=EXACT)


@pytest.fixture
def tight(database: Database, tmp_path: Path) -> World:
    """At most two rows and two groups of a person."""
    limits = policy(rows=2, groups=2, minimum_group=1)
    return world(tmp_path, people(), given=limits, mechanisms=EXACT, engine=database.engine)


def refill(here: World, tables: Any) -> None:
    for name, declared in COLUMNS.items():
        here.spy.engine._connection.execute(f'DELETE FROM "{name}"')  # type: ignore[attr-defined]
        put(here.spy.engine, name, declared, tables[name])


def plain(sql: str) -> str | None:
    """The statement for the engine itself; None where it means something else there."""
    if "ROW_NUMBER" in sql or "ROUND(" in sql:
        return None  # ties have no order in SQL; halves are rounded up here, and away from zero there
    # Rows without a person are never read, so that an outer join with nothing private before it is an inner one.
    return sql.replace("regions r LEFT JOIN visits", "regions r JOIN visits")


def asked_of(here: World, asked: Asked) -> tuple[dict[Any, tuple[Any, ...]], Any] | None:
    try:
        prepared = here.prepare(asked.sql)
    except Refused:
        return None
    tables = {}
    for part in prepared.parts:
        tables[part.core.table] = (part.core, here.gate.data.noisy(part, here.gate.data.keys(part.core)))
    found = here.gate.post.run(tables, prepared.noisy_sql)
    return {_key(row[: asked.keys]): row[asked.keys :] for row in found}, prepared.parts[0]


def _key(values: Any) -> tuple[Any, ...]:
    return tuple(float(each) + 0.0 if isinstance(each, int | float) and each is not True else each for each in values)


def check(here: World, asked: Asked) -> None:
    written, answered = plain(asked.sql), asked_of(here, asked)
    if written is None or answered is None:
        return
    found, part = answered
    expected = {_key(row[: asked.keys]): row[asked.keys :] for row in here.raw(written)}
    if part.core.mode == "private":
        declared = [key.keys if key.source is not None else None for key in part.core.keys]
        shown = {
            key
            for key in expected
            if all(known is None or value in known for known, value in zip(declared, key, strict=True))
        }
        assert found.keys() == shown, asked.sql
    for key, values in found.items():
        if key not in expected:
            assert all(value == 0 for value, name in zip(values, asked.aggregates, strict=True) if "COUNT" in name)
            continue
        for name, value, wanted in zip(asked.aggregates, values, expected[key], strict=True):
            assert close(name, value, wanted, part), f"{name} is {value}, not {wanted}, of {key}: {asked.sql}"


def close(name: str, value: Any, wanted: Any, part: Any) -> bool:
    if wanted is None or (isinstance(wanted, float) and math.isnan(wanted)):
        return name.startswith(("AVG", "VAR", "STD")) or value == 0
    value, wanted = float(value), float(wanted)
    if name.startswith("STDDEV"):
        value, wanted = value**2, wanted**2
    loose = max([0.0, *(atom.quantum for atom in part.core.atoms if atom.quantum != 1.0)])
    return math.isclose(value, wanted, rel_tol=1e-7, abs_tol=1e-6 + 200 * loose)


def compare(here: World, examples: int) -> None:
    tables = rows(TAME).map(_with_orders)
    asked = statements(quantiles=False, post=False, fractions=False)

    @settings(max_examples=examples, suppress_health_check=QUIET, deadline=None)
    @given(tables=tables, asked=st.lists(asked, min_size=1, max_size=4))
    def run(tables: Any, asked: list[Asked]) -> None:
        refill(here, tables)
        for each in asked:
            check(here, each)

    run()


def _with_orders(tables: Any) -> Any:
    known = {row["order_id"] for row in tables["orders"]}
    return {**tables, "items": [row for row in tables["items"] if row["order_id"] in known]}


@pytest.mark.full
def test_without_noise_it_is_plain_sql(duck: World) -> None:
    compare(duck, 20)


@pytest.mark.long
def test_without_noise_it_is_plain_sql_long(duck: World) -> None:
    compare(duck, 1000)


def test_a_declared_key_beside_a_private_one(duck: World) -> None:
    """Some are in the ward W3, which the policy does not declare: it is not shown beside another key either."""
    refill(duck, people())
    assert {ward for (ward,) in duck.raw("SELECT DISTINCT ward FROM visits")} == {"W0", "W1", "W2", "W3"}
    found = duck.rows("SELECT ward, region, COUNT(*) FROM visits GROUP BY 1, 2")
    assert {ward for ward, _, _ in found} == {"W0", "W1", "W2"}


AGGREGATES = [
    "COUNT(*)", "COUNT(age)", "COUNT(DISTINCT region)", "COUNT(DISTINCT user_id)", "SUM(age)", "SUM(income)",
    "SUM(age * 2 - 1)", "AVG(age)", "AVG(income)", "VAR_POP(age)", "VAR_SAMP(income)", "STDDEV_POP(age)",
    "STDDEV_SAMP(income)", "SUM(income) FILTER (WHERE age > 30)", "COUNT(*) FILTER (WHERE region = 'R1')",
]  # fmt: skip


def test_every_aggregate_on_both_engines(database: Database, tmp_path: Path) -> None:
    here = world(tmp_path, people(), given=LOOSE, mechanisms=EXACT, engine=database.engine)
    for source in ("visits", "visits JOIN users USING (user_id)"):
        listed = ", ".join(AGGREGATES)
        for keys in ("", "ward", "home" if "users" in source else "region", "age > 40"):
            sql = f"SELECT {keys + ', ' if keys else ''}{listed} FROM {source}"
            sql += f" WHERE ward IN ('W0', 'W1', 'W2') GROUP BY {keys} ORDER BY {keys}" if keys else ""
            found, expected = here.rows(sql, dialect=database.engine.dialect), here.raw(sql)
            assert len(found) == len(expected)
            for row, wanted in zip(found, expected, strict=True):
                for value, known in zip(row, wanted, strict=True):
                    assert value == known or float(value) == pytest.approx(float(known), rel=1e-6, abs=1e-3)


@pytest.mark.full
@pytest.mark.parametrize("alpha", [0.0, 0.1, 0.5, 0.9, 1.0])
@pytest.mark.parametrize(("column", "width"), [("age", 0), ("visits", 0), ("income", 200.0), ("income / 7", 30.0)])
def test_a_quantile_splits_the_rows(duck: World, alpha: float, column: str, width: float) -> None:
    fill(duck.spy.engine, people())
    ((value,),) = duck.rows(f"SELECT QUANTILE_CONT({column}, {alpha}) FROM visits WHERE age > {alpha * 10}")
    values = [row[0] for row in duck.raw(f"SELECT {column} FROM visits WHERE age > {alpha * 10}")]
    assert sum(each < value - width for each in values) <= alpha * len(values) + 1
    assert sum(each > value + width for each in values) <= (1 - alpha) * len(values) + 1


def test_values_outside_their_bounds_are_moved_to_them(database: Database, tmp_path: Path) -> None:
    tables = people(3)
    odd = [(-5, float("nan")), (1000, float("inf")), (None, float("-inf")), (7, -1.0)]
    tables["visits"] = [tables["visits"][0] | {"age": age, "income": income} for age, income in odd]
    here = world(tmp_path, tables, given=LOOSE, mechanisms=EXACT, engine=database.engine)
    assert here.rows("SELECT COUNT(*), COUNT(age), SUM(age), SUM(income) FROM visits") == [(4, 3, 127, 400_000.0)]
    ((mean, spread),) = here.rows("SELECT AVG(age), VAR_POP(age) FROM visits")
    assert mean == pytest.approx(127 / 3)
    assert spread == pytest.approx(sum((each - 127 / 3) ** 2 for each in (0, 120, 7)) / 3)


# ---- where bounding bites


def hashed(secret: int, *values: Any) -> str:
    shown = ["" if value is None else str(value) for value in values]
    return hashlib.md5("|".join([str(secret), *shown]).encode()).hexdigest()


def modelled(here: World, most_rows: int, most_groups: int) -> dict[str, tuple[int, int, int]]:
    """Rows, sum of age and persons by region: written again in Python, from the description alone."""
    secret = here.gate.ledger.secret
    by_person = defaultdict(list)
    for user, region, age in here.raw("SELECT user_id, region, age FROM visits"):
        by_person[user].append((region, 1, min(max(age, 0), 120)))
    counts: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
    for user, own in by_person.items():
        regions = {region for region, _, _ in own}
        if len(own) > most_rows:
            own = sorted(own, key=lambda row: (hashed(secret, user, *row), row))[:most_rows]
        for region, one, age in own:
            counts[region][0] += one
            counts[region][1] += age
        for region in sorted(regions, key=lambda name: hashed(secret, user, name))[:most_groups]:
            counts[region][2] += 1
    return {region: (rows, total, heads) for region, (rows, total, heads) in counts.items() if heads}


def test_bounding_is_what_it_says(tight: World) -> None:
    engine = tight.spy.engine
    spread = [row | {"region": f"R{place % 4}", "age": place * 7} for place, row in enumerate(people()["visits"])]
    fill(engine, people() | {"visits": spread + spread[::3]})
    expected = modelled(tight, 2, 2)
    found = tight.rows("SELECT region, COUNT(*), SUM(age) FROM visits GROUP BY region")
    assert {region: tuple(values) for region, *values in found} == {key: each[:2] for key, each in expected.items()}
    found = tight.rows("SELECT region, COUNT(DISTINCT user_id) FROM visits GROUP BY region")
    assert dict(found) == {key: each[2] for key, each in expected.items()}
    ((rows_of_all, persons),) = tight.rows("SELECT COUNT(*), COUNT(DISTINCT user_id) FROM visits")
    by_person = tight.raw("SELECT LEAST(COUNT(*), 2) FROM visits GROUP BY user_id")
    assert (rows_of_all, persons) == (sum(row[0] for row in by_person), len(by_person))


def test_no_person_adds_more_than_the_limits(tight: World) -> None:
    for source in ("visits", "visits a JOIN visits b USING (user_id)", "visits, regions"):
        ((counted,),) = tight.rows(f"SELECT COUNT(*) FROM {source} WHERE user_id = 7")
        assert counted == 2
    ((distinct,),) = tight.rows("SELECT COUNT(DISTINCT visits) FROM visits WHERE user_id = 7")
    assert 1 <= distinct <= 2  # the two rows may hold the same


def test_a_unique_unit_needs_no_bounding(database: Database, tmp_path: Path) -> None:
    columns = COLUMNS | {"users": COLUMNS["users"] | {"user_id": "BIGINT PRIMARY KEY"}}
    here = world(tmp_path, people(), given=policy(), mechanisms=EXACT, engine=database.engine, columns=columns)
    (part,) = here.prepare("SELECT home, COUNT(*), COUNT(DISTINCT user_id) FROM users GROUP BY home").parts
    assert part.core.unique
    assert part.noise.sensitivities == (1, 1)
    found = here.rows("SELECT home, COUNT(*), COUNT(DISTINCT user_id) FROM users GROUP BY home")
    assert found == sorted(here.raw("SELECT home, COUNT(*), COUNT(DISTINCT user_id) FROM users GROUP BY home"))
    for sql in ("users u JOIN visits v USING (user_id)", "users, regions", "users u JOIN orders o USING (user_id)"):
        (part,) = here.prepare(f"SELECT COUNT(*) FROM {sql}").parts
        assert not part.core.unique
    assert here.rows("SELECT home, COUNT(DISTINCT email) FROM users GROUP BY home") == sorted(
        here.raw("SELECT home, COUNT(DISTINCT email) FROM users GROUP BY home")
    )


def test_what_follows_the_noise_is_plain_sql(duck: World) -> None:
    fill(duck.spy.engine, people())
    for sql in (
        "SELECT region, COUNT(*) n FROM visits GROUP BY region HAVING COUNT(*) > 3 ORDER BY n DESC, 1 LIMIT 2",
        "SELECT SUM(n), MAX(n), COUNT(*) FROM (SELECT region, COUNT(*) n FROM visits GROUP BY region) t",
        "SELECT region, COUNT(*) * 100 / SUM(COUNT(*)) OVER () AS share FROM visits GROUP BY region ORDER BY 1",
        "SELECT region, RANK() OVER (ORDER BY COUNT(*) DESC) FROM visits GROUP BY region ORDER BY 1",
        "WITH t AS (SELECT region, COUNT(*) n FROM visits GROUP BY region) SELECT a.region, a.n - b.n AS d FROM t a "
        "JOIN t b ON a.n <= b.n AND a.region <> b.region ORDER BY 1, 2",
        "SELECT COUNT(*) FROM visits UNION ALL SELECT COUNT(*) FROM users ORDER BY 1",
        "SELECT DISTINCT COUNT(*) > 5 AS many FROM visits GROUP BY region ORDER BY 1",
        "SELECT UPPER(region), CASE WHEN COUNT(*) > 20 THEN 'many' ELSE 'few' END FROM visits GROUP BY region "
        "ORDER BY 1",
    ):
        found, expected = duck.rows(sql), duck.raw(sql)
        assert [tuple(map(_shown, row)) for row in found] == [tuple(map(_shown, row)) for row in expected], sql


def _shown(value: Any) -> Any:
    return round(float(value), 6) if isinstance(value, int | float) and not isinstance(value, bool) else value

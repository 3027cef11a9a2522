"""An analyst who attacks: what is refused is refused from its text alone, and what is answered is noisy and charged."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pytest
from gateway_attacks import refused
from gateway_world import World, people, world

from sqlanon.errors import BudgetExhausted, Refused
from sqlanon.mechanisms import select_keys

COUNT, SUM, BY_REGION = (
    "SELECT COUNT(*) FROM visits", "SELECT SUM(income) FROM visits", "SELECT region, COUNT(*) FROM visits GROUP BY 1",
)  # fmt: skip
PERSONS = "SELECT COUNT(*) FROM (SELECT user_id FROM visits GROUP BY user_id) t"
PAIR = "SELECT SUM(income), COUNT(*) FROM visits"


@dataclass
class Two:
    """The same policy over two databases that have little in common."""

    one: World
    other: World


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Two]:
    fewer = people(5)
    fewer["visits"] = [row | {"note": "é", "income": float("nan"), "age": None} for row in fewer["visits"][:3]]
    made = Two(world(tmp_path_factory.mktemp("one")), world(tmp_path_factory.mktemp("other"), fewer))
    yield made
    made.one.close()
    made.other.close()


@pytest.mark.full
@pytest.mark.parametrize("sql", refused(), ids=lambda sql: ascii(sql[:70]))
@pytest.mark.parametrize("dialect", ["duckdb", "postgres"])
def test_refused_from_the_text_alone(two: Two, sql: str, dialect: str) -> None:
    told = []
    for each in (two.one, two.other):
        seen, spent = len(each.spy.seen), each.spent
        with pytest.raises(Refused) as error:
            each.gate.answer(sql, dialect=dialect)
        told.append((str(error.value), error.value.sqlstate, error.value.position))
        assert len(each.spy.seen) == seen, "a statement was run"
        assert each.spent == spent, "the budget was charged"
    assert told[0] == told[1]
    assert "Error" not in told[0][0]


# What is answered, and a plain statement that has the same noise.
NOISY = [
    ("SELECT COUNT(*) FROM users WHERE email LIKE 'alice@%'", COUNT.replace("visits", "users")),
    ("SELECT SUM(income) FROM visits WHERE user_id <> 7", SUM),
    ("SELECT COUNT(1) FROM visits", COUNT),
    ("SELECT COUNT(*) FROM visits WHERE TRUE", COUNT),
    ("SELECT COUNT(*) FROM visits -- again", COUNT),
    ("SELECT COUNT(*) FROM visits v", COUNT),
    ("SELECT COUNT(age) FROM visits", COUNT),
    ("SELECT SUM(CASE WHEN user_id = 7 THEN income ELSE 0 END) FROM visits", SUM),
    ("SELECT SUM(income) FILTER (WHERE user_id = 7), COUNT(*) FILTER (WHERE age > 40) FROM visits", PAIR),
    ("SELECT COUNT(DISTINCT note) FROM visits", COUNT),
    ("SELECT COUNT(*) FROM visits a JOIN visits b USING (user_id)", COUNT),
    ("SELECT COUNT(*) FROM visits a JOIN visits b ON a.user_id = b.user_id AND a.age < b.age", COUNT),
    ("SELECT COUNT(*) FROM visits JOIN regions r ON TRUE", COUNT),
    ("SELECT COUNT(*) FROM visits, regions, regions r", COUNT),
    ("SELECT COUNT(*) FROM visits v LEFT JOIN users u ON u.user_id = v.user_id AND u.home = 'R1'", COUNT),
    ("SELECT COUNT(*) FROM items i JOIN orders o USING (order_id)", COUNT),
    ("SELECT COUNT(*) FROM items i JOIN orders o USING (order_id) JOIN users u USING (user_id)", COUNT),
    ("SELECT COUNT(*) FROM (SELECT * FROM visits) t", COUNT),
    ("SELECT COUNT(*) FROM (SELECT user_id AS a FROM visits) t WHERE a = 7", COUNT),
    ("SELECT COUNT(*) FROM (SELECT user_id + 0 AS user_id FROM visits) t WHERE user_id = 7", COUNT),
    ("WITH visits AS (SELECT * FROM visits WHERE user_id = 7) SELECT COUNT(*) FROM visits", COUNT),
    ("WITH users AS (SELECT age AS user_id FROM visits) SELECT COUNT(*) FROM users", COUNT),
    ("SELECT COUNT(*) FROM (SELECT user_id FROM visits UNION ALL SELECT user_id FROM visits) t", COUNT),
    ("SELECT COUNT(*) FROM (SELECT user_id FROM visits UNION ALL SELECT age FROM visits) t", COUNT),
    ("SELECT SUM(x) FROM (SELECT 5.5 AS x FROM visits UNION ALL SELECT income FROM visits) t", SUM),
    ("SELECT COUNT(*) FROM (SELECT DISTINCT user_id, region FROM visits) t", COUNT),
    ("SELECT COUNT(*) FROM (SELECT user_id, region, COUNT(*) FROM visits GROUP BY 1, 2) t", COUNT),
    ("SELECT COUNT(*) FROM (SELECT DISTINCT user_id FROM visits) t WHERE user_id = 7", PERSONS),
    ("SELECT COUNT(*) FROM (SELECT user_id, SUM(income) s FROM visits GROUP BY 1 HAVING SUM(income) > 9) t", PERSONS),
    ("SELECT COUNT(DISTINCT user_id) FROM visits", PERSONS),
    ("SELECT COUNT(*) FROM (SELECT ROW_NUMBER() OVER (PARTITION BY user_id) r FROM visits) t WHERE r = 1", COUNT),
    ("SELECT COUNT(*) FROM (SELECT RANK() OVER (PARTITION BY user_id, region ORDER BY age) r FROM visits) t", COUNT),
    ("SELECT COUNT(*) FROM visits WHERE 1 // (user_id - 7) > 0", COUNT),
    ("SELECT COUNT(*) FROM visits WHERE 1 % (user_id - 7) > 0", COUNT),
    ("SELECT COUNT(*) FROM visits WHERE 1 / (user_id - 7) > 0", COUNT),
    ("SELECT COUNT(*) FROM visits WHERE user_id > 0.00012345678901234567", COUNT),
    ("SELECT COUNT(*) FROM visits WHERE SQRT(user_id - 7) > 0 AND LN(user_id - 7) > 0", COUNT),
    ('SELECT COUNT("user_id") FROM "visits"', COUNT),
    ('SELECT COUNT(*) FROM "VISITS"', COUNT),
    ("SELECT COUNT(*) FROM main.visits", COUNT),
    ("SELECT COUNT(*) FROM public.visits", COUNT),
    ("SELECT COUNT(*) AS n, n.n FROM visits n".replace(", n.n", ""), COUNT),
    ("SELECT COUNT(*) FROM visits HAVING COUNT(*) > 5", COUNT),
    ("SELECT COUNT(*) FROM visits ORDER BY 1 LIMIT 1 OFFSET 0", COUNT),
    ("SELECT 1 FROM visits HAVING COUNT(*) > 5", COUNT),
    ("SELECT n + 1, n * n FROM (SELECT COUNT(*) n FROM visits) t", COUNT),
    ("WITH t AS (SELECT COUNT(*) n FROM visits) SELECT a.n - b.n FROM t a, t b", COUNT),
    ("SELECT region, COUNT(*) n FROM visits GROUP BY region ORDER BY COUNT(*) DESC LIMIT 1", BY_REGION),
    ("SELECT region, COUNT(*) n FROM visits GROUP BY region HAVING n > 5 AND region <> 'R0'", BY_REGION),
    ("SELECT region r, COUNT(*) n, SUM(COUNT(*)) OVER () FROM visits GROUP BY r", BY_REGION),
    ("SELECT SUM(c), AVG(c) FROM (SELECT region, COUNT(*) c FROM visits GROUP BY region) t", BY_REGION),
    ("SELECT email, COUNT(*) FROM users GROUP BY email", "SELECT home, COUNT(*) FROM users GROUP BY home"),
    ("SELECT user_id + 0, COUNT(*) FROM visits GROUP BY 1", BY_REGION),
    ("SELECT age > 30, COUNT(*) FROM visits GROUP BY 1", BY_REGION),
]  # fmt: skip


@pytest.mark.full
@pytest.mark.parametrize(("sql", "plain"), NOISY, ids=lambda sql: sql[:70])
def test_answered_with_the_noise_of_a_plain_aggregate(two: Two, sql: str, plain: str) -> None:
    prepared, usual = two.one.prepare(sql), two.one.prepare(plain)
    (part,), (like,) = prepared.parts, usual.parts
    assert [each and each.scale for each in part.noise.atoms] == [each and each.scale for each in like.noise.atoms]
    assert part.noise.sensitivities == like.noise.sensitivities
    assert prepared.cost == usual.cost
    assert prepared.cost.epsilon == pytest.approx(1.0)
    assert two.other.prepare(sql).cost == prepared.cost


def test_every_rewriting_is_charged_or_is_the_same_answer(tmp_path: Any) -> None:
    here = world(tmp_path)
    seen = {}
    for number, sql in enumerate([COUNT, COUNT + " WHERE TRUE", COUNT + " v", "SELECT COUNT(1) FROM visits", COUNT]):
        before, answer = here.spent, here.gate.answer(sql)
        charged = here.spent - before
        assert charged == pytest.approx(0.0 if answer.cached else 1.0), number
        if answer.cached:
            assert answer.rows in seen.values()
        seen[sql] = answer.rows
    assert here.gate.answer(COUNT).rows == seen[COUNT]


def test_a_group_of_few_persons_does_not_appear(two: Two) -> None:
    """Emails are of one person each; the region R99 is of one person who has many rows there."""
    assert two.one.rows("SELECT email, COUNT(*) FROM users GROUP BY email") == []
    assert "R99" not in [row[0] for row in two.one.rows(BY_REGION, epsilon=2.0)]
    assert [row for row in two.one.rows("SELECT DISTINCT region FROM visits") if row == ("R99",)] == []


@pytest.mark.full
@pytest.mark.parametrize("minimum", [1, 2])
def test_one_person_alone_shows_a_key_with_probability_delta(minimum: int) -> None:
    selection = select_keys(groups=3, minimum=minimum, epsilon=1.0, delta=1e-3)
    shown = sum(count is not None for count in selection.select([1] * 100_000))
    assert shown == 0 if minimum > 1 else shown <= 60  # 33 are expected at most


def test_an_empty_answer_looks_like_any_other(two: Two) -> None:
    for sql in ("SELECT AVG(age) FROM visits WHERE age > 500", "SELECT AVG(age) FROM visits"):
        ((value,),) = two.one.rows(sql)
        assert 0 <= value <= 120
    ((value,),) = two.one.rows("SELECT SUM(income) FROM visits WHERE age > 500")
    assert value >= 0
    found = two.one.rows("SELECT r.country, COUNT(*) FROM regions r LEFT JOIN visits v USING (region) GROUP BY 1")
    assert [country for country, _ in found] == ["A", "B", "C"]
    assert [ward for ward, _ in two.one.rows("SELECT ward, COUNT(*) FROM visits GROUP BY ward")] == ["W0", "W1", "W2"]


def test_the_order_of_rows_is_that_of_the_noisy_values(two: Two) -> None:
    found = two.one.rows("SELECT ward, COUNT(*) n FROM visits GROUP BY ward ORDER BY COUNT(*) DESC")
    assert found == sorted(found, key=lambda row: -row[1])
    again = two.one.rows("SELECT ward, COUNT(*) n FROM visits GROUP BY ward")
    assert again == sorted(again)


def test_tables_of_others_are_not_there(two: Two) -> None:
    with pytest.raises(Refused, match="does not exist") as error:
        two.one.gate.answer("SELECT COUNT(*) FROM users", "guest")
    assert "users" not in str(error.value.hint)
    with pytest.raises(Refused, match="does not exist"):
        two.one.gate.answer("SELECT COUNT(*) FROM visits JOIN staff USING (user_id)", "guest")
    with pytest.raises(Refused, match="does not exist"):
        two.one.gate.answer(COUNT, "nobody")
    assert two.one.gate.prepare(COUNT, "guest").parts[0].cache_key != two.one.prepare(COUNT).parts[0].cache_key


def test_public_and_released_tables_are_answered_as_they_are(two: Two) -> None:
    spent = two.one.spent
    assert two.one.rows("SELECT SUM(persons), MAX(region) FROM published") == [(30, "R1")]
    assert two.one.rows("SELECT country, COUNT(*) FROM regions GROUP BY 1 ORDER BY 1") == [("A", 2), ("B", 1), ("C", 1)]
    assert two.one.spent == spent


ODD_PARAMETERS = [
    Decimal("NaN"), Decimal("sNaN"), Decimal("1e999999"), Decimal("1e-999999"), float("nan"), float("inf"), 10**5000,
    -(10**19), b"x", "\ud800", "\x00", [1], {"a": 1}, {1}, object(), 1j, True, "text",
]  # fmt: skip


@pytest.mark.parametrize("value", ODD_PARAMETERS, ids=lambda value: type(value).__name__)
def test_parameters_of_odd_types_are_refused(two: Two, value: Any) -> None:
    seen = len(two.one.spy.seen)
    for sql in ("SELECT COUNT(*) FROM visits WHERE age > ?", "SELECT COUNT(*) FROM visits WHERE age > $1"):
        with pytest.raises(Refused):
            two.one.gate.answer(sql, parameters=[value])
    for given in ([], [1, 2], {"a": 1}):
        with pytest.raises(Refused):
            two.one.gate.answer("SELECT COUNT(*) FROM visits WHERE age > ?", parameters=given)
    with pytest.raises(Refused):
        two.one.gate.answer("SELECT COUNT(*) FROM ?", parameters=["visits"])
    assert len(two.one.spy.seen) == seen


def test_a_parameter_is_a_literal_and_nothing_more(two: Two) -> None:
    text = "x' OR 1 = 1 --"
    prepared = two.one.prepare("SELECT COUNT(*) FROM visits WHERE note = ?", parameters=[text])
    written = two.one.prepare("SELECT COUNT(*) FROM visits WHERE note = 'x'' OR 1 = 1 --'")
    assert prepared.parts[0].cache_key == written.parts[0].cache_key


@pytest.mark.full
def test_explain_reads_nothing_and_costs_nothing(two: Two) -> None:
    seen, spent = len(two.one.spy.seen), two.one.spent
    for sql, _ in NOISY:
        told = [each.gate.answer(f"EXPLAIN VERBOSE {sql}").rows for each in (two.one, two.other)]
        assert [line for line in told[0] if "Left" not in line[0] and "before" not in line[0]]
    assert len(two.one.spy.seen) == seen
    assert two.one.spent == spent


def test_the_options_of_a_statement_only_lower_what_it_may(two: Two) -> None:
    select = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS({}) region, COUNT(*) FROM visits GROUP BY region"
    lower = two.one.prepare(select.format("epsilon = 0.5, delta = 1e-8, max_rows_contributed = 2"))
    usual = two.one.prepare(BY_REGION)
    assert lower.cost.epsilon == pytest.approx(0.5)
    assert lower.cost.delta <= 1e-8 < usual.cost.delta
    assert lower.parts[0].noise.sensitivities == (2,)
    assert usual.parts[0].noise.sensitivities == (4,)


@pytest.mark.full
def test_a_denial_is_told_from_the_ledger_alone(tmp_path: Any) -> None:
    here = world(tmp_path)
    limit = here.gate.limits("analyst").epsilon
    for number in range(int(limit // 2)):
        here.gate.answer(f"SELECT COUNT(*) FROM visits WHERE age <> {number + 1000}", epsilon=2.0)
    seen = len(here.spy.seen)
    told = set()
    for sql in ("SELECT COUNT(*) FROM visits WHERE user_id = 7", "SELECT COUNT(*) FROM visits WHERE user_id = 777"):
        with pytest.raises(BudgetExhausted) as error:
            here.gate.answer(sql, epsilon=2.0)
        told.add(str(error.value))
    assert len(told) == 1
    assert len(here.spy.seen) == seen

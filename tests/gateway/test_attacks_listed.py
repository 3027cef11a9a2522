"""The attacks of the project's list, case by case: each number of it with what must come of it.

REJECT: refused from the text alone; nothing is run or charged, and the message is the same over two databases.
NOISY: answered over both, by the same statements, at the same charge, with the noise of a plain aggregate.
What else a case asks for is in a test of its own, which names the case.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from gateway_world import EXACT, Spy, World, people, policy, world
from sqlglot import exp

from sqlanon.engines import Hardened, connect
from sqlanon.errors import EngineError, Refused

LISTED = range(2, 69, 2)
BOTH = ("duckdb", "postgres")
DUCKDB = ("duckdb",)
COUNT, SUM = "SELECT COUNT(*) FROM visits", "SELECT SUM(income) FROM visits"
BY_REGION = "SELECT region, COUNT(*) FROM visits GROUP BY region"
OPTIONS = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS({}) COUNT(*) FROM visits"

REJECT: list[tuple[int, str]] = [
    (2, "SELECT income FROM visits WHERE user_id = 7"),
    (4, "SELECT user_id, region, COUNT(*) FROM visits GROUP BY user_id, region"),
    (8, "SELECT MIN(income), MAX(income) FROM visits"),
    (10, "SELECT ARG_MAX(email, income) FROM users JOIN visits USING (user_id)"),
    (10, "SELECT (ARRAY_AGG(email ORDER BY income DESC))[1] FROM users JOIN visits USING (user_id)"),
    (12, "SELECT COUNT(*) FROM visits WHERE email LIKE 'alice@%'"),  # it has no such column
    (12, "SELECT COUNT(*) FROM users WHERE secret LIKE 'alice@%'"),  # the policy hides it
    (30, COUNT + " WHERE EXISTS (SELECT 1 FROM users u WHERE u.user_id = 7 AND u.home = 'R1')"),
    (32, COUNT + " WHERE income > (SELECT AVG(income) FROM visits)"),
    (36, "SELECT COUNT(*) FROM (SELECT user_id, ROW_NUMBER() OVER (ORDER BY income DESC) rn FROM visits) t "
         "WHERE rn = 1 AND user_id = 7"),
    (38, "SELECT COUNT(*) FROM (SELECT * FROM visits ORDER BY income DESC LIMIT 1) t"),
    (38, "SELECT COUNT(*) FROM (SELECT TOP 1 * FROM visits) t"),
    (38, "SELECT COUNT(*) FROM (SELECT * FROM visits OFFSET 5) t"),
    (38, "SELECT COUNT(*) FROM (SELECT * FROM visits FETCH FIRST 1 ROWS ONLY) t"),
    (38, "SELECT COUNT(*) FROM (SELECT * FROM visits QUALIFY ROW_NUMBER() OVER (ORDER BY income) = 1) t"),
    (38, "SELECT COUNT(*) FROM (SELECT DISTINCT ON (region) * FROM visits ORDER BY region, income) t"),
    (42, "WITH RECURSIVE t AS (SELECT user_id FROM visits UNION ALL SELECT user_id FROM t) SELECT COUNT(*) FROM t"),
    (42, "WITH RECURSIVE t AS (SELECT * FROM visits) SELECT COUNT(*) FROM t"),
    (44, "SELECT * FROM visits PIVOT (COUNT(*) FOR region IN ('R0', 'R1'))"),
    (44, "PIVOT visits ON region USING COUNT(*)"),
    (44, "SELECT COUNT(*) FROM visits UNPIVOT (v FOR n IN (age, visits))"),
    (44, "SELECT region, COUNT(*) FROM visits GROUP BY ROLLUP (region)"),
    (44, "SELECT region, COUNT(*) FROM visits GROUP BY CUBE (region, ward)"),
    (44, "SELECT region, ward, COUNT(*) FROM visits GROUP BY GROUPING SETS ((region), (ward), ())"),
    (56, COUNT + " WHERE CASE WHEN user_id = 7 THEN error('x') END IS NULL"),
    (60, "SELECT STRPTIME(note, '%Y'), COUNT(*) FROM visits GROUP BY 1"),
    (60, "SELECT TO_TIMESTAMP(note, 'YYYY'), COUNT(*) FROM visits GROUP BY 1"),
    (60, COUNT + " WHERE note::UUID IS NULL"),
    (60, COUNT + " WHERE regexp_matches(age::VARCHAR, note)"),
    (60, COUNT + " WHERE age::VARCHAR ~ note"),
    (60, COUNT + " WHERE chr(user_id - 8) = 'a'"),
    (60, COUNT + " WHERE factorial(user_id) > 1"),
    (62, COUNT + " WHERE user_id = 7 AND regexp_matches(repeat('a', 30) || '!', '^(a+)+$')"),
    (62, COUNT + " WHERE user_id = 7 AND repeat('a', 30) || '!' ~ '^(a+)+$'"),
    (64, "SET privacy_noise = false; SET privacy_seed = 42; SET dp_epsilon = 1e20"),
    (64, "SET privacy_noise = false"),
    (64, "SET dp_epsilon = 1e20"),
    (64, "PRAGMA database_list"),
    (64, "ATTACH 'x.db'"),
    (64, "COPY visits TO 'x.csv'"),
    (64, "COPY (SELECT * FROM visits) TO STDOUT"),
    (64, "INSTALL httpfs"),
    (64, "EXPLAIN ANALYZE SELECT COUNT(*) FROM visits"),
    (66, COUNT + " WHERE nextval('s') > 0"),
    (66, "CREATE TEMP TABLE t AS SELECT * FROM visits"),
    (66, "DECLARE c CURSOR FOR SELECT * FROM visits"),
    (66, "PREPARE p AS SELECT COUNT(*) FROM visits"),
    (66, COUNT + "; " + COUNT),
    (66, COUNT + "; DROP TABLE visits"),
    *((68, OPTIONS.format(f"epsilon = {value}")) for value in ("1e20", "1e9", "NaN", "-1", "0", "1e-320", "inf")),
    (68, OPTIONS.format("delta = 0.99999")),
    (68, OPTIONS.format("max_groups_contributed = NULL")),
    (68, OPTIONS.format("max_groups_contributed = 0")),
]  # fmt: skip

# What is answered, a plain statement that has the same noise, and the dialects that it is written in.
NOISY: list[tuple[int, str, str, tuple[str, ...]]] = [
    (6, "SELECT email, COUNT(*) FROM users GROUP BY email", "SELECT home, COUNT(*) FROM users GROUP BY home", BOTH),
    (12, "SELECT COUNT(*) FROM users WHERE email LIKE 'alice@%'", "SELECT COUNT(*) FROM users", BOTH),
    (14, SUM, "SELECT SUM(income) FROM visits WHERE age > 30", BOTH),
    (14, SUM + " WHERE user_id <> 7", SUM, BOTH),
    (14, SUM + " WHERE user_id != 7", SUM, BOTH),
    (18, "SELECT SUM(CASE WHEN user_id = 7 THEN income ELSE 0 END) FROM visits", SUM, BOTH),
    (20, "SELECT SUM(income) FILTER (WHERE user_id = 7), COUNT(*) FILTER (WHERE age > 40) FROM visits",
     "SELECT SUM(income), COUNT(*) FROM visits", BOTH),
    (22, "SELECT COUNT(DISTINCT note) FROM visits", COUNT, BOTH),
    (24, "SELECT VARIANCE(age) FROM visits", "SELECT STDDEV(age) FROM visits", BOTH),
    (26, "SELECT COUNT(*) FROM visits a JOIN visits b USING (user_id)", COUNT, BOTH),
    (28, "SELECT COUNT(*) FROM visits JOIN regions r ON TRUE", COUNT, BOTH),
    (34, "SELECT r.country, COUNT(*) FROM regions r LEFT JOIN visits v USING (region) GROUP BY 1",
     "SELECT ward, COUNT(*) FROM visits GROUP BY 1", BOTH),
    (40, "SELECT AVG(c) FROM (SELECT region, COUNT(*) c FROM visits GROUP BY region) t", BY_REGION, BOTH),
    (46, BY_REGION, BY_REGION, BOTH),
    (48, "SELECT region, COUNT(*) n FROM visits GROUP BY region ORDER BY COUNT(*) DESC LIMIT 1", BY_REGION, BOTH),
    (50, "SELECT DISTINCT region FROM visits", "SELECT region FROM visits GROUP BY region", BOTH),
    (52, "SELECT AVG(age) FROM visits WHERE age > 500", "SELECT AVG(age) FROM visits", BOTH),
    (54, COUNT + " WHERE 1 // (user_id - 7) > 0", COUNT, DUCKDB),
    (54, COUNT + " WHERE 1 / (user_id - 7) > 0", COUNT, BOTH),
    (54, COUNT + " WHERE 1 % (user_id - 7) > 0", COUNT, BOTH),
    (54, COUNT + " WHERE MOD(1, user_id - 7) > 0", COUNT, BOTH),
    (58, SUM, SUM, BOTH),
]  # fmt: skip
OTHER_TESTS = (16,)  # has only tests of its own


def test_no_case_is_missing() -> None:
    assert sorted({case for case, *_ in (*REJECT, *NOISY)} | set(OTHER_TESTS)) == list(LISTED)


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[World, World]]:
    """The same policy over two databases: the other one has few persons, not the seventh, and odd values."""
    fewer = people(5)
    odd = {"note": "é", "income": float("nan"), "age": None}
    fewer["visits"] = [row | odd for row in fewer["visits"] if row["user_id"] != 7]
    both = world(tmp_path_factory.mktemp("one")), world(tmp_path_factory.mktemp("other"), fewer)
    yield both
    for each in both:
        each.close()


def cases(dialects: tuple[str, ...] = BOTH) -> list[Any]:
    return [
        pytest.param(sql, dialect, id=f"{number}-{dialect}-{sql[:60]}")
        for dialect in dialects
        for number, sql in REJECT
    ]


@pytest.mark.parametrize(("sql", "dialect"), cases())
def test_rejected_from_the_text_alone(two: tuple[World, World], sql: str, dialect: str) -> None:
    told = []
    for each in two:
        seen, spent = len(each.spy.seen), each.spent
        with pytest.raises(Refused) as error:
            each.gate.answer(sql, dialect=dialect)
        told.append((str(error.value), error.value.sqlstate, error.value.position))
        assert (len(each.spy.seen), each.spent) == (seen, spent)
    assert told[0] == told[1]


@pytest.mark.full
@pytest.mark.parametrize(
    ("sql", "plain", "dialect"),
    [
        pytest.param(sql, plain, dialect, id=f"{number}-{dialect}-{sql[:60]}")
        for number, sql, plain, dialects in NOISY
        for dialect in dialects
    ],
)
def test_noisy_and_charged(two: tuple[World, World], sql: str, plain: str, dialect: str) -> None:
    prepared, usual = (two[0].prepare(each, dialect=dialect) for each in (sql, plain))
    (part,), (like,) = prepared.parts, usual.parts
    assert [each and each.scale for each in part.noise.atoms] == [each and each.scale for each in like.noise.atoms]
    assert part.noise.sensitivities == like.noise.sensitivities
    found = []
    for each in two:
        seen, spent = len(each.spy.seen), each.spent
        answer = each.gate.answer(sql, dialect=dialect, epsilon=0.25)
        found.append((each.spy.seen[seen:], answer.cached, answer.columns, answer.types, answer.cost))
        assert each.spent - spent == pytest.approx(0.0 if answer.cached else 0.25)
    assert found[0] == found[1]


# ---- what more the cases ask for


def fresh(folder: Path, tables: Any = None, **changed: Any) -> World:
    return world(folder, tables, given=policy(**changed), mechanisms=EXACT)


def test_16_rewritings_are_the_same_answer_or_are_charged(tmp_path: Path) -> None:
    here = world(tmp_path)
    kept: dict[Any, float] = {}
    rewritten = (COUNT, "SELECT COUNT(1) FROM visits", "SELECT SUM(1) FROM visits", COUNT + " WHERE TRUE", COUNT)
    for sql in rewritten:
        for dialect in BOTH:
            spent, answer = here.spent, here.gate.answer(sql, dialect=dialect)
            charged = here.spent - spent
            assert (charged == 0 and answer.rows in kept) if answer.cached else charged == pytest.approx(1.0)
            kept[answer.rows] = charged
    here.close()


def test_14_differencing_is_paid_for_twice(tmp_path: Path) -> None:
    here = world(tmp_path, given=policy(budget={
        "statement": {"epsilon": 2.0, "delta": 1e-6, "default": 1.0}, "principal": {"epsilon": 2.0, "delta": 1e-3},
    }))  # fmt: skip
    here.gate.answer(SUM)
    here.gate.answer(SUM + " WHERE user_id <> 7")
    assert here.spent == pytest.approx(2.0)
    assert here.refusal(SUM + " WHERE user_id <> 8") is not None
    here.close()


EXACTLY = [
    (18, "SELECT SUM(CASE WHEN user_id = 7 THEN income ELSE 0 END) FROM visits"),
    (20, "SELECT SUM(income) FILTER (WHERE user_id = 7), COUNT(*) FILTER (WHERE age > 40) FROM visits"),
    (22, "SELECT COUNT(DISTINCT note) FROM visits"),
    (24, "SELECT VARIANCE(age) FROM visits"),
    (24, "SELECT VAR_POP(age), STDDEV(age), STDDEV_POP(age) FROM visits"),
    (26, "SELECT COUNT(*) FROM visits a JOIN visits b USING (user_id)"),
    (28, "SELECT COUNT(*) FROM visits JOIN regions r ON TRUE"),
    (34, "SELECT r.country, COUNT(v.user_id) FROM regions r LEFT JOIN visits v USING (region) GROUP BY 1 ORDER BY 1"),
    (40, "SELECT AVG(c), SUM(c) FROM (SELECT region, COUNT(*) c FROM visits GROUP BY region) t"),
    (50, "SELECT DISTINCT region FROM visits ORDER BY 1"),
    (54, COUNT + " WHERE user_id <> 7 AND 1 % (user_id - 7) > 0"),
]


@pytest.fixture(scope="module")
def exact(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    made = fresh(tmp_path_factory.mktemp("exact"), rows=5_000, groups=50, minimum_group=1)
    yield made
    made.close()


@pytest.mark.parametrize("sql", [pytest.param(sql, id=f"{number}-{sql[:60]}") for number, sql in EXACTLY])
def test_without_noise_it_is_what_sql_says(exact: World, sql: str) -> None:
    """No modifier is dropped: FILTER, DISTINCT, and a square in a variance."""
    for answer, plain in zip(exact.rows(sql), exact.raw(sql), strict=True):
        assert answer == tuple(each if isinstance(each, str) else pytest.approx(each, rel=1e-9) for each in plain)


def test_26_and_28_what_a_person_adds_is_bounded_after_the_join(tmp_path: Path) -> None:
    """Person 7 has 8 rows, which the joins make 64 and 32; 4 of them count."""
    here = fresh(tmp_path)
    for sql, least in (
        ("SELECT COUNT(*) FROM visits a JOIN visits b USING (user_id)", 64),
        ("SELECT COUNT(*) FROM visits JOIN regions r ON TRUE", 32),
    ):
        ((with_seven,),), ((without,),) = here.rows(sql), here.rows(sql + " WHERE user_id <> 7")
        assert with_seven - without == 4
        assert here.raw(sql)[0][0] - here.raw(sql + " WHERE user_id <> 7")[0][0] == least
    here.close()


def test_34_all_public_keys_appear(two: tuple[World, World]) -> None:
    sql = "SELECT r.country, COUNT(*) FROM regions r LEFT JOIN visits v USING (region) GROUP BY 1"
    found = [each.rows(sql) for each in two]
    assert [[country for country, _ in rows] for rows in found] == [["A", "B", "C"]] * 2


def test_40_the_outer_aggregate_is_computed_from_the_noisy_one(two: tuple[World, World]) -> None:
    here = two[0]
    inner = "SELECT ward, COUNT(*) c FROM visits GROUP BY ward"
    counts = [count for _, count in here.rows(inner)]
    spent = here.spent
    found = here.gate.answer(f"SELECT SUM(c), COUNT(*) FROM ({inner}) t")
    assert found.rows == ((sum(counts), 3),)
    assert (found.cached, here.spent) == (True, spent)


@pytest.mark.full
def test_6_and_46_a_key_of_one_person(two: tuple[World, World], tmp_path: Path) -> None:
    assert two[0].rows("SELECT email, COUNT(*) FROM users GROUP BY email") == []
    assert "R99" not in [region for region, _ in two[0].rows(BY_REGION)]
    keys = two[0].prepare(BY_REGION).parts[0].noise.keys
    assert keys is not None and not any(keys.select([1] * 10_000))  # the policy asks for two persons
    given = policy(minimum_group=1, budget={
        "statement": {"epsilon": 1.0, "delta": 1e-3}, "principal": {"epsilon": 9.0, "delta": 1e-2},
    })  # fmt: skip
    lone = world(tmp_path, given=given)
    keys = lone.prepare(BY_REGION).parts[0].noise.keys
    assert keys is not None
    shown = sum(each is not None for each in keys.select([1] * 100_000))
    assert shown <= 100 + 5 * math.sqrt(100)  # delta of 100,000, and five standard deviations
    lone.close()


def test_48_rows_are_ordered_by_what_is_shown(two: tuple[World, World]) -> None:
    found = two[0].rows("SELECT ward, COUNT(*) n FROM visits GROUP BY ward ORDER BY COUNT(*) DESC")
    assert found == sorted(found, key=lambda row: -row[1])
    best = two[0].rows("SELECT ward, COUNT(*) n FROM visits GROUP BY ward ORDER BY COUNT(*) DESC LIMIT 1")
    assert best == found[:1]
    unordered = two[0].rows("SELECT ward, COUNT(*) n FROM visits GROUP BY ward")
    assert unordered == sorted(found)


def test_52_an_empty_average_is_one_number_within_bounds(two: tuple[World, World]) -> None:
    for each in two:
        for sql in ("SELECT AVG(age) FROM visits WHERE age > 500", "SELECT AVG(age) FROM visits WHERE FALSE"):
            ((value,),) = each.rows(sql)
            assert 0 <= value <= 120


@pytest.mark.parametrize(
    ("value", "held"),
    [
        (float("nan"), 200_000), (float("inf"), 200_000), (float("-inf"), 0), (-0.0, 0), (1e308, 200_000),
        (-1e308, 0), (5e-324, 0),
    ],
)  # fmt: skip
def test_58_every_input_has_a_finite_sum(tmp_path: Path, value: float, held: float) -> None:
    calm = [row | {"income": 100.0} for row in people(5)["visits"] if row["user_id"] != 7]
    odd = calm[0] | {"user_id": 9, "income": value}
    here = fresh(tmp_path, people(5) | {"visits": [*calm, odd]})
    assert here.rows(SUM)[0][0] == pytest.approx(100.0 * len(calm) + held, abs=1e-3)
    everything = "SELECT AVG(income), VARIANCE(income), STDDEV(income), MEDIAN(income), SUM(income * income / 200000)"
    assert all(math.isfinite(each) for each in here.rows(f"{everything} FROM visits")[0])
    here.close()


class Failing(Spy):
    """An engine that fails on what it reads, and tells why."""

    def prepared(self, tree: exp.Expr) -> Any:
        def ask(numbers: Any) -> Any:
            raise EngineError("Conversion Error: could not convert 'alice' of user 7")

        return ask


def test_60_and_68_whatever_fails_has_one_message_and_stays_charged(tmp_path: Path) -> None:
    here = world(tmp_path)
    here.gate.engine = Failing(here.spy.engine)  # type: ignore[assignment]
    told = [here.refusal(sql) for sql in (COUNT, SUM, COUNT + " WHERE user_id = 7")]
    assert len(set(told)) == 1 and "alice" not in str(told)
    assert here.spent == pytest.approx(3.0)
    here.close()


def test_62_answers_leave_at_a_time_that_the_statement_decides(tmp_path: Path) -> None:
    here = fresh(tmp_path, answer_time=20.0)
    waited: list[float] = []
    here.gate.pause = waited.append
    for sql in (COUNT, COUNT + " WHERE user_id = 7"):
        here.gate.answer(sql)
    assert len(waited) == 2 and all(10 < each <= 20 for each in waited)
    here.close()


def test_62_a_cross_join_for_one_person_alone(two: tuple[World, World]) -> None:
    """What public tables multiply is told by public tables, before anything is charged or read of persons."""
    joins = "".join(f" CROSS JOIN regions r{number}" for number in range(5))
    told = []
    for each in two:
        seen, spent = len(each.spy.seen), each.spent
        told.append(each.refusal(f"SELECT COUNT(*) FROM visits v JOIN regions r ON v.user_id = 7{joins}"))
        assert each.spent == spent
        assert not any("visits" in sql for sql in each.spy.seen[seen:])
    assert told[0] is not None and told[0] == told[1]


def test_64_explain_tells_the_same_over_any_data(two: tuple[World, World]) -> None:
    sql = "SELECT region, COUNT(*), AVG(income) FROM visits WHERE user_id = 7 GROUP BY region"
    told = []
    for each in two:
        seen, spent = len(each.spy.seen), each.spent
        told.append(
            [line for (line,) in each.gate.answer(f"EXPLAIN VERBOSE {sql}").rows if not line.startswith("Left to")]
        )
        assert (len(each.spy.seen), each.spent) == (seen, spent)
    assert told[0] == told[1]


def test_64_nobody_can_change_how_the_engine_is_set(tmp_path: Path) -> None:
    path = tmp_path / "data.duckdb"
    connect(str(path), read_only=False).close()
    engine = connect(str(path), hardened=Hardened(2**28))
    asked = exp.select("current_setting('lock_configuration')", "current_setting('enable_external_access')")
    assert engine.query(asked) == [(True, False)]
    engine.close()


def test_66_parameters_are_literals_before_anything_is_judged(two: tuple[World, World]) -> None:
    here = two[0]
    for given, written in (("x' OR 1 = 1 --", "'x'' OR 1 = 1 --'"), ("n1", "'n1'")):
        bound = here.prepare(COUNT + " WHERE note = $1", parameters=[given], dialect="postgres")
        assert bound.parts[0].cache_key == here.prepare(COUNT + f" WHERE note = {written}").parts[0].cache_key
    seen = len(here.spy.seen)
    for sql, given in (("SELECT COUNT(*) FROM $1", "visits"), ("SELECT SUM($1) FROM visits", "income"),
                       ("SELECT COUNT(*) FROM visits GROUP BY user_id + $1", "x")):  # fmt: skip
        assert here.refusal(sql, parameters=[given]) is not None
    assert len(here.spy.seen) == seen


def test_68_what_is_left_is_told_to_its_owner_alone(tmp_path: Path) -> None:
    here = world(tmp_path)
    before = here.gate.left("guest").left.epsilon
    here.gate.answer(COUNT)
    found = here.gate.answer(COUNT, "guest")
    assert not found.cached, "what another was answered is neither shown nor told"
    assert found.left is not None and found.left.left.epsilon == pytest.approx(before - 1.0)
    told = [line for (line,) in here.gate.answer(f"EXPLAIN {COUNT} WHERE age > 1", "guest").rows if "Left" in line]
    assert len(told) == 1 and told[0].startswith("Left to guest")
    here.close()


def test_68_a_denial_is_told_from_the_ledger_alone(two: tuple[World, World], tmp_path: Path) -> None:
    """The charge and the refusal are the same for data that differ in everything."""
    budget = {"statement": {"epsilon": 1.0, "delta": 1e-6}, "principal": {"epsilon": 1.5, "delta": 1e-3}}
    told = []
    for name, tables in (("one", people()), ("other", people(2))):
        here = world(tmp_path, tables, given=policy(budget=budget), name=name)
        told.append([here.refusal(sql) for sql in (BY_REGION, BY_REGION + " HAVING COUNT(*) > 1", COUNT, SUM)])
        told[-1].append((f"{here.spent:.6f}", ""))
        here.close()
    assert told[0] == told[1]
    assert told[0][0] is None and told[0][2] is not None

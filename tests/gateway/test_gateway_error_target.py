"""Error in, epsilon out: the least epsilon for an error, from the statement and the policy alone."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import pytest
from gateway_grammar import SOURCES
from gateway_world import EXACT, World, fill, people, policy, world

from sqlanon.errors import Refused
from sqlanon.gateway.price.error_target import epsilons

BUDGET = {
    "statement": {"epsilon": 2.0, "delta": 1e-6, "default": 1.0},
    "principal": {"epsilon": 100.0, "delta": 0.01},
}
COUNT = "SELECT COUNT(*) AS n FROM visits"


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    made = world(tmp_path_factory.mktemp("errors"), given=policy(budget=BUDGET))
    yield made
    made.close()


def least_by_formula(reach: float, error: float) -> float:
    """The tail of discrete Laplace noise, written down anew: P[|x| > h] = 2 q^(h + 1) / (1 + q), q = exp(-1/scale)."""
    for digits in (value for exponent in (-4, -3, -2, -1) for value in (d * 10.0**exponent for d in range(100, 1000))):
        q = math.exp(-digits / reach)
        if digits >= 0.02 and 2 * q ** (math.floor(error) + 1) / (1 + q) <= 0.05:
            return digits
    raise AssertionError("no epsilon is enough")


@pytest.mark.parametrize(
    ("sql", "reach", "quantum"),
    [
        (COUNT, 4, 1),
        ("SELECT SUM(visits) FROM visits", 200, 1),
        ("SELECT COUNT(DISTINCT user_id) FROM visits", 1, 1),
        ("SELECT COUNT(DISTINCT region) FROM visits", 4, 1),
        ("SELECT ward, COUNT(*) FROM visits GROUP BY ward", 4, 1),
        ("SELECT ward, COUNT(DISTINCT user_id) FROM visits GROUP BY ward", 3, 1),
        ("SELECT COUNT(*) * 10 FROM visits", 4, 0.1),
        ("SELECT COUNT(*) FROM users", 4, 1),
    ],
)
@pytest.mark.parametrize("error", [30, 12, 7.5])
def test_the_least_epsilon_is_that_of_the_tail_of_the_noise(
    here: World, sql: str, reach: int, quantum: float, error: float
) -> None:
    error *= max(1.0, reach / 4) / quantum
    assert here.prepare(sql, error=error).epsilon == pytest.approx(least_by_formula(reach, error * quantum), abs=1e-12)


def test_a_smaller_epsilon_would_not_do(here: World, tmp_path: Path) -> None:
    exact = world(tmp_path, given=here.gate.policy, mechanisms=EXACT)
    for sql in (
        COUNT,
        "SELECT ward, COUNT(*) + 2 * SUM(visits) FROM visits GROUP BY ward",
        "SELECT SUM(income) FROM visits",
    ):
        loose = here.gate.prepare(sql, "analyst", error=1e9)
        assert loose.epsilon == 0.02  # a hundredth of what a statement may spend
        with pytest.raises(Refused, match="is not reached with epsilon 2, the most") as refused:
            here.prepare(sql, error=0.001)
        assert refused.value.sqlstate == "22023" and refused.value.hint is not None
        smallest = float(refused.value.hint.split("for is ")[1].split(";")[0].replace(",", ""))
        assert here.prepare(sql, error=smallest).epsilon <= 2.0
        with pytest.raises(Refused, match="is not reached"):
            here.prepare(sql, error=smallest * 0.98)
        for factor in (3.0, 30.0):
            asked = here.prepare(sql, error=smallest * factor)
            below = [each for each in epsilons(0.02, 2.0) if each < asked.epsilon]
            assert half_width(exact, sql, asked.epsilon) <= smallest * factor
            assert below == [] or half_width(exact, sql, below[-1]) > smallest * factor
    exact.close()


def half_width(exact: World, sql: str, epsilon: float) -> float:
    """By the bars that an answer shows, which are built in another way; the end above is never cut off at zero."""
    answer = exact.gate.answer(sql, "analyst", epsilon=epsilon, intervals=True)
    return float(max(row[-1] - row[-3] for row in answer.rows))


@pytest.mark.parametrize(
    ("sql", "named"),
    [
        ("SELECT AVG(age) FROM visits", "AVG()"),
        ("SELECT MEDIAN(age) FROM visits", "MEDIAN()"),
        ("SELECT COUNT(*), VAR_POP(age) FROM visits", "VAR_POP()"),
        ("SELECT COUNT(*) FROM visits HAVING AVG(age) > 1", "AVG()"),
        ("SELECT region, COUNT(*) FROM visits GROUP BY region ORDER BY STDDEV(age)", "STDDEV()"),
        ("SELECT AVG(age) FILTER (WHERE age > 3) FROM visits", "AVG()"),
        ("SELECT n FROM (SELECT AVG(age) AS a, COUNT(*) AS n FROM visits) t", "AVG()"),
        ("SELECT SUM(age) / COUNT(*) AS share FROM visits", "'share'"),
        ("SELECT COUNT(*) * COUNT(*) AS square FROM visits", "'square'"),
        ("SELECT SUM(n) AS total FROM (SELECT region, COUNT(*) AS n FROM visits GROUP BY region) t", "'total'"),
        ("SELECT COUNT(*) / 0 AS odd FROM visits", "'odd'"),
        ("SELECT CASE WHEN COUNT(*) > 5 THEN 1 ELSE 900 END AS jump FROM visits", "'jump'"),
        ("SELECT SQRT(COUNT(*)) AS root FROM visits", "'root'"),
    ],
)
def test_an_error_that_depends_on_the_data_is_refused(here: World, sql: str, named: str) -> None:
    before = here.spent
    with pytest.raises(Refused, match="off depends on the data") as refused:
        here.gate.answer(sql, "analyst", error=50)
    assert named in refused.value.message and "sums and counts" in str(refused.value.hint)
    assert here.spent == before
    here.prepare(sql, epsilon=1.0)  # it is the error alone that is refused


@pytest.mark.parametrize(
    ("sql", "factor", "more"),
    [
        ("SELECT COUNT(*) + 5 FROM visits", 1, 0),
        ("SELECT COUNT(*) - COUNT(*) FROM visits", 2, 0),
        ("SELECT -(3 * COUNT(*)) FROM visits", 3, 0),
        ("SELECT COUNT(*) / 4.0 FROM visits", 0.25, 0),
        ("SELECT ROUND(COUNT(*) / 2.0, 1) FROM visits", 0.5, 0.05),
        ("SELECT ROUND(COUNT(*), -1) FROM visits", 1, 5),
        ("SELECT FLOOR(COUNT(*) / 2.0) FROM visits", 0.5, 1),
        ("SELECT CAST(COUNT(*) / 2.0 AS INT) FROM visits", 0.5, 0.5),
        ("SELECT CAST(COUNT(*) AS DOUBLE) FROM visits", 1, 0),
        ("SELECT GREATEST(COUNT(*), 3) + ABS(COUNT(*)) FROM visits", 2, 0),
        ("SELECT COALESCE(NULLIF(COUNT(*), 0), 7) FROM visits", 1, 0),
        ("SELECT n * 2 FROM (SELECT COUNT(*) AS n FROM visits) t", 2, 0),
        ("SELECT n FROM (SELECT COUNT(*) * 2 AS n FROM visits) t WHERE n > 3 ORDER BY 1 LIMIT 10", 2, 0),
        ("WITH t AS (SELECT COUNT(*) AS n FROM visits) SELECT n FROM t UNION ALL SELECT 3 * n FROM t", 3, 0),
    ],
)
def test_sums_of_aggregates_are_as_far_off_as_all_of_them(here: World, sql: str, factor: float, more: float) -> None:
    """Against the half width of the integer itself, at the same epsilon."""
    asked = here.prepare(sql, error=40)
    (part,) = asked.parts
    (mechanism,) = part.noise.atoms
    assert mechanism is not None

    def width(epsilon: float) -> float:
        return factor * here.gate.mechanisms.laplace(4, epsilon).half_width() + more

    below = [each for each in epsilons(0.02, 2.0) if each < asked.epsilon]
    # The aggregate itself must be within, too.
    assert max(width(asked.epsilon), (width(asked.epsilon) - more) / factor) <= 40
    assert below == [] or max(width(below[-1]), here.gate.mechanisms.laplace(4, below[-1]).half_width()) > 40


def test_the_same_error_finds_its_answer_again(here: World) -> None:
    sql = "SELECT COUNT(*) AS n FROM visits WHERE age > 31"
    first = here.gate.answer(sql, "analyst", error=25)
    again = here.gate.answer(sql, "analyst", error=25)
    by_epsilon = here.gate.answer(sql, "analyst", epsilon=here.prepare(sql, error=25).epsilon)
    assert first.cost.epsilon > 0 and first.rows == again.rows == by_epsilon.rows
    assert again.cached and by_epsilon.cached and again.cost.epsilon == 0


def test_an_epsilon_and_an_error_are_refused_together(here: World) -> None:
    for sql, options in (
        (COUNT, {"epsilon": 0.5}),
        ("SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 0.5) COUNT(*) FROM visits", {}),
    ):
        with pytest.raises(Refused, match="an epsilon and an error are asked for together"):
            here.prepare(sql, error=50, **options)
    named = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(max_rows_contributed = 1) COUNT(*) FROM visits"
    assert here.prepare(named, error=12).epsilon < here.prepare(COUNT, error=12).epsilon


@pytest.mark.parametrize("wrong", ["", "x", "0", "-1", "nan", "inf", 0, -5.0, float("nan"), True, "1e99", "5 0"])
def test_what_is_no_error_is_refused(here: World, wrong: object) -> None:
    with pytest.raises(Refused, match="an error is a number above 0"):
        here.prepare(COUNT, error=wrong)


def test_an_error_in_percent_is_refused_with_the_reason(here: World) -> None:
    for written in ("2%", " 2 % "):
        with pytest.raises(Refused, match="how large the answer is is not known before it is paid for"):
            here.prepare(COUNT, error=written)


def test_public_tables_and_empty_answers_have_no_error(here: World) -> None:
    before = here.spent
    assert here.gate.answer("SELECT COUNT(*) FROM regions", "analyst", error=0.001).rows == ((4,),)
    assert here.gate.answer("SELECT AVG(age) AS a FROM visits LIMIT 0", "analyst", error=0.001).rows == ()
    assert here.spent == before


def test_the_epsilon_is_the_same_over_any_data(here: World, tmp_path: Path) -> None:
    other = world(tmp_path, {}, given=here.gate.policy)
    try:
        for sql in (COUNT, "SELECT region, SUM(visits), COUNT(*) FROM visits GROUP BY region"):
            for error in (30, 500, 5000):
                assert outcome(here, sql, error) == outcome(other, sql, error)
        fill(other.gate.engine.engine, people(3))  # type: ignore[attr-defined]
        assert outcome(here, COUNT, 30) == outcome(other, COUNT, 30)
    finally:
        other.close()


def outcome(of: World, sql: str, error: float) -> object:
    try:
        return of.prepare(sql, error=error).epsilon
    except Refused as refused:
        return str(refused)


@pytest.mark.full
@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
def test_whatever_is_answered_is_within_the_error(tmp_path: Path, mechanism: str) -> None:
    """Over the sources of the grammar: the bars of the answer, which each column has, are no wider than asked for."""
    extra = {"accounting": "zcdp", "mechanism": "gaussian"} if mechanism == "gaussian" else {}
    made = world(tmp_path, given=policy(budget=BUDGET, **extra))
    seen = 0
    for place, source in enumerate(SOURCES):
        key = f"{source.keys[0]} AS k, " if source.keys else ""
        sql = f"SELECT {key}COUNT(*) AS a, SUM({source.whole[0]}) + COUNT(*) AS b, 2 * SUM({source.real[0]}) AS c "
        sql += f"FROM {source.text}" + (" GROUP BY 1" if source.keys else "")
        error = (1e9, 1e12, 1e14)[place % 3]
        try:
            prepared = made.prepare(sql, error=error)
        except Refused as refused:
            assert "is not reached" in refused.message or "too much work" in refused.message, sql
            continue
        assert 0.02 <= prepared.epsilon <= 2.0
        if place % 4 or prepared.epsilon > 0.5:
            continue  # to ask takes longer than to bind, and budget
        answer = made.gate.answer(sql, "analyst", error=error, intervals=True)
        names = answer.columns
        for row in answer.rows:
            cells = dict(zip(names, row, strict=True))
            for name in "abc":
                seen += 1
                off = max(cells[name] - cells[f"{name}_low"], cells[f"{name}_high"] - cells[name])
                assert off <= error * (1 + 1e-9), sql
    made.close()
    assert seen > 5


@pytest.mark.full
def test_noise_is_within_the_error_in_95_of_100_cases(tmp_path: Path) -> None:
    """200 questions that differ in their text alone: all have the same exact answer."""
    made = world(tmp_path, given=policy(budget=BUDGET))
    statement = made.prepare(COUNT).parts[0].statements[0]
    ((exact,),) = made.gate.data.rows(statement)
    asked = (f"SELECT COUNT(*) FROM visits WHERE age > -{place + 1}" for place in range(200))
    off = [abs(made.gate.answer(sql, "analyst", error=60).rows[0][0] - exact) for sql in asked]
    made.close()
    assert sum(each <= 60 for each in off) >= 178  # 190 are expected, and the standard deviation is 3

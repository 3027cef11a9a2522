"""Transformations: the same release on both engines for one secret, another one for another, and what each keeps."""

from __future__ import annotations

import json
import math
from collections import Counter
from decimal import Decimal
from statistics import correlation, covariance, fmean, pvariance
from typing import Any

import pytest
import transforming
from conftest import Database
from transforming import KEY, OTHER_KEY, changed, load, people, policy, with_people

from sqlanon import transformations
from sqlanon.errors import PolicyError

# One use of every method, or of each of its ways.
USES: dict[str, dict[str, Any]] = {
    "alpha_beta": {"alpha_beta": {"columns": ["age", "job"], "alpha": 0.4, "beta": 0.1, "d": 0.1, "gamma": 0.5}},
    "rounding": {"rounding": {"columns": ["income", "tax", "rent"], "base": 100}},
    "rounding at random": {"rounding": {"columns": ["rent", "income"], "base": 1000, "random": True}},
    "top_bottom_coding": {"top_bottom_coding": {"columns": ["income", "rent", "tax"], "top": 1200, "bottom": 700}},
    "sampling": {"sampling": {"share": 0.3}},
    "exact sampling": {"sampling": {"share": 0.3, "exact": True, "strata": ["town", "smoker"]}},
    "uncorrelated noise": {"additive_noise": {"columns": ["income", "rent", "tax"], "alpha": 0.2}},
    "correlated noise": {"additive_noise": {"columns": ["rent", "tax", "age"], "alpha": 0.2, "kind": "correlated"}},
    "linear noise": {"additive_noise": {"columns": ["rent", "tax", "age"], "alpha": 0.5, "kind": "linear"}},
    "rank_swap": {"rank_swap": {"columns": ["income", "rent", "born"], "percent": 10}},
    "data_swap": {"data_swap": {"columns": ["income", "job"], "share": 0.5, "within": ["town", "smoker"]}},
    "pram": {"pram": {"columns": ["job", "town"], "keep": 0.7}},
    "invariant pram": {"pram": {"columns": ["job"], "keep": 0.7, "invariant": True}},
    "pram by matrix": {
        "pram": {
            "columns": ["smoker"],
            "matrix": {"true": {"true": 0.9, "false": 0.1}, "false": {"true": 0.2, "false": 0.8}},
            "invariant": True,
        }
    },
    "random_replacement": {"random_replacement": {"columns": ["job", "smoker"], "retention": 0.4}},
    "microaggregation": {"microaggregation": {"columns": ["rent", "tax", "age"], "k": 4, "block": 50}},
    "permutation": {"permutation": {"columns": ["income", "job"], "within": ["town"]}},
    "optimal_microaggregation": {"optimal_microaggregation": {"columns": ["rent", "age"], "k": 3, "block": 40}},
    "categorical_microaggregation": {
        "categorical_microaggregation": {"ordered": {"town": ["A", "B", "C"]}, "k": 4, "block": 50}
    },
    "condensation": {"condensation": {"columns": ["rent", "age"], "k": 5, "block": 50}},
    "resampling": {"resampling": {"columns": ["income", "rent", "tax"], "samples": 2}},
    "masking": {"masking": {"columns": ["job"], "format": "name"}},
}
# Methods that draw nothing: the secret does not matter.
PLAIN = (
    "rounding",
    "top_bottom_coding",
    "microaggregation",
    "optimal_microaggregation",
    "categorical_microaggregation",
)


def test_every_method_is_tested_here() -> None:
    with_persons = {"truncation"}  # it needs persons with several rows
    assert {name for use in USES.values() for name in use} | with_persons == set(transformations.names())


def test_every_method_has_a_manual_page() -> None:
    for name in transformations.names():
        module = transformations.method(name)
        assert module.__doc__ and "What it does not protect:" in module.__doc__ and "cite:" in module.__doc__, name
        assert f"- {name}:" in module.__doc__, name
        for field, info in module.Params.model_fields.items():
            assert info.description, (name, field)


@pytest.mark.full
@pytest.mark.parametrize("without", [(), ("id",)], ids=["with identifiers", "without"])
def test_one_secret_gives_one_release_on_both_engines(
    duck: Database, postgres: Database, without: tuple[str, ...]
) -> None:
    rows = people(150)
    if without:
        rows = [{**row, "rent": round(row["rent"], -2), "tax": Decimal(5), "age": 30} for row in rows]
        rows += rows[:60]  # rows that are equal in everything
    roles = dict.fromkeys(name for name in transforming.TYPES if name not in without)
    columns = dict.fromkeys(roles, "insensitive") | {"age": "quasi_identifier"}
    columns |= {} if without else {"id": "identifier"}
    for database in (duck, postgres):
        with_people(database, rows, without=without)
    for name, use in USES.items():
        if without and "noise" in name and ("tax" in str(use)):
            continue  # tax is constant there
        first, again, there = (changed(database, [use], columns=columns) for database in (duck, duck, postgres))
        assert first == again, name
        assert first == there, name
        other = changed(duck, [use], secret=OTHER_KEY, columns=columns)
        keyed = name not in PLAIN
        assert (first != other) == keyed, name


def test_methods_are_applied_in_their_order(database: Database) -> None:
    with_people(database, people(60, nulls=False))
    coded = {"top_bottom_coding": {"columns": ["age"], "top": 44}}
    tens = {"rounding": {"columns": ["age"], "base": 10}}
    assert max(row["age"] for row in changed(database, [coded, tens])) == 40
    assert max(row["age"] for row in changed(database, [tens, coded])) == 44


def test_a_method_before_it_changes_no_draw_of_another(duck: Database) -> None:
    with_people(duck, people(100))
    alone = changed(duck, [USES["pram"]])
    after = changed(duck, [{"rounding": {"columns": ["rent"], "base": 10, "random": True}}, USES["pram"]])
    assert [row["job"] for row in alone] == [row["job"] for row in after]


def test_a_method_that_is_used_twice_draws_twice(duck: Database) -> None:
    with_people(duck, people(300, nulls=False))
    use = {"sampling": {"share": 0.5}}
    assert 100 < len(changed(duck, [use])) < 200
    assert 50 < len(changed(duck, [use, use])) < 100


def test_rounding(database: Database) -> None:
    rows = people(40)
    with_people(database, rows)
    found = changed(database, [{"rounding": {"columns": ["income", "tax"], "base": 250}}])
    for old, new in zip(rows, found, strict=True):
        assert new["income"] == (None if old["income"] is None else 250 * math.floor(old["income"] / 250 + 0.5))
        assert new["tax"] == 250 * math.floor(old["tax"] / 250 + 0.5)
    tenths = changed(database, [{"rounding": {"columns": ["rent"], "base": 0.1}}])
    assert [row["rent"] for row in tenths] == [round(math.floor(row["rent"] / 0.1 + 0.5) * 0.1, 1) for row in rows]


def test_random_rounding_is_right_on_average(duck: Database) -> None:
    rows = [{**row, "income": 1370} for row in people(4000, nulls=False)]
    with_people(duck, rows)
    found = [
        row["income"] for row in changed(duck, [{"rounding": {"columns": ["income"], "base": 1000, "random": True}}])
    ]
    assert set(found) == {1000, 2000}
    assert abs(fmean(found) - 1370) < 4 * 1000 * math.sqrt(0.37 * 0.63 / 4000)


def test_top_and_bottom_coding(database: Database) -> None:
    rows = people(40)
    with_people(database, rows)
    found = changed(database, [{"top_bottom_coding": {"columns": ["age"], "top": 60, "bottom": 30, "top_value": 70}}])
    assert [row["age"] for row in found] == [70 if r["age"] > 60 else max(r["age"], 30) for r in rows]


def test_sampling(duck: Database) -> None:
    rows = people(3000)
    with_people(duck, rows)
    found = changed(duck, [{"sampling": {"share": 0.2}}])
    assert abs(len(found) - 600) < 4 * math.sqrt(3000 * 0.2 * 0.8)
    kept = {row["id"]: row for row in found}
    assert all(kept[row["id"]]["rent"] == row["rent"] for row in rows if row["id"] in kept)
    exact = changed(duck, [{"sampling": {"share": 0.25, "exact": True, "strata": ["town"]}}])
    every, drawn = Counter(row["town"] for row in rows), Counter(row["town"] for row in exact)
    assert all(drawn[town] == math.floor(0.25 * count + 0.5) for town, count in every.items())


def test_a_person_is_drawn_with_all_rows(database: Database) -> None:
    with_people(database, [{**row, "id": row["id"] // 5} for row in people(200)])
    found = changed(database, [{"sampling": {"share": 0.5}}], person="id")
    assert set(Counter(row["id"] for row in found).values()) == {5}
    assert 10 < len({row["id"] for row in found}) < 30


@pytest.mark.parametrize("use", [{"rows": 3}, {"rows": 3, "by": "born"}, {"rows": 3, "by": "smoker"}])
def test_truncation_keeps_the_same_rows_on_both_engines(
    duck: Database, postgres: Database, use: dict[str, Any]
) -> None:
    """Of seven rows of each person three, with NULLs and, by `smoker`, with many equal values."""
    rows = people(210)
    roles = dict.fromkeys([*transforming.TYPES, "who"], "insensitive") | {"age": "quasi_identifier"}
    roles |= {"id": "identifier", "who": "identifier"}
    kept = []
    for database in (duck, postgres):
        load(
            database,
            "people",
            transforming.TYPES | {"who": "INTEGER"},
            [{**row, "who": row["id"] // 7} for row in rows],
        )
        kept.append(changed(database, [{"truncation": use}], person="who", columns=roles))
    assert kept[0] == kept[1]
    assert set(Counter(row["who"] for row in kept[0]).values()) == {3}
    other = changed(duck, [{"truncation": use}], person="who", columns=roles, secret=OTHER_KEY)
    assert (other != kept[0]) == (use.get("by") != "born")
    fewer = changed(duck, [{"truncation": {**use, "rows": 2}}], person="who", columns=roles)
    assert all(row in kept[0] for row in fewer) and len(fewer) == 60
    if "by" in use:
        for who in range(30):
            mine = sorted((row for row in rows if row["id"] // 7 == who), key=lambda row: row["id"])
            known = sorted((str(row[use["by"]]).lower() for row in mine if row[use["by"]] is not None), reverse=True)
            latest = [
                str(row[use["by"]]).lower() for row in kept[0] if row["who"] == who and row[use["by"]] is not None
            ]
            assert sorted(latest, reverse=True) == known[: len(latest)] and len(latest) == min(3, len(known))


def test_truncation_needs_persons(duck: Database) -> None:
    with_people(duck, people(10))
    with pytest.raises(PolicyError, match="truncation keeps a few rows of each person"):
        changed(duck, [{"truncation": {"rows": 2}}])
    with pytest.raises(PolicyError, match="'by'"):
        policy([{"truncation": {"rows": 2, "by": "brn"}}], person="id")


def numbers(rows: list[dict[str, Any]], name: str) -> list[float]:
    return [float(row[name]) for row in rows]


def test_uncorrelated_noise(duck: Database) -> None:
    rows = people(4000, nulls=False)
    with_people(duck, rows)
    found = changed(duck, [{"additive_noise": {"columns": ["rent", "tax"], "alpha": 0.5}}])
    noise = {
        name: [b - a for a, b in zip(numbers(rows, name), numbers(found, name), strict=True)]
        for name in ("rent", "tax")
    }
    for name in noise:
        spread = pvariance(numbers(rows, name))
        assert pvariance(noise[name]) == pytest.approx(0.5 * spread, rel=0.1)
        assert abs(fmean(noise[name])) < 4 * math.sqrt(0.5 * spread / 4000)
    assert abs(correlation(noise["rent"], noise["tax"])) < 4 / math.sqrt(4000)
    # Normal: two thirds within one standard deviation, a thousandth beyond three and a quarter.
    scale = math.sqrt(pvariance(noise["rent"]))
    assert sum(abs(item) < scale for item in noise["rent"]) / 4000 == pytest.approx(0.6827, abs=0.03)
    assert max(abs(item) for item in noise["rent"]) > 3 * scale


NUMBERED = {"id": "identifier", "age": "quasi_identifier", "x": "insensitive"}


def with_numbers(database: Database, kind: str, values: list[Any]) -> None:
    rows = [{"id": place, "age": place % 5, "x": value} for place, value in enumerate(values)]
    load(database, "people", {"id": "BIGINT", "age": "INTEGER", "x": kind}, rows)


@pytest.mark.parametrize("kind", ["DECIMAL(10,0)", "DECIMAL(10,2)", "BIGINT", "DOUBLE PRECISION"])
def test_noise_that_rounding_takes_away_is_refused(database: Database, kind: str) -> None:
    with_numbers(database, kind, [place % 2 for place in range(40)])
    use = {"additive_noise": {"columns": ["x"], "alpha": 0.01}}
    if kind in ("DECIMAL(10,0)", "BIGINT"):
        with pytest.raises(PolicyError, match="varies too little for noise that is seen in 0 decimals"):
            changed(database, [use], columns=NUMBERED)
    else:
        shown = [float(row["x"]) for row in changed(database, [use], columns=NUMBERED)]
        assert any(value not in (0, 1) for value in shown)


NEEDING_FINITE: list[dict[str, Any]] = [
    *({"additive_noise": {"columns": ["x"], "alpha": 0.1, "kind": kind}} for kind in ("uncorrelated", "linear")),
    {"microaggregation": {"columns": ["x"], "k": 3}},
    {"optimal_microaggregation": {"columns": ["x"], "k": 3}},
    {"condensation": {"columns": ["x"], "k": 3}},
]


@pytest.mark.full
@pytest.mark.parametrize("use", NEEDING_FINITE, ids=str)
def test_one_value_that_is_not_finite_is_refused(database: Database, use: dict[str, Any]) -> None:
    """It would spoil the whole column."""
    values = [1.5 * place for place in range(40)]
    kinds: list[tuple[str, type]] = [("DOUBLE PRECISION", float), ("REAL", float)]
    if database.engine.dialect == "postgres":  # only there a DECIMAL may be NaN
        kinds += [("NUMERIC", Decimal), ("NUMERIC(10,2)", Decimal)]
    for kind, made in kinds:
        for word in ("NaN", "Infinity", "-Infinity"):
            if made is Decimal and word != "NaN":
                continue
            with_numbers(database, kind, [*(made(value) for value in values), made(word)])
            with pytest.raises(PolicyError, match="'x' holds NaN or infinite values") as refused:
                changed(database, [use], columns=NUMBERED)
            assert "replace them by NULL in a query, or leave such rows out" in str(refused.value.hint)
        with_numbers(database, kind, [made(value) for value in values])
        assert len(changed(database, [use], columns=NUMBERED)) == 40


def test_uncorrelated_noise_keeps_missing_doubles(database: Database) -> None:
    with_numbers(database, "DOUBLE PRECISION", [*map(float, range(40)), None])
    shown = changed(database, [{"additive_noise": {"columns": ["x"], "alpha": 0.1}}], columns=NUMBERED)
    assert [row["id"] for row in shown if row["x"] is None] == [40]


def test_correlated_noise_keeps_correlations_and_linear_noise_covariances(duck: Database) -> None:
    rows = people(6000, nulls=False)
    with_people(duck, rows)
    names = ["rent", "tax", "age"]
    for kind, grown in (("correlated", 1.4), ("linear", 1.0)):
        found = changed(duck, [{"additive_noise": {"columns": names, "alpha": 0.4, "kind": kind}}])
        assert numbers(found, "rent") != numbers(rows, "rent")
        for one in names:
            spread = math.sqrt(pvariance(numbers(rows, one)))
            assert abs(fmean(numbers(found, one)) - fmean(numbers(rows, one))) < 4 * spread * math.sqrt(0.4 / 6000)
            for other in names:
                before = covariance(numbers(rows, one), numbers(rows, other))
                after = covariance(numbers(found, one), numbers(found, other))
                limit = 5 * spread * math.sqrt(pvariance(numbers(rows, other))) / math.sqrt(6000)
                assert abs(after - grown * before) < limit, (kind, one, other)
    plain = changed(duck, [{"additive_noise": {"columns": names, "alpha": 0.4}}])
    before = correlation(numbers(rows, "rent"), numbers(rows, "tax"))
    assert correlation(numbers(plain, "rent"), numbers(plain, "tax")) < before - 0.1


@pytest.mark.parametrize("count", [40, 41, 500])
def test_rank_swapping_keeps_all_values_and_moves_ranks_a_little(duck: Database, count: int) -> None:
    rows = [{**row, "income": 3 * row["id"] + 7} for row in people(count, nulls=False)]
    with_people(duck, rows)
    for percent in (10, 30, 100):
        found = changed(duck, [{"rank_swap": {"columns": ["income"], "percent": percent}}])
        assert Counter(row["income"] for row in found) == Counter(row["income"] for row in rows)
        moved = [abs(b["income"] - a["income"]) / 3 for a, b in zip(rows, found, strict=True)]
        assert max(moved) <= percent / 100 * count
        assert sum(item == 0 for item in moved) == count % 2
        assert max(moved) > 0.2 * percent / 100 * count


def test_rank_swapping_of_ties_and_missing_values(database: Database) -> None:
    rows = people(300)
    with_people(database, rows)
    found = changed(database, [{"rank_swap": {"columns": ["age", "born", "income"], "percent": 5}}])
    for name in ("age", "born", "income"):
        assert Counter(str(row[name]) for row in found) == Counter(str(row[name]) for row in rows)
    assert all((a["income"] is None) == (b["income"] is None) for a, b in zip(rows, found, strict=True))


def test_data_swapping_keeps_what_it_swaps_and_what_it_swaps_within(database: Database) -> None:
    rows = people(400)
    with_people(database, rows)
    found = changed(database, [{"data_swap": {"columns": ["income", "job"], "share": 0.6, "within": ["town"]}}])

    def joint(table: list[dict[str, Any]]) -> Counter[Any]:
        return Counter((row["income"], row["job"], row["town"]) for row in table)

    assert joint(rows) == joint(found)
    moved = [a["income"] != b["income"] for a, b in zip(rows, found, strict=True)]
    assert 0.4 < sum(moved) / 400 < 0.7
    assert all(a["rent"] == b["rent"] and a["town"] == b["town"] for a, b in zip(rows, found, strict=True))


@pytest.mark.full
def test_permutation_keeps_groups_and_mixes_them_evenly(duck: Database) -> None:
    rows = people(300, nulls=False)
    with_people(duck, rows)
    found = changed(duck, [{"permutation": {"columns": ["income"], "within": ["town"]}}])
    assert Counter((row["income"], row["town"]) for row in found) == Counter((r["income"], r["town"]) for r in rows)
    moved = sum(a["income"] != b["income"] for a, b in zip(rows, found, strict=True))
    assert moved > 280
    # All six arrangements of three rows, over many secrets, about equally often.
    with_people(duck, [{**row, "income": row["id"]} for row in people(3, nulls=False)])
    seen: Counter[tuple[int, ...]] = Counter()
    for number in range(90):
        made = changed(duck, [{"permutation": {"columns": ["income"]}}], secret=f"{KEY} {number}")
        seen[tuple(row["income"] for row in made)] += 1
    assert len(seen) == 6 and min(seen.values()) > 4


def moves(rows: list[dict[str, Any]], found: list[dict[str, Any]], name: str) -> Counter[tuple[Any, Any]]:
    return Counter((a[name], b[name]) for a, b in zip(rows, found, strict=True))


def test_pram_follows_its_matrix(duck: Database) -> None:
    rows = people(6000)
    with_people(duck, rows)
    matrix = {"A": {"A": 0.5, "B": 0.25, "C": 0.25}, "B": {"B": 0.9, "A": 0.1}, "C": {"C": 0, "A": 1}}
    found = moves(rows, changed(duck, [{"pram": {"columns": ["town"], "matrix": matrix}}]), "town")
    every = Counter(row["town"] for row in rows)
    for source, row in matrix.items():
        for target in "ABC":
            p = row.get(target, 0)
            bound = 4 * math.sqrt(every[source] * p * (1 - p))
            assert abs(found[source, target] - every[source] * p) <= bound, (source, target)
    kept = moves(rows, changed(duck, [{"pram": {"columns": ["job"], "keep": 0.7}}]), "job")
    jobs = Counter(row["job"] for row in rows)
    for source in transforming.JOBS:
        for target in transforming.JOBS:
            p = 0.7 if source == target else 0.3 / 4
            assert abs(kept[source, target] - jobs[source] * p) <= 4 * math.sqrt(jobs[source] * p * (1 - p))
    assert kept[None, None] == jobs[None]


def invariant(matrix: dict[str, dict[str, float]], shares: dict[str, float]) -> dict[str, dict[str, float]]:
    """The two-stage matrix by its definition."""
    names = list(matrix)
    result = {k: sum(shares[i] * matrix[i].get(k, 0) for i in names) for k in names}
    back = {k: {j: matrix[j].get(k, 0) * shares[j] / result[k] for j in names} for k in names}
    return {i: {j: sum(matrix[i].get(k, 0) * back[k][j] for k in names) for j in names} for i in names}


def test_invariant_pram_keeps_the_distribution(duck: Database) -> None:
    rows = people(6000, nulls=False)
    with_people(duck, rows)
    jobs = Counter(row["job"] for row in rows)
    found = changed(duck, [{"pram": {"columns": ["job"], "keep": 0.6, "invariant": True}}])
    shares = {name: jobs[name] / 6000 for name in transforming.JOBS}
    plain = {a: {b: 0.6 if a == b else 0.1 for b in jobs} for a in jobs}
    wanted = invariant(plain, shares)
    for target in jobs:  # the distribution itself, as the matrix says
        assert sum(shares[a] * wanted[a][target] for a in jobs) == pytest.approx(shares[target])
        spread = math.sqrt(sum(jobs[a] * wanted[a][target] * (1 - wanted[a][target]) for a in jobs))
        assert abs(sum(row["job"] == target for row in found) - jobs[target]) < 4 * spread
    made = moves(rows, found, "job")
    for a in jobs:
        for b in jobs:
            p = wanted[a][b]
            assert abs(made[a, b] - jobs[a] * p) <= 4 * math.sqrt(jobs[a] * p * (1 - p)) + 1e-9
    # Without it, rare values would become frequent.
    drifted = Counter(row["job"] for row in changed(duck, [{"pram": {"columns": ["job"], "keep": 0.6}}]))
    rare = min(jobs, key=lambda name: jobs[name])
    assert drifted[rare] > 1.3 * jobs[rare]


def test_random_replacement_keeps_its_share(duck: Database) -> None:
    rows = people(6000, nulls=False)
    with_people(duck, rows)
    domain = [*transforming.JOBS, "astronaut"]
    use = {"random_replacement": {"columns": ["job"], "retention": 0.4, "domain": domain}}
    found = moves(rows, changed(duck, [use]), "job")
    jobs = Counter(row["job"] for row in rows)
    for a in jobs:
        for b in domain:
            p = 0.4 * (a == b) + 0.6 / 6
            assert abs(found[a, b] - jobs[a] * p) < 4 * math.sqrt(jobs[a] * p * (1 - p))


def test_amplification_is_refused_where_it_is_too_large(duck: Database) -> None:
    with_people(duck, people(50, nulls=False))
    use = {"columns": ["job"], "retention": 0.2, "rho1": 0.1, "rho2": 0.5}
    # Five values: (0.2 + 0.16) / 0.16 = 2.25, below 0.5 * 0.9 / (0.1 * 0.5) = 9; with 0.7 it is 12.7.
    assert len(changed(duck, [{"random_replacement": use}])) == 50
    with pytest.raises(PolicyError, match="lets an attacker go from rho1 to rho2"):
        changed(duck, [{"random_replacement": {**use, "retention": 0.7}}])
    listed = {**use, "retention": 0.7, "domain": transforming.JOBS}
    with pytest.raises(PolicyError, match=r"lets an attacker go from 0\.1 to 0\.5"):
        policy([{"random_replacement": listed}])


def test_draws_stay_when_other_rows_come_and_go(duck: Database) -> None:
    """So that two releases do not average the noise away."""
    rows = people(200, nulls=False)
    with_people(duck, rows)
    before = {row["id"]: row["job"] for row in changed(duck, [USES["random_replacement"]])}
    with_people(duck, rows[:150])
    after = {row["id"]: row["job"] for row in changed(duck, [USES["random_replacement"]])}
    assert all(before[number] == job for number, job in after.items())


def test_json_schema_knows_the_methods() -> None:
    from sqlanon.policy import json_schema

    found = json.dumps(json_schema())
    assert all(f'"{name}"' in found for name in transformations.names())

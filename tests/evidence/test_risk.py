"""Risk measures against plain Python, on both engines: every number from the definition, record by record."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import brute_risk as brute
import pytest
from conftest import Database, examples
from hypothesis import given, settings
from hypothesis import strategies as st

import sqlanon
from sqlanon.errors import PolicyError
from sqlanon.evidence.risk import Risk, as_data, risk, risks_of_release
from sqlanon.evidence.risk.estimates import pitman_parameters, population_uniqueness, snb_share, zayatz_share
from sqlanon.evidence.risk.special_uniques import dis_scores
from sqlanon.evidence.risk.worst_case import worst_disclosure
from sqlanon.families import family
from sqlanon.policy import Policy, Source, parse

COLUMNS = {"a": "TEXT", "b": "TEXT", "c": "INTEGER", "s": "TEXT", "w": "DOUBLE PRECISION", "h": "INTEGER"}
rows = st.lists(
    st.fixed_dictionaries(
        {
            "a": st.sampled_from(["x", "y", "z", None]),
            "b": st.sampled_from(["", "NULL", None]),
            "c": st.sampled_from([1, 2, 3, None]),
            "s": st.sampled_from(["flu", "hiv", "cold", None]),
            "w": st.sampled_from([0.5, 1.0, 1.0005, 2.0, 3.5, 40.0]),
            "h": st.integers(1, 4),
        }
    ),
    min_size=1,
    max_size=14,
)


def policy(**more: Any) -> Policy:
    return sqlanon.from_options("t", qi=["a", "b", "c"], sensitive=["s"], models=[("k_anonymity", {"k": 2})], **more)


def keys(table: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return [(row["a"], row["b"], row["c"]) for row in table]


@given(table=rows)
@settings(max_examples=examples(12))
def test_class_risks_and_attributes(database: Database, table: list[dict[str, Any]]) -> None:
    database.table("t", COLUMNS, table)
    found = risk(policy(), database.engine, threshold=0.4)
    assert found.records == len(table) and found.classes == len(set(keys(table)))
    assert found.measures["prosecutor"] == pytest.approx(brute.prosecutor(keys(table), 0.4))
    assert found.measures["marketer"]["average"] == pytest.approx(brute.marketer(keys(table), []))
    alone = sum(count == 1 for count in Counter(keys(table)).values())
    assert found.measures["sample_uniqueness"] == {"uniques": alone, "share": pytest.approx(alone / len(table))}
    wanted = brute.attribute(keys(table), [row["s"] for row in table])
    assert found.attributes["s"]["attribute_disclosure"] == pytest.approx(wanted)


@given(table=rows, others=rows)
@settings(max_examples=examples(10))
def test_journalist_and_marketer(database: Database, table: list[dict[str, Any]], others: list[dict[str, Any]]) -> None:
    database.table("t", COLUMNS, table)
    database.table("people", COLUMNS, others)
    found = risk(policy(population={"table": "people"}), database.engine, threshold=0.4)
    assert found.measures["journalist"] == pytest.approx(brute.journalist(keys(table), keys(others), 0.4))
    assert found.measures["marketer"]["average"] == pytest.approx(brute.marketer(keys(table), keys(others)))
    assert bool(found.notes) == bool(found.measures["journalist"]["short_classes"])


@given(table=rows)
@settings(max_examples=examples(12))
def test_individual_and_household_risk(database: Database, table: list[dict[str, Any]]) -> None:
    database.table("t", COLUMNS, table)
    found = risk(policy(), database.engine, weight="w", household="h", threshold=0.4)
    own = brute.individual(keys(table), [row["w"] for row in table])
    homes = brute.of_households(own, [row["h"] for row in table])
    for name, wanted in {"individual_risk": own, "hierarchical_risk": homes}.items():
        measured = found.measures[name]
        assert measured["highest"] == pytest.approx(max(wanted), abs=1e-9)
        assert measured["expected"] == pytest.approx(sum(wanted), abs=1e-9)
        assert measured["average"] == pytest.approx(sum(wanted) / len(wanted), abs=1e-9)
        assert measured["records_at_risk"] == pytest.approx(sum(one > 0.4 + 1e-9 for one in wanted) / len(wanted))
    assert found.measures["hierarchical_risk"]["households"] == len({row["h"] for row in table})


@given(table=st.lists(st.tuples(*[st.integers(0, 1)] * 8), min_size=1, max_size=12), size=st.sampled_from([None, 4, 6]))
@settings(max_examples=examples(6))
def test_special_uniques_of_many_columns(database: Database, table: list[tuple[int, ...]], size: int | None) -> None:
    """More columns than share a word of bits: sets are reached from other words, too."""
    names = "abcdefgh"
    database.table("t", dict.fromkeys(names, "INTEGER"), [dict(zip(names, row, strict=True)) for row in table])
    asked = sqlanon.from_options("t", qi=list(names), models=[("k_anonymity", {"k": 2})])
    found = risk(asked, database.engine, suda=True, subsets=True, max_size=size)
    sets = [[chosen for chosen in own if len(chosen) <= (size or 8)] for own in brute.minimal_uniques(table)]
    counted = Counter(chosen for own in sets for chosen in own)
    told = {tuple(names.index(name) for name in item.columns): item.minimal_uniques for item in found.subsets}
    assert {chosen: count for chosen, count in told.items() if count} == counted
    scores = Counter(sum(math.factorial(8 - len(chosen)) for chosen in own) for own in sets if own)
    assert found.suda is not None and {item.score: item.records for item in found.suda.scores} == scores


@given(table=rows, size=st.sampled_from([None, 1, 2]))
@settings(max_examples=examples(8))
def test_special_uniques(database: Database, table: list[dict[str, Any]], size: int | None) -> None:
    database.table("t", COLUMNS, table)
    found = risk(policy(), database.engine, suda=True, subsets=True, max_size=size, sampling_fraction=0.25)
    sets = [[chosen for chosen in own if len(chosen) <= (size or 3)] for own in brute.minimal_uniques(keys(table))]
    scores = [sum(math.factorial(3 - len(chosen)) for chosen in own) for own in sets]
    assert found.suda is not None
    assert {item.score: item.records for item in found.suda.scores} == Counter(one for one in scores if one)
    assert found.suda.records == sum(one > 0 for one in scores)
    counted = Counter(chosen for own in sets for chosen in own)
    for item in found.subsets:
        chosen = tuple("abc".index(name) for name in item.columns)
        distinction, separation = brute.told_apart(keys(table), chosen)
        assert item.distinction == pytest.approx(distinction)
        assert item.separation == (None if separation is None else pytest.approx(separation))
        assert item.minimal_uniques == counted[chosen]
    assert [len(item.columns) for item in found.subsets] == [1, 1, 1, 2, 2, 2, 3][: {None: 7, 1: 3, 2: 6}[size]]
    total = sum(scores)
    for place, name in enumerate("abc"):
        part = sum(math.factorial(3 - len(chosen)) * n for chosen, n in counted.items() if place in chosen)
        assert found.suda.contributions[name] == pytest.approx(part / total if total else 0)


@given(table=rows)
@settings(max_examples=examples(8))
def test_worst_case_agrees_with_the_search_of_all_single_implications(
    database: Database, table: list[dict[str, Any]]
) -> None:
    cut = table[:5]
    database.table("t", COLUMNS, cut)
    found = risk(policy(), database.engine, knowledge=1)
    buckets = list(brute.partitions_into_classes(keys(cut), [str(row["s"]) for row in cut]))
    wanted = {str(known): pytest.approx(brute.worst_case(buckets, known)) for known in (0, 1)}
    assert found.attributes["s"]["ck_safety"] == wanted


BUCKETS = [
    ["xxy", "xyz"],
    ["xyz", "xyz"],
    ["xxxyz"],
    ["xy", "xy", "xz"],
    ["xyzv"],
]


@pytest.mark.parametrize("buckets", BUCKETS, ids=" ".join)
def test_worst_case_of_two_implications(duck: Database, buckets: list[str]) -> None:
    table = [
        {"a": str(number), "b": "", "c": 1, "s": value, "w": 1.0, "h": 1}
        for number, bucket in enumerate(buckets)
        for value in bucket
    ]
    duck.table("t", COLUMNS, table)
    found = risk(policy(), duck.engine, knowledge=2).attributes["s"]["ck_safety"]
    assert found == {str(known): pytest.approx(brute.worst_case(buckets, known)) for known in (0, 1, 2)}


def test_the_example_of_martin_and_others(database: Database) -> None:
    """Their hospital: one implication gives 10/19 across the classes, and 2/3 at worst."""
    men, women = ["flu", "flu", "lung", "lung", "mumps"], ["flu", "flu", "breast", "ovary", "heart"]
    table = [{"a": "M", "b": "", "c": 1, "s": value, "w": 1.0, "h": 1} for value in men]
    table += [{"a": "F", "b": "", "c": 1, "s": value, "w": 1.0, "h": 1} for value in women]
    database.table("t", COLUMNS, table)
    worst = risk(policy(), database.engine).attributes["s"]["ck_safety"]
    assert worst == {"0": pytest.approx(2 / 5), "1": pytest.approx(2 / 3), "2": 1.0, "3": 1.0}
    across = [(1, 1, 3 / 5, 3 / 2), (2, 1, 3 / 5, 3 / 2)]  # without two values of one class
    assert worst_disclosure(across, 2)[1] == pytest.approx(10 / 19)


# ---- the estimators of population uniqueness

sizes = st.dictionaries(st.integers(2, 12), st.integers(1, 30), min_size=1, max_size=6).flatmap(
    lambda found: st.integers(1, 200).map(lambda ones: {1: ones, **found})
)


@given(sizes=sizes)
@settings(max_examples=examples(15))
def test_pitman_is_the_greatest_likelihood(sizes: dict[int, int]) -> None:
    theta, alpha = pitman_parameters(sizes)
    best = brute.pitman_likelihood(sizes, theta, alpha)
    near = [(theta + alpha) * 1.05 - alpha, (theta + alpha) * 0.95 - alpha, theta]
    far = [-alpha * 0.5, 0.1, 1.0, 10.0, 100.0, 1e4]
    for other in (alpha, alpha * 0.98, min(0.999, alpha * 1.02), 0.01, 0.2, 0.5, 0.8, 0.99):
        for point in (*near, *far):
            if point > -other:
                assert brute.pitman_likelihood(sizes, point, other) <= best + 1e-8 * abs(best)


@given(sizes=sizes, times=st.integers(2, 40))
def test_zayatz_in_whole_numbers(sizes: dict[int, int], times: int) -> None:
    records = sum(size * count for size, count in sizes.items())
    assert zayatz_share(sizes, 1 / times) == pytest.approx(brute.zayatz(sizes, records * times), rel=1e-9)


@pytest.mark.parametrize(("alpha", "beta", "fraction"), [(0.5, 0.2, 0.3), (2.0, 0.6, 0.2), (0.3, 0.05, 0.5)])
def test_snb_finds_the_population_that_made_the_sample(alpha: float, beta: float, fraction: float) -> None:
    """The expected sizes of a sample from a population of that model give that population back, as far as Shlosser's
    estimate of its classes is right: that is put in place of what was expected."""
    one, two, unique = brute.shifted_negative_binomial(alpha, beta, fraction)
    scale = 10**9
    sizes = {1: round(scale * one), 2: round(scale * two), 40: round(scale * two)}
    classes = scale
    from sqlanon.evidence.risk import estimates

    records = sum(size * count for size, count in sizes.items())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(estimates, "_shlosser", lambda sizes, fraction: float(classes))
        share = snb_share(sizes, fraction)
    assert share == pytest.approx(classes * unique / (records / fraction), rel=1e-5)


def test_shlosser_of_haas_and_stokes() -> None:
    from sqlanon.evidence.risk.estimates import _shlosser

    f, sizes = 0.5, {1: 6, 3: 2}
    first = sum(n * i * f**2 * (1 - f**2) ** (i - 1) for i, n in sizes.items())
    second = sum(n * (1 - f) ** i * ((1 + f) ** i - 1) for i, n in sizes.items())
    third = sum(n * (1 - f) ** i for i, n in sizes.items()) / sum(
        n * i * f * (1 - f) ** (i - 1) for i, n in sizes.items()
    )
    assert _shlosser(sizes, f) == pytest.approx(8 + 6 * first / second * third**2)


def test_the_rule_of_dankar() -> None:
    sizes = {1: 120, 2: 40, 3: 20, 7: 5}
    small, large = population_uniqueness(sizes, 0.1), population_uniqueness(sizes, 0.2)
    assert small["dankar"] == small["pitman"] and small["dankar_model"] == "pitman"
    assert isinstance(large["snb"], float) and isinstance(large["zayatz"], float)
    assert large["dankar"] == min(large["snb"], large["zayatz"])
    assert population_uniqueness({3: 5}, 0.1)["dankar"] == 0.0
    assert population_uniqueness({1: 5}, 0.1)["dankar"] == 1.0
    assert population_uniqueness({1: 5, 5: 1}, 1.0)["dankar"] == 0.5
    assert population_uniqueness({1: 5, 5: 1}, 0.5)["snb"] is None  # no class of two
    assert population_uniqueness({}, 0.1)["dankar"] is None


@pytest.mark.parametrize("fraction", [1e-17, 1e-20, 1e-308, 5e-324, 0.0])
def test_fractions_that_are_nearly_nothing(fraction: float) -> None:
    """1 - fraction is 1 in a double, and the population may be more than it holds."""
    found = population_uniqueness({1: 1, 2: 1}, fraction)
    assert found["snb"] is None
    for name in ("pitman", "zayatz", "dankar"):
        share = found[name]
        assert share is None or (isinstance(share, float) and 0 <= share <= 1)
    assert (found["zayatz"] is None) == (fraction < 1e-300)


@pytest.mark.parametrize("weight", [1e20, 1e308])
def test_weights_that_are_nearly_everything(duck: Database, weight: float) -> None:
    one = {"a": "x", "b": "", "c": 1, "s": "flu", "w": weight, "h": 1}
    duck.table("t", COLUMNS, [one, one | {"c": 2}, one | {"c": 2}])
    found = risk(policy(), duck.engine, weight="w", suda=True)
    assert found.measures["population_uniqueness"]["snb"] is None
    assert found.suda is not None and all(item.dis in (None, pytest.approx(0.0)) for item in found.suda.scores)


# ---- edges


@pytest.mark.parametrize("engine_rows", [0, 1])
def test_no_row_and_one_row(database: Database, engine_rows: int) -> None:
    one = {"a": "x", "b": None, "c": 1, "s": "flu", "w": 2.0, "h": 1}
    database.table("t", COLUMNS, [one][:engine_rows])
    found = risk(policy(), database.engine, weight="w", household="h", sampling_fraction=0.1, suda=True, subsets=True)
    assert found.records == engine_rows and found.suda is not None and len(found.subsets) == 7
    if engine_rows:
        assert found.measures["prosecutor"]["highest"] == 1.0 and found.suda.minimal_uniques[1] == 3
        assert found.measures["individual_risk"]["highest"] == pytest.approx(math.log(2))
        assert found.attributes["s"]["ck_safety"]["0"] == 1.0
        assert found.subsets[0].separation is None
    else:
        assert found.measures["prosecutor"]["highest"] is None and found.suda.records == 0
        assert found.attributes["s"]["ck_safety"] == {} and found.measures["population_uniqueness"]["dankar"] is None


def test_all_distinct(database: Database) -> None:
    table = [{"a": str(n), "b": "", "c": n, "s": "flu", "w": 1.0, "h": n} for n in range(40)]
    database.table("t", COLUMNS, table)
    found = risk(policy(), database.engine, weight="w", household="h", sampling_fraction=0.1, suda=True)
    assert found.measures["sample_uniqueness"]["share"] == 1.0
    assert found.measures["population_uniqueness"]["pitman"] == 1.0
    assert found.measures["hierarchical_risk"]["highest"] == 1.0
    assert found.suda is not None and found.suda.minimal_uniques == {1: 80, 2: 0, 3: 0}
    assert {item.dis for item in found.suda.scores} == {1.0}  # no two records are alike


def test_many_columns_take_several_keys(duck: Database) -> None:
    """Twelve columns of 300 values are 108 bits."""
    names = [f"q{n}" for n in range(12)]
    table = [{name: row * (place + 1) % 300 for place, name in enumerate(names)} for row in range(300)]
    duck.table("t", dict.fromkeys(names, "INTEGER"), table)
    asked = sqlanon.from_options("t", qi=names, models=[("k_anonymity", {"k": 2})])
    found = risk(asked, duck.engine, suda=True, subsets=True, max_size=2)
    cut = [tuple(row.values()) for row in table]
    for item in found.subsets:
        chosen = [names.index(name) for name in item.columns]
        assert item.classes == len({tuple(row[place] for place in chosen) for row in cut})


def test_dis_suda_grows_with_the_score_or_is_not_given() -> None:
    histogram = [(1.0, 5), (24.0, 3), (5040.0, 1)]
    for columns in (3, 8, 27):
        found = dis_scores(histogram, columns, 0.1, pairs=10)
        assert found == sorted(found, key=lambda item: item or 0.0) and len(set(found)) == 3
    for columns in (28, 29, 60):  # the exponent is 0 or less
        assert dis_scores(histogram, columns, 0.1, pairs=10) == [None, None, None]


def test_more_columns_than_a_number_has_bits_are_refused(duck: Database) -> None:
    names = [f"q{n}" for n in range(63)]
    duck.table("t", dict.fromkeys(names, "INTEGER"), [dict.fromkeys(names, row) for row in (1, 2)])
    models = [("k_anonymity", {"k": 2})]
    asked = sqlanon.from_options("t", qi=names, models=models)
    with pytest.raises(PolicyError, match="63 quasi-identifiers cannot be numbered") as refused:
        risk(asked, duck.engine, suda=True, max_size=1)
    assert "leave some out" in str(refused.value.hint)
    fewer = sqlanon.from_options("t", qi=names[1:], models=models)
    found = risk(fewer, duck.engine, suda=True, max_size=1, sampling_fraction=0.1).suda
    assert found is not None and found.minimal_uniques == {1: 124} and [item.dis for item in found.scores] == [None]


def test_persons_are_counted(database: Database) -> None:
    """Three rows of one person are one person, who is alone."""
    table = [{"a": "x", "b": "", "c": 1, "s": "flu", "w": 1.0, "h": 7} for _ in range(3)]
    table += [{"a": "y", "b": "", "c": 1, "s": "hiv", "w": 1.0, "h": person} for person in (8, 9)]
    database.table("t", COLUMNS, table)
    found = risk(policy(person="h"), database.engine)
    assert found.counts == "persons" and found.records == 3
    assert found.measures["prosecutor"]["highest"] == 1.0
    assert found.measures["sample_uniqueness"]["uniques"] == 1
    with pytest.raises(sqlanon.SqlanonError, match="count rows, but persons of 'h' have several"):
        risk(policy(person="h"), database.engine, suda=True)
    database.run("DELETE FROM t WHERE a = 'x'")
    assert risk(policy(person="h"), database.engine, suda=True).counts == "persons"


def test_a_null_that_matches_nothing(database: Database) -> None:
    table = [{"a": None, "b": "", "c": 1, "s": "flu", "w": 3.0, "h": n} for n in range(4)]
    database.table("t", COLUMNS, table)
    assert risk(policy(), database.engine).measures["prosecutor"]["highest"] == 0.25
    found = risk(policy(nulls="unique"), database.engine, weight="w", household="h")
    assert found.measures["prosecutor"]["highest"] == 1.0
    alone = math.log(3) / 2
    assert found.measures["individual_risk"]["average"] == pytest.approx(alone)


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"weight": "nowhere"}, "column 'nowhere' is not in the table"),
    ({"weight": "s"}, "weights are numbers"),
    ({"household": "h"}, "needs sampling weights"),
    ({"sampling_fraction": 0.0}, "above 0 and at most 1"),
    ({"sampling_fraction": 1.5}, "above 0 and at most 1"),
    ({"sampling_fraction": math.nan}, "above 0 and at most 1"),
    ({"threshold": 0.0}, "threshold"),
    ({"knowledge": -1}, "implications"),
    ({"knowledge": 11}, "implications"),
    ({"suda": True, "max_size": 0}, "at least one column"),
]


@pytest.mark.parametrize(("asked", "said"), WRONG, ids=lambda item: item if isinstance(item, str) else "")
def test_what_makes_no_sense_is_refused(duck: Database, asked: dict[str, Any], said: str) -> None:
    duck.table("t", COLUMNS, [{"a": "x", "b": "", "c": 1, "s": "flu", "w": 1.0, "h": 1}])
    with pytest.raises(sqlanon.SqlanonError, match=said):
        risk(policy(), duck.engine, **asked)


@pytest.mark.parametrize("wrong", [0.0, -1.0, None, math.nan, math.inf])
def test_weights_that_stand_for_nobody_are_refused(database: Database, wrong: float | None) -> None:
    row = {"a": "x", "b": "", "c": 1, "s": "flu", "w": 1.0, "h": 1}
    database.table("t", COLUMNS, [row, row | {"w": wrong}])
    with pytest.raises(sqlanon.SqlanonError, match=r"NULL, zero, negative or not finite in 1 rows"):
        risk(policy(), database.engine, weight="w")


def test_households_that_are_missing_are_refused(database: Database) -> None:
    database.table("t", COLUMNS, [{"a": "x", "b": "", "c": 1, "s": "flu", "w": 1.0, "h": None}])
    with pytest.raises(sqlanon.SqlanonError, match="the household 'h' is NULL in 1 rows"):
        risk(policy(), database.engine, weight="w", household="h")


def test_what_cannot_be_combined_is_refused(duck: Database) -> None:
    duck.table("t", COLUMNS, [{"a": "x", "b": "", "c": 1, "s": "flu", "w": 1.0, "h": 1}])
    with pytest.raises(sqlanon.SqlanonError, match="'nulls: unique' cannot be combined"):
        risk(policy(nulls="unique"), duck.engine, suda=True)
    with pytest.raises(sqlanon.SqlanonError, match="a sampling fraction and a population are given"):
        risk(policy(population={"table": "t"}), duck.engine, sampling_fraction=0.1)
    names = [f"q{n}" for n in range(13)]
    duck.table("t", dict.fromkeys(names, "INTEGER"), [dict.fromkeys(names, 1)])
    many = sqlanon.from_options("t", qi=names, models=[("k_anonymity", {"k": 2})])
    with pytest.raises(sqlanon.SqlanonError, match="13 quasi-identifiers have 8,191 sets of up to 13"):
        risk(many, duck.engine, subsets=True)


# ---- releases, and what is left behind


RELEASED = """
source: {table: t}
columns: {a: quasi_identifier, b: quasi_identifier, s: sensitive}
hierarchies: {a: {prefix: {length: 2}}}
models: [{k_anonymity: {k: 2}}]
population: {table: people}
"""


def test_a_release_beside_its_source(database: Database) -> None:
    """The population is generalized like the release."""
    own = {"a": "TEXT", "b": "TEXT", "s": "TEXT"}
    database.table("t", own, [{"a": f"{n % 3}{n}", "b": "x", "s": "flu" if n else "hiv"} for n in range(6)])
    database.table("people", own, [{"a": f"{n % 3}{n % 9}", "b": "x", "s": None} for n in range(18)])
    database.table("released", own, [{"a": f"{n % 3}*", "b": "x", "s": "flu" if n else "hiv"} for n in range(6)])
    found = risks_of_release(parse(RELEASED), database.engine, Source(table="released"))
    assert found["source"]["measures"]["prosecutor"]["average"] == 1.0
    assert found["release"]["measures"]["prosecutor"]["average"] == 0.5
    assert found["source"]["measures"]["journalist"]["highest"] == 0.5
    assert found["release"]["measures"]["journalist"]["highest"] == pytest.approx(1 / 6)
    assert found["release"]["attributes"]["s"]["attribute_disclosure"]["guessed_without"] == pytest.approx(5 / 6)


def test_no_temporary_table_is_left(duck: Database) -> None:
    duck.table("t", COLUMNS, [{"a": "x", "b": "", "c": 1, "s": "flu", "w": 1.0, "h": 1}])
    before = duck.fetch("SELECT table_name FROM duckdb_tables()")
    risk(policy(), duck.engine, weight="w", household="h", suda=True)
    with pytest.raises(sqlanon.SqlanonError):
        risk(policy(), duck.engine, suda=True, max_size=0)
    assert duck.fetch("SELECT table_name FROM duckdb_tables()") == before


def test_every_risk_measure_has_a_manual_page() -> None:
    needs = {"population", "sampling_fraction", "weight", "household", "sensitive", "subsets"}
    for item in family("risk").values():
        assert item.summary.endswith(".") and item.cite and item.measures, item.name
        assert set(item.needs) <= needs, item.name


def test_the_result_is_plain_data(duck: Database) -> None:
    duck.table("t", COLUMNS, [{"a": "x", "b": "", "c": 1, "s": "flu", "w": 1.0, "h": 1}])
    found = risk(policy(), duck.engine, suda=True, subsets=True)
    assert isinstance(found, Risk)
    assert as_data(sqlanon.risk(policy(), duck.engine, suda=True, subsets=True)) == as_data(found)

    def plain(value: Any) -> bool:
        if isinstance(value, dict):
            return all(plain(item) for item in value.values())
        if isinstance(value, list | tuple):
            return all(plain(item) for item in value)
        return value is None or type(value) in (int, float, str)

    assert plain(as_data(found))

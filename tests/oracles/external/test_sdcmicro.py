"""sdcMicro 5.8.1 on its own data sets: risks, SUDA scores, suppressed cells, and the loss of microaggregation.

The data may not be committed, the numbers are in tests/oracles/numbers/sdcmicro.json. Checks of the same that need none
of it:

- test_individual_and_household_risk_of_testdata: tests/evidence/test_risk.py::test_individual_and_household_risk,
  tests/evidence/test_risk_oracles.py::test_individual_risk_of_francdat
- test_suda_scores_of_testdata2: tests/evidence/test_risk_oracles.py::test_suda_scores_of_sdcmicro
- test_suda_on_adult, test_suda_on_adult_agrees_with_a_plain_search:
  tests/oracles/test_lookalike.py::test_suda_agrees_with_a_plain_search
- test_what_sdcmicro_measures: tests/oracles/test_generated_firms.py::test_measures_of_microaggregated_firms
- test_mdav_loses_what_sdcmicro_loses, test_mdav_loses_what_sdcmicro_loses_in_full:
  tests/oracles/test_generated_firms.py::test_groups_are_those_of_mdav_in_numpy
- test_no_more_cells_than_sdcmicro: tests/algorithms/test_suppressed_cells.py::test_fewer_cells_than_row_by_row
- test_importance_suppresses_no_more_cells_than_sdcmicro, test_importance_against_sdcmicro:
  tests/oracles/test_generated_cells.py::test_importance_spares_a_column
- test_cells_against_sdcmicro: tests/oracles/test_generated_cells.py::test_cells_of_each_reading
"""

from __future__ import annotations

import csv
from collections import Counter
from typing import Any

import brute_risk as brute
import pytest
from adult_tables import ADULT, COLUMNS, load_adult
from brute_risk import count_scores
from conftest import Database
from microaggregate_numbers import information_loss, measure_masked, microaggregate, read_file
from oracle_numbers import read_numbers
from shared_data import adult_folder, sdcmicro_file
from suppress_cells import Cells, Row, cells_of, few_cells, k, suppress
from test_risk_oracles import measured

import sqlanon
from sqlanon.algorithms.local_suppression import Params
from sqlanon.evidence.risk import risk

KNOWN = read_numbers("sdcmicro")
KEYS = ["urbrur", "roof", "walls", "water", "electcon", "relat", "sex"]


def of_file(name: str, columns: list[str]) -> list[tuple[Any, ...]]:
    with sdcmicro_file(name).open() as file:
        return [tuple(float(row[column]) for column in columns) for row in csv.DictReader(file)]


def households(name: str) -> list[Row]:
    with sdcmicro_file(name).open(encoding="utf-8") as file:
        return [{key: row[key] for key in KEYS} for row in csv.DictReader(file)]


# Risk ---------------------------------------------------------------------------------------------------------------


def test_individual_and_household_risk_of_testdata(duck: Database) -> None:
    known = KNOWN["testdata_risk"]
    rows = of_file("testdata", [*KEYS, "sampling_weight", "ori_hid"])
    path = sdcmicro_file("testdata")
    duck.run(f"CREATE TABLE t AS SELECT *, sampling_weight AS w, ori_hid AS h FROM read_csv('{path}')")
    policy = sqlanon.from_options("t", qi=KEYS, models=[("k_anonymity", {"k": 2})])
    found = risk(policy, duck.engine, weight="w", household="h")
    assert found.records == known["n"] == 4580
    assert found.measures["sample_uniqueness"]["uniques"] == known["n_fk1"]
    # Fewer than five alike.
    assert found.measures["prosecutor"]["records_at_risk"] == pytest.approx(known["n_fk_lt5"] / 4580)
    whole = known["global"]
    assert found.measures["individual_risk"]["expected"] == pytest.approx(whole["risk_ER"], abs=1e-9)
    assert found.measures["individual_risk"]["average"] == pytest.approx(whole["risk"], abs=1e-12)
    assert found.measures["hierarchical_risk"]["expected"] == pytest.approx(whole["hier_risk_ER"], abs=1e-9)
    assert found.measures["hierarchical_risk"]["average"] == pytest.approx(whole["hier_risk"], abs=1e-12)
    own = brute.individual([row[:7] for row in rows], [row[7] for row in rows])
    homes = brute.of_households(own, [row[8] for row in rows])
    assert own[:5] == pytest.approx([line[0] for line in known["individual_head"]])
    assert homes[:5] == pytest.approx([line[3] for line in known["individual_head"]])
    assert found.measures["hierarchical_risk"]["highest"] == pytest.approx(max(homes))


def test_suda_scores_of_testdata2(duck: Database) -> None:
    known = KNOWN["suda2_testdata2_orig"]
    rows = of_file("testdata2", KEYS)
    found = measured(duck, KEYS, rows, "DOUBLE", suda=True, sampling_fraction=known["DisFraction"]).suda
    assert found is not None
    assert found.records == known["n_pos"] and found.scores[-1].score == known["max_score"]
    assert sum(item.score * item.records for item in found.scores) == known["sum_score"]
    assert sum((item.dis or 0) * item.records for item in found.scores) == pytest.approx(known["sum_dis"])
    wanted = [item["contribution"] for item in known["contrib"]]
    assert [100 * part for part in found.contributions.values()] == pytest.approx(wanted)
    scores = {item.score for item in found.scores}
    assert all(score in scores for score in known["score_head"])


def test_suda_on_adult(duck: Database) -> None:
    """All nine columns: what the search of sdcMicro, a recursion over the values of the columns, finds in them."""
    load_adult(duck, adult_folder(), "t")
    policy = sqlanon.from_options("t", qi=COLUMNS, models=[("k_anonymity", {"k": 2})])
    found = risk(policy, duck.engine, suda=True).suda
    assert found is not None and found.records == 15_512
    sizes = {1: 2, 2: 1204, 3: 14_890, 4: 26_029, 5: 15_983, 6: 4172, 7: 498, 8: 31, 9: 0}
    assert found.minimal_uniques == sizes
    assert sum(item.score * item.records for item in found.scores) == 20_402_731


@pytest.mark.long
def test_suda_on_adult_agrees_with_a_plain_search(duck: Database) -> None:
    """Five columns of Adult, set by set in Python."""
    load_adult(duck, adult_folder(), "t")
    names = [name for name in ADULT if name in ("sex", "age", "race", "education", "occupation")]
    policy = sqlanon.from_options("t", qi=names, models=[("k_anonymity", {"k": 2})])
    found = risk(policy, duck.engine, suda=True).suda
    assert found is not None
    assert {item.score: item.records for item in found.scores} == count_scores(
        duck.fetch(f"SELECT {', '.join(names)} FROM t")
    )


# Microaggregation ---------------------------------------------------------------------------------------------------

MDAV = {
    (name, case["aggr"]): case
    for name, cases in (("Tarragona", "micro_Tarragona"), ("CASCrefmicrodata", "micro_CASC"))
    for case in KNOWN[cases]
}


@pytest.mark.full
def test_mdav_loses_what_sdcmicro_loses(duck: Database) -> None:
    exact, linear = losses(duck, "Tarragona", 10)
    assert exact == pytest.approx(MDAV["Tarragona", 10]["info_loss_pct"], abs=1e-6)
    assert linear < 1.08 * exact


@pytest.mark.long
@pytest.mark.parametrize(("name", "k"), list(MDAV))
def test_mdav_loses_what_sdcmicro_loses_in_full(database: Database, name: str, k: int) -> None:
    exact, linear = losses(database, name, k)
    assert exact == pytest.approx(MDAV[name, k]["info_loss_pct"], abs=1e-6)
    print(f"{name} k={k}: exact {exact:.4f}, linear {linear:.4f} ({linear / exact - 1:+.1%})")
    assert linear < 1.08 * exact


def losses(database: Database, name: str, k: int) -> tuple[float, float]:
    """The information loss with and without `exact`."""
    header, numbers = read_file(sdcmicro_file(name))
    exact, linear = (
        information_loss(numbers, microaggregate(database, header, numbers, {"k": k, **more}))
        for more in ({"exact": True}, {})
    )
    return exact, linear


@pytest.mark.parametrize(
    ("name", "k"),
    [
        pytest.param("Tarragona", 10, marks=pytest.mark.full),
        pytest.param("Tarragona", 3, marks=pytest.mark.long),
        pytest.param("CASCrefmicrodata", 10, marks=pytest.mark.long),
    ],
)
def test_what_sdcmicro_measures(duck: Database, name: str, k: int) -> None:
    """IL1s added up over all cells, eigenvalues, and dRisk."""
    header, numbers = read_file(sdcmicro_file(name))
    microaggregate(duck, header, numbers, {"k": k, "exact": True})
    found, known = measure_masked(duck, header), MDAV[name, k]
    assert found.il1s is not None
    assert found.il1s * len(numbers) * len(header) == pytest.approx(known["IL1s"], rel=1e-6)
    # A column of CASCrefmicrodata is the sum of others, so that its least eigenvalue is nothing but rounding.
    if name != "CASCrefmicrodata":
        assert found.eigenvalues == pytest.approx(known["eigen"], rel=1e-5)
    assert found.intervals is not None and found.intervals.records == pytest.approx(known["dRisk"], abs=1e-9)


# Suppressed cells ---------------------------------------------------------------------------------------------------


@pytest.mark.full
def test_cells_against_sdcmicro(duck: Database) -> None:
    """sdcMicro lets a suppressed cell match every value, so that one cell frees a row (the tests below compare that);
    here a suppressed cell matches suppressed cells only, as whoever counts classes in a release will find, so that
    others must lose cells too. The number of cells must be at least that of rows to help, and at most k times what
    sdcMicro needs."""
    rows = households("testdata2")
    for case in KNOWN["localSuppression_testdata2"]:
        size = case["k"]
        found = suppress(duck, rows, [k(size)], columns=dict.fromkeys(KEYS, "TEXT"))
        crowd = Counter(tuple(row.values()) for row in rows)
        alone = sum(count for count in crowd.values() if count < size)
        assert len(found.rows) == len(rows) and min(map(len, found.classes.values())) >= size
        assert alone <= found.cells <= size * case["newSupps"]


@pytest.mark.full
def test_importance_against_sdcmicro(duck: Database) -> None:
    """The order of importance is read off sdcMicro's own result: it never suppressed water, and sex most."""
    case = KNOWN["localSuppression_testdata_importance"]
    order = sorted(KEYS, key=lambda key: (case["totalSupps"][key], KEYS.index(key)))
    params = Params(importance=order)
    found = suppress(duck, households("testdata"), [k(case["k"])], columns=dict.fromkeys(KEYS, "TEXT"), params=params)
    assert min(map(len, found.classes.values())) >= case["k"]
    assert found.cells <= 2 * case["newSupps"]
    assert found.by_column(KEYS)["water"] == 0
    assert sum(found.by_column(KEYS)[key] for key in order[-2:]) > found.cells / 2


# Cells that localSuppression suppresses in these columns, by (data, k).
SUPPRESSED = {
    ("testdata", 2): 157, ("testdata", 3): 293, ("testdata", 5): 500, ("testdata", 10): 911,
    ("testdata2", 2): 97, ("testdata2", 3): 117, ("testdata2", 5): 157,
}  # fmt: skip
# What examples/publish/README.md says: cells, and rows found among fewer than k by someone who knows all values.
SAID = {2: (97, 90), 3: (165, 156), 5: (291, 269), 10: (540, 492)}


def cells(name: str) -> list[Cells]:
    return [tuple(row.values()) for row in households(name)]


@pytest.mark.parametrize(
    "name, k", [pytest.param(*case, marks=[pytest.mark.full] * (case[0] == "testdata")) for case in SUPPRESSED]
)
def test_no_more_cells_than_sdcmicro(duck: Database, name: str, k: int) -> None:
    with duck.engine.one_thread():
        found = few_cells(duck, cells(name), k, KEYS)
    assert 0 < cells_of(found) <= SUPPRESSED[name, k] and found.found_by_values is not None
    if name == "testdata":
        assert (cells_of(found), found.found_by_values[0]) == SAID[k]


def test_importance_suppresses_no_more_cells_than_sdcmicro(duck: Database) -> None:
    """sdcMicro suppressed 297 cells of testdata for k = 3, none of them of water, and sex most."""
    most = KNOWN["localSuppression_testdata_importance"]["newSupps"]
    order = ["water", "roof", "walls", "urbrur", "electcon", "relat", "sex"]
    with duck.engine.one_thread():
        found = few_cells(duck, cells("testdata"), 3, KEYS, importance=order)
    assert 0 < cells_of(found) <= most == 297 and "water" not in found.why

"""Adult with ARX's hierarchies, against numbers of an independent numpy program and of the literature.

The data may not be committed, the numbers of the program are in tests/oracles/numbers/lattice_optima.json. Checks of
the same on a generated table, which need none of it:

- test_optima_of_another_tool, test_all_optima_of_another_tool,
  test_an_optimum_is_found_sooner_than_by_trying_every_node,
  test_no_metric_of_classes_is_slower_than_trying_every_node:
  tests/oracles/test_lookalike.py::test_the_optimum_of_a_large_lattice
- test_adult: tests/oracles/test_lookalike.py::test_mondrian_loses_less_than_any_full_domain_generalization
- test_less_loss_than_any_full_domain_generalization:
  tests/oracles/test_lookalike.py::test_recoding_loses_less_than_any_full_domain_generalization
- test_similarity_attack, test_similarity_attack_in_full: tests/oracles/test_lookalike.py::test_similarity_attack
- test_similarity_attack_on_four_diseases, test_similarity_attack_on_four_diseases_in_45_thousand_rows:
  tests/oracles/test_lookalike.py::test_similarity_attack_on_four_diseases
- test_against_mondrian, test_against_mondrian_in_full: tests/oracles/test_lookalike.py::test_counts_against_mondrian
"""

from __future__ import annotations

import time
from collections import Counter
from contextlib import closing
from typing import Any

import pytest
from adult_tables import ADULT, adult_policy, load_adult
from brute_lattice import least_divergence, least_entropy, least_losses
from conftest import Database
from oracle_numbers import read_numbers
from range_counts import compared
from recoded import opened
from shared_data import adult_folder
from similarity_attack import ATTRIBUTES, attacked, attacked_at_four, recode
from solving import solve

from sqlanon.algorithms import mondrian

ROWS = 30_162
K5 = {"k_anonymity": {"k": 5}}

# The lattice --------------------------------------------------------------------------------------------------------

LATTICE = read_numbers("lattice_optima")["best"]
NAMES = {"gcp": "ncp", "dm": "discernibility", "cavg": "c_avg"}


def agrees(duck: Database, cases: list[Any]) -> None:
    folder = adult_folder()
    load_adult(duck, folder)
    for case in cases:
        models = [{"k_anonymity": {"k": case["k"]}}]
        more = {"suppression_limit": case["suppression_limit"], "minimize": NAMES[case["metric"]]}
        found = solve(duck.engine, adult_policy(folder, ADULT, None, models, **more), "full_domain")
        if case["suppressed"] == ROWS:
            # A table without rows is no release. No class is smaller than k, so that the average is k at the least.
            assert case["metric"] == "cavg"
            assert found.suppressed < ROWS
            assert found.loss == pytest.approx(1.0, rel=1e-9), case
            continue
        assert found.loss == pytest.approx(case["value"], rel=1e-9), case
        if case["ties"] == 1:
            assert found.passes == (tuple(case["levels"]),), case
            assert found.suppressed == case["suppressed"], case


@pytest.mark.full
def test_optima_of_another_tool(duck: Database) -> None:
    quick = [case for case in LATTICE if case["metric"] == "gcp" or case["suppression_limit"] == 0]
    agrees(duck, [case for case in quick if case["k"] in (2, 5)])


@pytest.mark.long
@pytest.mark.parametrize("metric", NAMES)
def test_all_optima_of_another_tool(duck: Database, metric: str) -> None:
    agrees(duck, [case for case in LATTICE if case["metric"] == metric])


@pytest.mark.long
@pytest.mark.parametrize(
    ("metric", "limit"), [("non_uniform_entropy", 1.0), ("kl_divergence", 1.0), ("kl_divergence", 0.3)]
)
def test_an_optimum_is_found_sooner_than_by_trying_every_node(duck: Database, metric: str, limit: float) -> None:
    folder = adult_folder()
    load_adult(duck, folder)
    policy = adult_policy(folder, ADULT, None, [K5], suppression_limit=limit, minimize=metric)
    start = time.process_time()
    least = (least_divergence if metric == "kl_divergence" else least_entropy)(folder, ADULT, 5, limit)
    middle = time.process_time()
    found = solve(duck.engine, policy, "full_domain")
    assert found.loss == pytest.approx(least, rel=1e-9, abs=1e-9)
    assert time.process_time() - middle < middle - start


@pytest.mark.long
def test_no_metric_of_classes_is_slower_than_trying_every_node(duck: Database) -> None:
    """At a limit of 1 the models leave nothing out, and only the metric can."""
    folder = adult_folder()
    load_adult(duck, folder)
    start = time.process_time()
    least = least_losses(folder, ADULT, 5, 1.0)
    whole = time.process_time() - start
    for metric, loss in least.items():
        policy = adult_policy(folder, ADULT, None, [K5], suppression_limit=1.0, minimize=metric)
        start = time.process_time()
        found = solve(duck.engine, policy, "full_domain")
        taken = time.process_time() - start
        print(f"{metric}: {taken:.1f} CPU s, every node in numpy {whole:.1f}")
        assert found.loss == pytest.approx(loss, rel=1e-9, abs=1e-9), metric
        assert taken < whole, metric


# Regions ------------------------------------------------------------------------------------------------------------


@pytest.mark.full
def test_adult(duck: Database) -> None:
    folder = adult_folder()
    load_adult(duck, folder)
    with closing(opened(duck, adult_policy(folder, ADULT, None, [K5]))) as made:
        found = mondrian.run(made, mondrian.Params())
        assert found.regions is not None
        join = f"FROM {found.regions.members} m JOIN {made.compressed.table} c USING (k1) GROUP BY region"
        assert duck.fetch(f"SELECT MIN(n), SUM(n) FROM (SELECT SUM(n) AS n {join})") == [(5, ROWS)]
        assert duck.fetch(f"SELECT COUNT(DISTINCT k1) = COUNT(*) FROM {found.regions.members}") == [(True,)]
    # 0.0386 at the median of the widest; the best full-domain generalization loses 0.27
    assert found.loss <= 0.033 and found.suppressed == 0


@pytest.mark.full
def test_less_loss_than_any_full_domain_generalization(duck: Database) -> None:
    """Adult, k = 5, eight quasi-identifiers: the best full-domain generalization without suppression loses .27."""
    folder = adult_folder()
    load_adult(duck, folder)
    found, solution, _ = recode(duck, adult_policy(folder, [*ATTRIBUTES, "occupation"], None, [K5]))
    assert min(Counter(row["region"] for row in found).values()) >= 5
    assert solution.suppressed == 0 and solution.loss < 0.072


# Attacks and estimates ----------------------------------------------------------------------------------------------


@pytest.mark.full
def test_similarity_attack(duck: Database) -> None:
    attacked(duck, adult_folder(), ["age", "education", "marital-status", "sex"], 3000)


@pytest.mark.full
def test_similarity_attack_on_four_diseases(duck: Database) -> None:
    attacked_at_four(duck, adult_folder(), ["age", "education", "marital-status", "sex"], 6000)


@pytest.mark.long
def test_similarity_attack_on_four_diseases_in_45_thousand_rows(duck: Database) -> None:
    attacked_at_four(duck, adult_folder(), ATTRIBUTES, 45_000)


@pytest.mark.long
def test_similarity_attack_in_full(duck: Database) -> None:
    attacked(duck, adult_folder(), ATTRIBUTES, ROWS)


@pytest.mark.full
def test_against_mondrian(duck: Database) -> None:
    """At the k from which all of Mondrian's records meet the criterion too, and, as the paper has it, at classes of the
    same average size cut at medians. (Against the best cuts the latter is lost: .88 to .61 on all rows.)"""
    errors = compared(duck, adult_folder(), records=4000, queries=300)
    assert errors["own"]["all"] < errors["safe"]["all"]
    assert errors["own"]["all"] < errors["median"]["all"]


@pytest.mark.long
def test_against_mondrian_in_full(duck: Database) -> None:
    errors = compared(duck, adult_folder(), records=ROWS, queries=1000)
    for kind in ("all", "small", "large"):
        assert errors["own"][kind] < errors["safe"][kind], kind
        assert errors["own"][kind] < errors["median"][kind], kind

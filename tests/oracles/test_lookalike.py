"""The claims that tests/oracles/external checks on Adult, on a generated table that looks like it, for everybody."""

from __future__ import annotations

import math
from collections import Counter
from contextlib import closing
from pathlib import Path

import brute_risk
import pytest
from adult_tables import ADULT, COLUMNS, adult_policy, hierarchy_file, load_adult, read_rows, write_lookalike
from brute_lattice import least_divergence, least_entropy, least_losses
from conftest import Database
from range_counts import compared
from recoded import opened
from similarity_attack import attacked, attacked_at_four, recode
from solving import solve

import sqlanon
from sqlanon.algorithms import mondrian
from sqlanon.evidence.risk import risk
from sqlanon.hierarchies import build

K5 = {"k_anonymity": {"k": 5}}
FIVE = ["sex", "age", "race", "marital-status", "education"]
NODES = math.prod((2, 5, 2, 3, 4))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_lookalike(tmp_path_factory.mktemp("lookalike"), 4000)


def test_hierarchy_files_are_read(folder: Path) -> None:
    people = read_rows(folder)
    assert len(people) == 4000
    for name in COLUMNS:
        hierarchy = build("csv", {"path": hierarchy_file(folder, name).name}, folder)
        assert hierarchy.root == "*"
        assert {person[name] for person in people} <= {row[0] for row in hierarchy.rows}, name


# The lattice --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "limit", [0.04, pytest.param(0.0, marks=pytest.mark.full), pytest.param(1.0, marks=pytest.mark.full)]
)
def test_the_optimum_of_a_large_lattice(duck: Database, folder: Path, limit: float) -> None:
    """240 nodes of 4,000 rows: numpy tries every one of them, the search finds the same and tries fewer."""
    load_adult(duck, folder)
    wanted = least_losses(folder, FIVE, 5, limit)
    wanted["non_uniform_entropy"] = least_entropy(folder, FIVE, 5, limit)
    wanted["kl_divergence"] = least_divergence(folder, FIVE, 5, limit)
    checks = 0
    for metric, least in wanted.items():
        policy = adult_policy(folder, FIVE, None, [K5], suppression_limit=limit, minimize=metric)
        found = solve(duck.engine, policy, "full_domain")
        assert found.proven
        assert found.loss == pytest.approx(least, rel=1e-9, abs=1e-9), metric
        checks += found.checks
    assert checks < NODES * len(wanted)


# Regions ------------------------------------------------------------------------------------------------------------


def test_mondrian_loses_less_than_any_full_domain_generalization(duck: Database, folder: Path) -> None:
    load_adult(duck, folder)
    with closing(opened(duck, adult_policy(folder, FIVE, None, [K5]))) as made:
        found = mondrian.run(made, mondrian.Params())
        assert found.regions is not None
        join = f"FROM {found.regions.members} m JOIN {made.compressed.table} c USING (k1) GROUP BY region"
        ((least, rows),) = duck.fetch(f"SELECT MIN(n), SUM(n) FROM (SELECT SUM(n) AS n {join})")
        assert least >= 5 and rows == 4000
        assert duck.fetch(f"SELECT COUNT(DISTINCT k1) = COUNT(*) FROM {found.regions.members}") == [(True,)]
    assert found.suppressed == 0
    assert found.loss < least_losses(folder, FIVE, 5, 0.0)["ncp"] / 2


@pytest.mark.full
def test_recoding_loses_less_than_any_full_domain_generalization(duck: Database, folder: Path) -> None:
    load_adult(duck, folder)
    found, solution, _ = recode(duck, adult_policy(folder, FIVE, None, [K5]))
    assert len(found) == 4000 and min(Counter(row["region"] for row in found).values()) >= 5
    assert solution.suppressed == 0
    assert solution.loss < least_losses(folder, FIVE, 5, 0.0)["ncp"] / 2


# Attacks, risks and estimates ---------------------------------------------------------------------------------------


@pytest.mark.full
def test_similarity_attack(duck: Database, folder: Path) -> None:
    attacked(duck, folder, ["age", "education", "sex"], 1000)


@pytest.mark.full
def test_similarity_attack_on_four_diseases(duck: Database, folder: Path) -> None:
    attacked_at_four(duck, folder, ["age", "education", "marital-status", "sex"], 2000)


@pytest.mark.full
def test_counts_against_mondrian(duck: Database, folder: Path) -> None:
    errors = compared(duck, folder, records=2000, queries=200)
    assert errors["own"]["all"] < errors["safe"]["all"]
    assert errors["own"]["all"] < errors["median"]["all"]


def test_suda_agrees_with_a_plain_search(duck: Database, folder: Path) -> None:
    """Set by set in Python, for six columns."""
    load_adult(duck, folder, "t")
    six = ADULT[:6]
    names = ", ".join(f'"{name}"' for name in six)
    policy = sqlanon.from_options("t", qi=six, models=[("k_anonymity", {"k": 2})])
    found = risk(policy, duck.engine, suda=True).suda
    assert found is not None and found.records > 100
    scores = {item.score: item.records for item in found.scores}
    assert scores == brute_risk.count_scores(duck.fetch(f"SELECT {names} FROM t"))

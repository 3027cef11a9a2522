"""Risk measures of small published tables against sdcMicro 5.8.1, whose numbers are copied here."""

from __future__ import annotations

from typing import Any

import brute_risk as brute
import pytest
from conftest import Database

import sqlanon
from sqlanon.evidence.risk import Risk, risk
from sqlanon.evidence.risk.special_uniques import dis_scores

FRANCDAT = [  # Key1 to Key4, and the weight
    (1, 2, 5, 1, 18.0),
    (1, 2, 1, 1, 45.5),
    (1, 2, 1, 1, 39.0),
    (3, 3, 1, 5, 17.0),
    (4, 3, 1, 4, 541.0),
    (4, 3, 1, 1, 8.0),
    (6, 2, 1, 5, 5.0),
    (1, 2, 5, 1, 92.0),
]
FRANCDAT_RISK = [
    0.01714426159629, 0.02204232618326, 0.02204232618326, 0.1770758340035,
    0.01165448014601, 0.2970630773828, 0.4023594781085, 0.01714426159629,
]  # fmt: skip
GUIDELINE = """\
Urban Female Secondary-incomplete Employed
Urban Female Secondary-incomplete Employed
Urban Female Primary-incomplete Non-LF
Urban Male Secondary-complete Employed
Rural Female Secondary-complete Unemployed
Urban Male Secondary-complete Employed
Urban Female Primary-complete Non-LF
Urban Male Post-secondary Unemployed
Urban Female Secondary-incomplete Non-LF
Urban Female Secondary-incomplete Non-LF"""
BOOK = """\
20s male 50k+ highschool
20s male 50k+ highschool
20s male 50k- highschool
20s male 50k- highschool
20s female 50k- university
20s female 50k- highschool
20s female 50k- middleschool
60s male 50k- university"""
# The table, SUDA scores and DIS-SUDA of its records, and the contributions of its columns where they are known.
SUDA: dict[str, tuple[str, list[int], list[float], list[float] | None]] = {
    "guideline": (
        GUIDELINE,
        [0, 0, 6, 0, 12, 0, 6, 10, 0, 0],
        [0, 0, 0.004986797661143, 0, 0.01138300651424, 0, 0.004986797661143, 0.009166678869162, 0, 0],
        [0.23529411764706, 0.17647058823529, 0.64705882352941, 0.23529411764706],
    ),
    "book": (
        BOOK,
        [0, 0, 0, 0, 4, 2, 6, 8],
        [0, 0, 0, 0, 0.01085909520911, 0.004755860406003, 0.01754517038503, 0.02460105708028],
        None,
    ),
}


def measured(database: Database, names: list[str], rows: list[tuple[Any, ...]], kind: str, **asked: Any) -> Risk:
    weights = {"w": "DOUBLE PRECISION"} if "weight" in asked else {}
    columns = dict.fromkeys(names, kind) | weights
    database.table("t", columns, [dict(zip(columns, row, strict=True)) for row in rows])
    policy = sqlanon.from_options("t", qi=names, models=[("k_anonymity", {"k": 2})])
    return risk(policy, database.engine, **asked)


def test_individual_risk_of_francdat(database: Database) -> None:
    names = ["Key1", "Key2", "Key3", "Key4"]
    found = measured(database, names, FRANCDAT, "INTEGER", weight="w", threshold=0.1)
    assert found.measures["individual_risk"]["highest"] == pytest.approx(max(FRANCDAT_RISK), abs=1e-9)
    assert found.measures["individual_risk"]["expected"] == pytest.approx(sum(FRANCDAT_RISK), abs=1e-9)
    assert found.measures["individual_risk"]["records_at_risk"] == pytest.approx(3 / 8)
    own = brute.individual([row[:4] for row in FRANCDAT], [row[4] for row in FRANCDAT])
    assert own == pytest.approx(FRANCDAT_RISK, abs=1e-9)


@pytest.mark.parametrize("name", SUDA)
def test_suda_scores_of_sdcmicro(database: Database, name: str) -> None:
    text, scores, dis, contributions = SUDA[name]
    rows = [tuple(line.split()) for line in text.splitlines()]
    assert brute.suda_scores(rows) == scores
    found = measured(database, ["a", "b", "c", "d"], rows, "TEXT", suda=True, sampling_fraction=0.01).suda
    assert found is not None
    wanted = sorted((score, chance) for score, chance in zip(scores, dis, strict=True) if score)
    seen = [(item.score, item.dis) for item in found.scores for _ in range(item.records)]
    assert [score for score, _ in seen] == [score for score, _ in wanted]
    # sdcMicro computes these in single precision.
    assert [chance for _, chance in seen] == pytest.approx([chance for _, chance in wanted], rel=1e-6)
    if contributions:
        assert list(found.contributions.values()) == pytest.approx(contributions)


def test_no_sampling_fraction_no_chance() -> None:
    assert dis_scores([(6.0, 2)], 4, None, 4) == [None]
    assert dis_scores([(6.0, 2)], 4, 1.0, 4) == [1.0]  # the sample is the population

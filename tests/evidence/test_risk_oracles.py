"""Risk measures against other tools: sdcMicro 5.8.1 and ARX, whose numbers are copied here."""

from __future__ import annotations

import csv
import math
from typing import Any

import brute_risk as brute
import pytest
from conftest import Database, shared

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


KEYS = ["urbrur", "roof", "walls", "water", "electcon", "relat", "sex"]


def of_file(name: str, columns: list[str]) -> list[tuple[Any, ...]]:
    with shared("data", "sdcmicro", name).open() as file:
        return [tuple(float(row[column]) for column in columns) for row in csv.DictReader(file)]


def test_individual_and_household_risk_of_testdata(duck: Database) -> None:
    rows = of_file("testdata.csv", [*KEYS, "sampling_weight", "ori_hid"])
    path = shared("data", "sdcmicro", "testdata.csv")
    duck.run(f"CREATE TABLE t AS SELECT *, sampling_weight AS w, ori_hid AS h FROM read_csv('{path}')")
    policy = sqlanon.from_options("t", qi=KEYS, models=[("k_anonymity", {"k": 2})])
    found = risk(policy, duck.engine, weight="w", household="h")
    assert found.records == 4580
    assert found.measures["sample_uniqueness"]["uniques"] == 157
    assert found.measures["prosecutor"]["records_at_risk"] == pytest.approx(458 / 4580)  # fewer than five alike
    assert found.measures["individual_risk"]["expected"] == pytest.approx(10.778298918735, abs=1e-9)
    assert found.measures["individual_risk"]["average"] == pytest.approx(0.00235334037527, abs=1e-12)
    assert found.measures["hierarchical_risk"]["expected"] == pytest.approx(51.812927435961, abs=1e-9)
    assert found.measures["hierarchical_risk"]["average"] == pytest.approx(0.01131286625239, abs=1e-12)
    own = brute.individual([row[:7] for row in rows], [row[7] for row in rows])
    homes = brute.of_households(own, [row[8] for row in rows])
    assert own[:4] == pytest.approx([9.433072351665e-05, 9.90000990001e-05, 5.713959202331e-05, 5.713959202331e-05])
    assert homes[:5] == pytest.approx([0.0003075753108892] * 4 + [0.0008677802270604])
    assert found.measures["hierarchical_risk"]["highest"] == pytest.approx(max(homes))


def test_suda_scores_of_testdata2(duck: Database) -> None:
    rows = of_file("testdata2.csv", KEYS)
    found = measured(duck, KEYS, rows, "DOUBLE", suda=True, sampling_fraction=0.01).suda
    assert found is not None
    assert found.records == 93 and found.scores[-1].score == 744
    assert sum(item.score * item.records for item in found.scores) == 7321
    assert sum((item.dis or 0) * item.records for item in found.scores) == pytest.approx(93)
    wanted = [16.568774757547, 35.96503209944, 19.710422073487, 54.883212675864, 14.76574238492, 70.222647179347,
              32.686791421937]  # fmt: skip
    assert [100 * part for part in found.contributions.values()] == pytest.approx(wanted)
    head = [180, 18, 74, 60, 150, 4, 122, 16, 28, 16, 198, 66, 120, 12, 38, 14, 36, 8, 724, 48]
    scores = {item.score for item in found.scores}
    assert all(score in scores for score in head)


def test_arx_on_adult(duck: Database) -> None:
    path = shared("data", "adult", "adult.csv")
    duck.run(f"CREATE TABLE t AS SELECT * FROM read_csv('{path}', delim = ';')")
    names = [row[0] for row in duck.fetch("DESCRIBE t")]
    policy = sqlanon.from_options("t", qi=names, models=[("k_anonymity", {"k": 2})])
    found = risk(policy, duck.engine, sampling_fraction=0.1)
    assert found.measures["prosecutor"]["average"] == pytest.approx(0.6465751607983555, rel=1e-15)
    assert found.measures["sample_uniqueness"]["share"] == pytest.approx(0.5142895033485844, rel=1e-15)
    uniqueness = found.measures["population_uniqueness"]
    assert uniqueness["pitman"] == uniqueness["dankar"] == pytest.approx(0.27684993883653597, rel=1e-9)


def test_suda_on_adult(duck: Database) -> None:
    """All nine columns: what the search of sdcMicro, a recursion over the values of the columns, finds in them."""
    path = shared("data", "adult", "adult.csv")
    duck.run(f"CREATE TABLE t AS SELECT * FROM read_csv('{path}', delim = ';')")
    names = [row[0] for row in duck.fetch("DESCRIBE t")]
    policy = sqlanon.from_options("t", qi=names, models=[("k_anonymity", {"k": 2})])
    found = risk(policy, duck.engine, suda=True).suda
    assert found is not None and found.records == 15_512
    sizes = {1: 2, 2: 1204, 3: 14_890, 4: 26_029, 5: 15_983, 6: 4172, 7: 498, 8: 31, 9: 0}
    assert found.minimal_uniques == sizes
    assert sum(item.score * item.records for item in found.scores) == 20_402_731


@pytest.mark.long
def test_suda_on_adult_agrees_with_a_plain_search(duck: Database) -> None:
    """Five columns of Adult, set by set in Python."""
    path = shared("data", "adult", "adult.csv")
    names = ["sex", "age", "race", "education", "occupation"]
    duck.run(f"CREATE TABLE t AS SELECT {', '.join(names)} FROM read_csv('{path}', delim = ';')")
    policy = sqlanon.from_options("t", qi=names, models=[("k_anonymity", {"k": 2})])
    found = risk(policy, duck.engine, suda=True).suda
    rows = duck.fetch("SELECT * FROM t")
    unique: list[set[int]] = [set() for _ in rows]
    for chosen in sorted(range(1, 32), key=int.bit_count):
        cut = [tuple(row[place] for place in range(5) if chosen >> place & 1) for row in rows]
        counts: dict[tuple[Any, ...], int] = {}
        for key in cut:
            counts[key] = counts.get(key, 0) + 1
        for record, key in enumerate(cut):
            if counts[key] == 1 and not any(part & chosen == part for part in unique[record]):
                unique[record].add(chosen)
    scores = [sum(math.factorial(5 - chosen.bit_count()) for chosen in own) for own in unique]
    assert found is not None
    assert {item.score: item.records for item in found.scores} == {
        score: scores.count(score) for score in set(scores) if score
    }

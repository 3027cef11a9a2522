"""The similarity attack of Sun, Li and Wang 2011 on what top-down recoding releases of Adult or its look-alike."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from adult_tables import hierarchy_uses, load_adult
from conftest import Database
from recoded import opened, policy, released

from sqlanon.algorithms import top_down_recoding
from sqlanon.lattice.nodes import Infeasible
from sqlanon.lattice.solution import Solution

ATTRIBUTES = ["age", "workclass", "education", "native-country", "marital-status", "race", "sex"]
CATEGORIES = [["HIV", "Cancer"], ["Phthisis", "Hepatitis"], ["Obesity", "Asthma"], ["Flu", "Indigestion"]]
DISEASES = [disease for category in CATEGORIES for disease in category]


def recode(database: Database, asked: Any, **params: Any) -> tuple[list[dict[str, Any]], Solution, Any]:
    """The rows that top-down recoding releases, its solution, and the problem, which is closed."""
    posed = opened(database, asked)
    try:
        found = top_down_recoding.run(posed, top_down_recoding.Params(**params))
        return released(database, posed, found), found, posed
    finally:
        posed.close()


def similar(
    database: Database,
    folder: Path,
    model: dict[str, Any],
    attributes: list[str],
    records: int,
    categories: list[list[str]] = CATEGORIES,
    drawn: list[str] = DISEASES,
) -> tuple[Counter[int], Solution]:
    """Rows in classes whose diseases are all of one category, by category: the attacker learns it. Each row of the
    file, drawn again where more are asked for than there are, has a disease at random."""
    listed = ", ".join(f"'{disease}'" for disease in drawn)
    hashed = "CAST('0x' || substr(md5(CAST({} AS TEXT)), 1, 6) AS INT)"
    load_adult(database, folder)
    ((present,),) = database.fetch("SELECT count(*) FROM adult")
    database.run("CREATE OR REPLACE TABLE adult AS SELECT *, row_number() OVER () AS place FROM adult")
    again = hashed.format("'again ' || range")
    database.run(
        f"CREATE OR REPLACE TABLE t AS SELECT a.* EXCLUDE (place), ([{listed}])[1 + {hashed.format('range + 1')} % "
        f"{len(drawn)}] AS condition FROM range({records}) JOIN adult AS a ON place = CASE WHEN range < {present} "
        f"THEN range + 1 ELSE 1 + {again} % {present} END"
    )
    roles = dict.fromkeys(attributes, "quasi_identifier") | {"condition": "sensitive"}
    found, solution, _ = recode(database, policy(roles, hierarchy_uses(folder, attributes), [model]))
    of = {disease: place for place, category in enumerate(categories) for disease in category}
    regions: dict[int, list[int]] = {}
    for row in found:
        regions.setdefault(row["region"], []).append(of[row["condition"]])
    assert len(found) == records
    alike = [rows for rows in regions.values() if len(set(rows)) == 1]
    return Counter(category for rows in alike for category in rows), solution


ALPHA = {"alpha": 2, "categories": CATEGORIES, "weighting": "sensitivity", "beta": 2}


def attacked(database: Database, folder: Path, attributes: list[str], records: int) -> None:
    """Plain diversity is open to the attack, its weighted forms are not.

    The paper says so of l = 4. But four different diseases are never of one category here, since each has two; and the
    entropy over four categories reaches ln 4 only where all are equally frequent. So plain diversity is attacked at
    l = 2, where weights save the gravest category, and entropy is asked for at l = 3.
    """
    plain, better = similar(database, folder, {"distinct_l_diversity": {"l": 2}}, attributes, records)
    assert plain[0] > records / 1000
    weighted, _ = similar(database, folder, {"distinct_l_alpha_diversity": ALPHA | {"l": 2}}, attributes, records)
    assert weighted[0] == 0 and weighted.total() < plain.total()
    for model, l_ in (("distinct_l_alpha_diversity", 4), ("entropy_l_alpha_diversity", 3)):
        open_to_attack, worse = similar(database, folder, {model: ALPHA | {"l": l_}}, attributes, records)
        assert not open_to_attack and worse.loss > better.loss
    with pytest.raises(Infeasible):
        similar(database, folder, {"entropy_l_alpha_diversity": ALPHA | {"l": 4}}, attributes, records)


# The same eight diseases, of which four are graver than all others, and somewhat rarer: 11 rows of 100 have each of
# them, 14 each of the others.
GRAVE = [["HIV", "Cancer", "Phthisis", "Hepatitis"], ["Obesity"], ["Asthma"], ["Flu"], ["Indigestion"]]
DRAWN = [disease for category in GRAVE for disease in category for _ in range(14 if len(category) == 1 else 11)]


def attacked_at_four(database: Database, folder: Path, attributes: list[str], records: int) -> None:
    """4-diversity leaves rows open to the attack, distinct and entropy (4,2)-diversity leave none.

    Four different diseases are of one category only where a category has four, and an entropy of ln 4 is reached in
    practice only where there are more than four categories: so the eight diseases are grouped as 4 + 1 + 1 + 1 + 1.
    """
    asked = {"alpha": 2, "l": 4, "categories": GRAVE, "weighting": "sensitivity", "beta": 2}
    plain, better = similar(database, folder, {"distinct_l_diversity": {"l": 4}}, attributes, records, GRAVE, DRAWN)
    assert plain[0] > 0 and set(plain) == {0}
    for model in ("distinct_l_alpha_diversity", "entropy_l_alpha_diversity"):
        open_to_attack, worse = similar(database, folder, {model: asked}, attributes, records, GRAVE, DRAWN)
        assert not open_to_attack and worse.loss > better.loss

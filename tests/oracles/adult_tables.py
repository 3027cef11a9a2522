"""A folder with the table Adult as ARX has it: adult.csv and one hierarchy file for each column, separated by ';'.

Adult itself is read by the tests of tests/oracles/external alone. `write_lookalike` makes such a folder of generated
rows, so that everybody can run the same comparisons.
"""

from __future__ import annotations

import csv
import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from conftest import Database

from sqlanon.policy import Policy, parse

ADULT = ["sex", "age", "race", "marital-status", "education", "native-country", "workclass", "occupation"]
COLUMNS = [*ADULT, "salary-class"]


def hierarchy_file(folder: Path, name: str) -> Path:
    return folder / f"adult_hierarchy_{name}.csv"


def hierarchy_uses(folder: Path, names: Sequence[str]) -> dict[str, Any]:
    """The hierarchies of a policy."""
    return {name: {"csv": {"path": str(hierarchy_file(folder, name))}} for name in names}


def read_paths(folder: Path, name: str) -> list[list[str]]:
    """The lines of a hierarchy file: a value and its labels up to the root."""
    with hierarchy_file(folder, name).open(encoding="utf-8", newline="") as file:
        return list(csv.reader(file, delimiter=";"))


def read_rows(folder: Path, name: str = "adult") -> list[dict[str, str]]:
    with (folder / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter=";"))


def load_adult(duck: Database, folder: Path, table: str = "adult", name: str = "adult") -> None:
    """The file as a table of text columns, in the order of its rows."""
    path = folder / f"{name}.csv"
    duck.run(f"CREATE OR REPLACE TABLE {table} AS FROM read_csv('{path}', delim=';', all_varchar=true)")


def adult_policy(folder: Path, names: Sequence[str], sensitive: str | None, models: list[Any], **more: Any) -> Policy:
    roles = dict.fromkeys(names, "quasi_identifier") | ({sensitive: "sensitive"} if sensitive else {})
    written = {"source": {"table": "adult"}, "columns": roles, "models": models}
    return parse(json.dumps(written | {"hierarchies": hierarchy_uses(folder, list(roles))} | more))


def recode_adult(
    duck: Database, folder: Path, table: str, into: str, levels: dict[str, int], others: Sequence[str]
) -> None:
    """The table with its quasi-identifiers at these levels, by plain joins to the hierarchy files."""
    chosen, joins = [f't."{name}"' for name in others], []
    for place, (name, level) in enumerate(levels.items()):
        reader = f"read_csv('{hierarchy_file(folder, name)}', delim=';', header=false, all_varchar=true)"
        joins.append(f'JOIN {reader} h{place} ON h{place}.column0 = t."{name}"')
        chosen.append(f'h{place}.column{level} AS "{name}"')
    duck.run(f"CREATE OR REPLACE TABLE {into} AS SELECT {', '.join(chosen)} FROM {table} t {' '.join(joins)}")


# A look-alike -------------------------------------------------------------------------------------------------------

# How many values a column has, and how many of them the labels of each level have in common.
WIDTHS = {
    "sex": (2, []),
    "race": (5, []),
    "marital-status": (7, [4]),
    "education": (16, [4, 8]),
    "native-country": (41, [9]),
    "workclass": (8, [3]),
    "occupation": (14, [5]),
    "salary-class": (2, []),
}
AGES = range(17, 91)


def _paths(name: str) -> list[list[str]]:
    if name == "age":
        return [[str(age), *(f"{age - age % w}-{age - age % w + w - 1}" for w in (5, 10, 20)), "*"] for age in AGES]
    count, widths = WIDTHS[name]
    return [[f"{name} {i}", *(f"{name} of {w}: {i // w}" for w in widths), "*"] for i in range(count)]


def generate_rows(count: int, seed: int) -> list[dict[str, str]]:
    """People as a census has them: one value of most columns is frequent and many are rare, and columns depend on each
    other. `random.Random` draws the same numbers in every version of Python."""
    draw = random.Random(seed)

    def skewed(name: str, power: float) -> int:
        """A value of the column; the greater the power, the rarer the later ones."""
        return int(WIDTHS[name][0] * draw.random() ** power)

    rows = []
    for _ in range(count):
        age = 17 + int(73 * draw.random() ** 1.7)
        education = min(15, int(skewed("education", 1.4) * (0.6 if age < 22 else 1.0)))
        places = {
            "sex": int(draw.random() < 0.33),
            "race": skewed("race", 6.0),
            "marital-status": min(6, skewed("marital-status", 2.0) + (age < 25) * 3),
            "education": education,
            "native-country": skewed("native-country", 20.0),
            "workclass": skewed("workclass", 4.0),
            "occupation": (education // 2 + skewed("occupation", 1.5)) % 14,
            "salary-class": int(draw.random() < 0.1 + education / 40 + (age > 35) * 0.1),
        }
        made = {name: f"{name} {place}" for name, place in places.items()} | {"age": str(age)}
        rows.append({name: made[name] for name in COLUMNS})
    return rows


def write_lookalike(folder: Path, count: int, seed: int = 1) -> Path:
    """The files of a generated table in the folder, which is returned."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "adult.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, delimiter=";", lineterminator="\n")
        writer.writeheader()
        writer.writerows(generate_rows(count, seed))
    for name in COLUMNS:
        with hierarchy_file(folder, name).open("w", encoding="utf-8", newline="") as file:
            csv.writer(file, delimiter=";", lineterminator="\n").writerows(_paths(name))
    return folder

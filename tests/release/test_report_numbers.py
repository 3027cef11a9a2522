"""Every number of the page, computed again from the source and the release by pandas alone."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from conftest import Database
from report_page import Node, parse

from sqlanon import policy
from sqlanon.release import publish, report
from sqlanon.report import render

COLUMNS = {"age": "INTEGER", "zip": "TEXT", "sex": "TEXT", "seen": "DATE", "ill": "TEXT"}
QI = ["age", "zip", "sex", "seen"]
K = 4
POLICY = f"""
source: {{table: people}}
columns: {{age: quasi_identifier, zip: quasi_identifier, sex: quasi_identifier, seen: quasi_identifier, ill: sensitive}}
hierarchies:
  age: {{intervals: {{widths: [5, 10, 20, 40]}}}}
  zip: {{prefix: {{length: 5}}}}
  sex: {{tree: {{tree: {{"*": [female, male]}}}}}}
  seen: {{dates: {{}}}}
models:
  - k_anonymity: {{k: {K}}}
  - distinct_l_diversity: {{l: 2}}
suppression_limit: 0.05
minimize: ncp
release: {{table: shown}}
"""


def people() -> list[dict[str, Any]]:
    rng = random.Random(20)
    made = []
    for number in range(900):
        area = "101" if number % 10 else "809"  # a small town
        if number % 150 == 0:
            area = "999"  # and one where nearly nobody lives
        made.append(
            {
                "age": min(max(int(rng.gauss(50, 18)), 18), 96),
                "zip": f"{area}{rng.randrange(4)}{rng.randrange(3)}",
                "sex": rng.choice(["female", "male", "male"]),
                "seen": str(date(2025, 1, 1) + timedelta(days=rng.randrange(365))),
                "ill": rng.choice(["flu", "asthma", "migraine", "none"]),
            }
        )
    return made


def read(database: Database, name: str) -> pd.DataFrame:
    names = list(COLUMNS)
    rows = database.fetch("SELECT " + ", ".join(f"CAST({each} AS VARCHAR)" for each in names) + f" FROM {name}")
    return pd.DataFrame(rows, columns=names)


def cells(section: Node) -> list[list[str]]:
    """The body rows of the first table: each cell's own words, one space between pieces."""
    rows = section.every("tbody")[0].every("tr")
    return [[_words(cell) for cell in row.every("th", "td")] for row in rows]


def _words(node: Node) -> str:
    pieces = [child if isinstance(child, str) else _words(child) for child in node.children]
    return " ".join(" ".join(pieces).split())


def number(words: str) -> float:
    return float(words.replace(",", "").split()[0].rstrip("%"))


def sides(page: Node, column: str) -> dict[str, list[tuple[str, int]]]:
    """The folded numbers of a distribution, before and after."""
    panel = next(item for item in page.every("article") if item.every("h3")[0].text.startswith(column))
    found = {}
    for table in panel.every("details")[0].every("table"):
        side = "before" if " before" in table.every("caption")[0].text else "after"
        rows = [[_words(cell) for cell in row.every("th", "td")] for row in table.every("tbody")[0].every("tr")]
        found[side] = [(label, int(number(count))) for label, count in rows]
    return found


@pytest.fixture(
    params=["full_domain", pytest.param("{full_domain: {recode_suppressed: true}}", marks=pytest.mark.full)]
)
def made(request: pytest.FixtureRequest, database: Database, tmp_path: Path) -> tuple[Node, dict[str, Any], Database]:
    database.table("people", COLUMNS, people())
    file = tmp_path / "policy.yml"
    file.write_text(POLICY + f"algorithm: {request.param}\n", encoding="utf-8")
    given = policy.load(file)
    publish(given, database.engine)
    document = report(given, database.engine, explore=0)
    return parse(render(document)), document, database


def interval(width: int) -> Callable[[str], str]:
    return lambda age: f"[{int(age) // width * width}, {int(age) // width * width + width})"


@pytest.mark.full_on_postgres
def test_every_number_follows_from_the_tables(made: tuple[Node, dict[str, Any], Database]) -> None:
    page, _, database = made
    source, release = read(database, "people"), read(database, "shown")
    lost = len(source) - len(release)
    classes = release.groupby(QI, dropna=False).size()
    alone = source.groupby(QI, dropna=False).size()

    # The verdict
    sentence = _words(page.with_class("sentence")[0])
    assert f"{len(release)} of {len(source)} rows" in sentence and "all 2 privacy requirements hold" in sentence
    tiles = {_words(tile.every("dt")[0]): [_words(item) for item in tile.every("dd")] for tile in
             page.with_class("tiles")[0].every("div")}  # fmt: skip
    assert tiles["Rows released"][1] == f"{len(release)} of {len(source)}"
    assert number(tiles["Smallest class"][0]) == classes.min() >= K
    assert number(tiles["Highest risk of being recognized"][0]) == pytest.approx(100 / classes.min(), abs=0.05)

    # Requirements
    kinds = release.groupby(QI, dropna=False)["ill"].nunique()
    measured = [(number(row[2]), number(row[3].replace("none", "0"))) for row in cells(page.with_id("requirements"))]
    assert measured == [(classes.min(), classes.min() - K), (kinds.min(), kinds.min() - 2)]

    # Risks and class sizes
    risks = {row[0].split()[0]: row[1:] for row in cells(page.with_id("risks"))}
    assert number(risks["Average"][0]) == pytest.approx(100 * len(alone) / len(source), abs=0.06)
    assert number(risks["Average"][1]) == pytest.approx(100 * len(classes) / len(release), abs=0.06)
    assert [number(cell) for cell in risks["Unique"]] == [(alone == 1).sum(), (classes == 1).sum()]
    for label, *counts in cells(page.with_id("class-sizes")):
        low, high = (int(each) for each in (label.split("–") * 2)[:2])
        before, after = (found[(found >= low) & (found <= high)] for found in (alone, classes))
        assert [number(cell) for cell in counts] == [len(before), before.sum(), len(after), after.sum()]

    # Who was left out
    words = _words(page.with_id("suppressed"))
    assert (f"{lost} of {len(source)} rows" if lost else "No row was suppressed") in words
    assert f"which is {len(source) // 20} rows" in words

    # Attackers: whoever knows all quasi-identifiers finds the class, and its most frequent value
    attacks = {row[0].split()[0].rstrip(":"): row[1:] for row in cells(page.with_id("attacks"))}
    guessed = source.groupby(QI, dropna=False)["ill"].agg(lambda values: values.value_counts().iloc[0] / len(values))
    sure = (guessed == 1).reindex(pd.MultiIndex.from_frame(source[QI])).sum()
    assert attacks["homogeneity"][0].split(" rows")[0].endswith(f"{sure} of {len(source)}")
    shares = release.groupby(QI, dropna=False)["ill"].agg(lambda values: values.value_counts().iloc[0] / len(values))
    assert f"at most {round(100 * shares.max(), 1):g}%" in attacks["homogeneity"][1]
    assert attacks["linkage"][0].split(" rows")[0].endswith(f"{(alone == 1).sum()} of {len(source)}")


@pytest.mark.full
def test_distributions_count_the_source_and_the_release_in_the_same_bins(
    made: tuple[Node, dict[str, Any], Database],
) -> None:
    page, document, database = made
    source, release = read(database, "people"), read(database, "shown")
    passes = document["plan"]["passes"]
    for column in QI:
        shown = sides(page, column)
        found = document["distributions"][column]
        if "after" in shown:
            assert [label for label, _ in shown["before"]] == [label for label, _ in shown["after"]]
        assert len(shown["before"]) <= 24
        if column == "sex":
            counted = source["sex"].value_counts()
            assert dict(shown["before"]) == dict(counted)
        else:
            labels = [label for label, _ in shown["before"]]
            assert labels == sorted(labels, key=lambda label: [int(each) if each.isdigit() else each for each in
                                    label.replace("[", "").replace(")", "").split(", ")])  # fmt: skip
        assert sum(records for _, records in shown["before"]) <= len(source)
        if not found["before_more"]:
            assert sum(records for _, records in shown["before"]) == len(source)
            assert sum(records for _, records in found["suppressed"]) == len(source) - len(release)
        if len(passes) == 1:
            # One level for all rows: what is not left out is in the release.
            gone = dict(found["suppressed"])
            if found["after"]:
                assert {label: records - gone[label] for label, records in shown["before"]} == dict(shown["after"])
    for label, records in sides(page, "age")["before"]:
        low, high = (int(each) for each in label.strip("[)").split(", "))
        ages = source["age"].astype(int)
        assert records == ((ages >= low) & (ages < high)).sum()
    for label, records in sides(page, "zip")["before"]:
        assert records == source["zip"].str.startswith(label.rstrip("*")).sum()


def test_labels_of_regions_are_spread_over_the_values_that_they_cover(duck: Database, tmp_path: Path) -> None:
    """Counted at their middle, two neighbours that were shown together looked like one value that gained all rows."""
    rng = random.Random(8)
    jobs = ["cook", "nurse", "clerk", "judge", "baker"]
    people = [
        {
            "age": rng.choice([None] * 4 + [*range(20, 60)]),
            "job": rng.choice(jobs),
            "area": f"{rng.choice([101, 107, 200])}{n % 4}",
        }
        for n in range(300)
    ]
    duck.table("crowd", {"age": "INTEGER", "job": "TEXT", "area": "TEXT"}, people)
    tree = {"cook": "kitchen", "baker": "kitchen", "nurse": "ward", "clerk": "desk", "judge": "desk"}
    file = tmp_path / "policy.yml"
    file.write_text(
        "source: {table: crowd}\ncolumns: {age: quasi_identifier, job: quasi_identifier, area: quasi_identifier}\n"
        "hierarchies: {age: {intervals: {widths: [10]}}, area: {prefix: {length: 4}}, "
        'job: {tree: {tree: {"*": {kitchen: [cook, baker], ward: [nurse], desk: [clerk, judge]}}}}}\n'
        "models: [{k_anonymity: {k: 6}}]\nalgorithm: mondrian\nrelease: {table: shown}\n",
        encoding="utf-8",
    )
    given = policy.load(file)
    publish(given, duck.engine)
    page = parse(render(report(given, duck.engine, explore=0, attacked=False)))
    names = ["age", "job", "area"]
    source, release = (
        pd.DataFrame(duck.fetch(f"SELECT CAST(age AS TEXT), job, area FROM {table}"), columns=names, dtype=object)
        for table in ("crowd", "shown")
    )

    def covered(column: str, label: str | None) -> list[str | None]:
        """The values of the source below a label, each once."""
        values = sorted(set(source[column]), key=lambda value: (value is None, value or ""))
        parts: list[str] = [] if label is None else re.findall(r"\[[^]]*\]|[^,{} ]+", label)
        found = [value for value in values if value is None and (label is None or "NULL" in parts)]
        for part in parts:
            ends = part.strip("[]").split(", ") if part.startswith("[") else [part, part]
            found += [value for value in values if value is not None and
                      (tree.get(value) == part if part in tree.values() else ends[0] <= value <= ends[1])]  # fmt: skip
        return found

    for column in names:
        wide = [label for label in release[column] if len(covered(column, label)) > 1]
        assert wide
        expected: Counter[str] = Counter()
        for label in release[column]:
            for value in (values := covered(column, label)):
                shown = "∅ NULL" if value is None else value
                if column == "age" and value is not None:
                    shown = interval(10)(value)
                expected[shown] += 1 / len(values)
        shown_after = dict(sides(page, column)["after"])
        assert set(shown_after) == set(expected)
        for label, records in shown_after.items():
            assert abs(records - expected[label]) <= 0.5 + 1e-6, (column, label)


def test_who_was_left_out_follows_from_the_rows(duck: Database, tmp_path: Path) -> None:
    """With exact zip codes beside an id that nobody sees, each suppressed row is known to pandas."""
    rows = [{"zip": area, "ill": f"ill {n % 5}"} for area, many in (("A1", 40), ("A2", 37), ("B1", 9), ("C1", 3))
            for n in range(many)]  # fmt: skip
    duck.table("towns", {"zip": "TEXT", "ill": "TEXT"}, rows)
    file = tmp_path / "policy.yml"
    file.write_text(
        "source: {table: towns}\ncolumns: {zip: quasi_identifier, ill: sensitive}\n"
        "models: [{k_anonymity: {k: 5}}]\nsuppression_limit: 0.1\nrelease: {table: shown}\nminimize: ncp\n",
        encoding="utf-8",
    )
    given = policy.load(file)
    publish(given, duck.engine)
    page = parse(render(report(given, duck.engine, explore=0, attacked=False)))
    kept = pd.DataFrame(duck.fetch("SELECT zip FROM shown"), columns=["zip"])["zip"].value_counts()
    assert dict(kept) == {"A1": 40, "A2": 37, "B1": 9}
    # C1 has fewer than k rows, and B1 would tell how many: both stay unnamed.
    assert sides(page, "zip") == {"before": [("A1", 40), ("A2", 37)], "after": [("A1", 40), ("A2", 37)]}
    assert "They have rare values" in _words(page.with_id("suppressed"))
    assert "B1" not in render(report(given, duck.engine, explore=0, attacked=False))


@pytest.mark.full
def test_a_release_of_many_columns_has_a_report(duck: Database, tmp_path: Path) -> None:
    """The lattice of 18 columns has more nodes than memory: a search of it would not end."""
    rng = random.Random(18)
    names = [f"c{place}" for place in range(18)]
    rows = [{name: rng.randrange(6) for name in names} | {"ill": rng.choice("abc")} for _ in range(200)]
    duck.table("wide", dict.fromkeys(names, "INTEGER") | {"ill": "TEXT"}, rows)
    widths = "{intervals: {widths: [2, 4, 8, 16]}}"
    lines = [f"columns: {{ill: sensitive, {', '.join(f'{name}: quasi_identifier' for name in names)}}}",
             f"hierarchies: {{{', '.join(f'{name}: {widths}' for name in names)}}}"]  # fmt: skip
    file = tmp_path / "policy.yml"
    file.write_text(
        "source: {table: wide}\nmodels: [{k_anonymity: {k: 3}}]\nsuppression_limit: 0.2\nalgorithm: mondrian\n"
        "release: {table: shown}\n" + "\n".join(lines),
        encoding="utf-8",
    )
    given = policy.load(file)
    publish(given, duck.engine)
    document = report(given, duck.engine, explore=5, attacked=False)
    page = parse(render(document))
    assert "map" not in document and "privacy requirement holds" in _words(page.with_id("verdict"))
    assert len(page.with_id("columns").every("tbody")[0].every("tr")) == 18

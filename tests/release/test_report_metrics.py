"""The losses, attacks, advantages, risk measures and workload errors of a report, computed again in plain Python.

Nothing here is taken from sqlanon but the report itself, and the questions of the workload, which are random: they are
answered by counting.
"""

from __future__ import annotations

import hashlib
import itertools
import math
import random
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from conftest import Database
from report_page import Node, parse
from test_report_numbers import COLUMNS, POLICY, QI, K, cells, people, read

from sqlanon import policy
from sqlanon.engines import connect
from sqlanon.evidence.workload import draw
from sqlanon.release import publish, report
from sqlanon.report import render

HEIGHTS = {"age": 5, "zip": 5, "sex": 1, "seen": 5}
WIDTHS = [5, 10, 20, 40]  # of intervals of age
Labels = tuple[str, ...]
Row = dict[str, str]


def label(column: str, value: str, level: int) -> str:
    if level == HEIGHTS[column]:
        return "*"
    if level == 0:
        return value
    if column == "age":
        low = int(value) // WIDTHS[level - 1] * WIDTHS[level - 1]
        return f"[{low}, {low + WIDTHS[level - 1]})"
    if column == "zip":
        return value[: 5 - level] + "*" * level
    year, month = value[:4], int(value[5:7])
    return [f"{year}-{month:02}", f"{year}-Q{(month + 2) // 3}", year, f"{year[:3]}0s"][level - 1]


@dataclass
class Tables:
    """The source, what each of its rows looks like on the levels of the release, and which of them are in it."""

    source: list[Row]
    labels: list[Labels]  # of each row of the source, suppressed or not
    levels: Mapping[str, int]

    def __post_init__(self) -> None:
        self.sizes = Counter(self.labels)
        self.values: dict[Labels, Counter[str]] = defaultdict(Counter)
        for own, row in zip(self.labels, self.source, strict=True):
            self.values[own][row["ill"]] += 1
        self.kept = {own for own in self.sizes if self.sizes[own] >= K and len(self.values[own]) >= 2}
        self.released = [
            (own, row["ill"]) for own, row in zip(self.labels, self.source, strict=True) if own in self.kept
        ]
        self.domain = {column: sorted({row[column] for row in self.source}) for column in QI}
        self.leaves = {
            column: Counter(label(column, value, self.levels[column]) for value in self.domain[column]) for column in QI
        }
        self.whole = Counter(row["ill"] for row in self.source)

    @property
    def lost(self) -> int:
        return len(self.source) - len(self.released)


def tables_of(source: list[Row], levels: Mapping[str, int]) -> Tables:
    return Tables(source, [tuple(label(name, row[name], levels[name]) for name in QI) for row in source], levels)


Made = tuple[Node, dict[str, Any], Tables]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Made]:
    """One report serves all tests on DuckDB."""
    database = Database(connect(":memory:"))
    yield gather(database, tmp_path_factory.mktemp("report"))
    database.engine.close()


def gather(database: Database, folder: Path) -> Made:
    database.table("people", COLUMNS, people())
    file = folder / "policy.yml"
    file.write_text(POLICY + "algorithm: full_domain\n", encoding="utf-8")
    given = policy.load(file)
    publish(given, database.engine)
    document = report(given, database.engine, explore=0)
    source = [{name: str(value) for name, value in row.items()} for row in read(database, "people").to_dict("records")]
    shown = read(database, "shown")
    # The levels, as the labels show them.
    levels = {
        name: next(
            level
            for level in range(HEIGHTS[name] + 1)
            if set(shown[name]) <= {label(name, row[name], level) for row in source}
        )
        for name in QI
    }
    tables = tables_of(source, levels)
    rows = Counter((*(getattr(row, name) for name in QI), row.ill) for row in shown.itertuples())
    assert rows == Counter((*own, ill) for own, ill in tables.released) and tables.lost > 0
    return parse(render(document)), document, tables


# Loss -----------------------------------------------------------------------------------------------------------------


def losses(tables: Tables) -> dict[str, float]:
    source, released, lost, levels = tables.source, tables.released, tables.lost, tables.levels
    records = len(source)
    open_ = {
        name: [tables.leaves[name][own[axis]] - 1 for own, _ in released] for axis, name in enumerate(QI)
    }  # leaves that each label leaves open beside the true one
    domain = {name: len(values) for name, values in tables.domain.items()}
    share = {name: (sum(open_[name]) / (domain[name] - 1) + lost) / records for name in QI}
    entropy, spread = 0.0, 0.0
    for axis, name in enumerate(QI):
        of_label, of_value = Counter(own[axis] for own in tables.labels), Counter(row[name] for row in source)
        for own, row in zip(tables.labels, source, strict=True):
            entropy += math.log2(of_label[own[axis]] / of_value[row[name]])
        hidden = Counter(own[axis] for own in tables.labels if own not in tables.kept)
        entropy += sum(count * math.log2(hidden.total() / count) for count in hidden.values())
    alike = Counter(
        (own, tuple(row[name] for name in QI))
        for own, row in zip(tables.labels, source, strict=True)
        if own in tables.kept
    )
    for (own, _), count in alike.items():
        area = math.prod(tables.leaves[name][own[axis]] for axis, name in enumerate(QI))
        spread += count * math.log(count * area / tables.sizes[own])
    return {
        "ncp": sum(share.values()) / len(QI),
        "ncp_geometric": math.exp(sum(math.log(1 + loss) for loss in share.values()) / len(QI)) - 1,
        "precision": sum((len(released) * levels[name] / HEIGHTS[name] + lost) / records for name in QI) / len(QI),
        "iloss": sum((sum(open_[name]) + lost * (domain[name] - 1)) / domain[name] for name in QI),
        "height": sum(levels.values()),
        "minimal_distortion": sum(len(released) * levels[name] + lost * HEIGHTS[name] for name in QI),
        "discernibility": sum(tables.sizes[own] ** 2 for own in tables.kept) + lost * records,
        "discernibility_star": sum(size**2 for size in tables.sizes.values()),
        "aecs": records / (len(tables.kept) + 1),
        "c_avg": len(released) / len(tables.kept) / K,
        "non_uniform_entropy": entropy,
        "kl_divergence": spread / len(released),
    }


def test_losses_follow_from_the_tables(made: Made) -> None:
    page, document, tables = made
    expected = losses(tables)
    assert document["loss"] == pytest.approx(expected, rel=1e-9)
    # What is minimized stands in a table of its own, the others are folded.
    rows = [row for table in page.with_id("losses").every("table") for row in cells(table)]
    shown = {name.split(" ")[0]: loss for name, loss in rows}
    assert shown.keys() == expected.keys()
    for name, words in shown.items():
        found = float(re.sub(r"[,%]", "", words.split(" ")[0]))
        assert found == pytest.approx(expected[name] * (100 if "%" in words else 1), rel=6e-3), name


# Attacks --------------------------------------------------------------------------------------------------------------

Found = tuple[list[float], list[bool]]  # how sure the attacker is of each target, and who is broken


def top(counts: Counter[str]) -> float:
    return max(counts.values()) / counts.total()


def attribute_linkage(tables: Tables) -> Found:
    sure = [top(tables.values[own]) if own in tables.kept else 0.0 for own in tables.labels]
    return sure, [each >= 1 for each in sure]


def homogeneity(tables: Tables) -> Found:
    sure = [top(tables.values[own]) for own, _ in tables.released]
    return sure, [each >= 1 for each in sure]


def linkage(tables: Tables) -> Found:
    sure = [1 / tables.sizes[own] if own in tables.kept else 0.0 for own in tables.labels]
    return sure, [each >= 1 for each in sure]


def background_knowledge(tables: Tables) -> Found:
    sure = []
    for own, ill in tables.released:
        others = [count for value, count in tables.values[own].items() if value != ill]
        sure.append(tables.values[own][ill] / (tables.sizes[own] - max(others, default=0)))
    return sure, [each == 1 for each in sure]


def skewness(tables: Tables) -> Found:
    sure, broken = [], []
    for own, _ in tables.released:
        shares = {ill: tables.values[own][ill] / tables.sizes[own] for ill in tables.whole}
        rise, share = max((share - tables.whole[ill] / len(tables.source), share) for ill, share in shares.items())
        sure.append(share)
        broken.append(rise > 0.2 + 1e-9)
    return sure, broken


def freeform(tables: Tables) -> Found:
    sets = [chosen for count in range(len(QI) + 1) for chosen in itertools.combinations(range(len(QI)), count)]
    by_set: dict[Any, Counter[str]] = defaultdict(Counter)
    for own, ill in tables.released:
        for chosen in sets:
            by_set[chosen, tuple(own[axis] for axis in chosen)][ill] += 1
    sure = []
    for own, ill in tables.released:
        fitting = [by_set[chosen, tuple(own[axis] for axis in chosen)] for chosen in sets]
        sure.append(max(counts[ill] / counts.total() for counts in fitting))
    return sure, [each >= 1 for each in sure]


def distance_linkage(tables: Tables) -> Found:
    sure = []
    for own, row in zip(tables.labels, tables.source, strict=True):
        far = {other: sum(a != b for a, b in zip(own, other, strict=True)) for other in tables.kept}
        nearest = [other for other, distance in far.items() if distance == min(far.values())]
        right = sum(tables.values[other][row["ill"]] for other in nearest)
        sure.append(right / sum(tables.sizes[other] for other in nearest))
    return sure, [each >= 1 for each in sure]


def definetti(tables: Tables) -> Found:
    """Naive Bayes in five rounds: how often a value goes with a value of a column is counted from the beliefs."""
    first = [
        {ill: count / tables.sizes[own] for ill, count in tables.values[own].items()} if own in tables.kept else {}
        for own in tables.labels
    ]
    beliefs = first
    for _ in range(5):
        whole: Counter[str] = Counter()
        beside: list[Counter[tuple[str, str]]] = [Counter() for _ in QI]  # type: ignore[misc]
        for row, own in zip(tables.source, beliefs, strict=True):
            for ill, belief in own.items():
                whole[ill] += belief  # type: ignore[assignment]
                for axis, name in enumerate(QI):
                    beside[axis][row[name], ill] += belief  # type: ignore[assignment]
        learned = []
        for row, own in zip(tables.source, first, strict=True):
            scores = {
                ill: share
                * math.prod(
                    (beside[axis][row[name], ill] + 1) / (whole[ill] + len(tables.domain[name]))
                    for axis, name in enumerate(QI)
                )
                for ill, share in own.items()
            }
            learned.append({ill: score / sum(scores.values()) for ill, score in scores.items()})
        beliefs = learned
    sure = [own.get(row["ill"], 0.0) for row, own in zip(tables.source, beliefs, strict=True)]
    return sure, [each >= 0.9 for each in sure]


ATTACKS = [
    attribute_linkage, background_knowledge, definetti, distance_linkage, freeform, homogeneity, linkage, skewness,
]  # fmt: skip


def test_attacks_follow_from_the_tables(made: Made) -> None:
    page, document, tables = made
    found = {each["name"]: each for each in document["attacks"]["attacks"]}
    # Splink is a tool of its own; how an algorithm chooses is judged by other tests.
    assert found.keys() - {each.__name__ for each in ATTACKS} == {"minimality", "probabilistic_linkage"}
    shown = {row[0].split(" The ")[0].split(":")[0].replace(" ", "_"): row for row in cells(page.with_id("attacks"))}
    # Before, each row is as it is; k and l are not asked for.
    before = tables_of(tables.source, dict.fromkeys(QI, 0))
    before.kept, before.released = set(before.sizes), [(own, row["ill"]) for own, row in
                                                       zip(before.labels, before.source, strict=True)]  # fmt: skip
    for attack in ATTACKS:
        name = attack.__name__
        for side, given in (("before", before), ("after", tables)):
            if side == "before" and attack is distance_linkage:
                continue  # each row with each: the release tells enough
            sure, broken = attack(given)
            told = found[name][side]
            assert (told["targets"], told["broken"]) == (len(sure), sum(broken)), (name, side)
            assert told["confidence"] == pytest.approx(max(sure), abs=1e-9), (name, side)
            assert told["average"] == pytest.approx(sum(sure) / len(sure), abs=1e-9), (name, side)
            words = shown[name][1 if side == "before" else 2]
            numbers = re.search(r"(\d+) of (\d+) rows at most ([\d.]+)% mean ([\d.]+)%", words)
            assert numbers is not None
            assert [int(each) for each in numbers.groups()[:2]] == [sum(broken), len(sure)]
            percents = [100 * max(sure), 100 * sum(sure) / len(sure)]
            assert [float(each) for each in numbers.groups()[2:]] == pytest.approx(percents, rel=6e-3)


def wilson(right: float, guesses: int) -> tuple[float, float]:
    """Wilson 1927, at 95 %."""
    z = 1.959963984540054
    share, spread = right / guesses, z * z / guesses
    half = z * math.sqrt(share * (1 - share) / guesses + spread / (4 * guesses)) / (1 + spread)
    middle = (share + spread / 2) / (1 + spread)
    return middle - half, middle + half


def test_advantages_follow_from_the_tables(made: Made) -> None:
    _, document, tables = made
    found = {each["attack"]: each for each in document["attacks"]["advantages"]}
    margins = Counter(ill for _, ill in tables.released)

    def guess(counts: Counter[str]) -> str:
        """The most frequent value; of equal ones that which the release shows more often, then by their hashes."""
        return min(counts, key=lambda ill: (-counts[ill], -margins[ill], hashlib.md5(ill.encode()).hexdigest()))

    guessed, usual = {own: guess(counts) for own, counts in tables.values.items()}, guess(margins)
    linked = found["attribute_linkage"]
    assert (linked["attacked"]["guesses"], linked["targets"]) == (len(tables.released), len(tables.source))
    assert linked["attacked"]["right"] == sum(guessed[own] == ill for own, ill in tables.released)
    assert linked["by_margins"]["right"] == margins[usual]
    alone = found["linkage"]
    assert alone["attacked"]["right"] == sum(size == 1 for own, size in tables.sizes.items() if own in tables.kept)
    # Exactly one record fits, were columns independent.
    shares = [Counter(own[axis] for own, _ in tables.released) for axis in range(len(QI))]
    chance, records = 0.0, len(tables.released)
    for own in tables.labels:
        fits = math.prod(counts[each] / records for counts, each in zip(shares, own, strict=True))
        chance += records * fits * (1 - fits) ** (records - 1)
    assert alone["by_margins"]["right"] == pytest.approx(chance, rel=1e-9)
    for each in found.values():
        ends = []
        for side in ("attacked", "by_margins"):
            rate = each[side]
            assert rate["rate"] == pytest.approx(rate["right"] / rate["guesses"])
            ends.append(wilson(rate["right"], rate["guesses"]))
            assert (rate["low"], rate["high"]) == pytest.approx(ends[-1], abs=1e-9)
        (low, high), (below, above) = ends
        # Giomi et al. 2023: the middles of the intervals, and the error of their quotient.
        attacked, chance = (low + high) / 2, (below + above) / 2
        advantage = (attacked - chance) / (1 - chance)
        error = math.hypot((high - low) / 2 / (1 - chance), (above - below) / 2 * (attacked - 1) / (1 - chance) ** 2)
        least, most = advantage - error, advantage + error
        # Newcombe 1998, method 10: where the difference may be 0, so may the advantage.
        ours, theirs = each["attacked"]["rate"], each["by_margins"]["rate"]
        fall = ours - theirs - math.hypot(ours - low, above - theirs)
        rise = ours - theirs + math.hypot(high - ours, theirs - below)
        if fall <= 0 <= rise:
            least, most = min(least, fall / (1 - chance)), max(most, rise / (1 - chance))
        assert (each["advantage"], each["low"], each["high"]) == pytest.approx((advantage, least, most), abs=1e-9)


# Risks, and what readers can count ------------------------------------------------------------------------------------


def test_risk_measures_follow_from_the_tables(made: Made) -> None:
    _, document, tables = made
    found = document["risks"]["release"]
    rows, sizes = len(tables.released), {own: tables.sizes[own] for own in tables.kept}
    measures = found["measures"]
    assert measures["marketer"]["average"] == pytest.approx(len(sizes) / rows)
    assert measures["prosecutor"] == pytest.approx(
        {
            "records_at_risk": sum(size for size in sizes.values() if 1 / size > found["threshold"]) / rows,
            "highest": 1 / min(sizes.values()),
            "average": len(sizes) / rows,
        }
    )
    assert measures["sample_uniqueness"] == {"uniques": sum(size == 1 for size in sizes.values()), "share": 0.0}
    told = found["attributes"]["ill"]
    counts = {own: tables.values[own] for own in tables.kept}
    margins = Counter(ill for _, ill in tables.released)
    assert told["attribute_disclosure"]["guessed"] == pytest.approx(
        sum(max(each.values()) for each in counts.values()) / rows
    )
    assert told["attribute_disclosure"]["highest"] == pytest.approx(max(map(top, counts.values())))
    without = told["attribute_disclosure"]["guessed_without"]
    assert without == pytest.approx(max(tables.whole.values()) / len(tables.source)) or without == pytest.approx(
        max(margins.values()) / rows
    )
    assert told["ck_safety"]["0"] == pytest.approx(max(map(top, counts.values())))


def answers(tables: Tables, queries: Sequence[Any]) -> list[tuple[int, float]]:
    """How many rows of the source a query counts, and what a reader of the release makes of it."""
    ranks = {name: {value: place for place, value in enumerate(tables.domain[name], start=1)} for name in QI}
    spans: dict[tuple[str, str], list[int]] = defaultdict(list)
    for name in QI:
        for value, place in ranks[name].items():
            spans[name, label(name, value, tables.levels[name])].append(place)
    places = [[ranks[name][row[name]] for name in QI] for row in tables.source]
    found = []
    for query in queries:
        asked = list(zip(query.attributes, query.ranges, strict=True))
        actual = sum(all(low <= row[axis] <= high for axis, (low, high) in asked) for row in places)
        estimate = 0.0
        for own in tables.kept:
            share = 1.0
            for axis, (low, high) in asked:
                covered = spans[QI[axis], own[axis]]
                share *= sum(low <= place <= high for place in covered) / len(covered)
            estimate += tables.sizes[own] * share
        found.append((actual, estimate))
    return found


@pytest.mark.full
def test_errors_of_the_workload_follow_from_the_tables(made: Made) -> None:
    page, document, tables = made
    generator, told, records = random.Random(0), document["workload"], len(tables.source)
    kept: list[tuple[int, float]] = []
    while len(kept) < told["queries"]:
        missing = told["queries"] - len(kept)
        drawn = draw([len(tables.domain[name]) for name in QI], missing + missing // 20, generator)
        kept += [answer for answer in answers(tables, drawn) if answer[0] > 0]
    kept = kept[: told["queries"]]

    def error(low: float, high: float) -> float:
        errors = [abs(actual - estimate) / actual for actual, estimate in kept if low < actual < high]
        return sum(errors) / len(errors)

    expected = {"all": error(0, math.inf), "small": error(0, 0.01 * records), "large": error(0.1 * records, math.inf)}
    assert {name: told[name] for name in expected} == pytest.approx(expected, rel=1e-9)
    shown = {row[0].split(" ")[0]: float(row[1].rstrip("%")) for row in cells(page.with_id("workload"))}
    assert shown == pytest.approx({name: 100 * each for name, each in expected.items()}, rel=6e-3)


@pytest.mark.full
def test_on_postgres(postgres: Database, tmp_path: Path) -> None:
    found = gather(postgres, tmp_path)
    for follows in (
        test_losses_follow_from_the_tables, test_attacks_follow_from_the_tables, test_advantages_follow_from_the_tables,
        test_risk_measures_follow_from_the_tables, test_errors_of_the_workload_follow_from_the_tables,
    ):  # fmt: skip
        follows(found)


# What other choices would cost ----------------------------------------------------------------------------------------


@dataclass
class EveryNode:
    """All nodes of the lattice, each with its classes, counted by hand."""

    source: list[Row]

    def __post_init__(self) -> None:
        self.steps = [[[label(name, row[name], level) for row in self.source] for level in range(HEIGHTS[name] + 1)]
                      for name in QI]  # fmt: skip
        domains = [{row[name] for row in self.source} for name in QI]
        self.open: list[list[Mapping[str, float]]] = []
        for name, domain in zip(QI, domains, strict=True):
            counts = [Counter(label(name, value, level) for value in domain) for level in range(HEIGHTS[name] + 1)]
            self.open.append([{key: (leaves - 1) / (len(domain) - 1) for key, leaves in one.items()} for one in counts])

    def measure(self, node: Sequence[int], ks: Sequence[int]) -> dict[int, tuple[float, int]]:
        """For each k, the certainty penalty, and the rows in classes that are too small or have one value alone."""
        rows = list(zip(*(self.steps[axis][level] for axis, level in enumerate(node)), strict=True))
        values: dict[Labels, Counter[str]] = defaultdict(Counter)
        for own, row in zip(rows, self.source, strict=True):
            values[own][row["ill"]] += 1
        found = {}
        for k in ks:
            lost, open_ = 0, 0.0
            for own, counts in values.items():
                if counts.total() < k or len(counts) < 2:
                    lost += counts.total()
                    continue
                open_ += counts.total() * sum(self.open[axis][node[axis]][part] for axis, part in enumerate(own))
            found[k] = (open_ / len(QI) + lost) / len(rows), lost
        return found


@pytest.mark.full
def test_the_map_and_the_candidates_are_those_of_all_nodes(duck: Database, tmp_path: Path) -> None:
    """The least loss of all 432 nodes for each k and limit, where the page has what a search found."""
    duck.table("people", COLUMNS, people())
    file = tmp_path / "policy.yml"
    file.write_text(POLICY + "algorithm: full_domain\n", encoding="utf-8")
    given = policy.load(file)
    publish(given, duck.engine)
    document = report(given, duck.engine, explore=120, attacked=False)
    source = [{name: str(value) for name, value in row.items()} for row in read(duck, "people").to_dict("records")]
    every = EveryNode(source)
    points = document["map"]
    ks = sorted({point["k"] for point in points})
    assert ks[0] == K and len({point["limit"] for point in points}) == 3
    nodes = list(itertools.product(*(range(HEIGHTS[name] + 1) for name in QI)))
    measured = {node: every.measure(node, ks) for node in nodes}

    for point in points:
        k, allowed = point["k"], math.floor(point["limit"] * len(source) + 1e-9)
        least = min(loss for found in measured.values() for loss, lost in [found[k]] if lost <= allowed)
        assert point["loss"] == pytest.approx(least, rel=1e-9)
        alike = {lost for found in measured.values() for loss, lost in [found[k]] if abs(loss - least) < 1e-9}
        assert point["suppressed"] in alike
    (own,) = (point for point in points if point["chosen"])
    assert (own["k"], own["limit"], own["loss"]) == (K, 0.05, pytest.approx(document["loss"]["ncp"]))

    # The page shows each number in the cell of its k and limit.
    page = parse(render(document))
    heat = next(table for table in page.with_id("map").every("table"))
    shown = [[" ".join(cell.text.split()) for cell in row.every("td")] for row in heat.every("tbody")[0].every("tr")]
    limits = sorted({point["limit"] for point in points})
    for point in points:
        words = shown[limits.index(point["limit"])][ks.index(point["k"])]
        assert float(re.match(r"[\d.]+", words)[0]) == pytest.approx(100 * point["loss"], rel=6e-3)  # type: ignore[index]

    allowed = len(source) // 20
    assert document["candidates"]
    for candidate in document["candidates"]:
        loss, lost = measured[tuple(candidate["levels"][name] for name in QI)][K]
        assert candidate["holds"] == (lost <= allowed)
        assert candidate["suppressed"] in (None, lost)
        if candidate["holds"]:
            assert candidate["loss"] == pytest.approx(loss, rel=1e-9)
        else:  # what it would lose without suppression, which the page calls a least
            assert candidate["loss"] <= loss + 1e-9
    rows = cells(page.with_id("candidates"))
    assert all(("not met" in row[3]) == row[1].startswith("at least") for row in rows)
    assert {row[3].split()[-1] for row in rows} == {"met"} and any("not met" in row[3] for row in rows)

"""Mondrian: worked examples, a plain Python partition as the oracle, and what must hold for every partition."""

from __future__ import annotations

import itertools
import json
import math
import random
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
from conftest import Database, examples
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from read_labels import parsed, unquoted

import sqlanon
from sqlanon.algorithms import algorithm, infogain_mondrian, mondrian
from sqlanon.errors import HierarchyError, PolicyError
from sqlanon.evidence.hierarchies import build_hierarchies
from sqlanon.lattice.nodes import Infeasible
from sqlanon.lattice.pose_problem import problem
from sqlanon.lattice.problem import Problem
from sqlanon.lattice.solution import Solution
from sqlanon.regions import pack_places
from sqlanon.regions.value_orders import orders
from sqlanon.relations.source import relation

JOBS = {"*": {"Artist": ["Dancer", "Writer"], "Trade": {"Wood": ["Joiner"], "Metal": ["Smith", "Welder"]}}}
LEAVES = ["Dancer", "Writer", "Joiner", "Smith", "Welder"]
HIERARCHIES = {
    "age": {"intervals": {"widths": [5, 10, 20]}},
    "job": {"tree": {"tree": JOBS}},
    "zip": {"prefix": {"length": 3}},
}
TYPES = {"age": "INTEGER", "job": "TEXT", "zip": "TEXT", "ill": "TEXT", "pay": "TEXT", "who": "INTEGER"}
K2 = {"k_anonymity": {"k": 2}}
Row = dict[str, Any]


def asked(models: Sequence[Mapping[str, Any]], qi: Sequence[str] = ("age", "job"), **more: Any) -> sqlanon.Policy:
    columns: dict[str, Any] = dict.fromkeys(qi, "quasi_identifier") | {"ill": "sensitive", "pay": "sensitive"}
    written = {
        "source": {"table": "people"},
        "columns": columns | more.pop("columns", {}),
        "hierarchies": {name: HIERARCHIES[name] for name in qi},
        "models": list(models),
        **more,
    }
    return sqlanon.parse(json.dumps(written))


@contextmanager
def opened(database: Database, policy: sqlanon.Policy, **more: Any) -> Iterator[Problem]:
    engine = database.engine
    made = problem(policy, engine, build_hierarchies(policy), relation(policy.source, engine.dialect), **more)
    try:
        yield made
    finally:
        made.close()


def people(database: Database, rows: Sequence[Row]) -> None:
    database.table("people", TYPES, [{name: row.get(name) for name in TYPES} for row in rows])


def released(database: Database, made: Problem, found: Solution) -> list[tuple[Row, int, tuple[str | None, ...]]]:
    """Each original row with its region and labels, by way of the dictionaries."""
    assert found.regions is not None
    names = [domain.name for domain in made.domains]
    labels = {row[0]: row[1 : 1 + len(names)] for row in database.fetch(f"SELECT * FROM {found.regions.labels}")}
    keys = made.compressed.key_names
    rows = database.fetch(f"SELECT {', '.join(keys)}, region FROM {found.regions.members}")
    regions = {row[:-1]: row[-1] for row in rows}
    assert len(regions) == len(rows), "a key is in one region"
    codes: list[dict[Any, int]] = []
    for domain in made.domains:
        shifts = " + ".join(f"r{level} * {1 << shift}" for level, shift in enumerate(domain.shifts))
        codes.append(dict(database.fetch(f"SELECT original, {shifts} FROM {domain.dictionary}")))
    listed = []
    for values in database.fetch(f"SELECT {', '.join(TYPES)} FROM people"):
        row = dict(zip(TYPES, values, strict=True))
        packed = [0] * len(keys)
        for domain, known in zip(made.domains, codes, strict=True):
            packed[domain.key] += int(known[row[domain.name]])
        region = regions[tuple(packed)]
        listed.append((row, region, labels[region]))
    return listed


def partition(
    database: Database, rows: Sequence[Row], policy: sqlanon.Policy, **params: Any
) -> tuple[Solution, list[tuple[Row, int, tuple[str | None, ...]]]]:
    people(database, rows)
    with opened(database, policy) as made:
        found = mondrian.run(made, mondrian.Params(**params))
        return found, released(database, made, found)


def classes(listed: Sequence[tuple[Row, int, tuple[str | None, ...]]]) -> dict[int, list[Row]]:
    found: dict[int, list[Row]] = defaultdict(list)
    for row, region, _ in listed:
        found[region].append(row)
    return dict(found)


# The oracle: recursive, on rows, one region at a time ---------------------------------------------------------------


def places(rows: Sequence[Row], name: str) -> dict[Any, int]:
    if name == "job":
        return {None: 0} | {leaf: at for at, leaf in enumerate(LEAVES, start=1)}
    return {None: 0} | {value: at for at, value in enumerate(sorted({row[name] for row in rows} - {None}), start=1)}


def brute(rows: list[Row], names: Sequence[str], holds: Any, k: int) -> list[list[Row]]:
    lines = {name: places(rows, name) for name in names}
    leaves = {name: len(lines[name]) - 1 for name in names}

    def cut(part: list[Row], blocked: frozenset[str]) -> list[list[Row]]:
        tried: set[str] = set()
        while True:
            wide = []
            for place, name in enumerate(names):
                own = [lines[name][row[name]] for row in part]
                if name not in blocked | tried and max(own) > min(own):
                    wide.append((-(max(own) - min(own)) * (1 / (leaves[name] - 1) if leaves[name] > 1 else 1), place))
            if not wide:
                return [part]
            name = names[min(wide)[1]]
            halves = []
            for at in sorted({lines[name][row[name]] for row in part})[:-1]:
                left = [row for row in part if lines[name][row[name]] <= at]
                right = [row for row in part if lines[name][row[name]] > at]
                if min(len(left), len(right)) >= k:
                    halves.append((abs(len(left) - len(right)), at, left, right))
            if not halves:
                blocked = blocked | {name}
                continue
            _, _, left, right = min(halves, key=lambda item: item[:2])
            if holds(left) and holds(right):
                return cut(left, blocked) + cut(right, blocked)
            tried.add(name)

    return cut(rows, frozenset())


def brute_by_loss(rows: list[Row], names: Sequence[str], holds: Any, k: int) -> list[list[Row]]:
    """As `brute`, with the cuts that save most; one that a model refuses is followed by cuts at the median."""
    lines = {name: places(rows, name) for name in names}
    leaves = {name: len(lines[name]) - 1 for name in names}
    steps = {name: 1 / (leaves[name] - 1) if leaves[name] > 1 else 1.0 for name in names}

    def spread(part: list[Row], name: str) -> int:
        own = [lines[name][row[name]] for row in part]
        return max(own) - min(own)

    def cut_at(part: list[Row], name: str) -> list[tuple[int, list[Row], list[Row]]]:
        found = []
        for at in sorted({lines[name][row[name]] for row in part})[:-1]:
            left = [row for row in part if lines[name][row[name]] <= at]
            right = [row for row in part if lines[name][row[name]] > at]
            if min(len(left), len(right)) >= k:
                found.append((at, left, right))
        return found

    def median(part: list[Row], blocked: set[str]) -> list[list[Row]]:
        tried: set[str] = set()
        while wide := {name: spread(part, name) * steps[name] for name in names if name not in blocked | tried}:
            name = max(wide, key=lambda name: wide[name])
            if wide[name] <= 0:
                break
            if not (cuts := cut_at(part, name)):
                blocked = blocked | {name}
                continue
            _, left, right = min(cuts, key=lambda cut: (abs(len(cut[1]) - len(cut[2])), cut[0]))
            if holds(left) and holds(right):
                return split(left, blocked) + split(right, blocked)
            tried.add(name)
        return [part]

    def split(part: list[Row], blocked: set[str]) -> list[list[Row]]:
        while len(part) >= 2 * k:
            wide = {name: spread(part, name) * steps[name] for name in names if name not in blocked}
            widest = max(wide.values(), default=0.0)
            seen = [name for name in wide if wide[name] > 0 and wide[name] >= 0.4 * widest]
            candidates = []
            for name in seen:
                scored = []
                for at, left, right in cut_at(part, name):
                    rest = len(left) * spread(left, name) + len(right) * spread(right, name)
                    share = math.floor(rest / (len(part) * spread(part, name)) * 2**25)
                    uneven = math.floor(abs(len(left) - len(right)) / len(part) * 63)
                    scored.append((share, uneven, at, left, right))
                if scored:
                    share, _, _, left, right = min(scored, key=lambda item: item[:3])
                    candidates.append((-(2**25 - share) * wide[name], names.index(name), left, right))
                else:
                    blocked = blocked | {name}
            if not seen:
                break
            if not candidates:
                continue

            def loss(item: tuple[float, int, list[Row], list[Row]]) -> tuple[int, int, int]:
                whole = [
                    math.floor(len(half) * sum(spread(half, name) * steps[name] for name in names) * 1e6 + 0.5)
                    for half in item[2:]
                ]
                return sum(whole), max(map(len, item[2:])), item[1]

            _, _, left, right = min(sorted(candidates, key=lambda item: item[:2])[:2], key=loss)
            if holds(left) and holds(right):
                return split(left, blocked) + split(right, blocked)
            return median(part, blocked)
        return [part]

    return split(rows, set())


ORACLES = {"median": brute, "loss": brute_by_loss}


def shares(rows: Sequence[Row], name: str) -> dict[Any, float]:
    return {value: count / len(rows) for value, count in Counter(row[name] for row in rows).items()}


def distinct(rows: Sequence[Row], name: str) -> int:
    return len({row[name] for row in rows})


def perplexity(rows: Sequence[Row], name: str) -> float:
    return math.exp(-sum(share * math.log(share) for share in shares(rows, name).values()))


def distance(rows: Sequence[Row], whole: Sequence[Row], name: str) -> float:
    own, every = shares(rows, name), shares(whole, name)
    return sum(abs(own.get(value, 0) - share) for value, share in every.items()) / 2


@st.composite
def tables(draw: st.DrawFn, most: int = 24) -> list[Row]:
    ages = st.one_of(st.none(), st.integers(-20, 60))
    jobs = st.one_of(st.none(), st.sampled_from(LEAVES))
    rows = draw(
        st.lists(
            st.fixed_dictionaries(
                {
                    "age": ages,
                    "job": jobs,
                    "zip": st.sampled_from(["101", "102", "210", "a,b", "NULL"]),
                    "ill": st.sampled_from(["flu", "cold", "none"]),
                    "pay": st.sampled_from(["low", "high"]),
                }
            ),
            min_size=2,
            max_size=most,
        )
    )
    return [{**row, "who": place} for place, row in enumerate(rows)]


MODELS: dict[str, tuple[list[dict[str, Any]], int, Any]] = {
    "k": ([K2], 2, lambda part, whole: len(part) >= 2),
    "distinct l": (
        [K2, {"distinct_l_diversity": {"l": 2, "attribute": "ill"}}],
        2,
        lambda part, whole: len(part) >= 2 and distinct(part, "ill") >= 2,
    ),
    "two attributes": (
        [{"distinct_l_diversity": {"l": 2}}],
        1,
        lambda part, whole: distinct(part, "ill") >= 2 and distinct(part, "pay") >= 2,
    ),
    "entropy l": (
        [K2, {"entropy_l_diversity": {"l": 1.7, "attribute": "ill"}}],
        2,
        lambda part, whole: len(part) >= 2 and perplexity(part, "ill") >= 1.7 - 1e-9,
    ),
    "t": (
        [K2, {"t_closeness": {"t": 0.35, "attribute": "ill"}}],
        2,
        lambda part, whole: len(part) >= 2 and distance(part, whole, "ill") <= 0.35 + 1e-9,
    ),
}


@pytest.mark.full
@pytest.mark.parametrize("cut", ["loss", "median"])
@pytest.mark.parametrize("name", MODELS)
@settings(max_examples=examples(12))
@given(data=st.data())
def test_a_plain_partition_agrees_and_every_region_holds(
    duck: Database, name: str, cut: str, data: st.DataObject
) -> None:
    models, k, holds = MODELS[name]
    rows = data.draw(tables())
    if not holds(rows, rows):
        with pytest.raises(Infeasible):
            partition(duck, rows, asked(models, ["age", "job", "zip"]))
        return
    found, listed = partition(duck, rows, asked(models, ["age", "job", "zip"]), cut=cut)
    parts = classes(listed)
    assert sum(map(len, parts.values())) == len(rows) and found.suppressed == 0
    assert all(holds(part, rows) for part in parts.values())
    expected = ORACLES[cut](list(rows), ["age", "job", "zip"], lambda part: holds(part, rows), k)
    assert sorted(sorted(row["who"] for row in part) for part in parts.values()) == sorted(
        sorted(row["who"] for row in part) for part in expected
    )


def dance(seed: int, count: int = 150) -> list[Row]:
    """Rows whose columns depend on each other, as those of persons do."""
    draw = random.Random(seed)
    rows = []
    for who in range(count):
        age = min(90, int(draw.gammavariate(4, 9)))
        job = LEAVES[min(4, int(abs(draw.gauss(age / 25, 1))))]
        place = f"{draw.choice('12')}{min(9, age // 10)}{int(draw.paretovariate(2)) % 10}"
        rows.append({"age": age, "job": job, "zip": place, "ill": draw.choice("abc"), "pay": "low", "who": who})
    return rows


@pytest.mark.full
@pytest.mark.parametrize("extra", [[], [{"distinct_l_diversity": {"l": 2, "attribute": "ill"}}]])
def test_cuts_by_loss_lose_less_than_cuts_at_the_median(duck: Database, extra: list[dict[str, Any]]) -> None:
    policy = asked([{"k_anonymity": {"k": 4}}, *extra], ["age", "job", "zip"])
    losses = []
    for seed in range(6):
        own = [partition(duck, dance(seed), policy, cut=cut)[0].loss for cut in ("loss", "median")]
        assert own[0] <= own[1], seed
        losses.append(own)
    by_loss, by_median = (sum(column) for column in zip(*losses, strict=True))
    assert by_loss < 0.95 * by_median


@pytest.mark.full
def test_the_order_of_rows_changes_nothing(duck: Database) -> None:
    rows = dance(7)
    policy = asked([K2, {"distinct_l_diversity": {"l": 2, "attribute": "ill"}}], ["age", "job", "zip"])
    outcome = []
    for turned in (rows, rows[::-1], random.Random(1).sample(rows, len(rows))):
        found, listed = partition(duck, turned, policy)
        outcome.append((found.loss, sorted((row["who"], region, labels) for row, region, labels in listed)))
    assert outcome[0] == outcome[1] == outcome[2]


def groupings(rows: Sequence[Row], k: int) -> Iterator[list[list[Row]]]:
    """All ways to part rows into classes of at least k."""
    if not rows:
        yield []
        return
    first, rest = rows[0], rows[1:]
    for size in range(k - 1, len(rest) + 1):
        for others in itertools.combinations(rest, size):
            left = [row for row in rest if not any(row is other for other in others)]
            yield from ([[first, *others], *more] for more in groupings(left, k))


@settings(max_examples=examples(8))
@given(rows=tables(most=7))
def test_no_less_than_the_least_loss_of_all_groupings(duck: Database, rows: list[Row]) -> None:
    names = ["age", "job"]
    lines = {name: places(rows, name) for name in names}
    leaves = {name: len(lines[name]) - 1 for name in names}

    def loss(part: list[Row]) -> float:
        total = 0.0
        for name in names:
            own = [lines[name][row[name]] for row in part]
            # NULL among others counts as a leaf more, up to all that there are
            covered = min(max(own) - min(own) + 1, max(leaves[name], 1)) if max(own) else 1
            total += (covered - 1) / (leaves[name] - 1) if leaves[name] > 1 else 0.0
        return len(part) * total / len(names) / len(rows)

    found, listed = partition(duck, rows, asked([K2]))
    parts = list(classes(listed).values())
    assert sum(map(len, parts)) == len(rows) and min(map(len, parts)) >= 2
    assert found.loss == pytest.approx(sum(map(loss, parts)))
    assert found.loss >= min(sum(map(loss, grouping)) for grouping in groupings(rows, 2)) - 1e-9


@pytest.mark.full
@pytest.mark.parametrize(("many", "large"), [(0, 12), (0, 40)])
def test_large_regions_of_long_tables_are_cut_at_the_median(
    duck: Database, monkeypatch: pytest.MonkeyPatch, many: int, large: int
) -> None:
    rows, policy = dance(3), asked([{"k_anonymity": {"k": 4}}], ["age", "job", "zip"])
    own = [partition(duck, rows, policy, cut=cut)[0].loss for cut in ("loss", "median")]
    monkeypatch.setattr("sqlanon.regions.loss_cuts.MANY", many)
    monkeypatch.setattr("sqlanon.regions.loss_cuts.LARGE", large)
    found, listed = partition(duck, rows, policy)
    assert min(map(len, classes(listed).values())) >= 4 and len(listed) == len(rows)
    assert found.loss != pytest.approx(own[0]) and found.loss < own[1]


# Labels -------------------------------------------------------------------------------------------------------------


def nodes() -> dict[str, set[str]]:
    found: dict[str, set[str]] = {"*": set(LEAVES), "Trade": set(LEAVES[2:]), "Artist": set(LEAVES[:2])}
    return found | {"Wood": {"Joiner"}, "Metal": {"Smith", "Welder"}} | {leaf: {leaf} for leaf in LEAVES}


def covers(label: str | None, value: Any, name: str) -> bool:
    """Whether a range label stands for a value, read as a person would."""
    if value is None or label is None:
        return value is None and (label is None or label == "*" or (label[0] == "{" and parsed(label)[0] == "NULL"))
    if label.startswith("{"):
        items = parsed(label)
        return any(covers(unquoted(item), value, name) for item in items if item != "NULL" or name == "zip")
    if label.startswith("["):
        lo, hi = (unquoted(item) for item in parsed(label))
        return int(lo) <= value <= int(hi) if name == "age" else lo <= value <= hi
    return value in nodes()[label] if name == "job" else label == str(value)


@pytest.mark.full
@settings(max_examples=examples(25))
@given(rows=tables())
def test_range_labels_cover_what_they_replace(duck: Database, rows: list[Row]) -> None:
    policy = asked([K2], ["age", "job", "zip"])
    _, listed = partition(duck, rows, policy)
    boxes = {labels: region for _, region, labels in listed}
    assert len(boxes) == len({region for _, region, _ in listed}), "regions are told apart by their labels"
    for row, _, labels in listed:
        for name, label in zip(["age", "job", "zip"], labels, strict=True):
            assert covers(label, row[name], name), (label, row[name])


@settings(max_examples=examples(15))
@given(rows=tables())
def test_node_labels_are_the_lowest_that_cover_a_region(duck: Database, rows: list[Row]) -> None:
    _, listed = partition(duck, rows, asked([K2], ["job"]), ranges=False)
    members: dict[int, set[Any]] = defaultdict(set)
    for row, region, _ in listed:
        members[region].add(row["job"])
    for _, region, (label,) in listed:
        values = members[region]
        if values == {None}:
            assert label is None
        elif None in values:
            assert label == "*"
        else:
            assert label is not None and nodes()[label] >= values
            assert not any(own >= values and own < nodes()[label] for own in nodes().values())


def labels_of(database: Database, rows: Sequence[Row], qi: Sequence[str], **params: Any) -> set[tuple[Any, ...]]:
    _, listed = partition(database, rows, asked([K2], qi), **params)
    return {labels for _, _, labels in listed}


@pytest.mark.full
def test_labels(database: Database) -> None:
    def ages(*values: int | None) -> list[Row]:
        return [{"age": value, "job": "Dancer"} for value in values]

    def jobs(*values: str | None) -> list[Row]:
        return [{"age": 1, "job": value} for value in values]

    assert labels_of(database, ages(-5, -3, 20, 29), ["age"]) == {("[-5, -3]",), ("[20, 29]",)}
    assert labels_of(database, ages(7, 7, 20, 29), ["age"]) == {("7",), ("[20, 29]",)}
    assert labels_of(database, ages(None, None, 20, 29), ["age"]) == {(None,), ("[20, 29]",)}
    assert labels_of(database, ages(None, 4, 20, 29), ["age"]) == {("{NULL, 4}",), ("[20, 29]",)}
    assert labels_of(database, ages(None, 4, 20), ["age"]) == {("{NULL, [4, 20]}",)}
    assert labels_of(database, ages(33, 34, 51, 52), ["age"], ranges=False) == {("[30, 35)",), ("[50, 55)",)}
    assert labels_of(database, jobs("Dancer", "Writer", "Joiner", "Welder"), ["job"]) == {("Artist",), ("Trade",)}
    assert labels_of(database, jobs("Writer", "Joiner", "Joiner"), ["job"]) == {("{Writer, Wood}",)}
    assert labels_of(database, jobs("Dancer", "Welder"), ["job"]) == {("*",)}
    assert labels_of(database, jobs(None, "Writer"), ["job"]) == {("{NULL, Artist}",)}
    assert labels_of(database, jobs(None, "Dancer"), ["job"]) == {("{NULL, Dancer}",)}
    assert labels_of(database, jobs(None, "Joiner"), ["job"]) == {("{NULL, Artist, Wood}",)}
    texts = [{"age": 1, "zip": value} for value in ("a,b", "a[c")]
    assert labels_of(database, texts, ["zip"]) == {('["a,b", "a[c"]',)}


def test_dates_are_ranges_too(database: Database) -> None:
    database.table("people", {"born": "DATE"}, [{"born": f"200{i}-03-0{i + 1}"} for i in range(4)])
    policy = sqlanon.parse(
        json.dumps(
            {
                "source": {"table": "people"},
                "columns": {"born": "quasi_identifier"},
                "hierarchies": {"born": {"dates": {"levels": ["month", "year"]}}},
                "models": [K2],
            }
        )
    )
    with opened(database, policy) as made:
        found = mondrian.run(made, mondrian.Params())
        assert found.regions is not None
        labels = database.fetch(f"SELECT l1, f1 FROM {found.regions.labels} ORDER BY l1")
    assert labels == [("[2000-03-01, 2001-03-02]", 2.0), ("[2002-03-03, 2003-03-04]", 2.0)]


# Loss, order, limits ------------------------------------------------------------------------------------------------


def test_loss_counts_leaves_and_weights(database: Database) -> None:
    rows = [{"age": age, "job": job} for age, job in [(1, "Dancer"), (2, "Writer"), (9, "Smith"), (9, "Welder")]]
    policy = asked([K2], columns={"job": {"role": "quasi_identifier", "weight": 3}})
    found, listed = partition(database, rows, policy)
    assert {labels for _, _, labels in listed} == {("[1, 2]", "Artist"), ("9", "Metal")}
    # age: three values occur; the job tree has five leaves, of which a range of two costs 1/4
    assert found.loss == pytest.approx((1 * (2 * 1 / 2) / 4 + 3 * 1 / 4) / 4)


@pytest.mark.full
def test_both_engines_find_the_same_twice(database: Database) -> None:
    rows = [{"age": (i * 37) % 61, "job": LEAVES[i * i % 5], "ill": f"{i % 3}"} for i in range(60)]
    policy = asked([K2, {"entropy_l_diversity": {"l": 2, "attribute": "ill"}}])
    outcome = []
    for _ in range(2):
        found, listed = partition(database, rows, policy)
        outcome.append((found.loss, sorted((row["age"], row["job"], region, labels) for row, region, labels in listed)))
    assert outcome[0] == outcome[1]
    expected = brute_by_loss(rows, ["age", "job"], lambda part: perplexity(part, "ill") >= 2 - 1e-9, 2)
    found_sizes = Counter(region for _, _, region, _ in outcome[0][1]).values()
    assert sorted(found_sizes) == sorted(map(len, expected))


@pytest.mark.full
@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize(
    ("bits", "ones", "narrow", "many"), [(62, 30, 0, 1 << 30), (62, 0, 31, 1 << 30), (8, 30, 31, 1), (8, 30, 0, 2)]
)
def test_how_places_are_packed_and_rows_sorted_changes_nothing(
    database: Database, monkeypatch: pytest.MonkeyPatch, bits: int, ones: int, narrow: int, many: int, strict: bool
) -> None:
    """Wide numbers, no ones, several numbers, and a sort in the first round, against one narrow number with ones."""
    rows = [{"age": 20 + i * 7 % 31, "job": LEAVES[i * i % 5], "zip": f"{i * 13 % 9:03}"} for i in range(90)]
    policy = asked([K2], ("age", "job", "zip"))
    usual, listed = partition(database, rows, policy) if strict else relaxed(database, rows, policy)
    monkeypatch.setattr(pack_places, "BITS", bits)
    monkeypatch.setattr(pack_places, "MOST_ONES", ones)
    monkeypatch.setattr(pack_places, "INT_BITS", narrow)
    monkeypatch.setattr("sqlanon.regions.partition.MANY_REGIONS", many)
    found, again = partition(database, rows, policy) if strict else relaxed(database, rows, policy)
    assert (found.loss, found.checks) == (usual.loss, usual.checks)
    assert sorted(again, key=str) == sorted(listed, key=str)


def relaxed(database: Database, rows: Sequence[Row], policy: sqlanon.Policy) -> tuple[Solution, list[Any]]:
    people(database, rows)
    with opened(database, policy) as made:
        found = mondrian.run(made, mondrian.Params(strict=False))
        assert found.regions is not None
        return found, database.fetch(f"SELECT * FROM {found.regions.members}")


@pytest.mark.full
def test_persons_are_counted_on_both_sides_of_a_cut(database: Database) -> None:
    # Ages 1 and 2 have four rows each, but age 1 is one person: only the cut after 2 leaves two persons on each side.
    rows = [{"age": 1, "who": 1}] * 4 + [{"age": 2, "who": 2}] * 4 + [{"age": 3, "who": who} for who in (1, 2)]
    found, listed = partition(database, rows, asked([K2], ["age"], person="who"))
    assert sorted({labels for _, _, labels in listed}) == [("3",), ("[1, 2]",)]
    by_rows, listed = partition(database, rows, asked([K2], ["age"]))
    assert len({labels for _, _, labels in listed}) == 3
    assert by_rows.loss < found.loss


@pytest.mark.full
@settings(max_examples=examples(15))
@given(rows=tables(), owners=st.lists(st.integers(0, 5), min_size=24, max_size=24))
def test_every_region_has_k_persons(duck: Database, rows: list[Row], owners: list[int]) -> None:
    owned = [{**row, "who": owner} for row, owner in zip(rows, owners, strict=False)]
    policy = asked([K2, {"distinct_l_diversity": {"l": 2, "attribute": "ill"}}], person="who")
    if distinct(owned, "who") < 2 or distinct(owned, "ill") < 2:
        with pytest.raises(Infeasible):
            partition(duck, owned, policy)
        return
    _, listed = partition(duck, owned, policy)
    for part in classes(listed).values():
        assert distinct(part, "who") >= 2 and distinct(part, "ill") >= 2


@pytest.mark.full
def test_a_blocked_dimension_is_not_the_end(database: Database) -> None:
    # The widest cut would leave one kind of illness alone on either side; the other column can be cut.
    rows = [{"age": 1 if i < 4 else 60, "job": LEAVES[i % 2], "ill": "flu" if i < 4 else "cold"} for i in range(8)]
    policy = asked([K2, {"distinct_l_diversity": {"l": 2, "attribute": "ill"}}])
    _, listed = partition(database, rows, policy)
    assert {labels for _, _, labels in listed} == {("[1, 60]", "Dancer"), ("[1, 60]", "Writer")}


def test_an_impossible_requirement(database: Database) -> None:
    people(database, [{"age": 1, "job": "Dancer"}])
    with opened(database, asked([K2])) as made, pytest.raises(Infeasible):
        mondrian.run(made, mondrian.Params())


def test_values_outside_the_hierarchy_are_refused(database: Database) -> None:
    people(database, [{"age": 1, "job": job} for job in ("Dancer", "Diver", "Diver")])
    with opened(database, asked([K2])) as made, pytest.raises(HierarchyError, match="exactly once"):
        mondrian.run(made, mondrian.Params())


def test_time_that_runs_out_leaves_a_safe_partition(duck: Database) -> None:
    people(duck, [{"age": i, "job": LEAVES[i % 5]} for i in range(40)])
    with opened(duck, asked([K2]), deadline=time.monotonic() - 1) as made:
        found = mondrian.run(made, mondrian.Params())
        assert {labels for _, _, labels in released(duck, made, found)} == {("[0, 39]", "*")}
    assert "time ran out" in found.why


def test_no_temporary_table_is_left_behind(duck: Database) -> None:
    people(duck, [{"age": i, "job": LEAVES[i % 5], "ill": f"{i % 2}"} for i in range(40)])
    policy = asked([K2, {"distinct_l_diversity": {"l": 2, "attribute": "ill"}}])
    with opened(duck, policy) as made:
        mondrian.run(made, mondrian.Params())
    assert duck.fetch("SELECT count(*) FROM duckdb_tables() WHERE temporary") == [(0,)]


def test_lookups_from_a_table_follow_the_tree(database: Database) -> None:
    rows = [{"leaf": str(i), "group_": f"g{i % 2}", "top": "*"} for i in range(8, 13)]
    database.table("bands", {"leaf": "TEXT", "group_": "TEXT", "top": "TEXT"}, rows)
    people(database, [{"zip": row["leaf"]} for row in rows])
    written = {
        "source": {"table": "people"},
        "columns": {"zip": "quasi_identifier"},
        "hierarchies": {"zip": {"table": {"table": "bands", "columns": ["leaf", "group_"]}}},
        "models": [K2],
    }
    with opened(database, sqlanon.parse(json.dumps(written))) as made:
        (order,) = orders(made)
        found = database.fetch(f"SELECT at_, value, s1, e1, f1 FROM {order.places} ORDER BY at_")
    assert [(at, value) for at, value, *_ in found] == [(1, "8"), (2, "10"), (3, "12"), (4, "9"), (5, "11")]
    assert [row[2:] for row in found] == [(1, 3, 3)] * 3 + [(4, 5, 2)] * 2
    assert order.listed


# Relaxed ------------------------------------------------------------------------------------------------------------


@settings(max_examples=examples(20))
@given(rows=tables(), k=st.integers(2, 4))
def test_relaxed_halves_are_even(duck: Database, rows: list[Row], k: int) -> None:
    people(duck, rows)
    policy = asked([{"k_anonymity": {"k": k}}])
    with opened(duck, policy) as made:
        if len(rows) < k:
            with pytest.raises(Infeasible):
                mondrian.run(made, mondrian.Params(strict=False))
            return
        found = mondrian.run(made, mondrian.Params(strict=False))
        assert found.regions is not None and found.regions.split
        parts = duck.fetch(f"SELECT k1, first, last, region FROM {found.regions.members} ORDER BY k1, first")
        sizes = dict(duck.fetch(f"SELECT k1, SUM(n)::BIGINT FROM {made.compressed.table} GROUP BY k1"))
        ranges = duck.fetch(f"SELECT region, f1, f2 FROM {found.regions.labels}")
    counted: Counter[int] = Counter()
    reached: Counter[int] = Counter()
    for key, first, last, region in parts:
        assert first == reached[key] + 1 and last >= first
        reached[key] = last
        counted[region] += last - first + 1
    assert dict(reached) == sizes
    assert all(count >= k for count in counted.values())
    for region, *leaves in ranges:
        assert counted[region] < 2 * k or leaves == [1, 1]


def test_relaxed_parts_rows_that_are_alike(database: Database) -> None:
    people(database, [{"age": age} for age in (1, 2, 2, 2, 2, 2)])
    with opened(database, asked([{"k_anonymity": {"k": 3}}], ["age"])) as made:
        found = mondrian.run(made, mondrian.Params(strict=False))
        assert found.regions is not None
        labels = database.fetch(f"SELECT l1 FROM {found.regions.labels} ORDER BY l1")
        parts = database.fetch(f"SELECT first, last FROM {found.regions.members} ORDER BY first, last")
    assert labels == [("2",), ("[1, 2]",)]
    assert parts == [(1, 1), (1, 2), (3, 5)]


def test_relaxed_refuses_what_depends_on_the_rows(database: Database) -> None:
    people(database, [{"age": age, "ill": f"{age}", "who": age} for age in (1, 2, 3)])
    for policy in (
        asked([K2, {"distinct_l_diversity": {"l": 2, "attribute": "ill"}}], ["age"]),
        asked([K2], ["age"], person="who"),
    ):
        with opened(database, policy) as made, pytest.raises(PolicyError, match="'strict: false'"):
            mondrian.run(made, mondrian.Params(strict=False))


# Models that do not hold on in unions -------------------------------------------------------------------------------


PROXIMITY = {"epsilon_m_anonymity": {"epsilon": 1, "m": 2, "attribute": "who"}}


def proximity(database: Database, numbers: Sequence[int], **params: Any) -> list[str | None]:
    """The labels of two ages in each of four regions, of which the middle ones are in the same band of five years."""
    people(
        database, [{"age": age, "who": who} for age, who in zip((10, 11, 30, 31, 32, 33, 60, 61), numbers, strict=True)]
    )
    with opened(database, asked([K2, PROXIMITY], ["age"], columns={"who": "sensitive"})) as made:
        found = mondrian.run(made, mondrian.Params(**params))
        assert found.regions is not None
        return [label for (label,) in database.fetch(f"SELECT l1 FROM {found.regions.labels} ORDER BY l1")]


@pytest.mark.full
def test_equal_labels_are_measured_together_where_unions_may_break(database: Database) -> None:
    # 0 and 5 are apart, -1 and 1 are apart; together three of the four lie around 0.
    clash = [100, 200, 0, 5, -1, 1, 300, 400]
    assert proximity(database, clash) == ["[10, 11]", "[30, 31]", "[32, 33]", "[60, 61]"]
    with pytest.raises(PolicyError, match="same labels"):
        proximity(database, clash, ranges=False)
    bands = ["[10, 15)", "[30, 35)", "[30, 35)", "[60, 65)"]
    assert proximity(database, [100, 200, 0, 5, 10, 15, 300, 400], ranges=False) == bands


# Information gain ---------------------------------------------------------------------------------------------------


def entropy(rows: Sequence[Row], name: str) -> float:
    return -sum(len(rows) * share * math.log(share) for share in shares(rows, name).values())


def foretelling(database: Database, rows: Sequence[Row], policy: sqlanon.Policy, name: str) -> list[list[Row]]:
    people(database, rows)
    params = infogain_mondrian.Params(class_attribute=name)
    with opened(database, policy, carry=[params.class_attribute]) as made:
        found = infogain_mondrian.run(made, params)
        return list(classes(released(database, made, found)).values())


@pytest.mark.full
def test_the_cut_that_tells_most_is_taken(database: Database) -> None:
    # Balance and width both speak for a cut of age, pay for one of the job.
    rows = [{"age": age, "job": LEAVES[age % 2], "pay": ("low", "high")[age % 2]} for age in range(8)]
    policy = asked([{"k_anonymity": {"k": 4}}])
    parts = foretelling(database, rows, policy, "pay")
    assert sorted(sorted(shares(part, "pay").items()) for part in parts) == [[("high", 1.0)], [("low", 1.0)]]
    by_job = foretelling(database, rows, policy, "job")
    assert all(distinct(part, "job") == 1 for part in by_job)


@pytest.mark.full
@settings(max_examples=examples(20))
@given(rows=tables())
def test_a_plain_search_for_the_most_telling_cut_agrees(duck: Database, rows: list[Row]) -> None:
    names = ["age", "job"]
    lines = {name: places(rows, name) for name in names}

    def cut(part: list[Row]) -> list[list[Row]]:
        found = []
        for place, name in enumerate(names):
            for at in sorted({lines[name][row[name]] for row in part})[:-1]:
                left = [row for row in part if lines[name][row[name]] <= at]
                right = [row for row in part if lines[name][row[name]] > at]
                if min(len(left), len(right)) >= 2:
                    unknown = round(entropy(left, "ill") + entropy(right, "ill"), 4)
                    found.append(((unknown, abs(len(left) - len(right)), place, at), left, right))
        if not found:
            return [part]
        _, left, right = min(found, key=lambda item: item[0])
        return cut(left) + cut(right)

    parts = foretelling(duck, rows, asked([K2]), "ill")
    assert sorted(sorted(row["who"] for row in part) for part in parts) == sorted(
        sorted(row["who"] for row in part) for part in cut(list(rows))
    )


@settings(max_examples=examples(10))
@given(rows=tables())
def test_telling_regions_meet_the_models(duck: Database, rows: list[Row]) -> None:
    policy = asked([K2, {"t_closeness": {"t": 0.4, "attribute": "ill"}}])
    for part in foretelling(duck, rows, policy, "pay"):
        assert len(part) >= 2 and distance(part, rows, "ill") <= 0.4 + 1e-9


def test_a_class_attribute_must_be_counted(duck: Database) -> None:
    people(duck, [{"age": 1, "job": "Dancer"}] * 3)
    with opened(duck, asked([K2])) as made, pytest.raises(PolicyError, match="did you mean 'pay'"):
        infogain_mondrian.run(made, infogain_mondrian.Params(class_attribute="pya"))
    with pytest.raises(ValidationError):
        infogain_mondrian.Params.model_validate({})


# The plug-ins --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["mondrian", "infogain_mondrian"])
def test_manual_pages(name: str) -> None:
    module = algorithm(name)
    assert module.__doc__ and "cite: " in module.__doc__
    assert all(info.description for info in module.Params.model_fields.values())

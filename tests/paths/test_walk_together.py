"""(k,δ)-anonymity: the worked example, and what is made in SQL against plain Python on random paths."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence

import brute_positions as brute
import pytest
from conftest import Database, examples
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlglot import exp

from sqlanon.errors import PolicyError
from sqlanon.paths.path_tables import PathTables
from sqlanon.paths.walk_together import (
    WalkOptions,
    attack_by_nearest_path,
    check_colocation,
    walk_together,
)
from sqlanon.sqltree.tree import alias, select, table

POINTS = {"person": "BIGINT", "moment": "DOUBLE PRECISION", "x": "DOUBLE PRECISION", "y": "DOUBLE PRECISION"}
P = [(0, 0, 0), (1, 1, 0), (2, 2, 0)]
Q = [(0, 0, 2), (1, 1, 4), (2, 2, 2)]


def with_points(database: Database, paths: Mapping[int, Sequence[brute.Point]]) -> PathTables:
    rows = [dict(zip(POINTS, (person, *point), strict=True)) for person, points in paths.items() for point in points]
    database.table("given_points", POINTS, rows)
    tables = PathTables(database.engine)
    tables.define("points", exp.select("*").from_("given_points"))
    return tables


def tracks(tables: PathTables, relation: str) -> dict[int, brute.Track]:
    found: dict[int, brute.Track] = defaultdict(dict)
    query = select("person", "tick", "x", "y", source=table(tables.name(relation)))
    for person, tick, x, y in tables.engine.query(query):
        assert tick not in found[person]
        found[person][tick] = (x, y)
    return dict(found)


def members(tables: PathTables) -> dict[int, int]:
    return dict(tables.engine.query(select("person", "leader", source=table(tables.name("clusters")))))


def publish_as_it_is(tables: PathTables) -> None:
    chosen = [alias(exp.column("person"), "path"), alias(exp.column("leader"), "group_id"), "tick", "x", "y"]
    tables.define("published", select(*chosen, source=table(tables.name("shifted"))))


def test_the_worked_example(database: Database) -> None:
    """δ = 2: at time 1 the two paths come to (1, 1) and (1, 3); nothing else moves."""
    with with_points(database, {1: P, 2: Q}) as tables:
        result = walk_together(tables, WalkOptions(k=2, delta=2, step=1, trash=0))
        assert tracks(tables, "shifted") == {
            1: {0: (0, 0), 1: (1, 1), 2: (2, 0)},
            2: {0: (0, 2), 1: (1, 3), 2: (2, 2)},
        }
        assert result.loss.distortion == result.loss.moved == 2
        publish_as_it_is(tables)
        assert check_colocation(tables, 2, 2.0).broken_groups == 0
        assert check_colocation(tables, 3, 2.0).broken_groups == 1
        assert check_colocation(tables, 2, 1.9).broken_paths == 2
        # The nearest published path is the right one for both: this is not 2-anonymity.
        assert attack_by_nearest_path(tables).certain == 2


def test_with_delta_0_all_of_a_cluster_show_their_mean(database: Database) -> None:
    with with_points(database, {1: P, 2: Q}) as tables:
        walk_together(tables, WalkOptions(k=2, delta=0, step=1, trash=0))
        shown = tracks(tables, "shifted")
        assert shown[1] == shown[2] == {0: (0, 1), 1: (1, 2), 2: (2, 1)}
        found = attack_by_nearest_path(tables)
        assert (found.targets, found.found, found.certain) == (2, 1.0, 0)


numbers = st.integers(-6, 6).map(float)
times = st.sampled_from([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 4.5, 6.0])
a_path = st.dictionaries(times, st.tuples(numbers, numbers), min_size=1, max_size=5)
some_paths = st.lists(a_path, min_size=1, max_size=9).map(
    lambda listed: {person: [(at, *xy) for at, xy in path.items()] for person, path in enumerate(listed, start=1)}
)


def assert_whole(database: Database, paths: Mapping[int, Sequence[brute.Point]], options: WalkOptions) -> bool:
    expected = {person: brute.interpolate(points, options.step) for person, points in paths.items()}
    with with_points(database, paths) as tables:
        try:
            result = walk_together(tables, options)
        except PolicyError:
            usable: dict[tuple[int, int], int] = defaultdict(int)
            for track in expected.values():
                if part := brute.cut(track, options.period):
                    usable[min(part), max(part)] += 1
            kept = sum(count for count in usable.values() if count >= options.k)
            # Refused only where cutting alone leaves out too many, or nothing is left at all.
            assert len(paths) - kept > math.floor(options.trash * len(paths) + 1e-9) or options.trash == 1
            return False
        for person, track in tracks(tables, "positions").items():
            assert track.keys() == expected[person].keys()
            assert all(math.dist(track[tick], expected[person][tick]) < 1e-9 for tick in track)
        shown, clusters = tracks(tables, "shifted"), members(tables)
        assert shown.keys() == clusters.keys()
        published = {person: (clusters[person], track) for person, track in shown.items()}
        assert brute.broken_groups(published, options.k, options.delta) == set()
        parts = {person: brute.cut(track, options.period) for person, track in expected.items()}
        assert all(track.keys() == parts[person].keys() for person, track in shown.items())
        assert len(paths) - len(shown) <= math.floor(options.trash * len(paths) + 1e-9)
        # Space translation moves a point towards the mean, no farther than it must.
        groups: dict[int, list[int]] = defaultdict(list)
        for person, pivot in clusters.items():
            groups[pivot].append(person)
        moved = 0.0
        for group in groups.values():
            for tick in parts[group[0]]:
                mean = [sum(parts[person][tick][axis] for person in group) / len(group) for axis in (0, 1)]
                for person in group:
                    away = math.dist(parts[person][tick], mean)
                    assert math.dist(shown[person][tick], mean) == pytest.approx(min(away, options.delta / 2), abs=1e-9)
                    moved += math.dist(parts[person][tick], shown[person][tick])
        assert result.loss.moved == pytest.approx(moved, abs=1e-6)
        assert result.loss.trash == len(paths) - len(shown)
        publish_as_it_is(tables)
        assert check_colocation(tables, options.k, options.delta).broken_groups == 0
        candidates: dict[tuple[int, int], int] = defaultdict(int)
        for part in parts.values():
            if part:
                candidates[min(part), max(part)] += 1
        targets = {p: part for p, part in parts.items() if part and candidates[min(part), max(part)] >= options.k}
        rates = brute.guess_rate(targets, shown)
        attacked = attack_by_nearest_path(tables)
        assert (attacked.targets, attacked.found) == (len(rates), pytest.approx(sum(rates.values())))
        return True


@settings(max_examples=examples(60))
@given(
    some_paths,
    st.integers(1, 3),
    st.sampled_from([0.0, 1.0, 4.0]),
    st.sampled_from([1.0, 0.5]),
    st.integers(1, 2),
    st.sampled_from([0.0, 0.5, 1.0]),
    st.sampled_from([None, 0.5, 20.0]),
)
def test_a_release_keeps_its_promise(
    duck: Database,
    paths: dict[int, list[brute.Point]],
    k: int,
    delta: float,
    step: float,
    period: int,
    trash: float,
    radius: float | None,
) -> None:
    assert_whole(duck, paths, WalkOptions(k, delta, step, period, trash, radius))


@pytest.mark.full_on_postgres
def test_a_release_keeps_its_promise_on_both_engines(database: Database) -> None:
    paths = {
        person: [(float(t), math.sin(person * 7 + t) * 5, math.cos(person * 3 - t) * 5) for t in range(person % 3, 6)]
        for person in range(1, 25)
    }
    assert assert_whole(database, paths, WalkOptions(3, 1.0, 0.5, 2, 0.2, 3.0))
    assert assert_whole(database, paths, WalkOptions(4, 0.0, 1.0, 3, 0.0))
    assert not assert_whole(database, paths, WalkOptions(9, 1.0, 1.0, 1, 0.0))


def test_a_release_is_the_same_on_both_engines(duck: Database, postgres: Database) -> None:
    paths = {
        person: [(float(t), math.sin(person * 5 + t) * 9, math.cos(person - t) * 9) for t in range(6)]
        for person in range(1, 31)
    }
    found = []
    for database in (duck, postgres):
        with with_points(database, paths) as tables:
            walk_together(tables, WalkOptions(4, 1.0, 1.0, trash=0.1, radius=2.0))
            found.append(members(tables))
    assert found[0] == found[1]


@pytest.mark.parametrize(
    "change",
    [
        "missing",  # one position of a path is not there
        "twice",
        "unknown",
        "far",
        "alone",
    ],
)
def test_a_check_finds_what_was_tampered_with(database: Database, change: str) -> None:
    rows: list[dict[str, float | None]] = [
        {"path": path, "group_id": 1, "tick": tick, "x": float(tick), "y": float(path) / 10}
        for path in (1, 2, 3)
        for tick in range(3)
    ]
    if change == "missing":
        del rows[0]
    elif change == "twice":
        rows.append(rows[0])
    elif change == "unknown":
        rows[0]["x"] = None
    elif change == "far":
        rows[4]["y"] = 8.0
    else:
        rows[6:] = [{**row, "group_id": 2} for row in rows[6:]]
    columns = {"path": "BIGINT", "group_id": "BIGINT", "tick": "BIGINT", "x": "DOUBLE PRECISION"}
    database.table("shown", columns | {"y": "DOUBLE PRECISION"}, rows)
    with PathTables(database.engine) as tables:
        tables.define("published", exp.select("*").from_("shown"))
        found = check_colocation(tables, 2, 0.5)
        assert found.broken_groups == 1


def test_too_fine_a_step_is_refused(duck: Database) -> None:
    with with_points(duck, {1: P, 2: Q}) as tables, pytest.raises(PolicyError, match="positions on the grid"):
        walk_together(tables, WalkOptions(2, 1.0, 1e-10))


def test_too_few_paths_at_the_same_times_are_refused(duck: Database) -> None:
    with with_points(duck, {1: P, 2: Q[:2]}) as tables, pytest.raises(PolicyError, match="fewer than 2 paths share"):
        walk_together(tables, WalkOptions(2, 1.0, 1.0))


def test_a_span_of_many_paths_is_cut_into_strips_of_near_ones(duck: Database) -> None:
    """Strips have between a quarter of the most and the most paths, and no path is lost."""
    with PathTables(duck.engine) as tables:
        source = (
            "SELECT i AS person, CAST(0 AS DOUBLE) AS moment, CAST(i * 37 % 101 AS DOUBLE) AS x, "
            "CAST(i * 53 % 97 AS DOUBLE) AS y "
            "FROM range(1, 1001) AS t(i)"
        )
        tables.define("points", exp.maybe_parse(source, dialect="duckdb"))
        tables.make("positions", "grid_positions", step=1.0)
        tables.make("spans", "path_spans", period=1, most=80)
        sizes = duck.fetch(f"SELECT span, count(*), min(paths), max(paths) FROM {tables.name('spans')} GROUP BY span")
        assert sum(count for _, count, *_ in sizes) == 1000 and len(sizes) > 10
        assert all(count == low == high and 20 <= count <= 80 for _, count, low, high in sizes)

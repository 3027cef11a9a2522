"""Perturbation tables and cell keys: the numbers of other tools, plain Python, and what the noise leaves open."""

from __future__ import annotations

import csv
import hashlib
import hmac
import itertools
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import Database, examples
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle_numbers import read_numbers
from statistical_tables import flat_table, protect_task

from sqlanon.engines import connect
from sqlanon.errors import NotReleased, PolicyError
from sqlanon.policy.files import parse_statistics
from sqlanon.policy.statistics import StatisticsPolicy
from sqlanon.policy.table_protection import CellKey
from sqlanon.release.publish_statistics import publish_statistics
from sqlanon.statistics.audit import find_intervals
from sqlanon.statistics.cell_tables import Workspace, make_cells
from sqlanon.statistics.changed_attacks import find_occupied
from sqlanon.statistics.changed_tables import box_values
from sqlanon.statistics.check_tables import attack_statistics, check_statistics
from sqlanon.statistics.keyed_values import cell_keys, look_up
from sqlanon.statistics.least_squares import LeastSquares
from sqlanon.statistics.perturbation_table import make_table, perturbation_table, read_table
from sqlanon.statistics.table_system import build_system

NUMBERS = read_numbers("statistics_cell_key")
SECRET = "a secret for the tests"


# ---- perturbation tables


def recorded_rows(table: Mapping[str, Any]) -> dict[int, dict[int, float]]:
    found: dict[int, dict[int, float]] = {}
    for i, _, p, v, _, _ in table["table"]["rows"]:
        found.setdefault(i, {})[v] = p
    return found


def entropy(shares: Sequence[float]) -> float:
    return -sum(p * math.log(p) for p in shares if p > 0)


def moments(row: Mapping[int, float]) -> tuple[float, float]:
    return sum(p * v for v, p in row.items()), sum(p * v * v for v, p in row.items())


def test_tables_are_those_of_r_where_that_keeps_the_variance() -> None:
    """ptable 1.0.0: equal in 20 of its 25 rows. In four others it misses the variance; in one it has less entropy."""
    equal, missed, less = 0, 0, 0
    for table in NUMBERS["ptables"]:
        params = table["params"]
        made = make_table(params["D"], params["V"], params["js"])
        assert made.last == max(recorded_rows(table))
        for i, theirs in recorded_rows(table).items():
            own = dict(made.row(i))
            if max(abs(own.get(v, 0) - theirs.get(v, 0)) for v in {*own, *theirs}) < 1e-5:
                equal += 1
            elif abs(moments(theirs)[1] - params["V"]) > 1e-3:
                missed += 1
            else:
                less += entropy(list(own.values())) > entropy(list(theirs.values()))
            if i:
                assert moments(own) == pytest.approx((0, params["V"]), abs=1e-6)
    assert (equal, missed, less) == (20, 3, 2)


@settings(max_examples=examples(60))
@given(st.integers(1, 8), st.integers(0, 3), st.floats(0.01, 1))
def test_the_entropy_is_greatest(d: int, js: int, share: float) -> None:
    """Mean 0, the variance asked for, and logarithms of the shares on a parabola: no other distribution is as even."""
    least = max((i * (js + 1 - i) for i in range(1, js + 1)), default=0)
    if d <= js or least >= d:
        return
    v = least + share * (d - least) * 0.98 + 0.005 * (d - least)
    made = make_table(d, v, js)
    for i in range(1, made.last + 3):
        row = dict(made.row(i))
        assert moments(row) == pytest.approx((0, v), abs=1e-6) and sum(row.values()) == pytest.approx(1)
        assert all(i + change >= 0 and not 1 <= i + change <= js and abs(change) <= d for change in row)
        points = [(x, math.log(p)) for x, p in sorted(row.items()) if p > 1e-200]
        if len(points) >= 4:
            fitted = np.polynomial.Polynomial.fit([x for x, _ in points], [y for _, y in points], 2)
            worst = max(abs(fitted(x) - y) for x, y in points)
            assert worst < 1e-5 * max(1.0, max(abs(y) for _, y in points))


def test_the_border_of_what_exists() -> None:
    """V at least i (js + 1 - i) for every i up to js, and at most D: 1, 2, 4 for js of 1, 2, 3."""
    for js, least in ((1, 1), (2, 2), (3, 4)):
        assert make_table(8, least, js).variance == pytest.approx(least)
        with pytest.raises(PolicyError, match="there is no noise of variance"):
            make_table(8, least - 0.01, js)
    assert dict(make_table(8, 4, 3).row(2)) == pytest.approx(
        {change: 0.5 if change in (-2, 2) else 0.0 for change, _ in make_table(8, 4, 3).row(2)}
    )
    assert dict(make_table(3, 3, 0).row(1)) == pytest.approx({-1: 0.75, 0: 0, 1: 0, 2: 0, 3: 0.25})
    with pytest.raises(PolicyError, match="at most 'd'"):
        make_table(3, 3.01, 0)


def test_intervals_of_keys_cover_every_key_once() -> None:
    for count, group in itertools.groupby(make_table(5, 3, 2).intervals(), key=lambda item: item[0]):
        ends = [(low, high) for _, _, low, high in group]
        assert ends[0][0] == 0 and ends[-1][1] == 2**32, count
        assert all(before[1] == after[0] for before, after in itertools.pairwise(ends))


def write_table(path: Path, rows: Sequence[Sequence[Any]], names: Sequence[str] = ("i", "v", "p")) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([names, *rows])
    return path


def test_a_table_of_a_file(tmp_path: Path) -> None:
    given_ = NUMBERS["ptables"][1]["table"]
    path = write_table(tmp_path / "noise.csv", given_["rows"], given_["columns"])
    found = perturbation_table(CellKey(ptable="noise.csv"), tmp_path)
    assert {i: dict(row) for i, row in found.rows.items()} == recorded_rows(NUMBERS["ptables"][1])
    assert (found.last, found.greatest) == (8, 5) and found.variance == pytest.approx(3, abs=1e-6)
    assert path.exists()


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([(1, 0, 0.5), (1, 1, 0.4)], "probabilities of count 1 do not add up to 1"),
        ([(1, -2, 0.5), (1, 2, 0.5)], "noise of count 1 makes negative results"),
        ([(0, 1, 1.0), (1, 0, 1.0)], "changes empty cells"),
        ([(2, 0, 1.0)], "not every count from 1"),
        ([(1, 0, 0.5), (1, 0, 0.5)], "is no distribution"),
        ([(1, 0, -0.5), (1, 1, 1.5)], "is no distribution"),
        ([(1, 0, "nan")], "is no distribution"),
        ([(1, "a", 1.0)], "noise.csv:2: this line cannot be read"),
        ([(1, 0)], "noise.csv:2: this line cannot be read"),
        ([], "not every count from 1"),
    ],
)
def test_a_file_that_is_no_table(tmp_path: Path, rows: Sequence[Sequence[Any]], said: str) -> None:
    with pytest.raises(PolicyError) as refused:
        read_table(write_table(tmp_path / "noise.csv", rows), "noise.csv")
    assert said in str(refused.value)


def test_a_file_that_is_not_there_or_has_other_columns(tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match="cannot be read: No such file"):
        read_table(tmp_path / "none.csv", "none.csv")
    with pytest.raises(PolicyError, match="no column 'v'"):
        read_table(write_table(tmp_path / "a.csv", [], ("i", "w", "p")), "a.csv")


# ---- cell keys


def people_policy(by: Sequence[str] = ("region", "branch"), **also: Any) -> StatisticsPolicy:
    data = {
        "source": {"table": "people"}, "release": {"table": "released"}, "person": "person",
        "hierarchies": {"region": {"prefix": {"length": 2}}} if "region" in by else {},
        "statistics": {"t": {"by": list(by), "rules": [{"minimum_frequency": {"n": 3}}]}},
        "protect": {"cell_key": {"d": 5, "v": 3, "js": 2}}, **also,
    }  # fmt: skip
    found = parse_statistics(json.dumps(data))
    assert found is not None
    return found


def test_cells_are_those_of_cell_key(database: Database, tmp_path: Path) -> None:
    """All 36 cells of R's cellKey 1.0.2, from the same record keys and table of noise."""
    rows = [dict(zip(NUMBERS["rows"]["columns"], row, strict=True)) for row in NUMBERS["rows"]["rows"]]
    database.table("people", {"person": "INTEGER", "region": "TEXT", "branch": "TEXT"},
                   [{"person": place, "region": row["region"], "branch": row["branch"]}
                    for place, row in enumerate(rows)])  # fmt: skip
    given_ = NUMBERS["ptables"][1]["table"]
    noise = read_table(write_table(tmp_path / "noise.csv", given_["rows"], given_["columns"]), "noise.csv")
    workspace = Workspace(database.engine)
    try:
        tables = make_cells(people_policy(), database.engine, workspace)
        item = tables.tables[0]
        keys = [(place, round(row["rkey"] * 10**8)) for place, row in enumerate(rows)]
        records = workspace.load("given", {"contributor": "integer", "record_key": "bigint"}, keys)
        made = look_up(
            workspace, item.cells, cell_keys(tables, item, records, 10**8), noise, 10**8
        )  # fmt: skip
        shown = {int(cell): int(value) for cell, value in database.fetch(f"SELECT cell, value FROM {made}")}
        columns = NUMBERS["results"][0]["table"]["columns"]
        looked = 0
        for recorded in NUMBERS["results"][0]["table"]["rows"]:
            row = dict(zip(columns, recorded, strict=True))
            region = "*" if row["region"] == "Total" else row["region"] + ("*" if len(row["region"]) == 1 else "")
            first, second = tables.dimensions
            cell = first.numbers[region] * first.stride + second.numbers[row["branch"]] * second.stride
            assert shown[cell] == row["puwc"], row
            looked += 1
        assert looked == len(shown) == 36
    finally:
        workspace.drop()


def plain_values(rows: Sequence[Mapping[str, Any]], by: Sequence[str]) -> dict[tuple[str, ...], int]:
    """What a policy with cell keys shows, by hashing each person in Python."""
    noise = make_table(5, 3, 2)
    seed = hmac.new(SECRET.encode(), f"cell_key {noise.digest}".encode(), hashlib.sha256).hexdigest()[:32] + ":"
    cells: dict[tuple[str, ...], list[str]] = {}
    for row in rows:
        paths = [(row[own], row[own][0] + "*", "*") if own == "region" else (row[own], "Total") for own in by]
        for nodes in itertools.product(*paths):
            cells.setdefault(nodes, []).append(row["person"])
    found = {}
    for nodes, people in cells.items():
        key = 0
        for person in set(people):
            digest = hashlib.md5(f"{seed}{len(person)} {person}".encode()).digest()
            key = (key + int.from_bytes(digest[:4], "little")) % 2**32
        share, change = 0.0, None
        for v, p in noise.row(len(people)):
            share += p
            if change is None and key < round(2**32 * share):
                change = v
        assert change is not None
        found[nodes] = len(people) + change
    return found


def people(count: int, seed: int, persons: int) -> list[dict[str, str]]:
    random = np.random.default_rng(seed)
    return [
        {
            "person": f"p{random.integers(persons)}", "region": str(random.choice(["N1", "N2", "S1", "S2"])),
            "branch": str(random.choice(["a", "b", "c"])),
        }
        for _ in range(count)
    ]  # fmt: skip


PEOPLE = {"person": "TEXT", "region": "TEXT", "branch": "TEXT"}


def released(database: Database, name: str = "released") -> dict[tuple[str, ...], int]:
    return {tuple(row[1:-1]): int(row[-1]) for row in database.fetch(f"SELECT * FROM {name}")}


@pytest.mark.full_on_postgres
@pytest.mark.parametrize("persons", [40, 10_000])
def test_noise_is_that_of_plain_python(database: Database, persons: int) -> None:
    """Also where people have records in several cells: in a total their key counts once."""
    rows = people(60, 5, persons)
    database.table("people", PEOPLE, rows)
    policy = people_policy()
    done = publish_statistics(policy, database.engine, secret=SECRET)
    wanted = plain_values(rows, ("region", "branch"))
    shown = released(database)
    assert {key: value for key, value in shown.items() if key in wanted} == wanted
    assert all(value == 0 for key, value in shown.items() if key not in wanted)
    changes = done.document["statistics"]["changes"]
    assert changes["changed"] > 5 and changes["greatest"] <= 5 and done.document["suppressed"] == 0
    assert 0 < changes["hellinger"]["t"] < 1 and changes["additivity_gap"] > 0
    assert check_statistics(policy, database.engine, secret=SECRET).holds
    found = check_statistics(policy, database.engine)
    assert found.holds and "without SQLANON_KEY" in found.notes[0]
    other = check_statistics(policy, database.engine, secret="another secret for the tests")
    assert not other.holds and "than SQLANON_KEY draws" in other.problems[0]


def test_the_same_people_have_the_same_noise_in_every_table(duck: Database) -> None:
    duck.table("people", PEOPLE, people(80, 3, 500))
    policy = people_policy()
    publish_statistics(policy, duck.engine, secret=SECRET)
    first = released(duck)
    alone = people_policy(("branch",), release={"table": "alone"})
    publish_statistics(alone, duck.engine, secret=SECRET)
    assert {(branch,): value for (region, branch), value in first.items() if region == "*"} == released(duck, "alone")
    again = publish_statistics(policy, duck.engine, secret=SECRET)
    assert released(duck) == first and again.document["statistics"]["changes"]["changed"] > 0


def test_a_second_draw_for_the_same_people_is_refused(duck: Database) -> None:
    duck.table("people", PEOPLE, people(80, 3, 500))
    publish_statistics(people_policy(), duck.engine, secret=SECRET)
    before = released(duck)
    with pytest.raises(NotReleased, match="shows other values"):
        publish_statistics(people_policy(protect={"cell_key": {"d": 6, "v": 3, "js": 2}}), duck.engine, secret=SECRET)
    with pytest.raises(NotReleased, match="drew its values under another key"):
        publish_statistics(people_policy(), duck.engine, secret="another secret for the tests")
    with pytest.raises(NotReleased, match="was protected by cell_key"):
        publish_statistics(people_policy(protect={"suppression": {}}), duck.engine, secret=SECRET)
    with pytest.raises(PolicyError, match="the draws of cell_key need a key of at least"):
        publish_statistics(people_policy(release={"table": "fresh"}), duck.engine)
    assert released(duck) == before
    duck.run("DELETE FROM people WHERE person = 'p1' OR region = 'N1' AND branch = 'a'")
    publish_statistics(people_policy(protect={"suppression": {}}), duck.engine, secret=SECRET)


def test_an_earlier_suppression_is_not_followed_by_noise(duck: Database) -> None:
    duck.table("people", PEOPLE, people(80, 3, 500))
    publish_statistics(people_policy(protect={"suppression": {}}), duck.engine, secret=SECRET)
    with pytest.raises(NotReleased, match="was protected by suppression"):
        publish_statistics(people_policy(), duck.engine, secret=SECRET)


# ---- attacks


def test_averaging_of_ten_breakdowns() -> None:
    """Four cells that add up to a total, in ten breakdowns, give it with variance 4 V / 10."""
    equations = [(0, [1 + 4 * place + part for part in range(4)]) for place in range(10)]
    system = build_system([8.0, *[2.0] * 40], equations)
    seen = np.ones(41, dtype=bool)
    seen[0] = False
    assert 3 * LeastSquares(system, seen).variances([0])[0] == pytest.approx(1.2, rel=1e-4)
    seen[0] = True
    assert LeastSquares(system, seen).variances([0])[0] == pytest.approx(1 / (1 + 10 / 4), rel=1e-6)


@settings(max_examples=examples(30))
@given(st.integers(0, 10**6), st.integers(2, 3), st.integers(2, 4))
def test_averaging_is_least_squares(seed: int, height: int, width: int) -> None:
    """The estimate and its variance from the leaves, by the normal equations."""
    random = np.random.default_rng(seed)
    table = flat_table(random.integers(1, 30, (height, width)).tolist())
    system = table.system()
    leaves = [table.at[f"r{i}|c{j}"] for i in range(height) for j in range(width)]
    design = np.zeros((system.cells, len(leaves)))
    for name, cell in table.at.items():
        row, column = name.split("|")
        for place, (i, j) in enumerate(itertools.product(range(height), range(width))):
            design[cell, place] = row in (f"r{i}", "Total") and column in (f"c{j}", "Total")
    shown = system.value + random.normal(0, 2, system.cells)
    averaging = LeastSquares(system, np.ones(system.cells, dtype=bool))
    wanted = design @ np.linalg.lstsq(design, shown, rcond=None)[0]
    assert averaging.estimate(shown) == pytest.approx(wanted, abs=1e-6)
    spread = np.diag(design @ np.linalg.inv(design.T @ design) @ design.T)
    found = averaging.variances(range(system.cells))
    assert [found[cell] for cell in range(system.cells)] == pytest.approx(list(spread), abs=1e-6)


@settings(max_examples=examples(25))
@given(st.lists(st.integers(0, 4), min_size=4, max_size=4), st.integers(0, 10**6))
def test_bounds_are_those_of_all_tables_that_fit(leaves: list[int], seed: int) -> None:
    """All tables of two rows and columns whose counts can be shown as they are, tried one by one."""
    random = np.random.default_rng(seed)
    policy = people_policy(protect={"cell_key": {"d": 2, "v": 1.5, "js": 1}})
    noise = make_table(2, 1.5, 1)
    table = flat_table([leaves[:2], leaves[2:]])
    shown = np.array([
        count + random.choice([v for v, _ in noise.row(count)], p=[p for _, p in noise.row(count)])
        for count in table.value
    ], dtype=np.float64)  # fmt: skip
    system = table.system(high=[math.inf if count else 0 for count in table.value])
    task = box_values(policy, protect_task(system, []), shown)
    free = [cell for cell in range(system.cells) if not system.known[cell]]
    found = find_intervals(task, np.ones(system.cells, dtype=bool), free)
    ends = {cell: noise.counts_behind(int(shown[cell])) for cell in free}
    low, high = dict.fromkeys(free, math.inf), dict.fromkeys(free, -math.inf)
    for guess in itertools.product(*(range(9) if count else (0,) for count in leaves)):
        other = flat_table([guess[:2], guess[2:]])
        if all(ends[cell] is not None and ends[cell][0] <= other.value[cell] <= ends[cell][1] for cell in free):  # type: ignore[index]
            for cell in free:
                low[cell], high[cell] = min(low[cell], other.value[cell]), max(high[cell], other.value[cell])
    for cell in free:
        assert found[cell] == pytest.approx((low[cell], high[cell]))


def test_a_total_that_differs_from_its_only_other_part_tells_that_somebody_is_there() -> None:
    table = flat_table([[7, 1]])
    task = protect_task(table.system(), [(table.at["r0|c1"], 1, 1)])
    shown = np.array(table.value, dtype=np.float64)
    shown[[table.at["r0|c1"], table.at["Total|c1"]]] = 0
    assert find_occupied(task, [shown]).broken == 1
    shown[[table.at["r0|Total"], table.at["Total|Total"]]] = 7
    assert find_occupied(task, [shown]).broken == 0


@pytest.mark.full
def test_attacks_on_a_release(duck: Database) -> None:
    duck.table("people", PEOPLE, people(60, 5, 10_000))
    policy = people_policy()
    publish_statistics(policy, duck.engine, secret=SECRET)
    found = {item.name: item for item in attack_statistics(policy, duck.engine).attacks}
    assert set(found) == {"constraints", "singleton", "holding", "averaging", "differencing"}
    assert found["constraints"].broken == 0 <= found["constraints"].exact
    assert "noise of variance 3" in found["averaging"].about
    with pytest.raises(PolicyError, match="on cell_key there are"):
        attack_statistics(policy, duck.engine, names=["outsidr"])
    # Who averages many breakdowns of hardly any noise comes too close; that is told, not hidden.
    little = people_policy(protect={"cell_key": {"d": 2, "v": 0.01}}, release={"table": "little"})
    publish_statistics(little, duck.engine, secret=SECRET)
    weak = {item.name: item for item in attack_statistics(little, duck.engine).attacks}
    assert weak["averaging"].broken > 0 and weak["averaging"].exact > 0


def test_what_confines_a_cell_too_much_is_not_shown(duck: Database) -> None:
    """Noise of at most 1 cannot leave open what a level of 2 asks for."""
    duck.table("people", PEOPLE, people(60, 5, 10_000))
    strict = {"t": {"by": ["region", "branch"], "rules": [{"minimum_frequency": {"n": 3, "level": 3}}]}}
    policy = people_policy(statistics=strict, protect={"cell_key": {"d": 1, "v": 1}})
    with pytest.raises(NotReleased, match="unsafe cells can be computed too closely by everybody"):
        publish_statistics(policy, duck.engine, secret=SECRET)
    assert duck.engine.find(["released"]) is None


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"protect": {"cell_key": {"d": 5}}}, "needs d and v, or a perturbation table"),
        ({"protect": {"cell_key": {"d": 5, "v": 3, "ptable": "a.csv"}}}, "a perturbation table and numbers"),
        ({"protect": {"cell_key": {"d": 0, "v": 3}}}, "must be"),
        ({"protect": {"cell_key": {"d": 5, "v": 3}, "suppression": {}}}, "keep one method"),
        ({"protect": {"marginals": {"epsilon": 1}}}, "noise with a privacy budget is made by the section 'marginals'"),
        ({"protect": {"dp": {"epsilon": 1}}}, "under 'marginals' in a file of its own"),
        ({"person": None}, "nobody knows whose the records"),
        ({"protect": {"cell_key": {"d": 5, "v": 3}},
          "statistics": {"t": {"by": ["region"], "of": "branch", "rules": [{"minimum_frequency": {"n": 3}}]}}},
         "cell_key changes counts"),
    ],
)  # fmt: skip
def test_policies_that_are_refused(change: dict[str, Any], said: str) -> None:
    data = {
        "source": {"table": "people"}, "release": {"table": "released"}, "person": "person",
        "statistics": {"t": {"by": ["region"], "rules": [{"minimum_frequency": {"n": 3}}]}},
        "protect": {"cell_key": {"d": 5, "v": 3}}, **change,
    }  # fmt: skip
    with pytest.raises(PolicyError) as refused:
        parse_statistics(json.dumps({key: value for key, value in data.items() if value is not None}))
    assert said in str(refused.value)


@pytest.mark.full
@settings(max_examples=examples(20))
@given(st.integers(0, 10_000), st.integers(5, 60), st.integers(4, 60))
def test_every_release_with_noise_passes_its_audit(seed: int, count: int, persons: int) -> None:
    rows = people(count, seed, persons)
    database = Database(connect(":memory:", read_only=False))
    try:
        database.table("people", PEOPLE, rows)
        policy = people_policy()
        try:
            publish_statistics(policy, database.engine, secret=SECRET)
        except NotReleased as refused:
            assert "too closely" in str(refused)
            return
        assert check_statistics(policy, database.engine, secret=SECRET).holds
        shown, wanted = released(database), plain_values(rows, ("region", "branch"))
        assert {key: shown[key] for key in wanted} == wanted
    finally:
        database.engine.close()


def test_a_table_of_noise_lies_beside_its_policy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from click.testing import CliRunner

    from sqlanon.cli import main

    folder = tmp_path / "policies"
    folder.mkdir()
    write_table(folder / "noise.csv", [(1, -1, 0.5), (1, 1, 0.5)])
    engine = connect(str(folder / "people.duckdb"), read_only=False)
    Database(engine).table("people", PEOPLE, people(60, 5, 500))
    engine.close()
    policy = {
        "source": {"database": "people.duckdb", "table": "people"}, "release": {"table": "released"},
        "person": "person", "statistics": {"t": {"by": ["branch"], "rules": [{"minimum_frequency": {"n": 3}}]}},
        "protect": {"cell_key": {"ptable": "noise.csv"}},
    }  # fmt: skip
    (folder / "policy.yml").write_text(json.dumps(policy), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SQLANON_KEY", SECRET)
    found = CliRunner().invoke(main, ["publish", "policies/policy.yml"])
    assert found.exit_code == 0 and "4 changed (100.0%)" in found.output and "1 at most" in found.output, found.output
    (folder / "noise.csv").unlink()
    gone = CliRunner().invoke(main, ["publish", "policies/policy.yml"])
    assert gone.exit_code == 2 and "the perturbation table cannot be read" in gone.output

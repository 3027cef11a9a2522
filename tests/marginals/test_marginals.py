"""Marginals with differential privacy: what is counted, what it costs, and that tables agree."""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import date, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import Database, examples
from gateway_world import EXACT, Spy, fill
from hypothesis import given, settings
from hypothesis import strategies as st
from marginals_world import COLUMNS, as_counter, counted, gate_over, reopened, section, table, visits

from sqlanon.engines import connect
from sqlanon.errors import BudgetExhausted, EngineError, PolicyError
from sqlanon.gateway import Gate
from sqlanon.gateway.price.noise import Mechanisms
from sqlanon.marginals import expected_error, joint_of, refresh
from sqlanon.marginals.axes import axes_of
from sqlanon.marginals.counting import MarginalsTask, exact_joint, noisy_counts, task_of
from sqlanon.marginals.fitting import even, fit_joint, marginal, of_all
from sqlanon.marginals.rounding import in_tree, round_joint
from sqlanon.mechanisms import Cost, Mechanism
from sqlanon.policy.marginals import Marginals

ALL = {"by_age": ["age", "sex"], "by_region": ["region", "sex"], "by_seen": ["seen", "ok"], "by_cost": ["cost", "ok"]}


def task_for(given: Marginals, gate: Gate, mechanisms: Mechanisms | None = None) -> MarginalsTask:
    return task_of(given, *axes_of(given, gate.catalog), mechanisms or gate.mechanisms)


def random() -> np.random.Generator:
    return np.random.default_rng(5)


@pytest.fixture
def engine() -> Iterator[Any]:
    made = connect(":memory:", read_only=False)
    yield made
    made.close()


# ---- what is counted


@pytest.mark.full_on_postgres
def test_without_noise_the_tables_are_plain_counts(database: Database, tmp_path: Path) -> None:
    """Values outside of bounds count as the bound, other keys and NULLs do not; empty cells are there."""
    given = section(tmp_path, "rows=1000", of=ALL)
    rows = visits(400)
    gate = gate_over(database.engine, given, tmp_path, rows, EXACT)
    done = refresh(given, gate, random=random())
    for name, columns in ALL.items():
        found = table(database.engine, name)
        assert as_counter(found) == counted(rows, given.columns, columns), name
        assert len({row[:-1] for row in found}) == len(found)
    assert [len(table(database.engine, name)) for name in ALL] == [20, 6, 6, 8]
    assert done.document["released"] == sum(counted(rows, given.columns, ["sex"]).values()) > 40


def test_times_and_whole_numbers_have_a_class_each(database: Database, tmp_path: Path) -> None:
    given = section(tmp_path, "rows=1000", of={"by_moment": ["moment"], "by_age": ["age"]}, bins={})
    rows = [row | {"user_id": 1} for row in visits(50)]
    gate = gate_over(database.engine, given, tmp_path, rows, EXACT)
    refresh(given, gate, random=random())
    days = table(database.engine, "by_moment")
    assert [row[0] for row in days] == [datetime(2026, 1, day) for day in range(1, 11)]
    present = [row for row in rows if row["age"] is not None]
    wanted = [min(int(row["moment"][8:10]), 10) for row in present]
    assert [row[1] for row in days] == [wanted.count(day) for day in range(1, 11)]
    assert [row[0] for row in table(database.engine, "by_age")] == list(range(100))


def test_a_person_counts_for_so_many_rows(database: Database, tmp_path: Path) -> None:
    given = section(tmp_path, "rows=2", of=ALL)
    rows = visits(300)
    gate = gate_over(database.engine, given, tmp_path, rows, EXACT)
    refresh(given, gate, random=random())
    bounded = counted(rows, given.columns, [], most=2)[()]
    assert bounded < sum(counted(rows, given.columns, ["sex"]).values())
    for name, columns in ALL.items():
        found, whole = as_counter(table(database.engine, name)), counted(rows, given.columns, columns)
        assert found.total() == bounded
        assert found <= whole, name


def test_one_row_a_person_by_constraint_needs_no_bound(engine: Any, tmp_path: Path) -> None:
    given = section(tmp_path)
    fill(engine, {}, COLUMNS)
    engine._connection.execute("ALTER TABLE visits ADD PRIMARY KEY (user_id)")
    task = task_for(given, reopened(engine, given, tmp_path))
    assert (task.sensitivity, task.mechanism.scale) == (2, 2.0)


# ---- how far one person moves it


@st.composite
def few_visits(draw: st.DrawFn) -> list[dict[str, Any]]:
    some = {
        "user_id": st.integers(1, 4), "age": st.sampled_from([5, 15, None]), "sex": st.sampled_from(["f", "m", "x"]),
        "region": st.sampled_from(["R0", "R1"]),
    }  # fmt: skip
    rest = {"seen": None, "ok": None, "cost": None, "moment": None, "note": None}
    return [row | rest for row in draw(st.lists(st.fixed_dictionaries(some), max_size=30))]


def replayed(given: Marginals, gate: Gate, rows: list[dict[str, Any]], who: int) -> None:
    """With and without one person: the exact counts of all marginals differ by no more than the noise is made for."""
    task = task_for(given, gate)
    seen = gate.engine.seen  # type: ignore[attr-defined]
    seen.clear()
    joints = []
    for kept in (rows, [row for row in rows if row["user_id"] != who]):
        fill(gate.engine.engine, {"visits": kept}, COLUMNS)  # type: ignore[attr-defined]
        joints.append(exact_joint(task, gate))
    ones, others = ([marginal(joint, axes) for axes in task.sets.values()] for joint in joints)
    moved = [abs(one - other) for one, other in zip(ones, others, strict=True)]
    assert all(part.sum() <= given.gateway.rows for part in moved)
    assert sum(part.sum() for part in moved) <= given.gateway.rows * len(task.sets) == task.sensitivity
    length = math.sqrt(sum(float((part**2).sum()) for part in moved))
    assert length <= given.gateway.rows * math.sqrt(len(task.sets)) + 1e-9
    assert len(seen) == 2 and seen[0] == seen[1]  # and nothing else differs


def test_neighbours(engine: Any, tmp_path: Path) -> None:
    fill(engine, {}, COLUMNS)
    sections = {most: section(tmp_path, f"rows={most}") for most in (1, 2, 5)}
    gates = {most: reopened(Spy(engine), given, tmp_path) for most, given in sections.items()}  # type: ignore[arg-type]

    @settings(max_examples=examples(25), deadline=None)
    @given(rows=few_visits(), who=st.integers(1, 4), most=st.sampled_from([1, 2, 5]))
    def neighbours(rows: list[dict[str, Any]], who: int, most: int) -> None:
        replayed(sections[most], gates[most], rows, who)

    neighbours()


def test_neighbours_on_both_engines(database: Database, tmp_path: Path) -> None:
    given = section(tmp_path, "rows=2", of={"a": ["age", "sex"], "b": ["sex"], "c": ["region"]})
    rows = [row | {"user_id": 1 + place % 5} for place, row in enumerate(visits(120))]
    fill(database.engine, {}, COLUMNS)
    replayed(given, reopened(Spy(database.engine), given, tmp_path), rows, 3)  # type: ignore[arg-type]


def test_the_scale_of_the_noise(engine: Any, tmp_path: Path) -> None:
    """K = 4 rows in each of m = 3 marginals: 12 in all for Laplace; 4 times the root of 3 for Gaussian noise."""
    of = {"a": ["age", "sex"], "b": ["sex", "region"], "c": ["ok"]}
    given = section(tmp_path, of=of, epsilon=0.5)
    fill(engine, {}, COLUMNS)
    task = task_for(given, reopened(engine, given, tmp_path))
    assert (task.sensitivity, task.mechanism.scale, task.cost.epsilon, task.cost.delta) == (12, 24.0, 0.5, 0.0)
    assert expected_error(task) == pytest.approx(23.993, abs=1e-3)
    given = section(tmp_path, "mechanism=gaussian; accounting=zcdp", of=of, epsilon=0.5)
    task = task_for(given, reopened(engine, given, tmp_path))
    log = math.log(1 / 0.5e-6)
    rho = (math.sqrt(log + 0.5) - math.sqrt(log)) ** 2
    assert task.sensitivity == pytest.approx(4 * math.sqrt(3))
    assert task.cost.rho == pytest.approx(rho, rel=1e-6) and task.cost.epsilon == pytest.approx(0.5, rel=1e-6)
    assert task.mechanism.scale == pytest.approx(4 * math.sqrt(3) / math.sqrt(2 * rho), rel=1e-6)
    assert expected_error(task) == pytest.approx(task.mechanism.scale * math.sqrt(2 / math.pi))


def test_the_noise_is_there_in_every_cell(engine: Any, tmp_path: Path) -> None:
    """Of an empty table: the mean distance from 0 is what the evidence says, in empty cells as in others."""
    given = section(tmp_path, of={"a": ["age", "seen"], "b": ["age", "sex"]}, bins={}, epsilon=0.8)
    fill(engine, {}, COLUMNS)
    task = task_for(given, reopened(engine, given, tmp_path))
    noisy = noisy_counts(task, np.zeros(task.shape, dtype=np.int64))
    assert {name: len(counts) for name, counts in noisy.items()} == {"a": 9000, "b": 200}
    assert np.abs(noisy["a"]).mean() == pytest.approx(expected_error(task), rel=0.08)  # 10 is its standard error by 7
    assert np.mean(noisy["a"]) == pytest.approx(0, abs=6 * 14.2 / math.sqrt(9000))
    assert np.corrcoef(noisy["a"][1:], noisy["a"][:-1])[0, 1] == pytest.approx(0, abs=0.06)


def fixed(noisy: list[int]) -> Mechanisms:
    """Noise that says the same whatever it is given."""
    mechanism = Mechanism(lambda values: noisy[: len(values)], Cost(1.0), 8.0)
    return Mechanisms(laplace=lambda *_: mechanism)


def test_nothing_but_the_noisy_counts_depends_on_data(engine: Any, tmp_path: Path) -> None:
    """Two databases with nothing in common, the same noisy counts: the same tables, and the same evidence."""
    given = section(tmp_path, synthetic={"table": "made_up", "rows": 500})
    noisy = np.random.default_rng(3).integers(-20, 60, 26).tolist()
    found = []
    for rows in (visits(200), []):
        gate = gate_over(engine, given, tmp_path, rows, fixed(noisy))
        done = refresh(given, gate, random=random())
        evidence = {key: value for key, value in done.document.items() if key != "created"}
        found.append(([table(engine, name) for name in given.tables], evidence, done.plan.hash))
    assert found[0] == found[1]


# ---- tables that agree


@st.composite
def measured(draw: st.DrawFn) -> tuple[tuple[int, ...], list[tuple[int, ...]], int]:
    shape = tuple(draw(st.lists(st.integers(1, 4), min_size=1, max_size=4)))
    one = st.sets(st.integers(0, len(shape) - 1), min_size=1, max_size=3).map(lambda axes: tuple(sorted(axes)))
    sets = draw(st.lists(one, min_size=1, max_size=4, unique=True))
    used = sorted({axis for axes in sets for axis in axes})
    renamed = {axis: place for place, axis in enumerate(used)}
    return (
        tuple(shape[axis] for axis in used),
        [tuple(renamed[axis] for axis in axes) for axes in sets],
        draw(st.integers(0, 2**32 - 1)),
    )


@settings(max_examples=examples(60), deadline=None)
@given(measured(), st.sampled_from([1, 20, 3000]))
def test_whatever_the_noise_the_tables_agree(case: Any, size: int) -> None:
    """Whole numbers that are not negative; each shared column has the same counts in every table, and so the total."""
    shape, sets, seed = case
    rng = np.random.default_rng(seed)
    noisy = {axes: rng.integers(-size, 2 * size + 1, [shape[a] for a in axes]).astype(float) for axes in sets}
    joint = round_joint(fit_joint(shape, noisy), sets, rng)
    assert joint.shape == shape and joint.dtype == np.int64 and (joint >= 0).all()
    for one in sets:
        for other in sets:
            shared = [axis for axis in one if axis in other]
            left = marginal(marginal(joint, one), tuple(one.index(axis) for axis in shared))
            right = marginal(marginal(joint, other), tuple(other.index(axis) for axis in shared))
            assert (left == right).all()


@settings(max_examples=examples(60), deadline=None)
@given(measured(), st.sampled_from([5, 200, 30_000]))
def test_counts_that_agree_stay_as_they_are(case: Any, size: int) -> None:
    """Where the marginals are those of a real table nothing moves, if they form a tree; else by two rows at most."""
    shape, sets, seed = case
    rng = np.random.default_rng(seed)
    cells = int(np.prod(shape))
    real = rng.multinomial(size, rng.dirichlet(np.full(cells, 0.3))).reshape(shape)
    exact = {axes: marginal(real, axes) for axes in sets}
    joint = round_joint(fit_joint(shape, {axes: counts.astype(float) for axes, counts in exact.items()}), sets, rng)
    furthest = max(int(abs(marginal(joint, axes) - counts).max()) for axes, counts in exact.items())
    assert furthest == 0 if in_tree(sets) else furthest <= 2
    assert joint.sum() == size


@settings(max_examples=examples(40), deadline=None)
@given(measured())
def test_the_fit_is_the_nearest_that_there_is(case: Any) -> None:
    """The conditions of an optimum (Karush, Kuhn and Tucker): no cell can be raised, nor lowered if it is not 0."""
    shape, sets, seed = case
    rng = np.random.default_rng(seed)
    noisy = {axes: rng.normal(5, 10, [shape[a] for a in axes]).round() for axes in sets}
    joint = fit_joint(shape, noisy)
    slope = np.zeros(shape)
    for place in np.ndindex(shape):
        for axes, counts in noisy.items():
            at = tuple(place[axis] for axis in axes)
            slope[place] += marginal(joint, axes)[at] - counts[at]
    assert (slope > -0.01).all() and (slope[joint > 0.01] < 0.01).all()


def test_what_was_not_measured_is_taken_to_be_independent() -> None:
    """Of three columns in a chain, a given b tells nothing of c; without any shared column, all are independent."""
    one, other = np.array([[30.0, 10.0], [5.0, 55.0]]), np.array([[20.0, 15.0], [45.0, 20.0]])
    joint = even((2, 2, 2), {(0, 1): one, (1, 2): other})
    for a, b, c in np.ndindex(2, 2, 2):
        assert joint[a, b, c] == pytest.approx(one[a, b] * other[b, c] / one[:, b].sum(), rel=1e-3)
    large = round_joint(np.outer([300.0, 700.0], [0.4, 0.6]), [(0,), (1,)], random())
    assert large.tolist() == [[120, 180], [280, 420]]


def test_noise_is_averaged_out_where_tables_share_a_column() -> None:
    """Both marginals tell the counts of the column they share: fitted together they are nearer to the truth."""
    rng = np.random.default_rng(11)
    alone, together = 0.0, 0.0
    for _ in range(60):
        real = rng.multinomial(50_000, rng.dirichlet(np.full(40, 1.0))).reshape(2, 4, 5)
        sets = [(0, 1), (0, 2)]
        noisy = {axes: marginal(real, axes) + rng.laplace(0, 20, marginal(real, axes).shape) for axes in sets}
        joint = round_joint(fit_joint(real.shape, noisy), sets, rng)
        alone += float(abs(noisy[0, 2].sum(axis=1) - real.sum(axis=(1, 2))).mean())
        together += float(abs(joint.sum(axis=(1, 2)) - real.sum(axis=(1, 2))).mean())
    assert together < 0.85 * alone


def test_a_cycle_is_near_and_a_tree_is_exact() -> None:
    assert in_tree([(0,), (1, 2), (0, 1)]) is not None
    assert in_tree([(0, 1), (1, 2), (2, 3), (0, 3)]) is None
    assert in_tree([(0, 1, 2), (0, 1), (1, 2), (0, 2)]) is not None
    rng = np.random.default_rng(2)
    real = rng.multinomial(20_000, rng.dirichlet(np.full(240, 0.2))).reshape(6, 8, 5).astype(float)
    sets = [(0, 1), (1, 2), (0, 2)]
    joint = round_joint(fit_joint(real.shape, of_all(real, sets)), sets, rng)
    assert max(abs(marginal(joint, axes) - marginal(real, axes)).max() for axes in sets) <= 1


def test_a_cycle_over_many_sparse_cells_is_repaired() -> None:
    """Rounded as a joint alone, 20,000 cells of half a row each are far off: rows are moved until they are not."""
    rng = np.random.default_rng(4)
    sets = [(0, 1), (1, 2), (2, 3), (0, 3)]
    real = rng.multinomial(10_000, rng.dirichlet(np.full(20_000, 0.05))).reshape(10, 10, 10, 20).astype(float)
    joint = round_joint(fit_joint(real.shape, of_all(real, sets)), sets, rng)
    assert max(abs(marginal(joint, axes) - marginal(real, axes)).max() for axes in sets) <= 2


# ---- synthetic rows


@pytest.mark.full_on_postgres
def test_synthetic_rows_have_these_marginals(database: Database, tmp_path: Path) -> None:
    """As many rows as were counted are exactly the counts; of a class any value may be drawn."""
    rows = visits(600)
    given = section(tmp_path, "rows=1000", of=ALL)
    gate = gate_over(database.engine, given, tmp_path, rows, EXACT)
    total = refresh(given, gate, random=random()).document["released"]
    gate.ledger.close()
    given = section(tmp_path, "rows=1000", of=ALL, synthetic={"table": "made_up", "rows": total})
    refresh(given, reopened(database.engine, given, tmp_path, EXACT), random=random())
    drawn = [dict(zip(given.columns, row, strict=True)) | {"user_id": 1} for row in table(database.engine, "made_up")]
    assert len(drawn) == total
    for columns in ALL.values():
        assert counted(drawn, given.columns, columns) == counted(rows, given.columns, columns)
    assert len({row["age"] for row in drawn}) > 15 and len({row["cost"] for row in drawn}) > 20
    assert {type(row["seen"]) for row in drawn} == {date}


def test_fewer_synthetic_rows_have_the_shares(engine: Any, tmp_path: Path) -> None:
    given = section(tmp_path, "rows=1000", synthetic={"table": "made_up", "rows": 10})
    rows = [row | {"user_id": 1, "age": 5, "sex": "fm"[n % 2], "region": "R0"} for n, row in enumerate(visits(100))]
    refresh(given, gate_over(engine, given, tmp_path, rows, EXACT), random=random())
    assert [row[1] for row in table(engine, "made_up")].count("f") == 5
    given = section(tmp_path, synthetic={"table": "made_up", "rows": 10})
    refresh(given, reopened(engine, given, tmp_path, fixed([-5] * 26)), random=random())
    assert table(engine, "made_up") == [] and sum(row[-1] for row in table(engine, "by_age_sex")) == 0


# ---- the budget


def test_each_refresh_is_charged_once_until_nothing_is_left(engine: Any, tmp_path: Path) -> None:
    given = section(tmp_path)
    spy = Spy(engine)
    gate = gate_over(engine, given, tmp_path, visits(100))
    for spent in (1.0, 2.0, 3.0):
        assert refresh(given, gate).cost.epsilon == 1.0
        assert gate.left("analyst").spent.epsilon == spent
    before = table(engine, "by_age_sex")
    gate.engine = spy  # type: ignore[assignment]
    spy.find, spy.transaction = engine.find, engine.transaction  # type: ignore[attr-defined]
    with pytest.raises(BudgetExhausted):
        refresh(given, gate)
    assert not any("visits" in sql and "base" in sql for sql in spy.seen)  # no row of a person was read
    assert table(engine, "by_age_sex") == before
    assert [event.kind for event in gate.ledger.history()] == ["charge", "answered"] * 3
    assert gate.ledger.history()[0].shape == "marginals of visits"


def test_another_try_for_the_same_occasion_costs_nothing(engine: Any, tmp_path: Path) -> None:
    given = section(tmp_path)
    gate = gate_over(engine, given, tmp_path, visits(100))
    first = refresh(given, gate, occasion="monday", random=random())
    before = table(engine, "by_age_sex")
    fill(engine, {"visits": []}, COLUMNS)
    again = refresh(given, gate, occasion="monday", random=random())
    assert (first.cost.epsilon, again.cost.epsilon) == (1.0, 0.0)
    assert table(engine, "by_age_sex") == before and gate.left("analyst").spent.epsilon == 1.0
    assert refresh(given, gate, occasion="tuesday").cost.epsilon == 1.0
    # Another question is another occasion: other noise, and paid for.
    given = section(tmp_path, of={"by_age_sex": ["age", "sex"]})
    assert refresh(given, reopened(engine, given, tmp_path), occasion="monday").cost.epsilon == 1.0


def test_what_fails_after_the_charge_stays_charged(engine: Any, tmp_path: Path) -> None:
    given = section(tmp_path)
    gate = gate_over(engine, given, tmp_path, visits(100))
    engine._connection.execute("ALTER TABLE visits DROP COLUMN region")  # behind the back of the open gate
    with pytest.raises(EngineError) as error:
        refresh(given, gate)
    assert "its cost stays charged" in str(error.value)
    assert gate.left("analyst").spent.epsilon == 1.0
    assert engine.find(["by_age_sex"]) is None
    assert [event.kind for event in gate.ledger.history()] == ["charge", "failed"]


def test_nothing_is_spent_where_a_table_is_somebody_elses(database: Database, tmp_path: Path) -> None:
    given = section(tmp_path)
    gate = gate_over(database.engine, given, tmp_path, visits(50))
    database.run("CREATE TABLE by_region_sex (mine INTEGER)")
    try:
        with pytest.raises(PolicyError) as error:
            refresh(given, gate)
        assert "was not published by sqlanon" in str(error.value)
        assert gate.left("analyst").spent.epsilon == 0.0
        assert table(database.engine, "by_region_sex") == []
    finally:
        database.run("DROP TABLE by_region_sex")


def test_all_tables_or_none(engine: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = section(tmp_path)
    gate = gate_over(engine, given, tmp_path, visits(50))
    refresh(given, gate)
    before = [table(engine, name) for name in given.tables]
    load, calls = engine.load_temporary, []

    def full_disk(*args: Any) -> None:
        calls.append(args)
        if len(calls) == 2:
            raise EngineError("the disk is full")
        load(*args)

    monkeypatch.setattr(engine, "load_temporary", full_disk)
    with pytest.raises(EngineError):
        refresh(given, gate, occasion="again")
    monkeypatch.undo()
    assert [table(engine, name) for name in given.tables] == before
    done = refresh(given, gate, occasion="again")
    assert done.cost.epsilon == 0.0 and gate.left("analyst").spent.epsilon == 2.0
    assert [table(engine, name) for name in given.tables] != before


def test_the_evidence(engine: Any, tmp_path: Path) -> None:
    given = section(tmp_path, epsilon=0.5)
    done = refresh(given, gate_over(engine, given, tmp_path, visits(50)))
    told = done.document["differential_privacy"]
    assert told["unit"] == "users.user_id" and told["rows_a_person"] == 4 and told["principal"] == "analyst"
    assert (told["epsilon"], told["sensitivity"], told["scale"]) == (0.5, 8, 16.0)
    assert told["cells"] == {"by_age_sex": 20, "by_region_sex": 6}
    assert told["half_width"] == 48.0 and told["expected_error"] == pytest.approx(15.99, abs=0.01)
    kept = engine._connection.execute("SELECT release, plan_hash FROM sqlanon_releases ORDER BY release").fetchall()
    assert kept == [("by_age_sex", done.plan.hash), ("by_region_sex", done.plan.hash)]


def test_joint_of_a_task(engine: Any, tmp_path: Path) -> None:
    """The order of columns in the policy is theirs in the table, whatever it is in the joint."""
    given = section(tmp_path, of={"a": ["sex", "region"], "b": ["region", "sex", "ok"]}, bins={})
    fill(engine, {}, COLUMNS)
    gate = reopened(engine, given, tmp_path, fixed([1, 2, 3, 4, 5, 6, 1, 0, 2, 0, 0, 3, 4, 0, 5, 0, 0, 6]))
    task = task_for(given, gate)
    counts = noisy_counts(task, np.zeros(task.shape, dtype=np.int64))
    assert joint_of(task, counts, random()).sum() == 21
    refresh(given, gate, random=random())
    assert table(engine, "a") == [
        ("f", "R0", 1), ("f", "R1", 2), ("f", "R2", 3), ("m", "R0", 4), ("m", "R1", 5), ("m", "R2", 6)
    ]  # fmt: skip
    assert [row[:3] for row in table(engine, "b")[:3]] == [("R0", "f", False), ("R0", "f", True), ("R0", "m", False)]

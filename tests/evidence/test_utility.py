"""Measures of utility against numpy and plain loops, on both engines; against sdcMicro; properties; bad input."""

from __future__ import annotations

import json
import math
from typing import Any

import brute_utility as brute
import numpy as np
import pytest
from conftest import Database, examples
from hypothesis import given, settings
from hypothesis import strategies as st

import sqlanon
from sqlanon.errors import PolicyError
from sqlanon.evidence.utility import Utility, utility
from sqlanon.evidence.utility.label_numbers import number_of
from sqlanon.evidence.utility.moments import components
from sqlanon.evidence.utility.propensity import MOST_FEATURES
from sqlanon.families import family
from sqlanon.policy import Policy, Source, parse

KINDS = {"id": "INTEGER", "a": "DOUBLE PRECISION", "b": "INTEGER", "c": "DOUBLE PRECISION", "k": "TEXT"}
NUMBERS = ("a", "b", "c")
cell = st.one_of(st.none(), st.integers(-5, 40))
rows = st.lists(st.fixed_dictionaries(dict.fromkeys(NUMBERS, cell)), min_size=8, max_size=24)


def policy(**more: Any) -> Policy:
    return sqlanon.from_options("t", qi=["a", "b"], sensitive=["k"], models=[("k_anonymity", {"k": 2})], **more)


def load(database: Database, name: str, table: list[dict[str, Any]], kinds: dict[str, str] = KINDS) -> None:
    database.table(name, kinds, [dict.fromkeys(kinds) | {"id": at} | row for at, row in enumerate(table)])


def measured(database: Database, before: list[Any], after: list[Any], **more: Any) -> Utility:
    load(database, "t", before)
    load(database, "r", after)
    return utility(policy(), database.engine, Source(table="r"), key="id", **more)


def matrix(table: list[dict[str, Any]], names: tuple[str, ...] = NUMBERS) -> np.ndarray:
    return np.array([[math.nan if row[name] is None else float(row[name]) for name in names] for row in table])


def varied(table: list[dict[str, Any]]) -> bool:
    """Whether all pairs of columns have a correlation in the source, so that nothing depends on rounding."""
    full = [row for row in table if all(row[name] is not None for name in NUMBERS)]
    return all(len({row[name] for row in full}) > 2 for name in NUMBERS)


@pytest.mark.full
@given(before=rows.filter(varied), data=st.data())
@settings(max_examples=examples(4))
def test_statistics_are_those_of_numpy(database: Database, before: list[Any], data: st.DataObject) -> None:
    after = [{name: data.draw(st.one_of(st.just(row[name]), cell)) for name in NUMBERS} for row in before]
    kept = data.draw(st.integers(len(before) // 2, len(before)))
    found = measured(database, before, after[:kept])
    x, y = matrix(before), matrix(after[:kept])
    padded = np.vstack([y, np.full((len(x) - kept, 3), math.nan)])
    assert found.il1s == pytest.approx(brute.il1s(x, padded))
    errors = found.differences["cells"]
    assert (errors.mse, errors.mae) == pytest.approx(brute.cells(x, padded))
    assert found.probabilistic == pytest.approx(brute.probabilistic(x, y), abs=1e-6)
    apart = []
    for j in range(3):  # a mean that is not told may be either end of the column
        mean, ends = np.nanmean(x[:, j]), (np.nanmin(x[:, j]), np.nanmax(x[:, j]))
        told = not np.isnan(y[:, j]).all()
        apart.append(abs(mean - np.nanmean(y[:, j])) if told else max(mean - ends[0], ends[1] - mean))
    assert found.differences["means"].mae == pytest.approx(np.mean(apart))
    ours, theirs = brute.correlations(x), brute.correlations(y)
    pairs = [(0, 1), (0, 2), (1, 2)]
    squares = []
    for i, j in pairs:
        untold = [brute.correlation(table, i, j) is None for table in (x, y)]
        far = 1 + abs(ours[i, j]) if untold == [False, True] else ours[i, j] - theirs[i, j]
        squares.append(far**2)
    assert found.differences["correlations"].mse == pytest.approx(np.mean(squares), abs=1e-9)
    apart = []
    for i in range(3):
        for j in range(i, 3):
            a, b = brute.covariance(x, i, j), brute.covariance(y, i, j)
            widths = [float(np.nanmax(x[:, k]) - np.nanmin(x[:, k])) for k in (i, j)]
            if not math.isnan(a):
                apart.append(abs(a - b) if not math.isnan(b) else abs(a) + widths[0] * widths[1] / 4)
    assert found.differences["covariances"].mae == pytest.approx(np.mean(apart))
    lost = [
        (1.0 if math.isnan(b) else min(1.0, abs(a - b) / math.sqrt(2) / np.nanstd(x[:, j], ddof=1)))
        for j in range(3) for a, b in zip(x[:, j], padded[:, j], strict=True) if j == 0 and not math.isnan(a)
    ]  # fmt: skip
    assert found.by_attribute["a"] == pytest.approx(np.mean(lost))
    assert found.records == len(before) and found.released == kept


def noisy(count: int = 60, seed: int = 4) -> tuple[list[Any], list[Any]]:
    generator = np.random.default_rng(seed)
    a = generator.normal(50, 10, count)
    b = np.round(a / 2 + generator.normal(0, 4, count)).astype(int)
    c = generator.exponential(3, count)
    k = generator.choice(["x", "y", "z"], count, p=[0.5, 0.3, 0.2])
    before = [{"a": p, "b": int(q), "c": r, "k": str(s)} for p, q, r, s in zip(a, b, c, k, strict=True)]
    after = [
        row | {"a": row["a"] + generator.normal(0, 5), "b": row["b"] + 2, "k": str(generator.choice(["x", "y"]))}
        for row in before
    ]
    return before, after


def test_principal_components(database: Database) -> None:
    before, after = noisy()
    found = measured(database, before, after)
    sides = []
    for table in (before, after):
        z = matrix(table)
        z = (z - z.mean(axis=0)) / z.std(axis=0, ddof=1)
        # By the singular values of the standardized rows, not by the eigenvalues of a matrix of correlations.
        _, s, vectors = np.linalg.svd(z / math.sqrt(len(z) - 1), full_matrices=False)
        sides.append((s**2, vectors.T))
    (values, ours), (others, theirs) = sides
    theirs = theirs * np.sign(np.sum(ours * theirs, axis=0))
    ours, theirs = (part * np.sign(ours[0]) for part in (ours, theirs))
    assert found.eigenvalues == pytest.approx(np.sum(np.abs(values - others) / values))
    assert found.differences["scores"].mae == pytest.approx(np.mean(np.abs(ours - theirs)))
    loadings = [vectors * np.sqrt(size) for vectors, size in ((ours, values), (theirs, others))]
    assert found.differences["loadings"].mse == pytest.approx(np.mean((loadings[0] - loadings[1]) ** 2))
    shares = [part[:, 0] ** 2 for part in loadings]
    assert found.differences["communalities"].variation == pytest.approx(
        np.mean(np.abs(shares[0] - shares[1]) / shares[0])
    )
    assert found.differences["cells"].mae == pytest.approx(
        np.mean([np.mean(np.abs(matrix(before)[:, j] - matrix(after)[:, j])) for j in range(3)])
    )


@pytest.mark.full_on_postgres
@given(before=rows.filter(varied), data=st.data())
@settings(max_examples=examples(6))
def test_differences_of_cells_are_means_over_all_cells(database: Database, before: list[Any], data: Any) -> None:
    """Columns with few numbers weigh less, and cells that are 0 in the source have no variation."""
    after = [{name: data.draw(st.one_of(st.just(row[name]), cell)) for name in NUMBERS} for row in before]
    found = measured(database, before, after).differences.get("cells")
    apart, relative = [], []
    for old, new in zip(before, after, strict=True):
        for name in NUMBERS:
            if old[name] is None:
                continue
            # A hidden cell may be either end of its column.
            ends = [row[name] for row in before if row[name] is not None]
            far = max(abs(old[name] - end) for end in (ends if new[name] is None else [new[name]]))
            apart.append(far)
            relative += [far / abs(old[name])] if old[name] else []
    assert found is not None
    assert found.mae == pytest.approx(sum(apart) / len(apart))
    assert found.mse == pytest.approx(sum(x * x for x in apart) / len(apart))
    assert found.variation == (pytest.approx(sum(relative) / len(relative)) if relative else None)


def test_signs_of_components_are_those_that_fit() -> None:
    first = components(np.array([[1.0, 0.8], [0.8, 1.0]]))
    second = components(np.array([[1.0, 0.7], [0.7, 1.0]]), first)
    assert np.allclose(first.scores, second.scores)
    assert first.values == pytest.approx([1.8, 0.2]) and first.communalities == pytest.approx([0.9, 0.9])


@pytest.mark.full_on_postgres
def test_the_propensity_score(database: Database) -> None:
    before, after = noisy(80)
    after[3]["c"] = None
    found = measured(database, before, after).propensity
    assert found is not None and found.left_out == ()
    x = np.vstack([matrix(before), matrix(after)])
    own = matrix(before)
    z = (x - own.mean(axis=0)) / own.std(axis=0, ddof=1)
    missing = np.isnan(z)
    z = np.where(missing, 0.0, z)
    labels = [row["k"] for row in (*before, *after)]
    dummies = [[float(label == each) for label in labels] for each in ("y", "z")]
    crossed = [z[:, i] * z[:, j] for i in range(3) for j in range(i, 3)]
    inputs = np.column_stack([z, missing[:, 2], *dummies, *crossed])
    wanted, rank = brute.pmse(inputs, [0] * 80 + [1] * 80)
    assert found.pmse == pytest.approx(wanted, rel=1e-4) and found.predictors == rank - 1
    assert found.share == pytest.approx(found.pmse / 0.25)
    assert found.ratio == pytest.approx(found.pmse / ((rank - 1) * 0.125 / 160))


def test_a_table_that_can_be_told_apart_surely(database: Database) -> None:
    before, after = noisy(40)
    found = measured(database, before, [row | {"a": row["a"] + 500} for row in after]).propensity
    assert found is not None and found.share == pytest.approx(1, abs=1e-3)


def test_generalized_labels_are_read(database: Database) -> None:
    """Intervals by their middle, categories by the values that they stand for."""
    kinds = {"id": "INTEGER", "age": "INTEGER", "zip": "INTEGER", "job": "TEXT", "day": "DATE"}
    before = [
        {"age": 30, "zip": 111, "job": "cook", "day": "2024-01-01"},
        {"age": 34, "zip": 112, "job": "baker", "day": "2024-01-11"},
        {"age": 60, "zip": 221, "job": "nurse", "day": "2024-01-21"},
        {"age": 90, "zip": 222, "job": "nurse", "day": None},
    ]
    after = [
        {"age": "[30, 40)", "zip": "11*", "job": "kitchen", "day": "[2024-01-01, 2024-01-11]"},
        {"age": "[30, 40)", "zip": "11*", "job": "kitchen", "day": "2024-01-11"},
        {"age": ">=60", "zip": "221", "job": "cook", "day": "*"},
        {"age": None, "zip": "*", "job": "nurse", "day": None},
    ]
    load(database, "t", before, kinds)
    load(database, "r", after, {"id": "INTEGER"} | dict.fromkeys(("age", "zip", "job", "day"), "TEXT"))
    asked = parse(
        json.dumps(
            {
                "source": {"table": "t"},
                "columns": dict.fromkeys(("age", "zip", "job", "day"), "quasi_identifier"),
                "hierarchies": {"age": {"intervals": {"widths": [10]}}, "zip": {"prefix": {"length": 3}}},
                "models": [{"k_anonymity": {"k": 2}}],
            }
        )
    )
    found = utility(asked, database.engine, Source(table="r"), key="id")
    assert found.numbers == ("age", "day") and found.categories == ("zip", "job")
    age = np.array([30, 34, 60, 90])
    lost = [min(abs(x - y) / math.sqrt(2) / age.std(ddof=1), 1) for x, y in ((30, 35), (34, 35), (60, 60))] + [1]
    assert found.by_attribute["age"] == pytest.approx(np.mean(lost))
    # 11* stands for two of four values; 221 is itself; * hides all.
    assert found.by_attribute["zip"] == pytest.approx((1 / 3 + 1 / 3 + 0 + 1) / 4)
    # kitchen stands for cook and baker, of three jobs; cook in place of nurse is wrong.
    assert found.by_attribute["job"] == pytest.approx((1 / 2 + 1 / 2 + 1 + 0) / 4)
    # The first day is read five days late; deviations are of 0, 10 and 20 days. NULL has nothing to lose.
    assert found.by_attribute["day"] == pytest.approx((5 / math.sqrt(2) / 10 + 0 + 1) / 3)
    assert found.cell_loss == pytest.approx(np.mean(list(found.by_attribute.values())))
    assert found.propensity is not None and set(found.propensity.left_out) == {"zip", "job"}


@pytest.mark.parametrize(
    ("label", "number"),
    [
        ("33", 33), (" -4.5 ", -4.5), ("1e3", 1000), ("[30, 40)", 35), ("[30, 40]", 35), ("(30, 40]", 35),
        ("[-10, -5)", -7.5), ("20-29", 24.5), ("-5 - -1", -3), ("<20", 20), (">=90", 90), ("≤ 5", 5),
        ("{NULL, 5}", 5), ("{NULL, [30, 40)}", 35), ("{[0, 2), [4, 6)}", 3), ("{1, 2, 6}", 3), ("*", None), ("", None),
        ("not a number", None), ("inf", None), ("1e999", None), ("nan", None), ("123**", None), ("{1, x}", None),
        ("[1, x)", None), ("{}", None), ("٣", None), ("1_000", None),
    ],
)  # fmt: skip
def test_a_label_as_a_number(label: str, number: float | None) -> None:
    assert number_of(label) == (None if number is None else pytest.approx(number))


@pytest.mark.parametrize(
    ("label", "days"),
    [("1970-01-02", 1), ("1970-01-01 12:00:00", 0.5), ("[1970-01-01, 1970-01-05]", 2), ("1970-13-01", None),
     (">=1970-01-11", 10), ("33", None), ("1970-01-02T00:00:00+00", 1)],
)  # fmt: skip
def test_a_label_as_a_date(label: str, days: float | None) -> None:
    assert number_of(label, dates=True) == (None if days is None else pytest.approx(days))


# Properties ---------------------------------------------------------------------------------------------------------


@given(table=rows)
@settings(max_examples=examples(3))
def test_a_release_that_is_its_source_loses_nothing(database: Database, table: list[Any]) -> None:
    table = [row | {"k": "xyz"[at % 3]} for at, row in enumerate(table)]
    found = measured(database, table, table)
    assert all(loss == 0 for loss in found.by_attribute.values()) and found.cell_loss == 0
    assert found.il1s in (0, None)
    assert all(loss == 0 for loss in found.probabilistic.values())
    for name, apart in found.differences.items():
        for value in (apart.mse, apart.mae, apart.variation):
            assert value is None or value == pytest.approx(0, abs=1e-6), name
    assert found.propensity is not None and found.propensity.pmse == pytest.approx(0, abs=1e-9)


@pytest.mark.full
def test_units_do_not_matter(database: Database) -> None:
    before, after = noisy()
    one = measured(database, before, after)
    scaled = [[row | {"a": 1000 * row["a"] - 7, "c": row["c"] / 90} for row in table] for table in (before, after)]
    other = measured(database, *scaled)
    assert other.il1s == pytest.approx(one.il1s) and other.cell_loss == pytest.approx(one.cell_loss)
    assert other.probabilistic == pytest.approx(one.probabilistic, abs=1e-7)
    assert other.eigenvalues == pytest.approx(one.eigenvalues)
    assert other.propensity is not None and one.propensity is not None
    assert other.propensity.pmse == pytest.approx(one.propensity.pmse, rel=1e-4)
    assert other.differences["means"].mae != pytest.approx(one.differences["means"].mae)


def test_more_noise_loses_more(duck: Database) -> None:
    before, _ = noisy(200)
    found = []
    for size in (0.5, 2.0, 8.0):
        generator = np.random.default_rng(1)
        found.append(
            measured(
                duck, before, [row | {"a": row["a"] + size * generator.normal()} for row in before], protected=("a",)
            )
        )
    assert found[0].il1s < found[1].il1s < found[2].il1s
    assert found[0].cell_loss < found[1].cell_loss < found[2].cell_loss
    assert found[0].intervals.cells > found[1].intervals.cells > found[2].intervals.cells
    assert found[0].propensity.pmse < found[2].propensity.pmse


@pytest.mark.full
def test_without_a_key_the_tables_are_compared(database: Database) -> None:
    before, after = noisy()
    load(database, "t", before)
    load(database, "r", after[::-1])
    asked = policy()
    apart = utility(asked, database.engine, Source(table="r"))
    load(database, "r", after)
    paired = utility(asked, database.engine, Source(table="r"), key="id")
    assert apart.il1s is None and apart.cell_loss is None and apart.intervals is None
    assert "id" in apart.numbers and "id" not in paired.numbers
    # Without a key `id` is a column like any other; the measures of the other columns stay.
    shared_ = utility(asked, database.engine, Source(table="r"), categories=["id"])
    assert shared_.probabilistic == pytest.approx(paired.probabilistic)


# Classifier ---------------------------------------------------------------------------------------------------------


@pytest.mark.full
def test_a_classifier_learns_from_the_release(database: Database) -> None:
    pytest.importorskip("sklearn", reason="needs scikit-learn")
    generator = np.random.default_rng(9)
    before = []
    for _ in range(600):
        a = generator.normal(50, 10)
        before.append({"a": a, "b": int(generator.integers(5)), "c": 1.0, "k": "yes" if a > 52 else "no"})
    same = measured(database, before, before, target="k").accuracy
    assert same is not None and same.released == same.original > 0.9 > same.baseline > 0.4
    assert 100 < same.tested < 200
    shuffled = [row | {"a": before[(at * 271) % 600]["a"]} for at, row in enumerate(before)]
    worse = measured(database, before, shuffled, target="k").accuracy
    assert worse is not None and worse.original == same.original and worse.released < 0.75
    none = measured(database, before, before, target="k", features=["b"]).accuracy
    assert none is not None and none.original < 0.7


def test_a_classifier_sees_the_nodes_of_what_was_generalized(duck: Database) -> None:
    pytest.importorskip("sklearn", reason="needs scikit-learn")
    kinds = {"id": "INTEGER", "job": "TEXT", "k": "TEXT"}
    jobs = ["cook", "baker", "nurse", "medic"]
    before = [{"job": jobs[at % 4], "k": "food" if at % 4 < 2 else "health"} for at in range(400)]
    after = [row | {"job": "kitchen" if at % 4 < 2 else "clinic"} for at, row in enumerate(before)]
    load(duck, "t", before, kinds)
    load(duck, "r", after[:380], kinds)
    asked = sqlanon.from_options("t", qi=["job"], sensitive=["k"], models=[("k_anonymity", {"k": 2})])
    found = utility(asked, duck.engine, Source(table="r"), key="id", target="k").accuracy
    assert found is not None and found.original == 1.0
    assert 0.9 < found.released < 1.0  # rows that were left out have no node, and are guessed


def test_without_scikit_learn(duck: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    from sqlanon.evidence.utility import classifier

    def missing(name: str) -> Any:
        raise ImportError(name)

    monkeypatch.setattr(classifier, "import_module", missing)
    before, after = noisy(10)
    with pytest.raises(PolicyError, match="needs scikit-learn") as error:
        measured(duck, before, after, target="k")
    assert "pip install" in str(error.value.hint)


def test_too_many_combinations_stay_in_the_database(duck: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    from sqlanon.evidence.utility import classifier

    pytest.importorskip("sklearn", reason="needs scikit-learn")
    monkeypatch.setattr(classifier, "MOST", 20)
    before, after = noisy(80)
    with pytest.raises(PolicyError, match="more than 20 combinations"):
        measured(duck, before, after, target="k")


# Bad input ----------------------------------------------------------------------------------------------------------


def test_no_column_of_numbers(database: Database) -> None:
    kinds = {"id": "INTEGER", "k": "TEXT"}
    load(database, "t", [{"k": each} for each in "xyzx"], kinds)
    load(database, "r", [{"k": each} for each in "xyzz"], kinds)
    asked = sqlanon.from_options("t", qi=["k"], models=[("k_anonymity", {"k": 2})])
    found = utility(asked, database.engine, Source(table="r"), key="id")
    assert found.numbers == () and found.il1s is None and found.probabilistic == {} and found.intervals is None
    assert found.by_attribute == {"k": 0.25} and found.propensity is not None
    assert any("no column of numbers" in note for note in found.notes)


def test_constant_hidden_and_empty_columns(database: Database) -> None:
    before, _ = noisy(30)
    before = [row | {"b": 7} for row in before]
    found = measured(database, before, [row | {"b": 7, "c": None} for row in before])
    assert any("constant in the source" in note and "b" in note for note in found.notes)
    assert found.by_attribute["b"] == 0 and found.by_attribute["c"] == 1 and found.by_attribute["a"] == 0
    c = [row["c"] for row in before]
    far = max(sum(c) / 30 - min(c), max(c) - sum(c) / 30)
    assert found.differences["means"].mae == pytest.approx(far / 3)  # of a and b nothing is lost
    assert found.probabilistic["means"] == pytest.approx(1 / 3)
    moved = measured(database, before, [row | {"b": 8} for row in before])
    assert moved.by_attribute["b"] == 1 and moved.probabilistic["means"] == pytest.approx(1 / 3)
    nothing = measured(database, [row | {"c": None} for row in before], before)
    assert any("'c' has no number" in note for note in nothing.notes)
    assert "c" not in nothing.by_attribute


def test_an_empty_release_and_an_empty_source(database: Database) -> None:
    before, _ = noisy(10)
    found = measured(database, before, [])
    assert found.cell_loss == 1 and found.propensity is None and set(found.probabilistic.values()) == {1.0}
    assert found.il1s == pytest.approx(brute.il1s(matrix(before), np.full((10, 3), math.nan))) and found.il1s >= 1
    assert any("no rows" in note for note in found.notes)
    with pytest.raises(PolicyError, match="the source has no rows"):
        measured(database, [], [])


def test_columns_that_are_not_there(duck: Database) -> None:
    before, after = noisy(10)
    with pytest.raises(PolicyError, match="'kk' is not in the source"):
        measured(duck, before, after, target="kk")
    with pytest.raises(PolicyError, match="'aa' is not in the source"):
        measured(duck, before, after, categories=["aa"])
    pytest.importorskip("sklearn", reason="needs scikit-learn")
    with pytest.raises(PolicyError, match="read as a number"):
        measured(duck, before, after, target="a")


def test_keys_that_are_none(database: Database) -> None:
    before, after = noisy(10)
    load(database, "t", before)
    load(database, "r", [*after, after[0] | {"id": 3}])
    for key, said in (
        ("id", "does not tell rows apart"),
        ("k", "no column of numbers"),
        ("other", "no column of numbers"),
    ):
        with pytest.raises(PolicyError, match=said):
            utility(policy(), database.engine, Source(table="r"), key=key)


@pytest.mark.full
def test_too_many_columns_to_predict_by(duck: Database) -> None:
    names = [f"n{at}" for at in range(MOST_FEATURES + 1)]
    kinds = {"id": "INTEGER"} | dict.fromkeys(names, "DOUBLE")
    table = [{name: float((at * (3 + place)) % 41) for place, name in enumerate(names)} for at in range(40)]
    load(duck, "t", table, kinds)
    load(duck, "r", table, kinds)
    asked = sqlanon.from_options("t", qi=names, models=[("k_anonymity", {"k": 2})])
    found = utility(asked, duck.engine, Source(table="r"), key="id")
    assert found.propensity is None and any("too many columns" in note for note in found.notes)
    assert found.probabilistic["all"] == 0


def test_every_measure_has_a_manual_page() -> None:
    for item in family("utility").values():
        assert item.summary.endswith(".") and item.cite and item.measures, item.name


# Hidden cells lose all ------------------------------------------------------------------------------------------------


def worse(found: Utility) -> dict[str, float]:
    """All measures of a release, larger is worse."""
    told = {f"{name} {kind}": getattr(found.differences[name], kind) for name in ("cells", "means", "covariances")
            for kind in ("mse", "mae")}  # fmt: skip
    told |= {f"probabilistic {name}": value for name, value in found.probabilistic.items()}
    assert found.il1s is not None and found.cell_loss is not None
    told |= {"il1s": found.il1s, "cell_loss": found.cell_loss, "correlations": found.differences["correlations"].mae}
    if found.released:
        assert found.propensity is not None
        told["propensity"] = found.propensity.share
    return {name: float(value) for name, value in told.items() if value is not None}


@pytest.mark.full
def test_nothing_is_worse_than_a_release_with_everything_hidden(database: Database) -> None:
    before, after = noisy(80)
    before, after = ([row | {"k": "xyz"[at % 3]} for at, row in enumerate(table)] for table in (before, after))
    generator = np.random.default_rng(3)
    hidden = {"a": None, "b": None, "c": None, "k": "*"}
    half = [row if at % 2 else row | hidden for at, row in enumerate(before)]
    few = [row if at < 2 else row | hidden for at, row in enumerate(before)]
    shuffled = [row | {"a": before[int(at)]["a"]} for row, at in zip(before, generator.permutation(80), strict=True)]
    everything = worse(measured(database, before, [row | hidden for row in before]))
    nothing = worse(measured(database, before, []))
    assert everything["cell_loss"] == 1 and everything["il1s"] >= 1 and everything["probabilistic all"] == 1
    assert everything["propensity"] == pytest.approx(1, abs=0.01)
    for name, value in nothing.items():
        assert value == pytest.approx(everything[name]), name
    for other in (before, after, half, few, shuffled):
        found = worse(measured(database, before, other))
        for name, value in found.items():
            assert value <= everything[name] + 1e-9, name
    losses = [worse(measured(database, before, table)) for table in (before, half, few)]
    for name in ("il1s", "cell_loss", "cells mae", "cells mse"):
        one, two, three = (item[name] for item in losses)
        assert one == 0 and one < two < three < everything[name], name


def test_a_hidden_column_of_exact_numbers_is_no_better_than_a_shown_one(database: Database) -> None:
    """One column that is kept must not make up for another one that is hidden."""
    before, _ = noisy(40)
    shown = measured(database, before, before)
    found = measured(database, before, [row | {"a": None} for row in before])
    assert shown.il1s == 0 and found.il1s is not None and found.il1s > 0.3
    assert found.distances["a"].il1s == found.distances["a"].hidden >= 1 and found.distances["b"].il1s == 0

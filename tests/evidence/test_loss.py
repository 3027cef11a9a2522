"""Loss metrics as SQL, against brute_loss.py on random releases."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import brute_loss
import pytest
from conftest import Database, examples
from hypothesis import given, settings
from hypothesis import strategies as st
from measuring import policy_for

from sqlanon.evidence.loss import loss
from sqlanon.families import family
from sqlanon.policy import Policy, Source
from sqlanon.policy.parts import AlgorithmUse
from sqlanon.release.solve_policy import prepare_problem, solve_problem

TREES = {
    "a": {"*": {"low": ["x", "y"], "high": ["z"]}},
    "b": {"*": ["1", "2", "3"]},
}
LEAVES = {
    "a": {"x": ("x", "low", "*"), "y": ("y", "low", "*"), "z": ("z", "high", "*")},
    "b": {"1": ("1", "*"), "2": ("2", "*"), "3": ("3", "*")},
}
TYPES = {"a": "TEXT", "b": "TEXT", "s": "TEXT"}
rows = st.lists(
    st.fixed_dictionaries(
        {"a": st.sampled_from("xyz"), "b": st.sampled_from("123"), "s": st.sampled_from(["flu", "hiv"])}
    ),
    min_size=1,
    max_size=30,
)


def released(table: list[dict[str, str]], levels: dict[str, int], k: int) -> list[tuple[Any, Any, bool]]:
    """(original, generalized, kept): classes smaller than k are suppressed."""
    recoded = [{**row, **{c: LEAVES[c][row[c]][levels[c]] for c in "ab"}} for row in table]
    sizes: dict[tuple[str, str], int] = {}
    for row in recoded:
        sizes[row["a"], row["b"]] = sizes.get((row["a"], row["b"]), 0) + 1
    return [(row, new, sizes[new["a"], new["b"]] >= k) for row, new in zip(table, recoded, strict=True)]


def expected(triples: list[tuple[Any, Any, bool]], k: int) -> dict[str, float]:
    pairs = [(row, new if kept else None) for row, new, kept in triples]
    every = [(row, new) for row, new, _ in triples]
    columns = ["a", "b"]
    found = {
        "minimal_distortion": brute_loss.minimal_distortion(pairs, columns, LEAVES),
        "iloss": brute_loss.iloss(pairs, columns, LEAVES),
        "ncp": brute_loss.ncp(pairs, columns, LEAVES),
        "ncp_geometric": brute_loss.ncp_geometric(pairs, columns, LEAVES),
        "precision": brute_loss.precision(pairs, columns, LEAVES),
        "discernibility": brute_loss.discernibility(pairs, columns),
        "discernibility_star": brute_loss.discernibility_star(triples, columns),
        "aecs": brute_loss.aecs(pairs, columns),
        "non_uniform_entropy": brute_loss.non_uniform_entropy(triples, columns),
        "classification_metric": brute_loss.classification_metric(pairs, columns, "s"),
        "height": brute_loss.height(every, columns, LEAVES),
    }
    if any(kept for *_, kept in triples):  # these speak of released records only
        found["c_avg"] = brute_loss.average_class_size(pairs, columns, k)
        found["kl_divergence"] = brute_loss.kl_divergence(pairs, columns, LEAVES)
    else:
        found["kl_divergence"] = 0.0
    return {name: float(value) for name, value in found.items()}


def loss_policy(k: int) -> Policy:
    return policy_for(
        ["a", "b"],
        ["s"],
        [{"k_anonymity": {"k": k}}],
        hierarchies={name: {"tree": {"tree": tree}} for name, tree in TREES.items()},
    )


@settings(max_examples=examples(40))
@given(table=rows, level_a=st.integers(0, 2), level_b=st.integers(0, 1), k=st.integers(2, 6))
def test_losses_agree_with_their_definitions(
    database: Database, table: Any, level_a: int, level_b: int, k: int
) -> None:
    levels = {"a": level_a, "b": level_b}
    triples = released(table, levels, k)
    database.table("t", TYPES, table)
    database.table("r", TYPES, [new for _, new, kept in triples if kept])
    found = loss(loss_policy(k), database.engine, Source(table="r"), levels=levels, class_attribute="s")
    wanted = expected(triples, k)
    assert set(found.metrics) == set(wanted)
    for name, value in wanted.items():
        assert found.metrics[name] == pytest.approx(value, rel=1e-9, abs=1e-9), name
    assert found.records == len(table)
    assert found.suppressed == sum(not kept for *_, kept in triples)


def cell_with_nulls(column: str, value: str | None, level: int, kept: bool) -> tuple[int, int]:
    """The level of a cell, and the leaves that it stands for. NULL stands for itself below the root, and is no leaf."""
    height = len(LEAVES[column][next(iter(LEAVES[column]))]) - 1
    if not kept or level == height:
        return height, len(LEAVES[column])
    if value is None:
        return level, 1
    label = LEAVES[column][value][level]
    return level, sum(path[level] == label for path in LEAVES[column].values())


def expected_with_nulls(table: list[Any], levels: dict[str, int], k: int) -> dict[str, float]:
    """Every metric from its definition, with loops over rows and cells; NULL is a value like others in classes."""
    heights = {"a": 2, "b": 1}

    def label(column: str, value: str | None) -> str | None:
        if levels[column] == heights[column]:
            return "*"
        return None if value is None else LEAVES[column][value][levels[column]]

    classes = [tuple(label(c, row[c]) for c in "ab") for row in table]
    sizes = Counter(classes)
    kept = [sizes[own] >= k for own in classes]
    cells = {c: [cell_with_nulls(c, row[c], levels[c], ok) for row, ok in zip(table, kept, strict=True)] for c in "ab"}
    n, shown = len(table), sum(kept)
    domain = {c: len(LEAVES[c]) for c in "ab"}
    ncp = {c: sum(leaves - 1 for _, leaves in cells[c]) / n / (domain[c] - 1) for c in "ab"}
    held = {own: size for own, size in sizes.items() if size >= k}
    found = {
        "minimal_distortion": sum(level for c in "ab" for level, _ in cells[c]),
        "iloss": sum((leaves - 1) / domain[c] for c in "ab" for _, leaves in cells[c]),
        "ncp": sum(ncp.values()) / 2,
        "ncp_geometric": ((1 + ncp["a"]) * (1 + ncp["b"])) ** 0.5 - 1,
        "precision": sum(level / heights[c] for c in "ab" for level, _ in cells[c]) / n / 2,
        "height": levels["a"] + levels["b"],
        "discernibility": sum(size**2 for size in held.values()) + (n - shown) * n,
        "discernibility_star": sum(size**2 for size in sizes.values()),
        "aecs": n / (len(held) + (shown < n)),
        "classification_metric": 1
        - sum(
            max(Counter(row["s"] for row, mine in zip(table, classes, strict=True) if mine == own).values())
            for own in held
        )
        / n,
    }
    bits = 0.0
    for c in "ab":
        before, after = Counter(row[c] for row in table), Counter(label(c, row[c]) for row in table)
        bits += sum(math.log2(after[label(c, row[c])] / before[row[c]]) for row in table)
        lost = Counter(label(c, row[c]) for row, ok in zip(table, kept, strict=True) if not ok)
        bits -= sum(count * math.log2(count / lost.total()) for count in lost.values())
    found["non_uniform_entropy"] = bits
    if shown:
        found["c_avg"] = shown / len(held) / k
    # A reader spreads a class over all records that it covers; the root covers NULL where the column has one.
    tuples = Counter((row["a"], row["b"]) for row, ok in zip(table, kept, strict=True) if ok)
    nulls = {c: int(any(row[c] is None for row in table)) for c in "ab"}
    nats = 0.0
    for (a, b), records in tuples.items():
        own = (label("a", a), label("b", b))
        area = 1
        for c, value in (("a", a), ("b", b)):
            area *= cell_with_nulls(c, value, levels[c], True)[1] + nulls[c] * (levels[c] == heights[c])
        nats += records / shown * math.log((records / shown) / (sizes[own] / shown / area))
    found["kl_divergence"] = nats
    return {name: float(value) for name, value in found.items()}


with_nulls = st.lists(
    st.fixed_dictionaries(
        {
            "a": st.sampled_from(["x", "y", "z", None]),
            "b": st.sampled_from(["1", "2", "3", None]),
            "s": st.sampled_from(["flu", "hiv", None]),
        }
    ),
    min_size=1,
    max_size=30,
)


@pytest.mark.full_on_postgres
@settings(max_examples=examples(20))
@given(table=with_nulls, level_a=st.integers(0, 2), level_b=st.integers(0, 1), k=st.integers(2, 5))
def test_losses_with_nulls(database: Database, table: Any, level_a: int, level_b: int, k: int) -> None:
    levels = {"a": level_a, "b": level_b}
    wanted = expected_with_nulls(table, levels, k)
    triples = released_with_nulls(table, levels, k)
    database.table("t", TYPES, table)
    database.table("r", TYPES, triples)
    found = loss(loss_policy(k), database.engine, Source(table="r"), levels=levels, class_attribute="s")
    assert set(found.metrics) == set(wanted)
    for name, value in wanted.items():
        assert found.metrics[name] == pytest.approx(value, rel=1e-9, abs=1e-9), name
    assert found.metrics["kl_divergence"] >= -1e-12


def released_with_nulls(table: list[Any], levels: dict[str, int], k: int) -> list[dict[str, Any]]:
    """The rows of classes of k at least."""
    tops = {"a": 2, "b": 1}
    recoded = [
        row | {c: "*" if levels[c] == tops[c] else row[c] and LEAVES[c][row[c]][levels[c]] for c in "ab"}
        for row in table
    ]
    sizes = Counter((row["a"], row["b"]) for row in recoded)
    return [row for row in recoded if sizes[row["a"], row["b"]] >= k]


@pytest.mark.full
@settings(max_examples=examples(10))
@given(table=with_nulls, k=st.integers(2, 3))
def test_a_search_finds_the_least_loss_with_nulls(duck: Database, table: Any, k: int) -> None:
    """Every metric that is minimized, against all nodes of the lattice."""
    duck.table("t", TYPES, table)
    nodes = [{"a": a, "b": b} for a in range(3) for b in range(2)]
    for name in family("loss"):
        if name == "classification_metric":
            continue  # minimized for a column that the policy names; test_search_classes.py does
        exact = AlgorithmUse(name="full_domain")
        asked = loss_policy(k).model_copy(update={"minimize": name, "suppression_limit": 1.0, "algorithm": exact})
        held = [node for node in nodes if released_with_nulls(table, node, k)]
        if not held:
            continue
        task = prepare_problem(asked, duck.engine)
        try:
            solution, _ = solve_problem(task)
        finally:
            task.close()
        least = min(expected_with_nulls(table, node, k)[name] for node in held)
        assert solution.loss == pytest.approx(least, rel=1e-9, abs=1e-9), name


@pytest.mark.full_on_postgres
def test_kl_divergence_of_six_rows_with_nulls_is_not_negative(database: Database) -> None:
    """All values and NULL equally often, and all hidden: nothing is lost that a reader could rebuild."""
    table = [{"a": a, "b": "1", "s": "flu"} for a in ("x", "y", "z", None, "x", None)]
    database.table("t", TYPES, table)
    database.table("r", TYPES, [row | {"a": "*"} for row in table])
    found = loss(loss_policy(2), database.engine, Source(table="r"), levels={"a": 2, "b": 0}).metrics["kl_divergence"]
    # Shares of 2, 1, 1 and 2 in 6, spread evenly over four values.
    assert found == pytest.approx(2 * (1 / 3) * math.log(4 / 3) + 2 * (1 / 6) * math.log(4 / 6))
    assert found > 0


def test_every_metric_is_tested() -> None:
    table = [{"a": "x", "b": "1", "s": "flu"}] * 2
    assert set(expected(released(table, {"a": 0, "b": 0}, 2), 2)) == set(family("loss"))


def test_levels_are_read_off_the_release(database: Database) -> None:
    table = [{"a": "x", "b": "1", "s": "flu"}, {"a": "y", "b": "2", "s": "hiv"}]
    database.table("t", TYPES, table)
    database.table("r", TYPES, [{"a": "low", "b": "*", "s": "flu"}, {"a": "low", "b": "*", "s": "hiv"}])
    assert loss(loss_policy(2), database.engine, Source(table="r")).levels == {"a": 1, "b": 1}


def test_a_table_that_is_no_release_of_the_source_is_refused(database: Database) -> None:
    database.table("t", TYPES, [{"a": "x", "b": "1", "s": "flu"}, {"a": "x", "b": "1", "s": "hiv"}])
    database.table("r", TYPES, [{"a": "x", "b": "1", "s": "flu"}] * 3)
    with pytest.raises(Exception, match="more rows"):
        loss(loss_policy(2), database.engine, Source(table="r"))

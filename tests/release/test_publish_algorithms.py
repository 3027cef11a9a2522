"""Publishing with every algorithm that recodes regions, subtrees or cells: the release holds, and no row is lost."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import duckdb
import pytest
from click.testing import CliRunner
from conftest import Database, examples
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from sqlanon.cli import main
from sqlanon.engines import connect
from sqlanon.errors import PolicyError
from sqlanon.evidence.checks import check
from sqlanon.policy import Policy, Source, parse
from sqlanon.release import publish
from sqlanon.release.stored_evidence import load_evidence

Row = dict[str, Any]
KEY = "a secret that is longer than sixteen characters"
TYPES = {
    "id": "TEXT", "age": "INTEGER", "zip": "TEXT", "job": "TEXT", "sex": "TEXT", "disease": "TEXT", "number": "INTEGER",
}  # fmt: skip
JOBS = {"*": {"care": ["nurse", "doctor"], "craft": ["cook", "baker", "smith"]}}
HIERARCHIES: dict[str, Any] = {
    "age": {"intervals": {"widths": [10, 20]}},
    "zip": {"prefix": {"length": 3}},
    "job": {"tree": {"tree": JOBS}},
    "disease": {"tree": {"tree": {"*": {"grave": ["hiv", "cancer"], "mild": ["flu", "cold"]}}}},
}
NAMES = ["age", "zip", "job", "sex"]
K = {"k_anonymity": {"k": 4}}
L = {"distinct_l_diversity": {"l": 2}}
# name: (algorithm, models, share of the rows that may be suppressed)
CASES: dict[str, tuple[Any, list[Any], float]] = {
    "mondrian": ("mondrian", [K, L], 0.0),
    "mondrian_nodes": ({"mondrian": {"ranges": False}}, [K, {"t_closeness": {"t": 0.5}}], 0.0),
    "mondrian_relaxed": ({"mondrian": {"strict": False}}, [K], 0.0),
    "mondrian_relaxed_nodes": ({"mondrian": {"strict": False, "ranges": False}}, [K], 0.0),
    "infogain_mondrian": ({"infogain_mondrian": {"class_attribute": "disease"}}, [K, L], 0.0),
    "infogain_of_a_quasi_identifier": ({"infogain_mondrian": {"class_attribute": "sex"}}, [K], 0.0),
    "top_down_specialization": ("top_down_specialization", [K, L], 0.1),
    "top_down_specialization_for_a_class": ({"top_down_specialization": {"class_attribute": "disease"}}, [K], 0.0),
    "bottom_up_generalization": ("bottom_up_generalization", [K, L], 0.1),
    "bottom_up_generalization_for_a_class": ({"bottom_up_generalization": {"class_attribute": "disease"}}, [K], 0.0),
    "top_down_recoding": ("top_down_recoding", [K, L], 0.0),
    "bottom_up_recoding": ("bottom_up_recoding", [K, L], 0.0),
    "bottom_up_recoding_by_size": ("bottom_up_recoding", [K], 0.0),
    "sample_and_generalize": (
        {"sample_and_generalize": {"rate": 0.7}},
        [{"expected_confidence": {"beta": 0.7}}, {"k_anonymity": {"k": 2}}],
        1.0,
    ),
    "local_suppression": ("local_suppression", [K, L], 0.1),
    "recode_suppressed": ({"full_domain": {"recode_suppressed": True}}, [K, L], 0.2),
}  # fmt: skip


def policy(algorithm: Any, models: list[Any], limit: float, **more: Any) -> Policy:
    roles = {"id": "identifier", "disease": "sensitive", "number": "insensitive"}
    written = {
        "source": {"table": "t"},
        "columns": dict.fromkeys(NAMES, "quasi_identifier") | roles,
        "models": models,
        "hierarchies": HIERARCHIES,
        "algorithm": algorithm,
        "suppression_limit": limit,
        "release": {"table": "r"},
        "absent_values": "allow",
    }
    return parse(json.dumps(written | more))


def some_rows(count: int) -> list[Row]:
    """Each with a number of its own, by which it is found again in the release."""
    jobs = ["nurse", "doctor", "cook", "baker", "smith"]
    return [
        {
            "id": f"p{i}",
            "age": None if i % 29 == 7 else 20 + (i * 7 + i // 11) % 41,
            "zip": None if i % 31 == 3 else ["101", "102", "201", "203"][(i // 2) % 4],
            "job": jobs[(i * i + i // 3) % 5],
            "sex": "fm"[(i // 3) % 2],
            "disease": ["hiv", "cancer", "flu", "cold"][(i * i + i // 5) % 4],
            "number": i,
        }
        for i in range(count)
    ]


row = st.fixed_dictionaries(
    {
        "id": st.just("p"),
        "age": st.one_of(st.none(), st.integers(0, 45)),
        "zip": st.sampled_from(["101", "102", "201", None]),
        "job": st.sampled_from(["nurse", "doctor", "cook", None]),
        "sex": st.sampled_from(["f", "m"]),
        "disease": st.sampled_from(["hiv", "cancer", "flu", "cold"]),
    }
)


# What a label stands for, by the rules of the manual pages --------------------------------------------------------


def leaves(name: str, rows: list[Row]) -> list[Any]:
    """The values that a quasi-identifier can have: those of its lookup, or else those of the table."""
    if name == "job":
        return ["nurse", "doctor", "cook", "baker", "smith"]
    return sorted({item[name] for item in rows if item[name] is not None})


def stands_for(name: str, label: str | None, rows: list[Row]) -> set[Any]:
    """The values of a column that a label covers; None is NULL."""
    values = leaves(name, rows)
    if label == "*":
        return {None, *values}
    if label is None:
        return {None}
    if label.startswith("{"):
        parts = re.findall(r"\[[^\]]*\]|[^,{} ][^,{}]*", label)
        return set().union(*(stands_for(name, None if part == "NULL" else part, rows) for part in parts))
    exact = {value for value in values if str(value) == label}
    if exact:
        return exact
    if name == "job":
        return set(JOBS["*"][label])
    low, _, high = label.strip("[])").partition(", ")
    if name == "age":
        return {v for v in values if int(low) <= v < int(high) or (label.endswith("]") and v == int(high))}
    if name == "zip" and not high:
        return {value for value in values if value.startswith(label.rstrip("*"))}
    return {value for value in values if low <= value <= high}


def penalty(released: list[Row], rows: list[Row]) -> float:
    """The normalized certainty penalty by its definition; a row that is not released loses everything."""
    total = 0.0
    for name in NAMES:
        every = len(leaves(name, rows))
        for item in released:
            covered = min(len(stands_for(name, item[name], rows)), every)  # NULL among others is one value more
            total += (covered - 1) / (every - 1) if every > 1 else 0.0
    return (total / len(NAMES) + len(rows) - len(released)) / len(rows)


def released_rows(database: Database, kept: bool) -> list[Row]:
    columns = [*NAMES, "disease", "number"]
    found = [dict(zip(columns, item, strict=True)) for item in database.fetch(f"SELECT {', '.join(columns)} FROM r")]
    for item in found:
        item.update({name: None if item[name] is None else str(item[name]) for name in NAMES})
    return [item for item in found if not (kept and item["disease"] is None)]


def require_sound(database: Database, asked: Policy, rows: list[Row], document: Mapping[str, Any]) -> list[Row]:
    """Everything that a release promises, whatever the algorithm. Returns what is shown."""
    kept = asked.suppressed_rows == "keep"
    suppressed = document["suppressed"]
    assert suppressed <= asked.suppression_limit * len(rows) + 1e-9
    shown = released_rows(database, kept)
    assert database.fetch("SELECT COUNT(*) FROM r") == [(len(rows) - (0 if kept else suppressed),)]
    assert len(shown) == len(rows) - suppressed
    assert len({item["number"] for item in shown}) == len(shown)  # no row twice
    originals = {item["number"]: item for item in rows}
    for item in shown:
        old = originals[item["number"]]
        assert item["disease"] == old["disease"]
        for name in NAMES:
            assert old[name] in stands_for(name, item[name], rows), (name, item[name], old[name])
    assert document["holds"] and all(item["holds"] for item in document["checks"])
    assert check(asked, database.engine, release=Source(table="r")).holds
    assert load_evidence(asked, database.engine)["loss"] == document["loss"]
    assert load_evidence(asked, database.engine)["plan_hash"] == document["plan_hash"]
    return shown


# Suppressed rows are kept or dropped; where there are none, that makes no difference.
WAYS = [
    pytest.param(name, kept, id=f"{name}-{kept}", marks=[pytest.mark.full] * kept)
    for name, (_, _, limit) in CASES.items()
    for kept in (False, True)
    if limit or not kept
]


@pytest.mark.parametrize(("name", "kept"), WAYS)
def test_every_algorithm_publishes(database: Database, name: str, kept: bool) -> None:
    algorithm, models, limit = CASES[name]
    rows = some_rows(180)
    database.table("t", TYPES, rows)
    asked = policy(algorithm, models, limit, suppressed_rows="keep" if kept else "drop")
    done = publish(asked, database.engine, secret=KEY)
    shown = require_sound(database, asked, rows, done.document)
    assert shown and not done.plan.proven
    assert done.plan.loss < 1  # some detail is left
    if name != "local_suppression":
        assert done.document["loss"]["ncp"] == pytest.approx(penalty(shown, rows), rel=1e-9)
    assert not [item for item in database.engine.tables() if item.startswith("sqlanon_search")]


@pytest.mark.full
@pytest.mark.parametrize("name", ["recode_suppressed", "mondrian"])
def test_the_stored_loss_is_called_what_it_is(database: Database, name: str) -> None:
    """Local recoding lowers the certainty penalty, and does not call it by the name of the policy's metric."""
    algorithm, models, limit = CASES[name]
    rows = some_rows(90)
    database.table("t", TYPES, rows)
    asked = policy(algorithm, models, limit, minimize="discernibility")
    done = publish(asked, database.engine, secret=KEY)
    assert done.document["minimize"] == "ncp"
    shown = require_sound(database, asked, rows, done.document)
    assert done.document["loss"]["ncp"] == pytest.approx(penalty(shown, rows), rel=1e-9)


# Shrinking would publish hundreds of times; what fails is small anyway.
@pytest.mark.full_on_postgres
@settings(max_examples=examples(12), phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(data=st.data(), rows=st.lists(row, min_size=1, max_size=30), name=st.sampled_from(sorted(CASES)))
def test_every_algorithm_on_random_tables(database: Database, data: Any, rows: Any, name: str) -> None:
    algorithm, models, _ = CASES[name]
    rows = [item | {"number": number} for number, item in enumerate(rows)]
    limit = data.draw(st.sampled_from([0.0, 0.2, 1.0]))
    kept = data.draw(st.booleans())
    database.table("t", TYPES, rows)
    database.run("DROP TABLE IF EXISTS r")
    asked = policy(algorithm, models, limit, suppressed_rows="keep" if kept else "drop")
    try:
        done = publish(asked, database.engine, secret=KEY)
    except PolicyError as error:
        assert "as written it breaks" not in str(error)
        assert "r" not in database.engine.tables()
        return
    shown = require_sound(database, asked, rows, done.document)
    if name != "local_suppression":
        assert done.document["loss"]["ncp"] == pytest.approx(penalty(shown, rows), rel=1e-9)


@pytest.mark.full
@pytest.mark.parametrize("name", ["top_down_specialization", "bottom_up_generalization", "local_suppression"])
def test_not_all_rows_are_suppressed_where_they_may_be(database: Database, name: str) -> None:
    """One class of all rows holds; any finer one would leave nothing."""
    rows = [some_rows(1)[0] | {"age": 20 + i, "zip": f"{i}01", "number": i} for i in range(4)]
    database.table("t", TYPES, rows)
    asked = policy(name, [K], 1.0)
    assert require_sound(database, asked, rows, publish(asked, database.engine, secret=KEY).document)


@pytest.mark.full
def test_one_row_cannot_be_recoded(database: Database) -> None:
    algorithm, models, _ = CASES["recode_suppressed"]
    database.table("t", TYPES, [item | {"number": 0} for item in some_rows(1)])
    for kept in ("keep", "drop"):
        with pytest.raises(PolicyError, match="no generalization"):
            publish(policy(algorithm, models, 1.0, suppressed_rows=kept), database.engine, secret=KEY)


@pytest.mark.full
def test_a_sample_that_cannot_hold_says_so(database: Database) -> None:
    algorithm, models, _ = CASES["sample_and_generalize"]
    database.table("t", TYPES, some_rows(1))
    with pytest.raises(PolicyError, match="no generalization"):
        publish(policy(algorithm, models, 1.0), database.engine, secret=KEY)


# A lattice that is too large to search ----------------------------------------------------------------------------

MANY = [f"q{i}" for i in range(16)]


def wide(database: Database) -> dict[str, Any]:
    """A policy without an algorithm, for the least loss of levels: 16 quasi-identifiers of four levels, 4^16 nodes."""
    rows = [{name: (i * (place + 3) + i // 7) % 32 for place, name in enumerate(MANY)} for i in range(400)]
    database.table("t", dict.fromkeys(MANY, "INTEGER"), rows)
    return {
        "source": {"table": "t"},
        "columns": dict.fromkeys(MANY, "quasi_identifier"),
        "hierarchies": {name: {"intervals": {"widths": [8, 16]}} for name in MANY},
        "models": [{"k_anonymity": {"k": 3}}],
        "suppression_limit": 0.1,
        "minimize": "precision",
        "release": {"table": "r"},
    }


@pytest.mark.full
def test_many_quasi_identifiers_take_a_heuristic(database: Database) -> None:
    asked = parse(json.dumps(wide(database)))
    seconds = []

    def progress(what: str, done: int, every: int) -> None:
        seconds.append((what, time.monotonic()))

    done = publish(asked, database.engine, time_limit=2.0, workload=False, progress=progress)
    looked = [when for what, when in seconds if what == "looking for a good node"]
    assert looked and looked[-1] - looked[0] < 6.0  # the last statement begins within the time
    plan = done.document["plan"]
    assert (plan["algorithm"], plan["proven"]) == ("heuristic", False)
    assert "heuristic, since 4.3e+09 nodes are too many" in plan["why"] and "not proven" in plan["why"]
    assert done.document["holds"] and check(asked, database.engine, release=Source(table="r")).holds
    assert database.fetch("SELECT COUNT(*) FROM r") == [(400 - done.plan.suppressed,)]
    assert done.plan.loss < 1


@pytest.mark.full
def test_the_command_says_that_a_heuristic_proves_nothing(tmp_path: Path) -> None:
    duckdb.connect(str(tmp_path / "data.duckdb")).close()
    made = Database(connect(str(tmp_path / "data.duckdb"), read_only=False))
    written = wide(made)
    made.engine.close()
    written["source"]["database"] = str(tmp_path / "data.duckdb")
    (tmp_path / "policy.yml").write_text(json.dumps(written))
    args = ["publish", str(tmp_path / "policy.yml"), "--time-limit", "1", "--no-workload"]
    result = CliRunner().invoke(main, args)
    assert result.exit_code == 0, result.output
    assert "not proven optimal: heuristic, since 4.3e+09 nodes are too many" in result.output
    shown = CliRunner().invoke(
        main, ["report", str(tmp_path / "policy.yml"), "-o", str(tmp_path / "r.html"), "--explore", "0"]
    )
    assert shown.exit_code == 0, shown.output
    assert "not proven" in (tmp_path / "r.html").read_text()

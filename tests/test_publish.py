"""Publishing: what is written holds, what fails leaves the previous release in place."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import duckdb
import pytest
from conftest import Database
from hypothesis import given, settings
from hypothesis import strategies as st

import sqlanon
from sqlanon.compiler.source import relation
from sqlanon.errors import PolicyError, SqlanonError
from sqlanon.evidence.checks import check
from sqlanon.evidence.loss import loss
from sqlanon.plan import Plan
from sqlanon.policy import Policy, Source, parse
from sqlanon.release import publish

TYPES = {"id": "TEXT", "age": "INTEGER", "zip": "TEXT", "sex": "TEXT", "disease": "TEXT", "note": "INTEGER"}
HIERARCHIES = {"age": {"intervals": {"widths": [10, 20]}}, "zip": {"prefix": {"length": 3}}}
TREE = {"disease": {"tree": {"tree": {"*": {"grave": ["hiv", "cancer"], "mild": ["flu", "cold"]}}}}}
row = st.fixed_dictionaries(
    {
        "id": st.integers(0, 30).map(str),
        "age": st.one_of(st.none(), st.integers(0, 60)),
        "zip": st.sampled_from(["101", "102", "201", None]),
        "sex": st.sampled_from(["f", "m"]),
        "disease": st.sampled_from(["hiv", "cancer", "flu", "cold", None]),
        "note": st.integers(0, 3),
    }
)


def policy(models: list[Any], **more: Any) -> Policy:
    roles: dict[str, Any] = {
        "id": "identifier",
        "age": "quasi_identifier",
        "zip": "quasi_identifier",
        "sex": "quasi_identifier",
        "disease": "sensitive",
        "note": "insensitive",
    }
    written = {
        "source": {"table": "t"},
        "columns": roles,
        "models": models,
        "hierarchies": HIERARCHIES | TREE,
        "release": {"table": "r"},
        "absent_values": "allow",
    }
    return parse(json.dumps(written | more))


def example_rows(count: int) -> list[dict[str, Any]]:
    diseases = ["hiv", "cancer", "flu", "cold"]
    return [
        {
            "id": f"p{i}",
            "age": 20 + (i * 7) % 41,
            "zip": ["101", "102", "201"][i % 3],
            "sex": "fm"[(i // 3) % 2],
            "disease": diseases[(i * i + i // 5) % 4],
            "note": i % 4,
        }
        for i in range(count)
    ]


MODELS: list[list[Any]] = [
    [{"k_anonymity": {"k": 3}}],
    [{"k_anonymity": {"k": 2}}, {"distinct_l_diversity": {"l": 2}}],
    [{"entropy_l_diversity": {"l": 1.5}}],
    [{"t_closeness": {"t": 0.4}}],
    [{"hierarchical_t_closeness": {"t": 0.3}}, {"k_anonymity": {"k": 2}}],
    [{"recursive_cl_diversity": {"c": 2, "l": 2}}],
    [{"basic_beta_likeness": {"beta": 1}}],
]
ALGORITHMS: list[Any] = [None, "exhaustive", "heuristic", {"full_domain": {"recode_suppressed": True}}]


@settings(max_examples=25)
@given(
    rows=st.lists(row, max_size=40),
    models=st.sampled_from(MODELS),
    limit=st.sampled_from([0.0, 0.2, 0.6]),
    keep=st.booleans(),
    person=st.booleans(),
    algorithm=st.sampled_from(ALGORITHMS),
)
def test_a_release_never_breaks_its_policy(
    database: Database, rows: Any, models: Any, limit: float, keep: bool, person: bool, algorithm: Any
) -> None:
    database.table("t", TYPES, rows)
    database.run("DROP TABLE IF EXISTS r")
    asked = policy(
        models,
        suppression_limit=limit,
        suppressed_rows="keep" if keep else "drop",
        **({"algorithm": algorithm} if algorithm else {}),
        **({"person": "id"} if person else {}),
    )
    try:
        done = publish(asked, database.engine)
    except PolicyError:
        return
    assert done.evidence is not None and done.evidence.holds
    assert done.plan.suppressed <= limit * len(rows) + 1e-9
    released = database.fetch("SELECT age, zip, sex, disease, note FROM r")
    assert len(released) == (len(rows) if keep else len(rows) - done.plan.suppressed)
    assert all(covers(released, rows, keep))
    if not person:  # without the person key a reader can count rows only
        assert check(asked, database.engine, release=Source(table="r")).holds


def covers(released: list[tuple[Any, ...]], rows: list[dict[str, Any]], keep: bool) -> list[bool]:
    """Whether each released row is the generalization of some original row with the same other columns."""
    return [any(covered(item, old, keep) for old in rows) for item in released]


def covered(new: tuple[Any, ...], old: dict[str, Any], keep: bool) -> bool:
    age, code, sex, disease, note = new
    if keep and (age, code, sex) == ("*", "*", "*"):
        return bool(note == old["note"])
    same = disease == old["disease"] and note == old["note"]
    return same and _age(age, old["age"]) and _prefix(code, old["zip"]) and sex in ("*", old["sex"])


def _age(label: Any, value: int | None) -> bool:
    if label == "*":
        return True
    if value is None or label is None:
        return label is None and value is None
    if str(label) == str(value):
        return True
    if ", " not in str(label):
        return False
    low, high = str(label).strip("[)").split(", ")
    return int(low) <= value < int(high)


def _prefix(label: str | None, value: str | None) -> bool:
    if label == "*":
        return True
    if value is None or label is None:
        return label is None and value is None
    return value.startswith(label.rstrip("*")) and len(label) == len(value)


def test_the_same_input_gives_the_same_plan(database: Database) -> None:
    database.table("t", TYPES, example_rows(200))
    asked = policy([{"k_anonymity": {"k": 4}}], suppression_limit=0.1)
    plans = [publish(asked, database.engine, dry_run=True).plan for _ in range(2)]
    database.table("t", TYPES, list(reversed(example_rows(200))))
    plans.append(publish(asked, database.engine, dry_run=True).plan)
    assert len({plan.hash for plan in plans}) == 1
    assert Plan.from_json(plans[0].to_json()).hash == plans[0].hash
    assert not [name for name in database.engine.tables() if name == "r"]


def test_the_losses_can_be_recomputed_from_the_tables(database: Database) -> None:
    """What the plan says of its loss is what the released table shows, read by other statements."""
    database.table("t", TYPES, [item | {"age": i * i % 61} for i, item in enumerate(example_rows(300))])
    asked = policy([{"k_anonymity": {"k": 12}}], suppression_limit=0.4)
    done = publish(asked, database.engine)
    assert done.plan.suppressed > 0 and any(done.plan.passes[0].values())
    found = loss(asked, database.engine, Source(table="r"))
    assert found.levels == dict(done.plan.passes[0])
    assert set(found.metrics) == set(done.document["loss"])
    assert found.metrics == pytest.approx(done.document["loss"], rel=1e-9)


def test_types_and_columns_are_kept(database: Database) -> None:
    database.table("t", TYPES, example_rows(60) * 4)
    publish(policy([{"k_anonymity": {"k": 4}}]), database.engine)
    types = {item.name: item for item in database.engine.columns(relation(Source(table="r"), database.engine.dialect))}
    assert list(types) == ["age", "zip", "sex", "disease", "note"]  # no identifier
    assert types["age"].numeric and types["note"].numeric  # nothing had to be generalized


def test_pseudonyms(database: Database) -> None:
    database.table("t", TYPES, example_rows(60) * 4)
    roles = {"id": {"role": "identifier", "pseudonym": True}}
    written = policy([{"k_anonymity": {"k": 4}}]).model_dump(mode="json", exclude_unset=True)
    written["columns"] |= roles
    written["models"] = [{"k_anonymity": {"k": 4}}]
    written["hierarchies"] = HIERARCHIES | TREE
    asked = parse(json.dumps(written))
    with pytest.raises(PolicyError, match="SQLANON_KEY"):
        publish(asked, database.engine)
    done = publish(asked, database.engine, secret="a long enough secret")
    first = dict(database.fetch("SELECT id, COUNT(*) FROM r GROUP BY id"))
    assert len(first) == 60 and set(first.values()) == {4}
    assert not any(name.startswith("p") for name in first)
    assert "a long enough secret" not in json.dumps(done.document)
    import hashlib

    def twice(value: str) -> str:
        inner = hashlib.sha256(("a long enough secret:id:" + value).encode()).hexdigest()
        return hashlib.sha256(("a long enough secret" + inner).encode()).hexdigest()

    assert set(first) == {twice(f"p{i}") for i in range(60)}


def test_a_view_and_files(duck: Database, tmp_path: Path) -> None:
    duck.table("t", TYPES, example_rows(90))
    for _ in range(2):
        publish(policy([{"k_anonymity": {"k": 3}}], release={"view": "v"}), duck.engine)
    assert duck.fetch("SELECT COUNT(*) FROM v") == [(90,)]
    assert len([name for name in duck.engine.tables() if name.startswith("v")]) == 2  # the view, and one table
    for name in ("r.parquet", "r.csv"):
        path = tmp_path / name
        publish(policy([{"k_anonymity": {"k": 3}}], release={"path": str(path)}), duck.engine)
        assert duck.fetch(f"SELECT COUNT(*) FROM '{path}'") == [(90,)]
        assert json.loads((tmp_path / f"{name}.evidence.json").read_text())["holds"]
    assert sorted(item.name for item in tmp_path.iterdir()) == [
        "r.csv", "r.csv.evidence.json", "r.parquet", "r.parquet.evidence.json",
    ]  # fmt: skip


# Bad input --------------------------------------------------------------------------------------------------------


def refused(database: Database, rows: list[dict[str, Any]], asked: Policy) -> str:
    database.table("t", TYPES, rows)
    with pytest.raises(SqlanonError) as caught:
        publish(asked, database.engine)
    assert "r" not in database.engine.tables()
    return str(caught.value)


def test_no_feasible_solution_says_what_blocks(database: Database) -> None:
    text = refused(database, example_rows(10), policy([{"k_anonymity": {"k": 11}}]))
    assert "k_anonymity (k=11) cannot hold" in text and "10" in text
    one = [item | {"disease": "flu"} for item in example_rows(10)]
    text = refused(database, one, policy([{"distinct_l_diversity": {"l": 2}}, {"k_anonymity": {"k": 2}}]))
    assert "distinct_l_diversity of 'disease' (l=2) cannot hold" in text and "k_anonymity" not in text
    text = refused(database, [], policy([{"k_anonymity": {"k": 2}}]))
    assert "no rows" in text


def test_a_value_without_a_hierarchy_entry(database: Database) -> None:
    rows = [*example_rows(10), example_rows(1)[0] | {"disease": "plague"}]
    text = refused(database, rows, policy([{"hierarchical_t_closeness": {"t": 0.3}}]))
    assert "plague" in text and "does not cover" in text


def test_an_all_null_column(database: Database) -> None:
    database.table("t", TYPES, [item | {"zip": None} for item in example_rows(30)])
    done = publish(policy([{"k_anonymity": {"k": 3}}]), database.engine)
    assert done.evidence is not None and done.evidence.holds


def test_columns_without_a_role_do_not_leave(database: Database) -> None:
    database.table("t", TYPES | {"salary": "INTEGER"}, [item | {"salary": 1} for item in example_rows(10)])
    with pytest.raises(PolicyError, match="columns without a role: salary"):
        publish(policy([{"k_anonymity": {"k": 2}}]), database.engine)


def test_unknown_algorithms_and_parameters(database: Database) -> None:
    rows = example_rows(10)
    assert "unknown algorithm" in refused(database, rows, policy(MODELS[0], algorithm="magic"))
    assert "its parameters" in refused(database, rows, policy(MODELS[0], algorithm={"full_domain": {"fast": True}}))


def test_quotes_and_unicode_in_names(database: Database) -> None:
    names = {'a"ge': "INTEGER", "Größe ∅": "TEXT", "select": "TEXT"}
    rows = [{'a"ge': i % 5, "Größe ∅": "ab"[i % 2], "select": "xy"[i % 2]} for i in range(40)]
    database.table('tab"le', names, rows)
    roles = {'a"ge': "quasi_identifier", "Größe ∅": "quasi_identifier", "select": "sensitive"}
    written = {
        "source": {"table": '"tab""le"'},
        "columns": roles,
        "models": [{"k_anonymity": {"k": 3}}],
        "release": {"table": '"rel""ease é"'},
    }
    done = publish(parse(json.dumps(written)), database.engine)
    assert done.plan.suppressed == 0
    assert database.fetch('SELECT COUNT(*) FROM "rel""ease é"') == [(40,)]
    database.run('DROP TABLE "rel""ease é"')


# What an attacker would try ---------------------------------------------------------------------------------------


def simple_policy(**more: Any) -> Policy:
    written: dict[str, Any] = {
        "source": {"table": "t"},
        "columns": {"zip": "quasi_identifier", "s": "sensitive", "who": "identifier"},
        "models": [{"k_anonymity": {"k": 2}}],
        "release": {"table": "r"},
    }
    return parse(json.dumps(written | more))


def simple(database: Database, zips: list[str | None], **more: Any) -> Policy:
    """A table of these postal codes, and a policy for it."""
    rows = [{"zip": code, "s": f"x{i % 3}", "who": f"p{i}"} for i, code in enumerate(zips)]
    database.table("t", {"zip": "TEXT", "s": "TEXT", "who": "TEXT"}, rows)
    database.run("DROP TABLE IF EXISTS r")
    return simple_policy(**more)


def test_a_value_spelt_like_null_is_nobodys_double(database: Database) -> None:
    asked = simple(database, ["\u2205 NULL", None, "b", *["a"] * 17], suppression_limit=0.2)
    try:
        publish(asked, database.engine)
    except SqlanonError:
        return
    sizes = [int(count) for (count,) in database.fetch("SELECT COUNT(*) FROM r GROUP BY zip")]
    assert min(sizes) >= 2 and sum(sizes) <= 20


@pytest.mark.parametrize("model", ["distinct_l_diversity", "entropy_l_diversity"])
def test_a_sensitive_value_spelt_like_null_is_counted_once(database: Database, model: str) -> None:
    """Two values in a class are two, in the release as in the source."""
    asked = simple(database, ["a"] * 4, models=[{model: {"l": 2}}])
    values = ["\u2205 NULL", None, "\u2205 NULL", None]
    database.table("t", {"zip": "TEXT", "s": "TEXT"}, [{"zip": "a", "s": value} for value in values])
    database.run("CREATE TABLE r AS SELECT * FROM t")
    found = check(asked, database.engine, release=Source(table="r")).checks[0]
    assert found.measured == pytest.approx(2) and found.holds


@pytest.mark.parametrize("kind", ["VARCHAR(10)", "INTEGER"])
def test_a_release_may_hold_its_values_in_another_type(database: Database, kind: str) -> None:
    asked = simple(database, ["a"] * 3, models=[{"distinct_l_diversity": {"l": 3}}])
    database.table("t", {"zip": "TEXT", "s": kind}, [{"zip": "a", "s": str(i)} for i in range(3)])
    database.run("CREATE TABLE r AS SELECT zip, CAST(s AS TEXT) AS s FROM t")
    assert check(asked, database.engine, release=Source(table="r")).checks[0].measured == 3


def test_rows_with_values_spelt_like_null_are_written_once(database: Database) -> None:
    """Where the region of a row depends on its sensitive value."""
    asked = simple(database, [], models=[{"distinct_l_diversity": {"l": 2}}], algorithm="top_down_recoding")
    rows = [{"zip": f"{i % 2}", "s": ["\u2205 NULL", None, "x"][i // 10], "who": f"p{i}"} for i in range(30)]
    database.table("t", {"zip": "TEXT", "s": "TEXT", "who": "TEXT"}, rows)
    publish(asked, database.engine)
    assert sorted(database.fetch("SELECT s, COUNT(*) FROM r GROUP BY s"), key=str) == [
        ("x", 10),
        ("\u2205 NULL", 10),
        (None, 10),
    ]


@pytest.mark.parametrize(("kind", "spelt"), [("NUMERIC", ["1.0", "1.00"]), ("DOUBLE PRECISION", ["0.0", "-0.0"])])
def test_equal_numbers_that_are_spelt_differently_are_one_value(
    database: Database, kind: str, spelt: list[str]
) -> None:
    asked = simple(database, [], suppression_limit=0.5)
    rows = [{"zip": text, "s": "x", "who": f"p{i}"} for i, text in enumerate([*spelt * 2, "7"])]
    database.table("t", {"zip": kind, "s": "TEXT", "who": "TEXT"}, rows)
    publish(asked, database.engine)
    assert [count for (count,) in database.fetch("SELECT COUNT(*) FROM r GROUP BY zip")] == [4]


def test_a_row_without_details_is_checked_while_it_tells_a_secret(database: Database) -> None:
    """`keep` leaves rows of '*' out of the checks, but not those that still show a sensitive value."""
    asked = simple(database, ["a"] * 4, suppressed_rows="keep", models=[{"distinct_l_diversity": {"l": 2}}])
    rows: list[dict[str, Any]] = [{"zip": "*", "s": "x1"}] * 3 + [{"zip": "a", "s": "x0"}, {"zip": "a", "s": "x1"}]
    database.table("released", {"zip": "TEXT", "s": "TEXT"}, rows)
    assert not check(asked, database.engine, release=Source(table="released")).checks[0].holds
    database.table("released", {"zip": "TEXT", "s": "TEXT"}, [{"zip": "*", "s": None}] * 3 + rows[3:])
    assert check(asked, database.engine, release=Source(table="released")).checks[0].holds


def test_the_order_of_rows_tells_nothing(database: Database) -> None:
    rows = [item | {"age": 20 + i // 40} for i, item in enumerate(example_rows(400))]
    database.table("t", TYPES, rows)
    publish(policy([{"k_anonymity": {"k": 2}}], suppression_limit=0.5), database.engine)
    notes = [note for (note,) in database.fetch("SELECT note FROM r")]
    assert len(notes) > 100 and notes != [item["note"] for item in rows][: len(notes)]


@pytest.mark.parametrize("count", [200, 4000])
def test_the_order_of_rows_does_not_follow_exact_values(database: Database, count: int) -> None:
    """Every row has an age of its own, so that dictionaries are as large as the table."""
    rows = [item | {"age": i, "note": i, "zip": "101", "sex": "f"} for i, item in enumerate(example_rows(count))]
    database.table("t", TYPES, rows)
    widths = {"age": {"intervals": {"widths": [count // 4, count]}}}
    publish(policy([{"k_anonymity": {"k": 5}}], hierarchies=HIERARCHIES | TREE | widths), database.engine)
    shown = database.fetch("SELECT age, note FROM r")
    assert len(shown) == count and len({age for age, _ in shown}) == 4
    for label in {age for age, _ in shown}:
        notes = [note for age, note in shown if age == label]
        rising = sum(left < right for left, right in itertools.pairwise(notes))
        # Half of them rise in a random order; this far off it is one time in many millions.
        assert abs(rising - (len(notes) - 1) / 2) <= 6 * ((len(notes) + 1) / 12) ** 0.5


def test_passwords_stay_out_of_the_evidence(database: Database) -> None:
    asked = simple(database, ["a"] * 4, source={"table": "t", "database": "postgresql://ann:s3cret@host/db"})
    assert "s3cret" not in json.dumps(publish(asked, database.engine).document)


def test_the_person_key_is_not_left_in_the_table(database: Database) -> None:
    publish(simple(database, ["a"] * 4, person="who"), database.engine)
    if database.engine.dialect == "postgres":
        dropped = "SELECT COUNT(*) FROM pg_attribute WHERE attrelid = 'r'::regclass AND attisdropped"
        assert database.fetch(dropped) == [(0,)]
    columns = database.engine.columns(relation(Source(table="r"), database.engine.dialect))
    assert sorted(item.name for item in columns) == ["s", "zip"]


def test_small_counts_do_not_follow_from_the_evidence(database: Database) -> None:
    shown = publish(simple(database, ["m"] * 99 + ["f"]), database.engine).document["distributions"]["zip"]
    assert (shown["before"], shown["before_more"]) == ([], 2)  # 99 of 100 would tell that there is one other
    done = publish(simple(database, ["m"] * 21 + ["n"] * 20 + ["f"], suppression_limit=0.1), database.engine)
    assert done.plan.suppressed == 1
    assert done.document["distributions"]["zip"]["before"] == [["m", 21], ["n", 20]]


def test_old_tables_of_a_view_are_dropped_and_nobody_elses(database: Database) -> None:
    schema = "main" if database.engine.dialect == "duckdb" else "public"
    asked = simple(database, ["a"] * 4, release={"view": f"{schema}.shown"})
    database.run("CREATE TABLE shown__1 AS SELECT 1 AS a")
    for _ in range(3):
        publish(asked, database.engine)
    left = [name for name in database.engine.tables() if name.startswith("shown")]
    assert len(left) == 3 and "shown__1" in left  # the view, its table, and the user's own
    database.run("DROP VIEW shown")
    database.run("DROP TABLE shown__1")


def test_a_foreign_table_of_that_name_is_not_overwritten(database: Database) -> None:
    asked = simple(database, ["a"] * 4)
    database.run("CREATE TABLE r__staged AS SELECT 1 AS a")
    with pytest.raises(PolicyError, match="r__staged"):
        publish(asked, database.engine)
    assert database.fetch("SELECT a FROM r__staged") == [(1,)]
    database.run("DROP TABLE r__staged")


def test_models_that_hold_only_sometimes_are_not_pruned(database: Database) -> None:
    """observed_only takes the monotonicity from delta-disclosure: the search must not rely on it."""
    pairs = [("a", "x"), ("b", "y"), ("b", "x"), ("c", "y"), ("c", "y"), ("d", "x")]
    rows = [{"zip": code, "s": s, "who": f"p{i}"} for i, (code, s) in enumerate(pairs * 2)]
    database.table("t", {"zip": "TEXT", "s": "TEXT", "who": "TEXT"}, rows)
    tree = {"zip": {"tree": {"tree": {"*": {"low": ["a", "b"], "high": ["c", "d"]}}}}}
    for delta in (0.2, 0.5, 0.8, 1.2):
        models = [{"delta_disclosure": {"delta": delta, "observed_only": True}}]
        losses = []
        for name in ("full_domain", "exhaustive"):
            asked = simple_policy(models=models, algorithm=name, hierarchies=tree)
            try:
                losses.append(publish(asked, database.engine, dry_run=True).plan.loss)
            except PolicyError:
                losses.append(None)
        assert losses[0] == losses[1], delta


# Failures ---------------------------------------------------------------------------------------------------------


def test_a_failing_check_leaves_the_previous_release(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    database.table("t", TYPES, example_rows(60))
    publish(policy([{"k_anonymity": {"k": 3}}]), database.engine)
    before = sorted(map(str, database.fetch("SELECT * FROM r")))
    import sqlanon.release as release

    real = release.rewriting

    def forgetful(task: Any, solution: Any, secret: Any) -> Any:
        """A rewrite that shows the rows that should have been suppressed, and the values as they are."""
        from dataclasses import replace

        return real(task, replace(solution, passes=(task.bottom,)), secret)

    monkeypatch.setattr(release, "rewriting", forgetful)
    monkeypatch.setattr("sqlanon.algorithms._problem.Problem.passes", unsuppressed)
    with pytest.raises(PolicyError, match="was not published"):
        publish(policy([{"k_anonymity": {"k": 9}}], suppression_limit=0.2), database.engine)
    assert sorted(map(str, database.fetch("SELECT * FROM r"))) == before
    assert not [name for name in database.engine.tables() if "staged" in name]


def unsuppressed(self: Any, nodes: Any, **more: Any) -> Any:
    from sqlanon.compiler.rewrite import Pass

    return [Pass(node, None) for node in nodes]


POLICY = """
source: {database: data.duckdb, table: t}
columns: {a: quasi_identifier, b: quasi_identifier, c: quasi_identifier, d: quasi_identifier, s: sensitive}
models:
  - k_anonymity: {k: K}
  - distinct_l_diversity: {l: 2}
suppression_limit: 0.2
release: {table: r}
"""


def write_database(folder: Path, rows: int) -> None:
    with duckdb.connect(str(folder / "data.duckdb")) as connection:
        connection.execute(
            "CREATE OR REPLACE TABLE t AS SELECT i * 7 % 31 AS a, i * 3 % 17 AS b, i % 5 AS c, i // 100 % 7 AS d, "
            f"i * i % 9 AS s FROM range({rows}) AS t(i)"
        )


def state(folder: Path) -> tuple[Any, list[str]]:
    with duckdb.connect(str(folder / "data.duckdb")) as connection:
        names = [name for (name,) in connection.execute("SHOW TABLES").fetchall()]
        rows = connection.execute("SELECT COUNT(*), COUNT(DISTINCT (a, b, c, d)), MIN(k) FROM (SELECT a, b, c, d, "
                                  "COUNT(*) OVER (PARTITION BY a, b, c, d) AS k FROM r)").fetchall()  # fmt: skip
    return rows, sorted(names)


def test_killed_at_many_points(tmp_path: Path) -> None:
    """kill -9 at any moment leaves the old release or the new one, never a half-written table."""
    write_database(tmp_path, 60_000)
    (tmp_path / "policy.yml").write_text(POLICY.replace("K", "3"))
    code = "import sys; from sqlanon.cli import main; sys.argv = ['sqlanon', *sys.argv[1:]]; main()"
    command = [sys.executable, "-c", code, "publish", str(tmp_path / "policy.yml")]
    start = time.monotonic()
    subprocess.run(command, check=True, capture_output=True)
    takes = time.monotonic() - start
    old, tables = state(tmp_path)
    assert tables == ["r", "sqlanon_releases", "t"]
    (tmp_path / "policy.yml").write_text(POLICY.replace("K", "40"))
    points, survived = 8, 0
    for point in range(points):
        running = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(takes * (0.25 + point / points))
        running.send_signal(signal.SIGKILL)
        running.wait()
        found, names = state(tmp_path)
        assert names == ["r", "sqlanon_releases", "t"]
        survived += found == old
        assert found == old or found[0][2] >= 40
        if found != old:
            write_old = (tmp_path / "policy.yml").read_text()
            (tmp_path / "policy.yml").write_text(POLICY.replace("K", "3"))
            subprocess.run(command, check=True, capture_output=True)
            (tmp_path / "policy.yml").write_text(write_old)
    assert survived > 0  # some were killed before the swap


def test_ctrl_c_is_clean(tmp_path: Path) -> None:
    write_database(tmp_path, 400_000)
    asked = POLICY.replace("K", "3").replace("l: 2}}", "l: 2}}\n  - t_closeness: {t: 0.01}")
    (tmp_path / "policy.yml").write_text(asked)
    code = "import sys; from sqlanon.cli import main; sys.argv[0] = 'sqlanon'; main()"
    start = time.monotonic()
    subprocess.run([sys.executable, "-c", "import sqlanon.cli, sqlanon.release"], check=True)
    begins = time.monotonic() - start  # an interrupt before the command runs is none of its business
    for seconds in (1.5 * begins, 2 * begins, 3 * begins):
        command = [sys.executable, "-c", code, "publish", str(tmp_path / "policy.yml")]
        running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        time.sleep(seconds)
        running.send_signal(signal.SIGINT)
        _, said = running.communicate(timeout=60)
        if running.returncode == 0:
            break  # it was done before
        assert running.returncode == 130 and said == "sqlanon: interrupted\n", said
        with duckdb.connect(str(tmp_path / "data.duckdb")) as connection:
            assert connection.execute("SHOW TABLES").fetchall() == [("t",)]


def test_a_full_disk(tmp_path: Path) -> None:
    """Writing a file fails: the old file is still there, and nothing else."""
    if not os.path.exists("/dev/full"):
        pytest.skip("needs /dev/full")
    write_database(tmp_path, 1_000)
    engine = sqlanon.connect(str(tmp_path / "data.duckdb"))
    asked = parse(POLICY.replace("K", "3").replace("{table: r}", "{path: r.csv}"), base=tmp_path).located()
    publish(asked, engine)
    before = (tmp_path / "r.csv").read_bytes()
    staged = tmp_path / f".r.{os.getpid()}.staged.csv"
    os.symlink("/dev/full", staged)

    real = Path.glob
    try:
        Path.glob = lambda self, pattern: iter(())  # type: ignore[method-assign, assignment]
        with pytest.raises(SqlanonError):
            publish(asked, engine)
    finally:
        Path.glob = real  # type: ignore[method-assign]
        engine.close()
    assert (tmp_path / "r.csv").read_bytes() == before
    assert not staged.exists()

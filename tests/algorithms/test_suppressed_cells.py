"""Suppressed cells that match any value: search, check, risk and attacks against a plain count of matching rows."""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from conftest import Database, examples
from hypothesis import given, settings
from hypothesis import strategies as st
from suppress_cells import (
    NAMES,
    Cells,
    asked,
    cells_of,
    crowds,
    few_cells,
    generate_households,
    match,
    row_by_row,
    written,
)

from sqlanon.algorithms import local_suppression
from sqlanon.algorithms.local_suppression import Params
from sqlanon.cli import main
from sqlanon.engines.temp_tables import drop_steps, run_steps
from sqlanon.errors import NotReleased, PolicyError
from sqlanon.evidence.attacks import attack
from sqlanon.evidence.checks import check
from sqlanon.evidence.risk import risk
from sqlanon.families import family, models_of_shape
from sqlanon.lattice.pose_problem import problem
from sqlanon.plan import policy_hash
from sqlanon.policy import ModelUse, Policy, Source, parse
from sqlanon.relations.classes import Grouping, Prelude, classes
from sqlanon.relations.compressed_rows import root_only
from sqlanon.relations.matching_classes import matching_classes
from sqlanon.relations.source import relation
from sqlanon.release import publish
from sqlanon.release.compare_policies import compare

TYPES = dict.fromkeys(NAMES, "TEXT")


# The database -----------------------------------------------------------------------------------------------------


def published(k: int = 2, **more: Any) -> Policy:
    """A policy for `fill`: each row has a number, by which it is found again, and a sensitive value."""
    columns = dict.fromkeys(NAMES, "quasi_identifier") | {"s": "sensitive", "number": "insensitive"}
    given = {"columns": columns, "algorithm": "local_suppression", "release": {"table": "r"}}
    return asked(k, **(given | more))


def fill(database: Database, rows: Sequence[Cells]) -> None:
    listed = [
        dict(zip(NAMES, row, strict=True)) | {"s": f"s{place}", "number": place} for place, row in enumerate(rows)
    ]
    database.run("DROP TABLE IF EXISTS r")
    database.run("DROP TABLE IF EXISTS sqlanon_releases")
    database.table("t", TYPES | {"s": "TEXT", "number": "INTEGER"}, listed)


def released(database: Database) -> list[Cells]:
    return [row[:-1] for row in database.fetch("SELECT a, b, c, number FROM r ORDER BY number")]


def rows_of(*spelt: str) -> list[Cells]:
    """'1xu 3' are three rows (1, x, u)."""
    found: list[Cells] = []
    for each in spelt:
        letters, _, times = each.partition(" ")
        found += [tuple(letters)] * int(times or 1)
    return found


shown_cells = st.tuples(*([st.sampled_from(["x", "y", "*", None])] * 3))
original_cells = st.tuples(
    st.sampled_from(["1", "2", "3", "4", None]), st.sampled_from(["x", "y", "z"]), st.sampled_from(["u", "v", None])
)


# Counting what matches --------------------------------------------------------------------------------------------


def matching(database: Database, names: Sequence[str]) -> dict[Cells, int]:
    """What a check counts, class by class."""
    rows = relation(Source(table="t"), database.engine.dialect)
    prelude, grouping = Prelude(rows, database.engine.dialect), Grouping(tuple(names))
    own, crowd = classes(prelude, grouping), matching_classes(prelude, grouping, {})
    run_steps(database.engine, prelude.steps)
    try:
        labels = ", ".join(f"c.c{place}" for place in range(1, len(names) + 1))
        sql = f"SELECT {labels}, m.records FROM {own} AS c JOIN {crowd} AS m ON m.class_id = c.class_id"
        return {row[:-1]: row[-1] for row in database.fetch(sql)}
    finally:
        drop_steps(database.engine, prelude.steps)


@settings(max_examples=examples(60))
@given(rows=st.lists(shown_cells, min_size=1, max_size=25), k=st.integers(2, 6))
def test_a_check_counts_the_rows_that_match_each_row(duck: Database, rows: list[Cells], k: int) -> None:
    fill(duck, rows)
    wanted = crowds(rows)
    assert matching(duck, NAMES) == dict(zip(rows, wanted, strict=True))
    evidence = check(asked(k), duck.engine)
    (found,) = evidence.checks
    assert (evidence.records, found.measured, found.classes) == (len(rows), min(wanted), len(set(rows)))
    assert found.broken_records == sum(size < k for size in wanted)
    assert found.broken_classes == len({row for row, size in zip(rows, wanted, strict=True) if size < k})
    assert found.holds == (min(wanted) >= k)


def test_both_engines_count_the_same(database: Database) -> None:
    drawn = random.Random(7)
    rows = [tuple(drawn.choice(["x", "y", "z", "*", None]) for _ in NAMES) for _ in range(200)]
    fill(database, rows)
    assert matching(database, NAMES) == dict(zip(rows, crowds(rows), strict=True))


def test_a_null_is_a_value_and_no_suppressed_cell(database: Database) -> None:
    fill(database, [(None, "x", "u"), (None, "x", "u"), ("1", "x", "u"), ("*", "x", "u")])
    found = matching(database, NAMES)
    assert found == {(None, "x", "u"): 3, ("1", "x", "u"): 2, ("*", "x", "u"): 4}


def test_matching_is_not_transitive(duck: Database) -> None:
    """Three rows in a chain: the middle one matches both others, which do not match each other."""
    fill(duck, rows_of("1xu", "*xu", "2xu"))
    assert matching(duck, NAMES) == {("1", "x", "u"): 2, ("*", "x", "u"): 3, ("2", "x", "u"): 2}
    assert check(asked(2), duck.engine).holds and not check(asked(3), duck.engine).holds
    assert not check(asked(2, suppressed_cells="own_value"), duck.engine).holds


def test_the_root_of_a_hierarchy_is_a_suppressed_cell(duck: Database) -> None:
    fill(duck, [("1", "x", "u"), ("any", "x", "u"), ("*", "x", "u"), ("2", "y", "u"), ("low", "x", "u")])
    tree = {"a": {"tree": {"tree": {"any": {"low": ["1", "2"]}}}}}
    (found,) = check(asked(2, hierarchies=tree), duck.engine, release=Source(table="t")).checks
    # The last but one matches nobody; a node below the root is a label as any other.
    assert (found.broken_records, found.measured) == (1, 1)
    (found,) = check(asked(2), duck.engine).checks
    assert found.broken_records == 1


def test_numbers_that_stand_beside_suppressed_cells(database: Database) -> None:
    """A column without a suppressed cell keeps its type."""
    database.table("t", {"a": "INTEGER", "b": "TEXT", "c": "DATE"}, [
        {"a": 1, "b": "*", "c": "2024-01-01"}, {"a": 1, "b": "x", "c": "2024-01-01"}, {"a": 2, "b": "x", "c": None},
    ])  # fmt: skip
    (found,) = check(asked(2), database.engine).checks
    assert (found.measured, found.broken_records) == (1, 1)


def test_named_quasi_identifiers_match_on_their_own_columns(duck: Database) -> None:
    fill(duck, rows_of("1xu", "2*u", "1yv", "2yv"))
    qids = {"first": ["a", "b"], "second": ["b", "c"]}
    found = {item.qid: item.measured for item in check(asked(2, qids=qids), duck.engine).checks}
    wanted = {("a", "b"): 1, ("b", "c"): 2}
    rows = rows_of("1xu", "2*u", "1yv", "2yv")
    assert min(crowds([row[:2] for row in rows])) == 1 and min(crowds([row[1:] for row in rows])) == 2
    assert found == wanted


def test_too_many_columns_for_the_bits_of_a_pattern(duck: Database) -> None:
    names = [f"q{place}" for place in range(63)]
    duck.table("t", dict.fromkeys(names, "TEXT"), [dict.fromkeys(names, "x")])
    with pytest.raises(PolicyError, match="more than 62 quasi-identifiers"):
        check(asked(2, columns=dict.fromkeys(names, "quasi_identifier")), duck.engine)


# Publishing -------------------------------------------------------------------------------------------------------


def fitting(values: Cells, shown: Sequence[Cells]) -> int:
    """Rows of a release that fit somebody whose values are all known."""
    return sum(match(values, row) for row in shown)


def require_promised(database: Database, rows: Sequence[Cells], k: int, document: Any) -> None:
    shown = released(database)
    assert len(shown) == len(rows)
    for before, after in zip(rows, shown, strict=True):
        assert all(new in (old, "*") for old, new in zip(before, after, strict=True))
    assert min(crowds(shown)) >= k
    # Who shared all values with enough others keeps them.
    common = Counter(rows)
    assert all(after == before for before, after in zip(rows, shown, strict=True) if common[before] >= k)
    few = [fitting(row, shown) for row in rows]
    found = document["found_by_values"]
    assert found["rows"] == sum(size < k for size in few)
    if found["rows"]:
        assert found["fewest"] == min(few)
    sizes = crowds(shown)
    after = document["risk"]["after"]
    assert (after["highest"], after["uniques"]) == (pytest.approx(1 / min(sizes)), 0)
    assert after["average"] == pytest.approx(sum(1 / size for size in sizes) / len(sizes))
    assert sum(item["records"] for item in document["class_sizes"]["after"]) == len(rows)
    cells = sum("*" == new != old for pair in zip(rows, shown, strict=True) for old, new in zip(*pair, strict=True))
    assert document["plan"]["why"].startswith(f"{cells} cells suppressed")


@pytest.mark.full
@settings(max_examples=examples(30))
@given(rows=st.lists(original_cells, min_size=1, max_size=30), k=st.integers(2, 4))
def test_a_release_holds_by_the_plain_count(duck: Database, rows: list[Cells], k: int) -> None:
    fill(duck, rows)
    if len(rows) < k:
        with pytest.raises(NotReleased):
            publish(published(k), duck.engine)
        return
    made = publish(published(k), duck.engine)
    assert made.evidence is not None and made.evidence.holds
    require_promised(duck, rows, k, made.document)


def test_a_release_holds_on_both_engines(database: Database) -> None:
    drawn = random.Random(3)
    rows: list[Cells] = [
        (drawn.choice("12345"), drawn.choice("xyz"), drawn.choice(["u", "v", None])) for _ in range(60)
    ]
    fill(database, rows)
    made = publish(published(4), database.engine)
    require_promised(database, rows, 4, made.document)
    assert made.evidence is not None and made.evidence.notes[-1].startswith("a suppressed cell matches any value")


@pytest.mark.full_on_postgres
def test_one_cell_frees_two_rows(database: Database) -> None:
    """Where a suppressed cell is a value of its own, both lose it."""
    rows = rows_of("1xu 2", "2xv", "2yv")
    fill(database, rows)
    publish(published(2), database.engine)
    assert Counter(released(database)) == Counter(rows_of("1xu 2", "2*v", "2yv"))
    fill(database, rows)
    publish(published(2, suppressed_cells="own_value"), database.engine)
    assert Counter(released(database)) == Counter(rows_of("1xu 2", "2*v 2"))


@pytest.mark.full
def test_what_the_reading_does_not_protect(database: Database) -> None:
    """(2, x, u) matches ten rows as (*, x, u); but who knows the 2 finds one."""
    fill(database, rows_of("1xu 9", "2xu"))
    made = publish(published(3), database.engine)
    assert Counter(released(database)) == Counter(rows_of("1xu 9", "*xu"))
    assert made.document["found_by_values"]["rows"] == 1 and made.document["found_by_values"]["fewest"] == 1
    assert made.document["not_protected"][0] == made.document["found_by_values"]["said"]
    found = {item.name: item for item in attack(published(3), database.engine, release=Source(table="r")).attacks}
    assert (found["linkage"].before.broken, found["linkage"].after.broken) == (1, 1)  # type: ignore[union-attr]
    # Where a suppressed cell is a value of its own, two of the others lose it too.
    fill(database, rows_of("1xu 9", "2xu"))
    publish(published(3, suppressed_cells="own_value"), database.engine)
    assert Counter(released(database)) == Counter(rows_of("1xu 7", "*xu 3"))


def test_no_row_loses_more_than_it_needs(duck: Database) -> None:
    """Two rows without any value match all others, which is six cells in place of seven; it would hide nobody."""
    rows = rows_of("1xu 2", "2xu", "3yu 2", "4yu", "5zv 2", "6zv", "1zv", "2zv", "3zv")
    fill(duck, rows)
    publish(published(3), duck.engine)
    shown = released(duck)
    assert max(row.count("*") for row in shown) == 1 and min(crowds(shown)) >= 3


def test_a_hierarchy_gives_its_root_to_suppressed_cells(database: Database) -> None:
    fill(database, rows_of("1xu 2", "2xu"))
    tree = {"a": {"tree": {"tree": {"any": {"low": ["1", "2"]}}}}}
    made = publish(published(2, hierarchies=tree), database.engine)
    assert Counter(released(database)) == Counter([("1", "x", "u")] * 2 + [("any", "x", "u")])
    assert made.evidence is not None and made.evidence.holds
    assert check(published(2, hierarchies=tree), database.engine, release=Source(table="r")).holds


@pytest.mark.parametrize("value, tree", [("*", None), ("any", {"any": {"low": ["1"], "high": ["any"]}})])
def test_a_value_that_looks_suppressed_is_refused(duck: Database, value: str, tree: Any) -> None:
    fill(duck, [("1", "x", "u"), (value, "x", "u")])
    more = {"hierarchies": {"a": {"tree": {"tree": tree}}}} if tree else {}
    with pytest.raises(PolicyError) as refused:
        publish(published(2, **more), duck.engine)
    if tree is None:
        assert "'a' has a value that looks like a suppressed cell" in refused.value.message
    assert not duck.fetch("SELECT 1 FROM duckdb_tables() WHERE table_name = 'r'")


def test_a_tampered_release_is_found_out(duck: Database) -> None:
    fill(duck, rows_of("1xu 2", "2xv", "2yv"))
    publish(published(2), duck.engine)
    assert check(published(2), duck.engine, release=Source(table="r")).holds
    duck.run("UPDATE r SET b = 'x' WHERE b = '*'")
    (found,) = check(published(2), duck.engine, release=Source(table="r")).checks
    assert (found.broken_records, found.measured) == (2, 1)


def test_sets_of_linked_rows_are_compared_as_they_are_shown(duck: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pseudonym links two rows of one person; nobody has the same set, whatever cells may stand for."""
    monkeypatch.setenv("SQLANON_KEY", "a key of more than sixteen characters")
    fill(duck, rows_of("1xu 2", "2xv", "2yv"))
    duck.run("ALTER TABLE t ADD COLUMN who TEXT DEFAULT 'p'")
    duck.run("UPDATE t SET who = CASE WHEN number < 2 THEN 'p' ELSE 'q' END")
    columns = dict.fromkeys(NAMES, "quasi_identifier") | {"s": "sensitive", "number": "identifier"}
    columns |= {"who": {"role": "identifier", "pseudonym": True}}  # type: ignore[dict-item]
    with pytest.raises(NotReleased, match="whole sets of rows single persons out"):
        publish(published(2, columns=columns), duck.engine, secret="a key of more than sixteen characters")


def test_check_of_a_published_table_reads_the_policy_of_its_release(tmp_path: Path) -> None:
    file, policy = tmp_path / "d.duckdb", tmp_path / "p.yml"
    rows = rows_of("1xu 2", "2xv", "2yv")
    (tmp_path / "t.csv").write_text("a,b,c\n" + "\n".join(map(",".join, rows)) + "\n")  # type: ignore[arg-type]
    given = written(2, algorithm="local_suppression", release={"table": "r"})
    policy.write_text(json.dumps(given | {"source": {"path": "t.csv", "database": "d.duckdb"}}))
    runner = CliRunner()
    done = runner.invoke(main, ["publish", str(policy)])
    assert done.exit_code == 0, done.output
    assert "note: suppressed cells match any value: 1 of 4 rows are found among fewer than k = 2" in done.output
    done = runner.invoke(main, ["check", str(file), "r"])
    assert done.exit_code == 0 and "all 1 requirements hold" in done.output, done.output
    done = runner.invoke(main, ["risk", str(file), "r"])
    assert done.exit_code == 0 and "50.00%  chance to find a person" in done.output, done.output


# Risk and attacks -------------------------------------------------------------------------------------------------


@settings(max_examples=examples(25))
@given(rows=st.lists(shown_cells, min_size=1, max_size=20), threshold=st.sampled_from([0.2, 0.4, 1.0]))
def test_risk_counts_the_rows_that_match(duck: Database, rows: list[Cells], threshold: float) -> None:
    fill(duck, rows)
    sizes = crowds(rows)
    found = risk(published(), duck.engine, release=Source(table="t"), threshold=threshold)
    average = pytest.approx(sum(1 / size for size in sizes) / len(sizes))
    at_risk = sum(1 / size > threshold + 1e-9 for size in sizes) / len(sizes)
    assert found.measures["prosecutor"] == {
        "records_at_risk": pytest.approx(at_risk), "highest": pytest.approx(1 / min(sizes)), "average": average,
    }  # fmt: skip
    assert found.measures["marketer"] == {"average": average}
    assert found.measures["sample_uniqueness"]["uniques"] == sizes.count(1)
    assert set(found.measures) == {"prosecutor", "marketer", "sample_uniqueness"} and not found.attributes
    assert found.records == len(rows) and any("not measured where classes overlap" in note for note in found.notes)


@pytest.mark.parametrize(
    "given, what",
    [
        ({"suda": True}, "sets of quasi-identifiers"),
        ({"weight": "number"}, "sampling weights"),
        ({"sampling_fraction": 0.1}, "sampling fractions"),
    ],
)
def test_risks_of_classes_that_overlap_are_refused(duck: Database, given: dict[str, Any], what: str) -> None:
    fill(duck, rows_of("1xu 2"))
    with pytest.raises(PolicyError, match=f"{what} need classes that do not overlap"):
        risk(published(), duck.engine, **given)


@pytest.mark.full
@settings(max_examples=examples(15))
@given(rows=st.lists(original_cells, min_size=3, max_size=20))
def test_an_attacker_who_knows_all_values_is_not_held_off_by_the_reading(duck: Database, rows: list[Cells]) -> None:
    fill(duck, rows)
    made = publish(published(3), duck.engine)
    shown = released(duck)
    few = [fitting(row, shown) for row in rows]
    names = ["linkage", "attribute_linkage", "homogeneity", "skewness", "background_knowledge", "freeform"]
    found = attack(published(3), duck.engine, release=Source(table="r"), names=names).attacks
    after = {item.name: item.after for item in found}
    assert after["linkage"] is not None and after["attribute_linkage"] is not None
    # Every sensitive value is different: who is left with one row knows the value.
    assert after["linkage"].broken == after["attribute_linkage"].broken == few.count(1)
    assert after["linkage"].confidence == pytest.approx(1 / min(few))
    assert after["linkage"].average == pytest.approx(sum(1 / size for size in few) / len(few))
    assert (made.document["found_by_values"]["rows"] == 0) == (min(few) >= 3)
    for name in names[2:]:
        assert after[name] is None
    assert all("classes overlap" in (item.not_judged or "") for item in found if item.name in names[2:])


@pytest.mark.full
def test_policies_are_compared_by_one_reading(duck: Database) -> None:
    """By its own reading the release with fewer suppressed cells would look as safe as the other."""
    fill(duck, rows_of("1xu 9", "2xu"))
    columns = dict.fromkeys(NAMES, "quasi_identifier") | {"s": "sensitive", "number": "insensitive"}
    loose, strict = compare([published(3), published(3, suppressed_cells="own_value", columns=columns)], duck.engine)
    assert loose.holds and strict.holds and loose.prosecutor is not None and strict.prosecutor is not None
    assert (loose.prosecutor["highest"], strict.prosecutor["highest"]) == (1.0, pytest.approx(1 / 3))


# How many cells ---------------------------------------------------------------------------------------------------


@pytest.mark.full
@pytest.mark.parametrize("seed, k", [(1, 2), (2, 3), (3, 5)])
def test_fewer_cells_than_row_by_row(duck: Database, seed: int, k: int) -> None:
    rows = generate_households(seed, 150)
    names = ["town", "roof", "wall", "kin", "sex"]
    found = cells_of(few_cells(duck, rows, k, names))
    assert 0 < found <= row_by_row(rows, k)
    assert found < cells_of(few_cells(duck, rows, k, names, suppressed_cells="own_value"))


@pytest.mark.full
def test_postgres_suppresses_as_many_cells(postgres: Database, duck: Database) -> None:
    rows, names = generate_households(4, 120), ["town", "roof", "wall", "kin", "sex"]
    assert cells_of(few_cells(postgres, rows, 3, names)) == cells_of(few_cells(duck, rows, 3, names))


def test_weights_decide_which_column_is_suppressed(duck: Database) -> None:
    rows = rows_of("1xu", "1yu", "2xu", "2yu")
    for kept, lost in (("a", "b"), ("b", "a")):
        found = few_cells(duck, rows, 2, NAMES, importance={kept: 5.0, "c": 5.0})
        assert found.why == f"2 cells suppressed ({lost} 2)"


def test_without_time_it_still_holds(duck: Database) -> None:
    rows = generate_households(5, 80)
    names = ["town", "roof", "wall", "kin", "sex"]
    found = few_cells(duck, rows, 3, names, deadline=time.monotonic() - 1)
    assert cells_of(found) > 0 and found.checks == 1
    assert cells_of(few_cells(duck, rows, 3, names, patterns=1)) > 0


@pytest.mark.full
def test_keys_of_more_than_62_bits(database: Database) -> None:
    names = [f"q{place}" for place in range(8)]
    rows: list[Cells] = [(str(row),) * 8 for row in range(300)] * 2
    rows += [tuple(str(row) if name != "q3" else "7" for name in names) for row in (4, 5)]
    found = few_cells(database, rows, 2, names)
    # Either row loses the cell in which it is alone.
    assert found.why == "2 cells suppressed (q3 2)" and found.found_by_values == (2, 1)


def test_a_second_search_starts_anew(duck: Database) -> None:
    fill(duck, rows_of("1xu 3", "2xu", "2yv", "3yv"))
    policy = asked(2)
    made = problem(policy, duck.engine, dict.fromkeys(NAMES, root_only()), relation(policy.source, "duckdb"))
    one = local_suppression.run(made, Params())
    other = local_suppression.run(made, Params(importance={"a": 9.0}))
    again = local_suppression.run(made, Params())
    assert one.why == again.why != other.why and one.regions != again.regions
    made.close()
    assert duck.fetch("SELECT table_name FROM duckdb_tables() WHERE table_name LIKE 'sqlanon%'") == []


# What is refused --------------------------------------------------------------------------------------------------


def others() -> Iterator[str]:
    yield from (name for name in models_of_shape("rows") if name != "k_anonymity")


@pytest.mark.parametrize("name", list(others()))
def test_no_other_model_is_defined(duck: Database, name: str) -> None:
    params = {param.name: 2 for param in family("models")[name].params if param.required}
    with pytest.raises(PolicyError) as refused:
        parse(json.dumps(written(models=[{"k_anonymity": {"k": 2}}, {name: params}])))
    assert f"{name} is not defined where a suppressed cell matches any value" in str(refused.value)


def test_nor_in_a_policy_that_was_put_together_in_python(duck: Database) -> None:
    fill(duck, rows_of("1xu 2"))
    use = ModelUse(name="distinct_l_diversity", params={"l": 2})
    with pytest.raises(PolicyError, match="distinct_l_diversity is not defined"):
        check(published().model_copy(update={"models": (use,)}), duck.engine)
    with pytest.raises(PolicyError, match="persons are not counted"):
        check(asked().model_copy(update={"person": "number"}), duck.engine)
    use = published().model_copy(update={"algorithm": None})
    with pytest.raises(PolicyError, match="needs the algorithm local_suppression"):
        publish(use, duck.engine)


@pytest.mark.parametrize(
    "more, message",
    [
        ({"person": "p"}, "persons are not counted where a suppressed cell matches any value"),
        ({"nulls": "unique"}, "'nulls: unique' cannot be combined with 'suppressed_cells: any_value'"),
        ({"suppressed_rows": "keep"}, "'suppressed_rows: keep' cannot be combined"),
        ({"population": {"table": "p"}}, "rows are not looked up in a population"),
        ({"history": {}}, "releases are not compared with each other"),
        ({"algorithm": "full_domain"}, "full_domain suppresses no single cells"),
        ({"algorithm": {"mondrian": {"strict": False}}}, "mondrian suppresses no single cells"),
        ({"suppressed_cells": "any"}, "'suppressed_cells' cannot be 'any'"),
        ({"suppressed_cells": None}, "'suppressed_cells' has no value"),
    ],
)
def test_what_cannot_be_combined(more: dict[str, Any], message: str) -> None:
    with pytest.raises(PolicyError) as refused:
        asked(**more)
    assert message in str(refused.value)


def test_a_release_needs_an_algorithm_that_suppresses_cells(duck: Database) -> None:
    fill(duck, rows_of("1xu 2"))
    columns = dict.fromkeys(NAMES, "quasi_identifier") | {"s": "sensitive", "number": "insensitive"}
    with pytest.raises(PolicyError, match="needs the algorithm local_suppression") as refused:
        publish(asked(columns=columns, release={"table": "r"}), duck.engine)
    assert refused.value.hint == "add 'algorithm: local_suppression', or leave 'suppressed_cells' out"


def test_the_plans_of_other_policies_stay_as_they_were() -> None:
    plain = {key: value for key, value in written().items() if key != "suppressed_cells"}
    same = parse(json.dumps(plain | {"suppressed_cells": "own_value"}))
    assert policy_hash(parse(json.dumps(plain))) == policy_hash(same) != policy_hash(asked())
    assert "suppressed_cells" not in same.model_dump(mode="json", exclude_defaults=True)

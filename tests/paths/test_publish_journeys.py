"""LKC-privacy from the policy to the release: Table IX, and random journeys against plain Python, on both engines."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import brute_paths as brute
import pytest
from conftest import Database, examples
from hypothesis import given, settings
from hypothesis import strategies as st
from test_choose_doublets import DISEASES, HALF, TABLE_IX, named

from sqlanon.errors import NotReleased, PolicyError
from sqlanon.evidence.checks import check
from sqlanon.evidence.item_checks import measure_model
from sqlanon.evidence.journey_checks import as_items
from sqlanon.itemsets.open_items import open_items
from sqlanon.paths.journeys import find_broken, journey_columns
from sqlanon.policy import Policy, Source, parse
from sqlanon.relations.source import relation
from sqlanon.release import publish

TYPES = {"patient": "BIGINT", "hour": "INTEGER", "ward": "TEXT", "disease": "TEXT"}
LKC: dict[str, Any] = {"lkc_privacy": {"l": 2, "k": 2, "c": 0.5, "guarded": ["HIV"]}}


def make_policy(models: Any = (LKC,), algorithm: Any = "path_suppression", **more: Any) -> Policy:
    columns = {"patient": "identifier", "hour": {"role": "time"}, "ward": "place", "disease": "sensitive"}
    data = {
        "source": {"table": "stays"},
        "columns": columns,
        "person": "patient",
        "shape": "sequence",
        "models": list(models),
        "suppression_limit": 0.5,
        "release": {"table": "stays_released"},
    }
    return parse(json.dumps(data | ({"algorithm": algorithm} if algorithm else {}) | more))


def with_stays(database: Database, paths: Sequence[brute.Path], values: Sequence[str], name: str = "stays") -> None:
    rows = [
        {"patient": person, "hour": int(doublet[1:]), "ward": doublet[0], "disease": value}
        for person, (path, value) in enumerate(zip(paths, values, strict=False), start=1)
        for doublet in sorted(path)
    ]
    database.table(name, TYPES, rows)


def released(database: Database) -> dict[int, tuple[brute.Path, str]]:
    found: dict[int, set[str]] = defaultdict(set)
    values = {}
    rows = database.fetch("SELECT person_number, ward, hour, disease FROM stays_released")
    for person, ward, hour, value in rows:
        assert f"{ward}{hour}" not in found[person] and values.setdefault(person, value) == value
        found[person].add(f"{ward}{hour}")
    return {person: (frozenset(path), values[person]) for person, path in found.items()}


def test_what_breaks_table_ix(database: Database) -> None:
    with_stays(database, TABLE_IX, DISEASES)
    policy = make_policy()
    items = open_items(database.engine, relation(policy.source, database.engine.dialect), journey_columns(policy))
    try:
        found = find_broken(items, policy, policy.models)
        shown = {frozenset("".join(reversed(items.labels[item])) for item in own.items): own for own in found}
        assert shown.keys() == named("a1", "d2 b3", "e4 c7", "d2 e4", "d2 e8", "d2 e9", "d2 f6", "e4 e8")
        assert shown[frozenset({"e4", "c7"})].records == 1
        likely = shown[frozenset({"d2", "f6"})]
        assert (likely.records, likely.measured) == (3, pytest.approx(2 / 3))
        assert measure_model(items, as_items(policy), policy.models[0]).broken_classes == 8
    finally:
        items.close()
    result = check(policy, database.engine).checks[0]
    assert (result.broken_classes, result.unit, result.holds) == (8, "sequence", False)


@pytest.mark.parametrize("search", ["greedy", "exact"])
def test_a_release_of_table_ix(database: Database, search: str) -> None:
    with_stays(database, TABLE_IX, DISEASES)
    policy = make_policy(algorithm={"path_suppression": {"search": search, "support": 2, "longest": 9}})
    document = publish(policy, database.engine).document
    measured = document["journeys"]
    assert measured["minimal_violating_sequences"] == 8 and measured["by_length"] == {"1": 1, "2": 7}
    assert (measured["visits"], measured["suppressed_visits"]) == (31, 7)
    assert (measured["frequent_sequences"], measured["frequent_sequences_kept"]) == (27, 17)
    assert document["holds"]
    left = released(database)
    paths, values = [path for path, _ in left.values()], [value for _, value in left.values()]
    assert brute.violations(paths, values, {"HIV"}, 2, 2, HALF) == set()
    assert sum(map(len, paths)) == 24
    if search == "greedy":
        expected = brute.suppress(TABLE_IX, ["d2", "e4", "a1"])
        assert sorted(map(sorted, paths)) == sorted(map(sorted, expected))
    # The numbers of persons do not follow those of the source.
    assert set(left) == set(range(1, len(left) + 1))
    assert check(policy, database.engine, release=Source(table="stays_released")).holds
    assert not check(policy, database.engine, release=Source(table="stays_released")).breaches


doublets = st.sampled_from([place + str(time) for place in "abc" for time in (2, 9, 10)])
some_paths = st.lists(st.frozensets(doublets, min_size=1, max_size=5), min_size=2, max_size=9)


def assert_promise(
    database: Database,
    paths: list[brute.Path],
    values: list[str],
    length: int,
    k: int,
    c: Fraction,
    params: dict[str, Any],
) -> None:
    with_stays(database, paths, values)
    database.run("DROP TABLE IF EXISTS stays_released")
    models = [{"lkc_privacy": {"l": length, "k": k, "c": float(c), "guarded": ["u"]}}]
    policy = make_policy(models, {"path_suppression": params}, absent_values="allow", suppression_limit=1.0)
    broken = brute.minimal(brute.violations(paths, values, {"u"}, length, k, c))
    result = check(policy, database.engine).checks[0]
    assert result.broken_classes == len(broken)
    weight = brute.instances(paths)
    worth = brute.utility(paths, 2 if params.get("keep") == "frequent" else None)
    gone = brute.greedy(broken, worth, lambda doublet: (doublet[1:], doublet[0]))  # by time, then place
    try:
        measured = publish(policy, database.engine).document["journeys"]
    except PolicyError as error:
        assert "every visit would be suppressed" in error.message
        return
    shown = released(database)
    left = [path for path, _ in shown.values()]
    assert brute.violations(left, [value for _, value in shown.values()], {"u"}, length, k, c) == set()
    if params.get("search") == "exact":
        assert measured["suppressed_visits"] == brute.least_instances(paths, broken)
        kept = set().union(*left)
        assert sorted(map(sorted, left)) == sorted(sorted(path & kept) for path in paths if path & kept)
    else:
        expected = [(path - set(gone), value) for path, value in zip(paths, values, strict=False) if path - set(gone)]
        assert sorted((sorted(p), v) for p, v in shown.values()) == sorted((sorted(p), v) for p, v in expected)
        assert measured["suppressed_visits"] == sum(weight[doublet] for doublet in gone)
    assert measured["visits"] - measured["suppressed_visits"] == sum(map(len, left))
    assert measured["suppressed_persons"] == len(paths) - len(left)


@settings(max_examples=examples(40))
@given(
    some_paths,
    st.lists(st.sampled_from("uv"), min_size=9, max_size=9),
    st.integers(1, 3),
    st.integers(2, 3),
    st.sampled_from([HALF, Fraction(1)]),
    st.sampled_from([{}, {"keep": "frequent", "support": 2, "longest": 9}, {"search": "exact"}]),
)
def test_a_release_keeps_its_promise(
    duck: Database, paths: list[brute.Path], values: list[str], length: int, k: int, c: Fraction, params: dict[str, Any]
) -> None:
    assert_promise(duck, paths, values, length, k, c, params)


@pytest.mark.full_on_postgres
@pytest.mark.parametrize("params", [{}, {"keep": "frequent", "support": 2, "longest": 9}, {"search": "exact"}])
def test_a_release_keeps_its_promise_on_both_engines(database: Database, params: dict[str, Any]) -> None:
    paths = [frozenset({"abc"[(n + t) % 3] + str(t) for t in (2, 9, 10, n % 4)}) for n in range(14)]
    assert_promise(database, paths, list("uvvvuvvvvuvvvv"), 2, 2, HALF, params)


@pytest.mark.full_on_postgres
def test_times_and_places_on_a_level(database: Database) -> None:
    with_stays(database, TABLE_IX, DISEASES)
    hierarchies = {
        "hour": {"intervals": {"widths": [4]}},
        "ward": {"tree": {"tree": {"*": {"west": list("abc"), "east": list("def")}}}},
    }
    policy = make_policy(
        algorithm={"path_suppression": {"levels": {"hour": 1, "ward": 1}}},
        hierarchies=hierarchies,
    )
    document = publish(policy, database.engine).document
    assert document["holds"] and not document["breaches"]
    assert document["plan"]["passes"] == [{"hour": 1, "ward": 1}]
    shown = set(database.fetch("SELECT DISTINCT ward FROM stays_released"))
    assert shown <= {("west",), ("east",)}
    # Labels that no level has are a breach.
    database.run("UPDATE stays_released SET ward = 'north' WHERE ward = 'west'")
    found = check(policy, database.engine, release=Source(table="stays_released"))
    assert any("neither the source nor its" in breach for breach in found.breaches)


def test_a_release_that_was_changed_breaks(database: Database) -> None:
    with_stays(database, TABLE_IX, DISEASES)
    policy = make_policy()
    publish(policy, database.engine)
    database.run("INSERT INTO stays_released (person_number, hour, ward, disease) VALUES (99, 4, 'e', 'Flu')")
    found = check(policy, database.engine, release=Source(table="stays_released"))
    assert not found.holds and found.checks[0].broken_classes > 0
    assert any("9 persons, its source has 8" in breach for breach in found.breaches)


# Bad input -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("column", ["patient", "hour", "ward", "disease"])
def test_null_is_refused(database: Database, column: str) -> None:
    with_stays(database, TABLE_IX, DISEASES)
    database.run(f"UPDATE stays SET {column} = NULL WHERE patient = 1 AND hour = 1")
    with pytest.raises(PolicyError, match=f"'{column}' is NULL in 1 row"):
        publish(make_policy(), database.engine)


def test_times_that_are_text_are_refused(database: Database) -> None:
    with_stays(database, TABLE_IX, DISEASES)
    database.run("ALTER TABLE stays ALTER COLUMN hour TYPE TEXT")
    with pytest.raises(PolicyError, match="which has no order of time"):
        check(make_policy(), database.engine)


def test_a_place_without_a_hierarchy_entry_is_named(database: Database) -> None:
    with_stays(database, TABLE_IX, DISEASES)
    policy = make_policy(hierarchies={"ward": {"tree": {"tree": {"*": {"west": ["a", "b"]}}}}})
    with pytest.raises(Exception, match="does not cover values"):
        publish(policy, database.engine)


def test_two_diseases_of_one_person_are_refused(database: Database) -> None:
    with_stays(database, TABLE_IX, DISEASES)
    database.run("UPDATE stays SET disease = 'Gout' WHERE patient = 1 AND hour = 1")
    with pytest.raises(PolicyError, match="says several things of one person"):
        publish(make_policy(), database.engine)


def test_no_visits_are_refused(database: Database) -> None:
    with_stays(database, [], [])
    with pytest.raises(PolicyError):
        publish(make_policy(), database.engine)


def test_equal_times_and_repeated_rows(database: Database) -> None:
    """A person may be at two places at one time; a row that is there twice counts once."""
    with_stays(database, [frozenset({"a1", "b1"})] * 2, ["Flu", "HIV"])
    database.run("INSERT INTO stays SELECT * FROM stays")
    assert publish(make_policy(), database.engine).document["journeys"]["visits"] == 4
    assert sorted(path for path, _ in released(database).values()) == [frozenset({"a1", "b1"})] * 2


def test_a_giant_path_is_refused_before_it_is_counted(duck: Database) -> None:
    duck.run("CREATE TABLE stays AS SELECT 1 AS patient, i AS hour, 'w' || i AS ward, 'Flu' AS disease "
             "FROM range(1, 100001) AS t(i) UNION ALL "
             "SELECT 2, i, 'w' || i, 'HIV' FROM range(1, 100001) AS t(i)")  # fmt: skip
    with pytest.raises(PolicyError, match="would be counted"):
        check(make_policy(), duck.engine)


def test_a_level_that_does_not_exist_is_named(duck: Database) -> None:
    with_stays(duck, TABLE_IX, DISEASES)
    with pytest.raises(PolicyError, match="'ward' has no level 1"):
        publish(make_policy(algorithm={"path_suppression": {"levels": {"ward": 1}}}), duck.engine)
    with pytest.raises(PolicyError, match="no time, place or stay"):
        publish(make_policy(algorithm={"path_suppression": {"levels": {"wrad": 1}}}), duck.engine)


def test_too_many_persons_suppressed(duck: Database) -> None:
    with_stays(duck, [frozenset({"a1"}), frozenset({"a1"}), frozenset({"b2"})], ["Flu", "Flu", "Flu"])
    with pytest.raises(NotReleased) as caught:
        publish(make_policy(suppression_limit=0.0, absent_values="allow"), duck.engine)
    assert "33.3% of all visits" in caught.value.message


def test_history_is_refused_with_a_reason(duck: Database) -> None:
    with pytest.raises(PolicyError, match="'history' cannot be combined with 'shape: sequence'"):
        make_policy(history={"models": [{"m_invariance": {"m": 2}}]})


def test_identifiers_with_quotes(database: Database) -> None:
    rows = [{'pa"t': n, "wh en": t, "plä'ce": "a;--"} for n in (1, 2) for t in (1, 2)]
    database.table('st"ays', {'pa"t': "BIGINT", "wh en": "INTEGER", "plä'ce": "TEXT"}, rows)
    given = {
        "source": {"table": '"st""ays"'},
        "columns": {'pa"t': "identifier", "wh en": "time", "plä'ce": "place"},
        "person": 'pa"t',
        "shape": "sequence",
        "models": [{"km_anonymity": {"k": 2, "m": 2}}],
        "algorithm": "path_suppression",
        "release": {"table": "out"},
    }
    policy = parse(json.dumps(given))
    assert publish(policy, database.engine).document["journeys"]["suppressed_visits"] == 0
    assert database.fetch('SELECT count(*), min("plä\'ce") FROM out') == [(4, "a;--")]

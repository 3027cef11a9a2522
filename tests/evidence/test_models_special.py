"""Models whose input has a shape of its own, and settings that change what a class is, against brute.py."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import brute
import pytest
from conftest import Database, examples
from hypothesis import given, settings
from hypothesis import strategies as st
from measuring import measure, policy_for

from sqlanon.errors import PolicyError
from sqlanon.evidence.checks import Evidence, check
from sqlanon.evidence.loss import loss
from sqlanon.evidence.results import CheckResult
from sqlanon.families import family
from sqlanon.policy import Source

GROUP = ["a", "b"]
TYPES = dict.fromkeys(("a", "b", "s", "u", "p"), "TEXT")
COLUMNS = {"a": "quasi_identifier", "b": "quasi_identifier", "s": "sensitive", "u": "insensitive", "p": "identifier"}
NULL = "\u2205 NULL"  # how a combination of values shows a NULL that belongs to it
SHORT = settings(max_examples=examples(25))
SHORTER = settings(max_examples=examples(12))  # for tests of many models at once

row = st.fixed_dictionaries(
    {
        "a": st.sampled_from(["x", "y", None]),
        "b": st.sampled_from(["1", "2", None]),
        "s": st.sampled_from(["flu", "hiv", "gout", None]),
        "u": st.sampled_from(["m", "w", None]),
        "p": st.sampled_from(["ann", "bob", "eve", "joe", None]),
    }
)
tables = st.lists(row, max_size=25)
share = st.sampled_from([0.1, 0.25, 0.3, 0.5, 0.6, 0.9, 1.0])
sizes = st.integers(2, 5)
keys = st.sampled_from([{}, {"person": "p"}])
Found = dict[tuple[str | None, ...], tuple[float, bool]]


def named(rows: Any, key: str = "p") -> Any:
    """Rows without a person are one unknown person; the oracle leaves such rows out, so it is told a name."""
    return [item | {key: "unknown" if item[key] is None else item[key]} for item in rows]


def agree(found: Found, measured: Any, broken: Any) -> None:
    assert set(found) == set(measured)
    for key, (value, bad) in found.items():
        assert value == pytest.approx(float(measured[key]), rel=1e-9, abs=1e-9), key
        assert bad == (key in broken), (key, value)


def compare(found: Found, model: str, *args: Any, **params: Any) -> None:
    agree(found, getattr(brute, model)(*args, **params), getattr(brute, f"broken_{model}")(*args, **params))


# Models that test_models.py leaves to this file -----------------------------------------------------------------------


@SHORT
@given(rows=tables, k=sizes, y=st.sampled_from([["s"], ["s", "p"]]), key=keys)
def test_xy_anonymity(database: Database, rows: Any, k: int, y: list[str], key: dict[str, str]) -> None:
    database.table("t", TYPES, rows)
    model = {"xy_anonymity": {"x": ["b", "u"], "y": y, "k": k}}
    (found,) = measure(database.engine, policy_for(GROUP, ["s"], [model], columns=COLUMNS, **key))
    compare(found, "xy_anonymity", rows, ["b", "u"], y, k=k)


@SHORT
@given(
    rows=tables, k=sizes, h=share, guarded=st.sampled_from([None, ["hiv"], ["flu", "gout"], [None, "hiv"]]), key=keys
)
def test_xy_privacy_and_alpha_k_anonymity_with_guarded_values(
    database: Database, rows: Any, k: int, h: float, guarded: Any, key: dict[str, str]
) -> None:
    database.table("t", TYPES, rows)
    listed = {"guarded": guarded} if guarded else {}
    models = [
        {"xy_privacy": {"x": ["b", "u"], "k": k, "h": h, **listed}},
        {"alpha_k_anonymity": {"alpha": h, "k": k, **listed}},
    ]
    asked = policy_for(GROUP, ["s"], models, columns=COLUMNS, sensitive_nulls="value", **key)
    private, alpha_k = measure(database.engine, asked)
    compare(private, "xy_privacy", named(rows), ["b", "u"], "s", values=guarded, k=k, h=h, **key)
    compare(alpha_k, "alpha_k_anonymity", named(rows), GROUP, "s", values=guarded, k=k, alpha=h, **key)


people = st.lists(row.map(lambda item: {"a": item["a"], "b": item["b"]}), max_size=25)


@SHORT
@given(rows=tables, population=people, k=sizes, dmin=st.sampled_from([0, 0.25, 0.5]), dmax=share, key=keys)
def test_k_map_and_delta_presence(
    database: Database, rows: Any, population: Any, k: int, dmin: float, dmax: float, key: dict[str, str]
) -> None:
    database.table("t", TYPES, rows)
    database.table("everybody", dict.fromkeys(GROUP, "TEXT"), population)
    models = [{"k_map": {"k": k}}, {"delta_presence": {"delta_min": dmin, "delta_max": dmax}}]
    policy = policy_for(GROUP, ["s"], models, population={"table": "everybody"}, **key)
    crowd, presence = measure(database.engine, policy)
    given = {"population_rows": population, **key}
    compare(crowd, "k_map", named(rows), GROUP, k=k, **given)
    compare(presence, "delta_presence", named(rows), GROUP, dmin=dmin, dmax=dmax, **given)


def test_a_population_with_the_person_column_is_counted_in_persons(database: Database) -> None:
    rows = [{"a": "x", "b": "1", "p": "ann"}, {"a": "x", "b": "1", "p": "ann"}]
    database.table("t", dict.fromkeys("abp", "TEXT"), rows)
    database.table("everybody", dict.fromkeys("abp", "TEXT"), rows)
    models = [{"k_map": {"k": 2}}, {"delta_presence": {"delta_min": 0, "delta_max": 0.5}}]
    policy = policy_for(GROUP, [], models, population={"table": "everybody"}, person="p")
    crowd, presence = measure(database.engine, policy)
    compare(crowd, "k_map", rows, GROUP, k=2, population_rows=rows, person="p")
    compare(presence, "delta_presence", rows, GROUP, dmin=0, dmax=0.5, population_rows=rows, person="p")


SECRETS = [{"s": ["hiv", "flu"]}, {"s": ["hiv"], "u": ["w"]}, {"s": ["gout"], "a": ["x"]}]


@pytest.mark.full
@SHORT
@given(rows=tables, h=share, secrets=st.sampled_from(SECRETS), key=keys)
def test_ff_anonymity(database: Database, rows: Any, h: float, secrets: Any, key: dict[str, str]) -> None:
    columns = [*GROUP, "s", "u"]
    database.table("t", TYPES, rows)
    model = {"ff_anonymity": {"h": h, "sensitive_values": secrets}}
    (found,) = measure(database.engine, policy_for(GROUP, ["s", "u"], [model], **key))

    def shown(x: Any, secret: Any) -> tuple[str | None, ...]:
        known = {column: NULL if value is None else value for column, value in x}
        return (*(known.get(column) for column in columns), f"{secret[0]} = {secret[1]}")

    given = {"h": h, "sensitive_values": secrets, **key}
    measured = {shown(*pair): value for pair, value in brute.ff_anonymity(named(rows), columns, **given).items()}
    agree(found, measured, {shown(*pair) for pair in brute.broken_ff_anonymity(named(rows), columns, **given)})


@pytest.mark.parametrize(("kind", "value"), [("TEXT", None), ("BOOLEAN", True)])
def test_ff_anonymity_protects_null_and_booleans(database: Database, kind: str, value: Any) -> None:
    database.table("t", {"a": "TEXT", "s": kind}, [{"a": "x", "s": value}, {"a": "x", "s": value}])
    model = {"ff_anonymity": {"h": 0.5, "sensitive_values": {"s": [value]}}}
    assert not check(policy_for(["a"], ["s"], [model]), database.engine).holds


def test_a_rule_applies_to_booleans(database: Database) -> None:
    database.table("t", dict.fromkeys("as", "BOOLEAN"), [dict.fromkeys("as", True), dict.fromkeys("as", False)])
    rules = [{"when": {"a": value}, "value": value, "probability": 1} for value in (True, False)]
    (found,) = measure(database.engine, policy_for(["a"], ["s"], [{"expected_confidence": {"conditional": rules}}]))
    # Each record is drawn with probability 1/2 * 1 in two draws, and inferred with certainty.
    assert found == {(label,): (pytest.approx(0.25), True) for label in ("true", "false")}


def left_join(rows: Any, others: Any, key: str, other_key: str, columns: list[str]) -> Any:
    joined = []
    for item in rows:
        found = [other for other in others if item[key] is not None and other[other_key] == item[key]]
        joined += [item | {c: other[c] for c in columns} for other in found or [dict.fromkeys(columns)]]
    return joined


number = st.sampled_from([1, 2, 3, None])
owners = st.lists(st.fixed_dictionaries({"id": number, "a": row.map(lambda item: item["a"])}), max_size=8)
visits = st.lists(st.fixed_dictionaries({"owner": number, "visit": number, "b": st.sampled_from("12")}), max_size=10)
drugs = st.lists(st.fixed_dictionaries({"visit": number, "c": st.sampled_from(["q", None])}), max_size=8)


@SHORT
@given(owned=owners, visited=visits, given_drugs=drugs, k=sizes)
def test_multirelational_k_anonymity(database: Database, owned: Any, visited: Any, given_drugs: Any, k: int) -> None:
    database.table("owners", {"id": "INTEGER", "a": "TEXT"}, owned)
    database.table("visits", {"owner": "INTEGER", "visit": "INTEGER", "b": "TEXT"}, visited)
    database.table("drugs", {"visit": "INTEGER", "c": "TEXT"}, given_drugs)
    joins = [{"table": "visits", "on": {"id": "owner"}}, {"table": "drugs", "on": "visit"}]
    policy = policy_for(
        ["a", "b", "c"],
        [],
        [{"multirelational_k_anonymity": {"k": k}}],
        source={"table": "owners", "joins": joins},
        person="id",
    )
    joined = left_join(owned, visited, "id", "owner", ["visit", "b"])
    joined = left_join(joined, given_drugs, "visit", "visit", ["c"])
    if any(item["id"] is None for item in owned):
        with pytest.raises(PolicyError, match="is NULL"):
            check(policy, database.engine)
        return
    (found,) = check(policy, database.engine).checks
    sets = brute.multirelational_k_anonymity(joined, ["a", "b", "c"], k=k, person="id")
    few = [owners for owners in sets.values() if owners < k]
    assert (found.classes, found.measured) == (len(sets), min(sets.values(), default=None))
    assert (found.broken_classes, found.broken_records) == (len(few), sum(few))


def test_a_child_table_may_have_a_key_of_the_same_name(database: Database) -> None:
    database.table("owners", {"id": "INTEGER", "a": "TEXT"}, [{"id": 1, "a": "x"}, {"id": 2, "a": "x"}])
    children = [{"id": 10, "owner": 1, "b": "u"}, {"id": 11, "owner": 2, "b": "u"}]
    database.table("visits", {"id": "INTEGER", "owner": "INTEGER", "b": "TEXT"}, children)
    source = {"table": "owners", "joins": [{"table": "visits", "on": {"id": "owner"}}]}
    models = [{"multirelational_k_anonymity": {"k": 2}}]
    found = check(policy_for(["a", "b"], [], models, source=source, person="id"), database.engine)
    assert found.holds and found.checks[0].measured == 2


# Parameters that change what is measured ------------------------------------------------------------------------------

PUBLIC = {
    "a": {"x": 0.5, "y": 0.25},
    "s": {"flu": 0.6, "hiv": 0.05, "gout": 0.2},
}
RULES = [
    {"when": {"a": "x", "b": "1"}, "value": "hiv", "probability": 0.3},
    {"when": {"a": "y"}, "value": "flu", "probability": 0.01},
]


def excess(rows: Any, beta: float, public: Any, rules: Any) -> dict[Any, float]:
    """As brute.expected_confidence, with a conditional probability in place of the general one where a rule applies."""
    known = {column: brute.shares(rows, column, None) for column in (*GROUP, "s")} | dict(public or {})
    measured = {}
    for key, members in brute.classes(rows, GROUP).items():
        at = dict(zip(GROUP, key, strict=True))
        alike = math.prod(float(known[column].get(value, 0)) for column, value in at.items())
        found = []
        for s, p in brute.shares(members, "s", None).items():
            probability = float(known["s"].get(s, 0))
            for rule in rules:
                if rule["value"] == s and all(at[column] == value for column, value in rule["when"].items()):
                    probability = rule["probability"]
            found.append(beta * float(p) - brute.expected(alike * probability, len(rows)))
        measured[key] = max(found)
    return measured


@SHORT
@given(
    rows=tables,
    beta=st.sampled_from([0.5, 1]),
    public=st.sampled_from([None, {"s": PUBLIC["s"]}, PUBLIC]),
    rules=st.sampled_from([[], RULES[:1], RULES]),
    key=keys,
)
def test_expected_confidence_with_public_knowledge(
    database: Database, rows: Any, beta: float, public: Any, rules: Any, key: dict[str, str]
) -> None:
    database.table("t", TYPES, rows)
    given = {"beta": beta} | ({"public": public} if public else {}) | ({"conditional": rules} if rules else {})
    (found,) = measure(database.engine, policy_for(GROUP, ["s"], [{"expected_confidence": given}], **key))
    measured = excess(rows, beta, public, rules)
    agree(found, measured, {place for place, value in measured.items() if value > 1e-12})
    if not rules:
        compare(found, "expected_confidence", rows, GROUP, "s", beta=beta, public=public)


def test_expected_confidence_of_a_long_table(database: Database) -> None:
    database.table("t", TYPES, [dict.fromkeys(TYPES, "x") | {"s": s} for s in ["flu", "hiv"] * 1000])
    (found,) = measure(database.engine, policy_for(GROUP, ["s"], [{"expected_confidence": {}}]))
    assert found == {("x", "x"): (pytest.approx(-0.5), False)}


@SHORT
@given(rows=tables, delta=st.sampled_from([0.2, 0.5, 1, 3]), key=keys)
def test_delta_disclosure_of_observed_values_only(
    database: Database, rows: Any, delta: float, key: dict[str, str]
) -> None:
    database.table("t", TYPES, rows)
    model = {"delta_disclosure": {"delta": delta, "observed_only": True}}
    (found,) = measure(database.engine, policy_for(GROUP, ["s"], [model], **key))
    who = key.get("person")
    q = brute.distribution(named(rows), "s", who)

    def largest(members: Any) -> float:
        p = brute.distribution(members, "s", who)
        return max(abs(math.log(p[s] / q[s])) for s in p)

    measured = brute.each(named(rows), GROUP, largest)
    agree(found, measured, brute.where(measured, lambda change: change >= delta))


CATEGORIES = [["hiv", None], ["gout"], ["flu"]]
WEIGHINGS: list[tuple[dict[str, Any], list[Any]]] = [
    ({"weights": [0, 0.15, 0.75]}, [0, 0.15, 0.75]),
    ({"weighting": "sensitivity"}, brute.category_weights(3, "sensitivity", 1)),
    ({"weighting": "sensitivity", "beta": 2}, brute.category_weights(3, "sensitivity", 2)),
]


@SHORT
@given(
    rows=tables,
    weighing=st.sampled_from(WEIGHINGS),
    l=st.integers(2, 3),
    alpha=st.sampled_from([0.5, 0.8, 1, 2.5]),
    key=keys,
)
def test_weights_of_categories(
    database: Database,
    rows: Any,
    weighing: Any,
    l: int,  # noqa: E741
    alpha: float,
    key: dict[str, str],
) -> None:
    written, weights = weighing
    database.table("t", TYPES, rows)
    shared = {"l": l, "alpha": alpha, "categories": CATEGORIES}
    models = {
        "distinct_l_alpha_diversity": {},
        "entropy_l_alpha_diversity": {},
        "recursive_cl_alpha_diversity": {"c": 2},
    }
    uses = [{name: {**shared, **own, **written}} for name, own in models.items()]
    results = measure(database.engine, policy_for(GROUP, ["s"], uses, **key))
    for (name, own), found in zip(models.items(), results, strict=True):
        compare(found, name, named(rows), GROUP, "s", weights=weights, **shared, **own, **key)


# Settings that change what a class is ---------------------------------------------------------------------------------


def matches(result: CheckResult, rows: Any, group: list[str], **params: Any) -> None:
    """A result as check() gives it; classes that look alike are told apart by their measures only."""
    args = (rows, group) if result.attribute is None else (rows, group, result.attribute)
    measured = getattr(brute, result.model)(*args, **params)
    broken = getattr(brute, f"broken_{result.model}")(*args, **params)
    assert (result.classes, result.broken_classes) == (len(measured), len(broken)), result.model
    worst = min if family("models")[result.model].worse_when_smaller else max
    assert result.measured == (pytest.approx(float(worst(measured.values()))) if measured else None)
    size = brute.k_anonymity(rows, group, k=0, person=params.get("person"))
    assert result.broken_records == sum(size[place] for place in broken)
    # What was measured on the sensitive value of a single record is not shown beside its quasi-identifiers.
    seen = [place for place in broken if result.attribute is None or size[place] > 1]
    wanted = sorted((repr(place[: len(GROUP)]), size[place], float(measured[place])) for place in seen)
    shown = sorted((repr(tuple(item.columns.values())), item.records, item.measured) for item in result.violations)
    assert [item[:2] for item in shown] == [item[:2] for item in wanted]
    assert [item[2] for item in shown] == pytest.approx([item[2] for item in wanted])


PLAIN: dict[str, dict[str, Any]] = {
    "k_anonymity": {"k": 3},
    "distinct_l_diversity": {"l": 2},
    "entropy_l_diversity": {"l": 1.5},
    "recursive_cl_diversity": {"c": 2, "l": 2},
    "alpha_k_anonymity": {"alpha": 0.5, "k": 2},
    "confidence_bounding": {"value": "hiv", "h": 0.3},
    "t_closeness": {"t": 0.3},
    "basic_beta_likeness": {"beta": 0.5},
    "delta_disclosure": {"delta": 1},
}


FEW = ("k_anonymity", "alpha_k_anonymity", "t_closeness")


def plain_checks(database: Database, models: Iterable[str], **more: Any) -> Evidence:
    policy = policy_for(GROUP, ["s"], [{name: PLAIN[name]} for name in models], **more)
    return check(policy, database.engine, limit=1000)


def matches_plain(found: Evidence, rows: Any, group: list[str], key: dict[str, str]) -> None:
    for result in found.checks:
        matches(result, named(rows), group, **PLAIN[result.model], **key)


@SHORTER
@given(rows=tables, key=keys)
def test_a_row_with_a_null_matches_no_other(database: Database, rows: Any, key: dict[str, str]) -> None:
    database.table("t", TYPES, named(rows))
    found = plain_checks(database, PLAIN, nulls="unique", **key)
    alone = [item | {"row": place if None in (item["a"], item["b"]) else -1} for place, item in enumerate(rows)]
    matches_plain(found, alone, [*GROUP, "row"], key)


def test_n_t_closeness_where_nulls_match_nothing(database: Database) -> None:
    rows = [(None, "flu"), (None, "hiv"), ("x", "flu"), ("x", "gout"), ("y", "hiv")]
    database.table("t", {"a": "TEXT", "s": "TEXT"}, [{"a": a, "s": s} for a, s in rows])
    policy = policy_for(["a"], ["s"], [{"nt_closeness": {"n": 1, "t": 0}}], nulls="unique")
    (found,) = check(policy, database.engine).checks
    assert (found.classes, found.measured) == (4, 0)  # each class is its own superset, at distance 0


def test_a_hierarchy_where_nulls_match_nothing(database: Database) -> None:
    database.table("t", {"a": "TEXT"}, [{"a": a} for a in (None, None, "x", "x", "y")])
    tree = {"a": {"tree": {"tree": {"*": ["x", "y"]}}}}
    policy = policy_for(["a"], [], [{"k_anonymity": {"k": 2}}], nulls="unique", hierarchies=tree)
    found = check(policy, database.engine)
    assert (found.records, found.checks[0].classes, found.checks[0].broken_classes) == (5, 4, 3)


# A suppressed row tells no secret: one that does is a row like others, however general it is.
HIDDEN = {"a": "*", "b": "*", "s": None, "u": None}


@SHORTER
@given(
    rows=st.lists(row.flatmap(lambda item: st.sampled_from([item, item | HIDDEN, item | {"a": "*"}])), max_size=25),
    key=keys,
)
def test_suppressed_rows_that_were_kept_are_counted_and_not_checked(
    database: Database, rows: Any, key: dict[str, str]
) -> None:
    database.table("t", TYPES, named(rows))
    found = plain_checks(database, FEW, suppressed_rows="keep", **key)
    rest = [item for item in rows if (item["a"], item["b"]) != ("*", "*")]
    assert (found.records, found.suppressed) == (len(rest), len(rows) - len(rest))
    matches_plain(found, rest, GROUP, key)


def test_loss_of_a_release_that_keeps_its_suppressed_rows(database: Database) -> None:
    database.table("t", {"a": "TEXT"}, [{"a": value} for value in "xyz"])
    database.table("r", {"a": "TEXT"}, [{"a": value} for value in ("low", "low", "*")])
    tree = {"tree": {"tree": {"*": {"low": ["x", "y"], "high": ["z"]}}}}
    policy = policy_for(["a"], [], [{"k_anonymity": {"k": 2}}], hierarchies={"a": tree}, suppressed_rows="keep")
    found = loss(policy, database.engine, Source(table="r"))
    assert (found.levels, found.suppressed) == ({"a": 1}, 1)


def test_a_row_of_stars_is_a_row_like_any_other_by_default(database: Database) -> None:
    database.table("t", TYPES, [dict.fromkeys(TYPES, "*")])
    found = plain_checks(database, ["k_anonymity"])
    assert (found.records, found.suppressed, found.checks[0].measured) == (1, 0, 1)


MONOTONE = {name: PLAIN[name] for name in ("k_anonymity", "recursive_cl_diversity", "t_closeness", "delta_disclosure")}
QIDS = {"small": ["a"], "large": ["a", "b"], "other": ["b", "u"]}
WITH_QIDS: dict[str, Any] = {"columns": COLUMNS | {"u": "quasi_identifier"}, "qids": QIDS}


def test_a_quasi_identifier_within_another_is_left_out_where_that_is_sound(database: Database) -> None:
    database.table("t", TYPES, [dict.fromkeys(TYPES, "x")] * 2)
    models: list[Any] = [{"k_anonymity": {"k": 2}}, {"expected_confidence": {}}]
    models += [{"k_anonymity": {"k": 2, "qid": "small"}}, {"k_anonymity": {"k": 2, "qid": ["u"]}}]
    found = check(policy_for(GROUP, ["s"], models, **WITH_QIDS), database.engine)
    large, small, other = ("a", "b"), ("a",), ("b", "u")
    asked = [(item.model, item.qid) for item in found.checks]
    assert asked[:2] == [("k_anonymity", large), ("k_anonymity", other)]
    assert asked[2:5] == [("expected_confidence", qid) for qid in (small, large, other)]  # it is not monotone
    assert asked[5:] == [("k_anonymity", small), ("k_anonymity", ("u",))]


@SHORTER
@given(rows=tables)
def test_what_holds_on_a_quasi_identifier_holds_on_its_subsets(database: Database, rows: Any) -> None:
    database.table("t", TYPES, rows)
    uses = [{name: {**params, "qid": qid}} for name, params in MONOTONE.items() for qid in ("large", "small")]
    found = check(policy_for(GROUP, ["s"], uses, **WITH_QIDS), database.engine).checks
    for large, small in zip(found[::2], found[1::2], strict=True):
        assert family("models")[large.model].monotone.startswith("yes")
        assert small.holds or not large.holds, large.model


def test_a_subset_is_checked_where_persons_are_in_several_classes(database: Database) -> None:
    rows = [("1", "ann", "flu"), ("1", "bob", "gout"), ("2", "ann", "hiv"), ("2", "eve", "flu")]
    database.table("t", TYPES, [{"a": "x", "b": b, "s": s, "u": None, "p": p} for b, p, s in rows])
    qids = {"small": ["a"], "large": ["a", "b"]}
    model = {"alpha_k_anonymity": {"alpha": 0.5, "k": 2}}
    assert not check(policy_for(GROUP, ["s"], [model], qids=qids, person="p"), database.engine).holds


# Notes ----------------------------------------------------------------------------------------------------------------


def test_a_sensitive_value_that_nobody_has_is_refused(database: Database) -> None:
    values = ["flu", "hiv", "rare", None]
    rows = [dict.fromkeys(TYPES, "x") | {"s": s} for s in values for _ in range(1 if s == "rare" else 5)]
    database.table("t", TYPES, rows)
    models: list[Any] = [
        {"confidence_bounding": {"value": "HIV", "h": 0.9}},
        {"alpha_k_anonymity": {"alpha": 0.9, "k": 2, "guarded": ["flu", None, "fluu"]}},
        {"l_plus_diversity": {"thresholds": {"hiv": 0.9, "rar": 0.1}}},
        {"positive_recursive_cl_diversity": {"c": 5, "l": 2, "dont_care": ["fly"]}},
        {"ff_anonymity": {"h": 0.9, "sensitive_values": {"s": ["gout"]}}},
    ]
    said = [
        "confidence_bounding: the value 'HIV' does not occur in 's'; did you mean 'hiv'?",
        "alpha_k_anonymity: the value 'fluu' does not occur in 's'; did you mean 'flu'?",
        "l_plus_diversity: the value 'rar' does not occur in 's'",  # what is close is had by too few to be told
        "ff_anonymity: the value 'gout' does not occur in 's'",
    ]
    with pytest.raises(PolicyError) as refused:
        check(policy_for(GROUP, ["s"], models, absent_values="refuse"), database.engine)
    assert refused.value.message.splitlines() == said
    assert list(check(policy_for(GROUP, ["s"], models), database.engine).notes) == said


def test_a_row_of_nobody_is_refused(database: Database) -> None:
    database.table("t", TYPES, [dict.fromkeys(TYPES, "x"), dict.fromkeys(TYPES, "x") | {"p": None}])
    with pytest.raises(PolicyError, match="person column 'p' is NULL in 1 rows"):
        check(policy_for(GROUP, ["s"], [{"k_anonymity": {"k": 2}}], person="p"), database.engine)


def test_twice_the_same_value_counts_once(database: Database) -> None:
    database.table("t", {"a": "TEXT", "s": "TEXT"}, [{"a": "x", "s": s} for s in ["hiv"] * 6 + ["flu"] * 3])
    for listed in (["flu"], ["flu", "flu"]):
        model = {"positive_recursive_cl_diversity": {"c": 1.5, "l": 2, "dont_care": listed}}
        assert check(policy_for(["a"], ["s"], [model]), database.engine).checks[0].measured == 2


def test_bounds_hold_to_the_last_digit(database: Database) -> None:
    rows = [{"a": "x", "s": "m", "n": 0.7}] * 109 + [{"a": "x", "s": "w", "n": 0.8}] * 100
    database.table("t", {"a": "TEXT", "s": "TEXT", "n": "NUMERIC(4, 1)"}, rows)
    models: list[Any] = [
        {"recursive_cl_diversity": {"c": 1.09, "l": 2, "attribute": "s"}},
        {"epsilon_m_anonymity": {"epsilon": 0.1, "m": 2, "attribute": "n"}},
    ]
    assert [result.holds for result in check(policy_for(["a"], ["s", "n"], models), database.engine).checks] == [
        False
    ] * 2


@pytest.mark.parametrize(
    "model",
    [
        {"l_plus_diversity": {"thresholds": {"flu": 20}}},
        {"expected_confidence": {"public": {"s": {"flu": 5}}}},
        {"expected_confidence": {"public": {"s": 0.5}}},
        {"expected_confidence": {"conditional": [{"value": "flu"}]}},
        {"ff_anonymity": {"h": 0.5, "sensitive_values": {"s": "flu"}}},
    ],
)
def test_parameters_that_would_allow_everything_are_refused(database: Database, model: Any) -> None:
    database.table("t", TYPES, [dict.fromkeys(TYPES, "x") | {"s": "flu"}])
    with pytest.raises(PolicyError):
        check(policy_for(GROUP, ["s"], [model]), database.engine)


def test_nulls_that_would_match_after_all_are_refused(database: Database) -> None:
    database.table("t", TYPES, [dict.fromkeys(TYPES, "x") | {"a": None}] * 2)
    freeform = policy_for(
        GROUP, ["s"], [{"ff_anonymity": {"h": 0.5, "sensitive_values": {"s": ["x"]}}}], nulls="unique"
    )
    crowd = policy_for(GROUP, ["s"], [{"k_map": {"k": 2}}], population={"table": "t"}, nulls="unique")
    for policy in (freeform, crowd):
        with pytest.raises(PolicyError, match="'nulls: unique' cannot be combined"):
            check(policy, database.engine)


def test_a_column_of_two_joined_tables_is_refused(database: Database) -> None:
    database.table("owners", {"id": "INTEGER", "zip": "TEXT"}, [{"id": 1, "zip": "1"}])
    database.table("visits", {"id": "INTEGER", "zip": "TEXT"}, [{"id": 1, "zip": "2"}])
    source = {"table": "owners", "joins": [{"table": "visits", "on": "id"}]}
    policy = policy_for(["zip"], [], [{"k_anonymity": {"k": 2}}], source=source, person="id")
    with pytest.raises(PolicyError, match="'zip' is in more than one"):
        check(policy, database.engine)


def test_a_release_is_judged_as_a_whole(database: Database) -> None:
    database.table("t", TYPES, [dict.fromkeys(TYPES, "x") for _ in range(4)])
    database.table("r", TYPES | {"more": "TEXT"}, [dict.fromkeys([*TYPES, "more"], "x") for _ in range(3)])
    roles = {"a": "quasi_identifier", "b": "quasi_identifier", "p": "identifier"}
    policy = policy_for([], [], [{"k_anonymity": {"k": 2}}], columns=roles, suppression_limit=0.1)
    found = check(policy, database.engine, release=Source(table="r"))
    assert found.checks[0].holds and not found.holds
    assert found.breaches == (
        "the release holds the identifier 'p'",
        "25.0% of the 4 rows of the source are suppressed, the limit is 10.0%",
    )
    assert "column 'more' of the release has no role in the policy" in found.notes


def test_a_boolean_that_occurs_is_not_refused(database: Database) -> None:
    database.table("t", {"a": "TEXT", "s": "BOOLEAN"}, [{"a": "x", "s": True}, {"a": "x", "s": False}])
    model = {"alpha_k_anonymity": {"alpha": 0.5, "k": 2, "guarded": [True]}}
    found = check(policy_for(["a"], ["s"], [model]), database.engine)
    assert found.holds and found.notes == ()


def test_a_release_without_its_person_column_is_noted(database: Database) -> None:
    database.table("t", TYPES, [dict.fromkeys(TYPES, "x")] * 2)
    database.table("r", dict.fromkeys("abs", "TEXT"), [dict.fromkeys("abs", "x")] * 2)
    policy = policy_for(GROUP, ["s"], [{"k_anonymity": {"k": 2}}], person="p")
    assert not check(policy, database.engine).holds
    found = check(policy, database.engine, release=Source(table="r"))
    assert found.checks[0].holds  # in rows; that all of them are one person's is told by what links them in the source
    assert found.linked is not None and found.linked.columns == ("s",) and not found.holds
    assert found.notes == ("the release has no column 'p': rows were counted, not persons",)

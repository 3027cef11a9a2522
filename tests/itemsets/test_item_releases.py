"""Releases of sets of items: worked examples, the greedy choices of the oracle, and properties of every algorithm."""

from __future__ import annotations

import json
from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Any

import brute_itemsets as brute
import pytest
from conftest import Database, examples
from hypothesis import example, given, settings
from hypothesis import strategies as st
from itemsets_world import asked, fill, released

from sqlanon.algorithms.item_suppression import hit_exactly, hit_greedily
from sqlanon.errors import HierarchyError, NotReleased, PolicyError
from sqlanon.evidence.checks import check
from sqlanon.itemsets.item_tree import tree_of_paths
from sqlanon.policy import Policy, Source
from sqlanon.release import Published, publish

NUMBERS = json.loads((Path(__file__).parent.parent / "oracles/numbers/itemsets.json").read_text(encoding="utf-8"))
WORKED, CASES = NUMBERS["worked"], NUMBERS["cases"]
TREE = {"*": ["A", "B"], "A": ["a1", "a2"], "B": ["b1", "b2"]}
LETTERS = {"*": ["X", "Y"], "X": ["a", "b", "c"], "Y": ["d", "e"]}
baskets = st.lists(st.frozensets(st.sampled_from("abcde"), min_size=1, max_size=5), min_size=4, max_size=12)
by_case = pytest.mark.parametrize("case", CASES, ids=lambda case: str(case["seed"]))


def run(database: Database, policy: Policy) -> Published:
    return publish(policy, database.engine, workload=False)


def anonymized(
    database: Database, models: list[dict[str, Any]], tree: Any = None, **more: Any
) -> tuple[Published, list[frozenset[str]]]:
    """A release, which `sqlanon check` must find to hold when it is asked again."""
    policy = asked(models, tree, release={"table": "r"}, **more)
    made = run(database, policy)
    again = check(policy, database.engine, release=Source(table="r"))
    assert again.holds and made.evidence is not None and made.evidence.holds
    return made, released(database)


def transactions(name: str) -> list[frozenset[str]]:
    return [frozenset(each.split()) for each in WORKED[name]["transactions"]]


# Worked examples ---------------------------------------------------------------------------------------------------


@pytest.mark.full_on_postgres
def test_apriori_of_the_worked_example(database: Database) -> None:
    persons = transactions("km")
    fill(database, persons)
    made, shown = anonymized(database, [{"km_anonymity": {"k": 2, "m": 2}}], TREE)
    labels = {"a1": "A", "a2": "A", "b1": "b1", "b2": "b2"}
    assert Counter(shown) == Counter(brute.recode(persons, labels))
    assert Fraction(made.plan.loss).limit_denominator(1000) == Fraction(WORKED["km"]["ncp_leaves_minus_1"])
    fill(database, persons)  # of others: the same persons are not shown twice
    made, shown = anonymized(database, [{"km_anonymity": {"k": 3, "m": 2}}], TREE)
    assert set().union(*shown) == set(WORKED["km"]["k3_cut"])
    assert Fraction(made.plan.loss).limit_denominator(1000) == Fraction(WORKED["km"]["k3_ncp"])


@pytest.mark.full_on_postgres
def test_item_suppression_of_the_worked_examples(database: Database) -> None:
    for name, models in {
        "km": [{"km_anonymity": {"k": 2, "m": 2}}],
        "coherence": [{"coherence": {"h": 0.8, "k": 2, "p": 2, "private": ["x", "y"]}}],
    }.items():
        persons = transactions(name)
        fill(database, persons)
        more = {"algorithm": "item_suppression", "suppression_limit": 0.5}
        _, shown = anonymized(database, models, **more)
        gone = set().union(*persons) - set().union(*shown)
        assert gone == set(WORKED[name].get("greedy", WORKED[name].get("suppressed")))


def test_suppress_control_of_the_worked_example(database: Database) -> None:
    fill(database, transactions("rho"))
    models = [{"rho_uncertainty": {"rho": 0.5, "sensitive": ["s1", "s2"]}}]
    _, shown = anonymized(database, models, suppression_limit=0.2)
    assert set().union(*transactions("rho")) - set().union(*shown) == set(WORKED["rho"]["greedy"])


# Other programs' numbers -------------------------------------------------------------------------------------------


@pytest.mark.full_on_postgres
@by_case
def test_apriori_takes_the_cut_of_the_oracle(database: Database, case: dict[str, Any]) -> None:
    persons = [frozenset(each) for each in case["transactions"]]
    fill(database, persons)
    made, shown = anonymized(database, [{"km_anonymity": {"k": case["k"], "m": case["m"]}}], case["tree"])
    known = case["km"]
    assert Fraction(made.plan.loss).limit_denominator(10_000) == Fraction(known["apriori_ncp"])
    assert set().union(*shown) <= set(known["apriori_cut"])
    losses = brute.best_cut(persons, case["tree"], lambda each: not brute.km_anonymity(each, k=case["k"], m=case["m"]))
    assert losses == Fraction(known["optimal_ncp"]) <= Fraction(made.plan.loss).limit_denominator(10_000)


@pytest.mark.full
@pytest.mark.full_on_postgres
@by_case
def test_suppression_leaves_out_what_the_oracle_does(database: Database, case: dict[str, Any]) -> None:
    persons = [frozenset(each) for each in case["transactions"]]
    values = case["lkc"]["sensitive_values"]
    given_, lkc, rho = case["coherence"], case["lkc"], case["rho"]
    wanted = [
        ({"km_anonymity": {"k": case["k"], "m": case["m"]}}, case["km"]["greedy_suppressed"], False),
        (
            {
                "coherence": {
                    "h": float(Fraction(given_["h"])),
                    "k": given_["k"],
                    "p": given_["p"],
                    "private": given_["private"],
                }
            },
            given_["greedy_suppressed"],
            False,
        ),
        (
            {"rho_uncertainty": {"rho": float(Fraction(rho["rho"])), "sensitive": rho["sensitive"]}},
            rho["greedy_suppressed"],
            False,
        ),
        (
            {"lkc_privacy": {"l": lkc["L"], "k": lkc["K"], "c": float(Fraction(lkc["C"])), "guarded": lkc["guarded"]}},
            lkc["greedy_suppressed"],
            True,
        ),
    ]
    for model, greedy, with_values in wanted:
        fill(database, persons, values if with_values else None)
        more = {"values": with_values, "suppression_limit": 1.0, "absent_values": "allow"}
        made, shown = anonymized(database, [model], **more)
        assert set().union(*persons) - set().union(*shown) == set(greedy), model
        document = made.document["items"]
        assert document["suppressed_rows"] == sum(len(each & set(greedy)) for each in persons)
        assert document["suppressed_persons"] == sum(not each - set(greedy) for each in persons)
    if case["km"]["greedy_suppressed"]:
        sets = [frozenset(each) for each in case["km"]["minimal_violations"]]
        weights = Counter(item for person in persons for item in person)
        assert brute.least_hitting(sets, weights) == case["km"]["least_occurrences"]


# Properties --------------------------------------------------------------------------------------------------------


@pytest.mark.full_on_postgres
@settings(max_examples=examples(20))
@given(persons=baskets, k=st.integers(2, 4), m=st.integers(1, 3))
def test_apriori_never_breaks_its_model(database: Database, persons: Any, k: int, m: int) -> None:
    fill(database, persons)
    made, shown = anonymized(database, [{"km_anonymity": {"k": k, "m": m}}], LETTERS)
    assert brute.km_anonymity(shown, k=k, m=m) == set()
    labels = set().union(*shown)
    paths = brute.paths(LETTERS)
    # The labels are a cut: each item is covered by exactly one, and everybody is shown with the labels of their items.
    cover = {item: [node for node in paths[item] if node in labels] for item in set().union(*persons)}
    assert all(len(nodes) == 1 for nodes in cover.values())
    chosen = {item: nodes[0] for item, nodes in cover.items()}
    assert Counter(shown) == Counter(brute.recode(persons, chosen))
    assert abs(brute.ncp(persons, chosen, LETTERS) - Fraction(made.plan.loss)) < Fraction(1, 10**9)


@pytest.mark.full_on_postgres
def test_apriori_leaves_rare_items_out_where_that_loses_less(database: Database) -> None:
    """By hand: one person with c. The root loses 41 occurrences of 2/4 each at least, to leave c out loses one."""
    persons = [frozenset("ad")] * 20 + [frozenset("ac")]
    fill(database, persons)
    made, shown = anonymized(database, [{"km_anonymity": {"k": 2, "m": 2}}], LETTERS, suppression_limit=0.05)
    assert Counter(shown) == Counter([frozenset("ad")] * 20 + [frozenset("a")])
    assert made.plan.suppressed == 1 and Fraction(made.plan.loss).limit_denominator(1000) == Fraction(1, 42)
    fill(database, persons)
    made, shown = anonymized(database, [{"km_anonymity": {"k": 2, "m": 2}}], LETTERS, suppression_limit=0.02)
    assert made.plan.suppressed == 0 and made.plan.loss > 1 / 42  # one row of 42 is more than 2 %


@pytest.mark.full_on_postgres
@settings(max_examples=examples(20))
@given(persons=baskets, k=st.integers(2, 4), m=st.integers(1, 3), limit=st.sampled_from([0.1, 0.3, 0.6]))
def test_apriori_with_suppression_never_breaks_its_model(
    database: Database, persons: Any, k: int, m: int, limit: float
) -> None:
    fill(database, persons)
    made, shown = anonymized(database, [{"km_anonymity": {"k": k, "m": m}}], LETTERS, suppression_limit=limit)
    assert brute.km_anonymity(shown, k=k, m=m) == set()
    labels, ways = set().union(*shown), brute.paths(LETTERS)
    cover = {item: [node for node in ways[item] if node in labels] for item in set().union(*persons)}
    assert all(len(nodes) <= 1 for nodes in cover.values())
    # A label may stand for fewer items than lie below it, where some of these were left out before it was raised to.
    every = sum(map(len, persons))
    assert made.plan.suppressed <= limit * every + 1e-9
    assert made.document["items"]["suppressed_rows"] == made.plan.suppressed


def test_a_rare_item_costs_detail_in_one_part_only(database: Database) -> None:
    """By hand: {a d} ten times, {b e} nine times, {b c} once. One cut raises all; with two parts ten stay the same."""
    persons = [frozenset("ad")] * 10 + [frozenset("be")] * 9 + [frozenset("bc")]
    fill(database, persons)
    models = [{"km_anonymity": {"k": 2, "m": 2}}]
    whole, shown = anonymized(database, models, LETTERS)
    assert shown.count(frozenset("ad")) == 0
    fill(database, persons)
    made, shown = anonymized(database, models, LETTERS, algorithm={"apriori": {"parts": 2}})
    assert shown.count(frozenset("ad")) == 10 and made.plan.suppressed == 0
    assert made.plan.loss < whole.plan.loss and made.document["items"]["parts"] == 2


@pytest.mark.full_on_postgres
@settings(max_examples=examples(25))
@given(
    persons=baskets, k=st.integers(2, 3), m=st.integers(1, 3), parts=st.integers(2, 5), limit=st.sampled_from([0, 0.3])
)
@example(
    [frozenset("a")] * 4 + [frozenset("b"), frozenset("ac")], 3, 1, 2, 0.3
)  # one part alone has too few with items
def test_apriori_in_parts_never_breaks_its_model(
    database: Database, persons: Any, k: int, m: int, parts: int, limit: float
) -> None:
    fill(database, persons)
    models = [{"km_anonymity": {"k": k, "m": m}}]
    more: dict[str, Any] = {"algorithm": {"apriori": {"parts": parts}}, "suppression_limit": limit}
    made, shown = anonymized(database, models, LETTERS, **more)
    assert brute.km_anonymity(shown, k=k, m=m) == set()
    assert made.plan.suppressed <= limit * sum(map(len, persons)) + 1e-9
    ways = brute.paths(LETTERS)
    above = {node for item in set().union(*persons) for node in ways[item]}
    assert set().union(*shown) <= above
    if not limit:  # everybody is shown, with as many labels as they have items at most
        assert len(shown) == len(persons)
        assert sum(map(len, shown)) <= sum(map(len, persons))


@pytest.mark.full_on_postgres
@settings(max_examples=examples(20))
@given(persons=baskets, k=st.integers(2, 3), m=st.integers(1, 3), exact=st.booleans())
def test_item_suppression_never_breaks_its_model(database: Database, persons: Any, k: int, m: int, exact: bool) -> None:
    fill(database, persons)
    models = [{"km_anonymity": {"k": k, "m": m}}, {"coherence": {"h": 0.75, "k": 2, "p": 2, "private": ["a"]}}]
    more = {"absent_values": "allow", "suppression_limit": 1.0, "algorithm": {"item_suppression": {"exact": exact}}}
    try:
        made, shown = anonymized(database, models, **more)
    except NotReleased as refused:
        assert "every item would have to be suppressed" in str(refused)
        return
    assert brute.km_anonymity(shown, k=k, m=m) == set()
    assert brute.coherence(shown, h=Fraction(3, 4), k=2, p=2, private=["a"]) == set()
    kept = set().union(*shown)
    assert Counter(shown) == Counter(own for person in persons if (own := person & kept))
    assert made.plan.suppressed == sum(len(person - kept) for person in persons)


@settings(max_examples=examples(15))
@given(persons=baskets, rho=st.sampled_from([Fraction(1, 2), Fraction(2, 3), Fraction(9, 10)]), down=st.booleans())
def test_rho_uncertainty_never_breaks(database: Database, persons: Any, rho: Fraction, down: bool) -> None:
    fill(database, persons)
    models = [{"rho_uncertainty": {"rho": float(rho), "sensitive": ["a", "d"]}}]
    more: dict[str, Any] = {"absent_values": "allow", "suppression_limit": 1.0}
    more["algorithm"] = "td_control" if down else "suppress_control"
    try:
        _, shown = anonymized(database, models, LETTERS, **more)
    except NotReleased as refused:
        assert "every item would have to be suppressed" in str(refused)
        return
    assert brute.rho_rules(shown, rho=rho, sensitive=["a", "d"]) == set()
    paths = brute.paths(LETTERS)
    for item in ("a", "d"):  # never generalized, but left out for all or for nobody
        assert brute.support(shown, [item]) in (0, brute.support(persons, [item]))
    labels = set().union(*shown)
    nodes = {item: next((node for node in paths[item] if node in labels), None) for item in set("bce")}
    nodes |= {item: item if item in labels else None for item in "ad"}
    assert Counter(shown) == Counter(each for each in brute.recode(persons, nodes) if each)


@pytest.mark.full_on_postgres
@settings(max_examples=examples(20))
@given(persons=baskets, k=st.integers(2, 4))
def test_set_partition_never_breaks_its_model(database: Database, persons: Any, k: int) -> None:
    fill(database, persons)
    made, shown = anonymized(database, [{"k_anonymity": {"k": k}}], LETTERS)
    assert brute.alike(shown, k=k) == set() and len(shown) == len(persons)
    paths = brute.paths(LETTERS)
    fits = [[place for place, labels in enumerate(shown) if covers(labels, person, paths)] for person in persons]
    assert matches(fits), "somebody is shown with labels that do not cover their items"
    assert 0 <= made.plan.loss <= 1


def covers(labels: frozenset[str], person: frozenset[str], paths: dict[str, list[str]]) -> bool:
    """Whether each item has exactly one of the labels above it, and each label an item below it."""
    chosen = [[node for node in paths[item] if node in labels] for item in person]
    return all(len(nodes) == 1 for nodes in chosen) and {nodes[0] for nodes in chosen} == labels


def matches(fits: list[list[int]]) -> bool:
    """Whether everybody can be given a released set of their own that fits."""
    taken: dict[int, int] = {}

    def place(person: int, seen: set[int]) -> bool:
        for each in fits[person]:
            if each not in seen:
                seen.add(each)
                if each not in taken or place(taken[each], seen):
                    taken[each] = person
                    return True
        return False

    return all(place(person, set()) for person in range(len(fits)))


def test_set_partition_shows_alike_persons_as_they_are(database: Database) -> None:
    persons = [frozenset("ab")] * 3 + [frozenset("de")] * 3
    fill(database, persons)
    made, shown = anonymized(database, [{"k_anonymity": {"k": 3}}], LETTERS)
    assert Counter(shown) == Counter(persons) and made.plan.loss == 0


# The choice of items -----------------------------------------------------------------------------------------------

small_sets = st.lists(st.frozensets(st.sampled_from(range(6)), min_size=1, max_size=3), min_size=1, max_size=8)


@settings(max_examples=examples(100))
@given(sets=small_sets, weights=st.lists(st.integers(1, 9), min_size=6, max_size=6))
def test_the_exact_choice_costs_least(sets: Any, weights: list[int]) -> None:
    weighed = dict(enumerate(weights))
    best = brute.least_hitting([frozenset(map(str, each)) for each in sets], {str(i): w for i, w in weighed.items()})
    greedy = hit_greedily(sets, weighed, {item: str(item) for item in weighed})
    assert all(each & greedy for each in sets) and sum(weighed[item] for item in greedy) >= best
    pytest.importorskip("highspy", reason="the exact choice needs highspy")
    exact = hit_exactly(sets, weighed, 10)
    assert exact is not None
    assert all(each & exact for each in sets) and sum(weighed[item] for item in exact) == best


# What a release is -------------------------------------------------------------------------------------------------


def test_a_release_has_fresh_numbers_and_the_sensitive_value(database: Database) -> None:
    persons = [frozenset("ab"), frozenset("ab"), frozenset("a"), frozenset("c")] * 3
    values = ["flu", "hiv", "gout", "flu"] * 3
    fill(database, persons, values)
    models = [{"lkc_privacy": {"l": 2, "k": 3, "c": 0.9, "guarded": ["hiv"]}}]
    made, shown = anonymized(database, models, values=True)
    assert Counter(shown) == Counter(persons)
    rows = database.fetch("SELECT person_number, product, disease FROM r ORDER BY person_number, product")
    by_person: dict[int, tuple[str, str]] = {}
    for number, item, value in rows:
        by_person[number] = (by_person.get(number, ("", ""))[0] + item, value)
    assert Counter(by_person.values()) == Counter(("".join(sorted(p)), v) for p, v in zip(persons, values, strict=True))
    assert made.document["items"]["sizes_after"] == [[1, 6], [2, 6]]


def test_what_costs_more_than_allowed_is_refused(database: Database) -> None:
    fill(database, transactions("km"))
    with pytest.raises(NotReleased, match=r"18\.2% of the 11 rows would be suppressed, the limit is 0\.0%") as refused:
        run(database, asked([{"km_anonymity": {"k": 2, "m": 2}}], release={"table": "r"}))
    assert "suppression_limit: 0.19" in str(refused.value)


def test_fewer_persons_than_k_are_refused(database: Database) -> None:
    fill(database, [["a1"], ["b1"]])
    for model in ({"km_anonymity": {"k": 3, "m": 1}}, {"k_anonymity": {"k": 3}}):
        with pytest.raises(NotReleased, match="2 persons have items, and k is 3"):
            run(database, asked([model], TREE, release={"table": "r"}))


@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_a_release_may_be_a_file(duck: Database, tmp_path: Path, ending: str) -> None:
    fill(duck, transactions("km"))
    path = str(tmp_path / f"r.{ending}")
    policy = asked([{"km_anonymity": {"k": 2, "m": 2}}], TREE, release={"path": path})
    assert run(duck, policy).document["release"]["kind"] == "path"
    assert check(policy, duck.engine, release=Source(path=path)).holds


def test_a_release_may_be_a_view_and_is_refreshed(database: Database) -> None:
    fill(database, transactions("km"))
    policy = asked([{"km_anonymity": {"k": 2, "m": 2}}], TREE, release={"view": "r"})
    first = run(database, policy)
    second = run(database, policy)
    assert first.plan.hash == second.plan.hash and first.document["holds"]
    assert len(released(database)) == 4


def test_a_foreign_release_is_looked_through(database: Database) -> None:
    """One that shows who somebody is, that holds an item of nobody, or too few persons."""
    fill(database, transactions("km"))
    policy = asked([{"km_anonymity": {"k": 2, "m": 1}}], TREE)
    database.run("CREATE TABLE other AS SELECT who, who AS person_number, product FROM baskets WHERE who < 2")
    database.run("INSERT INTO other VALUES (1, 1, 'zz'), (0, 0, 'zz')")
    found = check(policy, database.engine, release=Source(table="other"))
    assert not found.holds
    assert found.breaches == (
        "the release holds the identifier 'who'",
        "the release holds 1 items that are neither in the source nor in their hierarchy",
        "50.0% of the 4 persons of the source are suppressed, the limit is 0.0%",
    )


@pytest.mark.parametrize(
    "paths",
    [
        [("a", "X", "*"), ("b", "Y", "*"), ("X", "Z", "*")],  # a leaf that is called as a node
        [("a", "X", "U", "*"), ("b", "X", "V", "*")],  # a node with two parents
        [("a", "X", "a", "*")],
        [("a", "*"), ("b", "other root")],
    ],
)
def test_labels_that_stand_for_two_nodes_are_refused(paths: list[tuple[str, ...]]) -> None:
    with pytest.raises(HierarchyError, match="stands for two nodes"):
        tree_of_paths(paths, "product")


def test_a_column_called_as_the_number_is_refused(duck: Database) -> None:
    duck.table("baskets", {"who": "INTEGER", "person_number": "TEXT"}, [{"who": 1, "person_number": "a"}] * 2)
    policy = asked([{"km_anonymity": {"k": 2, "m": 1}}], release={"table": "r"})
    named = policy.columns["product"]
    other = policy.model_copy(update={"columns": {"who": policy.columns["who"], "person_number": named}})
    with pytest.raises(PolicyError, match="a release calls its persons 'person_number'"):
        run(duck, other)

"""The models of sets of items: worked examples, other programs' numbers, and all subsets of small random data."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import brute_itemsets as brute
import pytest
from conftest import Database, examples
from hypothesis import given, settings
from hypothesis import strategies as st
from itemsets_world import asked, fill, measured, shown_sets

from sqlanon.errors import PolicyError

NUMBERS = json.loads((Path(__file__).parent.parent / "oracles/numbers/itemsets.json").read_text(encoding="utf-8"))
CASES = NUMBERS["cases"]
KM = [each.split() for each in NUMBERS["worked"]["km"]["transactions"]]
COHERENCE = [each.split() for each in NUMBERS["worked"]["coherence"]["transactions"]]
RHO = [each.split() for each in NUMBERS["worked"]["rho"]["transactions"]]
ITEMS = ["a", "b", "c", "d", "e"]
baskets = st.lists(st.frozensets(st.sampled_from(ITEMS), min_size=1, max_size=5), min_size=1, max_size=9)
shares = st.sampled_from([Fraction(1, 3), Fraction(1, 2), Fraction(3, 5), Fraction(2, 3), Fraction(4, 5), Fraction(1)])


def sets(listed: list[Any]) -> set[frozenset[str]]:
    return {frozenset(each.split() if isinstance(each, str) else each) for each in listed}


# Worked examples ---------------------------------------------------------------------------------------------------


def test_km_anonymity_of_the_worked_example(database: Database) -> None:
    fill(database, KM)
    found = measured(database, asked([{"km_anonymity": {"k": 2, "m": 2}}]))
    assert shown_sets(found) == sets(NUMBERS["worked"]["km"]["violations_k2_m2"])
    assert (found.broken_classes, found.measured, found.holds) == (2, 1.0, False)


def test_coherence_of_the_worked_example(database: Database) -> None:
    worked = NUMBERS["worked"]["coherence"]
    fill(database, COHERENCE)
    params = {"h": 0.8, "k": worked["k"], "p": worked["p"], "private": worked["private"]}
    found = measured(database, asked([{"coherence": params}]))
    assert found.broken_classes == len(worked["minimal"])
    # Each mole is had by one person, and what was measured on a private item would be theirs.
    assert found.violations == ()
    moles = brute.coherence([frozenset(each) for each in COHERENCE], **params | {"h": Fraction(4, 5)})
    assert len(moles) == worked["moles"] and brute.minimal(moles) == sets(worked["minimal"])


def test_rho_uncertainty_of_the_worked_example(database: Database) -> None:
    fill(database, RHO)
    sensitive = NUMBERS["worked"]["rho"]["sensitive"]
    assert measured(database, asked([{"rho_uncertainty": {"rho": 0.6, "sensitive": sensitive}}])).holds
    found = measured(database, asked([{"rho_uncertainty": {"rho": 0.5, "sensitive": sensitive}}]))
    assert shown_sets(found) == {frozenset("b")} and found.measured == 0.5


def test_at_least_k_persons_are_enough(database: Database) -> None:
    fill(database, [["a", "b"]] * 3)
    assert measured(database, asked([{"km_anonymity": {"k": 3, "m": 2}}])).holds
    assert not measured(database, asked([{"km_anonymity": {"k": 4, "m": 2}}])).holds


# Other programs' numbers -------------------------------------------------------------------------------------------


@pytest.mark.full_on_postgres
@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case["seed"]))
def test_minimal_sets_are_those_of_the_oracle(database: Database, case: dict[str, Any]) -> None:
    persons, k = case["transactions"], case["k"]
    fill(database, persons, case["lkc"]["sensitive_values"])
    km = measured(database, asked([{"km_anonymity": {"k": k, "m": case["m"]}}]))
    assert shown_sets(km) == sets(case["km"]["minimal_violations"])
    given_ = case["coherence"]
    params = {"h": float(Fraction(given_["h"])), "k": given_["k"], "p": given_["p"], "private": given_["private"]}
    coherent = measured(database, asked([{"coherence": params}], absent_values="allow"))
    assert coherent.broken_classes == len(given_["minimal_moles"])
    rho = case["rho"]
    params = {"rho": float(Fraction(rho["rho"])), "sensitive": rho["sensitive"]}
    found = measured(database, asked([{"rho_uncertainty": params}], absent_values="allow"))
    assert found.holds is (rho["broken_rules"] == 0)
    assert found.measured is not None and found.measured <= float(Fraction(rho["worst"]))
    lkc = case["lkc"]
    params = {"l": lkc["L"], "k": lkc["K"], "c": float(Fraction(lkc["C"])), "guarded": lkc["guarded"]}
    found = measured(database, asked([{"lkc_privacy": params}], values=True, absent_values="allow"))
    assert found.broken_classes == len(lkc["minimal"])
    assert found.attribute == "disease"


# All subsets -------------------------------------------------------------------------------------------------------


@settings(max_examples=examples(40))
@given(persons=baskets, k=st.integers(2, 4), m=st.integers(1, 5))
def test_km_anonymity_is_the_definition(database: Database, persons: Any, k: int, m: int) -> None:
    fill(database, persons)
    found = measured(database, asked([{"km_anonymity": {"k": k, "m": m}}]))
    broken = brute.km_anonymity(persons, k=k, m=m)
    assert shown_sets(found) == brute.minimal(broken)
    assert found.broken_classes == len(brute.minimal(broken))
    # Nothing above a broken set is counted.
    counted = [each for each in brute.occurring(persons, m) if not any(other < each for other in brute.minimal(broken))]
    assert (found.measured, found.classes) == (min(brute.support(persons, each) for each in counted), len(counted))


@settings(max_examples=examples(40))
@given(persons=baskets, h=shares, k=st.integers(2, 4), p=st.integers(1, 4))
def test_coherence_is_the_definition(database: Database, persons: Any, h: Fraction, k: int, p: int) -> None:
    fill(database, persons)
    params = {"k": k, "p": p, "private": ["a", "b"]}
    found = measured(database, asked([{"coherence": params | {"h": float(h)}}], absent_values="allow"))
    moles = brute.minimal(brute.coherence(persons, h=h, **params))
    assert found.broken_classes == len(moles)
    assert shown_sets(found) == {each for each in moles if brute.support(persons, each) > 1}


@settings(max_examples=examples(40))
@given(persons=baskets, rho=shares, antecedent=st.sampled_from([None, 1, 2, 3]))
def test_rho_uncertainty_is_the_definition(
    database: Database, persons: Any, rho: Fraction, antecedent: int | None
) -> None:
    fill(database, persons)
    params = {"sensitive": ["a", "b"]} | ({"antecedent": antecedent} if antecedent else {})
    found = measured(database, asked([{"rho_uncertainty": params | {"rho": float(rho)}}], absent_values="allow"))
    rules = brute.rho_rules(persons, rho=rho, sensitive=["a", "b"], antecedent=antecedent)
    known = brute.minimal({each for each, _ in rules})
    assert found.broken_classes == len(known)
    assert shown_sets(found) == {each for each in known if brute.support(persons, each) > 1 and not each & {"a", "b"}}


@settings(max_examples=examples(40))
@given(data=st.data(), persons=baskets, c=shares, k=st.integers(2, 4), l=st.integers(1, 4))
def test_lkc_privacy_is_the_definition(
    database: Database,
    data: Any,
    persons: Any,
    c: Fraction,
    k: int,
    l: int,  # noqa: E741
) -> None:
    values = data.draw(st.lists(st.sampled_from("uvw"), min_size=len(persons), max_size=len(persons)))
    guarded = data.draw(st.sampled_from([None, [values[0]]]))
    fill(database, persons, values)
    params = {"l": l, "k": k} | ({"guarded": guarded} if guarded else {})
    found = measured(database, asked([{"lkc_privacy": params | {"c": float(c)}}], values=True))
    broken = brute.minimal(brute.lkc_privacy(persons, values, l=l, k=k, c=c, guarded=guarded))
    assert found.broken_classes == len(broken)
    assert shown_sets(found) == {each for each in broken if brute.support(persons, each) > 1}


@settings(max_examples=examples(40))
@given(persons=baskets, k=st.integers(2, 4))
def test_k_anonymity_counts_whole_sets(database: Database, persons: Any, k: int) -> None:
    fill(database, persons)
    found = measured(database, asked([{"k_anonymity": {"k": k}}]))
    assert shown_sets(found) == brute.alike(persons, k=k)
    assert found.classes == len(set(persons))
    assert found.broken_records == sum(each in brute.alike(persons, k=k) for each in persons)


# What is shown -----------------------------------------------------------------------------------------------------


def test_no_set_is_shown_with_limit_0(duck: Database) -> None:
    fill(duck, KM)
    found = measured(duck, asked([{"km_anonymity": {"k": 2, "m": 2}}]), limit=0)
    assert (found.violations, found.broken_classes) == ((), 2)


def test_the_worst_sets_are_shown_first(duck: Database) -> None:
    fill(duck, [*KM, ["z"]])
    found = measured(duck, asked([{"km_anonymity": {"k": 3, "m": 2}}]), limit=2)
    assert [(item.columns["product"], item.records) for item in found.violations] == [("z", 1), ("a1", 2)]


# What cannot be counted ----------------------------------------------------------------------------------------------


def test_more_items_than_anybody_has_are_all_items(database: Database) -> None:
    fill(database, KM)
    some = measured(database, asked([{"km_anonymity": {"k": 2, "m": 3}}]))
    many = measured(database, asked([{"km_anonymity": {"k": 2, "m": 50}}]))
    assert (some.classes, some.broken_classes) == (many.classes, many.broken_classes)


def test_items_that_are_said_twice_count_once(database: Database) -> None:
    fill(database, [["a"], ["a", "b"], ["b"]])
    database.run("INSERT INTO baskets SELECT * FROM baskets")
    found = measured(database, asked([{"km_anonymity": {"k": 3, "m": 1}}]))
    assert (found.broken_classes, found.measured) == (2, 2.0)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("(NULL, 'a')", "the person column 'who' is NULL in 1 row"),
        ("(7, NULL)", "the item column 'product' is NULL in 1 row"),
    ],
)
def test_null_is_refused(database: Database, row: str, message: str) -> None:
    fill(database, KM)
    database.run(f"INSERT INTO baskets VALUES {row}")
    with pytest.raises(PolicyError, match=message):
        measured(database, asked([{"km_anonymity": {"k": 2, "m": 2}}]))


def test_several_sensitive_values_of_a_person_are_refused(database: Database) -> None:
    fill(database, [["a", "b"], ["a"]], ["flu", "hiv"])
    database.run("INSERT INTO baskets VALUES (0, 'c', 'gout')")
    with pytest.raises(PolicyError, match="says several things of one person") as refused:
        measured(database, asked([{"lkc_privacy": {"l": 1, "k": 2, "c": 0.5}}], values=True))
    assert "gout" not in str(refused.value)


def test_a_private_item_that_nobody_has_is_a_typo(database: Database) -> None:
    fill(database, COHERENCE)
    params = {"h": 0.8, "k": 2, "p": 2, "private": ["x", "insulim"]}
    with pytest.raises(PolicyError, match="coherence: 'insulim' of 'private' is not in the data"):
        measured(database, asked([{"coherence": params}]))
    assert measured(database, asked([{"coherence": params}], absent_values="allow")).broken_classes


def test_a_base_rate_above_the_limit_is_told(duck: Database) -> None:
    from sqlanon.evidence.checks import check

    fill(duck, [["a", "x"], ["b", "x"], ["a", "b"]])
    found = check(asked([{"coherence": {"h": 0.5, "k": 2, "p": 1, "private": ["x"]}}]), duck.engine)
    assert "coherence: 1 of 1 private or sensitive values are had by a share of all persons above 0.5" in found.notes[0]


def test_an_empty_table_holds_nothing(database: Database) -> None:
    from sqlanon.evidence.checks import check

    fill(database, [])
    found = check(asked([{"km_anonymity": {"k": 2, "m": 2}}]), database.engine)
    assert not found.holds and found.breaches == ("there is no row to measure",)


def test_one_giant_basket_is_refused_unless_its_items_are_rare(duck: Database) -> None:
    """10^5 items of one person have 5 * 10^9 pairs. Where nobody else has them, they break the model one by one."""
    duck.run("CREATE TABLE baskets AS SELECT 1 AS who, 'i' || n AS product FROM range(100000) AS t(n)")
    policy = asked([{"km_anonymity": {"k": 2, "m": 2}}])
    assert measured(duck, policy, limit=1).broken_classes == 100_000
    duck.run("INSERT INTO baskets SELECT 2, product FROM baskets")
    with pytest.raises(PolicyError, match=r"1\.0e\+10 sets of items would be counted") as refused:
        measured(duck, policy)
    assert "take 'm: 1'" in str(refused.value)
    duck.run("INSERT INTO baskets SELECT 3, product FROM baskets WHERE who = 1 AND product <> 'i1'")
    with pytest.raises(PolicyError, match="sets of items would be counted"):
        measured(duck, asked([{"rho_uncertainty": {"rho": 0.9, "sensitive": ["i1"]}}]))


def test_an_item_outside_the_hierarchy_is_refused(database: Database) -> None:
    from sqlanon.errors import HierarchyError

    fill(database, [["a1", "b1"], ["a1", "zz"]])
    tree = {"*": ["A", "B"], "A": ["a1"], "B": ["b1"]}
    with pytest.raises(HierarchyError, match="does not cover values of the column"):
        measured(database, asked([{"km_anonymity": {"k": 2, "m": 1}}], tree))


def test_names_with_quotes_and_letters_of_other_alphabets(database: Database) -> None:
    database.table('ba"skets', {"wh'o": "TEXT", 'é "i" 項': "TEXT"}, [{"wh'o": "o'", 'é "i" 項': "d'or, x"}] * 2)
    from sqlanon.evidence.checks import check
    from sqlanon.policy import parse

    written = {
        "source": {"table": '"ba""skets"'},
        "person": "wh'o",
        "shape": "set",
        "columns": {"wh'o": "identifier", 'é "i" 項': "item"},
        "models": [{"km_anonymity": {"k": 2, "m": 2}}],
    }
    (found,) = check(parse(json.dumps(written)), database.engine).checks
    assert found.violations[0].columns == {'é "i" 項': "d'or, x"}


@settings(max_examples=examples(15))
@given(persons=baskets, rho=st.sampled_from([Fraction(1, 2), Fraction(4, 5)]))
def test_every_item_may_be_known_and_sensitive(database: Database, persons: Any, rho: Fraction) -> None:
    """Quasi-sensitive items: each is listed as sensitive, and is what an attacker knows for the others."""
    fill(database, persons)
    every = sorted(set().union(*persons))
    policy = asked([{"rho_uncertainty": {"rho": float(rho), "sensitive": every}}])
    wanted = brute.minimal({known for known, _ in brute.rho_rules(persons, rho=rho, sensitive=every)})
    assert measured(database, policy).broken_classes == len(wanted)

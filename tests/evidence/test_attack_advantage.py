"""How much more often attacks are right about persons of the table than about others: against plain Python."""

from __future__ import annotations

import itertools
import math
import random
import statistics
from collections.abc import Callable, Sequence
from typing import Any

import brute_guesses as brute
import pytest
from conftest import Database, examples
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from test_attacks import COLUMNS, KINDS, LABELS, Levels, Table, fits, keys, levels, people, persons, policy, released

from sqlanon.errors import PolicyError, SqlanonError
from sqlanon.evidence.attacks import Advantage, Attacks, attack
from sqlanon.evidence.attacks.success_rates import NORMAL, residual, success_rate
from sqlanon.families import family
from sqlanon.policy import Policy, Source, parse

NAMES = ["attribute_linkage", "homogeneity", "skewness", "background_knowledge", "similarity", "linkage", "membership"]
EVERY = [*NAMES, "definetti", "distance_linkage"]


def job_fits(person: Any, key: Any) -> bool:
    return fits((person[0], None), (key[0], None))


def age_fits(person: Any, key: Any) -> bool:
    return fits((None, person[1]), (None, key[1]))


COLUMNS_ALONE = (job_fits, age_fits)


def advantages(found: Attacks) -> dict[tuple[str, str | None], Advantage]:
    return {(item.attack, item.attribute): item for item in found.advantages}


def guess_of(name: str, shown: Table, gain: float, knowledge: int) -> Callable[[Any, str], brute.Guess]:
    rows = list(zip(keys(shown), (row["s"] for row in shown), strict=True))
    listed = [key for key, _ in rows]
    believe = brute.share_of(rows, fits)
    match name:
        case "attribute_linkage":
            return lambda person, truth: brute.most_believed(person, truth, believe, rows)
        case "homogeneity":
            return lambda person, truth: brute.homogeneity(person, truth, believe, rows)
        case "skewness":
            return lambda person, truth: brute.skewness(person, truth, believe, rows, gain)
        case "background_knowledge":
            return lambda person, truth: brute.background_knowledge(person, truth, believe, rows, knowledge)
        case "similarity":
            return lambda person, truth: brute.similarity(person, truth, believe, rows, KINDS.__getitem__)
        case "linkage":
            return lambda person, _: brute.linkage(person, listed, fits, COLUMNS_ALONE)
    return lambda person, _: brute.membership(person, listed, fits, COLUMNS_ALONE)


def counted(table: Table, guess: Callable[[Any, str], brute.Guess], *, of_values: bool) -> tuple[Any, ...]:
    listed = [
        (row.get("id", place), guess(own, row["s"]))
        for place, (own, row) in enumerate(zip(people(table), table, strict=True))
        if not of_values or row["s"] is not None
    ]
    return brute.rates(listed)


def require_alike(
    found: Attacks, name: str, members: Table, control: Table, guess: Callable[[Any, str], brute.Guess]
) -> None:
    """One attack on the column s, or on none, is as plain Python says."""
    of_values = "sensitive" in family("attacks")[name].needs
    ours, theirs = (counted(table, guess, of_values=of_values) for table in (members, control))
    item = advantages(found).get((name, "s" if of_values else None))
    if not ours[1]:
        assert item is None
        return
    assert item is not None, found.not_compared
    assert (item.targets, item.attacked.guesses) == ours[:2]
    assert item.attacked.right == pytest.approx(ours[2], abs=1e-9)
    assert item.by_margins.right == pytest.approx(ours[3], abs=1e-9)
    assert item.control_targets == theirs[0]
    if theirs[1]:
        assert item.control is not None and item.control.guesses == theirs[1] and item.against == "control"
        assert item.control.right == pytest.approx(theirs[2], abs=1e-9)
    else:
        assert item.control is None and item.against == "margins"
    against = item.control or item.by_margins
    assert (item.advantage, item.low, item.high) == residual(item.attacked, against)
    assert item.finding == (item.low > found.least_advantage)


@pytest.mark.full_on_postgres
@given(
    members=persons, control=persons, chosen=st.one_of(levels, st.lists(levels, min_size=12, max_size=12)),
    gain=st.sampled_from([0.0, 0.2]), knowledge=st.integers(0, 2),
)  # fmt: skip
@settings(max_examples=examples(20))
def test_attack_control_and_margins(
    database: Database, members: Table, control: Table, chosen: Levels | list[Levels], gain: float, knowledge: int
) -> None:
    shown = released(members, chosen)
    assume(any(row["s"] is not None for row in members))
    database.table("t", COLUMNS, members)
    database.table("r", LABELS, shown)
    database.table("c", COLUMNS, control)
    found = attack(
        policy(), database.engine, release=Source(table="r"), control=Source(table="c"), names=NAMES, gain=gain,
        knowledge=knowledge,
    )  # fmt: skip
    for name in NAMES:
        require_alike(found, name, members, control, guess_of(name, shown, gain, knowledge))


@pytest.mark.full
@given(members=persons, control=persons, chosen=levels, rounds=st.integers(0, 2))
@settings(max_examples=examples(10))
def test_what_is_learned_from_members_is_applied_to_everybody(
    duck: Database, members: Table, control: Table, chosen: Levels, rounds: int
) -> None:
    shown = released(members, chosen)
    rows = list(zip(keys(shown), (row["s"] for row in shown), strict=True))
    assume(any(value is not None for _, value in rows))
    believe = brute.learned(people(members), people(control), rows, fits, rounds)
    for own in [*people(members), *people(control)]:  # engines add up in another order: no near ties
        found = sorted(float(part) for part in believe(own).values())
        assume(all(abs(a - b) > 1e-9 for a, b in itertools.pairwise(found)))
    duck.table("t", COLUMNS, members)
    duck.table("r", LABELS, shown)
    duck.table("c", COLUMNS, control)
    made = attack(
        policy(), duck.engine, release=Source(table="r"), control=Source(table="c"), names=["definetti"], rounds=rounds
    )
    require_alike(made, "definetti", members, control, lambda own, v: brute.most_believed(own, v, believe, rows))


@pytest.mark.full
def test_nothing_is_learned_from_the_control_group(duck: Database) -> None:
    """With the same values in each column, guesses about members are the same whatever control group is beside them."""
    members = population(120, 9, of_age=True)
    one = next(row for row in members if row["job"] == "clerk")
    shown = released(members, (1, 1))
    alone = attacked(duck, members, None, shown, names=["definetti"])
    beside = attacked(duck, members, [one] * 2000, shown, names=["definetti"])
    rates = [advantages(made)["definetti", "s"].attacked for made in (alone, beside)]
    assert rates[0] == rates[1]


PERSONAL = """
source: {table: t}
person: id
columns: {id: identifier, job: quasi_identifier, age: quasi_identifier, s: sensitive}
hierarchies:
  job: {tree: {tree: {"*": {technical: [engineer], office: [lawyer, clerk]}}}}
  age: {intervals: {widths: [10]}}
  s: {tree: {tree: {"*": {lungs: [flu, cold], virus: [hiv, ebola]}}}}
models: [k_anonymity: {k: 2}]
"""
NUMBERED = {"id": "INTEGER", "job": "TEXT", "age": "INTEGER", "s": "TEXT"}


def numbered(table: Table, start: int, people_in_it: int) -> Table:
    return [
        {"id": start + place % people_in_it, **{name: row[name] for name in ("job", "age", "s")}}
        for place, row in enumerate(table)
    ]


@pytest.mark.full
@pytest.mark.full_on_postgres
@given(members=persons, control=persons, chosen=levels, each=st.integers(1, 4))
@settings(max_examples=examples(10))
def test_a_person_with_several_rows_counts_once(
    database: Database, members: Table, control: Table, chosen: Levels, each: int
) -> None:
    assume(any(row["s"] is not None for row in members))
    members, control = numbered(members, 1, each), numbered(control, 100, each)
    shown = released(members, chosen)
    database.table("t", NUMBERED, members)
    database.table("r", {**{name: LABELS[name] for name in ("job", "age")}, "s": "TEXT"},
                   [{name: row[name] for name in ("job", "age", "s")} for row in shown])  # fmt: skip
    database.table("c", NUMBERED, control)
    names = ["attribute_linkage", "similarity"]
    found = attack(parse(PERSONAL), database.engine, release=Source(table="r"), control=Source(table="c"), names=names)
    assert all(item.counts == "persons" for item in found.advantages)
    for name in names:
        require_alike(found, name, members, control, guess_of(name, shown, 0.2, 1))


# What a release tells ----------------------------------------------------------------------------------------------


def population(size: int, seed: int, *, of_age: bool) -> Table:
    """Persons whose illness is drawn: for everybody alike, or by the tens of their age."""
    drawn = random.Random(seed)
    found = []
    for _ in range(size):
        age = drawn.randrange(20, 80)
        own = random.Random(f"{seed} {age // 10}") if of_age else drawn
        weights = [own.random() ** 3 for _ in KINDS] if of_age else [0.4, 0.3, 0.2, 0.1]
        job = drawn.choice(["engineer", "lawyer", "clerk"])
        found.append({"job": job, "age": age, "s": drawn.choices(list(KINDS), weights)[0], "n": float(age)})
    return found


def attacked(duck: Database, members: Table, control: Table | None, shown: Table, **asked: Any) -> Attacks:
    duck.table("t", COLUMNS, members)
    duck.table("r", LABELS, shown)
    beside = None
    if control is not None:
        duck.table("c", COLUMNS, control)
        beside = Source(table="c")
    return attack(policy(), duck.engine, release=Source(table="r"), control=beside, **asked)


@pytest.mark.full
def test_raw_rows_are_a_finding_and_hidden_columns_are_none(duck: Database) -> None:
    everybody = population(450, 1, of_age=False)
    members, control = everybody[:300], everybody[300:]
    raw = advantages(attacked(duck, members, control, released(members, (0, 0)), names=EVERY))
    told = raw["attribute_linkage", "s"]
    assert told.control is not None and told.finding and told.low > 0.2
    hidden = attacked(duck, members, control, released(members, (2, 2)), names=EVERY)
    for item in hidden.advantages:
        assert item.low <= 0 <= item.high and not item.finding, item
    assert hidden.findings == ()


@pytest.mark.full
def test_noise_in_place_of_values_is_no_finding(duck: Database) -> None:
    """The release shows rows of other people: what is guessed from it is guessed by chance."""
    everybody = population(700, 2, of_age=False)
    members, strangers, control = everybody[:300], everybody[300:600], everybody[600:]
    for item in attacked(duck, members, control, released(strangers, (0, 1)), names=EVERY).advantages:
        assert item.low <= 0 <= item.high and not item.finding, item


@pytest.mark.full
def test_what_is_true_of_everybody_is_no_advantage_over_a_control_group(duck: Database) -> None:
    """Illness goes with age: the margins do not know that, and the control group does."""
    everybody = population(3000, 3, of_age=True)
    members, control = everybody[:2000], everybody[2000:]
    shown = released(members, (2, 1))
    names = ["attribute_linkage"]
    over_margins = advantages(attacked(duck, members, None, shown, names=names))["attribute_linkage", "s"]
    assert over_margins.against == "margins" and over_margins.control is None and over_margins.finding
    over_control = advantages(attacked(duck, members, control, shown, names=names))["attribute_linkage", "s"]
    assert over_control.against == "control" and not over_control.finding
    assert over_control.low <= 0 <= over_control.high
    assert over_control.attacked == over_margins.attacked


def test_a_few_persons_who_are_known_for_certain_are_a_finding(duck: Database) -> None:
    """One class in a hundred is homogeneous: the rate is that of the guesses, not of all persons."""
    everybody = population(2100, 4, of_age=False)
    members, control = everybody[:2000], everybody[2000:]
    for row in members:
        if row["age"] == 33:
            row["s"] = "ebola"
    made = advantages(attacked(duck, members, control, released(members, (2, 0)), names=["homogeneity"]))
    found = made["homogeneity", "s"]
    assert found.attacked.guesses == sum(row["age"] == 33 for row in members) < 100
    assert found.attacked.rate == 1 and found.by_margins.rate == 0 and found.control is not None and found.finding


# Intervals ---------------------------------------------------------------------------------------------------------


def test_the_interval_of_a_rate() -> None:
    assert statistics.NormalDist().inv_cdf(0.975) == pytest.approx(NORMAL, abs=1e-12)
    # Newcombe 1998, table I, method 3: 81 of 263, 15 of 148, 0 of 20, 1 of 29
    for right, guesses, low, high in ((81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0, 0.1611),
                                      (1, 29, 0.0061, 0.1718)):  # fmt: skip
        found = success_rate(guesses, right)
        assert (found.low, found.high) == (pytest.approx(low, abs=5e-5), pytest.approx(high, abs=5e-5))


@given(guesses=st.integers(1, 5000), share=st.floats(0, 1))
@settings(max_examples=examples(50))
def test_the_interval_holds_the_rates_that_are_near_enough(guesses: int, share: float) -> None:
    found = success_rate(guesses, guesses * share)
    low, high = brute.wilson(guesses, guesses * share, NORMAL)
    assert (found.low, found.high) == (pytest.approx(low, abs=1e-9), pytest.approx(high, abs=1e-9))


def test_an_advantage_is_what_the_control_leaves_open() -> None:
    many = 10**9
    value, low, high = residual(success_rate(many, 0.8 * many), success_rate(many, 0.5 * many))
    assert value == pytest.approx(0.6, abs=1e-6) and low < 0.6 < high and high - low < 1e-3
    worse = residual(success_rate(100, 10), success_rate(100, 60))
    assert worse[0] < 0 and worse[1] >= -1
    sure = residual(success_rate(50, 50), success_rate(3, 3))
    assert sure[1] <= 0 <= sure[2] and not math.isnan(sure[0])
    # Nearly all guesses are right on both sides, and one more of two hundred is chance (Fisher's exact test: p = 0.25).
    nearly = residual(success_rate(600, 600), success_rate(200, 199))
    assert nearly[0] > 0.5 and nearly[1] <= 0


def test_rates_that_may_be_the_same_give_an_interval_with_zero() -> None:
    """Of pairs of samples with one rate, about one in twenty may look different; each side is half of that."""
    drawn = random.Random(8)
    for rate in (0.02, 0.3, 0.9, 0.99):
        above = below = 0
        for _ in range(400):
            ours, theirs = (sum(drawn.random() < rate for _ in range(size)) for size in (300, 100))
            _, low, high = residual(success_rate(300, ours), success_rate(100, theirs))
            above += low > 0
            below += high < 0
        assert max(above, below) <= 400 * 0.05, (rate, above, below)


# What cannot be compared ---------------------------------------------------------------------------------------------


def test_every_attack_guesses_or_says_why_not() -> None:
    guesses = {name for name, item in family("guesses").items() if not item.makes}
    for name, item in family("attacks").items():
        assert bool(item.no_guess) == (name not in guesses) or item.makes, name
    assert guesses <= set(family("attacks"))


def test_attacks_that_guess_nothing_say_why(duck: Database) -> None:
    members = population(60, 5, of_age=False)
    names = ["linkage", "membership", "freeform", "proximity"]
    found = attacked(duck, members, None, released(members, (1, 1)), epsilon=1.0, names=names)
    assert "membership" not in found.not_compared  # it was not tried without a list
    for name in ("freeform", "proximity"):
        assert found.not_compared[name] == family("attacks")[name].no_guess
    assert not set(found.not_compared) & {item.attack for item in found.advantages}


@pytest.mark.full
@pytest.mark.full_on_postgres
@pytest.mark.parametrize(
    ("columns", "rows", "message"),
    [
        ({**COLUMNS}, [], "the control group has no rows"),
        ({"job": "TEXT", "age": "INTEGER", "n": "DOUBLE PRECISION"}, [], "the control group has no column 's'"),
        ({**COLUMNS, "age": "TEXT"}, [{"job": "clerk", "age": "leprosy", "s": "flu", "n": 1.0}], ""),
    ],
)
def test_what_is_no_control_group_is_refused(
    database: Database, columns: dict[str, str], rows: Table, message: str
) -> None:
    members = population(10, 6, of_age=False)
    database.table("t", COLUMNS, members)
    database.table("r", LABELS, released(members, (1, 1)))
    database.table("c", columns, rows)
    with pytest.raises(SqlanonError) as error:
        attack(policy(), database.engine, release=Source(table="r"), control=Source(table="c"))
    assert message in error.value.message and "leprosy" not in str(error.value)
    left = "SELECT count(*) FROM information_schema.tables WHERE table_name LIKE 'sqlanon%'"
    assert database.fetch(left) == [(0,)]


def test_persons_in_both_tables_are_no_control_group(database: Database) -> None:
    rows: Sequence[dict[str, Any]] = [{"id": n, "job": "clerk", "age": 30, "s": "flu"} for n in range(1, 5)]
    database.table("t", NUMBERED, rows)
    database.table("r", {"job": "TEXT", "age": "TEXT", "s": "TEXT"}, [{"job": "clerk", "age": "30", "s": "flu"}] * 4)
    personal: Policy = parse(PERSONAL)
    for control, message in (
        ([{**rows[0], "id": n} for n in (4, 5, 3)], "2 persons of the control group are in the source"),
        ([{**rows[0], "id": n} for n in (None, 9)], "rows of the control group have no 'id'"),
    ):
        database.table("c", NUMBERED, control)
        with pytest.raises(PolicyError, match=message):
            attack(personal, database.engine, release=Source(table="r"), control=Source(table="c"))


def test_a_control_group_goes_with_a_release_alone(duck: Database) -> None:
    duck.table("t", COLUMNS, population(5, 7, of_age=False))
    for asked, message in (
        ({"control": Source(table="t")}, "no release to guess from"),
        ({"control": Source(table="t"), "release": Source(table="t"), "external": Source(table="t")}, "are given"),
        ({"least_advantage": 1.0}, "at least 0 and below 1"),
        ({"least_advantage": math.nan}, "at least 0 and below 1"),
    ):
        with pytest.raises(PolicyError, match=message):
            attack(policy(), duck.engine, **asked)

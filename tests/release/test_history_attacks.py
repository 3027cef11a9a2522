"""Attackers who know more than is likely, against what the models of `sql/history/` say that they leave possible."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import product
from typing import Any

from conftest import Database, examples
from histories import Release, load, measure, pasts, seen, sets_of_two, violations
from hypothesis import given, settings
from hypothesis import strategies as st

VALUES = ["flu", "gout", "hiv"]
PERSONS = ["ann", "bob", "eve", "joe", "kim", "liv"]


def possible_values(releases: Sequence[Release]) -> dict[str, set[str]]:
    """For who knows everybody's class in each of the releases: the values of each person over all assignments of one
    value to each person under which the releases would look as they do. Rows that are left over are counterfeits."""
    persons = sorted({person for release in releases for person in release.persons})
    places = {
        person: [
            (number, release.persons[person][0]) for number, release in enumerate(releases) if person in release.persons
        ]
        for person in persons
    }
    unused = Counter((number, *row) for number, release in enumerate(releases) for row in release.rows())
    found: dict[str, set[str]] = {person: set() for person in persons}
    assigned: list[str] = []

    def assign() -> None:
        if len(assigned) == len(persons):
            for person, value in zip(persons, assigned, strict=True):
                found[person].add(value)
            return
        for value in VALUES:
            taken = [(*place, value) for place in places[persons[len(assigned)]]]
            if all(unused[row] for row in taken):
                unused.subtract(taken)
                assigned.append(value)
                assign()
                assigned.pop()
                unused.update(taken)

    assign()
    return found


@st.composite
def histories(draw: Any, releases: int = 3) -> list[Release]:
    """Persons who come, leave and come back with the same value, in few classes, and a counterfeit now and then."""
    own = {person: draw(st.sampled_from(VALUES)) for person in PERSONS}
    row = st.tuples(st.sampled_from([1, 2]), st.sampled_from(VALUES))
    return [
        Release(
            {
                person: (class_id, own[person])
                for person, class_id in draw(st.dictionaries(st.sampled_from(PERSONS), st.sampled_from([1, 2]))).items()
            },
            draw(st.lists(row, max_size=1)),
        )
        for _ in range(draw(st.integers(2, releases)))
    ]


@settings(max_examples=examples(40))
@given(releases=histories())
def test_two_releases_leave_what_incremental_diversity_says(duck: Database, releases: list[Release]) -> None:
    """For each set of persons that it measures, whatever the limit: nobody in it is told from fewer values."""
    load(duck, releases)
    found = measure(duck, "incremental_l_diversity", 2)
    *earlier, new = releases
    for version, release in enumerate(earlier, start=1):
        if not release.rows():
            continue  # nothing was published that the new release could be compared with
        left = possible_values([release, new])
        for (before, now), persons in sets_of_two(release, new).items():
            (measured,) = {row[3] for row in found if row[:3] == (now, version, before)}
            assert all(len(left[person]) >= measured for person in persons), (version, before, now)


@settings(max_examples=examples(25))
@given(releases=histories(), limit=st.integers(2, 3))
def test_a_promise_that_holds_at_each_release_holds_for_all_pairs(
    duck: Database, releases: list[Release], limit: int
) -> None:
    """Releases that would break it are not published, as a refresh does."""
    published: list[Release] = []
    for release in releases:
        load(duck, [*published, release])
        if not violations(duck, "incremental_l_diversity", limit):
            for earlier in published:
                assert all(len(values) >= limit for values in possible_values([earlier, release]).values())
            published.append(release)


def test_three_releases_together_may_tell_more_than_pairs(duck: Database) -> None:
    """Eve is new to each earlier release together with others, but only she is new to both of them."""
    one = {"ann": (1, "flu"), "bob": (1, "gout")}
    two = {"joe": (1, "hiv"), "kim": (1, "flu")}
    all_of_them = [Release(one), Release(two), Release(one | two | {"eve": (1, "flu")})]
    for end in (1, 2, 3):
        load(duck, all_of_them[:end])
        assert not violations(duck, "incremental_l_diversity", 2)
    assert possible_values(all_of_them)["eve"] == {"flu"}
    assert violations(duck, "stable_partition", 2) == {(1, None, None, 1): 1}
    assert violations(duck, "m_invariance", 2)


@settings(max_examples=examples(40))
@given(releases=histories())
def test_intersections_leave_what_composition_says(duck: Database, releases: list[Release]) -> None:
    """Who knows the classes of one person alone takes a record of each: they agree on so many values, and no more."""
    load(duck, releases)
    found = measure(duck, "composition", 2)
    *earlier, new = releases
    for person, past in pasts(releases).items():
        now = new.class_of(person)
        if now is None:
            continue
        places = [(earlier[version - 1], place) for version, place in seen(past)]
        records = [list(release.values(place).elements()) for release, place in [*places, (new, now)]]
        agreeing = {chosen[0] for chosen in product(*records) if len(set(chosen)) == 1}
        key = (now, *(seen(past)[-1] if places else (None, None)))
        measured = {row[3] for row in found if row[:3] == key}
        assert len(agreeing) in measured, (person, key)


# Persons with different values who come, move and leave together.
TEAMS = [{"ann": "flu", "bob": "gout"}, {"eve": "flu", "joe": "hiv"}, {"kim": "flu", "liv": "gout", "max": "hiv"}]


@settings(max_examples=examples(30))
@given(
    moves=st.lists(st.tuples(*(st.sampled_from([None, 1, 2]) for _ in TEAMS)), min_size=2, max_size=5),
    strays=st.lists(st.sampled_from([None, None, "ann", "kim", "max"]), min_size=5, max_size=5),
)
def test_stable_partitions_leave_their_values_over_all_releases(
    duck: Database, moves: list[tuple[int | None, ...]], strays: list[str | None]
) -> None:
    """One who does not go with its team stands out: such a release is not published unless others hide it."""
    published: list[Release] = []
    for places, stray in zip(moves, strays, strict=False):
        persons = {
            person: (3 - place if person == stray else place, value)
            for team, place in zip(TEAMS, places, strict=True)
            for person, value in team.items()
            if place is not None
        }
        load(duck, [*published, Release(persons)])
        rows = measure(duck, "stable_partition", 2, l=2)
        if not any(broken for *_, broken in rows):
            published.append(Release(persons))
        else:
            assert any(stray is not None for stray in strays)
    assert all(len(values) >= 2 for values in possible_values(published).values())


# Two sets of values that overlap: a person keeps the one that it was first published with.
SIGNATURES = [("flu", "gout"), ("gout", "hiv"), ("flu", "gout", "hiv")]


@st.composite
def invariant_histories(draw: Any) -> tuple[list[Release], dict[str, tuple[str, ...]]]:
    """Releases by buckets: a class has every value of one set once; counterfeits stand in where nobody has it."""
    signature = {person: draw(st.sampled_from(SIGNATURES)) for person in PERSONS}
    own = {person: draw(st.sampled_from(signature[person])) for person in PERSONS}
    releases = []
    for _ in range(draw(st.integers(1, 4))):
        present = draw(st.lists(st.sampled_from(PERSONS), unique=True))
        places: Counter[Any] = Counter()
        persons: dict[str, tuple[int, str]] = {}
        for person in present:  # in any order: who shares a class with whom changes from release to release
            kind = (signature[person], own[person])
            persons[person] = (10 * SIGNATURES.index(signature[person]) + places[kind], own[person])
            places[kind] += 1
        taken = set(persons.values())
        wanted = {(class_id, value) for class_id, _ in taken for value in SIGNATURES[class_id // 10]}
        releases.append(Release(persons, sorted(wanted - taken)))
    return releases, signature


@settings(max_examples=examples(40))
@given(history=invariant_histories())
def test_invariance_leaves_all_values_over_all_releases(
    duck: Database, history: tuple[list[Release], dict[str, tuple[str, ...]]]
) -> None:
    releases, signature = history
    for end in range(1, len(releases) + 1):
        load(duck, releases[:end])
        assert not violations(duck, "m_invariance", 2)
    for person, values in possible_values(releases).items():
        assert values == set(signature[person])


def test_the_attacker_finds_alice_and_beth() -> None:
    """What the worked examples of test_history_models.py give away, by the attacker that the tests above rely on."""
    before = {"beth": (1, "flu"), "cora": (1, "gout"), "dan": (2, "hiv"), "earl": (2, "flu")}
    inserted = possible_values([Release(before), Release(before | {"alice": (1, "hiv")})])
    assert inserted["alice"] == {"hiv"} and inserted["beth"] == {"flu", "gout"}
    replaced = {person: row for person, row in before.items() if person != "cora"} | {"faye": (1, "hiv")}
    assert possible_values([Release(before), Release(replaced)])["beth"] == {"flu"}

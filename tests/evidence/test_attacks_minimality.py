"""The minimality attack on anatomy, personalized privacy and m-invariance, against all worlds of small tables.

What an attack tells is compared with `brute_minimality`, which runs each algorithm in plain Python on every world; that
Python, in turn, with what the algorithms really publish.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import brute_minimality as brute
import pytest
from click.testing import CliRunner
from conftest import Database, examples
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from test_worked_examples import fill

from sqlanon.cli import main
from sqlanon.errors import PolicyError
from sqlanon.evidence.attacks import Attack, Attacks, Outcome, anatomy_worlds, attack, invariance_worlds
from sqlanon.evidence.attacks.anatomy_worlds import Dealt, expected_values
from sqlanon.evidence.attacks.attacked_table import NotJudged
from sqlanon.evidence.attacks.guarding_worlds import Guarding
from sqlanon.evidence.attacks.invariance_worlds import (
    ObservedRelease,
    Person,
    curve,
    likely_values,
    likely_values_of_two,
)
from sqlanon.hierarchies import Hierarchy
from sqlanon.policy import Source, parse
from sqlanon.relations.guarding_nodes import taxonomy_of
from sqlanon.release import publish

KEY = "a key that is long enough"


def attacked(database: Database, policy: str, name: str = "minimality", **given: Any) -> tuple[Attack, Attacks]:
    found = attack(parse(policy), database.engine, names=[name], **{"release": Source(table="r")} | given)
    (item,) = found.attacks
    return item, found


def require_same(found: Outcome | None, wanted: Sequence[Mapping[str, Fraction]]) -> None:
    """One belief for each person."""
    sure = [max(own.values()) for own in wanted]
    assert found is not None
    assert (found.targets, found.broken) == (len(sure), sum(part == 1 for part in sure))
    assert found.confidence == pytest.approx(float(max(sure)))
    assert found.average == pytest.approx(float(sum(sure) / len(sure)))


# Anatomy -----------------------------------------------------------------------------------------------------------

ANATOMY = """
source: {table: t}
columns: {age: quasi_identifier, s: sensitive}
models: [distinct_l_diversity: {l: 2}]
algorithm: {anatomy: {l: 2}}
release: {table: r}
"""
APART = ANATOMY.replace("{l: 2}}\nrelease", "{l: 2, close: false}}\nrelease")


def dealt_of(keys: Sequence[int], groups: brute.Groups, values: Mapping[int, Sequence[str]], l: int) -> Dealt:  # noqa: E741
    kins: dict[int, Counter[int]] = {}
    for key, group in zip(keys, groups, strict=True):
        kins.setdefault(key, Counter())[group] += 1
    return Dealt(list(kins.values()), values, l)


def by_kin(keys: Sequence[int], rows: Sequence[brute.Belief]) -> list[dict[str, Fraction]]:
    found: dict[int, dict[str, Fraction]] = {}
    for key, own in zip(keys, rows, strict=True):
        kin = found.setdefault(key, {})
        for value, share in own.items():
            kin[value] = kin.get(value, Fraction(0)) + share
    return list(found.values())


@pytest.mark.full_on_postgres
def test_a_block_that_was_not_cut_tells_who_has_what(database: Database) -> None:
    """Eight rows, whose halves hold a three times and once. Whatever is drawn, the posterior is that of all worlds; of
    the groups that Wong et al. warn of, four persons are sure."""
    values = "aaabbcbc"
    fill(database, "t", "age | s", "\n".join(f"{20 + at} | {s}" for at, s in enumerate(values)), {"age": "INTEGER"})
    groups = (1, 1, 2, 3, 2, 3, 4, 4)
    shown = {1: "ab", 2: "ab", 3: "ac", 4: "bc"}
    assert brute.shown_values("abaabcbc", groups) == {group: list(own) for group, own in shown.items()}
    database.run("CREATE TABLE r (age INTEGER, sqlanon_group BIGINT)")
    database.run("CREATE TABLE r_sensitive (sqlanon_group BIGINT, s TEXT, records BIGINT)")
    for at, group in enumerate(groups):
        database.run(f"INSERT INTO r VALUES ({20 + at}, {group})")
    for group, own in shown.items():
        for value in own:
            database.run(f"INSERT INTO r_sensitive VALUES ({group}, '{value}', 1)")
    wanted = brute.anatomy(range(8), groups, shown, 2)
    assert wanted[2:6] == [{"a": 1}, {"a": 1}, {"b": 1}, {"c": 1}]
    item, _ = attacked(database, ANATOMY)
    assert item.before == Outcome(8, 8, 1.0, 1.0)
    assert item.after == Outcome(8, 4, 1.0, 0.75)
    require_same(item.after, wanted)
    plain, _ = attacked(database, ANATOMY, "attribute_linkage")
    assert plain.after == Outcome(8, 0, 0.5, 0.5)
    # Without a look at quasi-identifiers the same groups tell nothing.
    item, _ = attacked(database, APART)
    require_same(item.after, brute.anatomy(range(8), groups, shown, 2, close=False))
    assert item.after == plain.after
    # Somebody of whom another list knows the age, and somebody who is not in the release.
    database.run("CREATE TABLE listed AS SELECT 22 AS age UNION ALL SELECT 99")
    item, _ = attacked(database, ANATOMY, external=Source(table="listed"))
    assert item.after == Outcome(2, 1, 1.0, 0.5)


@st.composite
def anatomies(draw: Any) -> tuple[list[int], list[str], int, int]:
    """Rows that are eligible, with few values, so that all orders in which they may be dealt can be looked at."""
    l = draw(st.sampled_from([2, 2, 3]))  # noqa: E741
    size = draw(st.integers(8, 11) if l == 2 else st.integers(12, 13))
    values = draw(st.lists(st.sampled_from("aabbcd" if l == 2 else "abcd"), min_size=size, max_size=size))
    assume(brute.eligible(values, l))
    keys = sorted(draw(st.lists(st.integers(0, size), min_size=size, max_size=size)))
    return keys, values, l, draw(st.integers(0, 10**6))


@given(table=anatomies())
@settings(max_examples=examples(150))
def test_anatomy_against_all_worlds(table: tuple[list[int], list[str], int, int]) -> None:
    """Also that all worlds with the same blocks deal the same groups with the same probability: brute force tries all
    orders in which values and rows may be drawn, where there are not too many of them."""
    keys, values, l, seed = table  # noqa: E741
    blocks = brute.blocks_of(keys, values, l)
    groups = brute.draw_groups(values, blocks, l, random.Random(seed))
    shown = brute.shown_values(values, groups)
    exact = l == 2 and len(values) <= 9 and len(set(values)) <= 3
    wanted = brute.anatomy(keys, groups, shown, l) if exact else same_blocks(keys, groups, shown, l)
    assert expected_values(dealt_of(keys, groups, shown, l)) == by_kin(keys, wanted)


def same_blocks(keys: Sequence[int], groups: brute.Groups, shown: Mapping[int, Sequence[str]], l: int) -> list[Any]:  # noqa: E741
    """As `brute.anatomy`, from one drawing of each world: whether the groups can be those of its blocks."""
    members = {group: [row for row, own in enumerate(groups) if own == group] for group in shown}
    found = []
    for dealt in brute.product(*(brute.permutations(own) for own in shown.values())):
        world = [""] * len(keys)
        for group, own in zip(shown, dealt, strict=True):
            for row, value in zip(members[group], own, strict=True):
                world[row] = value
        before, fits = 0, True
        for block in brute.blocks_of(keys, world, l):
            number = len(block) // l
            fits &= {groups[row] for row in block} == set(range(before + 1, before + number + 1))
            before += number
        if fits:
            found.append((tuple(world), Fraction(1)))
    return brute.beliefs(found)


@pytest.mark.full
@pytest.mark.parametrize("seed", range(3))
def test_published_anatomy_against_all_worlds(duck: Database, seed: int) -> None:
    """What is published, by the real algorithm with real draws; groups and blocks are those of the brute force."""
    rng = random.Random(seed)
    keys = sorted(rng.choices(range(20), k=12))
    values = rng.choices("aabbcd", k=12)
    while not brute.eligible(values, 2):
        values = rng.choices("aabbcd", k=12)
    duck.table("t", {"age": "INTEGER", "s": "TEXT"}, [{"age": k, "s": v} for k, v in zip(keys, values, strict=True)])
    publish(parse(ANATOMY), duck.engine, secret=f"{KEY} {seed}", workload=False)
    rows = duck.fetch("SELECT age, sqlanon_group FROM r ORDER BY age, sqlanon_group")
    groups = tuple(group for _, group in rows)
    shown: dict[int, list[str]] = {}
    for group, value in duck.fetch("SELECT sqlanon_group, s FROM r_sensitive ORDER BY 1, 2"):
        shown.setdefault(group, []).append(value)
    wanted = by_kin(keys, same_blocks(keys, groups, shown, 2))
    sizes = list(Counter(keys).values())
    each = [
        {value: n / size for value, n in own.items()}
        for own, size in zip(wanted, sizes, strict=True)
        for _ in range(size)
    ]
    item, _ = attacked(duck, ANATOMY)
    require_same(item.after, each)


def test_real_tables_lose_persons_whom_attribute_linkage_does_not_find(duck: Database) -> None:
    """Sixty persons in groups of three: everybody is one of three, and yet somebody is sure."""
    rng = random.Random(3)
    rows = [{"age": age, "s": rng.choices("abcdefgh", (5, 4, 3, 3, 2, 2, 1, 1))[0]} for age in range(60)]
    duck.table("t", {"age": "INTEGER", "s": "TEXT"}, rows)
    policy = ANATOMY.replace("l: 2", "l: 3")
    publish(parse(policy), duck.engine, secret="x" * 32, workload=False)
    plain, _ = attacked(duck, policy, "attribute_linkage")
    item, _ = attacked(duck, policy)
    assert plain.after is not None and (plain.after.broken, plain.after.confidence) == (0, pytest.approx(1 / 3))
    assert item.after is not None and item.after.broken == 1 and item.after.targets == 60


def test_blocks_that_are_too_large_are_left_out_and_told(duck: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """With fewer steps than a block takes: who is in it is not counted, and a note says so; never 0."""
    rows = [{"age": age, "s": s} for age, s in enumerate("aaabbcbc" + "abababcdcdcd" * 3)]
    duck.table("t", {"age": "INTEGER", "s": "TEXT"}, rows)
    publish(parse(ANATOMY), duck.engine, secret=KEY, workload=False)
    whole, found = attacked(duck, ANATOMY)
    assert whole.after is not None and whole.after.targets == 44 and found.notes == ()
    steps = sorted(_steps(duck))
    monkeypatch.setattr(anatomy_worlds, "MOST_STEPS", steps[-1] - 1)
    item, found = attacked(duck, ANATOMY)
    assert item.after is not None and 0 < item.after.targets < 44
    left = 44 - item.after.targets
    assert found.notes == (
        f"minimality: {left} of 44 rows are in blocks with too many ways to place their values; "
        "they are not judged, and not counted",
    )
    monkeypatch.setattr(anatomy_worlds, "MOST_STEPS", 0)
    item, found = attacked(duck, ANATOMY)
    if item.after is not None:  # blocks of which nothing is known take no steps
        assert item.after.targets < 44
    else:
        assert item.not_judged is not None and "too many ways" in item.not_judged


def _steps(duck: Database) -> list[int]:
    """What each block of the release takes."""
    keys, groups = zip(*duck.fetch("SELECT age, sqlanon_group FROM r ORDER BY age"), strict=True)
    shown: dict[int, list[str]] = {}
    for group, value in duck.fetch("SELECT sqlanon_group, s FROM r_sensitive ORDER BY 1, 2"):
        shown.setdefault(group, []).append(value)
    dealt = dealt_of(keys, groups, shown, 2)
    upto = list(range(len(keys) + 1))
    found = []
    for block in anatomy_worlds.cut_blocks(dealt, upto):
        worlds = anatomy_worlds._Worlds(dealt, upto, block, 10**9)
        worlds.expected()
        found.append(worlds.steps)
    return found


def test_groups_that_anatomy_does_not_make_are_not_judged(duck: Database) -> None:
    fill(duck, "t", "age | s", "20 | a\n21 | b\n22 | a\n23 | b\n24 | a", {"age": "INTEGER"})
    duck.run("CREATE TABLE r AS SELECT age, CAST(1 AS BIGINT) AS sqlanon_group FROM t")
    duck.run("CREATE TABLE r_sensitive AS SELECT CAST(1 AS BIGINT) AS sqlanon_group, s, 1 AS records FROM t")
    item, _ = attacked(duck, ANATOMY)
    assert item.after is None and item.not_judged == "the groups are not such as anatomy makes"


def test_unknown_values_are_in_any_block(duck: Database) -> None:
    rows = [{"age": age, "s": s} for age, s in enumerate(["a", "b", None, "a", "b", "c", "a", "b", "c", "d"])]
    duck.table("t", {"age": "INTEGER", "s": "TEXT"}, rows)
    publish(parse(ANATOMY), duck.engine, secret=KEY, workload=False)
    item, _ = attacked(duck, ANATOMY)
    assert item.after is None and item.not_judged == "'s' has NULLs, whose rows are in any block"


def test_groups_of_near_numbers_tell_no_more_than_they_show(database: Database) -> None:
    """(k,e) groups depend on how often numbers occur, and are shuffled: all worlds of a release, by brute force, give
    each person the numbers of its group in equal parts."""
    grouping = ANATOMY.replace("distinct_l_diversity: {l: 2}", "k_e_anonymity: {k: 2, e: 1}").replace(
        "{anatomy: {l: 2}}", "{k_e_grouping: {k: 2, e: 1}}"
    )
    numbers = [10, 11, 12, 50, 51, 52]
    database.table("t", {"age": "INTEGER", "s": "INTEGER"}, [{"age": 20 + at, "s": n} for at, n in enumerate(numbers)])
    publish(parse(grouping), database.engine, secret=KEY, workload=False)
    shown = sorted((int(age), int(s)) for age, s in database.fetch("SELECT age, s FROM r"))
    worlds = []
    for world in brute.permutations(numbers):
        # The groups are {10, 11, 12} and {50, 51, 52}; each is shuffled, one way as likely as another.
        parts = [[at for at, n in enumerate(world) if (n < 30) == low] for low in (True, False)]
        hits = sum(
            sorted((20 + at, world[other]) for part, way in zip(parts, ways, strict=True)
                   for at, other in zip(part, way, strict=True)) == shown
            for ways in brute.product(*(brute.permutations(part) for part in parts))
        )  # fmt: skip
        if hits:
            worlds.append((tuple(map(str, world)), Fraction(hits)))
    wanted = brute.beliefs(worlds)
    assert all(set(own.values()) == {Fraction(1, 3)} for own in wanted)
    item, _ = attacked(database, grouping)
    require_same(item.after, wanted)


def test_slices_with_the_sensitive_column_alone(duck: Database) -> None:
    sliced = ANATOMY.replace("{anatomy: {l: 2}}", "{slicing: {l: 2, parts: [[age], [s]]}}")
    duck.table("t", {"age": "INTEGER", "s": "TEXT"}, [{"age": at, "s": s} for at, s in enumerate("abcabcab")])
    publish(parse(sliced), duck.engine, secret=KEY, workload=False)
    item, _ = attacked(duck, sliced)
    plain, _ = attacked(duck, sliced, "attribute_linkage")
    assert item.after == plain.after and item.after is not None and item.after.confidence == 0.5
    # Beside another column, buckets grow until that tells little enough: which column made them grow is not looked at.
    beside = sliced.replace("[[age], [s]]", "[[age, s], [job]]").replace("age: quasi", "job: insensitive, age: quasi")
    duck.run("ALTER TABLE t ADD COLUMN job TEXT")
    duck.run("ALTER TABLE r ADD COLUMN job TEXT")
    found = attack(parse(beside), duck.engine, release=Source(table="r"), names=["minimality"])
    assert "tell too much" in found.not_judged["minimality"]


def test_values_that_were_changed_before(duck: Database) -> None:
    fill(duck, "t", "age | s", "20 | a\n21 | b", {"age": "INTEGER"})
    changed = ANATOMY + "transformations: [rounding: {columns: [age], base: 10}]\n"
    duck.run("CREATE TABLE r AS SELECT age, CAST(1 AS BIGINT) AS sqlanon_group FROM t")
    duck.run("CREATE TABLE r_sensitive AS SELECT CAST(1 AS BIGINT) AS sqlanon_group, s, 1 AS records FROM t")
    found = attack(parse(changed), duck.engine, release=Source(table="r"), names=["minimality"])
    assert found.not_judged["minimality"] == "values were changed before they were grouped"


# Personalized privacy ----------------------------------------------------------------------------------------------

TREE = {"flu": "lung", "cold": "lung", "lung": "*", "ulcer": "stomach", "cramp": "stomach", "stomach": "*"}
DEEP = {"flu": "infect", "cold": "infect", "infect": "lung", "asthma": "lung", "lung": "*", "ulcer": "*"}
GUARDED = """
source: {table: t}
columns: {age: quasi_identifier, s: sensitive, guarding: identifier}
hierarchies:
  s: {tree: {tree: {"*": {lung: [flu, cold], stomach: [ulcer, cramp]}}}}
models: [k_anonymity: {k: 2}]
algorithm: {personalized: {p_breach: 0.5, guard: guarding}}
release: {table: r}
"""


def guarding_of(tree: brute.Tree, p_breach: float) -> Guarding:
    leaves = [leaf for leaf in tree if leaf not in tree.values()]
    height = max(len(brute.path(tree, leaf)) for leaf in leaves)
    rows = [
        tuple(own[:1] * (height - len(own)) + own) for leaf in leaves for own in [brute.path(tree, leaf)]
    ]  # a leaf that is higher stands for itself on the levels below
    return Guarding(taxonomy_of(Hierarchy(height=height - 1, rows=tuple(rows))), Fraction(str(p_breach)))


@pytest.mark.full
def test_two_who_show_the_lung_have_the_flu(database: Database) -> None:
    """At most half may be told to have the flu, and three of four have it. Two of them go up; who takes the lung for
    one of its leaves as well as for the other believes one half. There is no other world."""
    fill(database, "t", "age | s | guarding", "20 | flu | flu\n20 | flu | - x 2\n20 | cramp | -", {"age": "INTEGER"})
    publish(parse(GUARDED), database.engine, secret=KEY, workload=False)
    shown = [node for (node,) in database.fetch("SELECT s FROM r ORDER BY s")]
    assert shown == ["cramp", "flu", "lung", "lung"] == brute.raise_values(TREE, 0.5, ["flu"] * 3 + ["cramp"], ["flu"])
    wanted = brute.guarding(TREE, 0.5, shown)
    assert wanted == {"flu": Fraction(3, 4), "cramp": Fraction(1, 4)}
    item, _ = attacked(database, GUARDED)
    assert item.after == Outcome(4, 0, 0.75, 0.75)
    item, _ = attacked(database, GUARDED, certainty=0.75)
    assert item.after is not None and item.after.broken == 4
    # No other attack takes nodes for values.
    plain, _ = attacked(database, GUARDED, "attribute_linkage")
    assert plain.after is None and plain.not_judged is not None


@given(
    tree=st.sampled_from([TREE, DEEP]),
    p_breach=st.sampled_from([0.5, 0.6, 0.75]),
    size=st.integers(1, 3),
    data=st.data(),
)
@settings(max_examples=examples(25), deadline=None)
def test_guarding_nodes_against_all_worlds(tree: brute.Tree, p_breach: float, size: int, data: Any) -> None:
    leaves = [leaf for leaf in tree if leaf not in tree.values()]
    named = [*guarding_of(tree, p_breach).nodes, None]
    values = data.draw(st.lists(st.sampled_from(leaves), min_size=size, max_size=size))
    guards = data.draw(st.lists(st.sampled_from(named), min_size=size, max_size=size))
    shown = brute.raise_values(tree, p_breach, values, set(guards))
    found = guarding_of(tree, p_breach).likely_values(tuple(sorted(Counter(shown).items())))
    assert found == brute.guarding(tree, p_breach, shown)


@pytest.mark.full
def test_what_is_published_is_what_the_brute_force_raises(duck: Database) -> None:
    """Three classes by the real algorithm; and the attack is that of all worlds of each class."""
    rng = random.Random(5)
    rows = []
    for age in range(3):
        values = rng.choices(["flu", "cold", "ulcer", "cramp"], (4, 1, 2, 1), k=4)
        rows += [{"age": age, "s": s, "guarding": rng.choice(["flu", "lung", "stomach", None])} for s in values]
    duck.table("t", {"age": "INTEGER", "s": "TEXT", "guarding": "TEXT"}, rows)
    publish(parse(GUARDED.replace("k: 2", "k: 4")), duck.engine, secret=KEY, workload=False)
    shown: dict[str, list[str]] = {}
    for age, node in duck.fetch("SELECT age, s FROM r ORDER BY age, s"):
        shown.setdefault(str(age), []).append(node)
    assert len(shown) == 3 and any("lung" in nodes or "*" in nodes for nodes in shown.values())
    for age, nodes in shown.items():
        own = [row for row in rows if str(row["age"]) == age]
        named = {str(row["guarding"]) for row in own if row["guarding"]}
        assert brute.raise_values(TREE, 0.5, [str(row["s"]) for row in own], named) == nodes
    item, _ = attacked(duck, GUARDED.replace("k: 2", "k: 4"))
    require_same(item.after, [brute.guarding(TREE, 0.5, nodes) for nodes in shown.values() for _ in nodes])


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        (["flu", "flu", "flu", "flu", "plague"], "the release shows nodes that the taxonomy does not have"),
        (
            ["lung", "lung", "lung", "lung", "stomach"],
            "no values of its persons give what a class of the release shows",
        ),
    ],
)
def test_classes_that_nobody_can_have_are_not_judged(duck: Database, values: list[str], reason: str) -> None:
    fill(duck, "t", "age | s | guarding", "20 | flu | flu\n20 | flu | - x 3\n20 | cramp | -", {"age": "INTEGER"})
    duck.table("r", {"age": "INTEGER", "s": "TEXT"}, [{"age": 20, "s": s} for s in values])
    item, _ = attacked(duck, GUARDED)
    assert item.after is None and item.not_judged == reason


def test_a_class_with_too_many_worlds_is_not_judged() -> None:
    with pytest.raises(NotJudged, match="too many"):
        guarding_of(DEEP, 0.75).likely_values((("*", 100),))


# m-invariance ------------------------------------------------------------------------------------------------------

INVARIANT = """
source: {table: t}
person: id
columns: {id: identifier, age: quasi_identifier, town: quasi_identifier, s: sensitive}
hierarchies: {town: {tree: {tree: {"*": {north: [A, B], south: [C, D]}}}}}
models: [{distinct_l_diversity: {l: 2}}]
algorithm: m_invariance
release: {table: r}
history: {hold_back: 1, models: [{m_invariance: {m: 2}}]}
"""
TOWNS = "ABCD"
PEOPLE = {"id": "INTEGER", "age": "INTEGER", "town": "TEXT", "s": "TEXT"}
Rows = list[dict[str, Any]]


def in_a_row(rows: Rows) -> list[tuple[str, tuple[int, ...]]]:
    """Persons with their places, in the order of the curve; ages are those that occur, towns all of the hierarchy."""
    ages = sorted({row["age"] for row in rows})
    people = [
        (str(row["id"]), (ages.index(row["age"]) + 1, TOWNS.index(row["town"]) + 1))
        for row in sorted(rows, key=lambda row: row["id"])
    ]
    return sorted(people, key=lambda person: curve(person[1], (len(ages), 4)))


def classes_of(database: Database, name: str, rows: Rows) -> brute.Classes:
    """The classes of a release as places: labels are read by the ends of the values that they cover."""
    ages = sorted({row["age"] for row in rows})
    covered = {"*": (1, 4), "north": (1, 2), "south": (3, 4)}
    found: dict[int, tuple[Any, list[str]]] = {}
    for number, age, town, s in database.fetch(f"SELECT sqlanon_class, age, town, s FROM {name}"):
        low, high = age[1:-1].split(", ") if age.startswith("[") else (age, age)
        if town.startswith("{"):
            parts = [covered.get(part) or (TOWNS.index(part) + 1,) * 2 for part in town[1:-1].split(", ")]
            ends = min(part[0] for part in parts), max(part[1] for part in parts)
        else:
            ends = covered.get(town) or (TOWNS.index(town) + 1,) * 2
        box = ((ages.index(int(low)) + 1, ages.index(int(high)) + 1), ends)
        found.setdefault(number, (box, []))[1].append(s)
    return Counter((box, tuple(sorted(values))) for box, values in found.values())


def refresh(database: Database, rows: Rows) -> None:
    database.table("t", PEOPLE, rows)
    publish(parse(INVARIANT), database.engine, secret=KEY, workload=False)


@pytest.mark.full
def test_the_first_bucket_takes_the_first_persons(database: Database) -> None:
    """a is the most frequent value, and its first person on the curve goes to the bucket of a and b. So the first
    person of all, who is in the class of a and c, has c; and the last one has a."""
    rows = [{"id": at, "age": 20 + at, "town": "A", "s": s} for at, s in enumerate("cbaa")]
    refresh(database, rows)
    (item, found) = attacked(database, INVARIANT)
    people, classes = in_a_row(rows), classes_of(database, "r", rows)
    wanted = brute.invariance([(people, classes)], 2)
    assert (wanted["0"], wanted["3"]) == ({"c": 1}, {"a": 1})
    assert item.after == Outcome(4, 2, 1.0, 0.75, counts="persons")
    require_same(item.after, list(wanted.values()))
    assert any("taken for the first one" in note for note in found.notes)
    plain, _ = attacked(database, INVARIANT, "attribute_linkage")
    assert plain.after is not None and plain.after.broken == 0


def population(rng: random.Random, size: int, first: int = 0) -> Rows:
    return [
        {"id": at, "age": rng.randint(20, 26), "town": rng.choice(TOWNS), "s": rng.choices("abc", (3, 2, 2))[0]}
        for at in range(first, first + size)
    ]


@pytest.mark.full
@pytest.mark.parametrize("seed", range(4))
def test_a_first_release_against_all_worlds(duck: Database, seed: int) -> None:
    """Also where persons wait; the real algorithm publishes what the brute force makes."""
    rows = population(random.Random(seed), 7)
    refresh(duck, rows)
    people, classes = in_a_row(rows), classes_of(duck, "r", rows)
    made, _ = brute.invariant_classes(people, {str(row["id"]): row["s"] for row in rows}, {}, 2)
    assert made == classes
    wanted = brute.invariance([(people, classes)], 2)
    item, _ = attacked(duck, INVARIANT)
    alike: dict[Any, list[str]] = {}
    for row in rows:
        alike.setdefault((row["age"], row["town"]), []).append(str(row["id"]))
    each = []
    for keys in alike.values():  # who cannot be told apart has one belief
        mean: dict[str, Fraction] = {}
        for key in keys:
            for value, share in wanted[key].items():
                mean[value] = mean.get(value, Fraction(0)) + share / len(keys)
        each += [mean] * len(keys)
    require_same(item.after, each)


@st.composite
def rows_of_people(draw: Any, size: int) -> tuple[list[tuple[str, tuple[int, ...]]], list[str]]:
    places = draw(st.lists(st.tuples(st.integers(1, 4), st.integers(1, 3)), min_size=size, max_size=size))
    people = [(str(key), at) for key, at in enumerate(places)]
    values = draw(st.lists(st.sampled_from("aabc"), min_size=size, max_size=size))
    return sorted(people, key=lambda person: curve(person[1], (4, 3))), values


def as_release(people: Sequence[tuple[str, tuple[int, ...]]], classes: brute.Classes) -> ObservedRelease:
    kinds = {(box, frozenset(values)): n for (box, values), n in classes.items()}
    return ObservedRelease([Person(key, at) for key, at in people], kinds)


@given(made=st.integers(2, 6).flatmap(rows_of_people), m=st.sampled_from([2, 2, 3]))
@settings(max_examples=examples(60), deadline=None)
def test_invariance_against_all_worlds(made: tuple[Any, list[str]], m: int) -> None:
    people, values = made
    classes, _ = brute.invariant_classes(people, {str(key): value for key, value in enumerate(values)}, {}, m)
    assume(classes)
    assert likely_values(as_release(people, classes), m) == brute.invariance([(people, classes)], m)


@given(made=st.integers(3, 5).flatmap(rows_of_people), data=st.data())
@settings(max_examples=examples(30), deadline=None)
def test_two_releases_against_all_worlds(made: tuple[Any, list[str]], data: Any) -> None:
    """Persons leave, come and move; rows of nobody stand in for who left."""
    people, values = made
    own = {str(key): value for key, value in enumerate(values)}
    first, past = brute.invariant_classes(people, own, {}, 2)
    assume(first)
    stay = data.draw(st.lists(st.sampled_from(people), unique=True))
    places = st.tuples(st.integers(1, 4), st.integers(1, 3))
    moved = [(key, data.draw(st.one_of(st.just(at), places))) for key, at in stay]
    new = [(f"new {at}", place) for at, place in enumerate(data.draw(st.lists(places, max_size=2)))]
    own |= {key: data.draw(st.sampled_from("aabc")) for key, _ in new}
    later = sorted([*moved, *new], key=lambda person: curve(person[1], (4, 3)))
    assume(later)
    here = {key for key, _ in later}
    second, _ = brute.invariant_classes(
        later, {key: own[key] for key in here}, {key: kept for key, kept in past.items() if key in here}, 2
    )
    found = likely_values_of_two(as_release(people, first), as_release(later, second), 2)
    wanted = brute.invariance([(people, first), (later, second)], 2)
    assert found == {key: wanted[key] for key in here}


@pytest.mark.full
def test_rows_of_nobody_and_signatures_across_releases(database: Database) -> None:
    """A person left, another one came. Both releases together, from real ones: the later alone has a row too many for a
    first one."""
    rows = population(random.Random(2), 6)
    refresh(database, rows)
    database.run("CREATE TABLE first_release AS SELECT * FROM r")
    database.run("CREATE TABLE first_people AS SELECT id, age, town FROM t")
    shown = classes_of(database, "first_release", rows)
    now = [row for row in rows if row["id"] not in (1,)] + population(random.Random(9), 1, 6)
    refresh(database, now)
    later = classes_of(database, "r", now)
    both = {"other": Source(table="first_release"), "earlier": Source(table="first_people")}
    item, found = attacked(database, INVARIANT, **both)
    wanted = brute.invariance([(in_a_row(rows), shown), (in_a_row(now), later)], 2)
    require_same(item.after, [wanted[str(row["id"])] for row in now])
    assert not [note for note in found.notes if "first one" in note]
    item, _ = attacked(database, INVARIANT, other=both["other"])
    assert item.not_judged == "it needs the persons of the earlier release: --earlier"
    with pytest.raises(PolicyError, match="but not that release"):
        attacked(database, INVARIANT, earlier=both["earlier"])


def test_releases_that_are_not_judged(duck: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = population(random.Random(1), 8)
    refresh(duck, rows)
    monkeypatch.setattr(invariance_worlds, "MOST_STEPS", 10)
    item, _ = attacked(duck, INVARIANT)
    assert item.after is None and item.not_judged == "the values of 8 persons have too many ways to be placed"
    monkeypatch.undo()
    duck.run(
        "CREATE TABLE more AS SELECT * FROM r UNION ALL SELECT * REPLACE (sqlanon_class + 100 AS sqlanon_class) FROM r"
    )
    item, _ = attacked(duck, INVARIANT, release=Source(table="more"))
    assert item.not_judged is not None and "name the earlier one, too" in item.not_judged
    duck.run("CREATE TABLE plain AS SELECT age, town, s FROM r")
    item, _ = attacked(duck, INVARIANT, release=Source(table="plain"))
    assert item.not_judged == "the release has no column 'sqlanon_class'"
    duck.run("UPDATE t SET s = NULL WHERE id = 1")
    item, _ = attacked(duck, INVARIANT)
    assert item.not_judged == "'s' has NULLs, whose persons wait"


@pytest.mark.full
def test_from_the_command_line(tmp_path: Path) -> None:
    import duckdb

    file, policy = tmp_path / "a.duckdb", tmp_path / "p.yml"
    with duckdb.connect(str(file)) as connection:
        connection.execute(
            "CREATE TABLE t AS SELECT i AS id, 20 + i AS age, 'A' AS town, ['c', 'b', 'a', 'a'][i + 1] AS s "
            "FROM range(4) AS r(i)"
        )
    policy.write_text(INVARIANT.replace("{table: t}", f"{{database: {file}, table: t}}"))
    environment = {"SQLANON_KEY": "x" * 32}
    done = CliRunner().invoke(main, ["publish", str(policy), "--no-workload"], env=environment)
    assert done.exit_code == 0, done.output
    asked = ["attack", str(policy), "--attack", "minimality", "--json"]
    found = json.loads(CliRunner().invoke(main, asked).output)
    assert found["attacks"][0]["after"]["broken"] == 2
    with duckdb.connect(str(file)) as connection:
        connection.execute("CREATE TABLE before AS SELECT * FROM r")
        connection.execute("CREATE TABLE people AS SELECT id, age, town FROM t")
    done = CliRunner().invoke(main, ["publish", str(policy), "--no-workload"], env=environment)
    assert done.exit_code == 0, done.output
    found = json.loads(CliRunner().invoke(main, [*asked, "--other", "before", "--earlier", "people"]).output)
    assert found["attacks"][0]["after"]["broken"] == 2 and found["attacks"][0]["not_judged"] is None

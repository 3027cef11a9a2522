"""Attacks against plain Python, on both engines: every person one by one, on raw and on generalized data."""

from __future__ import annotations

from typing import Any

import brute_attacks as brute
import pytest
from conftest import Database, examples
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from sqlanon.errors import PolicyError
from sqlanon.evidence.attacks import Attacks, Outcome, as_data, attack
from sqlanon.evidence.attacks.placements import placement, surest_values
from sqlanon.evidence.attacks.value_worlds import conclusions, configuration
from sqlanon.policy import Policy, Source, parse

COLUMNS = {"job": "TEXT", "age": "INTEGER", "s": "TEXT", "n": "DOUBLE PRECISION"}
LABELS = {"job": "TEXT", "age": "TEXT", "s": "TEXT", "n": "DOUBLE PRECISION"}
JOBS = {"engineer": "technical", "lawyer": "office", "clerk": "office"}
KINDS = {"flu": "lungs", "cold": "lungs", "hiv": "virus", "ebola": "virus"}
POLICY = """
source: {table: t}
columns: {job: quasi_identifier, age: quasi_identifier, s: sensitive, n: sensitive}
hierarchies:
  job: {tree: {tree: {"*": {technical: [engineer], office: [lawyer, clerk]}}}}
  age: {intervals: {widths: [10]}}
  s: {tree: {tree: {"*": {lungs: [flu, cold], virus: [hiv, ebola]}}}}
models: [k_anonymity: {k: 2}]
"""
Table = list[dict[str, Any]]
persons = st.lists(
    st.fixed_dictionaries(
        {
            "job": st.sampled_from([*JOBS, None]),
            "age": st.sampled_from([21, 25, 32, None]),
            "s": st.sampled_from([*KINDS, None]),
            "n": st.sampled_from([1.0, 2.0, 2.5, 9.0, None]),
        }
    ),
    min_size=1,
    max_size=12,
)
Levels = tuple[int, int]
levels = st.tuples(st.integers(0, 2), st.integers(0, 2))


def policy() -> Policy:
    return parse(POLICY)


def label(row: dict[str, Any], chosen: Levels) -> tuple[str | None, str | None]:
    """The labels of a person, with each column on one level: the value, its group, or the root."""
    job, age = row["job"], row["age"]
    jobs = (job, JOBS[job] if job else None, "*")
    tens = None if age is None else age // 10 * 10
    ages = (None if age is None else str(age), None if tens is None else f"[{tens}, {tens + 10})", "*")
    return jobs[chosen[0]], ages[chosen[1]]


def released(table: Table, chosen: Levels | list[Levels]) -> Table:
    """The table on one level for each column, or every row on levels of its own."""
    every = chosen if isinstance(chosen, list) else [chosen] * len(table)
    made = []
    for row, own in zip(table, every, strict=False):
        job, age = label(row, own)
        made.append({**row, "job": job, "age": age})
    return made


def fits(target: tuple[Any, ...], shown: tuple[Any, ...]) -> bool:
    """Whether a label on some level covers the value of the target, column by column."""
    row = {"job": target[0], "age": target[1]}
    columns = zip(*(label(row, (level, level)) for level in range(3)), strict=True)
    return all(own in covering for own, covering in zip(shown, columns, strict=True))


def keys(table: Table) -> list[tuple[Any, ...]]:
    return [(row["job"], None if row["age"] is None else str(row["age"])) for row in table]


def people(table: Table) -> list[tuple[Any, ...]]:
    return [(row["job"], row["age"]) for row in table]


def equal(target: tuple[Any, ...], shown: tuple[Any, ...]) -> bool:
    return shown == (target[0], None if target[1] is None else str(target[1]))


def with_values(table: Table, name: str) -> list[tuple[tuple[Any, ...], Any]]:
    return list(zip(keys(table), (row[name] for row in table), strict=True))


def outcomes(found: Attacks) -> dict[tuple[str, str | None], tuple[Outcome, Outcome | None]]:
    return {(item.name, item.attribute): (item.before, item.after) for item in found.attacks}


def same(found: Outcome | None, wanted: list[brute.Conclusion]) -> None:
    assert found is not None
    targets, broken, highest, average = brute.summary(wanted)
    assert (found.targets, found.broken) == (targets, broken)
    assert found.confidence == pytest.approx(highest, abs=1e-9)
    assert found.average == pytest.approx(average, abs=1e-9)


@pytest.mark.full
@given(table=persons, chosen=levels, knowledge=st.integers(0, 3), gain=st.sampled_from([0.0, 0.2, 0.5]))
@settings(max_examples=examples(5))
def test_what_classes_give_away(database: Database, table: Table, chosen: Levels, knowledge: int, gain: float) -> None:
    database.table("t", COLUMNS, table)
    database.table("r", LABELS, released(table, chosen))
    names = ["homogeneity", "background_knowledge", "skewness", "similarity", "proximity"]
    asked: dict[str, Any] = {"knowledge": knowledge, "gain": gain, "epsilon": 1.0, "names": names}
    found = outcomes(attack(policy(), database.engine, release=Source(table="r"), **asked))
    for side, rows in enumerate((table, released(table, chosen))):
        for name in ("s", "n"):
            own = with_values(rows, name)
            same(found["homogeneity", name][side], brute.homogeneity(own))
            same(found["background_knowledge", name][side], brute.background_knowledge(own, knowledge))
            skewed = brute.summary(brute.skewness(own, [row[name] for row in table], gain))
            outcome = found["skewness", name][side]
            assert outcome is not None and (outcome.targets, outcome.broken) == skewed[:2]
        same(found["similarity", "s"][side], brute.similarity(with_values(rows, "s"), KINDS.get))
        same(found["proximity", "n"][side], brute.proximity(with_values(rows, "n"), 1.0, 1.0))


@pytest.mark.full
@given(table=persons, others=persons, chosen=st.lists(levels, min_size=12, max_size=12), one=st.booleans())
@settings(max_examples=examples(5))
def test_what_an_external_table_adds(
    database: Database, table: Table, others: Table, chosen: list[Levels], one: bool
) -> None:
    """Also where rows stand on levels of their own, so that several classes fit a person."""
    shown = released(table, chosen[0] if one else chosen)
    database.table("t", COLUMNS, table)
    database.table("r", LABELS, shown)
    database.table("people", COLUMNS, others)
    names = ["linkage", "attribute_linkage", "membership"]
    both = {"release": Source(table="r"), "external": Source(table="people")}
    found = outcomes(attack(policy(), database.engine, names=names, **both))
    for side, (rows, how) in enumerate(((table, equal), (shown, fits))):
        same(found["linkage", None][side], brute.linkage(people(others), keys(rows), how))
        wanted = brute.attribute_linkage(people(others), with_values(rows, "s"), how)
        same(found["attribute_linkage", "s"][side], wanted)
        same(found["membership", None][side], brute.membership(people(others), keys(rows), how))


@pytest.mark.full
@pytest.mark.full_on_postgres
@given(table=persons, later=persons, chosen=levels, again=levels)
@settings(max_examples=examples(5))
def test_what_two_releases_tell_together(
    database: Database, table: Table, later: Table, chosen: Levels, again: Levels
) -> None:
    everybody = table + later
    database.table("t", COLUMNS, everybody)
    first, second = released(everybody, chosen), released(table, again)
    database.table("r1", LABELS, first)
    database.table("r2", LABELS, second)
    both = {"release": Source(table="r1"), "other": Source(table="r2")}
    found = outcomes(attack(policy(), database.engine, names=["intersection", "correspondence"], **both))
    raw = with_values(everybody, "s")
    shown = with_values(first, "s"), with_values(second, "s")
    for name, reference in (("intersection", brute.intersection), ("correspondence", brute.correspondence)):
        same(found[name, "s"][0], reference(people(everybody), raw, raw, equal))
        same(found[name, "s"][1], reference(people(everybody), *shown, fits))


# A release that meets the matching model withstands its attack -----------------------------------------------------


@given(table=persons, chosen=levels, l=st.integers(2, 3), t=st.sampled_from([0.1, 0.3]))
@settings(max_examples=examples(5))
def test_models_withstand_their_attacks(duck: Database, table: Table, chosen: Levels, l: int, t: float) -> None:  # noqa: E741
    from sqlanon.evidence.checks import check

    asked = [
        ("k_anonymity: {k: 2}", ("linkage", None)),
        (f"distinct_l_diversity: {{l: {l}, attribute: s}}", ("background_knowledge", "s")),
        ("distinct_l_diversity: {l: 2, attribute: s}", ("homogeneity", "s")),
        (f"t_closeness: {{t: {t}, attribute: s}}", ("skewness", "s")),
        ("epsilon_m_anonymity: {epsilon: 1, m: 2, attribute: n}", ("proximity", "n")),
    ]
    duck.table("t", COLUMNS, table)
    duck.table("r", LABELS, released(table, chosen))
    release = Source(table="r")
    names = [name for _, (name, _) in asked]
    found = outcomes(attack(policy(), duck.engine, release=release, knowledge=l - 2, gain=t, epsilon=1.0, names=names))
    for model, name in asked:
        text = POLICY.replace("k_anonymity: {k: 2}", model)
        (result,) = check(parse(text), duck.engine, release=release).checks
        after = found[name][1]
        assert after is not None
        assert not (result.holds and after.broken), model


# What is refused ----------------------------------------------------------------------------------------------------


@pytest.fixture
def small(duck: Database) -> Database:
    table = [{"job": "clerk", "age": 21, "s": "flu", "n": 1.0}, {"job": "lawyer", "age": 25, "s": "hiv", "n": 2.0}]
    duck.table("t", COLUMNS, table)
    duck.table("r", LABELS, released(table, (1, 1)))
    return duck


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"names": ["homogenity"]}, "no attack called 'homogenity'"),
        ({"certainty": 0}, "'certainty' must be > 0"),
        ({"certainty": 1.5}, "'certainty' must be"),
        ({"knowledge": -1}, "'knowledge' must be >= 0"),
        ({"gain": 2}, "'gain' must be"),
        ({"level": 0}, "'level' must be >= 1"),
        ({"epsilon": float("nan")}, "'epsilon' must be a finite number"),
        ({"sureness": 1}, "no parameter 'sureness'"),
        ({"other": Source(table="r")}, "not the one to compare it with"),
        ({"external": Source(query="SELECT 1 AS name")}, "none of the quasi-identifiers"),
        ({"release": Source(query="SELECT 'x' AS job, '*' AS age, s, n FROM t")}, "labels that neither"),
        ({"release": Source(query="SELECT job, s, n FROM t")}, "lacks 'age'"),
    ],
)
def test_what_makes_no_sense_is_refused(small: Database, asked: dict[str, Any], message: str) -> None:
    with (
        pytest.raises(PolicyError, match=message) if "lacks" not in message else pytest.raises(Exception, match=message)
    ):
        attack(policy(), small.engine, **asked)


def test_what_cannot_be_tried_is_told(small: Database) -> None:
    plain = parse("source: {table: t}\ncolumns: {job: quasi_identifier, s: sensitive}\nmodels: [k_anonymity: {k: 2}]")
    found = attack(plain, small.engine)
    assert {item.name for item in found.attacks} >= {"homogeneity", "linkage", "attribute_linkage"}
    assert found.not_judged["membership"] == "it needs an external table of persons"
    assert found.not_judged["intersection"] == "it needs another release of the same persons"
    assert "hierarchy" in found.not_judged["similarity"] and "epsilon" in found.not_judged["proximity"]
    assert all(item.after is None for item in found.attacks)
    without = parse("source: {table: t}\ncolumns: {job: quasi_identifier}\nmodels: [k_anonymity: {k: 2}]")
    assert attack(without, small.engine).not_judged["homogeneity"] == "there is no sensitive column"


def test_unique_nulls_are_not_looked_up(small: Database) -> None:
    text = POLICY + "nulls: unique\n"
    small.run("INSERT INTO t SELECT NULL, 21, 'flu', 1 UNION ALL SELECT NULL, 21, 'hiv', 1")
    small.run("DELETE FROM r")
    small.run("INSERT INTO r SELECT job, '*', s, n FROM t WHERE job IS NULL UNION ALL SELECT '*', '*', s, n FROM t")
    found = attack(parse(text), small.engine, release=Source(table="r"))
    before, after = outcomes(found)["homogeneity", "s"]
    assert (before.targets, before.broken) == (4, 4)
    assert after is not None and (after.targets, after.broken) == (6, 2)
    assert found.not_judged["linkage"] == "NULLs that match nothing cannot be looked up"


@pytest.mark.full
def test_an_external_table_may_know_less_and_in_other_types(small: Database) -> None:
    small.run("CREATE TABLE listed AS SELECT 'Ann' AS who, '21' AS age UNION ALL SELECT 'Bob', '99'")
    found = outcomes(attack(policy(), small.engine, release=Source(table="r"), external=Source(table="listed")))
    before, after = found["linkage", None]
    assert (before.targets, before.broken) == (2, 1)
    assert after == Outcome(2, 0, 0.5, 0.25)


def test_the_root_covers_persons_whom_no_hierarchy_lists(small: Database) -> None:
    """A list may hold a job that the hierarchy does not: it is hidden like all others, and not shown otherwise."""
    text = POLICY.replace('"*": {technical', "anything: {technical")
    small.run("UPDATE r SET job = 'anything'")
    listed = Source(query="SELECT 'dancer' AS job, 21 AS age")
    found = outcomes(attack(parse(text), small.engine, release=Source(table="r"), external=listed, names=["linkage"]))
    assert found["linkage", None] == (Outcome(1, 0, 0.0, 0.0), Outcome(1, 0, 0.5, 0.5))


def test_who_is_known_by_nothing_that_a_view_shows(small: Database) -> None:
    both = {"release": Source(query="SELECT job, s, n FROM t"), "other": Source(query="SELECT age, s FROM t")}
    external = Source(query="SELECT 21 AS age")
    found = outcomes(attack(policy(), small.engine, external=external, names=["linkage", "intersection"], **both))
    assert found["linkage", None][1] == Outcome(1, 0, 0.5, 0.5)
    assert found["intersection", "s"][1] == Outcome(1, 1, 1.0, 1.0)


def test_an_empty_table_breaks_nobody(duck: Database) -> None:
    duck.table("t", COLUMNS, [])
    found = attack(policy(), duck.engine, epsilon=1.0)
    assert found.attacks and all(item.before == Outcome(0, 0, None, None) for item in found.attacks)
    assert as_data(found)["attacks"][0]["before"]["targets"] == 0


# Learning, distances and views ---------------------------------------------------------------------------------------


@pytest.mark.full
@given(table=persons, chosen=levels, rounds=st.integers(0, 3), listed=st.booleans())
@settings(max_examples=examples(5))
def test_what_is_learned_from_all_classes(
    database: Database, table: Table, chosen: Levels, rounds: int, listed: bool
) -> None:
    shown = released(table, chosen)
    database.table("t", COLUMNS, table)
    database.table("r", LABELS, shown)
    external = {"external": Source(query="SELECT job, age FROM t")} if listed else {}
    given_names = {"names": ["definetti"], "rounds": rounds, "certainty": 0.7}
    found = outcomes(attack(policy(), database.engine, release=Source(table="r"), **given_names, **external))
    truth = None if listed else [row["s"] for row in table]
    for side, (rows, how) in enumerate(((table, equal), (shown, fits))):
        wanted = brute.definetti(people(table), truth, with_values(rows, "s"), how, rounds, 0.7)
        outcome = found["definetti", "s"][side]
        assert outcome is not None
        targets, broken, highest, average = brute.summary(wanted)
        assert (outcome.targets, outcome.broken) == (targets, broken)
        assert (outcome.confidence, outcome.average) == (
            pytest.approx(highest, abs=1e-6),
            pytest.approx(average, abs=1e-6),
        )


@pytest.mark.full
def test_smokers_are_told_from_others(duck: Database) -> None:
    """Every class has two values, and the value goes with the job all over the table: who knows the jobs knows it."""
    table = [
        {"job": job, "age": age, "s": {"clerk": "flu", "lawyer": "hiv"}[job], "n": 1.0}
        for age in range(20, 100, 10) for job in ("clerk", "lawyer") for _ in range(3)
    ] + [{"job": "clerk", "age": 20, "s": "flu", "n": 1.0}] * 20  # fmt: skip
    duck.table("t", COLUMNS, table)
    duck.table("r", LABELS, released(table, (1, 0)))
    names = ["definetti", "homogeneity"]
    found = outcomes(attack(policy(), duck.engine, release=Source(table="r"), rounds=20, names=names))
    assert found["homogeneity", "s"][1].broken == 0  # type: ignore[union-attr]
    learned = found["definetti", "s"][1]
    assert learned is not None and (learned.targets, learned.broken) == (68, 44)  # the clerks


@pytest.mark.full
@pytest.mark.full_on_postgres
@given(table=persons, others=persons, chosen=levels, noisy=st.booleans(), listed=st.booleans())
@settings(max_examples=examples(5))
def test_the_nearest_records(
    database: Database, table: Table, others: Table, chosen: Levels, noisy: bool, listed: bool
) -> None:
    """Also where ages are shown as other numbers."""
    shown = released(table, (chosen[0], 0))
    text = POLICY
    if noisy:
        shown = [{**row, "age": None if row["age"] is None else int(row["age"]) + 3} for row in shown]
        text = POLICY.replace("models:", "transformations: [rounding: {columns: [age], base: 3}]\nmodels:")
    else:
        shown = released(table, chosen)
    database.table("t", COLUMNS, table)
    database.table("r", {**LABELS, "age": "INTEGER" if noisy else "TEXT"}, shown)
    database.table("people", COLUMNS, others)
    external = {"external": Source(table="people")} if listed else {}
    names = ["distance_linkage"]
    found = outcomes(attack(parse(text), database.engine, release=Source(table="r"), names=names, **external))
    targets = others if listed else table
    truth = None if listed else [row["s"] for row in table]
    for side, rows in enumerate((table, shown)):
        numbers = side == 0 or noisy
        wanted = brute.distance_linkage(
            people(targets),
            truth,
            people(rows) if numbers else keys(rows),
            [row["s"] for row in rows],
            numbers,
            lambda job, shown: fits((job, None), (shown, None)),
        )
        same(found["distance_linkage", "s"][side], wanted)


def test_many_targets_are_sampled(duck: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    duck.table("t", COLUMNS, [{"job": "clerk", "age": age, "s": "flu", "n": 1.0} for age in range(30)])
    monkeypatch.setattr("sqlanon.evidence.attacks.learning_attacks.MOST_TARGETS", 7)
    found = attack(policy(), duck.engine, names=["distance_linkage"])
    assert found.attacks[0].before.targets == 7
    assert "a sample of 7 of 30 kinds of targets" in found.notes[0]
    assert attack(policy(), duck.engine, names=["distance_linkage"]) == found


# Minimality -----------------------------------------------------------------------------------------------------------


@given(
    groups=st.lists(st.lists(st.integers(1, 3), min_size=1, max_size=3), min_size=1, max_size=2),
    data=st.data(),
    bound=st.sampled_from([0.3, 0.5, 0.6]),
)
@settings(max_examples=examples(25))
def test_the_worlds_that_remain(groups: list[list[int]], data: st.DataObject, bound: float) -> None:
    """Against every placement of the value, world by world."""
    counts = [data.draw(st.integers(0, sum(sizes))) for sizes in groups]
    found = []
    for sizes, matching in zip(groups, counts, strict=True):
        listed = ",".join(f"{size}x{sizes.count(size)}" for size in sorted(set(sizes)))
        found.append(configuration(sum(sizes), matching, listed, 1))
    wanted = brute.minimality(groups, counts, bound)
    told = conclusions(found, bound)
    assert sum(n for n, _ in told) == sum(map(sum, groups))
    merged = sorted((sure, n) for n, sure in told)
    each = sorted(sure for sure, n in merged for _ in range(n))
    assert each == pytest.approx(sorted(wanted), abs=1e-9)


@given(
    groups=st.lists(st.integers(1, 3), min_size=1, max_size=3),
    others=st.lists(st.integers(1, 2), min_size=1, max_size=2),
    data=st.data(),
    least=st.integers(2, 3),
)
@settings(max_examples=examples(25))
def test_the_worlds_of_all_values(groups: list[int], others: list[int], data: st.DataObject, least: int) -> None:
    """Two classes, whose values are placed in all ways: one group of either that has too few values is enough."""
    from collections import Counter
    from itertools import permutations, product

    values = [data.draw(st.lists(st.integers(1, 3), min_size=n, max_size=n)) for n in (sum(groups), sum(others))]
    owners = [[place for place, size in enumerate(sizes) for _ in range(size)] for sizes in (groups, others)]

    def few(world: tuple[int, ...], own: list[int]) -> bool:
        return any(
            len({value for value, place in zip(world, own, strict=True) if place == group}) < least
            for group in set(own)
        )

    worlds = list(product(*(set(permutations(each)) for each in values)))
    left = [world for world in worlds if any(map(few, world, owners))] or worlds
    wanted = [
        max(Counter(world[number][place] for world in left).values()) / len(left)
        for number, own in enumerate(owners)
        for place in range(len(own))
    ]
    made = []
    for sizes, own in zip((groups, others), values, strict=True):
        written = [",".join(f"{a}x{b}" for a, b in sorted(Counter(each).items())) for each in (sizes, own)]
        made.append(placement(written[0], written[1], 1))
    told = surest_values(made, lambda group: len(group) < least)
    assert sorted(sure for n, sure in told for _ in range(n)) == pytest.approx(sorted(wanted))


def test_alike_classes_are_as_good_as_written_out() -> None:
    one = configuration(4, 2, "2x2", 3)
    assert sorted(conclusions([one], 0.6)) == sorted([(12, pytest.approx(c)) for _, c in conclusions([one], 0.6)])
    single = conclusions([configuration(4, 2, "2x2", 1)] * 3, 0.6)
    assert {round(sure, 12) for _, sure in single} == {round(sure, 12) for _, sure in conclusions([one], 0.6)}


# Splink ---------------------------------------------------------------------------------------------------------------


@pytest.mark.full_on_postgres
def test_splink_links_those_who_are_alone(database: Database) -> None:
    """Every person of the raw table is unique and has one match; in groups of ten none has."""
    duck = database
    table = [{"job": job, "age": age, "s": "flu", "n": 1.0} for job in JOBS for age in range(20, 100)]
    duck.table("t", COLUMNS, table)
    duck.table("r", LABELS, released(table, (0, 1)))
    found = outcomes(attack(policy(), duck.engine, release=Source(table="r"), names=["probabilistic_linkage"]))
    before, after = found["probabilistic_linkage", None]
    assert after is not None and (before.targets, before.broken) == (240, 240)
    assert (after.targets, after.broken) == (240, 0)
    people = [(row["job"], str(row["age"])) for row in table]
    tens = [(row["job"], row["age"]) for row in released(table, (0, 1))]
    for outcome, wanted in (
        (before, brute.probabilistic_linkage(people, people)),
        (after, brute.probabilistic_linkage(tens, tens)),
    ):
        # All are alike: a job agrees by chance in 1 of 3 pairs, an age in 1 of 80, ten ages in 1 of 8.
        assert (outcome.confidence, outcome.average) == (pytest.approx(wanted[0], abs=1e-9),) * 2
    agree, differ = (0.99 * 3, 0.99 * 80), (0.01 / (2 / 3), 0.01 / (79 / 80))
    odds = {(1, 1): 1, (1, 0): 79, (0, 1): 2}  # how many records agree on job, on age
    every = sum(n * (agree if job else differ)[0] * (agree if age else differ)[1] for (job, age), n in odds.items())
    assert before.average == pytest.approx(agree[0] * agree[1] / every, abs=1e-9)
    duck.table("r", LABELS, released(table, [(place % 2, 1) for place in range(240)]))
    told = attack(policy(), duck.engine, release=Source(table="r"), names=["probabilistic_linkage"])
    assert "several labels" in (told.attacks[0].not_judged or "")


@pytest.mark.full
@given(
    table=st.lists(
        st.tuples(st.sampled_from(sorted(JOBS)), st.sampled_from([21, 25, 32, 38, 47])), min_size=4, max_size=20
    )
)
@settings(max_examples=examples(5))
def test_splink_weighs_columns_as_fellegi_and_sunter_do(duck: Database, table: list[tuple[str, int]]) -> None:
    """Jobs and ages that are not equally frequent, with several persons alike: how often a column agrees by chance is
    taken from all pairs, and the rest follows by hand. That persons agree with their own record in 99 of 100 is given,
    and not learned, since it cannot be learned from tables without a key."""
    assume(len({job for job, _ in table}) > 1 and len({age for _, age in table}) > 1)
    duck.table("t", COLUMNS, [{"job": job, "age": age, "s": "flu", "n": 1.0} for job, age in table])
    (item,) = attack(policy(), duck.engine, names=["probabilistic_linkage"]).attacks
    wanted = brute.probabilistic_linkage(table, table)
    assert item.before.targets == len(table)
    assert item.before.broken == sum(sure >= 0.9 - 1e-9 for sure in wanted)
    assert item.before.confidence == pytest.approx(max(wanted), abs=1e-6)
    assert item.before.average == pytest.approx(sum(wanted) / len(wanted), abs=1e-6)


def test_without_splink_it_is_not_judged(small: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sqlanon.evidence.attacks.record_linkage.has_splink", lambda: False)
    found = attack(policy(), small.engine, names=["probabilistic_linkage"])
    assert found.not_judged == {"probabilistic_linkage": "it needs Splink: pip install 'sqlanon[splink]'"}

"""Releases of other names of the same persons: what an attacker learns who joins them on the columns that both show."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from itertools import product
from typing import Any

import pytest
from conftest import Database

from sqlanon.errors import PolicyError
from sqlanon.policy import parse
from sqlanon.release import Published, publish

KEY = "a key that is long enough"
# Table VI of a survey: one table of patients, of which two releases show different columns.
PATIENTS = [
    ("p1", 30, "Lawyer", "US", "Cancer"),
    ("p2", 30, "Lawyer", "US", "Cancer"),
    ("p3", 40, "Carpenter", "France", "HIV"),
    ("p4", 40, "Electrician", "UK", "Cancer"),
    ("p5", 50, "Engineer", "France", "HIV"),
    ("p6", 50, "Clerk", "US", "HIV"),
]
COLUMNS = {"id": "TEXT", "age": "INTEGER", "job": "TEXT", "birthplace": "TEXT", "disease": "TEXT"}
JOBS = {"*": {"Professional": ["Lawyer", "Engineer", "Clerk"], "Technical": ["Carpenter", "Electrician"]}}
PLACES = {"*": {"Europe": ["France", "UK"], "America": ["US"]}}
FIRST = """
source: {query: "SELECT id, age, job FROM patients"}
person: id
columns: {id: identifier, age: quasi_identifier, job: insensitive}
models: [{k_anonymity: {k: 2}}]
algorithm: {fixed_levels: {levels: {age: 0}}}
release: {table: first}
"""
SECOND = f"""
source: {{query: "SELECT id, job, birthplace, disease FROM patients"}}
person: id
columns: {{id: identifier, job: insensitive, birthplace: quasi_identifier, disease: sensitive}}
hierarchies: {{birthplace: {{tree: {{tree: {PLACES}}}}}}}
models: [{{k_anonymity: {{k: 2}}}}]
release: {{table: second}}
"""
GENERAL = SECOND.replace("job: insensitive", "job: quasi_identifier").replace(
    "hierarchies: {", f"hierarchies: {{job: {{tree: {{tree: {JOBS}}}}}, "
)
BESIDE = "history: {beside: [first], models: [{stable_partition: {k: 2}}, {join_of_views: {k: 2}}]}\n"
MODELS = "models: [{k_anonymity: {k: 2}}"


def patients(database: Database, rows: list[tuple[Any, ...]] = PATIENTS) -> None:
    database.table("patients", COLUMNS, [dict(zip(COLUMNS, row, strict=True)) for row in rows])


def release(database: Database, text: str) -> Published:
    return publish(parse(text), database.engine, secret=KEY, workload=False)


def attacked(database: Database) -> dict[tuple[Any, Any], list[str]]:
    """Example 6.1: the diseases of each age and birthplace in the join of what both releases show."""
    found = defaultdict(list)
    joined = "SELECT age, birthplace, disease FROM first JOIN second ON first.job = second.job"
    for age, birthplace, disease in database.fetch(joined):
        found[age, birthplace].append(disease)
    return dict(found)


def test_the_survey_breaks_views_that_are_not_joined(database: Database) -> None:
    """Examples 6.1 and 6.2: each release is 2-anonymous; one class of the join is not, another grows."""
    patients(database)
    release(database, FIRST)
    levels = "algorithm: {fixed_levels: {levels: {birthplace: 0}}}\nsuppression_limit: 0.2\n"
    release(database, SECOND + levels)
    found = attacked(database)
    assert found[40, "France"] == ["HIV"]
    assert found[30, "US"] == ["Cancer"] * 4


@pytest.mark.full
def test_the_survey_is_refused(database: Database) -> None:
    patients(database)
    release(database, FIRST)
    levels = "algorithm: {fixed_levels: {levels: {birthplace: 0}}}\nsuppression_limit: 0.2\n"
    with pytest.raises(PolicyError, match="together with earlier releases it breaks the policy") as error:
        release(database, SECOND + levels + BESIDE)
    assert "join_of_views: 3 of 4 broken" in str(error.value.detail)  # {40, France}, {50, France} and {50, US}
    assert database.engine.find(["second"]) is None


@pytest.mark.full
def test_the_survey_is_repaired(duck: Database) -> None:
    """Birthplaces are hidden until every class of the join holds two rows of either release."""
    patients(duck)
    release(duck, FIRST)
    done = release(duck, SECOND + BESIDE)
    assert done.plan.passes == ({"birthplace": 2},)
    assert "raised" in done.plan.why
    assert all(len(diseases) >= 2 for diseases in attacked(duck).values())
    (partition, joined) = done.document["history"]["models"]
    assert (joined["model"], joined["beside"], joined["measured"]) == ("join_of_views", "first", 2)
    assert partition["model"] == "stable_partition"


def test_models_of_the_policy_hold_on_the_join(duck: Database) -> None:
    """{30, US} tells Cancer for sure. Where jobs must not be hidden nothing helps; else they are made general."""
    patients(duck)
    release(duck, FIRST)
    diverse = MODELS + ", {distinct_l_diversity: {l: 2}}"
    with pytest.raises(PolicyError) as error:
        release(duck, SECOND.replace(MODELS, diverse) + BESIDE)
    assert "join_of_views, distinct_l_diversity: 2 of 3 broken" in str(error.value.detail)
    done = release(duck, GENERAL.replace(MODELS, diverse) + BESIDE)
    found = defaultdict(set)
    for age, disease in duck.fetch("SELECT age, disease FROM first CROSS JOIN second"):
        found[age].add(disease)
    assert done.plan.passes[0]["job"] == 2  # no lawyer but has cancer: only a join of all with all hides it
    assert all(len(diseases) == 2 for diseases in found.values())


def test_sequential_privacy_bounds_confidence(duck: Database) -> None:
    """The lossy join: professionals of the second release match every job below in the first."""
    patients(duck)
    release(duck, FIRST)
    asked = BESIDE.replace("join_of_views: {k: 2}", "sequential_privacy: {x: [age, birthplace], k: 2, h: 0.6}")
    done = release(duck, GENERAL + asked)
    result = next(item for item in done.document["history"]["models"] if item["model"] == "sequential_privacy")
    assert result["holds"] and result["measured"] <= 0.6
    assert max(done.plan.passes[0].values()) > 0
    loose = asked.replace("h: 0.6", "h: 0.8")
    patients(duck)
    other = release(duck, GENERAL.replace("table: second", "table: third") + loose)
    assert sum(other.plan.passes[0].values()) < sum(done.plan.passes[0].values())


def test_every_version_of_the_other_is_joined(duck: Database) -> None:
    """What was replaced was seen all the same."""
    kept = FIRST + "history: {beside: [], hold_back: 1}\n"
    patients(duck)
    release(duck, kept)
    patients(duck, [(who, 30, *rest) for who, _, *rest in PATIENTS])
    release(duck, kept)
    patients(duck)
    fixed = "algorithm: {fixed_levels: {levels: {birthplace: 0}}}\nsuppression_limit: 0.2\n"
    with pytest.raises(PolicyError) as error:
        release(duck, SECOND + fixed + BESIDE)
    assert str(error.value.detail).count("join_of_views") == 1  # of the first version; the second tells no age


def test_versions_that_were_not_kept_cannot_be_joined(duck: Database) -> None:
    patients(duck)
    release(duck, FIRST)
    release(duck, FIRST)
    with pytest.raises(PolicyError, match="version 1 of 'first' showed was not kept"):
        release(duck, SECOND + BESIDE)


@pytest.mark.full
def test_who_was_joined_goes_on_being_joined(duck: Database) -> None:
    patients(duck)
    release(duck, FIRST + "history: {beside: []}\n")
    release(duck, SECOND + BESIDE)
    with pytest.raises(PolicyError, match="'second' was published beside 'first', whose policy does not name it"):
        release(duck, FIRST + "history: {beside: []}\n")
    done = release(duck, FIRST + "history: {beside: [second]}\n")
    assert [item.get("beside") for item in done.document["history"]["models"]] == [None, "second"]


@pytest.mark.full
@pytest.mark.parametrize(
    ("text", "said"),
    [
        (SECOND + "history: {beside: [frist]}\n", "there is no release 'frist'"),
        (SECOND.replace("job", "task") + BESIDE, "no column in common"),
        (SECOND + BESIDE.replace("[first]", "[spelt]"), "differ in their spelling alone"),
        (SECOND.replace(MODELS, MODELS + ", {hierarchical_t_closeness: {t: 0.9}}")
         .replace("hierarchies: {", "hierarchies: {disease: {tree: {tree: {'*': [Cancer, HIV]}}}, ")
         + BESIDE, "cannot be measured on a join"),
    ],
)  # fmt: skip
def test_what_cannot_be_joined_is_refused(duck: Database, text: str, said: str) -> None:
    patients(duck)
    release(duck, FIRST)
    spelt = {"id": "TEXT", "age": "INTEGER", "Job": "TEXT"}
    duck.table("upper_case", spelt, [dict(zip(spelt, row[:3], strict=True)) for row in PATIENTS])
    release(
        duck,
        FIRST.replace("job", "Job")
        .replace('query: "SELECT id, age, Job FROM patients"', "table: upper_case")
        .replace("table: first", "table: spelt"),
    )
    columns = COLUMNS if "task" not in text else {name if name != "job" else "task": COLUMNS[name] for name in COLUMNS}
    duck.table("patients", columns, [dict(zip(columns, row, strict=True)) for row in PATIENTS])
    with pytest.raises(PolicyError) as error:
        release(duck, text)
    assert said in str(error.value)


@pytest.mark.parametrize(
    ("history", "said"),
    [
        ("history: {beside: [second]}\n", "cannot be beside itself"),
        ("history: {models: [{join_of_views: {k: 2}}]}\n", "needs other releases"),
        ("history: {beside: first}\n", "a list of releases"),
        ("history: {beside: [first], models: [{sequential_privacy: {k: 2}}]}\n", "needs the parameter 'x'"),
    ],
)
def test_wrong_sections(history: str, said: str) -> None:
    with pytest.raises(PolicyError) as error:
        parse(SECOND + history)
    assert said in str(error.value)


# ---- a join by hand, over what both releases show


def above(tree: Any, path: tuple[str, ...] = ()) -> dict[str, tuple[str, ...]]:
    """Each node of a tree with its path from the root."""
    found = {}
    children = tree.items() if isinstance(tree, dict) else [(leaf, []) for leaf in tree]
    for name, below in children:
        found[name] = (*path, name)
        found |= above(below, (*path, name))
    return found


def expected(database: Database) -> tuple[int, int, int]:
    """Classes of the join of both releases, the fewest rows of either in one, and how many hold one disease alone."""
    paths = above(JOBS)
    first = database.fetch("SELECT age, job FROM first")
    second = database.fetch("SELECT job, birthplace, disease FROM second")
    classes: dict[tuple[Any, ...], tuple[set[int], set[int], Counter[str]]] = {}
    for (i, (age, theirs)), (j, (job, birthplace, disease)) in product(enumerate(first), enumerate(second)):
        shorter = min(len(paths[theirs]), len(paths[job]))
        if paths[theirs][:shorter] == paths[job][:shorter]:
            found = classes.setdefault((age, theirs, job, birthplace), (set(), set(), Counter()))
            found[0].add(i)
            found[1].add(j)
            found[2][disease] += 1
    least = min(min(len(one), len(other)) for one, other, _ in classes.values())
    return len(classes), least, sum(len(diseases) < 2 for _, _, diseases in classes.values())


@pytest.mark.full
@pytest.mark.parametrize("seed", range(4))
def test_joins_agree_with_a_join_by_hand(duck: Database, seed: int) -> None:
    rng = random.Random(seed)
    jobs = ["Lawyer", "Engineer", "Clerk", "Carpenter", "Electrician"]
    rows = [
        (f"p{n}", rng.choice([30, 40]), rng.choice(jobs), rng.choice(["US", "UK", "France"]), rng.choice("ab"))
        for n in range(40)
    ]
    patients(duck, rows)
    tree = f"hierarchies: {{job: {{tree: {{tree: {JOBS}}}}}}}\n"
    quasi = FIRST.replace("job: insensitive", "job: quasi_identifier").replace(
        "{age: 0}", f"{{age: 0, job: {rng.randint(0, 2)}}}"
    )
    release(duck, quasi + tree + "suppression_limit: 0.5\n")
    levels = f"{{job: {rng.randint(0, 2)}, birthplace: {rng.randint(0, 1)}}}"
    text = GENERAL + f"algorithm: {{fixed_levels: {{levels: {levels}}}}}\nsuppression_limit: 0.5\n"
    diverse = text.replace(MODELS, MODELS + ", {distinct_l_diversity: {l: 2}}")
    release(duck, diverse)
    classes, least, alike = expected(duck)
    duck.run("DROP TABLE second")
    duck.run("DELETE FROM sqlanon_releases WHERE release = 'second'")
    asked = diverse + BESIDE
    if least >= 2 and not alike:
        joined, models = release(duck, asked).document["history"]["models"][1:]
        assert (joined["compared"], joined["measured"], models["broken"]) == (classes, least, 0)
    else:
        with pytest.raises(PolicyError) as error:
            release(duck, asked)
        told = str(error.value.detail)
        assert (f"distinct_l_diversity: {alike:,} of {classes:,} broken" in told) == (alike > 0)
        assert ("join_of_views: " in told) == (least < 2)

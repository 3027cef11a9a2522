"""The search: its optimum is the one that plain Python finds by trying every node, for all models and metrics."""

from __future__ import annotations

import itertools
import math
from typing import Any

import brute
import brute_loss
import pytest
from conftest import Database, examples
from hypothesis import given, settings
from hypothesis import strategies as st
from measuring import policy_for
from searching import GROUP, K2, PATHS, opened
from solving import solve, task
from test_examples import statements
from test_models import SPECS, model_use, oracle

from sqlanon import algorithms
from sqlanon.errors import PolicyError
from sqlanon.families import family
from sqlanon.lattice.minimized_metric import build_metric
from sqlanon.lattice.nodes import Infeasible
from sqlanon.lattice.pose_problem import problem
from sqlanon.relations.compressed_rows import root_only
from sqlanon.relations.source import relation
from sqlanon.release import publish
from sqlanon.release.release_script import release_script

TREES = {
    "a": {"*": {"low": ["x", "y"], "high": ["z", "w"]}},
    "b": {"*": {"odd": ["1", "3"], "even": ["2"]}},
}
LEAVES = {
    "a": {"x": ("x", "low", "*"), "y": ("y", "low", "*"), "z": ("z", "high", "*"), "w": ("w", "high", "*")},
    "b": {"1": ("1", "odd", "*"), "3": ("3", "odd", "*"), "2": ("2", "even", "*")},
}
TYPES = {"a": "TEXT", "b": "TEXT", "s": "TEXT", "u": "TEXT", "n": "DOUBLE PRECISION", "g": "TEXT", "p": "TEXT"}
row = st.fixed_dictionaries(
    {
        "a": st.sampled_from("xyzw"),
        "b": st.sampled_from("123"),
        "s": st.sampled_from(["flu", "hiv", "gout"]),
        "u": st.just("m"),
        "n": st.sampled_from([-4.0, 0.0, 1.0, 1.5, 30.0]),
        "g": st.just("root"),
        "p": st.sampled_from(["ann", "bob", "eve", "joe", "liv"]),
    }
)
METRICS = [
    "ncp", "ncp_geometric", "iloss", "precision", "minimal_distortion", "discernibility", "discernibility_star",
    "aecs", "c_avg", "height", "non_uniform_entropy", "kl_divergence",
]  # fmt: skip
# These have classes of their own, or look at all that is released: test_search_classes.py.
ELSEWHERE = {"nt_closeness", "personalized_privacy", "expected_confidence", "multi_attribute_l_diversity"}
SEARCHED = sorted(set(SPECS) - ELSEWHERE)


def loss_of(metric: str, triples: Any, k: int) -> float:
    """The loss by its definition; infinite where the metric says nothing."""
    pairs, columns = brute_loss.released(triples), ["a", "b"]
    if metric == "c_avg":
        kept = [row for row, _, kept in triples if kept]
        return float(brute_loss.average_class_size(pairs, columns, k)) if kept else math.inf
    if metric in ("discernibility_star", "non_uniform_entropy"):
        return float(getattr(brute_loss, metric)(triples, columns))
    if metric in ("discernibility", "aecs"):
        return float(getattr(brute_loss, metric)(pairs, columns))
    if metric == "height":
        return float(brute_loss.height(brute_loss.generalized(triples), columns, LEAVES))
    return float(getattr(brute_loss, metric)(pairs, columns, LEAVES))


def brute_optimum(rows: Any, models: dict[str, Any], metric: str, limit: float, person: bool) -> float | None:
    """The least loss over all nodes whose suppressed rows are within the limit."""
    best = None
    asked = max((params["k"] for params in models.values() if "k" in params), default=1)
    for levels in itertools.product(range(3), range(3)):
        new = [
            {**item, "a": LEAVES["a"][item["a"]][levels[0]], "b": LEAVES["b"][item["b"]][levels[1]]} for item in rows
        ]
        bad = set()
        for name, params in models.items():
            bad |= oracle(name, new, params, person)[1]
        triples = [(old, item, (item["a"], item["b"]) not in bad) for old, item in zip(rows, new, strict=True)]
        suppressed = sum(not kept for *_, kept in triples)
        if suppressed <= limit * len(rows) + 1e-9 and suppressed < len(rows):
            found = levels_height(levels) if metric == "height" else loss_of(metric, triples, asked)
            best = found if best is None else min(best, found)
    return best


def levels_height(levels: tuple[int, ...]) -> float:
    return float(sum(levels))


searches = given(data=st.data(), rows=st.lists(row, min_size=1, max_size=30), person=st.booleans())


@settings(max_examples=examples(8))
@searches
def test_the_optimum_is_what_trying_every_node_finds(database: Database, data: Any, rows: Any, person: bool) -> None:
    names = data.draw(st.lists(st.sampled_from(SEARCHED), min_size=1, max_size=2, unique=True))
    models = {
        name: {key: data.draw(strategy, label=f"{name}.{key}") for key, strategy in SPECS[name][0].items()}
        for name in names
    }
    metric = data.draw(st.sampled_from(METRICS))
    limit = data.draw(st.sampled_from([0.0, 0.1, 0.3, 0.5, 1.0]))
    policy = policy_for(
        ["a", "b"],
        ["s", "n"],
        [model_use(name, params) for name, params in models.items()],
        insensitive=("g", "u"),
        hierarchies={name: {"tree": {"tree": tree}} for name, tree in TREES.items()}
        | {"s": {"tree": {"tree": {"root": {"viral": ["flu", "hiv"], "other": ["gout"]}}}}},
        suppression_limit=limit,
        minimize=metric,
        **({"person": "p"} if person else {}),
    )
    database.table("t", TYPES, rows)
    wanted = brute_optimum(rows, models, metric, limit, person)
    for name in ("exhaustive", "full_domain"):
        if wanted is None:
            with pytest.raises(Infeasible):
                solve(database.engine, policy, name)
            continue
        found = solve(database.engine, policy, name)
        assert found.proven
        assert found.loss == pytest.approx(wanted, rel=1e-9, abs=1e-9), (name, models, metric, limit)


test_the_optimum_in_full = pytest.mark.long(
    settings(max_examples=examples(100))(
        searches(test_the_optimum_is_what_trying_every_node_finds.hypothesis.inner_test)
    )
)


def test_what_cannot_be_searched_is_refused(duck: Database) -> None:
    duck.table("t", TYPES, [{"a": "x", "b": "1", "s": "flu", "u": "m", "n": 1.0, "g": "root", "p": "ann"}])
    columns = {
        "columns": dict.fromkeys("ab", "quasi_identifier") | dict.fromkeys("sun", "sensitive") | {"g": "identifier"}
    }
    hidden = {"personalized_privacy": {"p_breach": 0.5, "guard": "g", "attribute": "s"}}
    policy = policy_for([], [], [hidden], hierarchies={"s": {"tree": {"tree": {"root": ["flu"]}}}}, **columns)
    with pytest.raises(PolicyError, match="'g', which is not released"):
        task(duck.engine, policy)
    # What goes from region to region knows the classes of all quasi-identifiers alone.
    part = {"k_anonymity": {"k": 2, "qid": ["a"]}}
    for use, more, said in ((part, {}, "k_anonymity"), ({"k_anonymity": {"k": 2}}, {"nulls": "unique"}, "nulls")):
        policy = policy_for([], [], [use], algorithm="mondrian", **columns, **more)
        rows = relation(policy.source, duck.engine.dialect)
        with pytest.raises(PolicyError, match=said):
            problem(policy, duck.engine, {name: root_only() for name in "ab"}, rows)


# A population: classes of another table, generalized alike ---------------------------------------------------------

# Some of its values are not in the source, and some of the source are not in it.
somebody = st.fixed_dictionaries(
    {"a": st.sampled_from(["x", "y", "z", "w", None]), "b": st.sampled_from("123"), "p": st.sampled_from("abcdefgh")}
)
crowded = st.fixed_dictionaries(
    {
        "a": st.sampled_from(["x", "y", "z", None]),
        "b": st.sampled_from("123"),
        "s": st.sampled_from(["flu", "hiv"]),
        "p": st.sampled_from("abcdefgh"),
    }
)
KNOWN = {"a": LEAVES["a"] | {None: (None, None, "*")}, "b": LEAVES["b"]}


def generalized(rows: Any, levels: tuple[int, ...]) -> list[Any]:
    return [
        item | {name: KNOWN[name][item[name]][level] for name, level in zip("ab", levels, strict=True)} for item in rows
    ]


def crowd_optimum(rows: Any, crowd: Any, models: Any, limit: float, person: Any) -> int | None:
    """The least height of a node that holds. What is suppressed is not in the release: its presence is 0."""
    heights = []
    for levels in itertools.product(range(3), range(3)):
        new, everybody = generalized(rows, levels), generalized(crowd, levels)
        lost: set[Any] = set()
        for name, params in models.items():
            lost |= getattr(brute, f"broken_{name}")(new, ["a", "b"], population_rows=everybody, **params, **person)
        if lost and models.get("delta_presence", {}).get("dmin", 0) > 0:
            continue  # a search suppresses nothing then, not even classes that the population does not have
        kept = [item for item in new if (item["a"], item["b"]) not in lost]
        # Suppression must mend everything: the models are asked again about what is left.
        holds = kept and len(new) - len(kept) <= limit * len(new) + 1e-9
        for name, params in models.items():
            asked = {"population_rows": everybody, **params, **person}
            holds = holds and not getattr(brute, f"broken_{name}")(kept, ["a", "b"], **asked)
        if holds:
            heights.append(sum(levels))
    return min(heights, default=None)


crowds = given(
    rows=st.lists(crowded, min_size=1, max_size=25),
    crowd=st.lists(somebody, max_size=60),
    contained=st.booleans(),
    k=st.one_of(st.none(), st.integers(2, 8)),
    presence=st.one_of(st.none(), st.tuples(st.sampled_from([0.0, 0.1, 0.25]), st.sampled_from([0.4, 0.6, 0.9, 1.0]))),
    limit=st.sampled_from([0.0, 0.2, 0.6]),
    person=st.booleans(),
    known=st.booleans(),
)


@pytest.mark.full_on_postgres
@settings(max_examples=examples(8))
@crowds
def test_a_population_is_searched_as_by_trying_every_node(
    database: Database, rows: Any, crowd: Any, contained: bool, k: Any, presence: Any, limit: float, person: bool,
    known: bool,
) -> None:  # fmt: skip
    if contained:  # as it should be: who is released is one of the population
        crowd = [{name: item[name] for name in "abp"} for item in rows] + crowd
    models: dict[str, Any] = {"k_map": {"k": k or 3}} if k or presence is None else {}
    if presence:
        models["delta_presence"] = {"dmin": presence[0], "dmax": presence[1]}
    uses: list[Any] = [{"k_map": models["k_map"]}] if "k_map" in models else []
    uses += [{"delta_presence": {"delta_min": presence[0], "delta_max": presence[1]}}] if presence else []
    columns = ["a", "b", "p"] if known else ["a", "b"]
    crowd = [{name: item[name] for name in columns} for item in crowd]
    database.table("t", {"a": "TEXT", "b": "TEXT", "s": "TEXT", "p": "TEXT"}, rows)
    database.table("crowd", dict.fromkeys(columns, "TEXT"), crowd)
    policy = policy_for(
        ["a", "b"], ["s"], uses, suppression_limit=limit, minimize="height", population={"table": "crowd"},
        hierarchies={name: {"tree": {"tree": tree}} for name, tree in TREES.items()},
        columns={"a": "quasi_identifier", "b": "quasi_identifier", "s": "sensitive", "p": "identifier"},
        release={"table": "r"}, linked_rows="accept",  # what links rows is not the question here
        **({"person": "p"} if person else {}),
    )  # fmt: skip
    wanted = crowd_optimum(rows, crowd, models, limit, {"person": "p"} if person else {})
    for name in ("exhaustive", "full_domain"):
        if wanted is None:
            with pytest.raises(Infeasible):
                solve(database.engine, policy, name)
        else:
            found = solve(database.engine, policy, name)
            assert found.proven and found.loss == wanted, (name, models, found.passes)
    database.run("DROP TABLE IF EXISTS r")
    if wanted is None:
        with pytest.raises(PolicyError, match="no generalization"):
            publish(policy, database.engine, workload=False)
    else:  # the check of the table as written, by other statements, agrees
        done = publish(policy, database.engine, workload=False)
        assert done.document["holds"] and done.plan.loss == wanted


test_a_population_in_full = pytest.mark.long(
    settings(max_examples=examples(100))(
        crowds(test_a_population_is_searched_as_by_trying_every_node.hypothesis.inner_test)
    )
)


@pytest.mark.full_on_postgres
def test_a_plan_with_a_population_is_a_script(database: Database) -> None:
    """What a publisher would run by hand releases the same rows."""
    rows = [
        {"a": "w" if i > 37 else "xyz"[i // 3 % 3], "b": "123"[i % 3], "s": f"s{i}", "p": f"p{i}"} for i in range(40)
    ]
    kinds = dict.fromkeys(["a", "b", "s", "p"], "TEXT")
    database.table("t", kinds, rows)
    database.table("crowd", kinds, [*rows[:-3], *rows[:20], rows[0] | {"a": "v"}])
    trees = {name: {"tree": {"tree": tree}} for name, tree in TREES.items()}
    more: dict[str, Any] = {"population": {"table": "crowd"}, "release": {"table": "r"}, "hierarchies": trees}
    roles = {"a": "quasi_identifier", "b": "quasi_identifier", "s": "sensitive", "p": "identifier"}
    models = [{"k_map": {"k": 5}}, {"delta_presence": {"delta_min": 0, "delta_max": 0.9}}]
    policy = policy_for([], [], models, columns=roles, suppression_limit=0.5, **more)
    done = publish(policy, database.engine, workload=False)
    assert 0 < done.plan.suppressed < 20
    shown = sorted(database.fetch("SELECT a, b, s FROM r"))
    database.run("DROP TABLE r")
    for statement in statements(release_script(policy, done.plan, database.engine.dialect)):
        database.run(statement)
    assert sorted(database.fetch("SELECT a, b, s FROM r")) == shown
    persons = policy_for([], [], models[:1], columns=roles, suppression_limit=0.5, person="p", **more)
    planned = publish(persons, database.engine, dry_run=True).plan
    with pytest.raises(PolicyError, match="persons"):
        release_script(persons, planned, database.engine.dialect)


def test_a_population_is_no_matter_of_local_recoding(database: Database) -> None:
    database.table("t", {"a": "TEXT", "s": "TEXT"}, [{"a": "x", "s": "flu"}] * 3)
    again = {"full_domain": {"recode_suppressed": True}}
    others = ("mondrian", "top_down_specialization", "top_down_recoding", "bottom_up_recoding", "local_suppression")
    for algorithm in (*others, again):
        policy = policy_for(
            ["a"], ["s"], [{"k_map": {"k": 2}}], population={"table": "t"}, algorithm=algorithm, release={"table": "r"}
        )
        with pytest.raises(PolicyError, match=r"k_map|population"):
            publish(policy, database.engine)


def test_nulls_are_values_and_hidden_by_the_root(database: Database) -> None:
    database.table("t", {"a": "TEXT", "b": "INTEGER"}, [{"a": None, "b": 1}, {"a": "x", "b": 1}, {"a": "x", "b": None}])
    policy = policy_for(["a", "b"], [], [{"k_anonymity": {"k": 3}}])
    found = solve(database.engine, policy, "full_domain")
    assert found.passes == ((1, 1),)
    pairs = [(None, 1), (None, 1), ("x", None), ("x", None), ("y", 3), ("y", 3)]
    database.table("t", {"a": "TEXT", "b": "INTEGER"}, [{"a": a, "b": b} for a, b in pairs])
    policy = policy_for(["a", "b"], [], [{"k_anonymity": {"k": 2}}])
    assert solve(database.engine, policy, "full_domain").passes == ((0, 0),)


@pytest.mark.full
def test_keys_of_more_than_62_bits(database: Database) -> None:
    """Eight columns of 1,000 values each do not fit into one key."""
    names = [f"c{i}" for i in range(8)]
    rows = [{name: (row * (i + 3)) % 997 for i, name in enumerate(names)} for row in range(997)]
    database.table("t", dict.fromkeys(names, "INTEGER"), rows)
    policy = policy_for(names, [], [{"k_anonymity": {"k": 2}}])
    made = task(database.engine, policy)
    try:
        assert made.compressed.keys == 2
        search = algorithms.algorithm("full_domain")
        found = search.run(made, search.Params())
        # every column alone is a key: one class of all rows is what is left, with one column shown it is 997 classes
        assert found.passes == ((1,) * 8,)
    finally:
        made.close()


WITH_NULLS = st.lists(
    st.fixed_dictionaries(
        {name: st.sampled_from([*sorted(PATHS[name]), None]) for name in GROUP} | {"s": st.just("flu")}
    ),
    min_size=4,
    max_size=30,
)


@pytest.mark.full
@settings(max_examples=8)
@given(rows=WITH_NULLS, limit=st.sampled_from([0.0, 0.3, 1.0]))
def test_divergence_from_sums_is_that_of_its_file(database: Database, rows: Any, limit: float) -> None:
    with opened(database, rows, [K2], limit=limit, minimize="kl_divergence") as given_problem:
        metric = build_metric(given_problem)
        nodes = list(itertools.product(*map(range, given_problem.shape)))
        for found in given_problem.measure(nodes, metric):
            if given_problem.holds(found):
                expected = given_problem.loss_by_sql(found.node, family("loss")["kl_divergence"].sql)
                assert found.loss == pytest.approx(expected, rel=1e-9, abs=1e-9)


def test_a_release_of_nulls_alone_is_compared_with_a_population(database: Database) -> None:
    """NULL tells no level of the hierarchy: it is released as it was, so the population is compared as it is."""
    database.table("t", {"a": "TEXT", "b": "TEXT", "s": "TEXT"}, [{"a": None, "b": "1", "s": "flu"}])
    database.table("crowd", {"a": "TEXT", "b": "TEXT"}, [{"a": "x", "b": "1"}] * 5 + [{"a": None, "b": "1"}])
    policy = policy_for(
        ["a", "b"], ["s"], [{"delta_presence": {"delta_min": 0.0, "delta_max": 1.0}}], minimize="height",
        population={"table": "crowd"}, hierarchies={name: {"tree": {"tree": tree}} for name, tree in TREES.items()},
        columns={"a": "quasi_identifier", "b": "quasi_identifier", "s": "sensitive"}, release={"table": "r"},
    )  # fmt: skip
    database.run("DROP TABLE IF EXISTS r")
    assert publish(policy, database.engine, workload=False).document["holds"]
    database.run("DROP TABLE r")


def test_a_share_of_the_population_that_cannot_be_reached_is_named(duck: Database) -> None:
    """delta_min allows no suppression: a larger limit would not help, and is not asked for."""
    kinds = {"a": "TEXT", "s": "TEXT", "p": "INTEGER"}
    duck.table("t", kinds, [{"a": "xyz"[i % 3], "s": "flu", "p": i} for i in range(30)])
    duck.table("everybody", kinds, [{"a": "xyz"[i % 3], "s": "flu", "p": i} for i in range(100)])
    for person in (None, "p"):
        asked = policy_for(
            ["a"], ["s"], [{"delta_presence": {"delta_min": 0.5, "delta_max": 1}}], suppression_limit=0.1,
            hierarchies={"a": {"tree": {"tree": {"*": ["x", "y", "z"]}}}}, population={"table": "everybody"},
            **({"person": person} if person else {"insensitive": ("p",)}),
        )  # fmt: skip
        with pytest.raises(PolicyError) as error:
            publish(asked, duck.engine, dry_run=True)
        told = str(error.value)
        assert "delta_presence (delta_min=0.5" in told and "measure 0.3" in told
        assert "within the suppression limit" not in told and "of 10.0%" not in told

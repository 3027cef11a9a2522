"""The search for models whose classes are not those of the release: its optimum is what plain Python finds by trying
every node, suppressing what is broken, and again what is broken then."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import brute
import brute_loss
import pytest
from conftest import Database, examples
from hypothesis import given, settings
from hypothesis import strategies as st
from measuring import policy_for
from solving import solve

from sqlanon.errors import PolicyError
from sqlanon.lattice.nodes import Infeasible
from sqlanon.policy import Policy
from sqlanon.release import publish, report
from sqlanon.release.release_script import release_script

Row = dict[str, Any]
GROUP = ["a", "b", "c"]
TREES = {"a": {"*": {"low": ["x", "y"], "high": ["z"]}}, "b": {"*": ["1", "2"]}, "c": {"*": ["p", "q"]}}
PATHS: dict[str, dict[Any, tuple[Any, ...]]] = {
    "a": {"x": ("x", "low", "*"), "y": ("y", "low", "*"), "z": ("z", "high", "*"), None: (None, None, "*")},
    "b": {"1": ("1", "*"), "2": ("2", "*")},
    "c": {"p": ("p", "*"), "q": ("q", "*"), None: (None, "*")},
}
DISEASES = {"root": {"viral": ["flu", "hiv"], "other": ["gout"]}}
ABOVE = {"flu": ("flu", "viral", "root"), "hiv": ("hiv", "viral", "root"), "gout": ("gout", "other", "root")}
TYPES = dict.fromkeys(["a", "b", "c", "s", "u", "g", "p"], "TEXT")
QIDS = {"one": ["a", "b"], "two": ["b", "c"]}
row = st.fixed_dictionaries(
    {
        "a": st.sampled_from(["x", "y", "z", "x", "y", None]),
        "b": st.sampled_from("12"),
        "c": st.sampled_from(["p", "q", "p", "q", None]),
        "s": st.sampled_from(["flu", "hiv", "gout"]),
        "u": st.sampled_from(["m", "w", None]),
        "g": st.sampled_from(["viral", "flu", "root", None, None]),
        "p": st.sampled_from("ABCDEFGHIJ"),
    }
)
Broken = Callable[[list[Row], str | None], Iterator[tuple[list[str], set[Any]]]]


def over(
    name: str, groups: Sequence[list[str]], params: dict[str, Any], *columns: Any, counts_rows: bool = False
) -> Broken:
    """The broken classes of a model for each of its quasi-identifiers, by the columns that make them."""

    def found(rows: list[Row], person: str | None) -> Iterator[tuple[list[str], set[Any]]]:
        for group in groups:
            who = None if counts_rows else person
            yield group, getattr(brute, f"broken_{name}")(rows, group, *columns, **params, person=who)

    return found


def far(everybody: list[Row], groups: Sequence[list[str]], t: float) -> Broken:
    """Classes whose sensitive values are spread otherwise than in the whole source, whatever is suppressed."""

    def found(rows: list[Row], person: str | None) -> Iterator[tuple[list[str], set[Any]]]:
        whole = brute.distribution(everybody, "s", person)
        for group in groups:
            spread = brute.each(rows, group, lambda own: brute.distribution(own, "s", person))
            away = {key: brute.equal_distance(own, whole) for key, own in spread.items()}
            yield group, {key for key, distance in away.items() if distance > brute.exact(t) + brute.TOLERANCE}

    return found


def inferred(asked: dict[str, Any]) -> Broken:
    """The rows whose secret can be inferred from their other values: each is a class by all of them."""
    columns = [*GROUP, "s", "u"]

    def found(rows: list[Row], person: str | None) -> Iterator[tuple[list[str], set[Any]]]:
        bad = brute.broken_ff_anonymity(rows, columns, **asked, person=person)
        open_to = [
            item for item in rows for known, (column, secret) in bad
            if item[column] == secret and all(item[c] == v for c, v in known)
        ]  # fmt: skip
        yield columns, {tuple(item[c] for c in columns) for item in open_to}

    return found


def models(draw: Any, rows: list[Row], kinds: list[str]) -> Iterator[tuple[dict[str, Any], Broken]]:
    """Models as a policy asks for them, each with its definition."""
    part = st.lists(st.sampled_from(GROUP), min_size=1, max_size=2, unique=True)
    for kind in kinds:
        k = draw(st.integers(2, 4), label=f"{kind}.k")
        if kind == "named":
            yield {"k_anonymity": {"k": k}}, over("k_anonymity", list(QIDS.values()), {"k": k})
        elif kind == "k":
            group = draw(part)
            yield {"k_anonymity": {"k": k, "qid": group}}, over("k_anonymity", [group], {"k": k})
        elif kind == "distinct":
            group = draw(part)
            use = {"l": 2, "attribute": "s", "qid": group}
            yield {"distinct_l_diversity": use}, over("distinct_l_diversity", [group], {"l": 2}, "s")
        elif kind == "entropy":
            use = {"l": 1.5, "attribute": "s", "qid": "one"}
            yield {"entropy_l_diversity": use}, over("entropy_l_diversity", [QIDS["one"]], {"l": 1.5}, "s")
        elif kind == "alpha":
            asked = {"alpha": 0.7, "k": 2}
            use = asked | {"attribute": "s"}
            yield {"alpha_k_anonymity": use}, over("alpha_k_anonymity", list(QIDS.values()), asked, "s")
        elif kind == "t":
            group = draw(part)
            yield {"t_closeness": {"t": 0.3, "attribute": "s", "qid": group}}, far(rows, [group], 0.3)
        elif kind == "others":
            groups = [[*columns, "u"] for columns in QIDS.values()]
            use = {"l": 2, "attribute": "s"}
            yield {"multi_attribute_l_diversity": use}, over("distinct_l_diversity", groups, {"l": 2}, "s")
        elif kind == "xy":
            x, y = draw(
                st.sampled_from([(["a", "b"], ["p"]), (["c", "g"], ["p"]), (["a"], ["u", "p"]), (["b"], ["c"])])
            )
            yield {"xy_anonymity": {"x": x, "y": y, "k": 2}}, over("xy_anonymity", [x], {"k": 2}, y)
        elif kind == "xy_privacy":
            asked = {"k": 2, "h": 0.7}
            use = asked | {"x": ["b", "g"], "guarded": ["hiv"], "attribute": "s"}
            found = over("xy_privacy", [["b", "g"]], asked | {"values": ["hiv"]}, "s")
            yield {"xy_privacy": use}, found
        elif kind == "confidence":
            use = {"beta": 0.9}
            found = over("expected_confidence", [GROUP], use, "s", counts_rows=True)
            yield {"expected_confidence": use | {"attribute": "s", "qid": GROUP}}, found
        elif kind == "supersets":
            use = {"n": 5, "t": 0.3}
            found = over("nt_closeness", [GROUP], use | {"ancestors": ANCESTORS}, "s")
            yield {"nt_closeness": use | {"attribute": "s", "qid": GROUP}}, found
        elif kind == "freeform":
            asked = {"h": 0.7, "sensitive_values": {"s": ["hiv"], "c": ["q"]}}
            yield {"ff_anonymity": asked}, inferred(asked)
        else:
            assert kind == "guards"
            use = {"p_breach": 0.6, "guard": "g"}
            own = use | {"taxonomy": ABOVE}
            found = over("personalized_privacy", [GROUP], own, "s")
            yield {"personalized_privacy": use | {"attribute": "s", "qid": GROUP}}, found


KINDS = ["named", "k", "distinct", "entropy", "alpha", "t", "others", "xy", "xy_privacy", "guards"]
KINDS += ["confidence", "supersets", "freeform"]
# What lies above a label: that of a class may be a value or a node.
ANCESTORS = {
    column: {
        label: [above for above in path[path.index(label) + 1 :] if above is not None]
        for path in paths.values() for label in path
    }
    for column, paths in PATHS.items()
}  # fmt: skip


def generalized(rows: Sequence[Row], levels: Sequence[int]) -> list[Row]:
    return [{**r, **{c: PATHS[c][r[c]][level] for c, level in zip(GROUP, levels, strict=True)}} for r in rows]


def kept(rows: list[Row], asked: Sequence[Broken], person: str | None, *, unique: bool) -> list[bool]:
    """Which rows of a generalized table stay, when classes that meet a broken one go again and again."""

    lost: set[Any] = set()
    while True:
        left = [item for item in rows if keys_of(item) not in lost]
        more = set()
        for broken in asked:
            if unique:
                more |= _with_single_rows(left, broken, person)
                continue
            for group, bad in broken(left, person):
                more |= {keys_of(item) for item in left if tuple(item[c] for c in group) in bad}
        if not more:
            return [keys_of(item) not in lost for item in rows]
        lost |= more


def keys_of(item: Row) -> tuple[Any, ...]:
    return tuple(item[column] for column in GROUP)


def _with_single_rows(rows: list[Row], broken: Broken, person: str | None) -> set[Any]:
    """The same where a row with a NULL in its class is alike to no other: it is asked about alone."""
    found: set[Any] = set()
    for place, (group, _) in enumerate(broken(rows, person)):
        crowd = [item for item in rows if None not in [item[c] for c in group]]
        parts = [crowd, *([item] for item in rows if None in [item[c] for c in group])]
        for part in parts:
            bad = next(itertools.islice(broken(part, person), place, None))[1]
            found |= {keys_of(item) for item in part if tuple(item[c] for c in group) in bad}
    return found


def loss_of(metric: str, rows: list[Row], new: list[Row], stay: list[bool], levels: Sequence[int]) -> float:
    if metric == "height":
        return float(sum(levels))
    triples = list(zip(rows, new, stay, strict=True))
    if metric == "classification_metric":
        return wrong_guesses(new, stay)
    if metric == "discernibility_star":
        return float(brute_loss.discernibility_star(triples, GROUP))
    return float(getattr(brute_loss, metric)(brute_loss.released(triples), GROUP))


def wrong_guesses(new: list[Row], stay: list[bool]) -> float:
    """Iyengar 2002: rows that are suppressed, or not of the most frequent kind of their class."""
    right = 0
    for members in brute.classes([item for item, shown in zip(new, stay, strict=True) if shown], GROUP).values():
        right += max(brute.counts(members, "u", None).values())
    return (len(new) - right) / len(new)


def optimum(
    rows: list[Row], asked: Sequence[Broken], metric: str, limit: float, person: str | None, *, unique: bool
) -> float | None:
    best = None
    for levels in itertools.product(range(3), range(2), range(2)):
        new = generalized(rows, levels)
        stay = kept(new, asked, person, unique=unique)
        gone = stay.count(False)
        if gone <= limit * len(rows) + 1e-9 and gone < len(rows):
            found = loss_of(metric, rows, new, stay, levels)
            best = found if best is None else min(best, found)
    return best


def policy_of(uses: list[Any], limit: float, metric: str, **more: Any) -> Policy:
    return policy_for(
        GROUP,
        ["s", "u"],
        uses,
        insensitive=("g",),
        hierarchies={name: {"tree": {"tree": tree}} for name, tree in TREES.items()}
        | {"s": {"tree": {"tree": DISEASES}}},
        suppression_limit=limit,
        minimize=metric,
        release={"table": "r"},
        **more,
    )


def with_person(person: bool) -> dict[str, Any]:
    roles = dict.fromkeys(GROUP, "quasi_identifier") | dict.fromkeys(["s", "u"], "sensitive") | {"g": "insensitive"}
    if person:
        # Whether whole sets of rows single persons out is not the question of a search, which compares single rows.
        return {"columns": roles | {"p": "identifier"}, "person": "p", "linked_rows": "accept"}
    return {"columns": roles | {"p": "insensitive"}}


@pytest.mark.full
@settings(max_examples=examples(6))
@given(
    data=st.data(), rows=st.lists(row, min_size=2, max_size=30), person=st.booleans(), unique=st.booleans(),
    limit=st.sampled_from([0.0, 0.2, 0.4, 0.7, 1.0]),
    metric=st.sampled_from(["height", "discernibility", "discernibility_star", "aecs", "classification_metric"]),
)  # fmt: skip
def test_the_optimum_for_classes_of_several_kinds(
    database: Database, data: Any, rows: Any, person: bool, unique: bool, limit: float, metric: str
) -> None:
    kinds = data.draw(st.lists(st.sampled_from(KINDS), min_size=1, max_size=2, unique=True))
    rows = rows[:8] if "freeform" in kinds else rows  # whose definition tries all pairs of rows and sets of values
    drawn = list(models(data.draw, rows, kinds))
    # Persons who lie below a guarding node with several values count several times: on the safe side.
    person = person and "guards" not in kinds
    unique = unique and not {"confidence", "supersets", "freeform"} & set(
        kinds
    )  # these look at all rows, not class by class
    target = {"class_attribute": "u"} if metric == "classification_metric" else {}
    policy = policy_of(
        [use for use, _ in drawn], limit, metric, qids=QIDS, nulls="unique" if unique else "value",
        algorithm={"full_domain": target}, **with_person(person),
    )  # fmt: skip
    database.table("t", TYPES, rows)
    wanted = optimum(rows, [broken for _, broken in drawn], metric, limit, "p" if person else None, unique=unique)
    for name in ("exhaustive", "full_domain"):
        if wanted is None:
            with pytest.raises(Infeasible):
                solve(database.engine, policy, name, carry=tuple(target.values()), **target)
            continue
        found = solve(database.engine, policy, name, carry=tuple(target.values()), **target)
        assert found.proven and found.loss == pytest.approx(wanted, rel=1e-9, abs=1e-9), (name, kinds)
    database.run("DROP TABLE IF EXISTS r")
    if wanted is None:
        with pytest.raises(PolicyError, match="no generalization"):
            publish(policy, database.engine, workload=False)
        return
    done = publish(policy, database.engine, workload=False)  # the check of the table as written agrees
    assert done.document["holds"] and done.plan.loss == pytest.approx(wanted, rel=1e-9, abs=1e-9)


def two_quasi_identifiers(limit: float, **more: Any) -> Policy:
    return policy_for(
        ["a", "c"], [], [{"k_anonymity": {"k": 2}}], qids={"one": ["a"], "two": ["c"]}, suppression_limit=limit,
        release={"table": "r"}, minimize="height", **more,
    )  # fmt: skip


@pytest.mark.full
def test_what_is_suppressed_may_break_another_class(database: Database) -> None:
    """z is alone on a, and goes; then q is alone on c, and goes; then y is alone on a: x stays, which is enough."""
    pairs = [*[("x", "p")] * 3, ("y", "p"), ("y", "q"), ("z", "q")]
    database.table("t", {"a": "TEXT", "c": "TEXT"}, [{"a": a, "c": c} for a, c in pairs])
    policy = two_quasi_identifiers(0.5)
    found = solve(database.engine, policy, "full_domain")
    assert (found.passes, found.suppressed, found.loss) == (((0, 0),), 3, 0)
    assert "measured" in found.why and "more than once" in found.why
    database.run("DROP TABLE IF EXISTS r")
    done = publish(policy, database.engine, workload=True)
    assert done.document["holds"] and sorted(database.fetch("SELECT a, c FROM r")) == [("x", "p")] * 3
    assert [check["qid"] for check in done.document["checks"]] == [["a"], ["c"]]
    assert done.document["sql"].count("sqlanon_search_broken_") > 3  # each round, for anyone to read
    with pytest.raises(PolicyError, match="how often"):
        release_script(policy, done.plan, database.engine.dialect)
    assert not [name for name in database.engine.tables() if "lost" in name]
    # With less to suppress, something has to be hidden: then one round is enough, and a script can tell it.
    tight = two_quasi_identifiers(0.1)
    planned = publish(tight, database.engine, dry_run=True).plan
    assert planned.suppressed == 0 and planned.loss == 1
    assert "CREATE TABLE" in release_script(tight, planned, database.engine.dialect)


def test_rows_with_null_stand_alone(database: Database) -> None:
    """Two rows without a city are no crowd; hidden, they are part of one."""
    rows = [{"a": a, "s": "flu"} for a in [None, None, "x", "x", "x"]]
    database.table("t", {"a": "TEXT", "s": "TEXT"}, rows)
    for nulls, limit, wanted in (("value", 0.0, (0,)), ("unique", 0.0, (1,)), ("unique", 0.4, (0,))):
        policy = policy_for(
            ["a"], ["s"], [{"k_anonymity": {"k": 2}}], nulls=nulls, suppression_limit=limit, release={"table": "r"},
            minimize="height",
        )  # fmt: skip
        database.run("DROP TABLE IF EXISTS r")
        done = publish(policy, database.engine, workload=False)
        assert done.document["holds"] and tuple(done.plan.passes[0].values()) == wanted
        assert done.plan.suppressed == (2 if limit else 0)


@pytest.mark.full_on_postgres
def test_a_population_for_some_of_the_columns(database: Database) -> None:
    """k-map on one column: how many of the population have its label, whatever the others are."""
    rows = [{"a": "x", "b": "1", "s": "flu"}, {"a": "y", "b": "1", "s": "flu"}, {"a": "z", "b": "2", "s": "flu"}]
    crowd = [{"a": a, "b": b} for a, b in [("x", "1"), ("x", "2"), ("x", "2"), ("y", "1"), ("y", "2"), ("z", "2")]]
    database.table("t", dict.fromkeys("abs", "TEXT"), rows)
    database.table("crowd", dict.fromkeys("ab", "TEXT"), crowd)
    for k, limit, wanted, gone in ((2, 0.0, (2, 0), 0), (2, 0.34, (0, 0), 1), (3, 0.34, (1, 0), 1)):
        policy = policy_for(
            ["a", "b"], ["s"], [{"k_map": {"k": k, "qid": ["a"]}}], suppression_limit=limit, minimize="height",
            population={"table": "crowd"}, hierarchies={name: {"tree": {"tree": TREES[name]}} for name in "ab"},
            release={"table": "r"},
        )  # fmt: skip
        database.run("DROP TABLE IF EXISTS r")
        done = publish(policy, database.engine, workload=False)
        assert (tuple(done.plan.passes[0].values()), done.plan.suppressed) == (wanted, gone)


@pytest.mark.full
def test_the_classification_metric_is_of_a_column(duck: Database) -> None:
    duck.table("t", {"a": "TEXT", "s": "TEXT"}, [{"a": a, "s": s} for a, s in [("x", "m")] * 9 + [("y", "w")]])
    asked: dict[str, Any] = {"minimize": "classification_metric", "suppression_limit": 0.1, "release": {"table": "r"}}
    with pytest.raises(PolicyError, match="foretell") as found:
        publish(policy_for(["a"], ["s"], [{"k_anonymity": {"k": 2}}], **asked), duck.engine)
    assert "class_attribute" in (found.value.hint or "")
    for column in "sa":  # a quasi-identifier can be foretold too
        use = {"full_domain": {"class_attribute": column}}
        policy = policy_for(["a"], ["s"], [{"k_anonymity": {"k": 2}}], algorithm=use, **asked)
        done = publish(policy, duck.engine, workload=False)
        assert done.plan.loss == done.document["loss"]["classification_metric"] == pytest.approx(0.1)
        assert any(point["chosen"] for point in report(policy, duck.engine)["map"])
        duck.run("DROP TABLE r; DROP TABLE sqlanon_releases")

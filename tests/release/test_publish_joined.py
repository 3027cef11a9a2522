"""A person table with child tables is published as one table, in which every class has k owners."""

from __future__ import annotations

from collections import Counter
from typing import Any

import brute
import pytest
from conftest import Database, examples
from hypothesis import given, settings
from hypothesis import strategies as st
from measuring import policy_for
from test_examples import statements

from sqlanon.errors import NotReleased, PolicyError
from sqlanon.plan import Plan
from sqlanon.release import publish
from sqlanon.release.release_script import release_script

TREES = {"a": {"*": {"low": ["1", "2"], "high": ["3"]}}, "b": {"*": {"x": ["x1", "x2"], "y": ["y1"]}}}
# NULL is a leaf of its own below the root.
ABOVE: dict[str | None, str | None] = {
    "1": "low",
    "2": "low",
    "3": "high",
    "x1": "x",
    "x2": "x",
    "y1": "y",
    None: None,
}
JOINED = {"table": "owners", "joins": [{"table": "visits", "on": {"id": "owner"}}]}
BY_HAND = {"query": "SELECT o.id, o.a, v.visit, v.owner, v.b FROM owners o LEFT JOIN visits v ON v.owner = o.id"}
ROLES = {"id": "identifier", "owner": "identifier", "visit": "insensitive"} | dict.fromkeys("ab", "quasi_identifier")

number = st.integers(1, 6)
owner = st.fixed_dictionaries({"id": number, "a": st.sampled_from("123")})
visit = st.fixed_dictionaries({"owner": number, "visit": number, "b": st.sampled_from(["x1", "x2", "y1"])})


def asked(source: dict[str, Any], model: str, k: int, limit: float, roles: dict[str, str] = ROLES) -> Any:
    return policy_for(
        [],
        [],
        [{model: {"k": k}}],
        source=source,
        columns=roles,
        person="id",
        hierarchies={name: {"tree": {"tree": tree}} for name, tree in TREES.items()},
        suppression_limit=limit,
        release={"table": "r"},
        algorithm="full_domain",
        linked_rows="accept",  # what `visit` links is not the question here
    )


def left_join(owned: list[dict[str, Any]], visited: list[dict[str, Any]]) -> list[dict[str, Any]]:
    nothing = {"owner": None, "visit": None, "b": None}
    return [
        one | child
        for one in owned
        for child in [child for child in visited if child["owner"] == one["id"]] or [nothing]
    ]


def label(value: str | None, level: int) -> str | None:
    return value if level == 0 else ABOVE[value] if level == 1 else "*"


@pytest.mark.full_on_postgres
@settings(max_examples=examples(20))
@given(
    owned=st.lists(owner, max_size=7, unique_by=lambda one: one["id"]),
    visited=st.lists(visit, max_size=12),
    k=st.integers(2, 3),
    limit=st.sampled_from([0.0, 0.3, 1.0]),
)
def test_joined_tables_are_published_as_one(database: Database, owned: Any, visited: Any, k: int, limit: float) -> None:
    database.table("owners", {"id": "INTEGER", "a": "TEXT"}, owned)
    database.table("visits", {"owner": "INTEGER", "visit": "INTEGER", "b": "TEXT"}, visited)
    database.run("DROP TABLE IF EXISTS r")
    joined = asked(JOINED, "multirelational_k_anonymity", k, limit)
    by_hand = asked(BY_HAND, "k_anonymity", k, limit)
    try:
        planned = publish(by_hand, database.engine, dry_run=True).plan
    except PolicyError as refused:
        with pytest.raises(PolicyError) as same:
            publish(joined, database.engine)
        assert same.value.message.replace("multirelational_", "") == refused.message
        return
    joined_rows = left_join(owned, visited)
    levels = dict(planned.passes[0])
    rows = [one | {"a": label(one["a"], levels["a"]), "b": label(one["b"], levels["b"])} for one in joined_rows]
    owners: dict[Any, set[int]] = {}
    for one in rows:
        owners.setdefault((one["a"], one["b"]), set()).add(one["id"])
    left = [one for one in rows if len(owners[one["a"], one["b"]]) >= k]
    sets = brute.multirelational_k_anonymity(left, ["a", "b"], k=k, person="id")
    if min(sets.values(), default=k) < k:  # each row is shared by k owners, and some set of rows is not
        with pytest.raises(NotReleased, match="too few owners share a whole set of rows"):
            publish(joined, database.engine)
        assert database.engine.find(["r"]) is None
        return
    done = publish(joined, database.engine, workload=False)
    assert done.evidence is not None and done.evidence.holds
    assert (done.plan.passes, done.plan.suppressed) == (planned.passes, planned.suppressed)
    shown = Counter((one["a"], one["b"], one["visit"]) for one in left)
    assert Counter(database.fetch("SELECT a, b, visit FROM r")) == shown


def test_many_visits_of_one_owner_are_not_a_crowd(database: Database) -> None:
    database.table("owners", {"id": "INTEGER", "a": "TEXT"}, [{"id": i, "a": "1"} for i in (1, 2, 3)])
    visits = [{"owner": 1, "visit": i, "b": "x1"} for i in range(9)] + [
        {"owner": i, "visit": 1, "b": "y1"} for i in (2, 3)
    ]
    database.table("visits", {"owner": "INTEGER", "visit": "INTEGER", "b": "TEXT"}, visits)
    with pytest.raises(NotReleased, match="too few owners"):  # nobody else has nine rows, whatever they show
        publish(asked(JOINED, "multirelational_k_anonymity", 2, 1.0), database.engine, workload=False)
    publish(asked(JOINED, "k_anonymity", 2, 1.0), database.engine, workload=False)
    shown = {row[0] for row in database.fetch("SELECT b FROM r")}
    assert "x1" not in shown and "x" not in shown


def test_the_script_of_joined_tables_runs_where_they_share_a_column(database: Database) -> None:
    """`note` is in both tables, and the key is called alike: a name of the joined rows must still mean one column."""
    owned = [{"id": i, "a": "1" if i < 4 else "3", "note": i} for i in range(1, 7)]
    database.table("owners", {"id": "INTEGER", "a": "TEXT", "note": "INTEGER"}, owned)
    visited = [{"id": i, "visit": n, "b": "x1" if i < 4 else "y1", "note": n} for i in range(1, 6) for n in (10, 11)]
    database.table("visits", {"id": "INTEGER", "visit": "INTEGER", "b": "TEXT", "note": "INTEGER"}, visited)
    source = {"table": "owners", "joins": [{"table": "visits", "on": {"id": "id"}}]}
    roles = {name: role for name, role in ROLES.items() if name != "owner"} | {"note": "insensitive"}
    policy = asked(source, "multirelational_k_anonymity", 2, 0.5, roles)
    done = publish(policy, database.engine, workload=False)
    again = Plan.from_json(done.plan.to_json())
    assert again.hash == done.plan.hash
    shown = Counter(database.fetch("SELECT a, b, visit, note FROM r"))
    assert shown and {note for *_, note in shown} <= set(range(1, 7))
    database.run("DROP TABLE r")
    for statement in statements(release_script(policy, again, database.engine.dialect)):
        database.run(statement)
    assert Counter(database.fetch("SELECT a, b, visit, note FROM r")) == shown

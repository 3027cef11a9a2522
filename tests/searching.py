"""Problems for the algorithms, on small random tables, and what their solutions release, row by row in plain Python."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import brute
from conftest import Database
from hypothesis import strategies as st
from measuring import policy_for

from sqlanon.algorithms import algorithm
from sqlanon.evidence.hierarchies import build_hierarchies
from sqlanon.lattice.pose_problem import problem
from sqlanon.lattice.problem import Problem
from sqlanon.lattice.solution import Solution
from sqlanon.relations.source import relation

Row = dict[str, Any]
TREES = {
    "a": {"*": {"low": {"lower": ["w", "x"], "mid": ["y"]}, "high": {"top": ["z"]}}},
    "b": {"*": ["1", "2", "3"]},
    "c": {"*": {"even": ["p", "q"], "odd": ["r", "s"]}},
}
# A column, a value: its labels from the value up to the root.
PATHS = {
    "a": {
        "w": ("w", "lower", "low", "*"),
        "x": ("x", "lower", "low", "*"),
        "y": ("y", "mid", "low", "*"),
        "z": ("z", "top", "high", "*"),
    },
    "b": {value: (value, "*") for value in "123"},
    "c": {value: (value, "even" if value in "pq" else "odd", "*") for value in "pqrs"},
}
TYPES = {"a": "TEXT", "b": "TEXT", "c": "TEXT", "s": "TEXT", "who": "TEXT"}
GROUP = ["a", "b", "c"]
PAST = -1.0  # a deadline, in seconds from now

tables = st.lists(
    st.fixed_dictionaries(
        {
            **{name: st.sampled_from(sorted(PATHS[name])) for name in GROUP},
            "s": st.sampled_from(["flu", "hiv", "cold"]),
            "who": st.sampled_from("ABCDEFGH"),
        }
    ),
    min_size=4,
    max_size=40,
)
K2, K3 = {"k_anonymity": {"k": 2}}, {"k_anonymity": {"k": 3}}
L2 = {"distinct_l_diversity": {"l": 2, "attribute": "s"}}
T = {"t_closeness": {"t": 0.4, "attribute": "s"}}


@contextmanager
def opened(
    database: Database,
    rows: Sequence[Row],
    models: list[dict[str, Any]],
    *,
    limit: float = 0.0,
    carry: Sequence[str] = (),
    seconds: float | None = None,
    group: list[str] = GROUP,
    **more: Any,
) -> Iterator[Problem]:
    database.table("t", {name: TYPES[name] for name in rows[0]} if rows else TYPES, rows)
    policy = policy_for(
        group,
        ["s"],
        models,
        hierarchies={name: {"tree": {"tree": TREES[name]}} for name in group},
        suppression_limit=limit,
        **more,
    )
    deadline = None if seconds is None else time.monotonic() + seconds
    made = problem(
        policy,
        database.engine,
        build_hierarchies(policy),
        relation(policy.source, database.engine.dialect),
        carry=carry,
        deadline=deadline,
    )
    try:
        yield made
    finally:
        made.close()


def solve(name: str, given: Problem, **params: Any) -> Solution:
    module = algorithm(name)
    solution: Solution = module.run(given, module.Params(**params))
    return solution


def generalized(rows: Sequence[Row], levels: Sequence[int], group: Sequence[str] = GROUP) -> list[Row]:
    return [{**row, **{c: PATHS[c][row[c]][level] for c, level in zip(group, levels, strict=True)}} for row in rows]


def broken_classes(rows: Sequence[Row], models: list[dict[str, Any]], person: str | None = None) -> set[Any]:
    """The keys of the classes that break one of the models."""
    found: set[Any] = set()
    for model in models:
        ((name, params),) = model.items()
        own = {key: value for key, value in params.items() if key != "attribute"}
        columns = [params["attribute"]] if "attribute" in params else []
        found |= set(getattr(brute, f"broken_{name}")(rows, GROUP, *columns, **own, person=person))
    return found


def released(database: Database, given: Problem, solution: Solution, rows: Sequence[Row]) -> list[Row | None]:
    """Each row as the regions of a solution release it, None where it is suppressed."""
    assert solution.regions is not None
    keys = len(given.compressed.key_names)
    members: dict[tuple[int, ...], int] = {}
    for *key, region in database.fetch(f"SELECT * FROM {solution.regions.members}"):
        assert tuple(key) not in members, "a key in two regions"
        members[tuple(key)] = region
    labels = {}
    for region, *named in database.fetch(f"SELECT * FROM {solution.regions.labels}"):
        assert region not in labels, "a region with two labels"
        labels[region] = named
    assert set(members.values()) == set(labels)
    places = [_places(database, domain) for domain in given.domains]
    found: list[Row | None] = []
    for row in rows:
        key = [0] * keys
        for domain, place in zip(given.domains, places, strict=True):
            key[domain.key] += place[row[domain.name]]
        region = members.get(tuple(key))
        count = len(given.domains)
        found.append(
            None
            if region is None
            else {**row, **dict(zip([d.name for d in given.domains], labels[region][:count], strict=True))}
        )
        if region is not None:
            own = {d.name: leaves for d, leaves in zip(given.domains, labels[region][count:], strict=True)}
            assert all(own[c] == leaves_below(c, found[-1][c]) for c in own if found[-1] and row[c] is not None)
    return found


def leaves_below(column: str, label: str) -> int:
    return sum(label in path for path in PATHS[column].values())


def _places(database: Database, domain: Any) -> dict[str | None, int]:
    columns = ", ".join(f"r{level}" for level in range(domain.height))
    rows = database.fetch(f"SELECT original, {columns} FROM {domain.dictionary}")
    return {
        value: sum(rank << shift for rank, shift in zip(ranks, domain.shifts, strict=True)) for value, *ranks in rows
    }

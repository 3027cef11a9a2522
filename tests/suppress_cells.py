"""Tables in which local suppression hides single cells, and the releases it makes, put together row by row."""

from __future__ import annotations

import json
import random
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from conftest import Database

from sqlanon.algorithms import local_suppression
from sqlanon.algorithms.local_suppression import Params
from sqlanon.lattice.pose_problem import problem
from sqlanon.lattice.solution import Solution
from sqlanon.policy import Policy, parse
from sqlanon.relations.compressed_rows import root_only
from sqlanon.relations.source import relation

Row = dict[str, Any]
Cells = tuple[str | None, ...]
NAMES = ("a", "b", "c")


# A suppressed cell is a value of its own


@dataclass(frozen=True)
class Outcome:
    """Each released row as (original labels, released labels, sensitive values), and what the algorithm says."""

    rows: list[tuple[tuple[str, ...], tuple[str, ...], tuple[int, ...]]]
    solution: Solution
    keys: int

    @property
    def cells(self) -> int:
        return sum(new != old for before, after, _ in self.rows for old, new in zip(before, after, strict=True))

    @property
    def classes(self) -> dict[tuple[str, ...], list[tuple[int, ...]]]:
        found = defaultdict(list)
        for _, labels, values in self.rows:
            found[labels].append(values)
        return dict(found)

    def by_column(self, columns: Sequence[str]) -> dict[str, int]:
        gone = Counter(
            name
            for before, after, _ in self.rows
            for name, old, new in zip(columns, before, after, strict=True)
            if old != new
        )
        return {name: gone[name] for name in columns}


def suppress(
    database: Database,
    rows: Sequence[Row],
    models: Sequence[dict[str, Any]],
    *,
    columns: dict[str, str],
    sensitive: str | None = None,
    params: Params | None = None,
    deadline: float | None = None,
    **policy_keys: Any,
) -> Outcome:
    database.table("t", columns, rows)
    person = policy_keys.get("person")
    names = [name for name in columns if name not in (sensitive, person)]
    roles: dict[str, Any] = dict.fromkeys(names, "quasi_identifier")
    roles |= {sensitive: "sensitive"} if sensitive else {}
    roles |= {person: "identifier"} if person else {}
    roles |= policy_keys.pop("columns_too", {})
    written = {"source": {"table": "t"}, "columns": roles, "models": list(models), **policy_keys}
    policy = parse(json.dumps(written))
    engine = database.engine
    hierarchies = dict.fromkeys(names, root_only())
    made = problem(policy, engine, hierarchies, relation(policy.source, engine.dialect), deadline=deadline)
    try:
        solution = local_suppression.run(made, params or Params())
        return Outcome(rebuilt(database, made, solution), solution, made.compressed.keys)
    finally:
        made.close()


def rebuilt(database: Database, made: Any, solution: Solution) -> list[Any]:
    """The members and labels of the regions, put together one row at a time."""
    keys, regions = made.compressed.key_names, solution.regions
    assert regions is not None and not regions.by_value
    count = len(made.domains)
    leaves = ", ".join(f"f{i}" for i in range(1, count + 1))
    texts = ", ".join(f"l{i}" for i in range(1, count + 1))
    labels = {row[0]: row for row in database.fetch(f"SELECT region, {texts}, {leaves} FROM {regions.labels}")}
    values = list(made.compressed.values.values())
    originals: dict[tuple[int, ...], list[tuple[int, ...]]] = defaultdict(list)
    for *key, count_ in database.fetch(f"SELECT {', '.join([*keys, *values, 'n'])} FROM {made.compressed.table}"):
        originals[tuple(key[: len(keys)])] += [tuple(key[len(keys) :])] * count_
    names = decoded(database, made)
    chosen = ["first", "last"] if regions.split else ["1", "0"]
    found = []
    taken: dict[tuple[int, ...], list[int]] = defaultdict(list)
    for *key, region, first, last in database.fetch(
        f"SELECT {', '.join([*keys, 'region', *chosen])} FROM {regions.members}"
    ):
        own = originals[tuple(key)]
        numbers = range(first - 1, last) if regions.split else range(len(own))
        taken[tuple(key)] += numbers
        released = labels[region]
        before = tuple(names[i][key[domain.key] & domain.masks[0]] for i, domain in enumerate(made.domains))
        for number in numbers:
            found.append((before, tuple(released[1 : count + 1]), own[number]))
        for domain, old, new, width in zip(made.domains, before, released[1:], released[count + 1 :], strict=False):
            assert (new, width) in ((old, 1.0), ("*", float(domain.leaves)))
    assert all(sorted(numbers) == list(range(len(originals[key]))) for key, numbers in taken.items())
    return found


def decoded(database: Database, made: Any) -> list[dict[int, str]]:
    return [
        {
            sum(rank << shift for rank, shift in zip(ranks, domain.shifts, strict=True)): label
            for label, *ranks in database.fetch(f"SELECT n0, r0 FROM {domain.dictionary}")
        }
        for domain in made.domains
    ]


def k(number: int) -> dict[str, Any]:
    return {"k_anonymity": {"k": number}}


# A suppressed cell matches any value


def written(k: int = 2, **more: Any) -> dict[str, Any]:
    return {
        "source": {"table": "t"},
        "columns": dict.fromkeys(NAMES, "quasi_identifier"),
        "models": [{"k_anonymity": {"k": k}}],
        "suppressed_cells": "any_value",
        **more,
    }


def asked(k: int = 2, **more: Any) -> Policy:
    return parse(json.dumps(written(k, **more)))


def few_cells(database: Database, rows: Sequence[Cells], k: int, names: Sequence[str], **params: Any) -> Solution:
    """What the search says of a table."""
    listed = [dict(zip(names, row, strict=True)) for row in rows]
    database.table("t", dict.fromkeys(names, "TEXT"), listed)
    deadline = params.pop("deadline", None)
    more = {"suppressed_cells": params.pop("suppressed_cells", "any_value")}
    policy = asked(k, columns=dict.fromkeys(names, "quasi_identifier"), **more)
    engine = database.engine
    made = problem(
        policy, engine, dict.fromkeys(names, root_only()), relation(policy.source, engine.dialect), deadline=deadline
    )
    try:
        return local_suppression.run(made, Params(**params))
    finally:
        made.close()


def cells_of(solution: Solution) -> int:
    return int(solution.why.split(" ")[0])


def match(one: Cells, other: Cells) -> bool:
    """None is NULL, which is a value like any other."""
    return all(x == y or x == "*" or y == "*" for x, y in zip(one, other, strict=True))


def crowds(rows: Sequence[Cells]) -> list[int]:
    """For each row, how many rows match it."""
    kinds = Counter(rows)
    sizes = {kind: sum(n for other, n in kinds.items() if match(kind, other)) for kind in kinds}
    return [sizes[row] for row in rows]


def row_by_row(rows: Sequence[Cells], k: int) -> int:
    """How many cells a plain search suppresses: row after row loses the fewest cells with which it matches enough."""
    released = list(rows)
    width, cells = len(rows[0]), 0
    for place, row in enumerate(rows):
        if sum(match(row, other) for other in released) >= k:
            continue
        for size in range(1, width + 1):
            hidden = [
                tuple("*" if i in chosen else value for i, value in enumerate(row))
                for chosen in combinations(range(width), size)
            ]
            best = max(hidden, key=lambda each: sum(match(each, other) for other in released))
            if sum(match(best, other) for other in released) >= k:
                released[place], cells = best, cells + size
                break
    assert min(crowds(released)) >= k
    return cells


def generate_households(seed: int, count: int) -> list[Cells]:
    """Households as census tables have them: some columns depend on each other, and some values are rare."""
    drawn = random.Random(seed)
    found: list[Cells] = []
    for _ in range(count):
        town = drawn.choices("123", [6, 3, 1])[0]
        roof = drawn.choices("abcd", [9, 5, 2, 1])[0] if town != "1" else drawn.choices("ab", [3, 1])[0]
        wall, kin = drawn.choices("klm", [8, 3, 1])[0], drawn.choices("pqrstu", [8, 6, 4, 2, 1, 1])[0]
        found.append((town, roof, wall, kin, drawn.choice("fm")))
    return found

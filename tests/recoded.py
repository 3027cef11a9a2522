"""What a local recoding releases, row by row, read from the tables that an algorithm leaves behind."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from conftest import Database

from sqlanon.evidence.hierarchies import build_hierarchies
from sqlanon.lattice.pose_problem import problem
from sqlanon.lattice.problem import Problem
from sqlanon.lattice.solution import Solution
from sqlanon.policy import Policy, parse
from sqlanon.relations.classes import NULL_NODE
from sqlanon.relations.source import relation

Row = dict[str, Any]


def policy(
    columns: Mapping[str, str], hierarchies: Mapping[str, Any], models: Sequence[Mapping[str, Any]], **more: Any
) -> Policy:
    written = {"source": {"table": "t"}, "columns": columns, "hierarchies": hierarchies, "models": models, **more}
    return parse(json.dumps(written, ensure_ascii=False))


def opened(database: Database, asked: Policy, **more: Any) -> Problem:
    rows = relation(asked.source, database.engine.dialect)
    return problem(asked, database.engine, build_hierarchies(asked), rows, **more)


def released(database: Database, posed: Problem, found: Solution) -> list[Row]:
    """The released rows: each quasi-identifier under its name, its original as `was_<name>`, and the secrets.

    On the way: no row is released twice, and none that there is not.
    """
    regions = found.regions
    assert regions is not None and regions.split
    originals = [_originals(database, posed, place) for place in range(len(posed.domains))]
    secrets = {
        name: dict(database.fetch(f"SELECT value, original FROM {item.relations['totals']}"))
        for item in posed.requirements.models
        if (name := item.attribute) is not None
    }
    keys, values = posed.compressed.key_names, list(posed.compressed.values.values())
    same = ", ".join([*keys, *values])
    sizes = {tuple(row[:-1]): row[-1] for row in database.fetch(f"SELECT {same}, n FROM {posed.compressed.table}")}
    names = ", ".join(f"l{i}" for i in range(1, len(posed.domains) + 1))
    labels = {row[0]: row[1:] for row in database.fetch(f"SELECT region, {names} FROM {regions.labels}")}
    taken: dict[tuple[Any, ...], set[int]] = {}
    rows = []
    for *alike, region, first, last in database.fetch(f"SELECT {same}, region, first, last FROM {regions.members}"):
        numbers = set(range(first, last + 1))
        before = taken.setdefault(tuple(alike), set())
        assert numbers and not before & numbers and min(numbers) >= 1 and max(numbers) <= sizes[tuple(alike)]
        before |= numbers
        row: Row = {"region": region}
        for domain, codes, label in zip(posed.domains, originals, labels[region], strict=True):
            row[domain.name] = label
            row[f"was_{domain.name}"] = codes[alike[domain.key] & domain.masks[0]]
        for attribute, rank in zip(posed.compressed.values, alike[len(keys) :], strict=True):
            row[attribute] = secrets[attribute][rank]
        rows += [row] * len(numbers)
    assert len(rows) == posed.records - found.suppressed
    return rows


def _originals(database: Database, posed: Problem, place: int) -> dict[int, Any]:
    domain = posed.domains[place]
    ranks = ", ".join(f"r{level}" for level in range(domain.height))
    return {
        sum(rank << shift for rank, shift in zip(row[1:], domain.shifts, strict=True)): row[0]
        for row in database.fetch(f"SELECT original, {ranks} FROM {domain.dictionary}")
    }


def covers(posed: Problem, name: str, label: str, original: Any, ancestors: Mapping[Any, Sequence[str]]) -> bool:
    """Whether a label is the value itself or a node above it."""
    return label == (NULL_NODE if original is None else str(original)) or label in ancestors[original]

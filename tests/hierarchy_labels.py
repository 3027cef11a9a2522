"""Computed hierarchies, run by a real engine: what the tests of numbers and of text share."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

from conftest import Database
from sqlglot import exp

from sqlanon.hierarchies import Hierarchy, build

Labels = list[tuple[str | None, ...]]


@cache
def select_list(hierarchy: Hierarchy, dialect: str) -> str:
    return ", ".join(level(exp.column("x", table="t")).sql(dialect) for level in hierarchy.levels)


def labels_of(database: Database, hierarchy: Hierarchy, type_: str, values: Sequence[str | None]) -> Labels:
    """The labels of values, given as text, in a column of this type: one tuple of all levels for each."""
    dialect = database.engine.dialect
    literals = [exp.Literal.string(value) if value is not None else exp.null() for value in values]
    listed = ", ".join(f"({place}, {value.sql(dialect)})" for place, value in enumerate(literals))
    cast = exp.cast(exp.column("v"), exp.DataType.build(type_, dialect=dialect)).sql(dialect)
    found = database.fetch(
        f"SELECT i, {select_list(hierarchy, dialect)} FROM"
        f" (SELECT i, {cast} AS x FROM (VALUES {listed}) AS given(i, v)) AS t ORDER BY i"
    )
    return [tuple(row[1:]) for row in found]


@cache
def _made(kind: str, params: str) -> Hierarchy:
    return build(kind, json.loads(params), Path())


def made(kind: str, **params: Any) -> Hierarchy:
    return _made(kind, json.dumps(params))  # made once, so that its SQL is written once


def assert_functions(found: Labels, root: str = "*") -> None:
    """Each level is a function of the level below, and the top is the root."""
    for below, above in pairwise(range(len(found[0]))):
        parents: dict[str | None, str | None] = {}
        for labels in found:
            assert parents.setdefault(labels[below], labels[above]) == labels[above], labels
    assert {labels[-1] for labels in found} == {root}

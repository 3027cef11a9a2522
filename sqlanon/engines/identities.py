"""Whether the columns that identify rows tell all of them apart."""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from sqlanon.compiler.transformed import rises, uniqueness
from sqlanon.engines import Engine
from sqlanon.policy import Policy


def told_apart(engine: Engine, policy: Policy, rows: exp.Select, types: Mapping[str, exp.DataType]) -> int | None:
    """The number of rows if no two of them have the same identity; None if some have, or there is no such column."""
    ordered = rises(policy, rows, types)
    if ordered is not None:
        every, known, above = engine.query(ordered)[0]
        if every == known == (above or 0) + 1:
            return int(every)
    asked = uniqueness(policy, rows, types)
    if asked is None:
        return None
    every, different = engine.query(asked)[0]
    return int(every) if every == different else None

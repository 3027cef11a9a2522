"""Whether the columns that identify rows tell all of them apart."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sqlglot import exp

from sqlanon.engines import Engine
from sqlanon.policy import Policy
from sqlanon.relations.transformation_tables import rises, uniqueness

MOST = 0.8  # of the integers of a range: with fewer, one hash for several rows saves no time


@dataclass(frozen=True)
class Identities:
    """`records` rows, all of them different; `span` are the ends of a range that they have most integers of, if any."""

    records: int
    span: tuple[int, int] | None


def find_identities(
    engine: Engine, policy: Policy, rows: exp.Select, types: Mapping[str, exp.DataType]
) -> Identities | None:
    """None if two rows have the same identity, or there is no such column."""
    ordered = rises(policy, rows, types) if engine.product != "spark" else None  # whose rows have no order
    if ordered is not None:
        every, known, above, *ends = engine.query(ordered)[0]
        if every == known == (above or 0) + 1:
            return Identities(int(every), _span(int(every), ends))
    asked = uniqueness(policy, rows, types)
    if asked is None:
        return None
    every, different, *ends = engine.query(asked)[0]
    return Identities(int(every), _span(int(every), ends)) if every == different else None


def _span(records: int, ends: list[int | None]) -> tuple[int, int] | None:
    low, high = ends
    if low is None or high is None or MOST * (high - low + 1) > records:
        return None
    return int(low), int(high)

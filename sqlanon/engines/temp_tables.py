"""Run the temporary tables that the compiler planned."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

from sqlanon.engines import Engine
from sqlanon.errors import SqlanonError
from sqlanon.relations.classes import Step

SHOWN_VALUES = 5


def run_steps(engine: Engine, steps: Iterable[Step], before: Callable[[Step], None] | None = None) -> None:
    """Make the temporary tables in their order; `before` may look at the data that a step builds on, and object."""
    for step in steps:
        if before is not None:
            before(step)
        if step.rows:
            engine.load_temporary(step.name, step.columns, step.rows)
        else:
            engine.create_temporary(step.name, step.query)
            if step.summary:
                engine.bring_summary([step.name])


def drop_steps(engine: Engine, steps: Iterable[Step]) -> None:
    # A connection that broke off takes its temporary tables with it; the error that broke it is the one to show.
    with suppress(SqlanonError):
        engine.drop_temporary([step.name for step in steps])


def format_values(found: list[tuple[Any, ...]]) -> str:
    """Values with their row counts, cut after a few."""
    lines = [f"'{value}' ({records} rows)" for value, records in found[:SHOWN_VALUES]]
    return "\n".join(lines + (["…"] if len(found) > SHOWN_VALUES else []))

"""Refuse a release that, as it was written, is not what was planned or breaks the policy."""

from __future__ import annotations

from sqlglot import exp

from sqlanon.errors import EngineError, NotReleased
from sqlanon.evidence.checks import Evidence
from sqlanon.evidence.linked_rows import HINT
from sqlanon.families import plugin
from sqlanon.lattice.problem import Problem
from sqlanon.lattice.solution import Solution
from sqlanon.relations.checks import OF_ROW_SETS
from sqlanon.relations.source import relation
from sqlanon.release.targets.target import Staged

NOT_SEARCHED = "the search compares single rows: it does not look for a release that keeps whole sets of rows alike"


def require_all_rows(task: Problem, solution: Solution, staged: Staged) -> None:
    """Every row once: one that was written twice would pass for a crowd of two."""
    rows = relation(task.engine.resolve(staged.source), task.engine.dialect)
    written = int(task.engine.query(exp.select("COUNT(*)").from_(rows.subquery(alias="release")))[0][0])
    source = int(task.engine.query(exp.select("COUNT(*)").from_(task.prelude.rows.subquery(alias="source")))[0][0])
    kept = task.policy.suppressed_rows == "keep"
    wanted = source - (0 if kept else solution.suppressed)
    wanted += solution.assigned.number if solution.assigned is not None else 0
    if source != task.records or written != wanted:
        raise EngineError(
            f"the release was not published: {written:,} rows were written, {wanted:,} were meant",
            hint="the previous release, if any, is still in place; was the source changed meanwhile?",
        )


def require_kept(found: Evidence) -> None:
    """Refuse a release that, as written, does not keep what the policy asks for."""
    if found.holds:
        return
    broken = [f"{item.model}: {item.broken_classes:,} classes broken" for item in found.checks if not item.holds]
    if found.linked is not None and not found.linked.accepted and not found.linked.holds:
        raise NotReleased(
            "the release was not published: rows of a person are linked, and whole sets of rows single persons out",
            detail="\n".join([found.linked.said, found.linked.uniqueness, *found.linked.problems, NOT_SEARCHED]),
            hint=HINT,
        )
    of_sets = [item for item in found.checks if not item.holds and plugin("models", item.model).classes == OF_ROW_SETS]
    if of_sets and not found.breaches and all(item.holds for item in found.checks if item not in of_sets):
        raise NotReleased(
            "the release was not published: too few owners share a whole set of rows",
            detail="\n".join([*broken, NOT_SEARCHED]),
            hint="take coarser hierarchies, or one row an owner; the previous release, if any, is still in place",
        )
    raise NotReleased(
        "the release was not published: as written it breaks the policy",
        detail="\n".join([*broken, *found.breaches]),
        hint="the previous release, if any, is still in place; was the source changed meanwhile?",
    )

"""Read the evidence that is kept with a release, and draw the map of what other requirements would cost."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from sqlanon.engines import Engine
from sqlanon.errors import PolicyError
from sqlanon.evidence.release_evidence import MapPoint
from sqlanon.lattice.minimized_metric import build_metric
from sqlanon.lattice.nodes import MOST_NODES
from sqlanon.lattice.problem import Problem
from sqlanon.lattice.requirements import Requirement
from sqlanon.lattice.search import Search
from sqlanon.policy import Policy
from sqlanon.relations.source import table_parts
from sqlanon.release import versions
from sqlanon.release.record import of_file, of_name, of_relation

KS = (2, 3, 5, 10, 20, 50)
LIMITS = (0.0, 0.01, 0.05, 0.1)


def load_evidence(policy: Policy, engine: Engine) -> dict[str, Any]:
    """The evidence of the policy's release."""
    given = policy.release
    if given is None:
        raise PolicyError("the policy names no release", hint="add for example 'release: {table: patients_released}'")
    if given.path is None:
        return of_release(engine, given.table or given.view or "")
    found = versions.evidence(policy, engine) if given.is_folder else of_file(given.path)
    if found is None:
        raise PolicyError(f"there is no evidence for '{given.path}'", hint="publish it first")
    return found


def of_release(engine: Engine, name: str) -> dict[str, Any]:
    """The evidence of a table or view, by its name, however it is spelt."""
    found = of_name(engine, name)
    there = engine.find(table_parts(name)) if found is None else None
    recorded = of_relation(engine, there) if there is not None else None
    if recorded is not None:
        return dict(recorded.document)
    if found is None:
        raise PolicyError(f"there is no evidence for '{name}'", hint="publish it first: 'sqlanon publish POLICY'")
    return found


def too_wide_to_map(task: Problem) -> str | None:
    """Why no map is drawn: the exact search holds all nodes of the lattice in memory. None if it can be drawn."""
    nodes = math.prod(task.shape)
    if nodes <= MOST_NODES:
        return None
    return (
        "what more privacy would cost is not shown: "
        f"{len(task.shape)} quasi-identifiers have {nodes:.1e} combinations of levels, too many to search for each k"
    )


def risk_utility_map(task: Problem, chosen: tuple[int | None, float]) -> tuple[MapPoint, ...]:
    """The least loss for other k and other suppression limits, on the table that is compressed already."""
    has_k = any("k" in item.use.params for item in task.requirements.models)
    points: list[MapPoint] = []
    for k in KS if has_k else (None,):
        for limit in LIMITS:
            if task.state.out_of_time():
                return tuple(points)
            if limit and not task.requirements.may_suppress:
                continue
            allowed = int(limit * task.records + 1e-9)
            asked = tuple(_with_k(item, k) for item in task.requirements.models) if k else task.requirements.models
            variant = task.ask_again(models=asked, limit=allowed)
            search = Search(variant, build_metric(variant))
            best = search.run()
            if best is None or not search.complete:
                continue
            same = (k, limit) == chosen
            points.append(MapPoint(k=k, limit=limit, loss=best.loss, suppressed=best.suppressed, chosen=same))
    return tuple(points)


def _with_k(item: Requirement, k: int) -> Requirement:
    if "k" not in item.use.params:
        return item
    return replace(item, use=item.use.model_copy(update={"params": {**item.use.params, "k": k}}))

"""Read the evidence that is kept with a release, and draw the map of what other requirements would cost."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
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
MOST_LIMITS = 3  # beside one another: each takes a search for each k


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
    """The least loss for the k and the suppression limit that are asked for, for larger k and for other limits, on the
    table that is compressed already. What asks for less than the policy is no choice."""
    asked, own = chosen
    has_k = any("k" in item.use.params for item in task.requirements.models)
    points: list[MapPoint] = []
    for k in larger_ks(asked) if has_k else (None,):
        for limit in limits_beside(own):
            if task.state.out_of_time():
                return tuple(points)
            if limit and not task.requirements.may_suppress:
                continue
            allowed = math.floor(Fraction(repr(limit)) * task.records)
            asks = tuple(_with_k(item, k) for item in task.requirements.models) if k else task.requirements.models
            variant = task.ask_again(models=asks, limit=allowed)
            search = Search(variant, build_metric(variant))
            best = search.run()
            if best is None or not search.complete:
                continue
            same = (k, limit) == chosen
            points.append(MapPoint(k=k, limit=limit, loss=best.loss, suppressed=best.suppressed, chosen=same))
    return tuple(points)


def larger_ks(asked: int | None) -> tuple[int, ...]:
    """What is asked for, and some larger ones.

    >>> larger_ks(5), larger_ks(7), larger_ks(100), larger_ks(None)
    ((5, 10, 20, 50), (7, 10, 20, 50), (100, 200, 500), (2, 3, 5, 10, 20, 50))
    """
    if asked is None:
        return KS
    larger = tuple(k for k in KS if k > asked)
    return (asked, *(larger if len(larger) > 1 else (2 * asked, 5 * asked)))


def limits_beside(own: float) -> tuple[float, ...]:
    """The policy's suppression limit, with the nearest others.

    >>> limits_beside(0.02), limits_beside(0.0), limits_beside(0.05), limits_beside(0.3)
    ((0.0, 0.01, 0.02), (0.0, 0.01, 0.05), (0.0, 0.01, 0.05), (0.05, 0.1, 0.3))
    """
    nearest = sorted((limit for limit in LIMITS if limit != own), key=lambda limit: abs(limit - own))
    return tuple(sorted([own, *nearest[: MOST_LIMITS - 1]]))


def _with_k(item: Requirement, k: int) -> Requirement:
    if int(item.use.params.get("k", k)) >= k:  # also where models ask for different k
        return item
    return replace(item, use=item.use.model_copy(update={"params": {**item.use.params, "k": k}}))

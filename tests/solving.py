"""One algorithm asked to solve a policy, without publishing anything."""

from __future__ import annotations

from typing import Any

from sqlanon import algorithms
from sqlanon.engines import Engine
from sqlanon.evidence.hierarchies import build_hierarchies
from sqlanon.lattice.pose_problem import problem
from sqlanon.lattice.problem import OF_NODES, Problem
from sqlanon.policy import Policy
from sqlanon.relations.compressed_rows import root_only
from sqlanon.relations.source import relation


def task(engine: Engine, policy: Policy, **more: Any) -> Problem:
    hierarchies = {name: root_only() for name in policy.quasi_identifiers} | build_hierarchies(policy)
    return problem(policy, engine, hierarchies, relation(policy.source, engine.dialect), brings=OF_NODES, **more)


def solve(engine: Engine, policy: Policy, name: str, *, carry: tuple[str, ...] = (), **params: Any) -> Any:
    made = task(engine, policy, carry=carry)
    module = algorithms.algorithm(name)
    try:
        return module.run(made, module.Params(**params))
    finally:
        made.close()

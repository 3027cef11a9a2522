"""From a policy to the best release of it: the compressed table, the algorithm that is run on it, and its plan."""

from __future__ import annotations

import hashlib
import hmac
import math
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from sqlglot import exp

from sqlanon import algorithms
from sqlanon.algorithms import auto
from sqlanon.engines import Engine
from sqlanon.engines.temp_tables import drop_steps
from sqlanon.errors import NotReleased, PolicyError
from sqlanon.evidence.apply_transformations import SHORTEST_KEY, apply
from sqlanon.evidence.hierarchies import build_hierarchies, require_valid
from sqlanon.evidence.joined_tables import as_one_table
from sqlanon.families import algorithm_traits
from sqlanon.lattice.nodes import MOST_NODES, Infeasible
from sqlanon.lattice.pose_problem import problem
from sqlanon.lattice.problem import OF_NODES, Problem
from sqlanon.lattice.solution import Solution
from sqlanon.plan import Plan, policy_hash
from sqlanon.policy import AlgorithmUse, Policy, missing_columns
from sqlanon.policy.person_shapes import require_shape
from sqlanon.policy.suppressed_cells import cell_algorithms
from sqlanon.relations.classes import Prelude
from sqlanon.relations.compressed_rows import root_only
from sqlanon.relations.draw_chains import canonical_json
from sqlanon.relations.matching_classes import matches_any_value
from sqlanon.relations.source import relation
from sqlanon.release.publication import Progress, require_roles, tell
from sqlanon.release.record import of_name
from sqlanon.release.region_digest import digest


def prepare_problem(
    policy: Policy,
    engine: Engine,
    *,
    time_limit: float | None = None,
    progress: Progress | None = None,
    secret: str | None = None,
) -> Problem:
    """The compressed table of a policy, after its transformations, with hierarchies that are known to cover it."""
    require_shape(policy, "this search")
    _require_cells(policy)
    if policy.source.joins and not policy.transformations:
        policy = policy if policy.source.due else policy.at(datetime.now(UTC))
        one, taken = as_one_table(policy, engine)
        return _prepared(one, engine, time_limit, progress, asked=policy, joined=taken, secret=secret)
    if not policy.transformations:
        return _prepared(policy, engine, time_limit, progress, secret=secret)
    if policy.source.due is None:  # one time for all statements, as below
        policy = policy.at(datetime.now(UTC))
    require_roles(policy, _columns(policy, engine))
    tell(progress, "transforming the rows", 0, 1)
    made = apply(policy, engine, secret, prefix="sqlanon_search")
    tell(progress, "transforming the rows", 1, 1)
    try:
        described = made.outline.described()
        return _prepared(
            made.policy, engine, time_limit, progress, made.prelude, asked=policy, transformed=described, secret=secret
        )
    except BaseException:
        drop_steps(engine, made.prelude.steps)
        raise


def _require_cells(policy: Policy) -> None:
    """Cells that match any value need an algorithm that suppresses cells; no other searches under that reading."""
    if matches_any_value(policy) and not policy.algorithm_traits.suppresses_cells:
        raise policy.error(
            f"'suppressed_cells: any_value' needs the algorithm {cell_algorithms()}",
            "suppressed_cells",
            hint=f"add 'algorithm: {cell_algorithms()}', or leave 'suppressed_cells' out",
        )


def _columns(policy: Policy, engine: Engine) -> list[str]:
    return [item.name for item in engine.columns(relation(engine.resolve(policy.source), engine.dialect))]


def _prepared(
    policy: Policy,
    engine: Engine,
    time_limit: float | None,
    progress: Progress | None,
    prelude: Prelude | None = None,
    asked: Policy | None = None,
    transformed: Mapping[str, Any] | None = None,
    joined: Mapping[str, list[str]] | None = None,
    secret: str | None = None,
) -> Problem:
    if policy.source.due is None:  # one time for all statements, or they would not read the same rows
        policy = policy.at(datetime.now(UTC))
    rows = relation(engine.resolve(policy.source), engine.dialect)
    available = [item.name for item in engine.columns(rows)]
    missing_columns(policy, available)
    require_roles(policy, available)
    given = build_hierarchies(policy)
    hierarchies = {name: root_only() for name in policy.quasi_identifiers} | given
    tell(progress, "reading the table", 0, 1)
    computed = {name: item for name, item in given.items() if item.levels}
    require_valid(policy, engine, computed, Prelude(rows, engine.dialect))
    task = problem(
        policy,
        engine,
        hierarchies,
        rows,
        carry=_carried(policy),
        target=_target(policy),
        brings=_brings(policy),
        progress=progress,
        prelude=prelude,
        asked=asked,
        transformed=transformed,
        joined=joined,
        seed=_seed(asked or policy, secret),
    )
    try:
        if not task.records:
            raise PolicyError("the source has no rows", hint="there is nothing to publish")
        # Trees that are known to be trees, and whose every value was found, need no second look.
        fine = {domain.name for domain in task.domains if domain.covered and domain.hierarchy.is_known_tree()}
        rest = {name: item for name, item in given.items() if name not in fine and name not in computed}
        require_valid(policy, engine, rest, task.prelude)
        task.skip()
    except BaseException:
        task.close()
        raise
    tell(progress, "reading the table", 1, 1)
    task.state.end_after(time_limit)  # the limit is for the search, not for reading
    return task


def _seed(policy: Policy, secret: str | None) -> str:
    """What an algorithm draws from. Who has not the key cannot tell it from chance; other parameters are another
    draw."""
    use = policy.algorithm
    if use is None or len(secret or "") < SHORTEST_KEY:
        return ""
    said = canonical_json(["search", use.name, _params(use).model_dump(mode="json")])
    return hmac.new((secret or "").encode(), said.encode(), hashlib.sha256).hexdigest()


def search_rows(policy: Policy, engine: Engine, rows: exp.Select) -> tuple[Problem, Solution]:
    """The best levels of rows that have columns beside those of the policy. The caller closes the problem."""
    task = _prepared(policy, engine, None, None, Prelude(rows, engine.dialect, prefix="sqlanon_blind"))
    try:
        return task, solve_problem(task, by_levels=True)[0]
    except BaseException:
        task.close()
        raise


def solve_problem(task: Problem, *, by_levels: bool = False) -> tuple[Solution, Plan]:
    """Run the algorithm of the policy, or those that fit the task: only those for levels if `by_levels`."""
    name, params, chosen = _algorithm(task, by_levels)
    if task.state.deadline is None:  # a proof may take for ever; what was found until then is a release
        task.state.end_after(algorithm_traits(name).seconds)
    try:
        solution = algorithms.search_algorithm(name).run(task, params)
    except Infeasible:
        from sqlanon.release.explain_infeasible import infeasible_error

        raise infeasible_error(task) from None
    except NotReleased:
        raise
    except PolicyError as error:  # the algorithm does not do what the policy asks of it
        raise task.policy.error(error.message, "algorithm", hint=error.hint) from None
    solution = replace(solution, why=f"{chosen}: {solution.why}" if chosen else solution.why)
    if solution.way is not None:  # of several algorithms, the plan names the one that found it
        name = solution.way.algorithm
        params = algorithms.algorithm(name).Params.model_validate(solution.way.params)
    return solution, plan_of(task, name, params.model_dump(mode="json"), solution)


def _carried(policy: Policy) -> tuple[str, ...]:
    """Columns that the algorithm counts beside those of the models, such as a class attribute."""
    if policy.history is not None and policy.algorithm_traits.history == "cuts":
        return policy.sensitive  # whoever was together so far is parted only where values differ
    target = _target(policy)
    return (target,) if target else ()


def _target(policy: Policy) -> str | None:
    """The column that the release should predict, if the policy names one."""
    if policy.algorithm is None:
        return None
    target: str | None = _params(policy.algorithm).model_dump().get(policy.algorithm_traits.target)
    return target


def _brings(policy: Policy) -> frozenset[str]:
    """Relations that the algorithm makes itself, so that it reaches models that others cannot."""
    return OF_NODES if policy.algorithm is None else policy.algorithm_traits.brings


def _params(use: AlgorithmUse) -> Any:
    return algorithms.algorithm(use.name).Params.model_validate(use.params)


def _algorithm(task: Problem, by_levels: bool) -> tuple[str, Any, str]:
    use = task.policy.algorithm
    if use is not None:
        return use.name, _params(use), ""
    if (kept := _earlier_levels(task)) is not None:
        params = algorithms.algorithm("fixed_levels").Params(levels=kept)
        return "fixed_levels", params, "fixed_levels, as in the release before: classes that are cut anew tell more"
    if not by_levels and task.policy.history is None and auto.has_choice(task):
        return "auto", auto.Params(), ""
    # Models across releases compare classes on levels, and what only levels can do leaves no choice.
    nodes = math.prod(task.shape)
    if nodes <= MOST_NODES:
        return "full_domain", algorithms.algorithm("full_domain").Params(), f"full_domain, of {nodes:,} nodes"
    return "heuristic", algorithms.algorithm("heuristic").Params(), f"heuristic, since {nodes:.1e} nodes are too many"


def _earlier_levels(task: Problem) -> dict[str, int] | None:
    """The levels of the release that this one follows, where what both tell together counts."""
    given = task.policy.release
    if task.policy.history is None or given is None:
        return None
    document = of_name(task.engine, given.table or given.view or "")
    passes = document["plan"]["passes"] if document is not None else []
    if len(passes) != 1 or set(passes[0]) != {domain.name for domain in task.domains}:
        return None
    return dict(passes[0])


def plan_of(task: Problem, name: str, params: Mapping[str, Any], solution: Solution) -> Plan:
    return Plan(
        policy=policy_hash(task.table.written),
        algorithm=name,
        params=params,
        # Recoding in regions or in several passes lowers the certainty penalty, whatever the policy minimizes.
        minimize=task.policy.minimize if len(solution.passes) == 1 else "ncp",
        records=task.records,
        suppressed=solution.suppressed,
        loss=solution.loss,
        proven=solution.proven,
        why=solution.why,
        passes=tuple(task.table.levels(node) for node in solution.passes),
        regions=digest(task, solution.regions.labels) if solution.regions else None,
        bits={domain.name: domain.bits for domain in task.domains},
        transformed=task.table.transformed,
        joined=task.table.joined,
    )

"""Publish: find the best anonymization, write it beside the source, check it as written, and only then show it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

from sqlglot import exp

from sqlanon import algorithms
from sqlanon.algorithms._posing import problem
from sqlanon.algorithms._problem import OF_NODES, Problem
from sqlanon.algorithms._search import Infeasible
from sqlanon.algorithms._solution import Solution
from sqlanon.compiler.classes import Prelude
from sqlanon.compiler.compressed import root_only
from sqlanon.compiler.source import relation, table_tree
from sqlanon.engines import Engine
from sqlanon.engines.steps import drop_steps
from sqlanon.errors import EngineError, PolicyError
from sqlanon.evidence.checks import Evidence, check
from sqlanon.evidence.hierarchies import build_hierarchies, require_valid
from sqlanon.evidence.joined import as_one_table
from sqlanon.evidence.transformed import apply, needs_secret, require_secret
from sqlanon.plan import Plan, policy_hash
from sqlanon.policy import AlgorithmUse, Policy, missing_columns
from sqlanon.release import parting
from sqlanon.release.asked import require_algorithm
from sqlanon.release.blocked import blocked
from sqlanon.release.document import described, without_originals, workload_of
from sqlanon.release.fingerprint import fingerprint
from sqlanon.release.history import (
    Comparison,
    compare,
    keep_shown,
    paths_of,
    read_past,
    remember,
    require_named,
    require_safe,
)
from sqlanon.release.history.kept import kept_versions
from sqlanon.release.published import Progress, Published, require_plan, require_roles, tell
from sqlanon.release.raising import LAST_RESORT, may_be_raised, raised
from sqlanon.release.record import newest, of_name
from sqlanon.release.regions import digest
from sqlanon.release.resistance import resistance
from sqlanon.release.rewriting import Rewriting, rewriting
from sqlanon.release.stored import risk_utility_map, stored
from sqlanon.release.target import Staged, Target, target_of

# The most nodes of a lattice that the exact search holds in memory; beyond that a heuristic looks for a good one.
MOST_NODES = 2_000_000


def publish(
    policy: Policy,
    engine: Engine,
    *,
    dry_run: bool = False,
    time_limit: float | None = None,
    secret: str | None = None,
    workload: bool = True,
    progress: Progress | None = None,
    plan_hash: str | None = None,
    run: int | None = None,
) -> Published:
    """Find, write, check and swap in the release of a policy. An error at any point leaves the previous one in place.

    `time_limit` in seconds is for the search; `secret` is the key of pseudonyms and draws; `workload` asks for the
    error of random counts, which takes a few seconds. With `plan_hash`, or how it begins, only that plan is carried
    out.
    `run` is the number of the run in the record of runs, which the evidence then names.
    `progress` is told what is going on, and how much of it is done.
    """
    target = None if dry_run else target_of(policy, engine)
    if any(column.pseudonym for column in policy.columns.values()) and not dry_run:
        require_secret(secret, "pseudonyms")
    if target is not None and target.kind != "path":
        require_history(policy, engine, target.name)
        require_named(policy, engine, target.name)
    if parting.is_parted(policy):
        return parting.publish(policy, engine, target, secret=secret, progress=progress, plan_hash=plan_hash, run=run)
    task = prepared(policy, engine, time_limit=time_limit, progress=progress, secret=secret)
    try:
        if policy.release is not None:
            read_past(task, policy.release.table or policy.release.view or "", secret)
        solution, plan = solved(task)
        require_plan(plan, plan_hash)
        how = rewriting(task, solution, secret)
        if target is None:
            return Published(plan, described(task, solution, plan, how))
        tell(progress, "writing the release", 0, 1)
        plan, found, document = _write(task, target, solution, plan, how, progress, workload, secret, run)
        return Published(plan, document, found)
    finally:
        task.close()


def report(
    policy: Policy,
    engine: Engine,
    *,
    explore: float = 30.0,
    secret: str | None = None,
    attacked: bool = True,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """The stored evidence of a release, with the map of what other k and suppression limits would cost, for which at
    most `explore` seconds are spent; 0 leaves it out. So does a policy with draws whose `secret` is not given. Risks
    are measured and attacks carried out on source and release as they are now, if `attacked`."""
    document = stored(policy, engine)
    if attacked:
        tell(progress, "attacking the release", 0, 1)
        document |= resistance(policy, engine, int(document["records"]))
        tell(progress, "attacking the release", 1, 1)
    drawn = needs_secret(policy) and not secret
    if explore > 0 and len(document["plan"]["passes"]) == 1 and not drawn and not parting.is_parted(policy):
        task = prepared(policy, engine, time_limit=explore, progress=progress, secret=secret)
        try:
            asked = max((use.params["k"] for use in policy.models if "k" in use.params), default=None)
            document["map"] = risk_utility_map(task, (asked, policy.suppression_limit))
        finally:
            task.close()
    return document


def _write(
    task: Problem,
    target: Target,
    solution: Solution,
    plan: Plan,
    how: Rewriting,
    progress: Progress | None,
    workload: bool,
    secret: str | None,
    run: int | None,
) -> tuple[Plan, Evidence, Mapping[str, Any]]:
    staged: Staged | None = None
    beside: Comparison | None = None
    first, also = solution, frozenset[str]()
    try:
        with task.engine.transaction():
            while True:
                staged = target.stage(how)
                tell(progress, "writing the release", 1, 1)
                tell(progress, "checking the release", 0, 1)
                _require_all_rows(task, solution, staged)
                if task.policy.history is None:
                    break
                paths = paths_of(task, solution)
                cuts = solution.regions.cuts if solution.regions is not None else None
                made_up = None if solution.assigned is None else solution.assigned.number
                beside = compare(task.policy, task.engine, staged, target.name, secret, paths, also, made_up, cuts)
                if beside.holds or also or not may_be_raised(task, solution, beside.results):
                    require_safe(beside)
                    break
                higher = raised(task, solution)
                if higher is None:  # rows wait where nothing else helps
                    also = LAST_RESORT & {result.model for result in beside.results}
                    if not also:
                        require_safe(beside)
                beside.close()
                task.engine.execute(exp.Drop(tables=[table_tree(staged.name)], kind="TABLE"))
                solution = higher or first
                plan = _plan(task, "fixed_levels", {"levels": task.levels(solution.passes[0])}, solution)
                how = rewriting(task, solution, secret)
            # Nobody can tell rows of nobody from others: where there are any, rows are counted, one for each person.
            rule = task.policy if solution.assigned is None else task.policy.model_copy(update={"person": None})
            found = check(rule, task.engine, release=staged.source, hidden=staged.hidden, limit=0)
            _require_safe(found)
            document = described(task, solution, plan, how, found, target, staged)
            if run is not None:
                document["run"] = run
            if beside is not None:
                document["history"] = beside.described()
                without_originals(document)
                document["released"] -= beside.held_back
                remember(beside, plan.hash)
                beside.close()
            tell(progress, "checking the release", 1, 1)
            if workload and len(solution.passes) == 1 and beside is None:
                document["workload"] = workload_of(task, how, partial(tell, progress, "asking the release"))
            # Of the rows that were read in this transaction, so that the record speaks of what was published.
            known = fingerprint(task.engine, task.prelude.rows, secret) if _has_record(task.policy) else None
            target.swap(staged, plan, document, known)
            if task.policy.history is not None and task.policy.history.beside is not None:
                keep_shown(task.engine, target.name)
        target.finish(staged, document)
    except BaseException:
        if staged is not None:
            target.discard(staged)
        raise
    return plan, found, document


def prepared(
    policy: Policy,
    engine: Engine,
    *,
    time_limit: float | None = None,
    progress: Progress | None = None,
    secret: str | None = None,
) -> Problem:
    """The compressed table of a policy, after its transformations, with hierarchies that are known to cover it."""
    if policy.source.joins and not policy.transformations:
        policy = policy if policy.source.due else policy.at(datetime.now(UTC))
        task = _prepared(as_one_table(policy, engine), engine, time_limit, progress)
        task.asked = policy
        return task
    if not policy.transformations:
        return _prepared(policy, engine, time_limit, progress)
    if policy.source.due is None:  # one time for all statements, as below
        policy = policy.at(datetime.now(UTC))
    require_roles(policy, _columns(policy, engine))
    tell(progress, "transforming the rows", 0, 1)
    made = apply(policy, engine, secret, prefix="sqlanon_search")
    tell(progress, "transforming the rows", 1, 1)
    try:
        task = _prepared(made.policy, engine, time_limit, progress, made.prelude)
    except BaseException:
        drop_steps(engine, made.prelude.steps)
        raise
    task.asked, task.transformed = policy, made.outline.described()
    return task


def _columns(policy: Policy, engine: Engine) -> list[str]:
    return [item.name for item in engine.columns(relation(engine.resolve(policy.source), engine.dialect))]


def _prepared(
    policy: Policy,
    engine: Engine,
    time_limit: float | None,
    progress: Progress | None,
    prelude: Prelude | None = None,
) -> Problem:
    require_algorithm(policy)
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
        brings=_brings(policy),
        progress=progress,
        prelude=prelude,
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
    task.target = getattr(_params(policy.algorithm), "class_attribute", None) if policy.algorithm else None
    tell(progress, "reading the table", 1, 1)
    task.deadline = None if time_limit is None else time.monotonic() + time_limit  # for the search, not for reading
    return task


def searched(policy: Policy, engine: Engine, rows: exp.Select) -> tuple[Problem, Solution]:
    """The best generalization of rows that have columns beside those of the policy. The caller closes the problem."""
    task = _prepared(policy, engine, None, None, Prelude(rows, engine.dialect, prefix="sqlanon_blind"))
    try:
        return task, solved(task)[0]
    except BaseException:
        task.close()
        raise


def solved(task: Problem) -> tuple[Solution, Plan]:
    """Run the algorithm of the policy, or the one that fits the task."""
    name, params, chosen = _algorithm(task)
    try:
        solution: Solution = algorithms.algorithm(name).run(task, params)
    except Infeasible:
        raise blocked(task) from None
    except PolicyError as error:  # the algorithm does not do what the policy asks of it
        raise task.policy.error(error.message, "algorithm", hint=error.hint) from None
    solution = replace(solution, why=f"{chosen}: {solution.why}" if chosen else solution.why)
    return solution, _plan(task, name, params.model_dump(mode="json"), solution)


def _carried(policy: Policy) -> tuple[str, ...]:
    """Columns that the algorithm counts beside those of the models, such as a class attribute."""
    if policy.algorithm is None:
        return ()
    if policy.history is not None and policy.algorithm.name == "mondrian":
        return policy.sensitive  # whoever was together so far is parted only where values differ
    module = algorithms.algorithm(policy.algorithm.name)
    names: tuple[str, ...] = module.carried(_params(policy.algorithm)) if hasattr(module, "carried") else ()
    return names


def _brings(policy: Policy) -> frozenset[str]:
    """Relations that the algorithm makes itself, so that it reaches models that others cannot."""
    if policy.algorithm is None:
        return OF_NODES
    brings: frozenset[str] = getattr(algorithms.algorithm(policy.algorithm.name), "BRINGS", frozenset())
    return brings


def _params(use: AlgorithmUse) -> Any:
    return algorithms.algorithm(use.name).Params.model_validate(use.params)


def _algorithm(task: Problem) -> tuple[str, Any, str]:
    use = task.policy.algorithm
    if use is not None:
        return use.name, _params(use), ""
    if (kept := _earlier_levels(task)) is not None:
        params = algorithms.algorithm("fixed_levels").Params(levels=kept)
        return "fixed_levels", params, "fixed_levels, as in the release before: classes that are cut anew tell more"
    nodes = 1
    for size in task.shape:
        nodes *= size
    if nodes <= MOST_NODES:
        return "full_domain", algorithms.algorithm("full_domain").Params(), f"full_domain, of {nodes:,} nodes"
    return "heuristic", algorithms.algorithm("heuristic").Params(), f"heuristic, since {nodes:.1e} nodes are too many"


def require_history(policy: Policy, engine: Engine, name: str) -> None:
    """A release whose past is compared must go on so, and one whose past is not known cannot begin with it: not even
    if it was dropped meanwhile, since what was seen was seen."""
    earlier = newest(engine, name)
    if policy.history is None and earlier is None and kept_versions(engine, name):
        earlier = {"history": {}}
    if earlier is None or ("history" in earlier) == (policy.history is not None):
        return
    if policy.history is None:
        raise PolicyError(
            f"'{name}' was published with a history, and this policy asks for none",
            hint="add 'history: {}', or release under another name",
        )
    raise policy.error(
        f"'{name}' was published without a history: what both releases tell together cannot be known",
        "history",
        hint="release under another name, and drop the old release",
    )


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


def _plan(task: Problem, name: str, params: Mapping[str, Any], solution: Solution) -> Plan:
    return Plan(
        policy=policy_hash(task.written),
        algorithm=name,
        params=params,
        # Recoding in regions or in several passes lowers the certainty penalty, whatever the policy minimizes.
        minimize=task.policy.minimize if len(solution.passes) == 1 else "ncp",
        records=task.records,
        suppressed=solution.suppressed,
        loss=solution.loss,
        proven=solution.proven,
        why=solution.why,
        passes=tuple(task.levels(node) for node in solution.passes),
        regions=digest(task, solution.regions.labels) if solution.regions else None,
        bits={domain.name: domain.bits for domain in task.domains},
        transformed=task.transformed,
    )


def _require_all_rows(task: Problem, solution: Solution, staged: Staged) -> None:
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


def _require_safe(found: Evidence) -> None:
    if found.holds:
        return
    broken = [f"{item.model}: {item.broken_classes:,} classes broken" for item in found.checks if not item.holds]
    raise PolicyError(
        "the release was not published: as written it breaks the policy",
        detail="\n".join([*broken, *found.breaches]),
        hint="the previous release, if any, is still in place; was the source changed meanwhile?",
    )


def _has_record(policy: Policy) -> bool:
    """Beside a single file there is its evidence, and nothing that tells versions apart."""
    return policy.release is not None and (policy.release.path is None or policy.release.is_folder)


__all__ = ["Progress", "Published", "Rewriting", "prepared", "publish", "report", "require_history", "solved"]

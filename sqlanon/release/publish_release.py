"""Publish: find the best anonymization, write it beside the source, check it as written, and only then show it."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from functools import partial
from typing import Any

from sqlglot import exp

from sqlanon.engines import Engine
from sqlanon.evidence.apply_transformations import require_secret
from sqlanon.evidence.checks import Evidence, check
from sqlanon.lattice.problem import FEW_ROWS, Problem
from sqlanon.lattice.solution import Solution
from sqlanon.plan import Plan
from sqlanon.policy import Policy
from sqlanon.relations.source import table_tree
from sqlanon.release.algorithm_kind import is_parted
from sqlanon.release.check_release import require_all_rows, require_kept
from sqlanon.release.count_evidence import workload_of
from sqlanon.release.evidence_document import describe_release, without_originals
from sqlanon.release.fingerprint import fingerprint
from sqlanon.release.history import (
    Comparison,
    compare,
    keep_shown,
    paths_of,
    read_past,
    remember,
    require_history,
    require_named,
    require_safe,
)
from sqlanon.release.publication import Progress, Published, require_plan, tell
from sqlanon.release.raise_levels import LAST_RESORT, may_be_raised, raise_one_level
from sqlanon.release.rewrite_release import Rewriting, plan_rewriting
from sqlanon.release.second_draws import described_draws, require_same_draws, require_same_scales
from sqlanon.release.solve_policy import plan_of, prepare_problem, solve_problem
from sqlanon.release.targets.choose_target import target_of
from sqlanon.release.targets.target import Staged, Target, require_writable


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
    if target is not None:
        require_writable(target, engine)
    if any(column.pseudonym for column in policy.columns.values()) and not dry_run:
        require_secret(secret, "pseudonyms")
    if target is not None and target.kind != "path":
        require_history(policy, engine, target.name)
        require_named(policy, engine, target.name)
    if target is not None:
        require_same_draws(policy, engine, secret)
    if is_parted(policy):
        from sqlanon.release import publish_buckets  # as slow to load as it is rarely asked for

        return publish_buckets.publish(
            policy, engine, target, secret=secret, progress=progress, plan_hash=plan_hash, run=run
        )
    task = prepare_problem(policy, engine, time_limit=time_limit, progress=progress, secret=secret)
    try:
        if target is not None:
            require_same_scales(policy, engine)
        if policy.release is not None:
            read_past(task, policy.release.table or policy.release.view or "", secret)
        with engine.one_thread() if task.records < FEW_ROWS else nullcontext():
            solution, plan = solve_problem(task)
            require_plan(plan, plan_hash)
            how = plan_rewriting(task, solution, secret)
            if target is None:
                return Published(plan, describe_release(task, solution, plan, how))
            tell(progress, "writing the release", 0, 1)
            plan, found, document = _write(task, target, solution, plan, how, progress, workload, secret, run)
            return Published(plan, document, found)
    finally:
        task.close()


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
                require_all_rows(task, solution, staged)
                if task.policy.history is None:
                    break
                paths = paths_of(task, solution)
                cuts = solution.regions.cuts if solution.regions is not None else None
                made_up = None if solution.assigned is None else solution.assigned.number
                beside = compare(task.policy, task.engine, staged, target.name, secret, paths, also, made_up, cuts)
                if beside.holds or also or not may_be_raised(task, solution, beside.results):
                    require_safe(beside)
                    break
                higher = raise_one_level(task, solution)
                if higher is None:  # rows wait where nothing else helps
                    also = LAST_RESORT & {result.model for result in beside.results}
                    if not also:
                        require_safe(beside)
                beside.close()
                task.engine.execute(exp.Drop(tables=[table_tree(staged.name)], kind="TABLE"))
                solution = higher or first
                plan = plan_of(task, "fixed_levels", {"levels": task.levels(solution.passes[0])}, solution)
                how = plan_rewriting(task, solution, secret)
            # Nobody can tell rows of nobody from others: where there are any, rows are counted, one for each person.
            rule = task.policy if solution.assigned is None else task.policy.model_copy(update={"person": None})
            found = check(rule, task.engine, release=staged.source, hidden=staged.hidden, limit=0)
            require_kept(found)
            document = describe_release(task, solution, plan, how, found, target, staged)
            document |= described_draws(task.written, task.engine, secret)
            if run is not None:
                document["run"] = run
            if beside is not None:
                document["history"] = beside.described()
                document["history"]["held_back"] += solution.waiting
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


def _has_record(policy: Policy) -> bool:
    """Beside a single file there is its evidence, and nothing that tells versions apart."""
    return policy.release is not None and (policy.release.path is None or policy.release.is_folder)

"""Publish: find the best anonymization, write it beside the source, check it as written, and only then show it."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from functools import partial
from typing import Any

from sqlglot import exp

from sqlanon.engines import Engine
from sqlanon.errors import EngineError, NotReleased, PolicyError
from sqlanon.evidence.apply_transformations import needs_secret, require_secret
from sqlanon.evidence.checks import Evidence, check
from sqlanon.evidence.linked_rows import HINT
from sqlanon.families import plugin
from sqlanon.lattice.problem import FEW_ROWS, Problem
from sqlanon.lattice.solution import Solution
from sqlanon.plan import Plan
from sqlanon.policy import Policy
from sqlanon.relations.checks import OF_ROW_SETS
from sqlanon.relations.source import relation, table_tree
from sqlanon.release.algorithm_kind import is_parted
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
    require_named,
    require_safe,
)
from sqlanon.release.history.history_tables import kept_versions
from sqlanon.release.publication import Progress, Published, require_plan, tell
from sqlanon.release.raise_levels import LAST_RESORT, may_be_raised, raise_one_level
from sqlanon.release.record import newest
from sqlanon.release.rewrite_release import Rewriting, plan_rewriting
from sqlanon.release.second_draws import described_draws, require_same_draws, require_same_scales
from sqlanon.release.solve_policy import plan_of, prepare_problem, solve_problem
from sqlanon.release.targets.target import Staged, Target, require_writable, target_of

NOT_SEARCHED = "the search compares single rows: it does not look for a release that keeps whole sets of rows alike"


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
            task = read_past(task, policy.release.table or policy.release.view or "", secret)
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
    from sqlanon.release.stored_evidence import load_evidence, risk_utility_map, too_wide_to_map

    document = load_evidence(policy, engine)
    if attacked:
        tell(progress, "attacking the release", 0, 1)
        from sqlanon.release.measure_resistance import resistance  # loads all attacks

        document |= resistance(policy, engine, int(document["records"]))
        tell(progress, "attacking the release", 1, 1)
    drawn = needs_secret(policy) and not secret
    if explore > 0 and len(document["plan"]["passes"]) == 1 and not drawn and not is_parted(policy):
        task = prepare_problem(policy, engine, time_limit=explore, progress=progress, secret=secret)
        try:
            asked = max((use.params["k"] for use in policy.models if "k" in use.params), default=None)
            if (why := too_wide_to_map(task)) is not None:
                document["notes"] = [*document.get("notes", ()), why]
            else:
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
                higher = raise_one_level(task, solution)
                if higher is None:  # rows wait where nothing else helps
                    also = LAST_RESORT & {result.model for result in beside.results}
                    if not also:
                        require_safe(beside)
                beside.close()
                task.engine.execute(exp.Drop(tables=[table_tree(staged.name)], kind="TABLE"))
                solution = higher or first
                plan = plan_of(task, "fixed_levels", {"levels": task.table.levels(solution.passes[0])}, solution)
                how = plan_rewriting(task, solution, secret)
            # Nobody can tell rows of nobody from others: where there are any, rows are counted, one for each person.
            rule = task.policy if solution.assigned is None else task.policy.model_copy(update={"person": None})
            found = check(rule, task.engine, release=staged.source, hidden=staged.hidden, limit=0)
            require_kept(found)
            document = describe_release(task, solution, plan, how, found, target, staged)
            document |= described_draws(task.table.written, task.engine, secret)
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


def _has_record(policy: Policy) -> bool:
    """Beside a single file there is its evidence, and nothing that tells versions apart."""
    return policy.release is not None and (policy.release.path is None or policy.release.is_folder)


__all__ = ["Progress", "Published", "publish", "report", "require_history", "require_kept"]

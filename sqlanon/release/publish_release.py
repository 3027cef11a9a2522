"""Publish: find the best anonymization, write it beside the source, check it as written, and only then show it.

`STAGES` is the whole flow, of which the steps of `WRITING` run in one transaction. Each is a function that reads what
those before it put into a `Publishing`, and adds its own part. After an error the previous release is still in place.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial

from sqlglot import exp

from sqlanon.engines import Engine
from sqlanon.evidence.apply_transformations import require_secret
from sqlanon.evidence.checks import Evidence, check
from sqlanon.evidence.release_evidence import ReleaseEvidence
from sqlanon.lattice.problem import FEW_ROWS, Problem
from sqlanon.lattice.solution import Solution
from sqlanon.plan import Plan
from sqlanon.policy import Policy
from sqlanon.relations.source import table_tree
from sqlanon.release.check_release import require_all_rows, require_kept
from sqlanon.release.choose_maker import maker_of
from sqlanon.release.count_evidence import workload_of
from sqlanon.release.evidence_document import add_history, describe_release, without_originals
from sqlanon.release.fingerprint import fingerprint
from sqlanon.release.give_advice import give_advice
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
from sqlanon.release.made_release import publish_made
from sqlanon.release.publication import Progress, Published, require_plan, tell
from sqlanon.release.raise_levels import find_last_resort, may_be_raised, raise_one_level
from sqlanon.release.rewrite_release import Rewriting, plan_rewriting
from sqlanon.release.second_draws import described_draws, require_same_draws, require_same_scales
from sqlanon.release.solve_policy import plan_of, prepare_problem, solve_problem
from sqlanon.release.targets.choose_target import target_of
from sqlanon.release.targets.target import Staged, Target, require_writable


@dataclass(repr=False)  # it holds the key
class Publishing:
    """A release on its way: what was asked for, and below it what each stage made of it."""

    policy: Policy
    engine: Engine
    secret: str | None
    time_limit: float | None
    workload: bool
    progress: Progress | None
    plan_hash: str | None
    run: int | None
    resources: ExitStack  # what is given back when all is done, or when a stage fails
    advises: bool = False
    target: Target | None = None  # none for a dry run
    task: Problem = field(init=False)
    solution: Solution = field(init=False)
    plan: Plan = field(init=False)
    how: Rewriting = field(init=False)
    staged: Staged | None = None
    beside: Comparison | None = None  # where the policy has a history
    found: Evidence | None = None
    evidence: ReleaseEvidence = field(init=False)
    advice: tuple[str, ...] = ()

    @property
    def written(self) -> tuple[Target, Staged]:
        """Where the release goes, and how it was written there so that nobody sees it yet."""
        assert self.target is not None and self.staged is not None, "a dry run writes nothing"
        return self.target, self.staged


def admit(release: Publishing) -> None:
    """Refuse, before any work is done, what could not be published in the end."""
    policy, engine, target, secret = release.policy, release.engine, release.target, release.secret
    if target is None:
        return
    require_writable(target, engine)
    if any(column.pseudonym for column in policy.columns.values()):
        require_secret(secret, "pseudonyms")
    if target.kind not in ("path", "memory"):
        require_history(policy, engine, target.name)
        require_named(policy, engine, target.name)
    require_same_draws(policy, engine, secret)


def prepare(release: Publishing) -> None:
    """Compress the source, and read what earlier releases ask of this one."""
    policy, engine = release.policy, release.engine
    release.task = prepare_problem(
        policy, engine, time_limit=release.time_limit, progress=release.progress, secret=release.secret
    )
    release.resources.callback(release.task.close)
    if release.target is not None:
        require_same_scales(policy, engine)
    if policy.release is not None:
        release.task = read_past(release.task, policy.release.table or policy.release.view or "", release.secret)
    if release.task.records < FEW_ROWS:
        release.resources.enter_context(engine.one_thread())


def search(release: Publishing) -> None:
    """Find the best anonymization; refuse it if it is not the plan that was asked for."""
    release.solution, release.plan = solve_problem(release.task)
    require_plan(release.plan, release.plan_hash)


def rewrite(release: Publishing) -> None:
    """Make the SELECT of the release."""
    release.how = plan_rewriting(release.task, release.solution, release.secret)


def outline(release: Publishing) -> None:
    """Describe what would be published."""
    release.evidence = describe_release(release.task, release.solution, release.plan, release.how)


def stage(release: Publishing) -> None:
    """Write the release where nobody sees it yet."""
    assert release.target is not None
    release.staged = release.target.stage(release.how)
    tell(release.progress, "writing the release", 1, 1)
    tell(release.progress, "checking the release", 0, 1)
    require_all_rows(release.task, release.solution, release.staged)


def compare_with_history(release: Publishing) -> None:
    """Hold back what would tell too much beside earlier releases. Where levels are ours to choose, raise them instead,
    one at a time, and write the release anew."""
    task = release.task
    if task.policy.history is None:
        return
    first, also = release.solution, frozenset[str]()
    while True:
        beside = release.beside = _compare(release, also)
        if beside.holds or also or not may_be_raised(task, release.solution, beside.results):
            require_safe(beside)
            return
        higher = raise_one_level(task, release.solution)
        if higher is None:  # rows wait where nothing else helps
            also = find_last_resort(beside.results)
            if not also:
                require_safe(beside)
        beside.close()
        task.engine.execute(exp.Drop(tables=[table_tree(release.written[1].name)], kind="TABLE"))
        solution = release.solution = higher or first
        release.plan = plan_of(task, "fixed_levels", {"levels": task.table.levels(solution.passes[0])}, solution)
        rewrite(release)
        stage(release)


def _compare(release: Publishing, also: frozenset[str]) -> Comparison:
    task, solution = release.task, release.solution
    target, staged = release.written
    paths = paths_of(task, solution)
    cuts = solution.regions.cuts if solution.regions is not None else None
    made_up = None if solution.assigned is None else solution.assigned.number
    return compare(task.policy, task.engine, staged, target.name, release.secret, paths, also, made_up, cuts)


def check_as_written(release: Publishing) -> None:
    """Measure every model on the rows as they were written, and refuse the release if one is broken."""
    task, (_, staged) = release.task, release.written
    # Nobody can tell rows of nobody from others: where there are any, rows are counted, one for each person.
    rule = task.policy if release.solution.assigned is None else task.policy.model_copy(update={"person": None})
    found = release.found = check(rule, task.engine, release=staged.source, hidden=staged.hidden, limit=0)
    require_kept(found)


def describe(release: Publishing) -> None:
    """Put together all that was measured."""
    task, solution, (target, staged) = release.task, release.solution, release.written
    evidence = describe_release(task, solution, release.plan, release.how, release.found, target, staged)
    draws = described_draws(task.table.written, task.engine, release.secret)
    evidence = replace(evidence, draws=draws, run=release.run)
    if release.beside is not None:
        evidence = without_originals(add_history(evidence, release.beside.described(), solution.waiting))
    release.evidence = evidence


def remember_classes(release: Publishing) -> None:
    """Keep what the next release must be compared with."""
    if release.beside is not None:
        remember(release.beside, release.plan.hash)
        release.beside.close()
    tell(release.progress, "checking the release", 1, 1)


def measure_workload(release: Publishing) -> None:
    """Measure the error of random counts on the release. With a history it would tell of rows that are held back."""
    if release.workload and len(release.solution.passes) == 1 and release.beside is None:
        asking = partial(tell, release.progress, "asking the release")
        release.evidence = replace(release.evidence, workload=workload_of(release.task, release.how, asking))


def swap(release: Publishing) -> None:
    """Show the release in place of the previous one, with its record."""
    task, (target, staged) = release.task, release.written
    # Of the rows that were read in this transaction, so that the record speaks of what was published.
    known = fingerprint(task.engine, task.prelude.rows, release.secret) if _has_record(task.policy) else None
    target.swap(staged, release.plan, release.evidence.to_json(), known)
    if task.policy.history is not None and task.policy.history.beside is not None:
        keep_shown(task.engine, target.name)


def _has_record(policy: Policy) -> bool:
    """Beside a single file there is its evidence, and nothing that tells versions apart."""
    return policy.release is not None and (policy.release.path is None or policy.release.is_folder)


Stage = Callable[[Publishing], None]
# What is done with a release that is found, in one transaction.
WRITING: tuple[Stage, ...] = (
    stage,
    compare_with_history,
    check_as_written,
    describe,
    remember_classes,
    measure_workload,
    swap,
)


def write(release: Publishing) -> None:
    """Write, check and show the release: others see the old one or the new one, and after an error the old one."""
    assert release.target is not None
    tell(release.progress, "writing the release", 0, 1)
    try:
        with release.engine.transaction():
            for step in WRITING:
                step(release)
        release.target.finish(release.written[1], release.evidence.to_json())
    except BaseException:
        if release.staged is not None:
            release.target.discard(release.staged)
        raise


def advise(release: Publishing) -> None:
    """Say what another choice at the same privacy would keep, where that is asked for: it takes a search more."""
    if not release.advises:
        return
    release.advice = give_advice(release.task, release.solution, release.evidence.to_json()["attributes"])


STAGES: tuple[Stage, ...] = (admit, prepare, search, rewrite, write, advise)
DRY_RUN: tuple[Stage, ...] = (prepare, search, rewrite, outline, advise)


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
    advice: bool = False,
    target: Target | None = None,
) -> Published:
    """Find, write, check and swap in the release of a policy. An error at any point leaves the previous one in place.

    `time_limit` in seconds is for the search, which takes a minute for a proof if none is given; `secret` is the key of
    pseudonyms and draws; `workload` asks for the error of random counts, which takes a few seconds. With `plan_hash`,
    or how it begins, only that plan is carried out.
    `run` is the number of the run in the record of runs, which the evidence then names. With `advice`, one more search
    of at most a few seconds says what another algorithm would keep.
    `progress` is told what is going on, and how much of it is done. `target` is where it goes, if not where the policy
    says.
    """
    engine.admit(policy, publishes=True)
    if target is None and not dry_run:
        target = target_of(policy, engine)
    with ExitStack() as resources:
        release = Publishing(
            policy, engine, secret, time_limit, workload, progress, plan_hash, run, resources, advice, target=target
        )
        if (maker := maker_of(policy)) is not None:
            admit(release)
            doing, make = maker
            made = make(policy, engine, secret)
            return publish_made(made, doing, target, secret=secret, progress=progress, plan_hash=plan_hash, run=run)
        for step in DRY_RUN if target is None else STAGES:
            step(release)
        document = release.evidence.to_json()
        return Published(release.plan, document, release.found, release.solution.ways, release.advice)

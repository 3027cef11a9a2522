"""Publish by parting rows: groups are made, tables written and checked as they are, and swapped in all at once."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

from sqlglot import exp

from sqlanon import algorithms
from sqlanon.buckets.bucketize import Parted, Rows, prepare_rows, require_fit
from sqlanon.engines import Engine
from sqlanon.engines.companion_files import companion_file
from sqlanon.engines.temp_tables import drop_steps
from sqlanon.errors import EngineError, NotReleased, PolicyError
from sqlanon.evidence.apply_transformations import Transformed, apply, require_secret
from sqlanon.evidence.checks import Evidence, check
from sqlanon.evidence.release_evidence import ReleaseEvidence
from sqlanon.families import plugin
from sqlanon.lattice.problem import Problem
from sqlanon.lattice.solution import Solution
from sqlanon.plan import Plan, policy_hash
from sqlanon.policy import Policy, Source, missing_columns
from sqlanon.relations.bucketization import companion, has_two_tables, parts_rows, sizes
from sqlanon.relations.check_script import render_create
from sqlanon.relations.rewrite import shuffle_rows
from sqlanon.relations.source import relation
from sqlanon.release.count_evidence import sizes_of
from sqlanon.release.evidence_document import add_verdict, outline_release
from sqlanon.release.fingerprint import fingerprint
from sqlanon.release.publication import Progress, Published, require_plan, require_roles, tell
from sqlanon.release.rewrite_release import Rewriting
from sqlanon.release.second_draws import described_draws, require_same_scales
from sqlanon.release.solve_policy import search_rows
from sqlanon.release.targets.file_target import FileTarget
from sqlanon.release.targets.relation_target import RelationTarget
from sqlanon.release.targets.target import Staged, Target
from sqlanon.sqltree.tree import alias, count_all, nest_query, select


@dataclass
class BucketTask:
    """`asked` is the policy as it was written, `policy` reads the rows after its transformations."""

    asked: Policy
    policy: Policy
    rows: Rows
    made: Parted
    before: Transformed | None

    @property
    def engine(self) -> Engine:
        return self.rows.engine

    @property
    def how(self) -> Rewriting:
        """In an order that tells nothing."""
        also = {ending: shuffle_rows(tree.copy()) for ending, tree in self.made.companions.items()}
        return Rewriting(
            shuffle_rows(self.made.select.copy()), self.made.hidden, companions=also, views=self.made.views
        )

    def close(self) -> None:
        self.rows.close()
        if self.before is not None:
            drop_steps(self.engine, self.before.prelude.steps)


def form_groups(policy: Policy, engine: Engine, secret: str | None) -> BucketTask:
    """Make the groups of a policy, in temporary tables."""
    require_fit(policy)
    require_secret(secret, "groups")
    assert policy.algorithm is not None
    if policy.release is not None and has_two_tables(policy) and (policy.release.view or policy.release.is_folder):
        name = f"{policy.source.table or 'patients'}_released"
        raise policy.error(
            f"{policy.algorithm.name} is released into tables or files, two at a time: no view or folder holds both",
            "release",
            hint=f"write 'release: {{table: {name}}}' or 'release: {{path: {name}.parquet}}'",
        )
    if policy.source.joins:
        raise PolicyError(
            f"{policy.algorithm.name} does not read joined tables", hint="join them in a view or 'query:' first"
        )
    module = algorithms.row_algorithm(policy.algorithm.name)
    params = module.Params.model_validate(policy.algorithm.params)
    if policy.source.due is None:  # one time for all statements, or they would not read the same rows
        policy = policy.at(datetime.now(UTC))
    available = [item.name for item in engine.columns(relation(engine.resolve(policy.source), engine.dialect))]
    missing_columns(policy, available)
    require_roles(policy, available)
    before = apply(policy, engine, secret, prefix="sqlanon_search") if policy.transformations else None
    read = before.policy if before is not None else policy
    rows = None
    try:
        rows = prepare_rows(read, engine, secret, module.TRAITS.seeds)
        rows.search = partial(_blindly, rows)
        return BucketTask(policy, read, rows, module.part(rows, params), before)
    except BaseException as error:
        if rows is not None:
            rows.close()
        if before is not None:
            drop_steps(engine, before.prelude.steps)
        told = isinstance(error, PolicyError) and (error.detail or error.message.startswith(f"{policy.name}:"))
        if isinstance(error, PolicyError) and not told:  # the algorithm does not do what the policy asks of it
            raise policy.error(error.message, "algorithm", hint=error.hint) from None
        raise


def publish(
    policy: Policy,
    engine: Engine,
    target: Target | None,
    *,
    secret: str | None,
    progress: Progress | None,
    plan_hash: str | None,
    run: int | None,
) -> Published:
    """Make groups, write their tables, check them and swap them in; without a target, tell what would be done."""
    tell(progress, "making groups", 0, 1)
    task = form_groups(policy, engine, secret)
    try:
        plan = plan_of(task)
        require_plan(plan, plan_hash)
        tell(progress, "making groups", 1, 1)
        if target is None:
            return Published(plan, describe_buckets(task, plan).to_json())
        require_same_scales(task.asked, engine)
        tell(progress, "writing the release", 0, 1)
        found, document = write(task, target, plan, run, secret)
        tell(progress, "writing the release", 1, 1)
        return Published(plan, document, found)
    finally:
        task.close()


def _blindly(rows: Rows, policy: Policy) -> tuple[Problem, Solution]:
    """The best generalization of rows by models that do not look at the sensitive column."""
    blind = tuple(use for use in policy.models if "sensitive" not in plugin("models", use.name).needs)
    if not blind:
        raise PolicyError(
            "no model is left that does not look at the sensitive column", hint="add for example k_anonymity"
        )
    asked = policy.model_copy(update={"models": blind, "algorithm": None})
    return search_rows(asked, rows.engine, rows.tree)


def plan_of(task: BucketTask) -> Plan:
    use = task.asked.algorithm
    assert use is not None
    return Plan(
        policy=policy_hash(task.asked),
        algorithm=use.name,
        params=algorithms.algorithm(use.name).Params.model_validate(use.params).model_dump(mode="json"),
        minimize="ncp",
        records=task.rows.records,
        suppressed=task.made.suppressed,
        loss=task.made.loss,  # of the quasi-identifiers
        proven=task.made.proven,
        why=task.made.why,
        passes=task.made.passes,
        transformed=task.before.outline.described() if task.before is not None else {},
    )


def write(
    task: BucketTask, target: Target, plan: Plan, run: int | None, secret: str | None
) -> tuple[Evidence, dict[str, Any]]:
    """Write the tables, check them as written, and swap them in."""
    staged: Staged | None = None
    how = task.how
    if isinstance(target, RelationTarget):  # a file has no views beside it
        target.require_free((*how.companions, *how.views))
    elif isinstance(target, FileTarget):
        target.require_free(how.companions)
    try:
        with task.engine.transaction():
            staged = target.stage(how)
            found = measure_groups(task, staged)
            draws = described_draws(task.asked, task.engine, secret)
            document = replace(describe_buckets(task, plan, found, target, staged), draws=draws, run=run).to_json()
            rows = relation(task.engine.resolve(task.policy.source), task.engine.dialect)
            target.swap(staged, plan, document, fingerprint(task.engine, rows, secret))
        target.finish(staged, document)
    except BaseException:
        if staged is not None:
            target.discard(staged)
        raise
    return found, document


def measure_groups(task: BucketTask, staged: Staged) -> Evidence:
    """Every model on the groups of the tables as they were written; an error if one of them is broken."""
    found = check(task.policy, task.engine, release=staged.source, hidden=staged.hidden, limit=0)
    rows = relation(task.engine.resolve(staged.source), task.engine.dialect)
    number = int(task.engine.query(select(count_all(), source=nest_query(rows, "release")))[0][0])
    meant = task.rows.records - task.made.suppressed
    if number != meant:
        raise EngineError(
            f"the release was not published: {number:,} rows were written, {meant:,} were meant",
            hint="the previous release, if any, is still in place; was the source changed meanwhile?",
        )
    if not found.holds:
        broken = [f"{item.model}: {item.broken_classes:,} groups broken" for item in found.checks if not item.holds]
        raise NotReleased(
            "the release was not published: as written it breaks the policy",
            detail="\n".join([*broken, *found.breaches]),
            hint="the previous release, if any, is still in place; ask the algorithm for larger groups",
        )
    return found


def describe_buckets(
    task: BucketTask,
    plan: Plan,
    found: Evidence | None = None,
    target: Target | None = None,
    staged: Staged | None = None,
) -> ReleaseEvidence:
    """Everything that was measured. Without `found` it is the plan of a dry run."""
    groups: dict[str, Any] = {"number": task.made.groups, **task.made.measured}
    evidence = outline_release(
        task.asked, plan, task.rows.records, task.made.suppressed, sql=_script(task), groups=groups
    )
    if found is None or target is None or staged is None:
        return evidence
    if parts_rows(task.asked):
        rows = relation(task.engine.resolve(staged.source), task.engine.dialect)
        counted = select(alias(exp.column("n"), "records"), source=nest_query(sizes(rows), "g"))
        groups["sizes"] = sizes_of(task.engine, counted)[0]
    return add_verdict(evidence, found, target, staged)


def _script(task: BucketTask) -> str:
    """The SQL of the release: the temporary tables that it reads, then the tables themselves."""
    dialect, how = task.engine.dialect, task.how
    steps = [*(task.before.prelude.steps if task.before is not None else ()), *task.rows.prelude.steps]
    parts = [render_create(step, dialect) for step in steps]
    parts.append("-- the release\n" + how.shown.sql(dialect, pretty=True) + ";")
    given = task.asked.release
    name = given.name if given is not None else "release"
    as_files = given is not None and given.path is not None
    of = companion_file if as_files else companion
    for ending, tree in how.companions.items():
        parts.append(f"-- {of(name, ending)}\n" + tree.sql(dialect, pretty=True) + ";")
    for ending, view in how.views.items() if not as_files else ():
        parts.append(f"-- {companion(name, ending)}, a view\n" + view(name).sql(dialect, pretty=True) + ";")
    return "\n\n".join(parts) + "\n"


def temporary(task: BucketTask, name: str) -> Staged:
    """The tables as temporary ones, to be looked at and forgotten; for a plan."""
    how = task.how
    task.engine.create_temporary(name, how.select)
    for ending, tree in how.companions.items():
        task.engine.create_temporary(companion(name, ending), tree)
    return Staged(name, Source(table=name), how.hidden, tuple(how.companions), how.views)

"""Make a release by parting rows into groups, whose tables are written together."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from sqlglot import exp

from sqlanon import algorithms
from sqlanon.buckets.bucketize import Parted, Rows, prepare_rows, require_fit
from sqlanon.engines import Engine
from sqlanon.engines.temp_tables import drop_steps
from sqlanon.errors import PolicyError
from sqlanon.evidence.apply_transformations import Transformed, apply, require_secret
from sqlanon.evidence.release_evidence import ReleaseEvidence
from sqlanon.families import plugin
from sqlanon.lattice.problem import Problem
from sqlanon.lattice.solution import Solution
from sqlanon.plan import Plan
from sqlanon.policy import Policy, missing_columns
from sqlanon.relations.bucketization import has_two_tables, parts_rows, sizes
from sqlanon.relations.rewrite import shuffle_rows
from sqlanon.relations.source import relation
from sqlanon.release.count_evidence import sizes_of
from sqlanon.release.evidence_document import outline_release
from sqlanon.release.made_release import MadeRelease, at_one_time, blame_algorithm, plan_made, render_script
from sqlanon.release.publication import require_roles
from sqlanon.release.rewrite_release import Rewriting
from sqlanon.release.solve_policy import search_rows
from sqlanon.release.targets.target import Staged
from sqlanon.sqltree.tree import alias, nest_query, select


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


@contextmanager
def make_release(policy: Policy, engine: Engine, secret: str | None) -> Iterator[MadeRelease]:
    """Make the groups of a policy, in temporary tables that go at the end."""
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
    policy = at_one_time(policy)
    available = [item.name for item in engine.columns(relation(engine.resolve(policy.source), engine.dialect))]
    missing_columns(policy, available)
    require_roles(policy, available)
    before = apply(policy, engine, secret, prefix="sqlanon_search") if policy.transformations else None
    read = before.policy if before is not None else policy
    rows = None
    try:
        with blame_algorithm(policy):
            rows = prepare_rows(read, engine, secret, module.TRAITS.seeds)
            rows.search = partial(_blindly, rows)
            made = module.part(rows, params)
        yield _as_made(BucketTask(policy, read, rows, made, before))
    finally:
        if rows is not None:
            rows.close()
        if before is not None:
            drop_steps(engine, before.prelude.steps)


def _as_made(task: BucketTask) -> MadeRelease:
    rows, made, transformed = task.rows, task.made, task.before
    use = task.asked.algorithm
    assert use is not None
    described = transformed.outline.described() if transformed is not None else {}
    plan = plan_made(
        task.asked, use, made, rows.records, made.suppressed, passes=made.passes, transformed=described
    )  # the loss is that of the quasi-identifiers
    return MadeRelease(
        task.asked,
        task.policy,
        task.engine,
        plan,
        task.how,
        relation(task.engine.resolve(task.policy.source), task.engine.dialect),
        meant=rows.records - made.suppressed,
        broken="groups",
        outline=lambda: _outline(task, plan),
        describe=lambda outlined, staged: _add_sizes(task, outlined, staged),
        advice="ask the algorithm for larger groups",
    )


def _blindly(rows: Rows, policy: Policy) -> tuple[Problem, Solution]:
    """The best generalization of rows by models that do not look at the sensitive column."""
    blind = tuple(use for use in policy.models if "sensitive" not in plugin("models", use.name).needs)
    if not blind:
        raise PolicyError(
            "no model is left that does not look at the sensitive column", hint="add for example k_anonymity"
        )
    asked = policy.model_copy(update={"models": blind, "algorithm": None})
    return search_rows(asked, rows.engine, rows.tree)


def _outline(task: BucketTask, plan: Plan) -> ReleaseEvidence:
    """Everything that is known before it is written."""
    groups: dict[str, Any] = {"number": task.made.groups, **task.made.measured}
    before = task.before.prelude.steps if task.before is not None else ()
    script = render_script((*before, *task.rows.prelude.steps), task.how, task.asked, task.engine.dialect)
    return outline_release(task.asked, plan, task.rows.records, task.made.suppressed, sql=script, groups=groups)


def _add_sizes(task: BucketTask, outlined: ReleaseEvidence, staged: Staged) -> ReleaseEvidence:
    """How large the groups are, where these have a number of their own."""
    if not parts_rows(task.asked):
        return outlined
    rows = relation(task.engine.resolve(staged.source), task.engine.dialect)
    counted = select(alias(exp.column("n"), "records"), source=nest_query(sizes(rows), "g"))
    return replace(outlined, groups={**(outlined.groups or {}), "sizes": sizes_of(task.engine, counted)[0]})

"""Make a release of persons with all their rows: tables with numbers in place of persons and keys."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

from sqlglot import exp

from sqlanon import algorithms
from sqlanon.buckets.bucketize import Parted
from sqlanon.engines import Engine
from sqlanon.engines.temp_tables import drop_steps
from sqlanon.entities.forest import PREFIX, EntityForest, compress_trees, mean_losses
from sqlanon.errors import NotReleased, PolicyError
from sqlanon.evidence.apply_transformations import Transformed, apply
from sqlanon.evidence.checks import require_persons_known
from sqlanon.evidence.entity_checks import count_rows
from sqlanon.evidence.hierarchies import build_hierarchies, require_valid
from sqlanon.evidence.joined_tables import entity_tree, released_tables
from sqlanon.evidence.release_evidence import Attribute, ClassSizes, ReleaseEvidence, RiskSides
from sqlanon.lattice.nodes import Infeasible
from sqlanon.lattice.problem import FEW_ROWS
from sqlanon.plan import Plan
from sqlanon.policy import AlgorithmUse, Policy, missing_columns
from sqlanon.relations.classes import Prelude
from sqlanon.relations.compressed_rows import root_only
from sqlanon.relations.entities import EntityTable, sign_rows
from sqlanon.relations.source import relation
from sqlanon.release.count_evidence import sizes_of
from sqlanon.release.evidence_document import outline_release
from sqlanon.release.made_release import MadeRelease, at_one_time, plan_made, render_script
from sqlanon.release.publication import require_roles
from sqlanon.release.rewrite_release import Rewriting
from sqlanon.release.targets.target import Staged
from sqlanon.sqltree.tree import alias, count_all, nest_query, select, table


@dataclass
class EntityTask:
    """`asked` is the policy as it was written, `policy` reads the rows after its transformations."""

    asked: Policy
    policy: Policy
    forest: EntityForest
    made: Parted
    before: Transformed | None

    @property
    def engine(self) -> Engine:
        return self.forest.engine

    @property
    def how(self) -> Rewriting:
        return Rewriting(self.made.select, (), companions=self.made.companions)


@contextmanager
def make_release(policy: Policy, engine: Engine, secret: str | None) -> Iterator[MadeRelease]:
    """Read the trees of persons and run the algorithm of the policy on them, in temporary tables that go at the end."""
    _require_target(policy)
    if policy.minimize != "ncp":
        raise policy.error(
            f"entities are released with the least ncp, not {policy.minimize}", "minimize", hint="leave 'minimize' out"
        )
    use = algorithm_of(policy)
    module: Any = algorithms.row_algorithm(use.name)
    params = module.Params.model_validate(use.params)
    with engine.one_thread() if _is_small(policy, engine) else nullcontext():
        policy = at_one_time(policy)
        _require_columns(policy, engine)
        before = apply(policy, engine, secret, prefix="sqlanon_search") if policy.transformations else None
        read = before.policy if before is not None else policy
        forest = None
        try:
            forest = _read_forest(read, engine)
            try:
                made = module.part(forest, params)
            except Infeasible:
                raise _infeasible(policy) from None
            yield _as_made(EntityTask(policy, read, forest, made, before))
        finally:
            if forest is not None:
                forest.close()
            if before is not None:
                drop_steps(engine, before.prelude.steps)


def _as_made(task: EntityTask) -> MadeRelease:
    forest, made, transformed = task.forest, task.made, task.before
    described = transformed.outline.described() if transformed is not None else {}
    plan = plan_made(
        task.asked, algorithm_of(task.asked), made, forest.records, made.suppressed,
        passes=made.passes, transformed=described,
    )  # fmt: skip
    return MadeRelease(
        task.asked,
        task.policy,
        task.engine,
        plan,
        Rewriting(made.select, (), companions=made.companions),
        forest.tree.rows,
        meant=forest.records - made.suppressed,
        broken="classes",
        outline=lambda: _outline(task, plan),
        describe=lambda outlined, staged: _add_sizes(task, outlined, staged),
        count=lambda staged: count_rows(task.engine, _released(task, staged)),
    )


def _is_small(policy: Policy, engine: Engine) -> bool:
    """Whether the first table has so few rows that many statements cost more than their work."""
    rows = relation(engine.resolve(policy.source.model_copy(update={"joins": ()})), engine.dialect)
    first = select(exp.Star(), source=nest_query(rows, "source")).limit(FEW_ROWS)
    return int(engine.query(select(count_all(), source=nest_query(first, "first_rows")))[0][0]) < FEW_ROWS


def algorithm_of(policy: Policy) -> AlgorithmUse:
    return policy.algorithm or AlgorithmUse(name="entity_levels")


def _infeasible(policy: Policy) -> NotReleased:
    return NotReleased(
        f"no generalization was found that meets the requirements within the suppression limit of "
        f"{policy.suppression_limit:.1%}",
        detail="a person with a number of rows that too few others have cannot be hidden by levels",
        hint="allow more suppression, keep fewer rows of a person with the transformation 'truncation', or take the "
        "algorithm entity_clusters",
    )


def _require_target(policy: Policy) -> None:
    """Several tables go into a database; one may go anywhere."""
    if policy.source.joins and policy.release is not None and policy.release.table is None:
        raise policy.error(
            "a source with child tables is released into tables: no view, file or folder holds all of them",
            "release",
            hint=f"write 'release: {{table: {policy.source.table or 'persons'}_released}}'",
        )


def _require_columns(policy: Policy, engine: Engine) -> None:
    tree = entity_tree(policy, engine, engine.resolve(policy.source))
    available = list(dict.fromkeys(name for item in tree.all_tables for name in item.columns))
    missing_columns(policy, available)
    require_roles(policy, available)
    for item in tree.all_tables:
        for branch in item.branches:
            for name in {name for pair in branch.on for name in pair} - {policy.person}:
                if policy.columns[name].role != "identifier":
                    raise policy.error(
                        f"column '{name}' is a key, and is {policy.columns[name].role}",
                        "columns",
                        name,
                        hint="make it an identifier: a number is shown in its place",
                    )


def _read_forest(policy: Policy, engine: Engine) -> EntityForest:
    given = build_hierarchies(policy)
    hierarchies = {name: root_only() for name in policy.quasi_identifiers} | given
    tree = entity_tree(policy, engine, engine.resolve(policy.source))
    require_persons_known(engine, policy.person, tree.rows)
    if not count_rows(engine, replace(tree, branches=())):
        raise PolicyError("the source has no rows", hint="there is nothing to publish")
    for item in tree.all_tables:
        prelude = Prelude(item.rows, engine.dialect)
        require_valid(policy, engine, {name: of for name, of in given.items() if name in item.columns}, prelude)
    return compress_trees(policy, engine, tree, hierarchies, Prelude(tree.rows, engine.dialect, prefix=PREFIX))


def _released(task: EntityTask, staged: Staged) -> EntityTable:
    return entity_tree(task.policy, task.engine, task.engine.resolve(released_tables(task.policy, staged.source)))


def _outline(task: EntityTask, plan: Plan) -> ReleaseEvidence:
    """Everything that is known before it is written."""
    forest, made = task.forest, task.made
    before = task.before.prelude.steps if task.before is not None else ()
    how = Rewriting(made.select, (), companions=made.companions)
    evidence = outline_release(
        task.asked,
        plan,
        forest.records,
        made.suppressed,
        sql=render_script((*before, *forest.prelude.steps), how, task.asked, task.engine.dialect),
        loss={"ncp": made.loss},
        attributes=_attributes(task),
    )
    return replace(evidence, more={**evidence.more, "entities": {"persons": forest.persons, **made.measured}})


def _add_sizes(task: EntityTask, outlined: ReleaseEvidence, staged: Staged) -> ReleaseEvidence:
    """How many persons are alike, before and after."""
    before = sizes_of(task.engine, _class_sizes(task.forest.signed.owners))
    prelude = Prelude(task.forest.tree.rows, task.engine.dialect, prefix="sqlanon_released")
    assert task.policy.person is not None
    released = sign_rows(prelude, _released(task, staged), [task.policy.person], task.policy.quasi_identifiers)
    try:
        for step in prelude.steps:
            task.engine.create_temporary(step.name, step.query)
        after = sizes_of(task.engine, _class_sizes(released.owners))
    finally:
        drop_steps(task.engine, prelude.steps)
    return replace(
        outlined,
        class_sizes=ClassSizes(before=before[0], after=after[0]),
        risk=RiskSides(before=before[1], after=after[1]),
    )


def _class_sizes(owners: str) -> exp.Select:
    return select(alias(count_all(), "records"), source=table(owners), groups=["signature"])


def _attributes(task: EntityTask) -> tuple[Attribute, ...]:
    """Per quasi-identifier its level, and what its cells lose in the mean if no row is suppressed."""
    forest = task.forest
    losses = mean_losses(forest)
    found = []
    for domain in forest.all_domains:
        levels = tuple(item[domain.name] for item in task.made.passes)
        use = forest.policy.hierarchies.get(domain.name)
        loss = None
        if levels:
            most = losses[domain.name][-1]
            loss = losses[domain.name][levels[0]] / most if most else 0.0
        found.append(
            Attribute(
                name=domain.name,
                role="quasi_identifier",
                level=levels[0] if levels else None,
                levels=levels,
                height=domain.height,
                loss=loss,
                what=use.kind if use else "shown or hidden",
                weight=forest.policy.columns[domain.name].weight,
            )
        )
    return tuple(found)

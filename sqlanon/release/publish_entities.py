"""Publish persons with all their rows: the tables of a source are written with numbers in place of persons and keys,
checked as they are, and swapped in all at once."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from sqlglot import exp

from sqlanon import algorithms
from sqlanon.buckets.bucketize import Parted
from sqlanon.engines import Engine
from sqlanon.engines.temp_tables import drop_steps
from sqlanon.entities.forest import PREFIX, EntityForest, compress_trees, mean_losses
from sqlanon.errors import EngineError, NotReleased, PolicyError
from sqlanon.evidence.apply_transformations import Transformed, apply
from sqlanon.evidence.checks import Evidence, check, require_persons_known
from sqlanon.evidence.entity_checks import count_rows
from sqlanon.evidence.hierarchies import build_hierarchies, require_valid
from sqlanon.evidence.joined_tables import entity_tree, released_tables
from sqlanon.evidence.release_evidence import Attribute, ClassSizes, ReleaseEvidence, RiskSides
from sqlanon.lattice.nodes import Infeasible
from sqlanon.lattice.problem import FEW_ROWS
from sqlanon.plan import Plan, policy_hash
from sqlanon.policy import AlgorithmUse, Policy, missing_columns
from sqlanon.relations.check_script import render_create
from sqlanon.relations.classes import Prelude
from sqlanon.relations.compressed_rows import root_only
from sqlanon.relations.entities import EntityTable, sign_rows
from sqlanon.relations.source import relation
from sqlanon.release.count_evidence import sizes_of
from sqlanon.release.evidence_document import add_verdict, outline_release
from sqlanon.release.fingerprint import fingerprint
from sqlanon.release.publication import Progress, Published, require_plan, require_roles, tell
from sqlanon.release.rewrite_release import Rewriting
from sqlanon.release.second_draws import described_draws, require_same_scales
from sqlanon.release.targets.file_target import FileTarget
from sqlanon.release.targets.relation_target import RelationTarget
from sqlanon.release.targets.target import Staged, Target
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

    def close(self) -> None:
        self.forest.close()
        if self.before is not None:
            drop_steps(self.engine, self.before.prelude.steps)


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
    """Find the release, write its tables, check them and swap them in; without a target, tell what would be done."""
    with engine.one_thread() if _is_small(policy, engine) else nullcontext():
        return _publish(policy, engine, target, secret, progress, plan_hash, run)


def _is_small(policy: Policy, engine: Engine) -> bool:
    """Whether the first table has so few rows that many statements cost more than their work."""
    rows = relation(engine.resolve(policy.source.model_copy(update={"joins": ()})), engine.dialect)
    first = select(exp.Star(), source=nest_query(rows, "source")).limit(FEW_ROWS)
    return int(engine.query(select(count_all(), source=nest_query(first, "first_rows")))[0][0]) < FEW_ROWS


def _publish(
    policy: Policy,
    engine: Engine,
    target: Target | None,
    secret: str | None,
    progress: Progress | None,
    plan_hash: str | None,
    run: int | None,
) -> Published:
    tell(progress, "reading the rows of persons", 0, 1)
    task = find_release(policy, engine, secret)
    try:
        plan = plan_of(task)
        require_plan(plan, plan_hash)
        tell(progress, "reading the rows of persons", 1, 1)
        if target is None:
            return Published(plan, describe_entities(task, plan).to_json())
        require_same_scales(task.asked, engine)
        tell(progress, "writing the release", 0, 1)
        found, document = write(task, target, plan, run, secret)
        tell(progress, "writing the release", 1, 1)
        return Published(plan, document, found)
    finally:
        task.close()


def algorithm_of(policy: Policy) -> AlgorithmUse:
    return policy.algorithm or AlgorithmUse(name="entity_levels")


def find_release(policy: Policy, engine: Engine, secret: str | None) -> EntityTask:
    """Read the trees of persons, and run the algorithm of the policy on them."""
    _require_target(policy)
    if policy.minimize != "ncp":
        raise policy.error(
            f"entities are released with the least ncp, not {policy.minimize}", "minimize", hint="leave 'minimize' out"
        )
    use = algorithm_of(policy)
    module: Any = algorithms.row_algorithm(use.name)
    params = module.Params.model_validate(use.params)
    if policy.source.due is None:  # one time for all statements, or they would not read the same rows
        policy = policy.at(datetime.now(UTC))
    _require_columns(policy, engine)
    before = apply(policy, engine, secret, prefix="sqlanon_search") if policy.transformations else None
    read = before.policy if before is not None else policy
    forest = None
    try:
        forest = _read_forest(read, engine)
        return EntityTask(policy, read, forest, module.part(forest, params), before)
    except BaseException as error:
        if forest is not None:
            forest.close()
        if before is not None:
            drop_steps(engine, before.prelude.steps)
        if isinstance(error, Infeasible):
            raise _infeasible(policy) from None
        raise


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


def plan_of(task: EntityTask) -> Plan:
    use = algorithm_of(task.asked)
    return Plan(
        policy=policy_hash(task.asked),
        algorithm=use.name,
        params=algorithms.algorithm(use.name).Params.model_validate(use.params).model_dump(mode="json"),
        minimize="ncp",
        records=task.forest.records,
        suppressed=task.made.suppressed,
        loss=task.made.loss,
        proven=task.made.proven,
        why=task.made.why,
        passes=task.made.passes,
        transformed=task.before.outline.described() if task.before is not None else {},
    )


def write(
    task: EntityTask, target: Target, plan: Plan, run: int | None, secret: str | None
) -> tuple[Evidence, dict[str, Any]]:
    """Write the tables, check them as written, and swap them in."""
    staged: Staged | None = None
    how = task.how
    if isinstance(target, RelationTarget | FileTarget):
        target.require_free(how.companions)
    try:
        with task.engine.transaction():
            staged = target.stage(how)
            found = measure_entities(task, staged)
            draws = described_draws(task.asked, task.engine, secret)
            document = replace(describe_entities(task, plan, found, target, staged), draws=draws, run=run).to_json()
            target.swap(staged, plan, document, fingerprint(task.engine, task.forest.tree.rows.copy(), secret))
        target.finish(staged, document)
    except BaseException:
        if staged is not None:
            target.discard(staged)
        raise
    return found, document


def measure_entities(task: EntityTask, staged: Staged) -> Evidence:
    """Every model on the persons of the tables as they were written; an error if one of them is broken."""
    found = check(task.policy, task.engine, release=staged.source, hidden=staged.hidden, limit=0)
    number = count_rows(task.engine, _released(task, staged))
    meant = task.forest.records - task.made.suppressed
    if number != meant:
        raise EngineError(
            f"the release was not published: {number:,} rows were written, {meant:,} were meant",
            hint="the previous release, if any, is still in place; was the source changed meanwhile?",
        )
    if not found.holds:
        broken = [f"{item.model}: {item.broken_classes:,} classes broken" for item in found.checks if not item.holds]
        raise NotReleased(
            "the release was not published: as written it breaks the policy",
            detail="\n".join([*broken, *found.breaches]),
            hint="the previous release, if any, is still in place; was the source changed meanwhile?",
        )
    return found


def _released(task: EntityTask, staged: Staged) -> EntityTable:
    return entity_tree(task.policy, task.engine, task.engine.resolve(released_tables(task.policy, staged.source)))


def describe_entities(
    task: EntityTask,
    plan: Plan,
    found: Evidence | None = None,
    target: Target | None = None,
    staged: Staged | None = None,
) -> ReleaseEvidence:
    """Everything that was measured. Without `found` it is the plan of a dry run."""
    evidence = outline_release(
        task.asked,
        plan,
        task.forest.records,
        task.made.suppressed,
        sql=_script(task),
        loss={"ncp": task.made.loss},
        attributes=_attributes(task),
    )
    entities = {"persons": task.forest.persons, **task.made.measured}
    evidence = replace(evidence, more={**evidence.more, "entities": entities})
    if found is None or target is None or staged is None:
        return evidence
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
    evidence = add_verdict(evidence, found, target, staged)
    return replace(
        evidence,
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


def _script(task: EntityTask) -> str:
    """The SQL of the release: the temporary tables that it reads, then the tables themselves."""
    dialect, how = task.engine.dialect, task.how
    steps = [*(task.before.prelude.steps if task.before is not None else ()), *task.forest.prelude.steps]
    parts = [render_create(step, dialect) for step in steps]
    parts.append("-- the release\n" + how.select.sql(dialect, pretty=True) + ";")
    for ending, tree in how.companions.items():
        parts.append(f"-- its child table {ending}\n" + tree.sql(dialect, pretty=True) + ";")
    return "\n\n".join(parts) + "\n"

"""Publish the journeys of persons: made by an algorithm, written, checked as they are, and swapped in."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from sqlanon import algorithms
from sqlanon.engines import Engine
from sqlanon.errors import EngineError, NotReleased, PolicyError
from sqlanon.evidence.checks import Evidence, check
from sqlanon.evidence.journey_checks import require_hierarchies, require_order
from sqlanon.evidence.release_evidence import ReleaseEvidence
from sqlanon.paths.journey_flows import read_flows
from sqlanon.paths.journeys import JourneyRelease, Journeys
from sqlanon.plan import Plan, policy_hash
from sqlanon.policy import Policy, missing_columns
from sqlanon.relations.check_script import render_create
from sqlanon.relations.classes import Prelude
from sqlanon.relations.itemsets import PERSON_NUMBER
from sqlanon.relations.rewrite import shuffle_rows
from sqlanon.relations.source import relation
from sqlanon.release.evidence_document import add_verdict, outline_release
from sqlanon.release.fingerprint import fingerprint
from sqlanon.release.publication import Progress, Published, require_plan, require_roles, tell
from sqlanon.release.rewrite_release import Rewriting
from sqlanon.release.targets.target import Staged, Target
from sqlanon.sqltree.tree import count_all, nest_query, select

PREFIX = "sqlanon_journeys"


@dataclass
class JourneyTask:
    policy: Policy
    journeys: Journeys
    made: JourneyRelease

    @property
    def engine(self) -> Engine:
        return self.journeys.engine

    @property
    def how(self) -> Rewriting:
        """In an order that tells nothing."""
        return Rewriting(shuffle_rows(self.made.select.copy()), ())


@contextmanager
def protect_journeys(policy: Policy, engine: Engine) -> Iterator[JourneyTask]:
    """The journeys of a policy as its algorithm makes them, in temporary tables that go at the end."""
    if policy.algorithm is None:
        raise PolicyError(
            "a policy of sequences needs an algorithm to be published",
            hint="add 'algorithm: path_suppression', or another one that 'sqlanon models' lists for sequences",
        )
    module = algorithms.journey_algorithm(policy.algorithm.name)
    params = module.Params.model_validate(policy.algorithm.params)
    if policy.source.due is None:  # one time for all statements, or they would not read the same rows
        policy = policy.at(datetime.now(UTC))
    rows = relation(engine.resolve(policy.source), engine.dialect)
    available = [item.name for item in engine.columns(rows)]
    missing_columns(policy, available)
    require_roles(policy, available)
    require_order(engine, rows, policy)
    if policy.person != PERSON_NUMBER and PERSON_NUMBER in policy.columns:
        raise policy.error(
            f"a release calls its persons '{PERSON_NUMBER}', as a column of the source is called already",
            "columns", PERSON_NUMBER, hint="give the column another name with 'query:'",
        )  # fmt: skip
    built = require_hierarchies(policy, engine)
    journeys = Journeys(policy, engine, rows, built, Prelude(rows, engine.dialect, prefix=PREFIX))
    try:
        try:
            made = module.release_journeys(journeys, params)
        except PolicyError as error:
            if error.detail or error.message.startswith(f"{policy.name}:"):
                raise
            raise policy.error(error.message, "algorithm", hint=error.hint) from None
        _require_limit(policy, made)
        yield JourneyTask(policy, journeys, made)
    finally:
        journeys.close()


def _require_limit(policy: Policy, made: JourneyRelease) -> None:
    if made.loss > policy.suppression_limit + 1e-12:
        raise NotReleased(
            f"{made.loss:.1%} of all visits would be suppressed, the limit is {policy.suppression_limit:.1%}",
            detail=made.why,
            hint="show times and places on a higher level, or allow more with 'suppression_limit'",
        )


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
    """Make the journeys, write them, check them and swap them in; without a target, tell what would be done."""
    tell(progress, "making journeys", 0, 1)
    with protect_journeys(policy, engine) as task:
        plan = plan_of(task)
        require_plan(plan, plan_hash)
        tell(progress, "making journeys", 1, 1)
        if target is None:
            return Published(plan, describe_journeys(task, plan).to_json())
        tell(progress, "writing the release", 0, 1)
        found, document = write(task, target, plan, run, secret)
        tell(progress, "writing the release", 1, 1)
        return Published(plan, document, found)


def plan_of(task: JourneyTask) -> Plan:
    use = task.policy.algorithm
    assert use is not None
    return Plan(
        policy=policy_hash(task.policy),
        algorithm=use.name,
        params=algorithms.algorithm(use.name).Params.model_validate(use.params).model_dump(mode="json"),
        minimize="visits",
        records=task.made.records,
        suppressed=task.made.records - task.made.visits,
        loss=task.made.loss,
        proven=task.made.proven,
        why=task.made.why,
        passes=(task.made.levels,) if task.made.levels else (),
    )


def write(
    task: JourneyTask, target: Target, plan: Plan, run: int | None, secret: str | None
) -> tuple[Evidence, dict[str, Any]]:
    """Write the journeys, check them as written, and swap them in."""
    staged: Staged | None = None
    try:
        with task.engine.transaction():
            staged = target.stage(task.how)
            found = _require_kept(task, staged)
            document = replace(describe_journeys(task, plan, found, target, staged), run=run).to_json()
            rows = relation(task.engine.resolve(task.policy.source), task.engine.dialect)
            target.swap(staged, plan, document, fingerprint(task.engine, rows, secret))
        target.finish(staged, document)
    except BaseException:
        if staged is not None:
            target.discard(staged)
        raise
    return found, document


def _require_kept(task: JourneyTask, staged: Staged) -> Evidence:
    """Every model on the journeys as they were written; an error if one of them is broken."""
    found = check(task.policy, task.engine, release=staged.source, hidden=staged.hidden, limit=0)
    rows = relation(task.engine.resolve(staged.source), task.engine.dialect)
    number = int(task.engine.query(select(count_all(), source=nest_query(rows, "release")))[0][0])
    if number != task.made.visits:
        raise EngineError(
            f"the release was not published: {number:,} rows were written, {task.made.visits:,} were meant",
            hint="the previous release, if any, is still in place; was the source changed meanwhile?",
        )
    if not found.holds:
        broken = [
            f"{item.model}: {item.broken_classes:,} {item.unit}s broken" for item in found.checks if not item.holds
        ]
        raise NotReleased(
            "the release was not published: as written it breaks the policy",
            detail="\n".join([*broken, *found.breaches]),
            hint="the previous release, if any, is still in place; a higher level of times and places, or a larger "
            "'suppression_limit', may help",
        )
    return found


def describe_journeys(
    task: JourneyTask,
    plan: Plan,
    found: Evidence | None = None,
    target: Target | None = None,
    staged: Staged | None = None,
) -> ReleaseEvidence:
    """Everything that was measured. Without `found` it is the plan of a dry run."""
    evidence = outline_release(task.policy, plan, plan.records, plan.suppressed, sql=_script(task))
    evidence = replace(evidence, journeys={"persons": task.made.persons, **task.made.measured})
    if found is None or target is None or staged is None:
        return evidence
    if len(task.policy.places) == 1:
        rows = relation(task.engine.resolve(staged.source), task.engine.dialect)
        flows = read_flows(task.engine, rows, PERSON_NUMBER, task.policy.times[0], task.policy.places[0])
        evidence = replace(evidence, journeys={**(evidence.journeys or {}), "flows": flows})
    return add_verdict(evidence, found, target, staged)


def _script(task: JourneyTask) -> str:
    """The SQL of the release: the temporary tables that it reads, then the table itself."""
    dialect = task.engine.dialect
    steps = [*task.journeys.prelude.steps]
    for items in task.journeys.opened:
        steps += items.prelude.steps
    parts = [render_create(step, dialect) for step in steps]
    parts.append("-- the release\n" + task.how.shown.sql(dialect, pretty=True) + ";")
    return "\n\n".join(parts) + "\n"

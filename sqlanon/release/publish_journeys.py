"""Make a release of the journeys of persons, by an algorithm."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from sqlanon import algorithms
from sqlanon.engines import Engine
from sqlanon.errors import NotReleased, PolicyError
from sqlanon.evidence.journey_checks import require_hierarchies, require_order
from sqlanon.evidence.release_evidence import ReleaseEvidence
from sqlanon.paths.journey_flows import read_flows
from sqlanon.paths.journeys import JourneyRelease, Journeys
from sqlanon.plan import Plan
from sqlanon.policy import Policy
from sqlanon.relations.classes import Prelude
from sqlanon.relations.itemsets import PERSON_NUMBER
from sqlanon.relations.rewrite import shuffle_rows
from sqlanon.relations.source import relation
from sqlanon.release.evidence_document import outline_release
from sqlanon.release.made_release import (
    MadeRelease,
    at_one_time,
    blame_algorithm,
    plan_made,
    render_script,
    require_columns,
)
from sqlanon.release.rewrite_release import Rewriting
from sqlanon.release.targets.target import Staged

PREFIX = "sqlanon_journeys"


@contextmanager
def make_release(policy: Policy, engine: Engine, secret: str | None) -> Iterator[MadeRelease]:
    """The journeys of a policy as its algorithm makes them, in temporary tables that go at the end."""
    if policy.algorithm is None:
        raise PolicyError(
            "a policy of sequences needs an algorithm to be published",
            hint="add 'algorithm: path_suppression', or another one that 'sqlanon models' lists for sequences",
        )
    use = policy.algorithm
    module = algorithms.journey_algorithm(use.name)
    params = module.Params.model_validate(use.params)
    policy = at_one_time(policy)
    rows = relation(engine.resolve(policy.source), engine.dialect)
    require_columns(policy, [item.name for item in engine.columns(rows)])
    require_order(engine, rows, policy)
    built = require_hierarchies(policy, engine)
    journeys = Journeys(policy, engine, rows, built, Prelude(rows, engine.dialect, prefix=PREFIX))
    try:
        with blame_algorithm(policy):
            made = module.release_journeys(journeys, params)
        _require_limit(policy, made)
        passes = (made.levels,) if made.levels else ()
        gone = made.records - made.visits
        plan = plan_made(policy, use, made, made.records, gone, "visits", passes=passes)
        how = Rewriting(shuffle_rows(made.select.copy()), ())  # in an order that tells nothing
        yield MadeRelease(
            policy, policy, engine, plan, how, rows,
            meant=made.visits,
            broken="classes",
            outline=lambda: _outline(policy, plan, how, journeys, made),
            describe=lambda outlined, staged: _add_flows(policy, engine, outlined, staged),
            advice="a higher level of times and places, or a larger 'suppression_limit', may help",
        )  # fmt: skip
    finally:
        journeys.close()


def _require_limit(policy: Policy, made: JourneyRelease) -> None:
    if made.loss > policy.suppression_limit + 1e-12:
        raise NotReleased(
            f"{made.loss:.1%} of all visits would be suppressed, the limit is {policy.suppression_limit:.1%}",
            detail=made.why,
            hint="show times and places on a higher level, or allow more with 'suppression_limit'",
        )


def _outline(policy: Policy, plan: Plan, how: Rewriting, journeys: Journeys, made: JourneyRelease) -> ReleaseEvidence:
    """Everything that is known before it is written."""
    steps = [*journeys.prelude.steps]
    for items in journeys.opened:
        steps += items.prelude.steps
    script = render_script(steps, how, policy, journeys.engine.dialect)
    evidence = outline_release(policy, plan, plan.records, plan.suppressed, sql=script)
    return replace(evidence, journeys={"persons": made.persons, **made.measured})


def _add_flows(policy: Policy, engine: Engine, outlined: ReleaseEvidence, staged: Staged) -> ReleaseEvidence:
    """How many go from place to place, for the plot of the report."""
    if len(policy.places) != 1:
        return outlined
    rows = relation(engine.resolve(staged.source), engine.dialect)
    flows = read_flows(engine, rows, PERSON_NUMBER, policy.times[0], policy.places[0])
    return replace(outlined, journeys={**(outlined.journeys or {}), "flows": flows})

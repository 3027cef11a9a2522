"""Compare policies: each is planned and its release written into a scratch table; then risk and utility are measured.

All read one copy of the source, made at the beginning, whose rows are numbered. The number goes along into the scratch
releases as a column that nobody will see, so that what became of a row is known. A transformation whose policy has no
identifier to draw by draws otherwise for that: as random, but not the same numbers as when it is published. A history
is left aside: releases are compared by themselves. Nothing of it is kept.

Each release is a point of the map of risk and utility. `risk` is the mean of two: that a record is linked rightly by
who knows its quasi-identifiers (prosecutor risk, on average), and that a number is known closely (interval disclosure);
only the first where no number is protected. A suppressed cell counts as a value of its own, also for a policy that lets
it match any value. `loss` is `cell_loss` over all columns that any of the policies releases:
one that leaves a column out loses all of it. `score` is the mean of risk and loss. A release is `best` if no other has
less of the one, and not more of the other.
cite: Duncan, Keller-McNulty and Stokes 2001 (R-U map); Domingo-Ferrer and Torra 2001 (score)
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import Any

from sqlglot import exp

from sqlanon import __version__
from sqlanon.engines import Engine
from sqlanon.errors import PolicyError, SqlanonError
from sqlanon.evidence.checks import check
from sqlanon.evidence.risk import risk
from sqlanon.evidence.utility import BANDS, Utility, mean_distance, utility
from sqlanon.policy import Column, Policy, Source
from sqlanon.policy.person_shapes import require_shape
from sqlanon.relations.source import relation
from sqlanon.release.algorithm_kind import is_parted
from sqlanon.release.evidence_document import measure_losses
from sqlanon.release.publication import Progress
from sqlanon.release.rewrite_release import plan_rewriting
from sqlanon.release.solve_policy import prepare_problem, solve_problem
from sqlanon.sqltree.tree import alias, bigint, nest_query, select, window

ORIGINAL = "source_compared_by_sqlanon"
RELEASED = "release_compared_by_sqlanon"
ROW_KEY = "sqlanon_compared"


@dataclass(frozen=True)
class Compared:
    """One policy. `refused` says why there is no release; then there is nothing else."""

    policy: str
    refused: str | None = None
    holds: bool = False
    algorithm: str = ""
    records: int = 0
    released: int = 0
    risk: float | None = None
    loss: float | None = None
    score: float | None = None
    best: bool = False
    prosecutor: Mapping[str, Any] | None = None
    losses: Mapping[str, float] | None = None
    utility: Utility | None = None


def compare(
    policies: Sequence[Policy],
    engine: Engine,
    *,
    secret: str | None = None,
    categories: Sequence[str] = (),
    target: str | None = None,
    features: Sequence[str] | None = None,
    time_limit: float | None = None,
    progress: Progress | None = None,
) -> list[Compared]:
    """Plan and write the release of each policy aside, and measure its risk and its utility.

    `categories`, `target` and `features` are those of `utility`; `time_limit` is for each search.
    """
    for each in policies:
        require_shape(each, "a comparison of policies")
    _require_one_source(policies)
    now = datetime.now(UTC)
    found = []
    labelled = {name for item in policies for name, use in item.hierarchies.items() if use.kind not in BANDS}
    protected = {name for item in policies for name in item.quasi_identifiers}
    protected |= {name for item in policies for use in item.transformations for name in use.changed()}
    asked: dict[str, Any] = {"categories": tuple(labelled.union(categories)), "protected": tuple(sorted(protected))}
    asked |= {"target": target, "features": features}
    try:
        _copy(policies[0].at(now), engine)
        for place, policy in enumerate(policies):
            if progress:
                progress("comparing policies", place, len(policies))
            own = policy.model_copy(
                update={
                    "source": Source(database=policy.source.database, table=ORIGINAL),
                    "columns": policy.columns | {ROW_KEY: Column(role="insensitive")},
                    "history": None,
                }
            )
            by_levels = policy.history is not None  # what its algorithm is with a history
            found.append(_compared(own, engine, secret, time_limit, asked, by_levels=by_levels))
    finally:
        with suppress(SqlanonError):  # of a connection that is lost; what broke it is the error to show
            engine.drop_temporary([RELEASED, ORIGINAL])
    return with_best(with_loss(found))


def with_loss(found: Sequence[Compared]) -> list[Compared]:
    """Loss, score and IL1s over the same columns for all: those that any policy releases."""
    columns = {name for item in found if item.utility for name in item.utility.by_attribute}
    hidden = {
        name: replace(own, il1s=own.hidden)
        for item in found
        if item.utility
        for name, own in item.utility.distances.items()
    }
    rated = []
    for item in found:
        if item.utility is None or item.risk is None or not columns:
            rated.append(item)
            continue
        loss = math.fsum(item.utility.by_attribute.get(name, 1.0) for name in columns) / len(columns)
        useful = replace(item.utility, il1s=mean_distance({**hidden, **item.utility.distances}.values()))
        rated.append(replace(item, loss=loss, score=(item.risk + loss) / 2, utility=useful))
    return rated


def with_best(found: Sequence[Compared]) -> list[Compared]:
    """Mark those that no other beats in one of risk and loss without being worse in the other."""
    holding = [item for item in found if item.holds and item.risk is not None and item.loss is not None]
    points = [(item.risk or 0.0, item.loss or 0.0) for item in holding]

    def beaten(item: Compared) -> bool:
        own = item.risk or 0.0, item.loss or 0.0
        return any(other != own and other[0] <= own[0] and other[1] <= own[1] for other in points)

    return [replace(item, best=item in holding and not beaten(item)) for item in found]


def describe_comparison(found: Sequence[Compared], policies: Sequence[Policy]) -> dict[str, Any]:
    """The comparison as a document, for programs and for the page."""
    return {
        "sqlanon": __version__,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "source": policies[0].source.text,
        "policies": [asdict(item) for item in found],
    }


def _require_one_source(policies: Sequence[Policy]) -> None:
    if not policies:
        raise PolicyError("no policy is given", hint="name the policies to compare")
    for policy in policies:
        if is_parted(policy) and policy.algorithm is not None:
            raise PolicyError(
                f"'{policy.name}' asks for {policy.algorithm.name}, which writes rows itself: it is not compared",
                hint="leave that policy out",
            )
    first = policies[0]
    for other in policies[1:]:
        if other.source != first.source:
            raise PolicyError(
                f"'{other.name}' reads another source than '{first.name}'",
                hint="only releases of the same rows can be compared",
            )
    if first.source.joins:
        raise PolicyError("releases of joined tables are not compared", hint="join them in a view or 'query:' first")


def _copy(policy: Policy, engine: Engine) -> None:
    """The source with its rows numbered, as a temporary table: it stays the same whatever others write meanwhile."""
    rows = relation(engine.resolve(policy.source), engine.dialect)
    if ROW_KEY in [item.name for item in engine.columns(rows)]:
        raise PolicyError(f"the source has a column '{ROW_KEY}'", hint="rename it in a view")
    numbered = alias(bigint(window(exp.RowNumber())), ROW_KEY, quoted=True)
    engine.create_temporary(ORIGINAL, select(exp.Star(), numbered, source=nest_query(rows, "source")))


def _compared(
    policy: Policy,
    engine: Engine,
    secret: str | None,
    time_limit: float | None,
    asked: Mapping[str, Any],
    *,
    by_levels: bool,
) -> Compared:
    released = Source(table=RELEASED)
    try:
        task = prepare_problem(policy, engine, time_limit=time_limit, secret=secret)
        try:
            solution, plan = solve_problem(task, by_levels=by_levels)
            how = plan_rewriting(task, solution, secret)
            engine.create_temporary(RELEASED, how.select)
            measured = check(task.policy, engine, release=released, hidden=how.hidden, limit=0)
            rows = relation(engine.resolve(released), engine.dialect)
            lost, hidden = measure_losses(task, solution, plan, rows).metrics, how.hidden
        finally:
            task.close()
    except PolicyError as error:
        return Compared(policy.name, refused=f"{error.message}; {error.hint}" if error.hint else error.message)
    useful = utility(policy, engine, released, key=ROW_KEY, **asked)
    linked: Mapping[str, Any] = {}
    if policy.quasi_identifiers:
        # One reading for all: a policy must not look safer since it counts otherwise.
        plain = policy.model_copy(update={"transformations": (), "suppressed_cells": "own_value"})
        linked = risk(plain, engine, release=released, knowledge=0, hidden=hidden).measures["prosecutor"]
    closely = None if useful.intervals is None else useful.intervals.cells
    known = [value for value in (linked.get("average"), closely) if value is not None]
    return Compared(
        policy=policy.name,
        holds=measured.holds,
        algorithm=plan.algorithm,
        records=useful.records,
        released=useful.released,
        risk=math.fsum(known) / len(known) if known else None,
        prosecutor=dict(linked) or None,
        losses=dict(lost),
        utility=useful,
    )


__all__ = ["Compared", "compare", "describe_comparison", "with_best", "with_loss"]

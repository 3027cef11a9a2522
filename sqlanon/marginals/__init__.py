"""Marginals with differential privacy: counts of rows by declared columns, made anew by each refresh.

`refresh` charges the budget, reads exact counts of bounded rows, adds noise once, and computes the rest from the noisy
counts alone: the nearest non-negative table that has all of these marginals, rounded to whole numbers. Every table is
a sum of that one table, so that their totals, and whatever two of them share, agree to the last row.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np

from sqlanon.engines import Engine
from sqlanon.gateway import Gate
from sqlanon.gateway.answer.linked_keys import require_linked_keys
from sqlanon.gateway.answer.post_processing import PostDatabase
from sqlanon.gateway.bind.catalog import Catalog
from sqlanon.gateway.bind.schema import schema_of
from sqlanon.gateway.price.noise import Mechanisms
from sqlanon.ledger import Ledger
from sqlanon.marginals.axes import axes_of
from sqlanon.marginals.counting import MarginalsTask, measure_marginals, task_of
from sqlanon.marginals.fitting import Counts, fit_joint, marginal
from sqlanon.marginals.rounding import round_joint
from sqlanon.marginals.tables import Made, require_free, write
from sqlanon.mechanisms import Cost
from sqlanon.policy.checks import table_key
from sqlanon.policy.marginals import COUNTED, Marginals

__all__ = ["MarginalsPlan", "Refreshed", "gate_on", "refresh"]


@dataclass(frozen=True)
class MarginalsPlan:
    """What a refresh does: a function of the policy and the schema alone."""

    policy: str  # hash of the gateway
    table: str
    of: Mapping[str, tuple[str, ...]]
    domain: Mapping[str, int]  # values of each column
    epsilon: float
    mechanism: str
    scale: float
    sensitivity: float

    def to_json(self) -> str:
        return json.dumps(asdict(self), sort_keys=True, ensure_ascii=False, indent=2)

    @property
    def hash(self) -> str:
        return hashlib.sha256(self.to_json().encode()).hexdigest()


@dataclass(frozen=True)
class Refreshed:
    """What was written, and what it cost; nothing where the noisy counts had been paid for by an earlier try."""

    plan: MarginalsPlan
    document: Mapping[str, Any]
    cost: Cost


@contextmanager
def gate_on(section: Marginals, engine: Engine) -> Iterator[Gate]:
    """The gateway of a section on its database, which is open already, to be written; it stays open. The gateway may
    answer the very tables that are written, plainly: these need not be there yet."""
    written = {table_key(name) for name in section.tables}
    tables = {name: table for name, table in section.gateway.tables.items() if table_key(name) not in written}
    policy = section.gateway.model_copy(update={"tables": tables})
    with closing(Ledger.open(policy.located_ledger)) as ledger, closing(PostDatabase(policy.timeout)) as post:
        catalog = Catalog(policy, schema_of(engine, policy))
        require_linked_keys(engine, catalog)
        yield Gate(policy, engine, ledger, catalog, post=post)


def refresh(
    section: Marginals,
    gate: Gate,
    *,
    occasion: str | None = None,
    run: int | None = None,
    mechanisms: Mechanisms | None = None,
    random: np.random.Generator | None = None,
) -> Refreshed:
    """Write the tables of a section anew, all of them in one step. An error leaves those that are there.

    `occasion` tells refreshes apart: another try for the same one uses the noise that was paid for. `run` is its number
    in the record of runs, which the evidence names.
    """
    named, axes = axes_of(section, gate.catalog)
    task = task_of(section, named, axes, mechanisms or gate.mechanisms)
    require_free(section, gate.engine)
    counts, charged = measure_marginals(task, gate, occasion or datetime.now(UTC).isoformat())
    random = random if random is not None else np.random.default_rng()
    joint = joint_of(task, counts, random)
    plan = _plan(task)
    document = describe_marginals(task, plan, joint) | ({} if run is None else {"run": run})
    tables = [*(_table(task, name, joint) for name in task.sets), *_synthetic(task, joint, random)]
    write(gate.engine, tables, plan, document)
    return Refreshed(plan, document, task.cost if charged else Cost())


def joint_of(task: MarginalsTask, counts: Mapping[str, list[int]], random: np.random.Generator) -> Counts:
    """One table of whole numbers from noisy marginals. From here on nothing is known of the data but those."""
    shape = task.shape
    noisy = {
        axes: np.array(counts[name], dtype=np.float64).reshape([shape[axis] for axis in axes])
        for name, axes in task.sets.items()
    }
    return round_joint(fit_joint(shape, noisy), list(noisy), random)


def _table(task: MarginalsTask, name: str, joint: Counts) -> Made:
    """The table of one marginal: every combination of values, those of no row too, in the order of the policy."""
    columns, joined = task.section.of[name], task.sets[name]
    places = [task.section.columns.index(column) for column in columns]
    axes = [task.axes[place] for place in places]
    counts = marginal(joint, joined).transpose([joined.index(place) for place in places])
    rows = [
        [*(axis.labels[place] for axis, place in zip(axes, cell, strict=True)), int(count)]
        for cell, count in np.ndenumerate(counts)
    ]
    return Made(name, [*columns, COUNTED], [*(axis.kind for axis in axes), "int"], rows)


def _synthetic(task: MarginalsTask, joint: Counts, random: np.random.Generator) -> list[Made]:
    """Made-up rows: every cell of the joint as often as its share says, rounded up or down at random."""
    asked = task.section.synthetic
    if asked is None:
        return []
    upto = np.cumsum(joint.ravel())
    total = float(upto[-1])  # of nothing, nothing can be drawn
    points = (np.arange(asked.rows if total else 0) + random.random()) * (total / asked.rows)
    cells = np.searchsorted(upto, np.minimum(points, np.nextafter(total, 0)), side="right")
    places = np.unravel_index(random.permutation(cells), joint.shape)
    drawn = [axis.drawn(own, random) for axis, own in zip(task.axes, places, strict=True)]
    kinds = [axis.kind for axis in task.axes]
    return [Made(asked.table, list(task.section.columns), kinds, [list(row) for row in zip(*drawn, strict=True)])]


def _plan(task: MarginalsTask) -> MarginalsPlan:
    section = task.section
    return MarginalsPlan(
        policy=section.gateway.fingerprint,
        table=section.table,
        of=section.of,
        domain={axis.name: len(axis.labels) for axis in task.axes},
        epsilon=section.epsilon,
        mechanism=section.gateway.mechanism,
        scale=task.mechanism.scale,
        sensitivity=task.sensitivity,
    )


def describe_marginals(task: MarginalsTask, plan: MarginalsPlan, joint: Counts) -> dict[str, Any]:
    """The evidence: how much noise there is and what it protects. Of the data it tells the noisy total alone."""
    section, gateway = task.section, task.section.gateway
    return {
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "source": section.table,
        "policy": {"name": section.name, "hash": plan.policy, "text": section.model_dump_json(by_alias=True)},
        "plan": {"passes": [], **json.loads(plan.to_json())},
        "plan_hash": plan.hash,
        "released": int(joint.sum()),
        "differential_privacy": {
            "unit": f"{gateway.unit.table}.{gateway.unit.key}",
            "rows_a_person": 1 if task.core.unique else gateway.rows,
            "principal": section.who,
            "epsilon": task.cost.epsilon,
            "delta": task.cost.delta,
            "rho": task.cost.rho,
            "mechanism": gateway.mechanism,
            "sensitivity": task.sensitivity,
            "scale": task.mechanism.scale,
            "expected_error": expected_error(task),
            "half_width": task.mechanism.half_width(),
            "cells": {name: int(np.prod([task.shape[axis] for axis in axes])) for name, axes in task.sets.items()},
        },
    }


def expected_error(task: MarginalsTask) -> float:
    """How far the noise moves a count on average; what is fitted to several of them is moved less, as a rule."""
    scale = task.mechanism.scale
    if task.mechanism.distribution == "gaussian":
        return float(scale * np.sqrt(2 / np.pi))
    # Of the discrete Laplace distribution: 2q / (1 - q²), where q is exp(-1 / scale).
    return float(1 / np.sinh(1 / scale))

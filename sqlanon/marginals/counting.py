"""The one place where data are read: exact counts of the bounded rows, and the noise that covers them.

The rows of a person are bounded once, for all marginals: at most K of them, drawn by a keyed hash. With and without a
person the counts of one marginal differ by K in all at most, those of m marginals by m times K (L1); and since all of
a person's rows may be in one cell of each, by K times the root of m in Euclidean length (L2).
"""

from __future__ import annotations

import hashlib
import json
import math
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
from sqlglot import exp

from sqlanon.errors import EngineError, SqlanonError
from sqlanon.gateway import Gate
from sqlanon.gateway.answer.read_data import read_failure
from sqlanon.gateway.bind.bounding import main_statement
from sqlanon.gateway.bind.core import Atom, Core
from sqlanon.gateway.bind.sources import NamedRelation, alias_relation
from sqlanon.gateway.bind.values import UNIT, number
from sqlanon.gateway.price.budgets import limits_of
from sqlanon.gateway.price.noise import Mechanisms
from sqlanon.ledger.limits import epsilon_of, rho_of
from sqlanon.marginals.axes import Axis
from sqlanon.marginals.fitting import Axes, Counts, marginal
from sqlanon.mechanisms import Cost, Mechanism
from sqlanon.policy.marginals import Marginals


@dataclass(frozen=True)
class MarginalsTask:
    """What a refresh will read, and what it costs: a function of the policy and the schema alone."""

    section: Marginals
    axes: tuple[Axis, ...]
    sets: dict[str, Axes]  # by table: the axes of its marginal, in the order of the joint
    core: Core
    mechanism: Mechanism
    cost: Cost
    sensitivity: float

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(len(axis.labels) for axis in self.axes)

    @property
    def statement(self) -> exp.Select:
        made = main_statement(self.core, self.section.gateway.rows, self.section.gateway.groups, 0)
        assert made is not None  # there is a sum to be asked for
        return made


def task_of(section: Marginals, named: NamedRelation, axes: tuple[Axis, ...], source: Mechanisms) -> MarginalsTask:
    rows = exp.Select().from_(alias_relation(named), copy=False)
    for axis in axes:
        rows = rows.where(axis.present, copy=False)
    counted = [Atom("sum", number(1), label="rows")]
    keys = [axis.key for axis in axes]
    core = Core(0, rows, named.tree(UNIT), named.relation.unique, keys, "declared", atoms=counted)
    sets = {name: tuple(sorted(section.columns.index(each) for each in listed)) for name, listed in section.of.items()}
    mechanism, cost, reach = _noise(section, core, len(sets), source)
    return MarginalsTask(section, axes, sets, core, mechanism, cost, reach)


def _noise(section: Marginals, core: Core, marginals: int, source: Mechanisms) -> tuple[Mechanism, Cost, float]:
    gateway = section.gateway
    rows = 1 if core.unique else gateway.rows
    if gateway.mechanism == "laplace":
        mechanism = source.laplace(rows * marginals, section.epsilon)
        return mechanism, mechanism.cost, rows * marginals
    delta = gateway.budget.statement.delta / 2  # of the conversion from rho; the other half is that of keys
    reach = math.nextafter(rows * math.sqrt(marginals), math.inf)
    mechanism = source.gaussian(reach, rho_of(section.epsilon, delta), delta)
    return mechanism, Cost(epsilon_of(mechanism.cost.rho, delta), 0.0, mechanism.cost.rho), reach


def exact_joint(task: MarginalsTask, gate: Gate) -> Counts:
    """The exact counts of bounded rows, of every combination of values. They go no further than to `noisy_counts`."""
    joint = np.zeros(task.shape, dtype=np.int64)
    for *found, records in gate.data.rows(task.statement):
        places = tuple(axis.place(value) for axis, value in zip(task.axes, found, strict=True))
        if None not in places:
            joint[places] += int(records)
    return joint


def noisy_counts(task: MarginalsTask, joint: Counts) -> dict[str, list[int]]:
    """The marginals with noise, each as a list in the order of its cells: one draw of noise for all of them."""
    exact = {name: marginal(joint, axes).ravel() for name, axes in task.sets.items()}
    noisy = iter(task.mechanism.add_noise([int(count) for counts in exact.values() for count in counts]))
    return {name: [next(noisy) for _ in counts] for name, counts in exact.items()}


def measure_marginals(task: MarginalsTask, gate: Gate, occasion: str) -> tuple[dict[str, list[int]], bool]:
    """The noisy marginals for an occasion, and whether they were paid for now.

    The charge is on the disk before data are read. What it paid for is kept in the ledger under the occasion: a
    refresh that could not write its tables is tried again with the same noise, and costs nothing more.
    """
    identity = {
        "marginals": task.section.model_dump(mode="json"), "policy": task.section.gateway.fingerprint,
        "occasion": occasion, "statement": task.statement.sql("duckdb"), "scale": task.mechanism.scale,
    }  # fmt: skip
    key = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()
    if (kept := gate.ledger.cached(key)) is not None:
        return json.loads(kept), False
    # Spend first: a crash may waste budget, it must never give a table for free.
    left = gate.ledger.reserve(
        task.section.who,
        task.cost,
        limits_of(task.section.gateway, task.section.who),
        shape=f"marginals of {task.section.table}",
        fingerprint=key,
        policy=task.section.gateway.fingerprint,
    )
    try:
        found = noisy_counts(task, exact_joint(task, gate))
    except BaseException as error:
        with suppress(SqlanonError):
            gate.ledger.settle(left, "failed")
        if isinstance(error, Exception) and not isinstance(error, EngineError):
            raise read_failure(charged=True) from None  # an error of another kind would tell of the data that it met
        raise
    gate.ledger.settle(left, "answered", answers={key: json.dumps(found)})
    return found, True

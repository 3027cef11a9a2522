"""Loss metrics as a search needs them: what to measure at a node, and what that tells about the nodes around it.

A loss is M + E: M is what generalization costs if no record is suppressed, E what suppression adds. M grows upwards in
the lattice. Where suppressed records at a node are suppressed at all nodes below it too, E grows downwards. So every
node that was measured bounds the loss of all nodes below and above it, and a search may leave out what cannot win.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from sqlglot import exp

from sqlanon.lattice.nodes import Measured, Node
from sqlanon.relations.compressed_rows import Compressed
from sqlanon.sqltree.tree import case, double, literal

Array = np.ndarray[Any, np.dtype[Any]]
Slices = tuple[slice, ...]


def down(node: Node) -> Slices:
    """The node and all that generalize less."""
    return tuple(slice(0, level + 1) for level in node)


def up(node: Node) -> Slices:
    """The node and all that generalize more."""
    return tuple(slice(level, None) for level in node)


class Metric(Protocol):
    """`costs` are expressions over the compressed table, summed in each class as cost1, cost2, …; each has numbers
    for parameters, which `numbers` gives for a node. `aggregates` are expressions over the classes (rows_, cost1, …,
    broken, nested), and `parts` their values, from which come the loss and what is `known` beside it. After `prepare`,
    `lower` bounds the loss of every node of the lattice from below. Nodes below `floor` are not asked for any more. A
    metric `rises` if a measured node tells more about the nodes above it than about those below."""

    lower: Array
    floor: Node | None

    @property
    def rises(self) -> bool: ...

    def prepare(self) -> None: ...
    def costs(self, parameter: Callable[[], exp.Expr]) -> list[exp.Expr]: ...
    def numbers(self, node: Node) -> list[float]: ...
    def aggregates(self) -> list[exp.Expr]: ...
    def loss(self, node: Node, suppressed: int, parts: Sequence[float]) -> float: ...
    def known(self, node: Node, nested: int, parts: Sequence[float]) -> tuple[float, ...]: ...
    def learn(self, measured: Measured) -> None: ...


def _sum_where(flag: str, value: exp.Expr) -> exp.Expr:
    chosen = case((exp.column(flag).eq(1), value), default=double(literal(0)))
    return exp.Coalesce(this=exp.Sum(this=chosen), expressions=[literal(0)])


def separable(shape: tuple[int, ...], by_level: Sequence[Sequence[float]]) -> Array:
    """The sum over all attributes of a number that depends on the level of one attribute."""
    total = np.zeros(shape)
    for axis, values in enumerate(by_level):
        view = [1] * len(shape)
        view[axis] = len(values)
        total = total + np.asarray(values, dtype=float).reshape(view)
    return total


@dataclass
class Linear:
    """Each released value costs slope · leaves + base on its level, a suppressed one its `penalty`.

    `components` is a list of weights for each attribute; the loss is `combine` of the components' means.
    """

    compressed: Compressed
    shape: tuple[int, ...]
    marginals: Sequence[Sequence[float]]  # attribute, level: mean number of leaves of the released label
    records: int
    components: Sequence[Sequence[float]]
    leaves_matter: bool
    relative_to: Sequence[float]  # attribute: what one level, or one leaf more, is divided by
    scale: float = 1.0
    geometric: bool = False
    suppresses: bool = True
    flags: tuple[str, ...] = ("broken", "nested")  # the second is left out where it says the same as the first
    floor: Node | None = None
    lower: Array = field(init=False)
    _by_level: list[list[list[float]]] = field(init=False)  # component, attribute, level: cost of a released record
    _means: list[Array] = field(init=False)
    _excess: list[Array] = field(init=False)

    @property
    def rises(self) -> bool:
        return False

    def __post_init__(self) -> None:
        self._by_level = []
        for weights in self.components:
            self._by_level.append(
                [
                    [weight * self._cost(axis, level, self.marginals[axis][level]) for level in range(self.shape[axis])]
                    for axis, weight in enumerate(weights)
                ]
            )

    def prepare(self) -> None:
        self._means = [separable(self.shape, by_level) for by_level in self._by_level]
        self._excess = [np.zeros(self.shape) for _ in self.components]
        self.lower = self._combined(tuple(slice(None) for _ in self.shape))

    def _cost(self, axis: int, level: int, leaves: float) -> float:
        amount = leaves - 1 if self.leaves_matter else level
        return amount / self.relative_to[axis] if self.relative_to[axis] else 0.0

    def _penalty(self, axis: int) -> float:
        domain = self.compressed.domains[axis]
        amount = domain.leaves - 1 if self.leaves_matter else domain.height
        if self.relative_to[axis]:
            return amount / self.relative_to[axis]
        return 1.0  # an attribute of one value loses nothing but its suppression

    def _combined(self, where: Slices) -> Array:
        combined: Array = self._whole(
            [mean[where] + extra[where] for mean, extra in zip(self._means, self._excess, strict=True)]
        )
        return combined

    def _whole(self, values: Sequence[Any]) -> Any:
        if self.geometric:
            logs = [np.log1p(value) for value in values]
            return np.expm1(sum(logs[1:], logs[0]) / len(logs))
        return values[0] * self.scale

    def _constant(self, weights: Sequence[float], node: Node) -> float:
        """The cost of a record at a node, as far as it is the same for all records."""
        total = 0.0
        for axis, (weight, level) in enumerate(zip(weights, node, strict=True)):
            if not self._varies(axis, level):
                total += weight * self._cost(axis, level, self.marginals[axis][level])
            elif self.relative_to[axis]:
                total -= weight / self.relative_to[axis]
        return total

    def _varies(self, axis: int, level: int) -> bool:
        return self.leaves_matter and 0 < level < self.compressed.domains[axis].height

    def _columns(self, weights: Sequence[float]) -> list[tuple[int, int]]:
        """(attribute, level) of the columns of the compressed table that a component adds up."""
        if not self.leaves_matter or not self.suppresses:
            return []
        return [
            (axis, level)
            for axis, domain in enumerate(self.compressed.domains)
            if weights[axis] and self.relative_to[axis]
            for level in range(max(1, self.floor[axis] if self.floor else 1), domain.height)
        ]

    @property
    def weighs(self) -> bool:
        """Whether the loss of a node takes more than the number of suppressed rows."""
        return any(self._columns(weights) for weights in self.components)

    def costs(self, parameter: Callable[[], exp.Expr]) -> list[exp.Expr]:
        found: list[exp.Expr] = []
        for weights in self.components:
            parts = [
                exp.Mul(this=exp.column(f"f{axis + 1}_{level}"), expression=parameter())
                for axis, level in self._columns(weights)
            ]
            if parts:
                tree: exp.Expr = parts[0]
                for part in parts[1:]:
                    tree = exp.Add(this=tree, expression=part)
                found.append(exp.Mul(this=exp.column("n"), expression=exp.paren(tree, copy=False)))
        return found

    def numbers(self, node: Node) -> list[float]:
        return [
            weights[axis] / self.relative_to[axis] if node[axis] == level else 0.0
            for weights in self.components
            for axis, level in self._columns(weights)
        ]

    def aggregates(self) -> list[exp.Expr]:
        count = sum(bool(self._columns(weights)) for weights in self.components)
        return [_sum_where(flag, exp.column(f"cost{i}")) for flag in self.flags for i in range(1, count + 1)]

    def _excesses(self, node: Node, suppressed: int, sums: Sequence[float]) -> list[float]:
        found, given = [], list(sums)
        for weights in self.components:
            varying = float(given.pop(0)) if self._columns(weights) else 0.0
            worst = sum(weight * self._penalty(axis) for axis, weight in enumerate(weights))
            found.append((suppressed * (worst - self._constant(weights, node)) - varying) / max(self.records, 1))
        return found

    def loss(self, node: Node, suppressed: int, parts: Sequence[float]) -> float:
        extra = self._excesses(node, suppressed, parts[: len(parts) // len(self.flags)])
        means = [sum(map(list.__getitem__, by_level, node)) for by_level in self._by_level]
        return float(self._whole([mean + more for mean, more in zip(means, extra, strict=True)]))

    def known(self, node: Node, nested: int, parts: Sequence[float]) -> tuple[float, ...]:
        sums = parts[len(parts) - len(parts) // len(self.flags) :]
        return tuple(self._excesses(node, nested, sums))

    def learn(self, measured: Measured) -> None:
        where = down(measured.node)
        for held, more in zip(self._excess, measured.known, strict=True):
            np.maximum(held[where], more, out=held[where])
        self.lower[where] = np.maximum(self.lower[where], self._combined(where))


@dataclass
class Squares:
    """Discernibility: the squared sizes of classes, and the size of the table for each suppressed record."""

    shape: tuple[int, ...]
    records: int
    penalty: bool
    flags: tuple[str, ...] = ("broken", "nested")
    floor: Node | None = None
    lower: Array = field(init=False)
    _generalized: Array = field(init=False)
    _suppressed: Array = field(init=False)

    @property
    def rises(self) -> bool:
        return not self.penalty

    def prepare(self) -> None:
        self.lower = np.full(self.shape, float(self.records))
        self._generalized = np.full(self.shape, float(self.records))
        self._suppressed = np.zeros(self.shape)

    def costs(self, parameter: Callable[[], exp.Expr]) -> list[exp.Expr]:
        return []

    def numbers(self, node: Node) -> list[float]:
        return []

    def aggregates(self) -> list[exp.Expr]:
        size = double(exp.column("rows_"))
        found: list[exp.Expr] = [exp.Sum(this=exp.Mul(this=size, expression=size.copy()))]
        if self.penalty:
            rest = exp.paren(exp.Sub(this=literal(self.records), expression=size.copy()), copy=False)
            more = exp.Mul(this=size.copy(), expression=rest)
            found += [_sum_where(flag, more.copy()) for flag in self.flags]
        return found

    def loss(self, node: Node, suppressed: int, parts: Sequence[float]) -> float:
        return float(parts[0]) + (float(parts[1]) if self.penalty else 0.0)

    def known(self, node: Node, nested: int, parts: Sequence[float]) -> tuple[float, ...]:
        return (parts[0], parts[-1] if self.penalty else 0.0)

    def learn(self, measured: Measured) -> None:
        above, below = up(measured.node), down(measured.node)
        np.maximum(self._generalized[above], measured.known[0], out=self._generalized[above])
        if self.penalty:
            np.maximum(self._suppressed[below], measured.known[1], out=self._suppressed[below])
        np.maximum(self.lower, self._generalized + self._suppressed, out=self.lower)


@dataclass
class AverageSize:
    """Records over classes. `suppressed_is_a_class` as ARX counts; else the released ones alone, over k."""

    shape: tuple[int, ...]
    records: int
    limit: int
    k: int
    suppressed_is_a_class: bool
    floor: Node | None = None
    lower: Array = field(init=False)

    @property
    def rises(self) -> bool:
        return True

    def prepare(self) -> None:
        self.lower = np.zeros(self.shape)

    def costs(self, parameter: Callable[[], exp.Expr]) -> list[exp.Expr]:
        return []

    def numbers(self, node: Node) -> list[float]:
        return []

    def aggregates(self) -> list[exp.Expr]:
        return [
            exp.Count(this=exp.Star()),
            exp.Coalesce(this=exp.Sum(this=exp.column("broken")), expressions=[literal(0)]),
        ]

    def loss(self, node: Node, suppressed: int, parts: Sequence[float]) -> float:
        every, broken = (int(part) for part in parts)
        if self.suppressed_is_a_class:
            return self.records / (every - broken + (broken > 0))
        return (self.records - suppressed) / (every - broken) / self.k if every > broken else math.inf

    def known(self, node: Node, nested: int, parts: Sequence[float]) -> tuple[float, ...]:
        return (parts[0],)

    def learn(self, measured: Measured) -> None:
        # Merging classes leaves fewer of them: no node above has more classes than this one.
        least = self.records if self.suppressed_is_a_class else (self.records - self.limit) / self.k
        where = up(measured.node)
        np.maximum(self.lower[where], least / measured.known[0], out=self.lower[where])


@dataclass
class Known:
    """A metric whose value without suppression is known for all nodes beforehand, and whose value with suppression
    is measured by its own `.sql` file. Without such knowledge the bound is 0: every node that holds is measured."""

    by_level: Sequence[Sequence[float]]
    sql: str | None = None  # None: the bound is the loss itself, as for height
    always: bool = False  # the bound is not the loss even where nothing is suppressed
    floor: Node | None = None
    lower: Array = field(init=False)

    @property
    def rises(self) -> bool:
        return False

    def prepare(self) -> None:
        self.lower = separable(tuple(len(levels) for levels in self.by_level), self.by_level)

    def costs(self, parameter: Callable[[], exp.Expr]) -> list[exp.Expr]:
        return []

    def numbers(self, node: Node) -> list[float]:
        return []

    def aggregates(self) -> list[exp.Expr]:
        return []

    def loss(self, node: Node, suppressed: int, parts: Sequence[float]) -> float:
        return float(sum(levels[level] for levels, level in zip(self.by_level, node, strict=True)))

    def known(self, node: Node, nested: int, parts: Sequence[float]) -> tuple[float, ...]:
        return ()

    def learn(self, measured: Measured) -> None:
        return None


@dataclass
class Entropies(Known):
    """Bits that are lost by showing labels, and those that suppressed rows lose of their labels.

    What suppression takes grows with the rows that are suppressed, and with the detail of their labels: a node below
    that suppresses the same rows and more takes as much at least."""

    nested: bool = False  # whether rows that a node suppresses are suppressed at all nodes below it
    _generalized: Array = field(init=False)

    def learn(self, measured: Measured) -> None:
        if not self.nested or not measured.suppressed:
            return
        taken = measured.loss - self.loss(measured.node, 0, ())
        below = down(measured.node)
        np.maximum(self.lower[below], self._generalized[below] + taken, out=self.lower[below])

    def prepare(self) -> None:
        super().prepare()
        self._generalized = self.lower.copy()


@dataclass
class Guesses(Known):
    """Records that a reader guesses wrong: those that are not in the majority of their class, and those suppressed.

    Merged classes have no more right guesses than their parts, so that what is wrong among the released records of a
    node, is wrong above it too; what is suppressed at all nodes below is wrong there."""

    records: int = 0

    def learn(self, measured: Measured) -> None:
        above, below, every = up(measured.node), down(measured.node), max(self.records, 1)
        np.maximum(self.lower[above], measured.loss - measured.suppressed / every, out=self.lower[above])
        np.maximum(self.lower[below], measured.nested / every, out=self.lower[below])


@dataclass
class Divergence(Known):
    """The divergence of the released records from what a reader rebuilds, a mean over these records.

    A class adds records · (ln(area) - entropy of its records), which is never negative, and merged classes add as much
    as their parts at least. So where a node above releases the records of this one and more, it adds as much, over all
    records at the most."""

    records: int = 0
    nested: bool = False  # whether rows that a node suppresses are suppressed at all nodes below it

    @property
    def rises(self) -> bool:
        return True

    def learn(self, measured: Measured) -> None:
        if self.nested or not measured.suppressed:
            above, shown = up(measured.node), max(self.records - measured.suppressed, 0)
            least = measured.loss * shown / max(self.records, 1)
            # Less than a tie, so that sums of floats in another order leave out no optimum.
            np.maximum(self.lower[above], least * (1 - 1e-9), out=self.lower[above])

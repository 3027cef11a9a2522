"""The best level for each quasi-identifier, where classes are persons with the same signature.

Nodes are looked at from the least loss without suppression on. That is a bound from below for a node with suppression,
so that the search ends when no node is left that could be better than the best one found: it is exact for every model.
Where fewer than k persons share a signature, they do so at every node below: rows that differ there differ above no
more. So whole parts of the lattice are left out when a node suppresses too much for k alone.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from sqlglot import exp

from sqlanon.entities.forest import EntityForest, mean_losses, signatures_at
from sqlanon.entities.judge_classes import Judged, bounds_sizes_alone, judge_levels, suppress_short
from sqlanon.errors import PolicyError
from sqlanon.families import plugin
from sqlanon.lattice.nodes import Infeasible, Node
from sqlanon.sqltree.tree import alias, case, double, join_clause, literal, nest_query, select, sum_bigint, table

MOST_NODES = 200_000  # each is a statement over all signatures, if nothing rules it out
Tell = Callable[[int, int], None]


@dataclass(frozen=True)
class Counted:
    """What the size of classes alone suppresses at a node."""

    rows: int
    persons: int
    loss: float


@dataclass(frozen=True)
class BestLevels:
    """`gone` is the table of persons (person) whose classes broke a model, if there are any."""

    levels: dict[str, int]
    rows: int  # suppressed
    persons: int
    loss: float
    gone: str | None
    nodes: int  # of the lattice
    measured: int  # nodes that were looked at


def search_levels(forest: EntityForest, tell: Tell | None = None) -> BestLevels:
    """The node of least loss at which all models hold and no more rows are suppressed than the policy allows."""
    names = [domain.name for domain in forest.all_domains]
    heights = [domain.height for domain in forest.all_domains]
    nodes = math.prod(height + 1 for height in heights)
    if nodes > MOST_NODES:
        raise PolicyError(
            f"the lattice has {nodes:,} nodes, too many to look at signatures in each",
            hint="take hierarchies with fewer levels, or the algorithm entity_clusters",
        )
    losses = mean_losses(forest)
    by_loss = sorted(
        itertools.product(*(range(height + 1) for height in heights)),
        key=lambda node: (_bound(losses, names, node), node),
    )
    state = _Search(forest, names, tuple(heights), nodes, tell)
    least = smallest_class(forest)
    plain = bounds_sizes_alone(forest)
    best: tuple[float, Node, Judged | Counted] | None = None
    for node in by_loss:
        if best is not None and _bound(losses, names, node) >= best[0]:
            break
        if state.is_ruled_out(node):
            continue
        counted = state.count(node, least)
        if counted.rows > forest.limit:
            state.rule_out(node, least)
            continue
        found: Judged | Counted = counted
        if not plain:
            found = judge_levels(forest, dict(zip(names, node, strict=True)))
            if found.rows > forest.limit:
                continue
        if found.persons < forest.persons and (best is None or found.loss < best[0]):
            best = (found.loss, node, found)
    if best is None:
        raise Infeasible(None)
    levels = dict(zip(names, best[1], strict=True))
    gone = suppress_short(forest, levels, least) if plain else judge_levels(forest, levels, keep=True)
    return BestLevels(levels, gone.rows, gone.persons, gone.loss, gone.gone, nodes, state.measured)


def smallest_class(forest: EntityForest) -> int:
    """The fewest persons that a model of size alone asks for; 1 where there is none."""
    sizes = [
        int(use.params["k"])
        for use in forest.policy.models
        if plugin("models", use.name).bounds_size_alone and "k" in use.params
    ]
    return max(sizes, default=1)


def _bound(losses: dict[str, list[float]], names: Sequence[str], node: Node) -> float:
    return math.fsum(losses[name][level] for name, level in zip(names, node, strict=True))


@dataclass
class _Search:
    forest: EntityForest
    names: list[str]
    top: Node
    nodes: int
    tell: Tell | None

    def __post_init__(self) -> None:
        self.failed: list[Node] = []  # nothing at or below these holds
        self.known: dict[Node, Counted] = {}

    @property
    def measured(self) -> int:
        return len(self.known)

    def is_ruled_out(self, node: Node) -> bool:
        return any(all(a <= b for a, b in zip(node, other, strict=True)) for other in self.failed)

    def count(self, node: Node, least: int) -> Counted:
        if node not in self.known:
            self.known[node] = count_short(self.forest, dict(zip(self.names, node, strict=True)), least)
            if self.tell is not None:
                self.tell(len(self.known), self.nodes)
        return self.known[node]

    def rule_out(self, node: Node, least: int) -> None:
        """A node failed: so does all below it. Look for the highest node on a way to the top that fails too."""
        way = list(self._way(node))
        low, high = 0, len(way)  # way[low] fails; way[high], if there is one, holds
        while high - low > 1:
            middle = (low + high) // 2
            fails = self.count(way[middle], least).rows > self.forest.limit
            low, high = (middle, high) if fails else (low, middle)
        lost = way[low]
        self.failed = [other for other in self.failed if any(a > b for a, b in zip(other, lost, strict=True))] + [lost]

    def _way(self, node: Node) -> Iterator[Node]:
        """From a node to the top, by turns in each column."""
        yield node
        while node != self.top:
            gaps = [(top - level) / top if top else 0.0 for level, top in zip(node, self.top, strict=True)]
            place = max(range(len(node)), key=lambda i: gaps[i])
            node = (*node[:place], node[place] + 1, *node[place + 1 :])
            yield node


def count_short(forest: EntityForest, levels: dict[str, int], least: int) -> Counted:
    """The rows and persons in classes of fewer than `least` persons, and the loss if they are suppressed."""
    at = signatures_at(forest, levels)
    met = exp.column("signature", table="p").eq(exp.column("signature", table="s"))
    own = exp.column("signature", table="t").eq(exp.column("signature", table="s"))
    persons = exp.column("persons", table="p")

    def total(name: str, of: str) -> exp.Expr:
        return exp.Sum(this=exp.Mul(this=double(persons.copy()), expression=double(exp.column(name, table=of))))

    classes = select(
        exp.column("spelt", table="s"),
        alias(sum_bigint(persons.copy()), "records"),
        alias(sum_bigint(exp.Mul(this=persons.copy(), expression=exp.column("rows_", table="t"))), "rows_"),
        alias(total("loss", "s"), "loss"),
        alias(total("weight", "t"), "weight"),
        source=nest_query(at, "s"),
        joins=[
            join_clause(table(forest.persons_of, alias="p"), met),
            join_clause(table(forest.trees[forest.tree.name], alias="t"), own),
        ],
        groups=[exp.column("spelt", table="s")],
    )
    short = exp.column("records") < literal(least)

    def of_short(name: str) -> exp.Expr:
        return sum_bigint(case((short.copy(), exp.column(name)), default=literal(0)))

    loss = exp.Sum(this=case((short.copy(), exp.column("weight")), default=exp.column("loss")))
    rows, persons_, lost = forest.engine.query(
        select(of_short("rows_"), of_short("records"), loss, source=nest_query(classes, "classes"))
    )[0]
    return Counted(int(rows or 0), int(persons_ or 0), float(lost or 0.0))

"""Local recoding from the bottom: rows form a class on the first node of the lattice where enough of them are alike.

The nodes are visited in the order of what they would lose on the whole table. On each, the rows that are in no class
yet form classes wherever these hold the models. Rows that are left at the end join the class to which they add least
loss. A class is shown by the lowest nodes of the hierarchies that cover its rows; a column has several levels.
Nothing is suppressed, and equal rows stay together.

Models must be such that a class holds as soon as a part of it does: sizes of classes, and numbers of different values.
Where they look at the size of classes alone, up to 50,000 nodes are visited; others are asked of 2,000 nodes at most.

What it does not protect: where models look at sensitive values, so do the classes.
cite: Xu, Wang, Pei, Wang, Shi and Fu 2006, who merge groups from the bottom; the order of the nodes is ours
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

import numpy as np
from pydantic import BaseModel, ConfigDict
from sqlglot import exp

from sqlanon.errors import PolicyError
from sqlanon.families import AlgorithmTraits
from sqlanon.lattice.nodes import Infeasible, Node
from sqlanon.lattice.problem import ALSO_SUPPRESSED, Problem
from sqlanon.lattice.solution import Solution
from sqlanon.regions.cut_regions import size
from sqlanon.regions.local_recoding import RoundTables, cells, nodes, released_rows, solution, verdicts
from sqlanon.regions.place_rows import Classes, LabelLosses, Numbers, order_nodes, place_rows
from sqlanon.sqltree.tree import (
    BIGINT,
    alias,
    bigint,
    case,
    count_all,
    literal,
    rows_relation,
    sum_bigint,
    table,
    union_all,
    window,
)

MOST_ROWS = 30_000  # distinct rows that are read; as long as there are more, the engine places them
MOST_NODES = 50_000  # that are visited in memory
MOST_ASKED = 2_000  # nodes that the engine is asked about
TOGETHER = 64  # nodes in one question, on so many rows at most:
MOST_TRIED = 300_000
MOST_PARTS = 64  # of a statement
MOST_JOINED = 5_000  # distinct rows that join classes one by one; more become a class of their own
MOST_COMPARED = 20_000_000  # such rows times classes: some seconds
FEWEST_COMPARED = 1_000

OUT_OF_TIME = "the time ran out: rows in no class joined others"

TRAITS = AlgorithmTraits()


class Params(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


def run(problem: Problem, params: Params) -> Solution:
    if obstacle := find_obstacle(problem):
        raise PolicyError(obstacle, hint="use top_down_recoding or mondrian, or leave 'algorithm' out")
    found = verdicts(problem, cells(problem), literal(1)).subquery(alias="v")
    problem.run()
    if not problem.records or problem.engine.query(exp.select("class_id").from_(found).where("broken = 1")):
        raise Infeasible(None)
    placing = _Placing(problem, RoundTables(problem, "bottom_up"))
    pieces = placing.run()
    levels = placing.tables.kept("levels", _in_rows(_levels(problem, pieces), len(problem.domains)))
    rows = released_rows(problem, pieces, levels)
    problem.run()
    released = verdicts(problem, rows, exp.column("region")).subquery(alias="v")
    if problem.engine.query(exp.select(count_all()).from_(released).where("broken = 1"))[0][0]:
        raise Infeasible(None)
    return solution(problem, pieces, levels, placing.why, placing.visited)


def find_obstacle(problem: Problem) -> str | None:
    """Why not, if not: rows that are left join a class that holds, which must go on holding, whoever they are."""
    for item in problem.requirements.models:
        if item.own is not None or problem.table.population is not None:
            return f"{item.use.name} looks at more than classes of all quasi-identifiers"
        if ALSO_SUPPRESSED not in item.model.monotone:
            return f"a class that holds {item.use.name} may break it when rows join it"
    return None


def counts_rows(problem: Problem) -> bool:
    """Whether the models look at nothing but the number of rows of a class, so that rows can be placed in memory."""
    return problem.requirements.plain and not problem.compressed.person


@dataclass
class _Placing:
    """Classes are numbered by their first cell, so that no two have one number."""

    problem: Problem
    tables: RoundTables
    visited: int = 0
    why: str = "all nodes were visited, until every row was in a class or no node was left"
    closed: list[exp.Query] = field(default_factory=list)  # class_id, cell, n

    def run(self) -> str:
        problem = self.problem
        order = order_nodes(_losses(problem))
        self.rest, self.left = cells(problem), self._count(cells(problem))
        in_memory = counts_rows(problem)
        self._place_by_sql(order, MOST_ROWS if in_memory else 0)
        if in_memory and 0 < self.left <= MOST_ROWS:
            self._place_in_memory(order)
        if self.left > MOST_JOINED:
            self._place(problem.top)
        if not self.closed:
            self._close(exp.select(alias(bigint(literal(1)), "class_id"), "cell", "n").from_(table(self.rest)))
        elif self.left:
            self._join_classes()
        return self.tables.kept("pieces", union_all(self.closed))

    def _close(self, tree: exp.Query) -> None:
        self.closed.append(exp.select("class_id", "cell", "n").from_(table(self.tables.kept("closed", tree))))
        if len(self.closed) == MOST_PARTS:
            every = self.tables.kept("closed", union_all(self.closed))
            self.closed = [exp.select("class_id", "cell", "n").from_(table(every))]

    def _count(self, rows: str) -> int:
        return int(self.problem.engine.query(exp.select(count_all()).from_(table(rows)))[0][0])

    # In the engine ----------------------------------------------------------------------------------------------------

    def _place_by_sql(self, order: Iterator[Node], enough: int) -> None:
        """Visit nodes until so few distinct rows are in no class."""
        while self.left > enough and self.visited < MOST_ASKED:
            together = list(islice(order, max(1, min(TOGETHER, MOST_TRIED // self.left))))
            if not together:
                return
            for node in self._holding(together):
                if self.problem.state.out_of_time():
                    self.why = OUT_OF_TIME
                    return
                self._place(node)
                if self.left <= enough:
                    return
            self.visited += len(together)
            self.problem.state.tell("placing rows", self.visited, MOST_ASKED)
        if self.left > enough and self.visited < math.prod(self.problem.shape):
            self.why = f"the {self.visited:,} nodes that lose least were visited; rows in no class joined others"

    def _holding(self, together: Sequence[Node]) -> list[Node]:
        """The nodes on which some class of the rest holds. No other will have one when less is left."""
        if len(together) == 1:
            return list(together)
        masks = [f"m{i}" for i in range(1, self.problem.compressed.keys + 1)]
        listed = [(place, *self.problem.compressed.masks(node)) for place, node in enumerate(together)]
        every = rows_relation(listed, ["place", *masks], [BIGINT] * (1 + len(masks))).subquery(alias="m")
        kept = [
            exp.BitwiseAnd(this=exp.column(name, table="r"), expression=exp.column(mask, table="m"))
            for name, mask in zip(self.problem.compressed.key_names, masks, strict=True)
        ]
        number = window(exp.DenseRank(), order=[exp.column("place", table="m"), *kept])
        trial = exp.select("r.*", "m.place", alias(bigint(number), "number")).from_(table(self.rest, alias="r"))
        tried = self.tables.made("trial", lambda: trial.join(every, join_type="cross"), self.rest, *together)
        node_of = alias(exp.Min(this=exp.column("place")), "place")
        found = verdicts(self.problem, tried, exp.column("number"), also=[node_of]).subquery(alias="v")
        holding = exp.select("place").distinct().from_(found).where("broken = 0").order_by("place")
        return [together[int(place)] for (place,) in self.problem.engine.query(holding)]

    def _place(self, node: Node) -> None:
        """The classes of a node that hold are closed."""
        problem = self.problem
        key = problem.class_id(problem.literal_masks(node))
        found = verdicts(problem, self.rest, key).subquery(alias="v")
        first = case((exp.column("broken", table="v").eq(0), exp.column("cell", table="r")))
        made = window(exp.Min(this=first), partition=[exp.column("class_id", table="v")])
        tree = exp.select("r.*", alias(made, "made")).from_(table(self.rest, alias="r"))
        tree = tree.join(found, on=exp.column("class_id", table="v").eq(key.copy()))
        placed = self.tables.made("placed", lambda: tree, *node, self.left)
        closed = exp.select(alias(exp.column("made"), "class_id"), "cell", "n").from_(table(placed))
        self._close(closed.where(exp.column("made").is_(exp.Null()).not_()))
        names = [*problem.compressed.key_names, *problem.compressed.others]
        leaves = [
            f"f{place}_{level}"
            for place, domain in enumerate(problem.domains, start=1)
            for level in range(1, domain.height)
        ]
        rest = exp.select("cell", "value", *names, "n", *leaves).from_(table(placed))
        rest = rest.where(exp.column("made").is_(exp.Null()))
        self.rest = self.tables.made("rest", lambda: rest, placed)
        self.left = self._count(self.rest)

    # In memory --------------------------------------------------------------------------------------------------------

    def _read_rest(self) -> tuple[Numbers, Numbers, Numbers]:
        """The rows in no class: their cells, keys and records."""
        keys = self.problem.compressed.key_names
        tree = exp.select("cell", "n", *keys).from_(table(self.rest)).order_by("cell")
        rows = np.array(self.problem.engine.query(tree), dtype=np.int64)
        return rows[:, 0], rows[:, 2:], rows[:, 1]

    def _place_in_memory(self, order: Iterator[Node]) -> None:
        problem = self.problem
        numbers, keys, counts = self._read_rest()

        def masks() -> Iterator[tuple[int, ...]]:
            for node in islice(order, MOST_NODES):
                if problem.state.out_of_time():
                    self.why = OUT_OF_TIME
                    return
                self.visited += 1
                yield problem.compressed.masks(node)

        placed = place_rows(keys, counts, masks(), _least_size(problem))
        if (placed < 0).any() and self.why != OUT_OF_TIME and self.visited < math.prod(problem.shape):
            self.why = f"the {self.visited:,} nodes that lose least were visited; rows in no class joined others"
        self._close_cells(numbers[placed >= 0], numbers[placed[placed >= 0]])

    def _close_cells(self, numbers: Numbers, classes: Numbers) -> None:
        """Close cells, given the class of each; the others are the rest."""
        given = self.tables.given("cells", ["cell", "class_id"], zip(numbers.tolist(), classes.tolist(), strict=True))
        tree = exp.select("g.class_id", "r.cell", "r.n").from_(table(self.rest, alias="r"))
        if len(numbers):
            self._close(tree.join(table(given, alias="g"), on="g.cell = r.cell"))
        rest = exp.select("r.*").from_(table(self.rest, alias="r"))
        rest = rest.where(exp.column("cell", table="r").isin(query=exp.select("cell").from_(table(given))).not_())
        self.rest = self.tables.made("rest", lambda: rest, self.rest, given)
        self.left -= len(numbers)

    def _join_classes(self) -> None:
        """Rows in no class join one; equal rows the same."""
        problem = self.problem
        every = self.tables.kept("every", union_all(self.closed))
        names = problem.compressed.key_names
        tree = _levels(problem, every)
        sizes = exp.select("class_id", alias(sum_bigint(exp.column("n")), "records")).from_(table(every))
        tree = exp.select("l.*", "s.records", *(f"c.{name}" for name in names)).from_(tree.subquery(alias="l"))
        tree = tree.join(sizes.group_by("class_id").subquery(alias="s"), on="s.class_id = l.class_id")
        tree = tree.join(table(cells(problem), alias="c"), on="c.cell = l.class_id")
        # Of very many classes the small ones, which cost least to generalize.
        tree = tree.order_by("s.records", "l.class_id").limit(max(FEWEST_COMPARED, MOST_COMPARED // self.left))
        known = np.array(problem.engine.query(tree), dtype=np.int64)
        wide = len(problem.domains)
        classes = Classes(_scales(problem), known[:, wide + 2 :], known[:, 1 : wide + 1], known[:, wide + 1])
        numbers, keys, counts = self._read_rest()
        alike, own = np.unique(keys, axis=0, return_inverse=True)
        weights = np.bincount(own.reshape(-1), weights=counts).astype(np.int64)
        joined = [classes.join(key, count) for key, count in zip(alike.tolist(), weights.tolist(), strict=True)]
        self._close_cells(numbers, known[np.array(joined), 0][own.reshape(-1)])


def _losses(problem: Problem) -> list[list[float]]:
    """What the levels of each attribute lose on the whole table."""
    found = []
    for domain, means in zip(problem.domains, problem.marginals(), strict=True):
        weight = problem.policy.columns[domain.name].weight / (domain.leaves - 1) if domain.leaves > 1 else 0.0
        found.append([weight * (mean - 1) for mean in means])
    return found


def _scales(problem: Problem) -> list[LabelLosses]:
    found = []
    for domain in problem.domains:
        weight = problem.policy.columns[domain.name].weight / (domain.leaves - 1) if domain.leaves > 1 else 0.0
        losses: list[dict[int, float]] = [{} for _ in range(domain.height + 1)]
        known = nodes(problem, domain)
        problem.run()
        for level, code, leaves in problem.engine.query(exp.select("level", "code", "leaves").from_(table(known))):
            losses[int(level)][int(code)] = weight * (float(leaves) - 1)
        found.append(LabelLosses(domain.key, domain.masks, tuple(losses)))
    return found


def _least_size(problem: Problem) -> int:
    """The fewest records that hold: more than that hold too."""
    limits = size(problem)

    def holds(records: int) -> bool:
        fits = case((limits.fits(literal(records)), literal(1)), default=literal(0))
        return bool(problem.engine.query(exp.select(fits))[0][0])

    low, high = 0, problem.records  # the whole table holds
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def _levels(problem: Problem, pieces: str) -> exp.Select:
    """For each class (class_id, l1, …) the lowest level on which all its rows are alike."""
    tree = exp.select("p.class_id").from_(table(pieces, alias="p"))
    tree = tree.join(table(cells(problem), alias="c"), on="c.cell = p.cell")
    for place, domain in enumerate(problem.domains, start=1):
        key = exp.column(problem.compressed.key_names[domain.key], table="c")
        masked = [exp.paren(exp.BitwiseAnd(this=key, expression=literal(mask))) for mask in domain.masks[:-1]]
        alike = [
            (exp.Min(this=own.copy()).eq(exp.Max(this=own.copy())), literal(level)) for level, own in enumerate(masked)
        ]
        tree = tree.select(alias(bigint(case(*alike, default=literal(domain.height))), f"l{place}"))
    return tree.group_by("p.class_id")


def _in_rows(levels: exp.Select, attributes: int) -> exp.Query:
    """One row for each class and attribute."""
    parts = [
        exp.select("class_id", alias(bigint(literal(place)), "attribute"), alias(exp.column(f"l{place}"), "level"))
        .from_("wide")
        for place in range(1, attributes + 1)
    ]  # fmt: skip
    return union_all(parts).with_("wide", as_=levels)

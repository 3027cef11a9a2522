"""A sample is published, each of its records generalized until an attacker learns no more than was to be expected.

Rows are drawn at a rate, from the owner's key: who was drawn cannot be told from the policy. As long as a record breaks
a model, it is generalized on the quasi-identifier with the largest remaining domain (the nodes on its present level and
above). It is dropped if that would distort it more than is accepted. The intended model is expected_confidence, which
judges records one by one; other models judge classes, and then all records of a class go up. Rows that are not drawn,
or dropped, count as suppressed.
cite: Sattar, Li, Ding, Liu and Vincent 2013
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict, Field
from sqlglot import exp

from sqlanon.errors import PolicyError, did_you_mean
from sqlanon.families import AlgorithmTraits
from sqlanon.lattice.nodes import Infeasible
from sqlanon.lattice.problem import Problem
from sqlanon.lattice.requirements import Requirement
from sqlanon.lattice.solution import Solution
from sqlanon.regions.local_recoding import RoundTables, by_level, cells, solution, verdicts
from sqlanon.regions.public_probability import class_probability, number_cells
from sqlanon.relations.hierarchy_lookups import lookup
from sqlanon.sqltree.tree import BIGINT, alias, rows_relation, sum_bigint, table, union_all, window

TRAITS = AlgorithmTraits(brings=frozenset({"class_probability"}))
# Levels are divided by heights: a sum of thirds may miss its limit by the last bit.
TOLERANCE = 1e-9


class Params(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    rate: float = Field(0.9, gt=0, le=1, description="Share of the rows that is drawn.")
    distortion: float = Field(
        0.6, ge=0, le=1, description="Largest distortion of a record: 0 shows it as it is, 1 shows nothing of it."
    )
    minimum: dict[str, int] = Field(
        default_factory=dict, description="Column to the level up to which all its values are generalized at least."
    )
    seed: str = Field("", description="Another seed is another draw. Who is drawn depends on the key too.")


def run(problem: Problem, params: Params) -> Solution:
    _require_sense(problem, params)
    steps = ladder(left_domains(problem), params.minimum, params.distortion, _names(problem))
    climb = _Climb(problem, steps, RoundTables(problem, "climb"))
    climb.start(params)
    while climb.round():
        problem.state.tell("generalizing records", climb.rounds, len(climb.steps))
    pieces, levels = climb.finish()
    found = solution(
        problem, pieces, levels, "every record that was drawn meets the models or was dropped", climb.rounds
    )
    if found.suppressed == problem.records:
        raise Infeasible(None)
    if found.suppressed > problem.limit:
        raise PolicyError(
            f"{found.suppressed} of {problem.records} rows would be left out, the policy allows {problem.limit}",
            hint="raise 'suppression_limit': rows that are not drawn count too; or accept more distortion",
        )
    return found


def _names(problem: Problem) -> list[str]:
    return [domain.name for domain in problem.domains]


def _is_of_records(item: Requirement) -> bool:
    """Whether a model compares each record with its public probability: then records are placed one by one."""
    return "probabilities" in item.model.needs


def _require_sense(problem: Problem, params: Params) -> None:
    if problem.compressed.person:
        raise PolicyError("sample_and_generalize draws rows, not persons", hint="leave out 'person', or one row each")
    if params.rate < 1 and not problem.table.seed:
        # The seed of the policy does not do: whoever reads the policy would know who was drawn.
        raise PolicyError(
            "samples need a key of at least 16 characters",
            hint="set the environment variable SQLANON_KEY to a long secret",
        )
    for name in params.minimum:
        if name not in _names(problem):
            raise PolicyError(
                f"'minimum' names '{name}', which is no quasi-identifier", hint=did_you_mean(name, _names(problem))
            )
    for item in problem.requirements.models:
        if _is_of_records(item) and float(str(item.params["beta"])) < params.rate:
            raise PolicyError(
                f"{item.model.name} reckons with a lower rate than {params.rate:g}, at which rows are drawn",
                hint=f"write beta: {params.rate:g}",
            )


def left_domains(problem: Problem) -> list[list[int]]:
    """For each quasi-identifier and level the number of nodes of its hierarchy on that level and above."""
    found = []
    for domain in problem.domains:
        made = lookup(problem.prelude, domain.name, domain.hierarchy)
        names = [f"level_{i}" if made else f"n{i}" for i in range(domain.height)]
        counts = [exp.Count(this=exp.Distinct(expressions=[exp.column(name)])) for name in names]
        row = problem.engine.query(exp.select(*counts).from_(table(made or domain.dictionary)))[0]
        nodes = [*(int(count) for count in row), 1]
        found.append([sum(nodes[level:]) for level in range(len(nodes))])
    return found


def ladder(
    left: Sequence[Sequence[int]], minimum: dict[str, int], accepted: float, names: Sequence[str]
) -> list[tuple[int, ...]]:
    """The levels through which a record goes up, as far as the distortion is accepted. What comes next depends on the
    levels alone, so all records climb the same ladder.

    >>> ladder([[9, 3, 1], [3, 1]], {"age": 1}, 0.9, ["age", "sex"])
    [(1, 0), (2, 0)]
    """
    heights = [len(sizes) - 1 for sizes in left]
    levels = [minimum.get(name, 0) for name in names]
    for name, level, height in zip(names, levels, heights, strict=True):
        if not 0 <= level <= height:
            raise PolicyError(f"'minimum' asks for level {level} of '{name}', which has the levels 0 to {height}")
    steps: list[tuple[int, ...]] = []
    while sum(a / b for a, b in zip(levels, heights, strict=True)) / len(levels) <= accepted + TOLERANCE:
        steps.append(tuple(levels))
        going = [i for i, level in enumerate(levels) if level < heights[i]]
        if not going:
            break
        chosen = max(going, key=lambda i: (left[i][levels[i]], -i))
        levels[chosen] += 1
    if not steps:
        raise PolicyError(
            "the least generalization distorts records more than is accepted",
            hint="raise 'distortion', or lower 'minimum'",
        )
    return steps


@dataclass
class _Climb:
    """The drawn rows, each on a step of the ladder: state(cell, step, n)."""

    problem: Problem
    steps: list[tuple[int, ...]]
    tables: RoundTables
    state: str = ""
    placed: str = ""
    rounds: int = 0

    def start(self, params: Params) -> None:
        known = {"cells": cells(self.problem)}
        self.shown = number_cells(self.problem)
        digest = hashlib.sha256(f"{self.problem.table.seed}/{params.seed}".encode())
        first = int.from_bytes(digest.digest()[:6], "big") / 2**48
        order = digest.hexdigest()[16:]  # apart from where the drawing begins
        self.state = self.tables.stated("state", known, "sampled", rate=params.rate, start=first, seed=order)

    def round(self) -> bool:
        """Rows that break a model go one step up, or are dropped; whether there were any."""
        self.placed = self.tables.made("placed", self._placed, self.state)
        self.rounds += 1
        parts = self._unsafe()

        def union() -> exp.Query:
            trees: list[exp.Query] = [exp.select("cell").from_(table(part)) for part in parts]
            return exp.select("cell").distinct().from_(union_all(trees).subquery(alias="u"))

        known = {"placed": self.placed, "unsafe": self.tables.made("unsafe", union, *parts)}
        if not self.problem.engine.query(exp.select("cell").from_(table(known["unsafe"])).limit(1)):
            return False
        # What is dropped at once needs no further rounds: time that ran out costs rows, not safety.
        last = 0 if self.problem.state.out_of_time() else len(self.steps) - 1
        self.state = self.tables.stated("state", known, "climbed", last=last)
        return True

    def finish(self) -> tuple[str, str]:
        """pieces(class_id, cell, n) and levels(class_id, attribute, level)."""
        rows = [
            (step, place, level)
            for step, levels in enumerate(self.steps)
            for place, level in enumerate(levels, start=1)
        ]
        ladder_levels = rows_relation(rows, ["step", "attribute", "level"], [BIGINT] * 3).subquery(alias="l")
        pieces = self.tables.kept("pieces", exp.select("class_id", "cell", "n").from_(table(self.placed)))
        first = exp.select(alias(exp.Min(this=exp.column("cell")), "cell")).from_(table(self.placed))
        tree = exp.select("p.class_id", "l.attribute", "l.level").from_(table(self.placed, alias="p"))
        tree = tree.join(first.group_by("class_id").subquery(alias="f"), on="f.cell = p.cell")
        return pieces, self.tables.kept("levels", tree.join(ladder_levels, on="l.step = p.step"))

    def _placed(self) -> exp.Select:
        problem, step = self.problem, exp.column("step", table="s")
        values = list(problem.compressed.values.values())
        tree = exp.select("s.cell", "s.step", "s.n", *(f"c.{name}" for name in values)).from_(
            table(self.state, alias="s")
        )
        names = []
        for place in range(1, len(problem.domains) + 1):
            node = by_level(
                step,
                {i: exp.column(f"x{place}_{levels[place - 1]}", table="c") for i, levels in enumerate(self.steps)},
            )
            names.append(f"y{place}")
            tree = tree.select(alias(node, names[-1]))
        tree = tree.join(table(self.shown, alias="c"), on="c.cell = s.cell")
        number = window(exp.DenseRank(), order=[exp.column(name) for name in names])
        return exp.select("*", alias(number, "class_id")).from_(tree.subquery(alias="t"))

    def _unsafe(self) -> list[str]:
        """The cells whose records break a model of records, or whose class breaks another one."""
        problem, placed = self.problem, self.placed
        found = [self._too_confident(item) for item in problem.requirements.models if _is_of_records(item)]
        others = tuple(item for item in problem.requirements.models if not _is_of_records(item))

        def broken() -> exp.Query:
            classes = verdicts(problem.ask_again(models=others), placed, exp.column("class_id"))
            tree = exp.select("p.cell").from_(table(placed, alias="p"))
            tree = tree.join(classes.subquery(alias="b"), on="b.class_id = p.class_id")
            return tree.where("b.broken = 1")

        return [*found, self.tables.made("broken", broken, placed)] if others else found

    def _too_confident(self, item: Requirement) -> str:
        problem, placed, tables = self.problem, self.placed, self.tables
        assert item.attribute is not None
        value = problem.compressed.values[item.attribute]

        def counted(*more: str) -> exp.Query:
            tree = exp.select("class_id", alias(sum_bigint(exp.column("n")), "records")).from_(table(placed))
            tree = tree.select(*(alias(exp.column(name), "value") for name in more))
            return tree.group_by("class_id", *more)

        known = {
            "classes": tables.made("classes", counted, placed),
            "class_values": tables.made("class_values", lambda: counted(value), value, placed),
            "class_probability": class_probability(problem, item, placed, self.steps, tables),
        }
        found = tables.stated("too_confident", known, beta=float(str(item.params["beta"])))

        def cells_of() -> exp.Query:
            same = exp.column("value", table="x").eq(exp.column(value, table="p"))
            tree = exp.select("p.cell").from_(table(placed, alias="p"))
            return tree.join(table(found, alias="x"), on=exp.and_("x.class_id = p.class_id", same))

        return tables.made(f"unsafe_{value}", cells_of, placed, found)

"""Local recoding from the top: all rows begin fully generalized, and go down wherever the models still hold.

Each round specializes every open class by one level of one quasi-identifier, the one that saves most. Rows of children
that break a model stay behind in the parent; if what stays behind breaks a model itself, children give back the rows
that they can spare, or come back as a whole. What stays behind may still go down on the other quasi-identifiers. Rows
that are alike may end in different classes. Nothing is suppressed.
cite: Sun, Li and Wang 2011
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from pydantic import BaseModel, ConfigDict, Field
from sqlglot import exp

from sqlanon.algorithms._problem import ALSO_SUPPRESSED, Problem
from sqlanon.algorithms._recoding import (
    by_level,
    cells,
    leaves_at,
    released_rows,
    solution,
    statement,
    verdicts,
)
from sqlanon.algorithms._search import Infeasible
from sqlanon.algorithms._solution import Solution
from sqlanon.compiler.compressed import Domain
from sqlanon.compiler.tree import (
    BIGINT,
    DOUBLE,
    alias,
    bigint,
    count_all,
    literal,
    rows_relation,
    table,
    union_all,
)

# Heights and widths of donations: every number at first, then four in each doubling.
GRID = [*range(1, 17), *(2**power * quarter // 4 for power in range(4, 40) for quarter in (5, 6, 7, 8))]


class Params(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    donors: int = Field(2, ge=0, description="How many children of a class are asked for rows that they can spare.")


def run(problem: Problem, params: Params) -> Solution:
    recoding = _Recoding(problem, params.donors)
    recoding.start()
    while recoding.open and not problem.out_of_time():
        recoding.step()
    pieces, levels = recoding.finish()
    rows = released_rows(problem, pieces, levels)
    problem.run()
    found = verdicts(problem, rows, exp.column("region"))
    if problem.engine.query(exp.select(count_all()).from_(found.subquery(alias="v")).where("broken = 1"))[0][0]:
        raise Infeasible(None)
    why = "no class can be specialized further"
    if recoding.open:
        why = "the time ran out: some classes could be specialized further"
    return solution(problem, pieces, levels, why, recoding.rounds)


@dataclass
class _Recoding:
    """The open classes: pieces(class_id, cell, value, n) and levels(class_id, attribute, level, open)."""

    problem: Problem
    donors: int
    rounds: int = 0
    open: bool = True
    pieces: str = ""
    levels: str = ""
    classes: int = 1  # the largest number in use
    closed: list[tuple[str, str]] = field(default_factory=list)
    steps: int = 0

    def start(self) -> None:
        problem = self.problem
        self.cells = cells(problem)
        self.pieces = self._made(
            "pieces", exp.select(alias(bigint(literal(1)), "class_id"), "cell", "value", "n").from_(self.cells)
        )
        height = [(1, place, domain.height, 1) for place, domain in enumerate(problem.domains, start=1)]
        self.levels = self._relation("levels", height, ["class_id", "attribute", "level", "open"])
        weights = [problem.policy.columns[domain.name].weight for domain in problem.domains]
        worth = [
            (place, float(weight) / (domain.leaves - 1) if domain.leaves > 1 else 0.0)
            for place, (domain, weight) in enumerate(zip(problem.domains, weights, strict=True), start=1)
        ]
        self.factors = self._made("factors", rows_relation(worth, ["attribute", "factor"], [BIGINT, DOUBLE]))
        self.grid = self._relation("grid", [(number,) for number in GRID], ["number"])
        values = ["value", *problem.compressed.values.values()]
        self.values = self._made("value_parts", exp.select(*values).distinct().from_(self.cells))
        top = verdicts(problem, self.cells, literal(1))
        if not self._none(exp.select("class_id").from_(top.subquery(alias="v")).where("broken = 1")):
            raise Infeasible(None)

    def step(self) -> None:
        """Every open class one level down."""
        problem, before = self.problem, (self.pieces, self.levels)
        trial = self._made("trial", self._trial())
        children = self._made("children", self._children(trial))
        known = {"pieces": self.pieces, "levels": self.levels, "trial": trial, "children": children}
        known |= {"factors": self.factors, "grid": self.grid}
        known["choice"] = self._made("choice", statement("choice", known))
        self.closed.append((self._made("closed", statement("closed", known)), self.levels))
        known["split"] = self._made("split", statement("split", known))
        known["split"] = self._repaired(known)
        known["classes_below"] = self._made("classes_below", statement("classes_below", known, before=self.classes))
        nested = all(ALSO_SUPPRESSED in item.model.monotone for item in problem.requirements)
        self.levels = self._made("levels", statement("levels_below", known, nested=int(nested)))
        self.pieces = self._made("pieces", statement("pieces_below", known))
        left = exp.select(exp.Coalesce(this=exp.Max(this=exp.column("class_id")), expressions=[literal(0)]))
        found = int(problem.engine.query(left.from_(table(self.pieces)))[0][0])
        self.open = found > 0
        self.classes = max(self.classes, found)
        self.rounds += 1
        problem.tell("specializing classes", self.rounds, sum(domain.height for domain in problem.domains))
        gone = [known[name] for name in ("trial", "children", "choice", "split", "classes_below")]
        problem.engine.drop_temporary([before[0], *gone])

    def finish(self) -> tuple[str, str]:
        """All classes, closed or not: pieces and levels."""
        closed = [*self.closed, (self.pieces, self.levels)]
        pieces = union_all([exp.select("class_id", "cell", "n").from_(table(name)) for name, _ in closed])
        levels = union_all([self._levels_of(*pair) for pair in closed])
        return self._made("pieces", pieces), self._made("levels", levels)

    def _levels_of(self, pieces: str, levels: str) -> exp.Select:
        own = exp.select("class_id").from_(table(pieces))
        return (
            exp.select("class_id", "attribute", "level")
            .from_(table(levels))
            .where(exp.column("class_id").isin(query=own))
        )

    def _trial(self) -> exp.Query:
        """All rows of open classes under every attribute that may still be specialized: the child that they go to,
        and the leaves that their labels stop to cover."""
        problem = self.problem
        most = [max(_width(domain, level) for level in range(domain.height)) for domain in problem.domains]
        self.bits = max(most), len(problem.domains).bit_length()
        values = [*problem.compressed.values.values(), *(["person"] if problem.compressed.person else [])]
        parts = []
        for place, domain in enumerate(problem.domains, start=1):
            level = exp.column("level", table="l")
            steps = range(1, domain.height + 1)
            sibling = by_level(level, {i: _sibling(problem, domain, i - 1) for i in steps})
            above = by_level(level, {i: leaves_at(domain, place, i) for i in steps})
            below = by_level(level, {i: leaves_at(domain, place, i - 1) for i in steps})
            saved = exp.Mul(
                this=exp.column("n", table="p"), expression=exp.paren(exp.Sub(this=above, expression=below))
            )
            here = exp.and_("l.class_id = p.class_id", exp.column("attribute", table="l").eq(place))
            tree = exp.select(
                alias(self._child(place, sibling), "child_id"),
                "p.class_id",
                alias(bigint(literal(place)), "attribute"),
                "p.cell",
                "p.value",
                "p.n",
                alias(saved, "saved"),
                *(f"c.{name}" for name in values),
            ).from_(table(self.pieces, alias="p"))
            tree = tree.join(table(self.levels, alias="l"), on=here)
            tree = tree.join(table(self.cells, alias="c"), on="c.cell = p.cell")
            parts.append(tree.where("l.open = 1 AND l.level > 0"))
        return union_all(parts)

    def _child(self, place: int, sibling: exp.Expr) -> exp.Expr:
        """The number of a child: the bits of its class, its attribute, and its place among its siblings."""
        width, attributes = self.bits
        own = exp.Mul(this=exp.column("class_id", table="p"), expression=literal(1 << (width + attributes)))
        return exp.Add(this=exp.Add(this=own, expression=literal(place << width)), expression=sibling)

    def _children(self, trial: str) -> exp.Select:
        width, attributes = self.bits
        number = exp.column("class_id", table="v")
        attribute = exp.BitwiseAnd(
            this=exp.paren(exp.BitwiseRightShift(this=number, expression=literal(width))),
            expression=literal((1 << attributes) - 1),
        )
        found = verdicts(self.problem, trial, exp.column("child_id"), costs=[exp.column("saved")])
        return exp.select(
            alias(number.copy(), "child_id"),
            alias(exp.BitwiseRightShift(this=number.copy(), expression=literal(width + attributes)), "class_id"),
            alias(attribute, "attribute"),
            "v.rows_",
            alias(exp.column("cost1", table="v"), "saved"),
            "v.broken",
        ).from_(found.subquery(alias="v"))

    # What stays behind ------------------------------------------------------------------------------------------------

    def _repaired(self, known: dict[str, str]) -> str:
        """Rows come back from children until what stays behind in a parent holds the models, or is the whole parent."""
        returned = 1
        while True:
            known["lacking"] = self._made("lacking", self._lacking(known))
            if self._none(exp.select("class_id").from_(table(known["lacking"]))):
                return known["split"]
            if self.donors and not self.problem.compressed.person:
                known["split"] = self._given(known)
                known["lacking"] = self._made("lacking", self._lacking(known))
            known["split"] = self._made("split", statement("returned", known, count=returned))
            returned *= 2

    def _lacking(self, known: dict[str, str]) -> exp.Select:
        """Classes whose remaining rows break a model; those that kept all their rows hold as they did."""
        problem = self.problem
        names = [*problem.compressed.values.values(), *(["person"] if problem.compressed.person else [])]
        rows = exp.select("s.parent", "s.n", *(f"c.{name}" for name in names)).from_(table(known["split"], alias="s"))
        rows = rows.join(table(self.cells, alias="c"), on="c.cell = s.cell").where("s.child = 0")
        remaining = self._made("remaining", rows)
        found = verdicts(problem, remaining, exp.column("parent"))
        split = exp.select("parent").from_(table(known["split"])).where("child <> 0")
        tree = exp.select("class_id").from_(found.subquery(alias="v")).where("broken = 1")
        return tree.where(exp.column("class_id").isin(query=split))

    def _given(self, known: dict[str, str]) -> str:
        known["donations"] = self._made("donations", statement("donations", known, donors=self.donors))
        donated = self._made("donated", statement("donated", known))
        values = list(self.problem.compressed.values.values())
        sides = exp.select("d.class_id", "d.n", *(f"v.{name}" for name in values)).from_(table(donated, alias="d"))
        both = self._made("sides", sides.join(table(self.values, alias="v"), on="v.value = d.value"))
        known["verdicts"] = self._made("verdicts", verdicts(self.problem, both, exp.column("class_id")))
        known["accepted"] = self._made("accepted", statement("accepted", known))
        return self._made("split", statement("given", known))

    # Tables -----------------------------------------------------------------------------------------------------------

    def _made(self, kind: str, query: exp.Query) -> str:
        self.steps += 1
        name = self.problem.prelude.once(f"top_down_{kind}", (self.steps,), lambda: query)
        self.problem.run()
        return name

    def _relation(self, kind: str, rows: Sequence[tuple[int, ...]], columns: list[str]) -> str:
        return self._made(kind, rows_relation(rows, columns, [BIGINT] * len(columns)))

    def _none(self, tree: exp.Select) -> bool:
        return not self.problem.engine.query(tree.limit(1))


def _width(domain: Domain, level: int) -> int:
    return (domain.masks[level] ^ domain.masks[level + 1]).bit_count()


def _sibling(problem: Problem, domain: Domain, level: int) -> exp.Expr:
    """The place of a node among its siblings."""
    own = domain.masks[level] ^ domain.masks[level + 1]
    key = exp.column(problem.compressed.key_names[domain.key], table="c")
    kept = exp.BitwiseAnd(this=key, expression=literal(own))
    return exp.paren(exp.BitwiseRightShift(this=exp.paren(kept), expression=literal(domain.shifts[level])))

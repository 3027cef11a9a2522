"""Local recoding from the top: all rows begin fully generalized, and go down wherever the models still hold.

Each round specializes every open class by one level of one quasi-identifier, the one that saves most. Rows of children
that break a model stay behind in the parent. If these rows break a model themselves, children give back the rows that
they can spare, or come back as a whole. Rows that stay behind may still go down on the other quasi-identifiers. Equal
rows may end in different classes. Nothing is suppressed.
cite: Sun, Li and Wang 2011
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from pydantic import BaseModel, ConfigDict, Field
from sqlglot import exp

from sqlanon.families import AlgorithmTraits, plugin
from sqlanon.lattice.nodes import Infeasible
from sqlanon.lattice.problem import ALSO_SUPPRESSED, Problem
from sqlanon.lattice.solution import Solution
from sqlanon.regions.local_recoding import RoundTables, by_level, cells, leaves_at, released_rows, solution, verdicts
from sqlanon.relations.compressed_rows import Domain
from sqlanon.sqltree.tree import (
    BIGINT,
    DOUBLE,
    alias,
    bigint,
    bind,
    count_all,
    literal,
    rows_relation,
    table,
    union_all,
)

# Heights and widths of donations: every number at first, then four in each doubling.
GRID = [*range(1, 17), *(2**power * quarter // 4 for power in range(4, 40) for quarter in (5, 6, 7, 8))]

TRAITS = AlgorithmTraits()


class Params(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    donors: int = Field(2, ge=0, description="How many children of a class are asked for rows that they can spare.")


def run(problem: Problem, params: Params) -> Solution:
    recoding = _Recoding(problem, params.donors, RoundTables(problem, "top_down"))
    recoding.start()
    while recoding.open and not problem.state.out_of_time():
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
    tables: RoundTables
    rounds: int = 0
    open: bool = True
    pieces: str = ""
    levels: str = ""
    classes: int = 1  # the largest number in use
    closed: list[tuple[str, str]] = field(default_factory=list)

    def start(self) -> None:
        problem, tables = self.problem, self.tables
        self.cells = cells(problem)
        whole = exp.select(alias(bigint(literal(1)), "class_id"), "cell", "value", "n").from_(table(self.cells))
        self.pieces = tables.made("pieces", lambda: whole, "start")
        tops = [(1, place, domain.height, 1) for place, domain in enumerate(problem.domains, start=1)]
        top = _numbers(tops, ["class_id", "attribute", "level", "open"])
        self.levels = tables.made("levels", lambda: top, "start")
        worth = [
            (place, problem.policy.columns[domain.name].weight / (domain.leaves - 1) if domain.leaves > 1 else 0.0)
            for place, domain in enumerate(problem.domains, start=1)
        ]
        self.factors = tables.kept("factors", rows_relation(worth, ["attribute", "factor"], [BIGINT, DOUBLE]))
        self.grid = tables.kept("grid", _numbers([(number,) for number in GRID], ["number"]))
        values = ["value", *problem.compressed.values.values()]
        self.values = tables.kept("value_parts", exp.select(*values).distinct().from_(table(self.cells)))
        widths = [_width(domain, level) for domain in problem.domains for level in range(domain.height)]
        self.bits = max(widths), len(problem.domains).bit_length()
        found = verdicts(problem, self.cells, literal(1))
        if not self._none(exp.select("class_id").from_(found.subquery(alias="v")).where("broken = 1")):
            raise Infeasible(None)

    def step(self) -> None:
        """Every open class one level down."""
        problem, tables = self.problem, self.tables
        known = {"pieces": self.pieces, "levels": self.levels, "factors": self.factors, "grid": self.grid}
        known["children"] = tables.made("children", self._children, self.pieces, self.levels)
        known["choice"] = tables.stated("choice", known)
        self._close(known)
        reads = (self.pieces, self.levels, known["choice"], known["children"])
        known["split"] = tables.made("split", lambda: self._split(known), *reads)
        self._repair(known)
        known["classes_below"] = tables.stated("classes_below", known, before=self.classes)
        nested = all(ALSO_SUPPRESSED in item.model.monotone for item in problem.requirements.models)
        self.levels = tables.stated("levels", known, "levels_below", nested=int(nested))
        self.pieces = tables.stated("pieces", known, "pieces_below")
        last = exp.select(exp.Max(this=exp.column("class_id"))).from_(table(self.pieces))
        found = int(problem.engine.query(last)[0][0] or 0)
        self.open = found > 0
        self.classes = max(self.classes, found)
        self.rounds += 1
        problem.state.tell("specializing classes", self.rounds, sum(domain.height for domain in problem.domains))

    def _close(self, known: dict[str, str]) -> None:
        """Put classes aside that no attribute can specialize."""
        ended = self.tables.stated("closed", known)
        if not self._none(exp.select("class_id").from_(table(ended))):
            pieces = self.tables.kept("closed_pieces", exp.select("*").from_(table(ended)))
            self.closed.append((pieces, self.tables.kept("closed_levels", _levels_of(pieces, known["levels"]))))

    def finish(self) -> tuple[str, str]:
        """All classes, closed or not: pieces and levels."""
        levels = _levels_of(self.pieces, self.levels)
        closed = [*self.closed, (self.pieces, self.tables.kept("closed_levels", levels))]
        parts = [exp.select("class_id", "cell", "n").from_(table(name)) for name, _ in closed]
        below = [exp.select("class_id", "attribute", "level").from_(table(name)) for _, name in closed]
        return self.tables.kept("all_pieces", union_all(parts)), self.tables.kept("all_levels", union_all(below))

    def _trial(self) -> exp.Query:
        """All rows of open classes under every attribute that may still be specialized: the child that they go to,
        and the leaves that their labels stop to cover."""
        problem = self.problem
        values = [*problem.compressed.values.values(), *(["person"] if problem.compressed.person else [])]
        parts = []
        for place, domain in enumerate(problem.domains, start=1):
            level = exp.column("level", table="l")
            steps = range(1, domain.height + 1)
            above = by_level(level, {i: leaves_at(domain, place, i) for i in steps})
            below = by_level(level, {i: leaves_at(domain, place, i - 1) for i in steps})
            gain = exp.paren(exp.Sub(this=above, expression=below))
            tree = exp.select(
                alias(self._child(place, domain), "child_id"),
                alias(exp.Mul(this=exp.column("n", table="p"), expression=gain), "saved"),
                *(exp.column(name, table="c") for name in values),
                exp.column("n", table="p"),
            ).from_(table(self.pieces, alias="p"))
            here = exp.and_("l.class_id = p.class_id", exp.column("attribute", table="l").eq(place))
            tree = tree.join(table(self.levels, alias="l"), on=here, copy=False)
            tree = tree.join(table(self.cells, alias="c"), on="c.cell = p.cell", copy=False)
            parts.append(tree.where("l.open = 1 AND l.level > 0", copy=False))
        return union_all(parts)

    def _child(self, place: int, domain: Domain) -> exp.Expr:
        """The number of a child: the bits of its class, its attribute, and its place among its siblings."""
        width, attributes = self.bits
        steps = range(1, domain.height + 1)
        sibling = by_level(exp.column("level", table="l"), {i: _sibling(self.problem, domain, i - 1) for i in steps})
        own = exp.Mul(this=exp.column("class_id", table="p"), expression=literal(1 << (width + attributes)))
        return exp.Add(this=exp.Add(this=own, expression=literal(place << width)), expression=sibling)

    def _split(self, known: dict[str, str]) -> exp.Query:
        """The rows of each class under the attribute that was chosen for it, where their child holds."""
        attribute = exp.column("attribute", table="s")
        children = {place: self._child(place, domain) for place, domain in enumerate(self.problem.domains, start=1)}
        tree = exp.select("p.class_id", "p.cell", "p.value", "p.n", alias(by_level(attribute, children), "child_id"))
        tree = tree.from_(table(self.pieces, alias="p"))
        tree = tree.join(table(known["choice"], alias="s"), on="s.class_id = p.class_id")
        here = exp.and_("l.class_id = p.class_id", "l.attribute = s.attribute")
        tree = tree.join(table(self.levels, alias="l"), on=here)
        tree = tree.join(table(self.cells, alias="c"), on="c.cell = p.cell")
        moved = bind(plugin("recoding", "split").sql, {}, {"children": known["children"]})
        return moved.with_("trial", as_=tree)

    def _children(self) -> exp.Select:
        width, attributes = self.bits
        number = exp.column("class_id", table="v")
        attribute = exp.BitwiseAnd(
            this=exp.paren(exp.BitwiseRightShift(this=number, expression=literal(width))),
            expression=literal((1 << attributes) - 1),
        )
        found = verdicts(
            self.problem,
            "trial",
            exp.column("child_id"),
            before=[("trial", self._trial())],
            costs=[exp.column("saved")],
        )
        return exp.select(
            alias(number.copy(), "child_id"),
            alias(exp.BitwiseRightShift(this=number.copy(), expression=literal(width + attributes)), "class_id"),
            alias(attribute, "attribute"),
            "v.rows_",
            alias(exp.column("cost1", table="v"), "saved"),
            "v.broken",
        ).from_(found.subquery(alias="v"))

    # What stays behind ------------------------------------------------------------------------------------------------

    def _repair(self, known: dict[str, str]) -> None:
        """Rows come back from children until what stays behind in a parent holds the models, or is the whole parent."""
        returned = 1
        while True:
            if self._all_hold(known):
                return
            if self.donors and not self.problem.compressed.person:
                self._give(known)
                if self._all_hold(known):
                    return
            known["split"] = self.tables.stated("split", known, "returned", count=returned)
            returned *= 2

    def _all_hold(self, known: dict[str, str]) -> bool:
        """Whether what stayed behind holds everywhere; else `lacking` are the classes where it does not."""
        problem, split = self.problem, known["split"]
        names = [*problem.compressed.values.values(), *(["person"] if problem.compressed.person else [])]

        def rows() -> exp.Query:
            tree = exp.select("s.parent", "s.n", *(f"c.{name}" for name in names)).from_(table(split, alias="s"))
            return tree.join(table(self.cells, alias="c"), on="c.cell = s.cell").where("s.child = 0")

        remaining = self.tables.made("remaining", rows, split)

        def lacking() -> exp.Query:
            found = verdicts(problem, remaining, exp.column("parent"))
            # A class that kept all its rows holds as it did.
            parents = exp.select("parent").from_(table(split)).where("child <> 0")
            tree = exp.select("class_id").from_(found.subquery(alias="v")).where("broken = 1")
            return tree.where(exp.column("class_id").isin(query=parents))

        known["lacking"] = self.tables.made("lacking", lacking, remaining, split)
        return self._none(exp.select("class_id").from_(table(known["lacking"])))

    def _give(self, known: dict[str, str]) -> None:
        """Children give rows to lacking parents, where both hold afterwards."""
        tables = self.tables
        known["donations"] = tables.stated("donations", known, donors=self.donors)
        donated = tables.stated("donated", known)
        values = list(self.problem.compressed.values.values())

        def rows() -> exp.Query:
            tree = exp.select("d.class_id", "d.n", *(f"v.{name}" for name in values)).from_(table(donated, alias="d"))
            return tree.join(table(self.values, alias="v"), on="v.value = d.value")

        sides = tables.made("sides", rows, donated)
        known["verdicts"] = tables.made(
            "verdicts", lambda: verdicts(self.problem, sides, exp.column("class_id")), sides
        )
        known["accepted"] = tables.stated("accepted", known)
        known["split"] = tables.stated("split", known, "given")

    def _none(self, tree: exp.Select) -> bool:
        return not self.problem.engine.query(tree.limit(1))


def _numbers(rows: Sequence[tuple[int, ...]], columns: list[str]) -> exp.Select:
    return rows_relation(rows, columns, [BIGINT] * len(columns))


def _levels_of(pieces: str, levels: str) -> exp.Select:
    own = exp.select("class_id").from_(table(pieces))
    tree = exp.select("class_id", "attribute", "level").from_(table(levels))
    return tree.where(exp.column("class_id").isin(query=own))


def _width(domain: Domain, level: int) -> int:
    return (domain.masks[level] ^ domain.masks[level + 1]).bit_count()


def _sibling(problem: Problem, domain: Domain, level: int) -> exp.Expr:
    """The place of a node among its siblings."""
    own = domain.masks[level] ^ domain.masks[level + 1]
    key = exp.column(problem.compressed.key_names[domain.key], table="c")
    kept = exp.BitwiseAnd(this=key, expression=literal(own))
    return exp.paren(exp.BitwiseRightShift(this=exp.paren(kept), expression=literal(domain.shifts[level])))

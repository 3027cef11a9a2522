"""The state of a cell suppression in which a suppressed cell matches any value, and the statements that move rows.

    shown(k1, …, n)                     rows of which nothing is suppressed
    pool(k1, …, n, crowd)               those of them that match too few rows: `crowd`, their own among them
    placed(k1, …, pattern, g1, …, n)    rows that lost the columns of `pattern`, and match enough

A pattern is a set of columns, as bits. The groups of a pattern are the rows of the pool that are alike on all other
columns. If a row of a group loses the pattern it matches the whole group, and the others of the group match one row
more: so the rows that match fewest lose cells, and the others are helped for nothing as soon as enough have.
Rows that are alike go together. What matches once, matches on: no step takes back what another one reached.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from sqlanon.cells.cell_tables import region_labels, same_columns
from sqlanon.lattice.class_queries import with_parts
from sqlanon.lattice.problem import Problem
from sqlanon.lattice.solution import Regions
from sqlanon.sqltree.tree import (
    BIGINT,
    alias,
    bigint,
    case,
    double,
    join_clause,
    literal,
    nest_query,
    rows_relation,
    select,
    sum_bigint,
    table,
    union_all,
    window,
)

Parts = list[tuple[str, exp.Query]]


@dataclass
class MatchingCells:
    problem: Problem
    size: int  # rows that each row must match
    shown: str = ""
    pool: str = ""
    placed: str = ""
    used: list[int] = field(default_factory=list)  # patterns of placed rows
    _mark: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        once = self.problem.prelude.once
        # These tables change: a second search on the same problem needs its own.
        self._mark = (sum(kind == "matching_pool" for kind, *_ in self.problem.prelude.made),)
        self.shown = once("matching_shown", self._mark, self._all_rows)
        self.pool = once("matching_pool", self._mark, self._too_few)
        self.placed = once("matching_placed", self._mark, self._nothing_placed)
        self.problem.run()

    @property
    def keys(self) -> list[str]:
        return self.problem.compressed.key_names

    @property
    def grouped(self) -> list[str]:
        return [f"g{place}" for place in range(1, len(self.keys) + 1)]

    def masks(self, pattern: int) -> tuple[int, ...]:
        """What a pattern leaves of the keys."""
        levels = [domain.height if pattern >> i & 1 else 0 for i, domain in enumerate(self.problem.domains)]
        return self.problem.compressed.masks(levels)

    def waiting(self) -> int:
        """Rows of the pool."""
        total = exp.Coalesce(this=exp.Sum(this=exp.column("n")), expressions=[literal(0)])
        return int(self.problem.engine.query(select(total, source=table(self.pool)))[0][0])

    # What there is at first ---------------------------------------------------------------------------------------

    def _all_rows(self) -> exp.Select:
        rows = table(self.problem.compressed.table)
        return select(*self.keys, alias(sum_bigint(exp.column("n")), "n"), source=rows, groups=self.keys)

    def _too_few(self) -> exp.Select:
        few = exp.column("n") < self.size
        return select(*self.keys, "n", alias(exp.column("n"), "crowd"), source=table(self.shown), where=few)

    def _nothing_placed(self) -> exp.Select:
        names = (*self.keys, "pattern", *self.grouped, "n")
        return exp.select(*(alias(bigint(literal(0)), name) for name in names)).where(exp.false())

    # The groups of patterns ---------------------------------------------------------------------------------------

    def measure(self, patterns: Sequence[int]) -> list[tuple[int, float, int]]:
        """For each pattern that helps a group: the fewest rows that must lose it for each row that is helped, and how
        many rows are helped at that price."""
        group = ["pattern", *self.grouped]
        least = window(exp.Min(this=exp.column("ratio")), partition=[exp.column("pattern")])
        ranked = select(*group, "helped", "ratio", alias(least, "least"), source=table("chances"))
        tree = select(
            "pattern",
            exp.Min(this=exp.column("ratio")),
            sum_bigint(exp.column("helped")),
            source=nest_query(ranked, "ranked"),
            where=exp.column("ratio") <= exp.column("least"),
            groups=["pattern"],
        )
        found = self.problem.engine.query(with_parts(tree, self._chances(patterns)))
        return [(int(pattern), float(ratio), int(helped)) for pattern, ratio, helped in found]

    def _chances(self, patterns: Sequence[int]) -> Parts:
        """chances(pattern, g1, …, helped, ratio) of the groups in which a row can match enough, over
        ordered(pattern, g1, …, k1, …, n, loses): the rows of the pool in them, and whether they lose the pattern."""
        group = ["pattern", *self.grouped]
        parts: Parts = [("tries", self._masks_of(patterns))]
        pooled = [*(exp.column(name, table="r") for name in (*self.keys, "n", "crowd")), *self._masked("r", "t")]
        crossed = [exp.Join(this=table("tries", alias="t"), kind="CROSS")]
        tree = select(exp.column("pattern", table="t"), *pooled, source=table(self.pool, alias="r"), joins=crossed)
        parts += [("pooled", tree), ("groups_", select(*group, source=table("pooled"), groups=group))]
        parts += [("enough", self._enough(parts))]
        so_far = window(
            exp.Sum(this=exp.column("n", table="p")),
            partition=[exp.column(name, table="p") for name in group],
            order=[exp.column(name, table="p") for name in ("crowd", *self.keys)],
        )
        before = exp.Sub(this=bigint(so_far), expression=exp.column("n", table="p"))
        lacks = exp.Sub(this=literal(self.size), expression=exp.column("crowd", table="p"))
        loses = alias(case((exp.paren(lacks) > exp.paren(before), literal(1)), default=literal(0)), "loses")
        own = [exp.column(name, table="p") for name in (*group, *self.keys, "n")]
        inside = [join_clause(table("enough", alias="e"), same_columns(group, "p", "e"))]
        parts.append(("ordered", select(*own, loses, source=table("pooled", alias="p"), joins=inside)))
        lost = exp.Sum(this=exp.Mul(this=exp.column("n"), expression=exp.column("loses")))
        helped = exp.Sum(this=exp.column("n"))
        ratio = alias(exp.Div(this=double(lost), expression=double(helped)), "ratio")
        chosen = [alias(bigint(helped.copy()), "helped"), ratio]
        parts.append(("chances", select(*group, *chosen, source=table("ordered"), groups=group)))
        return parts

    def _enough(self, parts: Parts) -> exp.Select:
        """Groups that a row matches enough rows in, once it lost the pattern; what they need comes into `parts`."""
        group = ["pattern", *self.grouped]
        tries = exp.Join(this=table("tries", alias="t"), kind="CROSS")
        pattern = exp.column("pattern", table="t")
        rows = select(pattern, *self._masked("r", "t"), "n", source=table(self.shown, alias="r"), joins=[tries])
        whole = select(*group, alias(sum_bigint(exp.column("n")), "n"), source=nest_query(rows, "masked"), groups=group)
        parts.append(("whole", whole))
        total: exp.Expr = exp.Coalesce(this=exp.column("n", table="w"), expressions=[literal(0)])
        joins = [join_clause(table("whole", alias="w"), same_columns(group, "q", "w"), side="LEFT")]
        if self.used:
            parts += [("used", self._masks_of(self.used)), ("hidden", self._hidden())]
            more = exp.Coalesce(this=exp.column("n", table="h"), expressions=[literal(0)])
            total = exp.Add(this=total, expression=more)
            joins.append(join_clause(table("hidden", alias="h"), same_columns(group, "q", "h"), side="LEFT"))
        own = [exp.column(name, table="q") for name in group]
        return select(*own, source=table("groups_", alias="q"), joins=joins, where=exp.paren(total) >= self.size)

    def _hidden(self) -> exp.Select:
        """Rows with suppressed cells that match a group: for each pair of patterns, on the columns that both show."""
        group, tries = ["pattern", *self.grouped], exp.Join(this=table("tries", alias="t"), kind="CROSS")
        lost = alias(exp.column("pattern", table="r"), "other")
        masked = self._masked("r", "t", of=self.grouped)
        pattern = exp.column("pattern", table="t")
        rows = select(pattern, lost, *masked, "n", source=table(self.placed, alias="r"), joins=[tries])
        names = [*group, "other"]
        placed = select(
            *names, alias(sum_bigint(exp.column("n")), "n"), source=nest_query(rows, "masked"), groups=names
        )
        other = exp.Join(this=table("used", alias="u"), kind="CROSS")
        seen = [alias(item.this, f"s{place}") for place, item in enumerate(self._masked("q", "u", of=self.grouped), 1)]
        own = [exp.column(name, table="q") for name in group]
        lost = alias(exp.column("pattern", table="u"), "other")
        sought = select(*own, lost, *seen, source=table("groups_", alias="q"), joins=[other])
        same = [same_columns(["pattern", "other"], "q", "x")]
        for place, name in enumerate(self.grouped, start=1):
            same.append(exp.column(f"s{place}", table="q").eq(exp.column(name, table="x")))
        return select(
            *(item.copy() for item in own),
            alias(sum_bigint(exp.column("n", table="x")), "n"),
            source=nest_query(sought, "q"),
            joins=[join_clause(nest_query(placed, "x"), exp.and_(*same))],
            groups=[item.copy() for item in own],
        )

    def _masks_of(self, patterns: Sequence[int]) -> exp.Select:
        names = ["pattern", *(f"m{place}" for place in range(1, len(self.keys) + 1))]
        return rows_relation([(each, *self.masks(each)) for each in patterns], names, [BIGINT] * len(names))

    def _masked(self, rows: str, masks: str, *, of: Sequence[str] | None = None) -> list[exp.Alias]:
        """The keys of a relation without what the patterns of another one hide."""
        found = []
        for place, (key, group) in enumerate(zip(of or self.keys, self.grouped, strict=True), start=1):
            mask = exp.column(f"m{place}", table=masks)
            found.append(alias(exp.BitwiseAnd(this=exp.column(key, table=rows), expression=mask), group))
        return found

    # Moving rows --------------------------------------------------------------------------------------------------

    def place(self, pattern: int, edge: float) -> None:
        """Suppress the columns of a pattern in the groups whose ratio is `edge` at most."""
        engine, group = self.problem.engine, ["pattern", *self.grouped]
        chosen, gains = f"{self.pool}_chosen", f"{self.pool}_gains"
        own = [exp.column(name, table="o") for name in (*self.keys, *group, "n")]
        cheap = exp.and_(exp.column("loses", table="o").eq(1), exp.column("ratio", table="c") <= edge)
        joins = [join_clause(table("chances", alias="c"), same_columns(group, "o", "c"))]
        tree = select(*own, source=table("ordered", alias="o"), joins=joins, where=cheap)
        try:
            engine.create_temporary(chosen, with_parts(tree, self._chances([pattern])))
            engine.execute(exp.insert(exp.select("*").from_(table(chosen)), self.placed))
            for name in (self.shown, self.pool):
                moved = select(literal(1), source=table(chosen, alias="c"), where=same_columns(self.keys, "c", name))
                engine.execute(exp.delete(name, where=exp.Exists(this=moved)))
            more = alias(sum_bigint(exp.column("n")), "n")
            engine.create_temporary(gains, select(*self.grouped, more, source=table(chosen), groups=self.grouped))
            self._add_gains(pattern, gains)
        finally:
            engine.drop_temporary([chosen, gains])
        if pattern not in self.used:
            self.used.append(pattern)

    def _add_gains(self, pattern: int, gains: str) -> None:
        """The others of a group match the rows that were placed; who matches enough then, waits no longer."""
        engine = self.problem.engine
        grown = exp.Add(this=exp.column("crowd", table=self.pool), expression=exp.column("n", table="b"))
        alike = []
        for key, name, mask in zip(self.keys, self.grouped, self.masks(pattern), strict=True):
            own = exp.BitwiseAnd(this=exp.column(key, table=self.pool), expression=bigint(literal(mask)))
            alike.append(exp.paren(own).eq(exp.column(name, table="b")))
        joined_to = exp.From(this=table(gains, alias="b"))
        to: dict[str, object] = {"crowd": grown}
        engine.execute(exp.update(self.pool, to, where=exp.and_(*alike), from_=joined_to))
        engine.execute(exp.delete(self.pool, where=exp.column("crowd") >= self.size))

    # What comes out -----------------------------------------------------------------------------------------------

    def rows_by_pattern(self) -> dict[int, int]:
        """How many rows lost the cells of each pattern."""
        tree = select("pattern", sum_bigint(exp.column("n")), source=table(self.placed), groups=["pattern"])
        return {int(pattern): int(count) for pattern, count in self.problem.engine.query(tree)}

    def rows_found_by_values(self) -> tuple[int, int]:
        """Rows whose original values, suppressed ones too, fit fewer rows of the release than they should match; and
        the fewest rows that fit one. A row of which nothing is suppressed matches what its values fit."""
        if not self.used:
            return 0, self.size
        crossed = exp.Join(this=table("used", alias="u"), kind="CROSS")
        own = [alias(exp.column(key, table="r"), key) for key in self.keys]
        lost = alias(exp.column("pattern", table="u"), "pattern")
        count = exp.column("n", table="r")
        known = select(
            *own, count, lost, *self._masked("r", "u"), source=table(self.placed, alias="r"), joins=[crossed]
        )
        group = ["pattern", *self.grouped]
        rows = select(*group, alias(sum_bigint(exp.column("n")), "n"), source=table(self.placed), groups=group)
        keys = [exp.column(key, table="q") for key in self.keys]
        fits = select(
            alias(exp.Max(this=exp.column("n", table="q")), "n"),
            alias(sum_bigint(exp.column("n", table="x")), "fitting"),
            source=nest_query(known, "q"),
            joins=[join_clause(nest_query(rows, "x"), same_columns(group, "q", "x"))],
            groups=keys,
        )
        few = case((exp.column("fitting") < self.size, exp.column("n")), default=literal(0))
        tree = select(sum_bigint(few), exp.Min(this=exp.column("fitting")), source=nest_query(fits, "fits"))
        found, fewest = self.problem.engine.query(with_parts(tree, [("used", self._masks_of(self.used))]))[0]
        return int(found or 0), int(fewest)

    def regions(self) -> Regions:
        once, mark = self.problem.prelude.once, self._mark
        numbered = once("matching_rows", mark, self._numbered)
        chosen = exp.select(*self.keys, "region").from_(table(numbered))
        members = once("matching_members", mark, lambda: chosen)
        labels = once("matching_labels", mark, lambda: region_labels(self.problem, numbered, self.grouped))
        self.problem.run()
        return Regions(members, labels)

    def _numbered(self) -> exp.Select:
        """All rows, with the number of their class."""
        as_they_are = [alias(exp.column(key), name) for key, name in zip(self.keys, self.grouped, strict=True)]
        nothing = alias(bigint(literal(0)), "pattern")
        parts = [
            select(*self.keys, "pattern", *self.grouped, source=table(self.placed)),
            select(*self.keys, nothing, *as_they_are, source=table(self.shown)),
        ]
        order = [exp.column(name) for name in ("pattern", *self.grouped)]
        region = alias(bigint(window(exp.DenseRank(), order=order)), "region")
        return select(exp.Star(), region, source=nest_query(union_all(parts), "released"))

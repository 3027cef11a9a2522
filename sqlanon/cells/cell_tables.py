"""The state of cell suppression as temporary tables, and the statements that move rows between them.

    pool(k1, …, v1, …, person, n)      rows whose class still breaks a model, as in the compressed table
    donors(k1, …, n, lent)             classes that hold as they are; the first `lent` of their n rows went elsewhere
    placed(k1, …, pattern, g1, …, first, last)   rows that found a class once the columns of `pattern` were suppressed

A pattern is a set of columns, as bits. Its groups are the pool's rows that are alike on all other columns. A group that
does not hold by itself may borrow rows from donors that are alike too; these then lose the same cells.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlglot import exp

from sqlanon.lattice.problem import Problem
from sqlanon.lattice.solution import Regions
from sqlanon.relations.compressed_rows import code
from sqlanon.sqltree.tree import BIGINT, DOUBLE, alias, bigint, case, double, literal, sum_bigint, table, window

ALL = 1 << 60  # more donors than there are


@dataclass(frozen=True)
class Lending:
    """How a group borrows: rows that a donor can spare beyond `size`, or the smallest `donors` as a whole."""

    size: int | None = None
    donors: int = 1


@dataclass
class Cells:
    problem: Problem
    pool: str = ""
    donors: str = ""
    placed: str = ""
    _mark: tuple[int, ...] = ()
    _asked: dict[Lending, Callable[[Sequence[int | float]], list[tuple[Any, ...]]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        once = self.problem.prelude.once
        # These tables change: a second search on the same problem needs its own.
        self._mark = (sum(kind == "pool" for kind, *_ in self.problem.prelude.made),)
        self.pool = once("pool", self._mark, lambda: self._at_first(1))
        self.donors = once("donors", self._mark, self._donors_at_first)
        self.placed = once("placed", self._mark, self._nothing_placed)
        self.problem.run()

    @property
    def keys(self) -> list[str]:
        return self.problem.compressed.key_names

    def masks(self, pattern: int) -> list[exp.Expr]:
        """What a pattern leaves of the keys."""
        levels = [domain.height if pattern >> i & 1 else 0 for i, domain in enumerate(self.problem.domains)]
        return [literal(mask) for mask in self.problem.compressed.masks(levels)]

    def waiting(self) -> int:
        """Rows of the pool."""
        total = exp.Coalesce(this=exp.Sum(this=exp.column("n")), expressions=[literal(0)])
        return int(self.problem.engine.query(exp.select(total).from_(table(self.pool)))[0][0])

    # What there is at first ---------------------------------------------------------------------------------------

    def _at_first(self, broken: int) -> exp.Select:
        masks = self.masks(0)
        classes, parts = self.problem.classes_by(self.problem.class_id(masks), self.problem.compressed.table)
        same = self.problem.class_id(masks).eq(exp.column("class_id", table="s"))
        tree = exp.select("c.*").from_(table(self.problem.compressed.table, alias="c"))
        return _with(tree.join(table(classes, alias="s"), on=same).where(exp.column("broken").eq(broken)), parts)

    def _donors_at_first(self) -> exp.Select:
        tree = exp.select(*self.keys, alias(sum_bigint(exp.column("n")), "n"), alias(bigint(literal(0)), "lent"))
        return tree.from_(self._at_first(0).subquery(alias="safe")).group_by(*self.keys)

    def _nothing_placed(self) -> exp.Select:
        zero = bigint(literal(0))
        named = [alias(zero.copy(), name) for name in (*self.keys, "pattern", *self._grouped, "first", "last")]
        return exp.select(*named).where(exp.false())

    @property
    def _grouped(self) -> list[str]:
        return [f"g{i}" for i in range(1, len(self.keys) + 1)]

    # The groups of a pattern --------------------------------------------------------------------------------------

    def measure(self, pattern: int, edge: float, lending: Lending) -> tuple[int, float | None]:
        """How many rows of the pool find a class if each may cost up to `edge` rows, and the least cost beyond."""
        if lending not in self._asked:
            self._asked[lending] = self.problem.engine.prepared(self._question(lending))
        numbers = [*(int(mask.name) for mask in self.masks(pattern)), edge]
        if lending.size is None:
            numbers.append(self._beyond(pattern))
        found, more = self._asked[lending](numbers)[0]
        return int(found), None if more is None else float(more)

    def _question(self, lending: Lending) -> exp.Select:
        count = len(self.keys)
        masks = [_parameter(i, BIGINT) for i in range(1, count + 1)]
        near = exp.column("ratio") <= _parameter(count + 1, DOUBLE)
        groups, parts = self._groups(masks, _parameter(count + 2, BIGINT), lending)
        rows = exp.Sum(this=case((near, exp.column("v")), default=literal(0)))
        least = exp.Min(this=case((near.copy(), exp.Null()), default=exp.column("ratio")))
        tree = exp.select(exp.Coalesce(this=rows, expressions=[literal(0)]), least)
        return _with(tree.from_(groups), parts)

    def _beyond(self, pattern: int) -> int:
        return ((1 << len(self.problem.domains)) - 1) ^ pattern

    def _groups(
        self, masks: Sequence[exp.Expr], beyond: exp.Expr, lending: Lending
    ) -> tuple[str, list[tuple[str, exp.Query]]]:
        """(id, v, need, ratio): rows of the pool, rows or a donor needed, rows to suppress for each of its own."""
        key = self.problem.class_id(masks)
        rows, spare = exp.column("v", table="p"), exp.column("spare", table="s")
        alone: exp.Expr
        need: exp.Expr
        enough: exp.Expr
        size: exp.Expr
        if lending.size is None:
            classes, parts = self.problem.classes_by(key, self.pool)
            pooled = exp.select(alias(exp.column("class_id"), "id"), alias(exp.column("rows_"), "v"), "broken")
            parts.append(("pooled", pooled.from_(classes)))
            alone, need = exp.column("broken", table="p").eq(0), exp.column("broken", table="p")
            enough, size = spare.copy().is_(exp.Null()).not_(), exp.Add(this=rows.copy(), expression=spare.copy())
        else:
            pooled = exp.select(alias(key, "id"), alias(sum_bigint(exp.column("n")), "v"))
            parts = [("pooled", pooled.from_(table(self.pool)).group_by(key.copy()))]
            missing = exp.Sub(this=literal(lending.size), expression=rows.copy())
            alone, need = rows.copy() >= lending.size, exp.func("GREATEST", missing, literal(0))
            enough, size = spare.copy() >= missing.copy(), literal(lending.size)
        borrowed = exp.Div(this=double(exp.paren(size, copy=False)), expression=double(rows.copy()))
        ratio = case((alone, literal(1.0)), (enough, borrowed), default=double(exp.Null()))
        total = exp.select("id", alias(sum_bigint(exp.column("spare")), "spare")).group_by("id")
        parts.append(("lenders", total.from_(self._lenders(masks, beyond, lending).subquery(alias="lenders_"))))
        tree = exp.select("p.id", "p.v", alias(need, "need"), alias(ratio, "ratio")).from_("pooled AS p")
        same = exp.column("id", table="p").eq(exp.column("id", table="s"))
        return "groups_", [*parts, ("groups_", tree.join("lenders AS s", on=same, join_type="left"))]

    def _lenders(self, masks: Sequence[exp.Expr], beyond: exp.Expr, lending: Lending) -> exp.Select:
        """What could lend, with the group that it could lend to and the rows that it can spare."""
        if lending.size is not None:
            unlent = exp.Sub(this=exp.column("n"), expression=exp.column("lent"))
            left = exp.Sub(this=unlent, expression=literal(lending.size))
            tree = exp.select(*self.keys, "lent", alias(self.problem.class_id(masks), "id"), alias(left, "spare"))
            return tree.from_(table(self.donors)).where(left.copy() > 0)
        names = ["pattern", *self._grouped]
        # A class can lose more cells, never get one back.
        fits = exp.paren(exp.BitwiseAnd(this=exp.column("pattern"), expression=beyond)).eq(0)
        sizes = exp.select(*names, alias(sum_bigint(_rows()), "spare")).from_(table(self.placed)).where(fits)
        renamed = [alias(exp.column(group), key) for group, key in zip(self._grouped, self.keys, strict=True)]
        classes = exp.select(*names, *renamed, "spare").from_(sizes.group_by(*names).subquery(alias="sizes"))
        able = exp.select(*names, "spare", alias(self.problem.class_id(masks), "id")).from_(
            classes.subquery(alias="able")
        )
        if lending.donors >= ALL:
            return able
        order = [exp.column(name) for name in ("spare", *names)]
        place = window(exp.RowNumber(), partition=[exp.column("id")], order=order)
        ranked = exp.select("*", alias(place, "place")).from_(able.subquery(alias="lenders_"))
        return exp.select("*").from_(ranked.subquery(alias="ranked")).where(exp.column("place") <= lending.donors)

    def lend_whole_classes(self) -> None:
        """From now on classes are lent as a whole: those that hold as they are become placed ones, of no pattern."""
        self.problem.engine.execute(exp.insert(self._not_lent(), self.placed))
        self.problem.engine.execute(exp.delete(self.donors))

    def _not_lent(self) -> exp.Select:
        kept = exp.select(
            *self.keys,
            alias(bigint(literal(0)), "pattern"),
            *(alias(exp.column(key), name) for key, name in zip(self.keys, self._grouped, strict=True)),
            alias(bigint(exp.Add(this=exp.column("lent"), expression=literal(1))), "first"),
            alias(exp.column("n"), "last"),
        )
        return kept.from_(table(self.donors)).where(exp.column("lent") < exp.column("n"))

    # Moving rows --------------------------------------------------------------------------------------------------

    def place(self, pattern: int, edge: float, lending: Lending) -> None:
        """Suppress the columns of a pattern in the groups that `measure` counted, and in what they borrow."""
        masks, beyond, engine = self.masks(pattern), literal(self._beyond(pattern)), self.problem.engine
        chosen, borrowed = f"{self.pool}_chosen", f"{self.pool}_borrowed"
        groups, parts = self._groups(masks, beyond, lending)
        near = exp.column("ratio") <= edge
        try:
            engine.create_temporary(chosen, _with(exp.select("id", "need").from_(groups).where(near), parts))
            if self._needy(chosen):
                lenders = self._lenders(masks, beyond.copy(), lending)
                engine.create_temporary(borrowed, self._borrowed(chosen, lenders, lending))
                if lending.size is None:
                    self._verify(chosen, borrowed, masks)
                    self._suppress_more(pattern, borrowed, masks)
                else:
                    self._lend(pattern, borrowed, masks)
            self._move(pattern, chosen, masks)
        finally:
            engine.drop_temporary([chosen, borrowed])

    def _needy(self, chosen: str) -> bool:
        needy = exp.select("COUNT(*)").from_(table(chosen)).where(exp.column("need") > 0)
        return bool(self.problem.engine.query(needy)[0][0])

    def _borrowed(self, chosen: str, lenders: exp.Select, lending: Lending) -> exp.Select:
        """Whole classes; or as many rows as needed, from the richest donors first: k1, …, first, last."""
        same = exp.column("id", table="l").eq(exp.column("id", table="c"))
        tree = exp.select("l.*", "c.need").from_(lenders.subquery(alias="l")).join(table(chosen, alias="c"), on=same)
        tree = tree.where(exp.column("need", table="c") > 0)
        if lending.size is None:
            return tree
        own = exp.column("spare", table="l")
        order = [exp.Neg(this=own.copy()), *(exp.column(name, table="l") for name in self.keys)]
        so_far = window(exp.Sum(this=own.copy()), partition=[exp.column("id", table="l")], order=order)
        tree = tree.select(alias(bigint(exp.Sub(this=so_far, expression=own)), "before"))
        still = exp.Sub(this=exp.column("need"), expression=exp.column("before"))
        last = exp.Add(this=exp.column("lent"), expression=exp.func("LEAST", exp.column("spare"), still))
        first = exp.Add(this=exp.column("lent"), expression=literal(1))
        named = [alias(bigint(first), "first"), alias(bigint(last), "last")]
        found = exp.select(*self.keys, *named).from_(tree.subquery(alias="lending"))
        return found.where(exp.column("before") < exp.column("need"))

    def _verify(self, chosen: str, borrowed: str, masks: Sequence[exp.Expr]) -> None:
        """Leave out the groups that do not hold with what they would borrow."""
        engine, trial, failed = self.problem.engine, f"{self.pool}_trial", f"{self.pool}_failed"
        engine.create_temporary(trial, self._trial(chosen, borrowed, masks))
        classes, parts = self.problem.classes_by(exp.column("id"), trial)
        broken = exp.column("broken").eq(1)
        engine.create_temporary(failed, _with(exp.select("class_id").from_(classes).where(broken), parts))
        for name in (chosen, borrowed):
            same = exp.column("class_id", table="f").eq(exp.column("id", table=name))
            found = exp.select("1").from_(table(failed, alias="f")).where(same)
            engine.execute(exp.delete(name, where=exp.Exists(this=found)))
        engine.drop_temporary([trial, failed])

    def _trial(self, chosen: str, borrowed: str, masks: Sequence[exp.Expr]) -> exp.Query:
        """The rows of the groups, and the rows that they would borrow, with the columns that models need."""
        packed = self.problem.compressed
        columns = [*self.keys, *packed.values.values(), *(("person",) if packed.person else ())]
        own = exp.select("c.id", *(exp.column(name, table="p") for name in (*columns, "n")))
        inside = self.problem.class_id(masks).eq(exp.column("id", table="c"))
        own = own.from_(table(self.pool, alias="p")).join(table(chosen, alias="c"), on=inside)
        # Only rows that no model tells apart are split: there a part of them is known by its number.
        split = len(columns) == len(self.keys)
        count = alias(_rows("m") if split else exp.column("n", table="r"), "n")
        lent = exp.select("b.id", *(exp.column(name, table="r") for name in columns), count)
        lent = lent.from_(table(borrowed, alias="b"))
        lent = lent.join(table(self.placed, alias="m"), on=same_columns(["pattern", *self._grouped], "b", "m"))
        lent = lent.join(table(packed.table, alias="r"), on=same_columns(self.keys, "m", "r"))
        return exp.union(own, lent, distinct=False, copy=False)

    def _suppress_more(self, pattern: int, borrowed: str, masks: Sequence[exp.Expr]) -> None:
        to: dict[str, object] = {"pattern": literal(pattern)}
        for key, group, mask in zip(self.keys, self._grouped, masks, strict=True):
            to[group] = exp.BitwiseAnd(this=exp.column(key, table=self.placed), expression=mask.copy())
        where = same_columns(["pattern", *self._grouped], self.placed, "b")
        joined = exp.From(this=table(borrowed, alias="b"))
        self.problem.engine.execute(exp.update(self.placed, to, where=where, from_=joined))

    def _lend(self, pattern: int, borrowed: str, masks: Sequence[exp.Expr]) -> None:
        tree = exp.select(*self.keys, *self._named(pattern, masks), "first", "last").from_(table(borrowed))
        self.problem.engine.execute(exp.insert(tree, self.placed))
        to: dict[str, object] = {"lent": exp.column("last", table="b")}
        joined = exp.From(this=table(borrowed, alias="b"))
        where = same_columns(self.keys, self.donors, "b")
        self.problem.engine.execute(exp.update(self.donors, to, where=where, from_=joined))

    def _move(self, pattern: int, chosen: str, masks: Sequence[exp.Expr]) -> None:
        taken = exp.select("1").from_(table(chosen, alias="c"))
        inside = exp.Exists(this=taken.where(exp.column("id", table="c").eq(self.problem.class_id(masks))))
        own = exp.select(*self.keys, *self._named(pattern, masks), *_whole())
        own = own.from_(table(self.pool)).where(inside).group_by(*self.keys)
        self.problem.engine.execute(exp.insert(own, self.placed))
        self.problem.engine.execute(exp.delete(self.pool, where=inside.copy()))

    def _named(self, pattern: int, masks: Sequence[exp.Expr]) -> list[exp.Expr]:
        found: list[exp.Expr] = [alias(bigint(literal(pattern)), "pattern")]
        for key, group, mask in zip(self.keys, self._grouped, masks, strict=True):
            found.append(alias(exp.BitwiseAnd(this=exp.column(key), expression=mask.copy()), group))
        return found

    def place_all(self) -> bool:
        """Suppress every cell of every row; False if even that does not hold."""
        root, rows = (1 << len(self.problem.domains)) - 1, self.problem.compressed.table
        masks = self.masks(root)
        classes, parts = self.problem.classes_by(self.problem.class_id(masks), rows)
        broken = exp.Coalesce(this=exp.Max(this=exp.column("broken")), expressions=[literal(0)])
        if self.problem.engine.query(_with(exp.select(broken).from_(classes), parts))[0][0]:
            return False
        for name in (self.placed, self.pool, self.donors):
            self.problem.engine.execute(exp.delete(name))
        tree = exp.select(*self.keys, *self._named(root, masks), *_whole()).from_(table(rows)).group_by(*self.keys)
        self.problem.engine.execute(exp.insert(tree, self.placed))
        return True

    # What comes out -----------------------------------------------------------------------------------------------

    def rows_by_pattern(self) -> dict[int, int]:
        """How many rows lost the cells of each pattern."""
        tree = (
            exp.select("pattern", sum_bigint(_rows())).from_(table(self.placed)).group_by("pattern").order_by("pattern")
        )
        return {int(pattern): int(count) for pattern, count in self.problem.engine.query(tree)}

    def regions(self) -> Regions:
        once, mark = self.problem.prelude.once, self._mark
        numbered = once("suppressed", mark, self._numbered)
        self.problem.run()
        splits = exp.select(exp.Max(this=exp.column("first"))).from_(table(numbered))
        split = (self.problem.engine.query(splits)[0][0] or 0) > 1
        chosen = [*self.keys, "region", *(("first", "last") if split else ())]
        members = once("members", mark, lambda: exp.select(*chosen).from_(table(numbered)))
        labels = once("labels", mark, lambda: region_labels(self.problem, numbered, self._grouped))
        self.problem.run()
        return Regions(members, labels, split=split)

    def _numbered(self) -> exp.Select:
        """All rows that are released, with the number of their class."""
        both = exp.union(exp.select("*").from_(table(self.placed)), self._not_lent(), distinct=False, copy=False)
        order = [exp.column(name) for name in ("pattern", *self._grouped)]
        region = alias(bigint(window(exp.DenseRank(), order=order)), "region")
        return exp.select("*", region).from_(both.subquery(alias="released"))


def region_labels(problem: Problem, numbered: str, grouped: Sequence[str]) -> exp.Select:
    """The labels of regions, from rows that say which columns of their region are suppressed: the bits of `pattern`."""
    domains = problem.domains
    distinct = exp.select("region", "pattern", *grouped).from_(table(numbered)).distinct()
    tree = exp.select("r.region").from_(distinct.subquery(alias="r"))
    for place, domain in enumerate(domains, start=1):
        name = f"d{place}"
        bit = exp.BitwiseAnd(this=exp.column("pattern", table="r"), expression=literal(1 << place - 1))
        hidden = exp.paren(bit, copy=False).neq(0)
        own = exp.BitwiseAnd(this=exp.column(f"g{domain.key + 1}", table="r"), expression=literal(domain.masks[0]))
        values = exp.select(alias(code(domain, "d"), "code"), "d.n0").from_(table(domain.dictionary, alias="d"))
        # No code is negative: a suppressed cell finds no value.
        same = exp.column("code", table=name).eq(case((hidden.copy(), literal(-1)), default=own))
        tree = tree.join(values.subquery(alias=name), on=same, join_type="left")
        label = case((hidden, literal(domain.hierarchy.root)), default=exp.column("n0", table=name))
        leaves = case((hidden.copy(), literal(float(domain.leaves))), default=literal(1.0))
        tree = tree.select(alias(label, f"l{place}"), alias(leaves, f"f{place}"))
    return tree


def _rows(source: str | None = None) -> exp.Expr:
    """How many rows are numbered from first to last."""
    gap = exp.Sub(this=exp.column("last", table=source), expression=exp.column("first", table=source))
    return exp.Add(this=gap, expression=literal(1))


def _whole() -> list[exp.Expr]:
    return [alias(bigint(literal(1)), "first"), alias(sum_bigint(exp.column("n")), "last")]


def _parameter(number: int, kind: exp.DataType) -> exp.Expr:
    return exp.Cast(this=exp.Parameter(this=exp.Literal.number(number)), to=kind.copy())


def same_columns(keys: Sequence[str], left: str, right: str) -> exp.Expr:
    return exp.and_(*(exp.column(name, table=left).eq(exp.column(name, table=right)) for name in keys))


def _with(tree: exp.Select, parts: Sequence[tuple[str, exp.Query]]) -> exp.Select:
    for name, query in parts:
        tree = tree.with_(name, as_=query, copy=False)
    return tree

"""Cut the rows into regions, level by level: one round cuts all open regions at once.

    work(k1, …, q1, …, v1, …, person, n, region)      the open rows with their places on all dimensions
    state(region, rows_, …, blocked, tried, dim, …)   what is known of a region; without dim it is closed

A region is closed once no dimension is left to cut. Bits of `blocked` are dimensions that no cut can divide into halves
of allowed size, which holds on in all parts; bits of `tried` are those whose best cut gave halves that another model
refuses, which is asked again of the parts. Both halves of every cut meet all requirements, so that a partition is safe
whenever it is stopped.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from sqlanon.errors import HierarchyError
from sqlanon.lattice.nodes import Infeasible
from sqlanon.lattice.problem import Problem
from sqlanon.regions.cut_regions import Size, choose_slots, open_, size
from sqlanon.regions.loss_cuts import NARROW, count_ways
from sqlanon.regions.pack_places import (
    Slot,
    gather_ends,
    lens,
    lens_names,
    measure_spread,
    pack_places,
    places,
    read_place,
    words,
)
from sqlanon.regions.relaxed_cuts import split_regions
from sqlanon.regions.round_tables import Rounds
from sqlanon.regions.stable_regions import Replay, all_cuts, cut_values, torn_apart
from sqlanon.regions.value_orders import Order, orders
from sqlanon.relations.compressed_rows import add_up
from sqlanon.sqltree.tree import alias, bigint, case, count_all, literal, sum_bigint, table, union_all, window

# Given work and state tables, (region, cut, …) of the open regions that have a cut of allowed size.
Chooser = Callable[[str, str, Size], exp.Query]
# With more regions than this, what is gathered of them no longer fits the cache of a processor, unless the rows of a
# region lie side by side.
MANY_REGIONS = 4096
MOST_SHORT = 2**31  # rows, and so regions, that four bytes count


@dataclass(frozen=True)
class Parts:
    """The finished partition: rows (k1, …, region, first_, last_), and regions (region, rows_, lo1, hi1, …)."""

    members: str
    regions: str
    orders: tuple[Order, ...]
    rounds: int
    complete: bool
    left_out: int = 0  # rows of regions of earlier releases that no longer meet the requirements
    cuts: str | None = None  # the cuts of this release, if later ones are to keep to them


@dataclass
class Partition:
    """`everywhere`: the chooser looks at all dimensions and names one; else each state names the widest.
    `marks`: it says too what to remember where a model refuses its cut; else the dimension is not tried again.
    `splits`: rows that are alike may be parted; the chooser then says how many rows at the cut go left."""

    problem: Problem
    choose: Chooser
    everywhere: bool = False
    marks: bool = False
    splits: bool = False
    orders: tuple[Order, ...] = field(init=False)
    limits: Size = field(init=False)
    slots: tuple[Slot, ...] = field(init=False)
    rounds: Rounds = field(init=False)
    round: int = 0
    way: str = ""  # how regions are cut this time, where the chooser knows several ways
    _last: int = 1  # the highest region so far
    _sorted: bool = False
    _done: list[str] = field(default_factory=list)
    _closed: list[str] = field(default_factory=list)
    _cuts: list[str] = field(default_factory=list)
    _left_out: int = 0

    def __post_init__(self) -> None:
        self.rounds = Rounds(self.problem)
        self.limits = size(self.problem)
        self.orders = orders(self.problem)
        self.slots = choose_slots(self.problem)

    def run(self) -> Parts:
        names = {"work": self.rounds.made("work", self._start)}
        self._require_whole(names["work"], as_one=self.problem.requirements.stable is None)
        if self.problem.requirements.stable is not None:
            replay = Replay(
                self.problem, self.problem.requirements.stable, self.orders, self.slots, self.rounds, self._kept
            )
            names = {"work": replay.run(names["work"])}
            self.round, self._last, self._left_out = replay.round, replay.last, replay.left_out
        names["state"] = self.rounds.made(
            "state", lambda: self._chosen(self._measured("work", None)), names, first=True
        )
        left = self._settle(names, self.problem.records - self._left_out)
        while left and not self.problem.state.out_of_time():
            self.round += 1
            names["cuts"] = self.rounds.made(
                f"cuts_{self.way}", lambda: self.choose("work", "state", self.limits), names
            )
            if self._asks:
                names["refused"] = self._refused(names)
            names["decided"] = self.rounds.made("decided", self._decisions, {**names, "last": str(self._last)})
            if self.problem.requirements.stable is not None:
                self._cuts.append(self.rounds.made("cut_values", lambda: cut_values(self.orders, "decided"), names))
            names["after"] = self._parted(names)
            following = self.rounds.made("state", lambda: self._chosen(self._next()), names)
            self._last += int(self.rounds.asked("count", _how_many_cuts, names)[0] or 0)
            after = {"work": names.pop("after"), "state": following}
            self.rounds.drop(*names.values())
            names = after
            left = self._settle(names, left)
            self.problem.state.tell("cutting regions", self.problem.records - left, self.problem.records)
        if left:
            self._put_aside(names, closed=False)
        return self._finished(complete=not left)

    def _finished(self, *, complete: bool) -> Parts:
        rows = union_all([exp.select("*").from_(table(name)) for name in self._done])
        if self.problem.compressed.values or self.problem.compressed.person:
            # A key with several sensitive values or persons has several rows.
            rows = exp.select("*").distinct().from_(rows.subquery(alias="every"))
        members = self.rounds.made("members", lambda: rows)
        ended = union_all([exp.select("*").from_(table(name)) for name in self._closed])
        regions = exp.select("region", "rows_", *places(self.slots)).from_(ended.subquery(alias="ended"))
        made = self.rounds.made("regions", lambda: regions)
        self.rounds.drop(*self._done, *self._closed)
        cuts = None
        if self.problem.requirements.stable is not None:
            cuts = self.rounds.made("all_cuts", lambda: all_cuts(self._cuts, self.round - len(self._cuts) + 1))
        return Parts(members, made, self.orders, self.round, complete, self._left_out, cuts)

    # Tables -------------------------------------------------------------------------------------------------------

    @property
    def _asks(self) -> bool:
        """Whether there is more to ask of halves than their sizes."""
        return bool(self.limits.others) or self.problem.requirements.stable is not None

    @property
    def _dims(self) -> range:
        return range(1, len(self.orders) + 1)

    @property
    def _kept(self) -> list[str]:
        """The columns that a row carries from round to round."""
        source = self.problem.compressed
        person = ["person"] if source.person else []
        split = ["first_", "last_"] if self.splits else []
        return [*source.key_names, *words(self.slots), *source.values.values(), *person, *split]

    @property
    def _gathered(self) -> list[str]:
        return list(gather_ends(self.slots))

    def _start(self) -> exp.Select:
        source = self.problem.compressed
        tree = exp.select(*(f"c.{name}" for name in source.key_names)).from_(table(source.table, alias="c"))
        for i, order in enumerate(self.orders, start=1):
            key = exp.column(source.key_names[order.domain.key], table="c")
            own = exp.paren(exp.BitwiseAnd(this=key, expression=literal(order.domain.masks[0])), copy=False)
            same = own.eq(exp.column("code", table=f"o{i}"))
            # Every row has its code. An engine that does not know would hash the rows instead of the codes, were it
            # free to.
            tree = tree.join(table(order.codes, alias=f"o{i}"), on=same, join_type="left")
        places = [exp.column("at_", table=f"o{i}") for i in self._dims]
        tree = tree.select(*pack_places(self.slots, places))
        tree = tree.select(*(f"c.{name}" for name in source.values.values()), *(["c.person"] if source.person else []))
        if self.splits:
            tree = tree.select(alias(bigint(literal(1)), "first_"), alias(bigint(exp.column("n", table="c")), "last_"))
        return tree.select("c.n", alias(self._number(literal(1)), "region"))

    def _number(self, tree: exp.Expr) -> exp.Expr:
        """As the number of a region; every row carries one, so it is as short as it may be."""
        return exp.Cast(this=tree, to=exp.DataType.build("int")) if self.problem.records < MOST_SHORT else bigint(tree)

    def _require_whole(self, work: str, *, as_one: bool) -> None:
        """Every row has its place, and the table as one region meets the requirements."""
        placed = [exp.column(word).is_(exp.Null()) for word in words(self.slots)]
        lost = sum_bigint(case((exp.or_(*placed), literal(1)), default=literal(0)))
        counted, missing = self.problem.engine.query(exp.select(sum_bigint(exp.column("n")), lost).from_(table(work)))[
            0
        ]
        if int(counted or 0) != self.problem.records or missing:
            raise HierarchyError(
                "a hierarchy does not hold each value of its column exactly once", hint="'sqlanon check' names them"
            )
        if not self.problem.records or (as_one and self._broken(work, exp.column("region"))):
            raise Infeasible(None)

    def _broken(self, source: str, key: exp.Expr) -> int:
        classes, parts = self.problem.classes_by(key, source)
        tree = exp.select(count_all()).from_(classes).where(exp.column("broken").neq(0))
        return int(self.problem.engine.query(with_ctes(tree, parts))[0][0])

    # Choosing -----------------------------------------------------------------------------------------------------

    def _measured(self, work: str, parents: exp.Select | None) -> exp.Select:
        """(region, rows_, what is gathered, blocked, tried) of the regions that are new."""
        found = [alias(tree, name) for name, tree in gather_ends(self.slots).items()]
        tree = exp.select("region", alias(sum_bigint(exp.column("n")), "rows_"), *found).from_(table(work))
        tree = tree.group_by("region")
        none = bigint(literal(0))
        if parents is None:
            return exp.select("*", alias(none, "blocked"), alias(none.copy(), "tried")).from_(tree.subquery(alias="m"))
        same = exp.column("region", table="m").eq(exp.column("region", table="b"))
        both = exp.select("m.*", "b.blocked", alias(none, "tried")).from_(tree.subquery(alias="m"))
        return both.join(parents.subquery(alias="b"), on=same)

    def _chosen(self, known: exp.Query) -> exp.Select:
        """Give each region the widest dimension that may be cut, or none, and a lens on it."""
        widths = []
        for i, (order, slot) in enumerate(zip(self.orders, self.slots, strict=True), start=1):
            width = measure_spread(slot, i, order.step or order.weight)
            widths.append(alias(case((open_(i), width), default=literal(0.0)), f"w{i}"))
        every = [exp.column(f"w{i}") for i in self._dims]
        widest = exp.func("GREATEST", *every) if len(every) > 1 else every[0].copy()
        measured = exp.select("*", *widths).from_(known.subquery(alias="known"))
        wide = exp.select("*", alias(widest, "widest")).from_(measured.subquery(alias="measured"))
        nothing: exp.Expr = exp.column("widest") <= 0
        if not self.problem.compressed.person and self.limits.grows:
            half = exp.paren(exp.BitwiseRightShift(this=exp.column("rows_"), expression=literal(1)), copy=False)
            nothing = exp.or_(nothing, exp.not_(exp.paren(self.limits.fits(half))))
        is_widest = [exp.If(this=exp.column(f"w{i}"), true=literal(i)) for i in self._dims]
        dim = case((nothing, exp.Null()), default=exp.Case(this=exp.column("widest"), ifs=is_widest))
        tree = exp.select("region", "rows_", *self._gathered, "blocked", "tried", alias(dim, "dim"))
        tree = tree.from_(wide.subquery(alias="wide"))
        if self.marks:
            tree = tree.select(alias(self._wide(), "wide"))
        if self.everywhere and not self.marks:
            return tree
        return exp.select("*", *lens(self.slots, exp.column("dim"))).from_(tree.subquery(alias="chosen"))

    def _wide(self) -> exp.Expr:
        """Bits of the dimensions that are about as wide as the widest."""
        least = exp.Mul(this=exp.column("widest"), expression=literal(NARROW))
        near = [exp.and_(exp.column(f"w{i}") > 0, exp.column(f"w{i}") >= least) for i in self._dims]
        bits = [case((own, literal(1 << (i - 1))), default=literal(0)) for i, own in enumerate(near, start=1)]
        return bigint(exp.paren(add_up(bits), copy=False))

    def _settle(self, names: Mapping[str, str], left: int) -> int:
        """Put closed regions aside; the rows that are still open."""
        if self.marks:
            found = self.rounds.asked("ways", lambda: count_ways(self.problem, "state"), names)
            still, median = (int(rows or 0) for rows in found)
            self.way = "loss" if not median else "median" if median == still else "both"
        else:
            still = int(self.rounds.asked("open", _open_rows, names)[0] or 0)
        if still < left:
            self._put_aside(names, closed=True)
        return still

    def _put_aside(self, names: Mapping[str, str], *, closed: bool) -> None:
        kept = [*self.problem.compressed.key_names, "region", *(["first_", "last_"] if self.splits else [])]
        rows = exp.select(*(f"w.{name}" for name in kept)).from_(table("work", alias="w"))
        rows = rows.join(table("state", alias="s"), on=exp.and_(_same_region("s", "w"), _is_closed(closed, "s")))
        ends = exp.select("region", "rows_", *self._gathered).from_(table("state")).where(_is_closed(closed))
        self._done.append(self.rounds.made("done", lambda: rows, names, first=not closed))
        self._closed.append(self.rounds.made("ended", lambda: ends, names, first=not closed))

    # Cutting ------------------------------------------------------------------------------------------------------

    def _decisions(self) -> exp.Select:
        """(region, tried, blocked, dim, is_cut, cut, right_, take, mark): the cuts of this round, with a lens on the
        places; `right_` numbers the region that the right half becomes, and is NULL, like `cut`, where there is no cut
        that all models allow."""
        dim = exp.column("dim", table="c" if self.everywhere else "s")
        blocked = exp.BitwiseOr(this=exp.column("blocked", table="s"), expression=self._hopeless())
        is_cut = exp.Coalesce(this=exp.column("is_cut", table="c"), expressions=[literal(0)])
        chosen: list[exp.Expr] = [alias(exp.column(name, table="s"), name) for name in ("region", "tried")]
        chosen += [alias(blocked, "blocked"), alias(dim, "dim"), *self._lens(dim), alias(is_cut, "is_cut")]
        at: exp.Expr = exp.column("cut", table="c")
        if self._asks:
            at = case((exp.column("is_cut", table="c").eq(1), at), default=exp.Null())
        chosen.append(alias(at, "cut"))
        shown = ["right_", *(["take"] if self.splits else []), *(["mark"] if self.marks else [])]
        chosen += [alias(exp.column(name, table="c"), name) for name in shown]
        tree = exp.select(*chosen).from_(table("state", alias="s"))
        tree = tree.join(self._numbered().subquery(alias="c"), on=_same_region("s", "c"), join_type="left")
        return tree.where(_is_closed(False, "s"))

    def _lens(self, dim: exp.Expr) -> list[exp.Expr]:
        if self.everywhere:
            return lens(self.slots, dim)
        return [exp.column(name, table="s") for name in lens_names(self.slots)]

    def _numbered(self) -> exp.Select:
        """The cuts with is_cut and right_. Numbers are given here, since a window sorts all that it is given."""
        there: exp.Expr = exp.column("cut", table="c").is_(exp.Null()).not_()
        tree = exp.select("c.*").from_(table("cuts", alias="c"))
        if self._asks:
            tree = tree.join(table("refused", alias="x"), on=_same_region("c", "x"), join_type="left")
            there = exp.and_(there, exp.column("region", table="x").is_(exp.Null()))
        flag = case((there, literal(1)), default=literal(0))
        tree = tree.select(alias(flag, "is_cut"))
        number = window(exp.Sum(this=exp.column("is_cut")), order=[exp.column("region")])
        after = self._number(exp.Add(this=number, expression=exp.Placeholder(this="last")))
        right = case((exp.column("is_cut").eq(1), after), default=exp.Null())
        return exp.select("*", alias(right, "right_")).from_(tree.subquery(alias="flagged"))

    def _hopeless(self) -> exp.Expr:
        """Bits of the dimensions that no cut of allowed size divides."""
        if not self.everywhere:
            unknown = exp.column("cut", table="c").is_(exp.Null())
            return exp.paren(case((unknown, _bit(exp.column("dim", table="s"))), default=literal(0)), copy=False)
        possible = exp.Coalesce(this=exp.column("possible", table="c"), expressions=[literal(0)])
        fine = exp.paren(exp.BitwiseOr(this=possible, expression=exp.column("tried", table="s")), copy=False)
        every = (1 << len(self.orders)) - 1
        return bigint(
            exp.BitwiseXor(
                this=literal(every),
                expression=exp.paren(exp.BitwiseAnd(this=fine, expression=literal(every)), copy=False),
            )
        )

    def _refused(self, names: Mapping[str, str]) -> str:
        """The regions of which a half breaks a model."""
        halves = self.rounds.made("halves", self._halves, names)

        def broken() -> exp.Select:
            classes, parts = self.problem.classes_by(exp.column("half"), "halves")
            region = exp.BitwiseRightShift(this=exp.column("class_id"), expression=literal(1))
            found = exp.select(alias(region, "region")).distinct().from_(classes).where(exp.column("broken").neq(0))
            own = with_ctes(found, parts)
            if self.problem.requirements.stable is None:
                return own
            apart = torn_apart(self.problem, self.problem.requirements.stable, "halves")
            both = exp.union(exp.select("region").from_(own.subquery(alias="own")), apart, distinct=True)
            return exp.select("region").from_(both.subquery(alias="refused"))

        refused = self.rounds.made("refused", broken, {"halves": halves})
        self.rounds.drop(halves)
        return refused

    def _halves(self) -> exp.Select:
        dim = exp.column("dim", table="c" if self.everywhere else "s")
        known = exp.select("c.region", "c.cut", *self._lens(dim)).from_(table("cuts", alias="c"))
        known = known.where(exp.column("cut", table="c").is_(exp.Null()).not_())
        if not self.everywhere:
            known = known.join(table("state", alias="s"), on=_same_region("s", "c"))
        side = case((read_place(self.slots, "c") > exp.column("cut", table="c"), literal(1)), default=literal(0))
        twice = exp.Mul(this=bigint(exp.column("region", table="w")), expression=literal(2))
        source = self.problem.compressed
        extra = [*source.values.values(), *(["person"] if source.person else []), "n"]
        tree = exp.select(alias(exp.Add(this=twice, expression=side), "half"), *(f"w.{name}" for name in extra))
        return tree.from_(table("work", alias="w")).join(known.subquery(alias="c"), on=_same_region("w", "c"))

    def _parted(self, names: Mapping[str, str]) -> str:
        """The rows in their new regions; once these are many, sorted by them, and near that order ever after."""
        if self.splits:
            return self.rounds.made(
                "work", lambda: split_regions(self.slots, self.problem.compressed.key_names, self._kept), names
            )
        if self._sorted or self._last < MANY_REGIONS:
            return self.rounds.made("work", self._cut, names)
        self._sorted = True
        return self.rounds.made("work", lambda: self._cut().order_by("region"), names, first=True)

    def _cut(self) -> exp.Select:
        at = read_place(self.slots, "d")
        goes_right = at > exp.column("cut", table="d")
        region = case((goes_right, exp.column("right_", table="d")), default=exp.column("region", table="d"))
        tree = exp.select(*(f"w.{name}" for name in (*self._kept, "n")), alias(region, "region"))
        return tree.from_(table("work", alias="w")).join(table("decided", alias="d"), on=_same_region("w", "d"))

    def _next(self) -> exp.Query:
        """The new regions, and those that could not be cut this time, with what was learnt."""
        is_cut = exp.column("is_cut")
        halves = [
            exp.select(alias(exp.column(name), "region"), "blocked").from_(table("decided")).where(is_cut.copy().eq(1))
            for name in ("region", "right_")
        ]
        learnt = _bit(exp.column("dim", table="d"))
        if self.marks:
            learnt = exp.Coalesce(this=exp.column("mark", table="d"), expressions=[literal(0)])
        tried = exp.BitwiseOr(this=exp.column("tried", table="d"), expression=learnt)
        known = [f"s.{name}" for name in ("region", "rows_", *self._gathered)]
        stays = exp.select(*known, "d.blocked", alias(tried, "tried")).from_(table("state", alias="s"))
        uncut = exp.and_(_same_region("s", "d"), exp.column("is_cut", table="d").eq(0))
        fresh = self._measured("after", exp.select("*").from_(union_all(halves).subquery(alias="halves")))
        return union_all([fresh, stays.join(table("decided", alias="d"), on=uncut)])


def _how_many_cuts() -> exp.Select:
    return exp.select(sum_bigint(exp.column("is_cut"))).from_(table("decided"))


def _open_rows() -> exp.Select:
    return exp.select(sum_bigint(exp.column("rows_"))).from_(table("state")).where(_is_closed(False))


def _bit(dim: exp.Expr) -> exp.Expr:
    """The bit of a dimension among those that are ruled out; none where there is no dimension."""
    before = exp.paren(exp.Sub(this=dim, expression=literal(1)), copy=False)
    bit = exp.BitwiseLeftShift(this=bigint(literal(1)), expression=before)
    return exp.Coalesce(this=exp.paren(bit, copy=False), expressions=[literal(0)])


def _same_region(one: str, other: str) -> exp.Expr:
    return exp.column("region", table=one).eq(exp.column("region", table=other))


def _is_closed(closed: bool, prefix: str | None = None) -> exp.Expr:
    unknown = exp.column("dim", table=prefix).is_(exp.Null())
    return unknown if closed else unknown.not_()


def with_ctes(tree: exp.Select, parts: Sequence[tuple[str, exp.Query]]) -> exp.Select:
    for name, query in parts:
        tree = tree.with_(name, as_=query, copy=False)
    return tree

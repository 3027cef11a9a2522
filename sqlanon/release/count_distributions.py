"""How the values of quasi-identifiers are spread in the source, among the suppressed rows, and in the release.

Source and release are counted in the same bins, so that their bars can be compared. A bin is a label of the lowest
level of the hierarchy that has few labels; where no level has, values in their order are put together, as many to each
bin. A released label is counted in the bin that holds all of it. The rows of a label that covers several are spread
evenly over the values of the source that it covers, which is the best that a reader of the release can do.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt
from sqlglot import exp

from sqlanon.evidence.region_labels import pieces_of
from sqlanon.evidence.release_evidence import Counted, Distribution
from sqlanon.evidence.utility.label_numbers import number_of
from sqlanon.lattice.problem import Problem
from sqlanon.lattice.solution import Solution
from sqlanon.relations.classes import NULL_NODE
from sqlanon.relations.compressed_rows import Domain, code
from sqlanon.release.rewrite_release import Rewriting
from sqlanon.sqltree.tree import (
    BIGINT,
    TEXT,
    alias,
    bigint,
    case,
    count_all,
    double,
    join_clause,
    literal,
    nest_query,
    rows_relation,
    select,
    sum_bigint,
    table,
    text,
    union_all,
    window,
)

MOST_BINS = 24  # of a column whose values have an order
MOST_LABELS = 12  # of one whose values have none: the most frequent
MOST_VALUES = 50_000  # of a column, over which labels are spread; of more, a label counts at its middle
_LABELS, _KINDS = ("place", "bin", "label", "records"), (BIGINT, TEXT, TEXT, BIGINT)
IN_ORDER = frozenset({"prefix", "zip3", "ip"})  # hierarchies of codes, which stand in the order of their characters


@dataclass(frozen=True)
class _Column:
    """How a column is counted: at a level of its hierarchy, or, without one, by its values in their order."""

    domain: Domain
    level: int | None
    ordered: bool
    dates: bool
    shown: tuple[int, ...]  # levels whose labels the release may show, below the root


@dataclass(frozen=True)
class _Bin:
    key: str
    first: str | None  # the least value; None for the bin of NULL
    last: str | None
    records: int
    suppressed: int


def count_distributions(task: Problem, solution: Solution, how: Rewriting, released: str) -> dict[str, Distribution]:
    """By the table `released` (c1, …, records): the classes of the release as it was written."""
    if not task.domains:
        return {}
    chosen = _choose_bins(task, solution)
    gone = suppressed_cells(task, solution, how)
    bins: list[list[_Bin]] = [[] for _ in chosen]
    every = [(0, 0)] * len(chosen)
    for place, key, first, last, *numbers in task.engine.query(_bins(chosen, gone)):
        records, suppressed, number, rows = (int(each or 0) for each in numbers)
        bins[int(place)].append(_Bin(key, first, last, records, suppressed))
        every[int(place)] = (number, rows)
    labels: list[list[tuple[str | None, str | None, int]]] = [[] for _ in chosen]
    for place, key, label, records in task.engine.query(_labels(chosen, bins, released)):
        labels[int(place)].append((key, label, int(records)))
    covered = {
        place: _Covered.of(task.engine.query(_listed_values(item)))
        for place, item in enumerate(chosen)
        if any(label is not None for _, label, _ in labels[place]) and every[place][0] and _has_few_values(task, item)
    }
    least = int(max((use.params["k"] for use in task.policy.models if "k" in use.params), default=5))
    told = gone is not None or not solution.suppressed
    return {
        item.domain.name: _distribution(
            item, bins[place], every[place], labels[place], least, covered.get(place), told=told
        )
        for place, item in enumerate(chosen)
    }


def _choose_bins(task: Problem, solution: Solution) -> list[_Column]:
    kinds = {item.name: item for item in task.engine.columns(task.prelude.rows)}
    widest = max(domain.height for domain in task.domains)
    parts: list[exp.Query] = []
    for place, domain in enumerate(task.domains):
        known = exp.column("original").is_(exp.Null()).not_()
        counts = [
            exp.Count(this=exp.Distinct(expressions=[case((known.copy(), exp.column(f"n{level}")))]))
            if level < domain.height
            else literal(0)
            for level in range(widest)
        ]
        named = [alias(bigint(count), f"labels_{level}") for level, count in enumerate(counts)]
        parts.append(select(alias(literal(place), "place"), *named, source=table(domain.dictionary)))
    counted = {int(place): [int(each) for each in row] for place, *row in task.engine.query(union_all(parts))}
    found = []
    for place, domain in enumerate(task.domains):
        kind = kinds[domain.name]
        use = task.policy.hierarchies.get(domain.name)
        dates = kind.type.upper().startswith(("DATE", "TIMESTAMP"))
        ordered = kind.numeric or dates or (use is not None and use.kind in IN_ORDER)
        levels = {node[place] for node in solution.passes} or set(range(domain.height))
        shown = tuple(sorted(level for level in levels if level < domain.height))
        # At the highest level that is released all labels of the release fit into bins.
        lowest = max(shown, default=0) if solution.passes else 0
        few = [level for level in range(lowest, domain.height) if 1 < counted[place][level] <= MOST_BINS]
        own = few[0] if few else lowest
        level = None if ordered and not few and counted[place][lowest] > MOST_BINS else own
        found.append(_Column(domain, level, ordered, dates, shown))
    return found


def suppressed_cells(task: Problem, solution: Solution, how: Rewriting) -> exp.Select | None:
    """The rows of the compressed table that are not released; None where none is missing, or where it cannot tell."""
    if not solution.suppressed or solution.assigned is not None:
        return None
    cells = exp.select("*").from_(table(task.compressed.table))
    if solution.regions is not None:
        if solution.regions.split:
            return None
        names = [*task.compressed.key_names, *(task.compressed.values.values() if solution.regions.by_value else ())]
        same = [exp.column(name, table="m").eq(exp.column(name, table="c")) for name in names]
        members = join_clause(table(solution.regions.members, alias="m"), exp.and_(*same), side="LEFT")
        missing = exp.column("region", table="m").is_(exp.Null())
        every = exp.Column(this=exp.Star(), table=exp.to_identifier("c"))
        return select(every, source=table(task.compressed.table, alias="c"), joins=[members], where=missing)
    for item in how.passes:
        if not item.broken:
            return None
        own = task.class_id([bigint(literal(mask)) for mask in task.compressed.masks(item.node)])
        cells = cells.where(own.isin(query=exp.select("class_id").from_(table(item.broken))))
    return cells


def _values(item: _Column, gone: exp.Select | None) -> exp.Select:
    """(original, records, gone, n0, n1, …, bin) of each value of a column."""
    domain = item.domain
    names = [f"n{level}" for level in range(domain.height)]
    suppressed: exp.Expr = literal(0)
    joins = []
    if gone is not None:
        key = exp.BitwiseAnd(this=exp.column(f"k{domain.key + 1}"), expression=bigint(literal(domain.masks[0])))
        counted = [alias(key, "code"), alias(sum_bigint(exp.column("n")), "records")]
        cells = select(*counted, source=nest_query(gone.copy(), "cells"), groups=[key.copy()])
        joins = [join_clause(nest_query(cells, "g"), exp.column("code", table="g").eq(code(domain, "d")), side="LEFT")]
        suppressed = exp.Coalesce(this=exp.column("records", table="g"), expressions=[literal(0)])
    listed: list[exp.Expr] = [exp.column(name, table="d") for name in ("original", "records", *names)]
    plain = [*listed, alias(suppressed, "gone"), alias(exp.column("position", table="d"), "position")]
    rows = select(*plain, source=table(domain.dictionary, alias="d"), joins=joins)
    own: exp.Expr = exp.column(f"n{item.level}") if item.level is not None else _chunk(item)
    missing = exp.column("original").is_(exp.Null())
    binned = case((missing, literal(NULL_NODE)), default=own)
    kept = [exp.column(name) for name in ("original", "records", "gone", "position", *names)]
    return select(*kept, alias(binned, "bin"), source=nest_query(_ranked(rows, item), "d"))


def _ranked(rows: exp.Select, item: _Column) -> exp.Select:
    """The values with the rank of the label that the release shows at least, and the number of these labels."""
    if item.level is not None:
        return rows
    label = exp.column(f"n{max(item.shown, default=0)}")
    missing = case((exp.column("original").is_(exp.Null()), literal(1)), default=literal(0))
    begins = window(exp.Min(this=exp.column("position")), partition=[missing, label])
    first = select(exp.Star(), alias(begins, "begins"), alias(missing.copy(), "missing"), source=nest_query(rows, "v"))
    rank = window(exp.DenseRank(), partition=[exp.column("missing")], order=[exp.column("begins")])
    ranked = select(exp.Star(), alias(rank, "rank_"), source=nest_query(first, "f"))
    most = window(exp.Max(this=exp.column("rank_")), partition=[exp.column("missing")])
    return select(exp.Star(), alias(most, "ranks"), source=nest_query(ranked, "r"))


def _chunk(item: _Column) -> exp.Expr:
    """As many labels in their order to each bin."""
    before = exp.Paren(this=exp.Sub(this=exp.column("rank_"), expression=literal(1)))
    place = exp.Div(
        this=double(exp.Mul(this=before, expression=literal(MOST_BINS // 2))), expression=double(exp.column("ranks"))
    )
    return text(bigint(exp.Floor(this=place)))


def _bins(chosen: Sequence[_Column], gone: exp.Select | None) -> exp.Query:
    """(place, bin, its least and its greatest value, records, suppressed) of the bins with most rows, and how many bins
    and rows there are."""
    parts: list[exp.Query] = []
    for place, item in enumerate(chosen):
        ends = [text(end(this=exp.column("original")) if item.ordered else exp.Null()) for end in (exp.Min, exp.Max)]
        counted = select(
            alias(text(exp.column("bin")), "bin"),
            *(alias(end, name) for end, name in zip(ends, ("first_", "last_"), strict=True)),
            alias(sum_bigint(exp.column("records")), "records"), alias(sum_bigint(exp.column("gone")), "gone"),
            source=nest_query(_values(item, gone), "v"), groups=[exp.column("bin")],
        )  # fmt: skip
        order = [exp.Ordered(this=exp.column("records"), desc=True), exp.Ordered(this=exp.column("bin"))]
        number = window(exp.RowNumber())
        number.set("order", exp.Order(expressions=order))
        every = [
            alias(window(count_all()), "bins"),
            alias(bigint(window(exp.Sum(this=exp.column("records")))), "rows_"),
            alias(number, "number"),
        ]
        numbered = select(exp.Star(), *every, source=nest_query(counted, "counted"))
        names: list[exp.Expr | str] = [
            alias(literal(place), "place"),
            "bin",
            "first_",
            "last_",
            "records",
            "gone",
            "bins",
            "rows_",
        ]
        most = exp.column("number") <= (MOST_BINS + 1 if item.ordered else MOST_LABELS)
        parts.append(select(*names, source=nest_query(numbered, "each_bin"), where=most))
    return union_all(parts)


def _labels(chosen: Sequence[_Column], bins: Sequence[Sequence[_Bin]], released: str) -> exp.Query:
    """(place, bin, NULL, records) of the bins in the release, and (place, NULL, label, records) of labels that no bin
    holds."""
    parts: list[exp.Query] = []
    for place, (item, found) in enumerate(zip(chosen, bins, strict=True)):
        label = exp.Coalesce(this=text(exp.column(f"c{place + 1}")), expressions=[literal(NULL_NODE)])
        grouped = select(
            alias(label, "label"), alias(sum_bigint(exp.column("records")), "records"),
            source=table(released), groups=[label.copy()],
        )  # fmt: skip
        known: list[exp.Query] = [
            select(alias(text(exp.column(f"n{level}")), "label"), alias(text(exp.column("bin")), "bin"),
                   source=nest_query(_values(item, None), "v"))
            for level in item.shown
        ]  # fmt: skip
        if not known:
            continue
        least, most = (end(this=exp.column("bin")) for end in (exp.Min, exp.Max))
        fitting = select("label", alias(least, "bin"), source=nest_query(union_all(known), "k"), groups=["label"])
        fitting = fitting.having(least.copy().eq(most))
        held = join_clause(
            nest_query(fitting, "b"), exp.column("label", table="b").eq(exp.column("label", table="g")), side="LEFT"
        )
        own = exp.column("bin", table="b")
        loose = case((own.is_(exp.Null()), exp.column("label", table="g")), default=text(exp.Null()))
        pairs = select(
            alias(own.copy(), "bin"), alias(loose, "label"), exp.column("records", table="g"),
            source=nest_query(grouped, "g"), joins=[held],
        )  # fmt: skip
        keys = [literal(each.key) for each in found]
        wanted = exp.or_(exp.column("bin").is_(exp.Null()), exp.column("bin").isin(*keys))
        counted = select(
            "bin", "label", alias(sum_bigint(exp.column("records")), "records"),
            source=nest_query(pairs, "pairs"), where=wanted, groups=[exp.column("bin"), exp.column("label")],
        )  # fmt: skip
        parts.append(
            select(alias(literal(place), "place"), "bin", "label", "records", source=nest_query(counted, "counted"))
        )
    return union_all(parts) if parts else exp.select("*").from_(rows_relation([], _LABELS, _KINDS).subquery("none"))


def _distribution(
    item: _Column, bins: Sequence[_Bin], every: tuple[int, int], labels: Sequence[tuple[str | None, str | None, int]],
    least: int, covered: _Covered | None, *, told: bool,
) -> Distribution:  # fmt: skip
    """The bins in their order. Neither a rare one nor what all the others add up to may tell of few rows."""
    known = sorted(bins, key=lambda each: (-each.records, each.key))
    shown = [each for each in known if each.records >= least]
    while shown and 0 < every[1] - sum(each.records for each in shown) < least:
        shown.pop()
    shown = _in_order(item, shown)
    after, outside = _in_bins(item, shown, labels, covered)
    titles = [_title(item, each) for each in shown]
    more = every[0] - len(shown)

    def counted(numbers: Sequence[int]) -> Counted:
        return tuple(zip(titles, numbers, strict=True))

    return Distribution(
        after=counted(after) if item.shown else (),
        after_more=more if item.shown else 0,
        before=counted([each.records for each in shown]),
        before_more=more,
        suppressed=counted([each.suppressed for each in shown]) if told else None,
        outside=outside,
        ordered=item.ordered,
        ranges=item.level is None,
    )


def _in_order(item: _Column, bins: Sequence[_Bin]) -> list[_Bin]:
    """By their values where these have an order; NULL is last."""
    if item.dates or not item.ordered:
        keys = {each.key: number_of(each.key) for each in bins if each.key != NULL_NODE}
        if not item.ordered and keys and None not in keys.values():  # numbers in a column of text
            return sorted(bins, key=lambda each: (each.key == NULL_NODE, keys.get(each.key) or 0.0))
    if not item.ordered:
        return list(bins)
    return sorted(bins, key=lambda each: (each.first is None, _place(item, each.first) or 0.0, each.first or ""))


def _place(item: _Column, value: str | None) -> float | None:
    return None if value is None else number_of(value, dates=item.dates)


@dataclass(frozen=True)
class _Covered:
    """Which values of the source a label covers, as how many of them are in each bin."""

    bins: Sequence[str]
    values: Mapping[str, int]  # the place of each value in the order of the column
    nodes: Mapping[str, Sequence[int]]  # the places of the values below a label
    numbers: Sequence[float]  # the values as numbers, where all are, and grow
    before: npt.NDArray[np.int64]  # for each place and bin, how many values come before it

    @classmethod
    def of(cls, rows: Sequence[Sequence[str | None]]) -> _Covered:
        """From (value, bin, its labels …), in the order of the column."""
        bins = sorted({str(row[1]) for row in rows})
        at = {key: place for place, key in enumerate(bins)}
        before = np.zeros((len(rows) + 1, len(bins)), dtype=np.int64)
        nodes: dict[str, list[int]] = {}
        for place, (value, key, *labels) in enumerate(rows):
            before[place + 1, at[str(key)]] = 1
            for label in {NULL_NODE} if value is None else {label for label in labels if label is not None}:
                nodes.setdefault(label, []).append(place)
        found = [None if row[0] is None else number_of(row[0]) for row in rows]
        numbers = [each for each in found if each is not None]
        grows = len(numbers) == sum(row[0] is not None for row in rows) and all(
            low < high for low, high in pairwise(numbers)
        )
        values = {row[0]: place for place, row in enumerate(rows) if row[0] is not None}
        return cls(bins, values, nodes, numbers if grows else (), np.cumsum(before, axis=0))

    def shares(self, label: str) -> dict[str, float]:
        """The share of each bin in the values that a label covers; nothing where it covers none."""
        counts = np.zeros(len(self.bins), dtype=np.int64)
        for kind, low, high in [("0", label, "")] if label in self.nodes else pieces_of(label) or ():
            if kind == "0":
                places = np.array(self.nodes.get(low, ()), dtype=np.int64)
                counts += (self.before[places + 1] - self.before[places]).sum(axis=0)
            elif (ends := self._ends(low, high)) is not None:
                counts += self.before[ends[1]] - self.before[ends[0]]
        total = int(counts.sum())
        return {key: int(number) / total for key, number in zip(self.bins, counts, strict=True) if number}

    def _ends(self, low: str, high: str) -> tuple[int, int] | None:
        if low in self.values and high in self.values:
            return self.values[low], max(self.values[low], self.values[high] + 1)
        first, last = number_of(low), number_of(high)
        if first is None or last is None or not self.numbers:
            return None
        begin = bisect_left(self.numbers, first)
        return begin, max(begin, bisect_right(self.numbers, last))


def _has_few_values(task: Problem, item: _Column) -> bool:
    return int(task.engine.query(exp.select(count_all()).from_(table(item.domain.dictionary)))[0][0]) <= MOST_VALUES


def _listed_values(item: _Column) -> exp.Query:
    """(value, bin, its labels …) in the order of the column, NULL last."""
    labels = [alias(text(exp.column(f"n{level}")), f"label_{level}") for level in item.shown]
    missing = case((exp.column("original").is_(exp.Null()), literal(1)), default=literal(0))
    listed = select(
        alias(text(exp.column("original")), "value"), alias(text(exp.column("bin")), "bin"), *labels,
        source=nest_query(_values(item, None), "v"),
    )  # fmt: skip
    return listed.order_by(missing, "position")


def _in_bins(
    item: _Column, bins: Sequence[_Bin], labels: Sequence[tuple[str | None, str | None, int]], covered: _Covered | None
) -> tuple[list[int], int]:
    """How many released rows are in each bin, and in none."""
    places = {each.key: place for place, each in enumerate(bins)}
    found, outside = [0.0] * len(bins), 0
    middles = _middles(item, bins) if covered is None else None
    for key, label, records in labels:
        if key is not None:
            if key in places:
                found[places[key]] += records
            continue
        shares = covered.shares(label) if covered is not None and label is not None else {}
        middle = number_of(label, dates=item.dates) if middles and label is not None else None
        for own, share in shares.items():
            if own in places:
                found[places[own]] += records * share
        if middles and middle is not None and middles[0] <= middle:
            found[bisect_right(middles, middle) - 1] += records
        elif not shares:
            outside += records
    return [round(each) for each in found], outside


def _middles(item: _Column, bins: Sequence[_Bin]) -> list[float] | None:
    """Where each bin begins, if they lie apart: only then can a label be counted at its middle."""
    begins = [_place(item, each.first) for each in bins if each.key != NULL_NODE]
    known = [begin for begin in begins if begin is not None]
    # Bins that overlap, as those of a tree of numbers may, have no middle between them.
    ends = [_place(item, each.last) for each in bins if each.key != NULL_NODE]
    apart = len(known) == len(begins) and all(
        end is not None and end < begin for end, begin in zip(ends, known[1:], strict=False)
    )
    return known if apart and known else None


def _title(item: _Column, each: _Bin) -> str | None:
    if each.key == NULL_NODE:
        return None
    if item.level is not None:
        return each.key
    return each.first if each.first == each.last else f"{each.first} – {each.last}"

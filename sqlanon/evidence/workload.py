"""How well a release answers counts: the error of random range queries against the original.

A query counts the rows whose values on one to four quasi-identifiers lie in ranges. The release answers it as if the
rows of a class were spread evenly over the values that its labels stand for. The error is |actual - estimate| / actual,
its mean taken over all queries, over small ones (fewer than 1 % of the rows) and over large ones (more than 10 %).
Ranges are drawn by their share of the domain, from a thousandth to all of it in equal parts of the logarithm, so that
there are queries of all sizes. A query that no row answers has no relative error and is drawn again. Rows that were
suppressed are missed like any other: estimates are not scaled up.
cite: Sattar, Li, Ding, Liu and Vincent 2013, 6.1.1; Xiao and Tao 2006 (widths of ranges); LeFevre et al. 2006 (spread)
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from sqlglot import exp

from sqlanon.engines import Engine
from sqlanon.errors import SqlanonError
from sqlanon.evidence.ranges import ranks
from sqlanon.relations.compressed_rows import Domain
from sqlanon.sqltree.tree import alias, bigint, case, double, literal, sum_bigint, table, union_all

SMALL, LARGE = 0.01, 0.1
MOST_ATTRIBUTES = 4
QUERIES_A_SET = 50  # one pass serves all queries on a set of attributes
BITS = 60  # queries of a batch, each a bit of a BIGINT
SPAN = 1 << 26  # more values than a quasi-identifier has; 52 bits for two ranks stay exact in a double
NARROWEST = 1e-3
DRAWS = 8  # rounds of drawing again what no row answered
PREFIX = "sqlanon_workload"


@dataclass(frozen=True)
class Workload:
    """Mean relative errors; None where there was no such query."""

    all: float | None
    small: float | None
    large: float | None
    queries: int = 0
    small_queries: int = 0
    large_queries: int = 0


@dataclass(frozen=True)
class RangeQuery:
    """A range of ranks, both ends included, for each of some quasi-identifiers (by their places)."""

    attributes: tuple[int, ...]
    ranges: tuple[tuple[int, int], ...]


def workload(
    engine: Engine,
    cells: str,
    boxes: exp.Query,
    domains: Sequence[Domain],
    *,
    queries: int = 1000,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> Workload:
    """The error of a release. `cells` is the compressed original (k1, …, n); `boxes` gives the release as (records,
    lo1, hi1, …): for each class the first and last rank of each quasi-identifier (see `ranges`). `progress` is told
    how many queries were asked, of how many."""
    tables = (f"{PREFIX}_original", f"{PREFIX}_released")
    made = [f"{PREFIX}_queries", f"{PREFIX}_drawn", *map(_ranks_name, range(len(domains)))]
    made += [f"{name}{end}" for name in tables for end in ("", *(f"_{i + 1}" for i in range(len(domains))))]
    try:
        sizes = _rank(engine, domains)
        for name, relation in zip(tables, (_original(cells, domains), boxes), strict=True):
            _store(engine, name, relation, len(domains))
        whole = exp.Coalesce(this=exp.Sum(this=exp.column("records")), expressions=[literal(0)])
        records = int(engine.query(exp.select(whole).from_(table(tables[0])))[0][0])
        answers: list[tuple[float, float]] = []
        generator = random.Random(seed)
        for _ in range(DRAWS if records else 0):
            missing = queries - len(answers)
            drawn = draw(sizes, missing + missing // 20, generator)
            before = len(answers)

            def asked(number: int, before: int = before) -> None:
                if progress:
                    progress(min(before + number, queries), queries)

            answers += [answer for answer in _answers(engine, tables, drawn, asked) if answer[0] > 0]
            if len(answers) >= queries:
                break
        return _summary(answers[:queries], records)
    finally:
        with suppress(SqlanonError):  # of a transaction that is lost already; what broke it is the error to show
            engine.drop_temporary(made)


def draw(sizes: Sequence[int], count: int, generator: random.Random) -> list[RangeQuery]:
    """Random queries, the same for the same numbers on every engine."""
    useful = [place for place, size in enumerate(sizes) if size > 1] or list(range(len(sizes)))

    def below(number: int) -> int:  # Python promises equal sequences for random() alone
        return min(int(generator.random() * number), number - 1)

    sets: dict[tuple[int, ...], None] = {}
    for _ in range(4 * max(count // QUERIES_A_SET, 1)):
        left, chosen = list(useful), []
        for _ in range(1 + below(min(MOST_ATTRIBUTES, len(useful)))):
            chosen.append(left.pop(below(len(left))))
        sets[tuple(sorted(chosen))] = None
        if len(sets) >= count / QUERIES_A_SET:
            break
    listed, drawn = list(sets), []
    for _ in range(count):
        attributes = listed[below(len(listed))]
        share = NARROWEST ** (generator.random() / len(attributes))
        ranges = []
        for place in attributes:
            width = max(1, math.floor(sizes[place] * share + 0.5))
            first = 1 + below(sizes[place] - width + 1)
            ranges.append((first, first + width - 1))
        drawn.append(RangeQuery(attributes, tuple(ranges)))
    return drawn


def _summary(answers: Sequence[tuple[float, float]], records: int) -> Workload:
    def mean(low: float, high: float) -> tuple[float | None, int]:
        errors = [abs(actual - estimate) / actual for actual, estimate in answers if low < actual < high]
        return (math.fsum(errors) / len(errors) if errors else None), len(errors)

    (every, count), (small, few), (large, many) = (
        mean(0, math.inf),
        mean(0, SMALL * records),
        mean(LARGE * records, math.inf),
    )
    return Workload(every, small, large, count, few, many)


# Ranks ------------------------------------------------------------------------------------------------------------


def _ranks_name(place: int) -> str:
    return f"{PREFIX}_ranks_{place + 1}"


def _rank(engine: Engine, domains: Sequence[Domain]) -> list[int]:
    """Make the tables of ranks. Returns how many values each quasi-identifier has."""
    sizes = []
    for place, domain in enumerate(domains):
        chosen = exp.select("code", "place").from_(ranks(domain).subquery(alias="ranked"))
        engine.create_temporary(_ranks_name(place), chosen)
        sizes.append(int(engine.query(exp.select("COUNT(*)").from_(table(_ranks_name(place))))[0][0]))
    return sizes


# Answers ----------------------------------------------------------------------------------------------------------
# Each query of a set is a bit. For each range of ranks that occurs, two numbers tell which queries contain it and which
# touch it; AND over the attributes of the set tells the same of a class. Classes inside a query count in full, whatever
# their number; only those that a query cuts are looked at one by one.


def _answers(
    engine: Engine, tables: tuple[str, str], drawn: Sequence[RangeQuery], asked: Callable[[int], None]
) -> list[tuple[float, float]]:
    """(actual, estimate) for each query, in their order; `asked` is told how many were asked so far."""
    sets = list(dict.fromkeys(query.attributes for query in drawn))
    batches = _load(engine, drawn, sets)
    found = [[0.0, 0.0] for _ in drawn]
    for batch, attributes in batches:
        for side, name in enumerate(tables):
            for query, answer in engine.query(_counted(name, batch, attributes, cut=side == 1)):
                found[int(query)][side] = float(answer or 0)
        asked(len(drawn) * (batch + 1) // len(batches))
    return [(actual, estimate) for actual, estimate in found]


def _load(
    engine: Engine, drawn: Sequence[RangeQuery], sets: Sequence[tuple[int, ...]]
) -> list[tuple[int, tuple[int, ...]]]:
    """Put the queries into a table, in batches of at most BITS on the same attributes. Returns the batches."""
    columns = ["query", "batch", "bit", *(f"{end}{i}" for i in range(1, MOST_ATTRIBUTES + 1) for end in ("from", "to"))]
    batches: list[tuple[int, tuple[int, ...]]] = []
    rows = []
    for attributes in sets:
        own = [(number, query) for number, query in enumerate(drawn) if query.attributes == attributes]
        for place, (number, query) in enumerate(own):
            if place % BITS == 0:
                batches.append((len(batches), attributes))
            ends = [str(end) for ends in query.ranges for end in ends]
            ends += ["0"] * (2 * (MOST_ATTRIBUTES - len(query.ranges)))
            rows.append([str(number), str(len(batches) - 1), str(1 << place % BITS), *ends])
    engine.load_temporary(f"{PREFIX}_drawn", columns, rows)
    numbers = [alias(bigint(exp.column(name)), name) for name in columns]
    engine.create_temporary(f"{PREFIX}_queries", exp.select(*numbers).from_(table(f"{PREFIX}_drawn")))
    return batches


def _counted(name: str, batch: int, attributes: Sequence[int], *, cut: bool) -> exp.Select:
    """What the classes in table `name` answer to a batch of queries: query, answer. `cut`: a query may cut a class."""
    slots = range(1, len(attributes) + 1)
    inside = _all_bits("inside", slots)
    classes = exp.select(alias(inside, "inside"), alias(_all_bits("touching", slots), "touching"), "b.records")
    classes = classes.select(
        *(exp.column(f"s{place + 1}", table="b").as_(f"s{i}") for i, place in zip(slots, attributes, strict=True))
    )
    classes = classes.from_(table(name, alias="b"))
    for slot, place in zip(slots, attributes, strict=True):
        same = exp.column("span", table=f"m{slot}").eq(exp.column(f"s{place + 1}", table="b"))
        classes = classes.join(f"m{slot}", on=same)
    parts: list[exp.Query] = [_whole_classes(batch)]
    if cut:
        parts.append(_cut_classes(batch, slots))
    answers = union_all(parts).subquery(alias="answers")
    tree = exp.select("query", exp.Sum(this=exp.column("answer"))).from_(answers).group_by("query")
    for slot, place in zip(slots, attributes, strict=True):
        tree = tree.with_(f"m{slot}", as_=_bits(f"{name}_{place + 1}", batch, slot), copy=False)
    return tree.with_("classes_", as_=classes, copy=False)


def _all_bits(which: str, slots: Sequence[int]) -> exp.Expr:
    tree: exp.Expr = exp.column(which, table="m1")
    for slot in slots[1:]:
        tree = exp.BitwiseAnd(this=tree, expression=exp.column(which, table=f"m{slot}"))
    return exp.paren(tree, copy=False)


def _bits(spans: str, batch: int, slot: int) -> exp.Select:
    """The ranges of an attribute, with the queries that contain them and the queries that touch them."""
    low, high, bit = exp.column("lo", table="x"), exp.column("hi", table="x"), exp.column("bit", table="q")
    inside = exp.and_(_end("from", slot) <= low, high <= _end("to", slot))
    touching = exp.and_(low <= _end("to", slot), high >= _end("from", slot))
    named = [
        alias(sum_bigint(case((condition, bit), default=literal(0))), name)
        for condition, name in ((inside, "inside"), (touching, "touching"))
    ]
    tree = exp.select("x.span", "x.lo", "x.hi", *named).from_(table(spans, alias="x"))
    tree = tree.join(table(f"{PREFIX}_queries", alias="q"), on=exp.column("batch", table="q").eq(batch))
    return tree.group_by("x.span", "x.lo", "x.hi")


def _whole_classes(batch: int) -> exp.Select:
    """Classes that lie in the range of a query, counted by the set of such queries first: these sets are few."""
    sums = exp.select("inside", alias(sum_bigint(exp.column("records")), "records")).from_("classes_")
    sums = sums.where(exp.column("inside") > 0).group_by("inside")
    answer = double(exp.Sum(this=exp.column("records", table="w")))
    tree = exp.select("q.query", alias(answer, "answer")).from_(sums.subquery(alias="w"))
    return _asked_by(tree, exp.column("inside", table="w"), batch).group_by("q.query")


def _cut_classes(batch: int, slots: Sequence[int]) -> exp.Select:
    """Classes that a query cuts: the share of their rows that lies in its range if rows are spread evenly."""
    spans = [f"s{slot}" for slot in slots]
    cutting = exp.Sub(this=exp.column("touching"), expression=exp.column("inside"))
    grouped = exp.select(*spans, alias(cutting, "cutting"), alias(sum_bigint(exp.column("records")), "records"))
    grouped = grouped.from_("classes_").where(cutting.copy() > 0).group_by(*spans, cutting.copy())
    share: exp.Expr = double(exp.column("records", table="c"))
    tree = exp.select("q.query").from_(grouped.subquery(alias="c"))
    for slot in slots:
        low, high = exp.column("lo", table=f"m{slot}"), exp.column("hi", table=f"m{slot}")
        common = _width(exp.func("GREATEST", low, _end("from", slot)), exp.func("LEAST", high, _end("to", slot)))
        part = exp.Div(this=double(common), expression=double(_width(low, high)))
        share = exp.Mul(this=share, expression=exp.paren(part, copy=False))
        tree = tree.join(f"m{slot}", on=exp.column("span", table=f"m{slot}").eq(exp.column(f"s{slot}", table="c")))
    tree = _asked_by(tree, exp.column("cutting", table="c"), batch)
    return tree.select(alias(exp.Sum(this=share), "answer")).group_by("q.query")


def _asked_by(tree: exp.Select, bits: exp.Expr, batch: int) -> exp.Select:
    asked = exp.paren(exp.BitwiseAnd(this=bits, expression=exp.column("bit", table="q")), copy=False) > 0
    own = exp.column("batch", table="q").eq(batch)
    return tree.join(table(f"{PREFIX}_queries", alias="q"), on=exp.and_(own, asked))


def _end(which: str, slot: int) -> exp.Column:
    return exp.column(f"{which}{slot}", table="q")


def _width(low: exp.Expr, high: exp.Expr) -> exp.Expr:
    gap = exp.Sub(this=high.copy(), expression=low.copy())
    return exp.paren(exp.Add(this=gap, expression=literal(1)), copy=False)


# Tables -----------------------------------------------------------------------------------------------------------


def _original(cells: str, domains: Sequence[Domain]) -> exp.Select:
    """The original as boxes of one value for each attribute."""
    tree = exp.select(alias(exp.column("n", table="c"), "records")).from_(table(cells, alias="c"))
    for place, domain in enumerate(domains):
        name = f"r{place + 1}"
        own = exp.BitwiseAnd(this=exp.column(f"k{domain.key + 1}", table="c"), expression=literal(domain.masks[0]))
        tree = tree.join(table(_ranks_name(place), alias=name), on=exp.column("code", table=name).eq(exp.paren(own)))
        rank = exp.column("place", table=name)
        tree = tree.select(alias(rank, f"lo{place + 1}"), alias(rank.copy(), f"hi{place + 1}"))
    return tree


def _store(engine: Engine, name: str, boxes: exp.Query, count: int) -> None:
    """Boxes as a table (records, s1, …), with one number a range, and a table of ranges for each attribute."""
    spans = []
    for place in range(1, count + 1):
        low = exp.Mul(this=bigint(exp.column(f"lo{place}")), expression=literal(SPAN))
        spans.append(alias(exp.Add(this=low, expression=bigint(exp.column(f"hi{place}"))), f"s{place}"))
    stored = exp.select(alias(bigint(exp.column("records")), "records"), *spans).from_(boxes.subquery(alias="boxes"))
    engine.create_temporary(name, stored)
    for place in range(1, count + 1):
        span = exp.column(f"s{place}")
        each = exp.select(alias(span, "span")).distinct().from_(table(name)).subquery(alias="spans")
        first = bigint(exp.Floor(this=exp.Div(this=double(exp.column("span")), expression=double(literal(SPAN)))))
        both = exp.select("span", alias(first, "lo")).from_(each).subquery(alias="spans")
        high = exp.Sub(this=exp.column("span"), expression=exp.Mul(this=exp.column("lo"), expression=literal(SPAN)))
        engine.create_temporary(f"{name}_{place}", exp.select("span", "lo", alias(high, "hi")).from_(both))

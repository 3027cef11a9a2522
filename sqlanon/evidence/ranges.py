"""What a release leaves open, as boxes: for each class and quasi-identifier the first and the last rank.

    boxes(records, lo1, hi1, lo2, hi2, …)

Values are ranked depth first in their hierarchy, by their own order where that is no contradiction, so that each label
stands for a range of ranks. Only values that occur in the original have a rank; NULL is a value like others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlglot import exp

from sqlanon.engines import Engine
from sqlanon.errors import PolicyError
from sqlanon.relations.classes import NULL_NODE
from sqlanon.relations.compressed_rows import Compressed, Domain, code
from sqlanon.sqltree.tree import alias, bigint, case, literal, sum_bigint, table, text, union_all, window


def boxes_of(
    engine: Engine,
    domains: Sequence[Domain],
    released: exp.Query,
    *,
    levels: Mapping[str, int] | None = None,
) -> exp.Select:
    """The boxes of labels as they are released: `released` is (l1, …, records), the labels as text.

    A label that stands on more than one level of a hierarchy is taken for the widest, unless `levels` says which."""
    tree = exp.select("r.records").from_(released.subquery(alias="r"))
    unknown = []
    for place, domain in enumerate(domains, start=1):
        name = f"s{place}"
        label = exp.Coalesce(this=exp.column(f"l{place}", table="r"), expressions=[literal(NULL_NODE)])
        spans = _spans(domain, (levels or {}).get(domain.name)).subquery(alias=name)
        tree = tree.join(spans, on=exp.column("label", table=name).eq(label), join_type="left")
        lo, hi = exp.column("lo", table=name), exp.column("hi", table=name)
        tree = tree.select(alias(lo, f"lo{place}"), alias(hi, f"hi{place}"))
        missing = case((exp.column(f"lo{place}").is_(exp.Null()), literal(1)), default=literal(0))
        unknown.append(exp.Coalesce(this=exp.Sum(this=missing), expressions=[literal(0)]))
    counts = engine.query(exp.select(*unknown).from_(tree.copy().subquery(alias="boxes")))[0]
    for domain, count in zip(domains, counts, strict=True):
        if count:
            raise PolicyError(
                f"{count} classes have labels for '{domain.name}' that its hierarchy and the original do not have",
                hint="is it the release of this source, and was the source changed since?",
            )
    return tree


def boxes_at(compressed: Compressed, levels: Sequence[int], cells: exp.Query | None = None) -> exp.Select:
    """The boxes of a full-domain generalization: each quasi-identifier on one level. `cells` are the rows of the
    compressed table that are released, where not all are."""
    source = cells.subquery(alias="cells") if cells is not None else table(compressed.table)
    masks = dict(zip(compressed.key_names, compressed.masks(levels), strict=True))
    bits = {name: exp.BitwiseAnd(this=exp.column(name), expression=literal(mask)) for name, mask in masks.items()}
    grouped = exp.select(
        *(alias(bit, name) for name, bit in bits.items()), alias(sum_bigint(exp.column("n")), "records")
    )
    grouped = grouped.from_(source).group_by(*(bit.copy() for bit in bits.values()))
    tree = exp.select("g.records").from_(grouped.subquery(alias="g"))
    for place, (domain, level) in enumerate(zip(compressed.domains, levels, strict=True), start=1):
        name = f"s{place}"
        part = exp.BitwiseAnd(this=exp.column("code"), expression=literal(domain.masks[level]))
        first, last = exp.Min(this=exp.column("place")), exp.Max(this=exp.column("place"))
        spans = exp.select(alias(part, "part"), alias(first, "lo"), alias(last, "hi"))
        spans = spans.from_(ranks(domain).subquery(alias="ranked")).group_by(part.copy())
        own = exp.BitwiseAnd(this=exp.column(f"k{domain.key + 1}", table="g"), expression=literal(domain.masks[level]))
        same = exp.column("part", table=name).eq(exp.paren(own, copy=False))
        tree = tree.join(spans.subquery(alias=name), on=same)
        tree = tree.select(*(exp.column(end, table=name).as_(f"{end}{place}") for end in ("lo", "hi")))
    return tree


def ranks(domain: Domain) -> exp.Select:
    """The values of a quasi-identifier with the bits of their keys, their rank, and their labels n0, n1, …"""
    names = [f"n{level}" for level in range(domain.height)]
    order: list[exp.Expr] = []
    for level in reversed(range(1, domain.height)):
        above = [exp.column(name, table="d") for name in names[level:]]
        order.append(alias(window(exp.Min(this=exp.column("position", table="d")), partition=above), f"o{level}"))
    labels = [exp.column(name, table="d") for name in names]
    inner = exp.select(alias(code(domain, "d"), "code"), *labels, "d.position", *order)
    inner = inner.from_(table(domain.dictionary, alias="d"))
    keys = [exp.column(item.alias) for item in order] + [exp.column("position")]
    rank = window(exp.RowNumber(), order=keys)
    return exp.select("code", *names, alias(bigint(rank), "place")).from_(inner.subquery(alias="ordered"))


def _spans(domain: Domain, level: int | None) -> exp.Select:
    """The labels of a quasi-identifier with their first and last rank."""
    chosen = [level] if level is not None else list(range(domain.height + 1))
    parts: list[exp.Query] = []
    for each in chosen:
        label = exp.column(f"n{each}") if each < domain.height else text(literal(domain.hierarchy.root))
        parts.append(exp.select(alias(label, "label"), "place").from_(ranks(domain).subquery(alias="ranked")))
    first, last = exp.Min(this=exp.column("place")), exp.Max(this=exp.column("place"))
    tree = exp.select("label", alias(first, "lo"), alias(last, "hi"))
    return tree.from_(union_all(parts).subquery(alias="labels")).group_by("label")

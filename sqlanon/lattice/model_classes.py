"""Classes that a model looks at and that are not those of the release: by some of the quasi-identifiers alone, by
further columns beside them, or with every row that has a NULL as a class of its own.

A release shows or suppresses whole classes of all quasi-identifiers. One that has a row in a broken class of some model
is suppressed; what is left of the other classes of that model is smaller then, so that models are asked again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from sqlanon.relations.compressed_rows import Compressed
from sqlanon.sqltree.tree import alias, bigint, case, literal, select, sum_bigint, table, text


@dataclass(frozen=True)
class Own:
    """What makes the classes of a model, and what is counted in them."""

    qid: tuple[int, ...]  # the places of its quasi-identifiers among all
    values: tuple[str, ...] = ()  # columns of the compressed table that make classes too
    rows: bool = False  # rows with a NULL among its quasi-identifiers are classes of their own
    persons: bool = False
    counted: tuple[int | str, ...] = ()  # quasi-identifiers and columns whose distinct combinations are counted
    partial: bool = False  # some quasi-identifiers are none of its own
    everywhere: bool = False  # what is released in other classes counts too

    @property
    def whole(self) -> bool:
        """Whether its classes are made of whole classes of the release."""
        return not self.values and not self.rows


def bits(packed: Compressed, places: Sequence[int]) -> list[int]:
    """For each key the bits of some quasi-identifiers."""
    found = [0] * packed.keys
    for place in places:
        found[packed.domains[place].key] |= packed.domains[place].masks[0]
    return found


def join_keys(keys: Sequence[exp.Expr]) -> exp.Expr:
    """One number for several keys: the only key itself, else a text of all."""
    if len(keys) == 1:
        return keys[0]
    tree = text(keys[0])
    for item in keys[1:]:
        tree = exp.DPipe(this=exp.DPipe(this=tree, expression=literal("/")), expression=text(item))
    return tree


def own_id(packed: Compressed, own: Own, masks: Sequence[exp.Expr]) -> exp.Expr:
    """The number of a class: what a node shows of its quasi-identifiers, its further values, and the number of a row
    that shows a NULL."""
    parts = [*shown_keys(packed, own.qid, masks), *(exp.column(name) for name in own.values)]
    if own.rows:
        flags = sum(1 << place for place in own.qid) + _flags(packed, own.values)
        shows = exp.BitwiseAnd(this=nulls_shown(masks), expression=bigint(literal(flags)))
        parts.append(case((exp.paren(shows).neq(0), exp.column("row_")), default=bigint(literal(0))))
    return join_keys(parts or [bigint(literal(0))])


def shown_keys(packed: Compressed, places: Sequence[int], masks: Sequence[exp.Expr]) -> list[exp.Expr]:
    """What a node shows of some quasi-identifiers, key by key; a key that has none of them is left out."""
    found: list[exp.Expr] = []
    for name, mask, mine in zip(packed.key_names, masks, bits(packed, places), strict=False):
        if mine:
            shown = exp.BitwiseAnd(this=exp.column(name), expression=mask.copy())
            found.append(exp.BitwiseAnd(this=shown, expression=bigint(literal(mine))))
    return found


def _flags(packed: Compressed, values: Sequence[str]) -> int:
    """The flags of some values in u."""
    return sum(1 << (len(packed.domains) + int(name[1:]) - 1) for name in values)


def nulls_shown(masks: Sequence[exp.Expr]) -> exp.Expr:
    """The flags of what is NULL and not hidden by a root; the mask of the flags is the last one."""
    return exp.BitwiseAnd(this=exp.column("u"), expression=masks[-1].copy())


def distinct(packed: Compressed, own: Own, masks: Sequence[exp.Expr]) -> exp.Expr:
    """How many combinations of the counted columns there are; one with a NULL is not counted."""
    places = [item for item in own.counted if isinstance(item, int)]
    columns = [item for item in own.counted if isinstance(item, str)]
    parts = [*shown_keys(packed, places, masks), *(exp.column(name) for name in columns)]
    flags = sum(1 << place for place in places) + _flags(packed, columns)
    lacks = exp.paren(exp.BitwiseAnd(this=nulls_shown(masks), expression=bigint(literal(flags)))).neq(0)
    combined = case((lacks, exp.Null()), default=text(join_keys(parts or [literal(0)])))
    return bigint(exp.Count(this=exp.Distinct(expressions=[combined])))


def pairs(key: exp.Expr, own: exp.Expr, source: str) -> exp.Select:
    """Which classes of the release and of a model meet, and in how many rows: class_id, own, rows_."""
    return select(
        alias(key.copy(), "class_id"),
        alias(own.copy(), "own"),
        alias(sum_bigint(exp.column("n")), "rows_"),
        source=table(source),
        groups=[key.copy(), own.copy()],
    )


def lift_verdicts(met: str, result: str, excess: exp.Expr | None) -> exp.Select:
    """The verdict for each class of the release: broken if it meets a broken class. Its part of the rows beyond a limit
    is `lost`. A class without a result was not measured, and what was not measured is not safe."""
    broken = exp.Coalesce(this=exp.column("broken", table=result), expressions=[literal(1)])
    chosen: list[exp.Expr] = [exp.column("class_id", table=met), alias(exp.Max(this=broken), "broken")]
    if excess is not None:
        lost = exp.Mul(this=exp.column("rows_", table=met), expression=excess)
        chosen.append(alias(exp.Sum(this=lost), "lost"))
    same = exp.column("class_id", table=result).eq(exp.column("own", table=met))
    tree = exp.select(*chosen).from_(met).join(result, on=same, join_type="left", copy=False)
    return tree.group_by(exp.column("class_id", table=met), copy=False)

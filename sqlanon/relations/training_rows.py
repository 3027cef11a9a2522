"""Rows as a classifier sees them: numbers in bins, categories as labels, each combination with its count."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp

from sqlanon.relations.utility_relations import KEY
from sqlanon.sqltree.tree import alias, case, column, count_all, literal, nest_query, select, table, text

HELD_OUT = "0123"  # a quarter: the first digit, in base 16, of a hash of the number of a row


@dataclass(frozen=True)
class TrainingColumns:
    """`numbers` maps the places of columns to the edges of their bins; `target` is the place of what is predicted,
    `as_released` are categories that the source does not have in that form."""

    numbers: Mapping[int, Sequence[float]]
    categories: Sequence[int]
    target: int
    as_released: frozenset[int] = frozenset()


def combinations(pairs: str, asked: TrainingColumns, *, released: bool, held_out: bool, most: int) -> exp.Select:
    """What stands in the rows of the one part, the target and the count last; one more than `most` is too many.

    Of the release: the features as they were released. Those that are held out, to test on, are the originals; only
    categories that were generalized are taken as they are in the release, since nobody can tell otherwise.
    """
    shown = released and not held_out
    chosen: list[exp.Expr] = [_bin(f"{'y' if shown else 'x'}{place}", edges) for place, edges in asked.numbers.items()]
    for place in asked.categories:
        own = shown or (released and place in asked.as_released)
        chosen.append(exp.column(f"{'d' if own else 'c'}{place}"))
    answer = exp.column(f"{'d' if shown else 'c'}{asked.target}")
    named = [alias(item, f"f{place}") for place, item in enumerate((*chosen, answer), start=1)]
    known = exp.and_(answer.copy().is_(exp.Null()).not_(), _held_out() if held_out else exp.not_(_held_out()))
    if shown:
        known = exp.and_(known, exp.column("kept").eq(1))
    rows = select(*named, source=table(pairs), where=known)
    names = [item.alias for item in named]
    tree = select(*names, count_all(), source=nest_query(rows, "t"), groups=names)
    return tree.limit(most + 1, copy=False)


def _bin(name: str, edges: Sequence[float]) -> exp.Expr:
    """The number of the bin, from 0; -1 for a number that is missing."""
    own = exp.column(name)
    branches: list[tuple[exp.Expr, exp.Expr]] = [(own.is_(exp.Null()), literal(-1))]
    branches += [(own.copy() <= literal(float(edge)), literal(place)) for place, edge in enumerate(edges)]
    return case(*branches, default=literal(len(edges)))


def _held_out() -> exp.Expr:
    digit = exp.Substring(this=exp.MD5(this=text(column(KEY))), start=literal(1), length=literal(1))
    return digit.isin(*(literal(each) for each in HELD_OUT))

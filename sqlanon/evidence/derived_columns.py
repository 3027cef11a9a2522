"""Columns that follow from another one, such as a group of ages from an age, and flags that are one column in parts.

Released beside a column that is made coarser, such a column would tell what that one hides, or would have to be made
coarser once more for nothing. A draft leaves it out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import permutations

from sqlglot import exp

from sqlanon.engines import Engine
from sqlanon.evidence.suggest_roles import ColumnFacts, Suggestion
from sqlanon.sqltree.tree import alias, column, count_all, literal, select, sum_bigint, union_all

ROWS_LOOKED_AT = 200_000
MOST_PAIRS = 200
SUPPORT = 5  # rows for a value on average: fewer, and any column seems to follow from it


def find_derived(
    engine: Engine,
    rows: exp.Select,
    facts: Sequence[ColumnFacts],
    roles: Mapping[str, Suggestion],
    fixed: Sequence[str],
) -> dict[str, str]:
    """Columns that follow from others, with the column that they follow from; what is `fixed` never does.

    Of two columns that follow from each other, the one whose role is sure stays, then the one that comes first.
    """
    open_ = [item for item in facts if _may_count(item, roles[item.name])]
    pairs = [(a, b) for a, b in permutations(open_, 2) if _may_follow(a, b, fixed)][:MOST_PAIRS]
    if not pairs:
        return {}
    together = _count_pairs(engine, rows, [(a.name, b.name) for a, b in pairs])
    follows = {
        (a.name, b.name) for (a, b), count in zip(pairs, together, strict=True) if count == a.distinct + (a.nulls > 0)
    }
    order = sorted(open_, key=lambda item: (item.name not in fixed, not roles[item.name].sure, -item.distinct))
    derived: dict[str, str] = {}
    for item in order:
        if item.name not in derived:
            derived |= {b: a for a, b in follows if a == item.name and b not in derived}
    # What it follows from must stay.
    return {name: origin for name, origin in derived.items() if origin not in derived}


def _may_count(item: ColumnFacts, suggestion: Suggestion) -> bool:
    guessed = suggestion.role == "quasi_identifier" or (suggestion.role == "sensitive" and not suggestion.sure)
    return guessed and item.comparable and item.distinct > 1


def _may_follow(a: ColumnFacts, b: ColumnFacts, fixed: Sequence[str]) -> bool:
    return b.name not in fixed and a.distinct >= b.distinct and a.distinct * SUPPORT <= a.rows


def _count_pairs(engine: Engine, rows: exp.Select, pairs: Sequence[tuple[str, str]]) -> list[int]:
    def branch(place: int, names: tuple[str, str]) -> exp.Query:
        chosen = [alias(column(name), f"c{i}") for i, name in enumerate(names)]
        values = rows.select(*chosen, append=False).limit(ROWS_LOOKED_AT).subquery(alias="looked_at")
        different = exp.select("c0", "c1").from_(values).distinct().subquery(alias="different")
        return select(alias(literal(place), "place"), alias(count_all(), "records"), source=different)

    found = dict(engine.query(union_all([branch(place, names) for place, names in enumerate(pairs)])))
    return [int(found[place]) for place in range(len(pairs))]


def find_one_hot(
    engine: Engine, rows: exp.Select, facts: Sequence[ColumnFacts], roles: Mapping[str, Suggestion]
) -> list[tuple[str, ...]]:
    """Groups of neighbouring columns of which exactly one is 1 in each row: one category in several columns."""
    runs: list[list[str]] = [[]]
    for item in facts:
        if _is_flag(item) and roles[item.name].role == "quasi_identifier":
            runs[-1].append(item.name)
        elif runs[-1]:
            runs.append([])
    runs = [run for run in runs if len(run) > 2]
    names = [name for run in runs for name in run]
    total = facts[0].rows if facts else 0
    if not names:
        return []
    sums = dict(zip(names, engine.query(rows.select(*map(_ones, names), append=False))[0], strict=True))
    windows = [
        tuple(run[i:j])
        for run in runs
        for i in range(len(run))
        for j in range(i + 3, len(run) + 1)
        if sum(int(sums[name]) for name in run[i:j]) == total
    ]
    if not windows:
        return []
    worst = [_most(window) for window in windows]
    most = engine.query(rows.select(*worst, append=False))[0]
    found: list[tuple[str, ...]] = []
    for window, value in zip(windows, most, strict=True):
        # Flags that add up to the number of rows, never two in one row: exactly one in each.
        if int(value) == 1 and not any(set(window) & set(group) for group in found):
            found.append(window)
    return found


def _is_flag(item: ColumnFacts) -> bool:
    return item.shape in ("whole", "number") and item.distinct == 2 and item.least == 0 and item.most == 1


def _ones(name: str) -> exp.Expr:
    return exp.Coalesce(this=sum_bigint(column(name)), expressions=[literal(0)])


def _most(names: Sequence[str]) -> exp.Expr:
    total: exp.Expr = exp.Coalesce(this=column(names[0]), expressions=[literal(0)])
    for name in names[1:]:
        total = exp.Add(this=total, expression=exp.Coalesce(this=column(name), expressions=[literal(0)]))
    return exp.Max(this=total)

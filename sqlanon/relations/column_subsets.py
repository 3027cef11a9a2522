"""Classes of every set of quasi-identifiers, one size of sets after the other, each rolled up from a larger one.

    subset_keys(subset, class_id, records, k1, …)       the classes of all columns, with their values packed into keys
    subset_classes(subset, class_id, records, k1, …)    the classes of all sets of one size
    subset_scores(subset, score)                        all sets
    other_columns(amount)                               what a column adds to the word of a set, from the sixth on

The number of a set has one bit for each of its columns. A class is known by one of the classes that it was put together
from, which for a class of one record is that record's own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from sqlglot import exp

from sqlanon.relations.classes import Grouping, Prelude, classes, labels
from sqlanon.sqltree.tree import (
    BIGINT,
    DOUBLE,
    alias,
    bigint,
    bind,
    count_all,
    join_clause,
    literal,
    put_first,
    rows_relation,
    same,
    select,
    sum_bigint,
    table,
    union_all,
    window,
)

BITS = 62  # of a BIGINT, without its sign
WORD = 5  # columns whose sets share a word of bits


@dataclass(frozen=True)
class Packing:
    """Where the values of each column lie: the number of the key, and the bits in it."""

    keys: tuple[int, ...]
    shifts: tuple[int, ...]
    widths: tuple[int, ...]

    @property
    def key_names(self) -> list[str]:
        return [f"k{number}" for number in range(1, max(self.keys) + 2)]

    def masks(self, subset: int) -> tuple[int, ...]:
        """The bits of each key that a set of columns keeps."""
        found = [0] * (max(self.keys) + 1)
        for place, (key, shift, width) in enumerate(zip(self.keys, self.shifts, self.widths, strict=True)):
            if subset >> place & 1:
                found[key] |= ((1 << width) - 1) << shift
        return tuple(found)


def pack_keys(values: Sequence[int]) -> Packing:
    """As few keys as hold columns of so many values, in their order.

    >>> pack_keys([2, 40, 1]).widths, pack_keys([2**40, 2**30]).keys
    ((1, 6, 1), (0, 1))
    """
    keys: list[int] = []
    shifts: list[int] = []
    widths = [max(1, (count - 1).bit_length()) for count in values]
    key = used = 0
    for width in widths:
        if used + width > BITS:
            key, used = key + 1, 0
        keys.append(key)
        shifts.append(used)
        used += width
    return Packing(tuple(keys), tuple(shifts), tuple(widths))


def sets_of_size(columns: int, size: int) -> list[int]:
    """The numbers of all sets of so many columns.

    >>> sets_of_size(3, 2)
    [3, 5, 6]
    """
    return [sum(1 << place for place in places) for places in combinations(range(columns), size)]


def values_of_columns(prelude: Prelude, grouping: Grouping) -> list[str]:
    """One table (original, code) a column, with its values numbered from 0."""

    def build(label: str) -> exp.Query:
        distinct = select(
            alias(exp.column(label), "original"), source=table(classes(prelude, grouping)), groups=[label]
        )
        number = window(exp.RowNumber(), order=[exp.column("original")])
        code = exp.Sub(this=number, expression=literal(1))
        return select("original", alias(code, "code"), source=distinct.subquery(alias="distinct_values"))

    return [
        prelude.once("subset_values", (grouping, label), lambda label=label: build(label))  # type: ignore[misc]
        for label in labels(grouping)
    ]


def subset_keys(prelude: Prelude, grouping: Grouping, packed: Packing) -> str:
    """All classes with their keys, as the classes of the set of all columns."""
    values = values_of_columns(prelude, grouping)

    def build() -> exp.Query:
        parts: list[list[exp.Expr]] = [[] for _ in packed.key_names]
        joins = []
        for place, (label, known) in enumerate(zip(labels(grouping), values, strict=True)):
            own = f"d{place}"
            pair = (exp.column(label, table="k"), exp.column("original", table=own))
            joins.append(join_clause(table(known, alias=own), same(prelude.dialect, *pair)))
            code = bigint(exp.column("code", table=own))
            moved = exp.Mul(this=code, expression=bigint(literal(1 << packed.shifts[place])))
            parts[packed.keys[place]].append(moved)
        keys = []
        for name, terms in zip(packed.key_names, parts, strict=True):
            total: exp.Expr = terms[0]
            for term in terms[1:]:
                total = exp.Add(this=total, expression=term)
            keys.append(alias(total, name))
        everything = (1 << len(values)) - 1
        return select(
            alias(bigint(literal(everything)), "subset"),
            exp.column("class_id", table="k"),
            exp.column("records", table="k"),
            *keys,
            source=table(classes(prelude, grouping), alias="k"),
            joins=joins,
        )

    return prelude.once("subset_keys", (grouping,), build)


def subset_classes(prelude: Prelude, larger: str, parents: Mapping[int, int], packed: Packing) -> str:
    """The classes of sets of columns, each put together from those of a larger set: parents[set]."""
    masks = [f"m{number}" for number in range(1, len(packed.key_names) + 1)]
    rows = [(subset, parent, *packed.masks(subset)) for subset, parent in sorted(parents.items())]
    plan = _loaded(prelude, "subset_plan", ("subset", "parent", *masks), rows).subquery(alias="p")
    keys = [
        exp.BitwiseAnd(this=exp.column(key, table="c"), expression=exp.column(mask, table="p"))
        for key, mask in zip(packed.key_names, masks, strict=True)
    ]
    own = exp.column("subset", table="p")

    def build() -> exp.Query:
        return select(
            own,
            alias(exp.Min(this=exp.column("class_id", table="c")), "class_id"),
            alias(sum_bigint(exp.column("records", table="c")), "records"),
            *(alias(key, name) for key, name in zip(keys, packed.key_names, strict=True)),
            source=table(larger, alias="c"),
            joins=[join_clause(plan, exp.column("parent", table="p").eq(exp.column("subset", table="c")))],
            groups=[own.copy(), *(key.copy() for key in keys)],
        )

    return prelude.once("subset_classes", (tuple(parents),), build)


def subset_scores(prelude: Prelude, scores: Mapping[int, float]) -> str:
    rows = sorted(scores.items())
    known = _loaded(prelude, "subset_list", ("subset", "score"), rows, DOUBLE)
    return prelude.once("subset_scores", (tuple(rows),), lambda: known)


def _loaded(
    prelude: Prelude,
    kind: str,
    columns: tuple[str, ...],
    rows: Sequence[Sequence[int | float]],
    last: exp.DataType = BIGINT,
) -> exp.Select:
    """Numbers that are known here, in a table: as a part of a statement, hundreds of them take long to be read."""
    made = prelude.load(kind, (tuple(rows),), columns, tuple(tuple(str(item) for item in row) for row in rows))
    kinds = [*[BIGINT] * (len(columns) - 1), last]
    typed = [
        alias(exp.Cast(this=exp.column(name), to=kind.copy()), name) for name, kind in zip(columns, kinds, strict=True)
    ]
    return select(*typed, source=table(made))


def minimal_uniques(prelude: Prelude, sql: str, levels: Sequence[str], scores: str, columns: int) -> str:
    """The sets on which each record is a minimal sample unique, from the classes of all sets."""

    def build() -> exp.Query:
        tree = bind(sql, {}, {"subset_scores": scores})
        alone = exp.column("records").eq(1)
        uniques = [select("subset", "class_id", source=table(name), where=alone.copy()) for name in levels]
        put_first(tree, "subset_uniques", union_all(uniques))
        others = [(1 << place,) for place in range(columns - WORD)]
        put_first(tree, "other_columns", rows_relation(others, ("amount",), [BIGINT]))
        return tree

    return prelude.once("minimal_uniques", (tuple(levels),), build)


def count_tables(names: Sequence[str]) -> exp.Query:
    """The places of tables, and how many rows each has."""
    return union_all(
        [select(alias(literal(place), "place"), count_all(), source=table(name)) for place, name in enumerate(names)]
    )


def counted_by_subset(name: str) -> exp.Select:
    return select("subset", count_all(), source=table(name), groups=["subset"])

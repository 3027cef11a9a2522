"""Classes of every set of quasi-identifiers, one size of sets after the other, each rolled up from a larger one.

    subset_keys(subset, class_id, records, k1, …)       the classes of all columns, with their values packed into keys
    subset_classes(subset, class_id, records, k1, …)    the classes of all sets of one size
    subset_parts(subset, part)                          a set, and what is left of it without one of its columns

The number of a set has one bit for each of its columns. A class is known by one of the classes that it was put together
from, which for a class of one record is that record's own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from sqlglot import exp

from sqlanon.compiler.classes import Grouping, Prelude, classes, labels
from sqlanon.compiler.tree import (
    BIGINT,
    DOUBLE,
    alias,
    bigint,
    count_all,
    joined,
    literal,
    rows_relation,
    same,
    select,
    summed,
    table,
    window,
)

BITS = 62  # of a BIGINT, without its sign


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


def packing(values: Sequence[int]) -> Packing:
    """As few keys as hold columns of so many values, in their order.

    >>> packing([2, 40, 1]).widths, packing([2**40, 2**30]).keys
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
            joins.append(joined(table(known, alias=own), same(prelude.dialect, *pair)))
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
    columns = ("subset", "parent", *masks)
    plan = rows_relation(rows, columns, [BIGINT] * len(columns)).subquery(alias="p")
    keys = [
        exp.BitwiseAnd(this=exp.column(key, table="c"), expression=exp.column(mask, table="p"))
        for key, mask in zip(packed.key_names, masks, strict=True)
    ]
    own = exp.column("subset", table="p")

    def build() -> exp.Query:
        return select(
            own,
            alias(exp.Min(this=exp.column("class_id", table="c")), "class_id"),
            alias(summed(exp.column("records", table="c")), "records"),
            *(alias(key, name) for key, name in zip(keys, packed.key_names, strict=True)),
            source=table(larger, alias="c"),
            joins=[joined(plan, exp.column("parent", table="p").eq(exp.column("subset", table="c")))],
            groups=[own.copy(), *(key.copy() for key in keys)],
        )

    return prelude.once("subset_classes", (tuple(parents),), build)


def subset_parts(prelude: Prelude, subsets: Sequence[int]) -> str:
    rows = [
        (subset, subset - (1 << place))
        for subset in subsets
        for place in range(subset.bit_length())
        if subset >> place & 1 and subset != 1 << place
    ]
    columns = ("subset", "part")
    return prelude.once("subset_parts", (tuple(subsets),), lambda: rows_relation(rows, columns, [BIGINT, BIGINT]))


def subset_scores(prelude: Prelude, scores: Mapping[int, float]) -> str:
    rows = sorted(scores.items())
    return prelude.once(
        "subset_scores", (tuple(rows),), lambda: rows_relation(rows, ("subset", "score"), [BIGINT, DOUBLE])
    )


def counted(name: str) -> exp.Select:
    """How many rows a table has."""
    return select(count_all(), source=table(name))


def counted_by_subset(name: str) -> exp.Select:
    return select("subset", count_all(), source=table(name), groups=["subset"])


def one_table(prelude: Prelude, kind: str, names: Sequence[str]) -> str:
    """The rows of several tables of minimal sample uniques in one."""

    def build() -> exp.Query:
        tree: exp.Query = select("subset", "class_id", source=table(names[0]))
        for name in names[1:]:
            tree = exp.union(tree, select("subset", "class_id", source=table(name)), distinct=False, copy=False)
        return tree

    return prelude.once(kind, (tuple(names),), build)

"""Classes that match where a suppressed cell may stand for any value.

    coded_classes(class_id, records, pattern, v1, v2, …)   a class whose values are numbered; a suppressed cell has the
                                                           number 0, and the bits of `pattern` tell which cells have it
    matching_classes(class_id, records)                    the rows that match those of a class, its own among them

Two rows match if in each column they have the same value, or one of them has a suppressed cell. For each pair of
patterns that is equality on the columns that neither hides: one join over the classes, whatever the number of rows.
Rows that match a third one need not match each other, so that these classes overlap and their records add up to more
than the rows of the table. NULL is a value, which matches NULL and suppressed cells.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sqlglot import exp

from sqlanon.errors import PolicyError
from sqlanon.hierarchies import Hierarchy
from sqlanon.policy import Policy
from sqlanon.relations.classes import Grouping, Prelude, classes, labels
from sqlanon.relations.source import SUPPRESSED
from sqlanon.sqltree.tree import (
    alias,
    bigint,
    case,
    join_clause,
    literal,
    nest_query,
    select,
    sum_bigint,
    table,
    text,
    window,
)

MOST_COLUMNS = 62  # one bit of a BIGINT each


def matches_any_value(policy: Policy) -> bool:
    """Whether a suppressed cell of a release may stand for any value."""
    return policy.suppressed_cells == "any_value"


def suppressed_labels(name: str, hierarchies: Mapping[str, Hierarchy]) -> tuple[str, ...]:
    """What a suppressed cell of a column looks like: the root of its hierarchy, which covers all values, or '*'.

    >>> suppressed_labels("age", {}), suppressed_labels("job", {"job": Hierarchy(1, "any", rows=(("cook", "any"),))})
    (('*',), ('*', 'any'))
    """
    root = hierarchies[name].root if name in hierarchies else SUPPRESSED
    return tuple(dict.fromkeys((SUPPRESSED, root)))


def matching_classes(prelude: Prelude, grouping: Grouping, hierarchies: Mapping[str, Hierarchy]) -> str:
    """The table (class_id, records) of the rows that match each class of `classes`."""
    coded = coded_classes(prelude, grouping, hierarchies)
    numbers = [f"v{place}" for place in range(1, len(grouping.columns) + 1)]

    def build() -> exp.Query:
        return matching_rows(coded, numbers)

    return prelude.once("matching_classes", (grouping,), build)


def coded_classes(prelude: Prelude, grouping: Grouping, hierarchies: Mapping[str, Hierarchy]) -> str:
    if len(grouping.columns) > MOST_COLUMNS:
        raise PolicyError(
            f"suppressed cells of more than {MOST_COLUMNS} quasi-identifiers cannot match any value",
            hint="declare fewer quasi-identifiers, or take 'suppressed_cells: own_value'",
        )

    def build() -> exp.Query:
        chosen: list[exp.Expr | str] = ["class_id", "records"]
        bits: list[exp.Expr] = []
        numbers: list[exp.Expr] = []
        for place, (name, label) in enumerate(zip(grouping.columns, labels(grouping), strict=True)):
            own = exp.column(label)
            hidden = text(own).isin(*(literal(each) for each in suppressed_labels(name, hierarchies)))
            bits.append(case((hidden, bigint(literal(1 << place))), default=bigint(literal(0))))
            # NULL has a rank like any other value.
            rank = bigint(window(exp.DenseRank(), order=[own.copy()]))
            number = case((hidden.copy(), bigint(literal(0))), default=rank)
            numbers.append(alias(number, f"v{place + 1}"))
        pattern = alias(_added(bits), "pattern")
        return select(*chosen, pattern, *numbers, source=table(classes(prelude, grouping)))

    return prelude.once("coded_classes", (grouping,), build)


def matching_rows(coded: str, numbers: Iterable[str]) -> exp.Select:
    """(class_id, records): each class with each pattern that occurs, on the columns that both show."""
    names = list(numbers)
    patterns = select("pattern", source=table(coded)).distinct()
    left: list[exp.Expr] = []
    for place, name in enumerate(names):
        bit = exp.BitwiseAnd(this=exp.column("pattern", table="p"), expression=bigint(literal(1 << place)))
        shown = case((exp.paren(bit).neq(0), bigint(literal(0))), default=exp.column(name, table="c"))
        left.append(alias(shown, name))
    masked = select(
        exp.column("class_id", table="c"),
        exp.column("records", table="c"),
        alias(exp.column("pattern", table="c"), "own"),
        alias(exp.column("pattern", table="p"), "other"),
        *left,
        source=table(coded, alias="c"),
        joins=[exp.Join(this=nest_query(patterns, "p"), kind="CROSS")],
    )
    grouped = select(
        "own", "other", *names, alias(sum_bigint(exp.column("records")), "records"),
        source=table("masked"), groups=["own", "other", *names],
    )  # fmt: skip
    crossed = [("own", "other"), ("other", "own"), *((name, name) for name in names)]
    same = exp.and_(*(exp.column(one, table="m").eq(exp.column(two, table="g")) for one, two in crossed))
    tree = select(
        exp.column("class_id", table="m"),
        alias(sum_bigint(exp.column("records", table="g")), "records"),
        source=table("masked", alias="m"),
        joins=[join_clause(nest_query(grouped, "g"), same)],
        groups=[exp.column("class_id", table="m")],
    )
    return tree.with_("masked", as_=masked, copy=False)


def _added(terms: list[exp.Expr]) -> exp.Expr:
    tree = terms[0]
    for term in terms[1:]:
        tree = exp.Add(this=tree, expression=term)
    return tree

"""The canonical relations that the risk measures read, beside those of the privacy models.

class_weights(class_id, records, weight)            the sampling weights of a class, added up
class_households(class_id, household, records)      the records of a household in a class
partitions(atoms, number, persons, place, size)     the ways to write a number as a sum, largest first
"""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from sqlanon.relations.classes import Grouping, Prelude, classes, finite, grouped_rows, number_classes, source
from sqlanon.sqltree.tree import (
    BIGINT,
    alias,
    case,
    column,
    count_all,
    double,
    literal,
    rows_relation,
    select,
    sum_bigint,
    table,
)


def own_population(prelude: Prelude, grouping: Grouping) -> str:
    """As class_population, where there is no population but the table itself."""

    def build() -> exp.Query:
        population = alias(exp.column("records"), "population")
        return select("class_id", "records", population, source=table(classes(prelude, grouping)))

    return prelude.once("own_population", (grouping,), build)


def class_weights(prelude: Prelude, grouping: Grouping, weight: str) -> str:
    def build() -> exp.Query:
        grouped = grouped_rows(prelude, grouping, {}, count_all())
        grouped.append("expressions", alias(exp.Sum(this=double(column(weight))), "weight"))
        return number_classes(prelude, grouping, grouped, ["records", "weight"])

    return prelude.once("class_weights", (grouping, weight), build)


def class_households(prelude: Prelude, grouping: Grouping, household: str) -> str:
    def build() -> exp.Query:
        grouped = grouped_rows(prelude, grouping, {"household": column(household)}, count_all())
        return number_classes(prelude, grouping, grouped, ["household", "records"])

    return prelude.once("class_households", (grouping, household), build)


def improper_weights(prelude: Prelude, weight: str) -> exp.Select:
    """How many rows have a weight that is no number above 0."""
    proper = case((finite(column(weight)) > 0, literal(0)), default=literal(1))
    return select(sum_bigint(proper), source=source(prelude))


def missing_values(prelude: Prelude, name: str) -> exp.Select:
    """How many rows have no value in a column."""
    missing = case((column(name).is_(exp.Null()), literal(1)), default=literal(0))
    return select(sum_bigint(missing), source=source(prelude))


def persons_and_rows(prelude: Prelude, person: str) -> exp.Select:
    counted = exp.Count(this=exp.Distinct(expressions=[column(person)]))
    return select(counted, count_all(), source=source(prelude))


def partitions(prelude: Prelude, atoms: int) -> str:
    rows = [
        (total, number, len(parts), place, size)
        for total in range(1, atoms + 1)
        for number, parts in enumerate(sums_of(total, total))
        for place, size in enumerate(parts)
    ]
    columns = ("atoms", "number", "persons", "place", "size")
    return prelude.once("partitions", (atoms,), lambda: rows_relation(rows, columns, [BIGINT] * len(columns)))


def sums_of(total: int, largest: int) -> Iterator[tuple[int, ...]]:
    """The ways to write a number as a sum of numbers up to `largest`, each with its largest first.

    >>> list(sums_of(4, 4))
    [(4,), (3, 1), (2, 2), (2, 1, 1), (1, 1, 1, 1)]
    """
    if total == 0:
        yield ()
    for first in range(min(total, largest), 0, -1):
        for rest in sums_of(total - first, first):
            yield (first, *rest)

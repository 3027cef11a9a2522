"""Which columns of a release are read as numbers, and the numbers that their labels stand for."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from sqlglot import exp

from sqlanon.engines import ColumnInfo
from sqlanon.errors import PolicyError
from sqlanon.evidence.utility.label_numbers import number_of
from sqlanon.evidence.work_tables import Work
from sqlanon.policy import Policy
from sqlanon.relations.classes import NULL_NODE
from sqlanon.relations.utility_relations import Readings, distinct_labels

# Hierarchies whose labels are bands of numbers; those of all others are categories.
BANDS = ("intervals", "age")
MOST_LABELS = 200_000


def readings_of(
    policy: Policy,
    ours: Mapping[str, ColumnInfo],
    theirs: Mapping[str, ColumnInfo],
    categories: Collection[str] = (),
    key: str | None = None,
) -> Readings:
    """Numbers and dates are quantities, if their hierarchy has no labels that are categories; all else are categories.
    Identifiers are neither: nobody computes with pseudonyms."""
    labelled = {name for name, use in policy.hierarchies.items() if use.kind not in BANDS}
    left_out = {key, *policy.identifiers} | ({policy.person} - set(policy.quasi_identifiers))
    shared = [name for name in ours if name in theirs and name not in left_out]
    countable = [name for name in shared if ours[name].numeric or _is_date(ours[name])]
    quantities = [name for name in countable if name not in labelled and name not in categories]
    return Readings(
        numbers=tuple(quantities),
        categories=tuple(name for name in shared if name not in quantities),
        dates=frozenset(name for name in quantities if not ours[name].numeric),
    )


def _is_date(column: ColumnInfo) -> bool:
    return column.temporal and column.type.lower().startswith(("date", "timestamp"))


def lookups_of(
    work: Work, released: exp.Select, theirs: Mapping[str, ColumnInfo], readings: Readings
) -> tuple[dict[str, str], list[str]]:
    """Tables of labels and the numbers that they stand for, for columns that are numbers in the source only."""
    found: dict[str, str] = {}
    notes = []
    for name in readings.numbers:
        dates = name in readings.dates
        if theirs[name].numeric or (dates and _is_date(theirs[name])):
            continue
        listed = work.engine.query(distinct_labels(released, name, MOST_LABELS))
        labels = [str(label) for (label,) in listed if label is not None]
        if len(labels) > MOST_LABELS:
            raise PolicyError(
                f"'{name}' has more than {MOST_LABELS:,} different labels in the release",
                hint="read it as categories: --categories",
            )
        read = {label: number_of(label, dates=dates) for label in labels}
        odd = [label for label, number in read.items() if number is None and label != "*"]
        if odd:
            notes.append(f"{len(odd):,} labels of '{name}' are read as hidden: they are no numbers and no intervals")
        rows = tuple((label, repr(number)) for label, number in read.items() if number is not None)
        found[name] = work.prelude.load("readings", (name,), ("label", "number"), rows or ((NULL_NODE, "0"),))
    work.run()
    return found, notes

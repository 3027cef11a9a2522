"""Persons as sets of items: how many there are, and how many persons have how many items, before and after."""

from __future__ import annotations

from typing import Any

from sqlanon.evidence.json_values import items as listed
from sqlanon.evidence.json_values import quantity
from sqlanon.evidence.release_evidence import ReleaseEvidence
from sqlanon.report.markup import together
from sqlanon.report.plots.bars import distribution, label_room
from sqlanon.report.sections.parts import ReportColumn, Section, paragraph, section, table
from sqlanon.report.wording import count

LINES = (
    ("Persons", "persons", "released_persons"),
    ("Items of persons", "rows", "released_rows"),
    ("Different items, and labels that stand for them", "different", "labels"),
)


def item_sets(document: ReleaseEvidence) -> Section | None:
    found = document.items
    if found is None:
        return None
    rows = []
    for name, before, after in LINES:
        pair = [quantity(found.get(key)) for key in (before, after)]
        rows.append([name, *("–" if number is None else count(number) for number in pair)])
    gone = quantity(found.get("suppressed_items")) or 0
    lost = quantity(found.get("suppressed_rows")) or 0
    said = "Each person is shown as a set of labels under a fresh random number. "
    said += f"{count(gone)} items were left out, which cost {count(lost)} rows." if gone else "No item was left out."
    columns = [ReportColumn(""), ReportColumn("Before", True), ReportColumn("After", True)]
    plots = []
    for side, title in (
        ("before", "Persons by number of items, before"),
        ("after", "Persons by number of labels, after"),
    ):
        sizes = _sizes(found.get(f"sizes_{side}"))
        if sizes:
            plots.append(distribution(title, sizes, side, label_room([name for name, _ in sizes])))
    return section(
        "item-sets",
        "Sets of items",
        paragraph(said),
        table("Persons and items before and after", columns, rows),
        together(*plots),
    )


def _sizes(raw: Any) -> list[tuple[str, int]]:
    """Pairs of a size and the persons who have it; what cannot be read is left out."""
    found = []
    for pair in listed(raw):
        numbers = [quantity(each) for each in listed(pair)]
        if len(numbers) == 2 and numbers[0] is not None and numbers[1] is not None:
            found.append((str(numbers[0]), numbers[1]))
    return found

"""Persons as sets of items: how many there are, and how many persons have how many items, before and after."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlanon.evidence.json_values import items as listed
from sqlanon.evidence.json_values import number, quantity
from sqlanon.evidence.release_evidence import ReleaseEvidence
from sqlanon.report.markup import Html, element
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
    if (groups := quantity(found.get("groups"))) and quantity(found.get("private_items")):
        said += f"Private items are counted in {count(groups)} groups of persons, in a table of their own. "
    if quantity(found.get("parts")):
        said += f"Each part of like persons has labels of its own; {count(lost)} rows were left out."
    else:
        said += (
            f"{count(gone)} items were left out, which cost {count(lost)} rows." if gone else "No item was left out."
        )
    columns = [ReportColumn(""), ReportColumn("Before", True), ReportColumn("After", True)]
    plots = [
        *_plots(
            "Persons by number of items or labels", _sizes(found.get("sizes_before")), _sizes(found.get("sizes_after"))
        ),
        *_plots("Persons with an item or label, the most frequent first", *_supports(found)),
    ]
    return section(
        "item-sets",
        "Sets of items",
        paragraph(said),
        table("Persons and items before and after", columns, rows),
        *plots,
        *_lost(found),
    )


def _lost(found: Mapping[str, Any]) -> list[Html]:
    """What became of frequent itemsets, where that was measured."""
    number_of, kept = quantity(found.get("frequent_itemsets")), quantity(found.get("frequent_itemsets_kept"))
    if not number_of or kept is None:
        return []
    said = f"Of the {count(number_of)} most frequent sets of two items and more, {count(kept)} are among the most "
    said += f"frequent ones of the release (tKd {1 - kept / number_of:.3g})."
    error = number(found.get("relative_error"))
    if error is not None:
        said += f" The number of persons with two items is off by {error:.3g} on average, as a share of it (re)."
    return [paragraph(said)]


def _plots(title: str, *sides: list[tuple[str, int]]) -> list[Html]:
    """The same picture before and after, one beside the other."""
    drawn = []
    for rows, when in zip(sides, ("before", "after"), strict=True):
        if rows:
            told = f"{title}, {when}"
            plot = distribution(told, rows, when, label_room([name for name, _ in rows]))
            drawn.append(element("figure", element("figcaption", told), plot))
    return [element("div", *drawn, class_="pair")] if drawn else []


def _supports(found: Mapping[str, Any]) -> tuple[list[tuple[str, int]], list[tuple[str, int]]]:
    """How many persons have the most frequent item, the second, and so on."""
    sides = []
    for key in ("supports_before", "supports_after"):
        read = [quantity(each) for each in listed(found.get(key))]
        sides.append([(str(place), each) for place, each in enumerate(read, start=1) if each is not None])
    return sides[0], sides[1]


def _sizes(raw: Any) -> list[tuple[str, int]]:
    """Pairs of a size and the persons who have it; what cannot be read is left out."""
    found = []
    for pair in listed(raw):
        numbers = [quantity(each) for each in listed(pair)]
        if len(numbers) == 2 and numbers[0] is not None and numbers[1] is not None:
            found.append((str(numbers[0]), numbers[1]))
    return found

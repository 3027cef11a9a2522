"""Journeys: what their release cost, how the attack by the nearest path went, and how they run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlanon.evidence.json_values import items, mapping, number, text, whole
from sqlanon.evidence.release_evidence import ReleaseEvidence
from sqlanon.report.markup import Html
from sqlanon.report.plots.journeys import draw_journeys
from sqlanon.report.sections.parts import ReportColumn, Section, paragraph, section, strong, table

COUNTS = (
    ("persons", "persons in the source"),
    ("suppressed_persons", "of them not published"),
    ("visits", "visits in the source, on the levels of the release"),
    ("suppressed_visits", "of them suppressed"),
    ("doublets", "different doublets, a place at a time"),
    ("suppressed_doublets", "of them suppressed everywhere"),
    ("minimal_violating_sequences", "minimal violating sequences in the source"),
    ("frequent_sequences", "frequent sequences in the source"),
    ("frequent_sequences_kept", "of them still in the release"),
    ("groups", "groups of journeys that are drawn together"),
    ("positions", "positions on the grid of time"),
    ("suppressed_positions", "of them left out"),
)
DISTANCES = (
    ("moved", "moved in all"),
    ("farthest_moved", "moved at most"),
    ("distortion", "distortion: a position that is left out counts as the largest move"),
    ("range_error", "error of counts in boxes and intervals, as a share of the counts"),
    ("density_error", "error of the density, as a share of the counts"),
)


def journeys(document: ReleaseEvidence) -> Section | None:
    found = document.journeys
    if not found:
        return None
    lines = [(f"{value:,}", said) for key, said in COUNTS if (value := whole(found.get(key))) is not None]
    lines += [(f"{size:.4g}", said) for key, said in DISTANCES if (size := number(found.get(key))) is not None]
    columns = [ReportColumn("What"), ReportColumn("How much", numeric=True)]
    counts = table("What the release keeps, and what it cost", columns, [(said, shown) for shown, said in lines])
    warning = _warning(found)
    more = [warning] if warning is not None else []
    return section("journeys", "Journeys", counts, *more, *_plot(mapping(found.get("flows"))))


def _warning(found: Mapping[str, Any]) -> Html | None:
    """(k,δ)-anonymity is often taken for k-anonymity."""
    attack = mapping(found.get("nearest_path"))
    targets, right = whole(attack.get("targets")), whole(attack.get("found"))
    if not targets or right is None:
        return None
    return paragraph(
        strong(f"The nearest published journey is the right one for {right:,} of {targets:,} persons. "),
        "Journeys that are drawn together are at most delta apart; with delta above 0 this is not k-anonymity.",
    )


def _plot(flows: Mapping[str, Any]) -> list[Html]:
    places = [text(place) for place in items(flows.get("places"))]
    visits = [_row(item, 3) for item in items(flows.get("visits"))]
    moves = [_row(item, 5) for item in items(flows.get("moves"))]
    if not places or not visits or None in visits or None in moves:
        return []
    drawn = draw_journeys(places, [text(label) for label in items(flows.get("times"))], visits, moves)  # type: ignore[arg-type]
    said = "Dots are visits, lines are moves from one visit to the next. Both are counted in the release alone."
    return [drawn, paragraph(said, class_="small")]


def _row(item: Any, length: int) -> tuple[Any, ...] | None:
    """A row of numbers and places, if it is one; the evidence may come from anywhere."""
    parts = items(item)
    if len(parts) != length:
        return None
    read = [text(part) if place in (1, 3) else whole(part) for place, part in enumerate(parts)]
    fits = all(isinstance(part, str) or (part is not None and part > 0) for part in read)
    return tuple(read) if fits else None

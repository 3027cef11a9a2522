"""Why this release and no other: the map of what privacy costs, the candidates next to it, and the plan."""

from __future__ import annotations

import json
from collections.abc import Mapping

from sqlanon.evidence.json_values import text
from sqlanon.evidence.release_evidence import MapPoint, MeasuredNode, ReleaseEvidence
from sqlanon.report.markup import Content, Html, element
from sqlanon.report.plots.tradeoff import lines
from sqlanon.report.sections.parts import (
    ReportColumn,
    Section,
    beside,
    code,
    details,
    listing,
    name,
    paragraph,
    section,
    small,
    status,
    strong,
    table,
)
from sqlanon.report.sections.utility import loss_words
from sqlanon.report.wording import NOTHING, compact, count, list_names, plural, share

MOST_CANDIDATES = 40
STEPS = 7  # of the colours of the heat map


def _heat(points: Mapping[tuple[float, int], MapPoint], minimize: str) -> Html:
    """A table that is a heat map: the colour follows the loss, the cell says it."""
    limits, ks = sorted({limit for limit, _ in points}), sorted({k for _, k in points})
    known = [point.loss for point in points.values() if point.loss is not None]
    low, high = min(known, default=0.0), max(known, default=0.0)
    head = [element("th", "limit", scope="col")]
    head += [element("th", element("span", "k = ", class_="unseen"), count(k), scope="col") for k in ks]
    body = []
    for limit in limits:
        cells = [_heat_cell(points.get((limit, k)), low, high, minimize) for k in ks]
        body.append(element("tr", element("th", share(limit), scope="row"), *cells))
    caption = "Loss by limit (down) and k (across), with the rows suppressed below it; the release is outlined"
    made = element(
        "table", element("caption", caption), element("thead", element("tr", *head)), element("tbody", *body),
        class_="heat",
    )  # fmt: skip
    return element("div", made, class_="scroll")


def _heat_cell(point: MapPoint | None, low: float, high: float, minimize: str) -> Html:
    if point is None or point.loss is None:
        return element("td", NOTHING, title="no solution" if point else "not found in the time given")
    step = round((point.loss - low) / (high - low) * (STEPS - 1)) if high > low else 0
    rows = small(compact(point.suppressed)) if point.suppressed is not None else None
    chosen = element("span", " (this release)", class_="unseen") if point.chosen else None
    class_ = f"h{step}{' chosen' if point.chosen else ''}"
    return element("td", _axis(minimize, point.loss), rows, chosen, class_=class_)


def tradeoff(document: ReleaseEvidence) -> Section | None:
    given = [(point.limit, point.k, point) for point in document.map or ()]
    points = {(limit, k): point for limit, k, point in given if limit is not None and k is not None}
    series: dict[float, dict[int, float]] = {}
    for (limit, k), point in sorted(points.items()):
        if point.loss is not None:
            series.setdefault(limit, {})[k] = point.loss
    if not series:
        return None
    minimize = document.minimize or "ncp"
    chosen = next((place for place, point in points.items() if point.chosen), None)
    ring = " The ring marks this release." if chosen else ""
    plot = lines(series, chosen, lambda loss: _axis(minimize, loss), f"loss ({minimize[:24]})")
    return section(
        "map",
        "What more privacy would cost",
        paragraph("The best loss that was found for each required class size k, if no more than the given share of the "
                  f"rows may be suppressed.{ring}"),
        beside(plot, _heat(points, minimize)),
    )  # fmt: skip


def _axis(minimize: str, loss: float) -> str:
    return loss_words(minimize, loss) if loss_words(minimize, 0.5).endswith("%") else compact(loss)


def _changes(candidate: MeasuredNode, chosen: Mapping[str, int]) -> list[tuple[str, int, int]]:
    """Attributes whose level differs: (name, level of the release, level of the candidate)."""
    both = [(key, chosen[key], level) for key, level in candidate.levels.items() if key in chosen]
    return [(key, ours, theirs) for key, ours, theirs in both if ours != theirs]


def _difference(candidate: MeasuredNode, chosen: Mapping[str, int]) -> Content:
    changes = _changes(candidate, chosen)
    told: list[Content] = []
    for key, ours, theirs in changes:
        way = "finer" if theirs < ours else "coarser"
        told.append(element("span", name(key, 28), f" {way}: level {theirs}, not {ours}", class_="line"))
    if not told and chosen:
        return "the same levels"
    every = ", ".join(f"{key} {level}" for key, level in candidate.levels.items())
    return told or name(every, 120)


def _why_not(candidate: MeasuredNode, document: ReleaseEvidence, ours: float | None) -> str:
    allowed = document.allowed
    if candidate.holds is False:
        if allowed is not None and candidate.suppressed is not None and candidate.suppressed > allowed:
            return f"{plural(candidate.suppressed, 'row')} would have to be suppressed; {count(allowed)} are allowed"
        return "a requirement would be broken"
    if candidate.loss is None or ours is None:
        return ""
    if candidate.loss == ours:
        return "as good"
    return "loses more" if candidate.loss > ours else "would lose less"


def _candidate_loss(candidate: MeasuredNode, minimize: str) -> str:
    """Of a candidate that fails, a search often knows only what it would lose if no row had to be suppressed."""
    words = loss_words(minimize, candidate.loss)
    return words if candidate.loss is None or candidate.holds is not False else f"at least {words}"


def candidates(document: ReleaseEvidence) -> Section | None:
    levels_ = document.levels
    # The release itself is among what was measured, and is the first line of the table.
    found = [item for item in document.candidates if not levels_ or item.levels != levels_]
    if not found:
        return None
    ours = document.loss.get(document.minimize) if document.minimize else None
    minimize = document.minimize or "ncp"
    columns = [
        ReportColumn("Candidate"), ReportColumn("Loss", True), ReportColumn("Rows suppressed", True),
        ReportColumn("Requirements"), ReportColumn("Why not"),
    ]  # fmt: skip
    rows: list[list[Content]] = []
    if ours is not None and document.levels:
        levels = list_names([f"{key} {level}" for key, level in document.levels.items()], most=12)
        mine: list[Content] = [element("span", "This release", class_="title"), small(element("bdi", levels))]
        rows.append([mine, strong(loss_words(minimize, ours)), count(document.suppressed),
                     status(document.verdict, "met", "not met"), NOTHING])  # fmt: skip
    marked = 0 if rows else None
    for candidate in found[:MOST_CANDIDATES]:
        rows.append([
            _difference(candidate, document.levels), _candidate_loss(candidate, minimize), count(candidate.suppressed),
            status(candidate.holds, "met", "not met"), _why_not(candidate, document, ours) or NOTHING,
        ])  # fmt: skip
    left = len(found) - MOST_CANDIDATES
    more = f"; {plural(left, 'more candidate')} not shown" if left > 0 else ""
    return section(
        "candidates",
        "Why these levels",
        paragraph("The candidates next to the release, and why each was passed over. Finer levels keep more detail, "
                  "and leave smaller classes."),
        table(f"Candidates compared with the release{more}", columns, rows, stacked=True, marked=marked),
    )  # fmt: skip


def plan(document: ReleaseEvidence) -> Section | None:
    given = document.plan
    if not given:
        return None
    told: list[Content] = []
    if algorithm := text(given.get("algorithm")):
        told.append(paragraph("Found by ", code(algorithm), _proof(given.get("proven"))))
    if why := text(given.get("why")):
        told.append(paragraph(element("bdi", why)))
    if document.levels and not document.attributes:
        rows: list[list[Content]] = [[name(key), count(level)] for key, level in document.levels.items()]
        told.append(
            table(
                "Levels of generalization", [ReportColumn("Attribute"), ReportColumn("Level", True)], rows, narrow=True
            )
        )
    written = json.dumps(given, indent=2, ensure_ascii=False, default=str)
    return section("plan", "The plan", *told, details("The plan as data (JSON)", listing(written)))


def _proof(proven: object) -> str:
    if proven is True:
        return ". It is proven that no candidate loses less."
    return ". It is the best that was found; a better one may exist." if proven is False else "."

"""The verdict of each regulation: what was tested, what was measured, and who set the threshold."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlanon.evidence.json_values import items, mapping, text
from sqlanon.evidence.release_evidence import ReleaseEvidence
from sqlanon.report.markup import Content, Html, element
from sqlanon.report.sections.parts import (
    ReportColumn,
    Section,
    details,
    paragraph,
    section,
    small,
    status,
    table,
)
from sqlanon.report.wording import shorten

MOST = 400  # characters of a text that anybody may have changed
ORIGINS = {"law": "set by law", "guidance": "set by guidance", "our default": "our default"}
COLUMNS = (ReportColumn("Criterion"), ReportColumn("Verdict"), ReportColumn("Measured"), ReportColumn("Threshold"))


def regulations(document: ReleaseEvidence) -> Section | None:
    """A table of all regulations, and for each one the criteria below it, folded."""
    found = [item for item in document.verdicts or () if text(item.get("title")) and _criteria(item)]
    if not found:
        return None
    rows = [_summary(item) for item in found]
    heads = [ReportColumn("Regulation"), *(ReportColumn(title, True) for title in ("Met", "Not met", "Not assessed"))]
    return section(
        "regulations",
        "By regulation",
        paragraph(
            "Each criterion is a test that was measured on the release as written. Its threshold is set by law or by "
            "guidance, or is a default of sqlanon. Criteria that a tool cannot measure, or for which the evidence is "
            "missing, are not assessed. None of this says that the data are anonymous: that is for those who answer "
            "for the release."
        ),
        table("Criteria by regulation", heads, rows, stacked=True),
        *(_details(item) for item in found),
    )


def _criteria(raw: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [item for each in items(raw.get("criteria")) if text((item := mapping(each)).get("title"))]


def _state(raw: Mapping[str, Any]) -> bool | None:
    """What is neither clearly met nor clearly not met is not assessed."""
    return {"met": True, "not met": False}.get(text(raw.get("state")))


def _summary(raw: Mapping[str, Any]) -> list[Content]:
    states = [_state(item) for item in _criteria(raw)]
    return [_text(raw, "title"), *(str(states.count(state)) for state in (True, False, None))]


def _details(raw: Mapping[str, Any]) -> Html:
    rows = [_row(item) for item in _criteria(raw)]
    title = _text(raw, "title")
    note = paragraph(_text(raw, "note")) if text(raw.get("note")) else None
    return details([title, ": all criteria"], note, table([title], COLUMNS, rows, stacked=True))


def _row(raw: Mapping[str, Any]) -> list[Content]:
    state = _state(raw)
    shown = (
        element("span", "? not assessed", class_="status unknown") if state is None else status(state, "met", "not met")
    )
    origin = ORIGINS.get(text(raw.get("origin")), "not known who set it")
    return [
        [element("span", _text(raw, "title"), class_="title"), small(_text(raw, "cite"))],
        shown,
        [_text(raw, "measured"), small(_text(raw, "test"))],
        [_text(raw, "threshold"), small(origin)],
    ]


def _text(raw: Mapping[str, Any], key: str) -> Html:
    """A text isolated, since the name of a column in it may run from right to left."""
    return element("bdi", shorten(text(raw.get(key)), MOST))

"""How many rows were left out, and whose."""

from __future__ import annotations

from dataclasses import dataclass

from sqlanon.evidence.json_values import mapping, quantity, ratio
from sqlanon.evidence.release_evidence import ReleaseEvidence
from sqlanon.report.markup import Content, Html, element
from sqlanon.report.sections.parts import (
    ReportColumn,
    Section,
    meter,
    name,
    paragraph,
    section,
    strong,
    table,
)
from sqlanon.report.wording import count, list_names, model_title, plural, share

MOST_LINES = 12


@dataclass(frozen=True)
class LeftOut:
    """The rows of a value, and how many of them were suppressed."""

    column: str
    label: str | None
    records: int
    gone: int

    @property
    def share(self) -> float:
        return ratio(self.gone, self.records)


def shown_label(label: str | None) -> str:
    """A value as it is shown: NULL and empty text can be seen."""
    return "∅ NULL" if label is None else label or "(empty)"


def left_out(document: ReleaseEvidence) -> list[LeftOut]:
    """Of which values rows were suppressed, the most affected first."""
    found = []
    for column, item in (document.distributions or {}).items():
        records = dict(item.before or ())
        for label, gone in item.suppressed or ():
            if gone and records.get(label):
                found.append(LeftOut(column, label, records[label], gone))
    return sorted(found, key=lambda line: (-line.share, -line.gone, line.column, line.label or ""))


def suppression(document: ReleaseEvidence) -> Section | None:
    if document.suppressed is None:
        return None
    said = _persons_words(document)
    persons = paragraph(said) if said is not None else None
    parts = (paragraph(_suppressed_words(document)), persons, _limit(document), _by_value(document))
    return section("suppressed", "Who was left out", *parts)


def _persons_words(document: ReleaseEvidence) -> list[Content] | None:
    """The persons of a release whose classes are persons with the same rows."""
    found = mapping(document.more.get("entities"))
    persons, gone = quantity(found.get("persons")), quantity(found.get("suppressed_persons"))
    if persons is None or gone is None:
        return None
    shown = f"{count(persons - gone)} of {plural(persons, 'person')} are in the release"
    return [f"{shown}; of the others, all rows are suppressed. Classes are persons with the same rows."]


def _suppressed_words(document: ReleaseEvidence) -> list[Content]:
    number = document.suppressed or 0
    if not number:
        return ["No row was suppressed: every row is in the release."]
    of = f" of {plural(document.records, 'row')} ({share(ratio(number, document.records))})" if document.records else ""
    if "clusters" in mapping(document.more.get("entities")):
        return [
            strong(f"{count(number)}{of}" if of else plural(number, "row")),
            " were left out: they found no partner among the rows of the persons that are shown alike.",
        ]
    names = list(dict.fromkeys(model_title(check.model) for check in document.checks or ()))
    why = f" ({list_names(names)})" if names else ""
    were = "was" if number == 1 else "were"
    return [
        strong(f"{count(number)}{of}" if of else plural(number, "row")),
        f" {were} left out: with the chosen levels their classes would have broken a requirement{why}. The way to keep "
        "them is to make all other rows coarser as well.",
    ]


def _limit(document: ReleaseEvidence) -> Html | None:
    if document.suppression_limit is None:
        return None
    words: list[Content] = [f"The policy allows {share(document.suppression_limit)}"]
    if document.allowed is not None:
        words.append(f", which is {plural(document.allowed, 'row')}")
        if document.allowed and document.suppressed is not None:
            used = ratio(document.suppressed, document.allowed)
            words.append(f"; {share(used)} of that was used")
    return paragraph(words, ".")


def _by_value(document: ReleaseEvidence) -> Content:
    if not document.suppressed:
        return None
    found = left_out(document)
    if not found:
        rare = any(item.suppressed is not None for item in (document.distributions or {}).values())
        told = "They have rare values, which are not named here."
        return paragraph(told if rare else "Of which values they are was not measured for this release.")
    columns = [
        ReportColumn("Value"), ReportColumn("Rows in the source", True), ReportColumn("Left out", True),
        ReportColumn("Share left out"),
    ]  # fmt: skip
    rows: list[list[Content]] = []
    for line in found[:MOST_LINES]:
        gone = "no row is left" if line.gone == line.records else share(line.share)
        bar = element("span", meter(line.share, 1.0, "before"), gone, class_="metered")
        title = element("span", name(line.column), ": ", name(shown_label(line.label)), class_="title")
        rows.append([title, count(line.records), count(line.gone), bar])
    rest = len(found) - len(rows)
    more = f"; {plural(rest, 'value')} of which fewer were left out not shown" if rest else ""
    return table(f"By value, the most affected first{more}", columns, rows, stacked=True)

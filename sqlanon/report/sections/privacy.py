"""What was required and measured, which risks remain, and what nobody promised."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import Any

from sqlanon.evidence.json_values import items, text
from sqlanon.evidence.release_evidence import ModelEvidence, ReleaseEvidence, SizeBin
from sqlanon.report.markup import Content, element
from sqlanon.report.plots.bullet import bullet
from sqlanon.report.plots.class_sizes import SizeBand, pyramid
from sqlanon.report.sections.parts import (
    ReportColumn,
    Section,
    beside,
    bullets,
    name,
    paragraph,
    section,
    small,
    status,
    strong,
    table,
)
from sqlanon.report.wording import (
    NOTHING,
    count,
    distinguish,
    first_sentence,
    list_names,
    measure,
    model_title,
    odds,
    plural,
    share,
    shorten,
)


def _asked(params: Mapping[str, Any]) -> str:
    return ", ".join(
        f"{key} = {_brief(value)}" for key, value in params.items() if value is not None and not isinstance(value, dict)
    )


def _brief(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return measure(value) if isinstance(value, float) else count(value)
    if isinstance(value, list | tuple):
        return list_names([shorten(str(item), 24) for item in value], most=4)
    return shorten(str(value), 40)


def _requirement(check: ModelEvidence) -> list[Content]:
    of: list[Content] = [" of ", name(check.attribute)] if check.attribute else []
    lines: list[Content] = [element("span", model_title(check.model), of, class_="title")]
    asked = _asked(check.params)
    against = f"known to an attacker: {list_names([shorten(item, 32) for item in check.qid])}" if check.qid else ""
    for line in (asked, against, first_sentence(check.summary)):
        if line:
            lines.append(small(element("bdi", shorten(line, 400))))
    return lines


def _margin(check: ModelEvidence) -> Content:
    if check.margin is None or check.measured is None or check.required is None or not isfinite(check.margin):
        return NOTHING
    words = "none to spare" if check.margin == 0 else ("+" if check.margin > 0 else "−") + measure(abs(check.margin), 3)
    part = None
    if check.margin and check.required > 0:
        part = small(f"{share(abs(check.margin) / check.required)} of the limit")
    drawn = bullet(check.measured, check.required, at_least=check.worse_when_smaller, holds=check.holds)
    return [words, part, drawn]


def _result(check: ModelEvidence) -> Content:
    told: list[Content] = [status(check.holds)]
    if check.broken_classes:
        of = f" of {count(check.classes)}" if check.classes is not None else ""
        rows = f", {plural(check.broken_records, 'row')}" if check.broken_records else ""
        told.append(small(f"{count(check.broken_classes)}{of} classes{rows}"))
    elif check.classes is not None:
        told.append(small(plural(check.classes, "class")))
    return told


def requirements(document: ReleaseEvidence) -> Section | None:
    if not document.checks:
        return None
    columns = [
        ReportColumn("Requirement"), ReportColumn("Required", True), ReportColumn("Measured", True),
        ReportColumn("Margin", True), ReportColumn("Result"),
    ]  # fmt: skip
    rows: list[list[Content]] = []
    for check in document.checks or ():
        measured, required = distinguish(check.measured, check.required)
        bound = "at least " if check.worse_when_smaller else "at most "
        wanted = bound + required if check.required is not None else NOTHING
        found = strong(measured) if check.measured is not None else "no row to measure"
        rows.append([_requirement(check), wanted, found, _margin(check), _result(check)])
    return section(
        "requirements",
        "Privacy requirements",
        paragraph("A class is a group of rows that look alike to an attacker. Each requirement is measured on every "
                  "class of the release as it was written; the worst class counts."),
        table("What the policy requires, and what was measured", columns, rows, stacked=True),
    )  # fmt: skip


def linked_rows(document: ReleaseEvidence) -> Section | None:
    """What whole sets of rows tell, where the release links the rows of a person."""
    found = document.linked_rows or {}
    if not found:
        return None
    problems = [shorten(text(line), 300) for line in items(found.get("problems"))]
    accepted = "The policy accepts this (linked_rows: accept): the requirements hold for single rows only."
    return section(
        "linked-rows",
        "Several rows of a person",
        paragraph(element("bdi", shorten(text(found.get("said")), 400)), "."),
        paragraph(strong(shorten(text(found.get("uniqueness")), 300)), "."),
        bullets(problems, "wrong") if problems else paragraph("Every requirement holds for whole sets of rows."),
        paragraph(accepted) if problems and found.get("accepted") is True else None,
    )


def risks(document: ReleaseEvidence) -> Section | None:
    before, after = document.chances.before, document.chances.after
    if not before and not after:
        return None
    shown = [
        ("Highest risk", "the chance of finding the right row for the person who stands out most", "highest"),
        ("Average risk", "the same chance, averaged over all rows", "average"),
        ("Unique rows", "rows that nobody else shares", "uniques"),
    ]
    rows: list[list[Content]] = []
    for title, meaning, key in shown:
        values = [getattr(side, key) if side else None for side in (before, after)]
        if values != [None, None]:
            cells = [_risk_cell(value, whole=key == "uniques") for value in values]
            rows.append([[element("span", title, class_="title"), small(meaning)], *cells])
    columns = [ReportColumn("Risk"), ReportColumn("Before", True), ReportColumn("After", True)]
    return section(
        "risks",
        "Risk of being recognized",
        paragraph("For an attacker who knows that a person is in the data, and knows all quasi-identifiers of that "
                  "person (the prosecutor model). Suppressed rows do not count after the release. Where a person may "
                  "have several rows, persons are counted, and where these are linked, by their whole set of rows."),
        table("Prosecutor risk before and after", columns, rows, narrow=True),
    )  # fmt: skip


def _risk_cell(value: Any, *, whole: bool) -> Content:
    if value is None:
        return NOTHING
    if whole:
        return strong(count(value))
    chance = odds(value)
    return [strong(share(value)), small(chance) if chance else None]


def _sizes(document: ReleaseEvidence) -> list[SizeBand]:
    k = document.smallest_class
    required = k.required if k and k.required is not None else 0
    before = {(item.smallest, item.largest): item for item in document.sizes.before or ()}
    after = {(item.smallest, item.largest): item for item in document.sizes.after or ()}

    def side(found: dict[tuple[int, int], SizeBin], edges: tuple[int, int]) -> tuple[int, int] | None:
        item = found.get(edges)
        return (item.records, item.classes) if item else (0, 0) if found else None

    return [
        SizeBand(*edges, side(before, edges), side(after, edges), too_small=edges[1] < required)
        for edges in sorted(before.keys() | after.keys())
    ]


def class_sizes(document: ReleaseEvidence) -> Section | None:
    sizes = _sizes(document)
    if not sizes:
        return None
    k = document.smallest_class
    required = measure(k.required) if k and k.required is not None else None
    sides = [side for side in ("before", "after") if getattr(sizes[0], side) is not None]
    columns = [ReportColumn("Class size")]
    columns += [ReportColumn(f"{what} {side}", True) for side in sides for what in ("Classes", "Rows")]
    rows: list[list[Content]] = []
    for row in sizes:
        pairs = [getattr(row, side) for side in sides]
        rows.append(
            [
                element("span", row.label, title=row.name, class_="whole"),
                *(count(number) for pair in pairs for number in reversed(pair)),
            ]
        )
    tinted = f" Sizes below the required {required} are tinted." if any(row.too_small for row in sizes) else ""
    return section(
        "class-sizes",
        "Class sizes",
        paragraph(
            f"How many rows are in classes of which size: the larger the class, the better its rows hide.{tinted}"
        ),
        beside(pyramid(sizes, required), table("Classes and rows by class size", columns, rows)),
    )


def not_protected(document: ReleaseEvidence) -> Section | None:
    if not document.not_protected:
        return None
    return section(
        "not-protected",
        "What is not protected",
        paragraph("The requirements above promise nothing about the following."),
        bullets(document.not_protected, "wrong"),
    )

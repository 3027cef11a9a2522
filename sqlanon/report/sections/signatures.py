"""Who answers for the release: lines to be signed on paper, or filled in where the report is filed."""

from __future__ import annotations

from sqlanon.evidence.release_evidence import ReleaseEvidence
from sqlanon.report.markup import Content, element
from sqlanon.report.sections.parts import ReportColumn, Section, code, paragraph, section, table
from sqlanon.report.wording import moment

ROLES = (
    ("Prepared by", "who wrote the policy and published"),
    ("Reviewed by", "data protection"),
    ("Approved by", "who answers for the release"),
)


def signatures(document: ReleaseEvidence) -> Section:
    columns = [ReportColumn(title) for title in ("Role", "Name and function", "Decision", "Date and signature")]
    line = element("span", class_="line-to-fill")
    rows: list[list[Content]] = [
        [[element("span", role, class_="title"), element("span", who, class_="small")], line,
         "☐ release  ☐ do not release" if role != ROLES[0][0] else line, line]
        for role, who in ROLES
    ]  # fmt: skip
    plan: list[Content] = [", plan ", code(document.plan_hash[:16])] if document.plan_hash else []
    return section(
        "signatures",
        "Signatures",
        paragraph("This report is about ", code(document.name), f", made on {moment(document.created)}", plan,
                  ". A new version of the release needs a new report."),
        table("To be filled in", columns, rows, stacked=True),
    )  # fmt: skip

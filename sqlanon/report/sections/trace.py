"""How to repeat and verify it: policy, SQL, versions and hashes."""

from __future__ import annotations

from sqlanon.evidence.json_values import text
from sqlanon.evidence.release_evidence import ReleaseEvidence
from sqlanon.report.markup import Content, element
from sqlanon.report.sections.parts import ReportColumn, Section, code, details, listing, name, paragraph, section, table
from sqlanon.report.wording import count, moment


def policy(document: ReleaseEvidence) -> Section | None:
    given = document.policy
    if given is None or not given.text:
        return None
    return section(
        "policy",
        "The policy",
        paragraph("What the owner of the data asked for, as it was when the release was made."),
        details(name(given.name or "the policy"), listing(given.text)),
    )


def sql(document: ReleaseEvidence) -> Section | None:
    written = document.sql
    if not written.strip():
        return None
    lines = count(len(written.splitlines()))
    return section(
        "sql",
        "The SQL",
        paragraph("The statements that made the release, as the database ran them."),
        details(f"{lines} lines of SQL", listing(written)),
    )


def versions(document: ReleaseEvidence) -> Section:
    given = document.policy
    hashes = {"policy": given.hash if given is not None else "", "plan": document.plan_hash}
    rows: list[list[Content]] = [
        ["Made", moment(document.created)],
        ["Release", name(document.name)],
        ["Source", name(document.source)],
    ]
    rows += [["Policy", name(given.name)]] if given is not None and given.name else []
    rows += [
        [f"Hash of the {what}", element("code", element("bdi", found), class_="hash")]
        for what, found in hashes.items()
        if found
    ]
    rows.append(["sqlanon", code(document.sqlanon)])
    rows += [[name(text(key)), code(text(version))] for key, version in document.versions.items()]
    columns = [ReportColumn("What"), ReportColumn("Value")]
    return section(
        "versions", "Versions and hashes", table("To repeat and verify this release", columns, rows, narrow=True)
    )

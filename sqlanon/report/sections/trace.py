"""How to repeat and verify it: policy, SQL, versions and hashes."""

from __future__ import annotations

from sqlanon.report.document import Document, mapping, text
from sqlanon.report.markup import Content, element
from sqlanon.report.sections.parts import ReportColumn, Section, code, details, listing, name, paragraph, section, table
from sqlanon.report.wording import count, moment


def policy(document: Document) -> Section | None:
    given = mapping(document.raw.get("policy"))
    written = text(given.get("text"))
    if not written:
        return None
    called = text(given.get("name")) or "the policy"
    return section(
        "policy",
        "The policy",
        paragraph("What the owner of the data asked for, as it was when the release was made."),
        details(name(called), listing(written)),
    )


def sql(document: Document) -> Section | None:
    written = text(document.raw.get("sql"))
    if not written.strip():
        return None
    lines = count(len(written.splitlines()))
    return section(
        "sql",
        "The SQL",
        paragraph("The statements that made the release, as the database ran them."),
        details(f"{lines} lines of SQL", listing(written)),
    )


def versions(document: Document) -> Section:
    given = mapping(document.raw.get("policy"))
    hashes = {"policy": text(given.get("hash")), "plan": text(document.raw.get("plan_hash"))}
    rows: list[list[Content]] = [
        ["Made", moment(document.created)],
        ["Release", name(document.name)],
        ["Source", name(document.source)],
    ]
    rows += [["Policy", name(text(given.get("name")))]] if given.get("name") else []
    rows += [
        [f"Hash of the {what}", element("code", element("bdi", found), class_="hash")]
        for what, found in hashes.items()
        if found
    ]
    rows.append(["sqlanon", code(document.version)])
    rows += [[name(text(key)), code(text(version))] for key, version in mapping(document.raw.get("versions")).items()]
    columns = [ReportColumn("What"), ReportColumn("Value")]
    return section(
        "versions", "Versions and hashes", table("To repeat and verify this release", columns, rows, narrow=True)
    )

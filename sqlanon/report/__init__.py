"""The report of a release: one HTML file that a data-protection officer can read, print and file.

`render(document)` turns the JSON document that a release writes into a page that stands alone: no script, no font,
image or link from elsewhere, and a content-security policy that forbids them. It holds summaries only: counts, labels
with their counts as the document lists them, and measurements; never a row.

    document -> ReleaseEvidence.from_json (types, at the door) -> sections (what is said) -> page (one file)

`markup` escapes, `wording` writes numbers for people, `plots` are pure functions that return SVG. A section for which
the document has nothing does not appear. The verdict fails closed: a document that says that it holds beside a broken
requirement or a breach does not hold.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlanon.errors import SqlanonError
from sqlanon.evidence.release_evidence import ReleaseEvidence
from sqlanon.report.page import page
from sqlanon.report.sections import sections

REQUIRED = ("sqlanon", "created", "release", "source")


def render(document: Mapping[str, Any]) -> str:
    """The report as the text of an HTML file, to be written in UTF-8.

    >>> text = render({"sqlanon": "0.2.0", "created": "2026-11-16T05:00:00Z", "source": "patients",
    ...                "release": {"kind": "table", "name": "patients_released"}, "records": 10, "released": 9,
    ...                "holds": True})
    >>> "9 of 10 rows" in text and "<script" not in text
    True
    """
    if missing := [name for name in REQUIRED if document.get(name) is None]:
        raise SqlanonError(
            f"the document of the report lacks {', '.join(missing)}",
            hint="a report is made from the document that a release writes",
        )
    evidence = ReleaseEvidence.from_json(document)
    return page(evidence, sections(evidence))

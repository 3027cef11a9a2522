"""The section by regulation: every criterion of the document, right after the verdict, and nothing else."""

from __future__ import annotations

import re
from typing import Any

import pytest

from sqlanon.report import render

BASE: dict[str, Any] = {
    "sqlanon": "1.0.0",
    "created": "2026-11-16T05:00:00Z",
    "source": "patients",
    "release": {"kind": "table", "name": "patients_released"},
    "records": 10,
    "released": 9,
    "holds": True,
}


def criterion(state: Any, **more: Any) -> dict[str, Any]:
    told = {"title": "Singling out", "measured": "0 rows", "test": "rows alone", "threshold": "0", "cite": "WP216"}
    return {"ident": "wp29.x", "state": state, "origin": "guidance", **told, **more}


def shown(*criteria: Any, **more: Any) -> str:
    verdicts = [{"ident": "wp29", "title": "WP29", "note": "A note.", "criteria": list(criteria), **more}]
    return render(BASE | {"verdicts": verdicts})


def section(page: str) -> str:
    found = re.search(r'<section id="regulations".*?</section>', page, flags=re.DOTALL)
    return found[0] if found else ""


def test_the_section_follows_the_verdict_and_counts_its_criteria() -> None:
    page = shown(criterion("met"), criterion("not met"), criterion("not met"), criterion("not assessed"))
    assert re.findall(r'<section id="([\w-]+)"', page)[:2] == ["verdict", "regulations"]
    summary = section(page).split("<details")[0]
    assert re.findall(r'<td[^>]*class="number"[^>]*><div>(\d+)</div></td>', summary) == ["1", "2", "1"]
    assert "set by guidance" in section(page) and "A note." in section(page) and "WP216" in section(page)
    assert "None of this says that the data are anonymous" in page


@pytest.mark.parametrize("state", ["MET", None, 1, True, "", {"met": 1}])
def test_what_is_not_clearly_met_is_not_assessed(state: Any) -> None:
    found = section(shown(criterion(state)))
    assert "? not assessed" in found and "✓" not in found


@pytest.mark.parametrize(
    "verdicts", [None, [], {}, "x", [1], [{}], [{"title": "t"}], [{"title": "t", "criteria": [{}]}]]
)
def test_a_document_without_verdicts_has_no_section(verdicts: Any) -> None:
    assert section(render(BASE | {"verdicts": verdicts})) == ""


def test_texts_are_escaped() -> None:
    assert "<script" not in shown(criterion("met", measured="<script>alert(1)</script>", title="<script>"))

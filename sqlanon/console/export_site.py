"""A static site of releases and their evidence: pages that stand alone, for an intranet or a folder on a disk."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlanon.console.read_evidence import answer
from sqlanon.console.release_view import ReleaseView, with_measured
from sqlanon.console.site import names_of
from sqlanon.errors import SourceError, SqlanonError
from sqlanon.report import render
from sqlanon.report.markup import Content, Html, element
from sqlanon.report.page import document_of
from sqlanon.report.sections.parts import ReportColumn, name, small, table
from sqlanon.report.wording import measure, model_title, moment

MARK = ".sqlanon-site"  # in a folder that may be written anew


@dataclass(frozen=True)
class Exported:
    releases: int
    versions: int


def export_site(policies: Sequence[Path], folder: Path) -> Exported:
    """Write the site beside the folder first, and put it in its place as a whole."""
    if folder.exists() and any(folder.iterdir()) and not (folder / MARK).is_file():
        raise SourceError(f"the folder '{folder}' holds something else", hint="name a new one, or an empty one")
    made = folder.with_name(f".{folder.name}.new")
    shutil.rmtree(made, ignore_errors=True)
    made.mkdir(parents=True)
    try:
        known = names_of(tuple(policies))
        views = [view for key, path in known.items() if (view := _release(key, path, made)).state["release"]]
        (made / "index.html").write_text(_index(views), encoding="utf-8")
        (made / MARK).write_text("written by sqlanon console --export\n", encoding="utf-8")
        if folder.exists():
            shutil.rmtree(folder)
        made.rename(folder)
    finally:
        shutil.rmtree(made, ignore_errors=True)
    return Exported(len(views), sum(len(view.state["versions"]) for view in views))


def _release(key: str, path: Path, folder: Path) -> ReleaseView:
    """The files of one release, a folder of its own with a page for each version; what its line in the index shows."""
    state = _asked(path, {"what": "state"})
    if state["problem"]:
        raise SourceError(f"{path}: {state['problem']}")
    shown: ReleaseView | None = None
    for version in state["versions"]:
        document = _asked(path, {"what": "evidence", "version": version["version"]})
        view = with_measured(ReleaseView(key, state, version, document), path)
        assert view.document is not None
        own = folder / key / str(int(version["version"]))
        own.mkdir(parents=True)
        page = render(view.document) if state["kind"] == "Policy" else _plain_page(view)
        (own / "index.html").write_text(page, encoding="utf-8")
        text = json.dumps(view.document, indent=2, ensure_ascii=False)
        (own / "evidence.json").write_text(text + "\n", encoding="utf-8")
        (own / "release.sql").write_text(str(view.document.get("sql", "")), encoding="utf-8")
        if version["status"] == "current":
            shown = view
    return shown or ReleaseView(key, state)


def _asked(path: Path, question: Mapping[str, Any]) -> dict[str, Any]:
    found = answer({**question, "policy": str(path)}, {str(path): path})
    if "error" in found:
        raise SqlanonError(found["error"]["message"], hint=found["error"]["hint"])
    return dict(found["answer"])


def _plain_page(view: ReleaseView) -> str:
    """Of tables that have no report: their evidence as it is."""
    text = json.dumps(view.document, indent=1, ensure_ascii=False)
    body = element("main", element("section", element("h1", name(view.title, 120)), element("pre", text, tabindex=0)))
    return document_of(view.title, element("body", body))


def _index(views: Sequence[ReleaseView]) -> str:
    columns = [ReportColumn(title) for title in ("Release", "Verdict", "Nearest to its limit", "Published", "Versions")]
    rows: list[list[Content]] = [
        [
            element("span", name(view.title, 120), small(str(view.state["file"])), class_="title"),
            view.badge or "not published",
            _worst(view),
            moment(str(view.version["created"])) if view.version else "–",
            [_links(view.name, version) for version in view.state["versions"]],
        ]
        for view in views
    ]
    heading = element("header", element("p", "sqlanon", class_="eyebrow"), element("h1", "Releases"))
    shown = table("Each release with what is shown now", columns, rows, stacked=True) if rows else element("p", "None.")
    note = "Evidence may hold original values with their counts: keep it as confidential as the source."
    body = element("body", heading, element("main", element("section", shown)), element("footer", element("p", note)))
    return document_of("Releases", body)


def _worst(view: ReleaseView) -> Content:
    check = view.worst
    if check is None:
        return "–"
    of = f" of {check.attribute}" if check.attribute else ""
    told = f"{measure(check.measured)} measured, {measure(check.required)} required"
    return [f"{model_title(check.model)}{of}", small(told)]


def _links(key: str, version: Mapping[str, Any]) -> Html:
    base = f"{key}/{int(version['version'])}"
    return element(
        "span",
        element("a", f"version {int(version['version'])}", href=f"{base}/index.html"),
        f" ({version['status']}): ",
        element("a", "evidence", href=f"{base}/evidence.json"),
        ", ",
        element("a", "SQL", href=f"{base}/release.sql"),
        class_="line",
    )

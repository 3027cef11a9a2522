"""The page around the sections: one file that asks nothing of the network and runs nothing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from sqlanon.evidence.release_evidence import ReleaseEvidence
from sqlanon.report.markup import Html, element, together
from sqlanon.report.sections.parts import Section, code, name
from sqlanon.report.wording import moment, shorten

# Were a value ever not escaped, the browser would still run and load nothing.
POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
KINDS = {"table": "Table", "view": "View", "path": "File"}


def head(title: str) -> Html:
    style = Path(__file__).with_name("style.css").read_text(encoding="utf-8")
    return element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=POLICY),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("meta", name="robots", content="noindex"),
        element("title", title),
        element("style", Html(style)),
    )


def _header(document: ReleaseEvidence) -> Html:
    kind = KINDS.get(document.kind)
    about = [f"{kind}, made from " if kind else "Made from ", code(document.source), f" on {moment(document.created)}"]
    return element(
        "header",
        element("p", "Release report", class_="eyebrow"),
        element("h1", name(document.name, 120)),
        element("p", *about, class_="about"),
    )


def contents(made: Sequence[Section]) -> Html:
    links = [
        element("li", element("a", section.title, href=f"#{section.ident}"), class_="annex" if section.annex else None)
        for section in made
    ]
    return element("nav", element("h2", "Contents"), element("ol", *links), aria_label="Contents")


def with_annex(made: Sequence[Section]) -> list[Html]:
    """The sections, with a line above the annex."""
    bodies: list[Html] = []
    for before, section in zip([None, *made], made, strict=False):
        if section.annex and (before is None or not before.annex):
            bodies.append(element("p", "Annex: how it was measured, and how to repeat it", class_="divider"))
        bodies.append(section.body)
    return bodies


def _confidential(document: ReleaseEvidence) -> str:
    """Who may read it: a count of one for an original value is a fact about one person."""
    if any(found.before for found in (document.distributions or {}).values()):
        return "It holds no rows, but original values with their counts: keep it as confidential as the source."
    return "It holds no rows of the data."


def page(document: ReleaseEvidence, made: Sequence[Section]) -> str:
    footer = element("footer", element("p", f"Written by sqlanon {document.sqlanon}. {_confidential(document)}"))
    main = element("main", *with_annex(made))
    body = element("body", _header(document), element("div", contents(made), main, class_="columns"), footer)
    return document_of(f"Release report: {shorten(document.name, 80)}", body)


def document_of(title: str, body: Html) -> str:
    return together(Html("<!DOCTYPE html>\n"), element("html", head(title), body, lang="en"), "\n")

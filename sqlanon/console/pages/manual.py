"""The guides, and the manual page of everything that a policy can name; searchable."""

from __future__ import annotations

from starlette.responses import Response

from sqlanon.console.guides import guides, render_guide, search
from sqlanon.console.visit import Page, Visit
from sqlanon.errors import PolicyError

LONGEST = 100  # characters of a search
TITLES = {
    "privacy model across releases": "Privacy models across releases",
    "measure of utility": "Measures of utility",
    "rule for unsafe cells": "Rules for unsafe cells",
    "kind of hierarchy": "Kinds of hierarchy",
}


async def show_guides(visit: Visit) -> Response:
    asked = visit.given("q")[:LONGEST].strip()
    pages = (await visit.site.reader.plugins())["pages"]
    kinds = list(dict.fromkeys(page["kind"] for page in pages))
    found = search(asked, pages) if asked else None
    titles = {kind: TITLES.get(kind, f"{kind.capitalize()}s") for kind in kinds}
    return visit.page("guides.html", guides=guides(), pages=pages, titles=titles, asked=asked, found=found)


async def show_guide(visit: Visit) -> Response:
    found = guides().get(visit.given("topic"))
    if found is None:
        raise PolicyError("there is no such guide")
    return visit.page("guide.html", title=found.title, body=render_guide(found.topic))


async def explain_name(visit: Visit) -> Response:
    pages = (await visit.site.reader.plugins())["pages"]
    found = [page for page in pages if page["name"] == visit.given("name")]
    if not found:
        raise PolicyError("there is nothing of that name")
    return visit.page("explain.html", title=found[0]["name"], pages=found)


PAGES = (
    Page("/guides", show_guides),
    Page("/guides/{topic}", show_guide, back="/guides"),
    Page("/explain/{name}", explain_name, back="/guides"),
)

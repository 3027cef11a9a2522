"""The pieces that sections are put together from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlanon.families import Plugin, family
from sqlanon.report.markup import Content, Html, element
from sqlanon.report.wording import shorten

MOST_NAME = 48  # columns of a name in a text; all of it is under the pointer
MOST_TITLE = 300


@dataclass(frozen=True)
class Section:
    ident: str
    title: str
    body: Html
    annex: bool = False


@dataclass(frozen=True)
class ReportColumn:
    title: str
    numeric: bool = False


def section(ident: str, title: str, *content: Content) -> Section:
    heading = element("h2", title, id=f"{ident}-title")
    return Section(ident, title, element("section", heading, *content, id=ident, aria_labelledby=f"{ident}-title"))


def paragraph(*content: Content, class_: str | None = None) -> Html:
    return element("p", *content, class_=class_)


def name(text: str, width: int = MOST_NAME) -> Html:
    """A name or label of the data: isolated, since it may run from right to left, and cut where it is very long."""
    short = shorten(text, width)
    full = shorten(text, MOST_TITLE)
    return element("bdi", short, title=full if full != short else None)


def code(text: str, width: int = MOST_NAME) -> Html:
    return element("code", name(text, width))


def strong(*content: Content) -> Html:
    return element("strong", *content)


def small(*content: Content) -> Html:
    return element("span", *content, class_="small")


def status(holds: bool | None, yes: str = "holds", no: str = "broken") -> Html:
    """A word with a sign, so that colour is never the only difference."""
    if holds is None:
        return element("span", "–", class_="status unknown")
    sign = element("span", "✓" if holds else "✗", aria_hidden="true")
    return element("span", sign, " ", yes if holds else no, class_=f"status {'good' if holds else 'bad'}")


def table(
    caption: Content, columns: Sequence[ReportColumn], rows: Sequence[Sequence[Content]], *, stacked: bool = False,
    narrow: bool = False, marked: int | None = None,
) -> Html:  # fmt: skip
    """A table whose first column names the row. Stacked, each row becomes a card on a narrow screen.

    The roles are spelled out because a table that is laid out as blocks loses them.
    """
    heads = [_cell("th", column, column.title, scope="col", role="columnheader") for column in columns]
    body = []
    for place, row in enumerate(rows):
        cells = [_cell("th", columns[0], row[0], scope="row", role="rowheader")]
        cells += [
            _cell("td", column, element("div", content) if stacked else content, role="cell", data_label=column.title)
            for column, content in zip(columns[1:], row[1:], strict=True)
        ]
        body.append(element("tr", *cells, role="row", class_="marked" if place == marked else None))
    made = element(
        "table",
        element("caption", caption),
        element("thead", element("tr", *heads, role="row"), role="rowgroup"),
        element("tbody", *body, role="rowgroup"),
        class_=_shape(columns, narrow=narrow, stacked=stacked),
        role="table",
    )
    return element("div", made, class_="scroll")


def _shape(columns: Sequence[ReportColumn], *, narrow: bool, stacked: bool) -> str | None:
    """The first column explains, and has the more room the fewer words stand beside it."""
    if not stacked:
        return "narrow" if narrow else None
    words = [column for column in columns[1:] if not column.numeric]
    if not words and len(columns) <= 3:
        return "stacked few"
    return "stacked wordy" if len(words) <= 1 and len(columns) > 3 else "stacked"


def _cell(tag: str, column: ReportColumn, content: Content, **attributes: str) -> Html:
    return element(tag, content, class_="number" if column.numeric else None, **attributes)


def beside(plot: Html, *content: Content) -> Html:
    """A plot and what belongs to it: side by side where there is room."""
    return element("div", element("figure", plot), element("div", *content), class_="beside")


def details(summary: Content, *content: Content) -> Html:
    return element("details", element("summary", summary), *content)


def listing(text: str) -> Html:
    # A region that scrolls must be reachable by keyboard.
    return element("pre", element("code", text), tabindex=0)


def bullets(texts: Sequence[str], class_: str | None = None) -> Html:
    return element("ul", [element("li", element("bdi", text)) for text in texts], class_=class_)


def meter(value: float, top: float, class_: str = "after") -> Html:
    """A bar within a table cell; the number beside it says the same."""
    width = 0.0 if top <= 0 else min(max(value / top, 0.0), 1.0) * 100
    # A drawing, not a style attribute: the web console shows it too, and its pages may hold no inline style.
    fill = element("rect", class_=f"fill {class_}", width=round(width, 1), height=10)
    return element("svg", fill, class_="meter", viewBox="0 0 100 10", preserveAspectRatio="none", aria_hidden="true")


def metric(name: str) -> Plugin | None:
    """The loss metric of a name, if there is one."""
    return family("loss").get(name)

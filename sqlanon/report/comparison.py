"""The page of `sqlanon compare`: the map of risk and utility, and what was measured of each release."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlanon.evidence.json_values import drawable, items, mapping, number, quantity, text
from sqlanon.report.markup import Content, element
from sqlanon.report.page import contents, document_of
from sqlanon.report.plots.scatter import Point, scatter
from sqlanon.report.sections.parts import (
    ReportColumn,
    Section,
    beside,
    bullets,
    code,
    meter,
    name,
    paragraph,
    section,
    small,
    status,
    strong,
    table,
)
from sqlanon.report.wording import NOTHING, count, measure, moment, plural, share

Each = Sequence[tuple[int, Mapping[str, Any]]]
MATRICES = (
    ("cells", "numbers, cell by cell"), ("means", "means"), ("covariances", "covariances"),
    ("correlations", "correlations"), ("loadings", "correlations with principal components"),
    ("communalities", "share that the first component explains"), ("scores", "weights of principal components"),
)  # fmt: skip


def render_comparison(document: Mapping[str, Any]) -> str:
    """The page as the text of an HTML file, to be written in UTF-8."""
    each = [(place, mapping(item)) for place, item in enumerate(items(document.get("policies")), start=1)]
    made = [part for part in (_map(each), _measured(each), _columns(each), _matrices(each), _notes(each)) if part]
    source = text(document.get("source"))
    header = element(
        "header",
        element("p", "Comparison of policies", class_="eyebrow"),
        element("h1", name(source, 120)),
        element("p", f"{plural(len(each), 'release')}, compared on {moment(text(document.get('created')))}",
                class_="about"),
    )  # fmt: skip
    footer = element("footer", element("p", f"Written by sqlanon {text(document.get('sqlanon'))}. It holds no rows."))
    main = element("main", *(part.body for part in made))
    body = element("body", header, element("div", contents(made), main, class_="columns"), footer)
    return document_of("Comparison of policies", body)


def _points(each: Each) -> list[Point]:
    found = []
    for place, item in each:
        risk, loss = drawable(item.get("risk")), drawable(item.get("loss"))
        if risk is not None and loss is not None:
            found.append(Point(place, text(item.get("policy")), risk, loss, item.get("best") is True))
    return found


def _map(each: Each) -> Section:
    points = _points(each)
    columns = [
        ReportColumn("Policy"),
        ReportColumn("Risk", True),
        ReportColumn("Loss", True),
        ReportColumn("Score", True),
        ReportColumn("Models"),
    ]
    rows: list[list[Content]] = []
    for place, item in each:
        refused = text(item.get("refused"))
        title: list[Content] = [f"{place}  ", name(text(item.get("policy")))]
        title += [element("span", "best", class_="tag")] if item.get("best") is True else []
        below = refused or f"{text(item.get('algorithm'))}, {count(quantity(item.get('released')))} rows"
        rows.append([
            [element("span", *title, class_="title"), small(below)],
            *(share(number(item.get(key))) for key in ("risk", "loss", "score")),
            status(False, no="no release") if refused else status(item.get("holds") is True),
        ])  # fmt: skip
    listed = table("Releases; less is better", columns, rows, stacked=True)
    told = paragraph(
        "Each point is a release. Risk: the mean of the chance to find a person by the quasi-identifiers, and of the "
        "share of protected numbers that are known to a twentieth of a standard deviation. Loss: how much of the cells "
        "is gone, from 0% to 100%. A ring marks what no other release beats in one without being worse in the other."
    )
    return section("map", "Risk and utility", told, beside(scatter(points), listed) if points else listed)


def _measured(each: Each) -> Section | None:
    columns = [ReportColumn("Measure"), *(ReportColumn(f"{place}", True) for place, _ in each)]
    rows: list[list[Content]] = []
    for title, meaning, read, shown in MEASURES:
        values = [number(read(mapping(item.get("utility")), item)) for _, item in each]
        if any(value is not None for value in values):
            rows.append([[element("span", title, class_="title"), small(meaning)], *(shown(value) for value in values)])
    if not rows:
        return None
    return section("measures", "Measures", table("By release", columns, rows))


def _of(*keys: str) -> Any:
    def read(useful: Mapping[str, Any], item: Mapping[str, Any]) -> Any:
        found: Any = item if keys[0] in ("prosecutor", "losses") else useful
        for key in keys:
            found = mapping(found).get(key)
        return found

    return read


MEASURES = (
    ("Highest risk", "chance to find the person who is easiest to find", _of("prosecutor", "highest"), share),
    ("Average risk", "chance to find a person, on average", _of("prosecutor", "average"), share),
    ("Numbers known closely", "protected numbers within 5% of a deviation", _of("intervals", "cells"), share),
    ("NCP", "how far quasi-identifiers are generalized", _of("losses", "ncp"), share),
    ("IL1s", "distance of a number from its original, in deviations", _of("il1s"), measure),
    ("Probabilistic loss", "statistics that cannot be those of a sample", _of("probabilistic", "all"), share),
    ("Eigenvalues", "change of those of the correlations, added up", _of("eigenvalues"), measure),
    ("pMSE", "how well release and source are told apart, of what is possible", _of("propensity", "share"), share),
    ("pMSE ratio", "the same in relation to another sample, which has 1", _of("propensity", "ratio"), measure),
    ("Accuracy", "of a classifier that learned from the release", _of("accuracy", "released"), share),
    ("Accuracy before", "of one that learned from the originals", _of("accuracy", "original"), share),
    ("Accuracy without", "of always saying the most frequent class", _of("accuracy", "baseline"), share),
)


def _columns(each: Each) -> Section | None:
    losses = {place: mapping(mapping(item.get("utility")).get("by_attribute")) for place, item in each}
    names = dict.fromkeys(key for found in losses.values() for key in found)
    if not names:
        return None
    columns = [ReportColumn("Column"), *(ReportColumn(f"{place}") for place, item in each if not item.get("refused"))]
    rows: list[list[Content]] = []
    for key in names:
        cells: list[Content] = []
        for place, item in each:
            if item.get("refused"):
                continue
            lost = drawable(losses[place].get(key, 1.0))
            cells.append(NOTHING if lost is None else element("span", meter(lost, 1.0), share(lost), class_="metered"))
        rows.append([element("span", name(key), class_="title"), *cells])
    return section("columns", "Loss by column", table("Share of each column's information that is lost", columns, rows))


def _matrices(each: Each) -> Section | None:
    shown = [(place, mapping(mapping(item.get("utility")).get("differences"))) for place, item in each]
    columns = [ReportColumn("What is compared"), *(ReportColumn(f"{place}", True) for place, _ in shown)]
    rows: list[list[Content]] = []
    for key, words in MATRICES:
        for measure_, title in (
            ("mae", "mean absolute error"),
            ("mse", "mean square error"),
            ("variation", "mean variation"),
        ):
            values = [number(mapping(found.get(key)).get(measure_)) for _, found in shown]
            if any(value is not None for value in values):
                rows.append([[words, small(title)], *(measure(value) for value in values)])
    if not rows:
        return None
    return section("statistics", "Statistics", table("How those of a release differ from the source's", columns, rows))


def _notes(each: Each) -> Section | None:
    told: list[Content] = []
    for place, item in each:
        said = [text(note) for note in items(mapping(item.get("utility")).get("notes"))]
        left_out = [
            text(each_) for each_ in items(mapping(mapping(item.get("utility")).get("propensity")).get("left_out"))
        ]
        if left_out:
            said.append(f"not in the propensity score, since generalized: {', '.join(left_out)}")
        if said:
            told += [paragraph(strong(f"{place} "), code(text(item.get("policy")))), bullets(said)]
    return section("notes", "Notes", *told) if told else None

"""What the release costs: losses, changed distributions, and queries that are answered less exactly."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from sqlanon.evidence.json_values import drawable, mapping, numbers, text
from sqlanon.evidence.release_evidence import Attribute, Counted, Distribution, ReleaseEvidence
from sqlanon.report.markup import Content, Html, element
from sqlanon.report.plots.bars import MOST_BARS, bars, distribution, label_room
from sqlanon.report.sections.parts import (
    ReportColumn,
    Section,
    beside,
    code,
    details,
    meter,
    metric,
    name,
    paragraph,
    section,
    small,
    strong,
    table,
)
from sqlanon.report.sections.suppression import shown_label
from sqlanon.report.sections.verdict import is_share
from sqlanon.report.wording import NOTHING, count, first_sentence, measure, model_title, plural, share, shorten

ROLES = {"quasi_identifier": "quasi-identifier"}
OTHER_ROLES = {
    "identifier": "left out",
    "sensitive": "its value in each released row",
    "insensitive": "its value in each released row",
}
MOST_LABELS = 200  # of a distribution, in a plot
MOST_LISTED = 40  # of a distribution, in its table


def loss_words(metric_name: str, value: float | None) -> str:
    return share(value) if is_share(metric_name) else measure(value)


def losses(document: ReleaseEvidence) -> Section | None:
    """The metric that was minimized; all others are folded, since they say the same in other units."""
    if not document.loss:
        return None
    first = document.minimize if document.minimize in document.loss else next(iter(document.loss))
    others = [name_ for name_ in document.loss if name_ != first]
    return section(
        "losses",
        "Loss of the whole table",
        _metrics(document, [first], "Over all rows; larger is worse"),
        details(f"{plural(len(others), 'other metric')}", _metrics(document, others, "The same loss in other units"))
        if others
        else None,
    )


def _metrics(document: ReleaseEvidence, names: Sequence[str], caption: str) -> Html:
    rows: list[list[Content]] = []
    for metric_name in names:
        known = metric(metric_name)
        meaning = [small(shorten(first_sentence(known.summary), 300))] if known else []
        target = [element("span", "minimized", class_="tag")] if metric_name == document.minimize else []
        value = loss_words(metric_name, document.loss[metric_name])
        rows.append([[code(metric_name), *target, *meaning], strong(value)])
    return table(caption, [ReportColumn("Metric"), ReportColumn("Loss", True)], rows)


def _level(attribute: Attribute) -> Content:
    """The level as steps up the hierarchy, and in words."""
    if attribute.level is None:
        return NOTHING
    if attribute.height is None:
        return f"level {attribute.level}"
    steps = None
    if 0 < attribute.height <= 12:
        marks = [element("i", class_="on" if step < attribute.level else None) for step in range(attribute.height)]
        steps = element("span", *marks, class_="steps", aria_hidden="true")
    return [steps, f"{attribute.level} of {attribute.height}"]


def _released_as(item: Attribute) -> str:
    return item.released_as or item.what or NOTHING


def _per_attribute(attributes: Sequence[Attribute]) -> Html | None:
    if not attributes:
        return None
    weighted = any(item.weight not in (None, 1) for item in attributes)
    leveled = any(item.level is not None for item in attributes)
    columns = [ReportColumn("Column"), ReportColumn("Level"), ReportColumn("Released as"), ReportColumn("Loss")]
    rows: list[list[Content]] = []
    for item in attributes:
        role = ROLES.get(item.role, item.role.replace("_", " "))
        lost = [meter(item.loss, 1.0), share(item.loss)] if item.loss is not None else NOTHING
        row: list[Content] = [
            [element("span", name(item.name), class_="title"), small(role)], _level(item),
            name(_released_as(item), 120), element("span", lost, class_="metered"),
        ]  # fmt: skip
        rows.append(row + ([measure(item.weight)] if weighted else []))
    columns += [ReportColumn("Weight", True)] if weighted else []
    if not leveled:  # regions have none
        columns, rows = [columns[0], *columns[2:]], [[row[0], *row[2:]] for row in rows]
    levels = "Level 0 is the original value, the last level tells nothing; larger losses are worse"
    return table(levels if leveled else "Larger losses are worse", columns, rows, stacked=True)


def _other_columns(document: ReleaseEvidence) -> Html | None:
    """Columns that are left out or released as they are; nobody should have to look for these in the policy."""
    if document.policy is None or any((document.groups, document.items, document.journeys)):
        return None
    try:
        given = mapping(mapping(json.loads(document.policy.text)).get("columns"))
    except ValueError:
        return None
    changed = {column: item.method for item in document.transformations or () for column in _named(item.params)}
    rows: list[list[Content]] = []
    for column, value in given.items():
        role = text(mapping(value).get("role") or value)
        if role not in OTHER_ROLES:
            continue
        what = OTHER_ROLES[role]
        if mapping(value).get("pseudonym") is True:
            what = "a pseudonym in place of each value"
        elif column in changed and role != "identifier":
            what = f"changed by {model_title(changed[column])}"
        elif document.transformations and role != "identifier":
            what = f"{what}, after the transformations"
        rows.append([[element("span", name(column), class_="title"), small(role)], what])
    if not rows:
        return None
    return table("The other columns", [ReportColumn("Column"), ReportColumn("Released as")], rows, stacked=True)


def _named(params: Mapping[str, Any]) -> Iterator[str]:
    """The columns that a method changes."""
    for value in (params.get("columns"), params.get("column")):
        listed = [value] if isinstance(value, str) else value if isinstance(value, Iterable) else ()
        yield from (item for item in listed if isinstance(item, str))


def columns(document: ReleaseEvidence) -> Section | None:
    each = _per_attribute(document.attributes)
    return section("columns", "What happened to each column", each, _other_columns(document)) if each else None


def _values(rows: Sequence[tuple[str, int]], more: int) -> str:
    every = len(rows) + more
    return plural(every, "value") + (f", {count(min(len(rows), MOST_LABELS))} shown" if more else "")


def _labels(rows: Counted | None) -> tuple[tuple[str, int], ...] | None:
    """Values as they are shown: NULL and empty text can be seen."""
    if rows is None:
        return None
    return tuple((shown_label(label), records) for label, records in rows)


def _side(
    attribute: str, side: str, rows: tuple[tuple[str, int], ...] | None, more: int, room: float, top: int
) -> Html:
    if rows is None:
        return element("div")
    shown = rows[:MOST_LABELS]
    more += len(rows) - len(shown)
    head = element("h4", side.capitalize(), " ", small(_values(shown, more)), class_=side)
    if not shown:
        return element("div", head, paragraph("no value", class_="small"))
    return element("div", head, distribution(f"{shorten(attribute, 60)} {side}", shown, side, room, top))


def _listed(attribute: str, found: Distribution) -> Html:
    tables = []
    for side, rows, more in (
        ("before", _labels(found.before), found.before_more or 0),
        ("after", _labels(found.after), found.after_more or 0),
    ):
        if rows:
            listed = [[name(label), count(records)] for label, records in rows[:MOST_LISTED]]
            left = len(rows) - len(listed) + more
            rest = f", and {plural(left, 'more value')}" if left else ""
            caption = [name(attribute), f" {side}{rest}"]
            tables.append(table(caption, [ReportColumn("Value"), ReportColumn("Rows", True)], listed))
    return details("Numbers", *tables)


def _panel(attribute: str, found: Distribution, known: Attribute | None) -> Html:
    told = None
    # The same room on both sides, so that their bars stand below each other.
    before, after = _labels(found.before), _labels(found.after)
    top = max((records for rows in (before, after) for _, records in rows or ()), default=0)
    outside = None
    if found.outside:
        outside = small(f"{plural(found.outside, 'row')} with a label that tells none of these")
    few = [rows for rows in (before, after) if rows and len(rows) <= MOST_BARS]
    room = label_room(label for rows in few for label, _ in rows)
    if known and known.level is not None and known.height is not None:
        told = small(element("bdi", f"level {known.level} of {known.height}: {shorten(_released_as(known), 60)}"))
    elif known:
        told = small(element("bdi", shorten(_released_as(known), 60)))
    return element(
        "article",
        element("h3", name(attribute, 32), told),
        _side(attribute, "before", before, found.before_more or 0, room, top),
        element("div", _side(attribute, "after", after, found.after_more or 0, room, top), outside),
        _listed(attribute, found),
    )


def distributions(document: ReleaseEvidence) -> Section | None:
    known = {item.name: item for item in document.attributes}
    shown = {name_: item for name_, item in (document.distributions or {}).items() if item.before or item.after}
    if not shown:
        return None
    panels = [_panel(attribute, found, known.get(attribute)) for attribute, found in shown.items()]
    return section(
        "distributions",
        "Distributions before and after",
        paragraph(
            "How many rows of the source have which value, and how many rows of the release. Both are counted in "
            "the same bins; values with an order stand in it. The rows of a label that covers several bins are "
            "spread evenly over the values that it covers."
        ),
        element("div", *panels, class_="panels"),
    )


def workload(document: ReleaseEvidence) -> Section | None:
    kinds = [
        ("small", "small answers", "queries that match few rows"),
        ("large", "large answers", "queries that match many rows"),
        ("all", "all queries", "every query of the workload"),
    ]
    asked = numbers(document.workload, drawable)
    given = [(title, meaning, asked[key]) for key, title, meaning in kinds if key in asked]
    if not given:
        return None
    queries = asked.get("queries")
    many = f" {count(int(queries))} " if queries else " "
    drawn = [(title, value, share(value)) for title, _, value in given]
    plot = bars(
        "Relative error by size of the answer",
        drawn,
        "after",
        room=label_room(title for title, _, _ in given),
        width=360.0,
    )
    rows: list[list[Content]] = [[[title, small(meaning)], strong(share(value))] for title, meaning, value in given]
    return section(
        "workload",
        "Error of queries",
        paragraph(f"The same{many}counting queries were put to the source and to the release. The relative error is "
                  "how far the answer of the release is off, as a share of the true answer."),
        beside(plot, table("Relative error", [ReportColumn("Queries with"), ReportColumn("Error", True)], rows)),
    )  # fmt: skip

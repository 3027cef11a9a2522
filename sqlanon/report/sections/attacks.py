"""What is likely to happen to persons, and what attackers achieve, before and after the release."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlanon.evidence.json_values import items, mapping, number, part, quantity, ratio, text
from sqlanon.evidence.release_evidence import ReleaseEvidence
from sqlanon.families import family
from sqlanon.report.markup import Content, element
from sqlanon.report.sections.parts import ReportColumn, Section, bullets, name, paragraph, section, small, strong, table
from sqlanon.report.wording import NOTHING, count, first_sentence, model_title, share, shorten

# A measure of risk, its number, its title and what it says.
MEASURES = (
    (
        "prosecutor",
        "records_at_risk",
        "Rows at risk",
        "rows that an attacker picks rightly more often than one in five",
    ),
    ("marketer", "average", "Marketer risk", "rows that are matched rightly if all are linked to a list of persons"),
    ("journalist", "highest", "Journalist risk", "the chance of finding anybody of the population, at most"),
    ("sample_uniqueness", "share", "Uniques", "rows that nobody else shares"),
    ("population_uniqueness", "dankar", "Population uniques", "of the population, estimated"),
)
OF_ATTRIBUTE = (
    ("attribute_disclosure", "guessed", "Guessed", "rows whose value is guessed rightly from their class"),
    ("attribute_disclosure", "disclosed", "Disclosed", "rows in classes that hold one value only"),
    ("ck_safety", "1", "With one more fact", "the surest conclusion of an attacker who knows one more implication"),
)
# Attacks that are not statements of their own: on sets of items, and on journeys.
MEANINGS = {
    "known_items": "The attacker knows those items of a person that fewest persons share.",
    "one_more_item": "The attacker knows one item more than the models allow.",
    "basket_size": "The attacker also knows how many items a person has.",
    "absent_items": "The attacker also knows one item that a person does not have.",
    "whole_set": "The attacker knows every item of a person that is left.",
    "private_items": "The attacker knows some items of a person, and concludes a private one or a sensitive value.",
    "known_visits": "The attacker knows those visits of a person that fewest persons share.",
    "home_and_work": "The attacker knows the two places where a person is most often.",
    "first_and_last": "The attacker knows where and when a journey begins and ends.",
    "whole_journey": "The attacker knows every visit of a person that is left.",
}


def risk_measures(document: ReleaseEvidence) -> Section | None:
    """All risk measures, side by side."""
    found = document.risks or {}
    sides = [mapping(found.get("source")), mapping(found.get("release"))]
    units = {text(side.get("counts")) for side in sides if side}
    rows: list[list[Content]] = []
    for measure, key, title, meaning in MEASURES:
        values = [_number(side, "measures", measure, key) for side in sides]
        rows += _row(_in_units(units, title), _in_units(units, meaning), None, values)
    attributes = list(dict.fromkeys(key for side in sides for key in mapping(side.get("attributes"))))
    for attribute in attributes:
        for measure, key, title, meaning in OF_ATTRIBUTE:
            values = [_number(side, "attributes", attribute, measure, key) for side in sides]
            rows += _row(_in_units(units, title), _in_units(units, meaning), text(attribute), values)
    if not rows:
        return None
    columns = [ReportColumn("Measure"), ReportColumn("Before", True), ReportColumn("After", True)]
    return section(
        "risk-measures",
        "Risk measures",
        paragraph("How likely an attacker who knows all quasi-identifiers finds persons, and guesses their values."),
        table("Risk measures before and after", columns, rows, stacked=True),
    )


def _in_units(units: set[str], words: str) -> str:
    """Words about rows, as words about what was counted; with persons before and rows after, both are named."""
    if "persons" not in units:
        return words
    unit = "persons" if len(units) == 1 else "persons (after: rows)"
    return words.replace("Rows", "Persons").replace("rows", unit)


def _number(side: Mapping[str, Any], *path: str) -> float | None:
    found: Any = side
    for key in path:
        found = mapping(found).get(key)
    return part(found)


def _row(title: str, meaning: str, attribute: str | None, values: list[float | None]) -> list[list[Content]]:
    if values == [None, None]:
        return []
    of: list[Content] = [": ", name(attribute)] if attribute else []
    cells: list[Content] = [NOTHING if value is None else strong(share(value)) for value in values]
    return [[[element("span", title, of, class_="title"), small(meaning)], *cells]]


def attacks(document: ReleaseEvidence) -> Section | None:
    found = document.attacks or {}
    attacked = [item for item in map(mapping, items(found.get("attacks"))) if _attack(item) is not None]
    rows = [row for item in attacked if (row := _attack(item)) is not None]
    unjudged = mapping(found.get("not_judged")) or mapping(found.get("left_out"))  # as it was called before 1.0
    not_judged = [f"{_title(text(key))}: {text(why)}" for key, why in unjudged.items()]
    notes = [text(note) for note in items(found.get("notes"))]
    if not rows and not notes:
        return None
    advantages = [mapping(item) for item in items(found.get("advantages"))]
    columns = [ReportColumn("Attack"), ReportColumn("Before", True), ReportColumn("After", True)]
    if advantages:
        columns.append(ReportColumn("Advantage", True))
        rows = [[*row, _advantage(row_of, advantages)] for row, row_of in zip(rows, attacked, strict=True)]
    made = (
        table("How many persons or rows each attack breaks, and how surely", columns, rows, stacked=True)
        if rows
        else None
    )
    lines = [shorten(line, 300) for line in not_judged]
    skipped = [element("h3", "Not judged"), bullets(lines)] if lines else None
    return section(
        "attacks",
        "What attackers achieve",
        paragraph(_said(document)),
        paragraph(_compared(advantages)) if advantages else None,
        bullets([shorten(note, 300) for note in notes]) if notes else None,
        made,
        skipped,
    )  # fmt: skip


def _said(document: ReleaseEvidence) -> str:
    told = "Each attack was carried out on the source and on the release, by someone who knows "
    if document.items is not None or document.journeys:
        what = "items" if document.items is not None else "visits"
        told += (
            f"{what} of everybody. A person is broken if fewer than k fit, or if a value of theirs is concluded more "
        )
        told += "surely than the models allow."
    else:
        told += "the quasi-identifiers of everybody. A person is broken if the attack finds them, or their value, with "
        told += "the confidence that it asks for."
    return f"{told} Below it is how sure the attacker is, at most and on average."


def _attack(raw: Mapping[str, Any]) -> list[Content] | None:
    title = text(raw.get("name"))
    if not title:
        return None
    known = family("attacks").get(title)
    attribute = text(raw.get("attribute"))
    of: list[Content] = [": ", name(attribute)] if attribute else []
    told: list[Content] = [element("span", model_title(title), of, class_="title")]
    if known is not None:
        told.append(small(element("bdi", shorten(first_sentence(known.summary), 300))))
    elif title in MEANINGS:
        told.append(small(MEANINGS[title]))
    after = _outcome(mapping(raw.get("after")))
    if raw.get("after") is None and raw.get("not_judged"):
        after = [strong("not judged"), small(element("bdi", shorten(text(raw.get("not_judged")), 300)))]
    return [told, _outcome(mapping(raw.get("before"))), after]


def _compared(advantages: list[Mapping[str, Any]]) -> str:
    """What the column of advantages is compared with."""
    told = (
        "The advantage is how much more often the attacker guesses rightly about persons of the source than {over}, of "
    )
    told += "what that leaves open, with its 95 % interval."
    if any(text(item.get("against")) == "control" for item in advantages):
        return told.format(over="about persons of a control group, who are not in the data")
    told = told.format(over="somebody does who guesses from the margins of the release alone")
    return f"{told} No control group was given, so it also holds what the release tells about anybody."


def _advantage(raw: Mapping[str, Any], advantages: list[Mapping[str, Any]]) -> Content:
    """How much better an attack guesses than without the data, or nothing where it guesses nothing."""
    key = (text(raw.get("name")), text(raw.get("attribute")))
    own = [item for item in advantages if (text(item.get("attack")), text(item.get("attribute"))) == key]
    if not own:
        return NOTHING
    value, low, high = (number(own[0].get(name)) for name in ("advantage", "low", "high"))
    if value is None or low is None or high is None:
        return NOTHING
    rates = {name: part(mapping(own[0].get(name)).get("rate")) for name in ("attacked", "control", "by_margins")}
    words = [f"{_signed(low)} to {_signed(high)}"]
    titles = {"attacked": "right", "control": "control group", "by_margins": "margins"}
    words += [f"{titles[name]} {share(rate)}" for name, rate in rates.items() if rate is not None]
    if own[0].get("finding") is True:
        words.append("finding")
    return [strong(_signed(value)), *(small(word) for word in words)]


def _signed(value: float) -> str:
    return share(value) if value >= 0 else f"\u2212{share(-value)}"


def _title(key: str) -> str:
    """The title of an attack, also of one on a single column: "proximity of income"."""
    name, of, column = key.partition(" of ")
    return model_title(name) + of + column


def _outcome(raw: Mapping[str, Any]) -> Content:
    targets, broken = quantity(raw.get("targets")), quantity(raw.get("broken"))
    if not targets or broken is None:
        return NOTHING
    sure, average = part(raw.get("confidence")), part(raw.get("average"))
    unit = text(raw.get("counts"))
    words = [f"{count(broken)} of {count(targets)} {unit}".rstrip()]
    words += [f"{word} {share(value)}" for word, value in (("at most", sure), ("mean", average)) if value is not None]
    return [strong(share(ratio(broken, targets))), *(small(word) for word in words)]

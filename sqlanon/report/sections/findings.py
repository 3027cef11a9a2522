"""Findings: what a release that holds should be looked at for before it is passed on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any

from sqlanon.evidence.json_values import items, mapping, part, quantity, ratio, text
from sqlanon.evidence.release_evidence import ReleaseEvidence
from sqlanon.families import family
from sqlanon.report.markup import Content, Html, element
from sqlanon.report.sections.parts import ReportColumn, Section, paragraph, section, table
from sqlanon.report.sections.suppression import left_out, shown_label
from sqlanon.report.wording import count, first_sentence, measure, model_title, plural, share, shorten

SURE = 0.9  # an attacker who is as sure as that is a finding
THIN = 0.01  # a margin below this part of the limit
NEARLY = 0.95  # of the suppressed rows that a policy allows
TWICE = 2  # as many rows left out as in the whole table, of some value
NOTICEABLE = 0.02  # of the rows with some value; below it nobody misses them


@dataclass(frozen=True)
class Finding:
    about: str
    said: str
    advice: str
    more: tuple[str, ...] = ()  # the same of other columns


def findings(document: ReleaseEvidence) -> tuple[Finding, ...]:
    """In the order in which they matter; none for a release that does not hold, which has graver faults."""
    if document.verdict is not True:
        return ()
    return (
        *_surest_attacks(document), *_linked_rows(document), *_unmet(document), *_thin_margins(document),
        *_spent_limit(document), *_left_out(document), *_hidden(document),
    )  # fmt: skip


@dataclass(frozen=True)
class _Success:
    """What one attack achieves on one column."""

    attack: str
    attribute: str
    broken: float  # share of its targets
    gained: float
    sure: float
    said: str

    @property
    def gravity(self) -> tuple[float, float, float]:
        return self.broken, self.gained, self.sure


def _surest_attacks(document: ReleaseEvidence) -> Iterator[Finding]:
    """A finding for each attack that succeeds, the gravest first; of its columns, too."""
    found = sorted(_successes(document), key=lambda item: item.gravity, reverse=True)
    for name in dict.fromkeys(item.attack for item in found):
        first, *others = own = [item for item in found if item.attack == name]
        of = f" of {shorten(first.attribute, 40)}" if first.attribute and not others else ""
        said = [f"{shorten(item.attribute, 40)}: {item.said}" if others else item.said for item in own]
        yield Finding(f"{model_title(name)}{of}", said[0], _advice(name, first.attribute), tuple(said[1:]))


def _successes(document: ReleaseEvidence) -> Iterator[_Success]:
    """Attacks that break somebody, that are nearly sure, or that guess better than without the data. Where a control
    group shows that the attacker is as often right about strangers, being sure is no finding."""
    found = document.attacks or {}
    compared = {(text(item.get("attack")), text(item.get("attribute"))): item for item in _advantages(found)}
    for item in map(mapping, items(found.get("attacks"))):
        advantage = compared.get((text(item.get("name")), text(item.get("attribute"))), {})
        gains = advantage.get("finding") is True
        over_strangers = text(advantage.get("against")) == "control"
        after = mapping(item.get("after"))
        sure, broken, targets = (
            part(after.get("confidence")),
            quantity(after.get("broken")),
            quantity(after.get("targets")),
        )
        if not broken and not gains and ((sure or 0) < SURE or over_strangers):
            continue
        unit = text(after.get("counts")) or "rows"
        said = f"reaches {share(sure)} certainty" if sure is not None else "succeeds"
        if broken and targets:
            said += f", and breaks {count(broken)} of {count(targets)} {unit} ({share(ratio(broken, targets))})"
        value = part(advantage.get("advantage"))
        if gains and value is not None:
            said += f"; {_gained(advantage, value, over_strangers)}"
        lost = (ratio(broken, targets) or 0.0) if broken and targets else 0.0
        yield _Success(
            text(item.get("name")), text(item.get("attribute")), lost, (value or 0.0) * gains, sure or 0.0, said
        )


def _gained(advantage: Mapping[str, Any], value: float, over_strangers: bool) -> str:
    """How often the attacker is right, beside how often they would be without the rows of these persons."""
    own = part(mapping(advantage.get("attacked")).get("rate"))
    other = part(mapping(advantage.get("control" if over_strangers else "by_margins")).get("rate"))
    if own is None or other is None:
        over = "about persons who are not in the data" if over_strangers else "from the margins alone"
        return f"guesses rightly {share(value)} more often than {over}, of what that leaves open"
    against = (
        f"of persons who are not in the data {share(other)}"
        if over_strangers
        else (f"the most frequent value of all would be right for {share(other)}")
    )
    return f"guesses {share(own)} rightly; {against}"


def _advantages(found: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    return map(mapping, items(found.get("advantages")))


def _advice(name: str, attribute: str) -> str:
    """What the attacker knows, in a sentence, and what to ask about it."""
    known = family("attacks").get(name)
    who = f"{first_sentence(known.summary)} " if known is not None else ""
    if attribute:
        return f"{who}The requirements do not exclude it: ask whether such an attacker is realistic."
    return f"{who}Ask whether an attacker may know that much, or demand larger classes."


def _linked_rows(document: ReleaseEvidence) -> Iterator[Finding]:
    found = document.linked_rows or {}
    if items(found.get("problems")):
        yield Finding(
            "Several rows of a person",
            shorten(text(found.get("uniqueness")), 200),
            "the policy accepts it: record who decided so",
        )


def _unmet(document: ReleaseEvidence) -> Iterator[Finding]:
    for raw in document.verdicts or ():
        criteria = [mapping(item) for item in items(raw.get("criteria"))]
        unmet = [shorten(text(item.get("title")), 80) for item in criteria if text(item.get("state")) == "not met"]
        if unmet:
            yield Finding(
                shorten(text(raw.get("title")), 80),
                f"not met: {', '.join(unmet)}",
                "it matters where this applies",
            )


def _thin_margins(document: ReleaseEvidence) -> Iterator[Finding]:
    for check in document.checks or ():
        if check.margin is None or check.required is None or not isfinite(check.margin) or not check.required:
            continue
        counts = check.required == int(check.required) and check.measured == int(check.measured or 0)
        # Classes of exactly k rows are what a search looks for; a measured share that close to its limit is chance.
        if counts or not 0 <= check.margin < THIN * abs(check.required):
            continue
        of = f" of {shorten(check.attribute, 40)}" if check.attribute else ""
        yield Finding(
            f"{model_title(check.model)}{of}",
            f"margin {measure(check.margin, 3)}, {share(check.margin / abs(check.required))} of the limit",
            "likely to fail at the next refresh: new rows will move it",
        )


def _spent_limit(document: ReleaseEvidence) -> Iterator[Finding]:
    allowed, gone = document.allowed, document.suppressed
    if allowed and gone and gone >= NEARLY * allowed:
        yield Finding(
            "Suppression limit", f"{count(gone)} of {plural(allowed, 'row')} that may be suppressed are",
            "likely to need coarser levels, or to fail, at the next refresh",
        )  # fmt: skip


def _left_out(document: ReleaseEvidence) -> Iterator[Finding]:
    overall = ratio(document.suppressed or 0, document.records) if document.records else 0.0
    for line in left_out(document):
        value = f"{shorten(line.column, 40)} {shown_label(line.label)}"
        if line.gone == line.records:
            said = f"no row is in the release: all {count(line.records)} were suppressed"
        elif line.share >= max(TWICE * overall, NOTICEABLE):
            said = f"{share(line.share)} of the rows were suppressed, of all rows {share(overall)}"
        else:
            continue
        yield Finding(value, said, "whoever analyzes the release must know that they are missing")


def _hidden(document: ReleaseEvidence) -> Iterator[Finding]:
    for item in document.attributes:
        if item.level is not None and item.height is not None and item.level >= item.height > 0:
            yield Finding(
                shorten(item.name, 40),
                "is hidden in every row",
                "nobody can use it: an algorithm by regions may keep more",
            )


def _said(item: Finding) -> Html:
    if not item.more:
        return element("bdi", item.said)
    return element("ul", *(element("li", element("bdi", line)) for line in (item.said, *item.more)))


def findings_section(document: ReleaseEvidence) -> Section | None:
    found = findings(document)
    if not found:
        return None
    rows: list[list[Content]] = [
        [
            element("span", element("bdi", item.about), class_="title"),
            _said(item),
            element("bdi", item.advice),
        ]
        for item in found
    ]
    columns = [ReportColumn("About"), ReportColumn("Finding"), ReportColumn("What it means")]
    return section(
        "findings",
        "Findings",
        paragraph(
            "Every requirement of the policy holds. These points are beyond what it asks for: decide on each before "
            "the release is passed on."
        ),
        table(f"{plural(len(found), 'finding')}", columns, rows, stacked=True),
    )  # fmt: skip

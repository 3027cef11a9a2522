"""What was released, and whether it holds: the first thing that is read, and often the only one."""

from __future__ import annotations

from collections.abc import Sequence

from sqlanon.evidence.json_values import items, ratio, text
from sqlanon.evidence.release_evidence import ModelEvidence, ReleaseEvidence
from sqlanon.report.markup import Content, Html, element, together
from sqlanon.report.sections.findings import Finding, findings
from sqlanon.report.sections.parts import Section, bullets, code, metric, paragraph, strong
from sqlanon.report.wording import count, distinguish, measure, model_title, odds, plural, share

MOST_FINDINGS = 4
KINDS = {"table": "the table ", "view": "the view ", "path": "the file "}


def _what_happened(document: ReleaseEvidence) -> list[Content]:
    released = [" released as ", KINDS.get(document.kind, ""), code(document.name)]
    source = code(document.source)
    if document.released is not None and document.records is not None:
        rows = f"{count(document.released)} of {plural(document.records, 'row')}"
        return [strong(rows), " of ", source, " were", *released]
    if document.records is not None:
        return [strong(plural(document.records, "row")), " of ", source, " were", *released]
    return [source, " was", *released]


def _sentence(document: ReleaseEvidence) -> Html:
    happened = _what_happened(document)
    asked = len(document.checks or ())
    requirements = f"{plural(asked, 'privacy requirement')}" if asked else "privacy requirements"
    if document.verdict is None:
        return together(happened, "; ", strong("no privacy requirement was checked"), ".")
    if document.verdict:
        every = "the privacy requirement holds" if asked == 1 else f"all {requirements} hold"
        return together(happened, ", and ", strong(every), ".")
    broken = len(document.broken)
    if broken:
        what = f"{count(broken)} of {requirements} {'is' if broken == 1 else 'are'} broken"
    else:
        what = "the table as a whole is not fit for release"
    return together(happened, ", but ", strong(what), ": it must not be passed on.")


def broken_words(check: ModelEvidence) -> str:
    """What is wrong with a requirement, with its numbers."""
    of = f" of {check.attribute}" if check.attribute else ""
    told = f"{model_title(check.model)}{of}"
    if check.measured is not None and check.required is not None:
        measured, required = distinguish(check.measured, check.required)
        told += f": {required} required, {measured} measured"
    if check.broken_records and check.broken_classes:
        told += f", in {plural(check.broken_classes, 'class')} with {plural(check.broken_records, 'row')}"
    return told


def _tile(title: str, value: str, note: str | None) -> Html:
    # Within a <dl>, a <div> groups the term with its values.
    noted = element("dd", note, class_="note") if note else None
    return element("div", element("dt", title), element("dd", value, class_="figure"), noted)


def _tiles(document: ReleaseEvidence) -> list[Html]:
    tiles = []
    if document.released is not None and document.records:
        note = f"{count(document.released)} of {count(document.records)}"
        tiles.append(_tile("Rows released", share(ratio(document.released, document.records)), note))
    smallest = document.smallest_class
    if smallest and smallest.measured is not None:
        required = f"{measure(smallest.required)} required" if smallest.required is not None else None
        tiles.append(_tile("Smallest class", measure(smallest.measured), required))
    after, before = document.chances.after, document.chances.before
    if after and after.highest is not None:
        was = f"was {share(before.highest)}" if before and before.highest is not None else None
        note = ", ".join(word for word in (odds(after.highest), was) if word)
        tiles.append(_tile("Highest risk of being recognized", share(after.highest), note))
    if (lost := lost_share(document)) is not None:
        tiles.append(_tile("Detail lost", share(lost[1]), f"{lost[0]}; 100% would leave nothing"))
    return tiles


def lost_share(document: ReleaseEvidence) -> tuple[str, float] | None:
    """The loss that was minimized where it is a share, or else the normalized certainty penalty."""
    for name in (document.minimize, "ncp"):
        if name in document.loss and is_share(name):
            return name, document.loss[name]
    return None


def is_share(name: str) -> bool:
    known = metric(name)
    return known is not None and ("0 to 1" in known.measures or known.measures.startswith("share"))


def verdict_state(document: ReleaseEvidence) -> str:
    """The class of the style sheet that a verdict has."""
    return {True: "warn" if findings(document) else "good", False: "bad", None: "unknown"}[document.verdict]


def verdict_words(document: ReleaseEvidence) -> str:
    holds = "Holds, with findings" if findings(document) else "Holds"
    return {True: holds, False: "Does not hold", None: "Not checked"}[document.verdict]


def verdict_badge(document: ReleaseEvidence) -> Html:
    """The verdict in a word, with a sign, so that colour is never the only difference."""
    state = verdict_state(document)
    sign = {"warn": "!", "good": "✓", "bad": "✗", "unknown": "?"}[state]
    told = verdict_words(document)
    return element("span", element("span", sign, aria_hidden="true"), " ", told, class_=f"badge {state}")


def verdict(document: ReleaseEvidence) -> Section:
    found = findings(document)
    state = verdict_state(document)
    wrong = [*(document.breaches or ()), *(broken_words(check) for check in document.broken)]
    linked = document.linked_rows or {}
    if items(linked.get("problems")):
        wrong.append(f"{text(linked.get('uniqueness'))}: accepted by the policy, and not protected")
    tiles = _tiles(document)
    body = element(
        "section",
        element("h2", "Verdict ", verdict_badge(document), id="verdict-title"),
        paragraph(_sentence(document), class_="sentence"),
        bullets(wrong, "wrong") if wrong else None,
        _first_findings(found) if found else None,
        element("dl", *tiles, class_="tiles") if tiles else None,
        _notes(document),
        id="verdict",
        class_=f"verdict {state}",
        aria_labelledby="verdict-title",
    )
    return Section("verdict", "Verdict", body)


def _first_findings(found: Sequence[Finding]) -> Html:
    listed = [
        element("li", strong(element("bdi", item.about)), ": ", element("bdi", item.said), _of_others(item))
        for item in found[:MOST_FINDINGS]
    ]
    rest = f"All {count(len(found))} findings" if len(found) > len(listed) else "What the findings mean"
    more = paragraph(element("a", rest, href="#findings"))
    return element("div", element("ul", *listed, class_="found"), more, class_="found-first")


def _of_others(item: Finding) -> str | None:
    return f" (and {plural(len(item.more), 'more column')})" if item.more else None


def _notes(document: ReleaseEvidence) -> Html | None:
    if not document.notes:
        return None
    return element("div", element("h3", "Notes"), bullets(document.notes), class_="notes")

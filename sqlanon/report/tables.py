"""The page of `sqlanon report` for tables of statistics: the verdict, each table as a table, costs and attacks.

A hidden cell is drawn the same whether it is unsafe or helps to hide another, and no cell has an interval.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlanon.errors import SqlanonError
from sqlanon.evidence.json_values import items, mapping, number, quantity, ratio, text, texts
from sqlanon.evidence.release_evidence import ReleaseEvidence
from sqlanon.report.markup import Content, Html, element
from sqlanon.report.page import KINDS, contents, document_of, with_annex
from sqlanon.report.sections import trace
from sqlanon.report.sections.parts import (
    ReportColumn,
    Section,
    bullets,
    code,
    details,
    name,
    paragraph,
    section,
    small,
    strong,
    table,
)
from sqlanon.report.sections.regulations import regulations
from sqlanon.report.sections.signatures import signatures
from sqlanon.report.wording import NOTHING, compact, count, measure, moment, plural, share, shorten

REQUIRED = ("sqlanon", "created", "release", "source", "statistics", "tables")
SHADES = 6
HIDDEN, HIDDEN_WORD = "×", "hidden"
ATTACKERS = {
    "outsider": ("Everybody", "who adds and subtracts what is shown"),
    "singleton": ("A contributor who is alone in a cell", "and knows that cell"),
    "holding": ("A contributor who is in several cells", "and knows their part in each"),
    "differencing": ("Everybody with two releases", "of the same records"),
}


def render_tables(document: Mapping[str, Any]) -> str:
    """The page as the text of an HTML file, to be written in UTF-8."""
    if missing := [key for key in REQUIRED if document.get(key) is None]:
        raise SqlanonError(
            f"the document of the report lacks {', '.join(missing)}",
            hint="a report is made from the document that a release writes",
        )
    evidence = ReleaseEvidence.from_json(document)
    listed = [mapping(item) for item in items(document["tables"])]
    made = [
        _verdict(document, evidence, listed),
        *(_one_table(place, item) for place, item in enumerate(listed, start=1)),
        *(part for part in (regulations(evidence), _attacks(document), _cost(document)) if part),
        *(part for part in (_rules(listed), _not_protected(document)) if part),
        *(_annexed(part) for part in (trace.policy(evidence), trace.versions(evidence)) if part),
        signatures(evidence),
    ]
    kind = KINDS.get(evidence.kind)
    about = [f"{kind}, made from " if kind else "Made from ", code(evidence.source), f" on {moment(evidence.created)}"]
    header = element(
        "header",
        element("p", "Tables of statistics", class_="eyebrow"),
        element("h1", name(evidence.name, 120)),
        element("p", *about, class_="about"),
    )
    footer = element(
        "footer",
        element(
            "p",
            f"Written by sqlanon {evidence.sqlanon}. It shows what the tables show. What it counts by level comes "
            "from the records: keep it as confidential as the source.",
        ),
    )
    main = element("main", *with_annex(made))
    body = element("body", header, element("div", contents(made), main, class_="columns"), footer)
    return document_of(f"Tables of statistics: {shorten(evidence.name, 80)}", body)


def _annexed(made: Section) -> Section:
    return Section(made.ident, made.title, made.body, annex=True)


# ---- the verdict


def _verdict(document: Mapping[str, Any], evidence: ReleaseEvidence, listed: Sequence[Mapping[str, Any]]) -> Section:
    problems = list(texts(document.get("problems")))
    broken = _broken_by(document)
    holds = document.get("holds") is True and not problems
    state, word, sign = (
        ("bad", "Does not hold", "✗") if not holds else ("warn", "Holds, with findings", "!") if broken
        else ("good", "Holds", "✓")
    )  # fmt: skip
    badge = element("span", element("span", sign, aria_hidden="true"), " ", word, class_=f"badge {state}")
    cells = sum(quantity(item.get("cells")) or 0 for item in listed)
    hidden = sum(quantity(item.get("hidden")) or 0 for item in listed)
    told = "no unsafe cell can be computed from them" if holds else "they do not protect every unsafe cell"
    sentence = paragraph(
        strong(plural(len(listed), "table")), " with ", strong(plural(cells, "cell")), " were made from ",
        code(evidence.source), ", and ", strong(told), ": they must not be passed on." if not holds else ".",
        class_="sentence",
    )  # fmt: skip
    found = mapping(document.get("statistics"))
    tiles = [
        _tile("Cells hidden", share(ratio(hidden, cells)) if cells else NOTHING, f"{count(hidden)} of {count(cells)}"),
        _tile("Unsafe cells", count(quantity(found.get("unsafe"))), "before they were protected"),
        _tile(
            "Attackers",
            count((quantity(found.get("attackers")) or 0) + 1),
            "everybody, and contributors who know their own amounts",
        ),
        _tile("Above the least cost", _gap(found), _search_words(found)),
    ]
    body = element(
        "section",
        element("h2", "Verdict ", badge, id="verdict-title"),
        sentence,
        bullets([*problems, *broken], "wrong") if problems or broken else None,
        element("dl", *tiles, class_="tiles"),
        id="verdict",
        class_=f"verdict {state}",
        aria_labelledby="verdict-title",
    )
    return Section("verdict", "Verdict", body)


def _broken_by(document: Mapping[str, Any]) -> list[str]:
    found = []
    for raw in items(mapping(document.get("attacks")).get("attacks")):
        item = mapping(raw)
        if broken := quantity(item.get("broken")):
            found.append(f"the attack {text(item.get('name'))} bounds {plural(broken, 'unsafe cell')} too closely")
    return found


def _tile(title: str, value: str, note: str) -> Html:
    return element(
        "div", element("dt", title), element("dd", value, class_="figure"), element("dd", note, class_="note")
    )


def _gap(found: Mapping[str, Any]) -> str:
    gap = number(found.get("gap"))
    return "not known" if gap is None else "0%" if gap == 0 else f"≤ {share(gap)}"


def _search_words(found: Mapping[str, Any]) -> str:
    search, gap = text(found.get("search")), number(found.get("gap"))
    if search == "earlier pattern":
        return "as in the earlier release of the same records"
    if gap is None:
        return f"{search}: no bound was looked for"
    return f"{search}: proven least" if gap == 0 else f"{search}: time was over"


# ---- a table as a table


def _one_table(place: int, item: Mapping[str, Any]) -> Section:
    of = text(item.get("of"))
    what = f"Sums of {of}" if of else "Counts of records"
    by = ", ".join(texts(item.get("by")))
    hidden, cells = quantity(item.get("hidden")) or 0, quantity(item.get("cells")) or 0
    maps = [mapping(raw) for raw in items(item.get("maps"))]
    left_out = quantity(item.get("maps_left_out")) or 0
    drawn: list[Content] = [_map(maps[0])] if maps else []
    drawn += [details(_fixed(each), _map(each)) for each in maps[1:]]
    notes = []
    if item.get("cut") is True:
        notes.append("The finest levels are not drawn; they are counted by level.")
    if left_out:
        notes.append(f"{plural(left_out, 'more map')} of this table {'is' if left_out == 1 else 'are'} not drawn.")
    return section(
        f"table-{place}",
        shorten(text(item.get("name")), 40),
        paragraph(
            f"{what} by {by}: {count(hidden)} of {plural(cells, 'cell')} hidden. The sign {HIDDEN} is all that a "
            "reader sees of a hidden cell, whatever the reason for which it is hidden."
        ),
        _levels(item),
        *drawn,
        paragraph(" ".join(notes)) if notes else None,
    )


def _fixed(each: Mapping[str, Any]) -> list[Content]:
    """Which part of a table a map is: the labels of the columns that it does not draw."""
    told: list[Content] = []
    for key, label in mapping(each.get("fixed")).items():
        told += [", " if told else "", name(text(key)), " ", name(text(label))]
    return told or ["The table"]


def _map(each: Mapping[str, Any]) -> Html:
    across = [items(raw) for raw in items(each.get("columns"))]
    head: list[Html] = [element("th", name(text(each.get("row"))), scope="col")]
    head += [_heading(raw, "col") for raw in across] or [element("th", "value", scope="col")]
    body = []
    for raw, cells in zip(items(each.get("rows")), items(each.get("cells")), strict=False):
        body.append(element("tr", _heading(items(raw), "row"), *(_cell(value) for value in items(cells))))
    caption: list[Content] = [_fixed(each), ": "] if mapping(each.get("fixed")) else []
    over = [" by ", name(text(each.get("column")))] if across else []
    caption += [name(text(each.get("row"))), *over, f"; {HIDDEN} is hidden"]
    made = element(
        "table",
        element("caption", *caption),
        element("thead", element("tr", *head)),
        element("tbody", *body),
        class_="heat cells",
    )
    # A region that scrolls must be reachable by keyboard.
    return element("div", made, class_="scroll", tabindex=0, role="region", aria_label="cells of the table")


def _heading(raw: Sequence[Any], scope: str) -> Html:
    label, depth = (text(raw[0]), quantity(raw[1]) or 0) if len(raw) == 2 else ("", 0)
    return element("th", name(label, 24), scope=scope, class_=f"depth{min(depth, 4)}")


def _cell(value: Any) -> Html:
    if value is None:
        hidden = element("span", HIDDEN, aria_hidden="true")
        return element("td", hidden, element("span", HIDDEN_WORD, class_="unseen"), class_="hidden")
    shown = number(value)
    if shown is None:
        return element("td", NOTHING, class_="absent")
    return element("td", compact(shown), title=measure(shown, 12), class_="shown")


def _levels(item: Mapping[str, Any]) -> Html:
    """How much is hidden and changed by level: a map over two dimensions, or a list."""
    by, levels = texts(item.get("by")), [mapping(raw) for raw in items(item.get("levels"))]
    if len(by) == 2:
        return _level_map(by, levels)
    changed = any("changed" in level for level in levels)
    columns = [ReportColumn("Level"), *(ReportColumn(title, True) for title in ("Cells", "Hidden", "Value hidden"))]
    columns += [ReportColumn("Changed", True)] if changed else []
    rows: list[list[Content]] = []
    for level in levels:
        words = ", ".join(
            f"{column} {_level_word(quantity(depth) or 0)}"
            for column, depth in zip(by, items(level.get("level")), strict=False)
        )
        row: list[Content] = [words, count(quantity(level.get("cells"))), _hidden_words(level), _value_words(level)]
        rows.append([*row, _changed_words(level)] if changed else row)
    return table("Hidden cells by level, from the total down", columns, rows, stacked=True)


def _level_map(by: Sequence[str], levels: Sequence[Mapping[str, Any]]) -> Html:
    found = {tuple(quantity(depth) or 0 for depth in items(level.get("level"))): level for level in levels}
    down, across = (sorted({level[place] for level in found}) for place in (0, 1))
    head = [element("th", name(by[0]), " \\ ", name(by[1]), scope="col")]
    head += [element("th", _level_word(depth), scope="col") for depth in across]
    body = []
    for row in down:
        cells = [_level_cell(found.get((row, column))) for column in across]
        body.append(element("tr", element("th", _level_word(row), scope="row"), *cells))
    made = element(
        "table",
        element("caption", "Hidden cells by level: how many, and how much of the value they hold"),
        element("thead", element("tr", *head)),
        element("tbody", *body),
        class_="heat narrow",
    )
    return element("div", made, class_="scroll")


def _level_word(depth: int) -> str:
    return "total" if depth == 0 else f"level {depth}"


def _level_cell(level: Mapping[str, Any] | None) -> Html:
    if level is None:
        return element("td", NOTHING)
    cells, hidden = quantity(level.get("cells")) or 0, quantity(level.get("hidden")) or 0
    shade = 0 if not hidden else min(SHADES, 1 + int(ratio(hidden, cells) * SHADES))
    below = [part for part in (_value_words(level), _changed_words(level)) if part != NOTHING]
    return element(
        "td", f"{count(hidden)} of {count(cells)}", small(", ".join(below)) if below else None, class_=f"h{shade}"
    )


def _hidden_words(level: Mapping[str, Any]) -> str:
    cells, hidden = quantity(level.get("cells")) or 0, quantity(level.get("hidden")) or 0
    return f"{count(hidden)}, {share(ratio(hidden, cells))}" if hidden and cells else count(hidden)


def _value_words(level: Mapping[str, Any]) -> str:
    value = number(level.get("hidden_value"))
    return NOTHING if value is None or not level.get("hidden") else f"{share(value)} of the value"


def _changed_words(level: Mapping[str, Any]) -> str:
    changed, far = quantity(level.get("changed")), number(level.get("change"))
    if changed is None:
        return NOTHING
    return f"{count(changed)} changed" + ("" if far is None else f", by {share(far)} on average")


# ---- attacks, cost, rules


def _attacks(document: Mapping[str, Any]) -> Section | None:
    found = mapping(document.get("attacks"))
    rows: list[list[Content]] = []
    for raw in items(found.get("attacks")):
        item = mapping(raw)
        own = text(item.get("name"))
        who, knows = ATTACKERS.get(own, (own, ""))
        narrowest = number(item.get("narrowest"))
        rows.append([
            [element("span", who, class_="title"), small(knows)],
            f"{count(quantity(item.get('broken')))} of {count(quantity(found.get('unsafe')))}",
            count(quantity(item.get("exact"))),
            NOTHING if narrowest is None else share(narrowest),
        ])  # fmt: skip
    why = text(document.get("attacks_left_out"))
    if not rows:
        return section("attacks", "Attacks", paragraph(why)) if why else None
    columns = [ReportColumn("Attacker"), *(ReportColumn(title, True) for title in (
        "Bounded too closely", "Known exactly", "Narrowest of these"))]  # fmt: skip
    not_judged = [f"{key}: {text(reason)}" for key, reason in mapping(found.get("not_judged")).items()]
    return section(
        "attacks",
        "Attacks",
        paragraph(
            "Each attacker solves a linear program over all that is shown, and over what they know. A cell is bounded "
            "too closely if what is left open is less than its rule asks for."
        ),
        table("What attackers find out about unsafe cells", columns, rows, stacked=True),
        bullets([f"not judged: {line}" for line in not_judged]) if not_judged else None,
    )


def _cost(document: Mapping[str, Any]) -> Section:
    found = mapping(document.get("statistics"))
    bound = number(found.get("bound"))
    rows: list[list[Content]] = [
        ["Search", text(found.get("search"))],
        ["Cost of what is hidden beside unsafe cells", measure(number(found.get("cost")))],
        ["No pattern costs less than", NOTHING if bound is None else measure(bound)],
        ["Above the least cost", _gap(found)],
        ["Cells with their equations", f"{count(quantity(found.get('variables')))}, "
                                       f"{count(quantity(found.get('equations')))}"],
        ["Linear programs", count(quantity(found.get("programs")))],
        ["Seconds, of the solver alone", f"{measure(number(found.get('seconds')))}, "
                                         f"{measure(number(found.get('solver_seconds')))}"],
    ]  # fmt: skip
    columns = [ReportColumn("What"), ReportColumn("Value")]
    return section(
        "cost",
        "Cost",
        paragraph("What protection took from the tables, in the weight that the policy gives to cells, and how far "
                  "that is from the least."),
        table("Cost and gap", columns, rows, narrow=True),
    )  # fmt: skip


def _rules(listed: Sequence[Mapping[str, Any]]) -> Section | None:
    rows: list[list[Content]] = []
    for item in listed:
        by_rule = mapping(item.get("by_rule"))
        for rule in texts(item.get("rules")):
            found = quantity(by_rule.get(rule.split(" ", 1)[0])) or 0
            rows.append([[element("span", name(text(item.get("name"))), class_="title")], rule, count(found)])
    if not rows:
        return None
    columns = [ReportColumn("Table"), ReportColumn("Rule"), ReportColumn("Unsafe cells", True)]
    return section(
        "rules", "Rules", paragraph("When a cell is unsafe: if any of these rules says so."),
        table("Unsafe cells by rule, with the source as it is now", columns, rows),
    )  # fmt: skip


def _not_protected(document: Mapping[str, Any]) -> Section | None:
    found = texts(document.get("not_protected"))
    return section("not-protected", "Not protected", bullets(found)) if found else None

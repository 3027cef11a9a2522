"""The report: what it says, what it leaves out, and that nothing in a document becomes markup."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from conftest import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from report_page import Node, parse
from report_sample import sample

import sqlanon.report
from sqlanon.errors import SqlanonError
from sqlanon.report import render

MINIMAL = {
    "sqlanon": "0.2.0",
    "created": "2026-11-16T05:00:00Z",
    "release": {"kind": "table", "name": "patients_released"},
    "source": "patients",
}
# Which part of the document a section comes from: without the part there is no section.
SECTIONS = {
    "requirements": "checks",
    "risks": "risk",
    "risk-measures": "risks",
    "attacks": "attacks",
    "not-protected": "not_protected",
    "class-sizes": "class_sizes",
    "distributions": "distributions",
    "workload": "workload",
    "map": "map",
    "suppressed": "suppressed",
    "candidates": "candidates",
    "plan": "plan",
    "policy": "policy",
    "sql": "sql",
}
ALWAYS = {"verdict", "columns", "losses", "findings", "versions", "signatures"}
TAGS = {
    "document", "html", "head", "meta", "title", "style", "body", "header", "nav", "main", "section", "article",
    "footer", "h1", "h2", "h3", "h4", "p", "ol", "ul", "li", "a", "span", "bdi", "code", "pre", "strong", "i", "dl",
    "dt", "dd", "div", "table", "caption", "thead", "tbody", "tr", "th", "td", "figure", "details", "summary",
    "svg", "desc", "text", "rect", "line", "circle", "polyline",
}  # fmt: skip


def page_of(document: dict[str, Any]) -> Node:
    return parse(render(document))


def spaced(node: Node) -> str:
    return " ".join(node.text.split())


def sections_of(page: Node) -> list[str | None]:
    return [node.attributes.get("id") for node in page.every("section")]


@pytest.fixture(scope="module")
def rich() -> Node:
    return page_of(sample())


# What a whole report looks like


def test_the_sample_has_every_section_and_the_verdict_is_first(rich: Node) -> None:
    found = sections_of(rich)
    assert found[0] == "verdict"
    assert found[-1] == "signatures"
    assert set(found) == ALWAYS | set(SECTIONS)
    assert [link.attributes["href"] for link in rich.every("nav")[0].every("a")] == [f"#{ident}" for ident in found]


def test_the_file_is_small_and_stands_alone(rich: Node) -> None:
    text = render(sample())
    assert len(text.encode()) < 300_000
    assert text.startswith("<!DOCTYPE html>\n<html lang=")
    assert {node.tag for node in rich.walk()} <= TAGS
    for node in rich.walk():
        assert not set(node.attributes) & {"src", "srcset", "action", "xlink:href", "background", "poster"}, node.tag
        assert (node.attributes.get("href") or "#").startswith("#")
        assert not any(name.startswith("on") for name in node.attributes)
    style = rich.every("style")[0].text
    assert "url(" not in style and "@import" not in style and "@font-face" not in style
    assert "default-src 'none'" in (rich.every("meta")[1].attributes["content"] or "")


def test_headings_go_down_one_step_at_a_time(rich: Node) -> None:
    levels = [int(node.tag[1]) for node in rich.every("h1", "h2", "h3", "h4")]
    assert levels[0] == 1 and levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))


def test_tables_and_plots_can_be_read_aloud(rich: Node) -> None:
    for table in rich.every("table"):
        assert table.children and isinstance(table.children[0], Node)
        assert table.children[0].tag == "caption" and table.children[0].text.strip()
        assert all(head.attributes.get("scope") in ("col", "row") for head in table.every("th"))
        widths = {len(row.every("th", "td")) for row in table.every("tr")}
        assert len(widths) == 1
    plots = rich.with_class("plot")
    assert len(plots) > 12
    for plot in plots:
        assert plot.attributes["role"] == "img" and len(plot.attributes["aria-label"] or "") > 10
        assert plot.every("title")[0].text and plot.every("desc")[0].text
    idents = [node.attributes["id"] for node in rich.walk() if "id" in node.attributes]
    assert len(idents) == len(set(idents))


# What it says


def test_the_verdict_in_one_sentence(rich: Node) -> None:
    document = sample()
    sentence = spaced(rich.with_class("sentence")[0])
    released = f"{document['released']:,}"
    assert sentence == (
        f"{released} of 4,000 rows of patients were released as the table patients_released, "
        "and all 3 privacy requirements hold."
    )
    assert spaced(rich.with_class("badge")[0]) == "! Holds, with findings"


def _break_a_check(document: dict[str, Any]) -> None:
    document["checks"][1].update(holds=False, broken_classes=3, broken_records=42, measured=1.0)


def _contradict_a_check(document: dict[str, Any]) -> None:
    document["checks"][0].update(holds=True, broken_classes=1)


def _forget_a_check(document: dict[str, Any]) -> None:
    document["checks"][0].update(holds=None, broken_classes=None)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda document: document.update(holds=False), "the table as a whole is not fit for release"),
        (lambda document: document.update(holds="no"), "the table as a whole is not fit for release"),
        (lambda document: document.update(breaches=["name is in the release"]), "name is in the release"),
        (_break_a_check, "distinct l-diversity of diagnosis: 2 required, 1 measured, in 3 classes with 42 rows"),
        (_contradict_a_check, "1 of 3 privacy requirements is broken"),
        (_forget_a_check, "1 of 3 privacy requirements is broken"),
    ],
)
def test_the_verdict_fails_closed(change: Callable[[dict[str, Any]], None], told: str) -> None:
    document = sample()
    change(document)
    page = page_of(document)
    assert spaced(page.with_class("badge")[0]) == "✗ Does not hold"
    assert told in spaced(page.with_id("verdict"))
    assert "must not be passed on" in spaced(page.with_class("sentence")[0])


def test_nothing_checked_is_not_called_safe() -> None:
    page = page_of(MINIMAL)
    assert spaced(page.with_class("badge")[0]) == "? Not checked"
    assert "no privacy requirement was checked" in spaced(page.with_class("sentence")[0])


@pytest.mark.parametrize(
    ("measures", "measured", "required", "shown"),
    [
        ("records; worse when smaller", 7.0, 5.0, ["at least 5", "7", "+2 40% of the limit"]),
        ("records; worse when smaller", 3.0, 5.0, ["at least 5", "3", "−2 40% of the limit"]),
        ("distance; worse when larger", 0.3, 0.4, ["at most 0.4", "0.3", "+0.1 25% of the limit"]),
        ("distance; worse when larger", 0.5, 0.4, ["at most 0.4", "0.5", "−0.1 25% of the limit"]),
        ("distance; worse when larger", 0.4, 0.4, ["at most 0.4", "0.4", "none to spare"]),
        ("mix; worse when smaller", 4.99999, 5.0, ["at least 5", "4.99999", "−1 × 10⁻⁵ <0.01% of the limit"]),
        ("gain; worse when larger", math.inf, 2.0, ["at most 2", "infinite", "–"]),
    ],
)
def test_margins_point_the_right_way(measures: str, measured: float, required: float, shown: list[str]) -> None:
    check = {"model": "m", "measures": measures, "measured": measured, "required": required, "holds": True}
    page = page_of({**MINIMAL, "checks": [check]})
    cells = page.with_id("requirements").every("td")[:3]
    for cell in cells:
        for plot in cell.every("svg"):
            plot.children = []
        for part in cell.with_class("small"):
            part.children.insert(0, " ")
    assert [spaced(cell) for cell in cells] == shown


@pytest.mark.full
def test_a_table_of_risks_before_and_after(rich: Node) -> None:
    rows = [[spaced(cell) for cell in row.every("td")] for row in rich.with_id("risks").every("tr")][1:]
    assert rows[0] == ["100%certain", "20%1 in 5"]
    assert rows[2][1] == "0"


def test_losses_are_told_overall_and_by_attribute(rich: Node) -> None:
    document = sample()
    overall, others = rich.with_id("losses").every("table")
    each = rich.with_id("columns").every("table")[0]
    assert f"{document['loss']['ncp']:.1%}" in overall.text and "minimized" in overall.text
    # A privacy officer sees one number; who wants the other metrics unfolds them.
    (folded,) = rich.with_id("losses").every("details")
    assert others in list(folded.walk()) and f"{document['loss']['discernibility']:,.0f}" in others.text
    for attribute in document["attributes"]:
        row = next(row for row in each.every("tr") if spaced(row).startswith(attribute["name"]))
        if "level" in attribute:
            assert f"{attribute['level']} of {attribute['height']}" in spaced(row)
        assert attribute["what"] in spaced(row)


def test_every_column_of_the_policy_is_accounted_for() -> None:
    """Who signs a release looks for columns that are left out, and for those that are shown as they are."""
    roles = {
        "name": "identifier", "panelist": {"role": "identifier", "pseudonym": True}, "age": "quasi_identifier",
        "disease": "sensitive", "income": "sensitive", "ward": "insensitive",
    }  # fmt: skip
    document = {
        **MINIMAL, "holds": True, "attributes": [{"name": "age", "role": "quasi_identifier", "loss": 0.2}],
        "policy": {"name": "p.yml", "hash": "", "text": json.dumps({"columns": roles})},
    }  # fmt: skip

    def told(**more: Any) -> list[str]:
        tables = page_of({**document, **more}).with_id("columns").every("table")
        return [spaced(row) for table in tables for row in table.every("tr")]

    as_written = " ".join(told())
    for words in ("name identifier left out", "panelist identifier a pseudonym", "disease sensitive its value in each",
                  "ward insensitive its value in each", "age quasi-identifier"):  # fmt: skip
        assert words.replace(" ", "") in as_written.replace(" ", "")
    assert "Level" not in as_written  # regions have none
    noisy = [{"method": "rank_swap", "params": {"columns": ["income"], "percent": 2}, "summary": ""}]
    changed = "".join(told(transformations=noisy)).replace(" ", "")
    assert "incomesensitivechangedbyrankswap" in changed
    assert "wardinsensitiveitsvalueineachreleasedrow,afterthetransformations" in changed
    for text in ("{", "[]", "null"):
        assert len(page_of({**document, "policy": {"text": text}}).with_id("columns").every("table")) == 1


def test_candidates_say_why_they_were_passed_over() -> None:
    document = {
        **MINIMAL, "records": 1000, "suppressed": 20, "suppression_limit": 0.05, "holds": True, "minimize": "ncp",
        "loss": {"ncp": 0.2}, "plan": {"levels": {"age": 2, "zip": 3}},
        "candidates": [
            {"levels": {"age": 1, "zip": 3}, "loss": 0.15, "suppressed": 61, "holds": False},
            {"levels": {"age": 2, "zip": 2}, "loss": 0.15, "suppressed": 9, "holds": False},
            {"levels": {"age": 3, "zip": 3}, "loss": 0.3, "suppressed": 0, "holds": True},
            {"levels": {"age": 1, "zip": 4}, "loss": 0.2, "suppressed": 0, "holds": True},
        ],
    }  # fmt: skip
    rows = page_of(document).with_id("candidates").every("tr")[1:]
    told = [(spaced(row.every("th")[0]), spaced(row.every("td")[-1])) for row in rows]
    assert told == [
        ("This releaseage 2 and zip 3", "–"),
        ("age finer: level 1, not 2", "61 rows would have to be suppressed; 50 are allowed"),
        ("zip finer: level 2, not 3", "a requirement would be broken"),
        ("age coarser: level 3, not 2", "loses more"),
        ("age finer: level 1, not 2zip coarser: level 4, not 3", "as good"),
    ]


def test_suppressed_rows_are_counted_against_the_limit() -> None:
    document = {**MINIMAL, "records": 10000, "suppressed": 124, "suppression_limit": 0.05}
    told = spaced(page_of(document).with_id("suppressed"))
    assert "124 of 10,000 rows (1.24%) were left out" in told
    assert "The policy allows 5%, which is 500 rows; 24.8% of that was used." in told


def test_the_heat_map_outlines_the_release(rich: Node) -> None:
    document = sample()
    table = rich.with_class("heat")[0]
    chosen = next(point for point in document["map"] if point["chosen"])
    (cell,) = table.with_class("chosen")
    assert spaced(cell).startswith(f"{chosen['loss']:.1%}")
    assert len(table.every("td")) == len(document["map"])


def test_only_what_the_document_lists_is_shown() -> None:
    """Rows that slip into a document are not a part of it that the report knows, so they are not shown."""
    document = sample()
    document["rows"] = [["Mrs Secret", 47]]
    document["checks"][0]["violations"] = [{"columns": {"age": "Mrs Secret"}, "records": 1}]
    document["risk"]["before"]["people"] = ["Mrs Secret"]
    assert "Mrs Secret" not in render(document)


def test_a_report_with_original_values_says_that_it_is_confidential(rich: Node) -> None:
    assert "as confidential as the source" in rich.every("footer")[0].text
    assert "confidential" not in page_of(MINIMAL).every("footer")[0].text


# What is missing or malformed


@pytest.mark.parametrize(("ident", "part"), SECTIONS.items())
def test_a_part_that_is_missing_has_no_section(ident: str, part: str) -> None:
    document = sample()
    del document[part]
    found = sections_of(page_of(document))
    assert ident not in found
    # What is found in the part goes with it.
    assert set(found) - {"findings"} == (ALWAYS | set(SECTIONS)) - {ident, "findings"}


@pytest.mark.full
@pytest.mark.parametrize("empty", [None, [], {}, "", 0, "text", [None], {"before": None, "after": []}, [[]], [{}]])
def test_malformed_parts_do_not_break_the_report(empty: Any) -> None:
    for part in set(sample()) - set(MINIMAL):
        assert render({**sample(), part: empty}).startswith("<!DOCTYPE html>")
    page_of({**sample(), **dict.fromkeys(set(sample()) - set(MINIMAL), empty)})


def test_the_least_document() -> None:
    assert sections_of(page_of(MINIMAL)) == ["verdict", "versions", "signatures"]


def test_one_side_is_enough() -> None:
    document = sample()
    for part in ("class_sizes", "risk"):
        del document[part]["before"]
    for found in document["distributions"].values():
        found.pop("before")
    page = page_of(document)
    assert not page.with_id("class-sizes").with_class("before")
    assert not page.with_id("distributions").with_class("before")
    assert page.with_id("distributions").with_class("after")


@pytest.mark.parametrize("name", MINIMAL)
def test_a_document_of_nothing_is_refused(name: str) -> None:
    document = {key: value for key, value in MINIMAL.items() if key != name}
    with pytest.raises(SqlanonError, match=f"lacks {name}"):
        render(document)


# Text that wants to be something else

HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "' onmouseover='alert(1)",
    "</title></style></svg><script>alert(1)</script>",
    "<!-- -->",
    "&lt;b&gt; &#60;script&#62;",
    "]]><svg/onload=alert(1)>",
    "\u202eevil\u2066 \x00 \x1b[31m \ud800",
    "مستشفى الملك — بيت חולים",
    "x" * 20_000,
    "内科 " * 3000,
]


def _with_text(value: Any, text: str) -> Any:
    """The same shape with every text, and every name that the data chose, replaced."""
    if isinstance(value, str):
        return text
    if isinstance(value, list):
        return [_with_text(item, text) for item in value]
    if isinstance(value, dict):
        chosen = {"levels", "distributions", "params", "loss", "versions"}
        return {
            key: {f"{text}{place}": _with_text(item, text) for place, item in enumerate(inner.values())}
            if key in chosen and isinstance(inner, dict)
            else _with_text(inner, text)
            for key, inner in value.items()
        }
    return value


@pytest.mark.full
@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_no_text_becomes_markup(text: str) -> None:
    written = render(_with_text(sample(), text))
    written.encode("utf-8")
    page = parse(written)
    assert {node.tag for node in page.walk()} <= TAGS
    for node in page.walk():
        assert not any(name.startswith("on") or name == "src" for name in node.attributes), node
    style = (Path(sqlanon.report.__file__).parent / "style.css").read_text(encoding="utf-8")
    assert page.every("style")[0].text == style
    assert {"verdict", "distributions", "candidates", "sql"} <= set(sections_of(page))


def test_invisible_characters_are_shown() -> None:
    written = render({**MINIMAL, "sql": "SELECT 1 --\u202e edoc \u2066x\x00", "notes": ["a\u200bb"]})
    assert not re.search("[\x00\u202e\u2066\u200b]", written)
    assert "⟨U+202E⟩" in written and "⟨U+0000⟩" in written


def test_long_labels_are_cut_and_kept_under_the_pointer() -> None:
    label = "Gastro-oesophageal reflux disease " * 5
    document = {**MINIMAL, "distributions": {"diagnosis": {"before": [[label, 7]]}}}
    page = page_of(document)
    shown = page.with_id("distributions").every("text")[0]
    (hint,) = shown.every("title")
    assert hint.text == label.strip()
    assert shown.children[1:] and str(shown.children[1]).endswith("…") and len(str(shown.children[1])) < 20
    listed = page.with_id("distributions").every("bdi")[-1]
    assert listed.text.endswith("…") and listed.attributes["title"] == label.strip()


# Numbers that want to be something else


@pytest.mark.parametrize("number", [10**400, 10**18, 1e308, -1e308, math.inf, -math.inf, math.nan, -5, 0, 1e-300])
def test_no_number_breaks_the_report(number: float) -> None:
    def replaced(value: Any) -> Any:
        if isinstance(value, bool):
            return value
        if isinstance(value, int | float):
            return number
        if isinstance(value, list):
            return [replaced(item) for item in value]
        return {key: replaced(item) for key, item in value.items()} if isinstance(value, dict) else value

    page = page_of(replaced(sample()))
    for node in page.every("rect", "line", "circle", "text"):
        for name in ("x", "y", "width", "height", "cx", "cy", "x1", "y1", "x2", "y2"):
            if name in node.attributes:
                assert math.isfinite(float(node.attributes[name] or ""))


def test_numbers_are_written_for_people() -> None:
    document = {**MINIMAL, "records": 12345678, "released": 12345677, "holds": True, "loss": {"discernibility": 1.5e17}}
    page = page_of(document)
    assert "12,345,677 of 12,345,678 rows" in page.with_id("verdict").text
    assert ">99.9%" in page.with_id("verdict").text  # and not 100%: one row is missing
    assert "1.5 × 10¹⁷" in page.with_id("losses").text


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


@pytest.mark.full
@settings(max_examples=examples(60))
@given(st.data())
def test_any_value_anywhere_gives_a_page(data: st.DataObject) -> None:
    document = sample()
    place: Any = document
    while True:
        keys = list(place) if isinstance(place, dict) else range(len(place))
        key = data.draw(st.sampled_from(keys))
        if not isinstance(place[key], dict | list) or not place[key] or data.draw(st.booleans()):
            break
        place = place[key]
    place[key] = data.draw(JSON)
    if any(document.get(name) is None for name in MINIMAL):
        with pytest.raises(SqlanonError):
            render(document)
        return
    page = page_of(document)
    assert {node.tag for node in page.walk()} <= TAGS
    json.dumps(render(document))

"""Findings: what a release that holds must not hide, and the words of the verdict about it."""

from __future__ import annotations

from typing import Any

import pytest
from report_page import Node, parse

from sqlanon.report import render

HOLDS = {
    "sqlanon": "1.1.0", "created": "2026-11-16T05:00:00Z", "release": {"kind": "table", "name": "shown"},
    "source": "patients", "records": 1000, "released": 980, "suppressed": 20, "suppression_limit": 0.05, "holds": True,
    "checks": [{"model": "k_anonymity", "measures": "records in the class; worse when smaller", "measured": 5.0,
                "required": 5.0, "holds": True, "classes": 90, "broken_classes": 0}],
}  # fmt: skip


def page_of(**more: Any) -> Node:
    return parse(render({**HOLDS, **more}))


def told(page: Node) -> str:
    found = [node for node in page.every("section") if node.attributes.get("id") == "findings"]
    return " ".join(found[0].text.split()) if found else ""


def badge(page: Node) -> str:
    return " ".join(page.with_class("badge")[0].text.split())


def attack(**after: Any) -> dict[str, Any]:
    item = {"name": "definetti", "attribute": "disease", "after": {"targets": 980, "counts": "rows", **after}}
    return {"attacks": [item]}


def test_a_release_without_findings_holds() -> None:
    page = page_of(attacks=attack(broken=0, confidence=0.7))
    assert badge(page) == "✓ Holds" and not told(page)  # classes of exactly k rows are no finding


def test_an_advantage_is_a_finding_and_a_base_rate_is_none() -> None:
    """Who is nearly sure, and as often right about persons who are not in the data, has learned nothing of anybody."""
    common = attack(broken=0, confidence=0.95)
    item = {"attack": "definetti", "attribute": "disease", "against": "control", "advantage": 0.01, "finding": False}
    assert badge(page_of(attacks=common | {"advantages": [item]})) == "✓ Holds"
    assert "reaches 95% certainty" in told(page_of(attacks=common | {"advantages": [item | {"against": "margins"}]}))
    unsure = attack(broken=0, confidence=0.6)
    gain = item | {"advantage": 0.25, "finding": True}
    said = told(page_of(attacks=unsure | {"advantages": [gain]}))
    assert "guesses rightly 25% more often than about persons who are not in the data" in said


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"attacks": attack(broken=4, confidence=0.942)}, "reaches 94.2% certainty, and breaks 4 of 980 rows (0.41%)"),
        ({"attacks": attack(broken=0, confidence=0.9)}, "definetti of disease"),
        ({"checks": [{"model": "t_closeness", "measures": "distance; worse when larger", "measured": 0.299025,
                      "required": 0.3, "holds": True}]}, "margin 0.000975, 0.33% of the limit"),
        ({"suppressed": 49}, "49 of 50 rows that may be suppressed are"),
        ({"distributions": {"region": {"before": [["Ticino", 12], ["Bern", 500]],
                                       "suppressed": [["Ticino", 12], ["Bern", 3]]}}},
         "region Ticinono row is in the release: all 12 were suppressed"),
        ({"distributions": {"region": {"before": [["Ticino", 100]], "suppressed": [["Ticino", 9]]}}},
         "9% of the rows were suppressed, of all rows 2%"),
        ({"attributes": [{"name": "age", "level": 4, "height": 4}]}, "is hidden in every row"),
        ({"verdicts": [{"title": "Safe Harbor", "criteria": [{"title": "Dates", "state": "not met"}]}]},
         "not met: Dates"),
        ({"linked_rows": {"problems": ["x"], "uniqueness": "3 persons alone", "accepted": True}}, "3 persons alone"),
    ],
)  # fmt: skip
def test_a_finding_stands_beside_the_verdict(more: dict[str, Any], words: str) -> None:
    page = page_of(**more)
    assert badge(page) == "! Holds, with findings"
    assert words in told(page)
    assert "the privacy requirement holds" in page.with_id("verdict").text
    links = [link.attributes["href"] for link in page.with_id("verdict").every("a")]
    assert links == ["#findings"]


def test_findings_of_one_attack_stand_together_and_the_gravest_is_first() -> None:
    """A list by the alphabet led with an attack that broke nobody, and hid one that broke everybody."""

    def item(name: str, attribute: str, broken: int, sure: float) -> dict[str, Any]:
        after = {"targets": 980, "counts": "rows", "broken": broken, "confidence": sure}
        return {"name": name, "attribute": attribute, "after": after}

    mild, grave = item("attribute_linkage", "disease", 0, 0.95), item("freeform", "income", 400, 1.0)
    graver, third = item("freeform", "disease", 980, 1.0), item("definetti", "disease", 3, 0.99)
    page = page_of(attacks={"attacks": [mild, third, grave, graver]})
    section = next(node for node in page.every("section") if node.attributes.get("id") == "findings")
    rows = [" ".join(row.text.split()) for row in section.every("tr")][1:]
    assert [row[:8] for row in rows] == ["freeform", "definett", "attribut"]
    assert rows[0].index("disease: reaches 100% certainty, and breaks 980 of 980") < rows[0].index("income: reaches")
    assert "The attacker knows some values of a person in any columns" in rows[0]
    first = [" ".join(node.text.split()) for node in page.with_id("verdict").every("li")]
    assert first[0].startswith("freeform: disease: reaches 100%") and first[0].endswith("(and 1 more column)")


def test_an_advantage_is_told_by_its_two_rates() -> None:
    gain = {"attack": "definetti", "attribute": "disease", "against": "margins", "advantage": 0.25, "finding": True,
            "attacked": {"rate": 0.454}, "by_margins": {"rate": 0.272}, "control": {"rate": 0.4}}  # fmt: skip
    unsure = attack(broken=0, confidence=0.6)
    said = told(page_of(attacks=unsure | {"advantages": [gain]}))
    assert "guesses 45.4% rightly; the most frequent value of all would be right for 27.2%" in said
    said = told(page_of(attacks=unsure | {"advantages": [gain | {"against": "control"}]}))
    assert "guesses 45.4% rightly; of persons who are not in the data 40%" in said


def test_a_release_that_does_not_hold_has_graver_faults() -> None:
    page = page_of(holds=False, attacks=attack(broken=4, confidence=0.99))
    assert badge(page) == "✗ Does not hold" and not told(page)


def test_the_order_of_the_page() -> None:
    page = page_of(
        attacks=attack(broken=4, confidence=0.99), attributes=[{"name": "age", "level": 1, "height": 4}],
        verdicts=[{"title": "Safe Harbor", "criteria": [{"title": "Dates", "state": "met"}]}],
    )  # fmt: skip
    found = [node.attributes.get("id") for node in page.every("section")]
    assert found == ["verdict", "regulations", "columns", "suppressed", "findings", "requirements", "attacks",
                     "versions", "signatures"]  # fmt: skip
    inside = [node for node in page.every("main")[0].children if isinstance(node, Node)]
    place = [node.attributes.get("class") for node in inside].index("divider")
    assert inside[place - 1].attributes["id"] == "findings" and inside[place + 1].attributes["id"] == "requirements"


def test_names_in_findings_are_text() -> None:
    page = page_of(distributions={"<b>x": {"before": [["<i>", 9]], "suppressed": [["<i>", 9]]}})
    assert "<b>x <i>" in told(page)

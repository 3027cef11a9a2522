"""The section of sets of items in a report."""

from __future__ import annotations

import re

import pytest
from conftest import Database
from itemsets_world import asked, fill

from sqlanon.release import publish
from sqlanon.report import render

TREE = {"*": ["A", "B"], "A": ["a1", "a2"], "B": ["b1", "b2"]}


def page(database: Database, **changed: object) -> str:
    fill(database, [each.split() for each in ("a1 b1 b2", "a2 b1", "a2 b1 b2", "a1 a2 b2")])
    policy = asked([{"km_anonymity": {"k": 2, "m": 2}}], TREE, release={"table": "r"})
    document = publish(policy, database.engine, workload=False).document
    return render({**document, "items": {**document["items"], **changed}})


def test_a_report_shows_persons_and_items_before_and_after(database: Database) -> None:
    html = page(database)
    (found,) = re.findall(r'<section id="item-sets".*?</section>', html, flags=re.DOTALL)
    text = re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", found))
    assert "No item was left out" in text
    assert re.search(r"Persons 4 4 Items of persons 11 10 Different items, and labels that stand for them 4 3", text)
    assert 'class="before"' in found and 'class="after"' in found
    for title in ("Persons by number of items or labels", "Persons with an item or label, the most frequent first"):
        assert f"{title}, before" in text and f"{title}, after" in text
    # By hand: a2 b1, a2 b2 and b1 b2 are had by two each, and of seven pairs b1 b2 alone is left as it is.
    assert "most frequent sets of two items and more, " in text and "(tKd " in text
    # The supports of b2, b1, a2, a1 are 3, 3, 3, 2; those of the labels A, b1, b2 are 4, 3, 3.
    assert re.findall(r"<title>(\d+): (\d+)</title>", found)[-7:] == [
        ("1", "3"), ("2", "3"), ("3", "3"), ("4", "2"), ("1", "4"), ("2", "3"), ("3", "3")
    ]  # fmt: skip


@pytest.mark.parametrize("broken", [None, "x", [["a"]], [[1]], [[1, "<b>"]], {"1": 2}])
def test_a_report_of_damaged_evidence_leaves_out_what_it_cannot_read(duck: Database, broken: object) -> None:
    html = page(duck, sizes_before=broken, persons="<script>")
    assert 'id="item-sets"' in html and "<script>alert" not in html

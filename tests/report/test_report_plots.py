"""The plots of the report, and its colours."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from report_page import parse

import sqlanon.report
from sqlanon.report.plots.bars import columns
from sqlanon.report.plots.class_sizes import SizeBand, pyramid
from sqlanon.report.plots.svg import ticks
from sqlanon.report.plots.tradeoff import _spread, lines


def test_bars_of_class_sizes_are_as_long_as_they_say() -> None:
    rows = [SizeBand(1, 1, (400, 400), (0, 0), True), SizeBand(2, 3, (100, 40), (300, 120), False)]
    plot = parse(pyramid(rows, "2"))
    lengths = {
        (node.attributes["class"], node.every("title")[0].text): float(node.attributes["width"] or 0)
        for node in plot.every("rect")
        if node.attributes["class"] != "danger-ground"
    }
    by_rows = {name[1].split(" in ")[0]: length for name, length in lengths.items()}
    assert by_rows["before: 100 rows"] == pytest.approx(by_rows["before: 400 rows"] / 4, abs=0.02)
    assert by_rows["after: 300 rows"] == pytest.approx(by_rows["before: 400 rows"] * 3 / 4, abs=0.02)
    assert by_rows["after: 0 rows"] == 0
    assert len(plot.with_class("danger-ground")) == 1


def test_columns_of_numbers_stand_on_a_scale() -> None:
    plot = parse(columns("age", [("30", 5), ("10", 10), ("11", 1)], "before"))
    left = [float(node.attributes["x"] or 0) for node in plot.every("rect")]
    width = 270 / 21
    assert left == pytest.approx([left[0], left[0] + width, left[0] + 20 * width], abs=0.03)


@given(st.floats(min_value=1e-9, max_value=1e15))
def test_ticks_are_round_and_reach_the_top(top: float) -> None:
    steps = ticks(top)
    assert steps[0] == 0 and steps[-1] >= top * 0.9998 and 2 <= len(steps) <= 12
    assert all(before < after for before, after in pairwise(steps))


@given(st.lists(st.floats(min_value=0, max_value=100), min_size=1, max_size=6))
def test_labels_at_the_end_of_lines_never_meet(heights: list[float]) -> None:
    moved = _spread(heights, 0, 100)
    assert all(after - before >= 13.9 for before, after in pairwise(sorted(moved)))
    assert min(moved) >= -0.01 and max(moved) <= 100.01


def test_a_line_for_each_limit() -> None:
    plot = parse(lines({0.0: {2: 0.1, 5: 0.3}, 0.05: {2: 0.1, 5: 0.2}}, (0.05, 5), lambda loss: f"{loss:.0%}", "loss"))
    assert len(plot.every("polyline")) == 2
    (ring,) = plot.with_class("ring")
    at = next(node for node in plot.with_class("mark") if node.text.startswith("k = 5, limit 5%"))
    assert (ring.attributes["cx"], ring.attributes["cy"]) == (at.attributes["cx"], at.attributes["cy"])


# Colours


def _palettes() -> dict[str, dict[str, str]]:
    style = (Path(sqlanon.report.__file__).parent / "style.css").read_text(encoding="utf-8")
    blocks = re.findall(r":root \{(.*?)\}", style, re.DOTALL)
    read = [dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", block)) for block in blocks]
    return dict(zip(("light", "dark", "print"), read, strict=True))


def _luminance(colour: str) -> float:
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def _contrast(one: str, other: str) -> float:
    low, high = sorted((_luminance(one), _luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("name", ["light", "dark", "print"])
def test_colours_have_contrast(name: str) -> None:
    """WCAG 2: 4.5 for text, 3 for the parts of a plot."""
    palette = _palettes()[name]
    on_surface = ["ink", "muted", "link", "good", "bad", "before", "after", *(f"s{place}" for place in range(6))]
    pairs = [(colour, "surface") for colour in on_surface] + [("ink", "page"), ("muted", "page"), ("link", "page")]
    pairs += [("good", "good-ground"), ("bad", "bad-ground"), ("link", "tag-ground"), ("muted", "faint-line")]
    pairs += [("ink", "bad-ground"), ("muted", "bad-ground"), ("ink", "good-ground"), ("muted", "good-ground")]
    pairs += [("on-light", f"h{place}") for place in range(4)] + [
        ("h4-ink", "h4"),
        ("on-dark", "h5"),
        ("on-dark", "h6"),
    ]
    for colour, ground in pairs:
        assert _contrast(palette[colour], palette[ground]) >= 4.5, (colour, ground)
    assert _contrast(palette["before"], palette["bad-ground"]) >= 3

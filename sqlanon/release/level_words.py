"""What readers of a release get in a column, in words: "first 4 digits, e.g. 1013*"."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlanon import hierarchies
from sqlanon.policy import HierarchyUse

LABELS = {
    "age": "age bands",
    "country": "regions of the world",
    "csv": "groups",
    "dates": "periods",
    "groups": "groups",
    "intervals": "intervals",
    "ip": "networks",
    "table": "groups",
    "tree": "groups",
    "zip3": "areas",
}


def describe_levels(use: HierarchyUse | None, levels: Sequence[int], height: int, example: str | None) -> str:
    """`levels` are those of the rows; none where each region has labels of its own. `example` is a label that the
    release shows.

    >>> describe_levels(HierarchyUse(kind="prefix", params={"length": 5}), [1], 5, "1013*")
    'first 4 digits, e.g. 1013*'
    >>> describe_levels(None, [1], 1, "*"), describe_levels(None, [0], 1, "female")
    ('hidden in every row', 'exact values, e.g. female')
    >>> describe_levels(HierarchyUse(kind="dates", params={}), [0, 2], 4, "2025-Q1")
    'exact values or periods, e.g. 2025-Q1'
    >>> describe_levels(HierarchyUse(kind="age", params={}), [], 4, "[20, 27]")
    'labels that differ by region, e.g. [20, 27]'
    """
    if levels and set(levels) == {height}:
        return "hidden in every row"
    words = [_words(use, level, height, example) for level in sorted(set(levels))]
    said = " or ".join(dict.fromkeys(words)) if words else "labels that differ by region"
    return f"{said}, e.g. {example}" if example is not None else said


def _words(use: HierarchyUse | None, level: int, height: int, example: str | None) -> str:
    if level == 0:
        return "exact values"
    if level >= height or use is None:
        return "hidden"
    if use.kind == "prefix":
        return _prefix(use.params, level, example)
    return LABELS.get(use.kind, "groups")


def _prefix(given: Mapping[str, Any], level: int, example: str | None) -> str:
    params = hierarchies.kind("prefix").Params.model_validate(given)
    kept = params.length - params.hidden()[level - 1]
    shown = "".join(character for character in example or "" if character != params.mask)
    unit = "digit" if shown.isascii() and shown.isdigit() else "character"
    return f"{'last' if params.end == 'left' else 'first'} {kept} {unit}{'' if kept == 1 else 's'}"

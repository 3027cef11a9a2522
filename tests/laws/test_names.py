"""Names say what a module holds or a function does: no bare participles, and no two classes with one name."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator

import pytest
from conftest import ROOT

PACKAGE = ROOT / "sqlanon"
IRREGULAR = {
    "asked", "bound", "built", "chosen", "cut", "done", "drawn", "found", "given", "gone", "held", "kept", "known",
    "left", "lost", "made", "meant", "past", "put", "read", "said", "seen", "sent", "set", "shown", "spelt",
    "spent", "split", "spread", "taken", "told", "thrown", "written",
}  # fmt: skip
# Words that end like a participle but are nouns of the field, adjectives, or verbs.
NOUNS = {
    "between", "bounding", "ceiling", "counting", "encoding", "even", "fitting", "listing", "mapping", "masking",
    "paren", "personalized", "resampling", "rounding", "sampling", "shorten", "slicing", "spelling", "string",
    "substring", "token", "wording",
}  # fmt: skip


def is_bare_participle(name: str) -> bool:
    """One word that says that something happened, or is done, but not what.

    >>> [is_bare_participle(name) for name in ("shown", "telling", "packed", "pack_places", "quotas", "sampling")]
    [True, True, True, False, False, False]
    """
    ends = name.endswith(("ed", "en", "ing")) or name in IRREGULAR
    return "_" not in name and ends and name not in NOUNS


def _functions() -> Iterator[tuple[str, str]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not node.name.startswith("_"):
                yield str(path.relative_to(PACKAGE)), node.name


@pytest.mark.parametrize("name", ["shown", "told", "packed", "telling", "kept"])
def test_a_bare_participle_is_found(name: str) -> None:
    assert is_bare_participle(name)


def test_modules_are_not_bare_participles() -> None:
    assert [path for path in PACKAGE.rglob("*.py") if is_bare_participle(path.stem)] == []


def test_public_functions_are_not_bare_participles() -> None:
    assert [found for found in _functions() if is_bare_participle(found[1])] == []


def test_a_class_name_means_one_thing() -> None:
    """`Params` is what every plug-in calls its parameters."""
    homes = defaultdict(list)
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_") and node.name != "Params":
                homes[node.name].append(str(path.relative_to(PACKAGE)))
    assert {name: paths for name, paths in homes.items() if len(paths) > 1} == {}

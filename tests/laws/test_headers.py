"""What is special about a plug-in stands in its header or its `TRAITS`; nobody else asks for it by its name."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest
from conftest import ROOT

from sqlanon.errors import PolicyError
from sqlanon.families import BOUNDS, TRAITS, family, module_names, parse

PACKAGE = ROOT / "sqlanon"
# Names that also mean something else: relations of sql/attacks and sql/history, a key of policies and evidence,
# measures of risk, and a transformation.
OTHER_MEANINGS = {"joined_values", "linked_rows", "permutation", "population_uniqueness", "sample_uniqueness"}
# What a form offers to try, and the attacks of rows that are carried out on trees of rows under the same names.
OFFERING = {"sqlanon/console/other_choices.py", "sqlanon/evidence/attacks/entity_attacks.py"}
NAMES = {*family("models"), *family("history"), *family("attacks"), *module_names("algorithms")} - OTHER_MEANINGS


def _strings(node: ast.AST) -> set[str]:
    return {item.value for item in ast.walk(node) if isinstance(item, ast.Constant) and isinstance(item.value, str)}


def _elements(node: ast.expr | None) -> set[str]:
    """The texts of a constant, of a collection of constants, or the keys of a mapping."""
    if isinstance(node, ast.Call) and len(node.args) == 1:  # frozenset([...])
        node = node.args[0]
    listed: list[ast.expr | None] = [node]
    if isinstance(node, ast.Tuple | ast.List | ast.Set):
        listed = [*node.elts]
    elif isinstance(node, ast.Dict):
        listed = [*node.keys]
    return {item.value for item in listed if isinstance(item, ast.Constant) and isinstance(item.value, str)}


def find_names(text: str) -> Iterator[tuple[int, str]]:
    """Lines that choose by the name of a plug-in: comparisons, cases, keys of mappings, and constants of a module."""
    tree = ast.parse(text)
    found: list[tuple[int, set[str]]] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            found.append((node.lineno, _strings(node)))
        elif isinstance(node, ast.match_case):
            found.append((node.pattern.lineno, _strings(node.pattern)))
        elif isinstance(node, ast.Dict):
            found.append((node.lineno, _elements(node)))
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "startswith":
            found.append((node.lineno, _strings(node)))
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign):
            found.append((node.lineno, _elements(node.value)))
    yield from sorted({(line, name) for line, texts in found for name in texts & NAMES})


@pytest.mark.full
def test_nobody_asks_for_a_plugin_by_its_name() -> None:
    """But its own module. Texts that people read may name it, and so may a default."""
    asking = [
        (str(path.relative_to(ROOT)), line, name)
        for path in sorted(PACKAGE.rglob("*.py"))
        for line, name in find_names(path.read_text(encoding="utf-8"))
        if path.stem != name and str(path.relative_to(ROOT)) not in OFFERING
    ]
    assert asking == []


@pytest.mark.parametrize(
    "text",
    [
        'if model.name == "k_anonymity":\n    pass',
        'if "m_invariance" != use.name:\n    pass',
        'found = [use for use in uses if use.name in ("t_closeness", "other")]',
        'def look(name):\n    match name:\n        case "stable_partition":\n            return 1',
        'BY_WAITING = frozenset(["composition"])',
        'SLOW = ("definetti",)',
        'MODEL = "k_anonymity"',
        'ready: dict[str, int] = {"mondrian": 1}',
        'def look(name):\n    return {"anatomy": 1}.get(name)',
        'known = model.name.startswith("minimality")',
    ],
)
def test_a_planted_name_is_found(text: str) -> None:
    assert len(list(find_names(text))) == 1


def test_a_text_may_name_a_plugin() -> None:
    assert list(find_names('raise PolicyError("k_anonymity cannot hold", hint="take l_diversity")')) == []
    assert list(find_names('HINT = "take k_anonymity"\nplugin("attacks", "definetti")')) == []


def test_every_word_of_the_headers_is_used() -> None:
    for folder, words in TRAITS.items():
        assert set().union(*(item.traits for item in family(folder).values())) == set(words), folder
    assert {item.bounds.kind for item in family("models").values() if item.bounds is not None} == set(BOUNDS)


@pytest.mark.parametrize(
    ("folder", "line", "message"),
    [
        ("history", "-- traits: wiat", "unknown trait 'wiat'"),
        ("attacks", "-- traits: wait", "unknown trait 'wait'"),
        ("models", "-- traits: slow", "unknown trait 'slow'"),
        ("models", "-- bounds: sise(k)", "cannot be read"),
        ("models", "-- bounds: size k", "cannot be read"),
        ("models", "-- bounds: size(l)", "'bounds' names 'l', which is no parameter"),
    ],
)
def test_a_misspelled_header_is_refused(folder: str, line: str, message: str) -> None:
    text = f"-- A model.\n-- param: k integer >= 2: smallest class\n{line}\nSELECT 1"
    with pytest.raises(PolicyError, match=message):
        parse(folder, "planted", text)

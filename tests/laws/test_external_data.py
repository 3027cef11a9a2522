"""Data that may not be committed is read in tests/oracles/external alone, and each of its tests names another check."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import EXTERNAL, ROOT, TESTS
from oracle_numbers import read_numbers

FOLDER = ROOT / EXTERNAL
READER = "shared_data"
# Benchmarks are no tests: they say what they measured, and on which table.
EXEMPT = (FOLDER, TESTS / "bench")
CHECK = re.compile(r"(tests/[\w/]+\.py)::(test_\w+)")


def names_external_data(text: str) -> bool:
    """Whether a module imports the reader of that data, or spells the folder itself.

    >>> names_external_data("from shared_data import shared"), names_external_data("ROOT.parent / 'shared' / 'data'")
    (True, True)
    >>> names_external_data("def fill(shared: bool): print('shared')")
    False
    """
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.ImportFrom(module=module) if module == READER:
                return True
            case ast.Import(names=names) if any(name.name == READER for name in names):
                return True
            case ast.BinOp(op=ast.Div(), right=ast.Constant(value="shared")):
                return True
            case ast.Constant(value=str(value)) if "../shared" in value:
                return True
    return False


def find_tests(path: Path) -> dict[str, ast.FunctionDef]:
    body = ast.parse(path.read_text(encoding="utf-8")).body
    return {node.name: node for node in body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")}


def test_no_other_test_reads_external_data() -> None:
    own = Path(__file__)
    others = [path for path in TESTS.rglob("*.py") if path != own and not any(map(path.is_relative_to, EXEMPT))]
    assert [str(path) for path in others if names_external_data(path.read_text(encoding="utf-8"))] == []


@pytest.mark.parametrize("path", sorted(FOLDER.glob("test_*.py")), ids=lambda path: path.stem)
def test_each_external_test_names_a_check_that_everybody_can_run(path: Path) -> None:
    """In the docstring of the file, one item for each claim: its tests, a colon, and file::test."""
    said = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    named = set()
    for item in re.split(r"^- ", said, flags=re.MULTILINE)[1:]:
        claims, checks = item.split(":", 1)
        found = CHECK.findall(checks)
        assert found, item
        named |= {claim.strip() for claim in claims.split(",")}
        for file, name in found:
            assert not file.startswith(EXTERNAL), item
            marks = ast.dump(ast.Module(find_tests(ROOT / file)[name].decorator_list, []))
            # What is marked `full` needs no data either: `make test-full` runs it everywhere.
            assert "attr='long'" not in marks, f"{name} is not run by everybody"
    assert named == set(find_tests(path))


@pytest.mark.full
def test_a_session_says_what_it_skipped(tmp_path: Path) -> None:
    """One line at the end of a session without the data."""
    asked = [
        sys.executable,
        "-m",
        "pytest",
        "--full",
        "-m",
        "not long",
        "-p",
        "no:cacheprovider",
        f"{EXTERNAL}test_pycanon.py",
    ]
    given = os.environ | {"SQLANON_TEST_SHARED": str(tmp_path)}
    done = subprocess.run(asked, cwd=ROOT, env=given, capture_output=True, text=True)
    (line,) = [line for line in done.stdout.splitlines() if "not checked" in line]
    cases = len(read_numbers("pycanon_adult")["cases"])
    assert line.startswith(f"not checked: {2 * cases} of test_pycanon.py in {EXTERNAL}, because data")
    assert done.returncode == 0 and " passed" not in done.stdout, done.stdout

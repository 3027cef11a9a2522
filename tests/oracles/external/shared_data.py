"""Data that may not be committed: Adult with ARX's hierarchies, and the data sets of sdcMicro.

They are looked for in the folder `shared` beside the checkout, or in the one that SQLANON_TEST_SHARED names. Where it
is missing, a test skips, and the session says at its end what was not checked.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from conftest import ROOT, UNCOMMITTED

SHARED = Path(os.environ.get("SQLANON_TEST_SHARED", ROOT.parent / "shared"))


def shared(*parts: str) -> Path:
    """A file or folder of that data; the test is skipped where there is none."""
    path = SHARED.joinpath(*parts)
    if not path.exists():
        pytest.skip(f"needs {'/'.join(('shared', *parts))}, {UNCOMMITTED} and is not here")
    return path


def adult_folder() -> Path:
    """Adult as ARX has it."""
    return shared("data", "adult")


def sdcmicro_file(name: str) -> Path:
    return shared("data", "sdcmicro", f"{name}.csv")

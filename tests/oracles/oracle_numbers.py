"""The numbers of other tools, in the folder `numbers`. They are part of the checkout: a missing file is an error.

The files hold results alone, no rows of anybody's data. Tests that also need the data, which may not be committed, are
in tests/oracles/external.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

NUMBERS = Path(__file__).parent / "numbers"


def read_numbers(name: str) -> Any:
    """The content of one file: `read_numbers("arx_optima")`."""
    return json.loads((NUMBERS / f"{name}.json").read_text(encoding="utf-8"))

"""The manifest of a folder with one file a version: it says which of them is shown, and is replaced in one step."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from sqlanon.errors import SourceError

MANIFEST = "manifest.json"
FORMAT = "sqlanon releases 1"


def read_manifest(folder: Path) -> dict[str, Any] | None:
    """The manifest of a folder of releases; None if there is none, or somebody else's."""
    try:
        text = (folder / MANIFEST).read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError):
        raise SourceError(f"'{folder / MANIFEST}' cannot be read", hint="may you read it?") from None
    try:
        found = json.loads(text)
    except ValueError:
        return None
    return found if isinstance(found, dict) and found.get("format") == FORMAT else None


def current_file(folder: Path) -> Path | None:
    """The file that a folder of releases shows now; None for any other folder."""
    found = read_manifest(folder)
    if found is None:
        return None
    shown = [item["behind"] for item in found["versions"] if item["status"] == "current"]
    if not shown:
        raise SourceError(f"the folder '{folder}' shows no release now", hint="it was retired; publish it again")
    return folder / str(shown[0])

"""Files that are published together: a main file, its companions beside it, and the evidence, which knows them all.

No file system moves several files at once. So the evidence keeps the SHA-256 of each of them: who reads files of two
versions can tell.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any


def companion_file(path: str, ending: str) -> str:
    """The name of a file that belongs to the release in another.

    >>> companion_file("shared/out.parquet", "sensitive")
    'shared/out_sensitive.parquet'
    """
    stem, _, kind = path.rpartition(".")
    return f"{stem}_{ending}.{kind}"


def evidence_file(path: str) -> Path:
    return Path(path + ".evidence.json")


def file_digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def recorded_digests(evidence: Path) -> dict[str, str]:
    """The names of the files that an evidence knows by their SHA-256; nothing if it names none, or cannot be read."""
    try:
        found: Any = json.loads(evidence.read_text(encoding="utf-8"))
        known = found["release"]["sha256"]
        return {Path(name).name: str(digest) for name, digest in known.items()}
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return {}


def changed_files(path: str, endings: tuple[str, ...]) -> list[str]:
    """Which of a main file and its companions are not those that the evidence beside them was written for."""
    known = recorded_digests(evidence_file(path))
    if not known:
        return []
    files = [Path(path), *(Path(companion_file(path, ending)) for ending in endings)]
    return [str(file) for file in files if known.get(file.name) != file_digest(file)]

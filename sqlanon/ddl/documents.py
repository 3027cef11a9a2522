"""Documents of policies as they were written, without their checks."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sqlanon.ddl.names import plain_name
from sqlanon.errors import PolicyError
from sqlanon.policy.read_policy import is_date, is_text
from sqlanon.policy.yaml_lines import YamlDocument, read_yaml, text_of


def read_document(path: Path) -> dict[str, Any]:
    """A document as it was written; what is wrong with it, its own checks say."""
    return parse_document(text_of(path))


def parse_document(text: str) -> dict[str, Any]:
    found: YamlDocument = read_yaml(text, is_text, is_date)
    return dict(found.data) if isinstance(found.data, Mapping) else {}


def release_of(document: Mapping[str, Any]) -> str | None:
    """The table or view that a document releases, by its plain name."""
    given = document.get("release")
    found = (given.get("view") or given.get("table")) if isinstance(given, Mapping) else None
    try:
        return plain_name(found) if isinstance(found, str) else None
    except PolicyError:
        return None

"""What changed between two versions of a release: the policy, the plan, and what was measured."""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping
from typing import Any


def compare_documents(earlier: tuple[str, Mapping[str, Any]], later: tuple[str, Mapping[str, Any]]) -> list[str]:
    """The lines of a unified diff of two documents of evidence, each with what it is called; none if nothing changed.

    >>> one = {"policy": {"text": "k: 5"}, "records": 10, "sql": "…"}
    >>> '+ "records": 11' in compare_documents(("version 1", one), ("version 2", one | {"records": 11}))
    True
    """
    names: list[str] = []
    texts: list[list[str]] = []
    for name, document in (earlier, later):
        policy = dict(document.get("policy") or {})
        lines = str(policy.pop("text", "")).splitlines()
        rest = {key: value for key, value in document.items() if key != "sql"} | {"policy": policy}
        names.append(name)
        texts.append([*lines, *json.dumps(rest, indent=1, ensure_ascii=False).splitlines()])
    return list(difflib.unified_diff(texts[0], texts[1], names[0], names[1], lineterm="", n=1))

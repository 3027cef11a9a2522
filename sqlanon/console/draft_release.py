"""The child that drafts a policy for a table, as `sqlanon init` does, for owners in the console.

It is told the file of the gateway and where to write, never the address of the database. It prints one line of JSON.
"""

from __future__ import annotations

import json
import os
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

from sqlanon.engines import connect
from sqlanon.errors import PolicyError, SqlanonError
from sqlanon.policy.files import load_gateway


def write_draft(gateway: Path, table: str, output: Path) -> dict[str, Any]:
    """Write the draft, and the hierarchies that it needs beside it."""
    from sqlanon.evidence.draft_policy import draft_policy

    database = load_gateway(gateway).located_database
    with closing(connect(database)) as engine:
        known = engine.tables()
    if table not in known or table.rpartition(".")[2].startswith("sqlanon_"):
        raise PolicyError(f"there is no table '{table}'")
    base = output.parent
    base.mkdir(mode=0o700, parents=True, exist_ok=True)
    if output.exists():
        raise PolicyError("there is a policy of that name already", hint="choose another name for the release")
    given = database if "://" in database else os.path.relpath(database)
    draft = draft_policy(given, table, base=base, folder=f"{output.name.removesuffix('.sql.yml')}_hierarchies")
    for path, content in draft.files.items():
        (base / path).parent.mkdir(mode=0o700, exist_ok=True)
        (base / path).write_text(content, encoding="utf-8", newline="")
    with open(os.open(output, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w", encoding="utf-8") as opened:
        opened.write(draft.text)
    return {"summary": draft.summary}


def run(words: list[str]) -> None:
    try:
        gateway, table, output = words
        found = write_draft(Path(gateway), table, Path(output))
        print(json.dumps({"answer": found}))
    except SqlanonError as error:
        print(json.dumps({"error": {"message": error.message, "hint": error.hint}}))


if __name__ == "__main__":
    run(sys.argv[1:])

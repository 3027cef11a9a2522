"""Commands of sqlanon in processes of their own: what publishes or reads a database does not run in the server."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from sqlanon.errors import SqlanonError
from sqlanon.server.work_messages import Failed, Failure


@dataclass(frozen=True)
class OwnerAnswer:
    """What the statement of an owner gave."""

    tag: str
    columns: tuple[tuple[str, str], ...] = ()
    rows: tuple[tuple[Any, ...], ...] = ()
    notices: tuple[str, ...] = ()


async def run_process(
    *words: str, given: str | None = None, umask: int = -1, module: str = "sqlanon"
) -> tuple[int, str, str]:
    """Run a command of sqlanon to its end: its exit code, and what it wrote."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", module, *words, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        stdin=asyncio.subprocess.DEVNULL if given is None else asyncio.subprocess.PIPE,
        env=environment(), umask=umask, start_new_session=True,
    )  # fmt: skip
    try:
        printed, complaint = await process.communicate(None if given is None else given.encode())
    except BaseException:
        with suppress(ProcessLookupError):
            process.terminate()
        await asyncio.shield(process.wait())
        raise
    return process.returncode or 0, printed.decode("utf-8", "replace"), complaint.decode("utf-8", "replace")


async def run_command(*words: str, umask: int = -1) -> str:
    """Run a command of sqlanon; what it printed. Raises with its message."""
    code, printed, complaint = await run_process(*words, umask=umask)
    if code != 0:
        said = complaint.strip().removeprefix("sqlanon: ")
        message, _, hint = said.partition("\n  hint: ")
        raise SqlanonError(message or "the command failed", hint=hint or None)
    return printed


async def run_owner_statement(text: str, words: list[str]) -> OwnerAnswer:
    """Run the statement of an owner, with the SET statements before it, under `sqlanon sql`."""
    _, printed, _ = await run_process("sql", "-", "--json", "--restricted", *words, given=text)
    try:
        found = json.loads(printed.splitlines()[-1])
    except (IndexError, ValueError):
        raise SqlanonError("the statement could not be answered") from None
    if "error" in found:
        raise Failed(Failure(**found["error"]))
    columns = tuple((str(name), str(kind)) for name, kind in found["columns"])
    return OwnerAnswer(str(found["tag"]), columns, tuple(map(tuple, found["rows"])), tuple(found["notices"]))


def environment() -> dict[str, str]:
    return os.environ | {"PYTHONUTF8": "1", "COLUMNS": "100"}

"""Asks a child process for the record of releases: the process that talks to browsers has no database open."""

from __future__ import annotations

import asyncio
import json
import sys
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sqlanon.errors import SourceError
from sqlanon.server.owner_process import environment

PATIENCE = 30.0  # seconds for one question
LINE = 64 * 2**20  # bytes of one answer
KEPT = 64  # documents of evidence, which never change


class ReadFailed(SourceError):
    """What the child says of a policy or record that cannot be read."""


@dataclass
class EvidenceReader:
    policies: Sequence[Path]
    _process: asyncio.subprocess.Process | None = None
    _started: tuple[Path, ...] = ()  # the policies that the child knows
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    _kept: OrderedDict[tuple[Any, ...], dict[str, Any]] = field(default_factory=OrderedDict)

    async def state(self, policy: Path) -> dict[str, Any]:
        """The release of a policy: its versions, runs and next time."""
        return await self._ask({"what": "state", "policy": str(policy)})

    async def evidence(self, policy: Path, version: Mapping[str, Any]) -> dict[str, Any]:
        """The evidence of a version, as `state` lists it."""
        key = (str(policy), version["release"], version["version"], version["created"], version["plan_hash"])
        if key not in self._kept:
            asked = {"what": "evidence", "policy": str(policy), "version": version["version"]}
            self._kept[key] = await self._ask(asked)
            while len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        self._kept.move_to_end(key)
        return self._kept[key]

    async def plugins(self) -> dict[str, Any]:
        """The manual pages of everything that a policy can name."""
        if ("plugins",) not in self._kept:
            self._kept["plugins",] = await self._ask({"what": "plugins"})
        return self._kept["plugins",]

    async def tables(self, gateway: Path) -> dict[str, Any]:
        """The names of the tables in the database of a gateway."""
        return await self._ask({"what": "tables", "policy": str(gateway)})

    async def require_same_places(self, policy: Path, text: str) -> None:
        """Raises an error if a text names a file, a database or an address that the policy does not name."""
        await self._ask({"what": "places", "policy": str(policy), "text": text})

    async def choices(
        self, policy: Path, given: Mapping[str, str] | None = None, levels: Mapping[str, str] | None = None
    ) -> dict[str, Any]:
        """The numbers of a policy; and with others, its text and how it differs."""
        return await self._ask({"what": "choices", "policy": str(policy), "given": given, "levels": levels})

    async def check(self, policy: Path, text: str) -> dict[str, Any]:
        """What is wrong with the text of a policy, by line; nothing is written."""
        return await self._ask({"what": "check", "policy": str(policy), "text": text})

    async def close(self) -> None:
        process, self._process = self._process, None
        if process is not None and process.returncode is None:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()

    async def _ask(self, question: dict[str, Any]) -> dict[str, Any]:
        async with self._turn:
            try:
                async with asyncio.timeout(PATIENCE):
                    answer = await self._exchange(json.dumps(question).encode() + b"\n")
            except BaseException as error:
                await asyncio.shield(self.close())  # an answer that comes too late must not be taken for the next one
                if isinstance(error, TimeoutError | OSError | ValueError):
                    raise ReadFailed("the record of releases cannot be read now", hint="try again") from None
                raise
        if "error" in answer:
            raise ReadFailed(answer["error"]["message"], hint=answer["error"]["hint"])
        found = answer["answer"]
        assert isinstance(found, dict)
        return found

    async def _exchange(self, line: bytes) -> dict[str, Any]:
        if self._started != tuple(self.policies):
            await self.close()
            self._started = tuple(self.policies)
        if self._process is None or self._process.returncode is not None:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "sqlanon.console.read_evidence", *map(str, self.policies),
                stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, limit=LINE, env=environment(),
                start_new_session=True,  # Ctrl-C is for the server, which ends it
            )  # fmt: skip
        process = self._process
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(line)
        await process.stdin.drain()
        read = await process.stdout.readline()
        if not read.endswith(b"\n"):
            raise OSError("the child has gone")
        found = json.loads(read)
        assert isinstance(found, dict)
        return found

"""What the pages are about: the policy that is served, further policies with their releases, users and sessions."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from sqlanon.console.browser_sessions import BrowserSessions
from sqlanon.console.evidence_reader import EvidenceReader
from sqlanon.ddl.policy_store import PolicyStore
from sqlanon.policy.serve import Serve
from sqlanon.server.audit import Decision, Record
from sqlanon.server.broker import Door
from sqlanon.server.login_throttle import LoginThrottle
from sqlanon.server.users import Users


@dataclass
class Site:
    door: Door
    users: Callable[[], Users]
    throttle: LoginThrottle
    files: tuple[Path, ...]  # the policies that the console was started with
    reader: EvidenceReader
    secure: bool  # whether browsers come over TLS
    sessions: BrowserSessions = field(default_factory=BrowserSessions)
    working: dict[str, asyncio.Future[str]] = field(default_factory=dict)  # by policy: one thing at a time
    watching: set[asyncio.Future[None]] = field(default_factory=set)
    key: bytes = field(default_factory=lambda: secrets.token_bytes(32), repr=False)

    @property
    def serve(self) -> Serve:
        """The policy as it is in force now."""
        return self.door.current.serve

    @property
    def policies(self) -> Mapping[str, Path]:
        """By the name that they have in addresses: those of files, and those that owners keep over SQL."""
        folder = self.serve.located_policies
        kept = PolicyStore(folder).policies() if folder is not None and folder.is_dir() else []
        found = (*self.files, *(path for path in kept if path not in self.files))
        self.reader.policies = found
        return names_of(found)

    @property
    def cookie(self) -> str:
        """A name with __Host- is kept from other hosts by browsers, and needs TLS."""
        return "__Host-sqlanon" if self.secure else "sqlanon_console"

    @property
    def origin_scheme(self) -> str:
        return "https" if self.secure else "http"

    async def write_down(
        self, principal: str, session: str, action: str, about: str, decision: Decision, sqlstate: str = "00000"
    ) -> None:
        """Write an action into the audit log. Raises Refused if that cannot be done: nobody works unseen."""
        await self.door.write_action(
            Record(
                session, principal, "console", decision, "action", kind=action, shape=about,
                policy=self.door.current.fingerprint, sqlstate=sqlstate,
            )
        )  # fmt: skip


def names_of(paths: tuple[Path, ...]) -> dict[str, Path]:
    """A name for each policy, for addresses: that of its file, and a number where two have the same.

    >>> list(names_of((Path("a/policy.yml"), Path("b/policy.yml"), Path("b/Ünï & co.yml"))))
    ['policy', 'policy-2', 'n-co']
    """
    made: dict[str, Path] = {}
    for path in paths:
        plain = "".join(
            sign if (sign.isascii() and sign.isalnum()) or sign == "_" else "-"
            for sign in path.stem.removesuffix(".sql")
        )
        name = base = "-".join(part for part in plain.split("-") if part) or "policy"
        count = 1
        while name in made:
            count += 1
            name = f"{base}-{count}"
        made[name] = path
    return made

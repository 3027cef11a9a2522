"""Who is logged in, in memory alone: a restart logs everybody out.

A browser holds a random number, and the server its hash. A token in each form is bound to the session and to the
address that it is sent to, and is good for one use: what is sent twice is done once.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from sqlanon.pgwire.scram import Verifier

IDLE = 30 * 60.0  # seconds without a request
LONGEST = 12 * 3600.0  # seconds after the login
MOST = 1000  # sessions of all users: the one that was used longest ago goes
MOST_OF_ONE = 10
MOST_USED = 20_000  # tokens of one session: it ends before one of them could be used again


@dataclass(eq=False)
class BrowserSession:
    principal: str
    verifier: Verifier  # of the password that it was opened with: another password ends it
    started: float
    seen: float
    key: bytes = field(default_factory=lambda: secrets.token_bytes(32), repr=False)
    notes: list[tuple[str, str]] = field(default_factory=list)  # what the next page says: kind and text
    kept: dict[str, Any] = field(default_factory=dict)  # the last answer, and what was typed
    _used: set[str] = field(default_factory=set, repr=False)

    @property
    def name(self) -> str:
        """For the audit log: nothing that a session can be taken over with."""
        return "console" + hashlib.sha256(self.key).hexdigest()[:12]

    def token(self, path: str) -> str:
        """For one form, to be sent to this path."""
        nonce = secrets.token_urlsafe(12)
        return f"{nonce}.{self._mark(nonce, path)}"

    def accepts(self, token: str, path: str, *, once: bool = True) -> bool:
        """Whether a form with this token came from a page of this session, and was not sent before.

        >>> session = BrowserSession("ann", Verifier.of("a password"), 0.0, 0.0)
        >>> token = session.token("/ask")
        >>> session.accepts(token, "/budgets"), session.accepts(token, "/ask"), session.accepts(token, "/ask")
        (False, True, False)
        """
        nonce, _, mark = token.partition(".")
        if not hmac.compare_digest(mark.encode(), self._mark(nonce, path).encode()):
            return False
        if nonce in self._used or len(self._used) >= MOST_USED:
            return False
        if once:
            self._used.add(nonce)
        return True

    def _mark(self, nonce: str, path: str) -> str:
        return hmac.new(self.key, f"{nonce}\0{path}".encode(errors="surrogatepass"), hashlib.sha256).hexdigest()


@dataclass
class BrowserSessions:
    clock: Callable[[], float] = time.monotonic
    _open: OrderedDict[str, BrowserSession] = field(default_factory=OrderedDict)  # by hash, the last used at the end

    def begin(self, principal: str, verifier: Verifier) -> tuple[str, BrowserSession]:
        """A new session, and the number for its cookie. Never one that a browser brought along."""
        now = self.clock()
        self._forget(now)
        own = [key for key, each in self._open.items() if each.principal == principal]
        for key in own[: len(own) - MOST_OF_ONE + 1]:
            del self._open[key]
        while len(self._open) >= MOST:
            self._open.popitem(last=False)
        number = secrets.token_urlsafe(32)
        self._open[_hash(number)] = made = BrowserSession(principal, verifier, now, now)
        return number, made

    def find(self, number: str) -> BrowserSession | None:
        now = self.clock()
        found = self._open.get(_hash(number))
        if found is None:
            return None
        if now - found.seen > IDLE or now - found.started > LONGEST:
            del self._open[_hash(number)]
            return None
        found.seen = now
        self._open.move_to_end(_hash(number))
        return found

    def end(self, session: BrowserSession) -> None:
        self._open = OrderedDict((key, each) for key, each in self._open.items() if each is not session)

    def _forget(self, now: float) -> None:
        old = [key for key, each in self._open.items() if now - each.seen > IDLE or now - each.started > LONGEST]
        for key in old:
            del self._open[key]


def _hash(number: str) -> str:
    return hashlib.sha256(number.encode(errors="surrogatepass")).hexdigest()

"""Who asks, before the body of a request is read: programs with their tokens go to `Api`, browsers to the pages."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, field

from sqlanon.console.asgi_adapter import Application, ask
from sqlanon.console.browser_sessions import BrowserSession
from sqlanon.console.request_rate import RequestRate
from sqlanon.console.site import Site
from sqlanon.errors import SqlanonError
from sqlanon.policy.serve import is_loopback
from sqlanon.server.http_api import Api, HttpError, HttpRequest, Response
from sqlanon.server.login_log import Logins
from sqlanon.server.metrics import Metrics

HOST = re.compile(r"([0-9A-Za-z_.-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?")
LOCAL_NAMES = ("localhost", "127.0.0.1", "[::1]")


@dataclass
class FrontDoor:
    """The requests of browsers, and beside them those of programs to the paths in `passed_on`."""

    site: Site
    application: Application
    api: Api
    passed_on: Collection[str] = ("/healthz",)
    strangers: RequestRate = field(default_factory=lambda: RequestRate(burst=60, per_second=5.0))  # of one address
    known: RequestRate = field(default_factory=lambda: RequestRate(burst=120, per_second=20.0))  # of one session

    @property
    def metrics(self) -> Metrics:
        return self.api.metrics

    @property
    def logins(self) -> Logins | None:
        return self.api.logins

    def admit(self, request: HttpRequest) -> str | None:
        if request.path in self.passed_on:
            return self.api.admit(request)
        self._require_host(request)
        session = self._session(request)
        allowed = self.strangers.allows(request.peer) if session is None else self.known.allows(session.name)
        if not allowed:
            raise HttpError(429, "too many requests", hint="wait a few seconds", sqlstate="53400")
        return None if session is None else session.principal

    async def admitted(self, principal: str, request: HttpRequest) -> None:
        if request.path in self.passed_on:
            await self.api.admitted(principal, request)
        # A browser opens several connections; its login was written down when the password was given.

    async def answer(self, request: HttpRequest, principal: str | None, body: bytes) -> Response:
        if request.path in self.passed_on:
            return await self.api.answer(request, principal, body)
        session = self._session(request)
        if session is not None and session.principal != principal:
            session = None  # it ended, or began, while the body was read
        more = {"sqlanon.session": session, "sqlanon.cookies": _cookies(request), "sqlanon.peer": request.peer}
        return await ask(self.application, request, body, more)

    def _session(self, request: HttpRequest) -> BrowserSession | None:
        """The session of a request, if whoever opened it could still open it."""
        found = self.site.sessions.find(_cookies(request).get(self.site.cookie, ""))
        if found is None:
            return None
        try:
            users = self.site.users()
        except SqlanonError:
            return None  # the file of users is gone, or open to others
        allowed = users.verifier(found.principal) == found.verifier
        if not allowed or found.principal not in self.site.serve.gateway.principals:
            self.site.sessions.end(found)
            return None
        return found

    def _require_host(self, request: HttpRequest) -> None:
        """A page of another host must not reach a console on this machine by giving its own name our address."""
        found = HOST.fullmatch(request.headers.get("host", ""))
        if found is None or (is_loopback(self.site.serve.host) and found[1].casefold() not in LOCAL_NAMES):
            hint = "open it as http://localhost, with its port"
            raise HttpError(421, "this console is not known by that name", hint=hint, sqlstate="08P01")


def _cookies(request: HttpRequest) -> dict[str, str]:
    """The cookies of a request. One that is sent twice is none: somebody else may have set one of them."""
    text = request.headers.get("cookie", "")
    pairs = [part.strip().partition("=") for part in text.split(";")] if len(text) <= 4096 else []
    names = [name for name, _, _ in pairs]
    return {name: value for name, _, value in pairs if names.count(name) == 1}

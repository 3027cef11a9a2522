"""One request of a browser: whether it is allowed, before its page sees it.

Every page and action is a `Page` in a list, with the roles that may use it. What changes something comes as a form
from one of our own pages, with a token that is good once; what cannot be taken back asks for the password again. It is
in the audit log before it is done.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import secrets
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, quote

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from sqlanon.console.browser_sessions import BrowserSession
from sqlanon.console.render import render
from sqlanon.console.roles import ALL, Role, role_of
from sqlanon.console.site import Site
from sqlanon.errors import Refused, SqlanonError
from sqlanon.pgwire import scram
from sqlanon.pgwire.scram import Verifier

FIELDS = 50
LONGEST_PASSWORD = 1024


@dataclass
class Visit:
    site: Site
    request: Request
    cookies: Mapping[str, str]
    peer: str
    session: BrowserSession | None = None
    role: Role | None = None
    form: Mapping[str, str] = field(default_factory=dict)

    @property
    def who(self) -> BrowserSession:
        assert self.session is not None  # only pages that anybody may see have none
        return self.session

    @property
    def principal(self) -> str:
        return self.who.principal

    @property
    def path(self) -> str:
        return str(self.request.scope["path"])

    def given(self, name: str, default: str = "") -> str:
        """A part of the address: of its path, or after the question mark."""
        found = self.request.path_params.get(name)
        return str(found) if found is not None else self.request.query_params.get(name, default)

    def note(self, kind: str, text: str) -> None:
        """Say something at the top of the next page: good or bad."""
        self.who.notes.append((kind, text[:2000]))
        del self.who.notes[:-5]

    def page(self, template: str, *, status: int = 200, **values: Any) -> Response:
        return Response(self.text_of(template, **values), status, media_type="text/html")

    def text_of(self, template: str, **values: Any) -> str:
        notes: list[tuple[str, str]] = []
        if self.session is not None and not template.startswith("_"):
            notes, self.session.notes = self.session.notes, []
        return render(template, visit=self, role=self.role, notes=notes, **values)

    def go(self, path: str) -> Response:
        return RedirectResponse(path, 303)

    def token(self, path: str) -> str:
        """The hidden field of a form that is sent to `path`."""
        return self.who.token(path)


Show = Callable[[Visit], Awaitable[Response]]


@dataclass(frozen=True)
class Page:
    """What is shown or done at an address. `action` is its name in the audit log, `about` what it is done to."""

    path: str
    show: Show
    roles: frozenset[Role] = ALL
    method: str = "GET"
    action: str = ""
    about: Callable[[Visit], str] = lambda visit: visit.given("policy")
    password: bool = False  # asked for again
    once: bool = True  # whether a form may be sent only once
    back: str = "/"
    open: bool = False  # to anybody, also before the login

    def back_for(self, visit: Visit) -> str:
        return self.back.format(**{name: quote(str(part)) for name, part in visit.request.path_params.items()})


class Forbidden(SqlanonError):
    """A request that no page of ours sends, or a page that is not for this role."""

    sqlstate = "42501"


async def visit_page(page: Page, visit: Visit) -> Response:
    """Let a request through to its page, or tell why not."""
    try:
        if page.open:
            return await page.show(visit)
        if visit.session is None:
            if page.method == "GET" and visit.request.headers.get("x-sqlanon") is None:
                return RedirectResponse("/login", 303)
            raise Forbidden("you are not logged in any more", hint="log in, and do it again")
        visit.role = role_of(visit.site.serve, visit.principal)
        if visit.role not in page.roles:
            raise Forbidden("this page is not for your role", hint="ask an owner of the data")
        if page.method == "POST":
            visit.form = await read_form(visit)
            require_own_form(visit, once=page.once)
    except Forbidden as error:
        await _note_refusal(page, visit, error.sqlstate)
        return visit.page("refused.html", status=403, error=error)
    if page.method == "GET":
        if page.action:
            await visit.site.write_down(visit.principal, visit.who.name, page.action, page.about(visit), "answered")
        return await page.show(visit)
    return await _act(page, visit)


async def _act(page: Page, visit: Visit) -> Response:
    site, session = visit.site, visit.who
    begun = False
    try:
        if page.password:
            await require_password(visit)
        if page.action:
            await site.write_down(session.principal, session.name, page.action, page.about(visit), "answered")
            begun = True
        return await page.show(visit)
    except SqlanonError as error:
        if page.action:
            decision = "failed" if begun else "refused"
            told = (session.principal, session.name, page.action, page.about(visit))
            if decision == "failed":
                await site.write_down(*told, "failed", error.sqlstate)
            else:
                await site.write_down(*told, "refused", error.sqlstate)
        visit.note("bad", str(error))
        return visit.go(page.back_for(visit))


async def _note_refusal(page: Page, visit: Visit, sqlstate: str) -> None:
    if visit.session is not None:
        about = f"{page.method} {page.path}"
        await visit.site.write_down(visit.principal, visit.who.name, page.action or "page", about, "refused", sqlstate)


# ---- forms


async def read_form(visit: Visit) -> dict[str, str]:
    """The fields of a form; one that is sent twice is refused, since two readers could take another one each."""
    kind = visit.request.headers.get("content-type", "").partition(";")[0].strip().casefold()
    if kind != "application/x-www-form-urlencoded":
        raise Forbidden("this is not a form of the console")
    try:
        body = (await visit.request.body()).decode("ascii")
        found = parse_qs(
            body, strict_parsing=bool(body), keep_blank_values=True, max_num_fields=FIELDS, errors="strict"
        )
    except ValueError:
        raise Forbidden("this is not a form of the console") from None
    if any(len(values) > 1 for values in found.values()):
        raise Forbidden("a field of the form is given twice")
    return {name: values[0].replace("\r\n", "\n") for name, values in found.items()}


def require_own_origin(visit: Visit) -> None:
    """Whether a form comes from a page of this console; browsers say so with each of them."""
    host = visit.request.headers.get("host", "")
    own = f"{visit.site.origin_scheme}://{host}"
    if visit.request.headers.get("origin") != own:
        raise Forbidden("this form does not come from a page of the console")
    if visit.request.headers.get("sec-fetch-site", "same-origin") != "same-origin":
        raise Forbidden("this form does not come from a page of the console")


def require_own_form(visit: Visit, *, once: bool) -> None:
    require_own_origin(visit)
    if not visit.who.accepts(visit.form.get("token", ""), visit.path, once=once):
        raise Forbidden(
            "this form was sent before, or its page is too old: nothing was done", hint="open the page again"
        )


# ---- passwords


async def require_password(visit: Visit) -> None:
    """The password again, for what cannot be taken back."""
    if not await is_password(visit.site, visit.peer, visit.principal, visit.form.get("password", "")):
        raise Refused("the password is wrong: nothing was done", sqlstate="28P01")


async def is_password(site: Site, peer: str, name: str, password: str) -> bool:
    """Whether somebody has this password. A name that nobody has takes as long as any other."""
    users = site.users()
    known = users.verifier(name)
    verifier = known or scram.mock(name, users.secret)
    site.throttle.begin(peer, name[:63])
    fits = len(password) <= LONGEST_PASSWORD and await asyncio.to_thread(verifier.accepts, password)
    if known is None or not fits:
        return False
    site.throttle.succeed(peer, name[:63])
    return True


def verifier_of(site: Site, name: str) -> Verifier:
    found = site.users().verifier(name)
    assert found is not None
    return found


# ---- forms before the login


def stranger_token(site: Site, number: str) -> str:
    """The token of the login form, for a browser that was given this number."""
    return hmac.new(site.key, number.encode(errors="surrogatepass"), hashlib.sha256).hexdigest()


def new_number() -> str:
    return secrets.token_urlsafe(24)

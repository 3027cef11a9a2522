"""All pages as one application: routes, errors, and the headers that every answer carries."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from sqlanon.console.asgi_adapter import Application
from sqlanon.console.pages import budgets, entrance, manual, overview, policies, questions, records, releases
from sqlanon.console.site import Site
from sqlanon.console.visit import Page, Visit, visit_page
from sqlanon.errors import SqlanonError

log = logging.getLogger("sqlanon")
PAGES: tuple[Page, ...] = (
    *entrance.PAGES, *overview.PAGES, *policies.PAGES, *releases.PAGES, *questions.PAGES, *budgets.PAGES,
    *records.PAGES, *manual.PAGES,
)  # fmt: skip
# Nothing but our own style sheet, script and forms; were a text ever not escaped, the browser would not run it.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",  # with no-referrer a browser would not say where a form comes from
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
OVER_TLS = {"Strict-Transport-Security": "max-age=31536000"}


def application(site: Site) -> Application:
    routes = [Route(page.path, _endpoint(site, page), methods=[page.method], name=page.path) for page in PAGES]
    return Starlette(routes=routes, exception_handlers={HTTPException: _not_found(site), Exception: _failed(site)})


def _visit(site: Site, request: Request) -> Visit:
    scope = request.scope
    return Visit(site, request, scope["sqlanon.cookies"], scope["sqlanon.peer"], scope["sqlanon.session"])


def _endpoint(site: Site, page: Page) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        visit = _visit(site, request)
        try:
            response = await visit_page(page, visit)
        except SqlanonError as error:
            response = visit.page("refused.html", status=status_of(error), error=error)
        except Exception as error:
            # A mistake of our own. Its text may hold what somebody wrote, and stays here.
            log.error("a page failed: %s", type(error).__name__)
            error = SqlanonError("the page could not be made", hint="tell the owner of the data")
            response = visit.page("refused.html", status=500, error=error)
        return with_headers(site, response)

    return answer


def status_of(error: SqlanonError) -> int:
    """What is asked for wrongly is an error of the request; what cannot be read now may be there later.

    >>> from sqlanon.errors import LedgerError, PolicyError
    >>> status_of(PolicyError("there is no such release")), status_of(LedgerError("it is gone"))
    (404, 503)
    """
    return 404 if error.sqlstate.startswith("22") else 503


def _not_found(site: Site) -> Callable[[Request, Exception], Awaitable[Response]]:
    async def answer(request: Request, found: Exception) -> Response:
        status = found.status_code if isinstance(found, HTTPException) else 404
        error = SqlanonError("there is no such page" if status == 404 else "this address is not asked in this way")
        return with_headers(site, _visit(site, request).page("refused.html", status=status, error=error))

    return answer


def _failed(site: Site) -> Callable[[Request, Exception], Awaitable[Response]]:
    async def answer(request: Request, found: Exception) -> Response:
        log.error("a page failed: %s", type(found).__name__)
        return with_headers(site, Response("the page could not be made", 500, media_type="text/plain"))

    return answer


def with_headers(site: Site, response: Response) -> Response:
    for name, value in {**HEADERS, **(OVER_TLS if site.secure else {})}.items():
        response.headers[name] = value
    return response

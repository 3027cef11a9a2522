"""The login, the way out, and the files that every page needs."""

from __future__ import annotations

from starlette.responses import RedirectResponse, Response

from sqlanon.console.render import script, style
from sqlanon.console.roles import ALL
from sqlanon.console.visit import (
    Forbidden,
    Page,
    Visit,
    is_password,
    new_number,
    read_form,
    require_own_origin,
    stranger_token,
    verifier_of,
)
from sqlanon.errors import Refused, SqlanonError

WRONG = "wrong name or password"


async def show_login(visit: Visit) -> Response:
    if visit.session is not None:
        return RedirectResponse("/", 303)
    return _login_page(visit)


def _login_page(visit: Visit, said: str = "", name: str = "", status: int = 200) -> Response:
    """The form, with a number of its own for this browser: one that a page elsewhere cannot know."""
    site = visit.site
    number = new_number()
    page = visit.page(
        "login.html", status=status, said=said, name=name, token_value=stranger_token(site, number), secure=site.secure
    )
    page.set_cookie(f"{site.cookie}_login", number, httponly=True, samesite="strict", secure=site.secure, path="/")
    return page


async def log_in(visit: Visit) -> Response:
    site = visit.site
    logins, metrics = site.door.logins, site.door.metrics
    name = ""
    try:
        form = await read_form(visit)
        name = form.get("name", "")[:200]
        require_own_origin(visit)
        number = visit.cookies.get(f"{site.cookie}_login", "")
        if not number or form.get("token") != stranger_token(site, number):
            raise Forbidden("the page of this form was too old", hint="give your name and password again")
        if not await is_password(site, visit.peer, name, form.get("password", "")):
            raise Refused(WRONG, sqlstate="28P01")
        if name not in site.serve.gateway.principals:
            raise Refused("this user is no principal of the policy", sqlstate="28000")
    except SqlanonError as error:
        metrics.logins.add(1, door="console", decision="refused")
        try:
            known = site.users().verifier(name) is not None
        except SqlanonError:
            return _login_page(visit, "logins are not possible now", status=503)
        logins.refused(name if known else "", "console", visit.peer, error.sqlstate)
        return _login_page(visit, str(error), name, status=403)
    number, session = site.sessions.begin(name, verifier_of(site, name))
    try:
        await logins.succeeded(name, session.name, "console", visit.peer)
    except SqlanonError as error:
        site.sessions.end(session)
        return _login_page(visit, str(error), name, status=503)
    metrics.logins.add(1, door="console", decision="answered")
    if visit.session is not None:
        site.sessions.end(visit.session)  # of somebody who was logged in here before
    page = RedirectResponse("/", 303)
    page.set_cookie(site.cookie, number, httponly=True, samesite="strict", secure=site.secure, path="/")
    page.delete_cookie(f"{site.cookie}_login", path="/", secure=site.secure, httponly=True, samesite="strict")
    return page


async def log_out(visit: Visit) -> Response:
    visit.site.sessions.end(visit.who)
    page = RedirectResponse("/login", 303)
    site = visit.site
    page.delete_cookie(site.cookie, path="/", secure=site.secure, httponly=True, samesite="strict")
    return page


async def show_asset(visit: Visit) -> Response:
    """The style sheet and the script; their names change with their content."""
    assets = {
        f"style-{style()[1]}.css": (style()[0], "text/css"),
        f"console-{script()[1]}.js": (script()[0], "text/javascript"),
    }
    found = assets.get(visit.given("name"))
    if found is None:
        return Response("there is no such file", 404, media_type="text/plain")
    return Response(found[0], media_type=found[1], headers={"Cache-Control": "public, max-age=31536000, immutable"})


PAGES = (
    Page("/login", show_login, open=True),
    Page("/login", log_in, method="POST", open=True),
    Page("/static/{name}", show_asset, open=True),
    Page("/logout", log_out, ALL, "POST", action="log_out", about=lambda visit: visit.principal),
)

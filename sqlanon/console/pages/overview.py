"""What is released, what needs attention, and which budgets run out."""

from __future__ import annotations

import asyncio

from starlette.responses import Response

from sqlanon.console.budget_view import accounts
from sqlanon.console.release_view import ReleaseView, look
from sqlanon.console.roles import ALL
from sqlanon.console.visit import Page, Visit
from sqlanon.errors import SqlanonError

RUNNING_OUT = 0.8  # of a budget that is spent


async def show_overview(visit: Visit) -> Response:
    serve = visit.site.serve
    if visit.role == "analyst":
        own = await asyncio.to_thread(accounts, serve.gateway, [visit.principal])
        return visit.page("overview_analyst.html", account=own[0], gateway=serve.gateway)
    views: list[ReleaseView] = []
    broken: list[tuple[str, str]] = []
    for name, path in visit.site.policies.items():
        try:
            views.append(await look(visit.site, name))
        except SqlanonError as error:
            broken.append((path.name, str(error)))
    everybody = await asyncio.to_thread(accounts, serve.gateway, list(serve.gateway.principals))
    return visit.page(
        "overview.html", views=[view for view in views if view.state["release"]], broken=broken,
        running_out=[each for each in everybody if each.spent_share >= RUNNING_OUT], accounts=everybody,
        halted=visit.site.door.broken,
    )  # fmt: skip


PAGES = (Page("/", show_overview, ALL),)

"""Budgets: what is spent and left, how fast, and grants with their reasons."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

from starlette.responses import Response

from sqlanon.console.budget_view import Account, accounts
from sqlanon.console.plots import draw_burn_down
from sqlanon.console.roles import OWNER
from sqlanon.console.visit import Page, Visit
from sqlanon.errors import PolicyError, number
from sqlanon.gateway.price.budgets import limits_of
from sqlanon.ledger import Ledger
from sqlanon.mechanisms import Cost
from sqlanon.policy.gateway import Gateway

LONGEST_REASON = 500


async def show_budgets(visit: Visit) -> Response:
    gateway = visit.site.serve.gateway
    names = [visit.principal] if visit.role == "analyst" else list(gateway.principals)
    found = await asyncio.to_thread(accounts, gateway, names)
    total = None
    if visit.role != "analyst" and gateway.budget.total is not None:
        total = await asyncio.to_thread(_spent_by_all, gateway)
    now = datetime.now(UTC)
    drawn: list[tuple[Account, object]] = [(each, draw_burn_down(each, now)) for each in found]
    return visit.page("budgets.html", drawn=drawn, gateway=gateway, total=total, now=now)


def _spent_by_all(gateway: Gateway) -> Cost:
    name = next(iter(gateway.principals))
    with Ledger.open(gateway.located_ledger) as ledger:
        return ledger.spent_ever(None, limits_of(gateway, name))


async def grant(visit: Visit) -> Response:
    gateway, who, reason = visit.site.serve.gateway, _principal(visit), _reason(visit)
    epsilon = _amount(visit, "epsilon")
    delta = _amount(visit, "delta")
    if epsilon == 0 and delta == 0:
        raise PolicyError("a grant of nothing changes nothing", hint="give an epsilon above 0")

    def give() -> float:
        with Ledger.open(gateway.located_ledger) as ledger:
            ledger.grant(who, Cost(epsilon, delta), by=visit.principal, reason=reason)
            return ledger.left(who, limits_of(gateway, who)).left.epsilon

    left = await asyncio.to_thread(give)
    visit.note("good", f"Granted: {who} has epsilon {number(left)} left.")
    return visit.go("/budgets")


async def unlock(visit: Visit) -> Response:
    gateway, who, reason = visit.site.serve.gateway, _principal(visit), _reason(visit)

    def forgive() -> None:
        with Ledger.open(gateway.located_ledger) as ledger:
            ledger.unlock(who, by=visit.principal, reason=reason)

    await asyncio.to_thread(forgive)
    visit.note("good", f"{who} may ask again; what failed stays charged.")
    return visit.go("/budgets")


def _principal(visit: Visit) -> str:
    who = visit.form.get("principal", "")
    if who not in visit.site.serve.gateway.principals:
        raise PolicyError("the policy names no such principal")
    return who


def _reason(visit: Visit) -> str:
    reason = " ".join(visit.form.get("reason", "").split())
    if not reason:
        raise PolicyError("a reason is needed: it is kept in the ledger, with your name")
    if len(reason) > LONGEST_REASON:
        raise PolicyError(f"a reason has at most {LONGEST_REASON} characters")
    return reason


def _amount(visit: Visit, name: str) -> float:
    text = visit.form.get(name, "").strip() or "0"
    try:
        value = float(text)
    except ValueError:
        raise PolicyError(f"{name} must be a number") from None
    if not 0 <= value <= 1000:
        raise PolicyError(f"{name} must be a number from 0 to 1000")
    return value


def _about(visit: Visit) -> str:
    amounts = " ".join(f"{key} {visit.form[key][:20]}" for key in ("epsilon", "delta") if visit.form.get(key))
    return f"{visit.form.get('principal', '')[:100]} {amounts}".strip()


PAGES = (
    Page("/budgets", show_budgets),
    Page("/budgets/grant", grant, OWNER, "POST", "grant", _about, password=True, back="/budgets"),
    Page("/budgets/unlock", unlock, OWNER, "POST", "unlock", _about, password=True, back="/budgets"),
)

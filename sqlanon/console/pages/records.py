"""What happened: runs, the audit log with the state of its chain, and who may log in."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

from starlette.responses import Response

from sqlanon.console.roles import OWNER, READERS, role_of
from sqlanon.console.visit import Page, Visit
from sqlanon.errors import PolicyError, SqlanonError
from sqlanon.server import users
from sqlanon.server.audit_chain import recent, verify

MOST_RECORDS = 200


async def show_runs(visit: Visit) -> Response:
    states: list[dict[str, Any]] = []
    broken: list[tuple[str, str]] = []
    for name, path in visit.site.policies.items():
        try:
            states.append({"name": name, **await visit.site.reader.state(path)})
        except SqlanonError as error:
            broken.append((path.name, str(error)))
    runs = sorted(
        ({**run, "name": state["name"]} for state in states for run in state["runs"]),
        key=lambda run: run["started"], reverse=True,
    )  # fmt: skip
    return visit.page("runs.html", states=[state for state in states if state["release"]], runs=runs, broken=broken)


async def show_audit(visit: Visit) -> Response:
    own = visit.role == "analyst"
    of = visit.principal if own else visit.given("principal") or None
    records = await asyncio.to_thread(recent, visit.site.serve.located_audit, of, MOST_RECORDS)
    return visit.page("audit.html", records=records, of=None if own else of, own=own, most=MOST_RECORDS)


async def verify_audit(visit: Visit) -> Response:
    found = await asyncio.to_thread(verify, visit.site.serve.located_audit)
    visit.note("good", f"Whole: {found.lines:,} lines, none of them changed. Head {found.lines}:{found.hash}")
    return visit.go("/audit")


async def show_users(visit: Visit) -> Response:
    found = visit.site.users().users
    principals = visit.site.serve.gateway.principals
    now = datetime.now(UTC)
    entries = [
        {
            "name": name,
            "role": role_of(visit.site.serve, name) if name in principals else None,
            "password": name in found,
            "tokens": [
                {"id": token.id, "created": token.created.isoformat(), "expires": token.expires.isoformat(),
                 "valid": token.expires > now}
                for token in (found[name].tokens if name in found else ())
            ],
        }
        for name in sorted({*found, *principals})
    ]  # fmt: skip
    return visit.page("users.html", entries=entries)


async def revoke(visit: Visit) -> Response:
    name, token = visit.form.get("name", ""), visit.form.get("id", "")
    if name not in visit.site.users().users:
        raise PolicyError("there is no such user")
    await asyncio.to_thread(users.revoke, visit.site.users().path, name, token[:20])
    visit.note("good", f"Token {token[:20]} of {name} is revoked.")
    return visit.go("/users")


def _about(visit: Visit) -> str:
    return f"{visit.form.get('name', '')[:100]} token {visit.form.get('id', '')[:20]}"


PAGES = (
    Page("/runs", show_runs, READERS),
    Page("/audit", show_audit),
    Page("/audit/verify", verify_audit, READERS, "POST", "verify_audit", lambda visit: "audit log", back="/audit"),
    Page("/users", show_users, READERS),
    Page("/users/revoke", revoke, OWNER, "POST", "revoke_token", _about, password=True, back="/users"),
)

"""What somebody may see: an owner all, an auditor all and changes nothing, an analyst only what is their own."""

from __future__ import annotations

from typing import Literal

from sqlanon.policy.serve import Serve

Role = Literal["owner", "auditor", "analyst"]
OWNER: frozenset[Role] = frozenset({"owner"})
READERS: frozenset[Role] = frozenset({"owner", "auditor"})
ALL: frozenset[Role] = frozenset({"owner", "auditor", "analyst"})


def role_of(serve: Serve, principal: str) -> Role:
    """Administrators of the proxy read the audit log, as auditors do; only `owner: true` makes an owner."""
    known = serve.gateway.principals[principal]
    if known.owner:
        return "owner"
    return "auditor" if known.auditor or principal in serve.administrators else "analyst"

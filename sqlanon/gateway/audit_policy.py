"""Audit the exact answers that the ledger of a policy has on record."""

from __future__ import annotations

from contextlib import closing

from sqlanon.errors import PolicyError, did_you_mean
from sqlanon.gateway.controls.audit import Audit, audit_principal
from sqlanon.gateway.gate import open_gateway
from sqlanon.policy.gateway import Gateway


def audit_policy(policy: Gateway, principal: str | None = None) -> Audit:
    """Open the database and the ledger of a policy, and audit the answers of a principal, or of all together."""
    if principal is not None and principal not in policy.principals:
        hint = did_you_mean(principal, policy.principals) or f"there are {', '.join(policy.principals)}"
        raise PolicyError(f"the policy has no principal '{principal}'", hint=hint)
    with closing(open_gateway(policy)) as gate:
        return audit_principal(gate.engine, gate.ledger, principal)

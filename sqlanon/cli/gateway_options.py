"""The policy, the principal and the ledger that `query`, `budget` and `audit` are given."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sqlanon.errors import LedgerError, PolicyError, did_you_mean

if TYPE_CHECKING:
    from sqlanon.ledger import Ledger
    from sqlanon.policy.gateway import Gateway


POLICY = click.argument("policy_file", metavar="POLICY")


def load_policy(policy_file: str) -> Gateway:
    from sqlanon.policy.files import load_gateway

    return load_gateway(policy_file)


def principal_of(policy: Gateway, given: str | None) -> str:
    known = list(policy.principals)
    if given is None:
        if len(known) == 1:
            return known[0]
        listed = ", ".join(known[:8])
        raise PolicyError("the policy names several principals", hint=f"add --as with one of {listed}")
    if given not in policy.principals:
        hint = did_you_mean(given, known) or f"it names {', '.join(known[:8])}"
        raise PolicyError(f"the policy names no principal '{given}'", hint=hint)
    return given


@contextmanager
def open_ledger(policy_file: str) -> Iterator[tuple[Gateway, Ledger]]:
    from sqlanon.ledger import Ledger

    policy = load_policy(policy_file)
    require_ledger(policy, policy_file)
    with Ledger.open(policy.located_ledger) as ledger:
        yield policy, ledger


def require_ledger(policy: Gateway, policy_file: str) -> None:
    if not Path(policy.located_ledger).exists():
        raise LedgerError(
            f"there is no ledger at {policy.located_ledger}, and without one nothing is answered",
            hint=f"a new gateway: run 'sqlanon budget init {policy_file}'. If it was lost: put back its backup.",
        )

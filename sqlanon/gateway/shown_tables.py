"""The tables that everybody sees row by row, as a policy calls them."""

from __future__ import annotations

from sqlanon.policy.gateway import Gateway


def shown_lines(policy: Gateway) -> list[str]:
    """For the owner: what everybody sees row by row."""
    made = []
    for kind, said in (("public", "because the policy calls them public"), ("released", "as they were released")):
        named = [name for name, table in policy.tables.items() if getattr(table, kind)]
        if named:
            made.append(f"shown row by row, {said}: {', '.join(named)}")
    return made

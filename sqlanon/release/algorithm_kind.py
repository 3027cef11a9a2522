"""Which kind of algorithm a policy asks for."""

from __future__ import annotations

from sqlanon.policy import Policy


def is_parted(policy: Policy) -> bool:
    """Whether the algorithm of a policy writes rows itself, in place of a search that says how they are written."""
    return policy.algorithm_traits.writes_rows

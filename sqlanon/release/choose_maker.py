"""Which of the makers of rows a policy needs. Each is as slow to load as it is rarely asked for."""

from __future__ import annotations

from collections.abc import Callable

from sqlanon.engines import Engine
from sqlanon.policy import Policy
from sqlanon.policy.person_shapes import ENTITY, SEQUENCE, SET
from sqlanon.release.algorithm_kind import is_parted
from sqlanon.release.made_release import Making

Maker = Callable[[Policy, Engine, str | None], Making]  # of a policy, where its rows are, and the key


def maker_of(policy: Policy) -> tuple[str, Maker] | None:
    """What makes the rows of a release, and what it is said to do; None where a search says how rows are written."""
    if policy.shape == SEQUENCE:
        from sqlanon.release import publish_journeys

        return "making journeys", publish_journeys.make_release
    if policy.shape == ENTITY:
        from sqlanon.release import publish_entities

        return "reading the rows of persons", publish_entities.make_release
    if policy.shape == SET:
        from sqlanon.release import publish_items

        return "choosing labels of items", publish_items.make_release
    if is_parted(policy):
        from sqlanon.release import publish_buckets

        return "making groups", publish_buckets.make_release
    return None

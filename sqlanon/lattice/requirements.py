"""What a release has to meet: models, how many rows may be suppressed, and which loss is to be the least."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sqlanon.families import Plugin
from sqlanon.lattice.model_classes import Own
from sqlanon.lattice.model_tables import Special
from sqlanon.policy import ModelUse
from sqlanon.sqltree.tree import inline_verdict

WHOLE_TABLE = "whole_table"  # what a model needs that measures a class by all others


@dataclass(frozen=True)
class Requirement:
    """A model that classes must meet, with the relations that it reads; `attribute` names its sensitive column."""

    use: ModelUse
    model: Plugin
    attribute: str | None
    relations: Mapping[str, str]
    nested: bool  # a class that breaks it is made of classes that break it
    monotone: bool = False  # a table that holds goes on holding when it is generalized
    everybody: bool = False  # also a class of the population without a released row can break it
    own: Own | None = None  # its classes, where they are not those of the release
    special: Special | None = None  # makes relations that depend on the levels of a node

    @property
    def params(self) -> dict[str, object]:
        return self.model.filled(self.use.params)


@dataclass(frozen=True)
class Past:
    """Who was released before: the table (original, signature, seen) of persons with the values of their last class and
    the version that showed it. `version` is that of the last release."""

    people: str
    version: int


@dataclass(frozen=True)
class Stable:
    """The cuts of earlier releases, and who was together in them.

    `cuts`: table (round, region, attribute, cut, right_region), in the order of their rounds: rows of a region whose
    place is behind the value `cut` went to the right one. `groups`: table (original, group_id) of the persons who were
    released; who is not in it is new. Those of a group, and newcomers, who come into one half of a region must be
    `k` persons with `l` different values of each of these attributes, or none.
    """

    cuts: str
    groups: str
    k: int
    l: int  # noqa: E741 - the name of the parameter
    attributes: tuple[str, ...]


@dataclass(frozen=True)
class Requirements:
    """What a solution has to meet. Nothing here depends on what a search has found so far.

    `models` must hold in every class, after at most `limit` rows are suppressed; among the solutions that do, the one
    with the least loss by the metric `minimize` is asked for. `target` is the column that a reader of the release
    should predict, for metrics that look at it. `past` and `stable` come from earlier releases. `only_nodes` says why
    only algorithms that go from node to node reach the models, if that is so.
    """

    models: tuple[Requirement, ...]
    minimize: str
    limit: int = 0
    target: str | None = None
    past: Past | None = None
    stable: Stable | None = None
    only_nodes: str | None = None

    @property
    def may_suppress(self) -> bool:
        """Where a class of the population has to have a released row, a suppressed class would break that."""
        return not any(item.everybody for item in self.models)

    @property
    def plain(self) -> bool:
        """Whether all models look at nothing but the size of a class of the release."""
        return all(item.own is None and inline_verdict(item.model.sql, item.params) is not None for item in self.models)

    @property
    def unsettled(self) -> bool:
        """Whether what is suppressed can break a class that held, since that is not kept or suppressed as a whole, or
        is measured by all classes. One such model by itself leaves nothing that breaks it."""
        if len(self.models) > 1 and any(WHOLE_TABLE in item.model.needs for item in self.models):
            return True
        kinds = {item.own for item in self.models}
        alike = len(kinds) == 1 and all(own is None or (own.whole and not own.everywhere) for own in kinds)
        return not alike and any(own is not None and (own.partial or own.everywhere) for own in kinds)

    @property
    def by_levels(self) -> bool:
        """Whether a statement about a node is about its levels, not about masks that can be its parameters."""
        return any(item.special is not None for item in self.models)

    @property
    def asks_for_nulls(self) -> bool:
        """Whether a model looks at what is NULL, so that the flags of NULLs are masked too."""
        return any(item.own is not None and (item.own.rows or item.own.counted) for item in self.models)

    @property
    def nested(self) -> bool:
        """Whether rows suppressed at a node are suppressed at all nodes below it."""
        return all(self.is_nested(item) for item in self.models)

    def is_nested(self, item: Requirement) -> bool:
        """Without suppression one broken class makes a node fail, and what is below a node that fails fails too."""
        return item.nested or (item.monotone and self.limit == 0)

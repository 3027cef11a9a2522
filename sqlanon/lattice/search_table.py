"""The table that is searched: the rows of a policy, compressed once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlanon.engines import Engine
from sqlanon.hierarchies import Hierarchy
from sqlanon.lattice.nodes import Node
from sqlanon.policy import Policy
from sqlanon.relations.classes import Prelude
from sqlanon.relations.compressed_rows import Compressed, Domain


@dataclass(frozen=True)
class SearchTable:
    """The compressed table, and where it comes from. It stays as it is for as long as it is searched.

    `compressed` says how the quasi-identifiers lie in the packed keys; `records` are the rows of the source, `rows`
    those of the compressed table. `policy` reads the rows that were compressed. Where these are joined or transformed,
    `asked` is the policy as its owner wrote it; `transformed` and `joined` say for the plan how that was done.
    `prelude` lists the temporary tables in `engine` that all of this, and the search, is made of.
    """

    compressed: Compressed
    policy: Policy
    engine: Engine
    hierarchies: Mapping[str, Hierarchy]
    prelude: Prelude
    population: str | None = None  # its combinations under the same keys; with `population_persons`, and their persons
    population_persons: bool = False
    null_is_value: bool = False  # in sensitive columns; else NULL is not known
    value_labels: Mapping[str, str] = field(default_factory=dict)  # the table of the numbers of values, by attribute
    records: int = 0
    rows: int = 0
    asked: Policy | None = None
    transformed: Mapping[str, Any] = field(default_factory=dict)
    joined: Mapping[str, list[str]] = field(default_factory=dict)
    seed: str = field(default="", repr=False)  # of what an algorithm draws, made from the owner's key; none without it

    @property
    def domains(self) -> tuple[Domain, ...]:
        return self.compressed.domains

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(domain.height + 1 for domain in self.domains)

    @property
    def bottom(self) -> Node:
        return (0,) * len(self.domains)

    @property
    def top(self) -> Node:
        return tuple(domain.height for domain in self.domains)

    @property
    def written(self) -> Policy:
        """The policy as its owner wrote it."""
        return self.asked or self.policy

    def levels(self, node: Node) -> dict[str, int]:
        return {domain.name: level for domain, level in zip(self.domains, node, strict=True)}

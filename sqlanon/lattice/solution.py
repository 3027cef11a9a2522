"""What an algorithm finds: how each combination of quasi-identifiers is released."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlanon.lattice.nodes import Node


@dataclass(frozen=True)
class Candidate:
    """A node that was measured on the way, for `--explain`."""

    node: Node
    loss: float
    suppressed: int
    holds: bool


@dataclass(frozen=True)
class Regions:
    """Local recoding, as two temporary tables over the compressed one.

    `members`: k1, …, region (BIGINT): one row a key; a key that is missing is suppressed. Where `by_value`, also v1, …:
    rows alike on the quasi-identifiers go to different regions by their sensitive values. Where `split`, also first and
    last (BIGINT): of the rows alike on all of these, numbered from 1, these go to the region.
    `labels`: region, l1, …, lm (TEXT, the label of each quasi-identifier, which for NULL is NULL or the name that
    dictionaries give it), f1, …, fm (DOUBLE, the leaves that the label stands for).
    """

    members: str
    labels: str
    by_value: bool = False
    split: bool = False
    cuts: str | None = None  # table of the cuts that made the regions, if a later release is to keep to them


@dataclass(frozen=True)
class Assigned:
    """Rows that were each given a class by their person, as temporary tables.

    `people`: original (the person), region: who is shown, and where.
    `labels`: as those of `Regions`.
    `counterfeits`: region, value (TEXT): rows of nobody; `number` is how many there are.
    """

    people: str
    labels: str
    counterfeits: str
    number: int


@dataclass(frozen=True)
class Way:
    """An algorithm that was tried, and what it found; no loss where it found nothing, and `why` says why."""

    algorithm: str
    params: Mapping[str, Any]
    loss: float | None = None
    suppressed: int = 0
    why: str = ""
    labels: str = ""  # what the readers of its release get


@dataclass(frozen=True)
class Solution:
    """`passes`, `regions` or `assigned` says how. `passes` are nodes of the lattice: rows whose class breaks a model at
    the first are tried at the second, and so on; what is left is suppressed."""

    loss: float
    suppressed: int
    why: str
    proven: bool = False
    passes: tuple[Node, ...] = ()
    regions: Regions | None = None
    assigned: Assigned | None = None
    candidates: tuple[Candidate, ...] = ()
    checks: int = 0
    # Where suppressed cells match any value: how many rows are found among too few by somebody who knows their original
    # values, and the fewest rows that such values fit.
    found_by_values: tuple[int, int] | None = None
    # Where several algorithms were tried: the one that found this, and all of them in the order in which they ran.
    way: Way | None = None
    ways: tuple[Way, ...] = ()

    @property
    def labels(self) -> str:
        """What readers of the release get in a column: in words."""
        if self.regions is not None:
            return "labels by region, which differ from row to row"
        if len(self.passes) > 1:
            return f"up to {len(self.passes)} levels in a column"
        return "one level for each column"

    @property
    def waiting(self) -> int:
        """Rows that a later release may show: those that found no companions when each was given a class."""
        return self.suppressed if self.assigned is not None else 0

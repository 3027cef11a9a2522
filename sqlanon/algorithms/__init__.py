"""Algorithms: how the best anonymization is found. Each is one module, found by its file name.

`Algorithm` says what a module offers. A name with an underscore in front is no algorithm.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, cast

from sqlanon.errors import PolicyError, did_you_mean
from sqlanon.families import AlgorithmTraits, load_module, module_names

if TYPE_CHECKING:  # what a check does not need
    from pydantic import BaseModel

    from sqlanon.buckets.bucketize import Parted, Rows
    from sqlanon.itemsets.protect_items import ItemTask, ProtectedItems
    from sqlanon.lattice.problem import Problem
    from sqlanon.lattice.solution import Solution
    from sqlanon.paths.journeys import JourneyRelease, Journeys


class Algorithm(Protocol):
    """What the module of every algorithm has; it has `run` or `part` too, see below.

    The docstring is the manual page, and `Params` is what a policy may say. `TRAITS` is what others must know of it,
    such as relations that it makes or tables that it writes; most leave nearly all of it as it is.
    """

    __doc__: str | None
    __name__: str

    @property
    def Params(self) -> type[BaseModel]: ...

    @property
    def TRAITS(self) -> AlgorithmTraits: ...


class SearchAlgorithm(Algorithm, Protocol):
    """Says how the rows of a problem are released; SQL writes them."""

    def run(self, problem: Problem, params: Any) -> Solution: ...


class RowAlgorithm(Algorithm, Protocol):
    """Writes the rows itself (`writes_rows`)."""

    def part(self, rows: Rows, params: Any) -> Parted: ...


class JourneyAlgorithm(Algorithm, Protocol):
    """Writes the journeys of persons (`shape: sequence`)."""

    def release_journeys(self, journeys: Journeys, params: Any) -> JourneyRelease: ...


class ItemAlgorithm(Algorithm, Protocol):
    """Says how the items of persons are shown (`shapes: set`)."""

    def protect(self, task: ItemTask, params: Any) -> ProtectedItems: ...


def names() -> tuple[str, ...]:
    return module_names("algorithms")


def algorithm(name: str) -> Algorithm:
    """The module of an algorithm.

    >>> algorithm("exhaustive").__doc__.splitlines()[0]
    'Every node of the lattice is measured: the plain truth, for small lattices and for tests.'
    """
    if name not in names():
        raise PolicyError(
            f"unknown algorithm '{name}'", hint=did_you_mean(name, names()) or f"there are {', '.join(names())}"
        )
    return cast(Algorithm, load_module("algorithms", name))


def search_algorithm(name: str) -> SearchAlgorithm:
    """The module of an algorithm that searches."""
    return cast(SearchAlgorithm, algorithm(name))


def row_algorithm(name: str) -> RowAlgorithm:
    """The module of an algorithm that writes rows."""
    return cast(RowAlgorithm, algorithm(name))


def journey_algorithm(name: str) -> JourneyAlgorithm:
    """The module of an algorithm that writes journeys."""
    return cast(JourneyAlgorithm, algorithm(name))


def item_algorithm(name: str) -> ItemAlgorithm:
    """The module of an algorithm that protects sets of items."""
    return cast(ItemAlgorithm, algorithm(name))

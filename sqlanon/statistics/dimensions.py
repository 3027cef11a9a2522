"""The dimensions of tables: the nodes of their hierarchies, numbered so that a cell is one number.

A node counts only if the data have a value below it. The root has the number 0, so that a table without a dimension has
the same cells as one where it is summed up.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from sqlanon.errors import HierarchyError, PolicyError

TOTAL = "Total"  # the root of a dimension without a hierarchy
MOST_CELLS = 200_000
LARGEST_NUMBER = 2**62


@dataclass(frozen=True)
class Dimension:
    """Labels of nodes and the parent of each; the root is the first, and is its own parent."""

    name: str
    labels: tuple[str, ...]
    parents: tuple[int, ...]
    leaves: tuple[int, ...]
    stride: int = 1

    @property
    def below(self) -> int:
        return self.stride

    @property
    def above(self) -> int:
        return self.stride * len(self.labels)

    @cached_property
    def numbers(self) -> dict[str, int]:
        return {label: number for number, label in enumerate(self.labels)}

    def ancestors(self, node: int) -> list[int]:
        """A node itself and all above it."""
        found = [node]
        while node:
            node = self.parents[node]
            found.append(node)
        return found

    def node_of(self, cell: int) -> int:
        return cell % self.above // self.below

    @cached_property
    def depths(self) -> tuple[int, ...]:
        return tuple(len(self.ancestors(node)) - 1 for node in range(len(self.labels)))


def build_dimension(name: str, root: str, paths: Iterable[Sequence[str]], stride: int) -> Dimension:
    """A dimension from the path of each value up to the root; the same label on two levels is one node.

    >>> made = build_dimension("job", "any", [("nurse", "health", "any"), ("pilot", "pilot", "any")], 1)
    >>> made.labels, made.parents, made.leaves
    (('any', 'health', 'pilot', 'nurse'), (0, 0, 0, 1), (2, 3))
    """
    above: dict[str, str] = {}
    leaves: set[str] = set()
    for path in paths:
        nodes = list(dict.fromkeys(path))
        if nodes[-1] != root or len(nodes) == 1:
            hint = f"call the value something else in a query: '{root}' is what the total is called"
            raise HierarchyError(f"a value of '{name}' is called as the total of all values", hint=hint)
        leaves.add(nodes[0])
        for node, parent in pairwise(nodes):
            if above.setdefault(node, parent) != parent:
                raise HierarchyError(
                    f"the hierarchy of '{name}' has one label for two nodes",
                    hint="give each node a label of its own: cells are told apart by them",
                )
    if leaves & set(above.values()):
        raise HierarchyError(
            f"the hierarchy of '{name}' has a group that is called as one of the values",
            hint="give the group another label: cells are told apart by them",
        )

    def depth(label: str) -> int:
        return 0 if label == root else 1 + depth(above[label])

    labels = [root, *sorted(above, key=lambda label: (depth(label), label))]
    numbers = {label: number for number, label in enumerate(labels)}
    parents = [0, *(numbers[above[label]] for label in labels[1:])]
    return Dimension(name, tuple(labels), tuple(parents), tuple(sorted(numbers[leaf] for leaf in leaves)), stride)


def require_size(tables: Iterable[tuple[str, Sequence[Dimension]]]) -> None:
    """Refuse tables whose cells are too many to protect."""
    cells = 0
    for _, dimensions in tables:
        size = 1
        for dimension in dimensions:
            size *= len(dimension.labels)
        cells += size
    if cells > MOST_CELLS:
        raise PolicyError(
            f"the tables have {cells:,} cells, more than {MOST_CELLS:,}",
            hint="take fewer columns in 'by', coarser values, or protect tables that share no margin in two policies",
        )

"""The tree of items: what a hierarchy says of them, as nodes with their parents; and cuts through it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from sqlanon.engines import Engine
from sqlanon.engines.temp_tables import drop_steps, run_steps
from sqlanon.errors import HierarchyError
from sqlanon.hierarchies import Hierarchy
from sqlanon.relations.classes import Prelude
from sqlanon.relations.hierarchy_lookups import long_taxonomy
from sqlanon.sqltree.tree import select, table


@dataclass(frozen=True)
class ItemTree:
    """Nodes are known by their labels; `parents` leads from each node but the root to the next one above."""

    parents: Mapping[str, str]
    leaves: frozenset[str]
    root: str

    @cached_property
    def nodes(self) -> frozenset[str]:
        return frozenset(self.parents) | {self.root}

    @cached_property
    def children(self) -> Mapping[str, tuple[str, ...]]:
        found: dict[str, list[str]] = {}
        for node, parent in self.parents.items():
            found.setdefault(parent, []).append(node)
        return {node: tuple(sorted(below)) for node, below in found.items()}

    @cached_property
    def sizes(self) -> Mapping[str, int]:
        """How many leaves a node covers."""
        found = dict.fromkeys(self.nodes, 0)
        for leaf in self.leaves:
            for node in (leaf, *self.above(leaf)):
                found[node] += 1
        return found

    def above(self, node: str) -> list[str]:
        """The nodes above one, up to the root."""
        found = []
        while node in self.parents:
            node = self.parents[node]
            found.append(node)
        return found

    def leaves_below(self, node: str) -> list[str]:
        below = self.children.get(node, ())
        own = [node] if node in self.leaves else []
        return own + [leaf for child in below for leaf in self.leaves_below(child)]

    def loss(self, node: str) -> float:
        """The share of all other leaves that a node leaves open: 0 for a leaf, 1 for the root."""
        return (self.sizes[node] - 1) / (len(self.leaves) - 1) if len(self.leaves) > 1 else 0.0


def tree_of_paths(paths: Iterable[tuple[str, ...]], name: str) -> ItemTree:
    """A tree from the paths of its leaves up to one root. A label that stays the same from one level to the next is one
    node.

    >>> tree = tree_of_paths([("tea", "drinks", "*"), ("beer", "drinks", "*"), ("bread", "bread", "*")], "product")
    >>> tree.children["*"], tree.sizes["drinks"], tree.loss("drinks")
    (('bread', 'drinks'), 2, 0.5)
    """
    parents: dict[str, str] = {}
    leaves, tops = set(), set()
    for path in paths:
        nodes = [node for place, node in enumerate(path) if place == 0 or node != path[place - 1]]
        if len(set(nodes)) < len(nodes):
            raise _ambiguous(name)
        leaves.add(nodes[0])
        tops.add(nodes[-1])
        for node, parent in pairwise(nodes):
            if parents.setdefault(node, parent) != parent:
                raise _ambiguous(name)
    if len(tops) != 1 or any(top in parents for top in tops):
        raise _ambiguous(name)
    if any(parent in leaves for parent in parents.values()):
        raise _ambiguous(name)
    return ItemTree(parents, frozenset(leaves), tops.pop())


def _ambiguous(name: str) -> HierarchyError:
    return HierarchyError(
        f"the hierarchy of '{name}' has a label that stands for two nodes",
        hint="in a release of items nobody could tell them apart: give each node a label of its own",
    )


def read_tree(
    engine: Engine, prelude: Prelude, name: str, hierarchy: Hierarchy, require_valid: Callable[[], None]
) -> ItemTree:
    """The tree of a hierarchy, once it is known that it covers the data."""
    try:
        require_valid()
        made = long_taxonomy(prelude, name, hierarchy)
        run_steps(engine, [step for step in prelude.steps if step.name == made])
        found = engine.query(select("leaf", "level", "node", source=table(made)))
    finally:
        drop_steps(engine, prelude.steps)
    paths: dict[str, dict[int, str]] = {}
    for leaf, level, node in found:
        paths.setdefault(str(leaf), {})[int(level)] = hierarchy.root if node is None else str(node)
    return tree_of_paths((tuple(path[level] for level in sorted(path)) for path in paths.values()), name)

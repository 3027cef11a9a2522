"""What a released node of a taxonomy tells of a guarding node: nothing, all, or the share of its leaves below that."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sqlglot import exp

from sqlanon.hierarchies import Hierarchy
from sqlanon.sqltree.tree import DOUBLE, TEXT, rows_relation


@dataclass(frozen=True)
class Taxonomy:
    """`leaves` of each node, by name, and the nearest node above it that has more of them."""

    leaves: Mapping[str, frozenset[str]]
    above: Mapping[str, str | None]
    root: str

    def weight(self, guard: str, node: str) -> float:
        """How likely a record that shows `node` lies below `guard`, if all leaves of the node are equally likely.

        >>> rows = (("flu", "lung", "*"), ("cold", "lung", "*"), ("hiv", "hiv", "*"))
        >>> tree = taxonomy_of(Hierarchy(height=2, rows=rows))
        >>> [round(tree.weight("lung", node), 3) for node in ("flu", "lung", "*", "hiv")]
        [1.0, 1.0, 0.667, 0.0]
        """
        own = self.leaves[node]
        return len(own & self.leaves[guard]) / len(own)

    def moves(self, guards: Iterable[str]) -> exp.Select:
        """moves(guard, node, weight, target, after): where a record goes that is to tell less of a guarding node."""
        rows = []
        for guard in guards:
            for node in self.leaves:
                weight = self.weight(guard, node)
                if weight:
                    target = self.above[guard if weight == 1 else node]
                    after = None if target is None else self.weight(guard, target)
                    rows.append((guard, node, weight, target, after))
        return rows_relation(rows, ("guard", "node", "weight", "target", "after"), [TEXT, TEXT, DOUBLE, TEXT, DOUBLE])


def taxonomy_of(hierarchy: Hierarchy) -> Taxonomy:
    """The tree of a hierarchy whose leaves are all known."""
    leaves: dict[str, set[str]] = {}
    for row in hierarchy.rows:
        for node in row:
            leaves.setdefault(node, set()).add(row[0])
    above: dict[str, str | None] = {}
    for row in hierarchy.rows:
        for place, node in enumerate(row):
            more = (other for other in row[place + 1 :] if len(leaves[other]) > len(leaves[node]))
            above.setdefault(node, next(more, None))
    return Taxonomy({node: frozenset(found) for node, found in leaves.items()}, above, hierarchy.root)

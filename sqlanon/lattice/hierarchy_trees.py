"""The trees of the quasi-identifiers in memory: the nodes that have rows, and what a split of one is worth."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from dataclasses import dataclass, field

from sqlglot import exp

from sqlanon.errors import PolicyError
from sqlanon.lattice.problem import Problem
from sqlanon.relations.compressed_rows import Domain, code
from sqlanon.sqltree.tree import alias, bigint, literal, sum_bigint, table, union_all


@dataclass(frozen=True, order=True)
class TreeNode:
    """A node of the tree of quasi-identifier number `attribute`; `code` holds the bits of its path, the others 0."""

    attribute: int
    level: int
    code: int
    records: int = field(compare=False, default=0)
    leaves: float = field(compare=False, default=1.0)


@dataclass
class Forest:
    problem: Problem
    nodes: dict[TreeNode, TreeNode] = field(default_factory=dict)
    children: dict[TreeNode, list[TreeNode]] = field(default_factory=lambda: defaultdict(list))

    def __post_init__(self) -> None:
        for attribute, domain in enumerate(self.problem.domains):
            self._plant(attribute, domain)

    def _plant(self, attribute: int, domain: Domain) -> None:
        """From one row a value: its bits, its rows, and the leaves below its labels."""
        records: Counter[tuple[int, int]] = Counter()
        leaves: dict[tuple[int, int], float] = {}
        masks = domain.masks
        for own, count, *below in self.problem.engine.query(_values(domain)):
            for level, known in enumerate((1.0, *below, float(domain.leaves))):
                place = (level, int(own) & masks[level])
                records[place] += int(count)
                leaves[place] = float(known)
        for level, own in sorted(leaves):
            node = TreeNode(attribute, level, own, records[level, own], leaves[level, own])
            self.nodes[node] = node
        for node in [node for node in self.nodes if node.attribute == attribute and node.level < domain.height]:
            self.children[self.parent(node)].append(node)

    def root(self, attribute: int) -> TreeNode:
        return self.nodes[TreeNode(attribute, self.problem.domains[attribute].height, 0)]

    def parent(self, node: TreeNode) -> TreeNode:
        level = node.level + 1
        return self.nodes[
            TreeNode(node.attribute, level, node.code & self.problem.domains[node.attribute].masks[level])
        ]

    def ncp(self, node: TreeNode) -> float:
        """What one row with this label adds to the normalized certainty penalty, times the number of rows."""
        domain = self.problem.domains[node.attribute]
        weights = [self.problem.policy.columns[other.name].weight for other in self.problem.domains]
        share = (node.leaves - 1) / (domain.leaves - 1) if domain.leaves > 1 else 0.0
        return weights[node.attribute] / sum(weights) * share

    def detail(self) -> dict[TreeNode, float]:
        """By how much the certainty penalty of the table falls if a node is split into its children."""
        return {
            node: math.fsum(child.records * (self.ncp(node) - self.ncp(child)) for child in children)
            / max(self.problem.records, 1)
            for node, children in self.children.items()
        }

    def information(self, class_attribute: str) -> dict[TreeNode, float]:
        """By how many bits a split of a node into its children lowers the entropy of the class of its rows."""
        counts: dict[TreeNode, Counter[int]] = defaultdict(Counter)
        for attribute, own, label, records in self.problem.engine.query(self._class_counts(class_attribute)):
            domain = self.problem.domains[attribute]
            for level, mask in enumerate(domain.masks):
                counts[TreeNode(int(attribute), level, int(own) & mask)][int(label)] += int(records)
        found = {}
        for node, children in self.children.items():
            parts = (entropy(counts[child]) * child.records for child in children)
            gain = entropy(counts[node]) - math.fsum(parts) / max(node.records, 1)
            # A split that tells nothing gains nothing, whatever the rounding.
            found[node] = gain if gain > 1e-12 else 0.0
        return found

    def _class_counts(self, class_attribute: str) -> exp.Query:
        compressed = self.problem.compressed
        if class_attribute not in compressed.values:
            raise PolicyError(
                f"the column '{class_attribute}' was not carried to the search",
                hint="name a column of the source as class_attribute",
            )
        label = exp.column(compressed.values[class_attribute])
        parts = []
        for attribute, domain in enumerate(compressed.domains):
            own = exp.BitwiseAnd(this=exp.column(compressed.key_names[domain.key]), expression=literal(domain.masks[0]))
            tree = exp.select(
                alias(literal(attribute), "attribute"),
                alias(own, "own"),
                alias(label.copy(), "label"),
                alias(sum_bigint(exp.column("n")), "records"),
            ).from_(table(compressed.table))
            parts.append(tree.group_by(own.copy(), label.copy()))
        return union_all(parts)


def entropy(counts: Counter[int]) -> float:
    """Bits.

    >>> entropy(Counter({1: 4, 2: 4})), entropy(Counter({1: 3}))
    (1.0, 0.0)
    """
    whole = sum(counts.values())
    return math.fsum(count / whole * math.log2(whole / count) for _, count in sorted(counts.items()))


def _values(domain: Domain) -> exp.Select:
    own = bigint(code(domain, "d"))
    leaves = [exp.Max(this=exp.column(f"f{level}", table="d")) for level in range(1, domain.height)]
    tree = exp.select(alias(own, "own"), sum_bigint(exp.column("records", table="d")), *leaves)
    return tree.from_(table(domain.dictionary, alias="d")).group_by(own.copy())

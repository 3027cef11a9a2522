"""Persons are parted from the root of the tree of items down, into groups of k or more who look exactly alike.

    algorithm: set_partition

At first everybody is one group that shows the root. A group shows the children of a node in its place where that makes
parts of k persons or more with the same children; smaller parts stay together at the node, with the smallest of the
others where they are fewer than k. The node goes first that saves most, and each group goes its own way: an item may be
shown as itself in one group and as a general node in another. Nothing is suppressed.

What it does not protect: what else all persons of a group have in common, such as a private item that all of them have.
It does not always find the partition that loses least.
cite: He and Naughton 2009, Anonymization of set-valued data via top-down, local generalization
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from pydantic import BaseModel, ConfigDict
from sqlglot import exp

from sqlanon.engines import Engine
from sqlanon.errors import NotReleased
from sqlanon.families import AlgorithmTraits, plugin
from sqlanon.itemsets.find_itemsets import is_of_itemsets
from sqlanon.itemsets.item_tree import ItemTree
from sqlanon.itemsets.protect_items import ItemTask, ProtectedItems
from sqlanon.sqltree.tree import (
    alias,
    bigint,
    bind,
    double,
    join_clause,
    literal,
    select,
    table,
)

TRAITS = AlgorithmTraits(shapes=("set",))


class Params(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


@dataclass(frozen=True)
class _Part:
    """Persons of a group who have the same children of a node."""

    children: tuple[int, ...]
    persons: int
    saved: float


@dataclass
class _Partition:
    """Groups with the nodes that they show, and who is in which, as a table."""

    task: ItemTask
    tree: ItemTree
    k: int
    groups: dict[int, set[int]] = field(default_factory=dict)
    saved: float = 0.0

    def __post_init__(self) -> None:
        items = self.task.items
        self.engine: Engine = items.engine
        self.nodes = {node: place for place, node in enumerate(sorted(self.tree.nodes), start=1)}
        self.names = {place: node for node, place in self.nodes.items()}
        people = select("person", alias(bigint(literal(1)), "group_id"), source=table(items.tables.items)).distinct()
        self.persons = items.make("person_groups", people)
        self.children = items.make("item_children", self._item_children())
        self.groups[1] = {self.nodes[self.tree.root]}
        self.closed: set[tuple[int, int]] = set()  # groups that a node does not part

    def _item_children(self) -> exp.Query:
        """For each item and each node above it, the child on the way, and what showing it saves."""
        listed = []
        for item, name in self.task.items.names.items():
            child = name
            for node in self.tree.above(name):
                saved = self.tree.loss(node) - self.tree.loss(child)
                listed.append((item, self.nodes[node], self.nodes[child], saved))
                child = node
        loaded = self.task.items.load("children_text", ("item", "node", "child", "saved"), listed)
        numbers = [alias(bigint(exp.column(name)), name) for name in ("item", "node", "child")]
        return select(*numbers, alias(double(exp.column("saved")), "saved"), source=table(loaded))

    def part_once(self) -> bool:
        """Split every group once, where a node of it can be split; whether any was."""
        open_nodes = [
            (group, node)
            for group, nodes in self.groups.items()
            for node in nodes
            if (group, node) not in self.closed and self.tree.children.get(self.names[node])
        ]
        if not open_nodes:
            return False
        items = self.task.items
        opened = items.load("open_text", ("group_id", "node"), open_nodes)
        numbers = select(
            *(alias(bigint(exp.column(name)), name) for name in ("group_id", "node")), source=table(opened)
        )
        relations = {
            "items": items.tables.items,
            "person_groups": self.persons,
            "item_children": self.children,
            "open_nodes": items.make("open_nodes", numbers),
        }
        splits = items.make("person_splits", bind(plugin("itemsets", "person_splits").sql, {}, relations))
        found: dict[int, dict[int, list[_Part]]] = defaultdict(lambda: defaultdict(list))
        counted = bind(plugin("itemsets", "splits").sql, {}, {"person_splits": splits})
        for group, node, signature, persons, saved in self.engine.query(counted):
            children = tuple(int(child) for child in str(signature).split(","))
            found[int(group)][int(node)].append(_Part(children, int(persons), float(saved)))
        moves = [move for group, nodes in sorted(found.items()) for move in self._split(group, nodes)]
        if moves:
            self._move(splits, moves)
        return bool(moves)

    def _split(self, group: int, nodes: dict[int, list[_Part]]) -> list[tuple[int, int, str, int]]:
        """The parts of a group that become groups of their own: (group, node, children, new group)."""
        kept = {node: large for node, parts in nodes.items() if (large := self._large_parts(parts))}
        self.closed |= {(group, node) for node in nodes if node not in kept}
        if not kept:
            return []
        best = min(kept, key=lambda node: (-sum(part.saved for part in kept[node]), self.names[node]))
        every = sum(part.persons for part in nodes[best])
        moves = []
        for part in kept[best]:
            new = max(self.groups) + 1
            self.groups[new] = (self.groups[group] - {best}) | set(part.children)
            self.saved += part.saved
            moves.append((group, best, ",".join(map(str, part.children)), new))
            # What does not part a group does not part a part of it.
            self.closed |= {(new, node) for node in self.groups[new] if (group, node) in self.closed}
        if every == sum(part.persons for part in kept[best]):
            del self.groups[group]
        else:
            self.closed.add((group, best))
        return moves

    def _large_parts(self, parts: Sequence[_Part]) -> list[_Part]:
        """The parts that are groups of their own: of k persons or more, and the rest is nobody or k persons too."""
        order = sorted(parts, key=lambda part: (-part.persons, part.children))
        large = [part for part in order if part.persons >= self.k]
        rest = sum(part.persons for part in order) - sum(part.persons for part in large)
        while large and 0 < rest < self.k:
            rest += large.pop().persons
        return large

    def _move(self, splits: str, moves: Iterable[tuple[int, int, str, int]]) -> None:
        items = self.task.items
        loaded = items.load("moves_text", ("group_id", "node", "signature", "new_id"), moves)
        numbers = [alias(bigint(exp.column(name)), name) for name in ("group_id", "node", "new_id")]
        chosen = items.make("chosen_splits", select(*numbers, "signature", source=table(loaded)))
        relations = {"person_groups": self.persons, "person_splits": splits, "chosen_splits": chosen}
        self.persons = items.make("person_groups", bind(plugin("itemsets", "next_person_groups").sql, {}, relations))


def protect(task: ItemTask, params: Params) -> ProtectedItems:
    tree = task.require_tree("set_partition")
    models = task.models()
    fits = [model.bounds_size_alone and not is_of_itemsets(model) for model, _ in models]
    task.require_models("set_partition", fits, "makes whole sets alike")
    k = max(int(given["k"]) for _, given in models)
    items = task.items
    if items.persons < k:
        raise NotReleased(
            f"nothing can be published: {items.persons:,} persons have items, and k is {k}",
            hint="even all persons together are fewer than k",
        )
    made = _Partition(task, tree, k)
    while made.part_once():
        pass
    listed = [(group, made.names[node]) for group, nodes in sorted(made.groups.items()) for node in sorted(nodes)]
    labels = items.load("group_labels", ("group_id", "label"), listed)
    same = bigint(exp.column("group_id", table="l")).eq(exp.column("group_id", table="g"))
    rows = select(
        exp.column("person", table="g"),
        exp.column("label", table="l"),
        source=table(made.persons, alias="g"),
        joins=[join_clause(table(labels, alias="l"), same)],
    )
    told = "\n".join(f"{group}\t{label}" for group, label in listed)
    lost = tree.loss(tree.root) * items.occurrences - made.saved
    return ProtectedItems(
        rows,
        max(0.0, lost / items.occurrences),
        0,
        f"{len(made.groups):,} groups of at least {k} persons who look alike",
        measured={"labels": len({label for _, label in listed}), "suppressed_items": 0, "groups": len(made.groups)},
        digest=hashlib.sha256(told.encode()).hexdigest(),
    )

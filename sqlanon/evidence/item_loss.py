"""What a release of sets of items loses beside detail: frequent itemsets, and how many persons have two items together.

Both are read off the release as it was written.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass

from sqlglot import exp

from sqlanon.engines import Engine
from sqlanon.errors import SqlanonError
from sqlanon.evidence.item_checks import item_columns, tree_of
from sqlanon.families import plugin
from sqlanon.itemsets.find_itemsets import count_sets
from sqlanon.itemsets.item_tree import ItemTree
from sqlanon.itemsets.open_items import Items, open_items
from sqlanon.policy import Policy, Source
from sqlanon.relations.itemsets import first_level, next_level
from sqlanon.relations.source import relation
from sqlanon.sqltree.tree import alias, bigint, bind, literal, nest_query, select, table, union_all

FREQUENT = 100  # itemsets that are looked for again in the release
MOST_PAIRS = 300_000_000  # of all persons together; counting more of them would take longer than the release
Itemset = tuple[str, ...]


@dataclass(frozen=True)
class ItemsetLoss:
    """Of the most frequent sets of two items and more, how many are among the most frequent ones of the release; and
    the mean error of the number of persons with two items. None where there is no pair."""

    frequent: int
    kept: int
    relative_error: float | None

    @property
    def tkd(self) -> float | None:
        return None if not self.frequent else 1 - self.kept / self.frequent


def measure_itemset_loss(
    policy: Policy, engine: Engine, source: Items, release: Source, *, number: int = FREQUENT
) -> ItemsetLoss | None:
    """What is left of the itemsets of the source; None where counting its pairs would take too long."""
    if count_sets(source.sizes, 2) > MOST_PAIRS:
        return None
    rows = relation(engine.resolve(release), engine.dialect)
    released = open_items(engine, rows, item_columns(policy, released=True), prefix="sqlanon_lost")
    try:
        before = find_frequent(source, number)
        after = set(find_frequent(released, len(before))) if before else set()
        error = _measure_error(policy, engine, source, released)
        return ItemsetLoss(len(before), sum(each in after for each in before), error)
    finally:
        released.close()


def find_frequent(items: Items, number: int) -> list[Itemset]:
    """The sets of two items and more that most persons have. Of those that as many have the smaller ones come first,
    and then those that come first in the alphabet."""
    engine, read, prefix = items.engine, items.tables.items, items.prelude.prefix
    level, fine = f"{prefix}_frequent", f"{prefix}_extended"
    best: list[tuple[int, int, tuple[int, ...]]] = []
    size = 2
    try:
        engine.create_temporary(fine, first_level(read))
        while True:
            engine.create_temporary(level, next_level(read, fine, size))
            columns = [f"x{place}" for place in range(1, size + 1)]
            order = [exp.Ordered(this=exp.column("records"), desc=True), *map(exp.column, columns)]
            found = engine.query(
                select("records", *columns, source=table(level)).order_by(*order, copy=False).limit(number, copy=False)
            )
            best += [(-int(records), size, tuple(map(int, own))) for records, *own in found]
            best = sorted(best)[:number]
            # What is larger is never more frequent, and as frequent ones come after those that are known.
            least = -best[-1][0] if len(best) == number else 0
            more = exp.column("records") > least
            engine.create_temporary(fine, select(exp.Star(), source=table(level), where=more))
            size += 1
            if not found or not engine.query(select(literal(1), source=table(fine)).limit(1)):
                break
    finally:
        with suppress(SqlanonError):  # of a connection that is lost; what broke it is the error to show
            engine.drop_temporary([level, fine])
    return [tuple(sorted(items.names[item] for item in own)) for _, _, own in best]


def _measure_error(policy: Policy, engine: Engine, source: Items, released: Items) -> float | None:
    tree = tree_of(policy, engine, source)
    read, shown = source.tables.items, released.tables.items
    singles = {side.prelude.prefix: side.make("singles", first_level(side.tables.items)) for side in (source, released)}
    of_source, of_release = (singles[side.prelude.prefix] for side in (source, released))
    pairs = source.make("pairs", next_level(read, of_source, 2))
    two = select("x1", "x2", "records", source=nest_query(next_level(shown, of_release, 2), "p"))
    one = select("x1", alias(exp.column("x1"), "x2"), "records", source=table(of_release))
    listed = released.load("covers_text", ("item", "label", "leaves"), _covers(source, released, tree))
    numbers = [alias(bigint(exp.column(name)), name) for name in ("item", "label", "leaves")]
    relations = {
        "pairs": pairs,
        "shown_pairs": released.make("shown_pairs", union_all([two, one])),
        "covers": released.make("covers", select(*numbers, source=table(listed))),
    }
    error = engine.query(bind(plugin("itemsets", "support_errors").sql, {}, relations))[0][0]
    return None if error is None else float(error)


def _covers(source: Items, released: Items, tree: ItemTree | None) -> Iterable[tuple[int, int, int]]:
    """Each item with the labels of the release that may stand for it, and for how many items these stand."""
    for label, name in released.names.items():
        if tree is None:
            below = [name]
        elif name in tree.nodes:
            below = tree.leaves_below(name)
        else:
            below = []
        for leaf in below:
            if leaf in source.numbers:
                yield source.numbers[leaf], label, len(below)

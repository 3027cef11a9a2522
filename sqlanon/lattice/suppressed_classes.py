"""What a node suppresses where models have classes of their own: where some are gone, others may break, and so on."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

from sqlglot import exp

from sqlanon.lattice.class_queries import ClassQueries, with_parts
from sqlanon.lattice.nodes import Node
from sqlanon.sqltree.tree import alias, case, literal, nest_query, table, union_all

LOST = ("sqlanon_search_lost_1", "sqlanon_search_lost_2")  # one is made from the other


def find_suppressed(
    queries: ClassQueries, source: str, node: Node, make: Callable[[Node, int, exp.Select], str] | None = None
) -> str:
    """The table (class_id) of all classes that a node has to suppress: those that break a model, those that break one
    when these are gone, and so on until none does, or until there are more than may be suppressed.

    `make` makes the table of each round. By default it takes the place of the one before last, and the next node that
    is asked for overwrites what was found."""
    key = queries.class_id(queries.literal_masks(node))
    known, count = None, 0
    for number in itertools.count():
        found = _broken(queries, source, node, key, known)
        if known is not None:
            more = exp.select("*").from_(nest_query(found, "more"))
            both = union_all([exp.select("class_id").from_(table(known)), more])
            found = exp.select("class_id").from_(nest_query(both, "lost"))
        made = make(node, number, found) if make else _in_turn(queries, number, found)
        listed = exp.select("class_id").from_(table(made))
        rows = exp.select("COALESCE(SUM(n), 0)").from_(table(source)).where(key.copy().isin(query=listed))
        held, size = queries.table.engine.query(exp.select(rows.subquery(), "COUNT(*)").from_(table(made)))[0]
        if int(size) == count or int(held) > queries.requirements.limit:
            break
        known, count = made, int(size)
    return made


def _broken(queries: ClassQueries, source: str, node: Node, key: exp.Expr, known: str | None) -> exp.Select:
    """The classes that break a model among the rows whose classes are not known to be lost."""
    cells = exp.select("c.*").from_(table(source, alias="c"))
    if known is not None:
        same = exp.column("class_id", table="b").eq(key.copy())
        cells = cells.join(table(known, alias="b"), on=same, join_type="left")
        cells = cells.where(exp.column("class_id", table="b").is_(exp.Null()))
    classes, parts = queries.classes(queries.literal_masks(node), "kept_cells", node=node)
    tree = exp.select("class_id").from_(classes).where(exp.column("broken").eq(1))
    return with_parts(tree, [("kept_cells", cells), *parts])


def _in_turn(queries: ClassQueries, number: int, found: exp.Select) -> str:
    queries.table.engine.create_temporary(LOST[number % 2], found)
    return LOST[number % 2]


def judge_classes(
    queries: ClassQueries, source: str, node: Node, costs: Sequence[exp.Expr]
) -> tuple[str, list[tuple[str, exp.Query]]]:
    """The classes of a node as (class_id, records, rows_, cost1, …, broken, nested): a name, and its CTEs."""
    same = exp.column("class_id", table="b").eq(exp.column("class_id", table="class_sizes"))
    flag = case((exp.column("class_id", table="b").is_(exp.Null()), literal(0)), default=literal(1))
    tree = exp.select("class_sizes.*", alias(flag, "broken"), alias(flag.copy(), "nested")).from_("class_sizes")
    tree = tree.join(table(find_suppressed(queries, source, node), alias="b"), on=same, join_type="left")
    return "node_classes", [("class_sizes", queries.sizes(node, source, costs)), ("node_classes", tree)]

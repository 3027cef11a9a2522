"""The release of trees of rows: each table as it was, with labels, and with drawn numbers in place of persons and keys.

A row is shown where the row that it hangs on is shown: who suppresses a row suppresses all below it. Numbers are drawn
anew for every release, so that two releases cannot be joined by them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sqlglot import exp

from sqlanon.entities.forest import EntityForest
from sqlanon.relations.entities import Branch, EntityTable, child_ending
from sqlanon.relations.rewrite import shuffle_rows
from sqlanon.sqltree.tree import alias, bigint, column, join_clause, nest_query, select, table, window

SHOWN = ("quasi_identifier", "sensitive", "insensitive")


@dataclass(frozen=True)
class ReleasedTables:
    """`main` is the table with the persons, `companions` are the child tables by what is added to its name."""

    main: exp.Select
    companions: Mapping[str, exp.Select]


def write_tables(forest: EntityForest, labelled: EntityTable, gone: str | None) -> ReleasedTables:
    """`labelled` are the tables with the rows that may be shown; `gone` is a table of persons who are not."""
    person = forest.policy.person
    assert person is not None
    rows = nest_query(labelled.rows.copy(), "r")
    where = None
    if gone is not None:
        where = column(person, "r").isin(query=exp.select("person").from_(table(gone))).not_()
    numbers = _draw(forest, (labelled.name, person), column(person, "r"), rows, [], where)
    companions: dict[str, exp.Select] = {}
    main = _write(forest, labelled, person, numbers, person, companions)
    return ReleasedTables(main, companions)


def _draw(
    forest: EntityForest,
    key: tuple[str, str],
    value: exp.Expr,
    rows: exp.Expr,
    joins: list[exp.Join],
    where: exp.Expr | None = None,
) -> str:
    """A table (value, number): a number from 1 on for each value, in an order that tells nothing."""
    filled = value.copy().is_(exp.Null()).not_()
    where = filled if where is None else exp.and_(filled, where, copy=False)
    known = select(alias(value, "value"), source=rows, joins=joins, where=where, groups=[value.copy()])
    number = window(exp.RowNumber(), order=[exp.column("drawn")])
    drawn = select("value", alias(exp.Rand(), "drawn"), source=nest_query(known, "known"))
    tree = select("value", alias(bigint(number), "number"), source=nest_query(drawn, "draws"))
    made = forest.prelude.once("numbers", key, lambda: tree)
    forest.run()
    return made


def _write(
    forest: EntityForest, tree: EntityTable, key: str, numbers: str, person: str, companions: dict[str, exp.Select]
) -> exp.Select:
    """`key` is the column by which the rows hang on what is above them, and `numbers` those that are shown there."""
    policy = forest.policy
    rows, joins = nest_query(tree.rows.copy(), "r"), [_numbered(numbers, "n0", key)]
    keys = {key: exp.column("number", table="n0")}
    hangs: list[tuple[Branch, str]] = []
    for branch in tree.branches:
        left, _ = branch.on[0]
        if left == key:
            hangs.append((branch, numbers))
            continue
        own = _draw(
            forest,
            (tree.name, left),
            column(left, "r"),
            nest_query(tree.rows.copy(), "r"),
            [_numbered(numbers, "n0", key)],
        )
        hangs.append((branch, own))
        if left not in keys:
            short = f"n{len(keys)}"
            joins.append(_numbered(own, short, left, side="LEFT"))
            keys[left] = exp.column("number", table=short)
    for branch, own in hangs:
        child = branch.child
        companions[child_ending(child.name)] = _write(forest, child, branch.on[0][1], own, person, companions)
    chosen = [alias(number, name, quoted=True) for name, number in keys.items()]
    for name, item in policy.columns.items():
        if item.role in SHOWN and name in tree.columns and name not in keys:
            chosen.append(alias(column(name, "r"), name, quoted=True))
    return shuffle_rows(select(*chosen, source=rows, joins=joins))


def _numbered(numbers: str, short: str, key: str, *, side: str | None = None) -> exp.Join:
    return join_clause(table(numbers, alias=short), exp.column("value", table=short).eq(column(key, "r")), side=side)

"""Hierarchies in SQL: a lookup table (level_0, level_1, …) joined on the text of a value, or an expression."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from sqlglot import exp

from sqlanon.hierarchies import Hierarchy
from sqlanon.relations.classes import NULL_NODE, Grouping, Prelude, source, totals
from sqlanon.sqltree.tree import (
    alias,
    column,
    count_all,
    join_clause,
    literal,
    nest_query,
    select,
    sum_bigint,
    table,
    text,
    union_all,
)

NUMBER = r"^-?[0-9]+(\.[0-9]+)?$"


def level_names(hierarchy: Hierarchy) -> tuple[str, ...]:
    return tuple(f"level_{i}" for i in range(hierarchy.height + 1))


def lookup(prelude: Prelude, name: str, hierarchy: Hierarchy) -> str | None:
    """The lookup table of a column's hierarchy, or None where its levels are computed."""
    if hierarchy.rows:
        return prelude.load("lookup", (name,), level_names(hierarchy), hierarchy.rows)
    if hierarchy.relation is not None:
        relation = hierarchy.relation
        chosen = [text(exp.column(level)).as_(level) for level in level_names(hierarchy)]
        rows = relation.subquery(alias="given", copy=True)
        return prelude.once("lookup", (name,), lambda: exp.select(*chosen).from_(rows), summary=True)
    return None


def label_paths(prelude: Prelude, name: str, hierarchy: Hierarchy) -> str | None:
    """The path of each value up to the root, as a lookup table has it. What lies above a label that was computed cannot
    be told from the label: the values are read that were generalized. None where these are not known."""
    made = lookup(prelude, name, hierarchy)
    if made is not None or prelude.originals is None:
        return made
    originals = prelude.originals

    def build() -> exp.Query:
        values = select(alias(column(name), "original"), source=nest_query(originals.copy(), "o")).distinct()
        nodes = [
            text(generalize_value(hierarchy, level, exp.column("original"), None)) for level in range(hierarchy.height)
        ]
        labels = [*nodes, text(literal(hierarchy.root))]
        chosen = [alias(label, level) for label, level in zip(labels, level_names(hierarchy), strict=True)]
        known = exp.column("original").is_(exp.Null()).not_()
        return select(*chosen, source=nest_query(values, "v"), where=known)

    return prelude.once("label_paths", (name,), build)


def generalize_value(hierarchy: Hierarchy, level: int, value: exp.Expr, looked_up: str | None) -> exp.Expr:
    """The label of a value at a level. NULL stays NULL below the root; the root covers it like everything else."""
    if level == 0:
        return value
    if level >= hierarchy.height:
        return literal(hierarchy.root)
    if looked_up is not None:
        return exp.column(f"level_{level}", table=looked_up)
    return hierarchy.levels[level - 1](value)


def recode_columns(
    prelude: Prelude,
    rows: exp.Select,
    hierarchies: dict[str, Hierarchy],
    levels: dict[str, int],
    outputs: Mapping[str, str],
) -> exp.Select:
    """SELECT over rows AS original with each column at its level; `outputs` maps columns to the names they get."""
    tree = exp.select().from_(rows.subquery(alias="original"))
    for place, (name, output) in enumerate(outputs.items()):
        level = levels.get(name, 0)
        value = column(name, "original")
        if level == 0:
            tree = tree.select(alias(value, output, quoted=True))
            continue
        hierarchy = hierarchies[name]
        made = lookup(prelude, name, hierarchy) if level < hierarchy.height else None
        looked_up = f"lookup_{place}" if made else None
        if made and looked_up:
            condition = exp.column("level_0", table=looked_up).eq(text(value.copy()))
            tree = tree.join(table(made, alias=looked_up), on=condition, join_type="left")
        tree = tree.select(alias(generalize_value(hierarchy, level, value.copy(), looked_up), output, quoted=True))
    return tree


def taxonomy(prelude: Prelude, grouping: Grouping, attribute: str, hierarchy: Hierarchy) -> str:
    """The ancestors of each sensitive value, for models that measure along a tree."""

    def build() -> exp.Query:
        values = totals(prelude, grouping, attribute, numeric=False)
        made = lookup(prelude, attribute, hierarchy)
        return union_all([level(i, values, made) for i in range(hierarchy.height + 1)])

    def level(i: int, values: str, made: str | None) -> exp.Select:
        own = exp.column("label", table="t")
        node = (
            own if i == 0 else generalize_value(hierarchy, i, exp.column("original", table="t"), "l" if made else None)
        )
        known = exp.column("level_0", table="l").eq(exp.column("label", table="t"))
        return select(
            exp.column("value", table="t"),
            alias(literal(i), "level"),
            alias(exp.Coalesce(this=text(node), expressions=[literal(NULL_NODE)]), "node"),
            source=table(values, alias="t"),
            joins=[join_clause(table(made, alias="l"), known, side="LEFT")] if made else [],
        )

    return prelude.once("taxonomy", (grouping.person or grouping, attribute), build)


def source_values(prelude: Prelude, name: str) -> str:
    """The values of a column as text, with their row counts: what a hierarchy has to cover."""

    def build() -> exp.Query:
        known = prelude.counted(name)
        if known is not None:
            value, counted = exp.column(known[1]), sum_bigint(exp.column("records"))
            rows: exp.Expr = table(known[0])
        else:
            value, counted = column(name), count_all()
            rows = source(prelude)
        chosen = [alias(value, "original"), alias(counted, "records")]
        grouped = nest_query(select(*chosen, source=rows, groups=[value.copy()]), "grouped")
        return select(alias(text(exp.column("original")), "value"), "records", "original", source=grouped)

    return prelude.once("source_values", (name,), build)


def long_taxonomy(prelude: Prelude, name: str, hierarchy: Hierarchy) -> str:
    """The hierarchy as (leaf, level, node), one row a leaf and level, for its validation."""

    def build() -> exp.Query:
        made = lookup(prelude, name, hierarchy)
        origin = made if made else source_values(prelude, name)
        leaf = exp.column("level_0" if made else "value", table="o")
        parts = []
        for i in range(hierarchy.height + 1):
            if i == 0:
                node: exp.Expr = leaf.copy()
            elif made:
                node = exp.column(f"level_{i}", table="o")
            else:
                node = hierarchy.levels[i - 1](exp.column("original", table="o"))
            chosen = [alias(leaf.copy(), "leaf"), alias(literal(i), "level"), alias(node, "node")]
            named = leaf.is_(exp.Null()).not_()
            parts.append(select(*chosen, source=table(origin, alias="o"), where=named))
        return union_all(parts)

    return prelude.once("hierarchy", (name,), build)


def depth_first(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """The leaves of a lookup, node by node: numbers by size, everything else as it was written.

    >>> depth_first([("b", "x", "*"), ("c", "y", "*"), ("a", "x", "*")])
    ['b', 'a', 'c']
    >>> depth_first([("10", "10-19", "*"), ("9", "0-9", "*"), ("11", "10-19", "*")])
    ['9', '10', '11']
    """
    numeric = all(re.match(NUMBER, row[0]) for row in rows)
    first: dict[tuple[int, str], float] = {}
    for place, row in enumerate(rows):
        own = float(row[0]) if numeric else float(place)
        for level, label in enumerate(row):
            first[level, label] = min(first.get((level, label), own), own)

    def path(row: tuple[str, ...]) -> list[tuple[float, str]]:
        return [(first[level, row[level]], row[level]) for level in reversed(range(len(row)))]

    return [row[0] for row in sorted(rows, key=path)]

"""The canonical relations that the loss metrics read: an original table, recoded to the levels of its release.

    recoded_classes(class_id, records, kept)
    recoded_values(attribute, value, label, level, height, leaves, domain, weight, kept, records)
    recoded_tuples(class_id, records, class_records, area, kept)      one row a distinct original record
    recoded_class_values(class_id, value, records, kept)              with a class attribute

The original is generalized to the levels of the release, and a class is kept if the release holds it. Both tables go
through one GROUP BY, so that equal classes meet also where a column is NULL.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sqlglot import exp

from sqlanon.hierarchies import Hierarchy
from sqlanon.relations.classes import NULL_NODE, Prelude
from sqlanon.relations.hierarchy_lookups import long_taxonomy, recode_columns
from sqlanon.sqltree.tree import (
    alias,
    case,
    column,
    count_all,
    double,
    literal,
    sum_bigint,
    table,
    text,
    union_all,
    window,
)


@dataclass(frozen=True)
class Recoding:
    """What is compared: the columns with their levels, and a class attribute if there is one."""

    columns: tuple[str, ...]
    levels: Mapping[str, int]
    hierarchies: Mapping[str, Hierarchy]
    weights: Mapping[str, float]
    target: str | None = None

    @property
    def shorts(self) -> dict[str, str]:
        return {name: f"c{i}" for i, name in enumerate(self.columns, start=1)}


def recoded_cells(prelude: Prelude, original: exp.Select, release: exp.Select, recoding: Recoding) -> str:
    """One row a distinct original record: v1, v2, … its values, c1, c2, … their labels, whether it was kept."""
    shorts = recoding.shorts
    values = {name: short.replace("c", "v") for name, short in shorts.items()}

    def generalized_rows() -> exp.Select:
        labels = recode_columns(prelude, original, dict(recoding.hierarchies), dict(recoding.levels), shorts)
        for name in recoding.columns:
            labels = labels.select(alias(text(column(name, "original")), values[name]))
        target = column(recoding.target, "original") if recoding.target else exp.Null()
        labels = labels.select(alias(text(target), "target"))
        chosen = [alias(text(exp.column(short)), short) for short in shorts.values()]
        return exp.select(*chosen, *values.values(), "target", alias(literal(0), "released")).from_(
            labels.subquery(alias="recoded")
        )

    def released_rows() -> exp.Select:
        chosen = [alias(text(column(name)), short) for name, short in shorts.items()]
        empty = [alias(text(exp.Null()), value) for value in (*values.values(), "target")]
        return exp.select(*chosen, *empty, alias(literal(1), "released")).from_(release.subquery(alias="release"))

    def build() -> exp.Query:
        groups = [*shorts.values(), *values.values(), "target", "released"]
        both = union_all([generalized_rows(), released_rows()]).subquery(alias="both_tables")
        counted = exp.select(*groups, alias(count_all(), "records")).from_(both).group_by(*groups)
        labels = [exp.column(short) for short in shorts.values()]
        in_release = case((exp.column("released").eq(1), exp.column("records")), default=literal(0))
        return exp.select(
            alias(window(exp.DenseRank(), order=labels), "class_id"),
            *groups,
            "records",
            alias(window(exp.Sum(this=in_release), partition=[item.copy() for item in labels]), "class_released"),
        ).from_(counted.subquery(alias="counted"))

    return prelude.once("recoded", (recoding.columns,), build)


def _originals(cells: str) -> exp.Select:
    """The cells of the original, with kept as 0 or 1."""
    kept = case((exp.column("class_released") > 0, literal(1)), default=literal(0))
    return exp.select("*", alias(kept, "kept")).from_(table(cells)).where(exp.column("released").eq(0))


def recoded_classes(prelude: Prelude, cells: str) -> str:
    counted = (
        exp.select("class_id", alias(sum_bigint(exp.column("records")), "records"), "kept")
        .from_(_originals(cells).subquery(alias="cells"))
        .group_by("class_id", "kept")
    )
    return prelude.once("recoded_classes", (cells,), lambda: counted)


def recoded_values(prelude: Prelude, cells: str, recoding: Recoding) -> str:
    def part(name: str, short: str) -> exp.Select:
        hierarchy = recoding.hierarchies.get(name)
        value = exp.column(short.replace("c", "v"))
        groups = [value, exp.column(short), exp.column("kept")]
        counted = (
            exp.select(
                alias(value.copy(), "value"),
                alias(exp.column(short), "label"),
                "kept",
                alias(sum_bigint(exp.column("records")), "records"),
            )
            .from_(_originals(cells).subquery(alias="cells"))
            .group_by(*groups)
            .subquery(alias="v")
        )
        level = recoding.levels.get(name, 0)
        leaves, domain, height = _domain(prelude, name, short, hierarchy, level, cells)
        return exp.select(
            alias(literal(name), "attribute"),
            exp.column("value", table="v"),
            exp.column("label", table="v"),
            alias(literal(level), "level"),
            alias(literal(height), "height"),
            alias(leaves, "leaves"),
            alias(domain, "domain"),
            alias(literal(recoding.weights.get(name, 1.0)), "weight"),
            exp.column("kept", table="v"),
            exp.column("records", table="v"),
        ).from_(counted)

    return prelude.once(
        "recoded_values", (cells,), lambda: union_all([part(name, short) for name, short in recoding.shorts.items()])
    )


def _domain(
    prelude: Prelude, name: str, short: str, hierarchy: Hierarchy | None, level: int, cells: str
) -> tuple[exp.Expr, exp.Expr, int]:
    """Leaves below the label of `v`, leaves of the attribute, height. Without a hierarchy there are leaf and root."""
    if hierarchy is None:
        own = exp.select(exp.Count(this=exp.Distinct(expressions=[exp.column(short.replace("c", "v"))])))
        distinct = own.from_(table(cells)).where(exp.column("released").eq(0)).subquery()
        return literal(1), exp.func("GREATEST", distinct, literal(1)), 1
    long = long_taxonomy(prelude, name, hierarchy)
    counted = exp.select(count_all()).from_(table(long)).where(exp.column("level").eq(0))
    every = exp.func("GREATEST", counted.subquery(), literal(1))  # a column of NULLs has no leaf
    if level == 0:
        return literal(1), every, hierarchy.height
    below = exp.select(count_all()).from_(table(long, alias="t"))
    same_node = exp.column("node", table="t").eq(exp.column("label", table="v"))
    below = below.where(exp.column("level", table="t").eq(level), same_node)
    # NULL stays NULL below the root and stands for itself alone.
    own_leaves = exp.func("GREATEST", below.subquery(), literal(1))
    return own_leaves, every, hierarchy.height


def recoded_tuples(prelude: Prelude, cells: str, recoding: Recoding) -> str:
    """Distinct original records with the number of records that their class could stand for."""

    def build() -> exp.Query:
        tree = exp.select(
            exp.column("class_id", table="k"),
            exp.column("records", table="k"),
            exp.column("kept", table="k"),
            alias(
                window(exp.Sum(this=exp.column("records", table="k")), partition=[exp.column("class_id", table="k")]),
                "class_records",
            ),
        ).from_(_merged(cells, recoding).subquery(alias="k"))
        area: exp.Expr = double(literal(1))
        for name, short in recoding.shorts.items():
            hierarchy = recoding.hierarchies.get(name)
            if hierarchy is None or recoding.levels.get(name, 0) == 0:
                continue
            made = _leaves_of_level(prelude, name, hierarchy, recoding.levels[name])
            joined = f"leaves_{short}"
            same = exp.column("label", table=joined).eq(
                exp.Coalesce(this=exp.column(short, table="k"), expressions=[literal(NULL_NODE)])
            )
            tree = tree.join(table(made, alias=joined), on=same, join_type="left")
            leaves: exp.Expr = exp.Coalesce(this=exp.column("leaves", table=joined), expressions=[literal(1)])
            if recoding.levels[name] == hierarchy.height:  # the root covers NULL too, where there is one
                missing = exp.column(short.replace("c", "v")).is_(exp.Null())
                some = exp.Max(this=case((missing, literal(1)), default=literal(0)))
                known = exp.select(some).from_(table(cells)).where(exp.column("released").eq(0)).subquery()
                leaves = exp.paren(exp.Add(this=leaves, expression=known))
            area = exp.Mul(this=area, expression=leaves)
        return tree.select(alias(area, "area"))

    return prelude.once("recoded_tuples", (cells,), build)


def _merged(cells: str, recoding: Recoding) -> exp.Select:
    """Cells without the class attribute: a record is what its quasi-identifiers say."""
    groups = ["class_id", "kept", *recoding.shorts.values(), *(s.replace("c", "v") for s in recoding.shorts.values())]
    tree = exp.select(*groups, alias(sum_bigint(exp.column("records")), "records"))
    return tree.from_(_originals(cells).subquery(alias="cells")).group_by(*groups)


def _leaves_of_level(prelude: Prelude, name: str, hierarchy: Hierarchy, level: int) -> str:
    def build() -> exp.Query:
        long = long_taxonomy(prelude, name, hierarchy)
        return (
            exp.select(alias(exp.column("node"), "label"), alias(count_all(), "leaves"))
            .from_(table(long))
            .where(exp.column("level").eq(level))
            .group_by("node")
        )

    return prelude.once("leaves", (name, level), build)


def recoded_class_values(prelude: Prelude, cells: str) -> str:
    counted = (
        exp.select(
            "class_id",
            alias(exp.column("target"), "value"),
            "kept",
            alias(sum_bigint(exp.column("records")), "records"),
        )
        .from_(_originals(cells).subquery(alias="cells"))
        .group_by("class_id", "target", "kept")
    )
    return prelude.once("recoded_class_values", (cells,), lambda: counted)


def level_matches(prelude: Prelude, release: exp.Select, name: str, hierarchy: Hierarchy) -> exp.Select:
    """For each level the number of distinct released labels that are nodes there; level -1 counts all labels."""
    long = long_taxonomy(prelude, name, hierarchy)
    own = text(column(name))
    present = (
        exp.select(alias(own, "label"))
        .from_(release.subquery(alias="release"))
        .where(column(name).is_(exp.Null()).not_())
        .group_by(own.copy())
    )
    nodes = exp.select("level", "node").distinct().from_(table(long)).subquery(alias="n")
    same = exp.column("node", table="n").eq(exp.column("label", table="p"))
    matched = (
        exp.select(exp.column("level", table="n"), alias(count_all(), "labels"))
        .from_(present.subquery(alias="p"))
        .join(nodes, on=same)
        .group_by(exp.column("level", table="n"))
    )
    every = exp.select(alias(literal(-1), "level"), alias(count_all(), "labels")).from_(
        present.subquery(alias="p", copy=True)
    )
    return exp.select("level", "labels").from_(union_all([matched, every]).subquery(alias="found"))


def disagreements(cells: str) -> exp.Select:
    """Classes that the release holds only in part, or that the original does not have: original, released."""
    counted = (
        exp.select(
            "class_id",
            alias(
                sum_bigint(case((exp.column("released").eq(0), exp.column("records")), default=literal(0))), "original"
            ),
            alias(
                sum_bigint(case((exp.column("released").eq(1), exp.column("records")), default=literal(0))), "released"
            ),
        )
        .from_(table(cells))
        .group_by("class_id")
        .subquery(alias="k")
    )
    tree = exp.select(count_all()).from_(counted)
    return tree.where(exp.column("released") > 0, exp.column("released").neq(exp.column("original")))

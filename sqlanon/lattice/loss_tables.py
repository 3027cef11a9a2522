"""The canonical relations of the loss metrics, made from the compressed table at a node of the lattice.

They read `node_cells`: the compressed table with the class of each row at the node, and whether it was kept.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from sqlanon.lattice.class_queries import ClassQueries
from sqlanon.lattice.nodes import Node
from sqlanon.sqltree.tree import alias, count_all, double, literal, sum_bigint, table, union_all, window


def recoded_classes(queries: ClassQueries, node: Node) -> exp.Query:
    counted = exp.select("class_id", "kept", alias(sum_bigint(exp.column("n")), "records")).from_("node_cells")
    return counted.group_by("class_id", "kept")


def recoded_values(queries: ClassQueries, node: Node) -> exp.Query:
    parts = []
    for place, (domain, level) in enumerate(zip(queries.table.domains, node, strict=True), start=1):
        key = exp.column(queries.compressed.key_names[domain.key])
        value = exp.BitwiseAnd(this=key, expression=literal(domain.masks[0]))
        label = exp.BitwiseAnd(this=key.copy(), expression=literal(domain.masks[level]))
        leaves: exp.Expr = exp.Min(this=exp.column(f"f{place}_{level}")) if 0 < level < domain.height else literal(1)
        if level == domain.height:
            leaves = literal(max(domain.leaves, 1))
        tree = exp.select(
            alias(literal(domain.name), "attribute"),
            alias(value, "value"),
            alias(label, "label"),
            alias(literal(level), "level"),
            alias(literal(domain.height), "height"),
            alias(double(leaves), "leaves"),
            alias(literal(domain.leaves), "domain"),
            alias(literal(float(queries.table.policy.columns[domain.name].weight)), "weight"),
            "kept",
            alias(sum_bigint(exp.column("n")), "records"),
        ).from_("node_cells")
        parts.append(tree.group_by(value.copy(), label.copy(), "kept"))
    return union_all(parts)


def recoded_tuples(queries: ClassQueries, node: Node) -> exp.Query:
    keys = queries.compressed.key_names
    area: exp.Expr = double(literal(1))
    for place, (domain, level) in enumerate(zip(queries.table.domains, node, strict=True), start=1):
        if level == domain.height:
            missing = exp.select(count_all()).from_(table(domain.dictionary)).where("original IS NULL").subquery()
            every = exp.Add(this=literal(max(domain.leaves, 1)), expression=missing)  # the root covers NULL too
            area = exp.Mul(this=area, expression=exp.paren(every))
        elif level > 0:
            area = exp.Mul(this=area, expression=exp.Min(this=exp.column(f"f{place}_{level}")))
    merged = exp.select("class_id", "kept", *keys, alias(sum_bigint(exp.column("n")), "records"), alias(area, "area"))
    merged = merged.from_("node_cells").group_by("class_id", "kept", *keys)
    whole = window(exp.Sum(this=exp.column("records")), partition=[exp.column("class_id")])
    chosen = exp.select("class_id", "kept", "records", "area", alias(whole, "class_records"))
    return chosen.from_(merged.subquery(alias="merged"))


def recoded_class_values(queries: ClassQueries, node: Node) -> exp.Query:
    """How many records of a class have each value of the column that is to be foretold; NULL is a value."""
    packed, name = queries.compressed, str(queries.requirements.target)
    own: exp.Expr
    if name in packed.values:
        own = exp.column(packed.values[name])
    else:
        domain = next(domain for domain in packed.domains if domain.name == name)
        own = exp.BitwiseAnd(this=exp.column(packed.key_names[domain.key]), expression=literal(domain.masks[0]))
    counted = alias(sum_bigint(exp.column("n")), "records")
    tree = exp.select("class_id", "kept", alias(own, "value"), counted).from_("node_cells")
    return tree.group_by("class_id", "kept", own.copy())


RECODED: dict[str, Callable[[ClassQueries, Node], exp.Query]] = {
    "recoded_classes": recoded_classes,
    "recoded_values": recoded_values,
    "recoded_tuples": recoded_tuples,
    "recoded_class_values": recoded_class_values,
}

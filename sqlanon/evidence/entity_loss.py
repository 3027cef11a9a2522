"""How much a release of entities lost against its source: what its labels leave open, and the rows that are gone.

Labels of one column may be of several levels. A label that stands on several levels counts as the highest of them.
"""

from __future__ import annotations

from sqlglot import exp

from sqlanon.engines import Engine
from sqlanon.engines.temp_tables import drop_steps, run_steps
from sqlanon.errors import PolicyError
from sqlanon.evidence.hierarchies import build_hierarchies
from sqlanon.evidence.joined_tables import entity_tree, released_tables
from sqlanon.hierarchies import Hierarchy
from sqlanon.policy import Policy, Source
from sqlanon.relations.classes import Prelude
from sqlanon.relations.compressed_rows import dictionary, root_only
from sqlanon.relations.entities import EntityTable
from sqlanon.sqltree.tree import (
    alias,
    case,
    column,
    count_all,
    double,
    join_clause,
    literal,
    nest_query,
    select,
    sum_bigint,
    table,
    text,
    union_all,
)


def entity_loss(policy: Policy, engine: Engine, release: Source) -> tuple[dict[str, float], int, int]:
    """The ncp of each quasi-identifier, the rows of all tables of the source, and those that the release lacks."""
    hierarchies = {name: root_only() for name in policy.quasi_identifiers} | build_hierarchies(policy)
    source = entity_tree(policy, engine, engine.resolve(policy.source))
    shown = entity_tree(policy, engine, engine.resolve(released_tables(policy, release)))
    found: dict[str, float] = {}
    records = gone = 0
    for own, theirs in zip(source.all_tables, shown.all_tables, strict=True):
        rows, kept = _count(engine, own), _count(engine, theirs)
        records, gone = records + rows, gone + rows - kept
        for name in policy.quasi_identifiers:
            if name in own.columns:
                found[name] = _column_loss(engine, own, theirs, name, hierarchies[name], rows, kept)
    return {name: found[name] for name in policy.quasi_identifiers}, records, gone


def _count(engine: Engine, item: EntityTable) -> int:
    return int(engine.query(select(count_all(), source=nest_query(item.rows.copy(), "counted")))[0][0])


def _column_loss(
    engine: Engine, own: EntityTable, theirs: EntityTable, name: str, hierarchy: Hierarchy, rows: int, kept: int
) -> float:
    prelude = Prelude(own.rows, engine.dialect, prefix="sqlanon_lost")
    values = select(
        alias(column(name), "c1"),
        alias(count_all(), "records"),
        source=nest_query(own.rows.copy(), "source"),
        groups=[column(name)],
    )
    made = prelude.once("values", (name,), lambda: values)
    known = dictionary(prelude, made, name, "c1", hierarchy)
    try:
        run_steps(engine, prelude.steps)
        (leaves,) = engine.query(select(exp.Max(this=exp.column("domain")), source=table(known)))[0]
        size = max(int(leaves or 0), 1)
        root = exp.select(alias(literal(hierarchy.root), "label"), alias(double(literal(size)), "leaves"))
        labels: list[exp.Query] = [root]
        for level in range(hierarchy.height):
            label = text(exp.column("original")) if level == 0 else exp.column(f"n{level}")
            below = literal(1.0) if level == 0 else exp.column(f"f{level}")
            part = select(alias(label, "label"), alias(double(below), "leaves"), source=table(known))
            labels.append(part.where(exp.column("original").is_(exp.Null()).not_(), copy=False))
        most = alias(exp.Max(this=exp.column("leaves")), "leaves")
        covers = select("label", most, source=nest_query(union_all(labels), "labels"), groups=["label"])
        shown = text(column(name, "r"))
        leaves_of = exp.column("leaves", table="c")
        share = exp.Div(
            this=exp.paren(exp.Sub(this=leaves_of, expression=literal(1.0))), expression=literal(max(size - 1, 1.0))
        )
        unknown = exp.and_(leaves_of.copy().is_(exp.Null()), column(name, "r").is_(exp.Null()).not_(), copy=False)
        total, strange = engine.query(
            select(
                exp.Sum(this=exp.Coalesce(this=share, expressions=[literal(0.0)])),
                sum_bigint(case((unknown, literal(1)), default=literal(0))),
                source=nest_query(theirs.rows.copy(), "r"),
                joins=[join_clause(nest_query(covers, "c"), exp.column("label", table="c").eq(shown), side="LEFT")],
            )
        )[0]
    finally:
        drop_steps(engine, prelude.steps)
    if strange:
        raise PolicyError(
            f"the released column '{name}' holds labels that no value of the source has",
            hint="is it the release of this source, and was the source changed since?",
        )
    return (float(total or 0.0) + rows - kept) / max(rows, 1)

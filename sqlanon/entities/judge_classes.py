"""Which persons cannot be shown at a node: those whose class of equal signatures breaks a model.

The models are asked as `sqlanon check` asks them, of the rows as they would be released. Where a class breaks one, all
its persons go, with all their rows; then the models are asked again of the rest, until none is broken.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlglot import exp

from sqlanon.engines.temp_tables import drop_steps, run_steps
from sqlanon.entities.forest import EntityForest, Levels, signatures_at
from sqlanon.entities.label_rows import joined_rows, label_tables
from sqlanon.errors import PolicyError
from sqlanon.families import plugin
from sqlanon.policy import Source
from sqlanon.relations.checks import Check, Compiler
from sqlanon.relations.classes import Prelude, class_values, classes
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
    union_all,
    window,
)

GONE = "sqlanon_entities_gone"
NEXT = "sqlanon_entities_gone_next"
MOST_ROUNDS = 20  # each suppresses at least one class


@dataclass(frozen=True)
class Judged:
    """What is suppressed at a node, and what is lost with it. `gone` is the table of these persons (person)."""

    rows: int
    persons: int
    loss: float
    gone: str | None = None


def judge_levels(forest: EntityForest, levels: Levels, *, keep: bool = False) -> Judged:
    """Ask all models of a node. With `keep` the table of suppressed persons stays."""
    tree = label_tables(forest, levels)
    found = judge_tables(forest, tree, keep=True)
    at = signatures_at(forest, levels)
    judged = measure_gone(forest, at, found)
    if not keep and found is not None:
        forest.engine.drop_temporary([found])
    return judged if keep else replace(judged, gone=None)


def measure_gone(forest: EntityForest, at: exp.Select, gone: str | None) -> Judged:
    """What goes with some persons. `at` says what each signature loses where it stays: (signature, loss)."""
    flag: exp.Expr = exp.false()
    joins = [
        join_clause(nest_query(at, "s"), _equal("signature", "s", "e")),
        join_clause(table(forest.trees[forest.tree.name], alias="t"), _equal("signature", "t", "e")),
    ]
    if gone is not None:
        own = exp.column("person", table="g").eq(exp.column("k1", table="e"))
        joins.append(join_clause(table(gone, alias="g"), own, side="LEFT"))
        flag = exp.column("person", table="g").is_(exp.Null()).not_()

    def of_gone(number: exp.Expr) -> exp.Expr:
        return sum_bigint(case((flag.copy(), number), default=literal(0)))

    loss = case((flag.copy(), exp.column("weight", table="t")), default=exp.column("loss", table="s"))
    rows, persons, lost = forest.engine.query(
        select(
            of_gone(exp.column("rows_", table="t")),
            of_gone(literal(1)),
            exp.Sum(this=double(loss)),
            source=table(forest.signed.owners, alias="e"),
            joins=joins,
        )
    )[0]
    return Judged(int(rows or 0), int(persons or 0), float(lost or 0.0), gone)


def judge_tables(forest: EntityForest, tree: EntityTable, *, keep: bool) -> str | None:
    """The table of persons (person) who cannot be shown with the rows of `tree`, or None."""
    person = forest.policy.person
    assert person is not None
    engine = forest.engine
    engine.drop_temporary([GONE, NEXT])
    gone: str | None = None
    for _ in range(MOST_ROUNDS):
        left = tree if gone is None else _without(tree, person, gone)
        prelude = Prelude(joined_rows(left), engine.dialect, prefix="sqlanon_judged")
        try:
            broken = _broken_persons(forest, left, prelude)
            engine.create_temporary(NEXT, broken)
        finally:
            drop_steps(engine, prelude.steps)
        number = int(engine.query(select(count_all(), source=table(NEXT)))[0][0])
        if not number:
            engine.drop_temporary([NEXT])
            return gone
        parts = [exp.select("person").from_(table(name)) for name in (NEXT, *([GONE] if gone else []))]
        both = select("person", source=nest_query(union_all(parts), "both_rounds"), groups=["person"])
        engine.create_temporary(f"{GONE}_both", both)
        engine.drop_temporary([NEXT, GONE])
        engine.create_temporary(GONE, exp.select("person").from_(table(f"{GONE}_both")))
        engine.drop_temporary([f"{GONE}_both"])
        gone = GONE
    raise PolicyError(
        "suppressing persons breaks the models again and again",
        hint="leave models of the whole table out, or check them with 'sqlanon check'",
    )


def _without(tree: EntityTable, person: str, gone: str) -> EntityTable:
    """The same trees without some persons. What hangs on their rows belongs to nobody then."""
    rows = nest_query(tree.rows.copy(), "source")
    kept = column(person, "source").isin(query=exp.select("person").from_(table(gone))).not_()
    every = exp.Column(this=exp.Star(), table=exp.to_identifier("source"))
    return replace(tree, rows=select(every, source=rows, where=kept))


def _broken_persons(forest: EntityForest, tree: EntityTable, prelude: Prelude) -> exp.Query:
    policy, engine = forest.policy, forest.engine
    kept = {name: item for name, item in policy.columns.items() if item.role in ("quasi_identifier", "sensitive")}
    narrowed = policy.model_copy(update={"columns": kept})
    compiler = Compiler(
        narrowed, forest.hierarchies, engine.dialect, Source(table="unused"), shared=prelude, entity=tree
    )
    prelude.null_is_value = policy.sensitive_nulls == "value"
    if not tree.branches and policy.sensitive:  # what the world knows is the distribution of the source
        prelude.baseline = forest.tree.rows.copy()
    checks = compiler.checks()
    qids = {item.qid for item in checks}
    if len(qids) > 1:
        raise PolicyError("entities are published for one quasi-identifier of all columns", hint="leave 'qids' out")
    looked_at = dict.fromkeys(item.attribute for item in checks if item.attribute is not None)
    persons = compiler.entity_classes(next(iter(qids)))
    shared = [(classes(prelude, persons), class_values(prelude, persons, name)) for name in looked_at]
    run_steps(engine, prelude.steps)
    for item in checks:
        _require(forest, item)
    parts = [_broken_signatures(item) for item in checks] + [_shared_signatures(*tables) for tables in shared]
    (made,) = prelude.entities.values()
    listed = select("signature", source=nest_query(union_all(parts), "broken"), groups=["signature"])
    own = exp.column("signature", table="b").eq(exp.column("signature", table="e"))
    return select(
        alias(exp.column("k1", table="e"), "person"),
        source=table(made, alias="e"),
        joins=[join_clause(nest_query(listed, "b"), own)],
    )


def _require(forest: EntityForest, item: Check) -> None:
    for requirement in item.requirements:
        if forest.engine.query(requirement.query.copy().limit(1)):
            raise PolicyError(requirement.message, hint=requirement.hint)


def _broken_signatures(item: Check) -> exp.Select:
    """A class without a result was not measured, and what was not measured is not safe."""
    broken = exp.Coalesce(this=exp.column("broken", table="r"), expressions=[literal(1)])
    return select(
        alias(exp.column("c1", table="s"), "signature"),
        source=table(item.classes, alias="s"),
        joins=[join_clause(item.measured("r"), _equal("class_id", "s", "r"), side="LEFT")],
        where=broken.eq(1),
    )


def _shared_signatures(sizes: str, values: str) -> exp.Select:
    """Signatures of persons who all have one value, whatever else they have."""
    return select(
        alias(exp.column("c1", table="c"), "signature"),
        source=table(sizes, alias="c"),
        joins=[join_clause(table(values, alias="v"), _equal("class_id", "v", "c"))],
        where=exp.column("records", table="v") >= exp.column("records", table="c"),
    )


def _equal(name: str, left: str, right: str) -> exp.Expr:
    return exp.column(name, table=left).eq(exp.column(name, table=right))


def suppress_short(forest: EntityForest, levels: Levels, least: int) -> Judged:
    """What is suppressed at a node where the models ask for nothing but so many persons in a class."""
    forest.engine.drop_temporary([GONE])
    forest.engine.create_temporary(GONE, short_persons(forest, signatures_at(forest, levels), least))
    return measure_gone(forest, signatures_at(forest, levels), GONE)


def short_persons(forest: EntityForest, at: exp.Select, least: int) -> exp.Select:
    """(person) of classes of fewer than `least` persons; `at` has (signature, spelt)."""
    crowd = window(count_all(), partition=[exp.column("spelt", table="s")])
    counted = select(
        alias(exp.column("k1", table="e"), "person"),
        alias(crowd, "crowd"),
        source=table(forest.signed.owners, alias="e"),
        joins=[join_clause(nest_query(at, "s"), _equal("signature", "s", "e"))],
    )
    return select("person", source=nest_query(counted, "counted"), where=exp.column("crowd") < literal(least))


def bounds_sizes_alone(forest: EntityForest) -> bool:
    """Whether all models ask for nothing but so many persons in a class."""
    return all(plugin("models", use.name).bounds_size_alone for use in forest.policy.models)

"""Two releases that show other columns, joined on those that both show."""

from __future__ import annotations

from sqlglot import exp

from sqlanon.evidence.attacks.attacked_table import NotJudged, Side, Targets
from sqlanon.families import plugin
from sqlanon.policy import Policy
from sqlanon.relations import joined_releases
from sqlanon.relations.attacks import attack_relations as relations
from sqlanon.relations.classes import classes
from sqlanon.relations.compressed_rows import root_only
from sqlanon.relations.hierarchy_lookups import long_taxonomy
from sqlanon.relations.source import relation
from sqlanon.sqltree.tree import alias, bind, select, table


def join_views(policy: Policy, targets: Targets, side: Side, other: Side) -> str:
    """The table joined(class_id, records, ours, theirs). The source, which shows everything, is joined with itself."""
    if not side.released:
        counted = [alias(exp.column("records"), name) for name in ("records", "ours", "theirs")]
        made = classes(side.prelude, side.grouping)
        return side.prelude.once("joined", (made,), lambda: select("class_id", *counted, source=table(made)))
    pairs = _pairs(policy, targets, side, other)
    tree = bind(plugin("releases", "joined").sql, {}, {"pairs": pairs})
    made = side.prelude.once("joined", (pairs,), lambda: tree)
    side.work.run()
    return made


def joined_values(policy: Policy, targets: Targets, side: Side, other: Side, attribute: str) -> str:
    """The table joined_values(class_id, value, records) of the same classes."""
    if not side.released:
        return relations.named_values(side.prelude, side.grouping, attribute)
    pairs, place = _pairs(policy, targets, side, other), policy.sensitive.index(attribute) + 1
    made = side.prelude.once("joined_values", (pairs, attribute), lambda: joined_releases.values_of(pairs, place))
    side.work.run()
    return made


def _pairs(policy: Policy, targets: Targets, side: Side, other: Side) -> str:
    ours, theirs = _shown(policy, side, "ours"), _shown(policy, other, "theirs")
    side.work.run()
    other.work.run()
    common = [name for name in ours.columns if name in theirs.columns]
    if not common:
        raise NotJudged(
            "the releases have no column in common: there is nothing to join",
            hint="columns of one meaning must have one name",
        )
    matching = {name: _along(targets, side, ours, theirs, name) for name in common}
    x = side.grouping.columns, other.grouping.columns
    return side.prelude.once("pairs", (), lambda: joined_releases.pairs(1, ours, theirs, matching, x, policy.sensitive))


def _shown(policy: Policy, side: Side, kind: str) -> joined_releases.ShownTable:
    """What a release shows, without identifiers: they would join anything."""
    engine = side.work.engine
    held = [item.name for item in engine.columns(relation(side.compiler.source, engine.dialect))]
    kept = tuple(name for name in held if name in policy.columns and policy.columns[name].role != "identifier")
    rows = side.prelude.rows
    return joined_releases.ShownTable(side.prelude.once(kind, (), lambda: joined_releases.rows(rows, kept)), kept)


def _along(
    targets: Targets, side: Side, ours: joined_releases.ShownTable, theirs: joined_releases.ShownTable, name: str
) -> str | None:
    """The labels of a column that match, or None where only equal values do."""
    if name not in side.grouping.columns:
        return None
    hierarchy = side.compiler.hierarchies.get(name) or root_only()
    values = targets.values
    covered = relations.cover_values(values.prelude, name, hierarchy)
    values.run()
    for shown in (ours, theirs):
        place = shown.columns.index(name) + 1
        strange = relations.unknown_labels(shown.name, place, covered, None).limit(1)
        if values.engine.query(strange):
            raise NotJudged(
                f"'{name}' is shown by labels that its hierarchy does not have: such releases cannot be joined",
                hint="take an algorithm that gives every quasi-identifier one level",
            )
    tree = long_taxonomy(values.prelude, name, hierarchy)
    made = side.prelude.once("along", (name,), lambda: joined_releases.along(tree, hierarchy.root, theirs, ours, name))
    side.work.run()
    return made

"""What a check asks of entities beside the models: that no value is shared by all persons with one signature, and that
numbers in place of persons were drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlglot import exp

from sqlanon.engines import Engine
from sqlanon.families import plugin
from sqlanon.relations.attacks import attack_relations as relations
from sqlanon.relations.checks import Check, Compiler
from sqlanon.relations.classes import class_values, classes
from sqlanon.relations.entities import EntityTable
from sqlanon.sqltree.tree import bind, column, count_all, nest_query, select

Shared = Mapping[str, tuple[str, str]]  # by sensitive attribute, the tables classes and class_values of its persons


def count_rows(engine: Engine, tree: EntityTable) -> int:
    """The rows of all tables of a tree."""
    counted = [select(count_all(), source=nest_query(item.rows.copy(), "rows_of_persons")) for item in tree.all_tables]
    return sum(int(engine.query(item)[0][0]) for item in counted)


def plan_disclosed(compiler: Compiler, checks: Sequence[Check]) -> Shared:
    """Plan the classes and values of attributes that a model looks at."""
    found = {}
    for item in checks:
        if item.attribute is not None and item.attribute not in found:
            grouping = compiler.entity_classes(item.qid)
            prelude = compiler.prelude
            found[item.attribute] = (classes(prelude, grouping), class_values(prelude, grouping, item.attribute))
    return found


def find_disclosed(engine: Engine, shared: Shared) -> list[str]:
    """What everybody with the same signature has. Each of them may have further values, so that diversity does not
    tell that."""
    found = []
    for name, (sizes, values) in shared.items():
        tree = bind(plugin("attacks", "homogeneity").sql, {}, {"classes": sizes, "class_values": values})
        persons = int(engine.query(relations.confidence(tree))[0][1])
        if persons:
            found.append(f"{name}: {persons:,} persons share their signature only with persons who have the same value")
    return found


def require_drawn(engine: Engine, person: str, tree: EntityTable) -> list[str]:
    """The persons of a release, and its keys, are numbers from 1 on, as `publish` draws them: anything else may be the
    person itself. Every row of a child table names a row that is shown."""
    found = _not_drawn(engine, tree, person)
    for parent in tree.all_tables:
        for branch in parent.branches:
            left, right = branch.on[0]
            if left != person or parent is not tree:
                found += _not_drawn(engine, parent, left)
            own = exp.select(column(left)).from_(nest_query(parent.rows.copy(), "parent"))
            own = own.where(column(left).is_(exp.Null()).not_())
            lost = exp.or_(column(right).is_(exp.Null()), column(right).isin(query=own).not_(), copy=False)
            child = nest_query(branch.child.rows.copy(), "child")
            number = int(engine.query(select(count_all(), source=child, where=lost))[0][0])
            if number:
                found.append(f"{number:,} rows of '{branch.child.name}' name no row of '{parent.name}'")
    return found


def key_columns(tree: EntityTable) -> set[str]:
    """The columns that hold numbers in place of keys, beside that of the persons."""
    return {name for item in tree.all_tables for branch in item.branches for pair in branch.on for name in pair}


def _not_drawn(engine: Engine, item: EntityTable, name: str) -> list[str]:
    kinds = {known.name: known for known in engine.columns(item.rows.copy())}
    said = [f"the release holds the identifier '{name}': it should hold drawn numbers from 1 on"]
    if not kinds[name].numeric:
        return said
    key = column(name)
    wanted = [exp.Min(this=key), exp.Max(this=key.copy()), exp.Count(this=exp.Distinct(expressions=[key.copy()]))]
    least, most, number = engine.query(select(*wanted, source=nest_query(item.rows.copy(), "release")))[0]
    return [] if number == 0 or (least == 1 and most == number) else said

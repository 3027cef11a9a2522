"""Build the hierarchies of a policy, and validate them against the data, inside the engine."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from sqlglot import exp

from sqlanon import hierarchies as hierarchy_kinds
from sqlanon.engines import Engine
from sqlanon.engines.temp_tables import SHOWN_VALUES, drop_steps, format_values, run_steps
from sqlanon.errors import HierarchyError, SqlanonError
from sqlanon.families import family
from sqlanon.hierarchies import Hierarchy
from sqlanon.policy import HierarchyUse, Policy
from sqlanon.relations.classes import Prelude
from sqlanon.relations.hierarchy_lookups import long_taxonomy, source_values
from sqlanon.relations.source import relation
from sqlanon.sqltree.tree import bind, column, count_all, nest_query, select

HIERARCHY_PROBLEMS = {
    "uncovered": ("does not cover values of the column", "add them to the hierarchy, or correct the data"),
    "duplicated": ("lists leaves more than once", "keep one entry for each value"),
    "empty_nodes": ("has gaps: values with an empty level", "give each value a node on every level"),
    "not_nested": ("does not nest: nodes with several parents", "make each level a function of the one below"),
    "rootless": ("has no root: several nodes on its top level", "end every line with the same node, such as *"),
}


class HasHierarchies(Protocol):
    """What is asked of a policy here, whatever it publishes."""

    @property
    def hierarchies(self) -> Mapping[str, HierarchyUse]: ...

    @property
    def name(self) -> str: ...

    @property
    def base(self) -> Path: ...

    def line_of(self, *path: str | int) -> int | None: ...


def build_hierarchies(policy: HasHierarchies) -> dict[str, Hierarchy]:
    """The hierarchies of a policy; one error says everything that is wrong with their files."""
    built: dict[str, Hierarchy] = {}
    problems: list[HierarchyError] = []
    for name, use in policy.hierarchies.items():
        try:
            built[name] = hierarchy_kinds.build(use.kind, use.params, policy.base)
        except HierarchyError as error:
            problems.append(error)
    if len(problems) > 1:
        raise HierarchyError("\n".join(map(str, problems)))
    if problems:
        raise problems[0]
    return built


def validate_hierarchies(policy: Policy, engine: Engine, hierarchies: Mapping[str, Hierarchy]) -> None:
    """Each value covered exactly once, each level a function of the one below, one root; all in the engine."""
    source = engine.resolve(policy.source)
    prelude = Prelude(relation(source, engine.dialect), engine.dialect)
    try:
        require_valid(policy, engine, hierarchies, prelude)
    finally:
        drop_steps(engine, prelude.steps)


def require_valid(
    policy: HasHierarchies, engine: Engine, hierarchies: Mapping[str, Hierarchy], prelude: Prelude
) -> None:
    """The same over tables that exist already: no further pass over the rows where one of them counts the values."""
    problems: list[str] = []
    for name, hierarchy in hierarchies.items():
        problems += _hierarchy_problems(policy, engine, prelude, name, hierarchy)
    if problems:
        raise HierarchyError("\n".join(problems))


def _misapplied(engine: Engine, prelude: Prelude, name: str, hierarchy: Hierarchy, where: str) -> list[str]:
    """Computed levels cover and nest by construction; what can be wrong is the type of the column."""
    labels = [level(column(name)).as_(f"level_{i}") for i, level in enumerate(hierarchy.levels, start=1)]
    try:
        engine.columns(exp.select(*labels).from_(prelude.rows.subquery(alias="source")))
    except SqlanonError:
        types = {item.name: item.type for item in engine.columns(prelude.rows)}
        problem = f"{where}the hierarchy of '{name}' does not fit a column of type {types.get(name)}"
        return [f"{problem}\n  hint: choose another kind of hierarchy, or cast the column in a query"]
    return []


def _hierarchy_problems(
    policy: HasHierarchies, engine: Engine, prelude: Prelude, name: str, hierarchy: Hierarchy
) -> list[str]:
    line = policy.line_of("hierarchies", name)
    where = f"{policy.name}:{line}: " if line else ""
    if hierarchy.levels:
        return _misapplied(engine, prelude, name, hierarchy, where)
    done = len(prelude.steps)
    relations = {
        "source_values": source_values(prelude, name),
        "taxonomy": long_taxonomy(prelude, name, hierarchy),
    }
    run_steps(engine, prelude.steps[done:])
    possible = ["uncovered"] if hierarchy.is_known_tree() else list(HIERARCHY_PROBLEMS)
    queries = {kind: bind(family("hierarchies")[kind].sql, {}, relations) for kind in possible}
    # One statement tells whether all is well; only what is wrong is asked for in detail.
    counts = [select(count_all(), source=nest_query(tree, "found")).subquery(copy=False) for tree in queries.values()]
    wrong = [kind for kind, count in zip(queries, engine.query(exp.select(*counts))[0], strict=True) if count]
    found_problems = []
    for kind in wrong:
        message, hint = HIERARCHY_PROBLEMS[kind]
        tree = bind(family("hierarchies")[kind].sql, {}, relations)
        ordered = exp.select("value", "records").from_(tree.subquery(alias="found"))
        found = engine.query(ordered.order_by("records DESC", "value").limit(SHOWN_VALUES + 1))
        if found:
            values = "\n  ".join(format_values(found).splitlines())
            found_problems.append(f"{where}the hierarchy of '{name}' {message}\n  {values}\n  hint: {hint}")
    return found_problems

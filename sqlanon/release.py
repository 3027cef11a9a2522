"""Write a release: the source, generalized inside its own database."""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from sqlanon.compiler.classes import Prelude
from sqlanon.compiler.lookups import recoded
from sqlanon.compiler.source import relation, table_tree
from sqlanon.engines import Engine
from sqlanon.engines.steps import drop_steps, run_steps
from sqlanon.errors import PolicyError
from sqlanon.evidence.hierarchies import build_hierarchies, validate_hierarchies
from sqlanon.policy import Policy


def write_generalized(policy: Policy, engine: Engine, levels: Mapping[str, int]) -> str:
    """Write the release table with each quasi-identifier at its level; identifiers are left out. Returns its name.

    The levels are the owner's choice, and nothing is promised by them: check the release before it leaves.
    """
    if policy.release is None or policy.release.table is None:
        raise PolicyError("the policy names no table for the release", hint="add 'release: {table: …}'")
    hierarchies = build_hierarchies(policy)
    for name, level in levels.items():
        height = hierarchies[name].height if name in hierarchies else 0
        if not 0 <= level <= height:
            raise PolicyError(f"'{name}' has the levels 0 to {height}, not {level}")
    validate_hierarchies(policy, engine, hierarchies)
    rows = relation(engine.resolve(policy.source), engine.dialect)
    kept = {name: name for name, item in policy.columns.items() if item.role != "identifier"}
    prelude = Prelude(rows, engine.dialect)
    select = recoded(prelude, rows, dict(hierarchies), dict(levels), kept)
    try:
        run_steps(engine, prelude.steps)
        made = exp.Create(this=table_tree(policy.release.table), kind="TABLE", expression=select)
        engine.execute(exp.Drop(tables=[table_tree(policy.release.table)], kind="TABLE", exists=True))
        engine.execute(made)
    finally:
        drop_steps(engine, prelude.steps)
    return policy.release.table

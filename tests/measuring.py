"""What a model measures for every class, read from the tables that the compiled statements make."""

from __future__ import annotations

import json
from typing import Any

from sqlglot import exp

from sqlanon.engines import Engine
from sqlanon.engines.temp_tables import drop_steps, run_steps
from sqlanon.evidence.checks import prepare
from sqlanon.policy import Policy, Source, parse
from sqlanon.sqltree.tree import table


def policy_for(
    group: list[str],
    sensitive: list[str],
    models: list[dict[str, Any]],
    insensitive: tuple[str, ...] = (),
    **more: Any,
) -> Policy:
    roles = dict.fromkeys(group, "quasi_identifier") | dict.fromkeys(sensitive, "sensitive")
    roles |= dict.fromkeys(insensitive, "insensitive")
    # NULL is a sensitive value here, as the oracles count it; what is unknown has tests of its own.
    written: dict[str, Any] = {"source": {"table": "t"}, "columns": roles, "models": models}
    written |= {"absent_values": "allow", "sensitive_nulls": "value", **more}
    return parse(json.dumps(written, ensure_ascii=False))  # JSON is YAML


def measure(
    engine: Engine, policy: Policy, release: Source | None = None
) -> list[dict[tuple[str | None, ...], tuple[float, bool]]]:
    """For each check of the policy: class -> (measured, broken)."""
    compiler, checks, _ = prepare(policy, engine, release)
    run_steps(engine, compiler.prelude.steps)
    found = []
    for check in checks:
        shown = [exp.column(name, table="l") for name in check.shown]
        same = exp.column("class_id", table="l").eq(exp.column("class_id", table="r"))
        tree = exp.select("r.measured", "r.broken", *(exp.cast(name, "text") for name in shown))
        rows = engine.query(tree.from_(check.measured("r")).join(table(check.classes, alias="l"), on=same))
        by_class: dict[tuple[str | None, ...], tuple[float, bool]] = {}
        for measured, broken, *key in rows:
            # Where classes are made of more than what is shown, one broken class is enough.
            earlier = by_class.get(tuple(key), (0.0, False))[1]
            by_class[tuple(key)] = (float(measured), broken == 1 or earlier)
        found.append(by_class)
    drop_steps(engine, compiler.prelude.steps)
    return found

"""How much a release lost against its original, by every loss metric."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sqlglot import exp

from sqlanon.engines import Engine
from sqlanon.engines.temp_tables import drop_steps, run_steps
from sqlanon.errors import PolicyError
from sqlanon.evidence.hierarchies import build_hierarchies, validate_hierarchies
from sqlanon.families import Plugin, family
from sqlanon.hierarchies import Hierarchy
from sqlanon.policy import Policy, Source
from sqlanon.relations.classes import Prelude
from sqlanon.relations.compressed_rows import root_only
from sqlanon.relations.loss_relations import (
    Recoding,
    disagreements,
    level_matches,
    recoded_cells,
    recoded_class_values,
    recoded_classes,
    recoded_tuples,
    recoded_values,
)
from sqlanon.relations.source import SUPPRESSED, relation, rows_to_check
from sqlanon.sqltree.tree import bind, find_references, table


@dataclass(frozen=True)
class Loss:
    """Loss metrics by name; a metric that needs more than was given is left out."""

    metrics: Mapping[str, float]
    by_attribute: Mapping[str, float]
    levels: Mapping[str, int]
    records: int
    suppressed: int


def loss(
    policy: Policy,
    engine: Engine,
    release: Source,
    *,
    levels: Mapping[str, int] | None = None,
    class_attribute: str | None = None,
) -> Loss:
    """Compare a release with the source of its policy. Levels are read off the released labels if not given."""
    given = build_hierarchies(policy)
    validate_hierarchies(policy, engine, given)
    hierarchies = {name: root_only() for name in policy.quasi_identifiers} | given
    original = relation(engine.resolve(policy.source), engine.dialect)
    released = rows_to_check(
        relation(engine.resolve(release), engine.dialect),
        policy.quasi_identifiers,
        suppressed_marker=SUPPRESSED if policy.suppressed_rows == "keep" else None,
        number_rows=False,
        sensitive=policy.sensitive,
    )
    prelude = Prelude(original, engine.dialect)
    try:
        if levels is None:
            levels = infer_levels(policy, engine, prelude, released, hierarchies)
        recoding = Recoding(
            columns=policy.quasi_identifiers,
            levels=levels,
            hierarchies=hierarchies,
            weights={name: item.weight for name, item in policy.columns.items()},
            target=class_attribute,
        )
        return _measure(policy, engine, prelude, original, released, recoding)
    finally:
        drop_steps(engine, prelude.steps)


def infer_levels(
    policy: Policy, engine: Engine, prelude: Prelude, release: exp.Select, hierarchies: Mapping[str, Hierarchy]
) -> dict[str, int]:
    """The lowest level of each hierarchy that holds all labels of a released column."""
    levels = {}
    for name in policy.quasi_identifiers:
        if name not in hierarchies:
            continue
        done = len(prelude.steps)
        query = level_matches(prelude, release, name, hierarchies[name])
        run_steps(engine, prelude.steps[done:])
        matches = {int(level): int(labels) for level, labels in engine.query(query)}
        fitting = [level for level in sorted(matches) if level >= 0 and matches[level] == matches[-1]]
        if not fitting and matches[-1] > 0:
            raise PolicyError(
                f"the released values of '{name}' do not all stand on one level of its hierarchy",
                hint="loss is measured for releases that generalize each column to one level",
            )
        levels[name] = fitting[0] if fitting else _without_labels(engine, release, hierarchies[name])
    return levels


def _without_labels(engine: Engine, release: exp.Select, hierarchy: Hierarchy) -> int:
    """The level of a column without any label: NULLs are as they were; of no rows at all, nothing is left."""
    return 0 if engine.query(exp.select("1").from_(release.subquery(alias="released")).limit(1)) else hierarchy.height


def _measure(
    policy: Policy, engine: Engine, prelude: Prelude, original: exp.Select, released: exp.Select, recoding: Recoding
) -> Loss:
    done = len(prelude.steps)
    cells = recoded_cells(prelude, original, released, recoding)
    made = {
        "recoded_classes": recoded_classes(prelude, cells),
        "recoded_values": recoded_values(prelude, cells, recoding),
        "recoded_tuples": recoded_tuples(prelude, cells, recoding),
        "recoded_class_values": recoded_class_values(prelude, cells),
    }
    run_steps(engine, prelude.steps[done:])
    if engine.query(disagreements(cells))[0][0]:
        raise PolicyError(
            "the release is not the original table generalized level by level with whole classes suppressed",
            hint="is it the release of this source, and was the source changed since?",
        )
    records, kept = engine.query(
        exp.select("COALESCE(SUM(records), 0)", "COALESCE(SUM(records * kept), 0)").from_(
            table(made["recoded_classes"])
        )
    )[0]
    metrics = {
        name: _metric(engine, metric, policy, made)
        for name, metric in family("loss").items()
        if records and (recoding.target or "class_attribute" not in metric.needs)
    }
    return Loss(
        metrics={name: value for name, value in metrics.items() if value is not None},
        by_attribute=_by_attribute(engine, made["recoded_values"]),
        levels=dict(recoding.levels),
        records=int(records),
        suppressed=int(records) - int(kept),
    )


def _metric(engine: Engine, metric: Plugin, policy: Policy, made: Mapping[str, str]) -> float | None:
    asked = max((use.params["k"] for use in policy.models if "k" in use.params), default=1)
    params = metric.filled({"k": asked} if metric.param("k") else {})
    relations = {name: made[name] for name in find_references(metric.sql)}
    value = engine.query(bind(metric.sql, params, relations))[0][0]
    return None if value is None else float(value)


def _by_attribute(engine: Engine, values: str) -> dict[str, float]:
    """The share of its domain that each attribute leaves open: the loss of `ncp`, attribute by attribute."""
    inner = bind(family("loss")["ncp"].sql, {}, {"recoded_values": values}).find(exp.Subquery)
    assert inner is not None
    found = engine.query(exp.select("attribute", "loss").from_(inner).order_by("attribute"))
    return {str(name): float(value) for name, value in found}

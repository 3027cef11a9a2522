"""How much a release lost against its original, by every loss metric."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from sqlanon.engines import Engine
from sqlanon.engines.temp_tables import drop_steps, run_steps
from sqlanon.errors import PolicyError
from sqlanon.evidence.entity_loss import entity_loss
from sqlanon.evidence.hierarchies import build_hierarchies, validate_hierarchies
from sqlanon.evidence.region_labels import pieces_of
from sqlanon.evidence.work_tables import Work
from sqlanon.families import Plugin, family
from sqlanon.hierarchies import Hierarchy
from sqlanon.lattice.search_state import TempTables
from sqlanon.policy import Policy, Source
from sqlanon.policy.person_shapes import ENTITY, ROWS, require_shape
from sqlanon.relations.classes import Prelude
from sqlanon.relations.compressed_rows import root_only
from sqlanon.relations.label_relations import (
    class_values_by_labels,
    classes_by_labels,
    count_leaves,
    label_leaves,
    overfull_labels,
    released_cells,
    released_labels,
    strange_labels,
    values_by_labels,
)
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
from sqlanon.sqltree.tree import bind, find_references, nest_query, table

MOST_REGIONS = 200_000  # labels of one column that are read one by one


@dataclass(frozen=True)
class Loss:
    """Loss metrics by name; a metric that needs more than was given is left out.

    `by_region` where rows with equal values have different labels: then `levels` are those of columns that have one
    level nevertheless, and metrics that ask what became of each value are left out.
    """

    metrics: Mapping[str, float]
    by_attribute: Mapping[str, float]
    levels: Mapping[str, int]
    records: int
    suppressed: int
    by_region: bool = False


def loss(
    policy: Policy,
    engine: Engine,
    release: Source,
    *,
    levels: Mapping[str, int] | None = None,
    class_attribute: str | None = None,
) -> Loss:
    """Compare a release with the source of its policy. Levels are read off the released labels if not given; where the
    release has no such levels, the loss is what its labels leave open."""
    engine.admit(policy)
    require_shape(policy, "a comparison of values with labels", ROWS, ENTITY)
    if policy.shape == ENTITY:
        return _of_entities(policy, engine, release)
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
        recoding = Recoding(
            columns=policy.quasi_identifiers,
            levels=levels or {},
            hierarchies=hierarchies,
            weights={name: item.weight for name, item in policy.columns.items()},
            target=class_attribute,
        )
        if levels is not None:
            return _measure(policy, engine, prelude, original, released, recoding)
        try:
            levels = infer_levels(policy, engine, prelude, released, hierarchies)
            return _measure(policy, engine, prelude, original, released, replace(recoding, levels=levels))
        except NotByLevels:
            return measure_by_labels(Work(engine, prelude, len(prelude.steps)), policy, released, recoding)
    finally:
        drop_steps(engine, prelude.steps)


class NotByLevels(PolicyError):
    """The release does not generalize each column to one level with whole classes suppressed."""


def _of_entities(policy: Policy, engine: Engine, release: Source) -> Loss:
    by_attribute, records, gone = entity_loss(policy, engine, release)
    weights = {name: policy.columns[name].weight for name in by_attribute}
    whole = sum(weights.values())
    ncp = sum(weights[name] * value for name, value in by_attribute.items()) / whole if whole else 0.0
    return Loss({"ncp": ncp}, by_attribute, {}, records, gone, by_region=True)


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
            raise NotByLevels(
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
        raise NotByLevels(
            "the release is not the original table generalized level by level with whole classes suppressed",
            hint="is it the release of this source, and was the source changed since?",
        )
    records, kept = engine.query(
        exp.select("COALESCE(SUM(records), 0)", "COALESCE(SUM(records * kept), 0)").from_(
            table(made["recoded_classes"])
        )
    )[0]
    chosen = list(family("loss").values()) if records else []
    return Loss(
        metrics=_metrics(engine, policy, made, recoding, chosen),
        by_attribute=_by_attribute(engine, made["recoded_values"]),
        levels=dict(recoding.levels),
        records=int(records),
        suppressed=int(records) - int(kept),
    )


def measure_by_labels(
    work: Work | TempTables, policy: Policy, released: exp.Select, recoding: Recoding, records: int | None = None
) -> Loss:
    """What the labels of a release leave open, whatever its rows were. `work` has the rows of the source; where their
    number is not given, it is counted, and the release compared with them."""
    prelude, engine = work.prelude, work.engine
    cells = released_cells(prelude, released, recoding)
    leaves, levels = {}, {}
    for name, short in recoding.shorts.items():
        labels = released_labels(prelude, cells, short)
        leaves[name] = _read_labels(work, recoding, name, labels)
        if records is None:
            overfull = overfull_labels(prelude, name, recoding.hierarchies[name], labels)
            work.run()
            if engine.query(overfull)[0][0]:
                raise PolicyError(
                    f"more rows of the release have some label of '{name}' than rows of the source have such a value",
                    hint="is it the release of this source, and was the source changed since?",
                )
        found = engine.query(exp.select("level").distinct().from_(table(leaves[name])).where("NOT label IS NULL"))
        if len(found) == 1 and found[0][0] is not None:
            levels[name] = int(found[0][0])
    kept = _count(engine, exp.select("COALESCE(SUM(records), 0)").from_(table(cells)))
    if records is None:
        records = _count(engine, exp.select("COUNT(*)").from_(nest_query(prelude.rows.copy(), "source")))
        if kept > records:
            raise PolicyError(
                f"the release has {kept:,} rows and the source {records:,}",
                hint="is it the release of this source, and was the source changed since?",
            )
    gone = records - kept
    made = {
        "recoded_classes": classes_by_labels(prelude, cells, recoding, gone),
        "recoded_values": values_by_labels(prelude, leaves, recoding, gone),
        "recoded_class_values": class_values_by_labels(prelude, cells, recoding, gone),
    }
    work.run()
    nodes = len(levels) == len(leaves) or not any(
        engine.query(exp.select("1").from_(table(item)).where("level IS NULL").limit(1)) for item in leaves.values()
    )
    left_out = {"levels"} if nodes else {"levels", "nodes"}
    chosen = [metric for metric in family("loss").values() if records and not metric.traits & left_out]
    return Loss(
        metrics=_metrics(engine, policy, made, recoding, chosen),
        by_attribute=_by_attribute(engine, made["recoded_values"]),
        levels=levels,
        records=records,
        suppressed=gone,
        by_region=True,
    )


def _count(engine: Engine, tree: exp.Select) -> int:
    return int(engine.query(tree)[0][0])


def _read_labels(work: Work | TempTables, recoding: Recoding, name: str, labels: str) -> str:
    """The table of the leaves below the labels of a column; labels of regions are taken apart."""
    prelude, engine, hierarchy = work.prelude, work.engine, recoding.hierarchies[name]
    strange = strange_labels(prelude, name, hierarchy, labels)
    work.run()
    found = [str(label) for (label,) in engine.query(strange.limit(MOST_REGIONS + 1))]
    if len(found) > MOST_REGIONS:
        raise PolicyError(
            f"'{name}' has more than {MOST_REGIONS:,} different labels of regions",
            hint="the loss of a release is measured for fewer",
        )
    rows = [(label, *piece) for label in found for piece in pieces_of(label) or ()]
    pieces = prelude.load("pieces", (name, labels), ("label", "range", "low", "high"), tuple(rows)) if rows else None
    domain = count_leaves(prelude, name, hierarchy)
    made = label_leaves(prelude, name, hierarchy, labels, pieces, domain)
    work.run()
    if engine.query(exp.select("1").from_(table(made)).where("leaves IS NULL").limit(1)):
        raise PolicyError(
            f"the release shows '{name}' by labels that neither its hierarchy nor the values of the source explain",
            hint="is it the release of this source, under this policy, and was the source changed since?",
        )
    return made


def _metrics(
    engine: Engine, policy: Policy, made: Mapping[str, str], recoding: Recoding, chosen: Sequence[Plugin]
) -> dict[str, float]:
    fitting = [metric for metric in chosen if recoding.target or "class_attribute" not in metric.needs]
    found = {metric.name: _metric(engine, metric, policy, made) for metric in fitting}
    return {name: value for name, value in found.items() if value is not None}


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

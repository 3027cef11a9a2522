"""Describe a release: everything that was measured, for the report, for programs, and to be kept with the release."""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import version
from types import ModuleType
from typing import Any

from sqlglot import exp

from sqlanon import __version__, algorithms, transformations
from sqlanon.errors import PolicyError
from sqlanon.evidence.checks import Evidence
from sqlanon.evidence.linked_rows import Linked
from sqlanon.evidence.loss import measure_by_labels
from sqlanon.evidence.release_evidence import (
    Attribute,
    ClassRisk,
    Distribution,
    FoundByValues,
    MeasuredNode,
    MethodEvidence,
    ModelEvidence,
    PolicyText,
    ReleaseEvidence,
)
from sqlanon.evidence.results import CheckResult
from sqlanon.families import family, plugin
from sqlanon.lattice.nodes import Node
from sqlanon.lattice.problem import Problem
from sqlanon.lattice.solution import Solution
from sqlanon.plan import Plan
from sqlanon.policy import Policy, TransformationUse
from sqlanon.relations.loss_relations import Recoding
from sqlanon.relations.source import SUPPRESSED, relation, rows_to_check
from sqlanon.release.count_evidence import count_classes
from sqlanon.release.level_words import describe_levels
from sqlanon.release.rewrite_release import Rewriting
from sqlanon.release.targets.target import Staged, Target
from sqlanon.sqltree.tree import threshold

MOST_CANDIDATES = 10


def describe_release(
    task: Problem,
    solution: Solution,
    plan: Plan,
    how: Rewriting,
    found: Evidence | None = None,
    target: Target | None = None,
    staged: Staged | None = None,
) -> ReleaseEvidence:
    """Everything that was measured. Without `found` it is the plan of a dry run."""
    # Of the release as it was written; a dry run reads what would be written.
    source = how.select if staged is None else relation(task.engine.resolve(staged.source), task.engine.dialect)
    lost = measure_losses(task, solution, plan, source)
    evidence = outline_release(
        task.table.written,
        plan,
        task.records,
        solution.suppressed,
        sql=script(task, how),
        loss=lost.metrics,
        attributes=attributes(task, solution, lost.by_attribute),
        candidates=candidates(task, solution),
    )
    if solution.found_by_values is not None:
        by_values = found_by_values(task, *solution.found_by_values)
        said = (by_values.said, *evidence.not_protected)
        evidence = replace(evidence, found_by_values=by_values, not_protected=said)
    if found is None or target is None or staged is None:
        return evidence
    sizes, risk, spread, examples = count_classes(task, solution, how, source)
    evidence = replace(evidence, attributes=attributes(task, solution, lost.by_attribute, examples))
    if found.linked is not None:
        linked = found.linked
        risk = replace(risk, after=ClassRisk(1 / linked.fewest, linked.sets / linked.persons, linked.alone))
        if linked.problems:
            said = (*evidence.not_protected, f"{linked.uniqueness}: the policy accepts it (linked_rows: accept)")
            evidence = replace(evidence, not_protected=said)
    evidence = add_verdict(evidence, found, target, staged)
    return replace(evidence, class_sizes=sizes, risk=risk, distributions=spread)


def found_by_values(task: Problem, rows: int, fewest: int) -> FoundByValues:
    """What suppressed cells that match any value leave to somebody who knows the values."""
    k = max(int(use.params["k"]) for use in task.policy.models)
    said = f"suppressed cells match any value: {rows:,} of {task.records:,} rows"
    said += f" are found among fewer than k = {k} by somebody who knows all quasi-identifiers of the person"
    said += f", at worst among {fewest}" if rows else ""
    return FoundByValues(rows, fewest, said)


def outline_release(
    policy: Policy,
    plan: Plan,
    records: int,
    suppressed: int,
    *,
    sql: str,
    loss: Mapping[str, float] | None = None,
    attributes: Sequence[Attribute] = (),
    candidates: Sequence[MeasuredNode] = (),
    groups: Mapping[str, Any] | None = None,
    items: Mapping[str, Any] | None = None,
) -> ReleaseEvidence:
    """What is known of every release before it is written."""
    methods = tuple(describe_method(use) for use in policy.transformations)
    return ReleaseEvidence(
        sqlanon=__version__,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        source=policy.source.text,
        policy=PolicyText(policy.name, plan.policy, serialize_policy(policy)),
        plan=_json(plan),
        plan_hash=plan.hash,
        records=records,
        released=records - suppressed,
        suppressed=suppressed,
        suppression_limit=policy.suppression_limit,
        minimize=plan.minimize,
        versions=versions(),
        not_protected=tuple(not_protected(policy)),
        transformations=methods or None,
        loss=loss or {},
        attributes=tuple(attributes),
        candidates=tuple(candidates),
        groups=groups,
        items=items,
        sql=sql,
    )


def add_verdict(evidence: ReleaseEvidence, found: Evidence, target: Target, staged: Staged) -> ReleaseEvidence:
    """Add what the checks of the release as written found."""
    return replace(
        evidence,
        release=target.described(staged),
        holds=found.holds,
        breaches=found.breaches,
        notes=found.notes,
        checks=tuple(describe_check(item) for item in found.checks),
        linked_rows=linked_rows(found.linked) if found.linked is not None else None,
    )


def linked_rows(found: Linked) -> dict[str, Any]:
    """What the sets of rows of persons tell, where a release links the rows of a person."""
    return {
        "columns": list(found.columns),
        "said": found.said,
        "uniqueness": found.uniqueness,
        "persons": found.persons,
        "several": found.several,
        "alone": found.alone,
        "fewest": found.fewest,
        "sets": found.sets,
        "accepted": found.accepted,
        "holds": found.holds,
        "problems": found.problems,
        "checks": [asdict(describe_check(item)) for item in found.checks],
        "any_row": [asdict(describe_check(item)) for item in found.any_row],
        "disclosed": dict(found.disclosed),
        "not_measured": list(found.not_measured),
    }


def without_originals(evidence: ReleaseEvidence) -> ReleaseEvidence:
    """Leave out what is told of the source itself: from version to version it would tell of single rows, and of those
    that are held back."""
    spread = {
        # A bin that the release does not show would tell of a value of the source.
        name: Distribution(after=tuple(each for each in item.after or () if each[1]), ordered=item.ordered)
        for name, item in (evidence.distributions or {}).items()
        if not item.ranges
    }
    return replace(
        evidence,
        class_sizes=replace(evidence.sizes, before=None),
        risk=replace(evidence.chances, before=None),
        distributions=spread,
    )


def add_history(evidence: ReleaseEvidence, described: Mapping[str, Any], waiting: int) -> ReleaseEvidence:
    """Add what was compared with earlier releases. `waiting` rows were held back by the search already."""
    held_back = int(described["held_back"])
    released = (evidence.released or 0) - held_back
    return replace(evidence, history={**described, "held_back": held_back + waiting}, released=released)


def serialize_policy(policy: Policy) -> str:
    """The policy as a file would say it: JSON, which is YAML."""
    data = policy.model_dump(mode="json", exclude_defaults=True)
    data["source"].pop("database", None)  # may hold a password
    data["columns"] = {name: item if set(item) - {"role"} else item["role"] for name, item in data["columns"].items()}
    data["models"] = [_use(item) for item in data["models"]]
    data["hierarchies"] = {
        name: {use["kind"]: use.get("params", {})} for name, use in data.get("hierarchies", {}).items()
    }
    if "models" in (data.get("history") or {}):
        data["history"]["models"] = [_use(item) for item in data["history"]["models"]]
    if "transformations" in data:
        data["transformations"] = [{item["name"]: item.get("params", {})} for item in data["transformations"]]
    if "algorithm" in data:
        data["algorithm"] = {data["algorithm"]["name"]: data["algorithm"].get("params", {})}
    return json.dumps(data, indent=2, ensure_ascii=False)


def _use(item: dict[str, Any]) -> dict[str, Any]:
    reserved = {key: item[key] for key in ("attribute", "qid") if item.get(key) is not None}
    return {item["name"]: item.get("params", {}) | reserved}


def _json(plan: Plan) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(plan.to_json())
    if len(plan.passes) == 1:
        data["levels"] = dict(plan.passes[0])
    return data


def describe_method(use: TransformationUse) -> MethodEvidence:
    """A method with all its parameters, and what it is; nothing that it drew."""
    module = transformations.method(use.name)
    params = module.Params.model_validate(use.params).model_dump(mode="json")
    return MethodEvidence(use.name, params, (module.__doc__ or "").strip().splitlines()[0])


def extract_limits(module: ModuleType | algorithms.Algorithm) -> str:
    """The paragraph of a manual page that says what the method does not do, as one line."""
    paragraphs = (module.__doc__ or "").split("\n\n")
    found = next((part for part in paragraphs if part.startswith("What it does not protect:")), "")
    sentence = " ".join(found.partition("\ncite:")[0].split())
    return sentence.removeprefix("What it does not protect: ")


def describe_check(item: CheckResult) -> ModelEvidence:
    """What a check measured, beside what its model requires."""
    model = plugin("models", item.model)
    return ModelEvidence(
        model=item.model,
        params=dict(item.params),
        qid=item.qid,
        attribute=item.attribute,
        measures=item.measures,
        classes=item.classes,
        broken_classes=item.broken_classes,
        broken_records=item.broken_records,
        measured=item.measured,
        required=threshold(model.sql, model.filled(item.params), smaller_is_worse=model.worse_when_smaller),
        holds=item.holds,
        summary=model.summary,
        asks=item.asks or None,
    )


@dataclass(frozen=True)
class Losses:
    """Loss metrics by name, and for each quasi-identifier the mean share of its domain that a released value leaves
    open: rows that are not released count in the metrics alone."""

    metrics: Mapping[str, float]
    by_attribute: Mapping[str, float]


def measure_losses(task: Problem, solution: Solution, plan: Plan, released: exp.Select) -> Losses:
    """Every loss metric that is defined for a solution: of a node by its levels, else by the labels as released."""
    if len(solution.passes) == 1:
        asked = max((use.params["k"] for use in task.policy.models if "k" in use.params), default=1)
        metrics = {
            name: (metric.sql, metric.filled({"k": asked} if metric.param("k") else {}))
            for name, metric in family("loss").items()
            if task.requirements.target or "class_attribute" not in metric.needs
        }
        return Losses(task.losses_by_sql(solution.passes[0], metrics), _open_shares(task, solution.passes[0]))
    if solution.assigned is not None:  # nobody can tell rows of nobody from others
        return Losses({plan.minimize: plan.loss}, {})
    names = tuple(domain.name for domain in task.domains)
    recoding = Recoding(
        columns=names,
        levels={},
        hierarchies={domain.name: domain.hierarchy for domain in task.domains},
        weights={name: task.policy.columns[name].weight for name in names},
    )
    marker = SUPPRESSED if task.policy.suppressed_rows == "keep" else None
    rows = rows_to_check(released, names, suppressed_marker=marker, number_rows=False, sensitive=task.policy.sensitive)
    try:
        found = measure_by_labels(task.state.tables, task.policy, rows, recoding, task.records)
    except PolicyError:  # labels that a file spells otherwise, or too many: no reason to withhold what holds
        return Losses({plan.minimize: plan.loss}, {})
    kept = found.records - found.suppressed
    of_kept = {
        name: (share * found.records - found.suppressed) / kept if kept else 1.0
        for name, share in found.by_attribute.items()
    }
    return Losses(found.metrics, {name: max(share, 0.0) for name, share in of_kept.items()})


def _open_shares(task: Problem, node: Node) -> dict[str, float]:
    marginals = task.marginals()
    return {
        domain.name: (marginals[place][level] - 1) / (domain.leaves - 1) if domain.leaves > 1 else 0.0
        for place, (domain, level) in enumerate(zip(task.domains, node, strict=True))
    }


def attributes(
    task: Problem, solution: Solution, lost: Mapping[str, float], examples: Mapping[str, str] | None = None
) -> tuple[Attribute, ...]:
    """Per quasi-identifier its level, and the mean share of its domain that a released value leaves open. `examples`
    are labels that the release shows."""
    found = []
    for place, domain in enumerate(task.domains):
        levels = [node[place] for node in solution.passes]
        use = task.policy.hierarchies.get(domain.name)
        found.append(
            Attribute(
                name=domain.name,
                role="quasi_identifier",
                level=levels[0] if len(levels) == 1 else None,
                levels=tuple(levels),
                height=domain.height,
                loss=lost.get(domain.name),
                what=use.kind if use else "shown or hidden",
                weight=task.policy.columns[domain.name].weight,
                released_as=describe_levels(use, levels, domain.height, (examples or {}).get(domain.name)),
            )
        )
    return tuple(found)


def candidates(task: Problem, solution: Solution) -> tuple[MeasuredNode, ...]:
    holding = [item for item in solution.candidates if item.holds][:MOST_CANDIDATES]
    failing = [item for item in solution.candidates if not item.holds][: MOST_CANDIDATES // 2]
    return tuple(
        MeasuredNode(task.table.levels(item.node), item.loss, item.suppressed, item.holds)
        for item in (*holding, *failing)
    )


def script(task: Problem, how: Rewriting) -> str:
    """The SQL of the release: the temporary tables that the rewrite reads, then the rewrite."""
    from sqlanon.relations.check_script import render_create

    parts = [render_create(step, task.engine.dialect) for step in task.prelude.steps]
    return (
        "\n\n".join([*parts, "-- the release\n" + how.shown.sql(task.engine.dialect, pretty=True, copy=False) + ";"])
        + "\n"
    )


def versions() -> dict[str, str]:
    return {"python": platform.python_version()} | {name: version(name) for name in ("duckdb", "sqlglot", "numpy")}


def not_protected(policy: Policy) -> list[str]:
    """What a reader might take for granted, and must not."""
    found = []
    needs = {need for use in policy.models for need in plugin("models", use.name).needs}
    if policy.sensitive and "sensitive" not in needs:
        found.append(f"nothing hides how {', '.join(policy.sensitive)} is spread inside a class: no model looks at it")
    altered = {name for use in policy.transformations for name in use.changed()}
    kept = [name for name, item in policy.columns.items() if item.role == "insensitive" and name not in altered]
    if kept:
        found.append(f"{', '.join(kept)}: released as it is, since the policy calls it insensitive")
    if policy.person is None:
        found.append("rows were counted, not persons: a person with several rows is protected less")
    if policy.suppressed_rows == "keep" and kept:
        found.append("suppressed rows are kept with their insensitive columns and pseudonyms")
    hashed = [name for name, item in policy.columns.items() if item.pseudonym]
    if hashed:
        found.append(f"{', '.join(hashed)}: pseudonyms link the rows of a person, and whoever has the key knows them")
    found += [
        f"{name}: {extract_limits(transformations.method(name))}"
        for name in dict.fromkeys(use.name for use in policy.transformations)
    ]
    if policy.algorithm is not None and extract_limits(algorithms.algorithm(policy.algorithm.name)):
        found.append(f"{policy.algorithm.name}: {extract_limits(algorithms.algorithm(policy.algorithm.name))}")
    if policy.history is None:
        found.append("other releases of the same persons may be compared with this one")
    else:
        found.append("releases of other names, or by others, of the same persons may be compared with this one")
        found.append("who knows that a person is in the source, and sees that its row waits, may guess why")
    return found

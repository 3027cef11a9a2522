"""The evidence of a release as one document: for the report, for programs, and to be kept with the release."""

from __future__ import annotations

import json
import platform
from datetime import UTC, datetime
from importlib.metadata import version
from types import ModuleType
from typing import Any

from sqlanon import __version__, algorithms, transformations
from sqlanon.evidence.checks import Evidence
from sqlanon.evidence.linked_rows import Linked
from sqlanon.evidence.results import CheckResult
from sqlanon.families import family, plugin
from sqlanon.lattice.problem import Problem
from sqlanon.lattice.solution import Solution
from sqlanon.plan import Plan
from sqlanon.policy import Policy, TransformationUse
from sqlanon.relations.source import relation
from sqlanon.release.count_evidence import count_classes
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
) -> dict[str, Any]:
    """Everything that was measured. Without `found` it is the plan of a dry run."""
    document = outline_release(task.table.written, plan, task.records, solution.suppressed) | {
        "loss": losses(task, solution, plan),
        "attributes": attributes(task, solution),
        "candidates": candidates(task, solution),
        "sql": script(task, how),
    }
    if solution.found_by_values is not None:
        document["found_by_values"] = found_by_values(task, *solution.found_by_values)
        document["not_protected"].insert(0, document["found_by_values"]["said"])
    if found is not None and target is not None and staged is not None:
        released = relation(task.engine.resolve(staged.source), task.engine.dialect)
        document |= verdict(found, target, staged) | count_classes(task, how, released)
        if found.linked is not None and found.linked.problems:
            document["not_protected"].append(f"{found.linked.uniqueness}: the policy accepts it (linked_rows: accept)")
        if found.linked is not None:
            chance = {"highest": 1 / found.linked.fewest, "average": found.linked.sets / found.linked.persons}
            document["risk"]["after"] = chance | {"uniques": found.linked.alone}
    return document


def found_by_values(task: Problem, rows: int, fewest: int) -> dict[str, Any]:
    """What suppressed cells that match any value leave to somebody who knows the values."""
    k = max(int(use.params["k"]) for use in task.policy.models)
    said = f"suppressed cells match any value: {rows:,} of {task.records:,} rows"
    said += f" are found among fewer than k = {k} by somebody who knows all quasi-identifiers of the person"
    said += f", at worst among {fewest}" if rows else ""
    return {"rows": rows, "fewest": fewest, "said": said}


def outline_release(policy: Policy, plan: Plan, records: int, suppressed: int) -> dict[str, Any]:
    """What is known of every release before it is written."""
    document: dict[str, Any] = {
        "sqlanon": __version__,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "source": policy.source.text,
        "policy": {"name": policy.name, "hash": plan.policy, "text": serialize_policy(policy)},
        "plan": _json(plan),
        "plan_hash": plan.hash,
        "records": records,
        "released": records - suppressed,
        "suppressed": suppressed,
        "suppression_limit": policy.suppression_limit,
        "minimize": plan.minimize,
        "versions": versions(),
        "not_protected": not_protected(policy),
    }
    if policy.transformations:
        document["transformations"] = [describe_method(use) for use in policy.transformations]
    return document


def verdict(found: Evidence, target: Target, staged: Staged) -> dict[str, Any]:
    """What the checks of a release as written found."""
    document = {
        "release": target.described(staged),
        "holds": found.holds,
        "breaches": list(found.breaches),
        "notes": list(found.notes),
        "checks": [describe_check(item) for item in found.checks],
    }
    if found.linked is not None:
        document["linked_rows"] = linked_rows(found.linked)
    return document


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
        "checks": [describe_check(item) for item in found.checks],
        "any_row": [describe_check(item) for item in found.any_row],
        "disclosed": dict(found.disclosed),
        "not_measured": list(found.not_measured),
    }


def without_originals(document: dict[str, Any]) -> None:
    """Leave out what is told of the source itself: from version to version it would tell of single rows, and of those
    that are held back."""
    for part in ("class_sizes", "risk"):
        document[part].pop("before", None)
    for item in document["distributions"].values():
        item.pop("before", None)


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


def describe_method(use: TransformationUse) -> dict[str, Any]:
    """A method with all its parameters, and what it is; nothing that it drew."""
    module = transformations.method(use.name)
    params = module.Params.model_validate(use.params).model_dump(mode="json")
    return {"method": use.name, "params": params, "summary": (module.__doc__ or "").strip().splitlines()[0]}


def extract_limits(module: ModuleType | algorithms.Algorithm) -> str:
    """The paragraph of a manual page that says what the method does not do, as one line."""
    paragraphs = (module.__doc__ or "").split("\n\n")
    found = next((part for part in paragraphs if part.startswith("What it does not protect:")), "")
    sentence = " ".join(found.partition("\ncite:")[0].split())
    return sentence.removeprefix("What it does not protect: ")


def describe_check(item: CheckResult) -> dict[str, Any]:
    model = plugin("models", item.model)
    return {
        "model": item.model,
        "params": dict(item.params),
        "qid": list(item.qid),
        "attribute": item.attribute,
        "measures": item.measures,
        "classes": item.classes,
        "broken_classes": item.broken_classes,
        "broken_records": item.broken_records,
        "measured": item.measured,
        "required": threshold(model.sql, item.params, smaller_is_worse=model.worse_when_smaller),
        "holds": item.holds,
        "summary": model.summary,
    }


def losses(task: Problem, solution: Solution, plan: Plan) -> dict[str, float]:
    """Every loss metric for a single node; for several passes or regions the one that was minimized."""
    if len(solution.passes) != 1:
        return {plan.minimize: plan.loss}
    asked = max((use.params["k"] for use in task.policy.models if "k" in use.params), default=1)
    metrics = {
        name: (metric.sql, metric.filled({"k": asked} if metric.param("k") else {}))
        for name, metric in family("loss").items()
        if task.requirements.target or "class_attribute" not in metric.needs
    }
    return task.losses_by_sql(solution.passes[0], metrics)


def attributes(task: Problem, solution: Solution) -> list[dict[str, Any]]:
    """Per quasi-identifier its level, and the mean share of its domain that a released value leaves open."""
    found = []
    marginals = task.marginals()
    for place, domain in enumerate(task.domains):
        levels = [node[place] for node in solution.passes]
        loss = None
        if len(levels) == 1:
            leaves = marginals[place][levels[0]]
            loss = (leaves - 1) / (domain.leaves - 1) if domain.leaves > 1 else 0.0
        use = task.policy.hierarchies.get(domain.name)
        found.append(
            {
                "name": domain.name,
                "role": "quasi_identifier",
                "level": levels[0] if len(levels) == 1 else None,
                "levels": levels,
                "height": domain.height,
                "loss": loss,
                "what": use.kind if use else "shown or hidden",
                "weight": task.policy.columns[domain.name].weight,
            }
        )
    return found


def candidates(task: Problem, solution: Solution) -> list[dict[str, Any]]:
    holding = [item for item in solution.candidates if item.holds][:MOST_CANDIDATES]
    failing = [item for item in solution.candidates if not item.holds][: MOST_CANDIDATES // 2]
    return [
        {"levels": task.table.levels(item.node), "loss": item.loss, "suppressed": item.suppressed, "holds": item.holds}
        for item in (*holding, *failing)
    ]


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

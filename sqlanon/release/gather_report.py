"""What the report shows: the stored evidence of a release, with risks and attacks measured now."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sqlglot import exp

from sqlanon.engines import Engine
from sqlanon.errors import SourceError
from sqlanon.evidence.apply_transformations import needs_secret
from sqlanon.evidence.json_values import mapping, quantity, text
from sqlanon.evidence.release_evidence import ReleaseEvidence
from sqlanon.policy import Policy
from sqlanon.policy.person_shapes import ENTITY, ROWS, SEQUENCE, SET
from sqlanon.relations.source import relation
from sqlanon.release.algorithm_kind import is_parted
from sqlanon.release.publication import Progress, tell
from sqlanon.release.solve_policy import prepare_problem
from sqlanon.release.stored_evidence import load_evidence, risk_utility_map, too_wide_to_map
from sqlanon.sqltree.tree import count_all
from sqlanon.verdict.criteria import as_data


def report(
    policy: Policy,
    engine: Engine,
    *,
    explore: float = 30.0,
    secret: str | None = None,
    attacked: bool = True,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """The stored evidence of a release, with the map of what other k and suppression limits would cost, for which at
    most `explore` seconds are spent; 0 leaves it out. So does a policy with draws whose `secret` is not given. Risks
    are measured and attacks carried out on source and release as they are now, if `attacked`."""
    evidence = kept = ReleaseEvidence.from_json(load_evidence(policy, engine))
    if attacked and policy.shape == ENTITY:
        tell(progress, "attacking the release", 0, 1)
        from sqlanon.release.measure_resistance import resistance

        evidence = replace(evidence, **resistance(policy, engine, evidence))
        tell(progress, "attacking the release", 1, 1)
    if attacked and policy.shape in (SET, SEQUENCE):
        tell(progress, "attacking the release", 0, 1)
        from sqlanon.release.measure_resistance import attacks_on_wholes

        evidence = replace(evidence, attacks=attacks_on_wholes(policy, engine, evidence))
        tell(progress, "attacking the release", 1, 1)
    if attacked and policy.shape == ROWS:
        tell(progress, "attacking the release", 0, 1)
        from sqlanon.release.gather_verdict import verdict_of_release
        from sqlanon.release.measure_resistance import resistance  # loads all attacks

        evidence = replace(evidence, **resistance(policy, engine, evidence))
        found = verdict_of_release(policy, engine, evidence=evidence)
        evidence = replace(evidence, verdicts=tuple(as_data(found)))
        tell(progress, "attacking the release", 1, 1)
    drawn = needs_secret(policy) and not secret
    by_levels = policy.shape == ROWS and not is_parted(policy)
    if explore > 0 and len(evidence.plan["passes"]) == 1 and not drawn and by_levels:
        task = prepare_problem(policy, engine, time_limit=explore, progress=progress, secret=secret)
        try:
            asked = max((use.params["k"] for use in policy.models if "k" in use.params), default=None)
            if (why := too_wide_to_map(task)) is not None:
                evidence = replace(evidence, notes=(*(evidence.notes or ()), why))
            else:
                evidence = replace(evidence, map=risk_utility_map(task, (asked, policy.suppression_limit)))
        finally:
            task.close()
    require_same_version(policy, engine, kept)
    return note_changed_source(evidence, _count_rows(policy, engine, evidence)).to_json()


def require_same_version(policy: Policy, engine: Engine, evidence: ReleaseEvidence) -> None:
    """A report is of one version. The file of a folder stays; what else is replaced meanwhile was measured in part."""
    if policy.release is not None and policy.release.is_folder:
        return
    now = ReleaseEvidence.from_json(load_evidence(policy, engine))
    if (now.created, now.plan_hash, now.release) != (evidence.created, evidence.plan_hash, evidence.release):
        raise SourceError(
            "the release was published anew while its report was made",
            hint="write the report again, of what is shown now",
        )


def _count_rows(policy: Policy, engine: Engine, evidence: ReleaseEvidence) -> int | None:
    """The rows of the source now, as far as the risks were measured on them; these may have counted persons."""
    measured = mapping(mapping(evidence.risks).get("source"))
    if text(measured.get("counts")) != "persons":
        return quantity(measured.get("records"))
    if policy.shape != ROWS or policy.transformations:
        return None
    rows = relation(engine.resolve(policy.source), engine.dialect)
    return int(engine.query(exp.select(count_all()).from_(rows.subquery("source")))[0][0])


def note_changed_source(evidence: ReleaseEvidence, now: int | None) -> ReleaseEvidence:
    """Say that the source has other rows than those that were published."""
    if now is None or evidence.records is None or now == evidence.records:
        return evidence
    said = (
        f"the source had {evidence.records:,} rows when the release was made, and has {now:,} now: risks, attacks and "
    )
    said += "other choices are measured with those of now"
    return replace(evidence, notes=(*(evidence.notes or ()), said))

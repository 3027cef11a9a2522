"""What the report shows: the stored evidence of a release, with risks and attacks measured now."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sqlanon.engines import Engine
from sqlanon.evidence.apply_transformations import needs_secret
from sqlanon.evidence.release_evidence import ReleaseEvidence
from sqlanon.policy import Policy
from sqlanon.release.algorithm_kind import is_parted
from sqlanon.release.publication import Progress, tell
from sqlanon.release.solve_policy import prepare_problem
from sqlanon.release.stored_evidence import load_evidence, risk_utility_map, too_wide_to_map
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
    evidence = ReleaseEvidence.from_json(load_evidence(policy, engine))
    if attacked:
        tell(progress, "attacking the release", 0, 1)
        from sqlanon.release.gather_verdict import verdict_of_release
        from sqlanon.release.measure_resistance import resistance  # loads all attacks

        evidence = replace(evidence, **resistance(policy, engine, evidence.records or 0))
        found = verdict_of_release(policy, engine, evidence=evidence)
        evidence = replace(evidence, verdicts=tuple(as_data(found)))
        tell(progress, "attacking the release", 1, 1)
    drawn = needs_secret(policy) and not secret
    if explore > 0 and len(evidence.plan["passes"]) == 1 and not drawn and not is_parted(policy):
        task = prepare_problem(policy, engine, time_limit=explore, progress=progress, secret=secret)
        try:
            asked = max((use.params["k"] for use in policy.models if "k" in use.params), default=None)
            if (why := too_wide_to_map(task)) is not None:
                evidence = replace(evidence, notes=(*(evidence.notes or ()), why))
            else:
                evidence = replace(evidence, map=risk_utility_map(task, (asked, policy.suppression_limit)))
        finally:
            task.close()
    return evidence.to_json()

"""What a release withstands: its risks and attacks on it, beside those of its source, for the report."""

from __future__ import annotations

from typing import Any

from sqlanon.engines import Engine
from sqlanon.errors import PolicyError, SourceError
from sqlanon.evidence.attacks import as_data, attack
from sqlanon.evidence.json_values import text
from sqlanon.evidence.release_evidence import ReleaseEvidence
from sqlanon.evidence.risk import risks_of_release
from sqlanon.families import family
from sqlanon.policy import Policy, Source

MOST_ROWS = 1_000_000


def _names(records: int) -> list[str]:
    if records <= MOST_ROWS:
        return []
    return [item.name for item in family("attacks").values() if not item.makes and "slow" not in item.traits]


def resistance(policy: Policy, engine: Engine, evidence: ReleaseEvidence) -> dict[str, Any]:
    """The parts `risks` and `attacks` of a document, for the release that it describes. What cannot be measured is told
    there: that is no reason to withhold the other evidence."""
    found: dict[str, Any] = {}
    records = evidence.records or 0
    release = published_source(policy, evidence)
    if release is None:
        return found
    said: list[str] = []
    try:
        found["risks"] = risks_of_release(policy, engine, release)
    except (PolicyError, SourceError) as error:
        said.append(f"risks were not measured: {error.message}")
    try:
        found["attacks"] = as_data(attack(policy, engine, release=release, names=_names(records)))
        if records > MOST_ROWS:
            slow = [item.name for item in family("attacks").values() if "slow" in item.traits]
            found["attacks"]["not_judged"] |= dict.fromkeys(slow, "it takes long on a table of this size")
    except (PolicyError, SourceError) as error:
        found["attacks"] = {"attacks": [], "notes": [f"attacks were not judged: {error.message}"]}
    found["attacks"]["notes"] = [*said, *found["attacks"]["notes"]]
    if policy.history is not None:
        _without_source(found)
    return found


def attacks_on_wholes(policy: Policy, engine: Engine, evidence: ReleaseEvidence) -> dict[str, Any] | None:
    """The part `attacks` for persons who are sets of items or journeys. What is not judged is told there."""
    release = published_source(policy, evidence)
    if release is None:
        return None
    try:
        return as_data(attack(policy, engine, release=release))
    except (PolicyError, SourceError) as error:
        return {"attacks": [], "notes": [f"attacks were not judged: {error.message}"]}


def published_source(policy: Policy, evidence: ReleaseEvidence | None) -> Source | None:
    """The table, view or file that was published. Of a folder, the file that the evidence speaks of: another version
    may be shown by now."""
    given = policy.release
    if given is None:
        return None
    if given.path is None:
        return Source(table=given.table or given.view)
    file = text((evidence.release or {}).get("file")) if evidence is not None and given.is_folder else ""
    return Source(path=given.path + file)


def _without_source(found: dict[str, Any]) -> None:
    """From version to version, numbers of the source would tell of rows that are held back."""
    found.get("risks", {}).pop("source", None)
    for item in found.get("attacks", {}).get("attacks", ()):
        item["before"] = None
    if "advantages" in found.get("attacks", {}):
        found["attacks"]["advantages"] = ()  # rates of persons of the source

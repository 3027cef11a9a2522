"""What was published and not retired, with its evidence: in the record of a database, and beside a file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from sqlanon.engines import Engine
from sqlanon.engines.companion_files import evidence_file
from sqlanon.policy import Policy
from sqlanon.release.record import RELEASES, RETIRED, of_file, of_version, versions
from sqlanon.release.targets import folder

Found = tuple[str, Mapping[str, Any] | None]  # the name of a release, and its evidence


def find_published(policy: Policy, engine: Engine, *, once_a_policy: bool = False) -> Iterator[Found]:
    """Every version that anybody may have seen, the newest first; of the record one version for each policy, if
    `once_a_policy`."""
    seen = set()
    retired: dict[str, int] = {}
    if engine.find([RELEASES]) is not None:
        listed = versions(engine)
        for item in listed:
            if item.status == RETIRED:
                retired[item.release] = max(item.version, retired.get(item.release, 0))
        for item in listed:
            if item.version <= retired.get(item.release, 0):
                continue
            if once_a_policy and (item.release, item.policy_hash) in seen:
                continue
            seen.add((item.release, item.policy_hash))
            yield item.release, of_version(engine, item.release, item.version)
    if policy.release is not None and policy.release.path is not None:
        yield from _beside(Path(policy.release.path))


def _beside(path: Path) -> Iterator[Found]:
    """What was published into the folder that the release lies in."""
    for found in sorted(path.parent.glob("*.evidence.json")):
        name = str(found).removesuffix(evidence_file("").name)
        yield name, of_file(name)
    for inner in sorted(item for item in path.parent.iterdir() if item.is_dir()):
        listed = folder.list_versions(inner)
        last = max((item.version for item in listed if item.status == RETIRED), default=0)
        for item in listed:
            if item.version > last:
                yield str(inner), folder.evidence(inner, item.version)

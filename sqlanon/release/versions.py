"""The versions of a release, wherever it is: in a database, or in a folder of files; and of tables of marginals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sqlanon.engines import Engine
from sqlanon.errors import PolicyError
from sqlanon.policy import Policy
from sqlanon.policy.marginals import Marginals
from sqlanon.policy.statistics import StatisticsPolicy
from sqlanon.release.record import CURRENT, Version, of_file, of_version, versions_of
from sqlanon.release.targets import folder


def by_name(policy: Policy | Marginals | StatisticsPolicy, engine: Engine) -> dict[str, list[Version]]:
    """The versions of a release, or of each table of marginals, the newest first."""
    if isinstance(policy, Marginals):
        return {name: versions_of(engine, name) for name in policy.tables}
    given = policy.release
    if given is None or (given.path is not None and not given.is_folder):
        raise PolicyError(
            "only releases in a database or in a folder have versions", hint="release a view, or a folder 'name/'"
        )
    return {given.name: folder.list_versions(Path(given.name)) if given.is_folder else versions_of(engine, given.name)}


def versions(policy: Policy | Marginals | StatisticsPolicy, engine: Engine) -> list[Version]:
    """The newest first; of marginals one table after the other."""
    return [item for found in by_name(policy, engine).values() for item in found]


def evidence(
    policy: Policy | Marginals | StatisticsPolicy, engine: Engine, version: int | None = None
) -> dict[str, Any] | None:
    """The evidence of a version, or of the one that is shown; None if there is none. Tables of marginals that were
    written together have the same."""
    for item in versions(policy, engine):
        if item.version == version or (version is None and item.status == CURRENT):
            if isinstance(policy, Policy) and policy.release is not None and policy.release.is_folder:
                return folder.evidence(Path(policy.release.name), item.version)
            return of_version(engine, item.release, item.version)
    return None


def evidence_shown(policy: Policy | Marginals | StatisticsPolicy, engine: Engine) -> dict[str, Any] | None:
    """The evidence of what is shown now, also of a single file."""
    given = None if isinstance(policy, Marginals) else policy.release
    if given is not None and given.path is not None and not given.is_folder:
        return of_file(given.path)
    return evidence(policy, engine)

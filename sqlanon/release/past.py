"""The versions of a release, wherever it is: in a database, or in a folder of files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sqlanon.engines import Engine
from sqlanon.errors import PolicyError
from sqlanon.policy import Policy
from sqlanon.release import folder
from sqlanon.release.record import CURRENT, Version, of_file, of_version, versions_of


def versions(policy: Policy, engine: Engine) -> list[Version]:
    """The newest first."""
    given = policy.release
    if given is None or (given.path is not None and not given.is_folder):
        raise PolicyError(
            "only releases in a database or in a folder have versions", hint="release a view, or a folder 'name/'"
        )
    return folder.listed(Path(given.name)) if given.is_folder else versions_of(engine, given.name)


def evidence(policy: Policy, engine: Engine, version: int | None = None) -> dict[str, Any] | None:
    """The evidence of a version, or of the one that is shown; None if there is none."""
    for item in versions(policy, engine):
        if item.version == version or (version is None and item.status == CURRENT):
            assert policy.release is not None
            if policy.release.is_folder:
                return folder.evidence(Path(policy.release.name), item.version)
            return of_version(engine, item.release, item.version)
    return None


def evidence_shown(policy: Policy, engine: Engine) -> dict[str, Any] | None:
    """The evidence of what is shown now, also of a single file."""
    given = policy.release
    if given is not None and given.path is not None and not given.is_folder:
        return of_file(given.path)
    return evidence(policy, engine)

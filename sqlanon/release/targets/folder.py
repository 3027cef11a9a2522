"""A folder of Parquet files, one a version. Its manifest says which one is shown; it is replaced in one step.

Who reads the manifest, and then the file that it names, sees the old release or the new one, and finds its file: the
one that was shown until now stays until the next release, whatever the policy says.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from sqlanon.engines import Engine
from sqlanon.engines.manifest import FORMAT, MANIFEST, read_manifest
from sqlanon.errors import EngineError, PolicyError
from sqlanon.plan import RecordedPlan
from sqlanon.policy import Policy, Source
from sqlanon.release.record import (
    CURRENT,
    RETIRED,
    SUPERSEDED,
    WITHDRAWN,
    RecordedRelease,
    Version,
    VersionDetails,
    read_evidence,
)
from sqlanon.release.rewrite_release import Rewriting
from sqlanon.release.targets.target import Staged, describe_audience

FILES = "release-"  # how our files begin
STAGED = ".staged-"


@dataclass
class FolderTarget:
    engine: Engine
    name: str
    audience: str | None = None
    keep: int = 0
    kind: str = "path"

    def __post_init__(self) -> None:
        self._folder = Path(self.name)
        self._lock: int | None = None
        self._plan: RecordedPlan | None = None
        self._data: str | None = None

    def require_ours(self) -> RecordedRelease | None:
        if self._folder.exists() and not self._folder.is_dir():
            raise PolicyError(f"'{self.name}' is a file", hint="give the release a folder of its own")
        if not self._folder.is_dir():
            if not self._folder.parent.is_dir():
                raise PolicyError(f"there is no folder '{self._folder.parent}'", hint="create it first")
            return None
        if read_manifest(self._folder) is None:
            left = [item.name for item in self._folder.iterdir() if not item.name.startswith((".", FILES))]
            if left:
                raise PolicyError(
                    f"folder '{self.name}' exists and was not published by sqlanon", hint="choose another target"
                )
        return None

    def described(self, staged: Staged) -> dict[str, str]:
        return {"kind": self.kind, "name": self.name, "file": _file(self._next()), **describe_audience(self.audience)}

    def stage(self, how: Rewriting) -> Staged:
        if how.hidden:
            raise PolicyError(
                f"'{how.hidden[0]}' counts persons, but must not be written to a file",
                hint="release into a table; or give it 'pseudonym: true', which links the rows of a person: then whole "
                "sets of rows must be shared",
            )
        self._folder.mkdir(exist_ok=True)
        self._lock = lock_folder(self._folder)
        staged = self._folder / f"{STAGED}{os.getpid()}.parquet"
        try:
            self._sweep()
            self.engine.write_file(how.select, str(staged))
        except BaseException:
            self.discard(Staged(str(staged), Source(path=str(staged))))
            raise
        return Staged(str(staged), Source(path=str(staged)))

    def swap(self, staged: Staged, plan: RecordedPlan, document: Mapping[str, Any], data_version: str | None) -> None:
        self._plan, self._data = plan, data_version

    def finish(self, staged: Staged, document: Mapping[str, Any]) -> None:
        assert self._plan is not None
        number = self._next()
        path = self._folder / _file(number)
        try:
            known = sync_file(Path(staged.name))
            os.replace(staged.name, path)
            _written(self._folder / _evidence(number), json.dumps(document, ensure_ascii=False, indent=2))
            shown = VersionDetails(self.audience, self._data, known, path.name)
            plan = self._plan
            new = Version(self.name, number, CURRENT, str(document["created"]), plan.hash, plan.policy, shown)
            earlier = list_versions(self._folder)
            for place, item in enumerate(earlier):
                if item.status == CURRENT:
                    earlier[place] = replace(item, status=SUPERSEDED)
            save(self._folder, [new, *earlier], keep=self.keep)
        except OSError as error:
            raise EngineError(
                f"'{self.name}' could not be written: {error.strerror}", hint="the previous release is still in place"
            ) from None
        finally:
            self._unlock()

    def discard(self, staged: Staged) -> None:
        Path(staged.name).unlink(missing_ok=True)
        self._unlock()

    def _next(self) -> int:
        return max((item.version for item in list_versions(self._folder)), default=0) + 1

    def _unlock(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _sweep(self) -> None:
        """Files of a run that was killed: no manifest ever named them."""
        versions = list_versions(self._folder)
        named = {item.shown.behind for item in versions} | {_evidence(item.version) for item in versions}
        for item in self._folder.iterdir():
            if item.name.startswith((STAGED, ".writing-")) or (item.name.startswith(FILES) and item.name not in named):
                item.unlink(missing_ok=True)


def list_versions(folder: Path) -> list[Version]:
    """What was ever published into a folder, the newest first."""
    found = read_manifest(folder)
    made = found["versions"] if found is not None else []
    return [Version(**{**item, "shown": VersionDetails(**item["shown"])}) for item in map(_parsed, made)]


def _parsed(item: dict[str, Any]) -> dict[str, Any]:
    own = dict(item)
    own["shown"] = {key: own.pop(key) for key in VersionDetails.__dataclass_fields__}
    return own


def save(folder: Path, versions: list[Version], *, keep: int) -> None:
    """Put a new manifest in the place of the old one, then remove the files that nobody needs.

    The file that was shown a moment ago stays: whoever has read the old manifest is about to open it."""
    until_now = next((item.version for item in list_versions(folder) if item.status == CURRENT), None)
    waiting = [item for item in versions if item.shown.behind and item.status != CURRENT]
    spare = [item for item in waiting if item.version == until_now]
    gone = {item.version for item in waiting[keep:] if item not in spare}
    files = [item.shown.behind for item in versions if item.version in gone and item.shown.behind]
    kept = [
        replace(item, shown=replace(item.shown, behind=None)) if item.version in gone else item for item in versions
    ]
    rows = []
    for item in kept:
        row = asdict(item)
        rows.append(row | row.pop("shown"))
    _written(folder / MANIFEST, json.dumps({"format": FORMAT, "versions": rows}, ensure_ascii=False, indent=2))
    for name in files:
        (folder / name).unlink(missing_ok=True)


def evidence(folder: Path, version: int) -> dict[str, Any] | None:
    try:
        text = (folder / _evidence(version)).read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    return read_evidence(text, str(folder))


def rollback(policy: Policy, now: Version, wanted: Version) -> None:
    """Show the file of an earlier version again, if it is bit for bit the one that was shown."""
    assert policy.release is not None and policy.release.path is not None
    folder = Path(policy.release.path)
    behind = wanted.shown.behind
    if behind is None or not (folder / behind).exists():
        raise PolicyError(
            f"the file of version {wanted.version} is not kept",
            hint="'keep: 3' under 'release' keeps the last three from now on",
        )
    if _digest(folder / behind) != wanted.shown.fingerprint:
        raise PolicyError(
            f"the file of version {wanted.version} is not the one that was shown then", hint="publish anew"
        )
    lock = lock_folder(folder)
    try:
        changed = {now.version: WITHDRAWN, wanted.version: CURRENT}
        versions = [replace(item, status=changed.get(item.version, item.status)) for item in list_versions(folder)]
        save(folder, versions, keep=max(1, policy.release.keep))
    finally:
        os.close(lock)


def retire(folder: Path) -> None:
    """Show no file any more, and remove all of them; the evidence stays."""
    lock = lock_folder(folder)
    try:
        status = {CURRENT: RETIRED}
        versions = [replace(item, status=status.get(item.status, item.status)) for item in list_versions(folder)]
        files = [item.shown.behind for item in versions if item.shown.behind]
        save(folder, [replace(item, shown=replace(item.shown, behind=None)) for item in versions], keep=0)
        for name in files:
            (folder / name).unlink(missing_ok=True)
    finally:
        os.close(lock)


def lock_folder(folder: Path) -> int:
    """One at a time writes into a folder; the lock goes with its process."""
    made = os.open(folder / ".lock", os.O_CREAT | os.O_RDWR, 0o600)
    try:
        fcntl.flock(made, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(made)
        raise EngineError(f"another process writes into '{folder}'", hint="wait until it is done") from None
    return made


def sync_file(path: Path) -> str:
    """On the disk before anybody is told of it; its SHA-256."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
    return _digest(path)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _written(path: Path, text: str) -> None:
    """All of it or nothing, whenever the process or the machine stops."""
    made = path.with_name(f".writing-{path.name}")
    with made.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(made, path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _file(version: int) -> str:
    return f"{FILES}{version:06}.parquet"


def _evidence(version: int) -> str:
    return f"{FILES}{version:06}.evidence.json"

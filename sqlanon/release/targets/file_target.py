"""A release as a file, with its evidence in a file beside it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlanon.engines import Engine
from sqlanon.engines.companion_files import companion_file, evidence_file, file_digest
from sqlanon.errors import EngineError, PolicyError
from sqlanon.plan import RecordedPlan
from sqlanon.policy import Source
from sqlanon.policy.file_formats import ENDINGS
from sqlanon.release.record import RecordedRelease, foreign, of_file
from sqlanon.release.rewrite_release import Rewriting
from sqlanon.release.targets.file_swap import clear_leftovers, replace_together
from sqlanon.release.targets.target import Staged, describe_audience


@dataclass
class FileTarget:
    """A Parquet or CSV file, written under another name beside it and moved over it in one step of the file system.
    Companions are further files, which are replaced together with it."""

    engine: Engine
    name: str
    audience: str | None = None
    kind: str = "path"

    def require_ours(self) -> RecordedRelease | None:
        path = Path(self.name)
        if path.suffix.lower() not in ENDINGS:  # of a policy that was put together in Python
            raise PolicyError(f"'{self.name}' is neither a Parquet nor a CSV file", hint="end it in .parquet or .csv")
        if not path.parent.is_dir():
            raise PolicyError(f"there is no folder '{path.parent}'", hint="create it first")
        beside_it = evidence_file(self.name)
        document = of_file(self.name)
        if document is None or document["release"]["kind"] != self.kind:
            for file in (path, beside_it):
                if os.path.lexists(file):
                    raise foreign("folder" if file.is_dir() else "file", str(file))
            return None
        return RecordedRelease(self.name, document)

    def require_free(self, endings: Iterable[str]) -> RecordedRelease | None:
        """Refuse to replace files that do not belong to this release; its evidence, if it was published."""
        ours = self.require_ours()
        known = {Path(name).name for name in ours.companions} if ours is not None else set()
        for file in (Path(companion_file(self.name, ending)) for ending in endings):
            if os.path.lexists(file) and file.name not in known:
                raise foreign("folder" if file.is_dir() else "file", str(file))
        return ours

    def described(self, staged: Staged) -> dict[str, Any]:
        also: dict[str, Any] = {}
        if staged.companions:
            written = {self.name: staged.name}
            written |= {
                companion_file(self.name, each): companion_file(staged.name, each) for each in staged.companions
            }
            also["companions"] = {name: "file" for name in written if name != self.name}
            if staged.source.path is not None:  # and not a plan
                also["sha256"] = {name: file_digest(Path(file)) for name, file in written.items()}
        return {"kind": self.kind, "name": self.name, **also, **describe_audience(self.audience)}

    def stage(self, how: Rewriting) -> Staged:
        path = Path(self.name)
        if how.hidden:
            raise PolicyError(
                f"'{how.hidden[0]}' counts persons, but must not be written to a file",
                hint="release into a table; or give it 'pseudonym: true', which links the rows of a person: then whole "
                "sets of rows must be shared",
            )
        clear_leftovers(path)
        name = str(path.with_name(f".{path.stem}.{os.getpid()}.staged{path.suffix}"))
        staged = Staged(name, Source(path=name), companions=tuple(how.companions))  # a file shows no views
        try:
            self.engine.write_file(how.select, name)
            for ending, query in how.companions.items():
                self.engine.write_file(query, companion_file(name, ending))
        except BaseException:
            self.discard(staged)
            raise
        return staged

    def swap(self, staged: Staged, plan: RecordedPlan, document: Mapping[str, Any], data_version: str | None) -> None:
        return None

    def finish(self, staged: Staged, document: Mapping[str, Any]) -> None:
        evidence = evidence_file(self.name)
        written = evidence.with_name(f".{evidence.name}.{os.getpid()}")
        try:
            written.write_text(json.dumps(document, ensure_ascii=False, indent=2), encoding="utf-8")
            ours = self.require_free(staged.companions)
            old = [Path(self.name).with_name(Path(name).name) for name in ours.companions] if ours is not None else []
            if old or staged.companions:
                new = {evidence: written, Path(self.name): Path(staged.name)}
                for each in staged.companions:
                    new[Path(companion_file(self.name, each))] = Path(companion_file(staged.name, each))
                replace_together(Path(self.name), new, old)
            else:
                os.replace(staged.name, self.name)
                os.replace(written, evidence)
        except OSError as error:
            raise EngineError(
                f"'{self.name}' could not be written: {error.strerror}", hint="the previous release is still in place"
            ) from None
        finally:
            written.unlink(missing_ok=True)

    def discard(self, staged: Staged) -> None:
        for name in (staged.name, *(companion_file(staged.name, ending) for ending in staged.companions)):
            Path(name).unlink(missing_ok=True)

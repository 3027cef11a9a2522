"""The folder of policies that owners keep over SQL: NAME.sql.yml for each release, and the labels of tables.

A file with another ending is a policy that somebody keeps as a file: it may stand here, and SQL does not change it.
What is replaced or dropped goes to the folder `history`, so that nothing an owner said is lost.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sqlanon.ddl.yaml_values import write_document
from sqlanon.errors import PolicyError
from sqlanon.policy.yaml_lines import read_yaml, text_of

ENDING = ".sql.yml"
LABELS = f"labels{ENDING}"
GATEWAY = f"gateway{ENDING}"
HISTORY = "history"
NOTE = "kept over SQL by sqlanon: change it with SQL, not here"
LONGEST = 150  # characters of a file's name


@dataclass(frozen=True)
class PolicyStore:
    folder: Path

    def path_of(self, release: str) -> Path:
        """The file of a release; a name that no file could have is shortened, and told apart by its hash."""
        plain = quote(release, safe="")
        if len(plain) > LONGEST or plain + ENDING in (LABELS, GATEWAY):
            plain = plain[:LONGEST] + "-" + hashlib.sha256(release.encode()).hexdigest()[:12]
        return self.folder / f"{plain}{ENDING}"

    def policies(self) -> list[Path]:
        """All policies of the folder that may release something, those of files among them."""
        found = (path for path in self.folder.glob("*.yml") if path.name not in (LABELS, GATEWAY))
        return sorted(path for path in found if not path.name.startswith("."))

    def find(self, release: str, others: tuple[Path, ...] = ()) -> Path | None:
        """The policy that writes a release, wherever it is kept."""
        from sqlanon.ddl.documents import read_document, release_of

        own = self.path_of(release)
        if own.is_file():
            return own
        return next((path for path in (*self.policies(), *others) if release_of(read_document(path)) == release), None)

    # ---- labels

    def labels(self) -> dict[str, dict[str, Any]]:
        """By table: its own label, and those of its columns, in the order in which they were given."""
        path = self.folder / LABELS
        if not path.is_file():
            return {}
        found = read_yaml(text_of(path), lambda _: True).data
        if not isinstance(found, Mapping) or not isinstance(found.get("tables"), Mapping):
            raise PolicyError(f"the labels in '{path.name}' are damaged", hint="put back its backup")
        return {str(name): dict(table) for name, table in found["tables"].items()}

    def write_labels(self, labels: Mapping[str, Any]) -> None:
        self.write(self.folder / LABELS, {"tables": dict(labels)})

    # ---- files

    @contextmanager
    def alone(self) -> Iterator[None]:
        """One change at a time, in all processes."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / ".lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def write(self, path: Path, document: Mapping[str, Any]) -> None:
        """Write a document whole, in the place of what was there, which is kept."""
        self.write_text(path, write_document(document, NOTE))

    def write_text(self, path: Path, text: str) -> None:
        self.keep(path)
        made = path.with_name(f".{path.name}.new")
        with open(os.open(made, os.O_CREAT | os.O_TRUNC | os.O_WRONLY | os.O_CLOEXEC, 0o600), "w") as opened:
            opened.write(text)
            opened.flush()
            os.fsync(opened.fileno())
        os.replace(made, path)

    def keep(self, path: Path) -> None:
        """Put what a file holds aside."""
        if not path.is_file() or path.name == LABELS:
            return
        folder = path.parent / HISTORY
        folder.mkdir(mode=0o700, exist_ok=True)
        moment = datetime.now(UTC).strftime("%Y%m%dT%H%M%S%fZ")
        kept = folder / f"{path.name.removesuffix(ENDING).removesuffix('.yml')}.{moment}.yml"
        kept.write_bytes(path.read_bytes())
        kept.chmod(0o600)

    def history(self, path: Path) -> list[tuple[str, Path]]:
        """What stood in a file before, with the time at which it was replaced, the newest first."""
        stem = path.name.removesuffix(ENDING).removesuffix(".yml")
        found = sorted((path.parent / HISTORY).glob("*.yml"), reverse=True)
        parts = [(*file.stem.rpartition("."), file) for file in found]
        return [(moment, file) for name, _, moment, file in parts if name == stem]


def is_kept_over_sql(path: Path) -> bool:
    return path.name.endswith(ENDING)

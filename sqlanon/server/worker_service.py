"""What the service of a worker answers: a description at once, an answer batch by batch."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, Protocol

from sqlanon.server.work_messages import Ask, Described, Summary


@dataclass
class RunningAnswer:
    """An answer on its way: all that is known before its rows, and these as Arrow batches."""

    described: Described
    summary: Summary
    batches: Generator[Any, None, None]
    whole: bool = False  # one batch, or none, has all rows


class Service(Protocol):
    """What a worker is for. `interrupt` is called from another thread."""

    def describe(self, ask: Ask) -> Described: ...

    def run(self, ask: Ask) -> RunningAnswer: ...

    def interrupt(self) -> None: ...

    def ready(self) -> dict[str, Any]: ...

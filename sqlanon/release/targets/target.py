"""Where a release goes: a table, a view over a table of its own, or a file. Others see the old one or the new one.

What sqlanon did not publish is never replaced: the record of releases tells, before the search and again at the swap.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from sqlglot import exp

from sqlanon.engines import Engine
from sqlanon.engines.engine import WRITABLE
from sqlanon.errors import SourceError
from sqlanon.plan import RecordedPlan
from sqlanon.policy import Source
from sqlanon.release.record import RecordedRelease
from sqlanon.release.rewrite_release import Rewriting


@dataclass(frozen=True)
class Staged:
    """A release that was written but that nobody else can see yet."""

    name: str
    source: Source
    hidden: tuple[str, ...] = ()
    companions: tuple[str, ...] = ()  # further tables, by what is added to the name
    views: Mapping[str, Callable[[str], exp.Select]] = field(default_factory=dict)  # over them


class Target(Protocol):
    kind: str
    name: str

    def require_ours(self) -> RecordedRelease | None:
        """Refuse to replace what somebody else made; the record of the release that would be replaced, if any."""

    def described(self, staged: Staged) -> dict[str, Any]: ...
    def stage(self, how: Rewriting) -> Staged: ...
    def swap(
        self, staged: Staged, plan: RecordedPlan, document: Mapping[str, Any], data_version: str | None
    ) -> None: ...
    def finish(self, staged: Staged, document: Mapping[str, Any]) -> None: ...
    def discard(self, staged: Staged) -> None: ...


def require_writable(target: Target, engine: Engine) -> None:
    """A table or view is written by the database: better refused now than after the search."""
    if target.kind not in ("path", "memory") and engine.read_only:
        raise SourceError(
            f"the release '{target.name}' cannot be written: the database is open for reading only", hint=WRITABLE
        )


def describe_audience(audience: str | None) -> dict[str, str]:
    """With whom, for the evidence."""
    return {} if audience is None else {"audience": audience}

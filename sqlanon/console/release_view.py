"""What the pages show of a release, read from its evidence: nothing is measured here."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from sqlanon.console.site import Site
from sqlanon.evidence.release_evidence import ModelEvidence, ReleaseEvidence
from sqlanon.report.markup import Html
from sqlanon.report.sections import sections
from sqlanon.report.sections.verdict import verdict_badge

CURRENT = "current"


@dataclass(frozen=True)
class ReleaseView:
    """A policy, its release as the record has it, and the evidence of one version if there is any."""

    name: str  # in addresses
    state: Mapping[str, Any]
    version: Mapping[str, Any] | None = None
    document: Mapping[str, Any] | None = None
    measured: bool = False  # whether attacks and verdicts were measured on this version

    @property
    def title(self) -> str:
        return str(self.state["release"] or self.state["file"])

    @property
    def evidence(self) -> ReleaseEvidence | None:
        return ReleaseEvidence.from_json(self.document) if self.document is not None else None

    @property
    def badge(self) -> Html | None:
        return verdict_badge(self.evidence) if self.evidence is not None else None

    @property
    def worst(self) -> ModelEvidence | None:
        """The requirement that is nearest to its limit, in parts of the limit."""
        checks = self.evidence.checks if self.evidence is not None else None
        near = [(check.margin / (abs(check.required) or 1.0), place) for place, check in enumerate(checks or ())
                if check.margin is not None and check.required is not None]  # fmt: skip
        return (checks or ())[min(near)[1]] if near else None

    @property
    def last_run(self) -> Mapping[str, Any] | None:
        runs = self.state["runs"]
        return runs[0] if runs else None

    @property
    def attention(self) -> list[str]:
        """What somebody should look at."""
        found = []
        if self.state["problem"]:
            found.append(f"the record of releases cannot be read: {self.state['problem']}")
        if self.evidence is not None and self.evidence.verdict is False:
            found.append("the release does not hold: it must not be passed on")
        if self.last_run is not None and self.last_run["outcome"] in ("failed", "refused", "lost"):
            found.append(f"the last run was {self.last_run['outcome']}: {self.last_run['message'] or 'no message'}")
        if self.state["release"] and self.version is None and not self.state["problem"]:
            found.append("nothing is released now")
        return found


async def look(site: Site, name: str, number: int | None = None) -> ReleaseView:
    """A release with the evidence of a version, or of the one that is shown."""
    path = site.policies[name]
    state = await site.reader.state(path)
    wanted = next(
        (
            item
            for item in state["versions"]
            if (item["version"] == number if number is not None else item["status"] == CURRENT)
        ),
        None,
    )
    if wanted is None:
        return ReleaseView(name, state)
    return with_measured(ReleaseView(name, state, wanted, await site.reader.evidence(path, wanted)), path)


def with_measured(view: ReleaseView, policy: Path) -> ReleaseView:
    """The same with risks, attacks and verdicts, if they were measured on this very version."""
    found = _read_measured(policy, view.document or {})
    return view if found is None else replace(view, document=found, measured=True)


def measured_file(policy: Path) -> Path:
    """Where `sqlanon report --json` leaves what it measured, beside the policy."""
    return policy.with_suffix(".measured.json")


def _read_measured(policy: Path, document: Mapping[str, Any]) -> Mapping[str, Any] | None:
    try:
        found = json.loads(measured_file(policy).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    same = isinstance(found, dict) and all(
        found.get(key) == document.get(key) for key in ("created", "plan_hash", "release")
    )
    return found if same else None


def section_bodies(view: ReleaseView) -> tuple[tuple[str, str, Html, bool], ...]:
    """The sections of the report: ident, title, body, and whether it belongs to the annex."""
    return () if view.document is None else bodies_of(view.document)


def bodies_of(document: Mapping[str, Any]) -> tuple[tuple[str, str, Html, bool], ...]:
    return _bodies(json.dumps(document, sort_keys=True, default=str))


@lru_cache(maxsize=32)
def _bodies(text: str) -> tuple[tuple[str, str, Html, bool], ...]:
    made = sections(ReleaseEvidence.from_json(json.loads(text)))
    return tuple((item.ident, item.title, item.body, item.annex) for item in made if item.ident != "signatures")

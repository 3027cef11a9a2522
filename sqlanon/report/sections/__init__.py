"""Sections: each is a function from the document to a section, or to None where there is nothing to say."""

from __future__ import annotations

from collections.abc import Callable

from sqlanon.evidence.release_evidence import ReleaseEvidence
from sqlanon.report.sections import attacks, choice, privacy, regulations, trace, utility, verdict
from sqlanon.report.sections.parts import Section

# In the order in which they are read: the verdict, what is promised and what is not, what it costs, why, and how.
SECTIONS: tuple[Callable[[ReleaseEvidence], Section | None], ...] = (
    verdict.verdict,
    regulations.regulations,
    privacy.requirements,
    privacy.linked_rows,
    privacy.risks,
    attacks.risk_measures,
    attacks.attacks,
    privacy.not_protected,
    utility.losses,
    privacy.class_sizes,
    utility.distributions,
    utility.workload,
    choice.tradeoff,
    privacy.suppression,
    choice.candidates,
    choice.plan,
    trace.policy,
    trace.sql,
    trace.versions,
)


def sections(document: ReleaseEvidence) -> list[Section]:
    return [made for make in SECTIONS if (made := make(document))]

"""Sections: each is a function from the document to a section, or to None where there is nothing to say."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from sqlanon.evidence.release_evidence import ReleaseEvidence
from sqlanon.report.sections import (
    attacks,
    choice,
    findings,
    items,
    journeys,
    privacy,
    regulations,
    signatures,
    suppression,
    trace,
    utility,
    verdict,
)
from sqlanon.report.sections.parts import Section

# In the order in which they are read: what was decided, by whose rules, what became of the data, what to look at; then
# the annex, for those who want to know how it was measured; and the signatures.
SECTIONS: tuple[Callable[[ReleaseEvidence], Section | None], ...] = (
    verdict.verdict,
    regulations.regulations,
    utility.columns,
    suppression.suppression,
    utility.distributions,
    items.item_sets,
    findings.findings_section,
)
ANNEX: tuple[Callable[[ReleaseEvidence], Section | None], ...] = (
    privacy.requirements,
    privacy.linked_rows,
    privacy.not_protected,
    privacy.risks,
    attacks.risk_measures,
    attacks.attacks,
    journeys.journeys,
    privacy.class_sizes,
    utility.losses,
    utility.workload,
    choice.tradeoff,
    choice.candidates,
    choice.plan,
    trace.policy,
    trace.sql,
    trace.versions,
)


def sections(document: ReleaseEvidence) -> list[Section]:
    annex = [made for make in ANNEX if (made := make(document))]
    leading = [made for make in SECTIONS if (made := make(document))]
    return [*leading, *(replace(made, annex=True) for made in annex), signatures.signatures(document)]

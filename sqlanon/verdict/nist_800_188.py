"""NIST SP 800-188 (2023), De-Identifying Government Datasets. It sets no number for the size of a class."""

from __future__ import annotations

from sqlanon.verdict.criteria import (
    Criterion,
    Judgement,
    Regulation,
    decide,
    met,
    never_assessed,
    not_assessed,
    not_met,
)
from sqlanon.verdict.release_facts import ReleaseFacts
from sqlanon.verdict.safe_harbor import find_direct_identifiers, unread_columns

FEWEST = 5


def _identifiers(facts: ReleaseFacts) -> Judgement:
    if not facts.shown:
        return not_assessed("the release shows no value")
    found = find_direct_identifiers(facts)
    if found:
        return not_met("; ".join(found))
    if unread := unread_columns(facts):
        return not_assessed(f"no column is one by name or values, but {unread}")
    return met(f"none among {len(facts.columns)} columns, by role, name and values")


def _crowd(facts: ReleaseFacts) -> Judgement:
    if facts.chances is None:
        return not_assessed(facts.why("chances"))
    return decide(
        facts.chances.smallest >= FEWEST, f"the smallest class has {facts.chances.smallest:,} {facts.chances.counts}"
    )


def _study(facts: ReleaseFacts) -> Judgement:
    if facts.attacks is None:
        return not_assessed(facts.why("attacks"))
    found = facts.results_of("linkage", "linked_rows", "probabilistic_linkage")
    judged = [item for item in found if item.why is None]
    if not judged:
        return not_assessed("; ".join(f"{item.title}: {item.why}" for item in found) or "no attack was judged")
    broken = [f"{item.title} finds {item.broken:,} of {item.targets:,}" for item in judged if item.broken]
    return decide(not broken, "; ".join(broken) or f"nobody found by {', '.join(item.name for item in judged)}")


NIST_188 = Regulation(
    ident="nist_800_188",
    title="NIST SP 800-188, de-identifying government datasets",
    note="",
    criteria=(
        Criterion(
            "nist_800_188.identifiers",
            "Direct identifiers removed",
            "NIST SP 800-188 (2023)",
            "columns that hold direct identifiers",
            "0",
            "guidance",
            _identifiers,
        ),
        Criterion(
            "nist_800_188.quasi_identifiers",
            "Quasi-identifiers transformed",
            "NIST SP 800-188 (2023)",
            "the smallest class of quasi-identifiers",
            f"at least {FEWEST}",
            "our default",
            _crowd,
        ),
        Criterion(
            "nist_800_188.study",
            "Re-identification study",
            "NIST SP 800-188 (2023)",
            "persons whom linkage attacks by somebody who knows all quasi-identifiers find with certainty",
            "0",
            "our default",
            _study,
        ),
        Criterion(
            "nist_800_188.board",
            "Disclosure review board",
            "NIST SP 800-188 (2023)",
            "a review by people",
            "none in numbers",
            "guidance",
            never_assessed("whether a board reviewed the release is not in the data"),
        ),
    ),
)

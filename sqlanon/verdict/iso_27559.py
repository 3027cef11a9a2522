"""ISO/IEC 27559:2022 (framework for de-identification) in the terms of ISO/IEC 20889:2018 (techniques)."""

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
from sqlanon.verdict.safe_harbor import unread_columns

# What ISO/IEC 20889 calls our transformations.
TECHNIQUES = {
    "additive_noise": "noise addition (randomization)",
    "alpha_beta": "noise addition (randomization)",
    "categorical_microaggregation": "microaggregation (randomization)",
    "condensation": "synthetic data",
    "data_swap": "permutation (randomization)",
    "masking": "masking (suppression)",
    "microaggregation": "microaggregation (randomization)",
    "optimal_microaggregation": "microaggregation (randomization)",
    "permutation": "permutation (randomization)",
    "pram": "noise addition (randomization)",
    "random_replacement": "noise addition (randomization)",
    "rank_swap": "permutation (randomization)",
    "resampling": "synthetic data",
    "rounding": "rounding (generalization)",
    "sampling": "sampling (statistical tools)",
    "top_bottom_coding": "top and bottom coding (generalization)",
}


def name_techniques(facts: ReleaseFacts) -> list[str]:
    """What was done to the source, in the terms of ISO/IEC 20889."""
    policy, evidence = facts.policy, facts.evidence
    named = [TECHNIQUES.get(use.name, use.name) for use in policy.transformations]
    if evidence is not None and any((item.level or 0) > 0 or any(item.levels) for item in evidence.attributes):
        named.append("generalization")
    if evidence is not None and evidence.suppressed:
        named.append("record suppression")
    if policy.algorithm_traits.groups:
        named.append("bucketization (not a term of the standard)")
    if facts.pseudonyms:
        named.append("pseudonymization")
    if any(name not in {item.name for item in facts.columns} for name in policy.identifiers):
        named.append("removal of direct identifiers (suppression)")
    return list(dict.fromkeys(named))


def _data(facts: ReleaseFacts) -> Judgement:
    if not facts.shown:
        return not_assessed("the release shows no value")
    unnamed = [item.name for item in facts.columns if item.role is None]
    direct = [item.name for item in facts.shown if item.role == "identifier" and not item.pseudonym]
    if direct:
        return not_met(f"direct identifiers in the release: {', '.join(direct)}")
    if unnamed and facts.policy.algorithm_traits.groups:
        return not_assessed(f"columns that link the parts of groups have no role: {', '.join(unnamed)}")
    if unnamed:
        return not_met(f"columns without a role: {', '.join(unnamed)}")
    if unread := unread_columns(facts):
        return not_assessed(unread)
    return met(f"all {len(facts.columns)} columns have a role, and no direct identifier is released")


def _identifiability(facts: ReleaseFacts) -> Judgement:
    holds = facts.evidence.verdict if facts.evidence is not None else None
    if facts.evidence is None or holds is None:
        return not_assessed(facts.why("evidence"))
    broken = [item.model for item in facts.evidence.broken]
    if not holds:
        return not_met(f"broken: {', '.join(broken) or 'the table as a whole'}")
    asked = ", ".join(dict.fromkeys(item.model for item in facts.evidence.checks or ()))
    return met(f"all requirements of the policy hold as written: {asked}")


def _techniques(facts: ReleaseFacts) -> Judgement:
    if facts.evidence is None:
        return not_assessed(facts.why("evidence"))
    named = name_techniques(facts)
    return decide(bool(named), ", ".join(named) or "no de-identification technique was applied")


ISO = Regulation(
    ident="iso_27559",
    title="ISO/IEC 27559 and 20889",
    note="The framework asks for four assessments; a tool measures the data, not the environment.",
    criteria=(
        Criterion(
            "iso_27559.context",
            "Context assessment",
            "ISO/IEC 27559:2022",
            "the data environment: recipients, controls, threats",
            "none in numbers",
            "guidance",
            never_assessed("who receives the release under which controls is not in the data"),
        ),
        Criterion(
            "iso_27559.data",
            "Data assessment",
            "ISO/IEC 27559:2022; ISO/IEC 20889:2018",
            "each column of the release is classified, and none is a direct identifier",
            "all columns",
            "guidance",
            _data,
        ),
        Criterion(
            "iso_27559.identifiability",
            "Identifiability assessment",
            "ISO/IEC 27559:2022; ISO/IEC 20889:2018",
            "the formal privacy measurement models of the policy, on the release as written",
            "as the policy says: the standard leaves it to the organization",
            "guidance",
            _identifiability,
        ),
        Criterion(
            "iso_27559.techniques",
            "Techniques",
            "ISO/IEC 20889:2018",
            "the techniques that were applied, in the terms of the standard",
            "at least one",
            "guidance",
            _techniques,
        ),
        Criterion(
            "iso_27559.governance",
            "Governance",
            "ISO/IEC 27559:2022",
            "responsibilities, monitoring and response after the release",
            "none in numbers",
            "guidance",
            never_assessed("an organization's rules are not in the data"),
        ),
    ),
)

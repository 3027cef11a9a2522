"""What a release or a gateway means in the words of laws, guidelines and standards: met, not met, or not assessed.

    facts (measured in the engine) -> criteria (data: test, threshold, who set it) -> verdicts

A regulation is a module with its criteria. A criterion is an entry with its citation, its threshold, whether law,
guidance or our default set it, and a function of the facts. Nothing here claims that data are anonymous.
"""

from __future__ import annotations

from sqlanon.verdict.clinical_data import CLINICAL
from sqlanon.verdict.criteria import RegulationVerdict, judge_all
from sqlanon.verdict.gdpr_recital_26 import GDPR
from sqlanon.verdict.iso_27559 import ISO
from sqlanon.verdict.nist_800_188 import NIST_188
from sqlanon.verdict.nist_800_226 import NIST_226, STATISTICS_OF_ANSWERS, GatewayFacts
from sqlanon.verdict.release_facts import ReleaseFacts
from sqlanon.verdict.safe_harbor import EXPERT, SAFE_HARBOR
from sqlanon.verdict.statistical_office import STATISTICS
from sqlanon.verdict.wp29 import WP29

OF_RELEASE = (WP29, GDPR, SAFE_HARBOR, EXPERT, CLINICAL, ISO, NIST_188, STATISTICS)
OF_GATEWAY = (NIST_226, STATISTICS_OF_ANSWERS)


def judge_release(facts: ReleaseFacts) -> tuple[RegulationVerdict, ...]:
    """The verdict of each regulation on a release."""
    return judge_all(OF_RELEASE, facts)


def judge_gateway(facts: GatewayFacts) -> tuple[RegulationVerdict, ...]:
    """The verdict of each regulation on the gateway of a policy."""
    return judge_all(OF_GATEWAY, facts)


__all__ = ["OF_GATEWAY", "OF_RELEASE", "GatewayFacts", "RegulationVerdict", "judge_gateway", "judge_release"]

"""NIST SP 800-226 (2025), evaluating differential privacy guarantees, for the gateway of a policy; and the rules of
statistical offices for its exact answers.

A limit that begins anew each month bounds a month. Over a lifetime it bounds nothing, which is a finding.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlanon.errors import number
from sqlanon.policy.gateway import Gateway
from sqlanon.verdict.criteria import Criterion, Judgement, Regulation, decide, not_assessed, not_met
from sqlanon.verdict.statistical_office import CITE, FEWEST, MOST_OF_ONE

MOST_EPSILON = 20.0


@dataclass(frozen=True)
class GatewayFacts:
    """The gateway of a policy, if it has one, and how many persons it protects, if they could be counted."""

    gateway: Gateway | None
    persons: int | None = None
    why: str = "the policy has no gateway"

    def lifetime(self, amount: str) -> float | None:
        """The most epsilon or delta that is ever spent by all principals together; None where nothing bounds it."""
        assert self.gateway is not None
        budget = self.gateway.budget
        noisy = [item for item in self.gateway.principals.values() if not item.controls]
        own = [getattr(item, amount) for item in noisy]
        each = [getattr(budget.principal, amount) if given is None else given for given in own]
        bounds = [] if budget.principal.period is not None and noisy else [float(sum(each))]
        if budget.total is not None:
            bounds.append(getattr(budget.total, amount))
        return min(bounds, default=None)


def _lifetime(facts: GatewayFacts) -> Judgement:
    if facts.gateway is None:
        return not_assessed(facts.why)
    found = facts.lifetime("epsilon")
    if found is None:
        limit = facts.gateway.budget.principal
        again = f"epsilon {number(limit.epsilon)} a {limit.period} for each principal, for ever"
        return not_met(f"unbounded: {again}, and no 'total' under budget")
    return decide(True, f"epsilon {number(found)} for all principals together, for ever")


def _epsilon(facts: GatewayFacts) -> Judgement:
    if facts.gateway is None:
        return not_assessed(facts.why)
    found = facts.lifetime("epsilon")
    if found is None:
        return not_met("unbounded")
    return decide(found <= MOST_EPSILON, f"epsilon {number(found)}")


def _delta(facts: GatewayFacts) -> Judgement:
    if facts.gateway is None:
        return not_assessed(facts.why)
    found = facts.lifetime("delta")
    if found is None:
        return not_met("unbounded")
    if found == 0:
        return decide(True, "delta 0")
    if not facts.persons:
        return not_assessed("the persons whom the gateway protects were not counted")
    one = f"one in {facts.persons:,} persons is {number(1 / facts.persons)}"
    return decide(found < 1 / facts.persons, f"delta {number(found)}; {one}")


def _exact(facts: GatewayFacts) -> Judgement:
    if facts.gateway is None:
        return not_assessed(facts.why)
    trusted = [who for who, item in facts.gateway.principals.items() if item.controls]
    return decide(not trusted, f"principals with exact answers: {', '.join(trusted) or 'none'}")


def _contributors(facts: GatewayFacts) -> Judgement:
    controls = facts.gateway.controls if facts.gateway is not None else None
    if controls is None:
        return not_assessed(facts.why if facts.gateway is None else "the gateway gives no exact answers")
    return decide(controls.query_set_size >= FEWEST, f"query_set_size {controls.query_set_size}")


def _dominance(facts: GatewayFacts) -> Judgement:
    controls = facts.gateway.controls if facts.gateway is not None else None
    if controls is None:
        return not_assessed(facts.why if facts.gateway is None else "the gateway gives no exact answers")
    rule = controls.dominance
    if rule is None:
        return not_met("no rule 'dominance' under controls")
    # A limit for the top n together holds for the largest one, too.
    return decide(rule.k <= MOST_OF_ONE, f"the top {rule.n} hold less than {rule.k:.0%} of a sum")


NIST_226 = Regulation(
    ident="nist_800_226",
    title="NIST SP 800-226, differential privacy guarantees",
    note="For the gateway that answers SQL; a release has no epsilon.",
    criteria=(
        Criterion(
            "nist_800_226.lifetime",
            "Privacy loss is bounded over a lifetime",
            "NIST SP 800-226: privacy budget and composition",
            "the most epsilon that all principals together ever spend",
            "bounded",
            "guidance",
            _lifetime,
        ),
        Criterion(
            "nist_800_226.epsilon",
            "Strength of the guarantee",
            "NIST SP 800-226: choosing epsilon",
            "the same number",
            f"at most {MOST_EPSILON:g}",
            "our default",
            _epsilon,
        ),
        Criterion(
            "nist_800_226.delta",
            "Probability of a larger loss",
            "NIST SP 800-226: approximate differential privacy",
            "the most delta that all principals together ever spend",
            "below one in the number of persons",
            "our default",
            _delta,
        ),
        Criterion(
            "nist_800_226.exact_answers",
            "No answers without noise",
            "NIST SP 800-226: the guarantee covers all outputs",
            "principals who get exact answers",
            "0",
            "guidance",
            _exact,
        ),
    ),
)

STATISTICS_OF_ANSWERS = Regulation(
    ident="statistical_office_answers",
    title="Statistical-office rules, exact answers of the gateway",
    note="",
    criteria=(
        Criterion(
            "statistical_office_answers.contributors",
            "Contributors",
            CITE,
            "fewest persons in an exact answer",
            f"at least {FEWEST}",
            "guidance",
            _contributors,
        ),
        Criterion(
            "statistical_office_answers.dominance",
            "Dominance",
            CITE,
            "the share of the largest contributor in a sum",
            f"at most {MOST_OF_ONE:.0%}",
            "guidance",
            _dominance,
        ),
    ),
)

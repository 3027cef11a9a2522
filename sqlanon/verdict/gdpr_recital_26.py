"""GDPR recital 26: some of the means that are reasonably likely to be used, measured, by audience.

The recital sets no number, and asks for all means. So no line here says that data are anonymous.
"""

from __future__ import annotations

from collections.abc import Callable

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

# The smallest class that an audience may see. El Emam (2013) gives 3 to 20 by context.
AUDIENCES = {
    "public": ("the public, without any agreement", 11),
    "partners": ("partners, under a contract that forbids to identify anybody", 5),
    "internal": ("colleagues, with access control and a log", 3),
}


def _pseudonyms(facts: ReleaseFacts) -> Judgement:
    if not facts.shown:
        return not_assessed("the release shows no value")
    if facts.pseudonyms:
        return not_met(f"keyed pseudonyms in the release: {', '.join(facts.pseudonyms)}")
    unclear = [item.name for item in facts.shown if item.role is None and (item.nearly_unique or item.has("uuid"))]
    if unclear:
        return not_assessed(f"columns without a role, in which nearly every row differs: {', '.join(unclear)}")
    return met("no column of the release is a pseudonym of the policy")


def _one_in(size: int) -> Callable[[ReleaseFacts], Judgement]:
    def judge(facts: ReleaseFacts) -> Judgement:
        if facts.chances is None:
            return not_assessed(facts.why("chances"))
        return decide(
            facts.chances.highest <= 1 / size + 1e-12, f"highest chance of being found {facts.chances.highest:.4f}"
        )

    return judge


GDPR = Regulation(
    ident="gdpr",
    title="GDPR, recital 26: means reasonably likely to be used",
    note="Measurements for an assessment that the controller makes. No number makes data anonymous under the GDPR.",
    criteria=(
        Criterion(
            "gdpr.pseudonyms",
            "No pseudonyms",
            "GDPR, recital 26, sentence 2; article 4(5)",
            "columns of the release that hold pseudonyms: these stay personal data",
            "0",
            "law",
            _pseudonyms,
        ),
        *(
            Criterion(
                f"gdpr.{name}",
                f"Risk of identification, audience: {name}",
                "GDPR, recital 26, sentences 3 and 4",
                f"highest chance to find a person, for {whom}",
                f"at most 1 in {size}",
                "our default",
                _one_in(size),
            )
            for name, (whom, size) in AUDIENCES.items()
        ),
        Criterion(
            "gdpr.all_means",
            "All other means",
            "GDPR, recital 26, sentence 4",
            "costs, time, technology, and what the controller itself still holds",
            "none in numbers",
            "law",
            never_assessed(
                "not measurable: whoever holds the source, a key or other data about the persons is for the controller "
                "to assess"
            ),
        ),
    ),
)

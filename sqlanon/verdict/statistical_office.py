"""Rules of thumb of statistical offices for outputs: contributors, dominance, group disclosure."""

from __future__ import annotations

from sqlanon.verdict.criteria import Criterion, Judgement, Regulation, decide, met, not_assessed, not_met
from sqlanon.verdict.release_facts import ReleaseFacts

FEWEST = 10
MOST_OF_ONE = 0.5
MOST_OF_GROUP = 0.9
CITE = "Eurostat and ESSnet SDC, Guidelines for output checking (DwB D11.8, 2015)"


def _contributors(facts: ReleaseFacts) -> Judgement:
    if facts.chances is None:
        return not_assessed(facts.why("chances"))
    return decide(
        facts.chances.smallest >= FEWEST, f"the smallest class has {facts.chances.smallest:,} {facts.chances.counts}"
    )


def _dominance(facts: ReleaseFacts) -> Judgement:
    if facts.dominance is None:
        return not_assessed(facts.why("dominance"))
    measured = [item for item in facts.dominance if item.highest is not None]
    if not measured:
        return not_assessed("no sum that is not 0: there is no number to add up")
    dominated = [item for item in measured if item.dominated]
    if dominated:
        counts = [f"{item.attribute}: {item.dominated:,} of {item.classes:,} classes" for item in dominated]
        shares = [f"the largest share {item.highest:.1%}" for item in dominated]
        return not_met("; ".join(f"{count}, {share}" for count, share in zip(counts, shares, strict=True)))
    return met("; ".join(f"{item.attribute}: the largest share {item.highest:.1%}" for item in measured))


def _group(facts: ReleaseFacts) -> Judgement:
    if not facts.policy.sensitive:
        return not_assessed("the policy names no sensitive column")
    found = {name: facts.disclosure(name) for name in facts.policy.sensitive}
    shares = {name: each[2] for name, each in found.items() if each is not None}
    beyond = {name: share for name, share in shares.items() if share > MOST_OF_GROUP + 1e-12}
    if beyond:
        return not_met(
            "; ".join(f"{name}: a class in which {share:.1%} have one value" for name, share in beyond.items())
        )
    if len(shares) < len(found):
        return not_assessed(facts.why("risks") if not facts.risks else "values were not compared with classes")
    return met("; ".join(f"{name}: at most {share:.1%} of a class have one value" for name, share in shares.items()))


STATISTICS = Regulation(
    ident="statistical_office",
    title="Statistical-office rules",
    note="Rules for tables, applied to the classes of the release as if each were a cell.",
    criteria=(
        Criterion(
            "statistical_office.contributors",
            "Contributors",
            CITE,
            "persons or rows in the smallest class",
            f"at least {FEWEST}",
            "guidance",
            _contributors,
        ),
        Criterion(
            "statistical_office.dominance",
            "Dominance",
            CITE,
            "the share of the largest contributor in the sum of a number, in each class",
            f"at most {MOST_OF_ONE:.0%}",
            "guidance",
            _dominance,
        ),
        Criterion(
            "statistical_office.group_disclosure",
            "Group disclosure",
            CITE,
            "the share of one sensitive value in a class",
            f"at most {MOST_OF_GROUP:.0%}",
            "guidance",
            _group,
        ),
    ),
)

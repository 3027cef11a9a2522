"""EMA policy 0070 and Health Canada's public release of clinical information: a risk of at most 0.09.

The number is 1/11 rounded down. Read strictly, classes of 11 have a risk of 0.0909, which is above 0.09; by convention
they are accepted. Both readings are shown.
"""

from __future__ import annotations

from sqlanon.verdict.criteria import Criterion, Judgement, Regulation, decide, not_assessed
from sqlanon.verdict.release_facts import ReleaseFacts

MOST_RISK = 0.09
CELL_SIZE = 11
CITE = "EMA/90915/2016, guidance on policy 0070; Health Canada 2019, guidance on public release of clinical information"


def _strict(facts: ReleaseFacts) -> Judgement:
    if facts.chances is None:
        return not_assessed(facts.why("chances"))
    return decide(facts.chances.highest <= MOST_RISK, f"maximum risk {facts.chances.highest:.4f}")


def _conventional(facts: ReleaseFacts) -> Judgement:
    if facts.chances is None:
        return not_assessed(facts.why("chances"))
    found = facts.chances
    risk = f"maximum risk 1/{found.smallest} = {found.highest:.4f}"
    return decide(found.smallest >= CELL_SIZE, f"the smallest class has {found.smallest:,} {found.counts}: {risk}")


def _average(facts: ReleaseFacts) -> Judgement:
    if facts.chances is None or facts.chances.average is None:
        return not_assessed(facts.why("chances") if facts.chances is None else "rows were counted, not persons")
    return decide(facts.chances.average <= MOST_RISK, f"average risk {facts.chances.average:.4f}")


CLINICAL = Regulation(
    ident="ema_0070",
    title="EMA policy 0070 and Health Canada PRCI",
    note="Maximum risk counts for a public release, average risk for a controlled one.",
    criteria=(
        Criterion(
            "ema_0070.public_strict",
            "Public release, strict reading",
            CITE,
            "maximum risk: 1 divided by the smallest class",
            f"at most {MOST_RISK}; 1/{CELL_SIZE} = {1 / CELL_SIZE:.4f} is above",
            "guidance",
            _strict,
        ),
        Criterion(
            "ema_0070.public_conventional",
            "Public release, conventional reading",
            CITE,
            "persons in the smallest class",
            f"at least {CELL_SIZE}; 1/{CELL_SIZE} = {1 / CELL_SIZE:.4f} is accepted as {MOST_RISK}",
            "guidance",
            _conventional,
        ),
        Criterion(
            "ema_0070.controlled",
            "Controlled release",
            CITE,
            "average risk: classes divided by records",
            f"at most {MOST_RISK}",
            "guidance",
            _average,
        ),
    ),
)

"""Rules of thumb of statistical offices for tables of statistics, judged on the cells that a release shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlanon.verdict.criteria import (
    Criterion,
    Judgement,
    Regulation,
    RegulationVerdict,
    decide,
    judge_all,
    not_assessed,
    not_met,
)
from sqlanon.verdict.statistical_office import CITE, FEWEST, MOST_OF_ONE

HANDBOOK = "Hundepool et al., Statistical Disclosure Control (2012), 4.2 and 4.3"


@dataclass(frozen=True)
class TableFacts:
    """What was measured of a release of tables: the audit as written, the attacks, and what shown cells are made of."""

    problems: Sequence[str]
    attacks: Sequence[Mapping[str, Any]]
    shown: Sequence[Mapping[str, Any]]
    why: str = ""  # why attacks were not tried


def _rules(facts: TableFacts) -> Judgement:
    return decide(not facts.problems, "; ".join(facts.problems) or "every unsafe cell is hidden or protected")


def _attack(*names: str) -> Any:
    def judge(facts: TableFacts) -> Judgement:
        found = [item for item in facts.attacks if item.get("name") in names]
        if not found:
            return not_assessed(facts.why or "attacks were not tried")
        broken = max(int(item["broken"]) for item in found)
        return decide(broken == 0, f"{broken:,} unsafe cells bounded too closely")

    return judge


def _contributors(facts: TableFacts) -> Judgement:
    fewest = [item["fewest"] for item in facts.shown if item.get("fewest") is not None]
    if not fewest:
        return not_assessed("no cell with a contributor is shown")
    return decide(min(fewest) >= FEWEST, f"the smallest cell that is shown has {min(fewest):,} contributors")


def _dominance(facts: TableFacts) -> Judgement:
    largest = [item["largest"] for item in facts.shown if item.get("largest") is not None]
    if not largest:
        return not_assessed("no table sums up an amount under a rule that looks at the largest contributors")
    said = f"the largest contributor of a cell that is shown has {max(largest):.0%} of it"
    return decide(True, said) if max(largest) <= MOST_OF_ONE else not_met(said)


OF_TABLES = (
    Regulation(
        ident="tables_of_statistics",
        title="Statistical-office rules for tables",
        note="Judged on the cells of the release as written, with the source as it is now.",
        criteria=(
            Criterion(
                "tables.rules", "Rules of the policy", HANDBOOK, "unsafe cells that are shown or follow from others",
                "none", "guidance", _rules,
            ),
            Criterion(
                "tables.outsider", "Attack from outside", HANDBOOK,
                "unsafe cells that follow from the totals for everybody", "none", "guidance", _attack("outsider"),
            ),
            Criterion(
                "tables.inside", "Attack by contributors", HANDBOOK,
                "unsafe cells that follow for somebody who knows their own amount", "none", "guidance",
                _attack("singleton", "holding"),
            ),
            Criterion(
                "tables.contributors", "Contributors", CITE, "contributors in the smallest cell that is shown",
                f"at least {FEWEST}", "guidance", _contributors,
            ),
            Criterion(
                "tables.dominance", "Dominance", CITE, "the largest contributor's share of a cell that is shown",
                f"at most {MOST_OF_ONE:.0%}", "guidance", _dominance,
            ),
        ),
    ),
)  # fmt: skip


def judge_tables(facts: TableFacts) -> tuple[RegulationVerdict, ...]:
    """The verdict on tables of statistics."""
    return judge_all(OF_TABLES, facts)

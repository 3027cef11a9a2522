"""What the report of tables of statistics shows: the stored evidence, and what is measured on the tables as written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlanon.engines import Engine
from sqlanon.errors import PolicyError, SourceError
from sqlanon.policy.statistics import StatisticsPolicy
from sqlanon.release.publication import Progress, tell
from sqlanon.release.stored_evidence import of_release
from sqlanon.statistics.check_tables import attack_statistics, check_statistics
from sqlanon.statistics.describe_release import describe_release
from sqlanon.verdict.criteria import as_data
from sqlanon.verdict.table_statistics import TableFacts, judge_tables


def table_report(
    policy: StatisticsPolicy, engine: Engine, *, attacked: bool = True, progress: Progress | None = None
) -> dict[str, Any]:
    """The stored evidence of a release of tables, its maps, the audit of what is written now, and the attacks on it."""
    if policy.release is None:
        raise PolicyError("the policy names no release", hint="add for example 'release: {table: turnover_released}'")
    name = policy.release.name
    evidence = of_release(engine, name)
    if "statistics" not in evidence:
        raise PolicyError(f"'{name}' is not a release of tables of statistics", hint="publish the policy first")
    tell(progress, "reading the tables", 0, 1)
    described, shown = describe_release(policy, engine, name)
    tell(progress, "reading the tables", 1, 1)
    tell(progress, "auditing the tables", 0, 1)
    checked = check_statistics(policy, engine)
    tell(progress, "auditing the tables", 1, 1)
    attacks, why = _try_attacks(policy, engine, attacked, progress)
    facts = TableFacts(checked.problems, attacks.get("attacks", ()), [item.to_json() for item in shown], why)
    _require_same(engine, name, evidence)
    return {
        **evidence,
        "holds": checked.holds,
        "problems": list(checked.problems),
        "tables": described,
        "attacks": attacks or None,
        "attacks_left_out": why or None,
        "verdicts": as_data(judge_tables(facts)),
    }


def _try_attacks(
    policy: StatisticsPolicy, engine: Engine, attacked: bool, progress: Progress | None
) -> tuple[dict[str, Any], str]:
    if not attacked:
        return {}, "attacks were not tried"
    tell(progress, "attacking the tables", 0, 1)
    try:
        return attack_statistics(policy, engine).to_json(), ""
    except (PolicyError, SourceError) as error:
        return {}, f"attacks were not judged: {error.message}"
    finally:
        tell(progress, "attacking the tables", 1, 1)


def _require_same(engine: Engine, name: str, evidence: Mapping[str, Any]) -> None:
    """A report is of one version."""
    now = of_release(engine, name)
    if (now["created"], now["plan_hash"]) != (evidence["created"], evidence["plan_hash"]):
        raise SourceError(
            "the release was published anew while its report was made",
            hint="write the report again, of what is shown now",
        )

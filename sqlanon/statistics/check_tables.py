"""Check tables as they were written, measure what is unsafe in them, and try the attacks on them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from sqlanon.engines import Engine
from sqlanon.errors import PolicyError, did_you_mean
from sqlanon.policy import Source
from sqlanon.policy.statistics import StatisticsPolicy
from sqlanon.relations.source import relation
from sqlanon.statistics import changed_attacks
from sqlanon.statistics.audit import Auditor, Lack
from sqlanon.statistics.cell_tables import CellTables, Workspace, make_cells
from sqlanon.statistics.changed_tables import audit_changes, published_variables, written_values, wrong_values
from sqlanon.statistics.interval_attacks import ATTACKERS, TableAttack, as_holding, bound_cells
from sqlanon.statistics.protection_task import ReadTables, read_tables
from sqlanon.statistics.table_system import OUTSIDER, Flags
from sqlanon.statistics.written_table import WrittenTable, pattern_of, read_written, shown_primaries


@contextmanager
def _cells_of(
    policy: StatisticsPolicy, engine: Engine, *, exact_counts: bool = False
) -> Iterator[tuple[CellTables, ReadTables]]:
    """The cells as the source has them now, with every attacker whatever the policy looked at."""
    workspace = Workspace(engine)
    try:
        tables = make_cells(policy, engine, workspace, exact_counts=exact_counts)
        yield tables, read_tables(tables, policy.protect.knowledge.model_copy(update={"singletons": "protect"}))
    finally:
        workspace.drop()


def _written(tables: CellTables, name: str) -> WrittenTable:
    source = tables.engine.resolve(Source(table=name))
    return read_written(tables, relation(source, tables.engine.dialect))


def _release_name(policy: StatisticsPolicy, release: str | None) -> str:
    given = policy.release
    if release is not None:
        return release
    if given is None:
        raise PolicyError("the policy names no release", hint="name one: --release TABLE")
    return given.name


@dataclass(frozen=True)
class TableCheck:
    """Whether the tables of a policy, as they were written, protect every unsafe cell."""

    release: str
    cells: int
    hidden: int
    unsafe: int
    problems: tuple[str, ...]
    notes: tuple[str, ...] = ()
    changed: int = 0  # cells that show another value than the true one

    @property
    def holds(self) -> bool:
        return not self.problems

    def to_json(self) -> dict[str, Any]:
        return {"holds": self.holds, **asdict(self)}


def check_statistics(
    policy: StatisticsPolicy, engine: Engine, *, release: str | None = None, secret: str | None = None
) -> TableCheck:
    """Audit tables as an attacker would who has them alone: what is not there as planned is a problem too. With the
    secret, values that were drawn are drawn again."""
    name = _release_name(policy, release)
    with _cells_of(policy, engine) as (tables, read):
        if not policy.protect.hides:
            return _check_changes(policy, tables, read, name, secret)
        hidden, problems = pattern_of(tables, read, _written(tables, name))
        found = list(problems)
        if shown := len(shown_primaries(read, hidden)):
            found.append(f"{shown:,} unsafe cells are shown")
        task = read.task
        if policy.protect.knowledge.singletons != "protect":
            alone = policy.protect.knowledge.singletons == "alone"
            task = replace(task, intruders=tuple(who for who in task.intruders if who is OUTSIDER or
                                                 (alone and len(who.alone))))  # fmt: skip
        lacks = _hidden_lacks(read, hidden, Auditor(task).find_lacks(hidden))
        if outside := len({lack.primary for lack in lacks if lack.who == 0}):
            found.append(f"{outside:,} unsafe cells can be computed too closely by everybody")
        if inside := len({lack.primary for lack in lacks if lack.who > 0}):
            found.append(
                f"{inside:,} unsafe cells can be computed too closely by contributors who know their own amount"
            )
        cells = sum(len(own) for own in read.published.values())
        gone = sum(int(hidden[place]) for own in read.published.values() for place in own.values())
        return TableCheck(name, cells, gone, len(task.primaries), tuple(found))


def _check_changes(
    policy: StatisticsPolicy, tables: CellTables, read: ReadTables, name: str, secret: str | None
) -> TableCheck:
    written = _written(tables, name)
    found = audit_changes(policy, tables, read, written, secret)
    values, _ = written_values(tables, read, written)
    seen = published_variables(tables, read)
    moved = int((np.abs(values - read.task.system.value)[seen] > 1e-9).sum())
    cells = sum(len(own) for own in read.published.values())
    return TableCheck(name, cells, 0, len(read.task.primaries), found.problems, found.notes, moved)


def _hidden_lacks(read: ReadTables, hidden: Flags, lacks: Sequence[Lack]) -> list[Lack]:
    place = read.task.system.place[read.task.primaries.cell]
    return [lack for lack in lacks if hidden[place[lack.primary]]]


@dataclass(frozen=True)
class TableRisk:
    """Unsafe cells of a table by one rule, and those in them."""

    table: str
    rule: str
    cells: int
    unsafe: int
    contributors: int
    alone: int  # cells with one contributor

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def measure_statistics(policy: StatisticsPolicy, engine: Engine) -> list[TableRisk]:
    """How many cells each rule calls unsafe, and how many contributors are in these; in each cell anew."""
    with _cells_of(policy, engine, exact_counts=True) as (tables, read):
        found = []
        for item in tables.tables:
            for rule in item.statistic.rules:
                cells = [cell for name, own, cell, _ in read.unsafe if (name, own) == (item.name, rule.name)]
                counts = [int(read.contributors[read.variable(item, cell)]) for cell in cells]
                alone = sum(count == 1 for count in counts)
                found.append(
                    TableRisk(item.name, rule.name, len(read.published[item.name]), len(cells), sum(counts), alone)
                )
        return found


@dataclass(frozen=True)
class TableAttacks:
    release: str
    unsafe: int
    hidden: int
    attacks: tuple[TableAttack, ...]
    not_judged: dict[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


ATTACKS = (*ATTACKERS, "differencing")


def attack_statistics(
    policy: StatisticsPolicy,
    engine: Engine,
    *,
    release: str | None = None,
    other: str | None = None,
    names: Sequence[str] = (),
) -> TableAttacks:
    """Try attacks on a release of hidden cells: by everybody; by contributors who know the cells where they are alone
    (singleton), or the part that they have in others too (holding); and all of these beside another release
    (differencing). On values that were changed, the attacks on their method."""
    known = ATTACKS if policy.protect.hides else changed_attacks.ATTACKS[policy.protect.name]
    for asked in names:
        if asked not in known:
            hint = did_you_mean(asked, known) or f"on {policy.protect.name} there are {', '.join(known)}"
            raise PolicyError(f"there is no attack '{asked}' on tables of statistics", hint=hint)
    name = _release_name(policy, release)
    with _cells_of(policy, engine) as (tables, read):
        if not policy.protect.hides:
            return _attack_changes(policy, tables, read, (name, other), names or known)
        hidden, problems = pattern_of(tables, read, _written(tables, name))
        if problems:
            raise PolicyError(
                f"'{name}' is not the release of these records", detail="\n".join(problems),
                hint="was the source changed since? Then publish anew",
            )  # fmt: skip
        both = hidden
        not_judged = {}
        if other is not None:
            theirs, problems = pattern_of(tables, read, _written(tables, other))
            if any("show another value" in problem for problem in problems):
                raise PolicyError(
                    f"'{other}' shows other values: it is not of the same records", hint="name another release"
                )
            both = hidden & theirs
        elif "differencing" in (names or ATTACKS):
            not_judged["differencing"] = "needs --other, another release of the same records"
        done = []
        for attack in names or ATTACKS:
            if attack in not_judged:
                continue
            task = ATTACKERS.get(attack, as_holding)(read.task)
            pattern = both if attack == "differencing" else hidden
            done.append(bound_cells(attack, task, pattern, {lack.primary for lack in shown_primaries(read, pattern)}))
        gone = sum(int(hidden[place]) for own in read.published.values() for place in own.values())
        return TableAttacks(name, len(read.task.primaries), gone, tuple(done), not_judged)


def _attack_changes(
    policy: StatisticsPolicy, tables: CellTables, read: ReadTables, releases: tuple[str, str | None],
    names: Sequence[str],
) -> TableAttacks:  # fmt: skip
    shown: list[np.ndarray[Any, np.dtype[np.float64]]] = []
    for name in releases:
        if name is None:
            continue
        values, problems = written_values(tables, read, _written(tables, name))
        problems = problems or tuple(wrong_values(policy, read.task, values))
        if problems:
            raise PolicyError(
                f"'{name}' is not the release of these records", detail="\n".join(problems),
                hint="was the source changed since? Then publish anew",
            )  # fmt: skip
        shown.append(values)
    done, not_judged = changed_attacks.attack_changes(
        policy, read, shown[0], shown[1] if len(shown) > 1 else None, names
    )
    return TableAttacks(releases[0], len(read.task.primaries), 0, tuple(done), not_judged)

"""Check tables as they were written, measure what is unsafe in them, and try the attacks on them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from sqlanon.engines import Engine
from sqlanon.errors import PolicyError, did_you_mean
from sqlanon.policy import Source
from sqlanon.policy.statistics import StatisticsPolicy
from sqlanon.relations.source import relation
from sqlanon.statistics.audit import Auditor, Lack, find_intervals
from sqlanon.statistics.cell_tables import CellTables, Workspace, make_cells
from sqlanon.statistics.protection_task import ReadTables, read_tables
from sqlanon.statistics.table_system import OUTSIDER, Flags, Task
from sqlanon.statistics.written_table import WrittenTable, pattern_of, read_written, shown_primaries

EXACTLY = 1e-6  # of a value: an interval that is narrower tells it


@contextmanager
def _cells_of(
    policy: StatisticsPolicy, engine: Engine, *, exact_counts: bool = False
) -> Iterator[tuple[CellTables, ReadTables]]:
    """The cells as the source has them now, with every attacker whatever the policy looked at."""
    workspace = Workspace(engine)
    try:
        tables = make_cells(policy, engine, workspace, exact_counts=exact_counts)
        yield tables, read_tables(tables, policy.protect.suppression.model_copy(update={"singletons": "protect"}))
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

    @property
    def holds(self) -> bool:
        return not self.problems

    def to_json(self) -> dict[str, Any]:
        return {"holds": self.holds, **asdict(self)}


def check_statistics(policy: StatisticsPolicy, engine: Engine, *, release: str | None = None) -> TableCheck:
    """Audit tables as an attacker would who has them alone: what is not there as planned is a problem too."""
    name = _release_name(policy, release)
    with _cells_of(policy, engine) as (tables, read):
        hidden, problems = pattern_of(tables, read, _written(tables, name))
        found = list(problems)
        if shown := len(shown_primaries(read, hidden)):
            found.append(f"{shown:,} unsafe cells are shown")
        task = read.task
        if policy.protect.suppression.singletons == "ignore":
            task = replace(task, intruders=(OUTSIDER,))
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
class TableAttack:
    """What one attack achieves: unsafe cells that it bounds more closely than the rules allow, and those it knows."""

    name: str
    broken: int
    exact: int
    narrowest: float | None  # width of the narrowest interval of a broken cell, as a share of its value

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class TableAttacks:
    release: str
    unsafe: int
    hidden: int
    attacks: tuple[TableAttack, ...]
    not_judged: dict[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def _outsider(task: Task) -> Task:
    return replace(task, intruders=(OUTSIDER,))


def _singleton(task: Task) -> Task:
    """Contributors know the cells where they are alone, and nothing more."""
    return replace(task, intruders=(OUTSIDER, *(replace(each, uses_parts=False) for each in task.intruders[1:])))


def _holding(task: Task) -> Task:
    """They also know the part that they have in other cells."""
    return task


ATTACKS: dict[str, Callable[[Task], Task]] = {
    "outsider": _outsider,
    "singleton": _singleton,
    "holding": _holding,
    "differencing": _holding,
}


def attack_statistics(
    policy: StatisticsPolicy,
    engine: Engine,
    *,
    release: str | None = None,
    other: str | None = None,
    names: Sequence[str] = (),
) -> TableAttacks:
    """Try attacks on a release: by everybody; by contributors who know the cells where they are alone (singleton), or
    the part that they have in others too (holding); and all of these beside another release (differencing)."""
    for asked in names:
        if asked not in ATTACKS:
            hint = did_you_mean(asked, ATTACKS) or f"there are {', '.join(ATTACKS)}"
            raise PolicyError(f"there is no attack '{asked}' on tables of statistics", hint=hint)
    name = _release_name(policy, release)
    with _cells_of(policy, engine) as (tables, read):
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
            done.append(_try(attack, read, both if attack == "differencing" else hidden))
        gone = sum(int(hidden[place]) for own in read.published.values() for place in own.values())
        return TableAttacks(name, len(read.task.primaries), gone, tuple(done), not_judged)


def _try(name: str, read: ReadTables, hidden: Flags) -> TableAttack:
    task = ATTACKS[name](read.task)
    shown = {lack.primary for lack in shown_primaries(read, hidden)}
    lacks = _hidden_lacks(read, hidden, Auditor(task).find_lacks(hidden))
    exact, widths = set(shown), [0.0] * len(shown)
    by_attacker: dict[int, set[int]] = {}
    for lack in lacks:
        by_attacker.setdefault(lack.who, set()).add(lack.primary)
    for who, primaries in by_attacker.items():
        cells = {int(task.primaries.cell[primary]): primary for primary in primaries}
        for cell, (low, high) in find_intervals(task, hidden, cells, who).items():
            size = max(abs(float(task.system.value[cell])), 1e-9)
            widths.append((high - low) / size)
            if high - low <= EXACTLY * max(1.0, size):
                exact.add(cells[cell])
    broken = shown | {lack.primary for lack in lacks}
    narrowest = min((width for width in widths if np.isfinite(width)), default=None)
    return TableAttack(name, len(broken), len(exact), narrowest)

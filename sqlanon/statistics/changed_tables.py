"""Tables whose values are changed in place of hidden: made as the policy asks, and audited as they were written.

Values are vectors over the variables of a task; NaN is what a table does not show.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from sqlanon.errors import NotReleased, PolicyError
from sqlanon.evidence.apply_transformations import require_secret
from sqlanon.policy.statistics import StatisticsPolicy
from sqlanon.policy.table_protection import Protect
from sqlanon.sqltree.tree import select, table
from sqlanon.statistics.audit import Auditor, Lack
from sqlanon.statistics.cell_tables import CellTables
from sqlanon.statistics.controlled_rounding import box_task, round_table, rounded_box
from sqlanon.statistics.flow_program import SolverClock
from sqlanon.statistics.keyed_values import noisy_cells, rounded_cells
from sqlanon.statistics.perturbation_table import PerturbationTable, perturbation_table
from sqlanon.statistics.protection_task import ReadTables
from sqlanon.statistics.table_system import OUTSIDER, Flags, Numbers, Primaries, Task
from sqlanon.statistics.tabular_adjustment import adjust_table
from sqlanon.statistics.written_table import WrittenTable

TOLERANCE = 1e-6
CONFINED = (
    "take a larger base or more noise, lower the level of the rule, take a coarser hierarchy, or protect by suppression"
)


@dataclass(frozen=True)
class ChangedValues:
    """What is shown of each variable, and by table the relation (cell, value) of the release."""

    values: Numbers
    relations: Mapping[str, str]
    search: str
    cost: float
    bound: float | None
    seconds: float
    solver_seconds: float
    programs: int
    facts: Mapping[str, Any] = field(default_factory=dict)


def change_tables(
    policy: StatisticsPolicy, tables: CellTables, read: ReadTables, secret: str | None,
    earlier: Mapping[int, float] | None = None,
) -> ChangedValues:  # fmt: skip
    """The values to show. Those that an earlier release of the same records showed do not change."""
    began, clock, protect = time.perf_counter(), SolverClock(), policy.protect
    fixed = earlier or {}
    bound: float | None = None
    facts: dict[str, Any] = {}
    if protect.is_keyed:
        relations = drawn_cells(policy, tables, secret)
        values = read_back(tables, read, relations)
        if any(abs(values[cell] - shown) > TOLERANCE for cell, shown in fixed.items()):
            raise other_values()
        cost = _distance(read, values)
    elif protect.rounding is not None:
        require_whole(tables, "rounding")
        try:
            rounded = round_table(
                read.task, protect.rounding.base, protect.rounding.seconds, fixed=fixed, clock=clock
            )  # fmt: skip
        except NotReleased:
            if fixed:
                raise other_values() from None
            raise
        values, cost, bound = rounded.values, rounded.cost, rounded.bound
        facts["steps"] = rounded.steps
        relations = load_values(tables, read, values)
    else:
        given = protect.adjustment
        assert given is not None
        weight = np.ones(read.task.system.cells)
        if given.weight == "share":
            weight = 1.0 / np.maximum(read.task.system.value, 1.0)
        try:
            adjusted = adjust_table(
                read.task, whole=whole_cells(tables, read), weight=weight, seconds=given.seconds,
                exact=given.search == "exact", fixed=fixed, clock=clock,
            )  # fmt: skip
        except NotReleased:
            if fixed:
                raise other_values() from None
            raise
        values, cost, bound = adjusted.values, adjusted.cost, adjusted.bound
        relations = load_values(tables, read, values)
    took = time.perf_counter() - began
    return ChangedValues(values, relations, protect.name, cost, bound, took, clock.solving, clock.programs, facts)


def other_values() -> NotReleased:
    return NotReleased(
        "an earlier release of the same records shows other values than this one would: both together tell more",
        hint="publish with the key, the method and its settings of then, or when the records have changed",
    )


def drawn_cells(policy: StatisticsPolicy, tables: CellTables, secret: str | None) -> dict[str, str]:
    """By table: the relation (cell, value) that SQLANON_KEY draws."""
    protect = policy.protect
    require_secret(secret, f"the draws of {protect.name}")
    key = secret or ""
    if protect.random_rounding is not None:
        require_whole(tables, protect.name)
        return rounded_cells(tables, protect.random_rounding.base, key)
    return noisy_cells(tables, _noise(policy), key)


def _noise(policy: StatisticsPolicy) -> PerturbationTable:
    assert policy.protect.cell_key is not None
    return perturbation_table(policy.protect.cell_key, policy.base)


def require_whole(tables: CellTables, method: str) -> None:
    for item in tables.tables:
        if not item.whole:
            raise PolicyError(
                f"{method} is for counts and whole amounts, and '{item.statistic.of}' has decimals",
                hint="cast the amount to BIGINT in a query, in cents or in thousands",
            )


def whole_cells(tables: CellTables, read: ReadTables) -> Flags:
    """Variables whose values are whole numbers."""
    found = np.ones(read.task.system.cells, dtype=bool)
    for item in tables.tables:
        if not item.whole:
            found[[read.variable(item, cell) for cell in read.cells[item.name]]] = False
    return found


def load_values(tables: CellTables, read: ReadTables, values: Numbers) -> dict[str, str]:
    """Values of variables as relations of the database."""
    found = {}
    for item in tables.tables:
        kind = "bigint" if item.whole else "double precision"
        rows = [(cell, values[read.variable(item, cell)]) for cell in read.published[item.name]]
        listed = [(cell, round(value) if item.whole else repr(float(value))) for cell, value in rows]
        found[item.name] = tables.workspace.load("values", {"cell": "bigint", "value": kind}, listed)
    return found


def read_back(tables: CellTables, read: ReadTables, relations: Mapping[str, str]) -> Numbers:
    """Values of variables from relations of the database."""
    values = np.full(read.task.system.cells, np.nan)
    for item in tables.tables:
        for cell, value in tables.engine.query(select("cell", "value", source=table(relations[item.name]))):
            variable = read.variable(item, int(cell))
            own = np.nan if value is None else float(value)
            if np.isnan(own) or abs(values[variable] - own) > TOLERANCE:
                raise NotReleased(
                    "a cell has no draw, or two", hint="were the records changed meanwhile? Then publish again"
                )
            values[variable] = own
    return values


def published_variables(tables: CellTables, read: ReadTables) -> Flags:
    found = np.zeros(read.task.system.cells, dtype=bool)
    for item in tables.tables:
        found[[read.variable(item, cell) for cell in read.published[item.name]]] = True
    return found


def _distance(read: ReadTables, values: Numbers) -> float:
    return float(np.nansum(np.abs(values - read.task.system.value)))


# ---- the table as it was written


def written_values(tables: CellTables, read: ReadTables, written: WrittenTable) -> tuple[Numbers, tuple[str, ...]]:
    """What a table shows of each variable, and what is wrong with it whatever the method."""
    values = np.full(read.task.system.cells, np.nan)
    missing = empty = twice = 0
    for item in tables.tables:
        shown = written.values.get(item.name, {})
        for cell in read.published[item.name]:
            if cell not in shown:
                missing += 1
            elif (value := shown[cell]) is None:
                empty += 1
            else:
                variable = read.variable(item, cell)
                twice += abs(values[variable] - value) > TOLERANCE * max(1.0, abs(value))
                values[variable] = value
        strange = len(set(shown) - set(read.published[item.name]))
        if strange:
            written = replace(written, problems=(*written.problems, f"{strange:,} cells are shown beside the policy's"))
    problems = [*written.problems]
    for count, said in ((missing, "are missing"), (empty, "have no value"), (twice, "have two values")):
        if count:
            problems.append(f"{count:,} cells {said}")
    return values, tuple(problems)


@dataclass(frozen=True)
class ChangeAudit:
    """What is wrong with a table whose values were changed, and what a reader should know of it."""

    problems: tuple[str, ...]
    notes: tuple[str, ...] = ()

    @property
    def holds(self) -> bool:
        return not self.problems


def audit_changes(
    policy: StatisticsPolicy, tables: CellTables, read: ReadTables, written: WrittenTable, secret: str | None,
    steps: int | None = None,
) -> ChangeAudit:  # fmt: skip
    """Whether a table is what its method makes of the source, and leaves every unsafe cell open."""
    values, problems = written_values(tables, read, written)
    if problems:
        return ChangeAudit(problems)
    found: list[str] = []
    notes: list[str] = []
    protect, task = policy.protect, replace(read.task, intruders=(OUTSIDER,))
    found += wrong_values(policy, task, values)
    if protect.is_keyed and secret:
        drawn = read_back(tables, read, drawn_cells(policy, tables, secret))
        if wrong := int((np.abs(drawn - values) > TOLERANCE).sum()):
            found.append(f"{wrong:,} cells show another value than SQLANON_KEY draws for them")
    elif protect.is_keyed:
        notes.append("without SQLANON_KEY it is not known whether the values are those that it draws")
    if found:
        return ChangeAudit(tuple(found), tuple(notes))
    if protect.adjustment is not None:
        return ChangeAudit((), tuple(notes))
    found += _confined(policy, task, values, steps, notes)
    return ChangeAudit(tuple(found), tuple(notes))


def _confined(policy: StatisticsPolicy, task: Task, values: Numbers, steps: int | None, notes: list[str]) -> list[str]:
    """Unsafe cells that can be computed too closely. Where cells of a rounded table had to go one step further, readers
    know that; `steps` is how far they had to go, if that is known."""
    given = policy.protect.rounding
    near = given is None or _steps(values, task, given.base) == 1
    count = len({lack.primary for lack in confined_cells(policy, task, values)}) if near else 0
    if near and not count:
        return []
    if given is not None and (steps == 2 or not near or _needs_more(task, given.base, given.seconds)):
        notes.append("some cells may lie one step beyond the next multiple")
        if count:
            notes.append(f"{count:,} unsafe cells can be bounded too closely by whoever believes that none does")
        count = len({lack.primary for lack in confined_cells(policy, task, values, 2)})
    return [f"{count:,} unsafe cells can be computed too closely by everybody"] if count else []


def _needs_more(task: Task, base: int, seconds: float) -> bool:
    """Whether no table protects every unsafe cell unless some cells go one step further."""
    try:
        return round_table(task, base, seconds).steps > 1
    except NotReleased:
        return False


def confined_cells(policy: StatisticsPolicy, task: Task, values: Numbers, steps: int = 1) -> list[Lack]:
    """Unsafe cells that the bounds of the method and all totals leave less open than the rules ask for."""
    confined = box_values(policy, task, values, steps)
    return Auditor(confined).find_lacks(np.ones(task.system.places, dtype=bool))


def box_values(policy: StatisticsPolicy, task: Task, values: Numbers, steps: int = 1) -> Task:
    """The task of attackers who see values and know the method. Where draws decide, only the width of what is left open
    can be asked for: a draw may lie on either side."""
    seen = np.isfinite(values)
    low, high = value_bounds(policy, np.where(seen, values, 0.0), steps)
    confined = box_task(task, np.where(seen, low, -np.inf), np.where(seen, high, np.inf))
    if not policy.protect.is_keyed:
        return confined
    given = task.primaries
    none = np.zeros(len(given))
    return replace(confined, primaries=Primaries(given.cell, none, none, given.lower + given.upper))


def value_bounds(policy: StatisticsPolicy, shown: Numbers, steps: int = 1) -> tuple[Numbers, Numbers]:
    """What the method tells of the values behind those that are shown."""
    protect: Protect = policy.protect
    if protect.rounding is not None:
        return rounded_box(shown, protect.rounding.base, steps)
    if protect.random_rounding is not None:
        return rounded_box(shown, protect.random_rounding.base)
    if protect.cell_key is not None:
        noise = _noise(policy)
        distinct, where = np.unique(np.rint(shown).astype(np.int64), return_inverse=True)
        ends = [noise.counts_behind(int(value)) or (0, int(value) + noise.greatest) for value in distinct]
        found = np.array(ends, dtype=np.float64).reshape(-1, 2)[where]
        return found[:, 0], found[:, 1]
    return np.full(len(shown), -np.inf), np.full(len(shown), np.inf)


def _steps(values: Numbers, task: Task, base: int) -> int:
    moved = np.abs(values - task.system.value)
    return 2 if bool((moved[np.isfinite(moved)] > base - TOLERANCE).any()) else 1


def wrong_values(policy: StatisticsPolicy, task: Task, values: Numbers) -> list[str]:
    """Values that the method never shows."""
    protect, system = policy.protect, task.system
    seen = np.isfinite(values)
    moved = np.where(seen, values - system.value, 0.0)
    size = TOLERANCE * np.maximum(1.0, np.abs(system.value))
    found = []
    if wrong := int((seen & (values < -TOLERANCE)).sum()):
        found.append(f"{wrong:,} cells show less than 0")
    if wrong := int((system.known & seen & (np.abs(values - system.low) > size)).sum()):
        found.append(f"{wrong:,} empty cells are not shown as empty")
    rounds = protect.rounding or protect.random_rounding
    if rounds is not None:
        multiple = np.abs(values / rounds.base - np.rint(values / rounds.base)) < TOLERANCE
        if wrong := int((seen & ~multiple).sum()):
            found.append(f"{wrong:,} cells are no multiple of {rounds.base}")
        furthest = rounds.base * (2 if protect.rounding is not None else 1)
        if wrong := int((np.abs(moved) > furthest - TOLERANCE).sum()):
            found.append(f"{wrong:,} cells lie further from the value that the source has now than rounding goes")
    if protect.cell_key is not None:
        noise = _noise(policy)
        pairs = zip(np.rint(system.value[seen]).tolist(), np.rint(moved[seen]).tolist(), strict=True)
        known: dict[tuple[int, int], bool] = {}
        wrong = 0
        for count, change in pairs:
            key = (int(count), int(change))
            if key not in known:
                known[key] = any(v == key[1] and p > 0 for v, p in noise.row(key[0]))
            wrong += not known[key]
        if wrong:
            found.append(f"{wrong:,} cells lie further from the value that the source has now than noise goes")
    is_additive = protect.rounding is not None or protect.adjustment is not None
    if is_additive and (wrong := broken_sums(task, values)):
        found.append(f"{wrong:,} totals are not the sum of their parts")
    if protect.adjustment is not None:
        own = task.primaries
        move = moved[own.cell]
        fine = ((own.upper > 0) & (move >= own.upper * (1 - TOLERANCE) - TOLERANCE)) | (
            (own.lower > 0) & (move <= -own.lower * (1 - TOLERANCE) + TOLERANCE)
        )
        asked = ((own.upper > 0) | (own.lower > 0)) & seen[own.cell]
        if wrong := int((asked & ~fine).sum()):
            found.append(f"{wrong:,} unsafe cells are shown closer to their value than their level")
    return found


def broken_sums(task: Task, values: Numbers) -> int:
    """Equations of cells that are all shown and do not hold."""
    gaps = sum_gaps(task, values)
    largest = float(np.nanmax(np.abs(values), initial=1.0))
    return int((np.abs(gaps[np.isfinite(gaps)]) > TOLERANCE * max(1.0, largest)).sum())


def sum_gaps(task: Task, values: Numbers) -> Numbers:
    """Of each equation, the parts less the total; NaN where one of its cells is not shown."""
    system = task.system
    return np.bincount(system.rows, weights=system.signs * values[system.columns], minlength=system.equations).astype(
        np.float64
    )


def require_safe_changes(
    policy: StatisticsPolicy, tables: CellTables, read: ReadTables, written: WrittenTable, secret: str | None,
    steps: int | None = None,
) -> ChangeAudit:  # fmt: skip
    """Refuse a table that, as it was written, is not what it should be."""
    found = audit_changes(policy, tables, read, written, secret, steps)
    if found.problems:
        raise NotReleased(
            "the release was not published: as written it does not protect its cells",
            detail="\n".join(found.problems),
            hint=f"the previous release, if any, is still in place; {CONFINED}",
        )
    return found

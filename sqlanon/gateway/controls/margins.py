"""Several groupings in one statement: which groups are hidden so that none that breaks a rule can be computed.

A group that breaks a rule is an unsafe cell of a table of statistics, and the groupings are its margins: the finest
groups are the cells, and each other group is the sum of those inside it. So other groups are hidden with it, until a
linear program over all that is shown leaves it open: for everybody, and for persons who are alone in a group and know
it. A group that the rules of one measure hide is hidden for all measures. A combination of keys without a row is taken
for known to be empty, and amounts are known to be at least 0 where all groups are.

What was hidden before, in a statement with the same groupings of the same rows, stays hidden.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlanon.errors import EngineError, NotReleased, Refused, SourceError
from sqlanon.gateway.bind.core import same_key
from sqlanon.gateway.price.judged_groups import Judge
from sqlanon.policy.gateway import Controls

MOST_GROUPS = 5_000  # of a statement, in all of its groupings
LEVEL = 0.1  # of a sum that breaks a rule about persons: so far off must an attacker's bounds be
Key = tuple[Any, ...]


@dataclass(frozen=True)
class ListedGroup:
    """A group with what decides about it."""

    key: Key
    ok: bool
    lone: str | None  # a person who is alone in it
    rows: tuple[int, ...]  # of each query set
    amounts: tuple[int, ...]  # of each measure
    levels: tuple[float, ...]  # of each measure: how far off an attacker's bounds must be, if the group breaks a rule
    place: int  # in the order of the keys


@dataclass
class JudgedGrouping:
    """One set of keys with its groups."""

    judge: Judge
    groups: list[ListedGroup]
    hidden: set[Key] = field(default_factory=set)  # what is not shown, for whatever reason

    @property
    def shown(self) -> bool:
        return self.judge.core.shown

    def hidden_places(self, present: int) -> tuple[int, ...]:
        """The hidden groups of a query set, by their place among its groups, from 1."""
        inside = sorted(
            ((group.place, group.key) for group in self.groups if group.rows[present]), key=lambda item: item[0]
        )
        return tuple(at for at, (_, key) in enumerate(inside, start=1) if key in self.hidden)

    def keys_at(self, places: set[int]) -> set[Key]:
        """The groups at some places among all."""
        listed = sorted(((group.place, group.key) for group in self.groups), key=lambda item: item[0])
        return {key for at, (_, key) in enumerate(listed, start=1) if at in places}

    def table(self) -> list[tuple[Any, ...]]:
        """The groups that are shown, as rows for the table that the rest of the statement reads."""
        if not self.shown:
            return []
        return [
            (*group.key, *(cell for amount in group.amounts for cell in (amount, 0.0)))
            for group in self.groups
            if group.key not in self.hidden
        ]


def require_solver() -> None:
    """Before anything is read: without the solver nothing can be protected, and so nothing is answered."""
    from sqlanon.statistics.flow_program import load_solver

    try:
        load_solver()
    except SourceError as error:
        raise Refused(
            "several groupings at once are answered with the solver HiGHS, which is not installed",
            hint=error.hint or "ask for each grouping in a statement of its own",
            sqlstate="0A000",
        ) from None


def require_additive(judges: Sequence[Judge]) -> None:
    """Refuse measures of which a margin is not the sum of its groups."""
    for judge in judges:
        if not judge.core.unique and any(measure.kind == "persons" for measure in judge.asked.measures):
            raise Refused(
                "persons who may have several rows are not counted by several groupings at once",
                hint="count rows, or ask for each grouping in a statement of its own",
                sqlstate="0A000",
            )


def read_groups(judge: Judge, found: Sequence[tuple[Any, ...]]) -> JudgedGrouping:
    """The groups of one set of keys, as `Judge.listing` gives them."""
    width, sets, measures = len(judge.keys), len(judge.asked.sets), len(judge.asked.measures)
    names = judge.magnitudes
    groups = []
    for row in found:
        ok, persons, lone = row[width : width + 3]
        rest = row[width + 3 :]
        if persons == 0:
            continue  # the total of no rows
        rows = tuple(int(number or 0) for number in rest[:sets])
        amounts = tuple(int(number or 0) for number in rest[sets : sets + measures])
        parts = rest[sets + measures :]
        sizes = {
            name: tuple(float(number or 0) for number in parts[4 * at : 4 * at + 4]) for at, name in enumerate(names)
        }
        place = int(parts[4 * len(names)]) if width else 1
        groups.append(
            ListedGroup(
                tuple(map(same_key, row[:width])),
                bool(ok),
                str(lone) if persons == 1 else None,
                rows,
                amounts,
                tuple(_level(judge, at, amounts[at], sizes) for at in range(measures)),
                place,
            )
        )
    return JudgedGrouping(judge, groups)


def _level(judge: Judge, at: int, amount: int, sizes: Mapping[str, tuple[float, ...]]) -> float:
    """What must be left open of a measure of a group that breaks a rule: what its rules ask for, or a part of it."""
    measure = judge.asked.measures[at]
    name = f"x{measure.value}" if measure.kind == "sum" else f"n{measure.present}"
    lacking = _lacking(judge.controls, sizes[name]) if name in sizes else 0.0
    if lacking <= 0 and measure.kind == "sum":
        lacking = LEVEL * (sizes[name][0] if name in sizes else abs(amount))
    return max(1.0, lacking)


def _lacking(controls: Controls, sizes: tuple[float, ...]) -> float:
    """By how much others lack so that the largest contributors would not be known too closely."""
    whole, largest, beyond, first = sizes
    found = 0.0
    if controls.p_percent is not None:
        found = max(found, controls.p_percent / 100 * largest - beyond)
    if controls.dominance is not None:
        found = max(found, first / controls.dominance.k - whole)
    return found


def hide_groups(groupings: Sequence[JudgedGrouping], earlier: Mapping[int, set[Key]], seconds: float) -> bool:
    """Choose what is hidden, together with what was hidden earlier of the same groupings; False if nothing can be shown
    safely."""
    import numpy as np

    from sqlanon.statistics.audit import Auditor
    from sqlanon.statistics.flow_program import OutOfTime, SolverClock
    from sqlanon.statistics.suppression_heuristic import publish_again, suppress_cells
    from sqlanon.statistics.table_system import OUTSIDER, Intruder, Primaries, Task, build_system

    if sum(len(each.groups) for each in groupings) > MOST_GROUPS or not _same_rows_everywhere(groupings):
        return False
    finest = max(range(len(groupings)), key=lambda at: len(groupings[at].judge.core.places))
    measures = len(groupings[finest].judge.asked.measures)
    places: dict[tuple[int, Key], int] = {}
    for at, grouping in enumerate(groupings):
        for group in grouping.groups:
            places[at, group.key] = len(places)
    if not places:
        return True
    value: list[float] = []
    place: list[int] = []
    low: list[float] = []
    levels: dict[int, float] = {}
    variables: dict[tuple[int, int], int] = {}  # of a measure and a place
    alone: dict[str, list[int]] = {}
    for measure in range(measures):
        least = -np.inf if any(group.amounts[measure] < 0 for group in groupings[finest].groups) else 0.0
        for at, grouping in enumerate(groupings):
            for group in grouping.groups:
                own = places[at, group.key]
                variable = variables[measure, own] = len(value)
                value.append(float(group.amounts[measure]))
                place.append(own)
                low.append(least)
                if not group.ok and grouping.shown:
                    levels[variable] = group.levels[measure]
                if group.lone is not None:
                    alone.setdefault(group.lone, []).append(variable)
    equations = []
    for at, grouping in enumerate(groupings):
        if at == finest:
            continue
        inside: dict[Key, list[int]] = {group.key: [] for group in grouping.groups}
        keys = grouping.judge.core.places
        whole = groupings[finest].judge.core.places
        for group in groupings[finest].groups:
            inside[tuple(group.key[whole.index(each)] for each in keys)].append(places[finest, group.key])
        for measure in range(measures):
            for key, parts in inside.items():
                equations.append((variables[measure, places[at, key]], [variables[measure, own] for own in parts]))
    forced = [False] * len(places)
    weight = [1.0] * len(places)
    for at, grouping in enumerate(groupings):
        for group in grouping.groups:
            own = places[at, group.key]
            forced[own] = not grouping.shown or group.key in earlier.get(at, set())
            weight[own] = 1.0 + sum(group.rows)
    system = build_system(value, equations, low=low, weight=weight, place=place, forced=forced)
    primaries = Primaries.of(system, ((variable, level, level, 0.0) for variable, level in levels.items()))
    persons = [Intruder(np.array(sorted(own), dtype=np.int64)) for _, own in sorted(alone.items())]
    task = Task(system, primaries, (OUTSIDER, *persons))
    auditor = Auditor(task, SolverClock(seconds))
    try:
        hidden = publish_again(auditor, suppress_cells(auditor))
        # Nothing is shown on the word of the search: what it chose is audited from nothing.
        if Auditor(task, SolverClock(seconds)).find_lacks(hidden, first_only=True):
            return False
    except (NotReleased, EngineError):
        return False
    except OutOfTime:
        raise EngineError("the groupings could not be protected in time", hint="ask for fewer groups") from None
    for (at, key), own in places.items():
        if hidden[own]:
            groupings[at].hidden.add(key)
    return True


def _same_rows_everywhere(groupings: Sequence[JudgedGrouping]) -> bool:
    """Whether all measures look at the same rows: else a group would be several cells, with different persons."""
    totals = set()
    for grouping in groupings:
        if any(len(set(group.rows)) > 1 for group in grouping.groups):
            return False
        totals.add(sum(group.rows[0] for group in grouping.groups if group.rows))
    return len(totals) <= 1

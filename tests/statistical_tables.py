"""Small tables of statistics for the tests: from the numbers of other tools, flat ones from leaves, and random ones."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from oracle_numbers import read_numbers

from sqlanon.statistics.table_system import OUTSIDER, Intruder, Primaries, TableSystem, Task, build_system

SDCTABLE = {case["name"]: case for case in read_numbers("statistics_sdctable")["cases"]}


@dataclass(frozen=True)
class NamedTable:
    """Cells by name, their values, and the equations between them."""

    at: Mapping[str, int]
    value: Sequence[float]
    equations: Sequence[tuple[int, list[int]]]

    def system(self, **given: Any) -> TableSystem:
        return build_system(self.value, self.equations, **given)

    def names(self, hidden: Any) -> set[str]:
        return {name for name, cell in self.at.items() if hidden[cell]}

    def pattern(self, names: Sequence[str]) -> Any:
        hidden = np.zeros(len(self.value), dtype=bool)
        hidden[[self.at[name] for name in names]] = True
        return hidden


def flat_table(leaves: Sequence[Sequence[float]]) -> NamedTable:
    """A table of rows r0, r1, … and columns c0, c1, … with its totals."""
    height, width = len(leaves), len(leaves[0])
    rows, columns = [f"r{i}" for i in range(height)] + ["Total"], [f"c{j}" for j in range(width)] + ["Total"]
    at = {f"{row}|{column}": place for place, (row, column) in enumerate(itertools.product(rows, columns))}
    value = [
        sum(
            leaves[i][j]
            for i in (range(height) if row == height else [row])
            for j in (range(width) if column == width else [column])
        )
        for row, column in itertools.product(range(height + 1), range(width + 1))
    ]
    equations = [(at[f"{row}|Total"], [at[f"{row}|{column}"] for column in columns[:-1]]) for row in rows]
    equations += [(at[f"Total|{column}"], [at[f"{row}|{column}"] for row in rows[:-1]]) for column in columns]
    return NamedTable(at, value, equations)


def numbered_table(name: str, measure: str) -> NamedTable:
    """A table of the cases that sdcTable was run on."""
    case = SDCTABLE[name]
    where = case["cells"]["columns"].index(measure)
    at = {row[0]: place for place, row in enumerate(case["cells"]["rows"])}
    equations = []
    for cell in at:
        nodes = cell.split("|")
        for place, dimension in enumerate(case["dims"]):
            below = case["trees"][dimension].get(nodes[place])
            if below:
                parts = ["|".join([*nodes[:place], node, *nodes[place + 1 :]]) for node in below]
                equations.append((at[cell], [at[part] for part in parts]))
    return NamedTable(at, [row[where] for row in case["cells"]["rows"]], equations)


def lone_intruders(name: str) -> tuple[Intruder, ...]:
    """Of a case, every record that is alone in some cell, as an attacker who knows these cells."""
    case, table = SDCTABLE[name], numbered_table(name, "freq")
    columns = case["rows"]["columns"]
    members: dict[int, list[int]] = {}
    for number, row in enumerate(case["rows"]["rows"]):
        paths = [list(path_up(case["trees"][own], row[columns.index(own)])) for own in case["dims"]]
        for nodes in itertools.product(*paths):
            members.setdefault(table.at["|".join(nodes)], []).append(number)
    alone: dict[int, list[int]] = {}
    for cell, listed in members.items():
        if len(listed) == 1:
            alone.setdefault(listed[0], []).append(cell)
    return tuple(Intruder(np.array(sorted(cells), dtype=np.int64)) for cells in alone.values())


def path_up(tree: Mapping[str, Sequence[str]], node: str) -> Iterator[str]:
    """A node and all above it."""
    while node is not None:
        yield node
        node = next((parent for parent, below in tree.items() if node in below), None)  # type: ignore[assignment]


def protect_task(
    system: TableSystem, levels: Sequence[tuple[int, float, float]], intruders: Sequence[Intruder] = ()
) -> Task:
    """A task from (cell, lower, upper) and attackers beside the outsider."""
    primaries = Primaries.of(system, [(cell, lower, upper, 0.0) for cell, lower, upper in levels])
    return Task(system, primaries, (OUTSIDER, *intruders))

"""Hypercubes: in each sub-table a hidden cell is a corner of a cube of hidden cells, which can rise and fall together.

The database looks for the cubes, after GHMITER. What they cannot protect is left to the audit.
"""

from __future__ import annotations

from collections.abc import Mapping

from sqlanon.policy.table_protection import Suppression
from sqlanon.sqltree.tree import count_all, select, table
from sqlanon.statistics.cell_tables import CellTables, TableCells
from sqlanon.statistics.protection_task import Measure, ReadTables, measure_of
from sqlanon.statistics.table_system import Flags

FREE = 1e300  # room where nothing is known
NEEDS = {"cell": "bigint", "need": "double precision"}
STATES = {
    "cell": "bigint", "room_down": "double precision", "room_up": "double precision", "weight": "double precision",
    "helps": "int", "forced": "int",
}  # fmt: skip


def hide_cubes(tables: CellTables, read: ReadTables, settings: Suppression) -> Flags:
    """A pattern in which every hidden cell is in a cube in all of its sub-tables, as far as there are such cubes."""
    workspace = tables.workspace
    turns = workspace.bound("turns", "turns", {"nodes": tables.nodes})
    hidden = read.task.least_hidden.copy()
    by_measure: dict[Measure, list[TableCells]] = {}
    for item in tables.tables:
        by_measure.setdefault(measure_of(item), []).append(item)
    for measure, items in by_measure.items():
        needs = workspace.load("needs", NEEDS, _first_needs(read, measure, hidden).items())
        states = {item.name: _load_states(tables, read, item, settings) for item in items}
        before = -1
        while before != (now := _total(tables, needs)):
            before = now
            for item in items:
                needs = _hide_in_table(tables, item, states[item.name], turns, needs)
        places = {cell: place for item in items for cell, place in _places(read, item).items()}
        for (cell,) in tables.engine.query(select("cell", source=table(needs))):
            hidden[places[int(cell)]] = True
    return hidden


def _total(tables: CellTables, needs: str) -> int:
    return int(tables.engine.query(select(count_all(), source=table(needs)))[0][0])


def _places(read: ReadTables, item: TableCells) -> dict[int, int]:
    return {cell: int(read.task.system.place[read.variable(item, cell)]) for cell in read.cells[item.name]}


def _first_needs(read: ReadTables, measure: Measure, hidden: Flags) -> Mapping[int, float]:
    """Hidden cells of a measure, and how far an attacker must let them move; 0 for those that are not unsafe."""
    task = read.task
    levels = dict(zip(task.primaries.cell.tolist(), task.primaries.upper.tolist(), strict=True))
    return {
        cell: levels.get(variable, 0.0)
        for (own, cell), variable in read.variables.items()
        if own == measure and hidden[task.system.place[variable]] and not task.system.known[variable]
    }


def _load_states(tables: CellTables, read: ReadTables, item: TableCells, settings: Suppression) -> str:
    task = read.task
    low, high = task.bounds(0)
    rows = []
    for cell in read.cells[item.name]:
        variable = read.variable(item, cell)
        place = int(task.system.place[variable])
        alone = settings.singletons != "ignore" and int(read.contributors[variable]) == 1
        helps = not task.system.known[variable] and not alone
        room = min(FREE, float(high[variable]))
        rows.append(
            (cell, repr(-float(low[variable])), repr(room), repr(float(task.system.weight[place])), int(helps),
             int(task.system.forced[place]))
        )  # fmt: skip
    return tables.workspace.load("states", STATES, rows)


def _hide_in_table(tables: CellTables, item: TableCells, states: str, turns: str, needs: str) -> str:
    """Hidden cells with their needs, after cubes were taken in one table until nothing changes."""
    workspace = tables.workspace
    settled = workspace.load("settled", NEEDS, [])
    while True:
        relations = {"needs": needs, "states": states, "settled": settled}
        opened = workspace.bound("open", "open_needs", relations)
        if not _total(tables, opened):
            return needs
        corners = workspace.bound("corners", "first_corners", {"open_needs": opened, "states": states})
        for place in item.places:
            own = tables.dimension(place)
            digits = {"dimension": place, "below": own.below, "above": own.above}
            corners = workspace.bound("corners", "turn_corners", {"corners": corners, "turns": turns}, **digits)
        best = workspace.bound("cubes", "best_cubes", {"corners": corners, "states": states, "needs": needs})
        chosen = workspace.bound("cubes", "chosen_cubes", {"cubes": best})
        settled = workspace.bound("settled", "settled_needs", {"settled": settled, "open_needs": opened, "cubes": best})
        needs = workspace.bound("needs", "raised_needs", {"needs": needs, "corners": corners, "cubes": chosen})

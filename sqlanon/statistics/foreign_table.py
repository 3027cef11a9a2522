"""Audit a table of statistics that somebody else made: how many hidden cells can be computed from those shown.

There are no records behind it, so that nothing is known of its rules: what is told is how many hidden cells can be
computed exactly, and how many closely.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from sqlglot import exp

from sqlanon.engines import Engine
from sqlanon.errors import PolicyError, SourceError, did_you_mean
from sqlanon.hierarchies import build as build_hierarchy
from sqlanon.policy import Source
from sqlanon.relations.source import relation
from sqlanon.sqltree.tree import column, double, nest_query, select, text
from sqlanon.statistics.audit import find_intervals
from sqlanon.statistics.dimensions import MOST_CELLS, TOTAL
from sqlanon.statistics.flow_program import SolverClock, load_program, load_solver, quiet_model, run_solver
from sqlanon.statistics.table_system import Primaries, Task, build_system

EXACTLY = 1e-6  # of a value
CLOSELY = 0.1


@dataclass(frozen=True)
class ForeignCheck:
    """How closely hidden cells can be computed."""

    table: str
    cells: int
    hidden: int
    exact: int
    close: int  # within a tenth of the greatest value that is possible
    problems: tuple[str, ...]

    @property
    def holds(self) -> bool:
        return not self.exact and not self.problems

    def to_json(self) -> dict[str, Any]:
        return {"holds": self.holds, **asdict(self)}


def check_foreign(
    engine: Engine,
    name: str,
    dimensions: Sequence[str],
    value: str,
    total: str | None = None,
    hierarchies: Mapping[str, Path] | None = None,
) -> ForeignCheck:
    """`dimensions` are the columns whose combinations are cells, `value` holds NULL where a cell is hidden, and `total`
    is what the sum over a dimension is called. `hierarchies` are files that say what the labels of a dimension add up
    to, as the kinds csv and hrc read them."""
    trees = {own: _read_tree(path) for own, path in (hierarchies or {}).items()}
    for own in trees:
        if own not in dimensions:
            hint = did_you_mean(own, dimensions) or f"the cells are made by {', '.join(dimensions)}"
            raise PolicyError(f"no cell is made by '{own}'", hint=hint)
    if len(set(dimensions)) < len(dimensions):
        raise PolicyError("a column makes cells twice", hint="name each column of --cells once")
    rows = relation(engine.resolve(Source(table=name)), engine.dialect)
    known = {item.name: item for item in engine.columns(rows)}
    for wanted in (*dimensions, value):
        if wanted not in known:
            raise PolicyError(
                f"'{name}' has no column '{wanted}'", hint=did_you_mean(wanted, known) or f"it has {', '.join(known)}"
            )
    if not known[value].numeric:
        raise PolicyError(f"column '{value}' is of type {known[value].type}, and holds no amounts", hint="name another")
    chosen: list[exp.Expr] = [*(text(column(own)) for own in dimensions), double(column(value))]
    listed = engine.query(select(*chosen, source=nest_query(rows, "shown")).limit(MOST_CELLS + 1))
    if len(listed) > MOST_CELLS:
        raise PolicyError(f"'{name}' has more than {MOST_CELLS:,} cells", hint="look at a part of it through a view")
    cells: dict[tuple[str, ...], int] = {}
    values: list[float | None] = []
    for *labels, amount in listed:
        key = tuple(str(label) for label in labels)
        if any(label is None for label in labels) or key in cells:
            raise SourceError(
                f"'{name}' is not a table of cells: a label is NULL, or a cell is there twice",
                hint="name every column that tells cells apart: --cells region,branch,year",
            )
        cells[key] = len(values)
        values.append(None if amount is None else float(amount))
    totals, above = [], []
    for place, own in enumerate(dimensions):
        root, parents = trees.get(own, (TOTAL, {}))
        # The table calls the sum as it is told to, or as the hierarchy does, or as everybody does.
        there = {key[place] for key in cells}
        called = total if total is not None else root if root in there else TOTAL
        totals.append(called)
        above.append({label: called if parent == root else parent for label, parent in parents.items()})
    return check_cells(name, dict(zip(cells, values, strict=True)), totals, above)


def _read_tree(path: Path) -> tuple[str, dict[str, str]]:
    """The root of a hierarchy in a file, and the label above each label."""
    kind = "hrc" if path.suffix.lower() == ".hrc" else "csv"
    made = build_hierarchy(kind, {"path": path.name}, path.parent)
    above: dict[str, str] = {}
    for row in made.rows:
        for label, parent in pairwise(dict.fromkeys(row)):
            if above.setdefault(label, parent) != parent:
                raise PolicyError(
                    f"{path.name}: the hierarchy has one label for two nodes", hint="give each node a label of its own"
                )
    return made.root, above


def check_cells(
    name: str,
    shown: Mapping[tuple[str, ...], float | None],
    totals: Sequence[str],
    above: Sequence[Mapping[str, str]],
) -> ForeignCheck:
    """The same for cells by their labels, None where one is hidden. `above` are the labels above each label of a
    dimension, and where it has none, all lie below its total."""
    cells = {labels: place for place, labels in enumerate(shown)}
    strange = sum(
        any(
            label != total and own and label not in own for label, total, own in zip(labels, totals, above, strict=True)
        )
        for labels in cells
    )
    if strange:
        raise SourceError(
            f"{strange:,} cells of '{name}' have a label that is not in the hierarchy", hint="complete the code list"
        )
    equations = _equations(cells, totals, above)
    if not equations:
        raise PolicyError(
            f"no cell of '{name}' is a total",
            hint=f"totals are called '{', '.join(dict.fromkeys(totals))}': say otherwise with --total",
        )
    return _measure(name, list(shown.values()), equations)


def _equations(
    cells: dict[tuple[str, ...], int], totals: Sequence[str], above: Sequence[Mapping[str, str]]
) -> list[tuple[int, list[int]]]:
    parts: dict[tuple[int, tuple[str, ...]], list[int]] = {}
    for key, cell in cells.items():
        for place, total in enumerate(totals):
            if key[place] != total:
                whole = above[place].get(key[place], total)
                parts.setdefault((place, (*key[:place], whole, *key[place + 1 :])), []).append(cell)
    return [(cells[whole], own) for (_, whole), own in parts.items() if whole in cells]


def _measure(name: str, values: Sequence[float | None], equations: list[tuple[int, list[int]]]) -> ForeignCheck:
    hidden = np.array([amount is None for amount in values])
    # Of known cells the sums must be right; the least that can be said of hidden ones is that they are not negative.
    filled = [0.0 if amount is None else amount for amount in values]
    system = build_system(filled, equations)
    sums = np.zeros(system.equations)
    np.add.at(sums, system.rows, system.signs * system.value[system.columns])
    largest = max((abs(amount) for amount in filled), default=0.0)
    cells = np.flatnonzero(hidden)
    begins, rows, signs = system.entries(cells)
    used = np.unique(rows)
    wrong = np.abs(np.delete(sums, used)) > 1e-6 * max(1.0, largest)
    problems = [f"{int(wrong.sum()):,} totals are not the sum of their parts"] if wrong.any() else []
    possible = _find_values(begins, np.searchsorted(used, rows), signs, -sums[used], len(cells))
    if possible is None:
        said = "no amounts of hidden cells, which are not negative, add up to what is shown"
        return ForeignCheck(name, len(values), len(cells), 0, 0, (*problems, said))
    found = np.array(filled)
    found[cells] = possible
    system = build_system(list(found), equations)
    task = Task(system, Primaries.of(system, []))
    exact = close = 0
    for low, high in find_intervals(task, hidden, cells.tolist()).values():
        width = high - low
        exact += width <= EXACTLY * max(1.0, abs(high))
        close += math.isfinite(high) and width <= CLOSELY * max(high, 1e-9)
    return ForeignCheck(name, len(values), len(cells), exact, close, tuple(problems))


def _find_values(begins: Any, rows: Any, signs: Any, sides: Any, count: int) -> Any:
    """Amounts of the hidden cells with which every equation holds; None if there are none."""
    if not count:
        return np.zeros(0)
    model = quiet_model()
    free = np.full(count, np.inf)
    load_program(model, (np.zeros(count), np.zeros(count), free), (sides, sides), (begins, rows, signs))
    status = run_solver(model, SolverClock())
    if status != load_solver().HighsModelStatus.kOptimal:
        return None
    return np.array(model.getSolution().col_value, dtype=np.float64)

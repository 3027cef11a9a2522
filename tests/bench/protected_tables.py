"""Tables of statistics: how long cells and rules take beside one GROUP BY, and how long a pattern takes to be found.

    python tests/bench/protected_tables.py [rows …]

Rows: enterprises by four dimensions, two with hierarchies; groups of enterprises are contributors. In the first line
few enterprises belong to a group, as in a business register; in the second all do, each in several cells.
Suppression: random tables of the sizes that others have reported, with the time of the solver beside the whole.
"""

from __future__ import annotations

import itertools
import json
import sys
import time
from collections.abc import Callable, Sequence

import duckdb
import numpy as np
from sqlglot import exp

from sqlanon.engines import connect
from sqlanon.policy.files import parse_statistics
from sqlanon.statistics.audit import Auditor
from sqlanon.statistics.cell_tables import Workspace, find_unsafe, make_cells
from sqlanon.statistics.flow_program import SolverClock
from sqlanon.statistics.suppression_exact import search_least_cost
from sqlanon.statistics.suppression_heuristic import search_pattern
from sqlanon.statistics.table_system import Primaries, TableSystem, Task, build_system

GROUPED = 0.05  # of enterprises, that belong to a group with others
ROWS = """
CREATE TABLE records AS
SELECT
    CASE WHEN hash(i // 5, 1) % 1000 < {grouped} THEN 'G' || i // 5 ELSE 'E' || i END AS who,
    'r' || hash(i, 2) % 5 || hash(i, 3) % 6 AS region,
    'b' || hash(i, 4) % 6 || hash(i, 5) % 7 AS branch,
    's' || hash(i, 6) % 4 AS size,
    'f' || hash(i, 7) % 3 AS form,
    CAST(100 / (1.001 - (hash(i, 8) % 1000) / 1000.0) AS BIGINT) AS amount
FROM range({rows}) AS t (i)
"""
PLAIN = """
CREATE OR REPLACE TEMP TABLE plain AS
SELECT region, branch, size, form, who, count(*), sum(amount) FROM records GROUP BY ALL
"""
POLICY = {
    "source": {"table": "records"},
    "release": {"table": "released"},
    "hierarchies": {name: {"prefix": {"length": 3, "keep": 1}} for name in ("region", "branch")},
    "statistics": {
        "t": {
            "by": ["region", "branch", "size", "form"],
            "of": "amount",
            "contributor": "who",
            "rules": [{"minimum_frequency": {"n": 3}}, {"p_percent": {"p": 10}}],
        }
    },
}


def seconds(work: Callable[[], object]) -> float:
    """Of the processor, by this process."""
    begin = time.process_time()
    work()
    return time.process_time() - begin


def relations(rows: int, grouped: float, title: str) -> None:
    engine = connect(":memory:", read_only=False)
    connection: duckdb.DuckDBPyConnection = engine._connection  # type: ignore[attr-defined]
    connection.execute(ROWS.format(rows=rows, grouped=int(1000 * grouped)))
    plain = min(seconds(lambda: connection.execute(PLAIN)) for _ in range(3))
    policy = parse_statistics(json.dumps(POLICY))
    assert policy is not None

    def make_and_find() -> tuple[int, int]:
        workspace = Workspace(engine)
        tables = make_cells(policy, engine, workspace)
        unsafe = len(find_unsafe(tables))
        cells = int(engine.query(exp.select("count(*)").from_(tables.tables[0].cells))[0][0])
        workspace.drop()
        return cells, unsafe

    cells, unsafe = make_and_find()
    own = min(seconds(make_and_find) for _ in range(2))
    print(
        f"{rows:>11,} rows, {title:28} {cells:>7,} cells, {unsafe:>6,} unsafe: {own:6.2f} s of CPU, "
        f"{own / plain:4.1f} times one GROUP BY ({plain:.2f} s)",
        flush=True,
    )
    engine.close()


def random_table(sizes: Sequence[Sequence[int]], seed: int) -> tuple[TableSystem, list[int]]:
    """Counts by dimensions, each a tree with so many children at each level; small counts are unsafe."""
    random = np.random.default_rng(seed)
    trees = []
    for levels in sizes:
        parents, level = [-1], [0]
        for width in levels:
            level = [node for parent in level for node in range(len(parents), len(parents) + width)
                     if not parents.append(parent)]  # type: ignore[func-returns-value]  # fmt: skip
        trees.append(parents)
    at = {nodes: place for place, nodes in enumerate(itertools.product(*(range(len(tree)) for tree in trees)))}
    below = [
        {node: [n for n, parent in enumerate(tree) if parent == node] for node in range(len(tree))} for tree in trees
    ]
    value = np.zeros(len(at))
    leaves = [[node for node in range(len(tree)) if not own[node]] for tree, own in zip(trees, below, strict=True)]
    for nodes in itertools.product(*leaves):
        amount = int(random.poisson(random.gamma(0.8, 40)))
        paths = [list(_up(tree, node)) for tree, node in zip(trees, nodes, strict=True)]
        for above in itertools.product(*paths):
            value[at[above]] += amount
    equations = []
    for nodes, cell in at.items():
        for place, own in enumerate(below):
            if own[nodes[place]]:
                parts = [at[(*nodes[:place], child, *nodes[place + 1 :])] for child in own[nodes[place]]]
                equations.append((cell, parts))
    system = build_system(list(value), equations, high=[2 * amount + 10 if amount else 0 for amount in value])
    return system, [cell for cell, amount in enumerate(value) if 0 < amount <= 2]


def _up(tree: Sequence[int], node: int):  # type: ignore[no-untyped-def]
    while node >= 0:
        yield node
        node = tree[node]


CASES: list[tuple[str, list[list[int]], float | None]] = [
    ("10 x 10", [[9], [9]], 20), ("tree of 13 x 8", [[3, 3], [7]], 20), ("32 x 32", [[31], [31]], 20),
    ("tree of 40 x 9 x 3", [[3, 3, 3], [8], [2]], 20), ("101 x 101", [[100], [100]], None),
]  # fmt: skip


def suppression() -> None:
    print(
        "table                 cells  equations  unsafe | heuristic: cost  seconds  solver |"
        " exact: cost  bound  seconds  solver"
    )
    for name, sizes, limit in CASES:
        system, unsafe = random_table(sizes, 1)
        task = Task(system, Primaries.of(system, [(cell, 1.0, 1.0, 0.0) for cell in unsafe]))
        begin = time.perf_counter()
        hidden, auditor = search_pattern(task)
        took = time.perf_counter() - begin
        assert not Auditor(task).find_lacks(hidden)
        line = f"{name:20} {system.cells:>6,} {system.equations:>10,} {len(unsafe):>7,} |"
        line += f" {task.cost(hidden):>15,.0f} {took:>8.2f} {auditor.clock.solving / took:>7.0%} |"
        if limit is not None:
            auditor = Auditor(task, SolverClock())
            begin = time.perf_counter()
            found = search_least_cost(task, limit, auditor)
            took = time.perf_counter() - begin
            line += f" {found.cost:>11,.0f} {found.bound:>6,.0f} {took:>8.2f} {auditor.clock.solving / took:>7.0%}"
        print(line, flush=True)


if __name__ == "__main__":
    for given in sys.argv[1:] or ["1000000"]:
        relations(int(given), GROUPED, f"{GROUPED:.0%} of them in groups")
        relations(int(given), 1.0, "all in groups of five")
    suppression()

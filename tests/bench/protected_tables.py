"""Tables of statistics: how long cells and rules take beside one GROUP BY, and how long a pattern takes to be found.

    python tests/bench/protected_tables.py [rows …]      0 rows: suppression alone

Rows: enterprises by four dimensions, two with hierarchies; groups of enterprises are contributors. In the first line
few enterprises belong to a group, as in a business register; in the second all do, each in several cells.
Suppression: random tables of counts of the sizes that others have reported, from the records to a release that was
audited as written, with the time of the solver beside the whole.
"""

from __future__ import annotations

import itertools
import json
import math
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import duckdb
import highspy
import numpy as np
import pyarrow as pa
from sqlglot import exp

from sqlanon.engines import connect
from sqlanon.policy.files import parse_statistics
from sqlanon.policy.statistics import StatisticsPolicy
from sqlanon.release.publish_statistics import publish_statistics
from sqlanon.statistics.cell_tables import Workspace, find_unsafe, make_cells

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


@dataclass(frozen=True)
class Case:
    """A random table: by dimensions, each a tree with so many children at each level. The larger the shape, the fewer
    of its counts are small."""

    name: str
    sizes: tuple[tuple[int, ...], ...]
    shape: float
    seconds: float | None = 20  # for the exact search; None: it is not tried
    seed: int = 1

    @property
    def leaves(self) -> int:
        return math.prod(math.prod(levels) for levels in self.sizes)

    def counts(self) -> Iterator[tuple[tuple[str, ...], int]]:
        """The labels of each finest cell, and how many records are in it."""
        random = np.random.default_rng(self.seed)
        for codes in itertools.product(*(_codes(levels) for levels in self.sizes)):
            yield codes, int(random.poisson(random.gamma(self.shape, 40)))

    def policy(self, search: str, seconds: float) -> StatisticsPolicy:
        """Each record is a contributor, and fewer than three are too few. Labels have a letter for each level."""
        names = [f"d{place}" for place in range(len(self.sizes))]
        trees = {
            name: {"prefix": {"length": len(levels), "keep": 1, "step": 1}}
            for name, levels in zip(names, self.sizes, strict=True) if len(levels) > 1
        }  # fmt: skip
        rules = [{"minimum_frequency": {"n": 3}}]
        found = parse_statistics(json.dumps({
            "source": {"table": "records"}, "release": {"table": "released"}, "hierarchies": trees,
            "statistics": {"t": {"by": names, "rules": rules}},
            "protect": {"suppression": {"search": search, "seconds": seconds}},
        }))  # fmt: skip
        assert found is not None
        return found


def _codes(levels: Sequence[int]) -> list[str]:
    """Labels of leaves, of one character a level, so that the first characters of a label are those of its parent."""
    return ["".join(chr(ord("A") + at) for at in each) for each in itertools.product(*(range(n) for n in levels))]


CASES = [
    Case("10 x 10", ((9,), (9,)), 0.8), Case("tree of 13 x 8", ((3, 3), (7,)), 0.8),
    Case("32 x 32", ((31,), (31,)), 1.1), Case("tree of 40 x 9 x 3", ((3, 3, 3), (8,), (2,)), 1.2),
    Case("the same, more small", ((3, 3, 3), (8,), (2,)), 0.4), Case("101 x 101", ((100,), (100,)), 1.3, 60),
    Case("40 x tree of 31 x 7", ((3, 3, 3), (5, 5), (6,)), 1.7, 60),
]  # fmt: skip


class SolverTime:
    """How long the solver works inside: in the search, and in the audit of the table as written."""

    def __enter__(self) -> SolverTime:
        self.seconds = 0.0
        self._plain = highspy.Highs.run

        def run(model: highspy.Highs) -> Any:
            begin = time.process_time()
            try:
                return self._plain(model)
            finally:
                self.seconds += time.process_time() - begin

        highspy.Highs.run = run
        return self

    def __exit__(self, *_: object) -> None:
        highspy.Highs.run = self._plain


def publish_case(case: Case, search: str, seconds: float) -> tuple[dict[str, Any], float, float]:
    """What was found, and the seconds of the processor that a whole `publish` took, from the rows to the release that
    was audited as written; and how many of these the solver took."""
    engine = connect(":memory:", read_only=False)
    connection: duckdb.DuckDBPyConnection = engine._connection  # type: ignore[attr-defined]
    names = [f"d{place}" for place in range(len(case.sizes))]
    listed = pa.table({
        **{name: [codes[place] for codes, _ in case.counts()] for place, name in enumerate(names)},
        "n": [count for _, count in case.counts()],
    })  # fmt: skip
    connection.register("listed", listed)
    connection.execute("CREATE TABLE records AS SELECT * EXCLUDE (n) FROM listed, range(n)")
    with SolverTime() as solver:
        begin = time.process_time()
        document = publish_statistics(case.policy(search, seconds), engine).document
        took = time.process_time() - begin
    engine.close()
    return dict(document["statistics"]), took, solver.seconds


def suppression(cases: Sequence[Case] = CASES) -> None:
    print(
        "table                 cells  unsafe | heuristic: cost  seconds  solver |"
        " exact: cost      bound  seconds  solver | heuristic / exact"
    )
    for case in cases:
        found, took, solving = publish_case(case, "heuristic", 60)
        cells = sum(item["cells"] for item in found["tables"])
        unsafe = sum(item["unsafe"] for item in found["tables"])
        line = f"{case.name:20} {cells:>6,} {unsafe:>7,} |"
        line += f" {found['cost']:>15,.0f} {took:>8.2f} {solving / took:>7.0%} |"
        print(line, end="", flush=True)
        if case.seconds is not None:
            cost = found["cost"]
            found, took, solving = publish_case(case, "exact", case.seconds)
            line = f" {found['cost']:>11,.0f} {found['bound']:>10,.0f} {took:>8.2f} {solving / took:>7.0%} |"
            proven = found["gap"] == 0
            line += f" {cost / found['cost'] if found['cost'] else 1:.3f}" if proven else " not proven"
            print(line, end="", flush=True)
        print(flush=True)


if __name__ == "__main__":
    for given in sys.argv[1:] or ["1000000"]:
        if int(given):
            relations(int(given), GROUPED, f"{GROUPED:.0%} of them in groups")
            relations(int(given), 1.0, "all in groups of five")
    suppression()

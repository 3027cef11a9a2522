"""What it costs to take a table apart, as a ratio to one plain GROUP BY of the quasi-identifiers in the same run.

    python tests/bench/anatomy.py [ROWS …]      (default 1,000,000 and 10,000,000; `make bench`)

The time of a method is that of all its tables: temporary ones, and those that are released, with all columns.
`shuffled` is with the rows in a drawn order, as a release is written. CPU time is measured, in one thread.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
from checks import plain_group_by
from data import QI, generate
from methods import KEY, best

import sqlanon
from sqlanon import algorithms
from sqlanon.buckets.bucketize import prepare_rows
from sqlanon.engines import Engine
from sqlanon.relations.rewrite import shuffle_rows

# method: (parameters, the sensitive column, largest ratio)
METHODS: dict[str, tuple[dict[str, Any], str, float]] = {
    "anatomy": ({"l": 7}, "disease", 4.0),
}


def policy(name: str, params: dict[str, Any], sensitive: str) -> sqlanon.Policy:
    roles = dict.fromkeys(QI, "quasi_identifier") | dict.fromkeys(["disease", "visits"], "insensitive")
    roles |= {"id": "identifier", sensitive: "sensitive"}
    models = [{"distinct_l_diversity": {"l": 2}}]
    written = {"source": {"table": "numbered"}, "columns": roles, "models": models, "algorithm": {name: params}}
    return sqlanon.parse(json.dumps(written))


def part(engine: Engine, asked: sqlanon.Policy, *, drawn: bool) -> None:
    assert asked.algorithm is not None
    module = algorithms.algorithm(asked.algorithm.name)
    rows = prepare_rows(asked, engine, KEY, module.SEEDS)
    made = module.part(rows, module.Params.model_validate(asked.algorithm.params))
    for place, tree in enumerate((made.select, *made.companions.values())):
        rows.make(f"written_{place}", shuffle_rows(tree) if drawn else tree)
    rows.close()


def run(rows: int, times: int = 3) -> bool:
    """Print the ratios for this many rows; True if all limits hold."""
    engine = sqlanon.connect()
    connection = engine._connection  # type: ignore[attr-defined]
    connection.execute("SET threads = 1")
    generate(connection, rows)
    connection.execute("CREATE TABLE numbered AS SELECT ROW_NUMBER() OVER () AS id, * FROM raw")
    connection.execute("DROP TABLE raw")
    connection.execute("DROP TABLE released")
    print(f"\n{rows:,} rows: ratio to one plain GROUP BY of {len(QI)} quasi-identifiers")
    print(f"{'method':20}{'ratio':>10}{'limit':>8}{'shuffled':>10}{'seconds':>10}")
    holds = True
    for name, (params, sensitive, limit) in METHODS.items():
        asked = policy(name, params, sensitive)
        (plain, _), (ours, _), (whole, _) = best(
            lambda: plain_group_by(engine, "numbered"),
            lambda asked=asked: part(engine, asked, drawn=False),
            lambda asked=asked: part(engine, asked, drawn=True),
            times=times,
        )
        over = ours / plain > limit
        holds = holds and not over
        line = f"{name:20}{ours / plain:10.2f}{limit:8.1f}{whole / plain:10.2f}{ours:10.2f}"
        print(f"{line}{'  OVER' if over else ''}", flush=True)
    engine.close()
    return holds


def main() -> None:
    sizes = [int(text) for text in sys.argv[1:]] or [1_000_000, 10_000_000]
    holds = [run(rows) for rows in sizes]
    sys.exit(0 if all(holds) else 1)


if __name__ == "__main__":
    main()

"""What each transformation costs, as a ratio to one plain GROUP BY of the quasi-identifiers in the same run.

    python tests/bench/methods.py [ROWS …]      (default 1,000,000 and 10,000,000; `make bench`)

The time of a method is that of all its temporary tables, from the source to the table that is searched, with all
columns of it. The rows have a unique identifier; how long it takes to find that out is counted, too. `all` is the ratio
of the whole. `copy` is a method that does next to nothing: the table has to be written whatever changes in it, and a
policy with three methods writes it once; `own` is what a method takes beyond that. Limits are for `own`, since writing
alone takes longer than the GROUP BY does, which no method can help; for `copy` the limit is for the whole.
DuckDB runs with as many threads as it likes. CPU time of all of them is measured, which a busy machine changes least;
`wall` is the ratio of what one waits, again beyond the copy.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
from checks import plain_group_by
from data import QI, generate

import sqlanon
from sqlanon.engines import Engine
from sqlanon.engines.temp_tables import drop_steps
from sqlanon.evidence.apply_transformations import apply

KEY = "a key for benchmarks, which protects nobody"
# method: (use, largest ratio, most rows that it is tried on)
METHODS: dict[str, tuple[dict[str, Any], float, int]] = {
    "copy": ({"top_bottom_coding": {"columns": ["visits"], "top": 15}}, 2.0, 10**9),
    "rank_swap": ({"rank_swap": {"columns": ["age"], "percent": 5}}, 2.0, 10**9),
    "pram": ({"pram": {"columns": ["disease"], "keep": 0.8, "invariant": True}}, 1.0, 10**9),
    "additive_noise": ({"additive_noise": {"columns": ["visits"], "alpha": 0.2}}, 1.0, 10**9),
    "microaggregation": ({"microaggregation": {"columns": ["age", "visits"], "k": 5}}, 100.0, 1_000_000),
}


def policy(use: dict[str, Any]) -> sqlanon.Policy:
    roles = dict.fromkeys(QI, "quasi_identifier") | {
        "id": "identifier",
        "disease": "sensitive",
        "visits": "insensitive",
    }
    models = [{"k_anonymity": {"k": 5}}]
    written = {"source": {"table": "numbered"}, "columns": roles, "models": models, "transformations": [use]}
    return sqlanon.parse(json.dumps(written))


def transform(engine: Engine, asked: sqlanon.Policy) -> None:
    drop_steps(engine, apply(asked, engine, KEY).prelude.steps)


def best(*actions: Callable[[], object], times: int) -> list[tuple[float, float]]:
    """The least CPU time and the least time of each action, taken in turns."""
    found = [(float("inf"), float("inf"))] * len(actions)
    for _ in range(times):
        for place, action in enumerate(actions):
            start, began = time.process_time(), time.perf_counter()
            action()
            used, waited = time.process_time() - start, time.perf_counter() - began
            found[place] = (min(found[place][0], used), min(found[place][1], waited))
    return found


def run(rows: int, times: int | None = None) -> bool:
    """Print the ratios for this many rows; True if all limits hold."""
    times = times or (30 if rows <= 1_000_000 else 5)  # what is short is disturbed more
    engine = sqlanon.connect()
    connection = engine._connection  # type: ignore[attr-defined]
    generate(connection, rows)
    connection.execute("CREATE TABLE numbered AS SELECT ROW_NUMBER() OVER () AS id, * FROM raw ORDER BY id")
    print(f"\n{rows:,} rows: ratio to one plain GROUP BY of {len(QI)} quasi-identifiers")
    print(f"{'method':20}{'all':>10}{'own':>8}{'limit':>8}{'wall':>8}{'seconds':>10}")
    asked = {name: policy(use) for name, (use, _, most) in METHODS.items() if rows <= most}
    quick = [name for name in asked if name != "microaggregation"]
    # All of them in turns, so that a slow moment of the machine meets all alike.
    actions = [lambda use=asked[name]: transform(engine, use) for name in quick]
    (plain_cpu, plain_wall), *measured = best(lambda: plain_group_by(engine, "numbered"), *actions, times=times)
    found = dict(zip(quick, measured, strict=True))
    if "microaggregation" in asked:
        (found["microaggregation"],) = best(lambda: transform(engine, asked["microaggregation"]), times=1)
    holds, copied = True, (0.0, 0.0)
    for name, (used, waited) in found.items():
        cpu, wall = used / plain_cpu, waited / plain_wall
        own = cpu - copied[0]
        over = own > METHODS[name][1]
        holds = holds and not over
        print(
            f"{name:20}{cpu:10.2f}{own:8.2f}{METHODS[name][1]:8.1f}{wall - copied[1]:8.2f}{used:10.2f}"
            f"{'  OVER' if over else ''}",
            flush=True,
        )
        copied = (cpu, wall) if name == "copy" else copied
    engine.close()
    return holds


def main() -> None:
    sizes = [int(text) for text in sys.argv[1:]] or [1_000_000, 10_000_000]
    holds = [run(rows) for rows in sizes]
    sys.exit(0 if all(holds) else 1)


if __name__ == "__main__":
    main()

"""What each transformation costs, as a ratio to one plain GROUP BY of the quasi-identifiers in the same run.

    python tests/bench/methods.py [ROWS …]      (default 1,000,000 and 10,000,000; `make bench`)

The time of a method is that of all its temporary tables, from the source to the table that is searched, with all
columns of it. The rows have a unique identifier; how long it takes to find that out is counted, too. `copy` is a method
that does next to nothing: the writing of the table itself; `own` is what a method takes beyond that. Limits are for the
whole, which some methods do not keep yet.
CPU time is measured, in one thread, since both are what a busy machine changes least.
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
from sqlanon.engines.steps import drop_steps
from sqlanon.evidence.transformed import apply

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


def best(*actions: Callable[[], object], times: int) -> list[float]:
    """The least CPU time of each action, taken in turns."""
    found = [float("inf")] * len(actions)
    for _ in range(times):
        for place, action in enumerate(actions):
            start = time.process_time()
            action()
            found[place] = min(found[place], time.process_time() - start)
    return found


def run(rows: int, times: int = 3) -> bool:
    """Print the ratios for this many rows; True if all limits hold."""
    engine = sqlanon.connect()
    connection = engine._connection  # type: ignore[attr-defined]
    connection.execute("SET threads = 1")
    generate(connection, rows)
    connection.execute("CREATE TABLE numbered AS SELECT ROW_NUMBER() OVER () AS id, * FROM raw")
    print(f"\n{rows:,} rows: ratio to one plain GROUP BY of {len(QI)} quasi-identifiers")
    print(f"{'method':20}{'ratio':>10}{'own':>8}{'limit':>8}{'seconds':>10}")
    holds, written = True, 0.0
    for name, (use, limit, most) in METHODS.items():
        if rows > most:
            continue
        asked = policy(use)
        tries = 1 if name == "microaggregation" else times
        plain, ours = best(
            lambda: plain_group_by(engine, "numbered"), lambda asked=asked: transform(engine, asked), times=tries
        )
        written = ours / plain if name == "copy" else written
        own = ours / plain - (0 if name == "copy" else written)
        over = ours / plain > limit
        holds = holds and not over
        print(f"{name:20}{ours / plain:10.2f}{own:8.2f}{limit:8.1f}{ours:10.2f}{'  OVER' if over else ''}", flush=True)
    engine.close()
    return holds


def main() -> None:
    sizes = [int(text) for text in sys.argv[1:]] or [1_000_000, 10_000_000]
    holds = [run(rows) for rows in sizes]
    sys.exit(0 if all(holds) else 1)


if __name__ == "__main__":
    main()

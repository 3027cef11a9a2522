"""How long k^m-anonymity of baskets takes, as a ratio to one GROUP BY of the pairs of items that occur.

    python tests/bench/itemsets.py [baskets] [memory limit]

A basket has 10 items of 1,000, of which some are bought much more often than others; their tree has 100 and 10 nodes
above them. The GROUP BY joins the table with itself by person, as anybody would count pairs.
"""

from __future__ import annotations

import json
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from sqlanon.engines import connect
from sqlanon.engines.duckdb import DuckDB
from sqlanon.evidence.checks import check
from sqlanon.policy import parse
from sqlanon.release import publish

BASKETS, ITEMS, SIZE = 1_000_000, 1_000, 10
PAIRS = """
CREATE OR REPLACE TEMP TABLE pairs AS
SELECT a.product AS one, b.product AS other, COUNT(*) AS n
FROM baskets a JOIN baskets b ON b.customer_id = a.customer_id AND b.product > a.product
GROUP BY a.product, b.product
"""


def cpu_seconds(run: Callable[[], object]) -> tuple[float, float]:
    """CPU time and wall time."""
    before, began = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
    run()
    after = resource.getrusage(resource.RUSAGE_SELF)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return used, time.perf_counter() - began


def main(baskets: int, memory: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        engine = connect(str(Path(folder) / "shop.duckdb"), memory_limit=memory, read_only=False)
        assert isinstance(engine, DuckDB)
        database = engine._connection
        database.execute("SELECT setseed(0.42)")
        # Duplicates within a basket are left out, so that baskets have up to 10 different items.
        database.execute(
            f"""
            CREATE TABLE baskets AS
            SELECT DISTINCT customer_id, 'item ' || printf('%03d', CAST(floor({ITEMS} * pow(u, 1.5)) AS INT)) AS product
            FROM (SELECT r // {SIZE} AS customer_id, random() AS u FROM range({baskets * SIZE}) AS t(r)) AS drawn
            """
        )
        rows = [[f"item {n:03}", f"group {n // 10:02}", f"kind {n // 100}", "*"] for n in range(ITEMS)]
        file = Path(folder) / "items.csv"
        file.write_text("\n".join(";".join(row) for row in rows), encoding="utf-8")
        policy = parse(
            json.dumps(
                {
                    "source": {"table": "baskets"},
                    "person": "customer_id",
                    "shape": "set",
                    "columns": {"customer_id": "identifier", "product": "item"},
                    "hierarchies": {"product": {"csv": {"path": str(file)}}},
                    "models": [{"km_anonymity": {"k": 5, "m": 2}}],
                    "release": {"table": "released"},
                }
            )
        )
        runs = {
            "one GROUP BY of pairs": lambda: database.execute(PAIRS),
            "check": lambda: check(policy, engine),
            "publish": lambda: publish(policy, engine, workload=False),
        }
        plain = 0.0
        for name, run in runs.items():
            cpu, wall = cpu_seconds(run)
            plain = plain or cpu
            print(f"{name:24} {cpu:8.1f} s CPU {wall:8.1f} s wall {cpu / plain:6.1f}x", flush=True)
        print(f"most memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:,.0f} MB, limit {memory}")
        engine.close()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else BASKETS, sys.argv[2] if len(sys.argv) > 2 else "2GB")

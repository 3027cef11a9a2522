"""What a check of persons by all their rows costs, as a ratio to one GROUP BY of person and columns in the same run.

    python tests/bench/entities.py [ROWS]      (default 10,000,000; `make bench`)

A person has four rows on average. Both statements write their result to a table. Prints the ratio of CPU time, and
exits with 1 if it is over 3.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Callable

import duckdb

import sqlanon
from sqlanon.engines import connect
from sqlanon.evidence.checks import check

LIMIT = 3.0
COLUMNS = ("ward", "month", "sex")


def fill(connection: duckdb.DuckDBPyConnection, rows: int) -> None:
    connection.execute(
        f"""CREATE OR REPLACE TABLE visits AS SELECT
            CAST(hash(i, 1) % {max(rows // 4, 1)} AS BIGINT) AS patient,
            'ward ' || (hash(i, 2) % 20) AS ward,
            CAST(hash(i, 3) % 12 AS INTEGER) AS month,
            CASE WHEN hash(i, 4) % 2 = 0 THEN 'f' ELSE 'm' END AS sex
        FROM range({rows}) AS t(i)"""
    )


def policy() -> sqlanon.Policy:
    roles = {"patient": "identifier"} | dict.fromkeys(COLUMNS, "quasi_identifier")
    written = {"source": {"table": "visits"}, "person": "patient", "shape": "entity", "columns": roles}
    return sqlanon.parse(json.dumps(written | {"models": [{"k_anonymity": {"k": 5}}]}))


def spent(action: Callable[[], object]) -> tuple[float, float]:
    """CPU and wall seconds."""
    before, start = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
    action()
    after = resource.getrusage(resource.RUSAGE_SELF)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return cpu, time.perf_counter() - start


def run(rows: int, times: int = 3) -> float:
    """The ratio of the CPU times, each the best of several turns."""
    connection = duckdb.connect()
    connection.execute("SET memory_limit = '2GB'")
    fill(connection, rows)
    engine, asked = connect(connection), policy()
    grouped = "SELECT patient, ward, month, sex, COUNT(*) AS n FROM visits GROUP BY patient, ward, month, sex"
    plain, checked = [], []
    for _ in range(times):
        plain.append(spent(lambda: connection.execute(f"CREATE OR REPLACE TEMP TABLE plain AS {grouped}")))
        connection.execute("DROP TABLE plain")
        checked.append(spent(lambda: check(asked, engine, limit=0)))
    base, own = min(plain), min(checked)
    ratio = own[0] / base[0]
    print(f"{rows:>12,} rows   GROUP BY {base[0]:.2f} s CPU ({base[1]:.2f} s)   ", end="")
    print(f"entity check {own[0]:.2f} s CPU ({own[1]:.2f} s)   ratio {ratio:.2f}   limit {LIMIT:g}")
    connection.close()
    return ratio


if __name__ == "__main__":
    sys.exit(run(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000_000) > LIMIT)

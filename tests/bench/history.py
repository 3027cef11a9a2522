"""What it costs to compare a release with all before it, as a ratio to the rest of the publish in the same run.

    python tests/bench/history.py [ROWS [RELEASES]]      (default 1,000,000 and 100; `make bench`)

Between two releases one row in 500 is replaced by a new person. Exits with 1 if the tenth release costs more than 1, or
the hundredth more than 2.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import sqlanon
import sqlanon.release.publish_release as release
from sqlanon.policy import parse

LIMITS = {10: 1.0, 100: 2.0}
POLICY = """
source: {table: people}
person: id
columns:
  id: identifier
  age: quasi_identifier
  zip: quasi_identifier
  sex: quasi_identifier
  job: quasi_identifier
  disease: sensitive
hierarchies:
  age: {intervals: {widths: [5, 10, 20]}}
  zip: {prefix: {length: 3}}
models: [{k_anonymity: {k: 5}}, {distinct_l_diversity: {l: 2}}]
suppression_limit: 0.05
release: {table: released}
history: {hold_back: 1}
"""
PERSON = """
    SELECT i AS id, 20 + d(i, 1) % 60 AS age, CAST(100 + d(i, 2) % 200 AS TEXT) AS zip,
        CASE d(i, 3) % 2 WHEN 0 THEN 'f' ELSE 'm' END AS sex, 'job ' || d(i, 4) % 8 AS job,
        'disease ' || d(i, 5) % 12 AS disease
"""
DRAW = "md5_number_lower(CAST(i AS TEXT) || '/' || CAST(seed AS TEXT)) % 1000003"
spent = 0.0


def timed(function: Callable[..., Any]) -> Callable[..., Any]:
    def run(*args: Any, **more: Any) -> Any:
        global spent
        start = time.perf_counter()
        try:
            return function(*args, **more)
        finally:
            spent += time.perf_counter() - start

    return run


def main() -> None:
    global spent
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    releases = int(sys.argv[2]) if len(sys.argv) > 2 else 100
    release.compare, release.remember = timed(release.compare), timed(release.remember)  # type: ignore[attr-defined]
    policy, holds = parse(POLICY), True
    with tempfile.TemporaryDirectory() as folder:
        engine = sqlanon.connect(str(Path(folder) / "bench.duckdb"), read_only=False)
        connection = engine._connection  # type: ignore[attr-defined]
        connection.execute(f"CREATE MACRO d(i, seed) AS CAST({DRAW} AS INTEGER)")
        connection.execute(f"CREATE TABLE people AS {PERSON} FROM range({rows}) AS r(i)")
        print(f"{rows:,} rows\n{'release':>8}{'publish':>10}{'compare':>10}{'ratio':>8}{'held back':>12}{'groups':>9}")
        for number in range(1, releases + 1):
            spent, start = 0.0, time.perf_counter()
            done = release.publish(policy, engine, secret="x" * 20, workload=False)
            rest = time.perf_counter() - start - spent
            if number in (1, 2, *LIMITS) or number % 10 == 0:
                held = done.document["history"]["held_back"]
                looked = done.document["history"]["models"][0]["compared"]
                print(f"{number:8}{rest:9.2f}s{spent:9.2f}s{spent / rest:8.2f}{held:12,}{looked:9,}", flush=True)
                holds = holds and spent / rest <= LIMITS.get(number, float("inf"))
            first = rows + (number - 1) * (rows // 500)
            connection.execute(f"DELETE FROM people WHERE d(id, {5 + number}) % 500 = 0")
            connection.execute(f"INSERT INTO people {PERSON} FROM range({first}, {first + rows // 500}) AS r(i)")
        engine.close()
    sys.exit(0 if holds else 1)


if __name__ == "__main__":
    main()

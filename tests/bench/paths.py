"""What a check of LKC-privacy (L = 2) costs, as a ratio to one plain GROUP BY of the pairs of doublets, in one run.

    python tests/bench/paths.py [JOURNEYS …]      (default 100,000; `make bench`)

A journey has 20 stays, at one of 50 places every hour; most stay where they were. Without a sensitive value
(km_anonymity) as many pairs are counted as in the plain statement; lkc_privacy joins the sensitive value too. CPU time
is measured, in one thread, under memory_limit=2GB.
"""

from __future__ import annotations

import json
import resource
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
from methods import best

import sqlanon
from sqlanon.engines import Engine
from sqlanon.evidence.checks import check

MODELS: dict[str, tuple[dict[str, Any], float]] = {
    "km_anonymity": ({"k": 5, "m": 2}, 2.0),
    "lkc_privacy": ({"l": 2, "k": 5, "c": 0.5, "guarded": ["HIV"]}, 2.0),
}
PAIRS = """
    SELECT count(*) FROM (
        SELECT a.hour, a.place, b.hour, b.place, count(*) AS n
        FROM stays AS a JOIN stays AS b ON b.person = a.person AND b.hour > a.hour
        GROUP BY ALL
    )
"""


def generate(connection: Any, journeys: int) -> None:
    connection.execute("SELECT setseed(0.5)")
    connection.execute(
        f"""
        CREATE TABLE stays AS
        SELECT
            person, hour,
            'place ' || CAST(floor(50 * power((hash(person, hour // run) % 100000) / 100000, 2)) AS INT) AS place,
            CASE WHEN hash(person) % 20 = 0 THEN 'HIV' ELSE 'flu' END AS disease
        FROM (SELECT i AS person, 1 + hash(i, 1) % 6 AS run FROM range({journeys}) AS t(i)), range(20) AS h(hour)
        """
    )


def policy(name: str, params: dict[str, Any]) -> sqlanon.Policy:
    roles = {"person": "identifier", "hour": "time", "place": {"role": "place"}, "disease": "sensitive"}
    written = {"source": {"table": "stays"}, "columns": roles, "person": "person", "shape": "sequence"}
    return sqlanon.parse(json.dumps(written | {"models": [{name: params}]}))


def plain_pairs(engine: Engine) -> None:
    engine._connection.execute(PAIRS).fetchall()  # type: ignore[attr-defined]


def run(journeys: int, times: int = 3) -> bool:
    """Print the ratios for this many journeys; True if all limits hold."""
    engine = sqlanon.connect(memory_limit="2GB")
    connection = engine._connection  # type: ignore[attr-defined]
    connection.execute("SET threads = 1")
    generate(connection, journeys)
    doublets = connection.execute("SELECT count(*) FROM (SELECT DISTINCT hour, place FROM stays)").fetchone()[0]
    print(f"\n{journeys:,} journeys of 20 stays, {doublets:,} doublets: ratio to one GROUP BY of the pairs that occur")
    print(f"{'model':20}{'ratio':>10}{'limit':>8}{'seconds':>10}{'broken':>10}")
    holds = True
    for name, (params, limit) in MODELS.items():
        asked = policy(name, params)
        (plain, _), (ours, _) = best(
            lambda: plain_pairs(engine), lambda asked=asked: check(asked, engine, limit=0), times=times
        )
        over = ours / plain > limit
        holds = holds and not over
        broken = check(asked, engine, limit=0).checks[0].broken_classes
        line = f"{name:20}{ours / plain:10.2f}{limit:8.1f}{ours:10.2f}{broken:10,}"
        print(f"{line}{'  OVER' if over else ''}", flush=True)
    engine.close()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2
    print(f"peak memory of the process: {peak:.2f} GB under memory_limit=2GB")
    return holds


def main() -> None:
    sizes = [int(text) for text in sys.argv[1:]] or [100_000]
    sys.exit(0 if all(map(run, sizes)) else 1)


if __name__ == "__main__":
    main()

"""What a Mondrian partition costs, as a ratio to one plain GROUP BY of the quasi-identifiers in the same run.

    python tests/bench/mondrian.py [ROWS …]      (default 1,000,000; 10,000,000 on demand)

The ratio is of all that a publisher waits for: compressing the rows, cutting them and naming the regions. Prints a
table and exits with 1 if a ratio is over its limit.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
from checks import best, plain_group_by
from data import QI, generate

import sqlanon
from sqlanon.algorithms import mondrian
from sqlanon.engines import Engine
from sqlanon.evidence.hierarchies import build_hierarchies
from sqlanon.lattice.pose_problem import problem
from sqlanon.lattice.solution import Solution
from sqlanon.relations.source import relation

LIMITS = {1_000_000: 20.0, 10_000_000: 6.0}
K = {"k_anonymity": {"k": 5}}
# For information: models that look at sensitive values carry these through every round.
MODELS: dict[str, list[dict[str, Any]]] = {
    "k=5": [K],
    "k=5, distinct l=3": [K, {"distinct_l_diversity": {"l": 3}}],
    "k=5, t=0.3": [K, {"t_closeness": {"t": 0.3}}],
}


def grouped(name: str, leaves: int, width: int) -> dict[str, Any]:
    groups: dict[str, list[str]] = {}
    for leaf in range(leaves):
        groups.setdefault(f"{name} group {leaf // width}", []).append(f"{name}-{leaf}")
    return {"tree": {"tree": {"*": groups}}}


HIERARCHIES: dict[str, Any] = {
    "sex": {"tree": {"tree": {"*": ["Male", "Female"]}}},
    "age": {"intervals": {"widths": [5, 10, 20]}},
    "race": {"tree": {"tree": {"*": ["White", "Black", "Asian-Pac-Islander", "Other", "Amer-Indian-Eskimo"]}}},
    "marital_status": grouped("marital", 7, 3),
    "education": grouped("education", 16, 4),
    "native_country": grouped("country", 41, 8),
    "workclass": grouped("workclass", 7, 3),
}


def policy(models: list[dict[str, Any]]) -> sqlanon.Policy:
    roles = dict.fromkeys(QI, "quasi_identifier")
    if len(models) > 1:
        roles["disease"] = "sensitive"
    written = {"source": {"table": "raw"}, "columns": roles, "hierarchies": HIERARCHIES, "models": models}
    return sqlanon.parse(json.dumps(written))


def partition(engine: Engine, asked: sqlanon.Policy) -> Solution:
    made = problem(asked, engine, build_hierarchies(asked), relation(asked.source, engine.dialect))
    try:
        return mondrian.run(made, mondrian.Params())
    finally:
        made.close()


def run(rows: int, times: int = 3) -> bool:
    """Print the ratios for this many rows; True if the limit for k-anonymity holds."""
    engine = sqlanon.connect()
    generate(engine._connection, rows)  # type: ignore[attr-defined]
    print(f"\n{rows:,} rows: ratio to one plain GROUP BY of {len(QI)} quasi-identifiers")
    print(f"{'models':28}{'ratio':>10}{'limit':>8}{'ncp':>10}{'rounds':>8}{'cpu s':>8}")
    holds = True
    for name, models in MODELS.items():
        found: list[Solution] = []
        asked = policy(models)
        start = time.process_time()
        plain, ours = best(
            lambda: plain_group_by(engine, "raw"),
            lambda asked=asked, found=found: found.append(partition(engine, asked)),  # type: ignore[misc]
            times=times,
        )
        limit = LIMITS.get(rows) if models == [K] else None
        over = limit is not None and ours / plain > limit
        holds = holds and not over
        shown = f"{limit:8.1f}" if limit else " " * 8
        spent = (time.process_time() - start) / times
        print(
            f"{name:28}{ours / plain:10.2f}{shown}{found[-1].loss:10.4f}{found[-1].checks:8d}{spent:8.1f}"
            f"{'  OVER' if over else ''}",
            flush=True,
        )
    engine.close()
    return holds


def main() -> None:
    sizes = [int(text) for text in sys.argv[1:]] or [1_000_000]
    holds = [run(rows) for rows in sizes]
    sys.exit(0 if all(holds) else 1)


if __name__ == "__main__":
    main()

"""What regions lose on Adult, k = 5, eight quasi-identifiers, beside other ways to get there.

    python tests/bench/least_loss.py [ADULT_FOLDER]      (default ../shared/data/adult)

Prints the normalized certainty penalty and exits with 1 if a goal that is reached is missed again.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import sqlanon
from sqlanon.algorithms import mondrian, top_down_recoding
from sqlanon.evidence.hierarchies import build_hierarchies
from sqlanon.lattice.pose_problem import problem
from sqlanon.relations.source import relation

NAMES = ["sex", "age", "race", "marital-status", "education", "native-country", "workclass", "occupation"]
ARX_LOCAL_RECODING = 0.186
# (name, algorithm, parameters, goal): goals without a limit are shown for comparison.
WAYS: list[tuple[str, Any, dict[str, Any], float | None]] = [
    ("mondrian, ranges", mondrian, {}, 0.033),
    ("mondrian, ranges, cut: median", mondrian, {"cut": "median"}, None),
    ("mondrian, nodes", mondrian, {"ranges": False}, None),
    ("top_down_recoding, goal 0.055", top_down_recoding, {}, None),
]


def measure(folder: Path) -> bool:
    """Print the table; True if every goal is met."""
    engine = sqlanon.connect()
    read = f"read_csv('{folder}/adult.csv', delim=';', header=true, all_varchar=true)"
    engine._connection.execute(f"CREATE TABLE adult AS FROM {read}")  # type: ignore[attr-defined]
    written = {
        "source": {"table": "adult"},
        "columns": dict.fromkeys(NAMES, "quasi_identifier"),
        "hierarchies": {name: {"csv": {"path": f"{folder}/adult_hierarchy_{name}.csv"}} for name in NAMES},
        "models": [{"k_anonymity": {"k": 5}}],
    }
    policy = sqlanon.parse(json.dumps(written))
    print(f"{'':32}{'ncp':>8}{'goal':>8}{'cpu s':>8}")
    print(f"{'ARX, local recoding':32}{ARX_LOCAL_RECODING:8.4f}")
    holds = True
    for name, algorithm, params, goal in WAYS:
        start = time.process_time()
        made = problem(policy, engine, build_hierarchies(policy), relation(policy.source, engine.dialect))
        try:
            found = algorithm.run(made, algorithm.Params(**params))
        finally:
            made.close()
        missed = goal is not None and found.loss > goal
        holds = holds and not missed
        shown = f"{goal:8.3f}" if goal else " " * 8
        spent = time.process_time() - start
        print(f"{name:32}{found.loss:8.4f}{shown}{spent:8.1f}{'  MISSED' if missed else ''}", flush=True)
    engine.close()
    return holds


def main() -> None:
    default = Path(__file__).parents[3] / "shared" / "data" / "adult"
    sys.exit(0 if measure(Path(sys.argv[1]) if len(sys.argv) > 1 else default) else 1)


if __name__ == "__main__":
    main()

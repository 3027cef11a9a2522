"""What each check costs, as a ratio to one plain GROUP BY of the quasi-identifiers in the same run.

    python tests/bench/checks.py [ROWS …]      (default 1,000,000 and 10,000,000; `make bench`)

Prints a table and exits with 1 if a ratio on the table `released` is over its limit. `raw` has half a million classes
in a million rows, most of them of one record: the worst case, shown for information.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
from data import QI, generate

import sqlanon
from sqlanon.engines import Engine

TREE = {"*": {f"group {g}": [f"disease-{i}" for i in range(14) if i % 3 == g] for g in range(3)}}
# model: (parameters, largest ratio)
MODELS: dict[str, tuple[dict[str, Any], float]] = {
    "k_anonymity": ({"k": 5}, 1.2),
    "distinct_l_diversity": ({"l": 2, "attribute": "disease"}, 2.0),
    "entropy_l_diversity": ({"l": 2, "attribute": "disease"}, 2.0),
    "recursive_cl_diversity": ({"c": 3, "l": 2, "attribute": "disease"}, 2.0),
    "alpha_k_anonymity": ({"alpha": 0.5, "k": 5, "attribute": "disease"}, 2.0),
    "basic_beta_likeness": ({"beta": 1, "attribute": "disease"}, 2.0),
    "t_closeness": ({"t": 0.2, "attribute": "disease"}, 2.5),
    "hierarchical_t_closeness": ({"t": 0.2, "attribute": "disease"}, 2.5),
    "ordered_t_closeness": ({"t": 0.2, "attribute": "visits"}, 2.0),
}
# The nine properties that pyCANON computes.
NINE = [
    {"k_anonymity": {"k": 5}},
    {"alpha_k_anonymity": {"alpha": 0.5, "k": 5}},
    {"distinct_l_diversity": {"l": 2}},
    {"entropy_l_diversity": {"l": 2}},
    {"recursive_cl_diversity": {"c": 3, "l": 2}},
    {"basic_beta_likeness": {"beta": 1}},
    {"enhanced_beta_likeness": {"beta": 1}},
    {"delta_disclosure": {"delta": 1}},
    {"t_closeness": {"t": 0.2}},
]
CPU_SECONDS_FOR_NINE = 3.0


def policy(table: str, models: list[dict[str, Any]]) -> sqlanon.Policy:
    roles = dict.fromkeys(QI, "quasi_identifier") | {"disease": "sensitive"}
    attributes = {params.get("attribute") for use in models for params in use.values()}
    if "visits" in attributes:
        roles["visits"] = "sensitive"
    written: dict[str, Any] = {"source": {"table": table}, "columns": roles, "models": models}
    if any("hierarchical_t_closeness" in use for use in models):
        written["hierarchies"] = {"disease": {"tree": {"tree": TREE}}}
    return sqlanon.parse(json.dumps(written))


def best(*actions: Callable[[], object], times: int = 3) -> list[float]:
    """The shortest time of each action, taken in turns, so that a busy moment meets all of them alike."""
    found = [float("inf")] * len(actions)
    for _ in range(times):
        for place, action in enumerate(actions):
            start = time.perf_counter()
            action()
            found[place] = min(found[place], time.perf_counter() - start)
    return found


def plain_group_by(engine: Engine, table: str) -> None:
    columns = ", ".join(QI)
    engine._connection.execute(  # type: ignore[attr-defined]
        f"SELECT COUNT(*), MIN(n) FROM (SELECT {columns}, COUNT(*) AS n FROM {table} GROUP BY {columns})"
    ).fetchall()


def ratios(engine: Engine, table: str, times: int = 3) -> dict[str, float]:
    found = {}
    for name, (params, _) in MODELS.items():
        asked = policy(table, [{name: params}])
        plain, ours = best(
            lambda: plain_group_by(engine, table), lambda asked=asked: sqlanon.check(asked, engine), times=times
        )
        found[name] = ours / plain
    return found


def cpu_of_nine(engine: Engine, table: str) -> float:
    start = time.process_time()
    sqlanon.check(policy(table, NINE), engine)
    return time.process_time() - start


def peak_memory() -> int:
    """The most memory that this process had, in MB; getrusage would tell that of the process that began it, too."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) // 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def memory_run(rows: int, folder: Path) -> None:
    """All models at once with memory_limit=1GB on a database file: it spills, it does not die. Prints peak memory."""
    database = folder / "bench.duckdb"
    engine = sqlanon.connect(str(database), read_only=False)
    generate(engine._connection, rows)  # type: ignore[attr-defined]
    engine.close()
    code = (
        f"import sys; sys.path[:0] = [{str(Path(__file__).parent)!r}]\n"
        "import checks, sqlanon\n"
        f"engine = sqlanon.connect({str(database)!r}, memory_limit='1GB')\n"
        "models = [{name: params} for name, (params, _) in checks.MODELS.items()]\n"
        "for table in ('released', 'raw'):\n"
        "    sqlanon.check(checks.policy(table, models), engine)\n"
        "    print(table, checks.peak_memory(), flush=True)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    print(f"\nall models at once with memory_limit=1GB, {rows:,} rows: peak memory so far in MB")
    print(done.stdout.strip() or done.stderr.strip().splitlines()[-1])
    if done.returncode:
        raise SystemExit("the memory run failed")


def run(rows: int, times: int = 3, *, raw: bool = True) -> bool:
    """Print the ratios for this many rows; True if all limits hold."""
    engine = sqlanon.connect()
    generate(engine._connection, rows)  # type: ignore[attr-defined]
    found = {"released": ratios(engine, "released", times)}
    if raw:
        found["raw"] = ratios(engine, "raw", min(times, 5))
    cpu = cpu_of_nine(engine, "released")
    engine.close()
    print(f"\n{rows:,} rows: ratio to one plain GROUP BY of {len(QI)} quasi-identifiers")
    print(f"{'model':28}{'released':>10}{'limit':>8}" + (f"{'raw':>10}" if raw else ""))
    holds = True
    for name, (_, limit) in MODELS.items():
        over = found["released"][name] > limit
        holds = holds and not over
        more = f"{found['raw'][name]:10.2f}" if raw else ""
        print(f"{name:28}{found['released'][name]:10.2f}{limit:8.1f}{more}{'  OVER' if over else ''}")
    print(f"nine properties in one check of released: {cpu:.2f} s of CPU", end="")
    print(f" (limit {CPU_SECONDS_FOR_NINE} at 1,000,000 rows)" if rows == 1_000_000 else "")
    return holds and (rows != 1_000_000 or cpu <= CPU_SECONDS_FOR_NINE)


def main() -> None:
    import tempfile

    sizes = [int(text) for text in sys.argv[1:]] or [1_000_000, 10_000_000]
    # A million rows take a tenth of a second: the shortest of many is the one that nothing else disturbed.
    holds = [run(rows, times=60 if rows <= 1_000_000 else 3) for rows in sizes]
    with tempfile.TemporaryDirectory() as folder:
        memory_run(max(sizes), Path(folder))
    print(f"peak memory of the benchmark itself: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024} MB")
    sys.exit(0 if all(holds) else 1)


if __name__ == "__main__":
    main()

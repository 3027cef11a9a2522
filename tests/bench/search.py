"""What publishing costs: the exact search and the rewrite, as ratios to one plain GROUP BY in the same run.

    python tests/bench/search.py [ROWS …]      (default 1,000,000; 10,000,000 on demand; `make bench`)

k = 5, at most 5 % suppressed, least ncp. Small tables are measured in CPU time, on 30,162 rows with the hierarchies of
Adult where its files lie beside the checkout, else on as many generated rows. Exits with 1 if a limit is broken.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
from checks import plain_group_by
from data import QI, generate
from mondrian import HIERARCHIES

import sqlanon
from sqlanon.engines import Engine
from sqlanon.release.rewrite_release import plan_rewriting
from sqlanon.release.solve_policy import prepare_problem, solve_problem
from sqlanon.release.targets.relation_target import create

ADULT = Path(__file__).parents[3] / "shared" / "data" / "adult"
NAMES = ["sex", "age", "race", "marital-status", "education", "native-country", "workclass", "occupation"]
SEARCH = {1_000_000: 6.0, 10_000_000: 3.0}
REWRITE = 4.0
SMALL = {0.05: 60.0, 1.0: 60.0, 0.0: 30.0}  # suppression limit: largest ratio of CPU time
ARX_COLD = 5.0  # seconds that ARX takes from a cold start for the same task; a third of it is the limit
MEMORY = 2560  # MB, with memory_limit=2GB at 10,000,000 rows


def policy(table: str, limit: float = 0.05, **more: Any) -> sqlanon.Policy:
    roles = dict.fromkeys(QI, "quasi_identifier") | {"disease": "sensitive", "visits": "insensitive"}
    written = {
        "source": {"table": table},
        "columns": roles,
        "hierarchies": HIERARCHIES,
        "models": [{"k_anonymity": {"k": 5}}],
        "algorithm": "full_domain",
        "suppression_limit": limit,
        "release": {"table": "released_now"},
    }
    return sqlanon.parse(json.dumps(written | more))


def large(rows: int, times: int = 2) -> bool:
    """The ratios of search and rewrite; True if both limits hold."""
    engine = sqlanon.connect()
    generate(engine._connection, rows)  # type: ignore[attr-defined]
    plain = search = rewrite = float("inf")
    for _ in range(times):
        start = time.perf_counter()
        plain_group_by(engine, "raw")
        plain = min(plain, time.perf_counter() - start)
        start = time.perf_counter()
        task = prepare_problem(policy("raw"), engine)
        solution, _plan = solve_problem(task)
        search = min(search, time.perf_counter() - start)
        engine._connection.execute("DROP TABLE IF EXISTS released_now")  # type: ignore[attr-defined]
        start = time.perf_counter()
        create(engine, "released_now", plan_rewriting(task, solution, None).select)
        rewrite = min(rewrite, time.perf_counter() - start)
        task.close()
    engine.close()
    limit = SEARCH.get(rows, float("inf"))
    print(f"\n{rows:,} rows: ratio to one plain GROUP BY of {len(QI)} quasi-identifiers ({plain:.3f} s)")
    print(f"search, end to end {search / plain:10.2f}  limit {limit}   ({solution.checks} nodes measured)")
    print(f"rewrite            {rewrite / plain:10.2f}  limit {REWRITE}", flush=True)
    return search / plain <= limit and (rows < 1_000_000 or rewrite / plain <= REWRITE)


def small_table(engine: Engine) -> tuple[str, list[str], Any]:
    """The name, the quasi-identifiers and a policy for a suppression limit."""
    if not ADULT.is_dir():
        generate(engine._connection, 30_162)  # type: ignore[attr-defined]
        return "raw", QI, lambda limit: policy("raw", limit)
    engine._connection.execute(  # type: ignore[attr-defined]
        f"CREATE TABLE adult AS FROM read_csv('{ADULT / 'adult.csv'}', delim=';', all_varchar=true)"
    )

    def asked(limit: float) -> sqlanon.Policy:
        files = {name: {"csv": {"path": str(ADULT / f"adult_hierarchy_{name}.csv")}} for name in NAMES}
        roles = dict.fromkeys(NAMES, "quasi_identifier") | {"salary-class": "insensitive"}
        written = {
            "source": {"table": "adult"},
            "columns": roles,
            "hierarchies": files,
            "models": [{"k_anonymity": {"k": 5}}],
            "algorithm": "full_domain",
            "suppression_limit": limit,
        }
        return sqlanon.parse(json.dumps(written))

    return "adult", NAMES, asked


def small(times: int = 9) -> bool:
    """CPU time of a search on 30,162 rows, for three suppression limits."""
    engine = sqlanon.connect()
    table, names, asked = small_table(engine)
    columns = ", ".join(f'"{name}"' for name in names)
    count = f"SELECT COUNT(*), MIN(n) FROM (SELECT {columns}, COUNT(*) AS n FROM {table} GROUP BY {columns})"
    print(f"\n{table}, 30,162 rows, {len(names)} quasi-identifiers: ratio of CPU time to one plain GROUP BY")
    holds = True
    for limit, most in SMALL.items():
        plain = ours = float("inf")
        for _ in range(times):
            start = time.process_time()
            engine._connection.execute(count).fetchall()  # type: ignore[attr-defined]
            plain = min(plain, time.process_time() - start)
            start = time.process_time()
            task = prepare_problem(asked(limit), engine)
            solution, _ = solve_problem(task)
            task.close()
            ours = min(ours, time.process_time() - start)
        ratio = ours / plain
        holds = holds and ratio <= most
        print(
            f"suppression {limit:4.0%}: {ratio:6.1f}  limit {most}  ({ours:.3f} s of {plain:.4f} s, "
            f"{solution.checks} nodes, ncp {solution.loss:.6f})"
        )
    engine.close()
    return holds


def cold(times: int = 8) -> bool:
    """The whole command from a cold start, on the small table."""
    with tempfile.TemporaryDirectory() as folder:
        database = Path(folder) / "data.duckdb"
        engine = sqlanon.connect(str(database), read_only=False)
        _, _, asked = small_table(engine)
        engine.close()
        from sqlanon.release.evidence_document import serialize_policy

        text = json.loads(serialize_policy(asked(0.05)))
        text["source"]["database"] = str(database)
        text["release"] = {"table": "released_now"}
        (Path(folder) / "policy.yml").write_text(json.dumps(text))
        code = "from sqlanon.__main__ import run; run()"  # as the script `sqlanon` does
        # As an installed package starts: from bytecode, which the first run writes.
        start_as = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        start_as["PYTHONPYCACHEPREFIX"] = str(Path(folder) / "bytecode")
        best = float("inf")
        for _ in range(times + 1):
            start = time.perf_counter()
            command = [sys.executable, "-c", code, "publish", "--no-workload", str(Path(folder) / "policy.yml")]
            subprocess.run(command, check=True, capture_output=True, env=start_as)
            best = min(best, time.perf_counter() - start)
    print(f"the whole command (publish --no-workload) from a cold start: {best:.2f} s, limit {ARX_COLD / 3:.2f} s")
    return best <= ARX_COLD / 3


def memory(rows: int) -> bool:
    """Peak memory of a process that publishes with memory_limit=2GB."""
    with tempfile.TemporaryDirectory() as folder:
        database = Path(folder) / "data.duckdb"
        engine = sqlanon.connect(str(database), read_only=False)
        generate(engine._connection, rows)  # type: ignore[attr-defined]
        engine.close()
        code = (
            f"import sys; sys.path[:0] = [{str(Path(__file__).parent)!r}]\n"
            "import checks, search, sqlanon\n"
            "from sqlanon.release import publish\n"
            f"engine = sqlanon.connect({str(database)!r}, read_only=False, memory_limit='2GB')\n"
            "publish(search.policy('raw'), engine)\n"
            "print(checks.peak_memory())\n"
        )
        start = time.perf_counter()
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        took = time.perf_counter() - start
    if done.returncode:
        print(done.stderr.strip().splitlines()[-1])
        return False
    peak = int(done.stdout.split()[-1])
    print(f"publish of {rows:,} rows with memory_limit=2GB: {took:.1f} s, peak {peak} MB, limit {MEMORY} MB")
    return peak <= MEMORY


def main() -> None:
    sizes = [int(text) for text in sys.argv[1:]] or [1_000_000]
    holds = [small(), cold(), *(large(rows) for rows in sizes), memory(max(sizes))]
    sys.exit(0 if all(holds) else 1)


if __name__ == "__main__":
    main()

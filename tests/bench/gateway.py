"""What the gateway's answers are worth and what they cost, on the workload that other systems were measured on.

    python tests/bench/gateway.py [ROWS …]      (default 100,000 and 10,000,000; `make bench`)

Errors are medians over fresh noise, beside those that SmartNoise SQL was measured to have with the same data, bounds
and guarantee; a limit is over where that is no chance, beyond two standard errors of such a median. Times are the
shortest of several, taken in turns, end to end: parsing, the ledger on the disk, noise and post-processing. Each query
is compared with one plain GROUP BY of person and keys; where the unit is a key of the table, with the plain query
itself. Prints tables and exits with 1 if a limit does not hold.
"""

from __future__ import annotations

import math
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
from checks import peak_memory

from sqlanon.gateway import Gate, open_gateway
from sqlanon.ledger import Ledger
from sqlanon.mechanisms import Cost
from sqlanon.policy.files import parse_gateway

__all__ = ["peak_memory"]  # for the child of `memory_run`

RUNS = 200
ROWS_A_PERSON, GROUPS_A_PERSON = 20, 6
BOUNDS = {"age": (18, 95), "income": (0, 200_000), "visits": (0, 50)}
OVERHEAD = 0.020  # seconds that an answer may take beside its data: nobody waits for less


@dataclass(frozen=True)
class Query:
    """A query of the workload, with what SmartNoise made of it.

    `theirs` is its median error in percent (20 runs, PostgreSQL). `columns` are the largest values that its noisy
    columns add up, the first one being what the answer hangs on; see `their_scale`.
    """

    sql: str
    theirs: float | None = None
    limit: float = 0.0  # times its error
    columns: tuple[float, ...] = ()

    @property
    def keys(self) -> str:
        return "user_id, region" if "GROUP BY" in self.sql else "user_id"

    @property
    def where(self) -> str:
        return "WHERE" + self.sql.split("WHERE")[1] if "WHERE" in self.sql else ""


AGE, INCOME, VISITS = (float(high) for _, high in BOUNDS.values())
QUERIES = {
    "count": Query("SELECT COUNT(*) AS v FROM visits", 0.015, 1.5, (1.0,)),
    "sum": Query("SELECT SUM(visits) AS v FROM visits", 0.11, 1.5, (VISITS,)),
    "avg": Query("SELECT AVG(income) AS v FROM visits", 0.16, 1.5, (INCOME, 1.0)),
    "group count": Query("SELECT region, COUNT(*) AS v FROM visits GROUP BY region", 0.29, 1.5, (1.0, 1.0)),
    "group avg": Query("SELECT region, AVG(age) AS v FROM visits GROUP BY region", 1.2, 0.5, (AGE, 1.0, 1.0)),
    "distinct": Query("SELECT COUNT(DISTINCT user_id) AS v FROM visits", 0.05, 0.5, (1.0,)),
    "variance": Query("SELECT VARIANCE(age) AS v FROM visits", 2.8, 0.5, (AGE**2, AGE, 1.0)),
    "filtered": Query("SELECT COUNT(*) AS v FROM visits WHERE age >= 30 AND age < 40", 0.06, 1.5, (1.0,)),
    "sum float": Query("SELECT SUM(income) AS v FROM visits", 0.09, 1.5, (INCOME,)),
    "median": Query("SELECT MEDIAN(age) AS v FROM visits"),
}
POLICY = """
gateway:
  database: visits.duckdb
  unit: {{table: persons, key: user_id}}
  tables:
    persons: {{columns: {{{bounds}}}}}
    visits: {{unit: user_id, columns: {{{bounds}}}}}
  rows: {rows}
  groups: {groups}
  answer_time: 0
  timeout: 3600
  budget:
    statement: {{epsilon: 1, delta: 1e-6}}
    principal: {{epsilon: 1, delta: 1e-6}}
"""


def their_scale(columns: tuple[float, ...], epsilon: float = 1.0) -> float:
    """The scale of SmartNoise's noise on the first of these columns, at epsilon for all of them together.

    Its PrivateReader rewrites a query into noisy columns and gives the `epsilon` of its caller to each of them, so that
    a query costs as many times that (snsql/sql/private_reader.py, `_get_mechanisms` and the odometer): for the same
    guarantee a column gets its share. AVG is SUM and COUNT, VARIANCE is SUM of squares, SUM and COUNT, and private keys
    need one more column, the count of persons that is compared with a threshold. Every column, also that of persons,
    has the scale max_contrib * sensitivity / epsilon (snsql/sql/_mechanisms), where max_contrib is the most rows of
    a person (the same K as here, sampled over all groups together) and the sensitivity of a sum is the largest absolute
    value of what is summed up: nothing is centred.
    """
    return ROWS_A_PERSON * columns[0] * len(columns) / epsilon


def visits(rows: int, persons: int, seed: int = 42) -> dict[str, np.ndarray[Any, Any]]:
    """Rows of persons: geometric, 1 to 20 a person, 85 % of them in the person's own region; regions by Zipf."""
    random = np.random.default_rng(seed)
    extra = rows - persons
    wanted = np.minimum(random.geometric(persons / rows, persons) - 1, ROWS_A_PERSON - 1)
    while (missing := int(extra - wanted.sum())) != 0:
        some = random.choice(persons, min(abs(missing), persons), replace=False)
        wanted[some] = np.clip(wanted[some] + np.sign(missing), 0, ROWS_A_PERSON - 1)
    who = np.repeat(np.arange(persons), wanted + 1)
    ages = np.clip(random.normal(45, 16, persons).round(), *BOUNDS["age"]).astype(np.int32)
    sizes = 1 / np.arange(1, 11) ** 0.9
    sizes /= sizes.sum()
    homes = random.choice(10, persons, p=sizes)
    incomes = random.lognormal(10.4, 0.55, persons)
    regions = np.where(random.random(rows) >= 0.85, random.choice(10, rows, p=sizes), homes[who])
    income = np.clip(incomes[who] * random.normal(1, 0.08, rows), *BOUNDS["income"]).round(2)
    busy = (random.random(rows) < 0.03) * random.integers(5, 40, rows)
    seen = np.clip(random.poisson(4, rows) + busy, *BOUNDS["visits"])
    order = random.permutation(rows)
    columns = {"user_id": who + 1, "age": ages[who], "region": regions, "income": income, "visits": seen}
    return {name: column[order] for name, column in columns.items()}


def database(folder: Path, rows: int) -> None:
    """The table `visits`, and `persons` with one row of each person, whose key it is."""
    columns = visits(rows, rows // 5)
    with duckdb.connect(str(folder / "visits.duckdb")) as connection:
        connection.register("columns", columns)
        connection.execute(
            "CREATE TABLE visits AS SELECT CAST(user_id AS INTEGER) AS user_id, CAST(age AS INTEGER) AS age, "
            "'R' || region AS region, income, CAST(visits AS INTEGER) AS visits FROM columns"
        )
        connection.execute("CREATE TABLE persons (user_id INTEGER PRIMARY KEY, age INTEGER, region VARCHAR, "
                           "income DOUBLE, visits INTEGER)")  # fmt: skip
        connection.execute(
            "INSERT INTO persons SELECT user_id, MAX(age), MIN(region), MAX(income), MAX(visits) FROM visits GROUP BY 1"
        )


def gate_of(folder: Path) -> Gate:
    """A gateway with a new ledger, and a grant that lasts for the benchmark."""
    bounds = ", ".join(f"{name}: {{low: {low}, high: {high}}}" for name, (low, high) in BOUNDS.items())
    text = POLICY.format(bounds=bounds, rows=ROWS_A_PERSON, groups=GROUPS_A_PERSON)
    policy = parse_gateway(text, base=folder)
    with Ledger.create(policy.located_ledger) as ledger:
        ledger.grant("analyst", Cost(epsilon=1e6, delta=0.5), by="benchmark", reason="many runs")
    return open_gateway(policy)


def plainly(gate: Gate, sql: str) -> list[tuple[Any, ...]]:
    """As SQL, on the connection of the gateway."""
    found: list[tuple[Any, ...]] = gate.engine._connection.execute(sql).fetchall()  # type: ignore[attr-defined]
    return found


def anew(gate: Gate, sql: str) -> list[tuple[Any, ...]]:
    """Answered with fresh noise, at its full cost."""
    gate.ledger.forget()
    return list(gate.answer(sql).rows)


# ---- errors


def errors(gate: Gate, runs: int) -> dict[str, float]:
    """The median relative error of each query, over its cells and runs, in percent."""
    found = {}
    for name, query in QUERIES.items():
        truth = {row[:-1]: float(row[-1]) for row in plainly(gate, query.sql)}
        seen: list[float] = []
        for _ in range(runs):
            seen += [100 * abs(float(row[-1]) - truth[row[:-1]]) / truth[row[:-1]] for row in anew(gate, query.sql)]
        found[name] = statistics.median(seen)
    return found


def scale(gate: Gate, query: Query) -> tuple[str, float]:
    """The integer that an answer hangs on, and the scale of its noise in the unit of the column."""
    (part,) = gate.prepare(query.sql, "analyst").parts
    atoms = [pair for pair in zip(part.core.atoms, part.noise.atoms, strict=True) if pair[1] is not None]
    atom, mechanism = max(atoms, key=lambda pair: pair[0].weight)
    assert mechanism is not None
    return atom.label, mechanism.scale * atom.quantum


def show_errors(gate: Gate, runs: int) -> bool:
    print(f"\nmedian relative error of {runs} runs in percent, epsilon 1 a query, delta 1e-6")
    print(f"{'query':14}{'error':>10}{'SmartNoise':>12}{'ratio':>8}{'limit':>8}")
    holds = True
    # The absolute value of Laplace noise of scale b has the median b ln 2, whose standard error is b / sqrt(runs).
    chance = 1 + 2 / (math.log(2) * math.sqrt(runs))
    for name, error in errors(gate, runs).items():
        query = QUERIES[name]
        if query.theirs is None:
            print(f"{name:14}{error:10.4f}")
            continue
        ratio = error / query.theirs
        over = ratio > query.limit * chance
        holds = holds and not over
        print(f"{name:14}{error:10.4f}{query.theirs:12.3f}{ratio:8.2f}{query.limit:8.1f}{'  OVER' if over else ''}")
    print("\nscale of the noise on what the answer hangs on, at the same guarantee")
    print(f"{'query':14}{'':24}{'scale':>12}{'SmartNoise':>12}{'ratio':>8}{'limit':>8}")
    for name, query in QUERIES.items():
        if not query.columns:
            continue
        label, ours = scale(gate, query)
        theirs = their_scale(query.columns)
        over = ours > theirs * (1 + 1e-6)
        holds = holds and not over
        print(f"{name:14}{label:24}{ours:12,.0f}{theirs:12,.0f}{ours / theirs:8.2f}{1:8.1f}{'  OVER' if over else ''}")
    return holds


# ---- times


@dataclass(frozen=True)
class Spent:
    """Seconds by the clock on the wall, and of all processors."""

    wall: float
    cpu: float


def turns(*actions: Callable[[], object], before: Callable[[], object], times: int) -> list[Spent]:
    """The shortest time of each action by either clock, taken in turns: a busy moment meets all of them alike."""
    found: list[list[Spent]] = [[] for _ in actions]
    for _ in range(times):
        for action, spent in zip(actions, found, strict=True):
            before()
            wall, cpu = time.perf_counter(), time.process_time()
            action()
            spent.append(Spent(time.perf_counter() - wall, time.process_time() - cpu))
    return [Spent(min(each.wall for each in spent), min(each.cpu for each in spent)) for spent in found]


def show_times(gate: Gate, rows: int, times: int) -> bool:
    """True if all limits hold, by one of the two clocks: that on the wall also tells of other processes."""
    print(
        f"\n{rows:,} rows: ratio to one plain GROUP BY of person and keys; 'key': to the plain query on a table whose"
    )
    print(f"key is the unit. Both less {1000 * OVERHEAD:.0f} ms, but for the first one above a million rows")
    print(
        f"{'query':14}{'ms':>9}{'plain ms':>10}{'wall':>8}{'cpu':>8}{'limit':>8}{'key: wall':>12}{'cpu':>8}{'limit':>8}"
    )
    holds = True
    grouped, free = (3.0, OVERHEAD) if rows <= 1_000_000 else (4.0, 0.0)
    for name, query in QUERIES.items():
        plain = f"SELECT {query.keys}, COUNT(*) AS n FROM visits {query.where} GROUP BY {query.keys}"
        counted = f"SELECT COUNT(*), MAX(n) FROM ({plain})"  # it is computed, and not carried into Python
        keyed = query.sql.replace("FROM visits", "FROM persons")
        base, ours, direct, own = turns(
            lambda counted=counted: plainly(gate, counted),
            lambda query=query: gate.answer(query.sql),
            lambda keyed=keyed: plainly(gate, keyed),
            lambda keyed=keyed: gate.answer(keyed),
            before=gate.ledger.forget,
            times=times,
        )
        first = [max(0.0, mine - free) / other for mine, other in ((ours.wall, base.wall), (ours.cpu, base.cpu))]
        pairs = ((own.wall, direct.wall), (own.cpu, direct.cpu))
        second = [max(0.0, mine - OVERHEAD) / other for mine, other in pairs]
        over = min(first) > grouped or min(second) > 1.5
        holds = holds and not over
        print(
            f"{name:14}{1000 * ours.wall:9.1f}{1000 * base.wall:10.1f}{first[0]:8.2f}{first[1]:8.2f}{grouped:8.1f}"
            f"{second[0]:12.2f}{second[1]:8.2f}{1.5:8.1f}{'  OVER' if over else ''}",
            flush=True,
        )
    return holds


def memory_run(folder: Path, rows: int) -> None:
    """Every query with memory_limit=2GB: it spills, it does not die. Prints peak memory."""
    code = (
        f"import sys; sys.path[:0] = [{str(Path(__file__).parent)!r}]\n"
        "import gateway; from pathlib import Path\n"
        f"gate = gateway.gate_of(Path({str(folder)!r}))\n"
        "gateway.plainly(gate, \"SET memory_limit = '2GB'\")\n"
        "for query in gateway.QUERIES.values():\n"
        "    gateway.anew(gate, query.sql)\n"
        "print(gateway.peak_memory())\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    print(f"\nall queries with memory_limit=2GB, {rows:,} rows: peak memory in MB")
    print(done.stdout.strip() or done.stderr.strip().splitlines()[-1])
    if done.returncode:
        raise SystemExit("the memory run failed")


def run(rows: int, runs: int = RUNS, times: int = 15, *, memory: bool = False) -> bool:
    """Print all for this many rows; True if all limits hold. Errors are compared on the table that peers were given."""
    holds = True
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        database(folder, rows)
        gate = gate_of(folder)
        if runs:
            holds = show_errors(gate, runs)
        holds = show_times(gate, rows, times) and holds
        gate.close()
        if memory:
            for left in folder.glob("*.ledger*"):
                left.unlink()
            memory_run(folder, rows)
    return holds


def main() -> None:
    sizes = [int(text) for text in sys.argv[1:]] or [100_000, 10_000_000]
    holds = []
    for rows in sizes:
        large = rows > 1_000_000
        holds.append(run(rows, runs=0 if large else RUNS, times=5 if large else 25, memory=large))
    sys.exit(0 if all(holds) else 1)


if __name__ == "__main__":
    main()

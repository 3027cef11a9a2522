"""What risks cost, as a ratio to one plain GROUP BY of the quasi-identifiers in the same run.

    python tests/bench/risk.py [ROWS …]      (default 1,000,000 and 10,000,000; `make bench`)

Prints a table and exits with 1 if a ratio on the table `released` is over its limit. `raw` has half a million classes
in a million rows, most of them of one record: the worst case, shown for information. Special uniques are shown on nine
columns of the Adult data where that file is at hand, and on 30,000 rows that are made here, which differ more.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
from checks import best, plain_group_by
from data import QI, generate

import sqlanon
from sqlanon.engines import Engine

LIMIT = 5.0
SPECIAL_ROWS = 30_000
ADULT = Path(__file__).parents[3] / "shared" / "data" / "adult" / "adult.csv"
ASKED: dict[str, tuple[list[str], dict[str, Any]]] = {
    "classes and population": ([], {"sampling_fraction": 0.1}),
    "with a sensitive column": (["disease"], {"sampling_fraction": 0.1}),
    "with sampling weights": ([], {"weight": "weight"}),
}


def policy(table: str, sensitive: list[str], more: list[str] | None = None) -> sqlanon.Policy:
    return sqlanon.from_options(table, qi=[*QI, *(more or [])], sensitive=sensitive, models=[("k_anonymity", {"k": 2})])


def ratio(engine: Engine, table: str, name: str, times: int) -> float:
    sensitive, asked = ASKED[name]
    plain, ours = best(
        lambda: plain_group_by(engine, table),
        lambda: sqlanon.risk(policy(table, sensitive), engine, **asked),
        times=times,
    )
    return ours / plain


def run(rows: int, times: int = 3, *, raw: bool = True) -> bool:
    """Print the ratios for this many rows; True if all limits hold."""
    engine = sqlanon.connect()
    connection = engine._connection  # type: ignore[attr-defined]
    generate(connection, rows)
    for table in ("raw", "released"):
        connection.execute(f"ALTER TABLE {table} ADD COLUMN weight DOUBLE DEFAULT 10")
    print(f"\n{rows:,} rows: risks, ratio to one plain GROUP BY of {len(QI)} quasi-identifiers")
    print(f"{'measures':28}{'released':>10}{'limit':>8}" + (f"{'raw':>10}" if raw else ""))
    holds = True
    for name in ASKED:
        found = ratio(engine, "released", name, times)
        more = f"{ratio(engine, 'raw', name, 1):10.2f}" if raw else ""
        holds = holds and found <= LIMIT
        print(f"{name:28}{found:10.2f}{LIMIT:8.1f}{more}{'  OVER' if found > LIMIT else ''}", flush=True)
    engine.close()
    return holds


def special(rows: int = SPECIAL_ROWS, times: int = 3) -> None:
    """SUDA2 on nine columns, without a limit: a search that is compiled for it, as that of sdcMicro, is faster than
    grouping the classes of all sets of columns one after the other."""
    engine = sqlanon.connect()
    connection = engine._connection  # type: ignore[attr-defined]
    generate(connection, rows)
    if ADULT.exists():
        connection.execute(f"CREATE TABLE adult AS SELECT * FROM read_csv('{ADULT}', delim = ';')")
        names = [row[0] for row in connection.execute("DESCRIBE adult").fetchall()]
        adult = sqlanon.from_options("adult", qi=names, models=[("k_anonymity", {"k": 2})])
        (ours,) = best(lambda: sqlanon.risk(adult, engine, suda=True), times=times)
        print(f"\nSUDA2, Adult, {len(names)} columns: {ours:.2f} s")
    else:
        print(f"\nSUDA2 on Adult was skipped: there is no {ADULT.name} in the shared folder")
    nine = policy("raw", [], ["disease", "visits"])
    plain, ours = best(
        lambda: plain_group_by(engine, "raw"),
        lambda: sqlanon.risk(nine, engine, suda=True, subsets=True),
        times=times,
    )
    engine.close()
    print(f"{rows:,} rows: SUDA2 and 511 sets of nine columns: {ours:.2f} s, ratio {ours / plain:.0f}")


def main() -> None:
    sizes = [int(text) for text in sys.argv[1:]] or [1_000_000, 10_000_000]
    holds = [run(rows) for rows in sizes]
    special()
    sys.exit(0 if all(holds) else 1)


if __name__ == "__main__":
    main()
